//! The data of a Raft entry: commands, as they came, each encoded on its way from a client to its shard. docs/FORMATS.md has
//! the layout.
//!
//! ```text
//! u8 format (1, 2), u64 little-endian: the leader's clock in ms, then items to the end:
//!   1 command      args
//!   2 transaction  varint watches, each (bytes key, varint version); varint commands, each args
//!   3 housekeeping (collect what has expired, and garbage)
//!   4 clear        (FLUSHALL; alone in its entry)
//!   5 change       bytes: a change of the map, for the metadata group; alone in its entry
//!   6 split        varint child, varint ranges of slots, each varint first, varint last, varint voters, each varint: some
//!                  slots are another shard's from here on; alone in its entry
//!   7 mark         varint: replicas compare what they hold at this entry; alone in its entry
//!   8 seal         (trees write what they have in memory to files); alone in its entry
//!   9 collect      bytes, bytes: one step of background collection from those tree keys on; only in format 2
//!  10 kept change bytes: as 5; replicas keep the change, rather than the map that it makes; alone in its entry
//!  11 packing     varint, varint, varint: the settings of `Packing`, of all commands of the entry; only in format 2
//!  13 together    (the commands behind pop members of large sets some together); only in format 2
//!  17 pieces      (a long string is kept in pieces once a command behind changes a part of it); only in format 2
//!  15 going on    (the same, and go on where the entry before has ended); only in format 2
//!  14 key bounds  varint databases, each varint slot and varint: the most keys of the database of that slot; only in format 2
//! args = varint count, each bytes; bytes = varint length and the bytes
//! ```

use super::key_bound::KeyBound;
use super::packing::Packing;
use replica::Bytes;
use resp::table::{self, CommandSpec};
use std::collections::VecDeque;
use std::sync::Arc;
use vocab::limits::ENTRY_BYTES_SOFT;
use vocab::{Malformed, Reader, ReplicaId, ShardId, Slot, put_bytes, put_varint, varint_bytes};

const FORMAT_FIRST: u8 = 1;
const FORMAT_SECOND: u8 = 2;
const HEAD_BYTES: usize = 9;
/// The capacity of a new entry, in bytes: as a rule its commands fit.
const FIRST_BYTES: usize = 4096;
/// Headroom: bytes before the items of an entry under construction, for its head and for what is said before them: the settings of
/// `Packing`, how members are popped, the rules, and the bounds of six databases.
const HEADROOM_BYTES: usize = 128;
/// The capacity, beside its item, of an entry that is made elsewhere: for heads of transactions.
const PREPARED_BYTES_SPARE: usize = 32;
const COMMAND: u8 = 1;
const TRANSACTION: u8 = 2;
const HOUSEKEEPING: u8 = 3;
const CLEAR: u8 = 4;
const CHANGE: u8 = 5;
const SPLIT: u8 = 6;
const MARK: u8 = 7;
const SEAL: u8 = 8;
const COLLECT: u8 = 9;
const KEPT_CHANGE: u8 = 10;
const PACKING: u8 = 11;
const COLLECT_FIELDS: u8 = 12;
const TOGETHER: u8 = 13;
const GOING_ON: u8 = 15;
const KEY_BOUNDS: u8 = 14;
const BOUNDS_OF_ALL: u8 = 16;
const PIECES: u8 = 17;
const LATER_RULES: u8 = 18;
const FOURTH_RULES: u8 = 19;

/// One item of an entry.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// One command.
    Command(Args<'a>),
    /// Commands that are made all or none, if every watched key still has its version.
    Transaction {
        /// Key and version; 0 for a key that was absent.
        watches: Vec<(&'a [u8], u64)>,
        /// In order.
        commands: Vec<Args<'a>>,
    },
    /// One step of background collection.
    Housekeeping,
    /// Removes every key.
    Clear,
    /// Changes the map; replicas keep the whole map.
    Change(&'a [u8]),
    /// Changes the map; replicas keep the change.
    KeptChange(&'a [u8]),
    /// Each replica takes a snapshot here, to be compared with those of the others. The number of the comparison.
    Mark(u64),
    /// From here on some of the shard's slots belong to another shard.
    Split(Split),
    /// Each replica writes its memtables to files.
    Seal,
    /// One step of background collection.
    Collect(CollectFrom),
    /// How the commands behind it store values.
    Packing(Packing),
    /// The commands behind it pop members of large sets some together (`space::apply::stretch`).
    Together,
    /// The same, and they go on where the entry before has ended (`drawn_stretch`).
    GoingOn,
    /// Commands behind it are evaluated by these rules.
    Rules(Rules),
    /// What leaves these databases with more keys is refused (`space::apply::bounded_keys`), if a client has sent it.
    KeyBounds(Vec<KeyBound>),
    /// The same, also of what a node makes of a client's command that goes in slices.
    BoundsOfAll(Vec<KeyBound>),
}

/// The rules by which the commands of an entry are evaluated. The entry's format says which, so that replicas of two releases
/// come to the same rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluation {
    /// As in entries of format 1: elements of a large collection lie below its key, and RENAME copies them.
    First,
    /// As in entries of format 2: a large collection has an id, its elements lie below that, and replies are bounded.
    Second,
}

impl Evaluation {
    fn format(self) -> u8 {
        match self {
            Self::First => FORMAT_FIRST,
            Self::Second => FORMAT_SECOND,
        }
    }
}

/// What the members of a shard read, and the leader's clock.
#[derive(Clone, Copy, Debug)]
pub struct EntryTerms {
    /// The leader's clock.
    pub now_ms: u64,
    /// The rules by which commands are evaluated.
    pub evaluation: Evaluation,
    /// Whether replicas keep a change of the map, rather than the whole map.
    pub keeps_changes: bool,
    /// How members of large sets are popped.
    pub pops: Pops,
    /// Which commands they refuse for how many keys databases have.
    pub bounding: Bounding,
    /// The newest rules that they all know.
    pub rules: Rules,
}

/// What commands do otherwise than they did in earlier releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rules {
    /// Nothing.
    #[default]
    First,
    /// Long strings are kept in pieces once parts of them are changed (`space::long_string`).
    Pieces,
    /// That, and a consumer of a stream's group that asks is noted although it gets nothing, SCAN looks at its cursor within a transaction, and
    /// ranges by rank have no LIMIT.
    Later,
    /// That, and members that small sets are asked for count as what is read; streams, RESTORE, SORT, INCREX and words of hashes and sorted sets
    /// are as in later releases of Redis. docs/FORMATS.md, item 19, has the list.
    Fourth,
}

impl Rules {
    /// The newest ones.
    pub const NEWEST: Self = Self::Fourth;
}

/// Which commands of an entry are refused if they would leave a database with more keys than it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bounding {
    /// None.
    None,
    /// Those of clients.
    OfClients,
    /// All, also those that nodes make of what clients have sent.
    OfAll,
}

