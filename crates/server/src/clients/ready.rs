//! The connections that are to be looked at in a turn, in their order.
//!
//! Invariant: a connection that has had its turn and has more is among those that go on once.

use super::registry::Clients;
use std::vec::IntoIter;

/// Connections that are to be looked at: those that have had their turn, and have more, come behind the others.
pub(crate) struct Ready {
    ready: IntoIter<usize>,
    going_on: IntoIter<usize>,
}

impl Ready {
    /// All that are to be looked at.
    pub(super) fn take(ready: &mut Vec<usize>, going_on: &mut Vec<usize>) -> Self {
        Self { ready: std::mem::take(ready).into_iter(), going_on: std::mem::take(going_on).into_iter() }
    }

    /// The next one.
    pub(crate) fn next(&mut self, clients: &mut Clients) -> Option<usize> {
        self.ready.next().or_else(|| {
            let id = self.going_on.next()?;
            if let Some(connection) = clients.get_mut(id) {
                connection.goes_on_later = false;
            }
            Some(id)
        })
    }

    /// The others are looked at in the next turn, before those that have come since.
    pub(crate) fn put_off(self, clients: &mut Clients) {
        let Self { ready, going_on } = self;
        if ready.len() + going_on.len() > 0 {
            let since = Self::take(&mut clients.ready, &mut clients.going_on);
            clients.ready = ready.chain(since.ready).collect();
            clients.going_on = going_on.chain(since.going_on).collect();
        }
    }
}

/// A connection has had its turn, and goes on when others have had theirs.
pub(super) fn go_on_later(clients: &mut Clients, id: usize) {
    if let Some(connection) = clients.get_mut(id)
        && !std::mem::replace(&mut connection.goes_on_later, true)
    {
        clients.going_on.push(id);
    }
}
