//! Strings that the commands of an entry change in place: a long one is copied once an entry, and not once a command.
//!
//! Invariant: a string that is here is newer than what the entry has written of its key.

use crate::format::record::Record;
use crate::space::Patch;
use std::collections::BTreeMap;
use storage::Slice;

/// A record whose payload can be changed.
struct Edited {
    /// As it will be stored.
    bytes: Vec<u8>,
    /// Where the payload begins.
    payload_at: usize,
    expire_at_ms: Option<u64>,
}

/// By their keys.
#[derive(Default)]
pub(super) struct Edits {
    strings: BTreeMap<Vec<u8>, Edited>,
    /// How many bytes they have together.
    bytes: usize,
}

impl Edits {
    /// Begins to edit a string's record, which is already stamped.
    pub(super) fn begin(&mut self, key: &[u8], record: &Record) {
        let bytes = record.bytes().to_vec();
        let view = record.view();
        let (payload_at, expire_at_ms) = (bytes.len() - view.payload.len(), view.expire_at_ms);
        self.bytes += bytes.len();
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
        self.strings.get(key).map(|edited| (&edited.bytes[edited.payload_at..], edited.expire_at_ms))
    }

    /// Changes the string at `key`, which is edited.
    pub(super) fn patch(&mut self, key: &[u8], patch: &Patch) {
        let Some(edited) = self.strings.get_mut(key) else { return };
        let (first, end) = (edited.payload_at + patch.offset, edited.payload_at + patch.end());
        if edited.bytes.len() < end {
            self.bytes += end - edited.bytes.len();
            edited.bytes.resize(end, 0);
        }
        edited.bytes[first..end].copy_from_slice(&patch.bytes);
    }

    /// Ends the edit of `key`: what is to be stored.
    pub(super) fn end(&mut self, key: &[u8]) -> Option<Slice> {
        if self.strings.is_empty() {
            return None;
        }
        let edited = self.strings.remove(key)?;
        self.bytes -= edited.bytes.len();
        Some(Slice::from(edited.bytes))
    }

    /// Ends all edits: what is to be stored, by key.
    pub(super) fn end_all(&mut self) -> impl Iterator<Item = (Vec<u8>, Slice)> + use<> {
        self.bytes = 0;
        std::mem::take(&mut self.strings).into_iter().map(|(key, edited)| (key, Slice::from(edited.bytes)))
    }

    /// Forgets all edits.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::space::Patch;
    use crate::test_shard::empty_shard;
    use crate::{EntrySpace, Evaluation, Kind, ReadSpace, Record, WriteSpace};
    use std::collections::BTreeMap;
    use vocab::limits::EDIT_IN_PLACE_BYTES_MIN;
    use vocab::{Prng, ShardId};

    type Model = BTreeMap<String, (Vec<u8>, Option<u64>)>;

    fn check(space: &mut EntrySpace<'_>, model: &Model, key: &str) {
        let found = space.get(key.as_bytes()).unwrap();
        let found = found.as_ref().map(|record| (record.view().payload.to_vec(), record.view().expire_at_ms));
        assert!(found.as_ref() == model.get(key), "{key}");
    }

    /// One write, made of both.
    fn step(space: &mut EntrySpace<'_>, model: &mut Model, prng: &mut Prng) {
        let key = ["a", "b", "c"][prng.below(3) as usize];
        match prng.below(8) {
            0 => check(space, model, key),
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
            ["a", "b", "c"].iter().for_each(|key| check(&mut space, &model, key));
            assert_eq!((handle.key_count(), handle.expiring()), {
                (model.len() as u64, model.values().filter(|(_, expiry)| expiry.is_some()).count() as u64)
            });
        }
    }
}
