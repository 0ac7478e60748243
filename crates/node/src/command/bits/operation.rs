//! BITOP.

use crate::Record;
use crate::command::args::{SYNTAX, bytes_of, check_release, is_word};
use crate::command::call::{Error, Outcome, WriteCall};
use crate::command::string::put_string;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
    /// Set in the first and in no other.
    Diff,
    /// Set in another and not in the first.
    Diff1,
    /// Set in the first and in another.
    AndOr,
    /// Set in exactly one.
    One,
}

impl Operation {
    fn of_word(word: &[u8]) -> Option<Self> {
        let table = [
            ("AND", Self::And),
            ("OR", Self::Or),
            ("XOR", Self::Xor),
            ("NOT", Self::Not),
            ("DIFF", Self::Diff),
            ("DIFF1", Self::Diff1),
            ("ANDOR", Self::AndOr),
            ("ONE", Self::One),
        ];
        table.iter().find(|(name, _)| is_word(word, name)).map(|(_, operation)| *operation)
    }

    fn check(self, sources: usize) -> Outcome {
        match self {
            Self::Not if sources != 1 => Err("ERR BITOP NOT must be called with a single source key.".into()),
            Self::Diff | Self::Diff1 | Self::AndOr if sources < 2 => {
                let name = format!("{self:?}").to_uppercase();
                Err(Error::Reply(format!("ERR BITOP {name} must be called with at least two source keys.").into()))
            }
            _ => Ok(()),
        }
    }

    /// The result, as long as the longest source; shorter ones end in zeros.
    fn of(self, sources: &[&[u8]]) -> Vec<u8> {
        let length = sources.iter().map(|source| source.len()).max().unwrap_or(0);
        let padded = |source: &[u8]| {
            let mut bytes = source.to_vec();
            bytes.resize(length, 0);
            bytes
        };
        let Some((first, others)) = sources.split_first() else { return Vec::new() };
        let mut first = padded(first);
        match self {
            Self::Not => first.iter_mut().for_each(|byte| *byte = !*byte),
            Self::And => others.iter().for_each(|other| {
                combine(&mut first, other, |a, b| a & b);
                first[other.len()..].fill(0);
            }),
            Self::Or => others.iter().for_each(|other| combine(&mut first, other, |a, b| a | b)),
            Self::Xor => others.iter().for_each(|other| combine(&mut first, other, |a, b| a ^ b)),
            Self::Diff | Self::Diff1 | Self::AndOr => {
                let mut any = vec![0; length];
                others.iter().for_each(|other| combine(&mut any, other, |a, b| a | b));
                match self {
                    Self::Diff => combine(&mut first, &any, |a, b| a & !b),
                    Self::Diff1 => combine(&mut first, &any, |a, b| b & !a),
                    _ => combine(&mut first, &any, |a, b| a & b),
                }
            }
            Self::One => {
                let mut twice = vec![0; length];
                for other in others {
                    for ((once, twice), bit) in first.iter_mut().zip(&mut twice).zip(*other) {
                        *twice |= *once & bit;
                        *once |= bit;
                    }
                }
                combine(&mut first, &twice, |a, b| a & !b);
            }
        }
        first
    }
}

fn combine(into: &mut [u8], other: &[u8], with: impl Fn(u8, u8) -> u8) {
    into.iter_mut().zip(other).for_each(|(byte, other)| *byte = with(*byte, *other));
}

pub(super) fn bitop(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let operation = Operation::of_word(call.args[1]).ok_or(SYNTAX)?;
    operation.check(call.args.len() - 3)?;
    let mut records: Vec<Option<Record>> = Vec::with_capacity(call.args.len() - 3);
    for key in &call.args[3..] {
        records.push(call.space.get(key)?);
    }
    let sources: Vec<&[u8]> = records.iter().map(|record| bytes_of(record.as_ref())).collect::<Result<_, _>>()?;
    let result = operation.of(&sources);
    if result.is_empty() {
        call.space.delete(call.args[2])?;
    } else {
        put_string(call.space, call.args[2], None, &[&result])?;
    }
    call.reply.int(result.len() as i64);
    Ok(())
}
