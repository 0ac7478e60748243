//! The connections of a worker, by their places. Some are away: the thread for large requests has them.
//!
//! Invariants: a connection that is away keeps its place, and what is for it is kept until it is back. The thread has one
//! connection at a time, whose place is the one among those of its worker.

use super::client_id::ClientId;
use super::connection::Connection;
use super::letters::{Letters, OwedMax};
use slab::Slab;

/// What an event loop has noticed of a socket.
#[derive(Clone, Copy, Default)]
pub(super) struct Noticed {
    pub(super) readable: bool,
    pub(super) hung_up: bool,
    pub(super) writable: bool,
}

/// What has come of a connection that is away.
pub(super) struct Away {
    generation: u32,
    /// Of its socket.
    pub(super) noticed: Noticed,
    pub(super) letters: Letters,
}

#[allow(clippy::large_enum_variant, reason = "nearly all connections are here")]
enum ConnectionPlace {
    Here(Connection),
    Away(Box<Away>),
}

/// Connections by their places.
#[derive(Default)]
pub(super) struct Connections {
    places: Slab<ConnectionPlace>,
    /// How many are away.
    away: usize,
    /// The one that the thread for large requests has.
    lent: Option<(usize, Connection)>,
}

impl Connections {
    /// The thread's: one that its worker has at that place.
    pub(super) fn of_thread(id: usize, connection: Connection) -> Self {
        Self { lent: Some((id, connection)), ..Self::default() }
    }

    /// Whether they are the thread's.
    pub(super) fn are_of_thread(&self) -> bool {
        self.lent.is_some()
    }

    /// The one that the thread has.
    pub(super) fn into_lent(self) -> Option<(usize, Connection)> {
        self.lent
    }

    #[inline]
    pub(super) fn get(&self, id: usize) -> Option<&Connection> {
        match self.places.get(id) {
            Some(ConnectionPlace::Here(connection)) => Some(connection),
            _ => self.lent.as_ref().filter(|(place, _)| *place == id).map(|(_, connection)| connection),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: usize) -> Option<&mut Connection> {
        match self.places.get_mut(id) {
            Some(ConnectionPlace::Here(connection)) => Some(connection),
            _ => self.lent.as_mut().filter(|(place, _)| *place == id).map(|(_, connection)| connection),
        }
    }

    /// The place of the next one.
    pub(super) fn next_place(&self) -> usize {
        self.places.vacant_key()
    }

    /// A new one, at the next place.
    pub(super) fn add(&mut self, connection: Connection) {
        self.places.insert(ConnectionPlace::Here(connection));
    }

    /// Takes one out that is here.
    pub(super) fn remove(&mut self, id: usize) -> Option<Connection> {
        let is_here = matches!(self.places.get(id), Some(ConnectionPlace::Here(_)));
        match is_here.then(|| self.places.remove(id))? {
            ConnectionPlace::Here(connection) => Some(connection),
            ConnectionPlace::Away(_) => None,
        }
    }

    /// How many places there are, with a connection or without.
    pub(super) fn places(&self) -> usize {
        self.places.capacity()
    }

    /// The places of those that are here.
    pub(super) fn ids(&self) -> Vec<usize> {
        let here = self.places.iter().filter(|(_, place)| matches!(place, ConnectionPlace::Here(_)));
        here.map(|(id, _)| id).collect()
    }

    /// Takes one that goes away: its place is kept. `max`: what a client may be owed, who may be a subscriber;
    /// `more_bytes`: what it will be owed beside what it is.
    pub(super) fn lend(
        &mut self,
        id: usize,
        max: impl FnOnce(bool) -> OwedMax,
        more_bytes: usize,
    ) -> Option<Connection> {
        let place = self.places.get_mut(id)?;
        let ConnectionPlace::Here(connection) = place else { return None };
        let (generation, noticed) = (connection.generation, Noticed::default());
        let letters = Letters::none(connection.owed() + more_bytes, max(connection.session.is_subscriber()));
        let away = ConnectionPlace::Away(Box::new(Away { generation, noticed, letters }));
        self.away += 1;
        match std::mem::replace(place, away) {
            ConnectionPlace::Here(connection) => Some(connection),
            ConnectionPlace::Away(_) => None,
        }
    }

    /// One is back; what has come of it meanwhile.
    pub(super) fn give_back(&mut self, id: usize, connection: Connection) -> Option<Away> {
        let place = self.places.get_mut(id)?;
        match std::mem::replace(place, ConnectionPlace::Here(connection)) {
            ConnectionPlace::Away(away) => {
                self.away -= 1;
                Some(*away)
            }
            ConnectionPlace::Here(_) => None,
        }
    }

    /// Whether any is away.
    #[inline]
    pub(super) fn any_away(&self) -> bool {
        self.away > 0
    }

    /// What comes of the one at a place, if it is away.
    pub(super) fn away_at(&mut self, id: usize) -> Option<&mut Away> {
        match self.places.get_mut(id).filter(|_| self.away > 0)? {
            ConnectionPlace::Away(away) => Some(away),
            ConnectionPlace::Here(_) => None,
        }
    }

    /// What comes of a connection, if it is away.
    pub(super) fn away(&mut self, client: ClientId) -> Option<&mut Away> {
        self.away_at(client.id).filter(|away| away.generation == client.generation)
    }
}
