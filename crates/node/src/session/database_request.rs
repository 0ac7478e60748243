//! The requests of a client of a database, in the form in which the store runs them: keys under the names that are stored,
//! and what a Redis asks of all its keys asked of the database.

use crate::request::{Refusal, check_database_key};
use resp::parse_integer;
use resp::table::{self, CommandSpec, Group, behaviour};
use smallvec::SmallVec;
use std::ops::Range;
use vocab::Database;

/// What Redis answers to every command about clusters if it is not part of one.
const NO_CLUSTER: &str = "ERR This instance has cluster support disabled";

const NOT_IN_MULTI: &str = "ERR Command not allowed inside a transaction";

/// What runs for FLUSHDB and FLUSHALL, and for MOVE and COPY to another database.
const EMPTY: &[u8] = b"KV.EMPTY";
const TRANSFER: &[u8] = b"KV.TRANSFER";

/// The arguments of a request.
pub type DatabaseArgs<'a> = SmallVec<[&'a [u8]; 8]>;

/// One argument.
#[derive(Clone, Debug)]
enum Part {
    /// That one of the client's request.
    Given(usize),
    /// Bytes that were made here.
    Made(Range<usize>),
}

/// A request of a client of a database. Its buffers are used again.
#[derive(Debug, Default)]
pub struct DatabaseRequest {
    bytes: Vec<u8>,
    parts: SmallVec<[Part; 8]>,
}

impl DatabaseRequest {
    /// Takes up a request of a client of `database`; answers what is run instead, with `args`. The error is the text of the
    /// reply. `in_multi`: it is queued.
    pub fn take_up(
        &mut self,
        (database, databases): (Database, u64),
        spec: &'static CommandSpec,
        args: &[&[u8]],
        in_multi: bool,
    ) -> Result<&'static CommandSpec, Refusal> {
        self.bytes.clear();
        self.parts.clear();
        if spec.group == Group::Cluster || spec.does(behaviour::OF_CLUSTER) {
            return Err(NO_CLUSTER.into());
        }
        if spec.does(behaviour::CLEARS_STORE) {
            return self.empty(database, spec, args, in_multi);
        }
        if spec.does(behaviour::TO_DATABASE)
            && let Some(to) = other_database(spec, args, databases)?.filter(|to| *to != database || args.len() == 3)
        {
            return if in_multi { Err(NOT_IN_MULTI.into()) } else { self.transfer(database, to, args) };
        }
        self.parts.extend((0..args.len()).map(Part::Given));
        if spec.does(behaviour::ASKS_DATABASE) {
            self.push(b"DATABASE");
            self.push(database.number().to_string().as_bytes());
            return Ok(spec);
        }
        if spec.does(behaviour::RUNS_SCRIPT) {
            // A script may touch keys that it does not declare.
            self.push(&database.prefix());
        }
        // Channels are no keys.
        if !spec.has_keys() || spec.group == Group::PubSub {
            return Ok(spec);
        }
        let prefix = database.prefix();
        // Where the keys cannot be found, the handler answers the error.
        for at in spec.keys(args).into_iter().flatten() {
            check_database_key(args[at])?;
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&prefix);
            self.bytes.extend_from_slice(args[at]);
            self.parts[at] = Part::Made(start..self.bytes.len());
        }
        Ok(spec)
    }

    /// MOVE, and COPY to another database.
    fn transfer(&mut self, from: Database, to: Database, args: &[&[u8]]) -> Result<&'static CommandSpec, Refusal> {
        let transfer = table::lookup(TRANSFER).ok_or("ERR keys cannot be transferred")?;
        let moves = args.len() == 3;
        let (source, destination) = (args[1], if moves { args[1] } else { args[2] });
        if moves && from == to {
            return Err("ERR source and destination objects are the same".into());
        }
        self.push(transfer.name.as_bytes());
        for (database, key) in [(from, source), (to, destination)] {
            check_database_key(key)?;
            self.push(&[&database.prefix(), key].concat());
        }
        self.push(if moves { b"MOVE" } else { b"COPY" });
        if args.iter().skip(3).any(|word| word.eq_ignore_ascii_case(b"REPLACE")) {
            self.push(b"REPLACE");
        }
        Ok(transfer)
    }

    /// FLUSHDB and FLUSHALL. A transaction is of one database.
    fn empty(
        &mut self,
        database: Database,
        spec: &CommandSpec,
        args: &[&[u8]],
        in_multi: bool,
    ) -> Result<&'static CommandSpec, Refusal> {
        let is_how = |word: &&[u8]| word.eq_ignore_ascii_case(b"ASYNC") || word.eq_ignore_ascii_case(b"SYNC");
        if args.len() > 2 || !args[1..].iter().all(is_how) {
            return Err("ERR syntax error".into());
        }
        let empty = table::lookup(EMPTY).ok_or("ERR databases cannot be emptied")?;
        self.push(empty.name.as_bytes());
        if in_multi || spec.does(behaviour::EMPTIES_DATABASE) {
            self.push(&database.prefix());
        }
        Ok(empty)
    }

    fn push(&mut self, arg: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(arg);
        self.parts.push(Part::Made(start..self.bytes.len()));
    }

    /// The arguments of the request that was taken up, which were `given`.
    #[must_use]
    pub fn args<'a>(&'a self, given: &[&'a [u8]]) -> DatabaseArgs<'a> {
        let arg = |part: &Part| match part {
            Part::Given(at) => given[*at],
            Part::Made(range) => &self.bytes[range.clone()],
        };
        self.parts.iter().map(arg).collect()
    }
}

