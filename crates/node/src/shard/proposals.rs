//! Writes on their way through the log: queued, proposed, committed, and kept until all replicas have them; and the clients
//! that wait for them.

use super::entry_fill::EntryFill;
use super::pending::Pending;
use super::script_lane::ScriptLane;
use super::{Answers, CommandRows, Effects, KeyHash, Proposer, Ticket, Write, refuse};
use crate::ShardHandle;
use crate::entry_id::EntryId;
use crate::format::entry::{Bounding, CollectFrom, EntryBuilder, EntryTerms, Split};
use crate::format::key_bound::KeyBound;
use crate::format::packing::Packing;
use crate::format::slots::Slots;
use crate::guarantees::Acks;
use crate::outcome::{NOT_WRITTEN, REPLICA_GONE, ROWS_ARRIVED, SCRIPTS_WAIT, SLOT_GONE, UNCONFIRMED, UNKNOWN};
use crate::read::Deadline;
use crate::tracking::Registers;
use replica::Replica;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use vocab::{Moment, ShardId, limits};

/// After this time, in µs, the client of a write that no majority has confirmed is told that the outcome is unknown. A large
/// entry has the time besides that the slowest disk takes for it.
const PATIENCE_US: u64 = 5_000_000;

struct Proposed {
    index: u64,
    term: u64,
    /// After this time its clients are told that the outcome is unknown, in µs.
    patient_until_us: u64,
    tickets: Vec<Ticket>,
    rows: CommandRows,
    /// How many scripts it runs.
    scripts: usize,
}

/// What is known of an entry that this replica has proposed itself.
#[derive(Default)]
pub(super) struct OwnEntry {
    /// The tickets of its items, in their order.
    pub(super) tickets: Vec<Ticket>,
    /// The rows of its commands, in their order.
    pub(super) rows: CommandRows,
    /// This replica has proposed it.
    pub(super) is_own: bool,
}

impl OwnEntry {
    /// Whether one of its requests is about a value that an event loop leaves to a thread, as far as was known.
    pub(super) fn has_long_value(&self) -> bool {
        self.tickets.iter().any(|ticket| ticket.reply_bytes > limits::APPLY_INLINE_BYTES_MAX)
    }

    /// Who has proposed it.
    pub(super) fn proposer(&self) -> Proposer {
        let (mut may_wait, mut registers) = (false, false);
        for ticket in &self.tickets {
            may_wait |= ticket.may_wait;
            registers |= ticket.registers != Registers::Nothing;
        }
        Proposer { is_here: self.is_own, may_wait, registers }
    }
}

/// Answers that wait for every replica.
struct UnsentAnswer {
    index: u64,
    since_us: u64,
    ticket: Ticket,
    reply: Vec<u8>,
}

/// The write barrier of one shard. It ends by itself.
#[derive(Debug, Default)]
struct WriteBarrier {
    /// Until when no write is proposed, in µs of the steady clock; 0: no barrier stands.
    until_us: u64,
}

impl WriteBarrier {
    /// From now on no write is proposed, for `for_us`.
    fn begin(&mut self, now: Moment, for_us: u64) {
        self.until_us = now.mono_us + for_us;
    }

    /// Writes go on.
    fn end(&mut self) {
        self.until_us = 0;
    }

    /// Whether writes wait.
    fn stands(&self, now: Moment) -> bool {
        now.mono_us < self.until_us
    }
}

/// The writes of one shard that are under way.
#[derive(Default)]
pub(super) struct Proposals {
    /// Entries that are being filled; the last one takes the next write.
    queue: VecDeque<Pending>,
    /// Where scripts wait for those before them.
    lane: ScriptLane,
    /// Proposed entries and who waits for them, by index.
    proposed: VecDeque<Proposed>,
    /// Applied, but not on every replica yet, by index.
    unsent: VecDeque<UnsentAnswer>,
    /// A part of a split could not be proposed.
    split_lost: bool,
    /// The last write was `nosync`.
    careless: bool,
    /// Of the metadata group: the first map.
    first_map: Option<Vec<u8>>,
    /// The steady clock at the last call, in µs.
    now_us: u64,
    barrier: WriteBarrier,
    fill: EntryFill,
    /// The most keys of databases, by slot; none if none has a bound.
    key_bounds: Option<Arc<[KeyBound]>>,
}

