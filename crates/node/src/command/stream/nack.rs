//! XNACK: a consumer gives pending entries back, and any other may claim them at once.

use super::claim::found;
use super::group::Pending;
use super::id::StreamId;
use super::names::ConsumerId;
use crate::Rules;
use crate::command::args::{SYNTAX, check_release, int, is_word};
use crate::command::call::{Error, Outcome, WriteCall};

const NO_MODE: &str = "ERR mode must be SILENT, FAIL, or FATAL";
const NO_IDS: &str = "ERR syntax error, expected IDS keyword";
const NOT_POSITIVE: &str = "ERR numids must be a positive integer";
const OTHER_NUMBER: &str = "ERR number of IDs doesn't match numids";
const NEGATIVE_COUNT: &str = "ERR Invalid RETRYCOUNT value, must be >= 0";
/// The highest number of ids that Redis takes.
const IDS_MAX: i64 = i32::MAX as i64;
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
    fn parse(words: &[&[u8]], rules: Rules) -> Result<Self, Error> {
        let [mode, options @ ..] = words else { return Err(SYNTAX.into()) };
        let mode = Mode::of_word(mode).ok_or(NO_MODE)?;
        let (mut options, mut found, mut deliveries, mut forces) = (options, None, None, false);
        loop {
            // Before `Rules::Fourth` the ids came first, once.
            if let [word, ..] = options
                && rules < Rules::Fourth
                && is_word(word, "IDS") == found.is_some()
            {
                return Err(SYNTAX.into());
            }
            options = match options {
                [] => break,
                [word, count, behind @ ..] if is_word(word, "IDS") => {
                    let count = resp::parse_integer(count).filter(|count| (1..=IDS_MAX).contains(count));
                    let count = usize::try_from(count.ok_or(NOT_POSITIVE)?).map_err(|_| OTHER_NUMBER)?;
                    let (ids, behind) = behind.split_at_checked(count).ok_or(OTHER_NUMBER)?;
                    found = Some(ids);
                    behind
                }
                [word, behind @ ..] if is_word(word, "FORCE") => {
                    forces = true;
                    behind
                }
                [word, count, behind @ ..] if is_word(word, "RETRYCOUNT") => {
                    deliveries = Some(u64::try_from(int(count)?).map_err(|_| NEGATIVE_COUNT)?);
                    behind
                }
                [word, ..] => {
                    let text = format!("ERR Unrecognized XNACK option '{}'", String::from_utf8_lossy(word));
                    return Err(Error::Reply(text.into()));
                }
            };
        }
        let ids = found.ok_or(NO_IDS)?.iter().map(|id| StreamId::parse(id, 0)).collect::<Result<_, _>>()?;
        Ok(Self { mode, ids, deliveries, forces })
    }
}

pub(super) fn xnack(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let (stream, mut change) = found(call)?;
    let words = Words::parse(&call.args[3..], call.space.rules())?;
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
        // Clients that wait with CLAIM are tried again once the stream's record is written.
        if call.space.rules() >= Rules::Fourth {
            stream.save_quietly(call.space)?;
        }
    }
    call.reply.int(released);
    Ok(())
}
