//! Taking a backup: every shard is read from the node that holds its snapshot, one thread a node, while the store serves.

use super::catalog::Catalog;
use super::listed::Listed;
use super::manifest::{Manifest, ShardFacts};
use super::place::Place;
use super::programs::Programs;
use super::rows::{FileFacts, Packed, Packer, Stored};
use super::users::Users;
use crate::moment::{NodePages, ShardMoment, StoreMoment, connect};
use client::StoreUrl;
use indicatif::ProgressBar;
use parking_lot::Mutex;
use std::collections::HashMap;

/// What a backup came to.
pub(crate) struct Taken {
    pub(crate) manifest: Manifest,
    /// Files that were not there before, and their bytes as they are kept.
    pub(crate) new_files: u64,
    pub(crate) new_bytes: u64,
    /// Those of them that were there, and damaged.
    pub(crate) mended: u64,
}

/// Where files go, and which are there.
struct Shelf<'a> {
    place: &'a Place,
    files: Mutex<HashMap<String, Known>>,
    /// As earlier backups noted them.
    noted: HashMap<String, Stored>,
    totals: Mutex<Totals>,
    progress: &'a ProgressBar,
}

/// A file that the place lists.
#[derive(Clone)]
enum Known {
    /// Whether it has the right bytes is to be proved.
    Listed(Listed),
    /// It was proved or written by this backup.
    Proved(Stored),
}

/// What was written.
#[derive(Clone, Copy, Default)]
struct Totals {
    new_files: u64,
    new_bytes: u64,
    mended: u64,
}

impl<'a> Shelf<'a> {
    fn open(place: &'a Place, progress: &'a ProgressBar) -> Result<Self, String> {
        let files = place.list("files")?.into_iter().map(|file| (file.name.clone(), Known::Listed(file))).collect();
        // The newest has noted all files that are likely to come again.
        let newest = Catalog::newest(place)?;
        let noted = newest.iter().flat_map(Manifest::files);
        let noted = noted.filter_map(|file| Some((file.sha256.clone(), file.stored.clone()?))).collect();
        Ok(Self { place, files: Mutex::new(files), noted, totals: Mutex::default(), progress })
    }

    /// Has the place keep a file: what it keeps already is used again if it is whole.
    fn keep(&self, file: &Packed) -> Result<FileFacts, String> {
        let name = &file.facts.sha256;
        let known = self.files.lock().get(name).cloned();
        let proved = match &known {
            Some(Known::Proved(stored)) => Some(stored.clone()),
            Some(Known::Listed(listed)) => self.proved(file, listed),
            None => None,
        };
        let stored = match proved {
            Some(stored) => stored,
            None => self.write(file, known.is_some())?,
        };
        self.files.lock().insert(name.clone(), Known::Proved(stored.clone()));
        self.progress.inc(file.facts.rows);
        Ok(FileFacts { stored: Some(stored), ..file.facts.clone() })
    }

    /// What the place keeps under the file's name, if that holds the file's rows. A crash or a full disk leaves files that
    /// are empty or cut short.
    fn proved(&self, file: &Packed, listed: &Listed) -> Option<Stored> {
        let noted = self.noted.get(&file.facts.sha256);
        if noted.is_some_and(|noted| noted.bytes != listed.bytes) {
            return None;
        }
        // A bucket's tag is of the content, and costs no reading.
        if let Some(noted) = noted.filter(|noted| noted.tag.is_some() && noted.tag == listed.tag) {
            return Some(noted.clone());
        }
        // What cannot be read is written again.
        let Ok(bytes) = self.place.get(&file.facts.name(), listed.bytes) else { return None };
        let stored = Stored::of(&bytes, listed.tag.clone());
        let is_whole = noted.map_or_else(|| file.is_in(&bytes), |noted| noted.is_as(&stored));
        Some(stored).filter(|_| is_whole)
    }

    fn write(&self, file: &Packed, was_there: bool) -> Result<Stored, String> {
        let bytes = file.compressed()?;
        let tag = self.place.put(&file.facts.name(), &bytes)?;
        let mut totals = self.totals.lock();
        totals.new_files += 1;
        totals.new_bytes += bytes.len() as u64;
        totals.mended += u64::from(was_there);
        Ok(Stored::of(&bytes, tag))
    }
}

/// Takes a backup. What is in `place` already, and whole, is not written again.
pub(crate) fn take(node: &StoreUrl, place: &Place, progress: &ProgressBar) -> Result<Taken, String> {
    let _lock = place.prepare(false)?;
    let shelf = Shelf::open(place, progress)?;
    let moment = StoreMoment::begin(node)?;
    let mut client = connect(node)?;
    let (programs, users) = (Programs::of_store(&mut client)?, Users::of_store(&mut client)?);
    progress.set_length(moment.keys());
    let by_node = moment.by_node();
    let mut shards = std::thread::scope(|scope| {
        let threads: Vec<_> = by_node
            .iter()
            .map(|(address, shards)| scope.spawn(|| read_node(node, address, shards, &moment, &shelf)))
            .collect();
        let mut shards = Vec::new();
        for thread in threads {
            shards.extend(thread.join().map_err(|_| "a thread has panicked".to_owned())??);
        }
        Ok::<_, String>(shards)
    })?;
    shards.sort_by_key(|shard: &ShardFacts| shard.shard);
    let manifest = Manifest::new(moment.store, (moment.at_ms, moment.epoch), (programs, users), shards)?;
    manifest.write(place)?;
    let Totals { new_files, new_bytes, mended } = *shelf.totals.lock();
    Ok(Taken { manifest, new_files, new_bytes, mended })
}

/// Reads all shards that one node holds.
fn read_node(
    store: &StoreUrl,
    address: &str,
    shards: &[&ShardMoment],
    moment: &StoreMoment,
    shelf: &Shelf<'_>,
) -> Result<Vec<ShardFacts>, String> {
    let mut pages = NodePages::open(store, address, moment)?;
    shards.iter().map(|shard| read_shard(&mut pages, shard, shelf)).collect()
}

fn read_shard(pages: &mut NodePages<'_>, shard: &ShardMoment, shelf: &Shelf<'_>) -> Result<ShardFacts, String> {
    let mut files = Vec::new();
    let mut packer = Packer::default();
    pages.read(shard, |row| {
        if let Some(file) = packer.push(&row) {
            files.push(shelf.keep(&file)?);
        }
        Ok(())
    })?;
    if let Some(file) = packer.finish() {
        files.push(shelf.keep(&file)?);
    }
    Ok(ShardFacts { shard: shard.shard, slots: shard.slots.clone(), index: shard.index, keys: shard.keys, files })
}
