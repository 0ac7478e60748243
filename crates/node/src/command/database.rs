//! KV.EMPTY: removes all keys of some databases. Clients of a database ask for it by FLUSHDB and FLUSHALL. Within a transaction
//! FLUSHALL removes all keys of a shard that has the whole store.
//!
//! The keys of a database begin with its prefix, which is a key of the command. All go in one entry: nothing comes between.
//!
//! KV.REMOVE removes some keys that a shard has of a cluster database, or of database 0: FLUSHDB of a cluster's client asks again until
//! there are none. So no entry is large, and other clients get in between. Its key says which shard and which database. KV.SPAN tells
//! whether that shard has all slots that it was asked for.

use super::args::{NOT_INTEGER, natural};
use super::call::{HandlerRow, Outcome, ReadCall, WriteCall, read, write};
use super::database_keys::each_key;
use crate::{Emptied, Fault, WriteSpace};
use storage::Slice;
use vocab::limits::KEY_BYTES_MAX;
use vocab::{ClusterDatabase, Database, database_keys, is_database_key};

const NO_DATABASE: &str = "ERR KV.EMPTY is for clients of databases: FLUSHDB";
const NO_PLACE: &str = "ERR KV.REMOVE is for clients of a cluster: FLUSHDB";

/// Keys that one KV.REMOVE removes at most.
const REMOVED_MAX: usize = 65_536;

pub(super) const ROWS: &[HandlerRow] =
    &[write("KV.EMPTY", empty), write("KV.REMOVE", remove_some), read("KV.SPAN", span)];

/// Only where one shard has all slots between those of its keys is a request run that names several.
fn span(call: &mut ReadCall<'_>) -> Outcome {
    call.reply.int(1);
    Ok(())
}

fn remove_some(call: &mut WriteCall<'_>) -> Outcome {
    let (place, count) = (call.args[1], natural(call.args[2], NOT_INTEGER)?);
    let wanted = usize::try_from(count).unwrap_or(REMOVED_MAX).min(REMOVED_MAX);
    let found = match ClusterDatabase::of_prefix(place) {
        Some(database) => call.space.keys(&database.mark(), None, wanted)?,
        // What clients of databases name begins with a prefix: they have no say over keys without one.
        None if is_database_key(place) => return Err(NO_PLACE.into()),
        None => plain_keys(call.space, wanted)?,
    };
    for key in &found {
        call.space.delete(key)?;
    }
    call.reply.int(found.len() as i64);
    Ok(())
}

/// The first keys that have no namespace.
fn plain_keys(space: &mut dyn WriteSpace, wanted: usize) -> Result<Vec<Slice>, Fault> {
    let mut found = space.keys(b"", None, wanted)?;
    let read = found.len();
    found.retain(|key| !is_database_key(key));
    if read < wanted || found.len() == read {
        return Ok(found);
    }
    // Those before the namespaces come first, and were not enough: there are others behind them only.
    let (_, behind) = database_keys();
    let mut before = behind.to_vec();
    if let Some(byte) = before.last_mut() {
        *byte -= 1;
    }
    before.resize(KEY_BYTES_MAX, u8::MAX);
    found.extend(space.keys(b"", Some(&before), wanted - found.len())?);
    Ok(found)
}

fn empty(call: &mut WriteCall<'_>) -> Outcome {
    // Without arguments it is about all databases, which no entry is.
    let prefixes = &call.args[1..];
    let is_whole = |prefix: &&[u8]| Database::of_key(prefix).is_some_and(|database| database.prefix() == **prefix);
    if prefixes.is_empty() || !prefixes.iter().all(is_whole) {
        return Err(NO_DATABASE.into());
    }
    call.space.notify_emptied(Emptied::Database);
    for prefix in prefixes {
        each_key(call.space, prefix, |space, key| space.delete(key).map(drop))?;
    }
    call.reply.ok();
    Ok(())
}

