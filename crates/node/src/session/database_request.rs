//! The requests of a client of a database, in the form in which the store runs them: keys under the names that are stored,
//! and what a Redis asks of all its keys asked of the database. And the same of a cluster's client that has chosen another
//! database than 0.

use super::keyspace::Keyspace;
use crate::format::entry::EncodedCommand;
use crate::request::{Refusal, check_named_key};
use crate::transfer_request::{number_word, place_of_number, stored, transfer_request};
use cluster::Databases;
use resp::parse_integer;
use resp::table::{self, CommandSpec, Group, behaviour};
use smallvec::SmallVec;
use std::ops::Range;
use vocab::{DATABASE_PREFIX_BYTES, Database, Namespace};

/// What Redis answers to every command about clusters if it is not part of one.
const NO_CLUSTER: &str = "ERR This instance has cluster support disabled";

/// What runs for FLUSHDB and FLUSHALL, and for questions about the keys of a database in a transaction that writes.
const EMPTY: &[u8] = b"KV.EMPTY";
const KEYS: &[u8] = b"KV.KEYS";
/// Between a question about all keys and the number of the database whose keys these are.
const OF_DATABASE: &[u8] = b"DATABASE";
/// Between a question about all keys of a cluster database and its number.
const OF_CLUSTER_DATABASE: &[u8] = b"SELECTED";
/// What runs for SWAPDB.
const SWAP: &[u8] = b"KV.SWAP";

/// Where a request of a client of a database stands.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseClient<'a> {
    /// Its database, by the number that it names; none: a cluster's client in database 0, which names another one in its request.
    pub namespace: Option<Namespace>,
    /// How many databases its like may choose from.
    pub databases: u64,
    /// What is set for single databases.
    pub set: &'a Databases,
    /// Whether the request is queued for a transaction.
    pub in_multi: bool,
}

/// A question about the keys of a database, as its shard answers it between the writes of a transaction, and the database; none
/// if `args` are no such question.
pub(super) fn asked_of_shard(
    spec: &'static CommandSpec,
    args: &[&[u8]],
) -> Option<(&'static CommandSpec, EncodedCommand, Database)> {
    let [asked @ .., word, number] = args else { return None };
    if !spec.does(behaviour::ASKS_DATABASE) || spec.does(behaviour::IN_KEY_ORDER) || *word != OF_DATABASE {
        return None;
    }
    let database = Database::of_number(parse_integer(number)?.try_into().ok()?)?;
    let (keys, prefix) = (table::lookup(KEYS)?, database.prefix());
    let args: DatabaseArgs<'_> = [keys.name.as_bytes(), &prefix].into_iter().chain(asked.iter().copied()).collect();
    Some((keys, EncodedCommand::of(keys, &args), database))
}

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
    /// Its arguments one by one, if it is run as another one than its client has sent; else none.
    parts: SmallVec<[Part; 8]>,
    /// Its keys, if it is run as it was sent: which arguments they are, and where their stored names end in `bytes`, in which they
    /// follow each other.
    keys: SmallVec<[(usize, usize); 4]>,
    /// The database of the last keys, and what they begin with: requests of one follow each other.
    prefix: Option<(Database, [u8; DATABASE_PREFIX_BYTES])>,
}

