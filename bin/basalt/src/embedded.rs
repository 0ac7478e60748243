//! `basalt bench`, and the store in this process that it measures when it is given no other.

use crate::stop_flag::patient_stop_flag;
use crate::suite_stores::LocalStores;
use bench::cli::BenchOptions;
use bench::program::Program;
use bench::target::{EmbeddedHandle, EmbeddedStore, TargetFacts};
use node::Config;
use server::{Caller, Server};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// A store in this process. Stops in order when the last user lets go.
struct Embedded {
    server: Option<Server>,
    facts: TargetFacts,
    dir: PathBuf,
}

impl Embedded {
    fn open(dir: &Path, settings: &[(String, String)]) -> io::Result<Self> {
        let refuse = |e: String| io::Error::new(io::ErrorKind::InvalidInput, e);
        let data = dir.display().to_string();
        let mut pairs = vec![("dir", data.as_str())];
        pairs.extend(settings.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let config = Config::start(pairs).map_err(|e| refuse(e.on_command_line(|_| false)))?;
        let text = |name: &str| config.text(name).unwrap_or_default();
        let facts = TargetFacts {
            system: format!("Basalt {} (embedded)", env!("CARGO_PKG_VERSION")),
            durability: match text("durability").as_str() {
                "sync" => "sync: fsync of the log before the answer".to_owned(),
                other => format!("{other}: in the operating system's memory, fsync within 100 ms"),
            },
            replication: "none: one replica a shard".to_owned(),
            consistency: "linearizable".to_owned(),
            compression: text("compression"),
            engine: text("engine"),
            memory_budget_bytes: config.number("memory").and_then(|bytes| u64::try_from(bytes).ok()),
            connections: None,
        };
        let server = Server::embedded(config).map_err(io::Error::other)?;
        Ok(Self { server: Some(server), facts, dir: dir.to_owned() })
    }
}

impl EmbeddedStore for Embedded {
    fn handle(&self, _in_flight: usize) -> io::Result<Box<dyn EmbeddedHandle>> {
        let server = self.server.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        Ok(Box::new(Handle(server.caller())))
    }

    fn facts(&self) -> TargetFacts {
        self.facts.clone()
    }

    fn data_dir(&self) -> Option<PathBuf> {
        Some(self.dir.clone())
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }
}

struct Handle(Caller);

impl EmbeddedHandle for Handle {
    fn submit(&mut self, token: u32, args: &[&[u8]], reply: &mut Vec<u8>) -> bool {
        self.0.submit(token, args, reply)
    }

    fn wait(&mut self, until: Option<Instant>, each: &mut dyn FnMut(u32, &[u8])) -> io::Result<()> {
        self.0.wait(until, each);
        Ok(())
    }
}

/// Runs the laboratory until it is done or is told to stop. It ends in order, which may take long: a second signal ends it at once.
pub fn run(options: &BenchOptions) -> ExitCode {
    let stop = match patient_stop_flag() {
        Ok(stop) => stop,
        Err(e) => {
            bench::note!("basalt bench: {e}");
            return ExitCode::FAILURE;
        }
    };
    let open_store = |dir: &Path, settings: &[(String, String)]| -> io::Result<Arc<dyn EmbeddedStore>> {
        Ok(Arc::new(Embedded::open(dir, settings)?))
    };
    let program = Program {
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("BASALT_COMMIT"),
        open_store: &open_store,
        stores: &LocalStores { stop: Arc::clone(&stop) },
        stop: &stop,
        events: bench::driver::EventLog::default(),
    };
    bench::cli::run(options, &program)
}
