//! Publish and subscribe: which clients of this node listen to what, what other nodes listen to, and who gets a message.
//!
//! A node tells every other node its *interest*: the channels and patterns that its clients have subscribed to. A message
//! goes only to nodes whose interest it meets. A SUBSCRIBE is confirmed when the nodes that can be reached know of it, so
//! that a message that is published anywhere afterwards reaches the subscriber.
//!
//! Messages reach each subscriber in the order of their publisher: a publisher's worker hands them to the workers'
//! mailboxes and to the links in that order, and both keep it. A message is lost where a link breaks.

mod announcements;
mod broker;
mod candidates;
mod client;
mod delivery;
mod exchange;
mod kind;
mod push;
mod receivers;
mod remote;
mod subscriptions;

pub use crate::subscriber::{Subscriber, workers_of};
pub use announcements::{Announcement, Answered};
pub use broker::{Broker, Publication, Settled};
pub use client::{ClientSubscriptions, Refused};
pub use delivery::{Audience, Delivery, Evicted};
pub use exchange::{Heard, evict_from_slots, hear, link_up, posts};
pub use kind::{Name, SubscriptionKind};
pub use push::Push;
pub use subscriptions::SomeEvicted;
