//! The clients that wait for keys of a worker's shards, and what is to be done for them: its shell does it.

use super::claims::DueLook;
use super::command::{BlockingCommand, StreamEnds};
use super::expected::Expected;
use super::queues::QueuePlace;
use super::waiters::{Answered, Attempt, Begin, End, Ended, Waiters, Withdrawn};
use crate::awaited_keys::ReadyKey;
use crate::outcome::NO_LEADER;
use crate::shard::{Ticket, Write};
use crate::{Fault, ShardHandle, SnapshotSpace};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::vec::IntoIter;
use storage::Snapshot;
use vocab::limits::{
    BLOCKED_CLIENTS_STEP_MAX, BLOCKED_KEYS_AT_ONCE, BLOCKED_KEYS_STEP_MAX, BLOCKED_READY_KEYS_STEP_MAX,
    CLAIM_LOOK_PARTS_MAX,
};
use vocab::{Moment, ShardId};

/// Keys that an entry has written, as far as they were not looked at.
struct WrittenKeys {
    keys: IntoIter<ReadyKey>,
    /// The last client that waited then: who came later has lost nothing.
    until: QueuePlace,
}

/// A client that has begun to wait and names the ends of very many streams, as they were then.
struct ReadingEnds {
    ticket: Ticket,
    handle: Arc<ShardHandle>,
    /// Of that moment.
    rows: Box<dyn Snapshot>,
    now_ms: u64,
    ends: StreamEnds,
}

/// A look at what is pending, for clients that wait with CLAIM: a thread makes it, some at a time.
pub struct PendingLook {
    due: DueLook,
    /// As of the moment of the look.
    rows: Box<dyn Snapshot>,
    is_over: bool,
}

impl PendingLook {
    fn begin(due: DueLook) -> Self {
        let rows = due.shard.snapshot();
        Self { due, rows, is_over: false }
    }

    /// Looks at some more. May wait for the disk.
    #[must_use]
    pub fn step(mut self) -> Self {
        self.is_over = self.look_on().unwrap_or_else(|fault| {
            log::error!("shard {}: what is pending in a stream cannot be read: {fault:?}", self.due.shard.id());
            true
        });
        self
    }