/// How SPOP draws members of large sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pops {
    /// Each by itself.
    Alone,
    /// Some together (`space::apply::stretch`).
    Together,
    /// The same, also those of several entries (`drawn_stretch`).
    GoingOn,
}

/// The tree keys from which a step of background collection begins; empty: from the first. What lies before them has been
/// collected, so that a step does not walk over what earlier ones have removed. It is in the item, so that all replicas
/// collect the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectFrom {
    /// Where it begins in the expiry index.
    pub expiry: Vec<u8>,
    /// Where it begins among the collections that are to be collected.
    pub garbage: Vec<u8>,
    /// Where it begins among the hashes whose fields are due.
    pub fields: Vec<u8>,
}

/// A split: a shard becomes two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The new shard.
    pub child: ShardId,
    /// The slots of the new shard: ranges of first and last.
    pub slots: Vec<(u16, u16)>,
    /// The members of the new shard: those of the parent.
    pub voters: Vec<ReplicaId>,
}

/// An entry that was made elsewhere, but for its head and for what is said before its item: the bytes of a builder, with their
/// headroom.
#[derive(Clone, Debug)]
pub(crate) struct PreparedEntry(Bytes);

impl PreparedEntry {
    /// The bytes of its item.
    #[cfg(test)]
    pub(crate) fn item(&self) -> &[u8] {
        &self.0[HEADROOM_BYTES..]
    }
}

/// An entry under construction.
///
/// A large item is not copied at once: its parts wait in `later`, and `fill` copies them piece by piece. Nothing is added
/// behind such an item.
///
/// What is said before the items is known last, when the entry is proposed. It is written into headroom that is left before them,
/// from its end on, so that items stay where they are, however long they are.
///
/// Invariants: the entry begins at `start`, with its head; `start + HEAD_BYTES ≤ bytes.len()`, unless it is prepared.
#[derive(Debug)]
pub struct EntryBuilder {
    /// Headroom, then what is said before the items, then these.
    bytes: Vec<u8>,
    /// Bytes of the headroom that are left before the head.
    start: usize,
    /// If set, it takes the place of `bytes`, which are none.
    prepared: Option<PreparedEntry>,
    /// What is still to be copied behind `bytes`.
    later: VecDeque<Bytes>,
    /// The number of bytes in `later`.
    later_bytes: usize,
    /// Whether it holds something that entries of format 1 cannot hold.
    is_second: bool,
}

impl EntryBuilder {
    /// An empty entry. The clock is set when it is sealed.
    #[must_use]
    pub fn new() -> Self {
        let mut bytes = Vec::with_capacity(FIRST_BYTES);
        bytes.extend_from_slice(&[0; HEADROOM_BYTES]);
        Self { bytes, ..Self::without_bytes() }
    }

    fn without_bytes() -> Self {
        Self {
            bytes: Vec::new(),
            start: HEADROOM_BYTES - HEAD_BYTES,
            prepared: None,
            later: VecDeque::new(),
            later_bytes: 0,
            is_second: false,
        }
    }

    /// An empty entry with room for an item of so many bytes.
    pub(crate) fn with_room(bytes: usize) -> Self {
        let mut entry = Self::new();
        entry.bytes.reserve_exact(bytes + PREPARED_BYTES_SPARE);
        entry
    }

    /// What `of_prepared` makes the same entry of. Nothing has been said before its item yet.
    pub(crate) fn prepare(mut self) -> PreparedEntry {
        debug_assert!(self.start == HEADROOM_BYTES - HEAD_BYTES && !self.is_second, "it is not proposed yet");
        self.fill(usize::MAX);
        PreparedEntry(self.bytes.into())
    }

    /// An entry that was made elsewhere. Nothing can be added behind its item.
    pub(crate) fn of_prepared(entry: PreparedEntry) -> Self {
        debug_assert!(entry.0.len() > HEADROOM_BYTES, "an entry without an item is not prepared");
        Self { prepared: Some(entry), ..Self::without_bytes() }
    }

    /// Takes what was prepared as the entry's bytes, without a copy if they are not shared.
    fn take_prepared(&mut self) {
        if let Some(PreparedEntry(bytes)) = self.prepared.take() {
            self.bytes = bytes.into();
        }
    }

    /// Writes what is only in entries of format 2 before the items, and before what was said before them so far.
    fn put_before(&mut self, said: &[u8]) {
        self.take_prepared();
        self.is_second = true;
        if let Some(lacking) = said.len().checked_sub(self.start).filter(|lacking| *lacking > 0) {
            // The bounds of many databases: they come with many small items, which are moved.
            self.bytes.reserve_exact(lacking);
            self.bytes.splice(..0, std::iter::repeat_n(0, lacking));
            self.start += lacking;
        }
        self.start -= said.len();
        let at = self.start + HEAD_BYTES;
        self.bytes[at..at + said.len()].copy_from_slice(said);
    }