impl DatabaseRequest {
    /// Takes up a request of a client of a database; answers what is run instead, with `args`. The error is the text of the
    /// reply.
    pub fn take_up(
        &mut self,
        client: DatabaseClient<'_>,
        spec: &'static CommandSpec,
        args: &[&[u8]],
    ) -> Result<&'static CommandSpec, Refusal> {
        self.bytes.clear();
        self.parts.clear();
        self.keys.clear();
        match client.namespace {
            Some(Namespace::Database(database)) => self.take_up_of_database(client, database, spec, args),
            of => self.take_up_of_cluster(client, of, spec, args),
        }
    }

    /// That of a cluster's client: what it asks of all keys is asked of its database.
    fn take_up_of_cluster(
        &mut self,
        client: DatabaseClient<'_>,
        own: Option<Namespace>,
        spec: &'static CommandSpec,
        args: &[&[u8]],
    ) -> Result<&'static CommandSpec, Refusal> {
        if spec.does(behaviour::TO_DATABASE)
            && let Some(taken_up) = self.take_up_other(client, (own, spec), args, |word| {
                let number = number_below(parse_integer(word).ok_or(NOT_INTEGER)?, client.databases)?;
                Ok(Keyspace::of_cluster(number).ok_or(NO_DATABASE)?.namespace())
            })?
        {
            return Ok(taken_up);
        }
        let Some(own) = own else { return Ok(spec) };
        if spec.does(behaviour::IN_KEY_ORDER) {
            return Err(format!("ERR {} is about database 0: SELECT 0", spec.name).into());
        }
        // SYNC is about all databases.
        let asks = spec.does(behaviour::ASKS_DATABASE) && !spec.does(behaviour::READS_ALL_KEYS);
        if asks || spec.does(behaviour::EMPTIES_DATABASE) {
            self.parts.extend((0..args.len()).map(Part::Given));
            self.push(OF_CLUSTER_DATABASE);
            self.push(own.number().to_string().as_bytes());
            return Ok(spec);
        }
        self.name_keys(own, spec, args)?;
        Ok(spec)
    }

    /// That of a client which knows no clusters.
    fn take_up_of_database(
        &mut self,
        client: DatabaseClient<'_>,
        named: Database,
        spec: &'static CommandSpec,
        args: &[&[u8]],
    ) -> Result<&'static CommandSpec, Refusal> {
        let database = client.set.place_of(named);
        if spec.group == Group::Cluster {
            return Err(NO_CLUSTER.into());
        }
        if spec.does(behaviour::CLEARS_STORE) {
            return self.empty(client, database, spec, args);
        }
        if spec.does(behaviour::SWAPS_DATABASES) {
            let swap = table::lookup(SWAP).ok_or("ERR databases cannot be exchanged")?;
            self.push(swap.name.as_bytes());
            for (at, word) in args.iter().enumerate().skip(1) {
                match number_of_name(client.set, word) {
                    Some(number) => self.push(number.to_string().as_bytes()),
                    None => self.parts.push(Part::Given(at)),
                }
            }
            return Ok(swap);
        }
        let own = Namespace::Database(database);
        let place_of = |word: &[u8]| -> Result<Option<Namespace>, Refusal> {
            let number = parse_integer(word).or_else(|| number_of_name(client.set, word).map(i64::from));
            let number = number_below(number.ok_or(NOT_INTEGER)?, client.databases)?;
            Ok(Some(Namespace::Database(client.set.place_of(Database::of_number(number).ok_or(NO_DATABASE)?))))
        };
        if spec.does(behaviour::TO_DATABASE)
            && let Some(taken_up) = self.take_up_other(client, (Some(own), spec), args, place_of)?
        {
            return Ok(taken_up);
        }
        if spec.does(behaviour::ASKS_DATABASE) {
            self.parts.extend((0..args.len()).map(Part::Given));
            self.push(OF_DATABASE);
            self.push(database.number().to_string().as_bytes());
            if spec.does(behaviour::READS_REPLICAS) {
                // All databases are told, by the numbers that clients use.
                for (number, place) in client.set.exchanged() {
                    self.push(number.number().to_string().as_bytes());
                    self.push(place.number().to_string().as_bytes());
                }
            }
            return Ok(spec);
        }
        self.name_keys(own, spec, args)?;
        Ok(spec)
    }

    /// Names the keys of a request as they are stored.
    fn name_keys(&mut self, own: Namespace, spec: &CommandSpec, args: &[&[u8]]) -> Result<(), Refusal> {
        // Channels are no keys.
        if spec.has_keys() && spec.group != Group::PubSub {
            // Where the keys cannot be found, the handler answers the error.
            if let Ok(keys) = spec.keys(args) {
                for at in keys {
                    check_named_key(own, args[at])?;
                    match own {
                        Namespace::Database(database) => {
                            let prefix = self.prefix_of(database);
                            self.bytes.extend_from_slice(&prefix);
                        }
                        Namespace::Cluster(_) => self.bytes.extend_from_slice(&own.prefix(args[at])),
                    }
                    self.bytes.extend_from_slice(args[at]);
                    self.keys.push((at, self.bytes.len()));
                }
            }
        }
        if spec.does(behaviour::RUNS_SCRIPT) {
            self.end_in(own, args.len());
        }
        Ok(())
    }

    /// What the stored keys of a database begin with.
    #[inline]
    fn prefix_of(&mut self, database: Database) -> [u8; DATABASE_PREFIX_BYTES] {
        match self.prefix {
            Some((known, prefix)) if known == database => prefix,
            _ => self.prefix.insert((database, database.prefix())).1,
        }
    }

    /// COPY and MOVE, which may name another database: what is run instead; none: nothing else. `place_of` answers the namespace of the
    /// database that a word names, or why there is none.
    fn take_up_other(
        &mut self,
        client: DatabaseClient<'_>,
        (own, spec): (Option<Namespace>, &'static CommandSpec),
        args: &[&[u8]],
        place_of: impl Fn(&[u8]) -> Result<Option<Namespace>, Refusal>,
    ) -> Result<Option<&'static CommandSpec>, Refusal> {
        match number_word(spec, args).map(place_of).transpose() {
            Ok(Some(to)) => {
                let made = transfer_request((own, spec), to, args)?;
                let of = made.as_ref().map(|made| made.spec);
                made.iter().flat_map(|made| &made.words).for_each(|word| self.push(word));
                Ok(of)
            }
            // A transaction is told by its handler, in its place.
            Ok(None) => Ok(None),
            Err(text) if !client.in_multi => Err(text),
            Err(_) if own.is_some() && args.len() == 3 && parse_integer(args[2]).is_some() => {
                self.push(args[0]);
                self.push(&stored(own, args[1])?);
                self.push(b"-1");
                Ok(Some(spec))
            }
            Err(_) => Ok(None),
        }
    }

    /// A script may touch keys that it does not declare: its request ends in the mark of its namespace.
    fn end_in(&mut self, own: Namespace, args: usize) {
        self.parts.extend((0..args).map(Part::Given));
        let mut start = 0;
        for (at, end) in self.keys.drain(..) {
            self.parts[at] = Part::Made(start..end);
            start = end;
        }
        self.push(&own.mark());
    }

    /// FLUSHDB and FLUSHALL. In a transaction the latter names all databases: that one shard has them all is looked at there.
    fn empty(
        &mut self,
        client: DatabaseClient<'_>,
        database: Database,
        spec: &CommandSpec,
        args: &[&[u8]],
    ) -> Result<&'static CommandSpec, Refusal> {
        let is_how = |word: &&[u8]| word.eq_ignore_ascii_case(b"ASYNC") || word.eq_ignore_ascii_case(b"SYNC");
        if args.len() > 2 || !args[1..].iter().all(is_how) {
            return Err("ERR syntax error".into());
        }
        let empty = table::lookup(EMPTY).ok_or("ERR databases cannot be emptied")?;
        self.push(empty.name.as_bytes());
        if spec.does(behaviour::EMPTIES_DATABASE) {
            self.push(&database.prefix());
        } else if client.in_multi {
            let all = (0..client.databases).filter_map(Database::of_number);
            all.for_each(|database| self.push(&database.prefix()));
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
        if self.parts.is_empty() {
            let mut args = DatabaseArgs::from_slice(given);
            let mut start = 0;
            for &(at, end) in &self.keys {
                args[at] = &self.bytes[start..end];
                start = end;
            }
            return args;
        }
        let arg = |part: &Part| match part {
            Part::Given(at) => given[*at],
            Part::Made(range) => &self.bytes[range.clone()],
        };
        self.parts.iter().map(arg).collect()
    }
}

