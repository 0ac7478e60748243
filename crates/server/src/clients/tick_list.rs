//! Which connections a tick of the loop looks at.
//!
//! Those of which something has come since the last tick, and those that are owed something or are to end. However many are idle beside
//! them, a tick passes few of these: in its round it comes to all of them, since some are to be closed for being idle.

use super::connection::Connection;
use super::slow::note_slow;
use crate::shared::NodeShared;
use node::config::OutputLimit;
use node::multi_raft::TICK_MS;

/// A tick passes at least so many places of connections.
const ROUND_PLACES_MIN: usize = 64;
/// In so many ticks it comes to all of them where connections are closed for being idle, which is a matter of seconds.
const TICKS_A_ROUND: usize = (1000 / TICK_MS) as usize;

/// The list. Places of connections that are not there any more may be in it, and some twice.
#[derive(Default)]
pub(super) struct TickList {
    listed: Vec<usize>,
    /// The place at which the round goes on.
    round_at: usize,
}

impl TickList {
    /// The next tick looks at the connection of that place.
    pub(super) fn note(&mut self, id: usize, connection: &mut Connection) {
        if connection.awaits_tick() {
            self.listed.push(id);
        }
    }

    /// So does the tick after this one, if that is to look at it whatever comes.
    pub(super) fn note_again(&mut self, id: usize, connection: &mut Connection) {
        if connection.needs_tick() {
            self.note(id, connection);
        }
    }

    /// Those that were added since the last call.
    pub(super) fn take(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.listed)
    }

    /// The next of so many places that a tick passes; `closes_idle`: connections are closed for being idle.
    pub(super) fn pass(&mut self, places: usize, closes_idle: bool) -> impl Iterator<Item = usize> + use<> {
        let share = if closes_idle { places.div_ceil(TICKS_A_ROUND) } else { 0 };
        let from = if self.round_at < places { self.round_at } else { 0 };
        let to = places.min(from + share.max(ROUND_PLACES_MIN));
        self.round_at = to;
        from..to
    }
}

/// Looks at a connection that may have been idle for too long, be owed too much, or have to be closed. Whether it is to be flushed.
pub(super) fn look(
    connection: &mut Connection,
    limit: OutputLimit,
    now_ms: u64,
    (store, worker): (&NodeShared, usize),
) -> bool {
    connection.note_buffers();
    if let Some(why) = connection.is_slow(limit, now_ms) {
        note_slow(store, worker, connection, why);
    }
    if connection.session.entry().killed() && !connection.is_writable() {
        connection.break_off();
    }
    let is_dirty = connection.is_broken() && connection.mark_dirty();
    let idle = connection.is_quiet() && connection.session.timed_out(store, now_ms);
    let ends = connection.session.closing() || connection.is_deaf();
    let is_over = idle || (ends && !connection.is_dirty());
    if is_over {
        connection.hear_no_more();
        connection.mark_dirty();
    }
    is_dirty || is_over
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_comes_to_all_places() {
        let passed = |places: usize, closes_idle: bool, ticks: usize| {
            let mut list = TickList::default();
            (0..ticks).map(|_| list.pass(places, closes_idle).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        assert_eq!(passed(0, true, 2), vec![Vec::<usize>::new(); 2]);
        assert_eq!(passed(3, false, 2), vec![vec![0, 1, 2]; 2], "few are passed by each tick");
        for (closes_idle, ticks) in [(false, 10_000usize.div_ceil(ROUND_PLACES_MIN)), (true, TICKS_A_ROUND)] {
            let all = passed(10_000, closes_idle, ticks);
            assert_eq!(all.concat(), (0..10_000).collect::<Vec<_>>());
            let most = if closes_idle { 10_000 / TICKS_A_ROUND } else { ROUND_PLACES_MIN };
            assert!(all.iter().all(|tick| tick.len() <= most));
        }
        // Connections have gone meanwhile.
        let mut list = TickList::default();
        assert_eq!(list.pass(100, false).count(), ROUND_PLACES_MIN);
        assert_eq!(list.pass(10, false).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn what_was_added_is_looked_at_once() {
        let mut list = TickList::default();
        list.listed.push(7);
        assert_eq!((list.take(), list.take()), (vec![7], vec![]));
    }
}
