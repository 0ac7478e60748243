//! Looks at all connections of a worker, some of them at a time: all at once would keep the event loop for long where there are very many.
//!
//! Invariant: a round looks at every place that there was when it began, whatever comes and goes meanwhile, and at each connection as it is
//! then: here, or away at the thread for large requests.

use super::client_id::ClientId;
use super::connections::Connections;
use super::letters::Letter;
use super::registry::Clients;
use super::slow::note_slow;
use node::blocking::End;
use node::config::ClientClass;
use std::sync::mpsc::SyncSender;
use vocab::limits::BLOCKED_CLIENTS_STEP_MAX;

/// How many connections a tick looks at: 100,000 are looked at within five seconds.
const TICK_CONNECTIONS_MAX: usize = 2_048;
/// How many connections a turn looks at for another reason.
const TURN_CONNECTIONS_MAX: usize = 1_024;
/// As many places without a connection take as long as one connection.
const EMPTY_PLACES_OF_ONE: usize = 8;

/// How far a round is.
#[derive(Default)]
struct Round {
    /// The place that is next.
    next: usize,
    /// How many places are left.
    left: usize,
    /// How many places there were at the last look.
    places: usize,
}

impl Round {
    fn is_over(&self) -> bool {
        self.left == 0
    }

    /// All places are to be looked at, from where the last look was on.
    fn begin(&mut self, places: usize) {
        (self.left, self.places) = (places, places);
    }

    /// The next place, of so many.
    fn next(&mut self, places: usize) -> Option<usize> {
        self.left += places.saturating_sub(self.places);
        self.places = places;
        self.left = if places == 0 { 0 } else { self.left };
        self.left = self.left.checked_sub(1)?;
        let at = if self.next < places { self.next } else { 0 };
        self.next = at + 1;
        Some(at)
    }

    /// The places of the next `max` connections; what is away counts as well.
    fn next_connections(&mut self, connections: &mut Connections, max: usize) -> Vec<usize> {
        let places = connections.places();
        let mut found = Vec::with_capacity(max.min(self.left));
        let mut steps = max * EMPTY_PLACES_OF_ONE;
        while steps > 0
            && let Some(id) = self.next(places)
        {
            let is_taken = connections.get(id).is_some() || connections.away_at(id).is_some();
            found.extend(is_taken.then_some(id));
            steps = steps.saturating_sub(if is_taken { EMPTY_PLACES_OF_ONE } else { 1 });
        }
        found
    }
}

/// The rounds of a worker.
#[derive(Default)]
pub(super) struct Rounds {
    /// Of ticks.
    tick: Round,
    /// One was killed, or a pause is over.
    look: Round,
    /// The users of the node have changed.
    users: Round,
    /// They are told when every connection goes by them.
    told: Vec<SyncSender<()>>,
}

impl Rounds {
    /// Whether a round other than that of ticks is under way.
    pub(super) fn are_under_way(&self) -> bool {
        !self.look.is_over() || !self.users.is_over() || !self.told.is_empty()
    }
}

/// Every connection is to be looked at again: one was killed, or a pause is over.
pub(crate) fn look_at_all(clients: &mut Clients) {
    let places = clients.connections.places();
    clients.rounds.look.begin(places);
}

/// The users of the node have changed: every connection is to go by it, those that have lost their user are closed, and then
/// `done` is told.
pub(crate) fn users_changed(clients: &mut Clients, done: Option<SyncSender<()>>) {
    let places = clients.connections.places();
    clients.rounds.users.begin(places);
    clients.rounds.told.extend(done);
}

/// Goes on with the rounds that are under way.
pub(crate) fn go_round(clients: &mut Clients) {
    for id in clients.rounds.look.next_connections(&mut clients.connections, TURN_CONNECTIONS_MAX) {
        if let Some(away) = clients.connections.away_at(id) {
            away.letters.keep(Letter::Look);
        } else {
            clients.end_pause(id);
            clients.set_ready(id);
        }
    }
    for id in clients.rounds.users.next_connections(&mut clients.connections, TURN_CONNECTIONS_MAX) {
        if let Some(away) = clients.connections.away_at(id) {
            away.letters.keep(Letter::UsersChanged);
        } else {
            users_changed_at(clients, id);
        }
    }
    if clients.rounds.users.is_over() {
        // They may have been given up.
        clients.rounds.told.drain(..).for_each(|done| _ = done.send(()));
    }
}

