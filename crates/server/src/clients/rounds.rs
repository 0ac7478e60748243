//! Rounds: all connections of a worker are looked at, some of them at a time. All at once would keep the event loop for long where there are
//! very many.
//!
//! Invariant: a round looks at every place that there was when it began, whatever comes and goes meanwhile, and at each connection as it is
//! then: here, or away at the thread for large requests.

use super::client_id::ClientId;
use super::connections::Connections;
use std::collections::BTreeSet;
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
    /// Databases have the slots of others.
    exchanged: Round,
    /// They are told when all waits that move have been told to.
    told_exchanged: Vec<SyncSender<()>>,
    /// Who was found in that to wait for keys of another database, by when the wait began.
    moving: BTreeSet<(u64, ClientId)>,
}

impl Rounds {
    /// Whether a round other than that of ticks is under way.
    pub(super) fn are_under_way(&self) -> bool {
        let are_over = self.look.is_over() && self.users.is_over() && self.exchanged.is_over();
        !are_over || !self.told.is_empty() || !self.told_exchanged.is_empty() || !self.moving.is_empty()
    }

    /// All connections are to be looked at again.
    pub(super) fn begin_look(&mut self, connections: &Connections) {
        self.look.begin(connections.places());
    }

    /// All connections are to go by the users that there are now; then `done` is told.
    pub(super) fn begin_users(&mut self, connections: &Connections, done: Option<SyncSender<()>>) {
        self.users.begin(connections.places());
        self.told.extend(done);
    }

    /// All connections are to go by the slots that databases have now.
    pub(super) fn begin_exchanged(&mut self, connections: &Connections) {
        self.exchanged.begin(connections.places());
    }

    /// `done` is to be told when all waits that move have been told to.
    pub(super) fn tell_exchanged(&mut self, done: SyncSender<()>) {
        self.told_exchanged.push(done);
    }

    /// Who is to be told that they have, if they have.
    pub(super) fn take_told_exchanged(&mut self) -> Vec<SyncSender<()>> {
        let have = self.exchanged.is_over() && self.moving.is_empty();
        if have { std::mem::take(&mut self.told_exchanged) } else { Vec::new() }
    }

    /// A wait that began then is to move.
    pub(super) fn moves(&mut self, since_us: u64, client: ClientId) {
        self.moving.insert((since_us, client));
    }

    /// The next connections that a tick looks at.
    pub(super) fn next_of_tick(&mut self, connections: &mut Connections) -> Vec<usize> {
        if self.tick.is_over() {
            self.tick.begin(connections.places());
        }
        self.tick.next_connections(connections, TICK_CONNECTIONS_MAX)
    }

    /// The next connections that are to be looked at again.
    pub(super) fn next_of_look(&mut self, connections: &mut Connections) -> Vec<usize> {
        self.look.next_connections(connections, TURN_CONNECTIONS_MAX)
    }

    /// The next connections that are to go by other users.
    pub(super) fn next_of_users(&mut self, connections: &mut Connections) -> Vec<usize> {
        self.users.next_connections(connections, TURN_CONNECTIONS_MAX)
    }

    /// The next connections that are to go by other slots of databases.
    pub(super) fn next_of_exchanged(&mut self, connections: &mut Connections) -> Vec<usize> {
        self.exchanged.next_connections(connections, TURN_CONNECTIONS_MAX)
    }

    /// The next waits that move, when all are found: the one that began first is the first.
    pub(super) fn take_moving(&mut self) -> Vec<ClientId> {
        let max = if self.exchanged.is_over() { BLOCKED_CLIENTS_STEP_MAX } else { 0 };
        std::iter::from_fn(|| self.moving.pop_first()).take(max).map(|(_, client)| client).collect()
    }

    /// Who is to be told that all go by the users that there are, if they do.
    pub(super) fn take_told(&mut self) -> Vec<SyncSender<()>> {
        if self.users.is_over() { std::mem::take(&mut self.told) } else { Vec::new() }
    }
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

    #[test]
    fn waits_move_in_their_order_when_all_are_found() {
        let mut rounds = Rounds::default();
        rounds.exchanged.begin(2);
        let client = |id| ClientId { id, generation: 0 };
        [(7, 1), (3, 2), (9, 0)].into_iter().for_each(|(since_us, id)| rounds.moves(since_us, client(id)));
        assert!(rounds.take_moving().is_empty(), "a round is under way");
        while rounds.exchanged.next(2).is_some() {}
        assert!(rounds.are_under_way());
        assert_eq!(rounds.take_moving(), [client(2), client(1), client(0)]);
        assert!(!rounds.are_under_way());
        let max = BLOCKED_CLIENTS_STEP_MAX;
        (0..=max).for_each(|id| rounds.moves(0, client(id)));
        assert_eq!((rounds.take_moving().len(), rounds.take_moving().len()), (max, 1));
    }
}
