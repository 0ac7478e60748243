//! What a blocking command waits for, and for how long.

use crate::awaited_keys::Awaited;
use crate::command::{Claiming, block_option, claiming, is_end, stream_end, timeout_of_ms, timeout_of_seconds};
use crate::{EncodedCommand, Fault, KeyHash, KeyHashes, ReadSpace, key_hash};
use resp::table::{CommandSpec, Group, KeyPlace, flag};
use std::sync::Arc;
use vocab::limits::{BLOCKED_COMMAND_BYTES_MAX, BLOCKED_KEYS_MAX};

/// The refusal of a command that would wait for too many keys, or for too long ones.
pub(super) const TOO_MANY_KEYS: &str = "ERR a blocking command waits for at most 4096 keys, of 1 MiB together";
const _: () = assert!(BLOCKED_KEYS_MAX == 4096 && BLOCKED_COMMAND_BYTES_MAX == 1024 * 1024);

/// A command that waits until a key holds something.
#[derive(Clone, Debug)]
pub struct BlockingCommand {
    spec: &'static CommandSpec,
    command: EncodedCommand,
    awaited: Awaited,
    /// The keys for which it waits, in the order of their hashes, each once.
    keys: Arc<[(KeyHash, Box<[u8]>)]>,
}

/// What `$` stands for in a command: the ids of its streams' last entries, which are read some at a time.
pub(super) struct StreamEnds {
    command: BlockingCommand,
    /// At how many of its keys has been looked.
    looked_at: usize,
    /// The ids that were read, and the arguments in whose places they come.
    found: Vec<(usize, String)>,
}

impl StreamEnds {
    /// Of that command; none are read yet.
    pub(super) fn of(command: BlockingCommand) -> Self {
        Self { command, looked_at: 0, found: Vec::new() }
    }

    /// Looks at up to `keys` more keys; whether those were all.
    pub(super) fn read(&mut self, space: &mut dyn ReadSpace, keys: usize) -> Result<bool, Fault> {
        let args = self.command.command.args();
        let mut ids = ids_of(self.command.spec, &args).skip(self.looked_at);
        for (key, at) in ids.by_ref().take(keys) {
            self.looked_at += 1;
            if is_end(args[at]) {
                self.found.push((at, stream_end(space, args[key], args[at])?));
            }
        }
        Ok(ids.next().is_none())
    }

    /// The same command with the ids that were read in place of `$`.
    pub(super) fn into_fixed(self) -> BlockingCommand {
        let Self { command, found, .. } = self;
        let mut args = command.command.args();
        for (at, id) in &found {
            args[*at] = id.as_bytes();
        }
        BlockingCommand { command: EncodedCommand::of(command.spec, &args), ..command.clone() }
    }
}

/// Where a command has its timeout, and in which unit.
struct TimeoutAt {
    argument: usize,
    is_ms: bool,
}

impl BlockingCommand {
    /// Whether a request waits if its keys hold nothing.
    #[must_use]
    pub fn is_one(spec: &CommandSpec, args: &[&[u8]]) -> bool {
        spec.has(flag::BLOCKING) && timeout_at(spec, args).is_some()
    }

