//! What an entry under evaluation has written and not stored yet, and what it remembers of the rows that it has met.

use super::in_order::{InOrder, Row};
use crate::format::record::Record;
use crate::space::Patch;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};
use storage::{HashIndex, Slice, Span};
use vocab::limits::UNDO_FOLD_BYTES;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// So many rows are looked through one by one: most entries have no more.
const FEW: usize = 4;

/// One value for each tree key, found by hash, and put in order where a scan asks for that.
///
/// Rows stay in the order in which their keys first came. It depends on nothing but the entry, so an entry has the same effects
/// each time it is evaluated.
#[derive(Default)]
pub(super) struct Overlay {
    rows: Vec<Row>,
    /// The numbers of the rows, once they are more than `FEW`.
    index: HashIndex,
    /// The numbers of the first rows, by their keys: of as many as there were when a scan asked last.
    sorted: InOrder,
}

impl Overlay {
    /// What is written at a tree key.
    pub(super) fn get(&self, tree_key: &[u8]) -> Option<&Option<Slice>> {
        self.place_of(tree_key).map(|at| &self.rows[at].1)
    }

    /// Writes at a tree key; answers what was written there before.
    pub(super) fn put(&mut self, tree_key: &[u8], value: Option<Slice>) -> Option<Option<Slice>> {
        let number = self.rows.len();
        if number <= FEW {
            if let Some(at) = self.place_of(tree_key) {
                return Some(std::mem::replace(&mut self.rows[at].1, value));
            }
            self.rows.push((Slice::from(tree_key), value));
            if number == FEW {
                for (at, (key, _)) in self.rows.iter().enumerate() {
                    self.index.insert(hash(key), at as u32);
                }
            }
            return None;
        }
        let hash = hash(tree_key);
        if let Some(at) = self.indexed(hash, tree_key) {
            return Some(std::mem::replace(&mut self.rows[at].1, value));
        }
        self.rows.push((Slice::from(tree_key), value));
        self.index.insert(hash, number as u32);
        None
    }

    /// Takes back the first write at a tree key, which was the last one that brought a new key.
    pub(super) fn take_back(&mut self, tree_key: &[u8]) {
        self.sorted.take_out_last(&self.rows);
        let last = self.rows.pop().expect("what is taken back was written");
        assert!(last.0[..] == *tree_key, "writes are taken back in reverse order");
        let number = self.rows.len();
        if number > FEW {
            self.index.remove(hash(tree_key), number as u32);
        } else {
            self.index = HashIndex::default();
        }
    }

    /// The rows in the order in which their keys first came.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The same, to be kept.
    pub(super) fn into_rows(self) -> Vec<Row> {
        self.rows
    }

    /// The rows of a span, removals included, in the order of their keys.
    pub(super) fn within(&mut self, span: &Span) -> impl DoubleEndedIterator<Item = (&Slice, &Option<Slice>)> {
        self.sorted.take_in(&self.rows);
        let rows = &self.rows;
        let found = self.sorted.within(rows, &span.start, &span.end);
        found.map(|at| (&rows[at as usize].0, &rows[at as usize].1))
    }

    fn place_of(&self, tree_key: &[u8]) -> Option<usize> {
        if self.rows.len() <= FEW {
            return self.rows.iter().position(|(key, _)| key[..] == *tree_key);
        }
        self.indexed(hash(tree_key), tree_key)
    }

    /// Likewise, of more than `FEW`.
    fn indexed(&self, hash: u32, tree_key: &[u8]) -> Option<usize> {
        let found = self.index.find(hash, |at| self.rows[at as usize].0[..] == *tree_key);
        found.map(|at| at as usize)
    }
}

/// Clients cannot choose keys that meet.
fn hash(tree_key: &[u8]) -> u32 {
    static SEED: OnceLock<u64> = OnceLock::new();
    xxh3_64_with_seed(tree_key, *SEED.get_or_init(|| RandomState::new().hash_one(0))) as u32
}

/// Keys in the order in which they came first, each once. A script may name one a million times.
#[derive(Default)]
pub(super) struct KeysOnce {
    keys: Vec<Arc<[u8]>>,
    known: HashSet<Arc<[u8]>>,
}

