//! The scripts that the store knows: rows of the metadata group.
//!
//! ```text
//! name: f; row: the libraries of functions: varint count, each varint length and its source
//! name: s and the SHA1; row: u8 version (1), u8 why (0 it was run, 1 it was loaded), u64 little-endian ms, the source
//! ```

use super::natives::sha1_hex;
use crate::format::keys;
use crate::shard_handle::ShardHandle;
use storage::{Slice, Span};
use vocab::limits::{SCRIPTS_BYTES_MAX, SCRIPTS_LOADED_MAX, SCRIPTS_RUN_MAX};

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 10;
/// The first byte of a script's name among programs.
const SCRIPT: u8 = b's';

/// The name of the row that holds all libraries of functions.
pub const LIBRARIES_NAME: &[u8] = b"f";

/// All libraries of functions in the metadata group's tree, encoded; nothing if there are none.
pub fn stored_libraries(handle: &ShardHandle) -> Result<Vec<u8>, String> {
    let row = handle.engine().snapshot().get(&keys::program(LIBRARIES_NAME)).map_err(|e| e.to_string())?;
    Ok(row.map_or_else(Vec::new, |row| row.to_vec()))
}

/// Why the store knows a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptOrigin {
    /// It was run: forgotten when many others were run after it.
    Run,
    /// A client has loaded it.
    Loaded,
}

/// A script as the metadata group keeps it.
#[derive(Debug)]
struct StoredScript {
    name: Vec<u8>,
    origin: ScriptOrigin,
    at_ms: u64,
    row: Slice,
}

/// The name of a script's row.
fn name_of(sha: &[u8]) -> Vec<u8> {
    let mut name = vec![SCRIPT];
    name.extend(sha.iter().map(u8::to_ascii_lowercase));
    name
}

/// The source of a script in the metadata group's tree, by its SHA1.
pub fn stored_script(handle: &ShardHandle, sha: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let row = handle.engine().snapshot().get(&keys::program(&name_of(sha))).map_err(|e| e.to_string())?;
    Ok(row.and_then(|row| row.get(HEAD_BYTES..).map(<[u8]>::to_vec)))
}

/// The names of all stored scripts.
pub fn stored_script_names(handle: &ShardHandle) -> Result<Vec<Vec<u8>>, String> {
    Ok(all(handle)?.into_iter().map(|script| script.name).collect())
}

/// The sources of all stored scripts.
pub fn stored_script_sources(handle: &ShardHandle) -> Result<Vec<Vec<u8>>, String> {
    Ok(all(handle)?.into_iter().filter_map(|script| script.row.get(HEAD_BYTES..).map(<[u8]>::to_vec)).collect())
}

/// About what the store keeps of scripts, on the node that leads the metadata group, so that a new script does not cost a look at all others.
///
/// Invariant: while that node leads in `term`, no figure is less than what is kept, but for what other threads were about to write when all were
/// counted.
#[derive(Debug, Default)]
pub struct ScriptTally {
    /// The term in which all were counted.
    term: Option<u64>,
    /// Nothing was added since they were counted.
    is_exact: bool,
    run: usize,
    loaded: usize,
    /// Of all rows.
    bytes: usize,
}

impl ScriptTally {
    /// Scripts are removed: they are counted anew.
    pub fn reset(&mut self) {
        self.term = None;
    }

    fn count(&mut self, term: u64, scripts: &[StoredScript]) {
        self.run = scripts.iter().filter(|script| script.origin == ScriptOrigin::Run).count();
        self.loaded = scripts.len() - self.run;
        self.bytes = scripts.iter().map(|script| script.row.len()).sum();
        (self.term, self.is_exact) = (Some(term), true);
    }

    fn add(&mut self, origin: ScriptOrigin, bytes: usize) {
        match origin {
            ScriptOrigin::Run => self.run += 1,
            ScriptOrigin::Loaded => self.loaded += 1,
        }
        self.bytes += bytes;
        self.is_exact = false;
    }

    /// Whether there is room for one more without forgetting any.
    fn has_room(&self, origin: ScriptOrigin, bytes: usize) -> bool {
        let is_few = match origin {
            ScriptOrigin::Run => self.run < SCRIPTS_RUN_MAX,
            ScriptOrigin::Loaded => self.loaded < SCRIPTS_LOADED_MAX,
        };
        is_few && self.bytes + bytes <= SCRIPTS_BYTES_MAX
    }
}

