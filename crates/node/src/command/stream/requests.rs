//! Requests of producers: XADD with IDMP and IDMPAUTO adds an entry once, however often it is sent, and XCFGSET.
//!
//! What is known of them lies in the stream's record and rows; see the layout in `producers`.

use super::id::StreamId;
use super::names;
use super::producers::Producers;
use super::stored::Stream;
use crate::command::args::{NO_SUCH_KEY, SYNTAX, check_release, int, is_word};
use crate::command::call::{Error, Outcome, WriteCall};
use crate::{Rows, WriteSpace};
use vocab::{Malformed, Reader};
use xxhash_rust::xxh3::xxh3_128;

/// Ids that a request removes because their time is over, at most.
const SWEPT_MAX: usize = 64;

const DURATION_S: (i64, i64) = (1, 86_400);
const IDS_MAX: (i64, i64) = (1, 10_000);
const DURATION_RANGE: &str = "ERR IDMP-DURATION must be between 1 and 86400 seconds";
const IDS_RANGE: &str = "ERR IDMP-MAXSIZE must be between 1 and 10000 entries";
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
    /// `IDMP producer id` or `IDMPAUTO producer` at the beginning of some words, and how many words that takes; `None` if
    /// they begin otherwise.
    pub(super) fn parse(words: &[&[u8]]) -> Result<Option<(Self, usize)>, Error> {
        match words {
            [word, producer, id, ..] if is_word(word, "IDMP") => {
                if producer.is_empty() {
                    return Err("ERR IDMP requires a non-empty producer ID".into());
                }
                if id.is_empty() {
                    return Err("ERR IDMP requires a non-empty idempotent ID".into());
                }
                let (producer, id) = (xxh3_128(producer), RequestId::Given(xxh3_128(&[b"i", *id].concat())));
                Ok(Some((Self { producer, id }, 3)))
            }
            [word, producer, ..] if is_word(word, "IDMPAUTO") => {
                if producer.is_empty() {
                    return Err("ERR IDMPAUTO requires a non-empty producer ID".into());
                }
                Ok(Some((Self { producer: xxh3_128(producer), id: RequestId::OfFields }, 2)))
            }
            _ => Ok(None),
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

/// The numbers of a producer's ids that are known: from `first` on, before `next`.
struct Known {
    first: u64,
    next: u64,
}

/// An id that is known.
struct KnownId {
    entry: StreamId,
    added_ms: u64,
    number: u64,
}

impl KnownId {
    fn decode(row: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(row);
        let entry = StreamId { ms: reader.u64_le()?, seq: reader.u64_le()? };
        Ok(Self { entry, added_ms: reader.u64_le()?, number: reader.u64_le()? })
    }

    fn encode(&self) -> Vec<u8> {
        [self.entry.ms, self.entry.seq, self.added_ms, self.number].iter().flat_map(|n| n.to_le_bytes()).collect()
    }
}

fn is_over(producers: &Producers, known: &KnownId, now_ms: u64) -> bool {
    known.added_ms.saturating_add(producers.duration_s * 1000) <= now_ms
}

/// The numbers of the ids of a producer. Removes those whose time is over, and as many that there is room for one more.
fn sweep(
    producers: &mut Producers,
    space: &mut dyn WriteSpace,
    stream: &Stream<'_>,
    rows: &Rows,
    producer: u128,
) -> Result<Known, Error> {
    let row = space.element_get(rows, &names::producer(producers.epoch, producer))?;
    let Some(row) = row else {
        producers.producers += 1;
        return Ok(Known { first: 0, next: 0 });
    };
    let mut reader = Reader::new(&row);
    let mut numbers = || Ok(Known { first: reader.u64_le()?, next: reader.u64_le()? });
    let mut known = numbers().map_err(|why: Malformed| stream.malformed(why))?;
    for _ in 0..SWEPT_MAX {
        if known.first >= known.next {
            break;
        }
        let numbered = names::numbered_request(producers.epoch, producer, known.first);
        let Some(id) = space.element_get(rows, &numbered)? else {
            return Err(stream.corrupt("producer without one of its ids"));
        };
        let named = names::request(producers.epoch, producer, &id);
        let row = space.element_get(rows, &named)?;
        let row = row.map(|row| KnownId::decode(&row)).transpose().map_err(|why| stream.malformed(why))?;
        // The id may have come again since, and then it has another number.
        let row = row.filter(|row| row.number == known.first);
        let is_full = known.next - known.first >= producers.ids_max;
        if !is_full && row.as_ref().is_some_and(|row| !is_over(producers, row, space.now_ms())) {
            break;
        }
        if row.is_some() {
            space.element_delete(rows, &named)?;
        }
        space.element_delete(rows, &numbered)?;
        known.first += 1;
        producers.ids = producers.ids.saturating_sub(1);
    }
    Ok(known)
}

/// The entry that an earlier request of the same name has added, if that is known; it is counted. The caller saves the stream.
pub(super) fn earlier(
    space: &mut dyn WriteSpace,
    stream: &mut Stream<'_>,
    request: RequestName,
    strings: &[&[u8]],
) -> Result<Option<StreamId>, Error> {
    let (Some(producers), Some(rows)) = (stream.producers.clone(), stream.rows()) else { return Ok(None) };
    let row = space.element_get(rows, &names::request(producers.epoch, request.producer, &request.id(strings)))?;
    let Some(row) = row else { return Ok(None) };
    let known = KnownId::decode(&row).map_err(|why| stream.malformed(why))?;
    if is_over(&producers, &known, space.now_ms()) {
        return Ok(None);
    }
    stream.producers = Some(Producers { duplicates: producers.duplicates + 1, ..producers });
    Ok(Some(known.entry))
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
    let mut producers = stream.producers.clone().unwrap_or_default();
    let (producer, id) = (request.producer, request.id(strings));
    let known = sweep(&mut producers, space, stream, &rows, producer)?;
    let (epoch, number) = (producers.epoch, known.next);
    let row = KnownId { entry, added_ms: space.now_ms(), number };
    space.element_put(&rows, &names::request(epoch, producer, &id), &row.encode())?;
    space.element_put(&rows, &names::numbered_request(epoch, producer, number), &id)?;
    let numbers = [known.first.to_le_bytes(), (number + 1).to_le_bytes()].concat();
    space.element_put(&rows, &names::producer(epoch, producer), &numbers)?;
    producers.ids += 1;
    producers.ids_ever += 1;
    stream.producers = Some(producers);
    Ok(())
}

fn setting(text: &[u8], (least, most): (i64, i64), range: &'static str) -> Result<u64, Error> {
    let n = int(text)?;
    if (least..=most).contains(&n) { Ok(n.unsigned_abs()) } else { Err(range.into()) }
}

/// XCFGSET: for how long ids are known, and how many. If that changes, those that are known are forgotten.
pub(super) fn configure(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let (mut duration_s, mut ids_max) = (None, None);
    let mut words = &call.args[2..];
    while let [word, behind @ ..] = words {
        let [value, rest @ ..] = behind else { return Err(SYNTAX.into()) };
        if is_word(word, "IDMP-DURATION") {
            duration_s = Some(setting(value, DURATION_S, DURATION_RANGE)?);
        } else if is_word(word, "IDMP-MAXSIZE") {
            ids_max = Some(setting(value, IDS_MAX, IDS_RANGE)?);
        } else {
            return Err(SYNTAX.into());
        }
        words = rest;
    }
    if duration_s.is_none() && ids_max.is_none() {
        return Err(NOTHING_SET.into());
    }
    let mut stream = Stream::load(call.space, call.args[1])?.ok_or(NO_SUCH_KEY)?;
    let rows = stream.make_large(call.space)?;
    let before = stream.producers.clone().unwrap_or_default();
    let mut after = before.clone();
    after.duration_s = duration_s.unwrap_or(before.duration_s);
    after.ids_max = ids_max.unwrap_or(before.ids_max);
    if (after.duration_s, after.ids_max) != (before.duration_s, before.ids_max) {
        let prefix = [&rows.prefix[..], &names::requests(before.epoch)].concat();
        call.space.drop_rows(&Rows { prefix, count: 0 })?;
        after = Producers { epoch: before.epoch + 1, producers: 0, ids: 0, ..after };
    }
    stream.producers = Some(after);
    stream.save(call.space)?;
    call.reply.ok();
    Ok(())
}
