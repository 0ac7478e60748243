//! How often single databases are asked, where that has a bound: `ops-max` of `ctl database set`.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use vocab::Database;

/// For so long operations are counted together.
const WINDOW: Duration = Duration::from_secs(1);

/// The operations of one database since a window began.
struct Window {
    since: Instant,
    count: u64,
}

/// A window for each database that has a bound.
#[derive(Default)]
pub(crate) struct DatabaseRates(Mutex<BTreeMap<Database, Window>>);

impl DatabaseRates {
    /// Whether one more operation is within the bound, in operations a second; then it counts.
    pub(crate) fn takes(&self, database: Database, ops_max: u64) -> bool {
        self.takes_at(database, ops_max, Instant::now())
    }

    fn takes_at(&self, database: Database, ops_max: u64, now: Instant) -> bool {
        let mut windows = self.0.lock();
        let window = windows.entry(database).or_insert(Window { since: now, count: 0 });
        if now.saturating_duration_since(window.since) >= WINDOW {
            *window = Window { since: now, count: 0 };
        }
        let takes = window.count < ops_max;
        window.count += u64::from(takes);
        takes
    }

    /// An operation that counts waits, and will be looked at and counted again.
    pub(crate) fn gives_back(&self, database: Database) {
        if let Some(window) = self.0.lock().get_mut(&database) {
            window.count = window.count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_second_takes_as_many_as_it_may() {
        let (rates, start) = (DatabaseRates::default(), Instant::now());
        let [one, other] = [1, 2].map(|number| Database::of_number(number).unwrap());
        let taken = |database, after_ms: u64| {
            (0..10).filter(|_| rates.takes_at(database, 4, start + Duration::from_millis(after_ms))).count()
        };
        assert_eq!((taken(one, 0), taken(one, 900), taken(other, 900), taken(one, 1000)), (4, 0, 4, 4));
        rates.gives_back(one);
        assert_eq!((taken(one, 1100), taken(other, 1100)), (1, 0), "what waits counts once");
    }
}
