//! The reads of a pipeline: what the next ones will look at in the row cache is fetched into the processor's caches, for several
//! requests side by side (docs/adr/0018).
//!
//! It is only ever about time: whatever is found out here is found out again when the request runs.

use crate::shared::NodeShared;
use node::session::Session;
use resp::table::{self, flag};
use resp::{Limits, ParseState, Parsed, parse_request};
use std::ops::Range;
use storage::{Lines, Step};
use vocab::{Namespace, slot_of};

/// Rows that are fetched side by side: about as many as a processor waits for at a time.
const REQUESTS_MAX: usize = 16;
/// Requests that are longer cost more than the rows of the next ones.
const REQUEST_BYTES_MAX: usize = 512;

/// Looks at requests before they run.
#[derive(Default)]
pub(super) struct LookAhead {
    args: Vec<Range<usize>>,
    parse: ParseState,
    /// A key as it is stored.
    stored: Vec<u8>,
    /// Of the rows, in the row cache.
    hashes: Vec<u64>,
    lines: Lines,
    /// Bytes of requests that were looked at and have not run.
    known: usize,
}

impl LookAhead {
    /// Other input is begun.
    pub(super) fn begin(&mut self) {
        self.known = 0;
    }

    /// A request of so many bytes, at the beginning of `input`, is about to run.
    pub(super) fn pass(
        &mut self,
        store: &NodeShared,
        session: &Session,
        (input, bytes): (&[u8], usize),
        limits: &Limits,
    ) {
        if self.known == 0 && bytes < input.len() {
            self.known = self.fetch(store, session.asked_keyspace().namespace(), input, limits);
        }
        self.known = self.known.saturating_sub(bytes);
    }

    /// Has the rows fetched that the requests at the beginning of `input` read, which are of that database; answers how many bytes
    /// those are.
    fn fetch(&mut self, store: &NodeShared, database: Option<Namespace>, input: &[u8], limits: &Limits) -> usize {
        if !store.cache.is_beyond_processor() {
            return input.len();
        }
        let used = self.find(store, database, input, limits);
        if self.hashes.len() > 1 {
            for step in Step::ALL {
                store.cache.note(&self.hashes, step, &mut self.lines);
                self.lines.fetch();
            }
        }
        used
    }

    /// Finds the rows that the first requests read; answers how many bytes those are. Where the first of them reads nothing, the
    /// others are not looked at.
    fn find(&mut self, store: &NodeShared, database: Option<Namespace>, input: &[u8], limits: &Limits) -> usize {
        self.hashes.clear();
        let known = store.known();
        let place = database.map(|database| match database {
            Namespace::Database(named) => Namespace::Database(known.databases.place_of(named)),
            of_cluster => of_cluster,
        });
        let mut used = 0;
        for _ in 0..REQUESTS_MAX {
            let rest = &input[used..input.len().min(used + REQUEST_BYTES_MAX)];
            self.parse.reset();
            let Ok(Parsed::Request { consumed }) = parse_request(rest, limits, &mut self.args, &mut self.parse) else {
                break;
            };
            if let Some(key) = key_read(rest, &self.args) {
                let stored = match place {
                    Some(place) => {
                        self.stored.clear();
                        self.stored.extend_from_slice(&place.prefix(key));
                        self.stored.extend_from_slice(key);
                        &self.stored[..]
                    }
                    None => key,
                };
                let hash = known.shard_of(slot_of(stored)).map(|shard| store.cache.hash(shard.0, stored));
                // Many requests for one key have it near by themselves.
                self.hashes.extend(hash.filter(|hash| self.hashes.last() != Some(hash)));
            } else if used == 0 {
                return input.len();
            }
            used += consumed;
        }
        used
    }
}

/// The first key of a request that reads.
fn key_read<'a>(input: &'a [u8], args: &[Range<usize>]) -> Option<&'a [u8]> {
    let (name, first) = (args.first()?, args.get(1)?);
    let spec = table::lookup(&input[name.clone()])?;
    (spec.has(flag::READONLY) && spec.first_key == 1).then(|| &input[first.clone()])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::TestNode;
    use vocab::Database;

    #[test]
    fn the_rows_that_the_next_requests_read_are_found() {
        let node = TestNode::start(&[]);
        let store = node.store();
        let database = Database::of_number(3).map(Namespace::Database);
        let own = |key: &str| [&database.unwrap().prefix(key.as_bytes())[..], key.as_bytes()].concat();
        let many = "GET x\r\n".repeat(3) + &(0..20).map(|n| format!("GET k{n}\r\n")).collect::<String>();
        let of_many: Vec<_> = ["x".to_owned()].into_iter().chain((0..13).map(|n| format!("k{n}"))).collect();
        let long = format!("GET a\r\nGET {}\r\nGET b\r\n", "k".repeat(REQUEST_BYTES_MAX));
        let cases: [(&str, &[&str], usize); 8] = [
            ("", &[], 0),
            ("GET a\r\nSET b 1\r\n*3\r\n$4\r\nhget\r\n$1\r\nh\r\n$1\r\nf\r\nTTL c\r\n", &["a", "h", "c"], 51),
            ("GET a\r\nGET b", &["a"], 7),
            // None where the first one writes, or is a command that there is not.
            ("SET b 1\r\nGET a\r\n", &[], 16),
            ("GETT b\r\nGET a\r\n", &[], 15),
            // Not what comes behind something that is no request, or a long one.
            ("GET a\r\n*1\r\n:1\r\nGET b\r\n", &["a"], 7),
            (&long, &["a"], 7),
            (&many, &of_many.iter().map(String::as_str).collect::<Vec<_>>(), 3 * 7 + 10 * 8 + 3 * 9),
        ];
        for (input, keys, used) in cases {
            for of in [None, database] {
                let mut ahead = LookAhead::default();
                assert_eq!(ahead.find(store, of, input.as_bytes(), &Limits::default()), used, "{input}");
                let stored = keys.iter().map(|key| if of.is_some() { own(key) } else { key.as_bytes().to_vec() });
                let hash = |key: Vec<u8>| store.cache.hash(store.known().shard_of(slot_of(&key)).unwrap().0, &key);
                assert_eq!(ahead.hashes, stored.map(hash).collect::<Vec<_>>(), "{input}");
            }
        }
    }
}