impl KeysOnce {
    /// Adds a key, if it is none of them.
    pub(super) fn push(&mut self, key: &[u8]) {
        if !self.known.contains(key) {
            let key: Arc<[u8]> = key.into();
            self.known.insert(key.clone());
            self.keys.push(key);
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Those behind the first `len` did not come.
    pub(super) fn truncate(&mut self, len: usize) {
        for key in self.keys.drain(len.min(self.keys.len())..) {
            self.known.remove(&key);
        }
    }

    /// All of them, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|key| &key[..])
    }
}

/// Places, a power of two. A row takes the one that its key's hash says, whatever was there.
const PLACES: usize = 64;
/// The longest tree key that is kept, in bytes: nodes have short names, members mostly longer ones, which are read once.
const KEY_BYTES_MAX: usize = 20;

/// Rows of the tree that the items of an entry read one after the other: the nodes above the leaves of a large collection.
///
/// The tree does not change while an entry is evaluated, so what was read once holds to its end.
#[derive(Default)]
pub(super) struct NearRows {
    /// Tree keys and what the tree has there. Empty until it is used.
    places: Vec<Option<(Slice, Option<Slice>)>>,
    items: usize,
}

impl NearRows {
    /// The next item of the entry begins.
    pub(super) fn begin_item(&mut self) {
        self.items += 1;
    }

    /// Whether the row of a tree key is worth keeping: an entry of one item reads nothing again.
    pub(super) fn keeps(&self, tree_key: &[u8]) -> bool {
        self.items > 1 && tree_key.len() <= KEY_BYTES_MAX
    }

    /// What the tree has there, if it is known.
    pub(super) fn get(&self, tree_key: &[u8]) -> Option<Option<Slice>> {
        let (key, value) = self.places.get(near_place(tree_key))?.as_ref()?;
        (key[..] == *tree_key).then(|| value.clone())
    }

    /// The tree has that there.
    pub(super) fn keep(&mut self, tree_key: &[u8], value: Option<Slice>) {
        if self.places.is_empty() {
            self.places.resize_with(PLACES, || None);
        }
        self.places[near_place(tree_key)] = Some((Slice::from(tree_key), value));
    }
}

fn near_place(tree_key: &[u8]) -> usize {
    xxh3_64(tree_key) as usize % PLACES
}

/// What was written at a row before; `None`: nothing.
type Before = Option<Option<Slice>>;

/// What takes back the writes of an item: for each row that was written since it began, what was there before.
///
/// Only the first write at a row since the item began counts. A script may write one row a million times, so what was noted twice
/// is thrown away whenever that pays: what is held is at most about twice what is needed.
pub(super) struct UndoneRows {
    /// Tree keys, and what was there before, oldest first.
    rows: Vec<(Slice, Before)>,
    /// What they take, in bytes.
    held: usize,
    /// How much they may take before they are looked through.
    fold_at: usize,
    /// Bytes of what was there before each write, also of those that were thrown away.
    bytes_before: usize,
}

impl Default for UndoneRows {
    fn default() -> Self {
        Self { rows: Vec::new(), held: 0, fold_at: UNDO_FOLD_BYTES, bytes_before: 0 }
    }
}

fn length(before: &Before) -> usize {
    before.as_ref().and_then(Option::as_ref).map_or(0, |value| value.len())
}

fn held(tree_key: &Slice, before: &Before) -> usize {
    64 + tree_key.len() + length(before)
}

impl UndoneRows {
    /// A row is written.
    pub(super) fn push(&mut self, tree_key: &[u8], before: Before) {
        let tree_key = Slice::from(tree_key);
        self.bytes_before += length(&before);
        self.held += held(&tree_key, &before);
        self.rows.push((tree_key, before));
        if self.held > self.fold_at {
            self.fold();
        }
    }

