//! The death of a node under load: for how long nothing could be read, and for how long its shards took no writes.

use super::bench::Bench;
use super::outage::Outage;
use super::program;
use super::progress;
use super::spread::Spread;
use super::store::{NODES, Store};
use super::wire::Connection;
use serde_json::{Value, json};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SHARDS: u32 = 16;
/// There is never so long a time without a read, in seconds.
const READ_BAR_S: f64 = 1.0;
/// Writes go on within this time, in seconds.
const WRITE_BAR_S: f64 = 2.0;
/// Keys whose writes are watched: enough that most of a node's shards have one.
const PROBES: usize = 8;
/// Between two writes of such a key, and between two reads of all of them at one node.
const PROBE_EVERY: Duration = Duration::from_millis(5);
/// Keys that are tried until enough are found that the node leads.
const TRIES: usize = 1000;
const PHASE_BOUND: Duration = Duration::from_secs(120);

/// What one death came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fall {
    /// The longest time without a successful `any` read at one of the nodes that live, in seconds.
    any_gap_s: f64,
    /// The longest time in which no client had a successful linearizable read, in seconds.
    absolute_gap_s: f64,
    /// The longest time in which a key of the node's shards took no write, in seconds.
    write_gap_s: f64,
    /// Reads of the workload that failed.
    failed_reads: u64,
    /// Updates of the workload that failed: those that were cut off, so that their outcome is unknown.
    failed_updates: u64,
}

/// One row: a node dies and comes back, several times.
#[derive(Debug)]
pub struct Death {
    runs: Vec<Fall>,
}

/// Three nodes under B, half of whose clients read from any replica and half from leaders.
pub fn measure(bench: &Bench) -> Result<Vec<Death>, String> {
    let seconds = |full, quick| Duration::from_secs(bench.options.scale(full, quick));
    let outage = Outage { dies: seconds(6, 2), returns: seconds(14, 6), ends: seconds(22, 10) };
    let properties =
        vec![format!("recordcount={}", bench.options.scale(300_000, 10_000)), "operationcount=0".to_owned()];
    let mut store = Store::start(bench, "nosync", SHARDS)?;
    store.bench("load", &properties[..1], &["-P", "workloadb", "--clients", "64"])?;
    let mut runs = Vec::new();
    for number in 0..bench.options.runs {
        store.wait_until_up()?;
        store.wait_until_quiet()?;
        let fall = fall(&mut store, &properties, (number + 1) % NODES, &outage)?;
        eprintln!("a node dies under B, run {} of {}: {fall:?}", number + 1, bench.options.runs);
        runs.push(fall);
        progress::step()?;
    }
    store.stop()?;
    for report in ["any-report", "absolute-report"] {
        bench.empty_folder(report)?;
    }
    Ok(vec![Death { runs }])
}

fn fall(store: &mut Store<'_>, properties: &[String], victim: usize, outage: &Outage) -> Result<Fall, String> {
    let duration = format!("{}s", outage.ends.as_secs());
    let load = |report: &str, read_from: &str| -> Result<Command, String> {
        let mut command = store.bench_command("run", report, properties)?;
        command.args(["-P", "workloadb", "--clients", "32", "--duration", &duration, "--read-from", read_from]);
        Ok(command)
    };
    let (mut any, mut absolute) = (load("any-report", "any")?, load("absolute-report", "leader")?);
    let ports = store.ports();
    let keys = keys_led_by(ports[victim])?;
    let alive: Vec<u16> = ports.iter().enumerate().filter(|(node, _)| *node != victim).map(|(_, port)| *port).collect();
    let stop = Flag::default();
    std::thread::scope(|scope| {
        // It says by its exit code that operations failed; how many is in what it prints.
        let any = scope.spawn(move || program::finished(&mut any, PHASE_BOUND));
        let absolute = scope.spawn(move || program::finished(&mut absolute, PHASE_BOUND));
        let readers: Vec<_> = alive.iter().map(|port| scope.spawn(|| longest_read(*port, &keys, &stop))).collect();
        let writers: Vec<_> =
            keys.iter().map(|key| scope.spawn(|| longest_write(&ports, victim, key, &stop))).collect();
        let _stop = StopOnDrop(&stop);
        outage.of(store, victim)?;
        let ((_, any, _), (_, absolute, _)) = (joined(any)??, joined(absolute)??);
        stop.0.store(true, Ordering::Release);
        let mut fall = Fall::default();
        for reader in readers {
            fall.any_gap_s = fall.any_gap_s.max(joined(reader)??.as_secs_f64());
        }
        for writer in writers {
            fall.write_gap_s = fall.write_gap_s.max(joined(writer)?.as_secs_f64());
        }
        fall.read(&any)?;
        fall.absolute_gap_s = fall.read(&absolute)?;
        Ok(fall)
    })
}

/// Tells the threads to stop.
#[derive(Default)]
struct Flag(AtomicBool);

/// Tells the threads to stop when the measurement ends, also by an error.
struct StopOnDrop<'a>(&'a Flag);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Release);
    }
}

