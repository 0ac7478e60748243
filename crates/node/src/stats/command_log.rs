//! The logs of COMMANDLOG: the last commands that took long, and those whose requests or replies were large.

use crate::config;
use resp::table::{CommandSpec, SecretArgs};
use std::collections::VecDeque;
use vocab::client_key;
use vocab::limits::COMMAND_LOG_BYTES_MAX;

/// Most arguments kept of a command, as in Redis: the last one then says how many more there were.
const ARGUMENTS_MAX: usize = 32;
/// Most bytes kept of an argument, as in Redis.
const ARGUMENT_BYTES_MAX: usize = 128;

/// One command of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCommand {
    /// Its number; numbers are never used again.
    pub id: u64,
    /// When it ended, in seconds since the epoch.
    pub at_s: u64,
    /// How long it took in µs, or how large it was in bytes.
    pub value: u64,
    /// Its arguments.
    pub args: ShortArgs,
    /// The client's address.
    pub addr: String,
    /// The client's name.
    pub client_name: String,
}

impl LoggedCommand {
    /// What it takes of memory, about, in bytes.
    fn bytes(&self) -> usize {
        let args = self.args.as_slice().iter().map(|arg| 32 + arg.len()).sum::<usize>();
        128 + args + self.addr.len() + self.client_name.len()
    }
}

/// One log.
///
/// Invariant: `bytes` is the sum of those of `entries`, and at most [`COMMAND_LOG_BYTES_MAX`].
#[derive(Debug, Default)]
pub struct CommandLog {
    /// The newest first.
    entries: VecDeque<LoggedCommand>,
    bytes: usize,
    next_id: u64,
}

impl CommandLog {
    /// Adds a command under a new number, and keeps no more than `entries_max`, and than the bytes that a log may take.
    pub fn add(&mut self, command: LoggedCommand, entries_max: usize) {
        let id = self.next_id;
        self.next_id += 1;
        let command = LoggedCommand { id, ..command };
        self.bytes += command.bytes();
        self.entries.push_front(command);
        while (self.entries.len() > entries_max || self.bytes > COMMAND_LOG_BYTES_MAX)
            && let Some(oldest) = self.entries.pop_back()
        {
            self.bytes -= oldest.bytes();
        }
    }

    /// The commands, the newest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &LoggedCommand> {
        self.entries.iter()
    }

    /// Forgets them all.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}

/// What a log keeps of the arguments of a command: those that are long are cut, and secrets hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortArgs(Vec<Vec<u8>>);

impl ShortArgs {
    /// The arguments of a command of that row.
    #[must_use]
    pub fn of(spec: &CommandSpec, args: &[&[u8]]) -> Self {
        let shown = if args.len() > ARGUMENTS_MAX { ARGUMENTS_MAX - 1 } else { args.len() };
        let mut kept: Vec<Vec<u8>> = (0..shown).map(|at| shortened(without_secret(spec, args, at))).collect();
        if shown < args.len() {
            kept.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
        }
        Self(kept)
    }

    /// In their order.
    #[must_use]
    pub fn as_slice(&self) -> &[Vec<u8>] {
        &self.0
    }
}

fn shortened(arg: &[u8]) -> Vec<u8> {
    match arg.split_at_checked(ARGUMENT_BYTES_MAX) {
        Some((start, rest)) if !rest.is_empty() => {
            [start, format!("... ({} more bytes)", rest.len()).as_bytes()].concat()
        }
        _ => arg.to_vec(),
    }
}

/// An argument, or what stands for it if it is a password.
pub(crate) fn without_secret<'a>(spec: &CommandSpec, args: &[&'a [u8]], at: usize) -> &'a [u8] {
    let is_secret = match spec.secrets {
        SecretArgs::None => false,
        SecretArgs::From(first) => at >= usize::from(first),
        // A value stands behind its name. If they are no pairs, a password had a space, and all behind the name may be of it.
        SecretArgs::Settings(first) => {
            let all = args.get(usize::from(first)..).unwrap_or_default();
            let before = args.get(usize::from(first)..at).unwrap_or_default();
            match all.len().is_multiple_of(2) && all.iter().step_by(2).all(|name| config::is_known(name)) {
                true => before.len() % 2 == 1 && before.last().is_some_and(|name| config::is_secret(name)),
                false => before.iter().any(|name| config::is_secret(name)),
            }
        }
    };
    if is_secret { b"(redacted)" } else { client_key(args[at]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_and_long_ones_cut() {
        let logged = |value: u64, args: &[&[u8]]| LoggedCommand {
            id: 0,
            at_s: 100 + value,
            value,
            args: ShortArgs::of(resp::table::lookup(args[0]).expect("a command"), args),
            addr: "a:1".to_owned(),
            client_name: "me".to_owned(),
        };
        let mut log = CommandLog::default();
        for n in 0..5u64 {
            log.add(logged(n, &[b"GET", n.to_string().as_bytes()]), 3);
        }
        let kept: Vec<_> = log.iter().map(|entry| (entry.id, entry.value)).collect();
        assert_eq!(kept, [(4, 4), (3, 3), (2, 2)]);
        let wide =
            vec![&b"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"[..]; 32];
        (0..5000).for_each(|n| log.add(logged(n, &[&[&b"DEL"[..]], &wide[1..]].concat()), 10_000));
        assert!(log.bytes <= COMMAND_LOG_BYTES_MAX && (500..2000).contains(&log.iter().len()), "{}", log.iter().len());
        let hidden = |line: &str| {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            ShortArgs::of(resp::table::resolve(&args).expect("a command"), &args).as_slice().join(&b' ')
        };
        for (line, shown) in [
            ("CONFIG SET timeout 5 requirepass a", "CONFIG SET timeout 5 requirepass (redacted)"),
            ("CONFIG SET requirepass a timeout 5", "CONFIG SET requirepass (redacted) timeout 5"),
            ("CONFIG SET requirepass two words", "CONFIG SET requirepass (redacted) (redacted)"),
            ("CONFIG SET requirepass three words now", "CONFIG SET requirepass (redacted) (redacted) (redacted)"),
            ("CONFIG SET masterauth a", "CONFIG SET masterauth (redacted)"),
            ("CONFIG SET timeout 5 6", "CONFIG SET timeout 5 6"),
        ] {
            assert_eq!(hidden(line), shown.as_bytes(), "{line}");
        }
        let long = [b'x'; 130];
        let mut args = vec![&b"MSET"[..], &long];
        args.extend(std::iter::repeat_n(&b"y"[..], 40));
        log.clear();
        log.add(logged(1, &args), 3);
        let entry = log.iter().next().expect("one was added");
        assert_eq!((entry.id, entry.args.as_slice().len(), entry.client_name.as_str()), (5005, 32, "me"));
        assert!(entry.args.as_slice()[1].ends_with(b"x... (2 more bytes)"));
        assert_eq!(entry.args.as_slice()[31], b"... (11 more arguments)");
    }
}