    /// Throws away all but the first write at each row.
    fn fold(&mut self) {
        let mut known = HashSet::with_capacity(self.rows.len());
        self.rows.retain(|(tree_key, _)| known.insert(tree_key.clone()));
        self.held = self.rows.iter().map(|(tree_key, before)| held(tree_key, before)).sum();
        self.fold_at = (2 * self.held).max(UNDO_FOLD_BYTES);
    }

    /// Bytes of what was there before each write.
    pub(super) fn bytes_before(&self) -> usize {
        self.bytes_before
    }

    /// What is to be put back, in that order.
    pub(super) fn newest_first(self) -> impl Iterator<Item = (Slice, Before)> {
        self.rows.into_iter().rev()
    }
}

/// A record whose payload can be changed.
struct Edited {
    /// As it will be stored.
    bytes: EditedBytes,
    /// Where the payload begins.
    payload_at: usize,
    expire_at_ms: Option<u64>,
}

/// Most strings are changed once an entry, and are copied no more for it.
enum EditedBytes {
    /// As the first change has left it.
    Once(Slice),
    /// It was changed again.
    Again(Vec<u8>),
}

impl EditedBytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Once(bytes) => bytes,
            Self::Again(bytes) => bytes,
        }
    }

    fn as_vec(&mut self) -> &mut Vec<u8> {
        if let Self::Once(bytes) = self {
            *self = Self::Again(bytes.to_vec());
        }
        match self {
            Self::Again(bytes) => bytes,
            Self::Once(_) => unreachable!("it was made one that can be changed"),
        }
    }

    fn into_slice(self) -> Slice {
        match self {
            Self::Once(bytes) => bytes,
            Self::Again(bytes) => Slice::from(bytes),
        }
    }
}

/// Strings that the commands of an entry change in place, by their keys: a long one is copied once an entry, and not once a
/// command.
///
/// Invariant: a string that is here is newer than what the entry has written of its key.
#[derive(Default)]
pub(super) struct Edits {
    strings: BTreeMap<Vec<u8>, Edited>,
    /// How many bytes they have together.
    bytes: usize,
}

impl Edits {
    /// Begins to edit a string's record, which is already stamped.
    pub(super) fn begin(&mut self, key: &[u8], record: &Record) {
        let (bytes, view) = (EditedBytes::Once(record.bytes().clone()), record.view());
        let (payload_at, expire_at_ms) = (record.bytes().len() - view.payload.len(), view.expire_at_ms);
        self.bytes += record.bytes().len();
        self.strings.insert(key.to_vec(), Edited { bytes, payload_at, expire_at_ms });
    }

    /// How many bytes they have together.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The string at `key` and its expiry, if it is edited.
    pub(super) fn string(&self, key: &[u8]) -> Option<(&[u8], Option<u64>)> {
        if self.strings.is_empty() {
            return None;
        }
        self.strings.get(key).map(|edited| (&edited.bytes.as_slice()[edited.payload_at..], edited.expire_at_ms))
    }

    /// Changes the string at `key`, which is edited.
    pub(super) fn patch(&mut self, key: &[u8], patch: &Patch) {
        let Some(edited) = self.strings.get_mut(key) else { return };
        let (first, end) = (edited.payload_at + patch.offset, edited.payload_at + patch.end());
        let bytes = edited.bytes.as_vec();
        if bytes.len() < end {
            self.bytes += end - bytes.len();
            bytes.resize(end, 0);
        }
        bytes[first..end].copy_from_slice(&patch.bytes);
    }

    /// Ends the edit of `key`: what is to be stored.
    pub(super) fn end(&mut self, key: &[u8]) -> Option<Slice> {
        if self.strings.is_empty() {
            return None;
        }
        let edited = self.strings.remove(key)?;
        self.bytes -= edited.bytes.as_slice().len();
        Some(edited.bytes.into_slice())
    }

    /// Ends all edits: what is to be stored, by key.
    pub(super) fn end_all(&mut self) -> impl Iterator<Item = (Vec<u8>, Slice)> + use<> {
        self.bytes = 0;
        std::mem::take(&mut self.strings).into_iter().map(|(key, edited)| (key, edited.bytes.into_slice()))
    }

