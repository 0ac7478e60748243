//! How far the measurements are: told on standard error while they run; each row on standard output as soon as it is known.
//!
//! It is the process's own, as standard error is: what waits or loads says so here, however deep it lies. Without `begin`, as in
//! tests, nothing is told and no bound changes.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Between two lines while nothing else is told.
const EVERY: Duration = Duration::from_secs(5);
/// A group of measurements ends by then in a quick run.
const QUICK_BOUND: Duration = Duration::from_secs(170);
/// A wait that begins near that end still gets this.
const WAIT_MIN: Duration = Duration::from_secs(1);

static PROGRESS: Mutex<Option<Progress>> = Mutex::new(None);

/// What is told.
struct Progress {
    is_quick: bool,
    /// Rows are printed as Markdown.
    prints_rows: bool,
    /// The head that stands above the rows printed last.
    head: &'static str,
    measurement: &'static str,
    /// Of the group that the measurement belongs to.
    group_begun: Instant,
    begun: Instant,
    /// Rows × runs.
    steps: usize,
    steps_done: usize,
    row: String,
    doing: String,
    doing_since: Instant,
    /// Of what is done now, how many of how many; (0, 0) where nothing is counted.
    counted: u64,
    counted_of: u64,
}

impl Progress {
    fn new(is_quick: bool, prints_rows: bool, now: Instant) -> Self {
        Self {
            is_quick,
            prints_rows,
            head: "",
            measurement: "build",
            group_begun: now,
            begun: now,
            steps: 0,
            steps_done: 0,
            row: String::new(),
            doing: String::new(),
            doing_since: now,
            counted: 0,
            counted_of: 0,
        }
    }

    fn group(name: &str) -> &str {
        name.split_once('/').map_or(name, |(group, _)| group)
    }

    fn measure(&mut self, name: &'static str, steps: usize, now: Instant) {
        if Self::group(name) != Self::group(self.measurement) {
            self.group_begun = now;
        }
        (self.measurement, self.begun, self.head) = (name, now, "");
        (self.steps, self.steps_done) = (steps, 0);
        self.row.clear();
        self.doing("begins".to_owned(), now);
    }

    fn doing(&mut self, what: String, now: Instant) {
        (self.doing, self.doing_since, self.counted, self.counted_of) = (what, now, 0, 0);
    }

    /// What is left of the measurement, by what its steps have taken so far.
    fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.steps.checked_sub(self.steps_done)?;
        (self.steps_done > 0).then(|| (now - self.begun).mul_f64(left as f64 / self.steps_done as f64))
    }

    fn line(&self, now: Instant) -> String {
        let mut text = format!("… {}", self.measurement);
        if self.steps > 0 {
            text += &format!(", step {} of {}", (self.steps_done + 1).min(self.steps), self.steps);
        }
        if !self.row.is_empty() {
            text += &format!(", {}", self.row);
        }
        let seconds = (now - self.doing_since).as_secs_f64();
        text += &format!(": {}, {seconds:.0} s", self.doing);
        if self.counted_of > 0 {
            let rate = self.counted as f64 / seconds.max(0.001);
            text += &format!(", {} of {}, {rate:.0}/s", self.counted, self.counted_of);
        }
        text += &format!("; {} s so far", (now - self.begun).as_secs());
        match self.left(now) {
            Some(left) => text + &format!(", about {} s left", left.as_secs()),
            None => text,
        }
    }

    /// What may still be waited for; None if a quick run is over.
    fn time_left(&self, now: Instant) -> Option<Duration> {
        if !self.is_quick {
            return Some(Duration::MAX);
        }
        QUICK_BOUND.checked_sub(now - self.group_begun)
    }
}

fn with<T>(act: impl FnOnce(&mut Progress, Instant) -> T) -> Option<T> {
    PROGRESS.lock().as_mut().map(|progress| act(progress, Instant::now()))
}

/// Begins to tell, every few seconds.
pub fn begin(is_quick: bool, prints_rows: bool) {
    let progress = Progress::new(is_quick, prints_rows, Instant::now());
    *PROGRESS.lock() = Some(progress);
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(EVERY);
            if let Some(line) = with(|progress, now| progress.line(now)) {
                eprintln!("{line}");
            }
        }
    });
}

/// A measurement begins, of so many rows times runs.
pub fn measure(name: &'static str, steps: usize) {
    with(|progress, now| progress.measure(name, steps, now));
}

/// A row is measured from now on.
pub fn row(what: &str) {
    with(|progress, _| what.clone_into(&mut progress.row));
}

/// One run of one row is done. An error if a quick run takes too long: it says what was done last.
pub fn step() -> Result<(), String> {
    with(|progress, now| {
        progress.steps_done += 1;
        match progress.time_left(now) {
            Some(_) => Ok(()),
            None => {
                let (bound, doing) = (QUICK_BOUND.as_secs(), &progress.doing);
                Err(format!("{}: a quick run ends after {bound} s; last: {doing}", progress.measurement))
            }
        }
    })
    .unwrap_or(Ok(()))
}

/// What is done or waited for from now on.
pub fn doing(what: impl Into<String>) {
    with(|progress, now| progress.doing(what.into(), now));
}

/// How many of how many are done of that.
pub fn counted(done: u64, of: u64) {
    with(|progress, _| (progress.counted, progress.counted_of) = (done, of));
}

/// A row of a table with this head is known.
pub fn print(head: &'static str, row: &str) {
    with(|progress, _| {
        if progress.prints_rows {
            if std::mem::replace(&mut progress.head, head) != head {
                print!("\n{head}");
            }
            print!("{row}");
        }
        progress.row.clear();
    });
}

/// How long something may be waited for: `bound`, or what a quick run has left.
pub fn within(bound: Duration) -> Duration {
    let left = with(|progress, now| progress.time_left(now).unwrap_or_default().max(WAIT_MIN));
    left.map_or(bound, |left| left.min(bound))
}

/// Whether the run is quick, which shows that all works and no more.
pub fn is_quick() -> bool {
    with(|progress, _| progress.is_quick).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_done_and_how_long_it_takes() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut progress = Progress::new(false, true, begun);
        progress.measure("programs", 8, begun);
        progress.doing("loading".to_owned(), at(2));
        (progress.counted, progress.counted_of) = (3_000, 9_000);
        assert_eq!(progress.line(at(5)), "… programs, step 1 of 8: loading, 3 s, 3000 of 9000, 1000/s; 5 s so far");
        progress.row = "GET".to_owned();
        progress.steps_done = 2;
        progress.doing("redis-benchmark".to_owned(), at(19));
        let line = "… programs, step 3 of 8, GET: redis-benchmark, 1 s; 20 s so far, about 60 s left";
        assert_eq!(progress.line(at(20)), line);
    }

    #[test]
    fn a_quick_group_has_an_end_and_the_next_begins_anew() {
        let begun = Instant::now();
        let late = begun + QUICK_BOUND + Duration::from_secs(1);
        let mut progress = Progress::new(true, true, begun);
        for (measurement, is_over) in [("types/reads", true), ("types/writes", true), ("tls", false)] {
            if progress.measurement == "build" {
                progress.measure(measurement, 1, begun);
            } else {
                progress.measure(measurement, 1, late);
            }
            assert_eq!(progress.time_left(late).is_none(), is_over, "{measurement}");
        }
        assert!(Progress::new(false, true, begun).time_left(late).is_some(), "only a quick run has an end");
    }
}
