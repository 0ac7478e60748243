//! The keys of a request, and the limits of commands: what every way in checks before anything is proposed or read.
//!
//! A plain command, one that MULTI queues, WATCH, one of KV.EXEC, a target of COPY or RENAME, a RESTORE, a row of a backup
//! and an embedded caller pass here. Keys are checked once more when an entry is evaluated: the log may hold entries of a
//! release that let longer ones through.

use resp::table::CommandSpec;
use smallvec::SmallVec;
use std::borrow::Cow;
use vocab::limits::{
    ENTRY_BYTES_MAX, ITEM_ARGUMENTS_MAX, ITEM_REPLY_BYTES_MAX, KEY_BYTES_MAX, PATTERN_BYTES_MAX, PATTERNS_BYTES_MAX,
    TRANSACTION_SCRIPTS_MAX, TRANSACTION_WALK_KEYS_MAX, VALUE_BYTES_MAX,
};
use vocab::{Namespace, Slot, SlotSpan, slot_of};
use xxhash_rust::xxh3::xxh3_64;

/// A key's hash, for telling which writes may touch the same key. Two keys may share one; nothing breaks if they do.
pub type KeyHash = u64;

/// The hash of `key`.
#[must_use]
pub fn key_hash(key: &[u8]) -> KeyHash {
    xxh3_64(key)
}

/// Hashes of a request's keys; most requests have one key.
pub type KeyHashes = SmallVec<[KeyHash; 4]>;

/// The keys of one request: none is longer than allowed, and all are of one slot, or of slots that share a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestKeys {
    /// The slot of the first one; `None` if the request has no keys.
    pub slot: Option<Slot>,
    /// Where all are, if they are of several slots.
    pub wider: Option<SlotSpan>,
    /// Their hashes, in the order of the request.
    pub hashes: KeyHashes,
}

/// The error of a request whose keys are of several slots.
pub const CROSSSLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

impl RequestKeys {
    /// Finds and checks the keys of a request whose arity has been checked. The error is the text of the reply.
    #[inline]
    pub fn of(spec: &CommandSpec, args: &[&[u8]]) -> Result<Self, Refusal> {
        Self::within(spec, args, |_| false)
    }

    /// The same of keys that may be of several slots where `share_shard` says that these are of one shard.
    #[inline]
    pub fn within(
        spec: &CommandSpec,
        args: &[&[u8]],
        share_shard: impl FnOnce(SlotSpan) -> bool,
    ) -> Result<Self, Refusal> {
        check(spec, args)?;
        let mut keys = Self::default();
        for at in spec.keys(args).map_err(|_| "ERR Invalid arguments specified for command")? {
            let key = args[at];
            let slot = slot_of(key);
            let first = *keys.slot.get_or_insert(slot);
            if first != slot {
                keys.wider = Some(keys.wider.unwrap_or(first.into()).with(slot));
            }
            keys.hashes.push(key_hash(key));
        }
        match keys.wider {
            Some(span) if !share_shard(span) => Err(CROSSSLOT.into()),
            _ => Ok(keys),
        }
    }
}

/// Bytes of an entry that its head and the head of an item take.
const HEAD_BYTES: usize = 64;

/// Most bytes of one item of an entry.
pub const ITEM_BYTES_MAX: usize = ENTRY_BYTES_MAX - HEAD_BYTES;

/// The text of the error reply, its code first.
pub type Refusal = Cow<'static, str>;

/// Checks a command whose length has been checked against the table: its keys and, where it writes, its values.
pub fn check(spec: &CommandSpec, args: &[&[u8]]) -> Result<(), Refusal> {
    check_keys(spec, args)?;
    match args.iter().find(|arg| arg.len() > VALUE_BYTES_MAX) {
        Some(long) if spec.is_write() => Err(too_long("value", long.len(), VALUE_BYTES_MAX)),
        _ => Ok(()),
    }
}

/// Checks the keys of a command. Costs next to nothing where no argument is longer than a key may be.
pub fn check_keys(spec: &CommandSpec, args: &[&[u8]]) -> Result<(), Refusal> {
    if args.iter().all(|arg| arg.len() <= KEY_BYTES_MAX) {
        return Ok(());
    }
    // Where the keys cannot be found, the handler answers the error.
    let keys = spec.keys(args).into_iter().flatten().map(|at| args[at]);
    keys.map(check_key).find(Result::is_err).unwrap_or(Ok(()))
}

