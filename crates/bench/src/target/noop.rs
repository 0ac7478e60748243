//! The no-op server as a target.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use client::{Address, PoolOptions, ReadFrom, StoreUrl};

use super::canned::NoopShape;
use super::lane::Manner;
use super::noop_server::NoopServer;
use super::session::{RecordSession, Session};
use super::socket::SocketTransport;
use super::{Lanes, Target, TargetFacts, TargetUsage};
use crate::workload::Workload;

/// A no-op server as a target.
pub struct NoopTarget {
    /// When it runs in this process.
    server: Option<NoopServer>,
    address: Address,
    timeout: Duration,
    connections: usize,
}

impl NoopTarget {
    /// Starts a server in this process, with records of the workload's shape.
    ///
    /// # Errors
    /// No port is free.
    pub fn start(fields: u32, field_bytes: usize, timeout: Duration, connections: usize) -> io::Result<Self> {
        let value_bytes = fields as usize * (field_bytes + 12);
        let shape = NoopShape { fields, field_bytes, value_bytes, verifiable: false };
        let server = NoopServer::start(0, shape)?;
        let address = Address { host: server.address().ip().to_string(), port: server.address().port() };
        Ok(Self { server: Some(server), address, timeout, connections })
    }

    /// The server that runs at `address`.
    #[must_use]
    pub fn at(address: Address, timeout: Duration, connections: usize) -> Self {
        Self { server: None, address, timeout, connections }
    }
}

impl Target for NoopTarget {
    fn name(&self) -> String {
        if self.server.is_some() { "noop://".to_owned() } else { format!("noop://{}", self.address) }
    }

    fn in_process(&self) -> bool {
        self.server.is_some()
    }

    fn verifies(&self) -> bool {
        false
    }

    fn facts(&self) -> TargetFacts {
        let none = || "n/a".to_owned();
        TargetFacts {
            system: "no-op server".to_owned(),
            durability: none(),
            replication: none(),
            consistency: none(),
            compression: none(),
            engine: none(),
            memory_budget_bytes: None,
            connections: Some(self.connections as u32),
        }
    }

    fn usage(&self) -> TargetUsage {
        TargetUsage::default()
    }

    fn open(&self, workload: &Arc<Workload>, lanes: Lanes) -> io::Result<Box<dyn Session>> {
        let options = PoolOptions {
            connections: self.connections,
            timeout: self.timeout,
            read_from: ReadFrom::Leader,
            greetings: Vec::new(),
        };
        let transport = SocketTransport::open(&StoreUrl::from(self.address.clone()), lanes, options)?;
        let manner = Manner { verifies: false, patience: Some(self.timeout), ..Manner::default() };
        Ok(Box::new(RecordSession::new(transport, Arc::clone(workload), lanes.count(), manner)))
    }
}