/// What has the metadata group keep a script: words of KV.PROGRAM for each of its entries; none if nothing changes. The error
/// is the text of a reply.
pub fn keep_script(
    handle: &ShardHandle,
    tally: &mut ScriptTally,
    source: &[u8],
    origin: ScriptOrigin,
    now_ms: u64,
) -> Result<Vec<Vec<Vec<u8>>>, String> {
    let name = name_of(sha1_hex(source).as_bytes());
    let key = keys::program(&name);
    let known = handle.engine().snapshot().get(&key).map_err(|e| e.to_string())?;
    if let Some(known) = known.and_then(|row| parse(&key, row))
        && (known.origin == origin || known.origin == ScriptOrigin::Loaded)
    {
        return Ok(Vec::new());
    }
    let mut row = vec![VERSION, u8::from(origin == ScriptOrigin::Loaded)];
    row.extend_from_slice(&now_ms.to_le_bytes());
    row.extend_from_slice(source);
    let term = handle.status().term;
    let is_counted = tally.term == Some(term);
    let mut dropped = Vec::new();
    if !is_counted || !tally.has_room(origin, row.len()) {
        if is_counted && tally.is_exact && origin == ScriptOrigin::Loaded && tally.loaded >= SCRIPTS_LOADED_MAX {
            return Err(too_many_loaded(tally.loaded));
        }
        let mut scripts = all(handle)?;
        scripts.retain(|script| script.name != name);
        tally.count(term, &scripts);
        if origin == ScriptOrigin::Loaded && tally.loaded >= SCRIPTS_LOADED_MAX {
            return Err(too_many_loaded(tally.loaded));
        }
        dropped = drop_oldest(tally, scripts, row.len());
        if tally.bytes + row.len() > SCRIPTS_BYTES_MAX {
            // What would have been dropped is kept.
            tally.reset();
            return Err(format!(
                "OOM the scripts of the store would take more than {SCRIPTS_BYTES_MAX} bytes: SCRIPT FLUSH"
            ));
        }
    }
    tally.add(origin, row.len());
    let mut commands = vec![vec![b"PUT".to_vec(), name, row]];
    if !dropped.is_empty() {
        dropped.insert(0, b"DROP".to_vec());
        commands.push(dropped);
    }
    Ok(commands)
}

fn too_many_loaded(loaded: usize) -> String {
    format!("OOM the store knows {loaded} loaded scripts, which is the most: SCRIPT FLUSH")
}

/// If there are too many for one more of so many bytes, the oldest of those that were run are forgotten: some at once, since to find them all are
/// looked at. Answers their names.
fn drop_oldest(tally: &mut ScriptTally, mut scripts: Vec<StoredScript>, more: usize) -> Vec<Vec<u8>> {
    if tally.run < SCRIPTS_RUN_MAX && tally.bytes + more <= SCRIPTS_BYTES_MAX {
        return Vec::new();
    }
    scripts.retain(|script| script.origin == ScriptOrigin::Run);
    scripts.sort_by_key(|script| script.at_ms);
    let run_bytes = scripts.iter().map(|script| script.row.len()).sum::<usize>();
    let (most, most_bytes) = (SCRIPTS_RUN_MAX * 7 / 8, SCRIPTS_BYTES_MAX - run_bytes / 8);
    let mut dropped = Vec::new();
    for script in scripts {
        if tally.bytes + more <= most_bytes && tally.run < most {
            break;
        }
        tally.bytes -= script.row.len();
        tally.run -= 1;
        dropped.push(script.name);
    }
    dropped
}

fn all(handle: &ShardHandle) -> Result<Vec<StoredScript>, String> {
    let span = Span { start: keys::program(&[SCRIPT]), end: keys::program(&[SCRIPT + 1]) };
    let snapshot = handle.engine().snapshot();
    let rows = snapshot.iter(span, false).map(|row| row.map_err(|e| e.to_string()));
    rows.map(|row| row.map(|(key, row)| parse(&key, row))).filter_map(Result::transpose).collect()
}

