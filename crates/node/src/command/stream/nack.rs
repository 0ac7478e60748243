//! XNACK: a consumer gives pending entries back, and any other may claim them at once.

use super::claim::found;
use super::group::Pending;
use super::id::StreamId;
use super::names::ConsumerId;
use crate::command::args::{SYNTAX, check_release, is_word};
use crate::command::call::{Error, Outcome, WriteCall};

const NOT_POSITIVE: &str = "ERR Number of IDs must be a positive integer";
const OTHER_NUMBER: &str = "ERR The `numids` parameter must match the number of arguments";
const BAD_COUNT: &str = "ERR Invalid RETRYCOUNT option argument for XNACK";
/// The delivery count of an entry that is given up for good.
const FATAL: u64 = i64::MAX as u64;

/// Why an entry is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The consumer has not tried: its delivery does not count.
    Silent,
    /// The consumer has failed: its delivery counts.
    Fail,
    /// The entry cannot be processed: it counts as delivered more often than any bound.
    Fatal,
}

impl Mode {
    fn of_word(word: &[u8]) -> Option<Self> {
        let table = [("SILENT", Self::Silent), ("FAIL", Self::Fail), ("FATAL", Self::Fatal)];
        table.into_iter().find(|(name, _)| is_word(word, name)).map(|(_, mode)| mode)
    }

    fn deliveries_after(self, deliveries: u64) -> u64 {
        match self {
            Self::Silent => deliveries.saturating_sub(1),
            Self::Fail => deliveries,
            Self::Fatal => FATAL,
        }
    }
}

/// The arguments of XNACK behind the group.
struct Words {
    mode: Mode,
    ids: Vec<StreamId>,
    /// The delivery count that the entries get, in place of the mode's.
    deliveries: Option<u64>,
    /// Entries that are not pending become pending.
    forces: bool,
}

impl Words {
    fn parse(words: &[&[u8]]) -> Result<Self, Error> {
        let [mode, word, count, rest @ ..] = words else { return Err(SYNTAX.into()) };
        let mode = Mode::of_word(mode).filter(|_| is_word(word, "IDS")).ok_or(SYNTAX)?;
        let count = resp::parse_integer(count).filter(|count| *count > 0).ok_or(NOT_POSITIVE)?;
        let count = usize::try_from(count).map_err(|_| OTHER_NUMBER)?;
        let (ids, mut options) = rest.split_at_checked(count).ok_or(OTHER_NUMBER)?;
        let ids = ids.iter().map(|id| StreamId::parse(id, 0)).collect::<Result<_, _>>()?;
        let (mut deliveries, mut forces) = (None, false);
        loop {
            options = match options {
                [] => return Ok(Self { mode, ids, deliveries, forces }),
                [word, behind @ ..] if is_word(word, "FORCE") => {
                    forces = true;
                    behind
                }
                [word, count, behind @ ..] if is_word(word, "RETRYCOUNT") => {
                    let count = resp::parse_integer(count).and_then(|count| u64::try_from(count).ok());
                    deliveries = Some(count.ok_or(BAD_COUNT)?);
                    behind
                }
                _ => return Err(SYNTAX.into()),
            };
        }
    }
}

pub(super) fn xnack(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let words = Words::parse(&call.args[3..])?;
    let (stream, mut change) = found(call)?;
    let mut released = 0;
    for id in words.ids {
        let before = Pending::load(call.space, &stream, change.group.id, id)?;
        let (at, deliveries) = match before {
            Some(pending) => (pending.at, pending.deliveries),
            None if words.forces => match stream.get(call.space, id)? {
                Some((at, _)) => (at, 0),
                None => continue,
            },
            None => continue,
        };
        let deliveries = words.deliveries.unwrap_or_else(|| words.mode.deliveries_after(deliveries));
        let pending = Pending { consumer: ConsumerId::NONE, delivered_ms: 0, deliveries, at };
        change.put(call.space, &stream, id, before, pending)?;
        released += 1;
    }
    if released > 0 {
        change.save(call.space)?;
    }
    call.reply.int(released);
    Ok(())
}
