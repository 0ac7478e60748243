//! What the kernel tells: of the machine, of a process, of a disk.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

/// Linux tells processor time to programs in hundredths of a second, whatever the kernel's own tick is.
const MICROSECONDS_PER_TICK: u64 = 10_000;

/// The machine, as a report names it.
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    /// How much of its processors' time its host gave to other machines during the measurements.
    pub stolen_percent: f64,
}

impl Machine {
    /// What /proc says; "unknown" for what it does not.
    pub fn read(stolen_percent: f64) -> Self {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            processor: processor.map_or("unknown", |(_, name)| name).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: field_kib(Path::new("/proc/meminfo"), "MemTotal").unwrap_or(0),
            kernel: kernel.trim().to_owned(),
            stolen_percent,
        }
    }

    /// One line.
    pub fn line(&self) -> String {
        let gib = self.memory_bytes as f64 / f64::from(1 << 30);
        let (processor, cores, stolen, kernel) = (&self.processor, self.cores, self.stolen_percent, &self.kernel);
        format!(
            "{processor}, {cores} cores ({stolen:.1} % of their time given to other machines), {gib:.0} GiB, Linux {kernel}"
        )
    }
}

/// Processor time that the machine's host gives to other machines, from some moment on.
pub struct Stolen {
    start: Instant,
    ticks: u64,
}

impl Stolen {
    pub fn start() -> Self {
        Self { start: Instant::now(), ticks: stolen_ticks() }
    }

    /// Of the time that all processors have had since.
    pub fn percent(&self) -> f64 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let stolen_us = stolen_ticks().saturating_sub(self.ticks) * MICROSECONDS_PER_TICK;
        stolen_us as f64 / 1e4 / (self.start.elapsed().as_secs_f64() * cores)
    }
}

/// A `Name:   123 kB` of a file below /proc, in bytes.
fn field_kib(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Processor time of a process so far, all its threads, those that ended included.
pub fn process_cpu_us(id: u32) -> Result<u64, String> {
    let path = format!("/proc/{id}/stat");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    stat_cpu_us(&text).ok_or_else(|| format!("{path}: not understood"))
}

/// The name, in parentheses, may hold anything.
fn stat_cpu_us(text: &str) -> Option<u64> {
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) * MICROSECONDS_PER_TICK)
}

/// What a process has had read from disk, in bytes.
pub fn process_read_bytes(id: u32) -> Result<u64, String> {
    let path = format!("/proc/{id}/io");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes:"));
    line.and_then(|number| number.trim().parse().ok()).ok_or_else(|| format!("{path}: has no read_bytes"))
}

/// The memory that a process has now.
pub fn process_memory_bytes(id: u32) -> Result<u64, String> {
    let path = format!("/proc/{id}/status");
    field_kib(Path::new(&path), "VmRSS").ok_or_else(|| format!("{path}: has no VmRSS"))
}

/// The most memory that a process had at once.
pub fn process_peak_bytes(id: u32) -> Result<u64, String> {
    let path = format!("/proc/{id}/status");
    field_kib(Path::new(&path), "VmHWM").ok_or_else(|| format!("{path}: has no VmHWM"))
}

/// Processor time of the whole machine, and reads of the disk under a folder, between two moments.
pub struct Gauge {
    disk: Option<String>,
    start: Instant,
    busy_ticks: u64,
    reads: u64,
}

/// What a gauge saw.
pub struct Reading {
    /// Processors that were busy, of all processes together.
    pub busy_cores: f64,
    /// None if the kernel does not count the disk.
    pub disk_reads_per_s: Option<f64>,
}

impl Gauge {
    /// From now on, for the disk that `folder` is on.
    pub fn start(folder: &Path) -> Self {
        let device = fs::metadata(folder).ok().map(|metadata| metadata.dev());
        let disk = device.map(|device| format!("{} {}", rustix::fs::major(device), rustix::fs::minor(device)));
        let disk = disk.filter(|disk| disk_reads(disk).is_some());
        let reads = disk.as_deref().and_then(disk_reads).unwrap_or(0);
        Self { disk, start: Instant::now(), busy_ticks: busy_ticks(), reads }
    }

    /// Until now.
    pub fn stop(self) -> Reading {
        let seconds = self.start.elapsed().as_secs_f64();
        let busy_us = (busy_ticks() - self.busy_ticks) * MICROSECONDS_PER_TICK;
        let reads = self.disk.as_deref().and_then(disk_reads);
        Reading {
            busy_cores: busy_us as f64 / 1e6 / seconds,
            disk_reads_per_s: reads.map(|reads| (reads - self.reads) as f64 / seconds),
        }
    }
}

/// Of all processors together: user, nice, system, idle, iowait, irq, softirq, steal.
fn processor_ticks() -> Vec<u64> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    fields.take(8).map_while(|field| field.parse().ok()).collect()
}

fn busy_ticks() -> u64 {
    processor_ticks().iter().take(7).enumerate().filter(|(i, _)| ![3, 4].contains(i)).map(|(_, ticks)| ticks).sum()
}

fn stolen_ticks() -> u64 {
    processor_ticks().get(7).copied().unwrap_or(0)
}

fn disk_reads(device: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/diskstats").ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let found = format!("{} {}", fields.next()?, fields.next()?) == device;
        if found { fields.nth(1)?.parse().ok() } else { None }
    })
}

/// Takes the files below `folder` out of the page cache, as far as they are written back. Needs no right but to read.
pub fn evict(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            evict(&path);
        } else if let Ok(file) = fs::File::open(&path) {
            // Files come and go; what cannot be evicted was removed or is being written.
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_past_any_name() {
        let text = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 120 30 0 0 20 0 1 0";
        assert_eq!(stat_cpu_us(text), Some(1_500_000));
        assert_eq!(stat_cpu_us("7 (a) S 1"), None);
        assert!(process_cpu_us(std::process::id()).is_ok());
        assert!(process_peak_bytes(std::process::id()).is_ok_and(|bytes| bytes > 1 << 20));
    }
}
