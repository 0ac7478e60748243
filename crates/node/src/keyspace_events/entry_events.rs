//! The events of the entry that is being evaluated.

use super::classes::EventClasses;
use super::event::{Event, KeyspaceEvent};
use vocab::limits::ENTRY_TOLD_BYTES_MAX;

/// The events of one entry, in their order.
#[derive(Debug, Default)]
pub(crate) struct EntryEvents {
    /// Which are collected.
    classes: EventClasses,
    events: Vec<KeyspaceEvent>,
    /// What they take: at most [`ENTRY_TOLD_BYTES_MAX`], and one event.
    bytes: usize,
}

impl EntryEvents {
    /// None yet, of an entry whose events of these classes are collected.
    pub(crate) fn of(classes: EventClasses) -> Self {
        Self { classes, events: Vec::new(), bytes: 0 }
    }

    /// Whether none is collected.
    pub(crate) fn is_off(&self) -> bool {
        self.classes.is_empty()
    }

    /// Whether events of that kind are collected.
    pub(crate) fn tells(&self, event: Event) -> bool {
        self.classes.has(event.class)
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
        if is_told || self.bytes > ENTRY_TOLD_BYTES_MAX {
            return;
        }
        let event = KeyspaceEvent { event, key: key.to_vec() };
        self.bytes += event.bytes();
        self.events.push(event);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Those behind the first `len` have not happened.
    pub(crate) fn truncate(&mut self, len: usize) {
        let undone: usize = self.events.drain(len.min(self.events.len())..).map(|event| event.bytes()).sum();
        self.bytes -= undone;
    }

    /// They, and there are none from here on.
    pub(crate) fn take(&mut self) -> Vec<KeyspaceEvent> {
        self.bytes = 0;
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
        assert_eq!((names, events.len(), events.bytes), (vec!["new", "set", "del"], 0, 0));
    }

    #[test]
    fn events_of_one_entry_are_bounded() {
        let mut events = EntryEvents::of(EventClasses::parse("KEA").unwrap());
        let key = vec![b'k'; 1024 * 1024];
        (0..200).for_each(|_| events.push(Event::SET, &key));
        assert!((60..70).contains(&events.len()), "{}", events.len());
        events.truncate(1);
        events.push(Event::SET, &key);
        assert_eq!(events.len(), 2);
    }
}
