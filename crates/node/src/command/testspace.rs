//! A space and a `Shards` in memory, as plain as can be: what the real ones must agree with, and what the tests of the
//! handlers run on.

use super::{Call, Error, Handler, Outcome, ScanCursors, StoreCall, handler};
use crate::format::element::position_of;
use crate::format::field_expiry::{self, RowExpiries, is_about_expiry};
use crate::format::keys;
use crate::{
    Fault, Heads, Layout, Need, ReadSpace, Record, RecordRange, Records, Rows, Rules, ShardSpace, ShardSpaces, Shards,
    WriteSpace,
};
use resp::table::CommandSpec;
use resp::{Proto, Reply, Value};
use std::collections::{BTreeMap, BTreeSet};
use storage::Slice;
use vocab::{ClusterDatabase, Database, Prng, Slot, slot_of};

/// The time at which a new space stands.
pub(crate) const START_MS: u64 = 1_700_000_000_000;

/// One shard in memory.
#[derive(Clone)]
pub(crate) struct TestSpace {
    /// What `now_ms` answers.
    pub now_ms: u64,
    /// What `version` answers; the caller raises it before each entry.
    pub version: u64,
    /// How many calls have written; an error must leave it as it was.
    pub writes: u64,
    /// How many calls have read; what a command may cost can be asserted.
    pub reads: u64,
    /// How many steps commands have asked for (`ReadSpace::afford`).
    pub steps: usize,
    /// What `counts_reads` answers.
    pub counts_reads: bool,
    /// By which rules commands are evaluated: the newest ones, if nothing else is said.
    pub rules: Rules,
    random: Prng,
    records: BTreeMap<Vec<u8>, Record>,
    /// The rows of large collections, by their tree keys.
    elements: BTreeMap<Vec<u8>, Slice>,
    /// How many large collections there have been.
    collections: u64,
    /// Rows that are being made, and by when they must be whole.
    staged: BTreeSet<(Vec<u8>, u64)>,
    /// Of clients' requests: until when they are kept, and what is.
    requests: BTreeMap<Vec<u8>, (u64, Slice)>,
}

impl TestSpace {
    /// An empty shard.
    pub(crate) fn new() -> Self {
        Self {
            now_ms: START_MS,
            version: 0,
            writes: 0,
            reads: 0,
            steps: 0,
            counts_reads: false,
            rules: Rules::NEWEST,
            random: Prng::new(42),
            records: BTreeMap::new(),
            elements: BTreeMap::new(),
            collections: 0,
            staged: BTreeSet::new(),
            requests: BTreeMap::new(),
        }
    }

    /// Other random bits from here on.
    pub(crate) fn randomize(&mut self, seed: u64) {
        self.random = Prng::new(seed);
    }

    /// What is remembered of a client's requests.
    pub(crate) fn requests_of(&self, client: &str) -> Slice {
        self.requests[client.as_bytes()].1.clone()
    }

    /// What housekeeping does with clients whose time is over.
    pub(crate) fn forget_requests(&mut self) {
        let now_ms = self.now_ms;
        self.requests.retain(|_, (until_ms, _)| *until_ms > now_ms);
    }

    /// Elements of the large collection at `key`.
    pub(crate) fn element_count(&self, key: &[u8]) -> usize {
        let Some(record) = self.records.get(key) else { return 0 };
        let expires = record.view().kind.layout == Layout::ExpiringRows;
        let is_element = |rows: &Rows, tree_key: &[u8]| !expires || !is_about_expiry(&tree_key[rows.prefix.len()..]);
        let count = |rows: Rows| self.rows_of(&rows.prefix).filter(|(tree_key, _)| is_element(&rows, tree_key)).count();
        record.view().fields(key).map_or(0, count)
    }

