//! BITOP.

use crate::command::args::{SYNTAX, bytes_of, check_release, is_word};
use crate::command::call::{Error, Outcome, WriteCall};
use crate::command::string::set_string;

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
}

/// The result of an operation on the sources so far: as long as the longest, shorter ones end in zeros. The sources come one
/// after the other, so that not all of them are in memory.
struct Accumulated {
    operation: Operation,
    sources: usize,
    /// How long the shortest source is, in bytes. `And` has zeros behind it; they are written once, at the end.
    shortest: usize,
    /// The first source, combined with the others where they need not be told apart.
    first: Vec<u8>,
    /// Of operations that need it: what is set in any but the first; of `One`, what is set in more than one.
    others: Vec<u8>,
}

impl Accumulated {
    fn new(operation: Operation) -> Self {
        Self { operation, sources: 0, shortest: usize::MAX, first: Vec::new(), others: Vec::new() }
    }

    fn add(&mut self, source: &[u8]) {
        self.sources += 1;
        self.shortest = self.shortest.min(source.len());
        if self.sources == 1 {
            self.first = source.to_vec();
            return;
        }
        let length = self.first.len().max(source.len()).max(self.others.len());
        self.first.resize(length, 0);
        match self.operation {
            Operation::Not => {}
            Operation::And => combine(&mut self.first[..self.shortest], source, |a, b| a & b),
            Operation::Or => combine(&mut self.first, source, |a, b| a | b),
            Operation::Xor => combine(&mut self.first, source, |a, b| a ^ b),
            Operation::Diff | Operation::Diff1 | Operation::AndOr => {
                self.others.resize(length, 0);
                combine(&mut self.others, source, |a, b| a | b);
            }
            Operation::One => {
                self.others.resize(length, 0);
                for ((once, twice), bit) in self.first.iter_mut().zip(&mut self.others).zip(source) {
                    *twice |= *once & bit;
                    *once |= bit;
                }
            }
        }
    }

    fn end(mut self) -> Vec<u8> {
        match self.operation {
            Operation::Not => self.first.iter_mut().for_each(|byte| *byte = !*byte),
            Operation::And => {
                let shortest = self.shortest.min(self.first.len());
                self.first[shortest..].fill(0);
            }
            Operation::Or | Operation::Xor => {}
            Operation::Diff | Operation::One => combine(&mut self.first, &self.others, |a, b| a & !b),
            Operation::Diff1 => combine(&mut self.first, &self.others, |a, b| b & !a),
            Operation::AndOr => combine(&mut self.first, &self.others, |a, b| a & b),
        }
        self.first
    }
}

fn combine(into: &mut [u8], other: &[u8], with: impl Fn(u8, u8) -> u8) {
    into.iter_mut().zip(other).for_each(|(byte, other)| *byte = with(*byte, *other));
}

pub(super) fn bitop(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let operation = Operation::of_word(call.args[1]).ok_or(SYNTAX)?;
    operation.check(call.args.len() - 3)?;
    let mut result = Accumulated::new(operation);
    for key in &call.args[3..] {
        let record = call.space.get(key)?;
        result.add(bytes_of(record.as_ref())?);
    }
    let result = result.end();
    if result.is_empty() {
        call.space.delete_told(call.args[2])?;
    } else {
        set_string(call.space, call.args[2], None, &result)?;
    }
    call.reply.int(result.len() as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of AND, byte by byte: a source that is over has zeros.
    fn anded(sources: &[&[u8]]) -> Vec<u8> {
        let length = sources.iter().map(|source| source.len()).max().unwrap_or(0);
        let byte = |at: usize| sources.iter().fold(0xFFu8, |byte, source| byte & source.get(at).copied().unwrap_or(0));
        (0..length).map(byte).collect()
    }

    #[test]
    fn behind_the_shortest_source_of_and_there_are_zeros() {
        for sources in [
            &["abc"][..],
            &[""],
            &["abc", "", "xyz"],
            &["", "abc", "a"],
            &["abcd", "ab", "abcdef", "abc"],
            &["a", "abcdef", "abc"],
            &["abcdef", "abc", "", "abcdefgh"],
        ] {
            let sources: Vec<&[u8]> = sources.iter().map(|source| source.as_bytes()).collect();
            let mut result = Accumulated::new(Operation::And);
            sources.iter().for_each(|source| result.add(source));
            assert_eq!(result.end(), anded(&sources), "{sources:?}");
        }
    }
}
