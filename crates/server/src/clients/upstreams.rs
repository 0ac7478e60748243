//! The upstreams of a worker's clients, and which of them have work.
//!
//! Invariant: each place in `unread` is there once.

use super::client_id::ClientId;
use super::upstream::Upstream;
use mio::Registry;
use slab::Slab;
use std::collections::BTreeSet;

/// The connections to other nodes of a worker's clients.
#[derive(Default)]
pub(super) struct Upstreams {
    /// The client of each, by its place.
    clients: Slab<ClientId>,
    /// Places of those with something to send.
    dirty: Vec<usize>,
    /// Places of those that were left unread, because their clients do not take what they are owed, or others had their turn.
    unread: Vec<usize>,
    /// Clients with requests that are to be sent.
    waiting: Vec<ClientId>,
    /// Clients that nodes tell of all keys with their prefixes.
    listening: BTreeSet<ClientId>,
    /// What is read goes here first.
    buffer: Vec<u8>,
}

impl Upstreams {
    /// A connection begins; its place.
    pub(super) fn begin(&mut self, client: ClientId) -> usize {
        self.clients.insert(client)
    }

    /// The client of the connection at a place.
    pub(super) fn client_at(&self, place: usize) -> Option<ClientId> {
        self.clients.get(place).copied()
    }

    /// All connections: the place of each, and its client.
    pub(super) fn all(&self) -> Vec<(usize, ClientId)> {
        self.clients.iter().map(|(place, client)| (place, *client)).collect()
    }

    /// A connection is over.
    pub(super) fn remove(&mut self, upstream: &Upstream, registry: Option<&Registry>) {
        self.clients.try_remove(upstream.place);
        if let (Some(stream), Some(registry)) = (upstream.stream(), registry) {
            let _ = stream.deregister(registry);
        }
    }

    /// A connection has something to send.
    pub(super) fn touch(&mut self, place: usize) {
        self.dirty.push(place);
    }

    /// Takes out one that has something to send.
    pub(super) fn next_dirty(&mut self) -> Option<usize> {
        self.dirty.pop()
    }

    /// These had something to send, and still have: their sockets take no more.
    pub(super) fn put_dirty(&mut self, places: Vec<usize>) {
        self.dirty = places;
    }

    /// Whether one has something to send.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// A connection is to be read later.
    pub(super) fn leave_unread(&mut self, place: usize) {
        if !self.unread.contains(&place) {
            self.unread.push(place);
        }
    }

    /// The clients of those that are to be read later.
    pub(super) fn clients_unread(&self) -> impl Iterator<Item = ClientId> {
        self.unread.iter().filter_map(|place| self.client_at(*place))
    }

    /// Takes out the places of those that are to be read later.
    pub(super) fn take_unread(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.unread)
    }

    /// A client has requests that are to be sent.
    pub(super) fn wait(&mut self, client: ClientId) {
        self.waiting.push(client);
    }

    /// Takes out the clients with requests that are to be sent, each once.
    pub(super) fn take_waiting(&mut self) -> Vec<ClientId> {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_unstable();
        waiting.dedup();
        waiting
    }

    /// Takes over what another thread has left to be sent.
    pub(super) fn take_over(&mut self, of_thread: Self) {
        self.waiting.extend(of_thread.waiting);
    }

    /// Whether nodes tell a client of all keys with its prefixes.
    pub(super) fn any_listens(&self) -> bool {
        !self.listening.is_empty()
    }

    /// Nodes tell these clients of all keys with their prefixes from now on; those that they told before, and tell no longer.
    pub(super) fn listen(&mut self, listening: &BTreeSet<ClientId>) -> Vec<ClientId> {
        let before = std::mem::replace(&mut self.listening, listening.clone());
        before.into_iter().filter(|client| !listening.contains(client)).collect()
    }

    /// Takes out the buffer that is read into.
    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Puts it back.
    pub(super) fn put_buffer(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn client(id: usize) -> ClientId {
        ClientId { id, generation: 1 }
    }

    #[test]
    fn what_is_to_be_done_is_there_once() {
        let mut upstreams = Upstreams::default();
        let places = [5, 6].map(|id| upstreams.begin(client(id)));
        for place in [places[1], places[0], places[1]] {
            upstreams.leave_unread(place);
        }
        assert_eq!(upstreams.clients_unread().collect::<Vec<_>>(), [client(6), client(5)]);
        assert_eq!((upstreams.take_unread(), upstreams.take_unread()), (vec![places[1], places[0]], vec![]));
        for id in [6, 5, 6] {
            upstreams.wait(client(id));
        }
        let mut of_thread = Upstreams::default();
        of_thread.wait(client(7));
        upstreams.take_over(of_thread);
        assert_eq!(upstreams.take_waiting(), [client(5), client(6), client(7)]);
        assert!(upstreams.take_waiting().is_empty());
    }

    #[test]
    fn a_client_that_nodes_tell_no_longer_is_named_once() {
        let mut upstreams = Upstreams::default();
        let cases: [(&[usize], &[usize]); 4] = [(&[1, 2], &[]), (&[2, 3], &[1]), (&[], &[2, 3]), (&[], &[])];
        for (listening, gone) in cases {
            let listening = listening.iter().map(|id| client(*id)).collect();
            assert_eq!(upstreams.listen(&listening), gone.iter().map(|id| client(*id)).collect::<Vec<_>>());
            assert_eq!(upstreams.any_listens(), !listening.is_empty());
        }
    }
}
