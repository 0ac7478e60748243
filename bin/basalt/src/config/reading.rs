//! Reads a configuration file: TOML of Basalt's own, or a `redis.conf`.

use super::file::{FileSettings, Note};
use super::given::Origin;
use super::{redis_conf, toml_file};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The longest file that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// `name = value`.
    Toml,
    /// `name value`, as Redis has it.
    RedisConf,
}

impl Syntax {
    /// By the name's end, else by the first line that says something.
    pub fn of(path: &Path, text: &str) -> Self {
        match path.extension().and_then(|end| end.to_str()) {
            Some("toml") => Self::Toml,
            Some("conf") => Self::RedisConf,
            _ => {
                let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
                let is_pair = |line: &str| line.split_once('=').is_some_and(|(name, _)| !name.trim().contains(' '));
                if lines.next().is_none_or(is_pair) { Self::Toml } else { Self::RedisConf }
            }
        }
    }
}

/// Reads a file.
///
/// # Errors
///
/// If the file cannot be read. What is wrong inside it is in `errors`.
pub fn read_file(path: &Path) -> Result<FileSettings, String> {
    let text = read(path)?;
    let shared: Arc<Path> = Arc::from(path);
    let mut settings = match Syntax::of(path, &text) {
        Syntax::Toml => toml_file::parse(&shared, &text),
        Syntax::RedisConf => redis_conf::parse(&shared, &text, &mut |path| read(path)),
    };
    for one in &settings.given {
        if let (Some(reason), Origin::File { path, line }) = (one.reason(), &one.origin) {
            let text = format!("{}: {reason}", one.name);
            settings.errors.push(Note { path: path.clone(), line: *line, text });
        }
    }
    settings.errors.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(settings)
}

/// A file's text.
fn read(path: &Path) -> Result<String, String> {
    let failed = |e: &dyn fmt::Display| format!("{}: {e}", path.display());
    let bytes = std::fs::metadata(path).map_err(|e| failed(&e))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(failed(&format!("the file has {bytes} bytes; a configuration has at most {FILE_BYTES_MAX}")));
    }
    std::fs::read_to_string(path).map_err(|e| failed(&e))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_fault_has_its_line_whatever_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a:1: b.toml");
        std::fs::write(&path, "hz = 10\nmemory = \"x\"\n").unwrap();
        let errors = read_file(&path).unwrap().errors;
        let [error] = &errors[..] else { panic!("{errors:?}") };
        assert_eq!((error.line, error.text.as_str()), (2, "memory: argument must be a memory value"));
    }

    #[test]
    fn the_syntax_is_seen() {
        for (name, text, expected) in [
            ("a.toml", "port 1", Syntax::Toml),
            ("a.conf", "a = 1", Syntax::RedisConf),
            ("a", "# x\n\nport 6379\n", Syntax::RedisConf),
            ("a", "memory = \"1gb\"", Syntax::Toml),
            ("a", "requirepass a=b", Syntax::RedisConf),
            ("a", "", Syntax::Toml),
        ] {
            assert_eq!(Syntax::of(Path::new(name), text), expected, "{name} {text}");
        }
    }
}