    /// Whether it holds no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes() == HEAD_BYTES
    }

    /// The number of its bytes so far, including those that are still to be copied.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let prepared = self.prepared.as_ref().map_or(0, |prepared| prepared.0.len());
        self.bytes.len() + prepared - self.start + self.later_bytes
    }

    /// Copies about `budget` bytes of `later`; true if nothing is left.
    pub fn fill(&mut self, budget: usize) -> bool {
        if self.later.is_empty() {
            return true;
        }
        // Has an effect the first time only.
        self.bytes.reserve_exact(self.later_bytes);
        let mut left = budget;
        while left > 0
            && let Some(part) = self.later.front_mut()
        {
            let piece = part.split_to(part.len().min(left));
            self.bytes.extend_from_slice(&piece);
            left -= piece.len();
            self.later_bytes -= piece.len();
            if part.is_empty() {
                self.later.pop_front();
            }
        }
        self.later.is_empty()
    }

    /// Adds a command.
    pub fn command(&mut self, args: &[&[u8]]) {
        self.bytes.push(COMMAND);
        self.args(args);
    }

    /// Adds a command whose arguments are already encoded.
    pub fn encoded_command(&mut self, command: &EncodedCommand) {
        self.bytes.push(COMMAND);
        command.parts().for_each(|part| self.bytes.extend_from_slice(part));
    }

    /// Adds a large command, which `fill` copies.
    pub fn large_command(&mut self, command: &EncodedCommand) {
        self.bytes.push(COMMAND);
        self.put_later(command);
    }

    fn put_later(&mut self, command: &EncodedCommand) {
        self.later_bytes += command.bytes();
        self.later.extend(command.parts().cloned());
    }

    /// Adds a transaction.
    pub fn transaction(&mut self, watches: &[(Vec<u8>, u64)], commands: &[EncodedCommand]) {
        self.transaction_head(watches, commands.len());
        for part in commands.iter().flat_map(EncodedCommand::parts) {
            self.bytes.extend_from_slice(part);
        }
    }

    /// Adds a large transaction, whose commands `fill` copies.
    pub fn large_transaction(&mut self, watches: &[(Vec<u8>, u64)], commands: &[EncodedCommand]) {
        self.transaction_head(watches, commands.len());
        commands.iter().for_each(|command| self.put_later(command));
    }

    fn transaction_head(&mut self, watches: &[(Vec<u8>, u64)], commands: usize) {
        self.bytes.push(TRANSACTION);
        put_varint(&mut self.bytes, watches.len() as u64);
        for (key, version) in watches {
            put_bytes(&mut self.bytes, key);
            put_varint(&mut self.bytes, *version);
        }
        put_varint(&mut self.bytes, commands as u64);
    }

    /// Adds one step of background collection.
    pub fn housekeeping(&mut self) {
        self.bytes.push(HOUSEKEEPING);
    }

    /// Adds one step of background collection.
    pub fn collect(&mut self, from: &CollectFrom) {
        self.is_second = true;
        self.bytes.push(COLLECT_FIELDS);
        [&from.expiry, &from.garbage, &from.fields].into_iter().for_each(|key| put_bytes(&mut self.bytes, key));
    }

    /// Writes, before the items, how the commands of the entry store values.
    pub fn packing(&mut self, packing: Packing) {
        let mut item = vec![PACKING];
        let settings = [packing.sketch_bytes, packing.run_entries, packing.run_bytes];
        settings.into_iter().for_each(|setting| put_varint(&mut item, setting));
        self.put_before(&item);
    }

    /// Says, before the items, how they pop members of large sets.
    pub fn pop(&mut self, how: Pops) {
        let item = match how {
            Pops::Alone => return,
            Pops::Together => TOGETHER,
            Pops::GoingOn => GOING_ON,
        };
        self.put_before(&[item]);
    }

    /// Says, before the items, by which rules their commands are evaluated.
    pub fn go_by(&mut self, rules: Rules) {
        let item = match rules {
            Rules::First => return,
            Rules::Pieces => PIECES,
            Rules::Later => LATER_RULES,
            Rules::Fourth => FOURTH_RULES,
        };
        self.put_before(&[item]);
    }

    /// Says, before the items, how many keys databases may have.
    pub fn bound_keys(&mut self, bounds: &[KeyBound], of: Bounding) {
        let kind = match of {
            Bounding::None => return,
            Bounding::OfClients => KEY_BOUNDS,
            Bounding::OfAll => BOUNDS_OF_ALL,
        };
        let mut item = vec![kind];
        put_varint(&mut item, bounds.len() as u64);
        for bound in bounds {
            put_varint(&mut item, u64::from(bound.slot.0));
            put_varint(&mut item, bound.keys_max);
        }
        self.put_before(&item);
    }

    /// Adds the removal of every key.
    pub fn clear(&mut self) {
        self.bytes.push(CLEAR);
    }

    /// Adds a change of the map.
    pub fn change(&mut self, change: &[u8]) {
        self.bytes.push(CHANGE);
        put_bytes(&mut self.bytes, change);
    }

    /// Adds the mark of a comparison.
    pub fn mark(&mut self, comparison: u64) {
        self.bytes.push(MARK);
        put_varint(&mut self.bytes, comparison);
    }

    /// Adds that the shard becomes two.
    pub fn split(&mut self, split: &Split) {
        self.bytes.push(SPLIT);
        put_varint(&mut self.bytes, u64::from(split.child.0));
        put_varint(&mut self.bytes, split.slots.len() as u64);
        for (first, last) in &split.slots {
            put_varint(&mut self.bytes, u64::from(*first));
            put_varint(&mut self.bytes, u64::from(*last));
        }
        put_varint(&mut self.bytes, split.voters.len() as u64);
        split.voters.iter().for_each(|voter| put_varint(&mut self.bytes, voter.0));
    }

    /// Adds that trees write what they have in memory to files.
    pub fn flush_trees(&mut self) {
        self.bytes.push(SEAL);
    }

    /// The entry's data, with the leader's clock, as a vector of its own, for what is not proposed: its items are moved.
    #[must_use]
    pub fn seal(mut self, now_ms: u64) -> Vec<u8> {
        self.close(EntryTerms {
            now_ms,
            evaluation: Evaluation::Second,
            keeps_changes: false,
            pops: Pops::Alone,
            bounding: Bounding::None,
            rules: Rules::First,
        });
        self.bytes.drain(..self.start);
        self.bytes
    }

    /// The same on those terms, to be proposed: nothing is moved. Evaluated by the second rules where it holds what only they know.
    #[must_use]
    pub fn seal_for(mut self, terms: EntryTerms) -> Bytes {
        self.close(terms);
        Bytes::from(self.bytes).slice(self.start..)
    }

    /// Writes the head. Nothing is left to be copied.
    fn close(&mut self, terms: EntryTerms) {
        self.fill(usize::MAX);
        self.take_prepared();
        let (head, rest) = self.bytes[self.start..].split_at_mut(HEAD_BYTES);
        head[0] = if self.is_second { FORMAT_SECOND } else { terms.evaluation.format() };
        head[1..].copy_from_slice(&terms.now_ms.to_le_bytes());
        // A change of the map is alone in its entry.
        if let Some(kind) = rest.first_mut().filter(|kind| **kind == CHANGE && terms.keeps_changes) {
            *kind = KEPT_CHANGE;
        }
    }

    fn args(&mut self, args: &[&[u8]]) {
        put_varint(&mut self.bytes, args.len() as u64);
        for arg in args {
            put_bytes(&mut self.bytes, arg);
        }
    }
}

