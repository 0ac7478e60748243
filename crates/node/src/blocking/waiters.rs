//! Who waits for which key, who is served next, and what is proposed for whom.
//!
//! Invariants:
//! - A client has at most one attempt under way, so it is never served twice.
//! - Of those that wait for a key, one that came later is tried no earlier.
//! - While a key holds something for which a client waits that has no attempt under way, the key is among `ready`. What is pending in groups
//!   does not count: for that there is `claims`.

use super::claims::{Claims, DueLook};
use super::command::{BlockingCommand, TOO_MANY_KEYS};
use super::queues::{Joining, Leaving, QueuePlace, Queues, WaiterId};
use crate::awaited_keys::{Awaited, AwaitedKeys, Holds, ReadyKey};
use crate::command::Claiming;
use crate::{EncodedCommand, KeyHash, KeyHashes, ShardHandle, Ticket, key_hash};
use resp::Reply;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use vocab::limits::{
    BLOCKED_BYTES_MAX, BLOCKED_CLIENTS_STEP_MAX, BLOCKED_COMMAND_BYTES_MAX, BLOCKED_KEYS_LOOK, BLOCKED_KEYS_MAX,
};
use vocab::{Moment, ShardId};

/// What is under way for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serving {
    /// Its command as it came.
    First,
    /// Its command for one key.
    Of(KeyHash),
    /// Its command for all its keys.
    All,
    /// Nothing: where its streams end is read, some at a time.
    Ends,
}

/// Why a wait ends without an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its time is over, or CLIENT UNBLOCK says so.
    Timeout,
    /// CLIENT UNBLOCK with an error.
    Error,
    /// SWAPDB: it goes on for the same keys of another database.
    Moved,
    /// Its connection is closed.
    Gone,
    /// The stream of its group is gone.
    NoStream,
    /// Its group is gone.
    NoGroup,
    /// Where its streams end could not be read.
    Unread,
}

/// What a client is told whose wait ends with `End::Error`.
pub const ENDED_BY_CLIENT: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";

/// Of an answer that tells of `End::Error` or `End::Moved`: the ids behind which its wait read streams, if it says them. `None`: it is
/// another answer.
#[must_use]
pub fn ids_of_ended(reply: &[u8]) -> Option<Vec<&[u8]>> {
    let rest = reply.strip_prefix(b"-")?.trim_ascii_end().strip_prefix(ENDED_BY_CLIENT.as_bytes())?;
    let ids = rest.split(|byte| *byte == b' ').skip(1).collect();
    (rest.is_empty() || rest.starts_with(b" ")).then_some(ids)
}

impl End {
    /// How CLIENT UNBLOCK says it; `MOVED` is for nodes.
    const WORDS: [(Self, &str); 3] = [(Self::Timeout, "TIMEOUT"), (Self::Error, "ERROR"), (Self::Moved, "MOVED")];

    /// The end that a word says.
    #[must_use]
    pub fn of_word(word: &[u8]) -> Option<Self> {
        let (end, _) = Self::WORDS.into_iter().find(|(_, of_end)| word.eq_ignore_ascii_case(of_end.as_bytes()))?;
        Some(end)
    }

    /// The word that says it, if one does.
    #[must_use]
    pub fn word(self) -> Option<&'static str> {
        Self::WORDS.into_iter().find(|(end, _)| *end == self).map(|(_, word)| word)
    }

    fn reply(self, ticket: &Ticket, command: &BlockingCommand) -> Vec<u8> {
        let mut reply = Reply::new(ticket.proto);
        match self {
            Self::Timeout | Self::Gone => reply.null_array(),
            Self::NoStream => reply.error("NOGROUP No such key or consumer group: the stream key no longer exists"),
            Self::NoGroup => reply.error("NOGROUP the consumer group this client was blocked on no longer exists"),
            Self::Unread => reply.error("ERR the last id of a stream could not be read: see the node's log"),
            Self::Error => reply.error(ENDED_BY_CLIENT),
            Self::Moved => reply.error(&format!("{ENDED_BY_CLIENT}{}", command.ids())),
        }
        reply.buf
    }
}

/// A client that waits.
struct Waiter {
    shard: ShardId,
    awaited_keys: Arc<AwaitedKeys>,
    ticket: Ticket,
    command: BlockingCommand,
    /// What it takes of memory, about.
    held_bytes: usize,
    /// Where it stands in the queues of its keys. None before it has been tried, unless its keys are very many.
    place: Option<QueuePlace>,
    /// Its place, or behind that: where it stood when it had been tried and began to wait. None before.
    since: Option<QueuePlace>,
    /// It does not stand in all its queues yet, and is tried then.
    joins: bool,
    serving: Option<Serving>,
    /// When it waits no longer, in µs of the steady clock.
    until_us: Option<u64>,
    /// It is to end as soon as its attempt is over.
    end: Option<End>,
    /// One of its keys became ready while an attempt was under way.
    missed: bool,
    /// It is among those to be tried with all their keys.
    is_to_retry: bool,
}

/// A key that may hold something for those who wait.
struct Ready {
    key: Vec<u8>,
    what: Awaited,
    /// How many more may be served.
    left: u64,
    /// They come with what is proposed now, beside those that attempts under way will take.
    is_expected: bool,
    /// The last one that was looked at.
    after: QueuePlace,
}

/// What a client that wants to wait does first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Its command is proposed.
    Propose,
    /// It waits behind others for each of its keys.
    Wait,
    /// It is proposed a little later, as an attempt: its keys are very many.
    Later,
    /// It is refused, with this text: it would take too much while it waits.
    Refuse(&'static str),
}

const TOO_MUCH_WAITS: &str = "ERR the clients that wait in blocking commands take too much memory of this node already";

/// What becomes of the answer to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The client gets it.
    Deliver,
    /// The client gets this instead: it waits no longer.
    DeliverInstead(Vec<u8>),
    /// The client waits on. True if it begins only now.
    Waits(bool),
}

/// A command that is to be proposed for a client that waits.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Whose keys they are.
    pub shard: ShardId,
    /// The client's.
    pub ticket: Ticket,
    /// What to propose.
    pub command: EncodedCommand,
    /// Hashes of its keys.
    pub keys: KeyHashes,
    /// What the client waits in where it begins to wait anew; `None`: it waits here.
    pub waits_in: Option<Box<BlockingCommand>>,
}

/// A client that has been taken out.
#[derive(Clone, Debug)]
pub enum Withdrawn {
    /// Its command is to be routed anew.
    Again(Attempt),
    /// Its wait was to end.
    Ended(Ended),
}

/// A client that waits no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its ticket.
    pub ticket: Ticket,
    /// Its answer.
    pub reply: Vec<u8>,
}

/// Which of those who wait have lost something.
#[derive(Clone, Copy, Default)]
struct Losing {
    /// Those up to here have been looked at.
    after: QueuePlace,
    /// Who came later has lost nothing.
    until: QueuePlace,
}

/// A key at which no stream is any more.
struct LostKey {
    key: Vec<u8>,
    losing: Losing,
}

