//! Committed entries: those that are not applied yet, with the rows that they wait for, what an applied entry does to the tree,
//! and what it answers.

use super::apply_error::ApplyError;
use super::apply_task::AppliedAside;
use super::clear::apply_clear;
use super::collector::Collector;
use super::effects::Effects;
use super::evaluate::{self, Evaluated};
use super::group::tell_followers;
use super::meta::{ChangeItem, MetaState};
use super::prefetch::items_of;
use super::proposals::{OwnEntry, Proposals};
use super::split::Splitting;
use super::ticket::Ticket;
use crate::format::entry::{self, Item};
use crate::shard_handle::ShardHandle;
use crate::space::apply::{LoopBudget, Place};
use replica::{Entry, EntryType, LogWrite, Ready, Replica};
use resp::{Proto, Reply};
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use storage::WriteBatch;
use vocab::limits::{APPLY_BACKLOG_BYTES_MAX, APPLY_INLINE_BYTES_MAX, PREFETCH_BYTES_MAX};
use vocab::{ShardId, limits};

/// Applies the entries of one shard.
pub(super) struct Applier {
    /// Of the metadata group: the map.
    meta: Option<MetaState>,
    collector: Collector,
    /// The time of the last entry that was applied or proposed here, in ms since the epoch.
    clock_ms: u64,
    scratch: Reply,
    /// Bytes of the entries that were applied since the last seal.
    unsealed_bytes: Cell<u64>,
    /// How long slow entries had taken by then, in µs.
    sealed_slow_us: Cell<u64>,
}

/// The parts of a shard that an entry changes, and what it asks of the world.
pub(super) struct Parts<'a> {
    pub(super) handle: &'a Arc<ShardHandle>,
    pub(super) replica: &'a mut Replica,
    pub(super) proposals: &'a mut Proposals,
    pub(super) splitting: &'a mut Splitting,
    /// What changes in the log.
    pub(super) later: &'a mut LogWrite,
    pub(super) effects: &'a mut dyn Effects,
}

impl Applier {
    /// One for the shard of `handle`, whose tree is open.
    pub(super) fn new(handle: &ShardHandle) -> storage::Result<Self> {
        let mut applier = Self {
            meta: None,
            collector: Collector::default(),
            clock_ms: 0,
            scratch: Reply::default(),
            unsealed_bytes: Cell::new(0),
            sealed_slow_us: Cell::new(0),
        };
        applier.reload(handle)?;
        Ok(applier)
    }

    /// The tree is another now: reads what is kept in memory of it.
    pub(super) fn reload(&mut self, handle: &ShardHandle) -> storage::Result<()> {
        if handle.id() == ShardId::META {
            self.meta = Some(MetaState::load(handle)?);
        }
        Ok(())
    }

    /// Of the metadata group: the map as its entries have made it.
    pub(super) fn map(&self) -> Option<&Arc<cluster::Map>> {
        self.meta.as_ref()?.map()
    }

    /// When the leader proposes steps of collection.
    pub(super) fn collector(&mut self) -> &mut Collector {
        &mut self.collector
    }

    /// The time of the next entry, where the clock shows `wall_ms`.
    pub(super) fn next_entry_ms(&mut self, handle: &ShardHandle, wall_ms: u64) -> u64 {
        self.clock_ms = handle.clock().next_entry(wall_ms, self.clock_ms);
        self.clock_ms
    }

    /// Whether the log behind what the tree has in memory is long, or would take long to be applied again.
    pub(super) fn log_is_long(&self, handle: &ShardHandle) -> bool {
        let slow_us = handle.slow_us().saturating_sub(self.sealed_slow_us.get());
        self.unsealed_bytes.get() >= limits::LOG_UNFLUSHED_BYTES_SOFT || slow_us >= limits::LOG_UNFLUSHED_US_SOFT
    }

    /// Seals the tree's memory for a background flush, with the shard's own facts in it.
    pub(super) fn seal(&self, handle: &ShardHandle) {
        self.unsealed_bytes.set(0);
        self.sealed_slow_us.set(handle.slow_us());
        handle.engine().seal(handle.facts());
    }

