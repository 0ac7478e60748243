//! The beginning of a sorted set, for `basalt inspect`.

use super::stored::{SortedSet, corrupt};
use crate::command::call::Error;
use crate::{ReadSpace, Record};

/// The beginning of a sorted set.
#[derive(Clone, Debug, PartialEq)]
pub struct SortedSetExcerpt {
    /// How many members there are.
    pub count: u64,
    /// The first of them, in the order of their scores.
    pub members: Vec<SortedSetMember>,
}

/// A member with its score.
#[derive(Clone, Debug, PartialEq)]
pub struct SortedSetMember {
    /// The member.
    pub member: Vec<u8>,
    /// Its score.
    pub score: f64,
}

/// The beginning of the sorted set whose record was read at `key`: at most `most` of its members. An error also if there
/// are fewer of them than are counted.
pub(crate) fn excerpt_of(
    space: &mut dyn ReadSpace,
    key: &[u8],
    record: &Record,
    most: usize,
) -> Result<SortedSetExcerpt, Error> {
    let set = SortedSet::of(key, record.clone())?;
    let (count, mut members) = (set.count()?, Vec::new());
    let wanted = count.min(most as u64);
    set.visit(space, 0, wanted, false, &mut |scored| {
        members.push(SortedSetMember { member: scored.member.to_vec(), score: scored.score });
    })?;
    if members.len() as u64 != wanted {
        return Err(corrupt(key, "leaves with fewer members than are counted"));
    }
    Ok(SortedSetExcerpt { count, members })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::command::testspace::{TestSpace, answer};

    #[test]
    fn the_first_members_are_told_and_all_are_counted() {
        // One record, and rows.
        for count in [3_u64, 300] {
            let mut space = TestSpace::new();
            for n in 0..count {
                let words = format!("ZADD z {} m{n}", count - n);
                answer(&mut space, &words.split(' ').map(str::as_bytes).collect::<Vec<_>>());
            }
            let record = space.get(b"z").unwrap().unwrap();
            assert_eq!(record.view().kind.is_large(), count > 3);
            for (most, shown) in [(0, 0), (2, 2), (usize::MAX, count)] {
                let found = excerpt_of(&mut space, b"z", &record, most).unwrap();
                let expected = (1..=shown).map(|score| SortedSetMember {
                    member: format!("m{}", count - score).into_bytes(),
                    score: score as f64,
                });
                assert_eq!(found, SortedSetExcerpt { count, members: expected.collect() }, "{count}, {most}");
            }
        }
    }
}