impl Flag {
    fn asked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What a thread has answered.
pub fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> Result<T, String> {
    thread.join().map_err(|_| "a thread that watched has panicked".to_owned())
}

/// Keys of shards that the node at `port` leads: there they are taken.
fn keys_led_by(port: u16) -> Result<Vec<String>, String> {
    let mut node = Connection::open(port)?;
    let tried = (0..TRIES).map(|number| format!("death:{number}"));
    let keys: Vec<String> = tried.filter(|key| node.set(key, "0").is_ok()).take(PROBES).collect();
    if keys.len() == PROBES { Ok(keys) } else { Err(format!("the node at port {port} leads next to nothing")) }
}

/// Reads keys at one node, whichever replica it has, until told to stop: the longest time without a success.
fn longest_read(port: u16, keys: &[String], stop: &Flag) -> Result<Duration, String> {
    let mut node = Connection::open(port)?;
    node.read_only()?;
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    while !stop.asked() {
        for key in keys {
            // What was written by the time that this began is on every replica soon, and never gone again.
            if node.get(key).is_ok() {
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
        }
        std::thread::sleep(PROBE_EVERY);
    }
    Ok(longest.max(last.elapsed()))
}

/// Writes a key wherever it is taken, until told to stop: the longest time without a success.
fn longest_write(ports: &[u16], first: usize, key: &str, stop: &Flag) -> Duration {
    let (mut at, mut node) = (first, None);
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    while !stop.asked() {
        node = node.take().or_else(|| Connection::open(ports[at]).ok());
        if node.as_mut().is_some_and(|node| node.set(key, "1").is_ok()) {
            longest = longest.max(last.elapsed());
            last = Instant::now();
        } else {
            (node, at) = (None, (at + 1) % ports.len());
        }
        std::thread::sleep(PROBE_EVERY);
    }
    longest.max(last.elapsed())
}

impl Fall {
    /// Adds what failed in a run of the bench, and answers its longest time without a read; an error if a byte was read
    /// wrong.
    fn read(&mut self, text: &str) -> Result<f64, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("basalt bench: {error}"))?;
        let phase = value["phases"].as_array().and_then(|phases| phases.last()).unwrap_or(&Value::Null);
        for op in phase["ops"].as_array().into_iter().flatten() {
            let sum =
                |of: &Value| of.as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum::<u64>();
            let failed = sum(&op["returned"]) - op["returned"]["OK"].as_u64().unwrap_or(0);
            match op["op"].as_str() {
                Some("READ") => self.failed_reads += failed,
                _ => self.failed_updates += failed,
            }
            if op["verification_failures"].as_u64() != Some(0) {
                return Err("basalt bench: read something wrong".to_owned());
            }
        }
        phase["read_gap_s_max"].as_f64().ok_or_else(|| "basalt bench: tells of no reads".to_owned())
    }
}

impl Death {
    fn figure(&self, figure: fn(&Fall) -> f64) -> Option<Spread> {
        Spread::of(self.runs.iter().map(figure))
    }

    /// Whether no run was beyond the bars: a promise, not an average.
    pub fn held(&self) -> bool {
        let held = |run: &Fall| {
            run.any_gap_s < READ_BAR_S && run.absolute_gap_s < READ_BAR_S && run.write_gap_s <= WRITE_BAR_S
        };
        !self.runs.is_empty() && self.runs.iter().all(held)
    }

    /// A table of one row.
    pub fn markdown(&self) -> String {
        let shown = |figure| {
            self.figure(figure)
                .map_or_else(String::new, |s: Spread| format!("{:.2} ({:.2}–{:.2})", s.median, s.min, s.max))
        };
        let count = |figure| self.figure(figure).map_or_else(String::new, |s: Spread| format!("{:.0}", s.median));
        let verdict = if self.held() { "held" } else { "**missed**" };
        format!(
            "\n| | bar, s | longest without a read, s: `any` at each node; linearizable | longest without a write to its shards, s | failed (reads; updates) | |\n\
             |-|-|-|-|-|-|\n\
             | a node is killed and comes back, under YCSB B, `nosync`, 64 clients | reads < {READ_BAR_S}; writes ≤ {WRITE_BAR_S} | {}; {} | {} | {}; {} | {verdict} |\n",
            shown(|run| run.any_gap_s),
            shown(|run| run.absolute_gap_s),
            shown(|run| run.write_gap_s),
            count(|run| run.failed_reads as f64),
            count(|run| run.failed_updates as f64),
        )
    }

    /// All of it.
    pub fn json(&self) -> Value {
        let run = |run: &Fall| {
            json!({
                "any_read_gap_s": run.any_gap_s,
                "absolute_read_gap_s": run.absolute_gap_s,
                "write_gap_s": run.write_gap_s,
                "failed_reads": run.failed_reads,
                "failed_updates": run.failed_updates,
            })
        };
        json!({ "read_bar_s": READ_BAR_S, "write_bar_s": WRITE_BAR_S, "held": self.held(), "runs": self.runs.iter().map(run).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_run_decides() {
        let good = Fall { any_gap_s: 0.02, absolute_gap_s: 0.1, write_gap_s: 1.2, failed_reads: 0, failed_updates: 7 };
        assert!(Death { runs: vec![good; 3] }.held());
        for bad in
            [Fall { any_gap_s: 1.0, ..good }, Fall { absolute_gap_s: 1.0, ..good }, Fall { write_gap_s: 2.1, ..good }]
        {
            let death = Death { runs: vec![good, bad, good] };
            assert!(!death.held());
            assert!(death.markdown().ends_with("| 0; 7 | **missed** |\n"), "{}", death.markdown());
        }
        assert!(!Death { runs: Vec::new() }.held(), "nothing measured holds nothing");
    }

    #[test]
    fn what_failed_is_counted_and_what_is_wrong_refused() {
        let phase = |wrong: u64| {
            format!(
                r#"{{"phases":[{{"read_gap_s_max":0.25,"ops":[
                {{"op":"READ","returned":{{"OK":90,"ERROR":2}},"verification_failures":{wrong}}},
                {{"op":"UPDATE","returned":{{"OK":9,"ERROR":1,"TIMEOUT":3}},"verification_failures":0}}]}}]}}"#
            )
        };
        let mut fall = Fall::default();
        assert_eq!(fall.read(&phase(0)), Ok(0.25));
        assert_eq!((fall.failed_reads, fall.failed_updates), (2, 4));
        assert!(fall.read(&phase(1)).is_err());
    }
}