/// The same for one that has been away.
pub(super) fn users_changed_of(clients: &mut Clients, client: ClientId) {
    if clients.find(client).is_some() {
        users_changed_at(clients, client.id);
    }
}

fn users_changed_at(clients: &mut Clients, id: usize) {
    let store = clients.store().clone();
    let Some(connection) = clients.get_mut(id) else { return };
    let (is_refused, entry) = (connection.users_changed(&store), connection.session.entry().id);
    if connection.session.closing() {
        clients.set_ready(id);
    }
    if is_refused {
        clients.unblock(id, entry, End::Error, None);
    }
}

/// Finds the connections that are idle for too long, or to be closed.
pub(crate) fn tick(clients: &mut Clients, now_ms: u64) {
    clients.unstall_all();
    let (store, worker) = (clients.store().clone(), clients.worker());
    let normal_limit = store.config.output_limit(ClientClass::Normal);
    clients.subscribers_limit = store.config.output_limit(ClientClass::Pubsub);
    let Clients { connections, rounds, subscribers_limit, .. } = clients;
    if rounds.tick.is_over() {
        rounds.tick.begin(connections.places());
    }
    let mut rooms_left = BLOCKED_CLIENTS_STEP_MAX;
    let mut dirty = Vec::new();
    for id in rounds.tick.next_connections(connections, TICK_CONNECTIONS_MAX) {
        let Some(connection) = connections.get_mut(id) else { continue };
        rooms_left -= usize::from(rooms_left > 0 && connection.give_room_back());
        connection.note_buffers();
        let limit = if connection.session.is_subscriber() { *subscribers_limit } else { normal_limit };
        if let Some(why) = connection.is_slow(limit, now_ms) {
            note_slow(&store, worker, connection, why);
        }
        if connection.session.entry().killed() && !connection.is_writable() {
            connection.break_off();
        }
        if connection.is_broken() && connection.mark_dirty() {
            dirty.push(id);
        }
        let idle = connection.is_quiet() && connection.session.timed_out(&*store, now_ms);
        let ends = connection.session.closing() || connection.is_deaf();
        if idle || (ends && !connection.is_dirty()) {
            connection.hear_no_more();
            connection.mark_dirty();
            dirty.push(id);
        }
    }
    clients.put_dirty(dirty);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_looks_at_every_place_whatever_comes_and_goes() {
        // How many places there are at each step, and what the step looks at, up to three places; a round begins at the first.
        type Steps<'a> = &'a [(usize, &'a [usize])];
        let cases: &[Steps<'_>] = &[
            &[(0, &[]), (0, &[])],
            &[(2, &[0, 1]), (0, &[])],
            &[(2, &[0, 1]), (2, &[])],
            &[(5, &[0, 1, 2]), (5, &[3, 4]), (5, &[])],
            // New places come while it is under way.
            &[(4, &[0, 1, 2]), (6, &[3, 4, 5]), (6, &[])],
            // There are fewer: what is left of them is looked at, again if need be.
            &[(6, &[0, 1, 2]), (2, &[0, 1, 0]), (2, &[])],
        ];
        for steps in cases {
            let mut round = Round::default();
            round.begin(steps[0].0);
            for (places, expected) in *steps {
                let looked: Vec<usize> = std::iter::from_fn(|| round.next(*places)).take(3).collect();
                assert_eq!(looked, *expected, "{steps:?}");
            }
            assert!(round.is_over(), "{steps:?}");
        }
    }

    #[test]
    fn one_that_begins_while_it_is_under_way_goes_on_from_there() {
        let mut round = Round::default();
        round.begin(4);
        let mut looked: Vec<usize> = (0..3).filter_map(|_| round.next(4)).collect();
        round.begin(4);
        looked.extend(std::iter::from_fn(|| round.next(4)));
        assert_eq!(looked, [0, 1, 2, 3, 0, 1, 2]);
    }
}