/// Checks one key.
pub fn check_key(key: &[u8]) -> Result<(), Refusal> {
    if key.len() > KEY_BYTES_MAX { Err(too_long("key", key.len(), KEY_BYTES_MAX)) } else { Ok(()) }
}

/// Checks one key of a namespace, as its clients name it.
pub fn check_named_key(namespace: Namespace, key: &[u8]) -> Result<(), Refusal> {
    let bytes_max = KEY_BYTES_MAX - namespace.prefix_bytes();
    if key.len() > bytes_max { Err(too_long("key", key.len(), bytes_max)) } else { Ok(()) }
}

/// Checks the arguments of a client's request that matches patterns. Commands of entries and of scripts are not checked: replicas of
/// several releases must answer them alike.
pub fn check_patterns(spec: &CommandSpec, args: &[&[u8]]) -> Result<(), Refusal> {
    if args.iter().map(|arg| arg.len()).sum::<usize>() <= PATTERN_BYTES_MAX {
        return Ok(());
    }
    // Keys have a bound of their own.
    let keys: SmallVec<[usize; 4]> = spec.keys(args).into_iter().flatten().collect();
    let mut bytes = 0;
    for (_, pattern) in args.iter().enumerate().skip(1).filter(|(at, _)| !keys.contains(at)) {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(too_long("a pattern", pattern.len(), PATTERN_BYTES_MAX));
        }
        bytes += pattern.len();
    }
    if bytes > PATTERNS_BYTES_MAX {
        return Err(format!("ERR the patterns are too long ({bytes} bytes, {PATTERNS_BYTES_MAX} are allowed)").into());
    }
    Ok(())
}

/// Checks how many bytes an item of an entry takes: its commands and the keys that are watched for it.
pub fn check_item(bytes: usize) -> Result<(), Refusal> {
    if bytes > ITEM_BYTES_MAX {
        let text =
            format!("ERR the request is too large ({bytes} bytes, {ITEM_BYTES_MAX} are allowed): nothing was written");
        return Err(text.into());
    }
    Ok(())
}

/// Checks how many arguments an item of an entry has: those of its commands and the keys that are watched for it. The rows
/// that they name are in memory together.
pub fn check_arguments(arguments: usize) -> Result<(), Refusal> {
    if arguments > ITEM_ARGUMENTS_MAX {
        let text = format!(
            "ERR the request has too many arguments ({arguments}, {ITEM_ARGUMENTS_MAX} are allowed): nothing was written"
        );
        return Err(text.into());
    }
    Ok(())
}

/// Checks how many bytes of what is stored the answer of a transaction will hold, as far as that is known.
pub fn check_reply(bytes: usize) -> Result<(), Refusal> {
    if bytes > ITEM_REPLY_BYTES_MAX {
        let text = format!(
            "ERR the answer would take {bytes} bytes, {ITEM_REPLY_BYTES_MAX} are allowed in one transaction: nothing was written"
        );
        return Err(text.into());
    }
    Ok(())
}

/// Checks how many scripts a transaction runs that may write.
pub fn check_scripts(scripts: usize) -> Result<(), Refusal> {
    if scripts > TRANSACTION_SCRIPTS_MAX {
        let text = format!(
            "ERR the transaction would run {scripts} scripts, {TRANSACTION_SCRIPTS_MAX} are allowed: nothing was written"
        );
        return Err(text.into());
    }
    Ok(())
}

/// Checks how many keys a transaction that writes looks at to answer questions about a database.
pub fn check_walk(keys: u64) -> Result<(), Refusal> {
    if keys > TRANSACTION_WALK_KEYS_MAX {
        let text = format!(
            "ERR the transaction would look at {keys} keys, {TRANSACTION_WALK_KEYS_MAX} are allowed in one that writes: nothing was written"
        );
        return Err(text.into());
    }
    Ok(())
}