    /// Whether that was all.
    fn look_on(&mut self) -> Result<bool, Fault> {
        let DueLook { shard, look, .. } = &mut self.due;
        let now_ms = look.now_ms();
        let mut space = SnapshotSpace::of(shard, &*self.rows, now_ms, 0);
        for _ in 0..CLAIM_LOOK_PARTS_MAX {
            if look.step(&mut space)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The clients that wait for keys of a worker's shards.
pub struct Blocked {
    waiters: Waiters,
    /// So many keys of one client are gone through at once, where that takes a while for each.
    keys_at_once: usize,
    /// What entries have written, the first first.
    written: VecDeque<WrittenKeys>,
    /// Clients whose streams' ends are read.
    reading: VecDeque<ReadingEnds>,
    /// The look at what is pending that goes on.
    looking: Option<PendingLook>,
    /// Answers of waits that have ended.
    ended: Vec<Ended>,
    /// Commands of clients whose shard is another one now, or led elsewhere.
    lost: Vec<Attempt>,
    /// Shards that have given slots away, for whose keys more clients wait than were withdrawn at once.
    moved: VecDeque<Weak<ShardHandle>>,
}

impl Default for Blocked {
    fn default() -> Self {
        Self::new(BLOCKED_KEYS_AT_ONCE)
    }
}

impl Blocked {
    /// No client waits. One of more keys than that joins their queues by and by.
    #[must_use]
    pub fn new(keys_at_once: usize) -> Self {
        Self {
            waiters: Waiters::new(keys_at_once),
            keys_at_once,
            written: VecDeque::new(),
            reading: VecDeque::new(),
            looking: None,
            ended: Vec::new(),
            lost: Vec::new(),
            moved: VecDeque::new(),
        }
    }

    /// Whether there is nothing to do for any client.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiters.is_empty() && !self.has_work()
    }

    /// Whether something is to be done at once.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.waiters.has_ready()
            || self.waiters.has_losers()
            || self.waiters.is_changing()
            || !self.written.is_empty()
            || !self.reading.is_empty()
            || self.looking.is_some()
            || !self.ended.is_empty()
            || !self.lost.is_empty()
            || !self.moved.is_empty()
    }

    /// When the next wait ends, or clients are to be looked after, in µs of the steady clock.
    #[must_use]
    pub fn deadline_us(&self) -> Option<u64> {
        self.waiters.deadline_us()
    }

    /// A blocking command has come to its shard: whether it is proposed now.
    pub fn begin(&mut self, shard: &ShardHandle, ticket: Ticket, command: BlockingCommand, now_us: u64) -> Begin {
        self.waiters.begin((shard.id(), shard.awaited()), ticket, command, now_us)
    }

    /// An attempt has been answered. `handle` gives the shards that the node has.
    pub fn answered<'a>(
        &mut self,
        ticket: &Ticket,
        reply: &[u8],
        now: Moment,
        handle: impl FnOnce(ShardId) -> Option<&'a Arc<ShardHandle>>,
    ) -> Answered {
        let answered = self.waiters.answered(ticket, reply, now.mono_us);
        if answered != Answered::Waits(true) {
            return answered;
        }
        if let Some((shard, command)) = self.waiters.floating(ticket) {
            let (is_long, ends) = (command.keys().len() > self.keys_at_once, StreamEnds::of(command.clone()));
            if let Some(handle) = handle(shard) {
                let (handle, rows) = (handle.clone(), handle.snapshot());
                let reading = ReadingEnds { ticket: *ticket, handle, rows, now_ms: now.wall_ms, ends };
                self.waiters.reads_ends(ticket);
                if is_long {
                    self.reading.push_back(reading);
                } else {
                    self.read_ends(reading, now.mono_us);
                }
            }
        } else if let Some((shard, claiming)) = self.waiters.claiming(ticket)
            && let Some(handle) = handle(shard)
        {
            self.waiters.begin_claim(ticket, claiming, handle, now);
        }
        answered
    }

    /// What a thread is to look at now, for clients that wait with CLAIM: then comes `looked`.
    pub fn take_look(&mut self, now: Moment) -> Option<PendingLook> {
        self.looking.take().or_else(|| self.waiters.begin_look(now).map(PendingLook::begin))
    }

    /// A thread has looked at what is pending.
    pub fn looked(&mut self, look: PendingLook, now: Moment) {
        if look.is_over || !self.waiters.is_wanted(&look.due) {
            self.waiters.looked(&look.due, now);
        } else {
            self.looking = Some(look);
        }
    }

    /// Reads where the streams of a client end, of very many some at a time. Its attempt has read their records: they are in memory.
    fn read_ends(&mut self, mut reading: ReadingEnds, now_us: u64) {
        let read = {
            let ReadingEnds { handle, rows, now_ms, ends, .. } = &mut reading;
            ends.read(&mut SnapshotSpace::of(handle, &**rows, *now_ms, 0), self.keys_at_once)
        };
        if let Ok(false) = read {
            return self.reading.push_front(reading);
        }
        let ReadingEnds { ticket, handle, ends, .. } = reading;
        self.ended.extend(self.waiters.fix(&ticket, read.is_ok().then(|| ends.into_fixed())));
        if let Err(fault) = read {
            log::error!("shard {}: the last id of a stream cannot be read: {fault:?}", handle.id());
            self.end(&ticket, End::Unread);
        } else if !handle.owns_all(ticket.span()) {
            // Those that were to move meanwhile have gone without it.
            self.withdraw(&ticket, now_us);
        }
    }

    /// A write is proposed: whether there are attempts to propose behind it, for clients that wait for what it is likely to leave.
    pub fn proposed(&mut self, write: &Write) -> bool {
        /// Of a transaction, so many commands are looked at.
        const COMMANDS_MAX: usize = 64;
        if self.waiters.is_empty() {
            return false;
        }
        let commands = match write {
            Write::Command(command) => std::slice::from_ref(command),
            Write::Transaction { commands, .. } => commands,
            _ => return false,
        };
        for Expected { key, what, elements } in commands.iter().take(COMMANDS_MAX).filter_map(Expected::of) {
            self.waiters.expect(&key, what, elements);
        }
        self.waiters.has_ready()
    }

