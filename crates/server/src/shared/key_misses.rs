//! The keyspace event of reads that have found nothing: `keymiss`.

use super::node_shared::NodeShared;
use crate::mailbox::WorkerMessage;
use node::pubsub::{SubscriptionKind, posts};
use node::stats::Lookups;
use node::{Event, KeyspaceEvent, ShardHandle};
use resp::table::{CommandSpec, behaviour};

/// Publishes which keys of a read were not there, if that is wanted.
#[inline]
pub(crate) fn tell_misses(
    store: &NodeShared,
    handle: &ShardHandle,
    request: (&CommandSpec, &[&[u8]]),
    lookups: Lookups,
) {
    if lookups.misses > 0
        && !request.0.does(behaviour::MISSES_UNTOLD)
        && store.config.event_classes().told().has(Event::KEYMISS.class)
    {
        publish(store, handle, request, lookups);
    }
}

#[cold]
fn publish(store: &NodeShared, handle: &ShardHandle, (spec, args): (&CommandSpec, &[&[u8]]), lookups: Lookups) {
    if !store.broker.has_listeners() || store.broker.is_overfull() {
        return;
    }
    let classes = store.config.event_classes();
    for at in spec.keys(args).into_iter().flatten() {
        // Of several keys the row cache knows which are absent, now that they were read.
        let is_absent = lookups.hits == 0 || handle.cached_bytes(args[at]) == Some(0);
        if !is_absent {
            continue;
        }
        let event = KeyspaceEvent { event: Event::KEYMISS, key: args[at].to_vec() };
        let database = event.database(&store.known().databases);
        if classes.by_key() {
            tell(store, &event.channel_of_key(database), event.event.name.as_bytes());
        }
        if classes.by_event() {
            tell(store, &event.channel_of_event(database), event.shown_key());
        }
    }
}

fn tell(store: &NodeShared, channel: &[u8], message: &[u8]) {
    let publication = store.broker.publish(SubscriptionKind::Channel, channel, message);
    for delivery in &publication.deliveries {
        store.mailboxes.deliver(&store.broker, delivery, None);
    }
    for (node, message) in posts(&publication, 0, channel, message) {
        store.mailboxes.tell_links_worker(WorkerMessage::Post(node, message));
    }
}
