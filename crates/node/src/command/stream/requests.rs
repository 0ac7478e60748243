//! Requests of producers: XADD with IDMP and IDMPAUTO adds an entry once, however often it is sent. XIDMPRECORD, and XCFGSET.
//!
//! What is known of them lies in the stream's record and rows: `known_requests`.

use super::id::StreamId;
use super::known_requests::KnownRequests;
use super::names;
use super::producers::Producers;
use super::stored::Stream;
use crate::command::args::{NO_SUCH_KEY, SYNTAX, check_release, int, is_word};
use crate::command::call::{Error, Outcome, WriteCall};
use crate::{Rows, Rules, WriteSpace};
use xxhash_rust::xxh3::xxh3_128;

const NOTHING_SET: &str = "ERR At least one parameter must be specified";

/// A request's producer and its id, by their hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestName {
    producer: u128,
    id: RequestId,
}

/// Where the id of a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestId {
    Given(u128),
    /// It is made of the fields.
    OfFields,
}

impl RequestName {
    fn given(producer: &[u8], id: &[u8]) -> Self {
        Self { producer: xxh3_128(producer), id: RequestId::Given(xxh3_128(&[b"i", id].concat())) }
    }

    /// `IDMP producer id` or `IDMPAUTO producer` at the beginning of some words, and how many words that takes; `None` if
    /// they begin otherwise. `is_second`: the words before have named the request.
    pub(super) fn parse(words: &[&[u8]], is_second: bool) -> Result<Option<(Self, usize)>, Error> {
        let (producer, id) = match words {
            [word, producer, id, ..] if is_word(word, "IDMP") => (*producer, Some(*id)),
            [word, producer, ..] if is_word(word, "IDMPAUTO") => (*producer, None),
            _ => return Ok(None),
        };
        if is_second {
            return Err("ERR syntax error, IDMP/IDMPAUTO specified multiple times".into());
        }
        match id {
            Some(_) if producer.is_empty() => Err("ERR syntax error, IDMP requires a non-empty producer ID".into()),
            Some(b"") => Err("ERR syntax error, IDMP requires a non-empty idempotent ID".into()),
            Some(id) => Ok(Some((Self::given(producer, id), 3))),
            None if producer.is_empty() => Err("ERR syntax error, IDMPAUTO requires a non-empty producer ID".into()),
            None => Ok(Some((Self { producer: xxh3_128(producer), id: RequestId::OfFields }, 2))),
        }
    }

    /// The hash of its id. Fields and values in another order are the same request.
    fn id(self, strings: &[&[u8]]) -> [u8; 16] {
        let id = match self.id {
            RequestId::Given(id) => id,
            RequestId::OfFields => {
                let pair = |pair: &[&[u8]]| {
                    let length = (pair[0].len() as u64).to_le_bytes();
                    xxh3_128(&[&length[..], pair[0], pair[1]].concat())
                };
                let sum = strings.chunks_exact(2).map(pair).fold(0, u128::wrapping_add);
                xxh3_128(&[&b"f"[..], &sum.to_le_bytes()].concat())
            }
        };
        id.to_be_bytes()
    }
}

/// The entry that an earlier request of the same name has added, if that is known; it is counted. The caller saves the stream.
pub(super) fn earlier(
    space: &mut dyn WriteSpace,
    stream: &mut Stream<'_>,
    request: RequestName,
    strings: &[&[u8]],
) -> Result<Option<StreamId>, Error> {
    let (Some(_), Some(rows)) = (&stream.producers, stream.rows()) else { return Ok(None) };
    let mut known = KnownRequests::of(stream, rows);
    let Some(entry) = known.entry_of(space, request.producer, &request.id(strings))? else { return Ok(None) };
    known.count_duplicate();
    known.sweep(space)?;
    stream.producers = Some(known.into_producers());
    Ok(Some(entry))
}

/// Notes the entry that a request adds. The caller saves the stream.
pub(super) fn note(
    space: &mut dyn WriteSpace,
    stream: &mut Stream<'_>,
    request: RequestName,
    strings: &[&[u8]],
    entry: StreamId,
) -> Outcome {
    let rows = stream.make_large(space)?;
    let mut known = KnownRequests::of(stream, &rows);
    known.add(space, request.producer, &request.id(strings), entry)?;
    stream.producers = Some(known.into_producers());
    Ok(())
}

