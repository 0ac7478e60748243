//! Restoring a backup into a store of whatever shape, through the same commands as any client's.

use super::lists::ListWriter;
use super::manifest::Manifest;
use super::place::Place;
use super::rows::{BackupRow, ExpiringField, FileFacts, RowValue, read_file};
use super::streams::StreamWriter;
use client::{Access, Answer, Ask, Frame, Pool, PoolOptions, ReadFrom, StoreUrl};
use indicatif::ProgressBar;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Threads that read files and write rows.
const THREADS: usize = 4;
/// Requests of one thread that are under way.
const WINDOW: usize = 256;
/// Fields of a hash in one request.
const FIELDS_MAX: usize = 512;
const TIMEOUT: Duration = Duration::from_secs(10);
/// Times that a request is made before the restore is given up.
const TRIES_MAX: u32 = 60;
const PAUSE: Duration = Duration::from_millis(100);

/// Writes all rows of a backup. Those that expired meanwhile are left out; says how many.
pub(crate) fn restore(
    node: &StoreUrl,
    place: &Place,
    manifest: &Manifest,
    now_ms: u64,
    progress: &ProgressBar,
) -> Result<u64, String> {
    let files: Vec<&FileFacts> = manifest.files().collect();
    let (next, expired) = (AtomicUsize::new(0), Mutex::new(0));
    let written = &FilesWritten::new(files.len());
    std::thread::scope(|scope| {
        let work = || {
            let mut writer = Writer::open(node)?;
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(file) = files.get(at) else { return Ok::<_, String>(()) };
                let rows = read_file(place, file)?;
                let count = rows.len();
                let goes_on = |row: &BackupRow| {
                    matches!(row.value, RowValue::List { start: 1.., .. } | RowValue::Stream { is_first: false, .. })
                };
                if rows.first().is_some_and(goes_on) {
                    written.await_before(at)?;
                }
                let gone = writer.write(rows, now_ms)?;
                *expired.lock() += gone;
                progress.inc(count as u64);
                written.note(at);
            }
        };
        let work = move || work().inspect_err(|_| written.break_off());
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread has panicked".to_owned())?)
    })?;
    let expired = *expired.lock();
    Ok(expired)
}

/// Which files of a backup are written: a list may go on from one file to the next.
struct FilesWritten {
    files: Vec<AtomicBool>,
    broken_off: AtomicBool,
}

impl FilesWritten {
    fn new(count: usize) -> Self {
        Self { files: (0..count).map(|_| AtomicBool::new(false)).collect(), broken_off: AtomicBool::new(false) }
    }

    fn note(&self, at: usize) {
        self.files[at].store(true, Ordering::Release);
    }

    /// A thread has failed, so some file will not be written.
    fn break_off(&self) {
        self.broken_off.store(true, Ordering::Release);
    }

