//! The identity of a node, as its hello tells it to others.

use crate::os::random;
use crate::security::{NodeTls, PeerMode};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use vocab::limits::HELLO_BYTES_MAX;
use vocab::{NodeId, StoreId};

/// The oldest version of the protocol between nodes that this code speaks.
pub(super) const LEAST_VERSION: u16 = 2;

/// Who this node is. Part of it changes while the node runs: it may come to belong to a store.
#[derive(Clone)]
pub struct Identity {
    /// The node.
    pub node: NodeId,
    /// The store that it belongs to, if it does.
    pub store: Option<StoreId>,
    /// What every other node is told of it; at most `limits::HELLO_BYTES_MAX` bytes.
    pub hello: Vec<u8>,
    /// The secret that only the nodes of a store know; empty: they do not ask.
    pub secret: Vec<u8>,
    /// The certificates of the node.
    pub(super) tls: Option<Arc<NodeTls>>,
    /// The port for clients with TLS that others are told; 0: none.
    pub(super) tls_port: u16,
    /// The least version of the protocol that it speaks: what the store relies on, older nodes do not know.
    pub(super) least_version: u16,
    /// Tells this process from any other, of the same node too.
    pub(super) instance: u64,
}

impl Identity {
    /// A node that belongs to no store, as far as is known.
    ///
    /// # Panics
    /// If the hello is longer than it may be.
    #[must_use]
    pub fn new(node: NodeId, hello: Vec<u8>, secret: Vec<u8>) -> Self {
        assert!(hello.len() <= HELLO_BYTES_MAX, "a hello of {} bytes", hello.len());
        let instance = u64::from_le_bytes(random());
        Self { node, store: None, hello, secret, tls: None, tls_port: 0, least_version: LEAST_VERSION, instance }
    }

    /// The same node, which has these certificates, and this port for clients with TLS.
    #[must_use]
    pub fn with_tls(self, tls: Arc<NodeTls>, port: u16) -> Self {
        Self { tls: Some(tls), tls_port: port, ..self }
    }

    /// Whether nodes speak TLS to each other.
    pub(super) fn peer_mode(&self) -> PeerMode {
        self.tls.as_ref().map_or(PeerMode::No, |tls| tls.peer_mode())
    }

    /// This side of a call of the node at an address.
    pub(super) fn call_with_tls(&self, address: &str) -> Result<tls::Connection, String> {
        self.tls.as_ref().ok_or("this node has no certificates")?.call_peer(address)
    }

    /// This side of a connection that another node has begun with TLS.
    pub(super) fn accept_with_tls(&self) -> Result<tls::Connection, String> {
        self.tls.as_ref().ok_or("this node has no certificates")?.accept_peer()
    }

    /// For several threads.
    #[must_use]
    pub fn shared(self) -> SharedIdentity {
        SharedIdentity(Arc::new(Mutex::new(self)))
    }
}

/// An identity that several threads look at and that may change.
#[derive(Clone)]
pub struct SharedIdentity(Arc<Mutex<Identity>>);

impl SharedIdentity {
    /// The identity as it is now.
    #[must_use]
    pub fn now(&self) -> Identity {
        self.lock().clone()
    }

    /// Whether nodes speak TLS to each other.
    pub(super) fn peer_mode(&self) -> PeerMode {
        self.lock().peer_mode()
    }

    /// The node belongs to this store from now on. Connections that exist stay.
    pub fn set_store(&self, store: StoreId) {
        self.lock().store = Some(store);
    }

    /// Later connections are refused to nodes that speak only older versions of the protocol.
    pub fn require_version(&self, version: u16) {
        let mut identity = self.lock();
        identity.least_version = identity.least_version.max(version);
    }

    /// What later connections are told.
    ///
    /// # Panics
    /// If it is longer than it may be.
    pub fn set_hello(&self, hello: Vec<u8>) {
        assert!(hello.len() <= HELLO_BYTES_MAX, "a hello of {} bytes", hello.len());
        self.lock().hello = hello;
    }

    fn lock(&self) -> MutexGuard<'_, Identity> {
        self.0.lock()
    }
}
