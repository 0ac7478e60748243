//! A large collection as of one moment, in slices that are copied one after the other.

use crate::command::error::Error;
use crate::format::internal_commands::STAGE;
use crate::format::record::{Kind, Rows, Type};
use crate::{EncodedCommand, ReadSpace, ShardHandle, SnapshotSpace};
use storage::Slice;
use vocab::limits::{COPY_SLICE_BYTES_SOFT, COPY_SLICE_ELEMENTS_MAX};

/// What is copied in slices, each a command to the shard of its target.
pub trait SliceSource {
    /// The command that writes the next slice; `None` after the last.
    fn next(&mut self, to: &[u8], place: &StagedAt) -> Result<Option<EncodedCommand>, Error>;

    /// The command that makes the copy visible, once all slices are written.
    fn last(&self, to: &[u8], place: &StagedAt) -> EncodedCommand;
}

/// See the module's documentation. Reads may wait for the disk.
pub struct CollectionCopy<'a> {
    space: SnapshotSpace<'a>,
    ty: Type,
    rows: Rows,
    /// What the record says behind them.
    tail: Vec<u8>,
    expire_at_ms: Option<u64>,
    after: Option<Slice>,
    /// Whether it may take the place of what is there.
    replaces: bool,
}

impl<'a> CollectionCopy<'a> {
    /// The collection at `key`; `None` if it is not there, or small.
    pub fn begin(view: &'a ShardHandle, key: &[u8], replaces: bool, now_ms: u64) -> Result<Option<Self>, Error> {
        let mut space = SnapshotSpace::new(view, now_ms, 0);
        let Some(record) = space.get(key)? else { return Ok(None) };
        let expire_at_ms = record.view().expire_at_ms;
        let (ty, rows) = (record.view().kind.ty, record.view().rows(key));
        let tail = record.view().tail().to_vec();
        Ok(rows.map(|rows| Self { space, ty, rows, tail, expire_at_ms, after: None, replaces }))
    }

    /// The first command to the shard of `to`. Its answer is the place that the others take.
    #[must_use]
    pub fn first(to: &[u8]) -> EncodedCommand {
        EncodedCommand::new(&[STAGE, b"BEGIN", to])
    }
}

impl SliceSource for CollectionCopy<'_> {
    fn next(&mut self, to: &[u8], place: &StagedAt) -> Result<Option<EncodedCommand>, Error> {
        let slice =
            self.space.slice(&self.rows, self.after.as_deref(), COPY_SLICE_ELEMENTS_MAX, COPY_SLICE_BYTES_SOFT)?;
        let Some((last, _)) = slice.last() else { return Ok(None) };
        self.after = Some(last.clone());
        let until = place.until_ms.to_string();
        let mut args: Vec<&[u8]> = vec![STAGE, b"ROWS", to, &place.prefix, until.as_bytes()];
        args.extend(slice.iter().flat_map(|(name, value)| [&name[..], &value[..]]));
        Ok(Some(EncodedCommand::new(&args)))
    }

    fn last(&self, to: &[u8], place: &StagedAt) -> EncodedCommand {
        let number = |n: u64| n.to_string().into_bytes();
        // An empty stream has a record.
        let count = if self.ty == Type::Stream { self.rows.count.max(1) } else { self.rows.count };
        let (until, count) = (number(place.until_ms), number(count));
        let expiry = number(self.expire_at_ms.unwrap_or_default());
        let how: &[u8] = if self.replaces { b"ANY" } else { b"ABSENT" };
        let end: [&[u8]; 10] = [
            STAGE,
            b"END",
            to,
            &place.prefix,
            &until,
            &count,
            &expiry,
            how,
            Kind::large(self.ty).type_name().as_bytes(),
            &self.tail,
        ];
        // Members of an earlier release know hashes alone, and not those words.
        EncodedCommand::new(match self.ty {
            Type::Hash if self.tail.is_empty() => &end[..8],
            _ if self.tail.is_empty() => &end[..9],
            _ => &end,
        })
    }
}

/// Where a copy is made, and by when it must be whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedAt {
    prefix: Vec<u8>,
    until_ms: u64,
}

impl StagedAt {
    #[cfg(test)]
    pub(crate) fn parts(&self) -> (Vec<u8>, u64) {
        (self.prefix.clone(), self.until_ms)
    }

    /// With what the tree keys of its rows begin.
    #[must_use]
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// By when it must be whole, in ms since the epoch.
    #[must_use]
    pub fn until_ms(&self) -> u64 {
        self.until_ms
    }

    /// The command that drops what was made there, as it is not to become visible.
    #[must_use]
    pub fn dropped(&self, to: &[u8]) -> EncodedCommand {
        let until = self.until_ms.to_string();
        EncodedCommand::new(&[STAGE, b"DROP", to, &self.prefix, until.as_bytes()])
    }

    /// The last command of what a command stores: `count` elements, as a collection of that type, at the key `to`. `event`:
    /// what the keyspace is told.
    #[must_use]
    pub(crate) fn store(&self, to: &[u8], count: u64, ty: &str, event: &str) -> EncodedCommand {
        let (until, count) = (self.until_ms.to_string(), count.to_string());
        let (until, count) = (until.as_bytes(), count.as_bytes());
        let kind = [ty.as_bytes(), b"", event.as_bytes()];
        let end: [&[u8]; 8] = [STAGE, b"END", to, &self.prefix, until, count, b"0", b"STORE"];
        EncodedCommand::new(&[&end[..], &kind].concat())
    }

    /// From the answer to the first command.
    #[must_use]
    pub fn of_answer(answer: &[u8]) -> Option<Self> {
        let (resp::Value::Array(parts), _) = resp::decode(answer).ok()?? else { return None };
        match &parts[..] {
            [prefix, resp::Value::Int(until_ms)] => {
                Some(Self { prefix: prefix.as_bytes()?.to_vec(), until_ms: u64::try_from(*until_ms).ok()? })
            }
            _ => None,
        }
    }
}
