//! A setting's value as an operator wrote it, and where.

use node::config::{SETTINGS, Setting};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line of a file, counted from 1.
    File {
        /// The file.
        path: Arc<Path>,
        /// Its line.
        line: usize,
    },
    /// A variable of the environment.
    Environment(String),
    /// A flag of its own.
    Flag,
    /// `--set`.
    Set,
}

/// A setting's value as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The setting, as it was written.
    pub name: String,
    /// Its value, as CONFIG SET takes it.
    pub value: String,
    /// Where it was written.
    pub origin: Origin,
}

impl Given {
    /// Its row of the table.
    pub fn setting(&self) -> Option<&'static Setting> {
        find(&self.name)
    }

    /// What is wrong with it, in an operator's words: what a value looks like.
    pub fn reason(&self) -> Option<String> {
        Some(match self.setting() {
            None => match closest(&self.name) {
                Some(other) => format!("there is no such setting; is it `{other}`?"),
                None => "there is no such setting".to_owned(),
            },
            Some(setting) => setting.normal(&self.value).err()?.into_owned(),
        })
    }

    /// The same, with where it is.
    pub fn fault(&self) -> Option<String> {
        self.reason().map(|reason| format!("{self}: {reason}"))
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::File { path, line } => write!(f, "{}:{line}: {}", path.display(), self.name),
            Origin::Environment(variable) => f.write_str(variable),
            Origin::Flag => write!(f, "--{}", self.name),
            Origin::Set => write!(f, "--set {}", self.name),
        }
    }
}

/// The setting of that name.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.is_named(name.as_bytes()))
}

/// The setting that is written almost so: but for `_` and `-`, or for two letters at most.
pub fn closest(name: &str) -> Option<&'static str> {
    let plain = |name: &str| name.to_ascii_lowercase().replace(['_', '-', ' '], "");
    let name = plain(name);
    // Short words are near to too many.
    let letters = if name.len() < SIMILAR_LETTERS_MIN { 0 } else { SIMILAR_LETTERS };
    let names = SETTINGS.iter().flat_map(|setting| [Some(setting.name), setting.alias]).flatten();
    let distances = names.map(|other| (strsim::damerau_levenshtein(&plain(other), &name), other));
    let nearest = distances.min_by_key(|(distance, _)| *distance);
    nearest.filter(|(distance, _)| *distance <= letters).map(|(_, other)| other)
}

/// How many letters may be others, more or fewer in a name that is taken for a setting's.
const SIMILAR_LETTERS: usize = 2;
const SIMILAR_LETTERS_MIN: usize = 6;

/// One value a setting: of several the last holds.
pub fn last_of_each(given: Vec<Given>) -> Vec<Given> {
    let is_same = |a: &Given, b: &Given| match (a.setting(), b.setting()) {
        (Some(a), Some(b)) => std::ptr::eq(a, b),
        _ => a.name == b.name,
    };
    let mut kept: Vec<Given> = Vec::with_capacity(given.len());
    for one in given {
        kept.retain(|other| !is_same(other, &one));
        kept.push(one);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(name: &str, value: &str, origin: Origin) -> Given {
        Given { name: name.to_owned(), value: value.to_owned(), origin }
    }

    #[test]
    fn faults_say_where() {
        let line = Origin::File { path: Arc::from(Path::new("b.toml")), line: 7 };
        for (one, expected) in [
            (given("hz", "10", Origin::Set), None),
            (given("hz", "x", Origin::Set), Some("--set hz: argument couldn't be parsed into an integer")),
            (given("memory", "x", Origin::Flag), Some("--memory: argument must be a memory value")),
            (given("memory", "x", line.clone()), Some("b.toml:7: memory: argument must be a memory value")),
            (
                given("max_clients", "5", line),
                Some("b.toml:7: max_clients: there is no such setting; is it `maxclients`?"),
            ),
            (given("memroy", "1", Origin::Set), Some("--set memroy: there is no such setting; is it `memory`?")),
            (given("nil", "1", Origin::Environment("BASALT_NIL".into())), Some("BASALT_NIL: there is no such setting")),
        ] {
            assert_eq!(one.fault().as_deref(), expected, "{one:?}");
        }
    }

    #[test]
    fn the_last_holds_also_under_its_second_name() {
        let all = vec![
            given("hash-max-ziplist-entries", "3", Origin::Set),
            given("hz", "3", Origin::Set),
            given("hash-max-listpack-entries", "4", Origin::Set),
        ];
        let kept: Vec<_> = last_of_each(all).into_iter().map(|one| (one.name, one.value)).collect();
        assert_eq!(kept, [("hz".into(), "3".into()), ("hash-max-listpack-entries".into(), "4".into())]);
    }
}
