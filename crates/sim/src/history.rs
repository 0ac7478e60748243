//! What clients asked and what they were told, in the order in which it happened.
//!
//! Keys come in groups that share a hash tag, and so a slot, a shard and a log; a group is what is checked as one
//! object. Every value is written once, so that a value tells its write; what removes a key writes another as well, so
//! that it can be told too.

use std::fmt;

/// Keys of one group.
pub const KEYS: usize = 3;

/// A key of a group.
pub type Key = usize;

/// A value and the version that it has.
pub type Seen = Option<(u64, u64)>;

/// What is done to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads value and version.
    Get,
    /// Writes a value.
    Put(u64),
    /// Writes a value that goes by itself after so many ms.
    PutFor(u64, u64),
    /// Writes a value if the key has this version; 0: if it is absent. Else nothing of the request is done.
    PutIf(u64, u64),
    /// Removes the key.
    Delete,
    /// Removes all keys of the shard: FLUSHALL's part there.
    Clear,
    /// Nothing of the request is done unless the key has this version; 0: unless it is absent.
    Check(u64),
}

/// What was answered to one action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was there.
    Read(Seen),
    /// The new version.
    Written(u64),
    /// Whether there was something.
    Deleted(bool),
    /// The condition held.
    Held,
    /// Everything was removed.
    Cleared,
}

/// What a client knows of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing: it may have been done, or be done yet, or never.
    Unknown,
    /// It was not done, and will never be: the store said so.
    Refused,
    /// A condition did not hold, so nothing was done. What was seen instead, if that was told: by which action.
    Unmet(Option<(usize, Seen)>),
    /// It was done.
    Done(Vec<Outcome>),
}

/// One request: all of its actions happen at one moment.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Who asked.
    pub client: usize,
    /// The group of keys.
    pub group: usize,
    /// In order.
    pub actions: Vec<(Key, Action)>,
    /// When it was asked: a number that only rises.
    pub begun: u64,
    /// When the answer came; `u64::MAX` if none did.
    pub ended: u64,
    /// What it was.
    pub answer: Answer,
    /// It may be answered by any replica: what it saw may be old.
    pub weak: bool,
    /// What the time may be at a node that deals with it, in ms: the earliest when it was asked, and the latest when the
    /// answer came.
    pub between_ms: (u64, u64),
}

impl Action {
    /// The value that it writes.
    #[must_use]
    pub fn value(self) -> Option<u64> {
        match self {
            Self::Put(value) | Self::PutFor(value, _) | Self::PutIf(value, _) => Some(value),
            _ => None,
        }
    }

    /// Whether it may change something.
    #[must_use]
    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::Check(_))
    }
}

impl Operation {
    /// Whether it may change something.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.actions.iter().any(|(_, action)| action.writes())
    }

    /// The version that it was told that its writes have.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        let Answer::Done(outcomes) = &self.answer else { return None };
        outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Written(version) => Some(*version),
            _ => None,
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (begun, ended) = (self.begun, self.ended);
        let ended = if ended == u64::MAX { "…".to_owned() } else { ended.to_string() };
        write!(f, "client {} group {} {begun}..{ended} {:?} → {:?}", self.client, self.group, self.actions, self.answer)
    }
}

/// What clients asked and were told, in order.
#[derive(Default)]
pub struct History {
    operations: Vec<Operation>,
    moment: u64,
}

impl History {
    /// A client asks; answers the number to `end` it by.
    pub fn begin(
        &mut self,
        client: usize,
        group: usize,
        actions: Vec<(Key, Action)>,
        weak: bool,
        now_ms: u64,
    ) -> usize {
        self.moment += 1;
        let (begun, ended) = (self.moment, u64::MAX);
        let (answer, between_ms) = (Answer::Unknown, (now_ms, u64::MAX));
        self.operations.push(Operation { client, group, actions, begun, ended, answer, weak, between_ms });
        self.operations.len() - 1
    }

    /// The number of what happened last.
    #[must_use]
    pub fn moment(&self) -> u64 {
        self.moment
    }

    /// The client is answered.
    pub fn end(&mut self, number: usize, answer: Answer, now_ms: u64) {
        self.moment += 1;
        let operation = &mut self.operations[number];
        assert_eq!(operation.ended, u64::MAX, "answered twice: {operation}");
        if answer != Answer::Unknown {
            operation.ended = self.moment;
            operation.between_ms.1 = now_ms;
        }
        operation.answer = answer;
    }

    /// All operations, in the order in which they began.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The operations of one group.
    #[must_use]
    pub fn of_group(&self, group: usize) -> Vec<&Operation> {
        self.operations.iter().filter(|operation| operation.group == group).collect()
    }
}
