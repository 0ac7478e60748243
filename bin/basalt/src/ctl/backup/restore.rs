//! Restoring a backup into a store of whatever shape, through the same commands as any client's.

use super::manifest::Manifest;
use super::place::Place;
use super::rows::{FileFacts, read_file};
use crate::moment::{BackupRow, RowValue, connect};
use crate::store_writer::RowWriter;
use client::StoreUrl;
use indicatif::ProgressBar;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Threads that read files and write rows.
const THREADS: usize = 4;
const PAUSE: Duration = Duration::from_millis(100);

/// What is restored.
pub(crate) struct Source<'a> {
    pub(crate) place: &'a Place,
    pub(crate) manifest: &'a Manifest,
}

/// Connections to a store, one for each thread.
pub(crate) fn writers(node: &StoreUrl) -> Result<Vec<RowWriter>, String> {
    (0..THREADS).map(|_| RowWriter::open(node)).collect()
}

/// Writes all rows of a backup. Those that expired meanwhile are left out; says how many. `replaces`: its keys may be there already.
pub(crate) fn restore(
    node: &StoreUrl,
    mut writers: Vec<RowWriter>,
    Source { place, manifest }: &Source<'_>,
    (now_ms, replaces): (u64, bool),
    progress: &ProgressBar,
) -> Result<u64, String> {
    if let Some(programs) = &manifest.programs {
        programs.restore(&mut connect(node)?)?;
    }
    let files: Vec<&FileFacts> = manifest.files().collect();
    if replaces {
        bench::note!("basalt: hashes, sets and sorted sets of the backup are removed before they are written");
        writers = on_threads(writers, files.len(), |writer, at| writer.clear(read_file(place, files[at])?))?;
    }
    let (expired, written) = (Mutex::new(0), FilesWritten::new(files.len()));
    let write = |writer: &mut RowWriter, at: usize| {
        let rows = read_file(place, files[at])?;
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
        Ok::<_, String>(())
    };
    on_threads(writers, files.len(), |writer, at| write(writer, at).inspect_err(|_| written.break_off()))?;
    Ok(expired.into_inner())
}

/// Does something with each of so many files, by several threads.
fn on_threads(
    writers: Vec<RowWriter>,
    files: usize,
    deed: impl Fn(&mut RowWriter, usize) -> Result<(), String> + Sync,
) -> Result<Vec<RowWriter>, String> {
    let (next, deed) = (&AtomicUsize::new(0), &deed);
    std::thread::scope(|scope| {
        let work = move |mut writer: RowWriter| {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= files {
                    return Ok::<_, String>(writer);
                }
                deed(&mut writer, at)?;
            }
        };
        let threads: Vec<_> = writers.into_iter().map(|writer| scope.spawn(move || work(writer))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread has panicked".to_owned())?).collect()
    })
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
