//! Which arguments of a request are its keys.

use super::spec::{CommandSpec, KeyPlace};
use std::fmt;

/// The arguments do not tell where the keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedKeys;

impl fmt::Display for MalformedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ERR syntax error")
    }
}

impl std::error::Error for MalformedKeys {}

/// The positions of a request's keys among its arguments, in order.
#[derive(Clone, Debug)]
pub struct KeyPositions(Places);

#[derive(Clone, Debug)]
enum Places {
    Range { next: usize, end: usize, step: usize },
    List(std::vec::IntoIter<usize>),
}

impl Iterator for KeyPositions {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        match &mut self.0 {
            Places::Range { next, end, step } => {
                let at = *next;
                if at >= *end {
                    return None;
                }
                *next += *step;
                Some(at)
            }
            Places::List(list) => list.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Places::Range { next, end, step } => end.saturating_sub(*next).div_ceil(*step),
            Places::List(list) => list.len(),
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for KeyPositions {}

impl CommandSpec {
    /// Whether requests have keys.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        !self.key_specs.is_empty()
    }

    /// Where the keys of a request are, whose arity has been checked. `args[0]` is the command's name.
    #[inline]
    pub fn keys(&self, args: &[&[u8]]) -> Result<KeyPositions, MalformedKeys> {
        if self.first_key > 0 {
            return Ok(range(args.len(), self.first_key, self.last_key, self.key_step));
        }
        if self.key_specs.is_empty() {
            return Ok(KeyPositions(Places::Range { next: 0, end: 0, step: 1 }));
        }
        let keys: Result<Vec<usize>, _> = exec_ops(args).map(|op| op.map(|op| op.at + 1)).collect();
        Ok(KeyPositions(Places::List(keys?.into_iter())))
    }

    /// Likewise, with what is done to each key: bits of `key_flag`.
    pub fn keys_and_flags(&self, args: &[&[u8]]) -> Result<Vec<(usize, u32)>, MalformedKeys> {
        let mut keys = Vec::new();
        for spec in self.key_specs {
            match spec.place {
                KeyPlace::Range { first, last, step } => {
                    let last = if last < 0 { last } else { first as i16 + last };
                    keys.extend(range(args.len(), first, last, step).map(|at| (at, spec.flags)));
                }
                KeyPlace::Operations => {
                    for op in exec_ops(args) {
                        keys.push((op?.at + 1, spec.flags));
                    }
                }
            }
        }
        Ok(keys)
    }
}

#[inline]
fn range(argc: usize, first: u16, last: i16, step: u16) -> KeyPositions {
    let end = if last < 0 { argc.saturating_sub(usize::from(last.unsigned_abs()) - 1) } else { last as usize + 1 };
    KeyPositions(Places::Range { next: usize::from(first), end: end.min(argc), step: usize::from(step) })
}

/// One operation of KV.EXEC.
#[derive(Clone, Copy, Debug)]
pub struct ExecOp<'a> {
    /// The argument of the request that is its word; its key is the next one.
    pub at: usize,
    /// Its word, its key and the rest: at least two.
    pub args: &'a [&'a [u8]],
}

/// The operations of `KV.EXEC numops argc word key … argc word key …`, each `argc` counting the word and all that
/// belongs to it. Ends after an error; what follows the last operation is one, unless it is
/// `[DURABILITY word [word]] [REQUEST client number]`.
pub fn exec_ops<'a>(args: &'a [&'a [u8]]) -> impl Iterator<Item = Result<ExecOp<'a>, MalformedKeys>> {
    let mut left = match args.get(1).copied().and_then(count) {
        Some(n) if n > 0 => Ok(n),
        _ => Err(MalformedKeys),
    };
    let mut at = 2;
    std::iter::from_fn(move || {
        let ops = match left {
            Err(MalformedKeys) if at == usize::MAX => return None,
            Err(error) => {
                at = usize::MAX;
                return Some(Err(error));
            }
            Ok(0) if at == args.len() || is_tail(&args[at..]) => return None,
            Ok(ops) => ops,
        };
        let op = next_op(args, at).filter(|_| ops > 0);
        match &op {
            Some(op) => {
                at = op.at + op.args.len();
                left = Ok(ops - 1);
            }
            None => {
                at = usize::MAX;
                left = Err(MalformedKeys);
            }
        }
        Some(op.ok_or(MalformedKeys))
    })
}

/// `[DURABILITY word [word]] [REQUEST client number]`
fn is_tail(words: &[&[u8]]) -> bool {
    let words = match words {
        [rest @ .., word, _, _] if word.eq_ignore_ascii_case(b"REQUEST") => rest,
        words => words,
    };
    words.is_empty() || (matches!(words.len(), 2 | 3) && words[0].eq_ignore_ascii_case(b"DURABILITY"))
}

fn next_op<'a>(args: &'a [&'a [u8]], at: usize) -> Option<ExecOp<'a>> {
    let argc = count(args.get(at)?).filter(|&argc| argc >= 2)?;
    let end = at.checked_add(1)?.checked_add(argc)?;
    Some(ExecOp { at: at + 1, args: args.get(at + 1..end)? })
}

fn count(text: &[u8]) -> Option<usize> {
    crate::parse_integer(text).and_then(|n| usize::try_from(n).ok())
}
