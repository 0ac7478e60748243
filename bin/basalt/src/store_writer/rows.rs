//! Rows on their way into a store: keys, or parts of large ones, each as one or several commands.

use super::lists::ListWriter;
use super::parts::parts;
use super::streams::StreamWriter;
use super::writes::{Kind, Listener, StoreWriter, Write};
use crate::moment::{BackupRow, ExpiringField, RowValue};
use bench::report::unix_ms;
use client::{Frame, StoreUrl};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

/// A store that does not answer is given up after this time, and asked so often meanwhile.
const OPENS_WITHIN: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(200);
/// No command takes a later time for a field than this, in ms since the epoch, but RESTORE.
const FIELD_EXPIRES_MAX_MS: u64 = (1 << 46) - 1;
/// So far the clock of the store may be ahead of this machine's, in ms.
const CLOCKS_APART_MS: u64 = 60_000;

/// Writes rows.
pub(crate) struct RowWriter {
    writes: StoreWriter,
    lists: ListWriter,
    streams: StreamWriter,
}

impl RowWriter {
    /// Opens a store. One that has been reached may stand still for a moment, or has just lost a node: it is waited for.
    pub(crate) fn open(node: &StoreUrl) -> Result<Self, String> {
        let until = Instant::now() + OPENS_WITHIN;
        let mut is_told = false;
        loop {
            match Self::try_open(node) {
                Err(why) if Instant::now() < until => {
                    if !is_told {
                        let seconds = OPENS_WITHIN.as_secs();
                        bench::note!("basalt: waiting for the store to answer, up to {seconds} s: {why}");
                    }
                    is_told = true;
                    std::thread::sleep(PAUSE);
                }
                opened => return opened,
            }
        }
    }

    fn try_open(node: &StoreUrl) -> Result<Self, String> {
        let (lists, streams) = (ListWriter::open(node)?, StreamWriter::open(node)?);
        Ok(Self { writes: StoreWriter::open(node)?, lists, streams })
    }

    /// Writes rows; those of a list or a stream follow on those before. Those that have expired are left out: how many.
    pub(crate) fn write(&mut self, rows: Vec<BackupRow>, now_ms: u64) -> Result<u64, String> {
        let before = rows.len();
        let rows: Vec<BackupRow> =
            rows.into_iter().filter(|row| row.expire_at_ms == 0 || row.expire_at_ms > now_ms).collect();
        let gone = (before - rows.len()) as u64;
        // An expiry that came before its collection would change nothing. So expiries are a pass of their own.
        let expiries: Vec<Write> = rows.iter().filter_map(expiry_of).collect();
        for row in &rows {
            let written = match &row.value {
                RowValue::List { start, elements } => self.lists.append(&row.key, *start, elements),
                RowValue::Stream { is_first, items } => self.streams.append(&row.key, *is_first, items),
                _ => Ok(()),
            };
            if let Err(why) = written
                && !may_have_expired(row)
            {
                return Err(why);
            }
        }
        self.make(rows.into_iter().flat_map(writes_of))?;
        self.make(expiries)?;
        Ok(gone)
    }

    /// Removes the keys of these rows that would be added to what is there: hashes, sets and sorted sets. All others replace it.
    pub(crate) fn clear(&mut self, rows: Vec<BackupRow>) -> Result<(), String> {
        let adds = |row: &BackupRow| {
            matches!(row.value, RowValue::Hash(_) | RowValue::Expiring(_) | RowValue::Set(_) | RowValue::SortedSet(_))
        };
        let mut keys: Vec<Vec<u8>> = rows.into_iter().filter(adds).map(|row| row.key).collect();
        keys.dedup();
        self.make(keys.into_iter().map(|key| request(vec![b"UNLINK".to_vec(), key])))
    }

    /// Makes all of these, in any order.
    fn make(&mut self, writes: impl IntoIterator<Item = Write>) -> Result<(), String> {
        let mut refusal = Refusal::default();
        for write in writes {
            self.writes.write(write, &mut refusal)?;
        }
        self.writes.drain(&mut refusal)?;
        match refusal.0 {
            Some(why) => Err(format!("the store refuses a row: {why}")),
            None => Ok(()),
        }
    }
}

