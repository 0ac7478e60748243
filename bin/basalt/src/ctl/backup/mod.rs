//! `basalt ctl backup` and `basalt ctl restore`: the whole store as of one moment, kept elsewhere.

mod bucket;
mod catalog;
mod listed;
mod manifest;
mod output;
mod place;
mod programs;
mod remove;
mod restore;
mod rows;
mod seal;
mod take;
mod users;

use super::ask::{Failure, reached};
use super::verdict::Verdict;
use crate::moment::{note, number_of_setting, said};
use catalog::{Catalog, Entry};
use clap::{Args, Subcommand};
use client::{Client, StoreUrl, Value as Reply};
use manifest::Manifest;
use output::{print, progress, size};
use place::{Place, PlaceUrl};
use remove::Wanted;
use serde_json::{Value, json};
use std::time::{Instant, SystemTime};

const AFTER_BACKUP: &str = "\
PLACE is a directory, or s3://BUCKET/PREFIX. For S3, the environment has the access, as for S3's own tools: \
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, and AWS_ENDPOINT_URL for another provider than Amazon. \
All backups of a place share files: an unchanged file is not written again.

Examples:
  basalt ctl backup take --to /var/backups/basalt       back the store up while it serves
  basalt ctl backup list --at s3://backups/basalt       list the backups
  basalt ctl backup verify --at /var/backups/basalt     read and check every byte of the newest
  basalt ctl backup remove --at /var/backups/basalt --keep 7
  basalt ctl restore --from /var/backups/basalt --node 10.0.0.9:7000";

/// Back the store up; list, verify and remove backups
#[derive(Args, Debug)]
#[command(after_help = AFTER_BACKUP)]
pub(super) struct BackupOptions {
    /// What to do
    #[command(subcommand)]
    command: BackupCommand,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Copy the whole store at one moment, while it serves
    Take {
        /// Where the backup goes
        #[arg(long, value_name = "PLACE")]
        to: PlaceUrl,
    },
    /// List the backups of a place
    List {
        /// Which place
        #[arg(long, value_name = "PLACE")]
        at: PlaceUrl,
    },
    /// Read a backup to its last byte and check it
    Verify {
        /// Which place
        #[arg(long, value_name = "PLACE")]
        at: PlaceUrl,
        /// Which backup; the newest if none is named
        #[arg(long, value_name = "ID")]
        backup: Option<String>,
    },
    /// Remove old backups, and files that no backup needs any more
    Remove {
        /// Which place
        #[arg(long, value_name = "PLACE")]
        at: PlaceUrl,
        /// How many of the newest stay
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        keep: u32,
        /// Only show what would be removed
        #[arg(long)]
        dry_run: bool,
        /// Remove all files also where no backup is that can be read, so that none stays
        #[arg(long)]
        even_all: bool,
    },
}

/// Restore a backup into an empty store, with any number of nodes and shards
#[derive(Args, Debug)]
#[command(after_help = AFTER_BACKUP)]
pub(super) struct RestoreOptions {
    /// The backup's place
    #[arg(long, value_name = "PLACE")]
    from: PlaceUrl,
    /// Which backup; the newest if none is named
    #[arg(long, value_name = "ID")]
    backup: Option<String>,
    /// Restore into a store that holds keys: the backup's keys take the place of those of the same name, other keys stay
    #[arg(long)]
    into_existing: bool,
    /// Leave the backup's users out
    #[arg(long)]
    without_users: bool,
}

/// Does what the options say.
pub(super) fn run(options: &BackupOptions, node: &StoreUrl, as_json: bool) -> Result<Verdict, Failure> {
    let done = match &options.command {
        BackupCommand::Take { to } => return take(node, to, as_json),
        BackupCommand::List { at } => list(at, as_json),
        BackupCommand::Verify { at, backup } => verify(at, backup.as_deref(), as_json),
        BackupCommand::Remove { at, keep, dry_run, even_all } => {
            remove::run(at, &Wanted { keep: *keep as usize, dry_run: *dry_run, even_all: *even_all }, as_json)
        }
    };
    Ok(Verdict::of(done?))
}

