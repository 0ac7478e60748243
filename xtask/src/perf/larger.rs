//! Data ten times the memory: uniform reads against the disk's own random reads.
//!
//! The page cache is not part of the store's memory. So the store's files are dropped from it before each run, and four times a
//! second during the run: it can only serve what was read a moment ago.

use super::bar::{Bar, Sample};
use super::bench::Bench;
use super::embedded::last_throughput;
use super::machine::{Gauge, evict};
use super::program;
use super::progress;
use super::redis::start_basalt;
use super::server::Server;
use super::spread::grouped;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

const EVICT_EVERY: Duration = Duration::from_millis(250);
const LOAD_BOUND: Duration = Duration::from_secs(1800);
const RUN_BOUND: Duration = Duration::from_secs(180);
const VALUE_BYTES: u64 = 1000;
const AT_LEAST: f64 = 0.7;
/// Of the store. As many as processors, rather than half of them: a read from the disk takes a loop longer than one from memory
/// takes a client.
const WORKERS: &str = "2";
/// Of the memory given, what the process may take at most.
const PEAK_SHARE_MAX: f64 = 1.3;
/// Of the machine's processors, what is called bound by them.
const CPU_BOUND: f64 = 0.9;

/// The amounts of a run.
struct Size {
    records: u64,
    memory_bytes: u64,
    seconds: u64,
}

impl Size {
    fn of(bench: &Bench) -> Self {
        let scale = |full, quick| bench.options.scale(full, quick);
        Self { records: scale(10_000_000, 1_000_000), memory_bytes: scale(1 << 30, 100 << 20), seconds: scale(20, 3) }
    }

    fn data_bytes(&self) -> u64 {
        self.records * VALUE_BYTES
    }
}

/// The bar, with what limits it in its notes.
pub fn run(bench: &Bench) -> Result<Vec<Bar>, String> {
    let (fio, size) = (program::installed("fio", "fio")?, Size::of(bench));
    check_room(&bench.folder, &size)?;
    let disk = bench.empty_folder("fio")?;
    let random_reads = || fio_random_reads(&fio, &disk, &size);
    progress::doing(format!("loading {} records", size.records));
    let memory = size.memory_bytes.to_string();
    let server = start_basalt(bench, &["--durability", "nosync", "--memory", &memory, "--workers", WORKERS])?;
    program::output(client(bench, "load", &server, &size)?.args(["--depth", "16"]), LOAD_BOUND)?;
    // fio writes its file at its first run; that is not to be measured.
    fio_lay_out(&fio, &disk, &size)?;
    server.wait_until_quiet()?;
    let limits = std::cell::RefCell::new(Vec::new());
    let ours = || {
        // Other keys in each run: the row cache still has some of the last one's.
        let seed = limits.borrow().len() + 1;
        let (sample, limit) = uniform_reads(bench, &server, &size, seed)?;
        limits.borrow_mut().push(limit);
        Ok(sample)
    };
    let what = format!("{} MB of data, {} MiB of memory", size.data_bytes() / 1_000_000, size.memory_bytes >> 20);
    let bar = Bar::new(
        format!("{what}, {WORKERS} workers, uniform reads, 64 clients"),
        "fio, 4 KiB at random, depth 64",
        AT_LEAST,
    );
    let mut bar = bar.alternate(bench.options.runs, ours, random_reads)?;
    let limits: Vec<String> = limits.into_inner().iter().map(|limit| limit.against(&bar)).collect();
    bar.notes.extend(limits);
    bar.notes.push(peak(&server, &size)?);
    bar.notes.push("page cache: the data is taken out of it before each run and four times a second".to_owned());
    server.stop()?;
    bench.empty_folders(&["basalt", "fio", "larger-report"])?;
    Ok(vec![bar])
}

/// Data, its rewriting by compaction, and fio's file.
fn check_room(folder: &Path, size: &Size) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let facts = rustix::fs::statvfs(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (free, needed) = (facts.f_bavail * facts.f_frsize, size.data_bytes() * 7 / 2);
    let gb = |bytes: u64| bytes as f64 / 1e9;
    if free >= needed { Ok(()) } else { Err(format!("needs {:.1} GB of disk, {:.1} are free", gb(needed), gb(free))) }
}

fn peak(server: &Server, size: &Size) -> Result<String, String> {
    let bytes = server.peak_bytes()?;
    let share = bytes as f64 / size.memory_bytes as f64;
    let verdict = if share <= PEAK_SHARE_MAX { "held" } else { "**missed**" };
    let mib = grouped((bytes >> 20) as f64);
    Ok(format!("peak RSS {mib} MiB, {share:.2} × the memory given (bar: ≤ {PEAK_SHARE_MAX} ×): {verdict}"))
}

fn client(bench: &Bench, task: &str, server: &Server, size: &Size) -> Result<Command, String> {
    let mut command = Command::new(&bench.basalt);
    command.args(["bench", task, "--target", &format!("redis://127.0.0.1:{}", server.port), "--quiet"]);
    command.args(["-p", &format!("recordcount={}", size.records), "-p", &format!("fieldlength={VALUE_BYTES}")]);
    for property in ["fieldcount=1", "basalt.record=string", "readproportion=1", "updateproportion=0"] {
        command.args(["-p", property]);
    }
    command.args(["-p", "requestdistribution=uniform", "--clients", "64", "--format", "json", "--out"]);
    command.arg(bench.empty_folder("larger-report")?);
    Ok(command)
}

