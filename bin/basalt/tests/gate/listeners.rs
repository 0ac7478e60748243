//! Clients that want to be told of everything and take little of it, and one that looks how long others wait.

use crate::common::{Connection, Nodes, Random, Value, passing};
use crate::keys::{key_for, one_of, words};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often the waiting client asks.
const ASKED_EVERY: Duration = Duration::from_millis(10);

/// Listens to a node until the end: reads nothing for a while, then something, then begins anew.
pub fn listen(nodes: &Nodes, n: usize, mut random: Random, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let Ok(mut connection) = Connection::open(nodes.port(n)) else { continue };
        let listening = [
            "MONITOR",
            "PSUBSCRIBE *",
            "CLIENT TRACKING ON BCAST",
            "CLIENT TRACKING ON BCAST PREFIX {t}h PREFIX {t}l",
            "CLIENT TRACKING ON",
            "CLIENT TRACKING ON NOLOOP",
        ];
        let mut requests = vec![words("HELLO 3"), words(one_of(&mut random, &listening))];
        for name in ["GET", "HGETALL", "SMEMBERS", "LRANGE", "ZRANGE", "XRANGE", "EXISTS", "TYPE"] {
            let range = if name.ends_with("RANGE") { "- 10" } else { "" };
            requests.push([words(name), vec![key_for("", &mut random)], words(range)].concat());
        }
        let bytes: Vec<u8> = requests.iter().flat_map(|request| Connection::encode(request)).collect();
        let until = Instant::now() + Duration::from_millis(random.below(3000));
        let reads = random.below(2) == 0;
        connection.patience(Duration::from_millis(50));
        if connection.send(&bytes).is_err() {
            continue;
        }
        while Instant::now() < until && !is_over.load(Ordering::Relaxed) {
            if !reads {
                thread::sleep(ASKED_EVERY);
            } else if connection.read().is_err() {
                break;
            }
        }
    }
}

/// What one who asks a node for little has waited.
pub struct Waited {
    /// The longest time for each request: PING, then a read, then a write of a key that the node leads.
    pub longest: [Duration; 3],
    /// How often it was longer than 100 ms.
    pub long: u64,
    pub asked: u64,
    /// How often the shard had no leader.
    pub refused: u64,
}

/// Asks a node for little until the end.
pub fn wait_at(nodes: &Nodes, n: usize, is_over: &AtomicBool) -> Waited {
    let key = nodes.key_led_by(n, "quiet");
    let mut connection = nodes.connect(n);
    let mut waited = Waited { longest: [Duration::ZERO; 3], long: 0, asked: 0, refused: 0 };
    let asked = ["PING".to_owned(), format!("GET {key}"), format!("SET {key} value")];
    for (kind, request) in asked.iter().enumerate().cycle() {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let begun = Instant::now();
        let answer: Value = connection.call(request);
        let took = begun.elapsed();
        let is_led_elsewhere = answer.is_error() && answer.text().starts_with("MOVED");
        assert!(!answer.is_error() || is_led_elsewhere || passing(&answer.text()), "node {n}: {request}: {answer:?}");
        waited.asked += 1;
        waited.refused += u64::from(answer.is_error() && !is_led_elsewhere);
        waited.long += u64::from(took > Duration::from_millis(100));
        waited.longest[kind] = waited.longest[kind].max(took);
        thread::sleep(ASKED_EVERY);
    }
    waited
}
