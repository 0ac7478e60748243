//! For how long a script that only reads may keep its thread while others wait for one.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use vocab::SteadyClock;

/// What is there as long as the client's connection is.
type Client = Weak<dyn Any + Send + Sync>;

/// One turn of a script on a thread. The script gives way when it is over and others wait: nothing depends on what a read has come to,
/// so it begins anew later. A read whose client has left gives way at once.
#[derive(Debug)]
pub struct ScriptTurn {
    clock: SteadyClock,
    ends_us: u64,
    others: Arc<AtomicUsize>,
    client: Option<Client>,
}

impl ScriptTurn {
    /// A turn of so many µs from now on, by that clock. `others` counts those that wait; of a script that may write no client is given: it
    /// is run to its end, as any write is.
    #[must_use]
    pub fn new(clock: SteadyClock, us: u64, others: Arc<AtomicUsize>, client: Option<Client>) -> Self {
        Self { clock, ends_us: clock().saturating_add(us), others, client }
    }

    /// Whether the script is to give way now.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let others_wait = || self.others.load(Ordering::Relaxed) > 0;
        (others_wait() && (self.clock)() >= self.ends_us) || self.client_has_left()
    }

    /// Whether its client has closed its connection.
    #[must_use]
    pub fn client_has_left(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.strong_count() == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_gives_way_when_its_time_is_over_and_others_wait_or_its_client_has_left() {
        let others = Arc::new(AtomicUsize::new(0));
        let turn = |us, client| ScriptTurn::new(|| 1000, us, others.clone(), client);
        let (over, under_way) = (turn(0, None), turn(1, None));
        assert!(!over.is_over() && !under_way.is_over());
        others.store(1, Ordering::Relaxed);
        assert!(over.is_over() && !under_way.is_over());
        let left = turn(1, Some(Weak::<()>::new() as Client));
        assert!(left.is_over() && left.client_has_left() && !over.client_has_left());
    }
}
