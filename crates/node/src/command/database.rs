//! KV.EMPTY: removes all keys of some databases. Clients of a database ask for it by FLUSHDB and FLUSHALL. Within a transaction
//! FLUSHALL removes all keys of a shard that has the whole store.
//!
//! The keys of a database begin with its prefix, which is a key of the command. All go in one entry: nothing comes between.

use super::call::{HandlerRow, Outcome, WriteCall, write};
use super::database_keys::each_key;
use vocab::Database;

const NO_DATABASE: &str = "ERR KV.EMPTY is for clients of databases: FLUSHDB";

pub(super) const ROWS: &[HandlerRow] = &[write("KV.EMPTY", empty)];

fn empty(call: &mut WriteCall<'_>) -> Outcome {
    // Without arguments it is about all databases, which no entry is.
    let prefixes = &call.args[1..];
    let is_whole = |prefix: &&[u8]| Database::of_key(prefix).is_some_and(|database| database.prefix() == **prefix);
    if prefixes.is_empty() || !prefixes.iter().all(is_whole) {
        return Err(NO_DATABASE.into());
    }
    for prefix in prefixes {
        each_key(call.space, prefix, |space, key| space.delete(key).map(drop))?;
    }
    call.reply.ok();
    Ok(())
}

/// FLUSHALL and FLUSHDB in a transaction of the one shard of a store.
pub(super) fn clear(call: &mut WriteCall<'_>) -> Outcome {
    each_key(call.space, b"", |space, key| space.delete(key).map(drop))?;
    call.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::call::Call;
    use super::super::testspace::{TestSpace, answer};
    use super::clear;
    use crate::{Kind, ReadSpace, Record, WriteSpace};
    use resp::{Reply, Value};
    use vocab::Database;

    #[test]
    fn the_keys_of_one_database_go() {
        let mut space = TestSpace::new();
        let [one, other] = [1, 2].map(|number| Database::of_number(number).unwrap().prefix());
        for i in 0..600 {
            for prefix in [&one[..], &other, b""] {
                let key = [prefix, format!("key{i}").as_bytes()].concat();
                space.put(&key, Record::new(Kind::STRING, None, &[])).unwrap();
            }
        }
        assert_eq!(answer(&mut space, &[b"KV.EMPTY", &one]), Value::Simple("OK".into()));
        let left = space.keys(b"", None, 2000).unwrap();
        assert_eq!(left.len(), 1200);
        assert!(left.iter().all(|key| !key.starts_with(&one)));
        for wrong in [&b"key"[..], b"", &one[..9], b"\xff\0\xfed\xfe{zzz}"] {
            assert!(matches!(answer(&mut space, &[b"KV.EMPTY", wrong]), Value::Error(_)), "{wrong:?}");
        }
        let mut reply = Reply::default();
        clear(&mut Call { args: &[&b"KV.CLEAR"[..]], space: &mut space, reply: &mut reply }).unwrap();
        assert_eq!((reply.buf, space.keys(b"", None, 2000).unwrap().len()), (b"+OK\r\n".to_vec(), 0));
    }
}