impl Default for EntryBuilder {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads an entry: the leader's clock, then its items.
pub fn decode(data: &[u8]) -> Result<(u64, Items<'_>), &'static str> {
    let (head, rest) = data.split_at_checked(HEAD_BYTES).ok_or("entry shorter than its head")?;
    let evaluation = match head[0] {
        FORMAT_FIRST => Evaluation::First,
        FORMAT_SECOND => Evaluation::Second,
        _ => return Err("unknown entry format"),
    };
    let now_ms = u64::from_le_bytes(head[1..].try_into().expect("8 bytes"));
    Ok((now_ms, Items { evaluation, reader: Reader::new(rest), arguments_left: usize::MAX }))
}

/// From so many bytes on the first argument of a command is taken for a script, whose first key is the third argument.
const SCRIPT_BYTES_MIN: usize = 64;

/// The first keys of the commands and transactions at the beginning of an entry, as far as their places tell, and the keys that these
/// transactions have watched: for a hint. Ends where there is something else.
pub(crate) fn first_keys(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut reader = Reader::new(data.get(HEAD_BYTES..).unwrap_or_default());
    // What is said before the commands.
    let mut ahead = reader.clone();
    while match ahead.u8() {
        Ok(TOGETHER | GOING_ON | PIECES | LATER_RULES | FOURTH_RULES) => true,
        Ok(KEY_BOUNDS | BOUNDS_OF_ALL) => key_bounds(&mut ahead).is_ok(),
        Ok(PACKING) => packing(&mut ahead).is_ok(),
        _ => false,
    } {
        reader = ahead.clone();
    }
    // Of the transaction that is being read: how many it watches, and how many commands it has, that are still to come.
    let (mut watched, mut commands) = (0, 0);
    std::iter::from_fn(move || {
        if watched == 0 && commands == 0 {
            match reader.u8() {
                Ok(COMMAND) => commands = 1,
                Ok(TRANSACTION) => {
                    watched = reader.count(2).ok()?;
                    if watched == 0 {
                        commands = reader.count(1).ok()?;
                    }
                }
                _ => return None,
            }
        }
        if watched > 0 {
            let key = reader.bytes().ok()?;
            reader.varint().ok()?;
            watched -= 1;
            if watched == 0 {
                commands = reader.count(1).ok()?;
            }
            return Some(key);
        }
        commands = commands.checked_sub(1)?;
        first_key(&mut reader)
    })
}

/// The same of one command.
fn first_key<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let count = reader.count(1).ok()?;
    let mut first = None;
    for at in 0..count {
        let argument = reader.bytes().ok()?;
        if at == 1 || at == 3 && first.is_some_and(|first: &[u8]| first.len() >= SCRIPT_BYTES_MIN) {
            first = Some(argument);
        }
    }
    first
}

/// What an entry splits, if it is one that does; such an item is alone in its entry.
#[must_use]
pub fn split_of(data: &[u8]) -> Option<Split> {
    if data.get(HEAD_BYTES) != Some(&SPLIT) {
        return None;
    }
    match decode(data).ok()?.1.next()? {
        Ok(Item::Split(split)) => Some(split),
        _ => None,
    }
}

/// Whether an entry removes every key; such an item is alone in its entry.
#[must_use]
pub fn clears(data: &[u8]) -> bool {
    data.get(HEAD_BYTES) == Some(&CLEAR)
}

/// Whether an entry is a step of background collection.
#[must_use]
pub fn collects(data: &[u8]) -> bool {
    matches!(data.get(HEAD_BYTES), Some(&(COLLECT | COLLECT_FIELDS)))
}

/// The items of an entry.
#[derive(Clone)]
pub struct Items<'a> {
    evaluation: Evaluation,
    reader: Reader<'a>,
    /// How many arguments the commands to come may have.
    arguments_left: usize,
}

impl Items<'_> {
    /// The same items, but for the first one that brings the arguments of commands and the watched keys to more than that,
    /// and those behind: an error stands in their place.
    pub(crate) fn within(self, arguments_max: usize) -> Self {
        Self { arguments_left: arguments_max, ..self }
    }

    /// Whether the next one is alone in its entry, and no command over data.
    #[must_use]
    pub fn is_sole(&self) -> bool {
        matches!(self.reader.clone().u8(), Ok(CLEAR | CHANGE | KEPT_CHANGE | SPLIT | MARK | SEAL))
    }

    /// The rules by which they are evaluated.
    #[must_use]
    pub fn evaluation(&self) -> Evaluation {
        self.evaluation
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        let kind = self.reader.u8().ok()?;
        let item = match kind {
            COMMAND => args(&mut self.reader, &mut self.arguments_left).map(Item::Command),
            TRANSACTION => transaction(&mut self.reader, &mut self.arguments_left),
            HOUSEKEEPING => Ok(Item::Housekeeping),
            CLEAR => Ok(Item::Clear),
            CHANGE => self.reader.bytes().map(Item::Change).map_err(Malformed::text),
            KEPT_CHANGE => self.reader.bytes().map(Item::KeptChange).map_err(Malformed::text),
            SPLIT => split(&mut self.reader).map(Item::Split),
            SEAL => Ok(Item::Seal),
            COLLECT | COLLECT_FIELDS if self.evaluation == Evaluation::Second => {
                collect(&mut self.reader, kind == COLLECT_FIELDS).map(Item::Collect)
            }
            PACKING if self.evaluation == Evaluation::Second => packing(&mut self.reader).map(Item::Packing),
            TOGETHER if self.evaluation == Evaluation::Second => Ok(Item::Together),
            GOING_ON if self.evaluation == Evaluation::Second => Ok(Item::GoingOn),
            PIECES if self.evaluation == Evaluation::Second => Ok(Item::Rules(Rules::Pieces)),
            LATER_RULES if self.evaluation == Evaluation::Second => Ok(Item::Rules(Rules::Later)),
            FOURTH_RULES if self.evaluation == Evaluation::Second => Ok(Item::Rules(Rules::Fourth)),
            KEY_BOUNDS if self.evaluation == Evaluation::Second => key_bounds(&mut self.reader).map(Item::KeyBounds),
            BOUNDS_OF_ALL if self.evaluation == Evaluation::Second => {
                key_bounds(&mut self.reader).map(Item::BoundsOfAll)
            }
            MARK => self.reader.varint().map(Item::Mark).map_err(Malformed::text),
            _ => Err("unknown item in an entry"),
        };
        if item.is_err() {
            self.reader.rest();
        }
        Some(item)
    }
}

