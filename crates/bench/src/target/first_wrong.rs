//! The first wrong answer of a thread, in words: a count alone does not say where to look.

use client::Frame;

use crate::workload::{Cell, Operation, TooManyShort};

/// So much of a key or a value is shown, in bytes.
const SHOWN_BYTES_MAX: usize = 48;
/// So much before the first byte that differs is shown, in bytes.
const BEFORE_BYTES: usize = 8;
/// So much of an answer is shown, in characters.
const ANSWER_CHARACTERS_MAX: usize = 200;

/// What was wrong first. Only the first is put into words: the others are counted.
#[derive(Default)]
pub(super) struct FirstWrong {
    /// The first value that was not what had been written.
    value: Option<String>,
    /// The first answer that was wrong.
    answer: Option<String>,
}

impl FirstWrong {
    /// The value of a field is not what had been written. `expected` is what a write would have made of as many bytes with
    /// the tag that the value begins with.
    #[cold]
    pub(super) fn value(&mut self, cell: Cell<'_>, length: Option<u64>, expected: &[u8], received: &[u8]) {
        if self.value.is_some() {
            return;
        }
        let place = format!("field {} of key {}", shown(cell.name), shown(cell.key));
        let differs = expected.iter().zip(received).position(|(expected, received)| expected != received);
        self.value = Some(match (length.filter(|length| *length != received.len() as u64), differs) {
            (Some(length), _) => {
                format!("{place}: expected {length} bytes, received {}: {}", received.len(), shown(received))
            }
            (None, Some(at)) => {
                let from = at.saturating_sub(BEFORE_BYTES);
                format!(
                    "{place}: from byte {from} of {} on expected {}, received {}",
                    received.len(),
                    shown(&expected[from..]),
                    shown(&received[from..])
                )
            }
            (None, None) => format!("{place}: expected a value, received {}", shown(received)),
        });
    }

    /// A scan ended after `rows`, and not all scans that have ended short can have been near to the store's end.
    #[cold]
    pub(super) fn short_scan(&mut self, operation: &Operation, rows: u64, too_many: TooManyShort) {
        let TooManyShort { records, records_max } = too_many;
        self.value.get_or_insert_with(|| {
            format!(
                "key {}: expected {} records, received {rows} and the end of the store. From {records} different records scans \
                 have ended early, and {records_max} at most can be so near to the end",
                shown(&operation.key),
                operation.scan_length
            )
        });
    }

    /// An operation's answer is wrong.
    #[cold]
    pub(super) fn answer(&mut self, operation: &Operation, reply: &Frame<'_>) {
        if self.answer.is_some() {
            return;
        }
        let kind = operation.kind.name();
        self.answer = Some(match &self.value {
            Some(value) => format!("{kind}, {value}"),
            // The fields' names or their number, the order of keys, or what has come twice.
            None => {
                let whole = format!("{reply:?}");
                let short: String = whole.chars().take(ANSWER_CHARACTERS_MAX).collect();
                let more = if short.len() < whole.len() { "…" } else { "" };
                format!(
                    "{kind} of key {}: expected what had been written, received {short}{more}",
                    shown(&operation.key)
                )
            }
        });
    }

    /// In words; none where all answers were right.
    pub(super) fn take(&mut self) -> Option<String> {
        self.answer.take()
    }
}

/// Bytes as one can read them, cut where they are many.
fn shown(bytes: &[u8]) -> String {
    let short = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    let more = if short.len() < bytes.len() { "…" } else { "" };
    format!("`{}{more}`", short.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::OpKind;

    #[test]
    fn the_first_is_named_short_and_escaped() {
        let cell = Cell { key: b"user\x01", key_hash: 0, field: 3, name: b"field3" };
        let read = Operation { kind: OpKind::Read, key: b"user\x01".to_vec(), ..Operation::default() };
        let told = |length, expected: &[u8], received: &[u8]| {
            let mut first = FirstWrong::default();
            first.value(cell, length, expected, received);
            first.value(cell, None, b"later", b"other");
            first.answer(&read, &Frame::Null);
            first.answer(&read, &Frame::Int(1));
            first.take()
        };
        let place = "READ, field `field3` of key `user\\x01`: ";
        let (mut expected, mut received) = (vec![b'a'; 100], vec![b'a'; 100]);
        (expected[20], received[20]) = (b'b', 0);
        for (length, expected, received, words) in [
            (
                None,
                &expected[..],
                &received[..],
                format!(
                    "from byte 12 of 100 on expected `aaaaaaaab{0}…`, received `aaaaaaaa\\x00{0}…`",
                    "a".repeat(39)
                ),
            ),
            (Some(3), b"", b"ab", "expected 3 bytes, received 2: `ab`".to_owned()),
            (None, b"", b"", "expected a value, received ``".to_owned()),
        ] {
            assert_eq!(told(length, expected, received), Some(place.to_owned() + &words));
        }
        let mut first = FirstWrong::default();
        first.answer(&read, &Frame::Int(2));
        let words = "READ of key `user\\x01`: expected what had been written, received Int(2)";
        assert_eq!(first.take().as_deref(), Some(words));
    }
}
