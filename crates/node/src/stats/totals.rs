//! All counters of a node, summed over its workers.

use super::rates::Sampler;
use super::{CommandLog, CommandTotals, LatencyEvents, Lookups, Rates, Totals, WorkerStats};
use crate::config::{CommandLogKind, Config};
use parking_lot::{Mutex, MutexGuard};
use resp::table::{self, CommandId, CommandSpec};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What had been counted when CONFIG RESETSTAT was sent. Counters themselves are never set back: only their own
/// thread may write them.
#[derive(Debug, Default)]
struct Baseline {
    totals: Totals,
    commands: BTreeMap<usize, CommandTotals>,
    errors: BTreeMap<String, u64>,
}

/// All counters of a node.
#[derive(Debug)]
pub struct Stats {
    workers: Vec<WorkerStats>,
    baseline: Mutex<Baseline>,
    sampler: Mutex<Sampler>,
    /// By `CommandLogKind`.
    command_logs: [Mutex<CommandLog>; 3],
    events: Mutex<LatencyEvents>,
    /// Keys that threads other than the workers looked up for clients: found, and not.
    pool_lookups: [AtomicU64; 2],
}

thread_local! {
    /// Whether this thread counts beside its worker.
    static COUNTS_ASIDE: Cell<bool> = const { Cell::new(false) };
}

