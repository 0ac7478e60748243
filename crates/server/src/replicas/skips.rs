//! `start --skip-entry`: replicas go on without an entry that they cannot apply. One whose tree holds the entry does not take it back, and would
//! differ from those that have never had it: then these are to be made anew from it.
//!
//! What a start goes on without is noted before it is reached. So a later start that still has the flag tells an entry that was left out from one
//! that was applied.

use crate::mailbox::Opened;
use crate::shared::NodeShared;
use std::collections::BTreeSet;
use vocab::ShardId;

/// An entry of a shard that is skipped.
type Skip = (ShardId, u64);

/// Refuses a start that is to skip entries which were applied here.
pub(super) fn check_skips(store: &NodeShared, opened: &[Opened]) -> Result<(), String> {
    let mut asked = Vec::new();
    for handle in opened.iter().map(|opened| opened.shard.handle()) {
        let flushed = handle.engine().flushed_index();
        asked.extend(handle.skipped().iter().map(|index| ((handle.id(), *index), flushed)));
    }
    if asked.is_empty() {
        return Ok(());
    }
    let before = store.dir.skipped()?;
    let noted = noted(&before, &asked).map_err(holds)?;
    if noted == before { Ok(()) } else { store.dir.note_skipped(&noted) }
}

/// What is noted from here on, of entries that are to be skipped, each with the newest entry that its replica's tree holds. The error is one
/// that a tree holds, though it was not skipped before.
fn noted(before: &BTreeSet<Skip>, asked: &[(Skip, u64)]) -> Result<BTreeSet<Skip>, Skip> {
    let is_held = |(skip, flushed): &&(Skip, u64)| skip.1 <= *flushed && !before.contains(skip);
    match asked.iter().find(is_held) {
        Some((skip, _)) => Err(*skip),
        None => Ok(before.iter().copied().chain(asked.iter().map(|(skip, _)| *skip)).collect()),
    }
}

fn holds((shard, index): Skip) -> String {
    format!(
        "--skip-entry {shard}:{index}: the replica of shard {shard} here holds entry {index} already, and takes nothing back: without the flag \
         it goes on as it is. Replicas that go on without the entry would differ from it: rebuild these (`ctl plan apply rebuild NODE`), or, \
         if most of them have gone on without it, rebuild this one. Nothing was changed"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tree_holds_is_not_skipped_unless_it_was() {
        let skip = |shard: u32, index: u64| (ShardId(shard), index);
        let before = BTreeSet::from([skip(1, 40), skip(2, 7)]);
        for (asked, expected) in [
            (vec![(skip(1, 50), 49)], Ok(vec![skip(1, 40), skip(1, 50), skip(2, 7)])),
            (vec![(skip(1, 50), 50)], Err(skip(1, 50))),
            (vec![(skip(1, 40), 90), (skip(2, 7), 0)], Ok(vec![skip(1, 40), skip(2, 7)])),
            (vec![(skip(1, 40), 90), (skip(3, 7), 8)], Err(skip(3, 7))),
        ] {
            let expected = expected.map(|skips: Vec<Skip>| skips.into_iter().collect::<BTreeSet<_>>());
            assert_eq!(noted(&before, &asked), expected, "{asked:?}");
        }
        assert!(holds(skip(3, 7)).starts_with("--skip-entry 3:7: the replica of shard 3 here holds entry 7 already"));
    }
}
