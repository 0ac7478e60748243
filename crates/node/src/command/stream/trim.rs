//! How far XADD and XTRIM cut a stream.

use super::entry::Entry;
use super::id::{NewId, StreamId};
use super::meta::Ordinal;
use super::references::{self, Groups, References};
use super::requests::RequestName;
use super::stored::Stream;
use super::write::{delete, trim_to};
use crate::command::args::{SYNTAX, int, is_word};
use crate::command::call::Error;
use crate::format::packing::Packing;
use crate::{ReadSpace, Rules, WriteSpace};
use vocab::limits::{STREAM_TRIM_LIMIT, STREAM_TRIM_LIMIT_MAX};

const TWICE: &str = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";

/// What the cut keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// MAXLEN: this many entries, the last ones.
    Length(u64),
    /// MINID: the entries from this id on.
    From(StreamId),
}

/// How a stream is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trim {
    keep: Keep,
    /// `~`: only whole runs of entries are removed.
    is_rough: bool,
    /// For `~`: the most entries that are removed. `None`: as many as the settings say; 0: any number.
    limit: Option<u64>,
    references: References,
}

/// The arguments of XADD before its fields, or those of XTRIM behind its key.
#[derive(Debug, Default)]
pub(super) struct TrimWords {
    pub(super) trim: Option<Trim>,
    pub(super) no_stream: bool,
    /// For XADD: the request is applied once.
    pub(super) request: Option<RequestName>,
    /// For XADD: the id; `None` for `*`.
    pub(super) id: Option<NewId>,
    /// The number of these arguments: the fields of XADD begin behind them.
    pub(super) count: usize,
}

impl TrimWords {
    /// Parses the arguments behind the key; for XADD they end with the id.
    pub(super) fn parse(words: &[&[u8]], of_xadd: bool, rules: Rules) -> Result<Self, Error> {
        let mut parsed = Self::default();
        let (mut keep, mut is_rough, mut limit) = (None, false, None);
        let mut references = None;
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let has_more = at + 1 < words.len();
            at += 1;
            if of_xadd && *word == b"*" {
                break;
            } else if has_more && (is_word(word, "MAXLEN") || is_word(word, "MINID")) {
                if keep.is_some() {
                    return Err(TWICE.into());
                }
                is_rough = false;
                if at + 1 < words.len() && matches!(words[at], b"~" | b"=") {
                    is_rough = words[at] == b"~";
                    at += 1;
                }
                keep = Some(Self::keep(word, words[at])?);
                at += 1;
            } else if has_more && is_word(word, "LIMIT") {
                let most = u64::try_from(int(words[at])?);
                limit = Some(most.map_err(|_| Error::from("ERR The LIMIT argument must be >= 0."))?);
                at += 1;
            } else if of_xadd
                && let Some((request, count)) = RequestName::parse(&words[at - 1..], parsed.request.is_some())?
            {
                parsed.request = Some(request);
                at += count - 1;
            } else if of_xadd && is_word(word, "NOMKSTREAM") {
                parsed.no_stream = true;
            } else if let Some(asked) = References::of_next_word(word, references, rules) {
                references = Some(asked);
            } else if of_xadd {
                parsed.id = Some(NewId::parse(word, 0)?);
                break;
            } else {
                return Err(SYNTAX.into());
            }
        }
        parsed.count = at;
        if parsed.request.is_some() && parsed.id.is_some() {
            return Err("ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs".into());
        }
        if limit.is_some_and(|limit| limit > 0) && keep.is_none() {
            return Err("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy".into());
        }
        if !of_xadd && keep.is_none() {
            return Err("ERR syntax error, XTRIM must be called with a trimming strategy".into());
        }
        if limit.is_some() && !is_rough {
            return Err("ERR syntax error, LIMIT cannot be used without the special ~ option".into());
        }
        let references = references.unwrap_or_default();
        parsed.trim = keep.map(|keep| Trim { keep, is_rough, limit, references });
        Ok(parsed)
    }

    fn keep(word: &[u8], amount: &[u8]) -> Result<Keep, Error> {
        if is_word(word, "MINID") {
            return Ok(Keep::From(StreamId::parse(amount, 0)?));
        }
        let length = u64::try_from(int(amount)?);
        Ok(Keep::Length(length.map_err(|_| Error::from("ERR The MAXLEN argument must be >= 0."))?))
    }
}

