//! What the two ends of a transfer say, as bytes. docs/FORMATS.md, "Between nodes".

use storage::Slice;
use vocab::limits::{KEY_BYTES_MAX, SNAPSHOT_CHUNK_BYTES_MAX, SNAPSHOT_HEAD_BYTES_MAX};
use vocab::{Malformed, Reader, ShardId, put_bytes, put_varint};

pub(super) const BEGIN: u8 = 1;
pub(super) const GO_ON: u8 = 2;
pub(super) const ROWS: u8 = 3;
pub(super) const RECEIVED: u8 = 4;
pub(super) const END: u8 = 5;
pub(super) const DONE: u8 = 6;
pub(super) const BUSY: u8 = 7;
pub(super) const REFUSED: u8 = 8;

/// Longest words of a refusal, in bytes.
const WORDS_BYTES_MAX: usize = 1024;
const NONSENSE: &str = "a snapshot transfer that makes no sense";

/// Most bytes of a part of that kind; `None`: there is no such kind.
pub(super) fn bytes_max(kind: u8) -> Option<usize> {
    match kind {
        BEGIN => Some(SNAPSHOT_HEAD_BYTES_MAX),
        GO_ON => Some(64 + 2 * KEY_BYTES_MAX + 64 * 1024),
        ROWS => Some(SNAPSHOT_CHUNK_BYTES_MAX),
        RECEIVED | END => Some(64),
        DONE => Some(0),
        BUSY | REFUSED => Some(WORDS_BYTES_MAX),
        _ => None,
    }
}

/// What a transfer begins with, also when it is resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Begin {
    /// Drawn by the sender: the same as long as it is about the same snapshot.
    pub(super) transfer: u64,
    pub(super) shard: ShardId,
    pub(super) index: u64,
    pub(super) bytes_approx: u64,
    pub(super) meta: Vec<(Slice, Slice)>,
    pub(super) message: Vec<u8>,
}

impl Begin {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.transfer.to_le_bytes().to_vec();
        for number in [u64::from(self.shard.0), self.index, self.bytes_approx, self.meta.len() as u64] {
            put_varint(&mut bytes, number);
        }
        self.meta.iter().for_each(|(key, value)| put_row(&mut bytes, key, value));
        bytes.extend_from_slice(&self.message);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        Self::read(&mut Reader::new(bytes)).map_err(|_| NONSENSE)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (transfer, shard) = (reader.u64_le()?, ShardId(reader.number()?));
        let (index, bytes_approx, count) = (reader.varint()?, reader.varint()?, reader.count(2)?);
        let meta = (0..count).map(|_| row(reader).map(|(key, value)| (key.into(), value.into())));
        let meta = meta.collect::<Result<_, _>>()?;
        Ok(Self { transfer, shard, index, bytes_approx, meta, message: reader.rest().to_vec() })
    }
}

/// How much the receiving side holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Chunks on this connection.
    pub(super) chunks: u64,
    pub(super) rows: u64,
    /// Bytes of keys and values.
    pub(super) bytes: u64,
    /// The last key; `None`: no row.
    pub(super) last: Option<Slice>,
}

impl Progress {
    /// Encodes it, with the last key for a sender that goes on from there, or without it.
    pub(super) fn encode(&self, with_last: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [self.chunks, self.rows, self.bytes] {
            put_varint(&mut bytes, number);
        }
        if with_last {
            // No key is empty.
            bytes.extend_from_slice(self.last.as_deref().unwrap_or_default());
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        Self::read(&mut Reader::new(bytes)).map_err(|_| NONSENSE)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (chunks, rows, bytes) = (reader.varint()?, reader.varint()?, reader.varint()?);
        Ok(Self { chunks, rows, bytes, last: (!reader.is_empty()).then(|| reader.rest().into()) })
    }
}

/// Words for a log, of any bytes.
pub(super) fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_control()).collect()
}

/// Words for the other side.
pub(super) fn as_words(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len().min(WORDS_BYTES_MAX)]
}

pub(super) fn put_row(bytes: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    for part in [key, value] {
        put_bytes(bytes, part);
    }
}

/// The rows of a chunk, each as its key and its value.
pub(super) fn rows(bytes: &[u8]) -> impl Iterator<Item = Result<(&[u8], &[u8]), &'static str>> {
    let mut reader = Reader::new(bytes);
    std::iter::from_fn(move || {
        if reader.is_empty() {
            return None;
        }
        let row = row(&mut reader).map_err(|_| NONSENSE);
        if row.is_err() {
            reader.rest();
        }
        Some(row)
    })
}

fn row<'a>(reader: &mut Reader<'a>) -> Result<(&'a [u8], &'a [u8]), Malformed> {
    Ok((reader.bytes()?, reader.bytes()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use vocab::fuzz;

    fn begin() -> Begin {
        Begin {
            transfer: u64::MAX,
            shard: ShardId(3),
            index: 900,
            bytes_approx: 1 << 40,
            meta: vec![(b"counters".into(), vec![7; 200].into()), (b"b".into(), b"".into())],
            message: vec![1, 2, 3],
        }
    }

    #[test]
    fn what_is_said_is_heard() {
        assert_eq!(Begin::decode(&begin().encode()), Ok(begin()));
        let received = Progress { chunks: 300, rows: 0, bytes: u64::MAX, last: Some(b"k".into()) };
        assert_eq!(Progress::decode(&received.encode(true)), Ok(received.clone()));
        assert_eq!(Progress::decode(&received.encode(false)), Ok(Progress { last: None, ..received }));
        let mut chunk = Vec::new();
        put_row(&mut chunk, b"a", &[0; 300]);
        put_row(&mut chunk, b"b", b"");
        let read: Vec<_> = rows(&chunk).collect();
        assert_eq!(read, [Ok((&b"a"[..], &[0u8; 300][..])), Ok((&b"b"[..], &b""[..]))]);
        chunk.pop();
        assert_eq!(rows(&chunk).last(), Some(Err(NONSENSE)));
    }

    #[test]
    fn fuzz_snapshot_parts_no_bytes_make_them_panic_or_run_away() {
        let base = begin().encode();
        fuzz::rounds(1, |prng| {
            let mut bytes = base.clone();
            fuzz::mutate(&mut bytes, 8, prng);
            if let Ok(begin) = Begin::decode(&bytes) {
                assert_eq!(Begin::decode(&begin.encode()), Ok(begin));
            }
            assert!(rows(&bytes).count() <= bytes.len());
            let _ = Progress::decode(&bytes);
        });
    }
}
