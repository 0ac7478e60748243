//! Latency events: when something (a command, an fsync, a flush) took longer than `latency-monitor-threshold`.

use std::collections::{BTreeMap, VecDeque};

/// Samples kept of one event, as in Redis.
const SAMPLES_MAX: usize = 160;

/// One sample: the longest time of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When, in seconds since the epoch.
    pub at_s: u64,
    /// How long it took, in ms.
    pub ms: u64,
}

/// What is known of one kind of event.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// The last samples, the oldest first.
    pub samples: VecDeque<Sample>,
    /// The longest of all times, in ms.
    pub ms_max: u64,
}

/// All kinds of events that have occurred.
#[derive(Debug, Default)]
pub struct LatencyEvents {
    events: BTreeMap<&'static str, Event>,
}

impl LatencyEvents {
    /// Adds an occurrence.
    pub fn add(&mut self, name: &'static str, at_s: u64, ms: u64) {
        let event = self.events.entry(name).or_default();
        event.ms_max = event.ms_max.max(ms);
        if let Some(last) = event.samples.back_mut().filter(|last| last.at_s == at_s) {
            last.ms = last.ms.max(ms);
            return;
        }
        if event.samples.len() == SAMPLES_MAX {
            event.samples.pop_front();
        }
        event.samples.push_back(Sample { at_s, ms });
    }

    /// All kinds, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, &Event)> {
        self.events.iter().map(|(name, event)| (*name, event))
    }

    /// One kind.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&Event> {
        std::str::from_utf8(name).ok().and_then(|name| self.events.get(name))
    }

    /// Forgets the named kinds, or all if none are named; how many there were.
    pub fn reset(&mut self, names: &[&[u8]]) -> usize {
        let before = self.events.len();
        self.events.retain(|name, _| !names.is_empty() && !names.contains(&name.as_bytes()));
        before - self.events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_a_second() {
        let mut events = LatencyEvents::default();
        for (at_s, ms) in [(10, 5), (10, 9), (10, 7), (11, 3)] {
            events.add("command", at_s, ms);
        }
        events.add("fsync", 12, 100);
        let event = events.get(b"command").expect("added");
        assert_eq!(event.samples, [Sample { at_s: 10, ms: 9 }, Sample { at_s: 11, ms: 3 }]);
        assert_eq!(event.ms_max, 9);
        for at_s in 0..1000 {
            events.add("fsync", at_s, 1);
        }
        assert_eq!(events.get(b"fsync").map(|event| event.samples.len()), Some(SAMPLES_MAX));
        assert_eq!(events.reset(&[b"command", b"nothing"]), 1);
        assert_eq!(events.reset(&[]), 1);
    }
}