/// FLUSHALL and FLUSHDB in a transaction of the one shard of a store. An argument says whose keys: with what those of a cluster
/// database begin, or nothing for those of database 0.
pub(super) fn clear(call: &mut WriteCall<'_>) -> Outcome {
    call.space.notify_emptied(Emptied::Shard);
    match call.args.get(1) {
        None => each_key(call.space, b"", |space, key| space.delete(key).map(drop))?,
        Some(&b"") => {
            each_key(
                call.space,
                b"",
                |space, key| {
                    if is_database_key(key) { Ok(()) } else { space.delete(key).map(drop) }
                },
            )?
        }
        Some(mark) if ClusterDatabase::of_mark(mark).is_some() => {
            each_key(call.space, mark, |space, key| space.delete(key).map(drop))?;
        }
        Some(_) => return Err(NO_PLACE.into()),
    }
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
    use vocab::{ClusterDatabase, Database, Namespace, Slot};

    #[test]
    fn keys_go_a_few_at_a_time() {
        let [one, other] = [1, 2].map(|number| ClusterDatabase::of_number(number).unwrap());
        let database = Database::of_number(1).unwrap();
        let of = |space: &mut TestSpace| {
            let keys = space.keys(b"", None, 9000).unwrap();
            let count = |of: Option<Namespace>| keys.iter().filter(|key| Namespace::of_key(key) == of).count();
            [None, Some(Namespace::Cluster(one)), Some(Namespace::Cluster(other)), Some(Namespace::Database(database))]
                .map(count)
        };
        let mut space = TestSpace::new();
        for i in 0..200 {
            let name = format!("key{i}").into_bytes();
            let behind = [b"\xff\0\xfed\xfe|", &name[..]].concat();
            let namespaces = [Namespace::Cluster(one), Namespace::Cluster(other), Namespace::Database(database)];
            for key in namespaces.map(|of| of.stored(&name)).into_iter().chain([name.clone(), behind]) {
                space.put(&key, Record::new(Kind::STRING, None, &[])).unwrap();
            }
        }
        let remove = |space: &mut TestSpace, place: &[u8], count: &[u8]| answer(space, &[b"KV.REMOVE", place, count]);
        let place = one.prefix_of_slot(Slot(7));
        assert_eq!((remove(&mut space, &place, b"150"), of(&mut space)), (Value::Int(150), [400, 50, 200, 200]));
        assert_eq!((remove(&mut space, &place, b"150"), of(&mut space)), (Value::Int(50), [400, 0, 200, 200]));
        assert_eq!(remove(&mut space, &place, b"150"), Value::Int(0));
        for (removed, left) in [(150, 250), (150, 100), (100, 0), (0, 0)] {
            assert_eq!((remove(&mut space, b"{06S}", b"150"), of(&mut space)[0]), (Value::Int(removed), left));
        }
        assert_eq!(of(&mut space), [0, 0, 200, 200]);
        assert!(matches!(remove(&mut space, b"{06S}", b"-1"), Value::Error(_)));
        space.put(b"key", Record::new(Kind::STRING, None, &[])).unwrap();
        let [named, of_other] = [Namespace::Cluster(one), Namespace::Database(database)].map(|of| of.stored(b"key"));
        for wrong in [&named[..], &of_other, &database.prefix(), b"\xff\0\xfed\xfe{x"] {
            assert!(matches!(remove(&mut space, wrong, b"9"), Value::Error(_)), "{wrong:?}");
        }
        assert_eq!(of(&mut space), [1, 0, 200, 200]);
    }

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
        let of_cluster = ClusterDatabase::of_number(1).unwrap();
        for name in [&b"a"[..], b"b"] {
            let key = Namespace::Cluster(of_cluster).stored(name);
            space.put(&key, Record::new(Kind::STRING, None, &[])).unwrap();
        }
        let mut left_by = |args: &[&[u8]]| {
            let mut reply = Reply::default();
            clear(&mut Call { args, space: &mut space, reply: &mut reply }).unwrap();
            assert_eq!(reply.buf, b"+OK\r\n");
            space.keys(b"", None, 2000).unwrap().len()
        };
        let mark = of_cluster.mark();
        for (args, left) in [(&[&b"KV.CLEAR"[..], &mark][..], 1200), (&[b"KV.CLEAR", b""], 600), (&[b"KV.CLEAR"], 0)] {
            assert_eq!(left_by(args), left);
        }
    }
}
