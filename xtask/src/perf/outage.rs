//! A node of a store is killed while clients are at work, and comes back.

use super::store::Store;
use std::time::{Duration, Instant};

/// When what happens, from the begin on.
pub struct Outage {
    /// A node is killed.
    pub dies: Duration,
    /// It is started again.
    pub returns: Duration,
    /// The clients end.
    pub ends: Duration,
}

impl Outage {
    /// Kills a node and starts it again, each at its time. Answers when it all began.
    pub fn of(&self, store: &mut Store<'_>, victim: usize) -> Result<Instant, String> {
        let begun = Instant::now();
        wait_until(begun, self.dies);
        store.kill(victim);
        wait_until(begun, self.returns);
        store.restart(victim)?;
        Ok(begun)
    }
}

/// Waits until so long after the begin.
pub fn wait_until(begun: Instant, after: Duration) {
    std::thread::sleep(after.saturating_sub(begun.elapsed()));
}
