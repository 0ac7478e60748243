//! Where scripts of one shard wait for those before them.
//!
//! Entries are applied in their order, so scripts that take long hold up the writes of all clients of the shard: the times of all that
//! are under way add up, however few each client has. Where the last ones took long, one at a time is proposed, and the next when it
//! is applied: what others have written meanwhile comes first. What a client writes behind a script of its own waits with it.

use super::pending::Pending;
use super::{KeyHash, Ticket, Write};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use vocab::limits::{LANE_BYTES_MAX, LANE_WAIT_US_MAX, LANE_WRITES_MAX, SHARD_SCRIPTS_MAX};

/// The connection that sends a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Sender {
    worker: u32,
    connection: u32,
    generation: u32,
}

impl Sender {
    fn of(ticket: &Ticket) -> Self {
        Self { worker: ticket.worker, connection: ticket.connection, generation: ticket.generation }
    }
}

/// Writes of one connection that wait.
struct Waiting {
    sender: Sender,
    pending: Pending,
    /// How many bytes its writes have.
    bytes: usize,
}

/// See the module's documentation.
pub(super) struct ScriptLane {
    waiting: VecDeque<Waiting>,
    /// Whose they are, and how many of them.
    senders: HashMap<Sender, usize>,
    /// How many writes wait, and how many bytes they have.
    writes: usize,
    bytes: usize,
    /// So many scripts may be under way.
    width: usize,
    /// How many scripts the entry has that is being applied, and how long slow entries had taken before it.
    running: usize,
    slow_us: u64,
}

impl Default for ScriptLane {
    fn default() -> Self {
        let (waiting, senders) = (VecDeque::new(), HashMap::new());
        Self { waiting, senders, writes: 0, bytes: 0, width: SHARD_SCRIPTS_MAX, running: 0, slow_us: 0 }
    }
}

impl ScriptLane {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether writes of that client wait, so that its next ones come behind them.
    pub(super) fn holds(&self, ticket: &Ticket) -> bool {
        !self.is_empty() && self.senders.contains_key(&Sender::of(ticket))
    }

    /// Whether a script need not wait while so many are under way.
    pub(super) fn is_open(&self, under_way: usize) -> bool {
        self.is_empty() && (under_way < self.width || self.is_unbounded())
    }

    /// Whether as many scripts may be under way as there are: none has taken long lately.
    fn is_unbounded(&self) -> bool {
        self.width == SHARD_SCRIPTS_MAX
    }

    /// A write waits; false if too many do.
    pub(super) fn push(&mut self, write: &Write, keys: &[KeyHash], ticket: Ticket, now_us: u64) -> bool {
        if self.writes >= LANE_WRITES_MAX || self.bytes.saturating_add(write.bytes()) > LANE_BYTES_MAX {
            return false;
        }
        let sender = Sender::of(&ticket);
        // What follows on a script and is none goes with it.
        let joins = |last: &Waiting| last.sender == sender && last.pending.takes(write, keys, &ticket);
        if write.scripts() > 0 || !self.waiting.back().is_some_and(joins) {
            self.waiting.push_back(Waiting { sender, pending: Pending::new(now_us), bytes: 0 });
            *self.senders.entry(sender).or_default() += 1;
        }
        let last = self.waiting.back_mut().expect("one was pushed if none takes it");
        last.pending.add(write, keys, ticket);
        last.bytes += write.bytes();
        self.writes += 1;
        self.bytes += write.bytes();
        true
    }

    /// The next writes to be proposed while so many scripts are under way.
    pub(super) fn next(&mut self, under_way: usize) -> Option<Pending> {
        let may_run = under_way < self.width || self.is_unbounded();
        self.take_first(|first| may_run || first.pending.scripts == 0)
    }

    /// The writes that have waited longest, if they have waited for too long.
    pub(super) fn late(&mut self, now_us: u64) -> Option<Pending> {
        self.take_first(|first| now_us > first.pending.since_us + LANE_WAIT_US_MAX)
    }

    fn take_first(&mut self, is_one: impl Fn(&Waiting) -> bool) -> Option<Pending> {
        let first = self.waiting.pop_front_if(|first| is_one(first))?;
        self.writes -= first.pending.tickets.len();
        self.bytes -= first.bytes;
        if let Entry::Occupied(mut left) = self.senders.entry(first.sender) {
            *left.get_mut() -= 1;
            if *left.get() == 0 {
                left.remove();
            }
        }
        Some(first.pending)
    }

