//! The measurement behind docs/PERFORMANCE.md: each bar, both sides in one run, alternating.

mod bar;
mod embedded;
mod larger;
mod machine;
mod noop;
mod options;
mod program;
mod redis;
mod redis_benchmark;
mod report;
mod server;
mod wire;

use options::Options;
use std::path::Path;

/// Something to measure: one or more bars that share their servers and data.
struct Measurement {
    name: &'static str,
    what: &'static str,
    run: fn(&Bench) -> Result<Vec<bar::Bar>, String>,
}

const MEASUREMENTS: &[Measurement] = &[
    Measurement { name: "redis", what: "GET and SET nosync against redis-server, everysec", run: redis::nosync },
    Measurement { name: "redis-sync", what: "SET sync against redis-server, always", run: redis::sync },
    Measurement { name: "embedded", what: "YCSB C embedded against the bare lsm-tree", run: embedded::run },
    Measurement { name: "noop", what: "the client's own ceiling against redis-benchmark's", run: noop::run },
    Measurement { name: "larger-than-memory", what: "uniform reads of 10 GB against fio", run: larger::run },
];

/// What every measurement needs.
struct Bench {
    options: Options,
    /// The optimised binary.
    basalt: std::path::PathBuf,
    /// The workspace.
    root: std::path::PathBuf,
    /// Where data goes: on the disk that the workspace is on.
    folder: std::path::PathBuf,
}

impl Bench {
    /// An empty folder for one side's data.
    fn empty_folder(&self, name: &str) -> Result<std::path::PathBuf, String> {
        let folder = self.folder.join(name);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("{}: {error}", folder.display()));
            }
            _ => {}
        }
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }
}

/// Runs what the arguments name, or everything.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let names: Vec<&str> = MEASUREMENTS.iter().map(|measurement| measurement.name).collect();
    let options = Options::read(arguments, &names)?;
    if options.list {
        MEASUREMENTS.iter().for_each(|measurement| println!("{:<20} {}", measurement.name, measurement.what));
        return Ok(());
    }
    let bench = Bench {
        basalt: program::build_basalt(root)?,
        root: root.to_owned(),
        folder: root.join("target").join("perf"),
        options,
    };
    let chosen = MEASUREMENTS.iter().filter(|measurement| bench.options.chose(measurement.name));
    let (mut bars, mut failures) = (Vec::new(), Vec::new());
    for measurement in chosen {
        eprintln!("=== {}: {}", measurement.name, measurement.what);
        match (measurement.run)(&bench) {
            Ok(found) => bars.extend(found),
            Err(why) => {
                eprintln!("error: {}: {why}", measurement.name);
                failures.push(measurement.name);
            }
        }
    }
    let machine = machine::Machine::read();
    if bench.options.json {
        println!("{}", report::json(&machine, &bench.options, &bars));
    } else {
        print!("{}", report::markdown(&machine, &bench.options, &bars));
    }
    if failures.is_empty() { Ok(()) } else { Err(format!("not measured: {}", failures.join(", "))) }
}
