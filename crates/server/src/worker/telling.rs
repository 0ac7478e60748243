//! What entries tell clients of besides their answers: events of keys, messages of scripts, keys that clients are to forget.
//!
//! An entry may tell of a million keys, or hundreds of clients of long ones. So all is told in the order in which it came, some of it a turn.
//!
//! Invariant: what waits takes at most [`TOLD_BACKLOG_BYTES_MAX`], and what one entry tells.

use crate::clients::{Clients, push, tell};
use crate::mailbox::WorkerMessage;
use crate::shared::NodeShared;
use node::pubsub::{SubscriptionKind, posts};
use node::tracking::{ChangedKeys, ToldRoom};
use node::{KeyspaceEvent, ScriptMessage, ShardHandle};
use std::collections::VecDeque;
use std::sync::Arc;
use std::vec::IntoIter;
use vocab::limits::{TOLD_BACKLOG_BYTES_MAX, TOLD_STEP_MAX};

/// Bytes that a worker tells clients, each counted for each client, before it does something else.
const TOLD_STEP_BYTES_SOFT: usize = 256 * 1024;

/// What one entry tells.
enum ToldByEntry {
    Events(IntoIter<KeyspaceEvent>),
    Messages(IntoIter<ScriptMessage>),
    Changes(Arc<ShardHandle>, ChangedKeys),
}

/// What waits to be told.
#[derive(Default)]
pub(super) struct Telling {
    /// The oldest first, each with its bytes.
    waiting: VecDeque<(ToldByEntry, usize)>,
    bytes: usize,
    /// Events and messages that were not told, because too much waited.
    lost: u64,
}

impl Telling {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Events of an entry that this node has proposed.
    pub(super) fn events(&mut self, events: Vec<KeyspaceEvent>) {
        let bytes = events.iter().map(KeyspaceEvent::bytes).sum();
        self.push(events.len(), bytes, || ToldByEntry::Events(events.into_iter()));
    }

    /// What the scripts of such an entry have published.
    pub(super) fn messages(&mut self, messages: Vec<ScriptMessage>) {
        let bytes = messages.iter().map(ScriptMessage::bytes).sum();
        self.push(messages.len(), bytes, || ToldByEntry::Messages(messages.into_iter()));
    }

    /// Changes of an entry.
    pub(super) fn changes(&mut self, handle: &Arc<ShardHandle>, changed: ChangedKeys) {
        if self.bytes > TOLD_BACKLOG_BYTES_MAX {
            // No change may be missed.
            return handle.lose_trackers();
        }
        self.add(changed.bytes(), ToldByEntry::Changes(handle.clone(), changed));
    }

    fn push(&mut self, count: usize, bytes: usize, told: impl FnOnce() -> ToldByEntry) {
        if self.bytes <= TOLD_BACKLOG_BYTES_MAX {
            return self.add(bytes, told());
        }
        if self.lost == 0 {
            log::warn!(
                "entries tell clients more than their connections take: keyspace events and messages of scripts are lost"
            );
        }
        self.lost += count as u64;
    }

    fn add(&mut self, bytes: usize, told: ToldByEntry) {
        self.bytes += bytes;
        self.waiting.push_back((told, bytes));
    }

    /// Tells some of it.
    pub(super) fn step(&mut self, store: &NodeShared, clients: &mut Clients) {
        let mut room = ToldRoom::new(TOLD_STEP_MAX, TOLD_STEP_BYTES_SOFT);
        while !room.is_over()
            && let Some((told, bytes)) = self.waiting.front_mut()
        {
            let before = room.count();
            let is_over = told.tell(&mut room, &mut Publisher { store, clients });
            if room.count() == before {
                // Of entries that tell nothing there may be very many.
                room.take(0);
            }
            if is_over {
                self.bytes -= *bytes;
                self.waiting.pop_front();
            }
        }
        if self.lost > 0 && self.waiting.is_empty() {
            let lost = std::mem::take(&mut self.lost);
            log::warn!("{lost} keyspace events and messages of scripts were lost");
        }
    }
}