    /// Applies an entry; `own` is what is known of it if this replica has proposed it. `Fault::WouldBlock`: nothing is
    /// done, and another thread is to evaluate it.
    pub(super) fn apply(&mut self, committed: &Entry, own: &OwnEntry, parts: &mut Parts<'_>) -> Result<(), ApplyError> {
        // A panic would end the process, and every start after it at the same entry. This way the node's other shards
        // live, and the operator is told which entry it is.
        catch_unwind(AssertUnwindSafe(|| self.apply_entry(committed, own, parts))).unwrap_or(Err(ApplyError::Panicked))
    }

    fn apply_entry(&mut self, committed: &Entry, own: &OwnEntry, parts: &mut Parts<'_>) -> Result<(), ApplyError> {
        if committed.get_entry_type() != EntryType::EntryNormal {
            return apply_members(committed, parts);
        }
        if replica::has_commands(committed) {
            return self.apply_items(committed.index, &committed.data, own, parts);
        }
        apply_nothing(parts.handle, committed.index);
        Ok(())
    }

    fn apply_items(
        &mut self,
        index: u64,
        data: &[u8],
        own: &OwnEntry,
        parts: &mut Parts<'_>,
    ) -> Result<(), ApplyError> {
        let (now_ms, mut items) = entry::decode(data)?;
        if items.is_sole()
            && let Some(item) = items.next()
        {
            self.count_in(data, now_ms);
            return self.apply_alone(index, now_ms, &item?, &own.tickets, parts);
        }
        let awaited = own.tickets.iter().map(Ticket::awaited);
        let (clock, rows_max) = (parts.effects.steady_clock(), parts.effects.inline_rows_max());
        let place = Place::EventLoop(LoopBudget { clock, rows_max });
        let (replies, proposer) = (&mut self.scratch, own.proposer());
        let clients = (awaited, &own.rows[..]);
        let (at, how, mut evaluated) = ((index, now_ms), (place, proposer), Evaluated::default());
        evaluate::items(parts.handle, at, &items, clients, replies, how, &mut evaluated)?;
        self.count_in(data, now_ms);
        self.take_evaluated(index, &mut evaluated, &own.tickets, parts);
        Ok(())
    }

    /// What another thread has evaluated takes effect here.
    pub(super) fn take_over(
        &mut self,
        committed: &Entry,
        aside: AppliedAside,
        tickets: &[Ticket],
        parts: &mut Parts<'_>,
    ) -> Result<(), ApplyError> {
        let AppliedAside { reply, outcome, .. } = aside;
        let mut evaluated = outcome?;
        self.count_in(&committed.data, evaluated.now_ms);
        self.scratch = reply;
        self.take_evaluated(committed.index, &mut evaluated, tickets, parts);
        Ok(())
    }

    /// An entry of that clock is applied.
    fn count_in(&mut self, data: &[u8], now_ms: u64) {
        self.unsealed_bytes.update(|bytes| bytes + data.len() as u64);
        self.clock_ms = self.clock_ms.max(now_ms);
    }

    /// Only now is the entry visible: an answer before that could be contradicted by a read.
    fn take_evaluated(&mut self, index: u64, evaluated: &mut Evaluated, tickets: &[Ticket], parts: &mut Parts<'_>) {
        evaluated.collected.drain(..).for_each(|step| self.collector.applied(step));
        // Before the answers: a client that has one finds what its script was refused in ACL LOG.
        for denied in evaluated.calls.take_denied() {
            if let Some(ticket) =
                denied.item.and_then(|item| tickets.get(item)).filter(|ticket| **ticket != Ticket::NONE)
            {
                parts.effects.denied(ticket, denied);
            }
        }
        // What a client asks when it has its answer is shown behind.
        if !evaluated.calls.is_empty() {
            parts.effects.monitored(std::mem::take(&mut evaluated.calls), tickets);
        }
        // Before them: an answer says that its client is registered.
        let tracker = |item: usize| tickets.get(item).and_then(Ticket::tracker);
        let is_known = evaluated.changes.are_known();
        if evaluated.registers {
            parts.handle.register_reads(&mut evaluated.changes, tracker);
        }
        // Before them, too: who reads when an answer is out reads what the entry has written, and need not be told.
        let client = |item: usize| tickets.get(item).and_then(Ticket::client);
        let changes = std::mem::take(&mut evaluated.changes);
        let has_trackers = parts.handle.has_trackers();
        let changed = has_trackers.then(|| parts.handle.changed_keys(changes, client)).flatten();
        self.answer_all(index, tickets, evaluated, parts);
        // After the answers: a client of this entry may wait for what it has written.
        if !evaluated.ready.is_empty() {
            parts.effects.keys_ready(std::mem::take(&mut evaluated.ready));
        }
        if evaluated.registers && !(is_known && parts.handle.leading()) {
            parts.handle.lose_readers((0..tickets.len()).filter_map(tracker));
        }
        if let Some(changed) = changed {
            parts.effects.keys_changed(parts.handle, changed);
        }
        if !evaluated.events.is_empty() {
            parts.effects.keyspace_events(std::mem::take(&mut evaluated.events));
        }
        if !evaluated.messages.is_empty() {
            parts.effects.messages(std::mem::take(&mut evaluated.messages));
        }
        if evaluated.is_cleared {
            parts.effects.cleared(parts.handle.id());
        }
    }

