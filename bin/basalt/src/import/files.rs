//! Files: RDB, AOF in one or several parts, commands, or lines of NDJSON.

use super::commands::Form;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 1 << 20;

/// What a file holds.
pub(super) enum Part {
    /// A copy of keys, and perhaps commands behind it.
    Copy,
    Commands,
    /// A key a line, in JSON.
    Lines,
}

/// A file that was opened.
pub(super) struct Opened {
    pub(super) name: String,
    pub(super) part: Part,
    /// What its commands stand in.
    pub(super) form: Form,
    pub(super) bytes: Option<u64>,
    pub(super) input: Box<dyn BufRead>,
}

/// The files that make up a source, in their order.
pub(super) fn paths(source: &str) -> Result<Vec<PathBuf>, String> {
    let path = Path::new(source);
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let named = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut manifests = Vec::new();
    for entry in path.read_dir().map_err(named)? {
        let entry = entry.map_err(named)?.path();
        manifests.extend(entry.extension().is_some_and(|ending| ending == "manifest").then_some(entry));
    }
    let [manifest] = manifests.as_slice() else {
        return Err(format!("{}: {} files end with .manifest; one is needed", path.display(), manifests.len()));
    };
    let text = std::fs::read_to_string(manifest).map_err(|e| format!("{}: {e}", manifest.display()))?;
    let parts = parts_of(&text).map_err(|e| format!("{}: {e}", manifest.display()))?;
    Ok(parts.into_iter().map(|name| path.join(name)).collect())
}

/// Whether files may have a history: keys that changed later, as in an AOF file. What comes by standard input may be one.
pub(super) fn have_history(paths: &[PathBuf]) -> Result<bool, String> {
    let [path] = paths else { return Ok(true) };
    if *path == *Path::new("-") {
        return Ok(true);
    }
    let file = open(path)?;
    Ok(match file.part {
        Part::Copy => !ends_with(path, "rdb"),
        Part::Commands => file.form == Form::Log,
        Part::Lines => false,
    })
}

fn ends_with(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|of| of.eq_ignore_ascii_case(ending))
}

/// The names of the files that a manifest lists: the base, then what was appended, by their numbers.
fn parts_of(manifest: &str) -> Result<Vec<String>, String> {
    let mut parts = Vec::new();
    for line in manifest.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |word: &str| words.iter().position(|w| *w == word).and_then(|at| words.get(at + 1)).copied();
        let (Some(name), Some(of), Some(number)) = (after("file"), after("type"), after("seq")) else {
            return Err(format!("\"{line}\" names no file, seq and type"));
        };
        if name.contains('/') {
            return Err(format!("\"{name}\" is not beside it"));
        }
        let number: u64 = number.parse().map_err(|_| format!("\"{number}\" is not a number"))?;
        match of {
            "b" => parts.push((0, 0, name.to_owned())),
            "i" => parts.push((1, number, name.to_owned())),
            // Left by a rewrite.
            _ => {}
        }
    }
    parts.sort();
    Ok(parts.into_iter().map(|(.., name)| name).collect())
}

/// Opens a file; `-` is standard input.
pub(super) fn open(path: &Path) -> Result<Opened, String> {
    let name = path.display().to_string();
    let named = |e: std::io::Error| format!("{name}: {e}");
    let (input, bytes): (Box<dyn Read>, _) = if path == Path::new("-") {
        (Box::new(std::io::stdin()), None)
    } else {
        let file = File::open(path).map_err(named)?;
        let bytes = file.metadata().map_err(named)?.len();
        (Box::new(file), Some(bytes))
    };
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    let head = input.fill_buf().map_err(named)?;
    let is_copy = head.starts_with(b"REDIS") || head.starts_with(b"VALKEY");
    let is_json = head.trim_ascii_start().starts_with(b"{");
    if !is_copy && ends_with(path, "rdb") {
        return Err(format!("{name}: it does not begin as an RDB file does: it is empty, damaged, or something else"));
    }
    let part = match (is_copy, is_json) {
        (true, _) => Part::Copy,
        (_, true) => Part::Lines,
        _ => Part::Commands,
    };
    // Both may begin alike: text that is named so may have words on lines behind its first command.
    let begins_as_log = head.starts_with(b"*") || head.starts_with(b"#");
    let is_log = is_copy || ends_with(path, "aof") || begins_as_log && !ends_with(path, "txt");
    let form = if is_log { Form::Log } else { Form::Text };
    Ok(Opened { name, part, form, bytes, input: Box::new(input) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_manifest_lists_its_files_in_order() {
        let text = "file a.2.incr.aof seq 2 type i\nfile a.1.base.rdb seq 1 type b\nfile a.10.incr.aof seq 10 type i\n\
                    file a.0.incr.aof seq 0 type h\n";
        assert_eq!(parts_of(text).unwrap(), ["a.1.base.rdb", "a.2.incr.aof", "a.10.incr.aof"]);
        for wrong in ["file a seq 1", "file ../a seq 1 type b", "file a seq x type i"] {
            assert!(parts_of(wrong).is_err(), "{wrong}");
        }
    }
}