/// The error of items with more arguments than the caller wants.
pub(crate) const TOO_MANY_ARGUMENTS: &str = "the commands of an entry have more arguments than wanted";

fn take_arguments(count: usize, left: &mut usize) -> Result<(), &'static str> {
    *left = left.checked_sub(count).ok_or(TOO_MANY_ARGUMENTS)?;
    Ok(())
}

fn args<'a>(reader: &mut Reader<'a>, left: &mut usize) -> Result<Args<'a>, &'static str> {
    read_args(reader, |count| take_arguments(count, left))
}

fn collect(reader: &mut Reader<'_>, has_fields: bool) -> Result<CollectFrom, &'static str> {
    let (expiry, garbage) = (reader.bytes()?.to_vec(), reader.bytes()?.to_vec());
    let fields = if has_fields { reader.bytes()?.to_vec() } else { Vec::new() };
    Ok(CollectFrom { expiry, garbage, fields })
}

fn packing(reader: &mut Reader<'_>) -> Result<Packing, &'static str> {
    Ok(Packing { sketch_bytes: reader.varint()?, run_entries: reader.varint()?, run_bytes: reader.varint()? })
}

fn key_bounds(reader: &mut Reader<'_>) -> Result<Vec<KeyBound>, &'static str> {
    let count = reader.count(2)?;
    let bound = |_| Ok(KeyBound { slot: Slot(reader.number()?), keys_max: reader.varint()? });
    (0..count).map(bound).collect()
}

fn split(reader: &mut Reader<'_>) -> Result<Split, &'static str> {
    let child = ShardId(reader.number()?);
    let count = reader.count(2)?;
    let slots = (0..count).map(|_| Ok((reader.number()?, reader.number()?))).collect::<Result<_, &'static str>>()?;
    let count = reader.count(1)?;
    let voters = (0..count).map(|_| Ok(ReplicaId(reader.varint()?))).collect::<Result<_, &'static str>>()?;
    Ok(Split { child, slots, voters })
}

fn transaction<'a>(reader: &mut Reader<'a>, left: &mut usize) -> Result<Item<'a>, &'static str> {
    let count = reader.count(2)?;
    take_arguments(count, left)?;
    let watches = (0..count).map(|_| Ok((reader.bytes()?, reader.varint()?))).collect::<Result<_, &'static str>>()?;
    let count = reader.count(1)?;
    let commands = (0..count).map(|_| args(reader, left)).collect::<Result<_, _>>()?;
    Ok(Item::Transaction { watches, commands })
}

/// The arguments of one command.
pub type Args<'a> = Vec<&'a [u8]>;

/// A command's arguments: what is sent between threads and queued. In one piece, but for long ones, which may be part of the
/// request that they came in.
#[derive(Clone, Debug)]
pub struct EncodedCommand {
    /// The command's row; `None` for one that is not in the table, or has a wrong number of arguments.
    spec: Option<&'static CommandSpec>,
    /// Shared by its copies.
    bytes: Bytes,
    /// What follows `bytes`, if anything does: a long argument, then again what comes up to and with the length of the next
    /// one, and so on.
    rest: Option<Arc<[Bytes]>>,
}

impl EncodedCommand {
    /// Encodes arguments, and finds the command's row by its name.
    #[must_use]
    pub fn new(args: &[&[u8]]) -> Self {
        Self { spec: table::find(args), bytes: encode(args), rest: None }
    }

    /// Encodes the arguments of a command whose row is known.
    #[must_use]
    pub fn of(spec: &'static CommandSpec, args: &[&[u8]]) -> Self {
        Self { spec: Some(spec), bytes: encode(args), rest: None }
    }

    /// The same. Long arguments that lie in `frame`, which is the request as it came, are not copied.
    #[must_use]
    pub fn within(spec: &'static CommandSpec, args: &[&[u8]], frame: Option<&Bytes>) -> Self {
        let Some(frame) = frame else { return Self::of(spec, args) };
        let (mut parts, mut head) = (Vec::new(), Vec::new());
        put_varint(&mut head, args.len() as u64);
        for arg in args {
            let Some(long) = part_of(frame, arg) else {
                put_bytes(&mut head, arg);
                continue;
            };
            put_varint(&mut head, arg.len() as u64);
            parts.extend([Bytes::from(std::mem::take(&mut head)), long]);
        }
        parts.push(head.into());
        let bytes = parts.remove(0);
        Self { spec: Some(spec), bytes, rest: (!parts.is_empty()).then(|| parts.into()) }
    }

    /// Its bytes, in parts.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Bytes> {
        [&self.bytes].into_iter().chain(self.rest.iter().flat_map(|rest| rest.iter()))
    }

    /// The command's row.
    #[must_use]
    pub fn spec(&self) -> Option<&'static CommandSpec> {
        self.spec
    }

    /// Whether its row says that of it: bits of `resp::table::behaviour`.
    #[must_use]
    pub fn does(&self, behaviour: u64) -> bool {
        self.spec.is_some_and(|spec| spec.does(behaviour))
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.rest.as_ref().map_or(0, |rest| rest.iter().map(Bytes::len).sum())
    }

    /// How many arguments it has, its name among them.
    #[must_use]
    pub fn arguments(&self) -> usize {
        Reader::new(&self.bytes).varint().map_or(0, |count| count as usize)
    }

    /// What is sent to another node.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        if self.rest.is_none() {
            self.bytes.into()
        } else {
            self.parts().map(|part| &part[..]).collect::<Vec<_>>().concat()
        }
    }

    /// A command that another node has sent.
    pub fn decode(bytes: Vec<u8>) -> Result<Self, &'static str> {
        let mut reader = Reader::new(&bytes);
        let args = all_args(&mut reader)?;
        reader.end()?;
        let spec = table::find(&args);
        Ok(Self { spec, bytes: bytes.into(), rest: None })
    }

    /// Takes the arguments out: the row alone is left.
    pub(crate) fn take(&mut self) -> Self {
        Self { spec: self.spec, bytes: std::mem::take(&mut self.bytes), rest: self.rest.take() }
    }

    /// The arguments.
    #[must_use]
    pub fn args(&self) -> Args<'_> {
        let args = match &self.rest {
            None => all_args(&mut Reader::new(&self.bytes)),
            Some(rest) => args_of_parts(&self.bytes, rest),
        };
        args.expect("encoded by new")
    }
}

