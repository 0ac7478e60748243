//! Puts a run's report together, and out.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::time::SystemTime;

use crate::command_line;
use crate::date::{rfc3339, unix_ms};
use crate::driver::{HistogramLog, Pace};
use crate::machine::environment::environment;
use crate::model::{Configuration, Identity, Link, Pacing, RunOutcome, RunReport, SCHEMA};
use crate::options::{Format, OutputOptions};
use crate::output::print;
use crate::program::Program;
use crate::report::{Claimed, Paint, json, table, write_run, ycsb};
use crate::target::Target;
use crate::workload::{Compression, Config, Properties, RecordForm, ValueForm};

/// A report without phases.
pub(crate) fn begin(
    name: &str,
    seed: u64,
    program: &Program<'_>,
    target: &dyn Target,
    configuration: Configuration,
) -> RunReport {
    let date = rfc3339(unix_ms(SystemTime::now()));
    let id = format!("{}-{name}", date.replace(':', "-"));
    let link = if target.in_process() { Link::InProcess } else { link_to(&target.name()) };
    RunReport {
        schema: SCHEMA,
        identity: Identity {
            id,
            name: name.to_owned(),
            date,
            product_version: program.version.to_owned(),
            git_commit: program.commit.map(str::to_owned),
            command_line: command_line::shown(),
            seed,
        },
        environment: environment(target.data_dir(), link),
        configuration,
        outcome: RunOutcome::Completed,
        ..RunReport::default()
    }
}

/// Where a client meets what `url` names.
pub(crate) fn link_to(url: &str) -> Link {
    let is_here = ["//127.", "//localhost", "//[::1]"].iter().any(|here| url.contains(here));
    if is_here { Link::Loopback } else { Link::Network }
}

/// How the load is driven, as the report tells it.
pub struct Drive<'a> {
    /// Clients of all threads together.
    pub clients: usize,
    /// Operations that each keeps in flight.
    pub depth: usize,
    /// Threads that drive them.
    pub threads: usize,
    /// How operations are paced.
    pub pace: Pace,
    /// What does not count, in words.
    pub warm_up_rule: &'a str,
    /// Kinds of errors that do not fail the run.
    pub tolerates: Vec<String>,
}

/// What was asked for.
pub(crate) fn configuration(
    config: &Config,
    properties: &Properties,
    target: &dyn Target,
    drive: &Drive<'_>,
) -> Configuration {
    let facts = target.facts();
    Configuration {
        target: target.name(),
        system: facts.system,
        durability: facts.durability,
        replication: facts.replication,
        consistency: facts.consistency,
        compression: facts.compression,
        memory_budget_bytes: facts.memory_budget_bytes,
        memory_limit_bytes: None,
        engine: facts.engine,
        record_count: config.record_count,
        record_size_bytes: config.record_bytes(),
        clients: drive.clients as u32,
        pipeline_depth: drive.depth as u32,
        threads: drive.threads as u32,
        connections: facts.connections,
        tolerates: drive.tolerates.clone(),
        pacing: match drive.pace {
            Pace::Closed | Pace::Throttled { .. } => Pacing::Closed,
            Pace::Open { rate_per_s, .. } => Pacing::Open { offered_per_s: rate_per_s },
        },
        distribution: config.distribution.name().to_owned(),
        warm_up_rule: drive.warm_up_rule.to_owned(),
        verification: verification(config, target).to_owned(),
        properties: properties.effective(),
    }
}

fn verification(config: &Config, target: &dyn Target) -> &'static str {
    match (target.verifies(), config.values) {
        (true, _) if matches!(config.record, RecordForm::Collection(_)) => {
            "every element is compared with its number; none may be taken, or given by a group, twice; additions that answer \
             the same number, and one that is not found by the client that made it, are errors"
        }
        (false, _) => "none: the target stores nothing; only the form of the answers is checked",
        (true, ValueForm::Integrity) => {
            "every byte of every value read is compared with YCSB's data-integrity text; scans are checked for order, \
             bounds and a sample of their records; a record that must exist and does not is an error"
        }
        (true, _) => {
            "every byte of every value read is compared with what its key, field, length and the tag that it begins \
             with imply; scans are checked for order, bounds and a sample of their records; a record that must exist \
             and does not is an error"
        }
    }
}

/// What the reader must know of how records are kept and changed.
pub(crate) fn notes(config: &Config) -> Vec<String> {
    let mut notes = Vec::new();
    if config.record == RecordForm::String && !config.compare_and_set && !config.write_all_fields {
        notes.push(
            "Records are packed strings, and an update of one field reads, changes and writes the whole record without \
             comparing versions, as YCSB's bindings of such stores do: concurrent updates may be lost."
                .to_owned(),
        );
    }
    if let RecordForm::Collection(_) = config.record {
        notes.push(
            "Records are collections. UPDATE adds an element, or raises a score; READ-MODIFY-WRITE takes an element of a \
             queue, or has one given by a stream's group and acknowledges it. An element that comes twice, and an addition \
             that is not there, is an UNEXPECTED_STATE."
                .to_owned(),
        );
    }
    if config.compression != Compression::None {
        notes.push(format!(
            "The client compresses every value with {} before it writes it and decompresses it after it was read: the \
             first is part of a write's latency, the second only of the client's CPU time.",
            config.compression.name()
        ));
    }
    match config.values {
        ValueForm::Ycsb => notes.push("Values are YCSB's own: they deflate to about 0.8 of their size.".to_owned()),
        ValueForm::PageLike => notes.push("Values are page-like: they compress about 5.6 : 1.".to_owned()),
        ValueForm::Incompressible => notes.push("Values do not compress.".to_owned()),
        ValueForm::Integrity => {}
    }
    notes
}

/// Writes the report to `folder`, if there is one, and shows it. Answers whether all went well.
pub(crate) fn finish(
    report: &RunReport,
    logs: &[(String, HistogramLog)],
    output: &OutputOptions,
    folder: Option<&Claimed>,
) -> io::Result<bool> {
    let invalid = |error: crate::model::Invalid| io::Error::new(io::ErrorKind::InvalidData, error);
    crate::model::validate(report).map_err(invalid)?;
    let text = match output.format {
        Format::Table => table(report, Paint::of_stdout()),
        Format::Json => json(report)?,
        Format::Ycsb => {
            let given = report.configuration.properties.get("hdrhistogram.percentiles");
            let percentiles = ycsb::parse_percentiles(given.map_or("", String::as_str));
            report.phases.iter().map(|phase| ycsb::final_output(phase, &percentiles)).collect()
        }
    };
    if let Some(folder) = folder {
        let written = write_run(folder.dir(), report)?;
        for (phase, log) in logs {
            write_log(&written.dir, phase, log)?;
        }
        crate::note!("the report is in {}", written.dir.display());
    }
    print(&text)?;
    Ok(report.is_clean())
}

fn write_log(dir: &Path, phase: &str, log: &HistogramLog) -> io::Result<()> {
    let path = dir.join(format!("{phase}.hlog"));
    let write = || {
        let mut file = BufWriter::new(File::create(&path)?);
        log.write(&mut file, phase)?;
        file.flush()
    };
    write().map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
