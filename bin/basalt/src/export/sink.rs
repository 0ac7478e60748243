//! Rows on their way into a file, in either format.

use super::options::{Format, RdbVersion};
use super::outcome::Outcome;
use super::place::Writer;
use super::rdb_file::RdbFile;
use crate::lines::{self, Head, Tail};
use crate::moment::BackupRow;
use crate::pace::Pace;
use cluster::Databases;
use std::io::Write;
use vocab::{ClusterDatabase, Database, Namespace, client_key};

/// Which keys are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    All,
    ClusterKeys,
    Database(Database),
    ClusterDatabase(ClusterDatabase),
}

impl Chosen {
    fn has(self, of: Option<Namespace>) -> bool {
        match self {
            Self::All => true,
            Self::ClusterKeys => of.is_none(),
            Self::Database(wanted) => of == Some(Namespace::Database(wanted)),
            Self::ClusterDatabase(wanted) => of == Some(Namespace::Cluster(wanted)),
        }
    }
}

/// What is exported.
pub(super) struct What {
    pub(super) chosen: Chosen,
    /// Which databases have the slots of which.
    pub(super) databases: Databases,
}

impl What {
    /// Whose key it is, by the number that clients use; nothing if it is not exported.
    fn of(&self, key: &[u8]) -> Option<Option<Namespace>> {
        let of = Namespace::of_key(key).map(|namespace| match namespace {
            Namespace::Database(place) => Namespace::Database(self.databases.database_at(place)),
            of_cluster @ Namespace::Cluster(_) => of_cluster,
        });
        self.chosen.has(of).then_some(of)
    }
}

/// A file in the making.
enum File {
    Rdb(Box<RdbFile>),
    Lines { writer: Writer, bytes: u64 },
}

/// Takes rows, those of one key one after the other.
pub(super) struct Sink {
    file: File,
    what: What,
    pace: Pace,
    /// Rows that have been seen, exported or not.
    rows: u64,
    pub(super) outcome: Outcome,
}

impl Sink {
    /// Begins a file that shows the store as of a moment.
    pub(super) fn begin(
        writer: Writer,
        (format, version): (Format, RdbVersion),
        (at_ms, store): (u64, &str),
        what: What,
        pace: Pace,
    ) -> Result<Self, String> {
        let outcome = Outcome { at_ms, ..Outcome::default() };
        let file = match format {
            Format::Rdb => File::Rdb(Box::new(RdbFile::begin(writer, version, at_ms).map_err(|e| e.to_string())?)),
            Format::Ndjson => File::Lines { writer, bytes: 0 },
        };
        let mut sink = Self { file, what, pace, rows: 0, outcome };
        if let File::Lines { .. } = sink.file {
            sink.line(&lines::Line::Head(Head::new(at_ms, store.to_owned())))?;
        }
        Ok(sink)
    }

    fn line(&mut self, line: &lines::Line) -> Result<(), String> {
        let File::Lines { writer, bytes } = &mut self.file else { return Ok(()) };
        let mut text = serde_json::to_vec(line).map_err(|e| e.to_string())?;
        text.push(b'\n');
        *bytes += text.len() as u64;
        writer.write_all(&text).map_err(|e| e.to_string())
    }

    fn position(&self) -> u64 {
        match &self.file {
            File::Rdb(file) => file.position(),
            File::Lines { bytes, .. } => *bytes,
        }
    }

    /// A library of functions.
    pub(super) fn library(&mut self, source: Vec<u8>) -> Result<(), String> {
        self.outcome.libraries += 1;
        if let File::Rdb(file) = &mut self.file {
            return file.library(&source).map_err(|e| e.to_string());
        }
        self.line(&lines::Line::library(source))
    }

    /// A row. `more`: the next one is of the same key.
    pub(super) fn row(&mut self, row: BackupRow, more: bool) -> Result<(), String> {
        self.rows += u64::from(!more);
        let Some(of) = self.what.of(&row.key) else { return Ok(()) };
        let before = self.position();
        let key = client_key(&row.key).to_vec();
        match &mut self.file {
            File::Rdb(file) => file.row(of, &key, row, more, &mut self.outcome)?,
            File::Lines { .. } => self.line(&lines::of_row(of, &key, row, more))?,
        }
        self.outcome.keys += u64::from(!more);
        self.pace.wait(self.position() - before);
        let (position, problems) = (self.position(), self.outcome.problems.count());
        self.pace.show(self.rows, || format!("{}, {problems} problems", indicatif::HumanBytes(position)));
        Ok(())
    }

    /// Ends the file.
    pub(super) fn finish(mut self) -> Result<Outcome, String> {
        self.pace.end();
        let keys = self.outcome.keys;
        self.line(&lines::Line::Tail(Tail::new(keys)))?;
        self.outcome.bytes = self.position();
        match self.file {
            File::Rdb(file) => self.outcome.bytes = file.finish().map_err(|e| e.to_string())?,
            File::Lines { mut writer, .. } => writer.flush().map_err(|e| e.to_string())?,
        }
        Ok(self.outcome)
    }
}