/// XIDMPRECORD: a request is known from now on as if it had added an entry that is there.
pub(super) fn record(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    if call.space.rules() < Rules::Fourth {
        return Err("ERR not while nodes of an earlier release hold replicas".into());
    }
    let (producer, id, entry) = (call.args[2], call.args[3], StreamId::parse(call.args[4], 0)?);
    if producer.is_empty() {
        return Err("ERR producer ID must be non-empty".into());
    }
    if id.is_empty() {
        return Err("ERR idempotent ID must be non-empty".into());
    }
    let mut stream = Stream::load(call.space, call.args[1])?.ok_or(NO_SUCH_KEY)?;
    if stream.get(call.space, entry)?.is_none() {
        return Err("ERR No such message in stream".into());
    }
    let request = RequestName::given(producer, id);
    let known = match stream.rows() {
        Some(rows) => KnownRequests::of(&stream, rows).entry_of(call.space, request.producer, &request.id(&[]))?,
        None => None,
    };
    match known {
        Some(known) if known != entry => {
            return Err("ERR IID already exists for this producer with a different stream ID".into());
        }
        Some(_) => {}
        None => {
            note(call.space, &mut stream, request, &[], entry)?;
            stream.save_quietly(call.space)?;
        }
    }
    call.reply.ok();
    Ok(())
}

/// What a setting of XCFGSET may be, and the errors about it.
struct Setting {
    least: i64,
    most: i64,
    out_of_range: &'static str,
    repeated: &'static str,
}

const DURATION_S: Setting = Setting {
    least: 1,
    most: 86_400,
    out_of_range: "ERR IDMP-DURATION must be between 1 and 86400 seconds",
    repeated: "ERR IDMP-DURATION specified multiple times",
};

const IDS_MAX: Setting = Setting {
    least: 1,
    most: 10_000,
    out_of_range: "ERR IDMP-MAXSIZE must be between 1 and 10000 entries",
    repeated: "ERR IDMP-MAXSIZE specified multiple times",
};

impl Setting {
    fn value(&self, text: &[u8]) -> Result<u64, Error> {
        let n = int(text)?;
        if (self.least..=self.most).contains(&n) { Ok(n.unsigned_abs()) } else { Err(self.out_of_range.into()) }
    }
}

/// The words of XCFGSET behind its key.
#[derive(Default)]
struct Settings {
    duration_s: Option<u64>,
    ids_max: Option<u64>,
}

impl Settings {
    fn parse(mut words: &[&[u8]], rules: Rules) -> Result<Self, Error> {
        let mut parsed = Self::default();
        while let [word, behind @ ..] = words {
            let [value, rest @ ..] = behind else { return Err(SYNTAX.into()) };
            let (place, setting) = if is_word(word, "IDMP-DURATION") {
                (&mut parsed.duration_s, &DURATION_S)
            } else if is_word(word, "IDMP-MAXSIZE") {
                (&mut parsed.ids_max, &IDS_MAX)
            } else {
                return Err(SYNTAX.into());
            };
            // Before, the last one counted.
            if place.is_some() && rules >= Rules::Fourth {
                return Err(setting.repeated.into());
            }
            *place = Some(setting.value(value)?);
            words = rest;
        }
        let is_nothing = parsed.duration_s.is_none() && parsed.ids_max.is_none();
        if is_nothing { Err(NOTHING_SET.into()) } else { Ok(parsed) }
    }
}

/// XCFGSET: for how long ids are known, and how many. If that changes, those that are known are forgotten.
pub(super) fn configure(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let mut stream = Stream::load(call.space, call.args[1])?.ok_or(NO_SUCH_KEY)?;
    let settings = Settings::parse(&call.args[2..], call.space.rules())?;
    let rows = stream.make_large(call.space)?;
    let before = stream.producers.clone().unwrap_or_default();
    let mut after = before.clone();
    after.duration_s = settings.duration_s.unwrap_or(before.duration_s);
    after.ids_max = settings.ids_max.unwrap_or(before.ids_max);
    if (after.duration_s, after.ids_max) == (before.duration_s, before.ids_max) {
        let mut known = KnownRequests::of(&stream, &rows);
        known.sweep(call.space)?;
        stream.producers = Some(known.into_producers());
    } else {
        let prefix = [&rows.prefix[..], &names::requests(before.epoch)].concat();
        call.space.drop_rows(&Rows { prefix, count: 0 })?;
        stream.producers = Some(Producers { epoch: before.epoch + 1, producers: 0, ids: 0, ..after });
    }
    stream.save(call.space)?;
    call.reply.ok();
    Ok(())
}