/// Cuts a stream; answers how many entries were removed. The caller saves the stream.
pub(super) fn cut(space: &mut dyn WriteSpace, stream: &mut Stream<'_>, trim: Trim) -> Result<u64, Error> {
    let mut to = match trim.keep {
        Keep::Length(length) => stream.behind(space, stream.meta.length.saturating_sub(length))?,
        Keep::From(id) => stream.find(space, id)?,
    };
    if trim.is_rough {
        let packing = space.packing();
        let run = run_of(stream, &packing);
        to = whole_runs(stream, to, run);
        let limit = trim.limit.unwrap_or_else(|| limit_of(&packing));
        if limit > 0 {
            let most = stream.behind(space, limit)?;
            to = to.min(whole_runs(stream, most, run));
        }
    }
    let first = stream.meta.first;
    if to <= first {
        return Ok(0);
    }
    if trim.references == References::Acknowledged {
        return cut_acknowledged(space, stream, trim, to);
    }
    let removed = to.0 - first.0 - gone(space, stream, to)?;
    let removes_references = trim.references == References::Remove;
    let leaves_others = space.rules() >= Rules::Fourth;
    if removes_references && leaves_others {
        references::forget_trimmed(space, stream, to)?;
    }
    trim_to(space, stream, to, removed)?;
    if removes_references && !leaves_others {
        // What was pending of entries that had gone before goes, too.
        let names = Groups::names(space, stream)?;
        let mut groups = Groups::load(space, stream, &names)?;
        let end = if stream.meta.length == 0 { StreamId::MAX } else { stream.meta.first_id };
        groups.forget_before(space, stream, end, None)?;
        groups.save(space)?;
    }
    Ok(removed)
}

/// Removes the entries before `to` that all groups have acknowledged. If the length is to be exact, entries behind `to` are removed in
/// place of those that stay.
fn cut_acknowledged(
    space: &mut dyn WriteSpace,
    stream: &mut Stream<'_>,
    trim: Trim,
    to: Ordinal,
) -> Result<u64, Error> {
    let (end, length) = match trim.keep {
        Keep::Length(length) if !trim.is_rough => (stream.meta.next, length),
        Keep::Length(_) | Keep::From(_) => (to, 0),
    };
    let names = Groups::names(space, stream)?;
    let groups = Groups::load(space, stream, &names)?;
    let (mut at, mut removed) = (stream.meta.first, 0);
    while stream.meta.length > length
        && let Some((found, entry)) = stream.live_from(space, at, end)?
    {
        if !groups.need(space, stream, entry.id)? {
            delete(space, stream, entry.id)?;
            removed += 1;
        }
        at = Ordinal(found.0 + 1);
    }
    Ok(removed)
}

fn gone(space: &mut dyn ReadSpace, stream: &Stream<'_>, to: Ordinal) -> Result<u64, Error> {
    stream.gone_between(space, stream.meta.first, to)
}

/// The end of the last run that ends at `to` or before it. The last run of the stream ends with it.
fn whole_runs(stream: &Stream<'_>, to: Ordinal, run: u64) -> Ordinal {
    if to == stream.meta.next { to } else { Ordinal(to.0 - to.0 % run) }
}

/// How many entries make a run: about as many as Redis would keep in one node.
fn run_of(stream: &Stream<'_>, packing: &Packing) -> u64 {
    let entry_bytes = (stream.meta.bytes / stream.meta.length.max(1)).max(1);
    let by_bytes = if packing.run_bytes == 0 { u64::MAX } else { (packing.run_bytes / entry_bytes).max(1) };
    let by_entries = if packing.run_entries == 0 { u64::MAX } else { packing.run_entries };
    by_bytes.min(by_entries)
}

/// The most entries that a cut with `~` removes without LIMIT.
fn limit_of(packing: &Packing) -> u64 {
    match packing.run_entries.saturating_mul(100) {
        0 => STREAM_TRIM_LIMIT,
        limit => limit.min(STREAM_TRIM_LIMIT_MAX),
    }
}

/// The id that XADD gives its entry.
pub(super) fn new_id(stream: &Stream<'_>, asked: Option<NewId>, now_ms: u64) -> Result<StreamId, Error> {
    const NOT_ABOVE: &str = "ERR The ID specified in XADD is equal or smaller than the target stream top item";
    let last = stream.meta.last_id;
    let id = match asked {
        None if now_ms > last.ms => Some(StreamId { ms: now_ms, seq: 0 }),
        None => last.next(),
        Some(NewId::NextOf(ms)) if ms == last.ms => last.seq.checked_add(1).map(|seq| StreamId { ms, seq }),
        Some(NewId::NextOf(ms)) => Some(StreamId { ms, seq: 0 }),
        Some(NewId::Given(id)) => Some(id),
    };
    id.filter(|id| *id > last).ok_or_else(|| NOT_ABOVE.into())
}

/// An entry of fields and values in turn.
pub(super) fn new_entry(id: StreamId, strings: &[&[u8]]) -> Entry {
    Entry { id, fields: storage::Slice::from(super::entry::encode_fields(strings)) }
}