    /// Applies an item that has an entry to itself and is no command over data: it writes the tree by itself, or nothing.
    fn apply_alone(
        &mut self,
        index: u64,
        now_ms: u64,
        item: &Item<'_>,
        tickets: &[Ticket],
        parts: &mut Parts<'_>,
    ) -> Result<(), ApplyError> {
        let handle = parts.handle;
        let proto = tickets.first().and_then(Ticket::awaited).map(|awaited| awaited.proto);
        self.scratch.buf.clear();
        self.scratch.proto = proto.unwrap_or(Proto::Resp2);
        self.scratch.discard(proto.is_none());
        self.scratch.limit(usize::MAX);
        match item {
            Item::Clear => {
                parts.replica.sync_log()?;
                apply_clear(handle, index, now_ms)?;
                self.scratch.ok();
                self.answer_alone(index, tickets, parts);
                parts.effects.cleared(handle.id());
            }
            Item::Change(bytes) | Item::KeptChange(bytes) => {
                let meta = self.meta.as_mut().ok_or("a change of the map outside the metadata group")?;
                let change = ChangeItem { bytes, is_kept: matches!(item, Item::KeptChange(_)), now_ms };
                if let Some(update) = meta.apply(handle, index, change, &mut self.scratch) {
                    parts.effects.map(update);
                }
                self.answer_alone(index, tickets, parts);
            }
            Item::Split(split) => {
                if parts.splitting.apply(index, split, handle, parts.proposals, parts.effects) {
                    // Writes that were held back counted on other slots.
                    parts.proposals.end_barrier();
                }
                apply_nothing(handle, index);
            }
            Item::Seal => {
                // Every replica flushes at this entry.
                apply_nothing(handle, index);
                handle.engine().expect_fork();
                self.seal(handle);
                parts.splitting.sealed();
                parts.effects.sealed(handle.id());
            }
            Item::Mark(comparison) => {
                apply_nothing(handle, index);
                parts.effects.marked(handle.id(), *comparison, now_ms, handle.snapshot());
                self.scratch.ok();
                self.answer_alone(index, tickets, parts);
            }
            Item::Command(_)
            | Item::Transaction { .. }
            | Item::Housekeeping
            | Item::Collect(_)
            | Item::Packing(_)
            | Item::KeyBounds(_)
            | Item::BoundsOfAll(_)
            | Item::Together
            | Item::GoingOn
            | Item::Rules(_) => {
                return Err("a command is not alone in its entry".into());
            }
        }
        Ok(())
    }

    /// Answers an item that has an entry to itself.
    fn answer_alone(&mut self, index: u64, tickets: &[Ticket], parts: &mut Parts<'_>) {
        let mut evaluated = Evaluated { ends: vec![self.scratch.buf.len()], ..Evaluated::default() };
        self.answer_all(index, tickets, &mut evaluated, parts);
    }