fn take(node: &StoreUrl, to: &PlaceUrl, as_json: bool) -> Result<Verdict, Failure> {
    let place = Place::open(to)?;
    reached(node)?;
    let started = Instant::now();
    let progress = progress("backing up");
    let taken = take::take(node, &place, &progress).inspect_err(|e| {
        note(node, "BACKUP", &format!("a backup to {to} has failed: {e}"));
    })?;
    progress.finish_and_clear();
    let (manifest, seconds) = (&taken.manifest, started.elapsed().as_secs_f64());
    let (id, rows) = (&manifest.id, manifest.rows());
    note(node, "BACKUP", &format!("backup {id} was taken to {to}: {rows} rows, {}", size(manifest.bytes())));
    if taken.mended > 0 {
        let files = taken.mended;
        bench::note!("basalt ctl: {files} files of earlier backups were damaged, and are written again: see the disk");
    }
    if manifest.users.is_none() {
        bench::note!("basalt ctl: the store's users are not in the backup: that takes a user with the role administer");
    }
    if as_json {
        let facts = json!({
            "backup": manifest.id, "rows": manifest.rows(), "bytes": manifest.bytes(), "files": manifest.files().count(),
            "new_files": taken.new_files, "new_bytes": taken.new_bytes, "mended_files": taken.mended,
            "seconds": seconds,
        });
        print(&format!("{facts:#}\n"))?;
    } else {
        print(&format!(
            "backup {} in {to}: {} rows, {} in {} files; {} of them new, {} written; {seconds:.1} s\n",
            manifest.id,
            manifest.rows(),
            size(manifest.bytes()),
            manifest.files().count(),
            taken.new_files,
            size(taken.new_bytes),
        ))?;
    }
    Ok(Verdict::Good)
}

fn list(at: &PlaceUrl, as_json: bool) -> Result<bool, String> {
    let catalog = Catalog::read(&Place::open_present(at)?)?;
    let is_whole = catalog.unreadable().next().is_none();
    let text = if as_json {
        format!("{:#}\n", json!(catalog.entries.iter().map(entry_json).collect::<Vec<_>>()))
    } else if catalog.entries.is_empty() {
        format!("no backup in {at}\n")
    } else {
        let head = ["BACKUP", "AT", "STORE", "ROWS", "BYTES", "FILES"].map(str::to_owned);
        row(&head) + &catalog.entries.iter().map(entry_row).collect::<String>()
    };
    print(&text)?;
    Ok(is_whole)
}

fn entry_json(entry: &Entry) -> Value {
    match &entry.summary {
        Ok(found) => json!({ "backup": entry.id, "at": bench::report::rfc3339(found.at_ms), "store": found.store,
            "rows": found.rows, "bytes": found.bytes, "files": found.files }),
        Err(unreadable) => json!({ "backup": entry.id, "damage": unreadable.to_string() }),
    }
}

fn entry_row(entry: &Entry) -> String {
    match &entry.summary {
        Ok(found) => row(&[
            entry.id.clone(),
            bench::report::rfc3339(found.at_ms),
            found.store.clone(),
            found.rows.to_string(),
            size(found.bytes),
            found.files.to_string(),
        ]),
        Err(unreadable) => format!("{:<18} CANNOT BE READ: {unreadable}\n", entry.id),
    }
}

fn row([id, at, store, rows, bytes, files]: &[String; 6]) -> String {
    format!("{id:<18} {at:<21} {store:<17} {rows:>12} {bytes:>10} {files:>6}\n")
}

/// The backup of that name, or the newest that can be read; if others are newer, the user is told.
fn chosen(place: &Place, id: Option<&str>) -> Result<(Manifest, Vec<String>), String> {
    let catalog = Catalog::read(place)?;
    let mut damage: Vec<String> =
        catalog.unreadable().map(|(id, why)| format!("backup {id} cannot be read: {why}")).collect();
    if id.is_some() {
        damage.clear();
    }
    damage.iter().for_each(|text| bench::note!("basalt ctl: {text}"));
    Ok((catalog.choose(place, id)?, damage))
}

fn verify(at: &PlaceUrl, backup: Option<&str>, as_json: bool) -> Result<bool, String> {
    let place = Place::open_present(at)?;
    let _lock = place.hold()?;
    let (manifest, mut damage) = chosen(&place, backup)?;
    let others = damage.len();
    let progress = progress("verifying");
    progress.set_length(manifest.rows());
    damage.extend(manifest.programs.as_ref().and_then(|programs| programs.check_functions().err()));
    for file in manifest.files() {
        if let Err(e) = rows::read_file(&place, file) {
            damage.push(e);
        }
        progress.inc(file.rows);
    }
    progress.finish_and_clear();
    if as_json {
        print(&format!("{:#}\n", json!({ "backup": manifest.id, "rows": manifest.rows(), "damage": damage })))?;
    } else if damage.len() == others {
        print(&format!("backup {}: all {} rows are there and whole\n", manifest.id, manifest.rows()))?;
    } else {
        damage[others..].iter().for_each(|text| bench::note!("basalt ctl: {text}"));
        let files = manifest.files().count();
        print(&format!("backup {} is damaged: {} faults in {files} files\n", manifest.id, damage.len() - others))?;
    }
    Ok(damage.is_empty())
}

