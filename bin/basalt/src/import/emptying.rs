//! Databases of the store that are emptied because those of a running source were: by FLUSHDB, FLUSHALL or SWAPDB in its stream.
//!
//! All keys that are removed must be the source's. So nothing is emptied unless there was no key when the import began, and it was asked
//! for: that an application uses the store by now, and the old Redis is cleaned up behind it, cannot be seen from here.

use super::expiries::Expiries;
use super::outcome::Outcome;
use super::scope::{Destination, Scope};
use super::walk::KeyWalk;
use crate::store_writer::{Kind, StoreWriter, Write};
use client::{Client, StoreUrl};

/// Whether databases of the store are emptied because those of the source were.
#[derive(Clone, Copy, Debug)]
pub(super) enum Empties<'a> {
    /// Those of that node's store: all keys that they have are the source's.
    Of(&'a StoreUrl),
    /// It was not asked for.
    NotAsked,
    /// What is the source's is not known.
    NotKnown,
}

impl<'a> Empties<'a> {
    /// The node whose store's databases are emptied, or why the import ends instead. Every command before this one is made.
    pub(super) fn node(self, name: &[u8]) -> Result<&'a StoreUrl, String> {
        let (why, then) = match self {
            Self::Of(node) => return Ok(node),
            Self::NotAsked => (
                "",
                "Where nothing but the import writes to the store, give --follow-flushes: with --state the same command goes on with it; \
                 without, remove what was imported, and begin again",
            ),
            Self::NotKnown => (
                " (it is not known that the store had no keys there when the import began)",
                "Else remove what was imported, and the file of --state if there is one, and begin again: --follow-flushes follows such a \
                 command into a store that has no keys there, and where nothing else writes",
            ),
        };
        Err(format!(
            "the source was told {}, and the import ends there{why}: what was imported before stays, and nothing of it was removed. If \
             the application uses the store already, leave it so. {then}",
            name.to_ascii_uppercase().escape_ascii()
        ))
    }
}

/// Whether the store has no key where those of the source go.
pub(super) fn has_none(node: &StoreUrl, scope: Scope<'_>) -> Result<bool, String> {
    let mut store = open(node)?;
    for of in scope.destinations() {
        let mut keys = KeyWalk::new(of, None);
        while let Some(page) = keys.next(&mut store)? {
            if !page.is_empty() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Removes all keys of these databases, but those that stay, which are asked for by the names that are stored.
pub(super) fn empty(
    node: &StoreUrl,
    databases: &[Destination],
    target: &mut StoreWriter,
    stays: impl Fn(&[u8]) -> bool,
    mut expiries: Option<&mut Expiries>,
    outcome: &mut Outcome,
) -> Result<(), String> {
    // What was sent before must not come behind.
    target.drain(outcome)?;
    let mut store = open(node)?;
    let before = outcome.written;
    for of in databases {
        let mut keys = KeyWalk::new(*of, None);
        while let Some(page) = keys.next(&mut store)? {
            for key in page.into_iter().filter(|key| !stays(key)) {
                if let Some(expiries) = &mut expiries {
                    expiries.forget(&key);
                }
                target.write(Write { kind: Kind::Free, args: vec![b"DEL".to_vec(), key], key: 1 }, outcome)?;
            }
        }
    }
    target.drain(outcome)?;
    outcome.written = before;
    Ok(())
}

fn open(node: &StoreUrl) -> Result<Client, String> {
    Client::open(node).map_err(|e| format!("the store: {e}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_not_emptied_is_told_with_its_reason() {
        let node: StoreUrl = "127.0.0.1:7000".parse().unwrap();
        assert!(Empties::Of(&node).node(b"flushall").is_ok());
        let told = |empties: Empties<'_>| empties.node(b"flushall").unwrap_err();
        for (empties, is_known) in [(Empties::NotAsked, true), (Empties::NotKnown, false)] {
            let told = told(empties);
            for part in ["told FLUSHALL", "nothing of it was removed", "--follow-flushes", "leave it so"] {
                assert!(told.contains(part), "{told}");
            }
            assert_eq!(told.contains("not known that the store had no keys"), !is_known, "{told}");
        }
    }
}