    /// Each expiry of a field has a row by field and one by time, as the record of its hash says.
    fn validate_expiries(&self, record: &Record, rows: &Rows) {
        if record.view().kind.layout != Layout::ExpiringRows {
            return;
        }
        let expiries = RowExpiries::decode(record.view().tail()).expect("a record says when fields expire");
        let mut times = Vec::new();
        for (tree_key, value) in self.rows_of(&rows.prefix) {
            let name = &tree_key[rows.prefix.len()..];
            if let Some(field) = field_expiry::parse_by_field(name) {
                assert!(
                    self.elements.contains_key(&keys::element(&rows.prefix, field)),
                    "a field with an expiry is there"
                );
                times.push((field_expiry::parse_expiry(value).expect("an expiry"), field.to_vec()));
            }
        }
        times.sort();
        let by_time = self.rows_of(&rows.prefix).filter_map(|(tree_key, _)| {
            let (at_ms, name) = field_expiry::parse_by_time(&tree_key[rows.prefix.len()..])?;
            Some((at_ms, name.to_vec()))
        });
        assert_eq!(by_time.collect::<Vec<_>>(), times);
        assert_eq!(expiries.fields, times.len() as u64);
        if let Some((at_ms, name)) = times.first() {
            let first = (*at_ms, position_of(name).expect("an element has a position"));
            assert!(
                expiries.first <= first && expiries.due_ms <= *at_ms.max(&(self.now_ms + 1)),
                "{expiries:?} {first:?}"
            );
        }
    }

    /// Rows of all large collections.
    pub(crate) fn row_count(&self) -> usize {
        self.elements.len()
    }

    fn rows_of<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = (&'a Vec<u8>, &'a Slice)> {
        self.elements.range(prefix.to_vec()..).take_while(move |(tree_key, _)| tree_key.starts_with(prefix))
    }

    /// Splits off the keys whose slot is at least `first`, as a shard does.
    pub(crate) fn split_off(&mut self, first: u16) -> Self {
        let mut other = Self::new();
        (other.now_ms, other.version) = (self.now_ms, self.version);
        let moved = |key: &[u8]| slot_of(key).0 >= first;
        let records = std::mem::take(&mut self.records);
        (other.records, self.records) = records.into_iter().partition(|(key, _)| moved(key));
        let elements = std::mem::take(&mut self.elements);
        let slot = |tree_key: &[u8]| u16::from_be_bytes([tree_key[1], tree_key[2]]);
        (other.elements, self.elements) = elements.into_iter().partition(|(tree_key, _)| slot(tree_key) >= first);
        // As in the store, where ids are indexes of entries: no two shards give out the same.
        other.collections = self.collections + (1 << 32);
        other
    }

    /// Takes in what another shard holds.
    fn absorb(&mut self, other: Self) {
        self.records.extend(other.records);
        self.elements.extend(other.elements);
    }

    /// Every row belongs to the record of one large collection, whose count says how many elements there are; the rows of a
    /// list are not its elements.
    pub(crate) fn validate(&self) {
        let mut rows_left = self.elements.len();
        for (key, record) in &self.records {
            if let Some(rows) = record.view().rows(key) {
                // The rows of a stream are more than its entries.
                let has_others = matches!(record.view().kind.ty, crate::Type::List | crate::Type::Stream);
                let is_right = has_others || self.element_count(key) as u64 == rows.count;
                assert!(is_right, "count of {}", key.escape_ascii());
                self.validate_expiries(record, &rows);
                rows_left -= self.rows_of(&rows.prefix).count();
            }
        }
        for (prefix, _) in &self.staged {
            rows_left -= self.rows_of(prefix).count();
        }
        assert_eq!(rows_left, 0, "rows without a record");
    }

    fn span(&mut self, start: &[u8], end: &[u8], reverse: bool) -> TestRecords<'_> {
        let within = |key: &&Vec<u8>| &key[..] >= start && (end.is_empty() || &key[..] < end);
        let mut keys: Vec<Vec<u8>> = self.records.keys().filter(within).cloned().collect();
        if reverse {
            keys.reverse();
        }
        TestRecords { space: self, rest: keys.into_iter(), at: Vec::new() }
    }

    fn is_live(&self, record: &Record) -> bool {
        record.view().gone_at_ms().is_none_or(|at| at > self.now_ms)
    }

    fn drop_elements(&mut self, rows: &Rows) {
        self.elements.retain(|tree_key, _| !tree_key.starts_with(&rows.prefix));
    }
}

impl ReadSpace for TestSpace {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn afford(&mut self, steps: usize) -> Result<(), Fault> {
        self.steps += steps;
        Ok(())
    }

    fn counts_reads(&self) -> bool {
        self.counts_reads
    }