    /// Waits until all files before that one are written: each is a thread's that does not wait for later ones.
    fn await_before(&self, at: usize) -> Result<(), String> {
        while !self.files[..at].iter().all(|file| file.load(Ordering::Acquire)) {
            if self.broken_off.load(Ordering::Acquire) {
                return Err(
                    "a list or a stream was not restored: a file with its first elements could not be".to_owned()
                );
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// One request: doing it twice does no harm.
struct Write {
    args: Vec<Vec<u8>>,
    tries: u32,
    /// Not before this time.
    after: Option<Instant>,
}

struct Writer {
    pool: Pool,
    lists: ListWriter,
    streams: StreamWriter,
}

impl Writer {
    fn open(node: &StoreUrl) -> Result<Self, String> {
        let options =
            PoolOptions { connections: 1, timeout: TIMEOUT, read_from: ReadFrom::Leader, greetings: Vec::new() };
        let pool = Pool::open(node, options).map_err(|e| e.to_string())?;
        Ok(Self { pool, lists: ListWriter::open(node)?, streams: StreamWriter::open(node)? })
    }

    fn write(&mut self, rows: Vec<BackupRow>, now_ms: u64) -> Result<u64, String> {
        let before = rows.len();
        let rows: Vec<BackupRow> =
            rows.into_iter().filter(|row| row.expire_at_ms == 0 || row.expire_at_ms > now_ms).collect();
        let gone = (before - rows.len()) as u64;
        // An expiry follows its hash on the same connection, so it comes behind it; a retried one is made again later, and
        // that changes nothing. So expiries are a pass of their own.
        let expiries: Vec<Write> = rows.iter().filter_map(expiry_of).collect();
        for row in &rows {
            if let RowValue::List { start, elements } = &row.value {
                self.lists.append(&row.key, *start, elements)?;
            }
            if let RowValue::Stream { is_first, items } = &row.value {
                self.streams.append(&row.key, *is_first, items)?;
            }
        }
        self.make(rows.into_iter().flat_map(writes_of).collect())?;
        self.make(expiries)?;
        Ok(gone)
    }

    /// Makes all of these, in any order.
    fn make(&mut self, writes: Vec<Write>) -> Result<(), String> {
        let mut slots: Vec<Option<Write>> = (0..WINDOW).map(|_| None).collect();
        let mut free: Vec<u32> = (0..WINDOW as u32).collect();
        let mut waiting: Vec<Write> = writes;
        waiting.reverse();
        let mut left = waiting.len();
        while left > 0 {
            let now = Instant::now();
            let ready = |write: &Write| write.after.is_none_or(|after| after <= now);
            while let Some(token) = free.last().copied()
                && let Some(at) = waiting.iter().rposition(ready)
            {
                free.pop();
                let write = waiting.swap_remove(at);
                let ask = Ask {
                    client: 0,
                    token,
                    key: Some(&write.args[1]),
                    access: Access::Repeatable,
                    arguments: write.args.len(),
                };
                let mut request = self.pool.request(ask);
                write.args.iter().for_each(|arg| _ = request.arg(arg));
                drop(request);
                slots[token as usize] = Some(write);
            }
            let mut problem = None;
            let until = Some(now + PAUSE);
            let mut each = |token: u32, answer: Answer<'_>, _: Instant| {
                let Some(mut write) = slots[token as usize].take() else { return };
                free.push(token);
                let again = match &answer {
                    Answer::Reply(Frame::Error(text)) => {
                        let text = String::from_utf8_lossy(text).into_owned();
                        let passes = ["BUSY", "TIMEOUT", "NOREPLICAS", "ERR disk full"];
                        if !passes.iter().any(|word| text.starts_with(word)) {
                            problem = Some(format!("the store refuses a row: {text}"));
                        }
                        Some(text)
                    }
                    Answer::Reply(_) => None,
                    Answer::Again(failure) | Answer::Failed(failure) => Some(failure.name().to_owned()),
                };
                match again {
                    None => left -= 1,
                    Some(why) if write.tries == TRIES_MAX => {
                        problem = Some(format!("a row could not be written, after {TRIES_MAX} tries: {why}"));
                    }
                    Some(_) => {
                        write.tries += 1;
                        write.after = Some(Instant::now() + PAUSE);
                        waiting.push(write);
                    }
                }
            };
            self.pool.wait(until, &mut each).map_err(|e| e.to_string())?;
            if let Some(problem) = problem {
                return Err(problem);
            }
        }
        Ok(())
    }
}

fn request(args: Vec<Vec<u8>>) -> Write {
    Write { args, tries: 0, after: None }
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
            let chunk = |members: &[(Vec<u8>, Vec<u8>)]| {
                let mut args = vec![b"ZADD".to_vec(), row.key.clone()];
                args.extend(members.iter().flat_map(|(member, score)| [score_text(score), member.clone()]));
                request(args)
            };
            members.chunks(FIELDS_MAX).map(chunk).collect()
        }
    }
}

/// A score as ZADD takes it: the shortest decimal that is read as the same number.
fn score_text(score: &[u8]) -> Vec<u8> {
    let score = score.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes));
    score.to_string().into_bytes()
}

/// A collection's own: SET has its expiry with it.
fn expiry_of(row: &BackupRow) -> Option<Write> {
    let is_collection = !matches!(row.value, RowValue::String(_));
    let at = row.expire_at_ms.to_string().into_bytes();
    (is_collection && row.expire_at_ms > 0).then(|| request(vec![b"PEXPIREAT".to_vec(), row.key.clone(), at]))
}
