//! A queue on three nodes while one of them is killed and comes back: elements that no client was given, and that two were given.

use super::bench::Bench;
use super::ceiling::{Ceiling, Rows, join};
use super::death::joined;
use super::outage::{Outage, wait_until};
use super::progress;
use super::store::{NODES, Store};
use super::wire::Connection;
use resp::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SHARDS: u32 = 16;
/// Each has a client that pushes and one that takes.
const QUEUES: usize = 16;
const ELEMENT_BYTES: usize = 1_000;
/// Before a node is asked again that did not do what it was asked.
const PAUSE: Duration = Duration::from_millis(5);
/// Until all that was pushed is taken, once no client pushes any more.
const DRAIN_BOUND: Duration = Duration::from_secs(120);
/// Errors that say that nothing was done.
const REFUSALS: [&str; 6] = ["CLUSTERDOWN", "TRYAGAIN", "UNBLOCKED", "LOADING", "MASTERDOWN", "ASK"];

/// What came of a request.
#[derive(Debug, PartialEq)]
enum Outcome {
    Done(Value),
    /// Nothing was done; the next attempt is at another node.
    Refused,
    /// The connection broke, or the node does not know either.
    Unknown,
}

/// A client that follows a key from node to node.
struct Follower<'a> {
    ports: &'a [u16],
    at: usize,
    connection: Option<Connection>,
}

impl Follower<'_> {
    fn ask(&mut self, words: &[&str]) -> Outcome {
        let connection = self.connection.take().or_else(|| Connection::open(self.ports[self.at]).ok());
        let Some(mut connection) = connection else { return self.elsewhere(Outcome::Refused) };
        match connection.ask(words).and_then(|()| connection.value()) {
            Err(_) => self.elsewhere(Outcome::Unknown),
            Ok(Value::Error(text)) => match moved_to(&text) {
                Some(port) => {
                    self.at = self.ports.iter().position(|known| *known == port).unwrap_or(0);
                    Outcome::Refused
                }
                None if is_refusal(&text) => self.elsewhere(Outcome::Refused),
                None => {
                    eprintln!("{} was answered with {text}", words[0]);
                    self.elsewhere(Outcome::Unknown)
                }
            },
            Ok(value) => {
                self.connection = Some(connection);
                Outcome::Done(value)
            }
        }
    }

    fn elsewhere(&mut self, outcome: Outcome) -> Outcome {
        self.at = (self.at + 1) % self.ports.len();
        std::thread::sleep(PAUSE);
        outcome
    }
}

fn moved_to(error: &str) -> Option<u16> {
    error.strip_prefix("MOVED ")?.rsplit(':').next()?.parse().ok()
}

fn is_refusal(error: &str) -> bool {
    error.split(' ').next().is_some_and(|code| REFUSALS.contains(&code))
}

/// One queue at the end.
#[derive(Debug, Default)]
struct Queue {
    /// Elements whose push was acknowledged.
    pushed: Vec<u64>,
    /// Pushes whose outcome is not known. They are not tried again, and their elements are not missed.
    pushes_cut_off: u64,
    /// How often each element was given to a client.
    taken: BTreeMap<u64, u64>,
    /// Pops whose outcome is not known: each may have taken an element that no client saw.
    pops_cut_off: u64,
}

impl Queue {
    /// Elements that were pushed and that no client was given.
    fn missing(&self) -> u64 {
        self.pushed.iter().filter(|element| !self.taken.contains_key(element)).count() as u64
    }

    /// Of those, the ones that no pop that was cut off can have taken.
    fn lost(&self) -> u64 {
        self.missing().saturating_sub(self.pops_cut_off)
    }

    fn doubled(&self) -> u64 {
        self.taken.values().filter(|times| **times > 1).count() as u64
    }
}

/// In each run another node is killed.
pub fn measure(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let seconds = |full, quick| Duration::from_secs(bench.options.scale(full, quick));
    let outage = Outage { dies: seconds(6, 2), returns: seconds(14, 5), ends: seconds(22, 8) };
    let mut all = Vec::new();
    for number in 0..bench.options.runs {
        let mut store = Store::start(bench, "sync", SHARDS)?;
        store.wait_until_balanced()?;
        let queues = run(&mut store, number % NODES, &outage)?;
        store.stop()?;
        let sum = |of: fn(&Queue) -> u64| queues.iter().map(of).sum::<u64>() as f64;
        let what = |what: &str| format!("a queue on three nodes, `sync`, one is killed and comes back: {what}");
        let mut rows = Rows::default();
        rows.push(Ceiling::new(what("elements lost"), "", 0.0, sum(Queue::lost)))?;
        rows.push(Ceiling::new(what("elements doubled"), "", 0.0, sum(Queue::doubled)))?;
        rows.push(Ceiling::told(what("elements that went through it"), "", sum(|queue| queue.taken.len() as u64)))?;
        rows.push(Ceiling::told(what("gone with pops that were cut off"), "", sum(Queue::missing)))?;
        rows.push(Ceiling::told(what("pops that were cut off"), "", sum(|queue| queue.pops_cut_off)))?;
        rows.push(Ceiling::told(what("pushes that were cut off"), "", sum(|queue| queue.pushes_cut_off)))?;
        all = join(all, rows.all());
    }
    Ok(all)
}