    fn answer_all(&mut self, index: u64, tickets: &[Ticket], evaluated: &mut Evaluated, parts: &mut Parts<'_>) {
        evaluated.take_only_out(&mut self.scratch);
        let mut long = std::mem::take(&mut evaluated.long).into_iter().peekable();
        let mut from = 0;
        for (item, (ticket, &to)) in tickets.iter().zip(&evaluated.ends).enumerate() {
            let long = long.next_if(|(of, _)| *of == item);
            if *ticket != Ticket::NONE {
                match long {
                    Some((_, reply)) => parts.proposals.answer_long(index, ticket, reply, parts.effects),
                    None => parts.proposals.answer(index, ticket, &self.scratch.buf[from..to], parts.effects),
                }
            }
            from = to;
        }
        if self.scratch.buf.capacity() > limits::OUTPUT_BUFFER_BYTES_SOFT {
            self.scratch.buf = Vec::new();
        }
    }
}

/// The entry writes nothing.
pub(super) fn apply_nothing(handle: &ShardHandle, index: u64) {
    handle.begin_write(index);
    handle.engine().apply(index, WriteBatch::default());
}

fn apply_members(committed: &Entry, parts: &mut Parts<'_>) -> Result<(), ApplyError> {
    if let Some(members) = parts.replica.members_changed(committed, parts.later)? {
        // Of one that is removed, those that stay tell: until they know, they may need its vote, and its node is told by
        // the map that it can forget it.
        if members.contains(parts.replica.me()) {
            parts.effects.members(parts.handle.id(), committed.index, members);
        }
        tell_followers(parts.replica, parts.handle);
    }
    apply_nothing(parts.handle, committed.index);
    Ok(())
}

/// The committed entries of one shard that are not applied yet, and the rows that they wait for.
///
/// While the disk is slow, what entries will find is prefetched before they are applied, and the event loop serves other
/// shards meanwhile. The queue works out which rows the entries lack, and asks its shell for them once.
///
/// Invariants: an entry above `ready` is not applied; rows are asked for once at a time.
#[derive(Default)]
pub(super) struct ApplyQueue {
    /// What the replica has handed out, oldest first.
    turns: VecDeque<Ready>,
    /// Entries up to this index can be applied: their rows are in memory, or the disk is not slow.
    ready: u64,
    /// Entries up to this index wait for a prefetch that is under way.
    pending: Option<u64>,
}

impl ApplyQueue {
    pub(super) fn push(&mut self, turn: Ready) {
        self.turns.push_back(turn);
    }

    pub(super) fn pop(&mut self) -> Option<Ready> {
        self.turns.pop_front()
    }

    /// Puts back what could not be applied yet.
    pub(super) fn put_back(&mut self, turn: Ready) {
        self.turns.push_front(turn);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The entries that can be applied without waiting for a prefetch; none while one is under way.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        let turns = self.pending.is_none().then_some(&self.turns);
        turns.into_iter().flatten().flat_map(|turn| &turn.committed)
    }

    /// Whether the first of `committed` has to wait until what it will find is in memory.
    pub(super) fn waits_for_rows(
        &mut self,
        handle: &Arc<ShardHandle>,
        committed: &[Entry],
        effects: &mut dyn Effects,
    ) -> bool {
        let first = committed[0].index;
        if self.ready >= first || self.pending.is_some() {
            return self.ready < first;
        }
        if !effects.disk_is_slow() {
            self.ready = first;
            return false;
        }
        let mut bytes = 0;
        let fitting = committed.iter().take_while(|entry| {
            // A large one is evaluated by another thread, which may wait for the disk.
            let is_small = entry.data.len() <= APPLY_INLINE_BYTES_MAX;
            let fits = bytes < PREFETCH_BYTES_MAX && (bytes == 0 || is_small);
            bytes += entry.data.len();
            fits
        });
        let entries = &committed[..fitting.count()];
        let last = entries.last().map_or(first, |entry| entry.index);
        let items = items_of(handle, entries);
        if items.is_empty() {
            self.ready = last;
            return false;
        }
        self.pending = Some(last);
        effects.prefetch(handle, items);
        true
    }

    /// The rows that were asked for are in memory. True if entries waited for them.
    pub(super) fn prefetched(&mut self) -> bool {
        let pending = self.pending.take();
        self.ready = pending.unwrap_or(self.ready);
        pending.is_some()
    }

