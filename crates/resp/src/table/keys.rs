//! Which arguments of a request are its keys.

use super::key_flag;
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

/// No keys.
impl Default for KeyPositions {
    fn default() -> Self {
        Self::none()
    }
}

impl KeyPositions {
    #[inline]
    pub(super) fn none() -> Self {
        Self(Places::Range { next: 0, end: 0, step: 1 })
    }

    pub(super) fn list(places: Vec<usize>) -> Self {
        Self(Places::List(places.into_iter()))
    }

    #[inline]
    pub(super) fn range(argc: usize, first: u16, last: i16, step: u16) -> Self {
        let end = if last < 0 { argc.saturating_sub(usize::from(last.unsigned_abs()) - 1) } else { last as usize + 1 };
        Self(Places::Range { next: usize::from(first), end: end.min(argc), step: usize::from(step) })
    }
}

/// One operation of KV.EXEC.
#[derive(Clone, Copy, Debug)]
pub struct ExecOp<'a> {
    /// The argument of the request that is its word; its key is the next one.
    pub at: usize,
    /// Its word, its key and the rest: at least two.
    pub args: &'a [&'a [u8]],
}

impl ExecOp<'_> {
    /// What it does to its key: bits of `key_flag`. Of a word that is none: everything.
    pub(super) fn key_flags(&self) -> u32 {
        let is = |arg: &[u8], word: &[u8]| arg.eq_ignore_ascii_case(word);
        let (word, options) = (self.args[0], &self.args[2..]);
        match options.iter().any(|option| is(option, b"RETURN")) {
            _ if is(word, b"GET") || is(word, b"CHECK") => key_flag::RO | key_flag::ACCESS,
            _ if is(word, b"DEL") => key_flag::RW | key_flag::DELETE,
            false if is(word, b"PUT") => key_flag::OW | key_flag::UPDATE,
            _ => key_flag::RW | key_flag::ACCESS | key_flag::UPDATE | key_flag::DELETE,
        }
    }
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

/// The keys behind the argument at `at`, which says how many there are. What it says wrongly is the handler's to refuse: as
/// Redis, a number that is none or leads beyond the arguments tells no keys.
pub(super) fn counted(args: &[&[u8]], at: u16, step: u16) -> Result<KeyPositions, MalformedKeys> {
    let first = usize::from(at) + 1;
    let keys = args.get(usize::from(at)).copied().and_then(count).unwrap_or(0);
    let step = usize::from(step);
    let end = keys.checked_mul(step).and_then(|arguments| first.checked_add(arguments));
    let end = end.filter(|end| *end <= args.len()).unwrap_or(first);
    Ok(KeyPositions(Places::Range { next: first, end, step }))
}

/// An option, in upper case, and how many arguments follow it.
pub(super) type OptionArguments = (&'static str, usize);

/// The argument behind the last `word` among the options from the argument `from` on, if there is one. What belongs to one of `options`,
/// so many arguments each, is no word, whatever it says.
pub(super) fn after_word(args: &[&[u8]], word: &str, from: u16, options: &[OptionArguments]) -> Option<usize> {
    let (mut at, mut found) = (usize::from(from), None);
    while let Some(arg) = args.get(at) {
        if arg.eq_ignore_ascii_case(word.as_bytes()) && at + 1 < args.len() {
            found = Some(at + 1);
        }
        at += 1 + arguments_of(arg, options);
    }
    found
}

/// How many arguments follow an option.
fn arguments_of(option: &[u8], options: &[OptionArguments]) -> usize {
    let known = options.iter().find(|(word, _)| option.eq_ignore_ascii_case(word.as_bytes()));
    known.map_or(0, |(_, arguments)| *arguments)
}

/// Where what follows begins on the first `word` among the options from the argument `from` on, if there is one. What belongs to one of
/// `options`, so many arguments each, is no word, whatever it says.
fn behind_word(args: &[&[u8]], word: &str, from: u16, options: &[OptionArguments]) -> Option<usize> {
    let mut at = usize::from(from);
    while let Some(arg) = args.get(at) {
        at += 1;
        if arg.eq_ignore_ascii_case(word.as_bytes()) {
            return Some(at);
        }
        at += arguments_of(arg, options);
    }
    None
}

/// The first half of what follows on a word, which is looked for from the argument `from` on, past `options` and what belongs to them.
/// Where that is wrong there are no keys, and the handler refuses it.
pub(super) fn halved(args: &[&[u8]], word: &str, from: u16, options: &[OptionArguments]) -> KeyPositions {
    let Some(next) = behind_word(args, word, from, options) else { return KeyPositions::none() };
    let keys = args.len() - next;
    let end = if keys.is_multiple_of(2) { next + keys / 2 } else { next };
    KeyPositions(Places::Range { next, end, step: 1 })
}

/// The argument at `at`; where that is empty, and a word is found from the argument `from` on, everything behind that. What belongs to
/// one of `options`, so many arguments each, is not that word, whatever it says.
pub(super) fn one_or_rest(args: &[&[u8]], at: u16, word: &str, from: u16, options: &[OptionArguments]) -> KeyPositions {
    let is_empty = args.get(usize::from(at)).is_some_and(|key| key.is_empty());
    match behind_word(args, word, from, options).filter(|_| is_empty) {
        Some(next) => KeyPositions(Places::Range { next, end: args.len(), step: 1 }),
        None => KeyPositions::range(args.len(), at, at as i16, 1),
    }
}

fn count(text: &[u8]) -> Option<usize> {
    crate::parse_integer(text).and_then(|n| usize::try_from(n).ok())
}
