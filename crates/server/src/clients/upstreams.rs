//! The upstreams of a worker's clients, and which of them have work.
//!
//! Invariant: each place in `unread` and in `dirty` is there once, unless its connection is over.

use super::client_id::ClientId;
use super::upstream::Upstream;
use mio::Registry;
use slab::Slab;
use std::collections::{BTreeSet, VecDeque};

/// What is known of a connection to another node.
struct Place {
    client: ClientId,
    /// It is in `dirty`.
    is_dirty: bool,
    /// It is in `unread`.
    is_unread: bool,
    /// It is to be read once its client has taken what it is owed.
    is_held: bool,
}

/// The connections to other nodes of a worker's clients.
#[derive(Default)]
pub(super) struct Upstreams {
    places: Slab<Place>,
    /// Places of those with something to send, the first that has its turn first.
    dirty: VecDeque<usize>,
    /// Places of those that are to be read, likewise.
    unread: VecDeque<usize>,
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
        self.places.insert(Place { client, is_dirty: false, is_unread: false, is_held: false })
    }

    /// The client of the connection at a place.
    pub(super) fn client_at(&self, place: usize) -> Option<ClientId> {
        self.places.get(place).map(|place| place.client)
    }

    /// All connections: the place of each, and its client.
    pub(super) fn all(&self) -> Vec<(usize, ClientId)> {
        self.places.iter().map(|(at, place)| (at, place.client)).collect()
    }

    /// A connection is over.
    pub(super) fn remove(&mut self, upstream: &Upstream, registry: Option<&Registry>) {
        self.places.try_remove(upstream.place);
        if let (Some(stream), Some(registry)) = (upstream.stream(), registry) {
            let _ = stream.deregister(registry);
        }
    }

    /// A connection has something to send.
    pub(super) fn touch(&mut self, place: usize) {
        if self.places.get_mut(place).is_some_and(|place| !std::mem::replace(&mut place.is_dirty, true)) {
            self.dirty.push_back(place);
        }
    }

    /// How many have something to send.
    pub(super) fn dirty_count(&self) -> usize {
        self.dirty.len()
    }

    /// Takes out one that has something to send.
    pub(super) fn next_dirty(&mut self) -> Option<usize> {
        let next = self.dirty.pop_front()?;
        if let Some(place) = self.places.get_mut(next) {
            place.is_dirty = false;
        }
        Some(next)
    }

    /// Whether one has something to send.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// A connection is to be read, once the others have had their turn.
    pub(super) fn leave_unread(&mut self, place: usize) {
        if let Some(found) = self.places.get_mut(place) {
            found.is_held = false;
            if !std::mem::replace(&mut found.is_unread, true) {
                self.unread.push_back(place);
            }
        }
    }

    /// A connection is to be read once its client has taken what it is owed.
    pub(super) fn hold(&mut self, place: usize) {
        if let Some(place) = self.places.get_mut(place) {
            place.is_held = true;
        }
    }

    /// The client of a connection takes more: if that was waited for, it is to be read.
    pub(super) fn let_go(&mut self, place: usize) {
        if self.places.get(place).is_some_and(|place| place.is_held) {
            self.leave_unread(place);
        }
    }

    /// How many are to be read.
    pub(super) fn unread_count(&self) -> usize {
        self.unread.len()
    }

    /// Takes out the place of one that is to be read.
    pub(super) fn next_unread(&mut self) -> Option<usize> {
        let next = self.unread.pop_front()?;
        if let Some(place) = self.places.get_mut(next) {
            place.is_unread = false;
        }
        Some(next)
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
            upstreams.touch(place);
        }
        assert_eq!((upstreams.unread_count(), upstreams.dirty_count()), (2, 2));
        let unread = [upstreams.next_unread(), upstreams.next_unread(), upstreams.next_unread()];
        assert_eq!(unread, [Some(places[1]), Some(places[0]), None]);
        let dirty = [upstreams.next_dirty(), upstreams.next_dirty(), upstreams.next_dirty()];
        assert_eq!(dirty, [Some(places[1]), Some(places[0]), None]);
        upstreams.leave_unread(places[1]);
        assert_eq!(upstreams.next_unread(), Some(places[1]), "it is to be read again");
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
    fn what_is_held_is_read_once_its_client_takes_more() {
        let mut upstreams = Upstreams::default();
        let places = [5, 6].map(|id| upstreams.begin(client(id)));
        upstreams.hold(places[0]);
        assert_eq!(upstreams.unread_count(), 0);
        for place in [places[0], places[1], places[0]] {
            upstreams.let_go(place);
        }
        assert_eq!((upstreams.next_unread(), upstreams.next_unread()), (Some(places[0]), None));
        upstreams.let_go(places[0]);
        assert_eq!(upstreams.next_unread(), None, "it is not held any more");
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
