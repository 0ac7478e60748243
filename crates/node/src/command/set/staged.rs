//! SINTERSTORE, SUNIONSTORE and SDIFFSTORE of large sets: as of one moment, in slices, visible at once.

use super::combination::{Combination, Operation, operation_of};
use crate::command::call::Error;
use crate::command::hash::name_of;
use crate::command::{SliceSource, StagedAt};
use crate::format::internal_commands::STAGE;
use crate::{EncodedCommand, ShardHandle, SnapshotSpace};
use vocab::limits::{COPY_SLICE_BYTES_SOFT, COPY_SLICE_ELEMENTS_MAX, COPY_WHOLE_ELEMENTS_MAX, GATHERED_BYTES_MAX};

/// The result of a command over large sets. Reads may wait for the disk.
pub struct SetCopy<'a> {
    space: SnapshotSpace<'a>,
    combination: Combination<'a>,
    count: u64,
}

impl<'a> SetCopy<'a> {
    /// What that command stores; `None` if one entry can hold it, or if the command is another.
    pub fn begin(view: &'a ShardHandle, args: &[&'a [u8]], now_ms: u64) -> Result<Option<Self>, Error> {
        let Some(operation) = operation_of(args[0]) else { return Ok(None) };
        let mut space = SnapshotSpace::new(view, now_ms, 0);
        let combination = Combination::begin(operation, &mut space, &args[2..])?;
        let is_large = combination.work()? > COPY_WHOLE_ELEMENTS_MAX
            || combination.bytes_max()? > GATHERED_BYTES_MAX as u64 && is_long(operation, &mut space, &args[2..])?;
        Ok(is_large.then_some(Self { space, combination, count: 0 }))
    }
}

/// Whether the members of the result, which are not many, have too many bytes for one entry.
fn is_long(operation: Operation, space: &mut SnapshotSpace<'_>, keys: &[&[u8]]) -> Result<bool, Error> {
    let mut combination = Combination::begin(operation, space, keys)?;
    let mut bytes = 0;
    while let Some(member) = combination.next(space)? {
        bytes += member.len();
        if bytes > GATHERED_BYTES_MAX {
            return Ok(true);
        }
    }
    Ok(false)
}

impl SliceSource for SetCopy<'_> {
    fn next(&mut self, to: &[u8], place: &StagedAt) -> Result<Option<EncodedCommand>, Error> {
        let (mut names, mut bytes) = (Vec::new(), 0);
        while names.len() < COPY_SLICE_ELEMENTS_MAX
            && bytes < COPY_SLICE_BYTES_SOFT
            && let Some(member) = self.combination.next(&mut self.space)?
        {
            bytes += member.len();
            names.push(name_of(&member));
        }
        self.count += names.len() as u64;
        let until = place.until_ms().to_string();
        let mut args: Vec<&[u8]> = vec![STAGE, b"ROWS", to, place.prefix(), until.as_bytes()];
        args.extend(names.iter().flat_map(|name| [&name[..], &b""[..]]));
        Ok((!names.is_empty()).then(|| EncodedCommand::new(&args)))
    }

    fn last(&self, to: &[u8], place: &StagedAt) -> EncodedCommand {
        place.store(to, self.count, "set", self.combination.operation().event().name)
    }
}
