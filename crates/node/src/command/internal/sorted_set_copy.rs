//! ZUNIONSTORE, ZINTERSTORE, ZDIFFSTORE, ZRANGESTORE and GEOSEARCHSTORE of large sorted sets, and ZREMRANGEBY* of many
//! members: as of one moment, in slices, visible at once.

use super::collection_copy::{SliceSource, StagedAt};
use crate::command::args::is_word;
use crate::command::call::Error;
use crate::command::geo;
use crate::command::zset::{Answer, Combination, Grammar, Kept, Operation, Rest, SortedSet, Walk};
use crate::format::internal_commands::STAGE;
use crate::format::score::encode;
use crate::keyspace_events::Event;
use crate::{EncodedCommand, ReadSpace, ShardHandle, SnapshotSpace};
use std::vec;
use vocab::limits::{COPY_SLICE_BYTES_SOFT, COPY_SLICE_ELEMENTS_MAX, COPY_WHOLE_ELEMENTS_MAX, GATHERED_BYTES_MAX};

/// The result of a command over large sorted sets. Reads may wait for the disk.
pub struct SortedSetCopy<'a> {
    space: SnapshotSpace<'a>,
    members: Members<'a>,
    count: u64,
    replaces: Replaces,
    /// What the key is told of.
    event: Event,
}

/// What is stored.
enum Members<'a> {
    Combination(Combination<'a>),
    /// Those that the walks show, one after the other.
    Walks(SortedSet<'a>, Vec<Walk>),
    Found(vec::IntoIter<Kept>),
}

/// What the result takes the place of.
enum Replaces {
    /// Whatever is at the key. The answer is how many members there are.
    Anything,
    /// What has this version, with its expiry; the answer is that number then, and TRYAGAIN otherwise.
    Version { version: u64, expire_at_ms: Option<u64>, answer: u64 },
}

impl<'a> SortedSetCopy<'a> {
    /// What that command stores; `None` if one entry can hold it, or if the command is another.
    pub fn begin(view: &'a ShardHandle, args: &[&'a [u8]], now_ms: u64) -> Result<Option<Self>, Error> {
        let mut space = SnapshotSpace::new(view, now_ms, 0);
        if let Some(operation) = Operation::of_store(args[0]) {
            let combination = Combination::begin(operation, Answer::Stored, &mut space, args[0], &args[2..])?;
            let work = combination.work()?;
            let copy = Self::storing(space, Members::Combination(combination), operation.event());
            if work > COPY_WHOLE_ELEMENTS_MAX {
                return Ok(Some(copy));
            }
            return copy.if_long(|space| {
                let again = Combination::begin(operation, Answer::Stored, space, args[0], &args[2..])?;
                Ok(Members::Combination(again))
            });
        }
        if let Some(found) = geo::many_to_store(&mut space, args)? {
            return Ok(Some(Self::storing(space, Members::Found(found.kept.into_iter()), found.event)));
        }
        if let Some(Rest { set, walks, removed, event }) = Rest::of_removal(&mut space, args)? {
            let version = space.get(args[1])?.map_or(0, |record| record.view().version);
            let replaces = Replaces::Version { version, expire_at_ms: set.expire_at_ms(), answer: removed };
            return Ok(Some(Self { space, members: Members::Walks(set, walks), count: 0, replaces, event }));
        }
        if !is_word(args[0], "ZRANGESTORE") {
            return Ok(None);
        }
        let range = Grammar::STORE.parse(&args[3..])?.range()?;
        let Some(set) = SortedSet::load(&mut space, args[2])? else { return Ok(None) };
        let walk = range.walk(&mut space, &set)?;
        let again = SortedSet::load(&mut space, args[2])?;
        let copy = Self::storing(space, Members::Walks(set, vec![walk]), Event::ZRANGESTORE);
        if walk.left > COPY_WHOLE_ELEMENTS_MAX {
            return Ok(Some(copy));
        }
        copy.if_long(|_| {
            let set = again.ok_or("ERR the sorted set is gone from its snapshot")?;
            Ok(Members::Walks(set, vec![walk]))
        })
    }

    fn storing(space: SnapshotSpace<'a>, members: Members<'a>, event: Event) -> Self {
        Self { space, members, count: 0, replaces: Replaces::Anything, event }
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
            Members::Walks(set, walks) => {
                if let Some(walk) = walks.iter_mut().find(|walk| walk.left > 0) {
                    walk.step(&mut self.space, set, &mut |scored| kept.push(Kept::from(scored)))?;
                }
            }
            Members::Found(found) => {
                while kept.len() < COPY_SLICE_ELEMENTS_MAX
                    && bytes < COPY_SLICE_BYTES_SOFT
                    && let Some(next) = found.next()
                {
                    bytes += next.member.len();
                    kept.push(next);
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
        let number = |n: u64| n.to_string().into_bytes();
        let event = self.event.name;
        match self.replaces {
            Replaces::Anything => place.store(to, self.count, "zset", event),
            Replaces::Version { version, expire_at_ms, answer } => {
                let (until, count) = (number(place.until_ms()), number(self.count));
                let (version, answer, expiry) = (number(version), number(answer), number(expire_at_ms.unwrap_or(0)));
                let place = [STAGE, b"END", to, place.prefix(), &until, &count, &expiry];
                let rest: [&[u8]; 6] = [b"VERSION", b"zset", b"", &version, &answer, event.as_bytes()];
                EncodedCommand::new(&[&place[..], &rest].concat())
            }
        }
    }
}