    /// Forgets all edits.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test_shard::empty_shard;
    use crate::{EntrySpace, Evaluation, Kind, ReadSpace, WriteSpace};
    use vocab::limits::EDIT_IN_PLACE_BYTES_MIN;
    use vocab::{Prng, ShardId};

    #[test]
    fn it_is_a_map_of_which_the_last_writes_can_be_taken_back() {
        for seed in 0..40 {
            let mut prng = Prng::new(seed);
            let (mut overlay, mut model) = (Overlay::default(), BTreeMap::<Vec<u8>, Option<Vec<u8>>>::new());
            let keys = 1 + prng.below(60);
            for _ in 0..30 {
                let mut undo = Vec::new();
                let before = model.clone();
                for _ in 0..prng.below(12) {
                    let key = prng.below(keys).to_be_bytes()[6..].to_vec();
                    let value = (prng.below(3) > 0).then(|| vec![prng.next_u64() as u8]);
                    let old = overlay.put(&key, value.clone().map(Slice::from));
                    assert_eq!(old.as_ref().map(|old| old.as_ref().map(|old| old.to_vec())), model.get(&key).cloned());
                    undo.push((key.clone(), old));
                    model.insert(key, value);
                }
                check(&mut overlay, &model, &mut prng);
                if prng.below(3) == 0 {
                    for (key, old) in undo.into_iter().rev() {
                        match old {
                            Some(old) => drop(overlay.put(&key, old)),
                            None => overlay.take_back(&key),
                        }
                    }
                    model = before;
                    check(&mut overlay, &model, &mut prng);
                }
            }
        }
    }

    fn check(overlay: &mut Overlay, model: &BTreeMap<Vec<u8>, Option<Vec<u8>>>, prng: &mut Prng) {
        assert_eq!(overlay.rows().len(), model.len());
        let plain = |value: &Option<Slice>| value.as_ref().map(|value| value.to_vec());
        for key in 0..61u64 {
            let key = &key.to_be_bytes()[6..];
            assert_eq!(overlay.get(key).map(plain), model.get(key).cloned());
        }
        let (a, b) = (prng.below(61).to_be_bytes()[6..].to_vec(), prng.below(61).to_be_bytes()[6..].to_vec());
        for span in [Span { start: a.clone(), end: b }, Span { start: a, end: Vec::new() }] {
            let is_within = |key: &[u8]| *key >= *span.start && (span.end.is_empty() || *key < *span.end);
            let expected: Vec<_> = model.iter().filter(|(key, _)| is_within(key)).collect();
            let found: Vec<_> = overlay.within(&span).map(|(key, value)| (key.to_vec(), plain(value))).collect();
            let reversed = overlay.within(&span).rev().count();
            assert_eq!(found.iter().map(|(key, value)| (key, value)).collect::<Vec<_>>(), expected);
            assert_eq!(reversed, expected.len());
        }
    }

    #[test]
    fn each_key_is_there_once_and_can_be_taken_back() {
        let mut keys = KeysOnce::default();
        [b"a", b"b", b"a"].iter().for_each(|key| keys.push(*key));
        assert_eq!(keys.iter().collect::<Vec<_>>(), [b"a", b"b"]);
        keys.truncate(1);
        [b"b", b"a", b"c"].iter().for_each(|key| keys.push(*key));
        assert_eq!(keys.iter().collect::<Vec<_>>(), [b"a", b"b", b"c"]);
        assert_eq!(keys.len(), 3);
    }

    #[test]
    fn what_is_kept_is_what_was_read_of_that_key() {
        let mut near = NearRows::default();
        let key = |n: u32| n.to_be_bytes();
        near.begin_item();
        assert!(!near.keeps(&key(1)), "an entry of one item");
        near.begin_item();
        assert!(near.keeps(&key(1)) && !near.keeps(&[0; KEY_BYTES_MAX + 1]));
        for n in 0..1000 {
            assert_eq!(near.get(&key(n)), None);
            let value = (n % 3 > 0).then(|| Slice::from(&key(n)[..]));
            near.keep(&key(n), value.clone());
            assert_eq!(near.get(&key(n)), Some(value));
        }
        let kept = (0..1000).filter(|n| near.get(&key(*n)).is_some()).count();
        assert!((PLACES / 2..=PLACES).contains(&kept), "{kept}");
    }

