//! `basalt ctl backup remove`: old backups go, and files that no backup needs any more.

use super::catalog::Catalog;
use super::listed::Listed;
use super::manifest::{Manifest, Unreadable};
use super::output::{print, size};
use super::place::{Place, PlaceUrl};
use super::rows;
use serde_json::json;
use std::collections::HashSet;

/// What is asked for.
pub(super) struct Wanted {
    /// How many of the newest stay.
    pub(super) keep: usize,
    /// Whether it is only shown.
    pub(super) dry_run: bool,
    /// Whether it may be that no backup stays.
    pub(super) even_all: bool,
}

/// What goes, and what stays.
#[derive(Debug, Default, PartialEq)]
struct Sorted {
    /// Backups that go.
    old: Vec<String>,
    /// Torn manifests that go with them.
    torn: Vec<String>,
    /// Torn manifests that are newer than every backup that stays: the files that they name are not known.
    kept_torn: Vec<String>,
    kept: Vec<String>,
}

/// A torn manifest is no backup, so it does not count; it goes if a backup that is newer stays.
fn sorted(catalog: &Catalog, keep: usize) -> Result<Sorted, String> {
    let mut unknown = catalog.unreadable().filter(|(_, why)| !matches!(why, Unreadable::Torn(_)));
    if let Some((id, why)) = unknown.next() {
        return Err(format!(
            "nothing is removed: backup {id} may be whole, and the files that it needs are not known: {why}"
        ));
    }
    let readable: Vec<&str> = catalog.readable().collect();
    let (old, kept) = readable.split_at(readable.len().saturating_sub(keep));
    let owned = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
    let newest = kept.last().copied().unwrap_or_default();
    let torn = catalog.unreadable().map(|(id, _)| id);
    let (torn, kept_torn): (Vec<&str>, Vec<&str>) = torn.partition(|id| *id < newest);
    Ok(Sorted { old: owned(old), torn: owned(&torn), kept_torn: owned(&kept_torn), kept: owned(kept) })
}

/// A place without a backup that stays may be the wrong one, or one whose manifests were lost: its files are all that is left.
fn require_one_that_stays(at: &PlaceUrl, sorted: &Sorted, even_all: bool) -> Result<(), String> {
    if even_all || !sorted.kept.is_empty() {
        return Ok(());
    }
    Err(format!(
        "nothing is removed: {at} has no backup that can be read, so none would stay; --even-all removes all that is there"
    ))
}

/// Keeps the newest of them.
pub(super) fn run(at: &PlaceUrl, wanted: &Wanted, as_json: bool) -> Result<bool, String> {
    let (place, dry_run) = (Place::open_present(at)?, wanted.dry_run);
    // No other command writes meanwhile, so no backup begins to use a file again that goes.
    let _lock = if dry_run { place.hold()? } else { place.prepare(true)? };
    let catalog = Catalog::read(&place)?;
    let sorted = sorted(&catalog, wanted.keep)?;
    require_one_that_stays(at, &sorted, wanted.even_all)?;
    let mut needed: HashSet<String> = HashSet::new();
    for id in &sorted.kept {
        let manifest = Manifest::read(&place, id).map_err(|why| format!("nothing is removed: backup {id}: {why}"))?;
        needed.extend(manifest.files().map(|file| file.sha256.clone()));
    }
    let goes = |file: &Listed| sorted.kept_torn.is_empty() && !needed.contains(file.name.as_str());
    let unneeded: Vec<Listed> = place.list("files")?.into_iter().filter(goes).collect();
    let bytes: u64 = unneeded.iter().map(|file| file.bytes).sum();
    if !dry_run {
        // A backup without all its files must not be listed.
        sorted.old.iter().chain(&sorted.torn).try_for_each(|id| Manifest::remove(&place, id))?;
        Manifest::settle_removals(&place)?;
        unneeded.iter().try_for_each(|file| place.remove(&rows::file_name(&file.name)))?;
    }
    for id in &sorted.kept_torn {
        bench::note!(
            "basalt ctl: backup {id} is torn, and no backup that can be read is newer: no file goes until its manifest is removed by hand"
        );
    }
    let (backups, files, stay) = (sorted.old.len() + sorted.torn.len(), unneeded.len(), sorted.kept.len());
    let verb = if dry_run { "would remove" } else { "removed" };
    print(&if as_json {
        let facts = json!({
            "dry_run": dry_run, "backups": sorted.old, "torn": sorted.torn, "files": files, "bytes": bytes,
            "backups_left": stay, "torn_left": sorted.kept_torn,
        });
        format!("{facts:#}\n")
    } else {
        let torn =
            if sorted.torn.is_empty() { String::new() } else { format!(" ({} of them torn)", sorted.torn.len()) };
        format!("{verb} {backups} backups{torn} and {files} files, {}; {stay} backups stay\n", size(bytes))
    })?;
    Ok(sorted.kept_torn.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::catalog::{Entry, Summary};
    use super::*;

    fn catalog(entries: &str) -> Catalog {
        let entry = |(index, kind): (usize, char)| {
            let id = format!("2026{index}");
            let summary = match kind {
                'b' => Ok(Summary { at_ms: 0, store: String::new(), rows: 0, bytes: 0, files: 0 }),
                't' => Err(Unreadable::Torn("cut".to_owned())),
                _ => Err(Unreadable::OtherFormat("later".to_owned())),
            };
            Entry { id, summary }
        };
        Catalog { entries: entries.chars().enumerate().map(entry).collect() }
    }

    #[test]
    fn what_goes_and_what_stays() {
        for (entries, keep, expected) in [
            ("bbbb", 2, "old 01 torn  kept_torn  kept 23"),
            ("btbt", 1, "old 0 torn 1 kept_torn 3 kept 2"),
            ("tbb", 5, "old  torn 0 kept_torn  kept 12"),
            ("tt", 1, "old  torn  kept_torn 01 kept "),
            ("", 1, "old  torn  kept_torn  kept "),
        ] {
            let sorted = sorted(&catalog(entries), keep).unwrap();
            let short = |ids: &[String]| ids.iter().map(|id| id[4..].to_owned()).collect::<String>();
            let found = [&sorted.old, &sorted.torn, &sorted.kept_torn, &sorted.kept].map(|ids| short(ids));
            let [old, torn, kept_torn, kept] = found;
            assert_eq!(format!("old {old} torn {torn} kept_torn {kept_torn} kept {kept}"), expected, "{entries}");
        }
        assert!(sorted(&catalog("bxb"), 1).unwrap_err().contains("may be whole"));
    }

    #[test]
    fn a_place_without_a_backup_keeps_its_files_unless_that_is_said() {
        let at: PlaceUrl = "place".parse().unwrap();
        for (entries, even_all, goes_on) in
            [("b", false, true), ("tb", false, true), ("", false, false), ("t", false, false), ("", true, true)]
        {
            let sorted = sorted(&catalog(entries), 1).unwrap();
            assert_eq!(require_one_that_stays(&at, &sorted, even_all).is_ok(), goes_on, "{entries} {even_all}");
        }
    }
}
