//! Keyspace events: what commands have done to keys, told to those who have subscribed to the channels of the events.
//!
//! A handler names an event at the place where it makes the change (`WriteSpace::notify`). The replica that has proposed an
//! entry collects the events of the entry, and its node publishes them when the entry is visible. Other replicas
//! collect none, nor does replay after a restart. So each event is told at most once. `notify-keyspace-events` names the
//! classes of events that are collected; by default there is none, and an event costs one comparison.

mod classes;
mod entry_events;
mod event;

pub(crate) use classes::EVENT_LETTERS;
pub use classes::{EventClass, EventClasses};
pub(crate) use entry_events::EntryEvents;
pub use event::{Event, KeyspaceEvent};

#[cfg(test)]
mod command_tests;
