//! The seats of HTTP connections: bounded, and never all taken by connections that ask for nothing.
//!
//! A connection that arrives when all seats are taken takes the seat of the one that has been idle the longest. If every
//! other one has a request under way, it gets one of a few seats for probes, where only `/healthz` and `/readyz` are
//! answered.

use parking_lot::{Mutex, MutexGuard};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

/// What a connection may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admits {
    /// Everything.
    All,
    /// Health and readiness.
    Probes,
}

/// Ends a connection from outside.
pub(super) trait End: Send {
    /// Ends it.
    fn end(&self);
}

impl End for TcpStream {
    fn end(&self) {
        // It may have ended by itself.
        let _ = self.shutdown(Shutdown::Both);
    }
}

/// One connection.
struct Seated {
    id: u64,
    admits: Admits,
    /// Since when it has had no request under way, as a count of changes; `None` while it has one.
    idle_since: Option<u64>,
    connection: Box<dyn End>,
}

#[derive(Default)]
struct SeatState {
    seated: Vec<Seated>,
    /// Counts changes: tells which connection has been idle the longest, and numbers connections.
    clock: u64,
}

/// All seats of a listener.
pub(super) struct Seats {
    connections_max: usize,
    probes_max: usize,
    state: Mutex<SeatState>,
}

impl Seats {
    pub(super) fn new(connections_max: usize, probes_max: usize) -> Arc<Self> {
        Arc::new(Self { connections_max, probes_max, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, SeatState> {
        self.state.lock()
    }

    /// A seat for a connection that has arrived; `None` if there is none, not even for a probe.
    pub(super) fn take(self: &Arc<Self>, connection: Box<dyn End>) -> Option<Seat> {
        let mut state = self.lock();
        let count = |state: &SeatState, admits| state.seated.iter().filter(|seated| seated.admits == admits).count();
        let mut admits = Admits::All;
        if count(&state, Admits::All) >= self.connections_max {
            match state.longest_idle() {
                Some(at) => state.seated.swap_remove(at).connection.end(),
                None if count(&state, Admits::Probes) < self.probes_max => admits = Admits::Probes,
                None => return None,
            }
        }
        state.clock += 1;
        let id = state.clock;
        state.seated.push(Seated { id, admits, idle_since: Some(id), connection });
        Some(Seat { seats: self.clone(), id, admits })
    }
}

impl SeatState {
    fn longest_idle(&self) -> Option<usize> {
        let idle = self.seated.iter().enumerate().filter(|(_, seated)| seated.admits == Admits::All);
        let idle = idle.filter_map(|(at, seated)| Some((seated.idle_since?, at)));
        idle.min().map(|(_, at)| at)
    }
}

/// A connection's seat, given back when it is dropped.
pub(super) struct Seat {
    seats: Arc<Seats>,
    id: u64,
    admits: Admits,
}

impl Seat {
    /// What the connection may ask for.
    pub(super) fn admits(&self) -> Admits {
        self.admits
    }

    /// A request has arrived, or its answer is ready. False: another connection has got the seat.
    pub(super) fn set_busy(&self, busy: bool) -> bool {
        let mut state = self.seats.lock();
        state.clock += 1;
        let now = state.clock;
        let Some(seated) = state.seated.iter_mut().find(|seated| seated.id == self.id) else { return false };
        seated.idle_since = (!busy).then_some(now);
        true
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().seated.retain(|seated| seated.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[derive(Clone, Default)]
    struct Ended(Arc<AtomicBool>);

    impl End for Ended {
        fn end(&self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    impl Ended {
        fn sit(&self, seats: &Arc<Seats>) -> Option<Seat> {
            seats.take(Box::new(self.clone()))
        }

        fn is_over(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn the_longest_idle_connection_gives_its_seat_to_the_next() {
        let seats = Seats::new(2, 1);
        let ended: Vec<Ended> = (0..4).map(|_| Ended::default()).collect();
        let first = ended[0].sit(&seats).unwrap();
        let _second = ended[1].sit(&seats).unwrap();
        first.set_busy(true);
        first.set_busy(false);
        let third = ended[2].sit(&seats).unwrap();
        assert_eq!(third.admits(), Admits::All);
        assert_eq!(ended.iter().map(Ended::is_over).collect::<Vec<_>>(), [false, true, false, false]);
        let _fourth = ended[3].sit(&seats).unwrap();
        assert!(ended[0].is_over() && !ended[2].is_over());
        drop(first);
        assert_eq!(seats.lock().seated.len(), 2);
    }

    #[test]
    fn where_all_are_busy_a_probe_finds_a_seat() {
        let seats = Seats::new(2, 1);
        let busy: Vec<Seat> = (0..2).map(|_| Ended::default().sit(&seats).unwrap()).collect();
        assert!(busy.iter().all(|seat| seat.set_busy(true)));
        let probe = Ended::default().sit(&seats).unwrap();
        assert_eq!(probe.admits(), Admits::Probes);
        assert!(Ended::default().sit(&seats).is_none());
        drop(probe);
        assert_eq!(Ended::default().sit(&seats).unwrap().admits(), Admits::Probes);
        drop(busy);
        assert_eq!(Ended::default().sit(&seats).unwrap().admits(), Admits::All);
    }
}