    fn rules(&self) -> Rules {
        self.rules
    }

    fn random_u64(&mut self) -> Result<u64, Fault> {
        Ok(self.random.next_u64())
    }

    fn stored(&mut self, key: &[u8]) -> Result<Option<Record>, Fault> {
        self.reads += 1;
        Ok(self.records.get(key).filter(|record| self.is_live(record)).cloned())
    }

    fn element_get(&mut self, rows: &Rows, element: &[u8]) -> Result<Option<Slice>, Fault> {
        self.reads += 1;
        Ok(self.elements.get(&keys::element(&rows.prefix, element)).cloned())
    }

    fn elements(&mut self, rows: &Rows, after: Option<&[u8]>, limit: usize) -> Result<Vec<(Slice, Slice)>, Fault> {
        self.reads += 1;
        let from = keys::element(&rows.prefix, after.unwrap_or_default());
        let found = self.elements.range(from..).take_while(|(tree_key, _)| tree_key.starts_with(&rows.prefix));
        let named = found.map(|(tree_key, value)| (&tree_key[rows.prefix.len()..], value));
        let fresh = named.filter(|(element, _)| after.is_none_or(|after| *element > after));
        Ok(fresh.take(limit).map(|(element, value)| (Slice::from(element), value.clone())).collect())
    }

    fn element_at(
        &mut self,
        rows: &Rows,
        from: &[u8],
        until: &[u8],
        nth: usize,
    ) -> Result<Option<(Slice, Slice)>, Fault> {
        let found = self.elements(rows, None, usize::MAX)?;
        let within = |(name, _): &(Slice, Slice)| name[..] >= *from && (until.is_empty() || name[..] < *until);
        Ok(found.into_iter().filter(within).nth(nth))
    }

    fn element_before(&mut self, rows: &Rows, before: &[u8]) -> Result<Option<(Slice, Slice)>, Fault> {
        self.reads += 1;
        let end = [&rows.prefix[..], before].concat();
        let found = self.elements.range(rows.prefix.clone()..end).next_back();
        Ok(found.map(|(tree_key, value)| (Slice::from(&tree_key[rows.prefix.len()..]), value.clone())))
    }

    fn keys(&mut self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Slice>, Fault> {
        let follows = |key: &&Vec<u8>| key.starts_with(prefix) && after.is_none_or(|after| &key[..] > after);
        Ok(self.records.keys().filter(follows).take(limit).map(|key| Slice::from(&key[..])).collect())
    }
}

impl WriteSpace for TestSpace {
    fn put(&mut self, key: &[u8], record: Record) -> Result<(), Fault> {
        self.writes += 1;
        let record = record.due_from(self.now_ms + 1);
        let new = record.view().rows(key).map(|rows| rows.prefix);
        let old = self.records.insert(key.to_vec(), record.stamped(self.version));
        if let Some(old) = old.as_ref().and_then(|old| old.view().rows(key))
            && new.as_ref() != Some(&old.prefix)
        {
            self.drop_elements(&old);
        }
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, Fault> {
        self.writes += 1;
        let Some(old) = self.records.remove(key) else { return Ok(false) };
        if let Some(rows) = old.view().rows(key) {
            self.drop_elements(&rows);
        }
        Ok(self.is_live(&old))
    }

    fn give_up(&mut self, key: &[u8]) -> Result<(), Fault> {
        self.writes += 1;
        self.records.remove(key);
        Ok(())
    }

    fn new_rows(&mut self, key: &[u8]) -> Result<Rows, Fault> {
        self.collections += 1;
        Ok(Rows { prefix: keys::rows(slot_of(key), self.collections), count: 0 })
    }

    fn element_put(&mut self, rows: &Rows, element: &[u8], value: &[u8]) -> Result<(), Fault> {
        self.writes += 1;
        self.elements.insert(keys::element(&rows.prefix, element), Slice::from(value));
        Ok(())
    }

    fn element_delete(&mut self, rows: &Rows, element: &[u8]) -> Result<(), Fault> {
        self.writes += 1;
        self.elements.remove(&keys::element(&rows.prefix, element));
        Ok(())
    }

    fn requests(&mut self, client: &[u8]) -> Result<Option<Slice>, Fault> {
        Ok(self.requests.get(client).map(|(_, row)| row.clone()))
    }

    fn put_requests(
        &mut self,
        client: &[u8],
        row: &[u8],
        until_ms: u64,
        was_until_ms: Option<u64>,
    ) -> Result<(), Fault> {
        self.writes += 1;
        let before = self.requests.insert(client.to_vec(), (until_ms, Slice::from(row)));
        assert_eq!(before.map(|(until_ms, _)| until_ms), was_until_ms, "the caller knows what it replaces");
        Ok(())
    }

    fn request_clients(&mut self) -> Result<u64, Fault> {
        Ok(self.requests.len() as u64)
    }

    fn stage(&mut self, rows: &Rows, until_ms: u64) -> Result<(), Fault> {
        self.staged.insert((rows.prefix.clone(), until_ms));
        Ok(())
    }

    fn is_staged(&mut self, rows: &Rows, until_ms: u64) -> Result<bool, Fault> {
        Ok(self.staged.contains(&(rows.prefix.clone(), until_ms)))
    }

    fn unstage(&mut self, rows: &Rows, until_ms: u64) -> Result<(), Fault> {
        self.staged.remove(&(rows.prefix.clone(), until_ms));
        Ok(())
    }

    fn drop_rows(&mut self, rows: &Rows) -> Result<(), Fault> {
        self.drop_elements(rows);
        Ok(())
    }
}

impl ShardSpace for TestSpace {
    fn records<'a>(&'a mut self, range: &RecordRange<'_>) -> Result<Box<dyn Records + 'a>, Fault> {
        self.reads += 1;
        Ok(Box::new(self.span(range.start, range.end, range.reverse)))
    }