/// Those of the bounds that are about what an entry's writes may touch.
fn bounds_of(bounds: &[KeyBound], tickets: &[Ticket]) -> Vec<KeyBound> {
    let (mut found, mut last) = (BTreeSet::new(), None);
    for span in tickets.iter().map(Ticket::span) {
        // Most are of one slot.
        if last.replace(span) != Some(span) {
            let first = bounds.partition_point(|bound| bound.slot < span.first());
            found.extend((first..bounds.len()).take_while(|at| span.contains(bounds[*at].slot)));
        }
    }
    found.into_iter().map(|at| bounds[at]).collect()
}

/// Answers those clients of an entry, which is proposed, that do not wait until it is committed: `early` are their places among
/// the tickets, and the answers.
fn answer_early(
    early: &[(usize, &'static [u8])],
    tickets: &mut [Ticket],
    (entry, handle): (EntryId, &ShardHandle),
    effects: &mut dyn Effects,
) {
    if early.is_empty() {
        return;
    }
    // Before the first answer: a WAIT that follows one counts who holds it.
    handle.followers().note_early(entry);
    for (at, reply) in early {
        let ticket = std::mem::replace(&mut tickets[*at], Ticket::NONE);
        effects.answer(&Ticket { early: Some(entry), ..ticket }, reply);
    }
}

impl Proposals {
    /// Takes a write in; false if too many scripts wait.
    #[must_use]
    pub(super) fn push(&mut self, write: &Write, keys: &[KeyHash], ticket: Ticket) -> bool {
        self.careless = !ticket.sync;
        // FLUSHALL has a ticket of its own, and removes what its client has written before.
        let clears_behind = matches!(write, Write::Clear) && !self.lane.is_empty();
        let waits = || write.scripts() > 0 && !self.lane.is_open(self.scripts_under_way());
        if clears_behind || self.lane.holds(&ticket) || waits() {
            return self.lane.push(write, keys, ticket, self.now_us);
        }
        let fill = &self.fill;
        if self.queue.back().is_none_or(|last| fill.is_full(last.tickets.len()) || !last.takes(write, keys, &ticket)) {
            self.queue.push_back(Pending::new(self.now_us));
        }
        self.queue.back_mut().expect("one was pushed if there was none").add(write, keys, ticket);
        true
    }

    /// How many scripts are queued, proposed or being applied.
    fn scripts_under_way(&self) -> usize {
        let queued: usize = self.queue.iter().map(|pending| pending.scripts).sum();
        let proposed: usize = self.proposed.iter().map(|proposed| proposed.scripts).sum();
        queued + proposed + self.lane.running()
    }

    /// Queues the writes whose turn it is after scripts: all of them if this replica does not lead, so that their clients are told.
    pub(super) fn end_turns(&mut self, is_leader: bool) {
        if self.lane.is_empty() {
            return;
        }
        if !is_leader {
            self.open_lane();
            self.lane = ScriptLane::default();
        }
        let mut under_way = self.scripts_under_way();
        while let Some(pending) = self.lane.next(under_way) {
            under_way += pending.scripts;
            self.queue.push_back(pending.since(self.now_us));
        }
    }

    /// Queues all writes that wait for their turn.
    fn open_lane(&mut self) {
        let now_us = self.now_us;
        self.queue.extend(self.lane.open().map(|pending| pending.since(now_us)));
    }

    /// The entry that was taken last is applied. `slow_us`: how long slow entries of the shard have taken together.
    pub(super) fn applied(&mut self, slow_us: u64) {
        self.lane.applied(slow_us);
    }

    /// Whether what commands of a queued entry write depends on what it says before them.
    pub(super) fn pack(&self) -> bool {
        self.queue.iter().any(|pending| pending.packs)
    }

    /// Whether what commands of a queued entry do depends on the rules that it tells.
    pub(super) fn are_ruled(&self) -> bool {
        self.queue.iter().any(|pending| pending.is_ruled)
    }

    /// Databases may have so many keys from now on: sorted by slot.
    pub(super) fn bound_keys(&mut self, bounds: Option<Arc<[KeyBound]>>) {
        self.key_bounds = bounds;
    }

    /// Whether databases have bounds.
    pub(super) fn bounds_keys(&self) -> bool {
        self.key_bounds.is_some()
    }

    /// A step of background collection. No client waits for it.
    pub(super) fn push_housekeeping(&mut self) {
        if self.queue.back().is_none_or(|last| last.closed) {
            self.queue.push_back(Pending::new(self.now_us));
        }
        if let Some(last) = self.queue.back_mut() {
            last.entry.housekeeping();
            // Its index must not go to another entry once it is committed, so it is synced as clients' writes are.
            last.sync |= !self.careless;
        }
    }

    /// A step of background collection that begins at `from`: an entry of its own, which says by its first item what it is.
    pub(super) fn push_collect(&mut self, from: &CollectFrom) {
        let mut pending = Pending::new(self.now_us);
        pending.entry.collect(from);
        // Its index must not be given to another entry once it is committed: it is kept as clients' writes are.
        pending.sync = !self.careless;
        pending.closed = true;
        self.queue.push_back(pending);
    }

    /// Has all replicas flush their trees.
    pub(super) fn push_seal(&mut self) {
        self.push_part_of_split(|entry| entry.flush_trees());
    }

    /// The shard is to split. Writes that were taken before come before the split in the log.
    pub(super) fn push_split(&mut self, split: &Split) {
        self.push_part_of_split(|entry| entry.split(split));
    }

    /// Whether a part of a split could not be proposed since the last call.
    pub(super) fn take_lost_split(&mut self) -> bool {
        std::mem::take(&mut self.split_lost)
    }

    fn push_part_of_split(&mut self, fill: impl FnOnce(&mut EntryBuilder)) {
        self.open_lane();
        let mut pending = Pending::new(self.now_us);
        fill(&mut pending.entry);
        pending.splits = true;
        pending.closed = true;
        pending.sync = true;
        self.queue.push_back(pending);
    }

    pub(super) fn set_first_map(&mut self, change: Vec<u8>) {
        self.first_map = Some(change);
    }

    /// The metadata group has no map yet: its first entry brings it.
    pub(super) fn begin_map(&mut self) {
        if let Some(change) = self.first_map.clone() {
            let mut pending = Pending::new(self.now_us);
            pending.entry.change(&change);
            pending.begins = true;
            pending.closed = true;
            pending.sync = true;
            self.queue.push_front(pending);
        }
    }

    /// Proposes what is queued, or refuses it if the replica does not lead. True if a large entry is still being copied
    /// together.
    pub(super) fn propose(
        &mut self,
        replica: &mut Replica,
        handle: &ShardHandle,
        terms: EntryTerms,
        now: Moment,
        effects: &mut dyn Effects,
    ) -> bool {
        self.now_us = now.mono_us;
        while let Some(mut pending) = self.queue.pop_front() {
            if pending.entry.is_empty() {
                continue;
            }
            if replica.is_leader() && !pending.entry.fill(limits::ENTRY_FILL_BYTES) {
                self.queue.push_front(pending);
                return true;
            }
            if pending.packs {
                let packing = handle.packing();
                if packing != Packing::default() {
                    pending.entry.packing(packing);
                }
                pending.entry.pop(terms.pops);
            }
            if pending.is_ruled {
                pending.entry.go_by(terms.rules);
            }
            if terms.bounding > Bounding::None
                && !pending.rows.is_empty()
                && let Some(bounds) = &self.key_bounds
            {
                let bounds = bounds_of(bounds, &pending.tickets);
                if !bounds.is_empty() {
                    pending.entry.bound_keys(&bounds, terms.bounding);
                }
            }
            let bytes = pending.entry.bytes() as u64;
            let proposed = if replica.is_leader() {
                replica.propose(pending.entry.seal_for(terms), pending.sync)
            } else {
                Err(replica::Error::NotLeader)
            };
            match proposed {
                Ok((index, term)) => {
                    let entry = EntryId { shard: handle.id(), index, term };
                    answer_early(&pending.early, &mut pending.tickets, (entry, handle), effects);
                    self.proposed.push_back(Proposed {
                        index,
                        term,
                        patient_until_us: now.mono_us + PATIENCE_US + bytes / limits::DISK_BYTES_PER_US_MIN,
                        tickets: std::mem::take(&mut pending.tickets),
                        rows: std::mem::take(&mut pending.rows),
                        scripts: pending.scripts,
                    });
                }
                Err(_) if pending.splits => self.split_lost = true,
                Err(replica::Error::Busy) => {
                    let text = "BUSY too many writes are under way in this shard, try again later";
                    pending.tickets.iter().for_each(|ticket| refuse(text, ticket, effects));
                }
                Err(e @ replica::Error::TooLarge(_)) => {
                    let text = format!("ERR {e}; nothing was written");
                    pending.tickets.iter().for_each(|ticket| refuse(&text, ticket, effects));
                }
                Err(_) => pending.tickets.iter().for_each(|ticket| effects.not_leader(handle.id(), ticket)),
            }
        }
        false
    }

    /// What is known of the entry of that index and term, which is applied now. Entries that were proposed in an earlier
    /// term for this index or a later one were replaced by another leader's: their clients are sent there. Entries for
    /// an earlier index that were not applied here may have come with a snapshot: their outcome is unknown.
    pub(super) fn take(&mut self, index: u64, term: u64, handle: &ShardHandle, effects: &mut dyn Effects) -> OwnEntry {
        handle.followers().comes_to(index, term);
        while let Some(front) = self.proposed.pop_front_if(|front| front.index <= index || front.term < term) {
            if front.index == index && front.term == term {
                self.lane.runs(front.scripts, handle.slow_us());
                return OwnEntry { tickets: front.tickets, rows: front.rows, is_own: true };
            }
            if front.index < index {
                front.tickets.iter().for_each(|ticket| refuse(ROWS_ARRIVED, ticket, effects));
            } else {
                front.tickets.iter().for_each(|ticket| effects.not_leader(handle.id(), ticket));
            }
        }
        OwnEntry::default()
    }

    /// An event loop has applied an entry of so many requests of this replica, which was too much for it or not.
    pub(super) fn note_apply(&mut self, requests: usize, is_too_much: bool) {
        if is_too_much { self.fill.given_up(requests) } else { self.fill.applied(requests) }
    }

    /// The answer to a write that entry `index` has made.
    pub(super) fn answer(&mut self, index: u64, ticket: &Ticket, reply: &[u8], effects: &mut dyn Effects) {
        // One that waits on has written nothing, and is told apart before the next entry is applied.
        if ticket.acks == Acks::All && !ticket.waits_after(reply) {
            self.keep_answer(index, ticket, reply.to_vec());
        } else {
            effects.answer(ticket, reply);
        }
    }

    /// The same for an answer that is long: it is not copied.
    pub(super) fn answer_long(&mut self, index: u64, ticket: &Ticket, reply: Vec<u8>, effects: &mut dyn Effects) {
        if ticket.acks == Acks::All && !ticket.waits_after(&reply) {
            self.keep_answer(index, ticket, reply);
        } else {
            effects.answer_long(ticket, reply);
        }
    }

    fn keep_answer(&mut self, index: u64, ticket: &Ticket, reply: Vec<u8>) {
        self.unsent.push_back(UnsentAnswer { index, since_us: self.now_us, ticket: *ticket, reply });
    }

    /// Answers those whose write every replica holds by now.
    pub(super) fn settle(&mut self, replica: &Replica, effects: &mut dyn Effects) {
        if self.unsent.is_empty() {
            return;
        }
        if !replica.is_leader() {
            let text = "NOREPLICAS the write is made and on a majority, but this node stopped leading before all replicas had it";
            self.unsent.drain(..).for_each(|unsent| refuse(text, &unsent.ticket, effects));
            return;
        }
        while let Some(front) = self.unsent.front() {
            let (holding, all) = replica.matched_by(front.index);
            if holding < all {
                return;
            }
            if let Some(unsent) = self.unsent.pop_front() {
                effects.answer_long(&unsent.ticket, unsent.reply);
            }
        }
    }

    /// Tells clients that have waited too long. The writes up to `confirmed` will be made, however much has to be applied before
    /// them.
    pub(super) fn expire(&mut self, now: Moment, confirmed: u64, effects: &mut dyn Effects) {
        self.now_us = now.mono_us;
        while let Some(pending) = self.lane.late(now.mono_us) {
            pending.tickets.iter().for_each(|ticket| refuse(SCRIPTS_WAIT, ticket, effects));
        }
        let late = |since_us: u64| now.mono_us > since_us + PATIENCE_US;
        for proposed in &mut self.proposed {
            if now.mono_us <= proposed.patient_until_us {
                break;
            }
            if proposed.index <= confirmed {
                continue;
            }
            proposed.tickets.drain(..).for_each(|ticket| refuse(UNCONFIRMED, &ticket, effects));
        }
        while self.unsent.front().is_some_and(|unsent| late(unsent.since_us)) {
            let text = "NOREPLICAS the write is made and on a majority, but not all replicas had it in time";
            if let Some(unsent) = self.unsent.pop_front() {
                refuse(text, &unsent.ticket, effects);
            }
        }
    }

    /// Waiting clients are told that the outcome is unknown, or that nothing was written.
    pub(super) fn fail(&mut self, reason: &str, answers: &mut dyn Answers) {
        let (unknown, not_written) = (format!("{UNKNOWN}: {reason}"), format!("{NOT_WRITTEN}: {reason}"));
        for proposed in self.proposed.drain(..) {
            proposed.tickets.iter().for_each(|ticket| refuse(&unknown, ticket, answers));
        }
        self.unsent.drain(..).for_each(|unsent| refuse(&unknown, &unsent.ticket, answers));
        self.open_lane();
        // The first map would not be proposed again before the next election, so it stays in the queue.
        self.queue.retain(|pending| {
            pending.tickets.iter().for_each(|ticket| refuse(&not_written, ticket, answers));
            self.split_lost |= pending.splits;
            pending.begins
        });
    }

    /// Whether queued writes may wait longer for a leader. This saves their clients an error whenever leadership changes.
    pub(super) fn is_young(&self, now: Moment) -> bool {
        self.queue.front().is_none_or(|front| !Deadline::for_leader(front.since_us).is_over(now.mono_us))
    }

    /// From now on no write is proposed, for `for_us`: a backup is to see all shards as of one moment.
    pub(super) fn begin_barrier(&mut self, now: Moment, for_us: u64) {
        self.barrier.begin(now, for_us);
    }

    /// Writes go on.
    pub(super) fn end_barrier(&mut self) {
        self.barrier.end();
    }

    /// Whether a write barrier stands.
    pub(super) fn has_barrier(&self, now: Moment) -> bool {
        self.barrier.stands(now)
    }

    pub(super) fn has_proposed(&self) -> bool {
        !self.proposed.is_empty()
    }

    /// The replica goes: clients of writes that were not proposed are sent to the leader.
    pub(super) fn dismiss(&mut self, shard: ShardId, effects: &mut dyn Effects) {
        let waiting = self.proposed.drain(..).flat_map(|proposed| proposed.tickets);
        let waiting: Vec<Ticket> = waiting.chain(self.unsent.drain(..).map(|unsent| unsent.ticket)).collect();
        waiting.iter().for_each(|ticket| refuse(REPLICA_GONE, ticket, effects));
        self.open_lane();
        for pending in self.queue.drain(..) {
            pending.tickets.iter().for_each(|ticket| effects.not_leader(shard, ticket));
        }
    }

    /// Slots are another shard's now. A queued write for them would be written where no read looks for it, so it is
    /// refused, together with the writes of its entry.
    pub(super) fn give_back(&mut self, gone: &Slots, answers: &mut dyn Answers) {
        self.open_lane();
        self.queue.retain(|pending| {
            let stays =
                !pending.tickets.iter().any(|ticket| gone.ranges().iter().any(|range| ticket.span().meets(*range)));
            if !stays {
                pending.tickets.iter().for_each(|ticket| refuse(SLOT_GONE, ticket, answers));
            }
            stays
        });
    }

    /// Whether there is something to propose.
    pub(super) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether writes were taken in that are not proposed yet.
    pub(super) fn has_waiting(&self) -> bool {
        self.has_queued() || !self.lane.is_empty()
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.has_waiting() && self.proposed.is_empty() && self.unsent.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::entry::{EncodedCommand, Evaluation, Pops, Rules};
    use crate::shard::fixture::{Member, Shell, elect_first};

    #[test]
    fn what_is_taken_in_before_flushall_comes_before_it() {
        let mut proposals = Proposals::default();
        proposals.lane.runs(1, 0);
        proposals.applied(20_000);
        let script = || Write::Command(EncodedCommand::new(&[b"EVAL", b"return 1", b"0"]));
        let mut queued = Vec::new();
        for (connection, write) in [(1, script()), (2, script()), (3, Write::Clear), (4, script())] {
            let ticket = Ticket { connection, sequence: u64::from(connection), ..Ticket::NONE };
            assert!(proposals.push(&write, &[], ticket));
            let tickets = proposals.queue.iter().flat_map(|pending| &pending.tickets);
            queued = tickets.map(|ticket| ticket.sequence).collect::<Vec<_>>();
        }
        assert_eq!(queued, [1], "the others wait for the first");
        let mut next = || {
            proposals.queue.clear();
            proposals.end_turns(true);
            let tickets = proposals.queue.iter().flat_map(|pending| &pending.tickets);
            tickets.map(|ticket| ticket.sequence).collect::<Vec<_>>()
        };
        assert_eq!([next(), next(), next()], [vec![2, 3], vec![4], vec![]]);
    }

    #[test]
    fn an_answer_before_the_commit_tells_its_entry() {
        let mut members = [Member::new(ShardId(1), 1, 1)];
        elect_first(&mut members);
        let [Member { handle, replica, .. }] = &mut members;
        let (mut proposals, mut shell) = (Proposals::default(), Shell::default());
        let writes =
            [("SET k v", Acks::None), ("INCR n", Acks::None), ("SET k w", Acks::Majority), ("SET l v", Acks::None)];
        for (sequence, (line, acks)) in (1..).zip(writes) {
            let command = EncodedCommand::new(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
            let ticket = Ticket { connection: 1, sequence, acks, ..Ticket::NONE };
            assert!(proposals.push(&Write::Command(command), &[], ticket));
        }
        let terms = EntryTerms {
            now_ms: 1,
            evaluation: Evaluation::Second,
            keeps_changes: true,
            pops: Pops::GoingOn,
            bounding: Bounding::None,
            rules: Rules::NEWEST,
        };
        let entry = EntryId { shard: ShardId(1), index: replica.status().last + 1, term: replica.term() };
        assert!(!proposals.propose(replica, handle, terms, Moment::default(), &mut shell));
        assert_eq!(shell.answers, [(1, "+OK\r\n".to_owned()), (4, "+OK\r\n".to_owned())]);
        assert_eq!(shell.early, [entry, entry]);
        assert_eq!(handle.followers().early(), Some(entry), "it is known where a WAIT asks");
        assert!(handle.engine().applied_index() < entry.index);
    }

    #[test]
    fn a_long_answer_waits_for_all_replicas_where_a_short_one_does() {
        let mut members = [Member::new(ShardId(1), 1, 1)];
        elect_first(&mut members);
        let [Member { replica, .. }] = &members;
        let (mut proposals, mut shell) = (Proposals::default(), Shell::default());
        for (acks, waits) in [(Acks::Majority, false), (Acks::All, true)] {
            let ticket = Ticket { connection: 1, sequence: 7, acks, ..Ticket::NONE };
            for is_long in [false, true] {
                match is_long {
                    true => proposals.answer_long(1, &ticket, b"an answer".to_vec(), &mut shell),
                    false => proposals.answer(1, &ticket, b"an answer", &mut shell),
                }
                assert_eq!(shell.answers.is_empty(), waits, "{acks:?} {is_long}");
                proposals.settle(replica, &mut shell);
                assert_eq!(std::mem::take(&mut shell.answers), [(7, "an answer".to_owned())]);
            }
        }
    }

    #[test]
    fn a_barrier_stands_until_it_is_ended_or_its_time_is_over() {
        let at = |mono_us: u64| Moment { mono_us, ..Moment::default() };
        let mut barrier = WriteBarrier::default();
        assert!(!barrier.stands(at(0)));
        barrier.begin(at(10), 5);
        assert!(barrier.stands(at(14)) && !barrier.stands(at(15)));
        barrier.end();
        assert!(!barrier.stands(at(14)));
    }
}
