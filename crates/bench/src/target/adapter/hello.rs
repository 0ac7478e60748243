//! What the laboratory and an adapter tell each other before the first request.

use std::io::{self, Read, Write};
use std::str::FromStr;

use client::ReadFrom;

use super::super::redis::RedisOptions;
use super::super::table::TargetRow;
use super::wire::{self, HEAD_BYTES, damaged};
use crate::workload::{OpKind, RecordForm, Task, Workload};

/// The protocol's number; an adapter of another is refused.
const PROTOCOL: &str = "1";
/// What a column must hold where lengths vary, in bytes.
const FIELD_BYTES_MAX: u64 = 64 * 1024;
/// Longest answer to a greeting, in bytes.
const GREETING_BYTES_MAX: usize = 64 * 1024;

/// A system that has an adapter, and where it is: `cassandra://127.0.0.1:9042`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterUrl {
    row: TargetRow,
    /// All of it, which may hold a password.
    text: String,
}

impl AdapterUrl {
    /// The system.
    #[must_use]
    pub fn row(&self) -> TargetRow {
        self.row
    }
}

impl FromStr for AdapterUrl {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let row = TargetRow::of(text).filter(TargetRow::has_adapter);
        // It becomes a line.
        let fits = text.chars().all(|c| !c.is_control());
        row.filter(|_| fits).map(|row| Self { row, text: text.to_owned() }).ok_or(())
    }
}

/// Shows it without user and password.
impl std::fmt::Display for AdapterUrl {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = self.row.scheme;
        let rest = &self.text[scheme.len() + 3..];
        let rest = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        write!(out, "{scheme}://{rest}")
    }
}

/// What an adapter answered to a greeting: names and values in order.
#[derive(Debug)]
pub(super) struct HelloReply(Vec<(String, String)>);

impl HelloReply {
    /// The value of `name`.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Every value of `name`.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The first greeting: where the store is, and how it is to be spoken to.
pub(super) fn hello(url: &AdapterUrl, options: &RedisOptions) -> String {
    let read_from = if options.read_from == ReadFrom::Any { "any" } else { "leader" };
    let mut text = format!(
        "protocol={PROTOCOL}\nwhat=hello\ntarget={}\ntimeout_ms={}\nconnections={}\nread_from={read_from}\n",
        url.text,
        options.timeout.as_millis(),
        options.connections,
    );
    for word in &options.durability {
        let name = if ["sync", "nosync"].contains(&word.as_str()) { "durability" } else { "acks" };
        text += &format!("{name}={word}\n");
    }
    text
}

/// The greeting of a connection that requests will follow on: the shape of the records and what will be done to them.
pub(super) fn open(workload: &Workload) -> String {
    let config = &workload.config;
    let record = match config.record {
        RecordForm::Hash => "hash",
        RecordForm::String => "string",
        RecordForm::Collection(_) => "collection",
    };
    let task = match workload.task() {
        Task::Load => "load",
        Task::Run => "run",
        Task::Delete => "delete",
    };
    let scans = workload.task() == Task::Run && workload.mix().share(OpKind::Scan) > 0.0;
    let mut text = format!(
        "protocol={PROTOCOL}\nwhat=open\ntask={task}\nrecord={record}\nscans={scans}\ncompare_and_set={}\n\
         field_bytes={}\nfield_bytes_max={}\n",
        config.compare_and_set,
        config.record_bytes() / u64::from(config.field_count),
        config.field_length.constant().unwrap_or(FIELD_BYTES_MAX),
    );
    for name in workload.field_names() {
        text += &format!("field={}\n", String::from_utf8_lossy(name));
    }
    text
}

/// Sends a greeting and reads its answer.
pub(super) fn greet(stream: &mut (impl Read + Write), greeting: &str) -> io::Result<HelloReply> {
    let mut frame = vec![0; HEAD_BYTES];
    frame.extend_from_slice(greeting.as_bytes());
    wire::end_frame(&mut frame, 0);
    stream.write_all(&frame)?;
    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes(head) as usize;
    if length > GREETING_BYTES_MAX {
        return Err(damaged("a greeting that is too long"));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let text = String::from_utf8(body).map_err(|_| damaged("a greeting that is no text"))?;
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let told = HelloReply(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
    if let Some(error) = told.get("error") {
        return Err(io::Error::other(error.to_owned()));
    }
    match told.get("protocol") {
        Some(PROTOCOL) => Ok(told),
        other => Err(io::Error::other(format!(
            "the adapter speaks protocol {}, not {PROTOCOL}: build it again from this version's peers",
            other.unwrap_or("none")
        ))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn urls_are_shown_without_passwords() {
        let url: AdapterUrl = "oracle-nosql://me:p@ss@localhost:8080".parse().unwrap();
        assert_eq!((url.row.scheme, url.to_string().as_str()), ("oracle-nosql", "oracle-nosql://localhost:8080"));
        assert_eq!("etcd://a:1,b:2".parse::<AdapterUrl>().unwrap().to_string(), "etcd://a:1,b:2");
        for other in ["redis://a:1", "etcd", "://", "etcd://a\nb"] {
            assert!(other.parse::<AdapterUrl>().is_err(), "{other}");
        }
    }
}
