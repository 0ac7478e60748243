//! Writers who remember what they were told: each key counts up, and must later hold no less than was acknowledged and
//! no more than was tried.

use client::{Client, StoreUrl, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const WRITERS: usize = 4;
/// Of each writer: enough to be in most shards.
const KEYS: usize = 16;
const CONNECT_WITHIN: Duration = Duration::from_millis(500);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Between two writes, so that it is a check and no load.
const PAUSE: Duration = Duration::from_millis(5);

/// One key's counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// The key.
    pub key: String,
    /// The highest number whose write was acknowledged.
    pub acknowledged: u64,
    /// The highest number that was tried.
    pub tried: u64,
}

/// What the writers remember.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// One a key.
    pub counters: Vec<Counter>,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Writes that were not, and may be there or not.
    pub unknown: u64,
    /// The longest time from trying to write a key to an acknowledgement, all attempts included.
    pub slowest: Duration,
}

/// The writers at work.
pub struct Audit {
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<Remembered>>,
}

impl Audit {
    /// Begins.
    pub fn start(store: &StoreUrl) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let writer = |index: usize| {
            let (store, stop) = (store.clone(), stop.clone());
            std::thread::spawn(move || Writer::new(index).write(&store, &stop))
        };
        let writers = (0..WRITERS).map(writer).collect();
        Self { stop, writers }
    }

    /// Ends, and tells what was acknowledged.
    pub fn finish(mut self) -> Remembered {
        self.stop.store(true, Ordering::Release);
        let mut all = Remembered::default();
        for writer in std::mem::take(&mut self.writers) {
            let one = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.counters.extend(one.counters);
            all.acknowledged += one.acknowledged;
            all.unknown += one.unknown;
            all.slowest = all.slowest.max(one.slowest);
        }
        all
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

struct Writer(Remembered);

impl Writer {
    fn new(index: usize) -> Self {
        let key = |number: usize| Counter { key: format!("audit:{index}:{number}"), ..Counter::default() };
        Self(Remembered { counters: (0..KEYS).map(key).collect(), ..Remembered::default() })
    }

    fn write(mut self, store: &StoreUrl, stop: &AtomicBool) -> Remembered {
        let mut client: Option<Client> = None;
        for at in (0..KEYS).cycle() {
            let begun = Instant::now();
            while !stop.load(Ordering::Acquire) {
                std::thread::sleep(PAUSE);
                if client.is_none() {
                    client = Client::open_within(store, CONNECT_WITHIN, ANSWER_WITHIN).ok();
                }
                let Some(connected) = &mut client else { continue };
                let counter = &mut self.0.counters[at];
                counter.tried += 1;
                match connected.call(&[b"SET", counter.key.as_bytes(), counter.tried.to_string().as_bytes()]) {
                    Ok(Value::Error(_)) => self.0.unknown += 1,
                    Ok(_) => {
                        counter.acknowledged = counter.tried;
                        self.0.acknowledged += 1;
                        self.0.slowest = self.0.slowest.max(begun.elapsed());
                        break;
                    }
                    Err(_) => {
                        self.0.unknown += 1;
                        client = None;
                    }
                }
            }
            if stop.load(Ordering::Acquire) {
                break;
            }
        }
        self.0
    }
}

impl Counter {
    /// What is wrong with this value of the key, if anything.
    pub fn complaint(&self, found: &Value) -> Option<String> {
        let Self { key, acknowledged, tried } = self;
        let number = match found {
            Value::Null => Some(0),
            found => found.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse().ok()),
        };
        match number {
            Some(number) if number < *acknowledged => {
                Some(format!("{key} holds {number}, but {acknowledged} was acknowledged"))
            }
            Some(number) if number > *tried => Some(format!("{key} holds {number}, but only {tried} were tried")),
            Some(_) => None,
            None => Some(format!("{key} holds {found:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_must_hold_what_was_acknowledged() {
        let counter = Counter { key: "k".to_owned(), acknowledged: 5, tried: 7 };
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        for good in ["5", "6", "7"] {
            assert_eq!(counter.complaint(&bulk(good)), None, "{good}");
        }
        for (bad, complaint) in [
            (bulk("4"), "k holds 4, but 5 was acknowledged"),
            (Value::Null, "k holds 0, but 5 was acknowledged"),
            (bulk("8"), "k holds 8, but only 7 were tried"),
        ] {
            assert_eq!(counter.complaint(&bad).as_deref(), Some(complaint));
        }
        assert!(counter.complaint(&bulk("x")).is_some());
        assert_eq!(Counter::default().complaint(&Value::Null), None);
    }
}
