//! What hash commands cost without a store below: ns an operation, and a hash of all replies.
//!
//! `cargo run --release -p basalt-node --example hash [OPERATIONS]`

use node::command::{Call, Handler, handler};
use node::{Fault, ReadSpace, Record, Rows, ShardSpace, WriteSpace};
use resp::Reply;
use resp::table;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::time::Instant;
use storage::Slice;
use vocab::{Prng, Slot};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const FIELDS: usize = 10;
const SPREAD_FIELDS: usize = 100_000;

fn main() {
    if cfg!(debug_assertions) {
        eprintln!("not an optimised build: the figures mean nothing");
    }
    let operations = std::env::args().nth(1).map_or(1_000_000, |n| n.parse().expect("a number of operations"));
    let mut bench = Bench { operations, store: Store::new(), reply: Reply::default() };
    let (hset, hget) = (named("HSET"), named("HGET"));
    println!("operation                          ns   replies");
    for (what, key, fields) in [("10 x 100 bytes", b"small", FIELDS), ("100,000 fields", b"large", SPREAD_FIELDS)] {
        let fields: Vec<String> = (0..fields).map(|i| format!("field{i}")).collect();
        let field = |i: usize| fields[i * 7 % fields.len()].as_bytes();
        for field in &fields {
            bench.run(hset, &[b"HSET", key, field.as_bytes(), &[b'x'; 100]]);
        }
        if fields.len() == FIELDS {
            let hgetall = named("HGETALL");
            bench.measure(&format!("HGETALL, {what}"), |bench, _, _| bench.run(hgetall, &[b"HGETALL", key]));
        }
        bench.measure(&format!("HGET, {what}"), |bench, i, _| bench.run(hget, &[b"HGET", key, field(i)]));
        bench.measure(&format!("HSET, {what}"), |bench, i, value| {
            bench.run(hset, &[b"HSET", key, field(i), value]);
        });
    }
}

fn named(name: &str) -> Handler {
    table::lookup(name.as_bytes()).and_then(handler).expect("hash commands have handlers")
}

struct Bench {
    operations: usize,
    store: Store,
    reply: Reply,
}

impl Bench {
    fn measure(&mut self, what: &str, command: impl Fn(&mut Self, usize, &[u8])) {
        let mut value = [b'a'; 100];
        let mut replies = 0;
        let start = Instant::now();
        for i in 0..self.operations {
            value[i % 100] = value[i % 100].wrapping_add(1);
            command(self, i, &value);
            replies = xxh3_64_with_seed(&self.reply.buf, replies);
        }
        let ns = start.elapsed().as_nanos() as f64 / self.operations.max(1) as f64;
        println!("{what:<28} {ns:>8.0}   {replies:016x}");
    }

    fn run(&mut self, handler: Handler, args: &[&[u8]]) {
        self.reply.buf.clear();
        let (space, reply) = (&mut self.store, &mut self.reply);
        let done = match handler {
            Handler::Read(handler) => handler.run(args, space, reply),
            Handler::Write(run) | Handler::WriteIf(_, run, _) => run(&mut Call { args, space, reply }),
            Handler::Store(_) | Handler::Script(_) => {
                panic!("no hash command is over the whole store, or runs a script")
            }
        };
        done.expect("it is well formed");
    }
}

/// One shard, as thin as can be.
struct Store {
    records: HashMap<Vec<u8>, Record>,
    /// By the prefix of their rows.
    elements: HashMap<Vec<u8>, BTreeMap<Vec<u8>, Slice>>,
    prng: Prng,
}

impl Store {
    fn new() -> Self {
        Self { records: HashMap::new(), elements: HashMap::new(), prng: Prng::new(1) }
    }
}

impl ReadSpace for Store {
    fn now_ms(&self) -> u64 {
        0
    }

    fn version(&self) -> u64 {
        1
    }

    fn random_u64(&mut self) -> Result<u64, Fault> {
        Ok(self.prng.next_u64())
    }

    fn stored(&mut self, key: &[u8]) -> Result<Option<Record>, Fault> {
        Ok(self.records.get(key).cloned())
    }

    fn element_get(&mut self, rows: &Rows, element: &[u8]) -> Result<Option<Slice>, Fault> {
        Ok(self.elements.entry(rows.prefix.clone()).or_default().get(element).cloned())
    }

    fn elements(&mut self, rows: &Rows, after: Option<&[u8]>, limit: usize) -> Result<Vec<(Slice, Slice)>, Fault> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let span = self.elements.entry(rows.prefix.clone()).or_default().range::<[u8], _>((from, Bound::Unbounded));
        Ok(span.take(limit).map(|(name, value)| (Slice::from(&name[..]), value.clone())).collect())
    }
}

impl WriteSpace for Store {
    fn put(&mut self, key: &[u8], record: Record) -> Result<(), Fault> {
        let record = record.stamped(1);
        match self.records.get_mut(key) {
            Some(old) => *old = record,
            None => drop(self.records.insert(key.to_vec(), record)),
        }
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, Fault> {
        Ok(self.records.remove(key).is_some())
    }

    fn give_up(&mut self, key: &[u8]) -> Result<(), Fault> {
        self.delete(key).map(drop)
    }

    fn new_rows(&mut self, key: &[u8]) -> Result<Rows, Fault> {
        Ok(Rows { prefix: key.to_vec(), count: 0 })
    }

    fn element_put(&mut self, rows: &Rows, element: &[u8], value: &[u8]) -> Result<(), Fault> {
        self.elements.entry(rows.prefix.clone()).or_default().insert(element.to_vec(), Slice::from(value));
        Ok(())
    }

    fn element_delete(&mut self, rows: &Rows, element: &[u8]) -> Result<(), Fault> {
        self.elements.entry(rows.prefix.clone()).or_default().remove(element);
        Ok(())
    }

    fn requests(&mut self, _: &[u8]) -> Result<Option<Slice>, Fault> {
        Ok(None)
    }

    fn put_requests(&mut self, _: &[u8], _: &[u8], _: u64, _: Option<u64>) -> Result<(), Fault> {
        Ok(())
    }

    fn request_clients(&mut self) -> Result<u64, Fault> {
        Ok(0)
    }

    fn stage(&mut self, _: &Rows, _: u64) -> Result<(), Fault> {
        Ok(())
    }

    fn is_staged(&mut self, _: &Rows, _: u64) -> Result<bool, Fault> {
        Ok(false)
    }

    fn unstage(&mut self, _: &Rows, _: u64) -> Result<(), Fault> {
        Ok(())
    }

    fn drop_rows(&mut self, _: &Rows) -> Result<(), Fault> {
        Ok(())
    }
}

impl ShardSpace for Store {
    fn keys_in_slot(&mut self, slot: Slot) -> Result<u64, Fault> {
        Ok(self.records.keys().filter(|key| vocab::slot_of(key) == slot).count() as u64)
    }

    fn keys_in_database(&mut self, database: vocab::Database) -> Result<u64, Fault> {
        Ok(self.records.keys().filter(|key| vocab::Database::of_key(key) == Some(database)).count() as u64)
    }

    fn keys_in_cluster_database(&mut self, _: vocab::ClusterDatabase, _: Option<Slot>) -> Result<u64, Fault> {
        Ok(0)
    }

    fn key_count(&mut self) -> Result<u64, Fault> {
        Ok(self.records.len() as u64)
    }
}