fn parse(key: &[u8], row: Slice) -> Option<StoredScript> {
    let name = keys::name_of_program(key)?.to_vec();
    let (version, why) = (*row.first()?, *row.get(1)?);
    let at_ms = u64::from_le_bytes(row.get(2..HEAD_BYTES)?.try_into().ok()?);
    let origin = if why == 0 { ScriptOrigin::Run } else { ScriptOrigin::Loaded };
    (version == VERSION).then_some(StoredScript { name, origin, at_ms, row })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test_shard::empty_shard;
    use std::sync::Arc;
    use storage::WriteBatch;
    use vocab::ShardId;

    struct Test {
        handle: Arc<ShardHandle>,
        tally: ScriptTally,
        index: u64,
        _folder: tempfile::TempDir,
    }

    impl Test {
        fn new() -> Self {
            let (handle, _folder) = empty_shard(ShardId::META);
            Self { handle, tally: ScriptTally::default(), index: 0, _folder }
        }

        /// Has the group keep a script; answers how many others it drops for that, or none if nothing changes.
        fn keep(&mut self, source: &str, origin: ScriptOrigin) -> Option<usize> {
            let at_ms = self.index;
            let commands = keep_script(&self.handle, &mut self.tally, source.as_bytes(), origin, at_ms).unwrap();
            let is_kept = !commands.is_empty();
            let mut writes = Vec::new();
            for words in commands {
                match &words[..] {
                    [put, name, row] if put == b"PUT" => {
                        writes.push((Slice::from(keys::program(name)), Some(Slice::from(&row[..]))));
                    }
                    [_, names @ ..] => {
                        writes.extend(names.iter().map(|name| (Slice::from(keys::program(name)), None)));
                    }
                    [] => {}
                }
            }
            let dropped = writes.iter().filter(|(_, row)| row.is_none()).count();
            self.index += 1;
            self.handle.begin_write(self.index);
            self.handle.engine().apply(self.index, WriteBatch { writes, ..WriteBatch::default() });
            is_kept.then_some(dropped)
        }

        fn stored(&self) -> usize {
            stored_script_names(&self.handle).unwrap().len()
        }
    }

    #[test]
    fn the_oldest_that_were_run_are_forgotten_some_at_once() {
        let mut test = Test::new();
        assert_eq!(test.keep("return 'loaded'", ScriptOrigin::Loaded), Some(0));
        let mut drops = Vec::new();
        for n in 0..3 * SCRIPTS_RUN_MAX {
            let dropped = test.keep(&format!("return {n}"), ScriptOrigin::Run).unwrap();
            drops.extend(Some(dropped).filter(|dropped| *dropped > 0));
            assert!(test.stored() <= SCRIPTS_RUN_MAX + 1);
        }
        let some = SCRIPTS_RUN_MAX - (SCRIPTS_RUN_MAX * 7 / 8 - 1);
        assert_eq!(drops, vec![some; (2 * SCRIPTS_RUN_MAX).div_ceil(some)]);
        let is_known = |test: &Test, source: &str| {
            stored_script(&test.handle, sha1_hex(source.as_bytes()).as_bytes()).unwrap().is_some()
        };
        assert!(is_known(&test, "return 'loaded'") && is_known(&test, &format!("return {}", 3 * SCRIPTS_RUN_MAX - 1)));
        assert!(!is_known(&test, "return 0"));
    }

    #[test]
    fn what_is_known_is_kept_once_and_what_is_loaded_stays_so() {
        let mut test = Test::new();
        for (origin, kept) in [
            (ScriptOrigin::Run, Some(0)),
            (ScriptOrigin::Run, None),
            (ScriptOrigin::Loaded, Some(0)),
            (ScriptOrigin::Run, None),
            (ScriptOrigin::Loaded, None),
        ] {
            assert_eq!(test.keep("return 1", origin), kept, "{origin:?}");
        }
        assert_eq!(test.stored(), 1);
        // Another node has led meanwhile: what it kept is counted.
        (0..SCRIPTS_RUN_MAX).for_each(|n| _ = test.keep(&format!("return {n}+1"), ScriptOrigin::Run));
        test.tally = ScriptTally::default();
        assert!(test.keep("return 2", ScriptOrigin::Run).unwrap() > 0);
        test.tally.reset();
        assert_eq!(test.keep("return 3", ScriptOrigin::Run), Some(0));
    }
}