    #[test]
    fn the_first_write_at_each_row_is_kept_whatever_comes_behind() {
        let mut rows = UndoneRows::default();
        let value = |n: usize| Some(Some(Slice::from(&n.to_le_bytes()[..])));
        rows.push(b"a", None);
        rows.push(b"b", value(7));
        let long = vec![b'k'; 32_000];
        rows.push(&long, None);
        (0..10_000).for_each(|n| rows.push(&long, value(n)));
        assert!(rows.held < 2 * UNDO_FOLD_BYTES, "{} bytes", rows.held);
        assert_eq!(rows.bytes_before(), 8 + 10_000 * 8);
        rows.fold();
        let left: Vec<_> = rows.newest_first().collect();
        let expected =
            [(Slice::from(&long[..]), None), (Slice::from(&b"b"[..]), value(7)), (Slice::from(&b"a"[..]), None)];
        assert_eq!(left, expected);
    }

    type Model = BTreeMap<String, (Vec<u8>, Option<u64>)>;

    fn check_edited(space: &mut EntrySpace<'_>, model: &Model, key: &str) {
        let found = space.get(key.as_bytes()).unwrap();
        let found = found.as_ref().map(|record| (record.view().payload.to_vec(), record.view().expire_at_ms));
        assert!(found.as_ref() == model.get(key), "{key}");
    }

    /// One write, made of both.
    fn step(space: &mut EntrySpace<'_>, model: &mut Model, prng: &mut Prng) {
        let key = ["a", "b", "c"][prng.below(3) as usize];
        match prng.below(8) {
            0 => check_edited(space, model, key),
            1 => assert_eq!(space.delete(key.as_bytes()).unwrap(), model.remove(key).is_some()),
            2 => {
                let expiry = (prng.below(2) == 0).then_some(9_000);
                let value = vec![1; prng.below(2 * EDIT_IN_PLACE_BYTES_MIN as u64) as usize];
                space.put(key.as_bytes(), Record::new(Kind::STRING, expiry, &[&value])).unwrap();
                model.insert(key.to_owned(), (value, expiry));
            }
            _ => {
                let offset = prng.below(3 * EDIT_IN_PLACE_BYTES_MIN as u64 / 2) as usize;
                let patch = Patch { offset, bytes: vec![prng.next_u64() as u8; prng.below(100) as usize] };
                let before = model.get(key).map(|(value, _)| value.clone());
                space
                    .edit(key.as_bytes(), &mut |view| {
                        assert!(view.map(|view| view.payload.to_vec()) == before, "an edit sees the newest");
                        Some(patch.clone())
                    })
                    .unwrap();
                let (value, _) = model.entry(key.to_owned()).or_default();
                *value = patch.applied_to(value);
            }
        }
    }

    #[test]
    fn strings_that_are_edited_in_place_are_as_if_each_edit_wrote_them() {
        let (handle, _folder) = empty_shard(ShardId(1));
        let (mut prng, mut model) = (Prng::new(7), Model::new());
        for index in 1..200 {
            let mut space = EntrySpace::new(&handle, index, 1_000, Evaluation::Second);
            for _ in 0..prng.below(4) {
                let (attempts, keeps) = (prng.below(2) == 0, prng.below(2) == 0);
                let before = model.clone();
                if attempts {
                    space.begin_attempt();
                }
                (0..prng.below(10)).for_each(|_| step(&mut space, &mut model, &mut prng));
                if attempts {
                    space.end_attempt(keeps);
                    model = if keeps { model } else { before };
                }
            }
            space.commit();
            let mut space = EntrySpace::new(&handle, index + 1, 1_000, Evaluation::Second);
            ["a", "b", "c"].iter().for_each(|key| check_edited(&mut space, &model, key));
            assert_eq!((handle.key_count(), handle.expiring()), {
                (model.len() as u64, model.values().filter(|(_, expiry)| expiry.is_some()).count() as u64)
            });
        }
    }
}