/// What the resources did while the store was read.
struct Limit {
    busy_cores: f64,
    server_cores: f64,
    cores: f64,
    disk_reads_per_s: Option<f64>,
}

impl Limit {
    /// Which resource was the limit; `bar` has the rate of the disk.
    fn against(&self, bar: &Bar) -> String {
        let disk = self.disk_reads_per_s.map_or_else(
            || "the kernel does not count the disk's reads".to_owned(),
            |reads| format!("the disk served {} reads/s", grouped(reads)),
        );
        let saturated =
            bar.rates().zip(self.disk_reads_per_s).is_some_and(|(rates, reads)| reads >= rates.1.median * AT_LEAST);
        let bound = match (self.busy_cores >= self.cores * CPU_BOUND, saturated) {
            (true, true) => "bound by both",
            (true, false) => "CPU-bound",
            (false, true) => "disk-bound",
            (false, false) => "bound by neither: by waiting",
        };
        format!(
            "{:.2} of {:.0} cores busy, the server's share {:.2}; {disk}: {bound}",
            self.busy_cores, self.cores, self.server_cores
        )
    }
}

fn uniform_reads(bench: &Bench, server: &Server, size: &Size, seed: usize) -> Result<(Sample, Limit), String> {
    let data = bench.folder.join("basalt");
    server.wait_until_quiet()?;
    evict(&data);
    let mut command = client(bench, "run", server, size)?;
    command.args(["--duration", &format!("{}s", size.seconds), "-p", "operationcount=0"]);
    command.args(["--seed", &seed.to_string()]);
    let (before, gauge, start) = (server.cpu_us()?, Gauge::start(&bench.folder), std::time::Instant::now());
    let text = evicting(&data, || program::output(&mut command, RUN_BOUND))?;
    let (reading, cpu_us) = (gauge.stop(), server.cpu_us()? - before);
    let seconds = start.elapsed().as_secs_f64();
    let rate = last_throughput(&text)?;
    let limit = Limit {
        busy_cores: reading.busy_cores,
        server_cores: cpu_us as f64 / 1e6 / seconds,
        cores: std::thread::available_parallelism().map_or(1.0, |cores| usize::from(cores) as f64),
        disk_reads_per_s: reading.disk_reads_per_s,
    };
    Ok((Sample { rate, cpu_us_per_op: Some(cpu_us as f64 / (rate * size.seconds as f64)) }, limit))
}

/// Does `work` while the page cache is kept free of what is below `data`.
fn evicting<T>(data: &Path, work: impl FnOnce() -> T) -> T {
    let (done, ended) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(EVICT_EVERY) == Err(RecvTimeoutError::Timeout) {
                evict(data);
            }
        });
        let result = work();
        drop(done);
        result
    })
}

fn fio_command(fio: &Path, folder: &Path, size: &Size) -> Command {
    let mut command = Command::new(fio);
    // The folder first: a file name that comes before it is one of the working directory.
    command.arg("--name=random-reads").arg(format!("--directory={}", folder.display()));
    command.args(["--filename=data", "--rw=randread", "--bs=4k", "--direct=1"]);
    command.args(["--ioengine=libaio", "--iodepth=64", "--randrepeat=0", "--output-format=json"]);
    command.arg(format!("--size={}", size.data_bytes()));
    command
}

fn fio_lay_out(fio: &Path, folder: &Path, size: &Size) -> Result<(), String> {
    program::output(fio_command(fio, folder, size).arg("--create_only=1"), LOAD_BOUND).map(|_| ())
}

fn fio_random_reads(fio: &Path, folder: &Path, size: &Size) -> Result<Sample, String> {
    let mut command = fio_command(fio, folder, size);
    command.args(["--time_based", &format!("--runtime={}", size.seconds)]);
    let text = program::output(&mut command, RUN_BOUND)?;
    // fio may warn before its JSON begins.
    let json = text.find('{').map_or("", |start| &text[start..]);
    let value: Value = serde_json::from_str(json).map_err(|error| format!("fio: {error}"))?;
    let rate = value["jobs"][0]["read"]["iops"].as_f64().filter(|rate| *rate > 0.0).ok_or("fio: tells no rate")?;
    Ok(Sample { rate, cpu_us_per_op: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_named() {
        let bar = Bar::new("reads", "fio", AT_LEAST).alternate(
            1,
            || Ok(Sample { rate: 500.0, cpu_us_per_op: None }),
            || Ok(Sample { rate: 1000.0, cpu_us_per_op: None }),
        );
        let bar = bar.expect("no side fails");
        for (busy_cores, disk_reads_per_s, expected) in [
            (2.0, Some(100.0), "CPU-bound"),
            (1.0, Some(900.0), "disk-bound"),
            (2.0, Some(900.0), "bound by both"),
            (1.0, Some(100.0), "bound by neither: by waiting"),
            (1.0, None, "bound by neither: by waiting"),
        ] {
            let limit = Limit { busy_cores, server_cores: 0.5, cores: 2.0, disk_reads_per_s };
            assert!(limit.against(&bar).ends_with(expected), "{}", limit.against(&bar));
        }
    }
}
