//! CONFIG REWRITE: the file that a node was started with gets the values that its settings have now.

use super::given::{Given, find};
use super::reading::{Syntax, read_file};
use super::{redis_conf, toml_file};
use crate::whole_file::WholeFile;
use std::fs;
use std::io::Write as _;
use std::path::Path;

/// Writes the values that differ from what the file says, or from the default where it says nothing. The file is replaced
/// as a whole, or stays as it was.
///
/// # Errors
///
/// If the file cannot be read as one of settings, or not be written; the text says why.
pub fn rewrite(path: &Path, values: &[(&'static str, String)]) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let settings = read_file(path)?;
    if let Some(error) = settings.errors.first() {
        return Err(error.to_string());
    }
    let changes = changes(&settings.given, values);
    if changes.is_empty() {
        return Ok(());
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    let text = match Syntax::of(path, &text) {
        Syntax::Toml => toml_file::rewrite(&text, &changes),
        Syntax::RedisConf => redis_conf::rewrite(&text, &changes),
    };
    replace(path, &text).map_err(failed)
}

/// What is to be written.
fn changes<'a>(given: &[Given], values: &'a [(&'static str, String)]) -> Vec<(&'a str, String)> {
    let differs = |(name, value): &&'a (&'static str, String)| {
        let Some(setting) = find(name) else { return false };
        let in_file = given.iter().rev().find(|one| one.setting().is_some_and(|other| other.name == *name));
        let was = setting.normal(in_file.map_or(setting.default, |one| &one.value));
        was.is_ok_and(|was| was != *value)
    };
    values.iter().filter(differs).map(|(name, value)| (*name, value.clone())).collect()
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let file = WholeFile::begin(path)?;
    file.file().write_all(text.as_bytes())?;
    file.file().set_permissions(fs::metadata(path)?.permissions())?;
    file.finish(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_what_differs_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("basalt.toml");
        fs::write(&path, "# ours\nmemory = \"1gb\"\nmaxmemory = \"100mb\"\n").unwrap();
        let values = |hz: &str| vec![("maxmemory", "104857600".to_owned()), ("hz", hz.to_owned())];
        rewrite(&path, &values("10")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "# ours\nmemory = \"1gb\"\nmaxmemory = \"100mb\"\n");
        rewrite(&path, &values("50")).unwrap();
        let expected = "# ours\nmemory = \"1gb\"\nmaxmemory = \"100mb\"\nhz = 50\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        fs::write(&path, "memory = 1 gb\n").unwrap();
        assert!(rewrite(&path, &values("60")).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "memory = 1 gb\n", "a file that is wrong stays");
    }
}
