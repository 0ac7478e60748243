//! Rows as releases before had them, where they found keys in other places, or let scripts run what is for nodes.
//!
//! A script is evaluated on every replica of its shard. As long as one may be of such a release, all go by these rows.

use super::key_flag::{ACCESS, RO};
use super::resolve::all;
use super::spec::{CommandSpec, KeyPlace, KeySpec, flag};
use std::sync::LazyLock;

/// The first STREAMS from an argument on, be it an option or what belongs to one.
const fn streams(from: u16) -> KeySpec {
    let place = KeyPlace::Halved { word: "STREAMS", from, options: &[], told_from: from };
    KeySpec { place, flags: RO | ACCESS, note: "", without: None }
}

/// Commands whose keys were found elsewhere.
const KEYS: &[(&str, &[KeySpec])] = &[("XREAD", &[streams(1)]), ("XREADGROUP", &[streams(4)])];

/// Commands for nodes that scripts could run.
const OF_SCRIPTS: &[&str] = &["KV.EMPTY", "KV.KEYS", "KV.SWAP", "KV.TRANSFER"];

static ROWS: LazyLock<Vec<CommandSpec>> = LazyLock::new(|| all().iter().filter_map(as_it_was).collect());

/// None: it was as it is.
fn as_it_was(spec: &CommandSpec) -> Option<CommandSpec> {
    let keys = KEYS.iter().find(|(name, _)| *name == spec.name).map(|(_, keys)| *keys);
    let is_of_scripts = OF_SCRIPTS.contains(&spec.name);
    let flags = if is_of_scripts { spec.flags & !flag::NOSCRIPT } else { spec.flags };
    let was = CommandSpec { key_specs: keys.unwrap_or(spec.key_specs), flags, ..*spec };
    (keys.is_some() || is_of_scripts).then_some(was)
}

/// A row as releases before had it; its number is the same.
#[must_use]
pub fn earlier(spec: &'static CommandSpec) -> &'static CommandSpec {
    ROWS.iter().find(|row| row.id == spec.id).unwrap_or(spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::resolve::{lookup, resolve};

    #[test]
    fn keys_were_behind_the_first_word_that_looks_like_it() {
        for (request, are, were) in [
            ("XREAD COUNT STREAMS STREAMS a 0", &[4usize][..], &[][..]),
            ("XREADGROUP GROUP g c STREAMS a >", &[5], &[5]),
            ("XREADGROUP NOACK GROUP g STREAMS STREAMS a >", &[6], &[]),
            ("XREADGROUP COUNT 1 GROUP STREAMS c STREAMS a b > >", &[7, 8], &[5, 6, 7]),
        ] {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let spec = resolve(&args).expect("a command");
            for (row, expected) in [(spec, are), (earlier(spec), were)] {
                let found: Vec<usize> = row.keys(&args).expect("keys").collect();
                assert_eq!(found, expected, "{request}");
            }
        }
    }

    #[test]
    fn other_rows_are_the_same() {
        let row = |name: &str| lookup(name.as_bytes()).expect("a command");
        assert!(std::ptr::eq(earlier(row("GET")), row("GET")));
        for name in OF_SCRIPTS {
            assert!(row(name).has(flag::NOSCRIPT) && !earlier(row(name)).has(flag::NOSCRIPT), "{name}");
        }
        assert_eq!(ROWS.len(), KEYS.len() + OF_SCRIPTS.len());
    }
}
