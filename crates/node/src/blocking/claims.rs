//! Clients that wait with CLAIM: they are tried again when an entry has been pending in their group for long enough.
//!
//! Those that wait for the same streams and group are a *party*. What is pending is looked at for all of them together, by a thread that may
//! wait for the disk, for one party at a time. The oldest delivery that was found tells when to look again. Where something can be claimed,
//! as many clients are tried as can have some of it, in their order. What XNACK gives back needs no look: it writes the stream's record, which
//! has all tried that wait for the stream.
//!
//! Invariants:
//! - A party has a client.
//! - `due` has the times of all parties but of the one that is being looked at, and of those whose shard is gone.
//! - Nothing in a party's group was delivered before its `from_ms`, as far as looks tell: XCLAIM may say that an entry was.

use super::queues::{QueuePlace, WaiterId};
use crate::command::{ClaimLook, Claiming};
use crate::{KeyHash, ShardHandle};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use vocab::limits::{CLAIM_LOOK_PAUSE_US, CLAIM_LOOK_ROW_US, CLAIM_TRIES_MAX};
use vocab::{Moment, ShardId};
use xxhash_rust::xxh3::Xxh3;

/// Of how many looks without success in a row each doubles the pause.
const DOUBLINGS_MAX: u32 = 6;

/// Tells a party: its shard, and a hash of its group and streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartyId {
    shard: ShardId,
    asked: u128,
}

impl PartyId {
    fn of(shard: ShardId, group: &[u8], keys: &[(KeyHash, Box<[u8]>)]) -> Self {
        let mut hash = Xxh3::new();
        for word in std::iter::once(group).chain(keys.iter().map(|(_, key)| &**key)) {
            hash.update(&(word.len() as u64).to_le_bytes());
            hash.update(word);
        }
        Self { shard, asked: hash.digest128() }
    }
}

/// The order in which clients of a party are tried: for the one who asks for the shortest time, something can be claimed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    min_idle_ms: u64,
    place: QueuePlace,
}

/// A client that waits with CLAIM.
struct Claimant {
    id: WaiterId,
    /// How many entries it takes at most.
    count: u64,
    /// A look had it tried.
    is_tried: bool,
}

/// Clients that wait for the same streams and group.
struct Party {
    shard: Weak<ShardHandle>,
    keys: Arc<[(KeyHash, Box<[u8]>)]>,
    group: Box<[u8]>,
    clients: BTreeMap<Rank, Claimant>,
    /// The delivery by which the next look is due, in ms since the epoch.
    from_ms: u64,
    /// When it is to be looked at, in µs of the steady clock; `None`: it is being looked at, or its shard is gone.
    due_us: Option<u64>,
    /// Before this there is no look.
    rest_until_us: u64,
    /// Looks in a row that had clients tried, since one of these was served.
    failures: u32,
    /// Something has happened since the look that is under way began.
    is_to_repeat: bool,
}

impl Party {
    /// When something can be claimed, as far as is known.
    fn next_us(&self, now: Moment) -> u64 {
        let Some((first, _)) = self.clients.first_key_value() else { return u64::MAX };
        let left_ms = self.from_ms.saturating_add(first.min_idle_ms).saturating_sub(now.wall_ms);
        // A clock of whole ms may say less than has passed.
        let left_us = if left_ms > 0 { left_ms.saturating_add(1).saturating_mul(1000) } else { 0 };
        now.mono_us.saturating_add(left_us).max(self.rest_until_us)
    }
}

/// What is pending is to be looked at for a party.
pub(super) struct DueLook {
    pub(super) party: PartyId,
    pub(super) shard: Arc<ShardHandle>,
    pub(super) look: ClaimLook,
}

/// The clients that wait with CLAIM, and when they are to be looked after.
#[derive(Default)]
pub(super) struct Claims {
    parties: BTreeMap<PartyId, Party>,
    clients: BTreeMap<WaiterId, (PartyId, Rank)>,
    due: BTreeSet<(u64, PartyId)>,
    /// A look is under way.
    is_looking: bool,
    /// Before this there is no look at all: what looks take of a thread has a bound.
    rest_until_us: u64,
}

impl Claims {
    /// A client begins to wait for those keys: its attempt has found nothing.
    pub(super) fn begin(
        &mut self,
        (place, id): (QueuePlace, WaiterId),
        claiming: Claiming,
        keys: Arc<[(KeyHash, Box<[u8]>)]>,
        shard: &Arc<ShardHandle>,
        now: Moment,
    ) {
        let Claiming { group, min_idle_ms, count } = claiming;
        let party_id = PartyId::of(shard.id(), &group, &keys);
        let party = self.parties.entry(party_id).or_insert_with(|| Party {
            shard: Arc::downgrade(shard),
            keys,
            group,
            clients: BTreeMap::new(),
            from_ms: 0,
            due_us: Some(u64::MAX),
            rest_until_us: now.mono_us.saturating_add(CLAIM_LOOK_PAUSE_US),
            failures: 0,
            is_to_repeat: false,
        });
        // The shard was closed, and is open again.
        if party.shard.strong_count() == 0 {
            party.shard = Arc::downgrade(shard);
            party.due_us = party.due_us.or(Some(u64::MAX));
        }
        let rank = Rank { min_idle_ms, place };
        party.clients.insert(rank, Claimant { id, count: count.unwrap_or(u64::MAX), is_tried: false });
        self.clients.insert(id, (party_id, rank));
        if let Some(due_us) = party.due_us {
            let due_us = due_us.min(party.next_us(now));
            self.set_due(party_id, Some(due_us));
        }
    }

