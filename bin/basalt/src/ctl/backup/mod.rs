//! `basalt ctl backup` and `basalt ctl restore`: the whole store as of one moment, kept elsewhere.

mod bucket;
mod manifest;
mod place;
mod restore;
mod rows;
mod take;

use super::Verdict;
use super::ask::Failure;
use clap::{Args, Subcommand};
use client::{Client, StoreUrl, Value};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use manifest::Manifest;
use place::{Place, PlaceUrl};
use serde_json::json;
use std::collections::HashSet;
use std::io::IsTerminal;
use std::time::{Duration, Instant, SystemTime};
use vocab::limits::EVENT_BYTES_MAX;

const CONNECT_WITHIN: Duration = Duration::from_secs(3);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

const AFTER_BACKUP: &str = "\
PLACE is a directory, or s3://BUCKET/PREFIX with the access in the environment, as S3's own tools read it:
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, and AWS_ENDPOINT_URL for a store that is not
Amazon's. Files are shared by all backups of a place: one that has not changed since is not written again.

Examples:
  basalt ctl backup take --to /var/backups/basalt       back the store up, as of now, while it serves
  basalt ctl backup list --at s3://backups/basalt       which backups there are
  basalt ctl backup verify --at /var/backups/basalt     read every byte of the newest, and check it
  basalt ctl backup remove --at /var/backups/basalt --keep 7
  basalt ctl restore --from /var/backups/basalt --node 10.0.0.9:7000";

/// Back the store up, and look after backups
#[derive(Args, Debug)]
#[command(after_help = AFTER_BACKUP)]
pub(super) struct BackupOptions {
    /// What to do
    #[command(subcommand)]
    command: BackupCommand,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Copy the whole store, as of one moment, while it serves
    Take {
        /// Where to
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
        /// Only say what would go
        #[arg(long)]
        dry_run: bool,
    },
}

/// Restore a backup into an empty store, of whatever shape
#[derive(Args, Debug)]
#[command(after_help = AFTER_BACKUP)]
pub(super) struct RestoreOptions {
    /// The backup's place
    #[arg(long, value_name = "PLACE")]
    from: PlaceUrl,
    /// Which backup; the newest if none is named
    #[arg(long, value_name = "ID")]
    backup: Option<String>,
    /// Write into a store that holds keys: those of the backup overwrite them, others stay
    #[arg(long)]
    into_existing: bool,
}

/// Does what the options say.
pub(super) fn run(options: &BackupOptions, node: &StoreUrl, as_json: bool) -> Result<Verdict, Failure> {
    let done = match &options.command {
        BackupCommand::Take { to } => take(node, to, as_json),
        BackupCommand::List { at } => list(at, as_json),
        BackupCommand::Verify { at, backup } => verify(at, backup.as_deref(), as_json),
        BackupCommand::Remove { at, keep, dry_run } => remove(at, *keep as usize, *dry_run),
    };
    done.map(Verdict::of).map_err(Failure::Refused)
}

fn take(node: &StoreUrl, to: &PlaceUrl, as_json: bool) -> Result<bool, String> {
    let place = Place::open(to)?;
    let started = Instant::now();
    let progress = progress("backing up");
    let taken = take::take(node, &place, &progress).inspect_err(|e| {
        note(node, "BACKUP", &format!("a backup to {to} has failed: {e}"));
    })?;
    progress.finish_and_clear();
    let (manifest, seconds) = (&taken.manifest, started.elapsed().as_secs_f64());
    let (id, rows) = (&manifest.id, manifest.rows());
    note(node, "BACKUP", &format!("backup {id} was taken to {to}: {rows} rows, {}", size(manifest.bytes())));
    if as_json {
        let facts = json!({
            "backup": manifest.id, "rows": manifest.rows(), "bytes": manifest.bytes(), "files": manifest.files().count(),
            "new_files": taken.new_files, "new_bytes": taken.new_bytes, "seconds": seconds,
        });
        println!("{facts:#}");
    } else {
        println!(
            "backup {} in {to}: {} rows, {} in {} files; {} of them new, {} written; {seconds:.1} s",
            manifest.id,
            manifest.rows(),
            size(manifest.bytes()),
            manifest.files().count(),
            taken.new_files,
            size(taken.new_bytes),
        );
    }
    Ok(true)
}

fn list(at: &PlaceUrl, as_json: bool) -> Result<bool, String> {
    let place = Place::open(at)?;
    let names = Manifest::list(&place)?;
    let manifests: Vec<Manifest> = names.iter().map(|id| Manifest::read(&place, Some(id))).collect::<Result<_, _>>()?;
    if as_json {
        let rows: Vec<_> = manifests
            .iter()
            .map(|m| {
                json!({ "backup": m.id, "at": bench::report::rfc3339(m.at_ms), "store": m.store, "rows": m.rows(),
                    "bytes": m.bytes(), "files": m.files().count() })
            })
            .collect();
        println!("{:#}", json!(rows));
        return Ok(true);
    }
    if manifests.is_empty() {
        println!("no backup in {at}");
    } else {
        println!("{:<18} {:<21} {:<17} {:>12} {:>10} {:>6}", "BACKUP", "AT", "STORE", "ROWS", "BYTES", "FILES");
    }
    for m in manifests {
        let at = bench::report::rfc3339(m.at_ms);
        println!(
            "{:<18} {at:<21} {:<17} {:>12} {:>10} {:>6}",
            m.id,
            m.store,
            m.rows(),
            size(m.bytes()),
            m.files().count()
        );
    }
    Ok(true)
}

