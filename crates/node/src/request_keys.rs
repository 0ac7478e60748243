//! The keys of a request, checked against the limits and hashed. Every way in uses it: single commands, MULTI, WATCH,
//! embedded callers.

use crate::admission;
use resp::table::CommandSpec;
use smallvec::SmallVec;
use std::borrow::Cow;
use vocab::{Slot, slot_of};
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

/// The keys of one request: none is longer than allowed, and all are of one slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestKeys {
    /// Their slot; `None` if the request has no keys.
    pub slot: Option<Slot>,
    /// Their hashes, in the order of the request.
    pub hashes: KeyHashes,
}

pub(crate) const CROSSSLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

impl RequestKeys {
    /// Finds and checks the keys of a request whose arity has been checked. The error is the text of the reply.
    #[inline]
    pub fn of(spec: &CommandSpec, args: &[&[u8]]) -> Result<Self, Cow<'static, str>> {
        admission::check(spec, args)?;
        let mut keys = Self::default();
        for at in spec.keys(args).map_err(|_| "ERR Invalid arguments specified for command")? {
            let key = args[at];
            let slot = slot_of(key);
            if *keys.slot.get_or_insert(slot) != slot {
                return Err(CROSSSLOT.into());
            }
            keys.hashes.push(key_hash(key));
        }
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let spec = resp::table::resolve(&args).expect("a command");
        RequestKeys::of(spec, &args).map(|keys| keys.hashes.len()).map_err(Cow::into_owned)
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
        assert_eq!(keys_of("KV.EXEC x 2 GET k"), Err("ERR Invalid arguments specified for command".to_owned()));
    }
}
