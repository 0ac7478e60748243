//! ZUNIONSTORE, ZINTERSTORE, ZDIFFSTORE and ZRANGESTORE of large sorted sets: as of one moment, in slices, visible at once.

use super::collection_copy::{SliceSource, StagedAt};
use crate::command::args::is_word;
use crate::command::call::Error;
use crate::command::zset::{Answer, Combination, Grammar, Kept, Operation, SortedSet, Walk};
use crate::format::internal_commands::STAGE;
use crate::format::score::encode;
use crate::keyspace_events::Event;
use crate::{EncodedCommand, ShardHandle, SnapshotSpace};
use vocab::limits::{COPY_SLICE_BYTES_SOFT, COPY_SLICE_ELEMENTS_MAX, COPY_WHOLE_ELEMENTS_MAX, GATHERED_BYTES_MAX};

/// The result of a command over large sorted sets. Reads may wait for the disk.
pub struct SortedSetCopy<'a> {
    space: SnapshotSpace<'a>,
    members: Members<'a>,
    count: u64,
}

/// What is stored.
enum Members<'a> {
    Combination(Combination<'a>),
    Range(SortedSet<'a>, Walk),
}

impl<'a> SortedSetCopy<'a> {
    /// What that command stores; `None` if one entry can hold it, or if the command is another.
    pub fn begin(view: &'a ShardHandle, args: &[&'a [u8]], now_ms: u64) -> Result<Option<Self>, Error> {
        let mut space = SnapshotSpace::new(view, now_ms, 0);
        if let Some(operation) = Operation::of_store(args[0]) {
            let combination = Combination::begin(operation, Answer::Stored, &mut space, args[0], &args[2..])?;
            if combination.work()? > COPY_WHOLE_ELEMENTS_MAX {
                return Ok(Some(Self { space, members: Members::Combination(combination), count: 0 }));
            }
            return Self { space, members: Members::Combination(combination), count: 0 }.if_long(|space| {
                let again = Combination::begin(operation, Answer::Stored, space, args[0], &args[2..])?;
                Ok(Members::Combination(again))
            });
        }
        if !is_word(args[0], "ZRANGESTORE") {
            return Ok(None);
        }
        let range = Grammar::STORE.parse(&args[3..])?.range()?;
        let Some(set) = SortedSet::load(&mut space, args[2])? else { return Ok(None) };
        let walk = range.walk(&mut space, &set)?;
        if walk.left > COPY_WHOLE_ELEMENTS_MAX {
            return Ok(Some(Self { space, members: Members::Range(set, walk), count: 0 }));
        }
        let again = SortedSet::load(&mut space, args[2])?;
        Self { space, members: Members::Range(set, walk), count: 0 }.if_long(|_| {
            let set = again.ok_or("ERR the sorted set is gone from its snapshot")?;
            Ok(Members::Range(set, walk))
        })
    }

    /// The same from the beginning, made by `again`, if its members, which are not many, have too many bytes for one entry.
    fn if_long(
        mut self,
        again: impl FnOnce(&mut SnapshotSpace<'a>) -> Result<Members<'a>, Error>,
    ) -> Result<Option<Self>, Error> {
        let mut bytes = 0;
        loop {
            let slice = self.slice()?;
            bytes += slice.iter().map(|kept| kept.member.len()).sum::<usize>();
            if slice.is_empty() {
                return Ok(None);
            }
            if bytes > GATHERED_BYTES_MAX {
                let members = again(&mut self.space)?;
                return Ok(Some(Self { members, ..self }));
            }
        }
    }

    /// Up to `COPY_SLICE_ELEMENTS_MAX` more members.
    fn slice(&mut self) -> Result<Vec<Kept>, Error> {
        let (mut kept, mut bytes) = (Vec::new(), 0);
        match &mut self.members {
            Members::Combination(combination) => {
                while kept.len() < COPY_SLICE_ELEMENTS_MAX
                    && bytes < COPY_SLICE_BYTES_SOFT
                    && let Some(next) = combination.next(&mut self.space)?
                {
                    bytes += next.member.len();
                    kept.push(next);
                }
            }
            Members::Range(set, walk) => {
                if walk.left > 0 {
                    walk.step(&mut self.space, set, &mut |scored| kept.push(Kept::from(scored)))?;
                }
            }
        }
        Ok(kept)
    }
}

impl SliceSource for SortedSetCopy<'_> {
    fn next(&mut self, to: &[u8], place: &StagedAt) -> Result<Option<EncodedCommand>, Error> {
        let kept = self.slice()?;
        self.count += kept.len() as u64;
        let until = place.until_ms().to_string();
        let scores: Vec<_> = kept.iter().map(|kept| encode(kept.score)).collect();
        let mut args: Vec<&[u8]> = vec![STAGE, b"MEMBERS", to, place.prefix(), until.as_bytes()];
        args.extend(kept.iter().zip(&scores).flat_map(|(kept, score)| [&score[..], &kept.member[..]]));
        Ok((!kept.is_empty()).then(|| EncodedCommand::new(&args)))
    }

    fn last(&self, to: &[u8], place: &StagedAt) -> EncodedCommand {
        let event = match &self.members {
            Members::Combination(combination) => combination.operation().event(),
            Members::Range(..) => Event::ZRANGESTORE,
        };
        place.store(to, self.count, "zset", event.name)
    }
}