fn verify(at: &PlaceUrl, backup: Option<&str>, as_json: bool) -> Result<bool, String> {
    let place = Place::open(at)?;
    let manifest = Manifest::read(&place, backup)?;
    let progress = progress("verifying");
    progress.set_length(manifest.rows());
    let mut damage = Vec::new();
    for file in manifest.files() {
        if let Err(e) = rows::read_file(&place, file) {
            damage.push(e);
        }
        progress.inc(file.rows);
    }
    progress.finish_and_clear();
    if as_json {
        println!("{:#}", json!({ "backup": manifest.id, "rows": manifest.rows(), "damage": damage }));
    } else if damage.is_empty() {
        println!("backup {}: all {} rows are there and whole", manifest.id, manifest.rows());
    } else {
        damage.iter().for_each(|text| eprintln!("basalt ctl: {text}"));
        println!("backup {} is damaged: {} of {} files", manifest.id, damage.len(), manifest.files().count());
    }
    Ok(damage.is_empty())
}

fn remove(at: &PlaceUrl, keep: usize, dry_run: bool) -> Result<bool, String> {
    let place = Place::open(at)?;
    let names = Manifest::list(&place)?;
    let (old, kept) = names.split_at(names.len().saturating_sub(keep));
    let mut needed = HashSet::new();
    for id in kept {
        needed.extend(Manifest::read(&place, Some(id))?.files().map(|file| file.sha256.clone()));
    }
    let unneeded: Vec<(String, u64)> =
        place.list("files")?.into_iter().filter(|(name, _)| !needed.contains(name)).collect();
    let bytes = unneeded.iter().map(|(_, bytes)| bytes).sum();
    let verb = if dry_run { "would remove" } else { "removed" };
    if !dry_run {
        // A backup without all its files must not be listed.
        old.iter().try_for_each(|id| Manifest::remove(&place, id))?;
        unneeded.iter().try_for_each(|(name, _)| place.remove(&rows::file_name(name)))?;
    }
    println!("{verb} {} backups and {} files, {}; {} backups stay", old.len(), unneeded.len(), size(bytes), kept.len());
    Ok(true)
}

/// Restores a backup.
pub(super) fn run_restore(options: &RestoreOptions, node: &StoreUrl, as_json: bool) -> Result<Verdict, Failure> {
    restore(options, node, as_json).map(Verdict::of).map_err(Failure::Refused)
}

fn restore(options: &RestoreOptions, node: &StoreUrl, as_json: bool) -> Result<bool, String> {
    let place = Place::open(&options.from)?;
    let manifest = Manifest::read(&place, options.backup.as_deref())?;
    let mut client = connect(node)?;
    let keys = |client: &mut Client| {
        let answer = said(client, &[b"DBSIZE", b"STORE"])?;
        answer.as_int().ok_or_else(|| "the store's answer to DBSIZE cannot be read".to_owned())
    };
    let before = keys(&mut client)?;
    if before > 0 && !options.into_existing {
        return Err(format!("the store holds {before} keys: restore into an empty one, or say --into-existing"));
    }
    let started = Instant::now();
    let progress = progress("restoring");
    progress.set_length(manifest.rows());
    let now_ms = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let (id, from) = (&manifest.id, &options.from);
    note(node, "RESTORE", &format!("backup {id} of {from} is being restored: {} rows", manifest.rows()));
    let expired = restore::restore(node, &place, &manifest, now_ms, &progress).inspect_err(|e| {
        note(node, "RESTORE", &format!("the restore of backup {id} has failed: {e}"));
    })?;
    progress.finish_and_clear();
    note(node, "RESTORE", &format!("backup {id} is restored; {expired} rows had expired"));
    let (after, seconds) = (keys(&mut client)?, started.elapsed().as_secs_f64());
    if as_json {
        let facts = json!({
            "backup": manifest.id, "rows": manifest.rows(), "expired": expired, "keys": after, "seconds": seconds,
        });
        println!("{facts:#}");
    } else {
        let rows = manifest.rows();
        println!(
            "restored backup {}: {rows} rows, {expired} had expired; the store holds {after} keys; {seconds:.1} s",
            manifest.id
        );
    }
    Ok(true)
}

/// A node's answer; an error reply is an error.
fn said(client: &mut Client, request: &[&[u8]]) -> Result<Value, String> {
    match client.call_here(request) {
        Ok(Value::Error(text)) => Err(format!("{} answers: {text}", client.address())),
        Ok(answer) => Ok(answer),
        Err(e) => Err(format!("{}: {e}", client.address())),
    }
}

/// Has the store remember it, among its events. What was done is done whether or not that can be noted.
fn note(node: &StoreUrl, kind: &str, text: &str) {
    let end = (0..=text.len().min(EVENT_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let request: [&[u8]; 4] = [b"KV.ADMIN", b"NOTE", kind.as_bytes(), &text.as_bytes()[..end]];
    if let Err(e) = connect(node).and_then(|mut client| said(&mut client, &request)) {
        eprintln!("basalt ctl: the store's events do not have this: {e}");
    }
}

fn connect(node: &StoreUrl) -> Result<Client, String> {
    Client::open_within(node, CONNECT_WITHIN, ANSWER_WITHIN)
        .map_err(|e| format!("{e}; --node names another node of the store"))
}

fn progress(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::no_length();
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{msg} {bar:30} {percent:>3}% {human_pos} rows, {per_sec}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

fn size(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}