/// How many keys the store holds: those of clusters' clients, and those of all databases.
fn keys_of_all(client: &mut Client) -> Result<i64, String> {
    let mut setting = |name: &str| {
        let number = number_of_setting(&said(client, &[b"CONFIG", b"GET", name.as_bytes()])?);
        number.ok_or_else(|| format!("the store does not say what {name} is"))
    };
    let (databases, of_clusters) = (setting("databases")?, setting("cluster-databases")?);
    // Each database has a leader of its own, which may change under way.
    let mut count = |words: &[&[u8]]| match client.call_repeatable(&[&[&b"DBSIZE"[..]], words].concat()) {
        Ok(Reply::Int(keys)) => Ok(keys),
        Ok(Reply::Error(text)) => Err(format!("{} does not count keys: {text}", client.address())),
        Ok(_) => Err("the store's answer to DBSIZE cannot be read".to_owned()),
        Err(e) => Err(format!("{}: {e}", client.address())),
    };
    let mut keys = count(&[b"STORE"])?;
    for number in 1..of_clusters {
        keys += count(&[b"STORE", b"SELECTED", number.to_string().as_bytes()])?;
    }
    for number in 0..databases {
        keys += count(&[b"DATABASE", number.to_string().as_bytes()])?;
    }
    Ok(keys)
}

/// Restores a backup.
pub(super) fn run_restore(options: &RestoreOptions, node: &StoreUrl, as_json: bool) -> Result<Verdict, Failure> {
    let place = Place::open_present(&options.from)?;
    let _lock = place.hold()?;
    let (manifest, _) = chosen(&place, options.backup.as_deref())?;
    let mut client = reached(node)?;
    let before = keys_of_all(&mut client)?;
    if before > 0 && !options.into_existing {
        let text = format!("the store holds {before} keys: restore into an empty one, or say --into-existing");
        return Err(Failure::Refused(text));
    }
    let started = Instant::now();
    let expired = write_rows(options, node, &place, &manifest)?;
    let counted = keys_of_all(&mut client).map_err(|e| format!("all rows are restored, and no users yet: {e}"));
    let (after, seconds) = (counted?, started.elapsed().as_secs_f64());
    // The last of it: who restores may have no rights behind that.
    let users = manifest.users.as_ref().filter(|_| !options.without_users);
    let users = users.map_or(Ok(0), |users| users.restore(&mut client))?;
    if as_json {
        let facts = json!({
            "backup": manifest.id, "rows": manifest.rows(), "expired": expired, "keys": after, "users": users,
            "seconds": seconds,
        });
        print(&format!("{facts:#}\n"))?;
    } else {
        let rows = manifest.rows();
        print(&format!(
            "restored backup {}: {rows} rows, {expired} had expired, {users} users; the store holds {after} keys; \
             {seconds:.1} s\n",
            manifest.id
        ))?;
    }
    Ok(Verdict::Good)
}

/// Writes all but the users, and says how many rows had expired.
fn write_rows(options: &RestoreOptions, node: &StoreUrl, place: &Place, manifest: &Manifest) -> Result<u64, String> {
    let writers = restore::writers(node).map_err(|e| format!("nothing was written, the store is as it was: {e}"))?;
    let (id, from, all) = (&manifest.id, &options.from, manifest.rows());
    let progress = progress("restoring");
    progress.set_length(all);
    let now_ms = bench::report::unix_ms(SystemTime::now());
    note(node, "RESTORE", &format!("backup {id} of {from} is being restored: {all} rows"));
    let source = restore::Source { place, manifest };
    let expired = restore::restore(node, writers, &source, (now_ms, options.into_existing), &progress).map_err(|e| {
        note(node, "RESTORE", &format!("the restore of backup {id} has failed: {e}"));
        let rows = progress.position();
        let gone = match options.into_existing {
            true => ", and may lack hashes, sets and sorted sets that it had by the names of the backup's keys",
            false => "",
        };
        format!("{e}. About {rows} of {all} rows were written before: the store holds a part of the backup{gone}. `ctl backup verify` tells all that is \
                 damaged; restore again, this backup or another, with --into-existing or behind FLUSHALL")
    })?;
    progress.finish_and_clear();
    note(node, "RESTORE", &format!("backup {id} is restored; {expired} rows had expired"));
    Ok(expired)
}