impl Stats {
    /// Counters for so many worker threads.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            // Behind those of the workers are those of their threads for large requests.
            workers: (0..2 * workers.max(1)).map(|_| WorkerStats::default()).collect(),
            baseline: Mutex::default(),
            sampler: Mutex::default(),
            command_logs: Default::default(),
            events: Mutex::default(),
            pool_lookups: Default::default(),
        }
    }

    /// The counters of one worker: for its thread alone to write. The worker's thread for large requests gets counters of its own.
    #[must_use]
    pub fn worker(&self, worker: usize) -> &WorkerStats {
        let of_thread = if COUNTS_ASIDE.get() { self.workers.len() / 2 } else { 0 };
        &self.workers[worker + of_thread]
    }

    /// The calling thread is one for large requests of a worker: what it counts for that worker is counted apart.
    pub fn count_aside() {
        COUNTS_ASIDE.set(true);
    }

    /// Takes a sample for `rates`, if it is time. The shell calls it about ten times a second while it is busy.
    pub fn tick(&self, now_ms: u64) {
        self.sampler.lock().tick(now_ms, || self.raw_totals());
    }

    /// How fast the totals rose over the last samples.
    #[must_use]
    pub fn rates(&self) -> Rates {
        self.sampler.lock().rates()
    }

    fn raw_totals(&self) -> Totals {
        let [hits, misses] = &self.pool_lookups;
        let mut sum = Totals {
            keyspace_hits: hits.load(Ordering::Relaxed),
            keyspace_misses: misses.load(Ordering::Relaxed),
            ..Totals::default()
        };
        for worker in &self.workers {
            sum.commands += worker.processed.get();
            sum.connections += worker.connections.get();
            sum.rejected_connections += worker.rejected_connections.get();
            sum.output_limit_disconnections += worker.output_limit_disconnections.get();
            sum.evicted_clients += worker.evicted_clients.get();
            sum.input_bytes += worker.input_bytes.get();
            sum.output_bytes += worker.output_bytes.get();
            sum.reads += worker.reads.get();
            sum.writes += worker.writes.get();
            sum.keyspace_hits += worker.keyspace_hits.get();
            sum.keyspace_misses += worker.keyspace_misses.get();
        }
        sum
    }

    fn raw_command(&self, command: CommandId) -> CommandTotals {
        let mut sum = CommandTotals::default();
        for worker in &self.workers {
            worker.add_command(command, &mut sum);
        }
        sum
    }

    fn raw_errors(&self) -> BTreeMap<String, u64> {
        let mut sum = BTreeMap::new();
        for worker in &self.workers {
            worker.add_errors(&mut sum);
        }
        sum
    }

    /// The figures of the whole node.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.raw_totals().since(&self.baseline.lock().totals)
    }

    /// What was counted of one command.
    #[must_use]
    pub fn command(&self, command: CommandId) -> CommandTotals {
        let mut sum = self.raw_command(command);
        if let Some(before) = self.baseline.lock().commands.get(&command.index()) {
            sum.since(before);
        }
        sum
    }

    /// All commands that were called or refused.
    pub fn commands(&self) -> impl Iterator<Item = (&'static CommandSpec, CommandTotals)> {
        table::all()
            .iter()
            .map(|spec| (spec, self.command(spec.id)))
            .filter(|(_, totals)| totals.calls() > 0 || totals.rejected > 0)
    }

    /// How many errors were answered, by their code.
    #[must_use]
    pub fn errors(&self) -> BTreeMap<String, u64> {
        let mut sum = self.raw_errors();
        for (code, before) in &self.baseline.lock().errors {
            if let Some(count) = sum.get_mut(code) {
                *count -= before;
            }
        }
        sum.retain(|_, count| *count > 0);
        sum
    }

    /// Begins all counts anew, as CONFIG RESETSTAT does.
    pub fn reset(&self) {
        let now = Baseline {
            totals: self.raw_totals(),
            commands: table::all().iter().map(|spec| (spec.id.index(), self.raw_command(spec.id))).collect(),
            errors: self.raw_errors(),
        };
        *self.baseline.lock() = now;
    }

    /// One of the logs of COMMANDLOG.
    pub fn command_log(&self, kind: CommandLogKind) -> MutexGuard<'_, CommandLog> {
        self.command_logs[kind as usize].lock()
    }

    /// Counts keys that were looked up for clients on a thread that is no worker's.
    pub fn looked_up(&self, lookups: Lookups) {
        for (count, n) in self.pool_lookups.iter().zip([lookups.hits, lookups.misses]) {
            count.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Records how long something took, if the settings make it a latency event.
    pub fn took(&self, event: &'static str, elapsed: Duration, now_ms: u64, config: &Config) {
        let (ms, threshold_ms) = (elapsed.as_millis() as u64, config.latency_threshold_ms());
        if threshold_ms > 0 && ms >= threshold_ms {
            self.events().add(event, now_ms / 1000, ms);
        }
    }

    /// The latency events.
    pub fn events(&self) -> MutexGuard<'_, LatencyEvents> {
        self.events.lock()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::stats::EndedCall;

    #[test]
    fn workers_are_summed_and_a_reset_begins_anew() {
        let stats = Stats::new(2);
        let get = table::lookup(b"get").unwrap().id;
        stats.worker(0).finished(get, 1500, b"$-1\r\n");
        stats.worker(1).finished(get, 2500, b"-WRONGTYPE Operation\r\n");
        stats.worker(1).rejected(Some(get), "ERR wrong number of arguments");
        stats.worker(0).connected();
        stats.worker(1).received(10);
        stats.worker(0).looked_up(Lookups { hits: 2, misses: 1 });
        stats.looked_up(Lookups { hits: 1, misses: 0 });
        let totals = stats.command(get);
        assert_eq!((totals.calls(), totals.ns, totals.failed, totals.rejected), (2, 4000, 1, 1));
        let found = Totals { keyspace_hits: 3, keyspace_misses: 1, ..Totals::default() };
        let expected = Totals { commands: 2, connections: 1, input_bytes: 10, reads: 1, ..found };
        assert_eq!(stats.totals(), expected);
        assert_eq!(stats.errors(), BTreeMap::from([("ERR".into(), 1), ("WRONGTYPE".into(), 1)]));
        assert_eq!(stats.commands().map(|(spec, _)| spec.name).collect::<Vec<_>>(), ["GET"]);
        stats.reset();
        assert_eq!((stats.totals(), stats.errors(), stats.commands().count()), (Totals::default(), BTreeMap::new(), 0));
        stats.worker(0).finished(get, 1, b":1\r\n");
        assert_eq!(stats.command(get).calls(), 1);
    }

    #[test]
    fn what_scripts_run_counts_without_a_latency() {
        let stats = Stats::new(2);
        let get = table::lookup(b"get").unwrap().id;
        let call = |has_failed| EndedCall { command: get, has_failed };
        stats.worker(0).finished(get, 7, b":1\r\n");
        stats.worker(1).ran_in_script(&[call(false), call(true)]);
        let found = stats.command(get);
        assert_eq!((found.calls(), found.failed, found.ns, found.latency.count()), (3, 1, 7, 1));
        assert_eq!(stats.totals().commands, 1, "only what clients send is a command of the node");
        stats.reset();
        assert_eq!((stats.command(get).calls(), stats.command(get).failed), (0, 0));
    }

    #[test]
    fn rates_are_those_of_the_last_samples() {
        let stats = Stats::new(1);
        let get = table::lookup(b"get").unwrap().id;
        for tenth in 0..40 {
            stats.tick(1_000 + tenth * 100);
            stats.tick(1_001 + tenth * 100);
            for _ in 0..tenth {
                stats.worker(0).finished(get, 1, b":1\r\n");
            }
        }
        // The samples of tenths 24 to 39: between them 24 + … + 38 commands in 1.5 s.
        assert_eq!(stats.rates().commands, (24..39).sum::<u64>() as f64 / 1.5);
    }
}
