//! A system behind an adapter, as a target.

use std::io;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use client::ReadFrom;

use super::super::lane::Manner;
use super::super::redis::RedisOptions;
use super::super::session::{RecordSession, Session};
use super::super::{Lanes, Target, TargetFacts, TargetUsage};
use super::hello::{self, AdapterUrl, HelloReply};
use super::program::Program;
use super::transport::AdapterTransport;
use super::watch::ProcessWatch;
use crate::model::CpuTime;
use crate::workload::{RecordForm, Workload};

/// Schemas are made and statements prepared within this time.
const GREET_WITHIN: Duration = Duration::from_secs(120);

/// A system behind an adapter.
pub struct AdapterTarget {
    url: AdapterUrl,
    options: RedisOptions,
    program: Arc<Program>,
    facts: TargetFacts,
    /// It stores something.
    stores: bool,
    nodes: ProcessWatch,
    data_dir: Option<std::path::PathBuf>,
}

impl AdapterTarget {
    /// Starts the adapter by `command`, and has it connect to the store.
    ///
    /// # Errors
    /// The adapter does not start, or does not reach the store, or the store cannot do what the options ask.
    pub fn start(url: AdapterUrl, command: Command, options: RedisOptions) -> io::Result<Self> {
        let program = Arc::new(Program::start(command, url.row().scheme)?);
        let told = greet(&mut program.connect()?, &program, &hello::hello(&url, &options))?;
        let nodes = ProcessWatch::new(told.all("node"));
        let data_dir = nodes.data_dir();
        let (facts, stores) = (facts(&told, &options), told.get("stores") != Some("nothing"));
        Ok(Self { url, options, program, facts, stores, nodes, data_dir })
    }
}

/// A greeting whose failure tells who failed.
fn greet(stream: &mut UnixStream, program: &Program, greeting: &str) -> io::Result<HelloReply> {
    stream.set_read_timeout(Some(GREET_WITHIN))?;
    hello::greet(stream, greeting).map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it has ended".to_owned(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("it does not answer within {} s", GREET_WITHIN.as_secs())
            }
            _ => error.to_string(),
        };
        io::Error::new(error.kind(), program.explained(&what))
    })
}

fn facts(told: &HelloReply, options: &RedisOptions) -> TargetFacts {
    let fact = |name: &str| told.get(name).unwrap_or("unknown").to_owned();
    TargetFacts {
        system: fact("system"),
        durability: fact("durability"),
        replication: fact("replication"),
        consistency: fact("consistency"),
        compression: fact("compression"),
        engine: fact("engine"),
        memory_budget_bytes: told.get("memory_budget_bytes").and_then(|bytes| bytes.parse().ok()),
        // The library's own, shared by all threads.
        connections: Some(options.connections as u32),
    }
}

impl Target for AdapterTarget {
    fn name(&self) -> String {
        self.url.to_string()
    }

    fn in_process(&self) -> bool {
        false
    }

    fn verifies(&self) -> bool {
        self.stores
    }

    fn facts(&self) -> TargetFacts {
        self.facts.clone()
    }

    fn usage(&self) -> TargetUsage {
        self.nodes.usage()
    }

    fn client_cpu(&self) -> Option<CpuTime> {
        self.program.cpu()
    }

    fn look(&self) {
        self.nodes.look();
    }

    fn processes(&self) -> Vec<(String, u32)> {
        self.nodes.processes()
    }

    fn data_dir(&self) -> Option<&std::path::Path> {
        self.data_dir.as_deref()
    }

    fn open(&self, workload: &Arc<Workload>, lanes: Lanes) -> io::Result<Box<dyn Session>> {
        let mut stream = self.program.connect()?;
        if matches!(workload.config.record, RecordForm::Collection(_)) {
            let text = "basalt.record names a collection, which only stores of the Redis kind have (redis://…)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let told = greet(&mut stream, &self.program, &hello::open(workload))?;
        let manner = Manner {
            verifies: self.stores,
            patience: Some(self.options.patience),
            may_lag: self.options.read_from == ReadFrom::Any,
            scans_unordered: told.get("scans") == Some("unordered"),
            tells_missing: true,
            ..Manner::default()
        };
        let program = Some(Arc::clone(&self.program));
        let transport = AdapterTransport::new(stream, program, lanes.count(), self.options.timeout)?;
        Ok(Box::new(RecordSession::new(transport, Arc::clone(workload), lanes.count(), manner)))
    }
}