fn run(store: &mut Store<'_>, victim: usize, outage: &Outage) -> Result<Vec<Queue>, String> {
    let ports = store.ports();
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    progress::doing("pushing and taking while a node is killed and comes back");
    std::thread::scope(|scope| {
        let (ports, stop, over) = (&ports[..], &stop, &over);
        let pushing: Vec<_> = (0..QUEUES).map(|queue| scope.spawn(move || push(ports, queue, stop))).collect();
        let taking: Vec<_> = (0..QUEUES).map(|queue| scope.spawn(move || take(ports, queue, over))).collect();
        let mut all_happens = || -> Result<(), String> {
            let begun = outage.of(store, victim)?;
            wait_until(begun, outage.ends);
            store.wait_until_up()
        };
        let done = all_happens();
        stop.store(true, Ordering::Release);
        let pushed = pushing.into_iter().map(joined).collect::<Result<Vec<_>, _>>();
        over.store(true, Ordering::Release);
        let taken = taking.into_iter().map(|client| joined(client)?).collect::<Result<Vec<_>, _>>();
        done?;
        let both = pushed?.into_iter().zip(taken?);
        Ok(both.map(|(queue, (taken, pops_cut_off))| Queue { taken, pops_cut_off, ..queue }).collect())
    })
}

fn name_of(queue: usize) -> String {
    format!("queue:{queue}")
}

/// Pushes elements, each once, until told to stop.
fn push(ports: &[u16], queue: usize, stop: &AtomicBool) -> Queue {
    let mut client = Follower { ports, at: queue % ports.len(), connection: None };
    let (name, mut of, mut element) = (name_of(queue), Queue::default(), 0);
    while !stop.load(Ordering::Acquire) {
        let text = format!("{element:<ELEMENT_BYTES$}");
        match client.ask(&["LPUSH", &name, &text]) {
            Outcome::Refused => continue,
            Outcome::Done(_) => of.pushed.push(element),
            Outcome::Unknown => of.pushes_cut_off += 1,
        }
        element += 1;
    }
    of
}

/// Takes elements until no client pushes any more and no element is left: how often each was given, and how many pops were cut off.
fn take(ports: &[u16], queue: usize, over: &AtomicBool) -> Result<(BTreeMap<u64, u64>, u64), String> {
    let mut client = Follower { ports, at: queue % ports.len(), connection: None };
    let (name, mut taken, mut cut_off, mut ends) = (name_of(queue), BTreeMap::new(), 0, None);
    loop {
        let is_over = over.load(Ordering::Acquire);
        match client.ask(&["BRPOP", &name, "1"]) {
            Outcome::Done(Value::Null) if is_over => return Ok((taken, cut_off)),
            Outcome::Done(Value::Null) | Outcome::Refused => {}
            Outcome::Done(value) => {
                let element = element_of(&value).ok_or_else(|| format!("BRPOP was answered with {value:?}"))?;
                *taken.entry(element).or_insert(0) += 1;
            }
            Outcome::Unknown => cut_off += 1,
        }
        if is_over && ends.get_or_insert_with(Instant::now).elapsed() > DRAIN_BOUND {
            return Err(format!("{name} is not empty {} s after its last push", DRAIN_BOUND.as_secs()));
        }
    }
}

fn element_of(value: &Value) -> Option<u64> {
    let Value::Array(both) = value else { return None };
    let [_, Value::Bulk(element)] = &both[..] else { return None };
    std::str::from_utf8(element).ok()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_and_doubled_is_counted() {
        let taken = BTreeMap::from([(0, 1), (2, 2), (3, 1)]);
        let mut queue = Queue { pushed: vec![0, 1, 2, 4, 5], pushes_cut_off: 1, taken, pops_cut_off: 2 };
        // 3 is of the push that was cut off; 1, 4 and 5 were given to no client, two of them perhaps to the pops that were cut off.
        assert_eq!((queue.missing(), queue.lost(), queue.doubled()), (3, 1, 1));
        queue.pops_cut_off = 7;
        assert_eq!(queue.lost(), 0);
    }

    #[test]
    fn errors_say_where_to_go_and_whether_anything_was_done() {
        assert_eq!(moved_to("MOVED 12 127.0.0.1:7001"), Some(7001));
        assert_eq!(moved_to("CLUSTERDOWN Hash slot not served"), None);
        assert!(is_refusal("CLUSTERDOWN Hash slot not served"));
        assert!(!is_refusal("TIMEOUT the write was not confirmed in time: it may be made later, or never"));
    }

    #[test]
    fn an_element_is_found_in_the_answer() {
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        assert_eq!(element_of(&Value::Array(vec![bulk("queue:1"), bulk("42   ")])), Some(42));
        assert_eq!(element_of(&Value::Int(42)), None);
    }
}