/// The argument as a part of `frame`, if it is long and lies in there.
fn part_of(frame: &Bytes, arg: &[u8]) -> Option<Bytes> {
    let (outer, inner) = (frame.as_ptr_range(), arg.as_ptr_range());
    let is_within = outer.start <= inner.start && inner.end <= outer.end;
    (arg.len() > ENTRY_BYTES_SOFT && is_within).then(|| frame.slice_ref(arg))
}

/// The arguments of a command whose long ones are parts of their own, each behind its length.
fn args_of_parts<'a>(first: &'a Bytes, rest: &'a [Bytes]) -> Result<Args<'a>, &'static str> {
    let (mut reader, mut rest) = (Reader::new(first), rest.iter());
    let count = reader.varint()?;
    let mut args = Args::new();
    for _ in 0..count {
        let length = reader.varint()? as usize;
        let long = if reader.is_empty() && length > 0 { rest.next() } else { None };
        args.push(match long {
            Some(long) => {
                reader = Reader::new(rest.next().map_or(&[][..], |next| next));
                long
            }
            None => reader.take(length)?,
        });
    }
    Ok(args)
}

fn encode(args: &[&[u8]]) -> Bytes {
    let length = |bytes: usize| bytes + varint_bytes(bytes as u64);
    // Exactly as much as is needed: then the bytes become shared ones without an allocation.
    let total = varint_bytes(args.len() as u64) + args.iter().map(|arg| length(arg.len())).sum::<usize>();
    let mut bytes = Vec::with_capacity(total);
    put_varint(&mut bytes, args.len() as u64);
    for arg in args {
        put_bytes(&mut bytes, arg);
    }
    debug_assert_eq!(bytes.len(), total);
    bytes.into()
}

fn all_args<'a>(reader: &mut Reader<'a>) -> Result<Args<'a>, &'static str> {
    read_args(reader, |_| Ok(()))
}

