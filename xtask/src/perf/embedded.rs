//! Against the bare tree: YCSB's workload C in one process, with and without a store around the tree.

use super::bar::{Bar, Sample};
use super::bench::Bench;
use super::program;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(300);
const THREADS: &str = "2";

/// Both sides load their records anew for each run.
pub fn run(bench: &Bench) -> Result<Vec<Bar>, String> {
    let bare = program::bare_lsm(&bench.root, bench.options.no_build)?;
    let records = bench.options.scale(1_000_000, 50_000).to_string();
    let (seconds, warm_up) = if bench.options.quick { ("1", "1") } else { ("10", "3") };
    let ours = || {
        let (data, out) = (bench.empty_folder("embedded")?, bench.empty_folder("embedded-report")?);
        let mut command = Command::new(&bench.basalt);
        command.args(["bench", "--workloads", "C", "--records", &records, "--threads", THREADS, "--quiet"]);
        command.args(["--seconds", seconds, "--warm-up-seconds", warm_up, "--format", "json", "--data"]);
        let text = program::output(command.arg(data).arg("--out").arg(out), BOUND)?;
        Ok(Sample { rate: last_throughput(&text)?, cpu_us_per_op: None })
    };
    let hashes = std::cell::RefCell::new(Vec::new());
    let theirs = || {
        let mut command = Command::new(&bare);
        command.arg(bench.empty_folder("bare-lsm")?).args([&records, seconds, warm_up, THREADS]);
        let text = program::output(&mut command, BOUND)?;
        let value: Value = serde_json::from_str(&text).map_err(|error| format!("bare_lsm: {error}"))?;
        hashes.borrow_mut().push(value["hash"].to_string());
        Ok(Sample { rate: value["gets_per_s"].as_f64().ok_or("bare_lsm: tells no rate")?, cpu_us_per_op: None })
    };
    let bar = Bar::new("YCSB C, embedded, 2 threads, zipfian", "the bare lsm-tree", 0.8);
    let mut bar = bar.alternate(bench.options.runs, ours, theirs)?;
    let mut hashes = hashes.into_inner();
    hashes.dedup();
    let [hash] = &hashes[..] else { return Err(format!("bare_lsm: its runs read different data: {hashes:?}")) };
    bar.notes.push(format!("hash of what the bare tree read: {}", hash.trim_matches('"')));
    for name in ["embedded", "embedded-report", "bare-lsm"] {
        bench.empty_folder(name)?;
    }
    Ok(vec![bar])
}

/// Operations a second of the last phase in the bench's JSON; an error if anything went wrong in it.
pub fn last_throughput(text: &str) -> Result<f64, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("basalt bench: {error}"))?;
    let phase = value["phases"].as_array().and_then(|phases| phases.last()).ok_or("basalt bench: ran no phase")?;
    let ops = phase["ops"].as_array().ok_or("basalt bench: tells no operations")?;
    for op in ops {
        let errors = op["errors"].as_object().map_or(0, serde_json::Map::len);
        if errors > 0 || op["verification_failures"].as_u64() != Some(0) {
            return Err(format!("basalt bench: {} had errors or failed verification", op["op"]));
        }
    }
    phase["throughput_per_s"].as_f64().ok_or_else(|| "basalt bench: tells no throughput".to_owned())
}

#[cfg(test)]
mod tests {
    use super::last_throughput;

    #[test]
    fn the_last_phase_counts_if_nothing_failed() {
        let run = |errors: &str, failures: u32| {
            last_throughput(&format!(
                r#"{{"phases":[{{}},{{"throughput_per_s":12.5,"ops":[{{"op":"READ","errors":{{{errors}}},
                "verification_failures":{failures}}}]}}]}}"#
            ))
        };
        assert_eq!(run("", 0), Ok(12.5));
        assert!(run("\"ERR\":1", 0).is_err());
        assert!(run("", 1).is_err());
        assert!(last_throughput("{}").is_err());
    }
}