    /// An entry has written keys.
    pub fn keys_ready(&mut self, keys: Vec<ReadyKey>) {
        let is_first = self.written.is_empty();
        self.written.push_back(WrittenKeys { keys: keys.into_iter(), until: self.waiters.last_place() });
        if is_first {
            self.look_at_written();
        }
    }

    /// Looks at some of the keys that entries have written.
    fn look_at_written(&mut self) {
        let mut left = BLOCKED_READY_KEYS_STEP_MAX;
        while left > 0
            && let Some(WrittenKeys { keys, until }) = self.written.front_mut()
        {
            let until = *until;
            for key in keys.by_ref().take(left) {
                self.waiters.ready(key, until);
                left -= 1;
            }
            if keys.len() == 0 {
                self.written.pop_front();
            }
        }
        self.ended.extend(self.waiters.end_losers(BLOCKED_CLIENTS_STEP_MAX));
    }

    /// A shard has no keys any more.
    pub fn cleared(&mut self, shard: ShardId) {
        self.ended.extend(self.waiters.cleared(shard));
    }

    /// The attempts to propose now.
    pub fn take_attempts(&mut self) -> Vec<Attempt> {
        self.waiters.take_attempts(BLOCKED_CLIENTS_STEP_MAX)
    }

    /// A client's wait is to end.
    pub fn end(&mut self, ticket: &Ticket, end: End) {
        self.ended.extend(self.waiters.end(ticket, end));
    }

    /// Ends the waits whose time is over, or whose stream is gone, and goes on with what is done by and by, each up to a bound: notes at
    /// the keys who waits and who does not any longer, looks at what was written, and reads where streams end.
    pub fn expire(&mut self, now_us: u64) {
        let keys = if self.reading.is_empty() { BLOCKED_KEYS_STEP_MAX } else { BLOCKED_KEYS_STEP_MAX / 2 };
        self.waiters.go_on(keys);
        if let Some(reading) = self.reading.pop_front() {
            self.read_ends(reading, now_us);
        }
        self.look_at_written();
        self.ended.extend(self.waiters.expire(now_us, BLOCKED_CLIENTS_STEP_MAX));
    }

    /// A client's attempt was not proposed: it is routed anew. False if it is not known.
    pub fn withdraw(&mut self, ticket: &Ticket, now_us: u64) -> bool {
        let withdrawn = self.waiters.withdraw(ticket, now_us);
        let is_known = withdrawn.is_some();
        withdrawn.into_iter().for_each(|withdrawn| self.take_out(withdrawn));
        is_known
    }

    /// Clients that wait for keys of a shard that this node does not lead, or that has given their slots away, are routed anew, up to a
    /// bound.
    pub fn withdraw_lost(&mut self, now_us: u64, leads: impl Fn(ShardId) -> bool) {
        if let Some(shard) = self.moved.pop_front().and_then(|shard| shard.upgrade()) {
            self.withdraw_moved(&shard, now_us);
        }
        if self.waiters.shards().all(&leads) {
            return;
        }
        let mut looks = BLOCKED_CLIENTS_STEP_MAX;
        let lost = self.waiters.withdraw_all(now_us, &mut looks, |shard, _| !leads(shard));
        lost.into_iter().for_each(|withdrawn| self.take_out(withdrawn));
    }

    /// A shard has given slots away: clients that wait for their keys are routed anew, some of very many at once.
    pub fn withdraw_moved(&mut self, shard: &Arc<ShardHandle>, now_us: u64) {
        let is_moved = |of: ShardId, ticket: &Ticket| of == shard.id() && !shard.owns_all(ticket.span());
        let mut looks = BLOCKED_CLIENTS_STEP_MAX;
        let moved = self.waiters.withdraw_all(now_us, &mut looks, is_moved);
        if looks == 0 {
            self.moved.push_back(Arc::downgrade(shard));
        }
        moved.into_iter().for_each(|withdrawn| self.take_out(withdrawn));
    }