    fn keys_in_slot(&mut self, slot: Slot) -> Result<u64, Fault> {
        Ok(self.records.keys().filter(|key| slot_of(key) == slot).count() as u64)
    }

    fn keys_in_database(&mut self, database: Database) -> Result<u64, Fault> {
        Ok(self.records.keys().filter(|key| Database::of_key(key) == Some(database)).count() as u64)
    }

    fn keys_in_cluster_database(&mut self, database: ClusterDatabase, slot: Option<Slot>) -> Result<u64, Fault> {
        let is_one = |key: &&Vec<u8>| {
            ClusterDatabase::of_key(key) == Some(database) && slot.is_none_or(|slot| slot_of(key) == slot)
        };
        Ok(self.records.keys().filter(is_one).count() as u64)
    }

    fn key_count(&mut self) -> Result<u64, Fault> {
        Ok(self.records.len() as u64)
    }
}

/// Runs a command over data of one shard, whatever it does; its arity is not checked.
pub(crate) fn run(space: &mut TestSpace, args: &[&[u8]], reply: &mut Reply) -> Outcome {
    // A word of a container, too.
    let spec = resp::table::resolve(args).ok().or_else(|| resp::table::lookup(args[0]));
    run_of(space, spec.expect("a command"), args, reply)
}

/// Runs a command as one that writes a version of its own, and answers its reply, errors too.
pub(crate) fn answer(space: &mut TestSpace, args: &[&[u8]]) -> Value {
    let mut reply = Reply::new(Proto::Resp2);
    space.version += 1;
    match run(space, args, &mut reply) {
        Ok(()) => {}
        Err(Error::Reply(text)) => reply.error(&text),
        Err(Error::Fault(fault)) => panic!("{fault:?}"),
    }
    resp::decode(&reply.buf).expect("a reply").expect("a whole one").0
}

/// The same, of a command whose row is known.
pub(crate) fn run_of(space: &mut TestSpace, spec: &CommandSpec, args: &[&[u8]], reply: &mut Reply) -> Outcome {
    match handler(spec).expect("a command over data") {
        Handler::Read(handler) => handler.run(args, space, reply),
        Handler::Write(run) | Handler::WriteIf(_, run, _) => run(&mut Call { args, space, reply }),
        Handler::Store(_) => panic!("{} is over the whole store", spec.name),
        Handler::Script(_) => panic!("{} runs a script", spec.name),
    }
}

/// Runs a command over the whole store.
pub(crate) fn run_on_store(
    shards: &mut dyn Shards,
    cursors: &ScanCursors,
    args: &[&[u8]],
    reply: &mut Reply,
) -> Outcome {
    let spec = resp::table::resolve(args).expect("a command");
    let Some(Handler::Store(run)) = handler(spec) else { panic!("{} is not over the whole store", spec.name) };
    run.run(&mut StoreCall { args, shards, streams: false, cursors, reply })
}

/// A whole store in memory.
pub(crate) struct TestShards {
    /// First slot, last slot and contents of each shard, in order.
    pub shards: Vec<(u16, u16, TestSpace)>,
    /// Those that other nodes lead.
    pub elsewhere: BTreeSet<usize>,
    /// Whether the client has left.
    pub is_abandoned: bool,
}

impl TestShards {
    /// `n` empty shards of like size.
    pub(crate) fn new(n: u16) -> Self {
        let first = |i: u16| (u32::from(vocab::SLOT_COUNT) * u32::from(i) / u32::from(n)) as u16;
        let last = |i: u16| if i + 1 == n { vocab::SLOT_COUNT - 1 } else { first(i + 1) - 1 };
        let shards = (0..n).map(|i| (first(i), last(i), TestSpace::new())).collect();
        Self { shards, elsewhere: BTreeSet::new(), is_abandoned: false }
    }