    /// Why a blocking request is refused before its keys are looked at: they are too many, or too long.
    #[must_use]
    pub fn refusal(spec: &CommandSpec, args: &[&[u8]]) -> Option<&'static str> {
        /// For commands over streams: the id that belongs to each key.
        const ARGUMENTS_MAX: usize = 2 * BLOCKED_KEYS_MAX + 16;
        let is_long = || {
            args.len() > ARGUMENTS_MAX || args.iter().map(|arg| arg.len()).sum::<usize>() > BLOCKED_COMMAND_BYTES_MAX
        };
        (spec.has(flag::BLOCKING) && is_long() && timeout_at(spec, args).is_some()).then_some(TOO_MANY_KEYS)
    }

    /// The command, if it can wait. Also `None` if its arguments make no sense: then its handler refuses it.
    #[must_use]
    pub fn of(command: &EncodedCommand) -> Option<Self> {
        let spec = command.spec().filter(|spec| spec.has(flag::BLOCKING))?;
        let awaited = awaited_by(spec)?;
        let args = command.args();
        let key = |at: usize| (key_hash(args[at]), Box::from(args[at]));
        let mut keys: Vec<(KeyHash, Box<[u8]>)> = places(spec, &args).into_iter().map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        let this = Self { spec, command: command.clone(), awaited, keys: keys.into() };
        this.timeout()?;
        Some(this)
    }

    /// What it waits for.
    #[must_use]
    pub fn awaited(&self) -> Awaited {
        self.awaited
    }

    /// The command as it was given.
    #[must_use]
    pub fn whole(&self) -> &EncodedCommand {
        &self.command
    }

    /// For how many ms it waits; `Some(None)`: without a limit; `None`: its arguments make no sense.
    #[must_use]
    pub fn timeout(&self) -> Option<Option<u64>> {
        let args = self.command.args();
        let at = timeout_at(self.spec, &args)?;
        let text = args.get(at.argument)?;
        if at.is_ms { timeout_of_ms(text).ok() } else { timeout_of_seconds(text).ok() }
    }

    /// The keys for which it waits, in the order of their hashes, each once.
    #[must_use]
    pub fn keys(&self) -> &[(KeyHash, Box<[u8]>)] {
        &self.keys
    }

    /// The same, to be kept.
    pub(super) fn shared_keys(&self) -> Arc<[(KeyHash, Box<[u8]>)]> {
        self.keys.clone()
    }

    /// What it asks for, if it says CLAIM.
    pub(super) fn claiming(&self) -> Option<Claiming> {
        if self.needs_keys() { claiming(&self.command.args()) } else { None }
    }

    /// The hashes of all keys of an attempt to run it, which is the whole of it or is about one of its keys.
    pub(super) fn hashes_of(&self, attempt: &EncodedCommand) -> KeyHashes {
        // It is whole, and names no other keys: they are known.
        if attempt.arguments() == self.command.arguments() && self.spec.key_specs.len() == 1 {
            return self.keys.iter().map(|(hash, _)| *hash).collect();
        }
        let args = attempt.args();
        self.spec.keys(&args).into_iter().flatten().map(|at| key_hash(args[at])).collect()
    }

    /// About how many bytes of memory a client takes while it waits in this command.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        2 * self.command.bytes() + 256 * self.keys.len()
    }

    /// Whether it waits for a key.
    #[must_use]
    pub fn waits_for(&self, key: &[u8]) -> bool {
        self.keys.binary_search_by(|(hash, other)| (*hash, &**other).cmp(&(key_hash(key), key))).is_ok()
    }

    /// Whether an error of an attempt leaves the client waiting: another client has put another type at the key meanwhile.
    /// If the command has a second key or a group, the client gets the error.
    #[must_use]
    pub fn stays_after(&self, reply: &[u8]) -> bool {
        !self.needs_keys() && self.spec.key_specs.len() == 1 && reply.starts_with(b"-WRONGTYPE")
    }

    /// The command as if it waited for `key` alone.
    #[must_use]
    pub fn only(&self, key: &[u8]) -> EncodedCommand {
        let args = self.command.args();
        let places = places(self.spec, &args);
        let Some(kept) = places.iter().position(|&at| args[at] == key) else { return self.command.clone() };
        if places.len() == 1 {
            return self.command.clone();
        }
        let count = self.spec.key_specs.first().and_then(|keys| match keys.place {
            KeyPlace::Counted { count, .. } => Some(usize::from(count)),
            _ => None,
        });
        // For streams, each key has its id behind all keys.
        let ids = if self.awaited == Awaited::Stream { places.len() } else { 0 };
        let is_of_other = |at: usize| {
            let of = |place: usize| places.binary_search(&place).ok();
            let id_of = (ids > 0).then(|| at.checked_sub(ids).and_then(of)).flatten();
            of(at).or(id_of).is_some_and(|key| key != kept)
        };
        let arg = |(at, arg): (usize, &&'_ [u8])| -> Option<Vec<u8>> {
            if is_of_other(at) {
                None
            } else if Some(at) == count {
                Some(b"1".to_vec())
            } else {
                Some(arg.to_vec())
            }
        };
        let kept: Vec<Vec<u8>> = args.iter().enumerate().filter_map(arg).collect();
        let kept: Vec<&[u8]> = kept.iter().map(Vec::as_slice).collect();
        EncodedCommand::of(self.spec, &kept)
    }

    /// Whether it fails if none of its keys exists: it reads for a group.
    #[must_use]
    pub fn needs_keys(&self) -> bool {
        self.awaited == Awaited::Stream && self.spec.is_write()
    }

    /// Whether it fails if this key does not exist.
    #[must_use]
    pub fn needs(&self, key: &[u8]) -> bool {
        self.needs_keys() && self.waits_for(key)
    }

    /// Whether it uses `$`, the end of a stream as it is when the command begins.
    #[must_use]
    pub fn is_floating(&self) -> bool {
        let args = self.command.args();
        self.awaited == Awaited::Stream && ids_of(self.spec, &args).any(|(_, at)| is_end(args[at]))
    }

    /// The ids behind which it reads streams, in the order of its keys, each behind a space. Empty: it reads none, or for a group, or uses `$`.
    pub(super) fn ids(&self) -> String {
        if self.awaited != Awaited::Stream || self.needs_keys() || self.is_floating() {
            return String::new();
        }
        let args = self.command.args();
        ids_of(self.spec, &args).flat_map(|(_, at)| [" ".into(), String::from_utf8_lossy(args[at])]).collect()
    }

    /// The same command with those ids of its streams; none: with its own.
    #[must_use]
    pub fn behind(&self, ids: &[&[u8]]) -> Self {
        let mut args = self.command.args();
        let places: Vec<usize> = ids_of(self.spec, &args).map(|(_, at)| at).collect();
        if self.needs_keys() || places.len() != ids.len() {
            return self.clone();
        }
        places.into_iter().zip(ids).for_each(|(at, id)| args[at] = *id);
        Self { command: EncodedCommand::of(self.spec, &args), ..self.clone() }
    }

    /// The same command with another timeout, in ms; `None`: without a limit.
    #[must_use]
    pub fn with_timeout(&self, ms: Option<u64>) -> Self {
        let mut args = self.command.args();
        let Some(at) = timeout_at(self.spec, &args) else { return self.clone() };
        let ms = ms.map_or(0, |ms| ms.max(1));
        let text = if at.is_ms { ms.to_string() } else { format!("{}.{:03}", ms / 1000, ms % 1000) };
        args[at.argument] = text.as_bytes();
        Self { command: EncodedCommand::of(self.spec, &args), ..self.clone() }
    }
}