impl ToldByEntry {
    /// Tells of it while there is room; answers whether that was the rest.
    fn tell(&mut self, room: &mut ToldRoom, publisher: &mut Publisher<'_>) -> bool {
        match self {
            Self::Events(events) => {
                publisher.events(events, room);
                events.len() == 0
            }
            Self::Messages(messages) => {
                while !room.is_over()
                    && let Some(message) = messages.next()
                {
                    room.take(publisher.message(&message));
                }
                messages.len() == 0
            }
            Self::Changes(handle, changed) => {
                let Some(keys) = handle.tracked() else { return true };
                for told in keys.node().told(keys, changed, room, handle.leading()) {
                    tell(publisher.store, publisher.clients, told);
                }
                changed.is_empty()
            }
        }
    }
}

/// Publishes to the subscribers of all nodes.
struct Publisher<'a> {
    store: &'a NodeShared,
    clients: &'a mut Clients,
}

impl Publisher<'_> {
    fn events(&mut self, events: &mut IntoIter<KeyspaceEvent>, room: &mut ToldRoom) {
        let is_heard = self.store.broker.has_listeners();
        let classes = self.store.config.event_classes();
        let databases = self.store.known().databases.clone();
        while !room.is_over()
            && let Some(event) = events.next()
        {
            let (database, mut bytes) = (event.database(&databases), 0);
            if is_heard && classes.by_key() {
                let channel = event.channel_of_key(database);
                bytes += self.publish(SubscriptionKind::Channel, &channel, event.event.name.as_bytes());
            }
            if is_heard && classes.by_event() {
                let channel = event.channel_of_event(database);
                bytes += self.publish(SubscriptionKind::Channel, &channel, event.shown_key());
            }
            room.take(bytes);
        }
    }

    fn message(&mut self, message: &ScriptMessage) -> usize {
        let kind = if message.is_of_slot { SubscriptionKind::ShardChannel } else { SubscriptionKind::Channel };
        self.publish(kind, &message.channel, &message.message)
    }

    /// Answers how many bytes that is for all who are told together; a step by which they were found counts as one.
    fn publish(&mut self, kind: SubscriptionKind, channel: &[u8], message: &[u8]) -> usize {
        let broker = &self.store.broker;
        let publication = broker.publish(kind, channel, message);
        // The entry is applied: it cannot be told to wait.
        let reaches_others = !broker.is_overfull();
        for delivery in &publication.deliveries {
            if reaches_others {
                self.store.mailboxes.deliver(broker, delivery, Some(self.clients.worker() as u32));
            }
        }
        push(self.clients, &publication.deliveries);
        let of_clients = publication.deliveries.iter().map(|it| it.push.bytes().saturating_mul(it.audience.len()));
        let of_nodes = publication.nodes.len() * (channel.len() + message.len());
        let bytes = of_clients.sum::<usize>() + of_nodes + publication.steps;
        // No one counts the receivers: the message has no number.
        for (node, message) in posts(&publication, 0, &kind.known_name(channel), message) {
            self.store.mailboxes.tell_links_worker(WorkerMessage::Post(node, message));
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::IdleNode;
    use node::Event;
    use node::peer_protocol::{Interest, PeerMessage, Wish};
    use vocab::NodeId;

    const THERE: NodeId = NodeId(99);

    /// A node, and another one whose clients listen to all channels.
    fn node() -> IdleNode {
        let node = IdleNode::open();
        let all = Wish { name: Arc::from(&b"*"[..]), is_pattern: true, wanted: true };
        node.store.broker.link_up(THERE);
        node.store.broker.hear_interest(THERE, &Interest { number: 1, begins: true, wishes: vec![all] });
        node
    }

    /// What the other node is sent since then, in words.
    fn told(node: &IdleNode) -> Vec<String> {
        let word = |message| match message {
            WorkerMessage::Post(THERE, PeerMessage::Publish { id: 0, channel, message }) => {
                format!("{}: {}", String::from_utf8_lossy(&channel), String::from_utf8_lossy(&message))
            }
            _ => "?".to_owned(),
        };
        node.mail().into_iter().map(word).collect()
    }

    fn message(n: usize) -> ScriptMessage {
        ScriptMessage { is_of_slot: false, channel: b"news".to_vec(), message: n.to_string().into_bytes() }
    }

    #[test]
    fn events_are_told_on_the_channels_that_the_settings_name() {
        let cases: [(&[u8], &[&str]); 4] = [
            (b"", &[]),
            (b"K$", &["__keyspace@0__:k: set"]),
            (b"E$", &["__keyevent@0__:set: k"]),
            (b"KE$", &["__keyspace@0__:k: set", "__keyevent@0__:set: k"]),
        ];
        for (classes, expected) in cases {
            let node = node();
            node.store.config.set(&[(b"notify-keyspace-events", classes)]).unwrap();
            let (mut telling, mut clients) = (Telling::default(), Clients::new(0, node.store.clone()));
            telling.events(vec![KeyspaceEvent { event: Event::SET, key: b"k".to_vec() }]);
            telling.step(&node.store, &mut clients);
            assert_eq!((told(&node), telling.is_empty()), (expected.iter().map(ToString::to_string).collect(), true));
        }
    }

    #[test]
    fn a_step_tells_some_and_the_order_is_kept() {
        let node = node();
        let (mut telling, mut clients) = (Telling::default(), Clients::new(0, node.store.clone()));
        telling.messages((0..TOLD_STEP_MAX - 1).map(message).collect());
        telling.messages((TOLD_STEP_MAX - 1..TOLD_STEP_MAX + 1).map(message).collect());
        let expected: Vec<String> = (0..TOLD_STEP_MAX + 1).map(|n| format!("news: {n}")).collect();
        let (first, second) = expected.split_at(TOLD_STEP_MAX);
        let steps: [(&[String], bool); 3] = [(first, false), (second, true), (&[], true)];
        for (step, is_empty) in steps {
            telling.step(&node.store, &mut clients);
            assert_eq!((&told(&node)[..], telling.is_empty()), (step, is_empty));
        }
        assert_eq!(telling.bytes, 0);
    }

    #[test]
    fn a_step_ends_by_the_bytes_that_it_tells() {
        let node = node();
        let (mut telling, mut clients) = (Telling::default(), Clients::new(0, node.store.clone()));
        let long = ScriptMessage { message: vec![b'x'; TOLD_STEP_BYTES_SOFT / 3], ..message(1) };
        telling.messages(vec![long; 4]);
        for (expected, is_empty) in [(3, false), (1, true)] {
            telling.step(&node.store, &mut clients);
            assert_eq!((told(&node).len(), telling.is_empty()), (expected, is_empty));
        }
    }

    #[test]
    fn a_step_ends_by_what_it_takes_to_find_who_is_told() {
        let node = IdleNode::open();
        // Other channels, which look much the same.
        let names: Vec<String> = (0..64).map(|n| format!("*{}{n:02}b", "a".repeat(100))).collect();
        let wishes = names.iter().map(|name| Wish { name: name.as_bytes().into(), is_pattern: true, wanted: true });
        node.store.broker.hear_interest(THERE, &Interest { number: 1, begins: true, wishes: wishes.collect() });
        let (mut telling, mut clients) = (Telling::default(), Clients::new(0, node.store.clone()));
        telling.messages(vec![ScriptMessage { channel: vec![b'a'; 200], ..message(1) }; 4]);
        let mut steps = 0;
        while !telling.is_empty() {
            telling.step(&node.store, &mut clients);
            steps += 1;
        }
        assert_eq!((steps, told(&node).len()), (4, 0));
    }

    #[test]
    fn what_comes_while_too_much_waits_is_lost() {
        let node = node();
        let (mut telling, mut clients) = (Telling::default(), Clients::new(0, node.store.clone()));
        telling.add(TOLD_BACKLOG_BYTES_MAX + 1, ToldByEntry::Messages(vec![message(1)].into_iter()));
        telling.messages(vec![message(2), message(3)]);
        telling.events(vec![KeyspaceEvent { event: Event::SET, key: b"k".to_vec() }]);
        assert_eq!(telling.lost, 3);
        telling.step(&node.store, &mut clients);
        assert_eq!((told(&node), telling.lost, telling.bytes), (vec!["news: 1".to_owned()], 0, 0));
        telling.messages(vec![message(4)]);
        telling.step(&node.store, &mut clients);
        assert_eq!(told(&node), ["news: 4"], "there is room again");
    }
}
