//! What is pending in a group for long, looked at some at a time: for clients that wait in XREADGROUP with CLAIM.
//!
//! There is no order by time. It looks at what XREADGROUP looks at: the first so many pending entries of each stream, by their ids.

use super::group::{Group, NameWalk, Pending};
use super::read::ReadWords;
use super::stored::Stream;
use crate::command::call::Error;
use crate::{Fault, KeyHash, ReadSpace, Rules};
use std::sync::Arc;
use vocab::limits::STREAM_DELIVERED_MAX;

/// What a client asks for that waits with CLAIM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claiming {
    pub(crate) group: Box<[u8]>,
    /// For how long an entry that it is given has been pending at least.
    pub(crate) min_idle_ms: u64,
    /// Most entries of each stream; none: all.
    pub(crate) count: Option<u64>,
}

/// What the arguments of XREADGROUP ask for, if they say CLAIM.
pub(crate) fn claiming(args: &[&[u8]]) -> Option<Claiming> {
    let words = ReadWords::parse(args, true, Rules::NEWEST).ok()?;
    let (group, _) = words.group?;
    Some(Claiming { group: group.into(), min_idle_ms: words.claim_ms?, count: words.count })
}

/// What is pending at one key, as far as it was not looked at.
struct PendingLeft {
    names: NameWalk,
    entries: u64,
}

/// A look at what is pending in a group of some streams.
pub(crate) struct ClaimLook {
    keys: Arc<[(KeyHash, Box<[u8]>)]>,
    group: Box<[u8]>,
    now_ms: u64,
    min_idle_ms: u64,
    /// It ends when so many can be claimed.
    claimable_max: u64,
    keys_done: usize,
    /// At the next key, if the look at it has begun.
    left: Option<PendingLeft>,
    oldest_ms: Option<u64>,
    claimable: u64,
    /// How many pending entries were looked at.
    rows: u64,
}

impl ClaimLook {
    /// At those keys, as of that moment. An entry that is pending for so long can be claimed, and the look ends when there are enough of them.
    pub(crate) fn new(
        keys: Arc<[(KeyHash, Box<[u8]>)]>,
        group: Box<[u8]>,
        now_ms: u64,
        min_idle_ms: u64,
        claimable_max: u64,
    ) -> Self {
        Self {
            keys,
            group,
            now_ms,
            min_idle_ms,
            claimable_max,
            keys_done: 0,
            left: None,
            oldest_ms: None,
            claimable: 0,
            rows: 0,
        }
    }

    /// The moment of the look, in ms since the epoch.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// When the oldest of what was found was delivered, in ms since the epoch.
    pub(crate) fn oldest_ms(&self) -> Option<u64> {
        self.oldest_ms
    }

    /// How many entries can be claimed.
    pub(crate) fn claimable(&self) -> u64 {
        self.claimable
    }

    /// How many rows were read, about: of pending entries, and of streams and groups.
    pub(crate) fn rows_read(&self) -> u64 {
        self.rows + 2 * self.keys_done as u64
    }

    /// Looks at some more, of one key; whether that was all.
    pub(crate) fn step(&mut self, space: &mut dyn ReadSpace) -> Result<bool, Fault> {
        let keys = self.keys.clone();
        let Some((_, key)) = keys.get(self.keys_done) else { return Ok(true) };
        match self.look_at(space, key) {
            Ok(false) => {}
            // There is no stream, or no group: its clients are told so elsewhere.
            Ok(true) | Err(Error::Reply(_)) => {
                self.keys_done += 1;
                self.left = None;
            }
            Err(Error::Fault(fault)) => return Err(fault),
        }
        Ok(self.keys_done == keys.len() || self.claimable >= self.claimable_max)
    }