/// What a blocking command waits for.
fn awaited_by(spec: &CommandSpec) -> Option<Awaited> {
    match spec.group {
        Group::List => Some(Awaited::List),
        Group::SortedSet => Some(Awaited::SortedSet),
        Group::Stream => Some(Awaited::Stream),
        _ => None,
    }
}

/// Where the keys are for which a command waits: its first ones. Others are only written.
fn places(spec: &CommandSpec, args: &[&[u8]]) -> Vec<usize> {
    let Some(first) = spec.key_specs.first() else { return Vec::new() };
    let keys = spec.keys_and_flags(args).unwrap_or_default();
    keys.into_iter().filter(|(_, flags)| *flags == first.flags).map(|(at, _)| at).collect()
}

/// Where the keys of a command over streams are, each with its id.
fn ids_of(spec: &CommandSpec, args: &[&[u8]]) -> impl Iterator<Item = (usize, usize)> {
    let places = places(spec, args);
    let (keys, count) = (places.len(), args.len());
    places.into_iter().map(move |at| (at, at + keys)).filter(move |(_, id)| *id < count)
}

fn timeout_at(spec: &CommandSpec, args: &[&[u8]]) -> Option<TimeoutAt> {
    match (awaited_by(spec)?, spec.key_specs.first()?.place) {
        (Awaited::Stream, _) => Some(TimeoutAt { argument: block_option(args)?, is_ms: true }),
        (_, KeyPlace::Counted { .. }) => Some(TimeoutAt { argument: 1, is_ms: false }),
        _ => Some(TimeoutAt { argument: args.len().checked_sub(1)?, is_ms: false }),
    }
}
