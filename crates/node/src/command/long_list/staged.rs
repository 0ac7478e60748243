//! Large lists whose rows are made outside of an entry, a slice an entry, and that become visible at once.

use crate::command::call::Error;
use crate::command::list::{Large, Side};
use crate::command::{SliceSource, StagedAt};
use crate::format::internal_commands::STAGE;
use crate::format::record::ROWS_HEAD_BYTES;
use crate::keyspace_events::Event;
use crate::{EncodedCommand, Fault, ReadSpace, Record, Rows, WriteSpace};
use storage::Slice;
use vocab::limits::{COPY_SLICE_BYTES_SOFT, COPY_SLICE_ELEMENTS_MAX};

/// Takes the rows that a list in the making writes, and shows nothing.
struct MadeRows {
    prefix: Vec<u8>,
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl ReadSpace for MadeRows {
    fn now_ms(&self) -> u64 {
        0
    }

    fn version(&self) -> u64 {
        0
    }

    fn stored(&mut self, _key: &[u8]) -> Result<Option<Record>, Fault> {
        Err(Fault::WouldBlock)
    }
}

impl WriteSpace for MadeRows {
    fn put(&mut self, _key: &[u8], _record: Record) -> Result<(), Fault> {
        Err(Fault::WouldBlock)
    }

    fn delete(&mut self, _key: &[u8]) -> Result<bool, Fault> {
        Err(Fault::WouldBlock)
    }

    fn give_up(&mut self, _key: &[u8]) -> Result<(), Fault> {
        Err(Fault::WouldBlock)
    }

    fn new_rows(&mut self, _key: &[u8]) -> Result<Rows, Fault> {
        Ok(Rows { prefix: self.prefix.clone(), count: 0 })
    }

    fn element_put(&mut self, _rows: &Rows, element: &[u8], value: &[u8]) -> Result<(), Fault> {
        self.bytes += element.len() + value.len();
        self.rows.push((element.to_vec(), value.to_vec()));
        Ok(())
    }

    fn element_delete(&mut self, _rows: &Rows, _element: &[u8]) -> Result<(), Fault> {
        Err(Fault::WouldBlock)
    }

    fn requests(&mut self, _client: &[u8]) -> Result<Option<Slice>, Fault> {
        Err(Fault::WouldBlock)
    }

    fn put_requests(
        &mut self,
        _client: &[u8],
        _row: &[u8],
        _until_ms: u64,
        _was_until_ms: Option<u64>,
    ) -> Result<(), Fault> {
        Err(Fault::WouldBlock)
    }

    fn request_clients(&mut self) -> Result<u64, Fault> {
        Err(Fault::WouldBlock)
    }

    fn stage(&mut self, _rows: &Rows, _until_ms: u64) -> Result<(), Fault> {
        Err(Fault::WouldBlock)
    }

    fn is_staged(&mut self, _rows: &Rows, _until_ms: u64) -> Result<bool, Fault> {
        Err(Fault::WouldBlock)
    }

    fn unstage(&mut self, _rows: &Rows, _until_ms: u64) -> Result<(), Fault> {
        Err(Fault::WouldBlock)
    }

    fn drop_rows(&mut self, _rows: &Rows) -> Result<(), Fault> {
        Err(Fault::WouldBlock)
    }
}

/// What a staged list takes the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaces {
    /// Whatever is at the key. The answer is how many elements there are.
    Anything,
    /// What has this version; the answer is this number then, and TRYAGAIN otherwise.
    Version(u64, u64),
}

/// Where the elements of a staged list come from.
type Elements<'a> = Box<dyn FnMut() -> Result<Option<Vec<u8>>, Error> + 'a>;

/// A list that is made in slices.
pub struct ListCopy<'a> {
    elements: Elements<'a>,
    replaces: Replaces,
    expire_at_ms: Option<u64>,
    /// The list so far, from the first slice on.
    made: Option<(Large<'static>, MadeRows)>,
}

impl<'a> ListCopy<'a> {
    /// A list of elements that are made one after the other.
    pub(in crate::command) fn new(elements: Elements<'a>, replaces: Replaces, expire_at_ms: Option<u64>) -> Self {
        Self { elements, replaces, expire_at_ms, made: None }
    }
}

impl SliceSource for ListCopy<'_> {
    fn next(&mut self, to: &[u8], place: &StagedAt) -> Result<Option<EncodedCommand>, Error> {
        let (mut list, mut made) = match self.made.take() {
            Some(made) => made,
            None => {
                let mut made = MadeRows { prefix: place.prefix().to_vec(), rows: Vec::new(), bytes: 0 };
                (Large::new(&mut made, b"", None)?, made)
            }
        };
        while made.rows.len() < COPY_SLICE_ELEMENTS_MAX
            && made.bytes < COPY_SLICE_BYTES_SOFT
            && let Some(element) = (self.elements)()?
        {
            list.push(&mut made, Side::Right, &element)?;
        }
        let until = place.until_ms().to_string();
        let mut args: Vec<&[u8]> = vec![STAGE, b"ROWS", to, place.prefix(), until.as_bytes()];
        args.extend(made.rows.iter().flat_map(|(name, value)| [&name[..], &value[..]]));
        let slice = (!made.rows.is_empty()).then(|| EncodedCommand::new(&args));
        (made.rows, made.bytes) = (Vec::new(), 0);
        self.made = Some((list, made));
        Ok(slice)
    }

    fn last(&self, to: &[u8], place: &StagedAt) -> EncodedCommand {
        let (count, state) = match &self.made {
            Some((list, _)) => (list.count(), list.record(0).view().payload[ROWS_HEAD_BYTES..].to_vec()),
            None => (0, Vec::new()),
        };
        let number = |n: u64| n.to_string().into_bytes();
        let (until, count, expiry) =
            (number(place.until_ms()), number(count), number(self.expire_at_ms.unwrap_or_default()));
        let mut args: Vec<&[u8]> = vec![STAGE, b"END", to, place.prefix(), &until, &count, &expiry];
        let (version, answer) = match self.replaces {
            Replaces::Anything => (Vec::new(), Vec::new()),
            Replaces::Version(version, answer) => (number(version), number(answer)),
        };
        match self.replaces {
            Replaces::Anything => args.extend([&b"STORE"[..], b"list", &state, Event::SORTSTORE.name.as_bytes()]),
            Replaces::Version(..) => args.extend([&b"VERSION"[..], b"list", &state, &version, &answer]),
        }
        EncodedCommand::new(&args)
    }
}