/// The clients that wait for keys of one worker's shards.
pub struct Waiters {
    /// A client of more keys joins their queues by and by, and is tried then.
    keys_at_once: usize,
    /// On their own: where very many wait, nearly half of each place of the tree is free.
    waiters: BTreeMap<WaiterId, Box<Waiter>>,
    /// Who waits for each key, the first first, and who has just left.
    queues: Queues,
    deadlines: BTreeSet<(u64, WaiterId)>,
    ready: BTreeMap<KeyHash, Ready>,
    /// The keys of `ready`, in the order in which they became so.
    ready_order: VecDeque<KeyHash>,
    /// Who is to be tried with all its keys, if its `is_to_retry` says so.
    retries: VecDeque<WaiterId>,
    last_place: QueuePlace,
    /// What all that wait, and those that leave, take of memory, about.
    bytes: usize,
    /// Those in queues that fail where a key is gone.
    needing: BTreeSet<(QueuePlace, WaiterId)>,
    /// Keys at which no stream is any more, and the shards that have no keys any more: who needed them is looked for some at a time.
    lost_keys: BTreeMap<KeyHash, LostKey>,
    lost_shards: BTreeMap<ShardId, Losing>,
    /// Keys that clients wait for, and at which an entry has left another type. Of so many keys that is known.
    foreign: BTreeSet<KeyHash>,
    /// How many wait for keys of each shard.
    shards: BTreeMap<ShardId, usize>,
    /// Those that wait with CLAIM.
    claims: Claims,
}

impl Waiters {
    /// None wait. A client of more keys than that joins their queues by and by.
    #[must_use]
    pub fn new(keys_at_once: usize) -> Self {
        Self {
            keys_at_once,
            waiters: BTreeMap::new(),
            queues: Queues::default(),
            deadlines: BTreeSet::new(),
            ready: BTreeMap::new(),
            ready_order: VecDeque::new(),
            retries: VecDeque::new(),
            last_place: QueuePlace::default(),
            bytes: 0,
            needing: BTreeSet::new(),
            lost_keys: BTreeMap::new(),
            lost_shards: BTreeMap::new(),
            foreign: BTreeSet::new(),
            shards: BTreeMap::new(),
            claims: Claims::default(),
        }
    }