/// The number of the database that MOVE or COPY names, if it does.
#[must_use]
pub fn other_number(spec: &CommandSpec, args: &[&[u8]]) -> Option<i64> {
    parse_integer(number_word(spec, args)?)
}

const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
const NO_DATABASE: &str = "ERR DB index is out of range";

/// The number of a database of which there are so many.
fn number_below(number: i64, databases: u64) -> Result<u64, Refusal> {
    u64::try_from(number).ok().filter(|number| *number < databases).ok_or(NO_DATABASE.into())
}

/// The number of the database of that name. A number is no name.
fn number_of_name(set: &Databases, word: &[u8]) -> Option<u16> {
    let name = std::str::from_utf8(word).ok().filter(|_| parse_integer(word).is_none())?;
    set.named(name).map(Database::number)
}

/// The places of the words of a request that name databases, by number or by name.
pub(super) fn database_words(spec: &CommandSpec, args: &[&[u8]]) -> SmallVec<[usize; 2]> {
    let places: [Option<usize>; 2] = match () {
        () if spec.does(behaviour::CHOOSES_DATABASE) => [Some(1), None],
        () if spec.does(behaviour::SWAPS_DATABASES) => [Some(1), Some(2)],
        () if spec.does(behaviour::TO_DATABASE) => [place_of_number(spec, args), None],
        () => [None, None],
    };
    places.into_iter().flatten().filter(|at| *at < args.len()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::client_key;
    use vocab::limits::KEY_BYTES_MAX;

    /// An argument; the name of a key of database 3 in brackets.
    fn shown(arg: &&[u8]) -> String {
        let text = String::from_utf8_lossy(client_key(arg)).into_owned();
        if Database::of_key(arg) == Database::of_number(3) { format!("[{text}]") } else { text }
    }

    /// What is run.
    fn run(request: &str, in_multi: bool) -> Result<String, String> {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let database = Database::of_number(3).unwrap();
        let mut set = Databases::default();
        set.set(Database::of_number(4).unwrap(), "name", "orders").unwrap();
        let client =
            DatabaseClient { namespace: Some(Namespace::Database(database)), databases: 5, set: &set, in_multi };
        let mut made = DatabaseRequest::default();
        made.take_up(client, table::resolve(&args)?, &args).map_err(|text| text.into_owned())?;
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
    fn a_name_stands_for_the_number_of_its_database() {
        for (named, numbered) in [
            ("SWAPDB orders 1", "SWAPDB 4 1"),
            ("SWAPDB 1 orders", "SWAPDB 1 4"),
            ("MOVE k orders", "MOVE k 4"),
            ("COPY a b DB orders REPLACE", "COPY a b DB 4 REPLACE"),
        ] {
            for in_multi in [false, true] {
                let number = run(numbered, in_multi);
                assert!(number.is_ok() && number == run(named, in_multi), "{named}: {number:?}");
            }
        }
        for unknown in ["MOVE k none", "COPY a b DB none"] {
            assert_eq!(run(unknown, false), Err(NOT_INTEGER.to_owned()), "{unknown}");
        }
        assert_eq!(run("SWAPDB none 1", false).as_deref(), Ok("KV.SWAP none 1"), "its handler says so");
        assert_eq!(run("COPY orders DB", false).as_deref(), Ok("COPY [orders] [DB]"), "names of keys");
        assert!(run_of_cluster(3, "MOVE k orders", false).is_err(), "those of a cluster's clients have none");
    }

    /// An argument; the name of a key of cluster database N as `N:name`.
    fn shown_of_cluster(arg: &&[u8]) -> String {
        let text = String::from_utf8_lossy(client_key(arg)).into_owned();
        if let Some(Namespace::Cluster(of)) = Namespace::of_mark(arg) {
            return format!("{}:", of.number());
        }
        match Namespace::of_key(arg) {
            Some(Namespace::Cluster(of)) => {
                assert_eq!(vocab::slot_of(arg), vocab::slot_of(client_key(arg)));
                format!("{}:{text}", of.number())
            }
            Some(Namespace::Database(_)) => panic!("{text} is no key of a cluster's client"),
            None => text,
        }
    }

    /// What is run for a cluster's client in the database of that number, of 5.
    fn run_of_cluster(number: u64, request: &str, in_multi: bool) -> Result<String, String> {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let set = Databases::default();
        let namespace = Keyspace::of_cluster(number).unwrap().namespace();
        let client = DatabaseClient { namespace, databases: 5, set: &set, in_multi };
        let mut made = DatabaseRequest::default();
        made.take_up(client, table::resolve(&args)?, &args).map_err(|text| text.into_owned())?;
        Ok(made.args(&args).iter().map(shown_of_cluster).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_cluster_s_client_names_keys_of_its_database_with_their_own_slots() {
        for (number, request, expected) in [
            (3, "PING", "PING"),
            (3, "GET k", "GET 3:k"),
            (3, "SET {a}k k EX 5", "SET 3:{a}k k EX 5"),
            (3, "MSET a 1 b 2", "MSET 3:a 1 3:b 2"),
            (3, "WATCH a", "WATCH 3:a"),
            (3, "SPUBLISH channel m", "SPUBLISH channel m"),
            (3, "ASKING", "ASKING"),
            (3, "CLUSTER KEYSLOT k", "CLUSTER KEYSLOT k"),
            (3, "CLUSTER COUNTKEYSINSLOT 7", "CLUSTER COUNTKEYSINSLOT 7 SELECTED 3"),
            (3, "CLUSTER GETKEYSINSLOT 7 5", "CLUSTER GETKEYSINSLOT 7 5 SELECTED 3"),
            (3, "CLUSTERSCAN 0", "CLUSTERSCAN 0 SELECTED 3"),
            (3, "SCAN 0 COUNT 5", "SCAN 0 COUNT 5 SELECTED 3"),
            (3, "DBSIZE", "DBSIZE SELECTED 3"),
            (3, "FLUSHDB ASYNC", "FLUSHDB ASYNC SELECTED 3"),
            (3, "FLUSHALL", "FLUSHALL"),
            (3, "SYNC", "SYNC"),
            (3, "SWAPDB 0 1", "SWAPDB 0 1"),
            (3, "MOVE a 4", "KV.TRANSFER 3:a 4:a MOVE"),
            (3, "MOVE a 0", "KV.TRANSFER 3:a a MOVE"),
            (3, "MOVE a 3", "MOVE 3:a 3"),
            (0, "MOVE a 4", "KV.TRANSFER a 4:a MOVE"),
            (3, "COPY {a}a {a}b DB 0 REPLACE", "KV.TRANSFER 3:{a}a {a}b COPY REPLACE"),
            (3, "COPY a b DB 3", "COPY 3:a 3:b"),
            (3, "COPY a b", "COPY 3:a 3:b"),
            (0, "COPY {a}a {a}b DB 1", "KV.TRANSFER {a}a 1:{a}b COPY"),
        ] {
            assert_eq!(run_of_cluster(number, request, false).as_deref(), Ok(expected), "{number}");
        }
        for (number, request) in [
            (3, "MOVE a 5"),
            (0, "MOVE a 5"),
            (3, "MOVE a x"),
            (0, "COPY a b DB 5"),
            (0, "COPY a b DB 1"),
            (3, "KV.RANGE - +"),
        ] {
            assert!(run_of_cluster(number, request, false).is_err(), "{request}");
        }
        assert_eq!(run_of_cluster(3, "MOVE a 5", true).as_deref(), Ok("MOVE 3:a -1"));
        let script = run_of_cluster(3, "EVAL return 1 k", false).unwrap();
        assert_eq!(script, "EVAL return 1 3:k 3:");
        let long = "k".repeat(KEY_BYTES_MAX - 11);
        assert!(
            run_of_cluster(3, &format!("GET {long}"), false).unwrap_err().starts_with("ERR key is too long (31989")
        );
    }

    #[test]
    fn between_writes_the_shard_is_asked() {
        for (request, expected) in [
            ("KEYS a* DATABASE 3", Some("KV.KEYS [] KEYS a*")),
            ("DBSIZE DATABASE 3", Some("KV.KEYS [] DBSIZE")),
            ("SCAN 0 COUNT 5 DATABASE 3", Some("KV.KEYS [] SCAN 0 COUNT 5")),
            ("RANDOMKEY DATABASE 3", Some("KV.KEYS [] RANDOMKEY")),
            ("KV.RANGE - + DATABASE 3", None),
            ("KEYS a*", None),
            ("EXISTS DATABASE 3", None),
        ] {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let asked = asked_of_shard(table::resolve(&args).unwrap(), &args);
            let shown = asked.map(|(spec, command, database)| {
                assert_eq!((spec.name, database), ("KV.KEYS", Database::of_number(3).unwrap()));
                command.args().iter().map(shown).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(shown.as_deref(), expected, "{request}");
        }
    }

    #[test]
    fn a_copy_of_all_databases_is_told_which_are_exchanged() {
        let database = |number| Database::of_number(number).unwrap();
        let mut set = Databases::default();
        let mut asked = || {
            let (namespace, mut made) = (Some(Namespace::Database(database(2))), DatabaseRequest::default());
            let client = DatabaseClient { namespace, databases: 16, set: &set, in_multi: false };
            let args: [&[u8]; 1] = [b"SYNC"];
            made.take_up(client, table::resolve(&args).unwrap(), &args).unwrap();
            let words = made.args(&args).iter().map(shown).collect::<Vec<_>>().join(" ");
            set.swap(database(0), database(3));
            words
        };
        assert_eq!([asked(), asked()], ["SYNC DATABASE 2", "SYNC DATABASE 2 0 3 3 0"]);
    }

    #[test]
    fn what_is_asked_of_all_keys_is_asked_of_the_database() {
        for (request, expected) in [
            ("DBSIZE", "DBSIZE DATABASE 3"),
            ("SCAN 0 COUNT 5", "SCAN 0 COUNT 5 DATABASE 3"),
            ("KEYS a*", "KEYS a* DATABASE 3"),
            ("RANDOMKEY", "RANDOMKEY DATABASE 3"),
            ("KV.RANGE - + KEYS", "KV.RANGE - + KEYS DATABASE 3"),
            ("FLUSHDB", "KV.EMPTY []"),
            ("FLUSHDB ASYNC", "KV.EMPTY []"),
            ("FLUSHALL", "KV.EMPTY"),
            ("COPY a b", "COPY [a] [b]"),
            ("COPY a b DB 3 REPLACE", "COPY [a] [b] REPLACE"),
            ("MOVE a 3", "MOVE [a] 3"),
            ("COPY a b REPLACE DB 4", "KV.TRANSFER [a] b COPY REPLACE"),
            ("COPY a b DB 3 DB 4", "KV.TRANSFER [a] b COPY"),
            ("COPY a b DB 4 DB 3", "COPY [a] [b]"),
            ("COPY a b DB 4 what", "COPY [a] [b] DB 4 what"),
            ("COPY a b REPLACE DB", "COPY [a] [b] REPLACE DB"),
            ("MOVE a 4", "KV.TRANSFER [a] a MOVE"),
        ] {
            assert_eq!(run(request, false).as_deref(), Ok(expected));
        }
        assert_eq!(run("FLUSHALL", true).map(|words| words.split(' ').count()), Ok(6), "all databases");
        for request in ["CLUSTER SLOTS", "CLUSTER KEYSLOT k", "ASKING", "READONLY", "CLUSTERSCAN 0"] {
            assert_eq!(run(request, false), Err(NO_CLUSTER.to_owned()), "{request}");
        }
        for request in ["MOVE a 16", "MOVE a -1", "MOVE a x", "COPY a b DB 16"] {
            assert!(run(request, false).is_err(), "{request}");
        }
        for (request, expected) in [
            ("MOVE a 4", "KV.TRANSFER [a] a MOVE"),
            ("MOVE a 16", "MOVE [a] -1"),
            ("COPY a b DB x", "COPY [a] [b] DB x"),
            ("DBSIZE", "DBSIZE DATABASE 3"),
        ] {
            assert_eq!(run(request, true).as_deref(), Ok(expected));
        }
        assert!(run("FLUSHDB NOW", false).is_err() && run("FLUSHALL SYNC ASYNC", false).is_err());
        let long = "k".repeat(KEY_BYTES_MAX - 9);
        let text = "ERR key is too long (31991 bytes, 31990 are allowed)";
        assert_eq!(run(&format!("GET {long}"), false), Err(text.to_owned()));
    }
}