    fn set_due(&mut self, id: PartyId, due_us: Option<u64>) {
        let Some(party) = self.parties.get_mut(&id) else { return };
        if let Some(before_us) = std::mem::replace(&mut party.due_us, due_us) {
            self.due.remove(&(before_us, id));
        }
        self.due.extend(due_us.map(|due_us| (due_us, id)));
    }

    /// A client waits no longer.
    pub(super) fn end(&mut self, id: WaiterId) {
        let Some((party_id, rank)) = self.clients.remove(&id) else { return };
        let Some(party) = self.parties.get_mut(&party_id) else { return };
        party.clients.remove(&rank);
        if party.clients.is_empty()
            && let Some(party) = self.parties.remove(&party_id)
            && let Some(due_us) = party.due_us
        {
            self.due.remove(&(due_us, party_id));
        }
    }

    /// A client gets an answer, and then waits no longer. If a look had it tried, there may be more for others.
    pub(super) fn served(&mut self, id: WaiterId, now_us: u64) {
        let Some((party_id, rank)) = self.clients.get(&id).copied() else { return };
        let Some(party) = self.parties.get_mut(&party_id) else { return };
        if party.clients.get(&rank).is_none_or(|client| !client.is_tried) {
            return;
        }
        (party.failures, party.rest_until_us) = (0, 0);
        if party.due_us.is_some() {
            // Behind what is due already.
            self.set_due(party_id, Some(now_us));
        } else {
            party.is_to_repeat = true;
        }
    }

    /// When the next look is due, in µs of the steady clock; `None` while one is under way.
    pub(super) fn due_us(&self) -> Option<u64> {
        let (due_us, _) = self.due.first().filter(|_| !self.is_looking)?;
        Some((*due_us).max(self.rest_until_us))
    }

    /// The next look that is due, if one is, and none is under way.
    pub(super) fn begin_look(&mut self, now: Moment) -> Option<DueLook> {
        if self.due_us()? > now.mono_us {
            return None;
        }
        let (_, id) = self.due.first().copied()?;
        self.set_due(id, None);
        let party = self.parties.get(&id)?;
        // Without it, its clients are about to be routed anew.
        let shard = party.shard.upgrade()?;
        let (first, _) = party.clients.first_key_value()?;
        let (keys, group, enough) = (party.keys.clone(), party.group.clone(), CLAIM_TRIES_MAX as u64);
        let look = ClaimLook::new(keys, group, now.wall_ms, first.min_idle_ms, enough);
        self.is_looking = true;
        Some(DueLook { party: id, shard, look })
    }

    /// Whether clients wait for what a look finds.
    pub(super) fn has_party(&self, id: PartyId) -> bool {
        self.parties.contains_key(&id)
    }

    /// The look that was under way is over. Answers which clients are to be tried, in their order.
    pub(super) fn looked(&mut self, id: PartyId, look: &ClaimLook, now: Moment) -> Vec<WaiterId> {
        self.is_looking = false;
        self.rest_until_us = now.mono_us.saturating_add(look.rows_read().saturating_mul(CLAIM_LOOK_ROW_US));
        let Some(party) = self.parties.get_mut(&id) else { return Vec::new() };
        // What is delivered from now on is younger.
        party.from_ms = look.oldest_ms().unwrap_or(u64::MAX).min(look.now_ms());
        let idle_ms = look.now_ms() - party.from_ms;
        let (mut left, mut tried) = (look.claimable(), Vec::new());
        for (rank, client) in &mut party.clients {
            if left == 0 || rank.min_idle_ms > idle_ms || tried.len() == CLAIM_TRIES_MAX {
                break;
            }
            left = left.saturating_sub(client.count);
            client.is_tried = true;
            tried.push(client.id);
        }
        party.failures = if tried.is_empty() { 0 } else { party.failures.saturating_add(1) };
        let pause_us = CLAIM_LOOK_PAUSE_US << party.failures.min(DOUBLINGS_MAX);
        party.rest_until_us = now.mono_us.saturating_add(pause_us);
        let due_us = if std::mem::take(&mut party.is_to_repeat) { now.mono_us } else { party.next_us(now) };
        self.set_due(id, Some(due_us));
        tried
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_hash;
    use crate::test_shard::empty_shard;

    #[test]
    fn a_shard_that_was_closed_and_is_open_again_is_looked_at() {
        let keys: Arc<[(KeyHash, Box<[u8]>)]> = Arc::from([(key_hash(b"s"), Box::from(&b"s"[..]))]);
        let begin = |claims: &mut Claims, connection: u32, shard: &Arc<ShardHandle>| {
            let id = WaiterId { worker: 0, connection, generation: 0 };
            let claiming = Claiming { group: Box::from(&b"g"[..]), min_idle_ms: 1, count: None };
            let place = QueuePlace(u64::from(connection));
            claims.begin((place, id), claiming, keys.clone(), shard, Moment::default());
        };
        let later = Moment { wall_ms: 0, mono_us: CLAIM_LOOK_PAUSE_US };
        for is_due_while_closed in [false, true] {
            let mut claims = Claims::default();
            let before = empty_shard(ShardId(3));
            begin(&mut claims, 1, &before.0);
            drop(before);
            assert!(!is_due_while_closed || claims.begin_look(later).is_none());
            let (after, _folder) = empty_shard(ShardId(3));
            begin(&mut claims, 2, &after);
            assert!(claims.begin_look(later).is_some(), "{is_due_while_closed}");
        }
    }
}
