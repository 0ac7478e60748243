//! The files that a line `include` of a `redis.conf` means. As in Redis, a path may have wildcards, in any of its parts.

use resp::glob_matches;
use std::path::{Component, Path, PathBuf};

/// The files of a path, which Redis takes from where it is started; what is not there may be in the folder `beside`. Those that
/// match wildcards are in the order of their names, and there may be none. Without wildcards it is one, whether or not it is there.
pub fn included(path: &str, beside: &Path) -> Vec<PathBuf> {
    let there = PathBuf::from(path);
    let not_there = beside.join(path);
    if !path.contains(WILDCARDS) {
        return vec![if there.exists() { there } else { not_there }];
    }
    let found = matching(&there);
    if found.is_empty() { matching(&not_there) } else { found }
}

const WILDCARDS: [char; 3] = ['*', '?', '['];

/// What there is with names that match a path, in their order.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        found = match part {
            Component::Normal(name) if name.to_string_lossy().contains(WILDCARDS) => {
                found.iter().flat_map(|folder| names(folder, &name.to_string_lossy())).collect()
            }
            part => found.into_iter().map(|folder| folder.join(part)).collect(),
        };
    }
    found.retain(|path| path.exists());
    found
}

/// What a folder has by names that match. Those that begin with a point are hidden from wildcards, as in a shell.
fn names(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // A folder that cannot be read has nothing that matches.
    let Ok(entries) = std::fs::read_dir(here) else { return Vec::new() };
    let is_meant = |name: &str| {
        glob_matches(pattern.as_bytes(), name.as_bytes(), false) && (!name.starts_with('.') || pattern.starts_with('.'))
    };
    let all = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut matching: Vec<String> = all.filter(|name| is_meant(name)).collect();
    matching.sort_unstable();
    matching.into_iter().map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn wildcards_stand_for_what_is_there_in_its_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.conf", "a.conf", ".c.conf", "a.txt", "one/x.conf", "two/x.conf", "two/y.conf"] {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let none: [&str; 0] = [];
        let root = folder.path().display().to_string();
        for (path, expected) in [
            ("*.conf", &["a.conf", "b.conf"][..]),
            ("?.conf", &["a.conf", "b.conf"]),
            ("[b-z].conf", &["b.conf"]),
            (".*.conf", &[".c.conf"]),
            ("*/x.conf", &["one/x.conf", "two/x.conf"]),
            ("tw*/*", &["two/x.conf", "two/y.conf"]),
            ("*.none", &none),
            ("none/*", &none),
            ("a.conf", &["a.conf"]),
            ("none.conf", &["none.conf"]),
        ] {
            let expected: Vec<PathBuf> = expected.iter().map(|name| folder.path().join(name)).collect();
            assert_eq!(included(path, folder.path()), expected, "{path} beside");
            assert_eq!(included(&format!("{root}/{path}"), Path::new("elsewhere")), expected, "{path}");
        }
    }
}
