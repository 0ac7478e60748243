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

/// What has the metadata group keep a script: words of KV.PROGRAM for each of its entries; none if nothing changes. The error
/// is the text of a reply.
pub fn keep_script(
    handle: &ShardHandle,
    source: &[u8],
    origin: ScriptOrigin,
    now_ms: u64,
) -> Result<Vec<Vec<Vec<u8>>>, String> {
    let name = name_of(sha1_hex(source).as_bytes());
    let mut scripts = all(handle)?;
    if let Some(known) = scripts.iter().find(|script| script.name == name)
        && (known.origin == origin || known.origin == ScriptOrigin::Loaded)
    {
        return Ok(Vec::new());
    }
    let loaded = scripts.iter().filter(|script| script.origin == ScriptOrigin::Loaded).count();
    if origin == ScriptOrigin::Loaded && loaded >= SCRIPTS_LOADED_MAX {
        return Err(format!("OOM the store knows {loaded} loaded scripts, which is the most: SCRIPT FLUSH"));
    }
    let mut row = vec![VERSION, u8::from(origin == ScriptOrigin::Loaded)];
    row.extend_from_slice(&now_ms.to_le_bytes());
    row.extend_from_slice(source);
    let mut bytes = row.len() + scripts.iter().map(|script| script.row.len()).sum::<usize>();
    scripts.retain(|script| script.origin == ScriptOrigin::Run && script.name != name);
    scripts.sort_by_key(|script| script.at_ms);
    let mut dropped = Vec::new();
    let mut left = scripts.len();
    for script in scripts {
        if bytes <= SCRIPTS_BYTES_MAX && left < SCRIPTS_RUN_MAX {
            break;
        }
        bytes -= script.row.len();
        left -= 1;
        dropped.push(script.name);
    }
    if bytes > SCRIPTS_BYTES_MAX {
        return Err(format!(
            "OOM the scripts of the store would take more than {SCRIPTS_BYTES_MAX} bytes: SCRIPT FLUSH"
        ));
    }
    let mut commands = vec![vec![b"PUT".to_vec(), name, row]];
    if !dropped.is_empty() {
        dropped.insert(0, b"DROP".to_vec());
        commands.push(dropped);
    }
    Ok(commands)
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