/// The first refusal.
#[derive(Default)]
struct Refusal(Option<String>);

impl Listener for Refusal {
    fn done(&mut self, _: &Write, _: &Frame<'_>) {}

    fn refused(&mut self, _: &Write, why: &str) {
        self.0.get_or_insert_with(|| why.to_owned());
    }
}

/// Whether a key may have gone by itself while it was written.
fn may_have_expired(row: &BackupRow) -> bool {
    row.expire_at_ms > 0 && row.expire_at_ms <= unix_ms(SystemTime::now()) + CLOCKS_APART_MS
}

/// A request about the key that follows on its name. Making it twice does no harm.
fn request(args: Vec<Vec<u8>>) -> Write {
    Write { kind: Kind::Free, args, key: 1 }
}

fn writes_of(row: BackupRow) -> Vec<Write> {
    match row.value {
        RowValue::String(value) if row.expire_at_ms > 0 => {
            let at = row.expire_at_ms.to_string().into_bytes();
            vec![request(vec![b"SET".to_vec(), row.key, value, b"PXAT".to_vec(), at])]
        }
        RowValue::String(value) => vec![request(vec![b"SET".to_vec(), row.key, value])],
        RowValue::Hash(fields) => {
            let chunk = |fields: &[(Vec<u8>, Vec<u8>)]| {
                let mut args = vec![b"HSET".to_vec(), row.key.clone()];
                args.extend(fields.iter().flat_map(|(field, value)| [field.clone(), value.clone()]));
                request(args)
            };
            parts(&fields, |(field, value)| field.len() + value.len()).into_iter().map(chunk).collect()
        }
        RowValue::Expiring(fields) => {
            let mut by_time: BTreeMap<u64, Vec<ExpiringField>> = BTreeMap::new();
            for field in fields {
                by_time.entry(field.at_ms.min(FIELD_EXPIRES_MAX_MS)).or_default().push(field);
            }
            let chunk = |at_ms: u64, fields: &[ExpiringField]| {
                let number = |n: u64| n.to_string().into_bytes();
                let head = [b"HSETEX".to_vec(), row.key.clone(), b"PXAT".to_vec(), number(at_ms)];
                let mut args = [&head[..], &[b"FIELDS".to_vec(), number(fields.len() as u64)]].concat();
                args.extend(fields.iter().flat_map(|field| [field.field.clone(), field.value.clone()]));
                request(args)
            };
            let of_time = |(at_ms, fields): (u64, Vec<ExpiringField>)| {
                let bytes = |field: &ExpiringField| field.field.len() + field.value.len();
                parts(&fields, bytes).into_iter().map(|fields| chunk(at_ms, fields)).collect::<Vec<_>>()
            };
            by_time.into_iter().flat_map(of_time).collect()
        }
        RowValue::Set(members) => {
            let chunk =
                |members: &[Vec<u8>]| request([vec![b"SADD".to_vec(), row.key.clone()], members.to_vec()].concat());
            parts(&members, Vec::len).into_iter().map(chunk).collect()
        }
        // In an order of their own: `ListWriter`, `StreamWriter`.
        RowValue::List { .. } | RowValue::Stream { .. } => Vec::new(),
        RowValue::SortedSet(members) => {
            let chunk = |members: &[(Vec<u8>, f64)]| {
                let mut args = vec![b"ZADD".to_vec(), row.key.clone()];
                // The shortest decimal that is read as the same number.
                let scored = |(member, score): &(Vec<u8>, f64)| [score.to_string().into_bytes(), member.clone()];
                args.extend(members.iter().flat_map(scored));
                request(args)
            };
            parts(&members, |(member, _)| member.len()).into_iter().map(chunk).collect()
        }
    }
}

/// A collection's own: SET has its expiry with it.
fn expiry_of(row: &BackupRow) -> Option<Write> {
    let is_collection = !matches!(row.value, RowValue::String(_));
    let at = row.expire_at_ms.to_string().into_bytes();
    (is_collection && row.expire_at_ms > 0).then(|| request(vec![b"PEXPIREAT".to_vec(), row.key.clone(), at]))
}