    /// The shard that owns `key`.
    pub(crate) fn owner(&mut self, key: &[u8]) -> &mut TestSpace {
        let slot = slot_of(key).0;
        let owner = self.shards.iter_mut().find(|(first, last, _)| (*first..=*last).contains(&slot));
        &mut owner.expect("the shards cover all slots").2
    }

    /// Makes shards `i` and `i + 1` one.
    pub(crate) fn merge(&mut self, i: usize) {
        let (_, last, space) = self.shards.remove(i + 1);
        self.shards[i].1 = last;
        self.shards[i].2.absorb(space);
    }

    /// Divides shard `i` in the middle of its slots.
    pub(crate) fn split(&mut self, i: usize) {
        let (first, last, space) = &mut self.shards[i];
        let middle = *first + (*last - *first) / 2 + 1;
        let right = (middle, *last, space.split_off(middle));
        assert!(*first < middle, "a shard of one slot cannot be split");
        *last = middle - 1;
        self.shards.insert(i + 1, right);
    }
}

impl ShardSpaces for TestShards {
    fn space(&mut self, i: usize) -> &mut dyn ShardSpace {
        &mut self.shards[i].2
    }
}

impl Shards for TestShards {
    fn count(&self) -> usize {
        self.shards.len()
    }

    fn slots(&self, i: usize) -> (u16, u16) {
        (self.shards[i].0, self.shards[i].1)
    }

    fn leads(&self, i: usize) -> bool {
        !self.elsewhere.contains(&i)
    }

    fn is_here(&self, i: usize) -> bool {
        self.leads(i)
    }

    fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    fn key_counts(&mut self, which: &[usize], _need: Need) -> Vec<Result<u64, Fault>> {
        which.iter().map(|i| self.space(*i).key_count()).collect()
    }

    fn heads(&mut self, asked: &[(usize, RecordRange<'_>)]) -> Vec<Result<Heads, Fault>> {
        asked.iter().map(|(i, range)| self.space(*i).heads(range)).collect()
    }

    fn records<'a>(&'a mut self, range: &RecordRange<'_>) -> Vec<Box<dyn Records + 'a>> {
        let span = |space: &'a mut TestSpace| space.span(range.start, range.end, range.reverse);
        self.shards.iter_mut().map(|(_, _, space)| Box::new(span(space)) as Box<dyn Records>).collect()
    }

    fn libraries(&mut self) -> Result<Vec<Vec<u8>>, String> {
        Ok(Vec::new())
    }
}

/// The records of a range, those whose time has come included.
struct TestRecords<'a> {
    space: &'a mut TestSpace,
    rest: std::vec::IntoIter<Vec<u8>>,
    at: Vec<u8>,
}

impl Records for TestRecords<'_> {
    fn advance(&mut self) -> Result<Option<Slice>, Fault> {
        let Some(key) = self.rest.next() else { return Ok(None) };
        self.at = key;
        Ok(Some(Slice::from(&self.at[..])))
    }

    fn record(&mut self) -> Result<Option<Record>, Fault> {
        self.space.get(&self.at)
    }
}