    /// Whether no client waits, or is about to.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// How many clients wait, or are about to.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// The shards for whose keys clients wait.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + '_ {
        self.shards.keys().copied()
    }

    /// Whether there is an attempt to make.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.ready_order.is_empty() || !self.retries.is_empty()
    }

    /// When the next wait ends, or clients that wait with CLAIM are to be looked after, in µs of the steady clock.
    #[must_use]
    pub fn deadline_us(&self) -> Option<u64> {
        let ends_us = self.deadlines.first().map(|(until_us, _)| *until_us);
        ends_us.into_iter().chain(self.claims.due_us()).min()
    }

    /// A client's command has come to its shard.
    pub fn begin(
        &mut self,
        (shard, awaited_keys): (ShardId, &Arc<AwaitedKeys>),
        ticket: Ticket,
        command: BlockingCommand,
        now_us: u64,
    ) -> Begin {
        if command.keys().len() > BLOCKED_KEYS_MAX || command.whole().bytes() > BLOCKED_COMMAND_BYTES_MAX {
            return Begin::Refuse(TOO_MANY_KEYS);
        }
        if self.bytes + command.held_bytes() > BLOCKED_BYTES_MAX {
            return Begin::Refuse(TOO_MUCH_WAITS);
        }
        let until_us = command.timeout().flatten().map(|ms| now_us.saturating_add(ms.saturating_mul(1000)));
        let joins = command.keys().len() > self.keys_at_once;
        let waits = !joins && self.stands_behind_others(&command);
        let id = WaiterId::of(&ticket);
        let serving = (!waits).then_some(Serving::First);
        let awaited_keys = awaited_keys.clone();
        let held_bytes = command.held_bytes();
        let waiter = Waiter {
            shard,
            awaited_keys,
            ticket,
            command,
            held_bytes,
            place: None,
            since: None,
            joins,
            serving,
            until_us,
            end: None,
            missed: false,
            is_to_retry: false,
        };
        // A connection has one blocking request under way.
        self.remove(id);
        self.bytes += waiter.held_bytes;
        self.waiters.insert(id, Box::new(waiter));
        *self.shards.entry(shard).or_default() += 1;
        if joins {
            self.join_slowly(id);
            Begin::Later
        } else if waits {
            self.queue_up(id);
            Begin::Wait
        } else {
            Begin::Propose
        }
    }

    /// A client is tried when it stands in the queues of all its keys. What is left at one of them until then is noted as missed.
    fn join_slowly(&mut self, id: WaiterId) {
        let Some(waiter) = self.waiters.get_mut(&id) else { return };
        self.last_place.0 += 1;
        waiter.place = Some(self.last_place);
        self.queues.join_slowly(Joining {
            place: self.last_place,
            id,
            command: waiter.command.clone(),
            awaited_keys: waiter.awaited_keys.clone(),
        });
    }

    /// Whether others wait for each of the command's keys, and none of these is known to hold another type. A stream serves all, so no client
    /// stands behind others there.
    fn stands_behind_others(&self, command: &BlockingCommand) -> bool {
        /// So many of a key's waiters are looked at: others may wait for another type, or have left.
        const LOOKS_MAX: usize = 8;
        let is_awaited = |(hash, key): &(KeyHash, Box<[u8]>)| {
            if self.foreign.contains(hash) {
                return false;
            }
            let waiters = self.queues.behind(*hash, QueuePlace::default()).take(LOOKS_MAX);
            // One that was not tried yet does not know that the key holds nothing.
            let waiters = waiters.filter_map(|place| self.at(place)).filter(|waiter| waiter.since.is_some());
            let mut commands = waiters.map(|waiter| &waiter.command);
            commands.any(|other| other.awaited() == command.awaited() && other.waits_for(key))
        };
        let keys = command.keys();
        command.awaited() != Awaited::Stream && !keys.is_empty() && keys.iter().all(is_awaited)
    }

    /// The client that waits at a place; `None`: it has left.
    fn at(&self, (place, id): (QueuePlace, WaiterId)) -> Option<&Waiter> {
        self.waiters.get(&id).map(Box::as_ref).filter(|waiter| waiter.place == Some(place))
    }

    /// A client begins to wait: it stands at the end of the queues of its keys, unless it does so already.
    fn queue_up(&mut self, id: WaiterId) {
        let Some(waiter) = self.waiters.get_mut(&id) else { return };
        self.last_place.0 += 1;
        waiter.since = Some(self.last_place);
        if waiter.command.needs_keys() {
            self.needing.insert((self.last_place, id));
        }
        if let Some(until_us) = waiter.until_us {
            self.deadlines.insert((until_us, id));
        }
        if waiter.place.is_none() {
            waiter.place = waiter.since;
            self.queues.join(self.last_place, id, waiter.command.keys(), &waiter.awaited_keys);
        }
    }

    fn remove(&mut self, id: WaiterId) -> Option<Box<Waiter>> {
        let waiter = self.waiters.remove(&id)?;
        if let Some(left) = self.shards.get_mut(&waiter.shard) {
            *left -= 1;
            if *left == 0 {
                self.shards.remove(&waiter.shard);
            }
        }
        if let Some(until_us) = waiter.until_us {
            self.deadlines.remove(&(until_us, id));
        }
        if let Some(since) = waiter.since {
            self.needing.remove(&(since, id));
        }
        self.claims.end(id);
        self.bytes -= self.queues.leave(Leaving {
            place: waiter.place,
            command: waiter.command.clone(),
            awaited_keys: waiter.awaited_keys.clone(),
            held_bytes: waiter.held_bytes,
        });
        Some(waiter)
    }

    /// Whether clients of many keys have begun to wait, or have ended, and that is not noted at all of their keys.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.queues.are_changing()
    }

    /// Notes who has begun to wait and who has ended at up to `keys` keys.
    pub fn go_on(&mut self, keys: usize) {
        // Neither keeps the other waiting.
        let keys = if self.queues.are_joined_and_left() { keys.div_ceil(2) } else { keys };
        self.bytes -= self.queues.leave_some(keys);
        let is_there =
            |place: QueuePlace, id: WaiterId| self.waiters.get(&id).is_some_and(|waiter| waiter.place == Some(place));
        for id in self.queues.join_some(keys, is_there) {
            if let Some(waiter) = self.waiters.get_mut(&id) {
                (waiter.joins, waiter.is_to_retry) = (false, true);
                self.retries.push_back(id);
            }
        }
    }

    fn known(&mut self, ticket: &Ticket) -> Option<&mut Waiter> {
        let waiter = self.waiters.get_mut(&WaiterId::of(ticket))?;
        if waiter.ticket.sequence == ticket.sequence { Some(waiter) } else { None }
    }

    /// An attempt of a client has been answered.
    pub fn answered(&mut self, ticket: &Ticket, reply: &[u8], now_us: u64) -> Answered {
        let id = WaiterId::of(ticket);
        let Some(waiter) = self.known(ticket) else { return Answered::Deliver };
        let serving = waiter.serving.take();
        let is_first = serving == Some(Serving::First);
        if !ticket.waits_after(reply) && (is_first || !waiter.command.stays_after(reply)) {
            self.claims.served(id, now_us);
            let Some(served) = self.remove(id) else { return Answered::Deliver };
            if reply.first() == Some(&b'-') {
                self.pass_on(&served, serving);
            }
            // Its group was there when it began to wait.
            if !is_first && reply.starts_with(b"-NOGROUP ") {
                return Answered::DeliverInstead(served.reply_to(served.end.unwrap_or(End::NoGroup)));
            }
            return Answered::Deliver;
        }
        let is_late = waiter.until_us.is_some_and(|until_us| until_us <= now_us);
        if let Some(end) = waiter.end.or(is_late.then_some(End::Timeout)) {
            let reply = waiter.reply_to(end);
            self.remove(id);
            return Answered::DeliverInstead(reply);
        }
        if std::mem::take(&mut waiter.missed) {
            self.retry_all(id);
        }
        if !self.foreign.is_empty() && reply.first() != Some(&b'-') {
            // They were looked at, and hold nothing.
            match serving {
                Some(Serving::Of(hash)) => _ = self.foreign.remove(&hash),
                Some(Serving::First | Serving::All) => {
                    let command = self.waiters.get(&id).map(|waiter| waiter.command.clone());
                    let keys = command.iter().flat_map(BlockingCommand::keys);
                    keys.for_each(|(hash, _)| _ = self.foreign.remove(hash));
                }
                Some(Serving::Ends) | None => {}
            }
        }
        if is_first {
            self.queue_up(id);
        }
        Answered::Waits(is_first)
    }

    /// What was there for a client is still there, since its attempt failed: it is the next one's.
    fn pass_on(&mut self, served: &Waiter, serving: Option<Serving>) {
        let Some(Serving::Of(hash)) = serving else { return };
        let keys = served.command.keys();
        let Some((_, key)) = keys.iter().find(|(of, _)| *of == hash) else { return };
        let after = served.place.unwrap_or_default();
        self.make_ready(Ready {
            key: key.to_vec(),
            what: served.command.awaited(),
            left: 1,
            is_expected: false,
            after,
        });
    }

    /// The place of the last client that has begun to wait.
    pub(super) fn last_place(&self) -> QueuePlace {
        self.last_place
    }

    /// An entry has written a key, when clients up to `until` waited. If a stream is gone, `end_losers` ends the waits for its groups.
    pub(super) fn ready(&mut self, ready: ReadyKey, until: QueuePlace) {
        let ReadyKey { key, holds, is_other } = ready;
        let hash = key_hash(&key);
        if !self.needing.is_empty()
            && holds.is_none_or(|holds| holds.what != Awaited::Stream)
            && self.queues.behind(hash, QueuePlace::default()).next().is_some()
        {
            let lost = || LostKey { key: key.clone(), losing: Losing::default() };
            self.lost_keys.entry(hash).or_insert_with(lost).losing.until = until;
        }
        self.note_contents(hash, holds.as_ref(), is_other);
        if let Some(holds) = holds {
            self.make_ready_for(key, holds);
        }
    }

    /// An entry has left a key so. `is_other`: it holds what no client waits for.
    fn note_contents(&mut self, hash: KeyHash, holds: Option<&Holds>, is_other: bool) {
        let mut waiters = self.queues.behind(hash, QueuePlace::default()).filter_map(|place| self.at(place));
        let is_foreign =
            waiters.next().is_some_and(|waiter| holds.map_or(is_other, |holds| holds.what != waiter.command.awaited()));
        drop(waiters);
        if !is_foreign {
            self.foreign.remove(&hash);
            return;
        }
        if self.foreign.len() >= BLOCKED_KEYS_MAX {
            let queues = &self.queues;
            self.foreign.retain(|hash| queues.behind(*hash, QueuePlace::default()).next().is_some());
        }
        if self.foreign.len() < BLOCKED_KEYS_MAX {
            self.foreign.insert(hash);
        }
    }

    /// A shard has no keys any more. Very many waits end by and by.
    pub fn cleared(&mut self, shard: ShardId) -> Vec<Ended> {
        if !self.needing.is_empty() {
            self.lost_shards.entry(shard).or_default().until = self.last_place;
        }
        self.end_losers(BLOCKED_CLIENTS_STEP_MAX)
    }

    /// Whether there may be clients whose wait is to end because their stream is gone.
    #[must_use]
    pub fn has_losers(&self) -> bool {
        !self.lost_keys.is_empty() || !self.lost_shards.is_empty()
    }

    /// Ends the waits of some whose stream is gone: looks at up to `looks` clients.
    pub fn end_losers(&mut self, mut looks: usize) -> Vec<Ended> {
        let mut ended = Vec::new();
        while looks > 0
            && let Some((hash, mut lost)) = self.lost_keys.pop_first()
        {
            let Losing { after, until } = lost.losing;
            let found: Vec<(QueuePlace, WaiterId)> =
                self.queues.behind(hash, after).take_while(|(place, _)| *place <= until).take(looks).collect();
            let is_over = found.len() < looks;
            looks = looks.saturating_sub(found.len().max(1));
            for (place, id) in found {
                lost.losing.after = place;
                // One that began to wait afterwards has lost nothing.
                let loses = |waiter: &Waiter| waiter.since.is_some_and(|since| since <= until);
                if self.at((place, id)).is_some_and(|waiter| loses(waiter) && waiter.command.needs(&lost.key)) {
                    ended.extend(self.end_of(id, End::NoStream));
                }
            }
            if !is_over {
                self.lost_keys.insert(hash, lost);
            }
        }
        while looks > 0
            && let Some((shard, Losing { after, until })) = self.lost_shards.pop_first()
        {
            let last = WaiterId { worker: u32::MAX, connection: u32::MAX, generation: u32::MAX };
            let range = (Bound::Excluded((after, last)), Bound::Included((until, last)));
            let found: Vec<(QueuePlace, WaiterId)> = self.needing.range(range).take(looks).copied().collect();
            let is_over = found.len() < looks;
            looks = looks.saturating_sub(found.len().max(1));
            let after = found.last().map_or(after, |(place, _)| *place);
            for (_, id) in found {
                if self.waiters.get(&id).is_some_and(|waiter| waiter.shard == shard) {
                    ended.extend(self.end_of(id, End::NoStream));
                }
            }
            if !is_over {
                self.lost_shards.insert(shard, Losing { after, until });
            }
        }
        ended
    }

    fn make_ready_for(&mut self, key: Vec<u8>, holds: Holds) {
        let left = if holds.what == Awaited::Stream { u64::MAX } else { holds.elements };
        self.make_ready(Ready { key, what: holds.what, left, is_expected: false, after: QueuePlace::default() });
    }

    /// What is proposed now is likely to leave elements at a key: as many that wait for it are tried behind that.
    pub(super) fn expect(&mut self, key: &[u8], what: Awaited, elements: u64) {
        match self.ready.get_mut(&key_hash(key)) {
            Some(ready) if ready.what == what => ready.left = ready.left.saturating_add(elements),
            Some(_) => {}
            None => {
                let after = QueuePlace::default();
                self.make_ready(Ready { key: key.to_vec(), what, left: elements, is_expected: true, after });
            }
        }
    }

    fn make_ready(&mut self, ready: Ready) {
        let hash = key_hash(&ready.key);
        if self.queues.behind(hash, ready.after).next().is_some() && self.ready.insert(hash, ready).is_none() {
            self.ready_order.push_back(hash);
        }
    }

    /// What is to be proposed now; looks at up to `looks` clients, fewer if they wait for many keys.
    pub fn take_attempts(&mut self, mut looks: usize) -> Vec<Attempt> {
        let mut attempts = Vec::new();
        while looks > 0 {
            let attempt = if let Some(id) = self.retries.pop_front() {
                self.waiters.get_mut(&id).and_then(|waiter| waiter.retry())
            } else if let Some(&hash) = self.ready_order.front() {
                self.attempt_for(hash)
            } else {
                break;
            };
            let of = attempt.as_ref().and_then(|attempt| self.waiters.get(&WaiterId::of(&attempt.ticket)));
            looks = looks.saturating_sub(of.map_or(1, |waiter| waiter.looks()));
            attempts.extend(attempt);
        }
        attempts
    }

    /// The attempt for the next one that waits for a key that is ready, if there is one to make.
    fn attempt_for(&mut self, hash: KeyHash) -> Option<Attempt> {
        let after = self.ready.get(&hash).map(|ready| ready.after).unwrap_or_default();
        let next = self.queues.behind(hash, after).next();
        let (Some(ready), Some((place, id))) = (self.ready.get_mut(&hash).filter(|ready| ready.left > 0), next) else {
            self.end_ready(hash);
            return None;
        };
        ready.after = place;
        let waiter = self.waiters.get_mut(&id).filter(|waiter| waiter.place == Some(place));
        let attempt = waiter.and_then(|waiter| waiter.try_for(hash, ready));
        if ready.left == 0 {
            self.end_ready(hash);
        }
        attempt
    }

    /// The first of the keys that are ready has served all that it can.
    fn end_ready(&mut self, hash: KeyHash) {
        self.ready.remove(&hash);
        self.ready_order.pop_front();
    }

    /// What a client waits for that begins to wait, if it names the ends of streams as they are now.
    #[must_use]
    pub(super) fn floating(&self, ticket: &Ticket) -> Option<(ShardId, &BlockingCommand)> {
        let waiter = self.waiters.get(&WaiterId::of(ticket))?;
        waiter.command.is_floating().then_some((waiter.shard, &waiter.command))
    }

    /// What a client asks for that waits with CLAIM.
    #[must_use]
    pub(super) fn claiming(&self, ticket: &Ticket) -> Option<(ShardId, Claiming)> {
        let waiter = self.waiters.get(&WaiterId::of(ticket))?;
        Some((waiter.shard, waiter.command.claiming()?))
    }

    /// A client that waits with CLAIM is looked after from now on.
    pub(super) fn begin_claim(&mut self, ticket: &Ticket, claiming: Claiming, shard: &Arc<ShardHandle>, now: Moment) {
        let id = WaiterId::of(ticket);
        if let Some(waiter) = self.waiters.get(&id)
            && let Some(place) = waiter.place
        {
            self.claims.begin((place, id), claiming, waiter.command.shared_keys(), shard, now);
        }
    }

    /// The next look at what is pending that is due, if one is, and none is under way.
    pub(super) fn begin_look(&mut self, now: Moment) -> Option<DueLook> {
        self.claims.begin_look(now)
    }

    /// Whether clients wait for what a look finds.
    pub(super) fn is_wanted(&self, due: &DueLook) -> bool {
        self.claims.has_party(due.party)
    }

    /// The look is over: clients that can have some of what it found are tried.
    pub(super) fn looked(&mut self, due: &DueLook, now: Moment) {
        for id in self.claims.looked(due.party, &due.look, now) {
            if self.waiters.get(&id).is_some_and(|waiter| waiter.serving.is_none()) {
                self.retry_all(id);
            }
        }
    }

    /// Where the streams of a client end is being read: it is not tried, and does not end, before that is known.
    pub(super) fn reads_ends(&mut self, ticket: &Ticket) {
        if let Some(waiter) = self.known(ticket) {
            waiter.serving = Some(Serving::Ends);
            waiter.missed |= std::mem::take(&mut waiter.is_to_retry);
        }
    }

    /// A client waits for this instead, for the same keys; `None`: it is not known where its streams end. Its answer, if it was to end
    /// meanwhile.
    pub(super) fn fix(&mut self, ticket: &Ticket, command: Option<BlockingCommand>) -> Option<Ended> {
        let waiter = self.known(ticket)?;
        waiter.command = command.unwrap_or_else(|| waiter.command.clone());
        if waiter.serving != Some(Serving::Ends) {
            return None;
        }
        waiter.serving = None;
        let id = WaiterId::of(ticket);
        if let Some(end) = waiter.end {
            return self.end_of(id, end);
        }
        if std::mem::take(&mut waiter.missed) {
            self.retry_all(id);
        }
        None
    }

    /// A client is to be tried with all its keys.
    fn retry_all(&mut self, id: WaiterId) {
        if let Some(waiter) = self.waiters.get_mut(&id) {
            (waiter.serving, waiter.is_to_retry) = (Some(Serving::All), true);
            self.retries.push_back(id);
        }
    }

    /// Ends the waits whose time is over: up to `max`.
    pub fn expire(&mut self, now_us: u64, max: usize) -> Vec<Ended> {
        let mut ended = Vec::new();
        while ended.len() < max
            && let Some((until_us, id)) = self.deadlines.pop_first()
        {
            if until_us > now_us {
                self.deadlines.insert((until_us, id));
                break;
            }
            ended.extend(self.end_of(id, End::Timeout));
        }
        ended
    }

    /// Ends a client's wait. `None` if it has an attempt under way, after which it ends, or is not known.
    pub fn end(&mut self, ticket: &Ticket, end: End) -> Option<Ended> {
        self.known(ticket)?;
        self.end_of(WaiterId::of(ticket), end)
    }

    fn end_of(&mut self, id: WaiterId, end: End) -> Option<Ended> {
        let waiter = self.waiters.get_mut(&id)?;
        if waiter.serving.is_some() && !waiter.is_to_retry && !waiter.joins {
            waiter.end = Some(end);
            return None;
        }
        let waiter = self.remove(id)?;
        Some(Ended { ticket: waiter.ticket, reply: waiter.reply_to(end) })
    }

    /// Takes a client out whose attempt could not be proposed, or whose slot is another shard's: its command, with the time
    /// that is left. `None` if it is not known.
    pub fn withdraw(&mut self, ticket: &Ticket, now_us: u64) -> Option<Withdrawn> {
        self.known(ticket)?;
        let waiter = self.remove(WaiterId::of(ticket))?;
        if let Some(end) = waiter.end {
            return Some(Withdrawn::Ended(Ended { ticket: *ticket, reply: waiter.reply_to(end) }));
        }
        let left_ms = waiter.until_us.map(|until_us| until_us.saturating_sub(now_us).div_ceil(1000));
        let waits_in = Box::new(waiter.command.with_timeout(left_ms));
        let attempt = waiter.attempt(waits_in.whole().clone());
        Some(Withdrawn::Again(Attempt { waits_in: Some(waits_in), ..attempt }))
    }

    /// Takes clients out that have no attempt under way and wait for keys of these shards and slots, the first first. Where `looks` are
    /// used up, more of them may be left.
    pub fn withdraw_all(
        &mut self,
        now_us: u64,
        looks: &mut usize,
        is_lost: impl Fn(ShardId, &Ticket) -> bool,
    ) -> Vec<Withdrawn> {
        let idle = self.waiters.values().filter(|waiter| waiter.serving.is_none());
        let mut lost: Vec<(Option<QueuePlace>, Ticket)> = idle
            .filter(|waiter| is_lost(waiter.shard, &waiter.ticket))
            .take_while(|waiter| {
                let is_one = *looks > 0;
                *looks = looks.saturating_sub(waiter.looks());
                is_one
            })
            .map(|waiter| (waiter.place, waiter.ticket))
            .collect();
        lost.sort_by_key(|(place, _)| *place);
        lost.iter().filter_map(|(_, ticket)| self.withdraw(ticket, now_us)).collect()
    }
}

