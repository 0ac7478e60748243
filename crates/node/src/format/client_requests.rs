//! What a shard remembers of one client's numbered requests, as a row of its tree beside the records, so that it is
//! replicated, moved and recovered with them.
//!
//! ```text
//! u8      format (1)
//! u64     until when it is kept, in ms since the epoch; little-endian, as the following
//! u64     the highest number that has been forgotten, or 0
//! to the end, in rising order of the numbers:
//!   u64   number
//!   u32   the first 32 bits of the XXH3-64 of the request: another one under the same number is an error
//!   u32   length of the answer; u32::MAX: it was too long to be kept
//!   bytes the answer, in RESP2
//! ```

use vocab::limits::{REQUEST_REPLY_BYTES_MAX, REQUEST_ROW_BYTES_MAX, REQUESTS_MAX};

const FORMAT: u8 = 1;
pub(crate) const HEAD_BYTES: usize = 17;
const TOO_LONG: u32 = u32::MAX;

/// A request that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppliedRequest {
    /// Its number.
    pub(crate) number: u64,
    /// The first 32 bits of its hash.
    pub(crate) hash: u32,
    /// Its answer, in RESP2; `None`: it was too long.
    pub(crate) reply: Option<Vec<u8>>,
}

impl AppliedRequest {
    fn bytes(&self) -> usize {
        16 + self.reply.as_ref().map_or(0, Vec::len)
    }
}

/// What a shard remembers of one client.
///
/// Invariants: `known` is in rising order of the numbers; `forgotten < known[0].number`;
/// `known.len() ≤ REQUESTS_MAX`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientRequests {
    /// Until when it is kept, in ms since the epoch.
    pub(crate) until_ms: u64,
    /// The highest number that has been forgotten; 0: none has.
    pub(crate) forgotten: u64,
    /// The requests that are remembered.
    pub(crate) known: Vec<AppliedRequest>,
}

impl ClientRequests {
    /// Remembers a request and, if it is not too long, its answer. Forgets the oldest ones where there is no room.
    pub(crate) fn remember(&mut self, number: u64, hash: u32, answer: Vec<u8>) {
        let reply = (answer.len() <= REQUEST_REPLY_BYTES_MAX).then_some(answer);
        let at = self.known.partition_point(|known| known.number < number);
        self.known.insert(at, AppliedRequest { number, hash, reply });
        let mut bytes: usize = self.known.iter().map(AppliedRequest::bytes).sum();
        while self.known.len() > REQUESTS_MAX || bytes > REQUEST_ROW_BYTES_MAX {
            let oldest = self.known.remove(0);
            bytes -= oldest.bytes();
            self.forgotten = self.forgotten.max(oldest.number);
        }
    }

    /// The row.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut row = vec![FORMAT];
        row.extend_from_slice(&self.until_ms.to_le_bytes());
        row.extend_from_slice(&self.forgotten.to_le_bytes());
        for known in &self.known {
            row.extend_from_slice(&known.number.to_le_bytes());
            row.extend_from_slice(&known.hash.to_le_bytes());
            let length = known.reply.as_ref().map_or(TOO_LONG, |reply| reply.len() as u32);
            row.extend_from_slice(&length.to_le_bytes());
            row.extend_from_slice(known.reply.as_deref().unwrap_or_default());
        }
        row
    }

    /// Reads a row; `None` if it is malformed.
    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let (head, mut rest) = row.split_first_chunk::<HEAD_BYTES>()?;
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("8 bytes"));
        let mut decoded = Self { until_ms: word(1), forgotten: word(9), known: Vec::new() };
        while let Some((known, behind)) = rest.split_first_chunk::<16>() {
            let number = u64::from_le_bytes(known[..8].try_into().expect("8 bytes"));
            let hash = u32::from_le_bytes(known[8..12].try_into().expect("4 bytes"));
            let length = u32::from_le_bytes(known[12..].try_into().expect("4 bytes"));
            let (reply, behind) = match length {
                TOO_LONG => (None, behind),
                length => {
                    let (reply, behind) = behind.split_at_checked(length as usize)?;
                    (Some(reply.to_vec()), behind)
                }
            };
            let rises = number > decoded.known.last().map_or(decoded.forgotten, |last| last.number);
            if !rises || decoded.known.len() == REQUESTS_MAX {
                return None;
            }
            decoded.known.push(AppliedRequest { number, hash, reply });
            rest = behind;
        }
        (head[0] == FORMAT && rest.is_empty()).then_some(decoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::fuzz;

    #[test]
    fn fuzz_rows() {
        let known = |number, reply| AppliedRequest { number, hash: 7, reply };
        let row = ClientRequests {
            until_ms: 9,
            forgotten: 1,
            known: vec![known(2, Some(b":1\r\n".to_vec())), known(5, None)],
        };
        assert_eq!(ClientRequests::decode(&row.encode()), Some(row.clone()));
        fuzz::rounds(3, |prng| {
            let mut bytes = row.encode();
            fuzz::mutate(&mut bytes, 3, prng);
            // Either refused, or each byte means something.
            assert!(ClientRequests::decode(&bytes).is_none_or(|row| row.encode() == bytes));
        });
    }
}
