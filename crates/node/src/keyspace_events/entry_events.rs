//! The events of the entry that is being evaluated.

use super::classes::EventClasses;
use super::event::{Event, KeyspaceEvent};

/// The events of one entry, in their order.
#[derive(Debug, Default)]
pub(crate) struct EntryEvents {
    /// Which are collected.
    classes: EventClasses,
    events: Vec<KeyspaceEvent>,
}

impl EntryEvents {
    /// None yet, of an entry whose events of these classes are collected.
    pub(crate) fn of(classes: EventClasses) -> Self {
        Self { classes, events: Vec::new() }
    }

    /// Whether none is collected.
    pub(crate) fn is_off(&self) -> bool {
        self.classes.is_empty()
    }

    /// An event of a key. That a key is new is told once, though the key may be named twice.
    #[inline]
    pub(crate) fn push(&mut self, event: Event, key: &[u8]) {
        if self.classes.has(event.class) {
            self.keep(event, key);
        }
    }

    #[cold]
    fn keep(&mut self, event: Event, key: &[u8]) {
        let is_told =
            event == Event::NEW && self.events.last().is_some_and(|last| last.event == event && last.key == key);
        if !is_told {
            self.events.push(KeyspaceEvent { event, key: key.to_vec() });
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Those behind the first `len` have not happened.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.events.truncate(len);
    }

    /// They, and there are none from here on.
    pub(crate) fn take(&mut self) -> Vec<KeyspaceEvent> {
        std::mem::take(&mut self.events)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn events_of_the_classes_are_kept_until_they_are_taken_back() {
        let mut events = EntryEvents::of(EventClasses::parse("KEg$n").unwrap());
        for (event, key) in [
            (Event::NEW, "a"),
            (Event::NEW, "a"),
            (Event::SET, "a"),
            (Event::LPUSH, "l"),
            (Event::DEL, "a"),
            (Event::NEW, "a"),
        ] {
            events.push(event, key.as_bytes());
        }
        assert_eq!(events.len(), 4);
        events.truncate(3);
        let names: Vec<&str> = events.take().iter().map(|event| event.event.name).collect();
        assert_eq!((names, events.len()), (vec!["new", "set", "del"], 0));
    }
}