    /// Looks at some more of what is pending at a key; whether that was all of it.
    fn look_at(&mut self, space: &mut dyn ReadSpace, key: &[u8]) -> Result<bool, Error> {
        let Some(stream) = Stream::load(space, key)? else { return Ok(true) };
        let Some(rows) = stream.rows().filter(|_| stream.meta.length > 0) else { return Ok(true) };
        let left = match &mut self.left {
            Some(left) => left,
            None => {
                let group = Group::load(space, &stream, &self.group)?;
                let Some(group) = group.filter(|group| group.pending > 0) else { return Ok(true) };
                let names = NameWalk::from_id(group.id, stream.meta.first_id);
                self.left.insert(PendingLeft { names, entries: STREAM_DELIVERED_MAX })
            }
        };
        let Some(found) = left.names.next(space, rows)? else { return Ok(true) };
        for (_, row) in found.into_iter().take(left.entries as usize) {
            left.entries -= 1;
            self.rows += 1;
            let pending = Pending::decode(&row).map_err(|why| stream.malformed(why))?;
            let at_ms = pending.delivered_ms;
            let is_claimable = self.now_ms.saturating_sub(at_ms) >= self.min_idle_ms;
            let is_oldest = self.oldest_ms.is_none_or(|oldest_ms| at_ms < oldest_ms);
            if (is_claimable || is_oldest) && stream.has_entry_at(space, pending.at)? {
                self.claimable += u64::from(is_claimable);
                self.oldest_ms = Some(self.oldest_ms.map_or(at_ms, |oldest_ms| oldest_ms.min(at_ms)));
            }
        }
        Ok(left.entries == 0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::command::testspace::{TestSpace, answer};
    use crate::key_hash;

    #[test]
    fn what_a_client_asks_for() {
        for (line, expected) in [
            ("XREADGROUP GROUP g c CLAIM 50 BLOCK 0 STREAMS s >", Some(("g", 50, None))),
            ("XREADGROUP COUNT 2 CLAIM 1 CLAIM 7 BLOCK 0 GROUP g c STREAMS s >", Some(("g", 7, Some(2)))),
            ("XREADGROUP GROUP CLAIM 1 BLOCK 0 STREAMS CLAIM >", None),
            ("XREADGROUP GROUP g c BLOCK 0 STREAMS s >", None),
        ] {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let expected = expected.map(|(group, min_idle_ms, count)| Claiming {
                group: group.as_bytes().into(),
                min_idle_ms,
                count,
            });
            assert_eq!(claiming(&args), expected, "{line}");
        }
    }

    #[test]
    fn a_look_finds_the_oldest_and_how_many_can_be_claimed() {
        let mut space = TestSpace::new();
        let call = |space: &mut TestSpace, now_ms: u64, line: &str| {
            space.now_ms = now_ms;
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            answer(space, &args);
        };
        for line in ["XGROUP CREATE s g 0 MKSTREAM", "XADD s 1 f v", "XADD s 2 f v", "XADD s 3 f v", "SET other v"] {
            call(&mut space, 1000, line);
        }
        for now_ms in [1000, 2000, 3000] {
            call(&mut space, now_ms, "XREADGROUP GROUP g c COUNT 1 STREAMS s >");
        }
        let found = |space: &mut TestSpace, now_ms: u64, min_idle_ms: u64, max: u64| {
            let keys: Vec<(KeyHash, Box<[u8]>)> =
                ["none", "other", "s"].map(|key| (key_hash(key.as_bytes()), key.as_bytes().into())).into();
            let mut look = ClaimLook::new(keys.into(), Box::from(&b"g"[..]), now_ms, min_idle_ms, max);
            let mut steps = 1;
            while !look.step(space).unwrap() {
                steps += 1;
                assert!(steps < 10);
            }
            (look.oldest_ms(), look.claimable(), look.rows)
        };
        assert_eq!(found(&mut space, 3000, 1000, 9), (Some(1000), 2, 3));
        assert_eq!(found(&mut space, 3000, 5000, 9), (Some(1000), 0, 3));
        // What is gone counts for nothing.
        call(&mut space, 3000, "XDEL s 1");
        assert_eq!(found(&mut space, 3000, 1000, 9), (Some(2000), 1, 2));
        call(&mut space, 3000, "XNACK s g FAIL IDS 1 3");
        assert_eq!(found(&mut space, 3000, 1000, 9).0, Some(0));
        call(&mut space, 3000, "XACK s g 2 3");
        assert_eq!(found(&mut space, 3000, 0, 9), (None, 0, 0));
    }
}
