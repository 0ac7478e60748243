//! Frames: several messages with one checksum, as they go over a link. docs/FORMATS.md, "Between nodes".
//!
//! ```text
//! u32 CRC32 of all that follows, u32 length of the payload, u8 flags, payload
//! payload   each message: u32 length, message; with flag 2: a piece of one message
//!           with flag 1: u32 length, and zstd of that
//! ```

use vocab::limits::PEER_FRAME_BYTES_MAX;

/// Bytes before the payload.
pub(super) const HEAD_BYTES: usize = 9;
/// Flag: the payload is packed.
const PACKED: u8 = 1;
/// Flag: the payload is a piece of one message (`node::peer_protocol::Pieces`).
pub(super) const PIECE: u8 = 2;
/// Smaller payloads are not worth packing.
const PACK_BYTES_MIN: usize = 4096;
/// Packed frames must be smaller than this share of what they were, in percent.
const PACKED_PERCENT_MAX: usize = 75;
/// Most frames that go as they are after some that did not shrink.
const SKIP_MAX: u32 = 64;
/// Frames after one for which the network made us wait that count as slow.
const SLOW_FRAMES: u32 = 64;

/// When frames are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// When the network is slower than we are, and it pays. Packing a frame costs several times the CPU of sending it
    /// (the example `links_speed`), so as long as the network keeps up it does not; and never within a machine.
    #[default]
    Auto,
    /// When it pays.
    Always,
    /// Never.
    Never,
}

/// What packs and unpacks the frames of all links.
pub(super) struct Packer {
    packing: Packing,
    compressor: zstd::bulk::Compressor<'static>,
    decompressor: zstd::bulk::Decompressor<'static>,
}

impl Packer {
    pub(super) fn new(packing: Packing) -> std::io::Result<Self> {
        let compressor = zstd::bulk::Compressor::new(1)?;
        Ok(Self { packing, compressor, decompressor: zstd::bulk::Decompressor::new()? })
    }

    pub(super) fn set(&mut self, packing: Packing) {
        self.packing = packing;
    }

    /// The messages of a payload: for a moment, at most as many bytes as a frame may have.
    pub(super) fn unpack(&mut self, payload: &[u8]) -> Result<Vec<u8>, &'static str> {
        let (length, packed) = payload.split_first_chunk::<4>().ok_or("a packed frame cut short")?;
        let length = u32::from_le_bytes(*length) as usize;
        if length > PEER_FRAME_BYTES_MAX {
            return Err("a packed frame too large");
        }
        let messages = self.decompressor.decompress(packed, length).map_err(|_| "a packed frame that is damaged")?;
        if messages.len() == length { Ok(messages) } else { Err("a packed frame of another length than it says") }
    }
}

/// Whether packing pays on one link.
#[derive(Default)]
pub(super) struct Worth {
    /// Frames that go as they are before the next try.
    skip: u32,
    /// What the next try sets `skip` to, if it fails.
    penalty: u32,
    /// Frames until the network no longer counts as slow.
    slow: u32,
    /// There is no network: both ends are on one machine.
    near: bool,
}

impl Worth {
    /// There is no network between the two.
    pub(super) fn near(&mut self) {
        self.near = true;
    }

    /// The network made us wait.
    pub(super) fn slow(&mut self) {
        self.slow = SLOW_FRAMES;
    }

    fn try_it(&mut self, packing: Packing, bytes: usize) -> bool {
        let slow = self.slow > 0 && !self.near;
        self.slow = self.slow.saturating_sub(1);
        if bytes < PACK_BYTES_MIN || packing == Packing::Never || (packing == Packing::Auto && !slow) {
            return false;
        }
        let skip = self.skip > 0;
        self.skip = self.skip.saturating_sub(1);
        !skip
    }

    fn learn(&mut self, paid: bool) {
        self.penalty = if paid { 0 } else { (self.penalty * 2).clamp(1, SKIP_MAX) };
        self.skip = self.penalty;
    }
}

/// Ends the frame that begins at `at` and takes the rest of `bytes`, whose head is still empty. `flags`: 0 or `PIECE`.
pub(super) fn close(bytes: &mut Vec<u8>, at: usize, flags: u8, worth: &mut Worth, packer: &mut Packer) {
    let payload = at + HEAD_BYTES;
    let mut flags = flags;
    if worth.try_it(packer.packing, bytes.len() - payload) {
        let length = bytes.len() - payload;
        let packed = packer.compressor.compress(&bytes[payload..]).ok();
        let packed = packed.filter(|packed| (packed.len() + 4) * 100 < length * PACKED_PERCENT_MAX);
        worth.learn(packed.is_some());
        if let Some(packed) = packed {
            bytes.truncate(payload);
            bytes.extend_from_slice(&(length as u32).to_le_bytes());
            bytes.extend_from_slice(&packed);
            flags |= PACKED;
        }
    }
    let length = bytes.len() - payload;
    assert!(length <= PEER_FRAME_BYTES_MAX, "a frame of {length} bytes");
    bytes[at + 4..at + 8].copy_from_slice(&(length as u32).to_le_bytes());
    bytes[at + 8] = flags;
    let checksum = crc32fast::hash(&bytes[at + 4..]);
    bytes[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// A frame that has come in.
pub(super) struct Frame<'a> {
    pub(super) packed: bool,
    pub(super) is_piece: bool,
    pub(super) payload: &'a [u8],
}

impl Frame<'_> {
    /// How many bytes it took.
    pub(super) fn bytes(&self) -> usize {
        HEAD_BYTES + self.payload.len()
    }
}

/// How many bytes the frame that `bytes` begin with takes, as far as that can be told.
pub(super) fn wanted(bytes: &[u8]) -> Result<usize, &'static str> {
    let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return Ok(HEAD_BYTES) };
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    if length > PEER_FRAME_BYTES_MAX {
        return Err("a frame too large");
    }
    Ok(HEAD_BYTES + length)
}

/// The frame that `bytes` begin with, if it is all there.
pub(super) fn first(bytes: &[u8]) -> Result<Option<Frame<'_>>, &'static str> {
    let length = wanted(bytes)?;
    let Some(frame) = bytes.get(..length).filter(|frame| frame.len() >= HEAD_BYTES) else { return Ok(None) };
    let (checksum, rest) = frame.split_at(4);
    if crc32fast::hash(rest).to_le_bytes() != checksum {
        return Err("a frame whose checksum does not match");
    }
    match rest[4] {
        flags if flags & !(PACKED | PIECE) == 0 => Ok(Some(Frame {
            packed: flags & PACKED != 0,
            is_piece: flags & PIECE != 0,
            payload: &rest[HEAD_BYTES - 4..],
        })),
        _ => Err("a frame with unknown flags"),
    }
}

/// The messages of a payload that is not packed.
pub(super) fn messages(payload: &[u8]) -> Messages<'_> {
    Messages { rest: payload }
}

/// See `messages`.
pub(super) struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<&'a [u8], &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let rest = std::mem::take(&mut self.rest);
        let Some((length, rest)) = rest.split_first_chunk::<4>() else {
            return Some(Err("a message cut short in a frame"));
        };
        let Some((message, rest)) = rest.split_at_checked(u32::from_le_bytes(*length) as usize) else {
            return Some(Err("a message cut short in a frame"));
        };
        self.rest = rest;
        Some(Ok(message))
    }
}
