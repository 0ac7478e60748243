//! Rows on their way into a store: keys, or parts of large ones, each as one or several commands.

use super::lists::ListWriter;
use super::streams::StreamWriter;
use super::writes::{Kind, Listener, StoreWriter, Write};
use crate::moment::{BackupRow, ExpiringField, RowValue};
use client::{Frame, StoreUrl};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A store that does not answer is given up after this time, and asked so often meanwhile.
const OPENS_WITHIN: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(200);
/// Fields of a hash in one request.
const FIELDS_MAX: usize = 512;

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
            if let RowValue::List { start, elements } = &row.value {
                self.lists.append(&row.key, *start, elements)?;
            }
            if let RowValue::Stream { is_first, items } = &row.value {
                self.streams.append(&row.key, *is_first, items)?;
            }
        }
        self.make(rows.into_iter().flat_map(writes_of))?;
        self.make(expiries)?;
        Ok(gone)
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
            fields.chunks(FIELDS_MAX).map(chunk).collect()
        }
        RowValue::Expiring(fields) => {
            let mut by_time: BTreeMap<u64, Vec<ExpiringField>> = BTreeMap::new();
            fields.into_iter().for_each(|field| by_time.entry(field.at_ms).or_default().push(field));
            let chunk = |at_ms: u64, fields: &[ExpiringField]| {
                let number = |n: u64| n.to_string().into_bytes();
                let head = [b"HSETEX".to_vec(), row.key.clone(), b"PXAT".to_vec(), number(at_ms)];
                let mut args = [&head[..], &[b"FIELDS".to_vec(), number(fields.len() as u64)]].concat();
                args.extend(fields.iter().flat_map(|field| [field.field.clone(), field.value.clone()]));
                request(args)
            };
            let of_time = |(at_ms, fields): (u64, Vec<ExpiringField>)| {
                fields.chunks(FIELDS_MAX).map(|fields| chunk(at_ms, fields)).collect::<Vec<_>>()
            };
            by_time.into_iter().flat_map(of_time).collect()
        }
        RowValue::Set(members) => {
            let chunk =
                |members: &[Vec<u8>]| request([vec![b"SADD".to_vec(), row.key.clone()], members.to_vec()].concat());
            members.chunks(FIELDS_MAX).map(chunk).collect()
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
            members.chunks(FIELDS_MAX).map(chunk).collect()
        }
    }
}

/// A collection's own: SET has its expiry with it.
fn expiry_of(row: &BackupRow) -> Option<Write> {
    let is_collection = !matches!(row.value, RowValue::String(_));
    let at = row.expire_at_ms.to_string().into_bytes();
    (is_collection && row.expire_at_ms > 0).then(|| request(vec![b"PEXPIREAT".to_vec(), row.key.clone(), at]))
}