/// The database that MOVE or COPY names, if it does. What else is wrong with COPY is its handler's to say.
fn other_database(spec: &CommandSpec, args: &[&[u8]], databases: u64) -> Result<Option<Database>, Refusal> {
    let number = match args {
        // MOVE has no other arguments; COPY may.
        [_, _, number] if spec.arity == 3 => number,
        [_, _, _, words @ ..] => {
            let at = words.iter().position(|word| word.eq_ignore_ascii_case(b"DB"));
            let Some(number) = at.and_then(|at| words.get(at + 1)) else { return Ok(None) };
            number
        }
        _ => return Ok(None),
    };
    let number = parse_integer(number).ok_or("ERR value is not an integer or out of range")?;
    let number = u64::try_from(number).ok().filter(|number| *number < databases);
    number.and_then(Database::of_number).map(Some).ok_or("ERR DB index is out of range".into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::client_key;
    use vocab::limits::KEY_BYTES_MAX;

    /// What is run, each name of a key of database 3 in brackets.
    fn run(request: &str, in_multi: bool) -> Result<String, String> {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let database = Database::of_number(3).unwrap();
        let mut made = DatabaseRequest::default();
        made.take_up((database, 16), table::resolve(&args)?, &args, in_multi).map_err(|text| text.into_owned())?;
        let shown = |arg: &&[u8]| {
            let text = String::from_utf8_lossy(client_key(arg)).into_owned();
            if Database::of_key(arg) == Some(database) { format!("[{text}]") } else { text }
        };
        Ok(made.args(&args).iter().map(shown).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn keys_get_the_names_that_are_stored() {
        for (request, expected) in [
            ("PING", "PING"),
            ("GET k", "GET [k]"),
            ("SET k k EX 5", "SET [k] k EX 5"),
            ("MSET a 1 b 2", "MSET [a] 1 [b] 2"),
            ("BLPOP a b 0", "BLPOP [a] [b] 0"),
            ("ZUNIONSTORE to 2 a b WEIGHTS 1 2", "ZUNIONSTORE [to] 2 [a] [b] WEIGHTS 1 2"),
            ("XREAD COUNT 2 STREAMS a b 0 0", "XREAD COUNT 2 STREAMS [a] [b] 0 0"),
            ("OBJECT ENCODING k", "OBJECT ENCODING [k]"),
            ("SORT k STORE to", "SORT [k] STORE [to]"),
            ("WATCH a b", "WATCH [a] [b]"),
            ("PUBLISH channel m", "PUBLISH channel m"),
            ("SPUBLISH channel m", "SPUBLISH channel m"),
            ("LMPOP nonsense a LEFT", "LMPOP nonsense a LEFT"),
        ] {
            assert_eq!(run(request, false).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_is_asked_of_all_keys_is_asked_of_the_database() {
        for (request, expected) in [
            ("DBSIZE", "DBSIZE DATABASE 3"),
            ("SCAN 0 COUNT 5", "SCAN 0 COUNT 5 DATABASE 3"),
            ("KEYS a*", "KEYS a* DATABASE 3"),
            ("RANDOMKEY", "RANDOMKEY DATABASE 3"),
            ("FLUSHDB", "KV.EMPTY []"),
            ("FLUSHDB ASYNC", "KV.EMPTY []"),
            ("FLUSHALL", "KV.EMPTY"),
            ("COPY a b", "COPY [a] [b]"),
            ("COPY a b DB 3 REPLACE", "COPY [a] [b] DB 3 REPLACE"),
            ("COPY a b REPLACE DB 5", "KV.TRANSFER [a] b COPY REPLACE"),
            ("MOVE a 5", "KV.TRANSFER [a] a MOVE"),
        ] {
            assert_eq!(run(request, false).as_deref(), Ok(expected));
        }
        assert_eq!(run("FLUSHALL", true).as_deref(), Ok("KV.EMPTY []"));
        for request in ["CLUSTER SLOTS", "CLUSTER KEYSLOT k", "ASKING", "READONLY", "CLUSTERSCAN 0", "KV.RANGE - +"] {
            assert_eq!(run(request, false), Err(NO_CLUSTER.to_owned()), "{request}");
        }
        for request in ["MOVE a 16", "MOVE a -1", "MOVE a x", "MOVE a 3", "COPY a b DB 16"] {
            assert!(run(request, false).is_err(), "{request}");
        }
        assert!(run("MOVE a 5", true).is_err() && run("COPY a b DB 5", true).is_err());
        assert!(run("FLUSHDB NOW", false).is_err() && run("FLUSHALL SYNC ASYNC", false).is_err());
        let long = "k".repeat(KEY_BYTES_MAX - 9);
        let text = "ERR key is too long (31991 bytes, 31990 are allowed)";
        assert_eq!(run(&format!("GET {long}"), false), Err(text.to_owned()));
    }
}