    /// Whether so much waits to be applied that no more should come.
    pub(super) fn is_behind(&self) -> bool {
        self.pending.is_some() && self.bytes() > APPLY_BACKLOG_BYTES_MAX
    }

    /// Bytes of the entries that are not applied yet.
    pub(super) fn bytes(&self) -> usize {
        self.turns.iter().flat_map(|turn| &turn.committed).map(|entry| entry.data.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::shard::apply_task::ApplyTask;
    use crate::shard::fixture::{Member, Shell, elect_first};
    use crate::test_nodes::node_info;
    use crate::tracking::{Registers, Tracking};
    use crate::{EncodedCommand, EntryBuilder};
    use vocab::StoreId;

    const SHARD: ShardId = ShardId(1);
    const NOW_MS: u64 = 1_700_000_000_000;
    const WRONGTYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

    /// A shard that leads itself, and what applies its entries.
    struct Fixture {
        member: Member,
        applier: Applier,
        proposals: Proposals,
        splitting: Splitting,
        shell: Shell,
    }

    /// The requests that wait for the items of an entry, by their numbers; 0: no client waits for this item.
    fn tickets(requests: &[u64]) -> Vec<Ticket> {
        let ticket = |request: &u64| match request {
            0 => Ticket::NONE,
            _ => {
                let registers = if *request < 100 { Registers::Nothing } else { Registers::Reads };
                Ticket { worker: 0, sequence: *request, registers, ..Ticket::NONE }
            }
        };
        requests.iter().map(ticket).collect()
    }

    fn entry_of(fill: impl FnOnce(&mut EntryBuilder)) -> Vec<u8> {
        let mut builder = EntryBuilder::new();
        fill(&mut builder);
        builder.seal(NOW_MS)
    }

    fn commands(lines: &[&str]) -> Vec<u8> {
        entry_of(|entry| {
            for line in lines {
                entry.command(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
            }
        })
    }

    impl Fixture {
        fn new(shard: ShardId) -> Self {
            let mut members = [Member::new(shard, 1, 1)];
            elect_first(&mut members);
            let [member] = members;
            let applier = Applier::new(&member.handle).unwrap();
            let (proposals, splitting) = (Proposals::default(), Splitting::default());
            Self { member, applier, proposals, splitting, shell: Shell::default() }
        }

        fn next_entry(&self, data: Vec<u8>) -> Entry {
            let index = self.member.handle.engine().applied_index() + 1;
            Entry { index, term: self.member.replica.term(), data: data.into(), ..Entry::default() }
        }

        /// Applies the next entry, here or from what another thread has evaluated; answers the answers.
        fn apply(&mut self, data: Vec<u8>, requests: &[u64], aside: bool) -> Result<Vec<(u64, String)>, ApplyError> {
            let entry = self.next_entry(data);
            let own = OwnEntry { tickets: tickets(requests), ..OwnEntry::default() };
            let Self { member, applier, proposals, splitting, shell } = self;
            let mut later = LogWrite::default();
            let evaluated = aside.then(|| {
                let awaited = own.tickets.iter().map(Ticket::awaited).collect();
                let log = member.log.clone();
                ApplyTask::new(member.handle.clone(), log, entry.clone(), (awaited, own.rows.clone()), own.proposer())
                    .run()
            });
            let mut parts = Parts {
                handle: &member.handle,
                replica: &mut member.replica,
                proposals,
                splitting,
                later: &mut later,
                effects: shell,
            };
            match evaluated {
                Some(evaluated) => applier.take_over(&entry, evaluated, &own.tickets, &mut parts)?,
                None => applier.apply(&entry, &own, &mut parts)?,
            }
            Ok(std::mem::take(&mut shell.answers))
        }
    }

    #[test]
    fn each_item_is_answered_to_the_client_that_waits_for_it() {
        let lines = ["SET a 1", "APPEND a 23", "HSET a f v", "SET b 4 XX", "GETDEL a"];
        // The requests that wait, and what they are answered; a follower's entries have none.
        type Case = (&'static [u64], &'static [(u64, &'static str)]);
        let cases: [Case; 3] = [
            (&[1, 2, 3, 4, 5], &[(1, "+OK\r\n"), (2, ":3\r\n"), (3, WRONGTYPE), (4, "$-1\r\n"), (5, "$3\r\n123\r\n")]),
            (&[0, 2, 0, 0, 5], &[(2, ":3\r\n"), (5, "$3\r\n123\r\n")]),
            (&[], &[]),
        ];
        for (requests, wanted) in cases {
            for aside in [false, true] {
                let mut shard = Fixture::new(SHARD);
                let answers = shard.apply(commands(&lines), requests, aside).unwrap();
                let answers: Vec<(u64, &str)> = answers.iter().map(|(request, text)| (*request, &**text)).collect();
                assert_eq!(answers, wanted, "{requests:?}, aside: {aside}");
                let engine = shard.member.handle.engine();
                assert_eq!((shard.member.handle.key_count(), engine.applied_index()), (0, 2), "{requests:?}");
            }
        }
    }

    #[test]
    fn long_answers_go_to_their_clients_whatever_else_the_entry_answers() {
        let long = "x".repeat(limits::LARGE_REQUEST_BYTES);
        let (of_long, ok) = (format!("${}\r\n{long}\r\n", long.len()), "+OK\r\n");
        let others = vec![(1, ok), (2, &*of_long), (3, ok), (4, &*of_long), (5, ":3\r\n")];
        // An entry, the requests that wait, and what they are answered.
        type Case<'a> = (&'a [&'a str], &'a [u64], Vec<(u64, &'a str)>);
        let cases: [Case<'_>; 5] = [
            (&["GETDEL a"], &[1], vec![(1, &*of_long)]),
            (&["GETDEL a"], &[0], vec![]),
            (&["GETDEL a", "GETDEL b"], &[1, 2], vec![(1, &*of_long), (2, &*of_long)]),
            (&["SET c 1", "GETDEL a", "SET d 1", "GETDEL b", "APPEND c 23"], &[1, 2, 3, 4, 5], others),
            (&["SET c 1", "GETDEL a", "SET d 1", "GETDEL b"], &[1, 0, 3, 4], vec![(1, ok), (3, ok), (4, &*of_long)]),
        ];
        for (lines, requests, wanted) in cases {
            for aside in [false, true] {
                let mut shard = Fixture::new(SHARD);
                shard.apply(commands(&[&format!("SET a {long}"), &format!("SET b {long}")]), &[], true).unwrap();
                let answers = shard.apply(commands(lines), requests, aside).unwrap();
                let answers: Vec<(u64, &str)> = answers.iter().map(|(request, text)| (*request, &**text)).collect();
                assert!(answers == wanted, "{lines:?} {requests:?}, aside: {aside}");
            }
        }
    }

    #[test]
    fn what_an_entry_reads_is_registered_for_the_clients_that_are_to_be_told() {
        let lines = |lines: &[&str]| -> Vec<EncodedCommand> {
            lines
                .iter()
                .map(|line| EncodedCommand::new(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()))
                .collect()
        };
        for aside in [false, true] {
            let mut shard = Fixture::new(SHARD);
            let tracking = Arc::new(Tracking::default());
            shard.member.handle.set_tracking(tracking.clone());
            shard.member.handle.lease().set_leading(true);
            let entry = || {
                entry_of(|entry| {
                    entry.transaction(&[], &lines(&["GET a", "SET b 1", "GET b", "MGET a c", "GETDEL d"]));
                    entry.transaction(&[], &lines(&["GET e", "SET f 1"]));
                })
            };
            // The requests of its items: those from 100 on are of clients that are to be told.
            for (requests, keys) in [(&[1, 2][..], 0), (&[], 0), (&[1, 100], 1), (&[100, 2], 4), (&[100, 101], 4)] {
                shard.apply(entry(), requests, aside).unwrap();
                assert_eq!((tracking.keys(), tracking.take_lost(9)), (keys, None), "{requests:?}, aside: {aside}");
            }
        }
    }

    #[test]
    fn who_reads_when_an_answer_is_out_is_not_told_of_its_entry() {
        let clear = entry_of(|entry| entry.clear());
        for (aside, data) in [(false, &clear), (true, &clear), (false, &commands(&["SET a 1"]))] {
            let mut shard = Fixture::new(SHARD);
            let tracking = Arc::new(Tracking::default());
            shard.member.handle.set_tracking(tracking.clone());
            shard.shell.read_when_answered = Some(shard.member.handle.clone());
            shard.apply(data.clone(), &[1], aside).unwrap();
            assert_eq!((tracking.keys(), tracking.take_lost(9)), (1, None), "aside: {aside}");
            // What was read before is told.
            shard.shell.read_when_answered = None;
            shard.apply(data.clone(), &[1], aside).unwrap();
            let told = tracking.take_lost(9).map(|lost| lost.clients.len());
            assert_eq!(told, (data == &clear).then_some(1), "aside: {aside}");
        }
    }

    #[test]
    fn an_item_that_is_alone_does_its_own_and_nothing_else() {
        let mut shard = Fixture::new(SHARD);
        shard.apply(commands(&["SET a 1", "SET b 2"]), &[], false).unwrap();
        // An entry, the answer to its client, and then keys, seals and marks.
        type Case = (Vec<u8>, &'static [&'static str], (u64, usize, &'static [(u64, u64)]));
        let cases: [Case; 4] = [
            (entry_of(|entry| entry.mark(7)), &["+OK\r\n"], (2, 0, &[(7, 3)])),
            (entry_of(EntryBuilder::flush_trees), &[], (2, 1, &[(7, 3)])),
            (entry_of(EntryBuilder::clear), &["+OK\r\n"], (0, 1, &[(7, 3)])),
            (Vec::new(), &[], (0, 1, &[(7, 3)])),
        ];
        for (at, (data, wanted, (keys, seals, marks))) in cases.into_iter().enumerate() {
            let before = shard.member.handle.engine().applied_index();
            let answers = shard.apply(data, &[9], false).unwrap();
            assert!(answers.iter().map(|(_, text)| &**text).eq(wanted.iter().copied()), "entry {at}: {answers:?}");
            let (handle, shell) = (&shard.member.handle, &shard.shell);
            assert_eq!((handle.key_count(), shell.seals, &shell.marks[..]), (keys, seals, marks), "entry {at}");
            assert_eq!(handle.engine().applied_index(), before + 1, "entry {at}");
        }
    }

    #[test]
    fn an_entry_that_cannot_be_applied_changes_and_answers_nothing() {
        let whole = commands(&["SET a 1"]);
        let cases: [(Vec<u8>, &str); 3] = [
            (whole[..whole.len() - 1].to_vec(), "cut short"),
            (entry_of(|entry| entry.change(b"x")), "a change of the map outside the metadata group"),
            (vec![0xFF; 40], "unknown entry format"),
        ];
        for (data, detail) in cases {
            for aside in [false, true] {
                if aside && entry::decode(&data).is_ok_and(|(_, items)| items.is_sole()) {
                    continue;
                }
                let mut shard = Fixture::new(SHARD);
                let error = shard.apply(data.clone(), &[1], aside).unwrap_err();
                assert!(error.is_of_entry() && error.to_string().contains(detail), "{error}, wanted: {detail}");
                let handle = &shard.member.handle;
                assert_eq!((handle.key_count(), handle.engine().applied_index()), (0, 1), "{detail}");
                assert!(shard.shell.answers.is_empty(), "{detail}");
            }
        }
    }

    #[test]
    fn the_metadata_group_keeps_the_map_and_tells_of_it() {
        let map = cluster::initial_map(StoreId(7), &[1, 2, 3].map(node_info), 2, 3).unwrap();
        let mut shard = Fixture::new(ShardId::META);
        assert!(shard.applier.map().is_none());
        let begin = cluster::Change::Begin(map.clone()).encode();
        let register = cluster::Change::RegisterNode(node_info(4)).encode();
        // A change, its answer, and how many maps the shell has been told of.
        for (change, answer, maps) in
            [(&register, "-ERR the store has no map yet\r\n", 0), (&begin, "+OK\r\n", 1), (&begin, "+OK\r\n", 1)]
        {
            let answers = shard.apply(entry_of(|entry| entry.change(change)), &[1], false).unwrap();
            assert_eq!((answers, shard.shell.maps.len()), (vec![(1, answer.to_owned())], maps));
        }
        shard.apply(entry_of(|entry| entry.change(&register)), &[], false).unwrap();
        let kept = shard.applier.map().unwrap().clone();
        assert_eq!((kept.epoch.0, kept.nodes.len(), shard.shell.maps.len()), (map.epoch.0 + 1, 4, 2));
        // What the tree holds is the same.
        shard.applier.reload(&shard.member.handle).unwrap();
        assert_eq!(**shard.applier.map().unwrap(), *kept);
    }

    #[test]
    fn the_time_of_entries_does_not_go_back() {
        let mut shard = Fixture::new(SHARD);
        let handle = shard.member.handle.clone();
        assert_eq!(shard.applier.next_entry_ms(&handle, NOW_MS - 10), NOW_MS - 10);
        assert_eq!(shard.applier.next_entry_ms(&handle, NOW_MS - 20), NOW_MS - 10, "its own last entry");
        // Another leader's entry, applied here.
        shard.apply(commands(&["SET a 1"]), &[], false).unwrap();
        assert_eq!(shard.applier.next_entry_ms(&handle, NOW_MS - 5), NOW_MS);
    }

    fn entry(index: u64, command: &[&[u8]]) -> Entry {
        let mut builder = EntryBuilder::new();
        builder.command(command);
        Entry { index, data: builder.seal(1_000).into(), ..Entry::default() }
    }

    #[test]
    fn rows_are_asked_for_once_and_only_while_the_disk_is_slow() {
        let Member { handle, .. } = &Member::new(ShardId(1), 1, 1);
        let large = vec![b'x'; PREFETCH_BYTES_MAX];
        let entries = [
            entry(1, &[b"SET", b"a", b"1"]),
            entry(2, &[b"SET", b"b", b"1"]),
            entry(3, &[b"SET", b"c", &large]),
            entry(4, &[b"SET", b"d", b"1"]),
            entry(5, &[b"PING"]),
        ];
        let mut queue = ApplyQueue::default();
        // Per step: whether the disk is slow, the first entry, whether it waits, and the prefetches so far by their items.
        let steps: [(bool, usize, bool, &[usize]); 8] = [
            (false, 0, false, &[]),
            // It is asked again for each entry, since the disk may have become slow.
            (true, 1, true, &[2]),
            (true, 1, true, &[2]),
            // `prefetched` comes before this step. The bytes of one prefetch are bounded: it had entries 2 and 3.
            (true, 1, false, &[2]),
            (true, 2, false, &[2]),
            (true, 3, true, &[2, 1]),
            (true, 3, false, &[2, 1]),
            (true, 4, false, &[2, 1]),
        ];
        let mut shell = Shell::default();
        for (step, (is_slow, first, waits, asked)) in steps.into_iter().enumerate() {
            if [3, 6].contains(&step) {
                assert!(queue.prefetched() && !queue.prefetched(), "step {step}");
            }
            shell.is_slow = is_slow;
            assert_eq!(queue.waits_for_rows(handle, &entries[first..], &mut shell), waits, "step {step}");
            assert_eq!(shell.prefetches, asked, "step {step}");
        }
    }

    #[test]
    fn no_entry_is_at_hand_while_a_prefetch_is_under_way() {
        let mut queue = ApplyQueue::default();
        let turn = |first: u64| Ready {
            committed: vec![entry(first, &[b"GET", b"a"]), entry(first + 1, &[b"GET", b"b"])],
            ..Ready::default()
        };
        queue.push(turn(1));
        queue.push(turn(3));
        let indexes = |queue: &ApplyQueue| queue.entries().map(|entry| entry.index).collect::<Vec<_>>();
        assert_eq!(indexes(&queue), [1, 2, 3, 4]);
        queue.pending = Some(2);
        assert!(indexes(&queue).is_empty() && !queue.is_behind());
        let mut large = turn(5);
        large.committed[0].data = vec![0_u8; APPLY_BACKLOG_BYTES_MAX].into();
        queue.push(large);
        assert!(queue.is_behind(), "a follower takes no more");
        assert!(queue.prefetched() && !queue.is_behind());
        let first = queue.pop().unwrap();
        assert_eq!((first.committed[0].index, indexes(&queue)), (1, vec![3, 4, 5, 6]));
        queue.put_back(first);
        assert_eq!(indexes(&queue)[0], 1);
    }
}
