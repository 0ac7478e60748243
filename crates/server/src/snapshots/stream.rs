//! Parts of a transfer over a stream that blocks.
//!
//! ```text
//! u32 CRC32 of all that follows, u32 length of the body, u8 kind, body
//! ```

use super::parts::bytes_max;
use crate::net::Stream;
use std::io::{self, Read, Write};
use std::time::Duration;
use vocab::limits::SNAPSHOT_CHUNK_BYTES_SOFT;

const HEAD_BYTES: usize = 9;

/// Why an attempt at a transfer ends early.
#[derive(Debug)]
pub(super) enum Broken {
    /// It may go on over another connection.
    Cut(String),
    /// The other side has no room for it at the moment.
    Busy(String),
    /// There is no use in going on.
    Over(String),
}

impl From<io::Error> for Broken {
    fn from(e: io::Error) -> Self {
        Self::Cut(format!("the connection broke: {e}"))
    }
}

/// One end of a transfer's connection.
pub(super) struct Parts {
    stream: Stream,
    body: Vec<u8>,
    out: Vec<u8>,
}

impl Parts {
    /// A stream that waits for at most `patience` at a time.
    pub(super) fn new(stream: Stream, patience: Duration) -> io::Result<Self> {
        stream.set_timeouts(patience)?;
        Ok(Self { stream, body: Vec::new(), out: Vec::new() })
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Says something; answers how many bytes that took.
    pub(super) fn say(&mut self, kind: u8, body: &[u8]) -> Result<u64, Broken> {
        if bytes_max(kind).is_none_or(|max| body.len() > max) {
            return Err(Broken::Over(format!("a part of {} bytes is too large to be sent", body.len())));
        }
        self.out.clear();
        self.out.extend_from_slice(&[0; 4]);
        self.out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        self.out.push(kind);
        self.out.extend_from_slice(body);
        let checksum = crc32fast::hash(&self.out[4..]);
        self.out[..4].copy_from_slice(&checksum.to_le_bytes());
        (&self.stream).write_all(&self.out)?;
        let bytes = self.out.len() as u64;
        give_back(&mut self.out);
        Ok(bytes)
    }

    /// Whether `hear` would not wait: something has come, if only the end.
    pub(super) fn has_come(&self) -> io::Result<bool> {
        self.stream.has_input()
    }

    /// What the other side says next: its kind and its body.
    pub(super) fn hear(&mut self) -> Result<(u8, &[u8]), Broken> {
        let mut head = [0; HEAD_BYTES];
        (&self.stream).read_exact(&mut head)?;
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let kind = head[8];
        if bytes_max(kind).is_none_or(|max| length as usize > max) {
            return Err(Broken::Cut(format!("a part of kind {kind} and {length} bytes came")));
        }
        self.body.clear();
        give_back(&mut self.body);
        // Takes as much memory as really comes.
        (&self.stream).take(u64::from(length)).read_to_end(&mut self.body)?;
        if self.body.len() < length as usize {
            return Err(Broken::Cut("the connection broke".to_owned()));
        }
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head[4..]);
        hasher.update(&self.body);
        if hasher.finalize().to_le_bytes() != head[..4] {
            return Err(Broken::Cut("a part came with a checksum that does not match".to_owned()));
        }
        Ok((kind, &self.body))
    }
}

/// The room that a very large row took is not kept.
fn give_back(bytes: &mut Vec<u8>) {
    if bytes.capacity() > 8 * SNAPSHOT_CHUNK_BYTES_SOFT {
        *bytes = Vec::new();
    }
}