impl Waiter {
    /// As how many looks it counts if its command is made anew: that goes through all its keys.
    fn looks(&self) -> usize {
        1 + self.command.keys().len() / BLOCKED_KEYS_LOOK
    }

    /// The attempt for all its keys, if it still is to be made.
    fn retry(&mut self) -> Option<Attempt> {
        std::mem::take(&mut self.is_to_retry).then(|| self.attempt(self.command.whole().clone()))
    }

    fn reply_to(&self, end: End) -> Vec<u8> {
        end.reply(&self.ticket, &self.command)
    }

    fn attempt(&self, command: EncodedCommand) -> Attempt {
        let keys = self.command.hashes_of(&command);
        Attempt { shard: self.shard, ticket: self.ticket, command, keys, waits_in: None }
    }

    /// The attempt for a key that is ready, if there is one to make for this client.
    fn try_for(&mut self, hash: KeyHash, ready: &mut Ready) -> Option<Attempt> {
        if self.command.awaited() != ready.what || !self.command.waits_for(&ready.key) {
            return None;
        }
        // If the key holds another type, the push fails, and the client must not hear of it. And one that is tried for another key now may
        // get nothing there. What it is first in line for is its own: it is served, and who stands behind it, when the entry is applied.
        let is_tried_elsewhere = self.serving.is_some_and(|serving| serving != Serving::Of(hash));
        if ready.is_expected && (is_tried_elsewhere || !self.command.stays_after(b"-WRONGTYPE")) {
            ready.left = 0;
            return None;
        }
        match self.serving {
            None => {
                self.serving = Some(Serving::Of(hash));
                ready.left -= 1;
                return Some(self.attempt(self.command.only(&ready.key)));
            }
            Some(_) if ready.is_expected => {}
            // It takes one of those that were counted.
            Some(Serving::Of(under_way)) if under_way == hash && ready.what != Awaited::Stream => ready.left -= 1,
            Some(_) => self.missed = true,
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SHARD: ShardId = ShardId(3);

    /// Waiters, and the clients' tickets by their numbers.
    struct Test {
        waiters: Waiters,
        awaited_keys: Arc<AwaitedKeys>,
        now_us: u64,
    }

    fn ticket(client: u32) -> Ticket {
        Ticket { worker: 0, connection: client, may_wait: true, ..Ticket::NONE }
    }

    fn shown(command: &EncodedCommand) -> String {
        let args = command.args();
        args.iter().map(|arg| String::from_utf8_lossy(arg)).collect::<Vec<_>>().join(" ")
    }

    fn text(reply: &[u8]) -> String {
        String::from_utf8_lossy(reply).trim_end().replace("\r\n", " ")
    }

    impl Default for Test {
        fn default() -> Self {
            Self { waiters: Waiters::new(BLOCKED_KEYS_MAX), awaited_keys: Arc::default(), now_us: 0 }
        }
    }

    impl Test {
        fn go_on(&mut self) {
            while self.waiters.is_changing() {
                self.waiters.go_on(usize::MAX);
            }
        }

        /// `CLIENT command …`: it comes; `CLIENT < reply`: its attempt is answered; `CLIENT ! how`: its wait is to end;
        /// `CLIENT out`: it is taken out; `key type n`: an entry has left n elements there; with `+n`, what is proposed will;
        /// `at ms`.
        fn step(&mut self, step: &str) -> String {
            let (first, rest) = step.split_once(' ').unwrap();
            let Ok(client) = first.parse::<u32>() else {
                if first == "at" {
                    self.now_us = rest.parse::<u64>().unwrap() * 1000;
                    let ended = self.waiters.expire(self.now_us, 10);
                    return ended
                        .iter()
                        .map(|ended| format!("{} {} ", ended.ticket.connection, text(&ended.reply)))
                        .collect();
                }
                let (what_is, elements) = rest.split_once(' ').unwrap();
                let what = match what_is {
                    "list" => Some(Awaited::List),
                    "zset" => Some(Awaited::SortedSet),
                    "stream" => Some(Awaited::Stream),
                    _ => None,
                };
                if let Some(more) = elements.strip_prefix('+') {
                    self.waiters.expect(first.as_bytes(), what.unwrap(), more.parse().unwrap());
                    return String::new();
                }
                let holds = what.map(|what| Holds { what, elements: elements.parse().unwrap() });
                let ready = ReadyKey { key: first.as_bytes().to_vec(), holds, is_other: what_is == "string" };
                self.waiters.ready(ready, self.waiters.last_place());
                let ended = self.waiters.end_losers(BLOCKED_CLIENTS_STEP_MAX);
                return ended.iter().map(|ended| text(&ended.reply)).collect();
            };
            let ticket = ticket(client);
            if let Some(reply) = rest.strip_prefix("< ") {
                let reply = format!("{reply}\r\n");
                return match self.waiters.answered(&ticket, reply.as_bytes(), self.now_us) {
                    Answered::Deliver => "deliver".to_owned(),
                    Answered::DeliverInstead(reply) => format!("instead {}", text(&reply)),
                    Answered::Waits(first) => (if first { "waits" } else { "waits on" }).to_owned(),
                };
            }
            if let Some(how) = rest.strip_prefix("! ") {
                let end = match how {
                    "timeout" => End::Timeout,
                    "error" => End::Error,
                    "moved" => End::Moved,
                    _ => End::Gone,
                };
                let ended = self.waiters.end(&ticket, end);
                return ended.map_or_else(|| "later".to_owned(), |ended| text(&ended.reply));
            }
            if rest == "out" {
                return match self.waiters.withdraw(&ticket, self.now_us) {
                    Some(Withdrawn::Again(attempt)) => shown(&attempt.command),
                    Some(Withdrawn::Ended(ended)) => text(&ended.reply),
                    None => "unknown".to_owned(),
                };
            }
            let args: Vec<&[u8]> = rest.split(' ').map(str::as_bytes).collect();
            let command = BlockingCommand::of(&EncodedCommand::new(&args));
            let Some(command) = command else { return "propose".to_owned() };
            match self.waiters.begin((SHARD, &self.awaited_keys), ticket, command, self.now_us) {
                Begin::Propose => "propose".to_owned(),
                Begin::Wait => "wait".to_owned(),
                Begin::Later => "joins".to_owned(),
                Begin::Refuse(text) => text.to_owned(),
            }
        }
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut test = Test::default();
        let blpop = |keys: usize, length: usize| {
            let keys: Vec<String> = (0..keys).map(|n| format!("{n}{}", "k".repeat(length))).collect();
            format!("BLPOP {} 0", keys.join(" "))
        };
        for (keys, length, expected) in [
            (BLOCKED_KEYS_MAX, 1, "propose"),
            (BLOCKED_KEYS_MAX + 1, 1, TOO_MANY_KEYS),
            (2, BLOCKED_COMMAND_BYTES_MAX / 2, TOO_MANY_KEYS),
        ] {
            assert_eq!(test.step(&format!("1 {}", blpop(keys, length))), expected);
        }
        let commands: Vec<String> = (1..).map(|client| format!("{client} {}", blpop(4000, 200))).take(400).collect();
        let refused = commands.iter().position(|command| test.step(command) == TOO_MUCH_WAITS).unwrap();
        assert!((100..300).contains(&refused), "{refused}");
        (1..=refused as u32).for_each(|client| _ = test.step(&format!("{client} out")));
        test.go_on();
        assert_eq!((test.waiters.bytes, test.step("1 BLPOP a 0")), (0, "propose".to_owned()));
    }

    #[test]
    fn what_is_far_too_much_is_refused_by_its_length() {
        let refusal = |before: &str, keys: usize, length: usize, after: &str| {
            let words = format!("{before} {} {after}", vec!["k".repeat(length); keys].join(" "));
            let args: Vec<&[u8]> = words.split_whitespace().map(str::as_bytes).collect();
            BlockingCommand::refusal(resp::table::lookup(args[0]).unwrap(), &args)
        };
        for (before, after) in [("BLPOP", "0"), ("BZPOPMIN", "0"), ("XREAD BLOCK 0 STREAMS", "0")] {
            assert_eq!(refusal(before, 2 * BLOCKED_KEYS_MAX + 16, 1, after), Some(TOO_MANY_KEYS), "{before}");
            assert_eq!(refusal(before, 2, BLOCKED_COMMAND_BYTES_MAX, after), Some(TOO_MANY_KEYS), "{before}");
            assert_eq!(refusal(before, BLOCKED_KEYS_MAX, 1, after), None, "{before}");
        }
        // These do not wait.
        assert_eq!(refusal("XREAD STREAMS", 100_000, 1, "0"), None);
        assert_eq!(refusal("DEL", 100_000, 1, ""), None);
    }

    #[test]
    fn clients_of_very_many_keys_leave_some_keys_at_a_time() {
        const CLIENTS: u32 = 3;
        let mut test = Test::default();
        let keys: Vec<String> = (0..BLOCKED_KEYS_MAX).map(|n| format!("k{n}")).collect();
        let blpop = format!("BLPOP {} 0", keys.join(" "));
        let wait = |test: &mut Test, client: u32, command: &str| {
            if test.step(&format!("{client} {command}")) == "propose" {
                assert_eq!(test.step(&format!("{client} < *-1")), "waits");
            }
        };
        (0..CLIENTS).for_each(|client| wait(&mut test, client, &blpop));
        wait(&mut test, CLIENTS, "BLPOP k7 0");
        let held_bytes = test.waiters.bytes;
        for client in 0..CLIENTS {
            assert_eq!(test.step(&format!("{client} ! timeout")), "*-1");
        }
        assert_eq!((test.waiters.len(), test.waiters.bytes, test.waiters.is_changing()), (1, held_bytes, true));
        // One of them waits anew for one of the keys, behind the one that stayed: who has left is passed over.
        wait(&mut test, 0, "BLPOP k7 0");
        assert_eq!(test.step("k7 list 1"), "");
        let served: Vec<u32> = test.waiters.take_attempts(64).iter().map(|it| it.ticket.connection).collect();
        assert_eq!(served, [CLIENTS]);
        let mut steps = 0;
        while test.waiters.is_changing() {
            test.waiters.go_on(1000);
            steps += 1;
        }
        let all_keys = CLIENTS as usize * BLOCKED_KEYS_MAX;
        assert_eq!(steps, all_keys.div_ceil(1000));
        assert_eq!(test.step(&format!("{CLIENTS} < *2")), "deliver");
        assert_eq!(test.step("0 ! gone"), "*-1");
        assert_eq!((test.waiters.bytes, test.awaited_keys.any()), (0, false));
    }

    #[test]
    fn a_client_of_many_keys_is_tried_when_it_stands_in_all_their_queues() {
        let mut test = Test { waiters: Waiters::new(2), ..Test::default() };
        let tried = |test: &mut Test| -> Vec<u32> {
            test.waiters.take_attempts(10).iter().map(|attempt| attempt.ticket.connection).collect()
        };
        assert_eq!(test.step("1 BLPOP a b c 0"), "joins");
        for _ in 0..3 {
            assert!(test.waiters.is_changing() && tried(&mut test).is_empty());
            test.waiters.go_on(1);
        }
        // It does not know yet that there is nothing: another one does not stand behind it.
        assert_eq!((test.step("2 BLPOP a 0"), test.waiters.is_changing()), ("propose".to_owned(), false));
        assert_eq!(tried(&mut test), [1]);
        assert_eq!((test.step("b list 1"), tried(&mut test)), (String::new(), vec![]));
        assert_eq!((test.step("1 < *-1"), tried(&mut test)), ("waits".to_owned(), vec![1]), "it has missed b");
        assert_eq!(test.step("2 < *-1"), "waits");
        assert_eq!(
            (test.step("1 < *-1"), test.step("a list 1"), tried(&mut test)),
            ("waits on".to_owned(), String::new(), vec![1])
        );
        assert_eq!(test.step("3 BLPOP a 0"), "wait");
        assert_eq!(
            (test.step("1 < *2"), test.step("2 ! gone"), test.step("3 ! gone")),
            ("deliver".to_owned(), "*-1".to_owned(), "*-1".to_owned())
        );
        // One leaves while it joins, and one while it leaves others' queues.
        assert_eq!(test.step("4 BLPOP a b c 0"), "joins");
        test.waiters.go_on(1);
        assert_eq!((test.step("4 ! gone"), test.step("5 BLPOP a b c 0")), ("*-1".to_owned(), "joins".to_owned()));
        test.go_on();
        assert_eq!(tried(&mut test), [5]);
        assert_eq!(test.step("5 ! timeout"), "later");
        assert_eq!(test.step("5 < *-1"), "instead *-1");
        test.go_on();
        assert_eq!((test.waiters.bytes, test.waiters.queues.is_empty(), test.awaited_keys.any()), (0, true, false));
    }

    #[test]
    fn a_client_of_many_streams_loses_none_that_came_back_before_it_was_tried() {
        let mut test = Test { waiters: Waiters::new(1), ..Test::default() };
        for client in [1, 2] {
            assert_eq!(test.step(&format!("{client} XREADGROUP GROUP g c BLOCK 0 STREAMS a b > >")), "joins");
            test.go_on();
            assert_eq!(test.waiters.take_attempts(10).len(), 1);
            if client == 1 {
                assert_eq!(test.step("1 < *-1"), "waits");
            }
        }
        assert_eq!(test.step("a none 0"), "-NOGROUP No such key or consumer group: the stream key no longer exists");
        assert_eq!((test.step("2 < *-1"), test.waiters.len()), ("waits".to_owned(), 1));
    }

    #[test]
    fn one_that_ends_before_it_is_tried_again_is_not_tried_twice_when_it_waits_anew() {
        let mut test = Test::default();
        for stays in [false, true] {
            for step in ["1 BLPOP a b 0", "1 < *-1", "b list 1"] {
                test.step(step);
            }
            assert_eq!(test.waiters.take_attempts(10).len(), 1);
            test.step("a list 1");
            assert!(test.waiters.take_attempts(10).is_empty());
            assert_eq!(test.step("1 < *-1"), "waits on");
            assert!(test.waiters.has_ready());
            if !stays {
                assert_eq!(test.step("1 ! error"), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
            }
        }
        assert_eq!(test.waiters.take_attempts(10).len(), 1);
    }

    /// Each step, what comes of it, and what is proposed then.
    fn run(steps: &[(&str, &str)]) {
        let mut test = Test::default();
        for (n, (step, expected)) in steps.iter().enumerate() {
            let mut found = test.step(step).trim_end().to_owned();
            for attempt in test.waiters.take_attempts(10) {
                found += &format!(" | {} {}", attempt.ticket.connection, shown(&attempt.command));
            }
            assert_eq!(found.trim_start(), *expected, "step {n}, {step:?}, of {steps:?}");
        }
        test.go_on();
        assert_eq!(test.awaited_keys.any(), !test.waiters.queues.is_empty());
        assert_eq!(test.waiters.is_empty(), test.waiters.shards().count() == 0);
    }

    #[test]
    fn the_first_to_wait_is_served_first() {
        run(&[
            ("1 BLPOP a 0", "propose"),
            ("1 < *-1", "waits"),
            ("2 BLPOP a 0", "wait"),
            ("3 BRPOP a 0", "wait"),
            ("a list 2", "| 1 BLPOP a 0 | 2 BLPOP a 0"),
            ("4 BLPOP a 0", "wait"),
            ("1 < *2", "deliver"),
            ("2 < *2", "deliver"),
            ("a list 9", "| 3 BRPOP a 0 | 4 BLPOP a 0"),
            ("3 < *2", "deliver"),
            ("4 < *-1", "waits on"),
            ("a list 1", "| 4 BLPOP a 0"),
            ("4 < *2", "deliver"),
        ]);
    }

    #[test]
    fn elements_that_attempts_under_way_will_take_are_not_given_again() {
        run(&[
            ("1 BLPOP a 0", "propose"),
            ("1 < *-1", "waits"),
            ("2 BLPOP a 0", "wait"),
            ("a list 1", "| 1 BLPOP a 0"),
            ("a list 1", ""),
            ("a list 2", "| 2 BLPOP a 0"),
            ("1 < *2", "deliver"),
            ("2 < *2", "deliver"),
        ]);
    }

    #[test]
    fn who_waits_is_tried_behind_what_is_likely_to_leave_an_element() {
        run(&[
            ("1 BLPOP a 0", "propose"),
            ("1 < *-1", "waits"),
            ("2 BLPOP a 0", "wait"),
            ("3 BLPOP a 0", "wait"),
            ("a list +1", "| 1 BLPOP a 0"),
            // Beside what the attempt under way will take.
            ("a list +1", "| 2 BLPOP a 0"),
            ("1 < *2", "deliver"),
            // The push has failed, or another has taken the element.
            ("2 < *-1", "waits on"),
            ("a none 0", ""),
            ("a list 1", "| 2 BLPOP a 0"),
            ("2 < *2", "deliver"),
            // Its error would be the client's: it is tried when the element is there.
            ("4 BLMOVE a b LEFT LEFT 0", "wait"),
            ("a list +1", "| 3 BLPOP a 0"),
            ("3 < *-1", "waits on"),
            ("3 ! gone", "*-1"),
            ("a list +1", ""),
            ("a list 1", "| 4 BLMOVE a b LEFT LEFT 0"),
            ("4 < $1", "deliver"),
            ("3 BLPOP a 0", "propose"),
            ("3 < *-1", "waits"),
            // It was applied before the attempt: this is about the same element.
            ("a list +2", "| 3 BLPOP a 0"),
            ("a list 1", ""),
            ("3 < *2", "deliver"),
            ("a list +1", ""),
        ]);
    }

    #[test]
    fn one_that_waits_for_several_keys_is_served_once() {
        run(&[
            ("1 BLPOP a b 0", "propose"),
            ("1 < *-1", "waits"),
            ("b list 1", "| 1 BLPOP b 0"),
            ("a list 1", ""),
            ("1 < *2", "deliver"),
            // Another has taken what was at b: what came to a meanwhile is looked at.
            ("1 BLPOP a b 0", "propose"),
            ("1 < *-1", "waits"),
            ("b list 1", "| 1 BLPOP b 0"),
            ("a list 1", ""),
            ("1 < *-1", "waits on | 1 BLPOP a b 0"),
            ("1 < *2", "deliver"),
            // One of the keys has others, the other one has none: it may be there.
            ("2 BLPOP a 0", "propose"),
            ("2 < *-1", "waits"),
            ("1 BLPOP a b 0", "propose"),
            ("2 ! gone", "*-1"),
            ("1 < *2", "deliver"),
        ]);
    }

    #[test]
    fn who_waits_for_another_type_is_left_alone() {
        run(&[
            ("2 BLPOP a 0", "propose"),
            ("2 < *-1", "waits"),
            ("a string 0", ""),
            ("a zset 5", ""),
            ("a list 5", "| 2 BLPOP a 0"),
            // It was overwritten before the attempt.
            ("2 < -WRONGTYPE Operation", "waits on"),
            ("2 ! gone", "*-1"),
        ]);
    }

    #[test]
    fn a_key_of_another_type_is_told_to_who_comes_then() {
        run(&[
            ("1 BLPOP a 0", "propose"),
            ("1 < *-1", "waits"),
            ("2 BLPOP a 0", "wait"),
            ("a zset 1", ""),
            // The shard says that it is a sorted set.
            ("3 BLPOP a 0", "propose"),
            ("3 < -WRONGTYPE Operation", "deliver"),
            ("4 BLPOP a b 0", "propose"),
            ("4 < *-1", "waits"),
            ("a list 1", "| 1 BLPOP a 0"),
            ("1 < *2", "deliver"),
            // It was popped, and holds nothing.
            ("a none 0", ""),
            ("5 BLPOP a 0", "wait"),
            ("a string 0", ""),
            ("6 BLPOP a 0", "propose"),
            // It was removed meanwhile.
            ("6 < *-1", "waits"),
            ("7 BLPOP a 0", "wait"),
        ]);
    }

    #[test]
    fn who_cannot_be_tried_behind_a_push_keeps_its_place() {
        run(&[
            ("1 BLMOVE a s LEFT LEFT 0", "propose"),
            ("1 < $-1", "waits"),
            ("2 BLPOP a 0", "wait"),
            ("a list +1", ""),
            ("a list 1", "| 1 BLMOVE a s LEFT LEFT 0"),
            ("1 < $1", "deliver"),
            ("a list +1", "| 2 BLPOP a 0"),
            ("2 < *2", "deliver"),
            // It is tried for one key, where it may find nothing.
            ("3 BLPOP b c 0", "propose"),
            ("3 < *-1", "waits"),
            ("4 BLPOP c 0", "wait"),
            ("b list +1", "| 3 BLPOP b 0"),
            ("c list +1", ""),
            ("3 < *-1", "waits on"),
            ("c list 1", "| 3 BLPOP c 0"),
        ]);
    }

    #[test]
    fn what_a_failed_attempt_leaves_is_the_next_ones() {
        run(&[
            ("1 BLMOVE a s LEFT LEFT 0", "propose"),
            ("1 < $-1", "waits"),
            ("2 BLPOP a 0", "wait"),
            ("3 BLPOP a 0", "wait"),
            ("a list 1", "| 1 BLMOVE a s LEFT LEFT 0"),
            ("1 < -WRONGTYPE Operation", "deliver | 2 BLPOP a 0"),
            ("2 < *2", "deliver"),
            ("3 ! error", "-UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        ]);
    }

    #[test]
    fn waits_end_at_their_time_or_when_they_are_told() {
        run(&[
            ("1 BLPOP a 1", "propose"),
            ("1 < *-1", "waits"),
            ("2 BLPOP a 2", "wait"),
            ("3 BLPOP a 2", "wait"),
            ("at 999", ""),
            ("at 1000", "1 *-1"),
            ("a list 1", "| 2 BLPOP a 2"),
            // It ends after its attempt.
            ("at 2000", "3 *-1"),
            ("2 < *-1", "instead *-1"),
            ("4 BLPOP a 0", "propose"),
            ("4 ! error", "later"),
            ("4 < *-1", "instead -UNBLOCKED client unblocked via CLIENT UNBLOCK"),
            ("6 BLPOP a 0", "propose"),
            ("6 < *-1", "waits"),
            ("6 ! moved", "-UNBLOCKED client unblocked via CLIENT UNBLOCK"),
            // Where it reads streams on is told.
            ("6 XREAD BLOCK 0 STREAMS s t 5-1 7", "propose"),
            ("6 < *-1", "waits"),
            ("6 ! moved", "-UNBLOCKED client unblocked via CLIENT UNBLOCK 5-1 7"),
            ("6 XREAD BLOCK 0 STREAMS s 5-1", "propose"),
            ("6 ! moved", "later"),
            ("6 < *-1", "instead -UNBLOCKED client unblocked via CLIENT UNBLOCK 5-1"),
            ("6 XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "propose"),
            ("6 < *-1", "waits"),
            ("6 ! moved", "-UNBLOCKED client unblocked via CLIENT UNBLOCK"),
            ("5 BLPOP a 0", "propose"),
            ("5 ! gone", "later"),
            ("5 < *2", "deliver"),
            ("6 BLPOP a -1", "propose"),
            ("6 < -ERR timeout is negative", "deliver"),
        ]);
    }

    #[test]
    fn a_stream_serves_all_and_its_groups_end_with_it() {
        run(&[
            ("1 XREAD BLOCK 0 STREAMS a b 5 7", "propose"),
            ("1 < *-1", "waits"),
            ("2 XREADGROUP GROUP g BLOCK BLOCK 9 STREAMS a >", "propose"),
            ("2 < *-1", "waits"),
            ("a stream 1", "| 1 XREAD BLOCK 0 STREAMS a 5 | 2 XREADGROUP GROUP g BLOCK BLOCK 9 STREAMS a >"),
            ("a stream 1", ""),
            ("1 < *1", "deliver"),
            ("2 < *-1", "waits on | 2 XREADGROUP GROUP g BLOCK BLOCK 9 STREAMS a >"),
            ("2 < -NOGROUP No such", "instead -NOGROUP the consumer group this client was blocked on no longer exists"),
            ("1 XREAD COUNT 2 BLOCK 0 STREAMS a 5", "propose"),
            ("1 < *-1", "waits"),
            ("a string 0", ""),
            ("a stream 1", "| 1 XREAD COUNT 2 BLOCK 0 STREAMS a 5"),
            // It was overwritten before the attempt.
            ("1 < -WRONGTYPE Operation", "waits on"),
            ("2 XREADGROUP GROUP g c BLOCK 9 STREAMS a >", "propose"),
            ("2 < *-1", "waits"),
            ("a none 0", "-NOGROUP No such key or consumer group: the stream key no longer exists"),
            ("2 XREADGROUP GROUP g c BLOCK 9 STREAMS a b > >", "propose"),
            ("2 < *-1", "waits"),
            ("b stream 1", "| 2 XREADGROUP GROUP g c BLOCK 9 STREAMS b >"),
            // The stream goes while the attempt is under way.
            ("b none 0", ""),
            ("2 < -NOGROUP No such", "instead -NOGROUP No such key or consumer group: the stream key no longer exists"),
            ("3 XREADGROUP GROUP g c BLOCK 9 STREAMS a >", "propose"),
            ("3 < -NOGROUP No such", "deliver"),
            ("1 out", "XREAD COUNT 2 BLOCK 0 STREAMS a 5"),
        ]);
    }

    #[test]
    fn very_many_lose_their_stream_by_and_by() {
        const MANY: u32 = 3 * BLOCKED_CLIENTS_STEP_MAX as u32;
        for clears in [false, true] {
            let mut test = Test::default();
            let wait = |test: &mut Test, client: u32| {
                // Every third waits for what need not be there.
                let what = if client.is_multiple_of(3) {
                    "XREAD BLOCK 0 STREAMS a 5"
                } else {
                    "XREADGROUP GROUP g c BLOCK 0 STREAMS a >"
                };
                test.step(&format!("{client} {what}"));
                test.step(&format!("{client} < *-1"));
            };
            (0..MANY).for_each(|client| wait(&mut test, client));
            let gone = |test: &mut Test| match clears {
                true => test.waiters.cleared(SHARD),
                false => {
                    test.waiters.ready(
                        ReadyKey { key: b"a".to_vec(), holds: None, is_other: false },
                        test.waiters.last_place(),
                    );
                    test.waiters.end_losers(BLOCKED_CLIENTS_STEP_MAX)
                }
            };
            let mut ended = gone(&mut test);
            assert!((1..=BLOCKED_CLIENTS_STEP_MAX).contains(&ended.len()) && test.waiters.has_losers());
            // Who comes now has lost nothing, until that is gone as well.
            wait(&mut test, MANY + 1);
            ended.extend(test.waiters.end_losers(BLOCKED_CLIENTS_STEP_MAX));
            let mut steps = 0;
            while test.waiters.has_losers() {
                ended.extend(test.waiters.end_losers(BLOCKED_CLIENTS_STEP_MAX));
                steps += 1;
            }
            let clients: BTreeSet<u32> = ended.iter().map(|ended| ended.ticket.connection).collect();
            assert_eq!(clients, (0..MANY).filter(|client| client % 3 > 0).collect(), "clears: {clears}");
            assert!(steps <= 3 && test.waiters.len() == MANY as usize / 3 + 1, "{steps}");
            assert_eq!(gone(&mut test).len(), usize::from(clears));
            while test.waiters.has_losers() {
                test.waiters.end_losers(BLOCKED_CLIENTS_STEP_MAX);
            }
            assert_eq!(test.waiters.len(), MANY as usize / 3);
        }
    }

    #[test]
    fn one_that_is_routed_anew_keeps_its_time() {
        run(&[
            ("1 BLMPOP 2.5 2 a b LEFT COUNT 3", "propose"),
            ("1 < *-1", "waits"),
            ("at 1000", ""),
            ("b list 1", "| 1 BLMPOP 2.5 1 b LEFT COUNT 3"),
            ("1 out", "BLMPOP 1.500 2 a b LEFT COUNT 3"),
            ("1 out", "unknown"),
            ("1 BLPOP a 0", "propose"),
            ("1 < *-1", "waits"),
            ("1 out", "BLPOP a 0.000"),
            ("1 BLPOP a 0", "propose"),
            ("1 ! gone", "later"),
            ("1 out", "*-1"),
        ]);
    }
}
