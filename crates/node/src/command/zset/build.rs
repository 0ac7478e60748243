//! Makes a whole sorted set of members.

use super::scored::Scored;
use super::stored::{Large, SortedSet};
use crate::command::args::check_release;
use crate::command::call::{Error, Outcome};
use crate::command::hash::name_of;
use crate::format::score::encode;
use crate::keyspace_events::Event;
use crate::{Kind, Record, Rows, Type, WriteSpace};
use std::collections::HashSet;
use vocab::{limits, put_varint};

pub(super) const MEMBER_TOO_LONG: &str = "ERR member exceeds maximum allowed size (32000 bytes)";
const TOO_LARGE_TO_COPY: &str =
    "ERR the collection is too large to be copied within a transaction (4096 elements, 8 MiB)";

const _: () = assert!(limits::FIELD_BYTES_MAX == 32_000, "MEMBER_TOO_LONG says how long");
const _: () = assert!(limits::COPY_WHOLE_ELEMENTS_MAX == 4096 && limits::GATHERED_BYTES_MAX == 8 << 20);

/// Makes the sorted set `key` of members that are in order, each once and none too long; what was at `key` is replaced.
/// Without members the key is removed.
pub(in crate::command) fn put_whole(
    space: &mut dyn WriteSpace,
    key: &[u8],
    expire_at_ms: Option<u64>,
    members: &[Scored<'_>],
) -> Outcome {
    if members.is_empty() {
        space.delete(key)?;
        return Ok(());
    }
    if members.len() <= limits::INLINE_FIELDS_MAX {
        let payload = pack(members);
        if payload.len() <= limits::INLINE_COLLECTION_BYTES_MAX {
            let record = Record::stamped_new(space.version(), Kind::SORTED_SET, expire_at_ms, &[&payload]);
            return Ok(space.put(key, record)?);
        }
    }
    let large = Large::of(space.new_rows(key)?);
    for scored in members {
        put_score(space, &large, scored)?;
    }
    large.leaves.build(space, members)?;
    put_count(space, key, expire_at_ms, &large.rows.with_count(members.len() as u64))
}

/// Longest member of what Redis keeps as a listpack, which has one zero (`zset-max-listpack-value`). A setting of a node would
/// make replicas differ.
const ONE_ZERO_MEMBER_BYTES_MAX: usize = 64;

/// The payload of a small sorted set.
fn pack(members: &[Scored<'_>]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(4 + members.iter().map(|scored| scored.member.len() + 12).sum::<usize>());
    put_varint(&mut payload, members.len() as u64);
    let has_one_zero = members.iter().all(|scored| scored.member.len() <= ONE_ZERO_MEMBER_BYTES_MAX);
    for Scored { member, score } in members {
        let score = if has_one_zero && *score == 0.0 { 0.0 } else { *score };
        Scored { member, score }.pack(&mut payload);
    }
    payload
}

/// Writes the row of a member's score.
pub(super) fn put_score(space: &mut dyn WriteSpace, large: &Large, scored: &Scored<'_>) -> Outcome {
    Ok(space.element_put(&large.scores, &name_of(scored.member), &encode(scored.score))?)
}

/// Writes the record of a large sorted set.
pub(super) fn put_count(space: &mut dyn WriteSpace, key: &[u8], expire_at_ms: Option<u64>, rows: &Rows) -> Outcome {
    let record = Record::large(Type::SortedSet, space.version(), expire_at_ms, rows);
    Ok(space.put(key, record)?)
}

/// Puts a member into the rows of a large sorted set that no record refers to yet.
pub(in crate::command) fn stage(space: &mut dyn WriteSpace, rows: &Rows, scored: Scored<'_>) -> Outcome {
    let large = Large::of(rows.clone());
    put_score(space, &large, &scored)?;
    large.leaves.insert(space, scored)
}

/// A member of a sorted set that is kept while others are read.
pub(in crate::command) struct Kept {
    pub(in crate::command) member: Vec<u8>,
    pub(in crate::command) score: f64,
}

impl Kept {
    /// As the members of a sorted set are given.
    pub(super) fn scored(&self) -> Scored<'_> {
        Scored { member: &self.member, score: self.score }
    }
}

impl From<Scored<'_>> for Kept {
    fn from(scored: Scored<'_>) -> Self {
        Self { member: scored.member.to_vec(), score: scored.score }
    }
}

/// Makes the sorted set `key` of those members, which are not in order.
pub(super) fn put_kept(space: &mut dyn WriteSpace, key: &[u8], expire_at_ms: Option<u64>, kept: &[Kept]) -> Outcome {
    let mut members: Vec<Scored<'_>> = kept.iter().map(Kept::scored).collect();
    members.sort_unstable_by(Scored::order);
    put_whole(space, key, expire_at_ms, &members)
}

/// Stores the result of a command, members that are not in order, in place of what is at `key`, and tells it.
pub(in crate::command) fn store_kept(space: &mut dyn WriteSpace, key: &[u8], kept: &[Kept], event: Event) -> Outcome {
    if kept.is_empty() {
        space.delete_told(key)?;
        return Ok(());
    }
    put_kept(space, key, None, kept)?;
    space.notify(event, key);
    Ok(())
}

/// Makes the sorted set `key` of all members of `from`, which is of another key; what was at `key` is replaced. One that is
/// too large for one entry is an error, and nothing is written.
pub(in crate::command) fn copy(
    space: &mut dyn WriteSpace,
    from: &SortedSet<'_>,
    key: &[u8],
    expire_at_ms: Option<u64>,
) -> Result<(), Error> {
    check_release(space)?;
    let count = from.count()?;
    if count > limits::COPY_WHOLE_ELEMENTS_MAX {
        return Err(TOO_LARGE_TO_COPY.into());
    }
    let (mut kept, mut bytes) = (Vec::new(), 0);
    from.visit(space, 0, count, false, &mut |scored| {
        bytes += scored.member.len();
        kept.push(Kept::from(scored));
    })?;
    if bytes > limits::GATHERED_BYTES_MAX {
        return Err(TOO_LARGE_TO_COPY.into());
    }
    put_kept(space, key, expire_at_ms, &kept)
}

/// Makes the sorted set `key` of members from outside; what was at `key` is replaced. Writes nothing and answers false if
/// there is no member, one comes twice, or one is too long.
pub(in crate::command) fn restore(
    space: &mut dyn WriteSpace,
    key: &[u8],
    expire_at_ms: Option<u64>,
    mut members: Vec<Scored<'_>>,
) -> Result<bool, Error> {
    check_release(space)?;
    let mut seen = HashSet::with_capacity(members.len());
    let fit = members.iter().all(|scored| scored.member.len() <= limits::FIELD_BYTES_MAX && seen.insert(scored.member));
    if members.is_empty() || !fit {
        return Ok(false);
    }
    members.sort_unstable_by(Scored::order);
    put_whole(space, key, expire_at_ms, &members)?;
    Ok(true)
}