    fn take_out(&mut self, withdrawn: Withdrawn) {
        match withdrawn {
            Withdrawn::Again(attempt) => self.lost.push(attempt),
            Withdrawn::Ended(ended) => self.ended.push(ended),
        }
    }

    /// The commands that are to be routed anew.
    pub fn take_lost(&mut self) -> Vec<Attempt> {
        std::mem::take(&mut self.lost)
    }

    /// The answers of waits that have ended.
    pub fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    /// What a client is told that cannot wait here any longer, in place of `text`.
    #[must_use]
    pub fn refusal<'a>(ticket: &Ticket, text: &'a str) -> &'a str {
        if ticket.may_wait && text.starts_with("CLUSTERDOWN") { NO_LEADER } else { text }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::awaited_keys::{Awaited, Holds};
    use crate::command::{Call, Handler, handler};
    use crate::test_shard::{empty_shard, entry};
    use crate::{EncodedCommand, Rules};
    use resp::Reply;
    use storage::{EngineKind, RowCache, SharedResources, StorageOptions, open_engine};
    use vocab::limits::CLAIM_LOOK_PAUSE_US;

    #[test]
    fn very_many_clients_of_slots_that_moved_are_routed_anew_some_at_a_time() {
        let (before, _folder) = empty_shard(ShardId(3));
        let folder = tempfile::tempdir().unwrap();
        let resources = SharedResources::new(StorageOptions::default());
        let tree = open_engine(EngineKind::Memory, folder.path(), &resources).unwrap();
        let after = ShardHandle::open(ShardId(3), (1, 16383), tree, Arc::new(RowCache::new(1 << 20))).unwrap();
        let mut blocked = Blocked::default();
        let command = BlockingCommand::of(&EncodedCommand::new(&[b"BLPOP", b"k", b"0"])).unwrap();
        for connection in 0..BLOCKED_CLIENTS_STEP_MAX as u32 + 10 {
            let ticket = Ticket { connection, may_wait: true, ..Ticket::NONE };
            assert!(!after.owns_all(ticket.span()) && before.owns_all(ticket.span()));
            if blocked.begin(&before, ticket, command.clone(), 0) == Begin::Propose {
                blocked.answered(&ticket, b"*-1\r\n", Moment::default(), |_| None);
            }
        }
        blocked.withdraw_moved(&before, 0);
        assert!(blocked.take_lost().is_empty() && !blocked.has_work());
        blocked.withdraw_moved(&after, 0);
        assert_eq!((blocked.take_lost().len(), blocked.has_work()), (BLOCKED_CLIENTS_STEP_MAX, true));
        blocked.withdraw_lost(0, |_| true);
        assert_eq!((blocked.take_lost().len(), blocked.is_idle()), (10, true));
    }

    fn command(line: &str) -> BlockingCommand {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        BlockingCommand::of(&EncodedCommand::new(&words)).unwrap()
    }

    fn ticket(connection: u32) -> Ticket {
        Ticket { connection, may_wait: true, ..Ticket::NONE }
    }

    fn written(key: &str, what: Option<Awaited>) -> ReadyKey {
        ReadyKey { key: key.into(), holds: what.map(|what| Holds { what, elements: 1 }), is_other: false }
    }

    fn shown(attempts: &[Attempt]) -> Vec<String> {
        let args = |attempt: &Attempt| {
            let args = attempt.command.args();
            args.iter().map(|arg| String::from_utf8_lossy(arg)).collect::<Vec<_>>().join(" ")
        };
        attempts.iter().map(args).collect()
    }

    /// A client begins to wait for three streams, one of whose ends is read at a time.
    fn reading_ends(shard: &Arc<ShardHandle>) -> Blocked {
        let mut blocked = Blocked::new(1);
        let began = blocked.begin(shard, ticket(1), command("XREAD BLOCK 9 STREAMS a b c $ 7 $"), 0);
        assert_eq!(began, Begin::Later);
        blocked.expire(0);
        assert_eq!(shown(&blocked.take_attempts()), ["XREAD BLOCK 9 STREAMS a b c $ 7 $"]);
        let answered = blocked.answered(&ticket(1), b"*-1\r\n", Moment::default(), |_| Some(shard));
        assert_eq!((answered, blocked.has_work()), (Answered::Waits(true), true));
        blocked
    }

    #[test]
    fn where_very_many_streams_end_is_read_some_at_a_time() {
        let (shard, _folder) = empty_shard(ShardId(3));
        let mut blocked = reading_ends(&shard);
        // What is written before all are read is not missed: the ids are those of the beginning.
        blocked.keys_ready(vec![written("b", Some(Awaited::Stream))]);
        assert!(shown(&blocked.take_attempts()).is_empty());
        for _ in 0..2 {
            blocked.expire(0);
            assert!(blocked.has_work() && shown(&blocked.take_attempts()).is_empty());
        }
        blocked.expire(0);
        assert_eq!(shown(&blocked.take_attempts()), ["XREAD BLOCK 9 STREAMS a b c 0-0 7 0-0"]);
        assert_eq!(
            blocked.answered(&ticket(1), b"*-1\r\n", Moment::default(), |_| Some(&shard)),
            Answered::Waits(false)
        );
        assert!(!blocked.has_work());
        blocked.keys_ready(vec![written("c", Some(Awaited::Stream))]);
        assert_eq!(shown(&blocked.take_attempts()), ["XREAD BLOCK 9 STREAMS c 0-0"]);
    }

    #[test]
    fn a_wait_that_ends_while_its_ends_are_read_is_over_then() {
        let (shard, _folder) = empty_shard(ShardId(3));
        for is_late in [false, true] {
            let mut blocked = reading_ends(&shard);
            if is_late {
                blocked.expire(9_000_000);
            } else {
                blocked.end(&ticket(1), End::Timeout);
                blocked.expire(0);
            }
            assert!(blocked.take_ended().is_empty());
            (0..2).for_each(|_| blocked.expire(0));
            assert_eq!((blocked.take_ended().len(), blocked.is_idle()), (1, false), "it leaves its queues");
            blocked.expire(0);
            assert!(blocked.is_idle());
        }
    }

    #[test]
    fn a_wait_whose_slot_moves_while_its_ends_are_read_moves_then() {
        let (before, _folder) = empty_shard(ShardId(3));
        let mut blocked = reading_ends(&before);
        before.give_away(&crate::format::slots::Slots::from((0, 0)));
        blocked.withdraw_moved(&before, 0);
        assert!(blocked.take_lost().is_empty());
        (0..3).for_each(|_| blocked.expire(0));
        assert_eq!(shown(&blocked.take_lost()), ["XREAD BLOCK 9 STREAMS a b c 0-0 7 0-0"]);
    }

    #[test]
    fn very_many_written_keys_are_looked_at_some_at_a_time() {
        let (shard, _folder) = empty_shard(ShardId(3));
        let mut blocked = Blocked::default();
        let begins = |blocked: &mut Blocked, connection: u32, line: &str| {
            assert_eq!(blocked.begin(&shard, ticket(connection), command(line), 0), Begin::Propose);
            blocked.answered(&ticket(connection), b"*-1\r\n", Moment::default(), |_| Some(&shard));
        };
        begins(&mut blocked, 1, "XREADGROUP GROUP g c BLOCK 0 STREAMS gone >");
        begins(&mut blocked, 2, "BLPOP last 0");
        let mut keys = vec![written("first", None); BLOCKED_READY_KEYS_STEP_MAX];
        keys.extend([written("gone", None), written("last", Some(Awaited::List))]);
        blocked.keys_ready(keys);
        // Behind the entry there is a stream again.
        begins(&mut blocked, 3, "XREADGROUP GROUP g c BLOCK 0 STREAMS gone >");
        blocked.keys_ready(vec![written("first", None)]);
        assert!(blocked.take_ended().is_empty() && shown(&blocked.take_attempts()).is_empty());
        blocked.expire(0);
        let ended: Vec<u32> = blocked.take_ended().iter().map(|ended| ended.ticket.connection).collect();
        assert_eq!((ended, shown(&blocked.take_attempts())), (vec![1], vec!["BLPOP last 0".to_owned()]));
        assert!(!blocked.has_work());
    }

    /// What a turn and a thread do for clients that wait with CLAIM, where a look has one part left.
    fn look_whole(blocked: &mut Blocked, now: Moment) {
        blocked.expire(now.mono_us);
        if let Some(look) = blocked.take_look(now) {
            blocked.looked(look.step(), now);
        }
        assert!(blocked.looking.is_none());
    }

    /// Applies a command at that time.
    fn write(shard: &Arc<ShardHandle>, now_ms: u64, line: &str) {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        entry(shard, now_ms, |space| {
            space.go_by(Rules::NEWEST);
            let Some(Handler::Write(run)) = handler(resp::table::resolve(&args).unwrap()) else { panic!("{line}") };
            run(&mut Call { args: &args, space, reply: &mut Reply::default() }).unwrap();
        });
    }

    #[test]
    fn who_waits_with_claim_is_tried_when_something_has_been_pending_for_long_enough() {
        let (shard, _folder) = empty_shard(ShardId(3));
        let at = |wall_ms: u64| Moment { wall_ms, mono_us: (wall_ms - 10_000) * 1000 };
        for line in ["XGROUP CREATE s g 0 MKSTREAM", "XADD s 1 f v", "XADD s 2 f v"] {
            write(&shard, 10_000, line);
        }
        write(&shard, 10_000, "XREADGROUP GROUP g other STREAMS s >");
        let claim = "XREADGROUP GROUP g c COUNT 1 CLAIM 2000 BLOCK 0 STREAMS s >";
        let mut blocked = Blocked::default();
        let answers = |blocked: &mut Blocked, connection: u32, reply: &[u8], wall_ms: u64| {
            blocked.answered(&ticket(connection), reply, at(wall_ms), |_| Some(&shard))
        };
        let tries = |blocked: &mut Blocked| -> Vec<u32> {
            blocked.take_attempts().iter().map(|attempt| attempt.ticket.connection).collect()
        };
        let looks = |blocked: &mut Blocked, wall_ms: u64| {
            look_whole(blocked, at(wall_ms));
            tries(blocked)
        };
        for connection in 1..=3 {
            assert_eq!(blocked.begin(&shard, ticket(connection), command(claim), 0), Begin::Propose);
            assert_eq!(answers(&mut blocked, connection, b"*-1\r\n", 10_000), Answered::Waits(true));
        }
        // An entry has come, and another client has it.
        blocked.keys_ready(vec![written("s", Some(Awaited::Stream))]);
        assert_eq!(tries(&mut blocked), [1, 2, 3]);
        (1..=3).for_each(|connection| _ = answers(&mut blocked, connection, b"*-1\r\n", 10_000));
        assert_eq!(blocked.deadline_us(), Some(CLAIM_LOOK_PAUSE_US));
        assert!(looks(&mut blocked, 10_100).is_empty());
        assert_eq!(blocked.deadline_us(), Some(2_001_000));
        assert!(looks(&mut blocked, 12_000).is_empty());
        assert_eq!(looks(&mut blocked, 12_001), [1, 2], "there are two entries");
        let claims = claim.replace(" BLOCK 0", "");
        for (connection, wall_ms) in [(1, 12_002), (2, 12_003)] {
            write(&shard, 12_001, &claims);
            assert_eq!(answers(&mut blocked, connection, b"*1\r\n", 12_001), Answered::Deliver);
            assert!(looks(&mut blocked, wall_ms).is_empty(), "there is no more");
        }
        assert_eq!(blocked.deadline_us(), Some(4_002_000));
        // XNACK writes the record.
        write(&shard, 12_004, "XNACK s g FAIL IDS 1 1");
        blocked.keys_ready(vec![written("s", Some(Awaited::Stream))]);
        assert_eq!(tries(&mut blocked), [3]);
        assert_eq!(answers(&mut blocked, 3, b"*-1\r\n", 12_005), Answered::Waits(false));
        // What finds nothing is not tried again at once, again and again.
        assert_eq!((blocked.deadline_us(), looks(&mut blocked, 14_002)), (Some(4_002_000), vec![3]));
        assert_eq!(answers(&mut blocked, 3, b"*-1\r\n", 14_002), Answered::Waits(false));
        assert_eq!(blocked.deadline_us(), Some(4_002_000 + 2 * CLAIM_LOOK_PAUSE_US));
        assert_eq!(looks(&mut blocked, 14_202), [3]);
        assert_eq!(answers(&mut blocked, 3, b"*1\r\n", 14_202), Answered::Deliver);
        assert_eq!((blocked.deadline_us(), blocked.is_idle()), (None, true));
    }

    #[test]
    fn a_group_whose_clients_are_served_keeps_no_other_from_its_look() {
        let (shard, _folder) = empty_shard(ShardId(3));
        let at = |wall_ms: u64| Moment { wall_ms, mono_us: (wall_ms - 10_000) * 1000 };
        for line in
            ["XGROUP CREATE s g 0 MKSTREAM", "XGROUP CREATE s h 0", "XADD s 1 f v", "XADD s 2 f v", "XADD s 3 f v"]
        {
            write(&shard, 10_000, line);
        }
        for group in ["g", "h"] {
            write(&shard, 10_000, &format!("XREADGROUP GROUP {group} other STREAMS s >"));
        }
        let mut blocked = Blocked::default();
        let claim = "XREADGROUP GROUP g c COUNT 1 CLAIM 2000 BLOCK 0 STREAMS s >";
        for (connection, line) in
            [(1, claim), (2, claim), (3, claim), (4, "XREADGROUP GROUP h c CLAIM 2001 BLOCK 0 STREAMS s >")]
        {
            assert_eq!(blocked.begin(&shard, ticket(connection), command(line), 0), Begin::Propose);
            blocked.answered(&ticket(connection), b"*-1\r\n", at(10_000), |_| Some(&shard));
        }
        let looks = |blocked: &mut Blocked, wall_ms: u64| -> Vec<u32> {
            look_whole(blocked, at(wall_ms));
            blocked.take_attempts().iter().map(|attempt| attempt.ticket.connection).collect()
        };
        for wall_ms in [10_100, 10_101] {
            assert!(looks(&mut blocked, wall_ms).is_empty());
        }
        assert_eq!(looks(&mut blocked, 12_002), [1, 2, 3]);
        write(&shard, 12_002, &claim.replace(" BLOCK 0", ""));
        let answered = blocked.answered(&ticket(1), b"*1\r\n", at(12_003), |_| Some(&shard));
        assert_eq!(answered, Answered::Deliver);
        assert_eq!(looks(&mut blocked, 12_004), [4]);
    }

    #[test]
    fn a_long_look_is_made_in_parts_and_ends_with_its_clients() {
        const STREAMS: usize = CLAIM_LOOK_PARTS_MAX + 9;
        let (shard, _folder) = empty_shard(ShardId(3));
        let streams: Vec<String> = (0..STREAMS).map(|n| format!("s{n}")).collect();
        let line =
            format!("XREADGROUP GROUP g c CLAIM 1 BLOCK 0 STREAMS {}{}", streams.join(" "), " >".repeat(STREAMS));
        for ends in [false, true] {
            let mut blocked = Blocked::default();
            assert_eq!(blocked.begin(&shard, ticket(1), command(&line), 0), Begin::Propose);
            let now = Moment { wall_ms: 10_000, mono_us: 0 };
            blocked.answered(&ticket(1), b"*-1\r\n", now, |_| Some(&shard));
            let now = Moment { wall_ms: 10_100, mono_us: CLAIM_LOOK_PAUSE_US };
            let look = blocked.take_look(now).unwrap();
            assert!(blocked.take_look(now).is_none() && blocked.deadline_us().is_none(), "one is under way");
            if ends {
                blocked.end(&ticket(1), End::Gone);
            }
            blocked.looked(look.step(), now);
            assert_eq!(blocked.looking.is_some(), !ends);
            if !ends {
                look_whole(&mut blocked, now);
            }
            assert_eq!(blocked.deadline_us().is_some(), !ends);
        }
    }
}