    /// All writes that wait.
    pub(super) fn open(&mut self) -> impl Iterator<Item = Pending> + use<> {
        (self.writes, self.bytes) = (0, 0);
        self.senders.clear();
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.pending)
    }

    /// How many scripts the entry has that is being applied.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// An entry with so many scripts is about to be applied. `slow_us`: how long slow entries of the shard have taken together.
    pub(super) fn runs(&mut self, scripts: usize, slow_us: u64) {
        (self.running, self.slow_us) = (scripts, slow_us);
    }

    /// It is applied.
    pub(super) fn applied(&mut self, slow_us: u64) {
        if std::mem::take(&mut self.running) > 0 {
            self.width = if slow_us > self.slow_us { 1 } else { (2 * self.width).min(SHARD_SCRIPTS_MAX) };
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::format::entry::EncodedCommand;

    fn of(connection: u32, sequence: u64) -> Ticket {
        Ticket { connection, sequence, ..Ticket::NONE }
    }

    fn write(line: &str) -> Write {
        Write::Command(EncodedCommand::new(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()))
    }

    /// One that has just seen a slow script.
    fn slow() -> ScriptLane {
        let mut lane = ScriptLane::default();
        lane.runs(1, 500);
        lane.applied(10_500);
        lane
    }

    fn sequences(pending: Option<Pending>) -> Vec<u64> {
        pending.map(|pending| pending.tickets.iter().map(|ticket| ticket.sequence).collect()).unwrap_or_default()
    }

    #[test]
    fn scripts_go_one_after_the_other_where_they_take_long_and_their_clients_writes_behind_them() {
        let mut lane = slow();
        assert!(lane.is_open(0) && !lane.is_open(1));
        let script = write("EVAL return 0");
        let sent = [(1, &script), (2, &script), (2, &write("SET a 1")), (2, &write("SET b 1")), (1, &write("SET c 1"))];
        for (sequence, (connection, write)) in sent.into_iter().enumerate() {
            assert!(lane.push(write, &[], of(connection, sequence as u64), 7));
        }
        assert!(!lane.is_open(0), "none overtakes those that wait");
        assert!(lane.holds(&of(1, 9)) && lane.holds(&of(2, 9)) && !lane.holds(&of(3, 9)));
        assert!(lane.next(1).is_none());
        assert_eq!(sequences(lane.next(0)), [0]);
        assert!(lane.next(1).is_none() && lane.holds(&of(1, 9)), "its later write waits on");
        assert_eq!(sequences(lane.next(0)), [1, 2, 3], "what follows on a script is in its entry");
        assert_eq!(sequences(lane.next(1)), [4], "what is no script waits for none but those before it");
        assert!(lane.is_empty() && !lane.holds(&of(1, 9)));
        assert_eq!((lane.writes, lane.bytes, lane.senders.len()), (0, 0, 0));
    }

    #[test]
    fn it_widens_while_they_are_quick_and_narrows_when_one_is_slow() {
        let mut lane = slow();
        for width in [2, 4, 8] {
            lane.runs(3, 20_000);
            assert_eq!(lane.running(), 3);
            lane.applied(20_000);
            assert_eq!((lane.running(), lane.is_open(width - 1), lane.is_open(width)), (0, true, false));
        }
        lane.runs(0, 20_000);
        lane.applied(90_000);
        assert!(lane.is_open(7), "an entry without scripts tells nothing");
        lane.runs(8, 90_000);
        lane.applied(110_000);
        assert!(!lane.is_open(1));
        assert!(ScriptLane::default().is_open(SHARD_SCRIPTS_MAX + 1), "where none has taken long there is no bound");
    }

    #[test]
    fn it_has_a_bound_and_is_emptied_in_order() {
        let mut lane = slow();
        let large = write(&format!("EVAL {}", "x".repeat(LANE_BYTES_MAX / 3)));
        assert_eq!(
            [0, 1, 2].map(|sequence| lane.push(&large, &[], of(sequence as u32, sequence), 0)),
            [true, true, false]
        );
        assert!(lane.push(&write("EVAL return 0"), &[], of(9, 9), 7));
        assert!(lane.late(LANE_WAIT_US_MAX).is_none());
        assert_eq!(sequences(lane.late(LANE_WAIT_US_MAX + 1)), [0]);
        assert_eq!(lane.open().map(|pending| sequences(Some(pending))).collect::<Vec<_>>(), [[1], [9]]);
        assert!(lane.is_open(0) && !lane.is_open(1), "and is as narrow as before");
    }
}
