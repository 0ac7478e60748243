//! Elements one after the other, as they lie in records and in rows.
//!
//! ```text
//! varint           count
//! count times:
//!   varint, bytes  length of the element, element
//! ```
//! Varints are LEB128 in their shortest form. A small list is one run; so is each leaf of a large one.

use vocab::limits::{LIST_LEAF_BYTES_SOFT, LIST_LEAF_ELEMENTS_MAX};
use vocab::{Malformed, Reader, put_bytes, put_varint, varint_bytes};

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Where the element with index 0 is.
    Left,
    /// Where the last element is.
    Right,
}

impl Side {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// Elements that lie one after the other, not yet checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) count: usize,
    /// The elements with their lengths, without the count.
    pub(super) bytes: &'a [u8],
}

/// An element, and the run without it.
pub(super) type Taken<'a> = (&'a [u8], Run<'a>);

impl<'a> Run<'a> {
    /// All of `payload`: the count, and what follows it.
    pub(super) fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        let count = reader.count(1)?;
        Ok(Self { count, bytes: reader.rest() })
    }

    /// The elements in order.
    pub(super) fn elements(self) -> Result<Vec<&'a [u8]>, Malformed> {
        let mut reader = Reader::new(self.bytes);
        let mut elements = Vec::with_capacity(self.count);
        for _ in 0..self.count {
            elements.push(reader.bytes()?);
        }
        reader.end()?;
        Ok(elements)
    }

    /// The element at that place; `None` if there are not so many.
    pub(super) fn get(self, at: usize) -> Result<Option<&'a [u8]>, Malformed> {
        if at >= self.count {
            return Ok(None);
        }
        let mut reader = Reader::new(self.bytes);
        for _ in 0..at {
            reader.bytes()?;
        }
        reader.bytes().map(Some)
    }

    /// Takes the element at one end.
    pub(super) fn take(self, side: Side) -> Result<Option<Taken<'a>>, Malformed> {
        let Some(left) = self.count.checked_sub(1) else { return Ok(None) };
        let mut reader = Reader::new(self.bytes);
        if side == Side::Left {
            let element = reader.bytes()?;
            return Ok(Some((element, Run { count: left, bytes: reader.rest() })));
        }
        for _ in 0..left {
            reader.bytes()?;
        }
        let kept = self.bytes.len() - reader.left();
        let element = reader.bytes()?;
        reader.end()?;
        Ok(Some((element, Run { count: left, bytes: &self.bytes[..kept] })))
    }
}

/// How many bytes an element takes in a run.
pub(super) fn element_bytes(element: &[u8]) -> usize {
    varint_bytes(element.len() as u64) + element.len()
}

/// A run that is being changed. A list keeps one at each of its ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    count: usize,
    bytes: Vec<u8>,
}

impl Buffer {
    pub(super) fn of(run: Run<'_>) -> Self {
        Self { count: run.count, bytes: run.bytes.to_vec() }
    }

    pub(super) fn run(&self) -> Run<'_> {
        Run { count: self.count, bytes: &self.bytes }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether the element may be pushed: with it, the run is no longer than a leaf.
    pub(super) fn has_room_for(&self, element: &[u8]) -> bool {
        has_room(self.run(), element)
    }

    /// Whether it is longer than a leaf: then it has one element.
    pub(super) fn is_overlong(&self) -> bool {
        self.bytes.len() > LIST_LEAF_BYTES_SOFT
    }

    pub(super) fn push(&mut self, side: Side, element: &[u8]) {
        self.count += 1;
        if side == Side::Right {
            put_bytes(&mut self.bytes, element);
            return;
        }
        let mut bytes = Vec::with_capacity(element_bytes(element) + self.bytes.len());
        put_bytes(&mut bytes, element);
        bytes.extend_from_slice(&self.bytes);
        self.bytes = bytes;
    }

    /// Takes the element at one end.
    pub(super) fn pop(&mut self, side: Side) -> Result<Option<Vec<u8>>, Malformed> {
        let Some((element, rest)) = self.run().take(side)? else { return Ok(None) };
        let element = element.to_vec();
        *self = Self::of(rest);
        Ok(Some(element))
    }

    /// Removes so many elements at one end: at most all.
    pub(super) fn drop_from(&mut self, side: Side, count: usize) -> Result<(), Malformed> {
        let elements = self.run().elements()?;
        let count = count.min(elements.len());
        let kept = if side == Side::Left { &elements[count..] } else { &elements[..elements.len() - count] };
        let mut buffer = Self::default();
        kept.iter().for_each(|element| buffer.push(Side::Right, element));
        *self = buffer;
        Ok(())
    }

    /// The run with its count, as it is stored.
    pub(super) fn payload(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(2 + self.bytes.len());
        put_varint(&mut payload, self.count as u64);
        payload.extend_from_slice(&self.bytes);
        payload
    }
}

/// Whether a run is no longer than a leaf with one more element. What has one element may be longer.
pub(super) fn has_room(run: Run<'_>, element: &[u8]) -> bool {
    run.count < LIST_LEAF_ELEMENTS_MAX && run.bytes.len() + element_bytes(element) <= LIST_LEAF_BYTES_SOFT
}

/// Whether an element is a leaf of its own.
pub(super) fn fills_a_leaf(element: &[u8]) -> bool {
    element_bytes(element) > LIST_LEAF_BYTES_SOFT
}

/// Cuts elements into runs of the length of leaves.
pub(super) fn cut(elements: &[&[u8]]) -> Vec<Buffer> {
    let mut runs: Vec<Buffer> = Vec::new();
    for element in elements {
        match runs.last_mut() {
            Some(run) if run.has_room_for(element) => run.push(Side::Right, element),
            _ => {
                let mut run = Buffer::default();
                run.push(Side::Right, element);
                runs.push(run);
            }
        }
    }
    runs
}