fn too_long(what: &str, bytes: usize, bytes_max: usize) -> Refusal {
    format!("ERR {what} is too long ({bytes} bytes, {bytes_max} are allowed)").into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use resp::table::resolve;
    use vocab::limits;

    /// The keys of a request in which `LONG` stands for a key that is one byte too long, and `LONGEST` for one that is
    /// just allowed.
    fn keys_of(request: &str) -> Result<usize, String> {
        let longest = "k".repeat(limits::KEY_BYTES_MAX);
        let long = format!("{longest}k");
        let word = |word| match word {
            "LONG" => long.as_bytes(),
            "LONGEST" => longest.as_bytes(),
            word => str::as_bytes(word),
        };
        let args: Vec<&[u8]> = request.split(' ').map(word).collect();
        let spec = resolve(&args).expect("a command");
        RequestKeys::of(spec, &args).map(|keys| keys.hashes.len()).map_err(Cow::into_owned)
    }

    #[test]
    fn a_transaction_that_writes_walks_so_far() {
        assert_eq!(check_walk(limits::TRANSACTION_WALK_KEYS_MAX), Ok(()));
        assert!(check_walk(limits::TRANSACTION_WALK_KEYS_MAX + 1).is_err());
        assert_eq!(check_scripts(TRANSACTION_SCRIPTS_MAX), Ok(()));
        assert!(check_scripts(TRANSACTION_SCRIPTS_MAX + 1).is_err());
    }

    #[test]
    fn each_key_is_checked_wherever_it_stands() {
        for (request, count) in [("PING", 0), ("GET k", 1), ("SET LONGEST v", 1), ("MSET {a}1 x {a}2 y", 2)] {
            assert_eq!(keys_of(request), Ok(count), "{request}");
        }
        for request in [
            "GET LONG",
            "SET LONG v",
            "DEL a LONG",
            "MSET a x LONG y",
            "WATCH LONG",
            "RENAME a LONG",
            "RENAMENX LONG a",
            "COPY a LONG",
            "RESTORE LONG 0 x",
            "OBJECT ENCODING LONG",
            "MEMORY USAGE LONG",
            "HSET LONG f v",
            "KV.PUT LONG v",
            "KV.EXEC 1 3 PUT LONG v",
            "KV.EXEC 1 2 GET LONG",
        ] {
            let error = keys_of(request).expect_err(request);
            assert_eq!(error, "ERR key is too long (32001 bytes, 32000 are allowed)", "{request}");
        }
        assert_eq!(keys_of("MGET a b"), Err(CROSSSLOT.to_owned()));
        let args: [&[u8]; 4] = [b"MGET", b"a", b"b", b"foo"];
        let within = |shares: bool| RequestKeys::within(resolve(&args).expect("a command"), &args, |_| shares);
        let keys = within(true).expect("one shard has them");
        assert_eq!((keys.slot, keys.wider), (Some(Slot(15495)), Some(SlotSpan::between(3300, 15495))));
        assert_eq!(within(false), Err(CROSSSLOT.into()));
        assert_eq!(keys_of("KV.EXEC x 2 GET k"), Err("ERR Invalid arguments specified for command".to_owned()));
    }

    #[test]
    fn each_way_to_name_a_key_is_checked() {
        let (fits, long) = (vec![b'k'; KEY_BYTES_MAX], vec![b'k'; KEY_BYTES_MAX + 1]);
        let requests: [&[&[u8]]; 8] = [
            &[b"SET", b"?", b"v"],
            &[b"MSET", b"a", b"1", b"?", b"2"],
            &[b"COPY", b"a", b"?"],
            &[b"RENAME", b"a", b"?"],
            &[b"RENAMENX", b"?", b"b"],
            &[b"RESTORE", b"?", b"0", b"x"],
            &[b"KV.EXEC", b"1", b"3", b"PUT", b"?", b"v"],
            &[b"GET", b"?"],
        ];
        for request in requests {
            let with = |key: &[u8]| {
                let args: Vec<&[u8]> = request.iter().map(|arg| if *arg == b"?" { key } else { arg }).collect();
                check(resolve(&args).unwrap(), &args)
            };
            assert_eq!(with(&fits), Ok(()), "{request:?}");
            let text = with(&long).unwrap_err();
            assert_eq!(text, "ERR key is too long (32001 bytes, 32000 are allowed)", "{request:?}");
        }
    }

    #[test]
    fn values_are_checked_where_they_are_written() {
        let long = vec![0; VALUE_BYTES_MAX + 1];
        let set: [&[u8]; 3] = [b"SET", b"k", &long];
        assert!(check(resolve(&set).unwrap(), &set).unwrap_err().starts_with("ERR value is too long (67108865 bytes"));
        let field: [&[u8]; 3] = [b"HGET", b"h", &long];
        assert_eq!(check(resolve(&field).unwrap(), &field), Ok(()), "no such field can be there");
        assert_eq!(check_item(ITEM_BYTES_MAX), Ok(()));
        assert!(check_item(ITEM_BYTES_MAX + 1).is_err());
        assert!(check_arguments(ITEM_ARGUMENTS_MAX).is_ok() && check_arguments(ITEM_ARGUMENTS_MAX + 1).is_err());
    }
}
