//! The connections to other nodes of a worker's clients: which of them have something to be done.

use super::client_id::ClientId;
use super::upstream::Upstream;
use mio::Registry;
use slab::Slab;
use std::collections::BTreeSet;

/// The connections to other nodes of a worker's clients.
#[derive(Default)]
pub(super) struct Upstreams {
    /// The client of each, by its place.
    pub(super) clients: Slab<ClientId>,
    /// Places of those with something to send.
    pub(super) dirty: Vec<usize>,
    /// Places of those that were left unread, because their clients do not take what they are owed, or others had their turn. Each
    /// once.
    pub(super) unread: Vec<usize>,
    /// Clients with requests that are to be sent.
    pub(super) waiting: Vec<ClientId>,
    /// Clients that nodes tell of all keys with their prefixes.
    pub(super) listening: BTreeSet<ClientId>,
    /// What is read goes here first.
    pub(super) buffer: Vec<u8>,
}

impl Upstreams {
    /// A connection is to be read later.
    pub(super) fn leave_unread(&mut self, place: usize) {
        if !self.unread.contains(&place) {
            self.unread.push(place);
        }
    }

    /// A connection is over.
    pub(super) fn remove(&mut self, upstream: &Upstream, registry: Option<&Registry>) {
        self.clients.try_remove(upstream.place);
        if let (Some(stream), Some(registry)) = (upstream.stream(), registry) {
            let _ = stream.deregister(registry);
        }
    }
}