/// The arguments of a command, if `admit` takes so many.
pub(super) fn read_args<'a>(
    reader: &mut Reader<'a>,
    admit: impl FnOnce(usize) -> Result<(), &'static str>,
) -> Result<Args<'a>, &'static str> {
    let count = reader.count(1)?;
    admit(count)?;
    if count == 0 {
        return Err("a command without a name in an entry");
    }
    (0..count).map(|_| Ok(reader.bytes()?)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::fuzz;

    #[test]
    fn a_large_item_is_copied_in_pieces_and_makes_the_same_entry() {
        let value = vec![7; 1000];
        let commands: Vec<EncodedCommand> =
            [&b"a"[..], b"b", b""].iter().map(|key| EncodedCommand::new(&[b"SET", key, &value])).collect();
        let watches = [(b"w".to_vec(), 300)];
        for budget in [1, 7, 1000, 10_000] {
            let (mut whole, mut pieces) = (EntryBuilder::new(), EntryBuilder::new());
            whole.command(&[b"DEL", b"x"]);
            pieces.command(&[b"DEL", b"x"]);
            whole.transaction(&watches, &commands);
            pieces.large_transaction(&watches, &commands);
            assert_eq!(whole.bytes(), pieces.bytes());
            let mut steps = 0;
            while !pieces.fill(budget) {
                steps += 1;
            }
            assert!(steps >= 3000 / budget);
            assert_eq!(whole.bytes(), pieces.bytes());
            assert_eq!(whole.seal(9), pieces.seal(9));
        }
        let (mut whole, mut later) = (EntryBuilder::new(), EntryBuilder::new());
        whole.encoded_command(&commands[0]);
        later.large_command(&commands[0]);
        assert_eq!(whole.seal(9), later.seal(9), "what is not filled is copied when it is sealed");
    }

    /// What may be said before the items of an entry.
    #[derive(Clone, Copy, Debug)]
    struct Said {
        is_packed: bool,
        pops: Pops,
        rules: Rules,
        bounds: u16,
    }

    impl Said {
        fn all() -> Vec<Self> {
            let mut all = Vec::new();
            for is_packed in [false, true] {
                for pops in [Pops::Alone, Pops::Together, Pops::GoingOn] {
                    for rules in [Rules::First, Rules::Pieces, Rules::Later, Rules::Fourth] {
                        // Ten fit into the headroom, with all else; eleven do not.
                        all.extend([0, 1, 10, 11, 300].map(|bounds| Self { is_packed, pops, rules, bounds }));
                    }
                }
            }
            all
        }

        /// As a leader says it.
        fn say(self, entry: &mut EntryBuilder) {
            if self.is_packed {
                entry.packing(Packing { sketch_bytes: 7, run_entries: 8, run_bytes: 9 });
            }
            entry.pop(self.pops);
            entry.go_by(self.rules);
            let bounds: Vec<KeyBound> =
                (0..self.bounds).map(|slot| KeyBound { slot: Slot(slot), keys_max: u64::MAX }).collect();
            if !bounds.is_empty() {
                entry.bound_keys(&bounds, Bounding::OfAll);
            }
        }

        /// As it stands in the entry.
        fn bytes(self) -> Vec<u8> {
            let packing: &[u8] = if self.is_packed { &[PACKING, 7, 8, 9] } else { &[] };
            let pops: &[u8] = match self.pops {
                Pops::Alone => &[],
                Pops::Together => &[TOGETHER],
                Pops::GoingOn => &[GOING_ON],
            };
            let rules: &[u8] = match self.rules {
                Rules::First => &[],
                Rules::Pieces => &[PIECES],
                Rules::Later => &[LATER_RULES],
                Rules::Fourth => &[FOURTH_RULES],
            };
            let mut bytes = Vec::new();
            if self.bounds > 0 {
                bytes.push(BOUNDS_OF_ALL);
                put_varint(&mut bytes, u64::from(self.bounds));
                for slot in 0..self.bounds {
                    put_varint(&mut bytes, u64::from(slot));
                    put_varint(&mut bytes, u64::MAX);
                }
            }
            [&bytes[..], rules, pops, packing].concat()
        }
    }

    /// Entries built in all the ways that there are, with all that may be said before their items: each is what its parts make one
    /// behind the other, and what is said moves no item unless it is very much.
    #[test]
    fn what_is_said_before_items_makes_the_plain_entry_and_moves_none() {
        type Build<'a> = Box<dyn Fn(&mut EntryBuilder) + 'a>;
        let command = |value: &[u8]| EncodedCommand::new(&[b"APPEND", b"key", value]);
        let (long, short) = (command(&[7; 2 * FIRST_BYTES]), command(b"x"));
        let commands = [long.clone(), short];
        let encoded = commands.each_ref().map(|command| command.clone().into_bytes());
        let watches = [(b"w".to_vec(), 300)];
        let one = [&[COMMAND][..], &encoded[0]].concat();
        let all = [&[TRANSACTION, 1, 1, b'w', 0xAC, 2, 2][..], &encoded[0], &encoded[1]].concat();
        let both = [&[COMMAND][..], &encoded[1], &one].concat();
        let builds: [(&[u8], Build<'_>); 7] = [
            (&one, Box::new(|entry| entry.command(&[b"APPEND", b"key", &[7; 2 * FIRST_BYTES]]))),
            (&one, Box::new(|entry| entry.encoded_command(&long))),
            (&one, Box::new(|entry| entry.large_command(&long))),
            (
                &both,
                Box::new(|entry| {
                    entry.encoded_command(&commands[1]);
                    entry.large_command(&long);
                    while !entry.fill(1000) {}
                }),
            ),
            (&all, Box::new(|entry| entry.transaction(&watches, &commands))),
            (&all, Box::new(|entry| entry.large_transaction(&watches, &commands))),
            (&[HOUSEKEEPING], Box::new(EntryBuilder::housekeeping)),
        ];
        for ((items, build), is_prepared) in builds.iter().flat_map(|build| [(build, false), (build, true)]) {
            for said in Said::all() {
                let mut entry = EntryBuilder::with_room(if is_prepared { items.len() } else { 0 });
                build(&mut entry);
                assert_eq!(entry.bytes(), HEAD_BYTES + items.len());
                let is_filled = entry.later.is_empty() || is_prepared;
                let mut place = entry.bytes[HEADROOM_BYTES..].as_ptr();
                if is_prepared {
                    let prepared = entry.prepare();
                    place = prepared.item().as_ptr();
                    entry = EntryBuilder::of_prepared(prepared);
                }
                said.say(&mut entry);
                let before = said.bytes();
                assert_eq!((entry.bytes(), entry.is_empty()), (HEAD_BYTES + before.len() + items.len(), false));
                let is_second = !before.is_empty();
                let sealed = entry.seal_for(terms(Evaluation::First));
                let head = [if is_second { FORMAT_SECOND } else { FORMAT_FIRST }, 9, 0, 0, 0, 0, 0, 0, 0];
                assert!(sealed == [&head[..], &before, items].concat(), "{said:?}, prepared: {is_prepared}");
                if is_filled && HEAD_BYTES + before.len() <= HEADROOM_BYTES {
                    assert_eq!(sealed[HEAD_BYTES + before.len()..].as_ptr(), place, "{said:?} moves it");
                }
            }
        }
    }

    fn terms(evaluation: Evaluation) -> EntryTerms {
        EntryTerms {
            now_ms: 9,
            evaluation,
            keeps_changes: false,
            pops: Pops::Alone,
            bounding: Bounding::None,
            rules: Rules::First,
        }
    }

    #[test]
    fn first_keys_are_those_of_the_commands_at_the_beginning() {
        let mut entry = EntryBuilder::new();
        entry.command(&[b"SET", b"a", b"1"]);
        entry.command(&[b"MSET", b"b", b"2", b"c", b"3"]);
        let (script, context) = ([b'-'; SCRIPT_BYTES_MIN], b"context");
        entry.command(&[b"EVAL", &script, b"1", b"key", context]);
        let commands = [EncodedCommand::new(&[b"GET", b"f"]), EncodedCommand::new(&[b"DEL", b"g", b"h"])];
        entry.transaction(&[(b"watched".to_vec(), 7)], &commands);
        entry.transaction(&[], &commands[..1]);
        entry.command(&[b"DEL", b"i"]);
        let sealed = |entry: EntryBuilder| entry.seal(0);
        let mut more = EntryBuilder::new();
        more.command(&[b"DEL", b"d"]);
        more.housekeeping();
        more.command(&[b"DEL", b"e"]);
        let (two, one) = (sealed(entry), sealed(more));
        let all = [&b"a"[..], b"b", b"key", b"watched", b"f", b"g", b"f", b"i"];
        assert_eq!(first_keys(&two).collect::<Vec<_>>(), all);
        assert_eq!(first_keys(&one).collect::<Vec<_>>(), [b"d"]);
        // What makes no sense ends it.
        (0..two.len()).for_each(|length| assert!(first_keys(&two[..length]).count() < all.len()));
        assert_eq!(first_keys(&[]).count(), 0);
    }

    #[test]
    fn items_end_with_the_first_that_has_too_many_arguments() {
        let data = sample();
        let read = |arguments_max: usize| {
            let items = decode(&data).expect("head").1.within(arguments_max);
            items.map(|item| item.map(drop)).collect::<Vec<_>>()
        };
        // SET has three; the transaction watches two keys, and its commands have two each.
        for (arguments_max, whole) in [(2, 0), (3, 1), (8, 1), (9, 7)] {
            let read = read(arguments_max);
            let found = read.iter().take_while(|item| item.is_ok()).count();
            assert_eq!(found, whole, "{arguments_max}");
            let last = read.last().copied();
            assert_eq!(last, Some(if whole == 7 { Ok(()) } else { Err(TOO_MANY_ARGUMENTS) }), "{arguments_max}");
            assert!(read.len() <= whole + 1, "nothing is read behind it");
        }
    }

    fn sample_split() -> Split {
        let (child, voters) = (ShardId(300), vec![ReplicaId(1), ReplicaId(200)]);
        Split { child, slots: vec![(3, 5), (900, 16383)], voters }
    }

    fn sample_from() -> CollectFrom {
        CollectFrom { expiry: b"x1".to_vec(), garbage: Vec::new(), fields: b"h2".to_vec() }
    }

    fn sample() -> Vec<u8> {
        let mut entry = EntryBuilder::new();
        entry.command(&[b"SET", b"a", &[7; 300]]);
        entry.transaction(
            &[(b"w".to_vec(), 9), (Vec::new(), u64::MAX)],
            &[EncodedCommand::new(&[b"INCR", b"n"]), EncodedCommand::new(&[b"DEL", b"a"])],
        );
        entry.housekeeping();
        entry.collect(&sample_from());
        entry.clear();
        entry.split(&sample_split());
        entry.flush_trees();
        entry.seal(1234)
    }

    #[test]
    fn what_is_built_is_read() {
        let data = sample();
        let (now_ms, items) = decode(&data).expect("head");
        assert_eq!(now_ms, 1234);
        let items: Vec<_> = items.map(|item| item.expect("item")).collect();
        assert_eq!(items[0], Item::Command(vec![b"SET", b"a", &[7; 300]]));
        assert_eq!(
            items[1],
            Item::Transaction {
                watches: vec![(b"w", 9), (b"", u64::MAX)],
                commands: vec![vec![b"INCR", b"n"], vec![b"DEL", b"a"]],
            }
        );
        assert_eq!(
            items[2..],
            [Item::Housekeeping, Item::Collect(sample_from()), Item::Clear, Item::Split(sample_split()), Item::Seal]
        );
    }

    #[test]
    fn that_members_are_popped_together_comes_first_and_hides_no_key() {
        let mut entry = EntryBuilder::new();
        entry.command(&[b"SPOP", b"s"]);
        entry.pop(Pops::Together);
        let data = entry.seal(5);
        assert_eq!(first_keys(&data).collect::<Vec<_>>(), [b"s"]);
        let (_, items) = decode(&data).expect("head");
        let items: Vec<_> = items.map(|item| item.expect("item")).collect();
        assert_eq!(items[..], [Item::Together, Item::Command(vec![b"SPOP", b"s"])]);
        let first: Vec<u8> = [&[FORMAT_FIRST][..], &data[1..]].concat();
        let (_, mut items) = decode(&first).expect("head");
        assert_eq!(items.next(), Some(Err("unknown item in an entry")));
    }

    #[test]
    fn bounds_of_keys_come_first_and_hide_no_key() {
        let bounds = [(7, 5), (16383, u64::MAX)].map(|(slot, keys_max)| KeyBound { slot: Slot(slot), keys_max });
        for (of, said) in [
            (Bounding::None, None),
            (Bounding::OfClients, Some(Item::KeyBounds(bounds.to_vec()))),
            (Bounding::OfAll, Some(Item::BoundsOfAll(bounds.to_vec()))),
        ] {
            let mut entry = EntryBuilder::new();
            entry.command(&[b"SPOP", b"s"]);
            entry.pop(Pops::Together);
            entry.bound_keys(&bounds, of);
            let data = entry.seal(5);
            assert_eq!(first_keys(&data).collect::<Vec<_>>(), [b"s"]);
            let (_, items) = decode(&data).expect("head");
            let items: Vec<_> = items.map(|item| item.expect("item")).collect();
            let others = [Item::Together, Item::Command(vec![b"SPOP", b"s"])];
            assert_eq!(items, said.into_iter().chain(others).collect::<Vec<_>>());
        }
    }

    #[test]
    fn fuzz_entries_no_bytes_make_it_panic_or_run_away() {
        let base = sample();
        fuzz::rounds(1, |prng| {
            let mut data = base.clone();
            fuzz::mutate(&mut data, 8, prng);
            if let Ok((_, items)) = decode(&data) {
                assert!(items.count() <= data.len());
            }
        });
    }

    /// Long arguments at every place, in the request as it came or elsewhere: all that is asked of such a command is as it is of
    /// one whose arguments are in one piece.
    #[test]
    fn long_arguments_of_a_request_are_shared_and_make_the_same_command() {
        let long = vec![3; ENTRY_BYTES_SOFT + 1];
        let request = Bytes::from([&b"SETk"[..], &long, b"12", &long].concat());
        let (first, second) = (&request[4..4 + long.len()], &request[6 + long.len()..]);
        let (name, key, empty) = (&request[..3], &request[3..4], &request[..0]);
        for (args, shared) in [
            (vec![name, key, first], 1),
            (vec![name, first, key], 1),
            (vec![name, first, second], 2),
            (vec![name, first, second, empty], 2),
            (vec![name, empty, first, empty, second, key], 2),
            (vec![name, key, empty], 0),
            (vec![name, key, &long], 0),
        ] {
            let spec = table::lookup(b"SET").unwrap();
            let (one, parts) = (EncodedCommand::of(spec, &args), EncodedCommand::within(spec, &args, Some(&request)));
            let lengths: Vec<usize> = args.iter().map(|arg| arg.len()).collect();
            assert_eq!(parts.parts().filter(|part| request.as_ptr_range().contains(&part.as_ptr())).count(), shared);
            assert!(parts.args() == args && one.args() == args, "{lengths:?}");
            assert_eq!((parts.bytes(), parts.arguments()), (one.bytes(), one.arguments()), "{lengths:?}");
            let entry = |command: &EncodedCommand, is_large: bool| {
                let mut builder = EntryBuilder::new();
                if is_large {
                    builder.large_command(command)
                } else {
                    builder.encoded_command(command)
                }
                builder.seal(1)
            };
            for is_large in [false, true] {
                assert!(entry(&parts, is_large) == entry(&one, false), "{lengths:?}");
            }
            assert!(parts.clone().take().into_bytes() == one.into_bytes(), "{lengths:?}");
        }
    }
}
