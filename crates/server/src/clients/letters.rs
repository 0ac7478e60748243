//! What comes for a connection that is away: kept in its order, and within the bound of what its client may be owed.
//!
//! Invariant: what is kept, and what the client was owed when its connection went away, are together at most the hard limit of
//! `client-output-buffer-limit` and one letter. Beyond, nothing more is kept, and the connection is closed when it is back.

use super::is_large::is_large;
use super::send_queue::Unsent;
use crate::mailbox::WorkerMessage;
use crate::shared::NodeShared;
use node::Ticket;
use node::config::{ClientClass, OutputLimit};
use node::pubsub::{Delivery, Evicted};
use node::tracking::Invalidation;
use vocab::NodeId;

/// What is for a connection that is away.
pub(crate) enum Letter {
    /// The answer to one of its requests.
    Answer(Ticket, Vec<u8>),
    /// What else its worker is told of it.
    Message(WorkerMessage),
    /// A message that it may have subscribed to.
    Push(Delivery),
    /// A subscription that it may have has ended.
    Evicted(Evicted),
    /// What it may have cached has changed: it alone is named.
    Told(Invalidation),
    /// The same: it is told instead of another client.
    Instead(Invalidation),
    /// A command was run.
    Shown(Vec<u8>),
    /// Its script has run a command, which monitors are shown.
    Called(Vec<u8>),
    /// What the send thread could not send.
    Unsent(Unsent),
    /// A node cannot be talked to.
    NodeLost(NodeId),
    /// The users have changed.
    UsersChanged,
    /// Databases have other slots.
    Exchanged,
    /// Pauses are over.
    Look,
}

impl Letter {
    /// The bytes that it takes, or that its client will be owed for it where it shares them with others.
    pub(super) fn bytes(&self) -> usize {
        let keys = |told: &Invalidation| told.keys.iter().flatten().map(|key| key.len() + size_of::<Vec<u8>>()).sum();
        let more = match self {
            Self::Answer(_, reply) => reply.len(),
            Self::Message(WorkerMessage::Part(part)) => part.bytes.len(),
            Self::Message(WorkerMessage::StoreAnswers(it)) => it.answers.iter().map(Vec::len).sum::<usize>(),
            Self::Push(delivery) => delivery.push.bytes(),
            Self::Evicted(evicted) => evicted.name.len(),
            Self::Told(told) | Self::Instead(told) => keys(told),
            Self::Shown(line) | Self::Called(line) => line.len(),
            Self::Unsent(unsent) => unsent.bytes.len(),
            Self::Message(_) | Self::NodeLost(_) | Self::UsersChanged | Self::Exchanged | Self::Look => 0,
        };
        size_of::<Self>() + more
    }

    /// Whether only a worker can read it.
    pub(super) fn is_for_worker(&self) -> bool {
        matches!(self, Self::Message(_) | Self::NodeLost(_) | Self::Exchanged)
    }

    /// Whether one of them says as much as several.
    fn is_said_once(&self) -> bool {
        matches!(self, Self::UsersChanged | Self::Exchanged | Self::Look)
    }

    /// Whether only those who are subscribers or monitors get it.
    fn is_for_subscribers(&self) -> bool {
        matches!(self, Self::Push(_) | Self::Shown(_))
    }
}

/// Whether to read letters takes so long that a thread does it.
pub(super) fn are_long(letters: &[Letter]) -> bool {
    is_large(letters.len(), letters.iter().map(Letter::bytes).sum())
}

/// What a client may be owed.
#[derive(Clone, Copy, Default)]
pub(super) struct OwedMax {
    /// By the class that it is of.
    pub(super) own: OutputLimit,
    /// By that of subscribers, which messages have.
    pub(super) of_subscribers: OutputLimit,
}

impl OwedMax {
    /// That of a client, who may be a subscriber.
    pub(super) fn of(store: &NodeShared, is_subscriber: bool) -> Self {
        let of_subscribers = store.config.output_limit(ClientClass::Pubsub);
        let own = if is_subscriber { of_subscribers } else { store.config.output_limit(ClientClass::Normal) };
        Self { own, of_subscribers }
    }
}

/// What has come for a connection that is away.
#[derive(Default)]
pub(super) struct Letters {
    letters: Vec<Letter>,
    /// Bytes that its client was owed when it went away, and those of the letters.
    owed_bytes: u64,
    max: OwedMax,
    /// They are more than the client may be owed: nothing more is kept.
    is_over: bool,
}

impl Letters {
    /// None yet, for a client who is owed so many bytes.
    pub(super) fn none(owed_bytes: usize, max: OwedMax) -> Self {
        Self { owed_bytes: owed_bytes as u64, max, ..Self::default() }
    }

    /// Keeps one, in its order.
    pub(super) fn keep(&mut self, letter: Letter) {
        let is_known = |kept: &Letter| std::mem::discriminant(kept) == std::mem::discriminant(&letter);
        if self.is_over || (letter.is_said_once() && self.letters.iter().any(is_known)) {
            return;
        }
        let max = if letter.is_for_subscribers() { self.max.of_subscribers } else { self.max.own };
        self.owed_bytes += letter.bytes() as u64;
        self.is_over = max.hard_bytes > 0 && self.owed_bytes > max.hard_bytes;
        self.letters.push(letter);
    }

    /// Whether they are more than the client may be owed.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// All of them, in their order.
    pub(super) fn into_all(self) -> Vec<Letter> {
        self.letters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(hard_bytes: u64) -> OutputLimit {
        OutputLimit { hard_bytes, soft_bytes: 0, soft_s: 0 }
    }

    /// How many of a thousand letters of 1,000 bytes are kept.
    fn kept(owed_bytes: usize, own: u64, of_subscribers: u64, letter: impl Fn(Vec<u8>) -> Letter) -> (usize, bool) {
        let max = OwedMax { own: limit(own), of_subscribers: limit(of_subscribers) };
        let mut letters = Letters::none(owed_bytes, max);
        (0..1000).for_each(|_| letters.keep(letter(vec![b'x'; 1000])));
        let is_over = letters.is_over();
        (letters.into_all().len(), is_over)
    }

    #[test]
    fn what_is_kept_is_bounded_as_what_a_client_is_owed() {
        let each = 1000 + size_of::<Letter>() as u64;
        let ten = 10 * each;
        assert_eq!(kept(0, 0, 0, Letter::Shown), (1000, false), "no limit");
        assert_eq!(kept(0, 0, ten, Letter::Shown), (11, true), "the one that is too much is the last");
        assert_eq!(kept(ten as usize, 0, ten, Letter::Shown), (1, true), "what was owed before counts");
        assert_eq!(kept(0, ten, 0, Letter::Shown), (1000, false), "a monitor has the limit of subscribers");
        let told = |key| Letter::Told(Invalidation { keys: Some(vec![key]), is_broadcast: false, clients: Vec::new() });
        let (count, is_over) = kept(0, ten, 0, told);
        assert!(is_over && count <= 11, "{count}");
        assert_eq!(kept(0, 0, ten, told), (1000, false), "what caches are told has the client's own");
    }

    #[test]
    fn what_says_the_same_is_kept_once() {
        let mut letters = Letters::none(0, OwedMax::default());
        for _ in 0..1000 {
            letters.keep(Letter::Look);
            letters.keep(Letter::UsersChanged);
        }
        letters.keep(Letter::NodeLost(NodeId(1)));
        letters.keep(Letter::NodeLost(NodeId(2)));
        assert_eq!(letters.into_all().len(), 4);
    }
}
