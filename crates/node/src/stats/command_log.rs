//! The slow log: the last commands that took longer than `slowlog-log-slower-than`.

use std::collections::VecDeque;

/// Most arguments kept of a command, as in Redis: the last one then says how many more there were.
const ARGUMENTS_MAX: usize = 32;
/// Most bytes kept of an argument, as in Redis.
const ARGUMENT_BYTES_MAX: usize = 128;

/// One slow command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowCommand {
    /// Its number; numbers are never used again.
    pub id: u64,
    /// When it ended, in seconds since the epoch.
    pub at_s: u64,
    /// How long it took, in µs.
    pub us: u64,
    /// Its arguments, the long ones cut.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub addr: String,
    /// The client's name.
    pub client_name: String,
}

/// The slow commands, the newest first.
#[derive(Debug, Default)]
pub struct Slowlog {
    entries: VecDeque<SlowCommand>,
    next_id: u64,
}

impl Slowlog {
    /// Adds a command and keeps no more than `entries_max`.
    pub fn add(&mut self, at_s: u64, us: u64, args: &[&[u8]], addr: &str, client_name: &str, entries_max: usize) {
        let id = self.next_id;
        self.next_id += 1;
        let args = shortened(args);
        self.entries.push_front(SlowCommand {
            id,
            at_s,
            us,
            args,
            addr: addr.to_owned(),
            client_name: client_name.to_owned(),
        });
        self.entries.truncate(entries_max);
    }

    /// The slow commands, the newest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &SlowCommand> {
        self.entries.iter()
    }

    /// Forgets them all.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

fn shortened(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let shown = if args.len() > ARGUMENTS_MAX { ARGUMENTS_MAX - 1 } else { args.len() };
    let mut kept: Vec<Vec<u8>> = args[..shown]
        .iter()
        .map(|arg| match arg.split_at_checked(ARGUMENT_BYTES_MAX) {
            Some((start, rest)) if !rest.is_empty() => {
                [start, format!("... ({} more bytes)", rest.len()).as_bytes()].concat()
            }
            _ => arg.to_vec(),
        })
        .collect();
    if shown < args.len() {
        kept.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_and_long_ones_cut() {
        let mut log = Slowlog::default();
        for n in 0..5u64 {
            log.add(100 + n, n, &[b"GET", n.to_string().as_bytes()], "a:1", "", 3);
        }
        let kept: Vec<_> = log.iter().map(|entry| (entry.id, entry.us)).collect();
        assert_eq!(kept, [(4, 4), (3, 3), (2, 2)]);
        let long = [b'x'; 130];
        let mut args = vec![&b"MSET"[..], &long];
        args.extend(std::iter::repeat_n(&b"y"[..], 40));
        log.clear();
        log.add(1, 1, &args, "a:1", "me", 3);
        let entry = log.iter().next().expect("one was added");
        assert_eq!((entry.id, entry.args.len(), entry.client_name.as_str()), (5, 32, "me"));
        assert!(entry.args[1].ends_with(b"x... (2 more bytes)"));
        assert_eq!(entry.args[31], b"... (11 more arguments)");
    }
}
