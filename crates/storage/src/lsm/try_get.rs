//! Look-ups that do not wait: what is not in memory is told, so that one thread waits for the disk for many at once.

use super::block::Rows;
use super::lookup::{BlockAt, Lookup, Stop};
use super::memtable::NEWEST;
use super::table::Blocks;
use super::view::View;
use crate::block_read::{BlockRead, HeldBlock, Look, Sought, Wanted};
use crate::direct::FileKey;
use crate::envelope::{unpack, unpacked_bytes};
use lsm_tree::{AbstractTree, InternalValue, Table, ValueType};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// A larger block is not read ahead of a `get`, in bytes.
const BLOCK_BYTES_MAX: u32 = 1024 * 1024;
/// Nor a larger value: a reader has hundreds under way, and memory has a bound.
const VALUE_BYTES_MAX: usize = 64 * 1024;

/// A value that is longer once it is unpacked is left to `get`: unpacking it would keep an event loop.
const UNPACKED_BYTES_MAX: usize = 1024 * 1024;

/// Looks keys up in a view without waiting.
pub(super) struct TryGet<'a>(pub(super) &'a View);

impl TryGet<'_> {
    /// The value of `key` as of `index`. As with `get`, the newest version is the one that is wanted.
    pub(super) fn look(&self, key: &[u8], index: u64, held: &[HeldBlock]) -> Look {
        let view = self.0;
        if let Some(entry) = view.unflushed(key, index) {
            return self.look_at(&entry, held);
        }
        if view.dropped.covers(key) {
            return Look::Found(None);
        }
        let mut first = 0;
        if let Some((block, run)) = held.iter().rev().find_map(|held| held.rows_for(key, view.number)) {
            match Rows::new(block.data.clone()).and_then(|mut rows| rows.get(key)) {
                Ok(Some(entry)) => return self.look_at(&entry, held),
                Ok(None) => first = run + 1,
                Err(_) => return Look::Unknown,
            }
        }
        let (hash, tree) = (xxh3_64(key), view.generation.index().id());
        for (run, table, blocks) in view.tables_for(key, first) {
            let place = (tree, table.id());
            match (Lookup { table, blocks, place, held }).find(key, hash) {
                Ok(None) => {}
                Ok(Some(entry)) => return self.look_at(&entry, held),
                Err(Stop::Missing(at)) if at.handle.size() <= BLOCK_BYTES_MAX => {
                    let (offset, bytes) = (*at.handle.offset(), at.handle.size() as usize);
                    let (BlockAt { kind, compression, .. }, closing) = (at, blocks.closing.clone());
                    let sought = Sought { key: key.into(), view: view.number, run };
                    let wanted = Wanted::Block { table: table.clone(), kind, compression, closing, sought };
                    return Look::Missing(self.to_read(FileKey::Table(place), offset, bytes, wanted));
                }
                Err(Stop::Missing(_) | Stop::Malformed) => return Look::Unknown,
            }
        }
        Look::Found(None)
    }

    /// Whether something of `key`, a removal perhaps, may lie below the newest memtable, as far as memory tells.
    pub(super) fn may_lie_below(&self, key: &[u8]) -> bool {
        let (view, hash) = (self.0, xxh3_64(key));
        let is_sealed = || view.sealed.iter().any(|sealed| sealed.memtable.get(key, NEWEST).is_some());
        let place = |table: &Table| (view.generation.index().id(), table.id());
        let may_have = |(_, table, blocks): (usize, &Table, &Arc<Blocks>)| {
            let lookup = Lookup { table, blocks, place: place(table), held: &[] };
            !matches!(lookup.may_have(key, hash), Ok(false))
        };
        is_sealed() || view.tables_for(key, 0).any(may_have)
    }

    /// The value that an entry stands for.
    fn look_at(&self, entry: &InternalValue, held: &[HeldBlock]) -> Look {
        // What makes no sense is left to `get`, which says where it is.
        if entry.key.value_type != ValueType::Indirection {
            if unpacked_bytes(&entry.value) > UNPACKED_BYTES_MAX {
                return Look::Unknown;
            }
            return self.0.value_of(entry).map_or(Look::Unknown, Look::Found);
        }
        let Ok((handle, values)) = self.0.place_of(entry) else { return Look::Unknown };
        let (key, file) = (&entry.key.user_key, FileKey::Values((self.0.generation.index().id(), handle.file)));
        if let Some(stored) = held.iter().find_map(|held| held.value_at(file, handle.offset)) {
            if unpacked_bytes(stored) > UNPACKED_BYTES_MAX {
                return Look::Unknown;
            }
            return unpack(stored.clone()).map_or(Look::Unknown, |value| Look::Found(Some(value)));
        }
        if handle.record_bytes(key) > VALUE_BYTES_MAX {
            return Look::Unknown;
        }
        let (key, bytes) = (key.clone(), handle.record_bytes(key));
        let wanted = Wanted::Value { key, values: values.file.clone(), closing: values.closing.clone() };
        Look::Missing(self.to_read(file, handle.offset, bytes, wanted))
    }

    fn to_read(&self, file: FileKey, offset: u64, bytes: usize, wanted: Wanted) -> BlockRead {
        let (descriptors, direct) = (self.0.generation.descriptors.clone(), self.0.generation.direct.clone());
        BlockRead { file, offset, bytes, wanted, descriptors, direct }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::required::{URING, required};
    use crate::{Engine, LsmEngine, SharedResources, Slice, StorageOptions, WriteBatch};
    use std::os::unix::fs::FileExt;
    use vocab::Prng;

    const ENTRIES: u64 = 12;
    const ROWS: u64 = 500;

    /// Names of keys, in order.
    type Keys = fn(u64) -> String;

    fn short(i: u64) -> String {
        format!("key{i:08}")
    }

    /// They have much in common, all of them; and they are so long that an index has several parts.
    fn long(i: u64) -> String {
        format!("{:p<500}{i:08}", "")
    }

    /// They have much in common with their neighbours alone.
    fn grouped(i: u64) -> String {
        format!("{:05}{:g<500}{:02}", i / 20, "", i % 20)
    }

    fn value(key: Keys, i: u64) -> Vec<u8> {
        // Some are kept out of the levels, those that are long and do not shrink; few are too long to be held.
        let mut prng = Prng::new(i);
        let rest = if i % 500 == 49 {
            VALUE_BYTES_MAX
        } else if i % 50 == 49 {
            5_000
        } else {
            500
        };
        key(i).into_bytes().into_iter().chain((0..rest).map(|_| prng.next_u64() as u8)).collect()
    }

    /// Each entry writes every twelfth key; the last ones stay in the first level and in memory.
    fn filled(folder: &std::path::Path, key: Keys) -> LsmEngine {
        let options = StorageOptions { table_bytes: 64 << 10, block_cache_bytes: 64 << 20, ..Default::default() };
        let engine = LsmEngine::open(folder, &SharedResources::new(options)).unwrap();
        for entry in 1..=ENTRIES {
            let rows = (0..ROWS).map(|row| row * ENTRIES + entry);
            let writes = rows.map(|i| (Slice::from(key(i).as_bytes()), Some(value(key, i).into()))).collect();
            engine.apply(entry, WriteBatch { writes, ..WriteBatch::default() });
            if entry < ENTRIES {
                engine.seal(Vec::new());
                engine.flush().unwrap();
            }
            while entry < ENTRIES - 1 && engine.compact().unwrap() {}
        }
        let in_parts = |table: &Table| table.regions.index.is_some() && table.regions.filter_tli.is_some();
        assert!(engine.view.load().tables().any(in_parts), "an index and a filter are in parts: {:?}", engine.stats());
        engine
    }

    /// Reads a block in one of the two ways.
    fn fetch(block: &BlockRead, directly: bool) -> Option<HeldBlock> {
        let direct = if directly { block.direct() } else { None };
        let extent = direct.unwrap_or_else(|| block.cached().unwrap());
        let Some(mut ring) = required(URING, crate::Ring::new(1)) else { return read_plainly(block) };
        ring.read(&extent.file, extent.offset, extent.bytes, ());
        ring.wait().unwrap();
        match ring.take().unwrap().1 {
            Ok(bytes) => Some(block.accept(extent.offset, &bytes).unwrap()),
            Err(error) => {
                assert!(extent.grain > 1 && error.kind() == std::io::ErrorKind::InvalidInput, "{error}");
                block.refused(&extent);
                None
            }
        }
    }

    /// Where the kernel has no rings.
    fn read_plainly(block: &BlockRead) -> Option<HeldBlock> {
        let extent = block.cached().unwrap();
        let mut bytes = vec![0; extent.bytes];
        extent.file.read_exact_at(&mut bytes, extent.offset).unwrap();
        block.accept(extent.offset, &bytes)
    }

    #[test]
    fn with_what_it_wants_held_a_look_finds_what_a_get_does() {
        for key in [short as Keys, long, grouped] {
            let folder = tempfile::tempdir().unwrap();
            let engine = filled(folder.path(), key);
            let snapshot = engine.snapshot();
            let (mut fetched, mut unknown) = (0, 0);
            for i in 1..(ROWS + 2) * ENTRIES {
                let (name, mut held) = (key(i), Vec::new());
                let found = loop {
                    // The engine and its snapshot say the same.
                    let key = name.as_bytes();
                    let look = if i % 2 == 0 { engine.look(key, &held) } else { snapshot.look(key, &held) };
                    match look {
                        Look::Missing(block) => held.extend(fetch(&block, fetched % 3 > 0)),
                        Look::Found(found) => break found,
                        Look::Unknown => {
                            assert_eq!(i % 500, 49, "{i}: its value is not too long");
                            unknown += 1;
                            break engine.get(key).unwrap();
                        }
                    }
                    fetched += 1;
                };
                assert_eq!(found.as_deref(), (i <= ROWS * ENTRIES).then(|| value(key, i)).as_deref(), "{i}");
            }
            assert!(
                fetched > ROWS * ENTRIES / 2 && unknown >= ROWS * ENTRIES / 500,
                "{fetched} blocks, {unknown} long values"
            );
            let is_absent = |i: &u64| matches!(engine.look(format!("{}x", key(*i)).as_bytes(), &[]), Look::Found(None));
            let absent = (0..ROWS).filter(is_absent).count();
            assert!(absent as u64 > ROWS * 9 / 10, "the filters know {absent} of {ROWS} absent keys");
        }
    }

    #[test]
    fn a_look_that_goes_on_in_another_view_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let engine = filled(folder.path(), short);
        let (name, mut held) = (short(1), Vec::new());
        let mut find = || loop {
            match engine.look(name.as_bytes(), &held) {
                Look::Missing(block) => held.extend(fetch(&block, false)),
                Look::Found(found) => break found,
                Look::Unknown => panic!("it is short"),
            }
        };
        assert_eq!(find().as_deref(), Some(&value(short, 1)[..]));
        // A newer value, in a newer table.
        engine.apply(
            ENTRIES + 1,
            WriteBatch { writes: vec![(name.as_bytes().into(), Some("new".into()))], ..WriteBatch::default() },
        );
        engine.seal(Vec::new());
        engine.flush().unwrap();
        assert_eq!(find().as_deref(), Some(&b"new"[..]));
    }

    #[test]
    fn what_is_asked_for_ahead_leaves_only_the_row_to_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let engine = filled(folder.path(), short);
        let missing = |key: &str| match engine.look(key.as_bytes(), &[]) {
            Look::Missing(block) => block,
            _ => panic!("all rows are on disk"),
        };
        assert!(!missing(&short(1)).has_rows(), "an index is in memory");
        engine.prefetch(short(1).as_bytes());
        assert!(missing(&short(1)).has_rows(), "an index is missing");
    }

    #[test]
    fn a_block_that_is_not_whole_or_not_itself_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let engine = filled(folder.path(), short);
        let Look::Missing(block) = engine.look(short(1).as_bytes(), &[]) else { panic!("all blocks are on disk") };
        let extent = block.cached().unwrap();
        let mut bytes = vec![0; extent.bytes];
        extent.file.read_exact_at(&mut bytes, extent.offset).unwrap();
        assert!(block.accept(extent.offset, &bytes[..extent.bytes - 1]).is_none());
        bytes[extent.bytes / 2] ^= 1;
        assert!(block.accept(extent.offset, &bytes).is_none());
        bytes[extent.bytes / 2] ^= 1;
        assert!(block.accept(extent.offset, &bytes).is_some());
    }
}
