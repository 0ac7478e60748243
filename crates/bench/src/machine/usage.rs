//! What processes use, as Linux's /proc tells. Elsewhere nothing is known, and reports say so.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use crate::machine::cores::TICKS_PER_S;
use crate::model::CpuTime;

/// CPU time and memory of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessUsage {
    /// CPU time so far.
    pub cpu: CpuTime,
    /// The highest resident memory so far.
    pub peak_rss_bytes: Option<u64>,
}

/// What one process has moved so far, and holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessTraffic {
    /// CPU time so far.
    pub cpu_s: f64,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Bytes that it has had read from devices; none if that cannot be seen.
    pub read_bytes: Option<u64>,
    /// Bytes that it has had written to devices.
    pub written_bytes: Option<u64>,
}

impl ProcessTraffic {
    /// Of the process `id`; none when there is none, or it cannot be seen.
    #[must_use]
    pub fn of(id: u32) -> Option<Self> {
        let dir = Path::new("/proc").join(id.to_string());
        let cpu = cpu_time(&fs::read_to_string(dir.join("stat")).ok()?)?;
        let status = fs::read_to_string(dir.join("status")).unwrap_or_default();
        let io = fs::read_to_string(dir.join("io")).unwrap_or_default();
        let moved = |name: &str| io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        Some(Self {
            cpu_s: cpu.total_s(),
            rss_bytes: kib_of(&status, "VmRSS:").unwrap_or(0),
            read_bytes: moved("read_bytes:"),
            written_bytes: moved("write_bytes:"),
        })
    }
}

impl ProcessUsage {
    /// Of the process `id`; none when there is none, or it cannot be seen.
    #[must_use]
    pub fn of(id: u32) -> Option<Self> {
        Self::at(&Path::new("/proc").join(id.to_string()))
    }

    /// Of this process.
    #[must_use]
    pub fn own() -> Option<Self> {
        Self::at(Path::new("/proc/self"))
    }

    fn at(dir: &Path) -> Option<Self> {
        let cpu = cpu_time(&fs::read_to_string(dir.join("stat")).ok()?)?;
        let status = fs::read_to_string(dir.join("status")).unwrap_or_default();
        Some(Self { cpu, peak_rss_bytes: peak_rss(&status) })
    }
}

/// What a block device has done so far, for all processes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceTraffic {
    /// Its name, e.g. `vda`.
    pub name: String,
    /// Reads that it has answered.
    pub reads: f64,
    /// Writes that it has answered.
    pub writes: f64,
    /// Seconds in which it had something to do.
    pub busy_s: f64,
}

impl DeviceTraffic {
    /// The usage of the device below a folder; none if there is no device, or it cannot be seen.
    #[must_use]
    pub fn below(dir: &Path) -> Option<Self> {
        Self::in_table(&fs::read_to_string("/proc/diskstats").ok()?, device_of(dir)?)
    }

    /// From the text of /proc/diskstats.
    fn in_table(text: &str, (major, minor): (u64, u64)) -> Option<Self> {
        let is_it = |fields: &Vec<&str>| {
            fields.first().and_then(|field| field.parse().ok()) == Some(major)
                && fields.get(1).and_then(|field| field.parse().ok()) == Some(minor)
        };
        let line = text.lines().map(|line| line.split_whitespace().collect()).find(is_it)?;
        let number = |place: usize| line.get(place)?.parse::<f64>().ok();
        Some(Self {
            name: (*line.get(2)?).to_owned(),
            reads: number(3)?,
            writes: number(7)?,
            busy_s: number(12)? / 1000.0,
        })
    }
}

/// The numbers of the device that a folder is on, as Linux packs them into one.
#[cfg(unix)]
fn device_of(dir: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let packed = fs::metadata(dir).ok()?.dev();
    let major = (packed >> 32 & 0xffff_f000) | (packed >> 8 & 0xfff);
    let minor = (packed >> 12 & 0xffff_ff00) | (packed & 0xff);
    Some((major, minor))
}

#[cfg(not(unix))]
fn device_of(_dir: &Path) -> Option<(u64, u64)> {
    None
}

/// When the process `id` was started, in seconds since the machine came up; none when there is none, or it cannot be seen.
#[must_use]
pub fn started_s(id: u32) -> Option<f64> {
    start_time(&fs::read_to_string(Path::new("/proc").join(id.to_string()).join("stat")).ok()?)
}

/// How long the machine has been up, in seconds.
#[must_use]
pub fn machine_up_s() -> Option<f64> {
    fs::read_to_string("/proc/uptime").ok()?.split_whitespace().next()?.parse().ok()
}

/// From the text of /proc/PID/stat.
fn start_time(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().nth(19)?.parse::<f64>().ok()? / TICKS_PER_S)
}

/// From the text of /proc/PID/stat. The process's name may hold blanks and brackets, so count from its end.
fn cpu_time(stat: &str) -> Option<CpuTime> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut seconds = || Some(fields.next()?.parse::<f64>().ok()? / TICKS_PER_S);
    Some(CpuTime { user_s: seconds()?, system_s: seconds()? })
}

/// From the text of /proc/PID/status.
fn peak_rss(status: &str) -> Option<u64> {
    kib_of(status, "VmHWM:")
}

fn kib_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The difference of two readings of one process.
#[must_use]
pub fn cpu_between(before: CpuTime, after: CpuTime) -> CpuTime {
    CpuTime { user_s: (after.user_s - before.user_s).max(0.0), system_s: (after.system_s - before.system_s).max(0.0) }
}

/// The bytes that the files below `dir` take on their disk; none when it cannot be read. Files that vanish while they
/// are counted are not. A file of several names, as those that the halves of a split share, counts once.
#[must_use]
pub fn disk_bytes(dir: &Path) -> Option<u64> {
    let mut linked = HashSet::new();
    bytes_below(dir, &mut linked)
}

/// `linked`: what has been counted of files of several names, by device and inode.
fn bytes_below(dir: &Path, linked: &mut HashSet<(u64, u64)>) -> Option<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir).ok()?.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            sum += bytes_below(&entry.path(), linked).unwrap_or(0);
        } else if linked_file(&metadata).is_none_or(|file| linked.insert(file)) {
            sum += allocated(&metadata);
        }
    }
    Some(sum)
}

/// Which file it is, if it has several names.
#[cfg(unix)]
fn linked_file(metadata: &fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.nlink() > 1).then(|| (metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn linked_file(_: &fs::Metadata) -> Option<(u64, u64)> {
    None
}

#[cfg(unix)]
fn allocated(metadata: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    metadata.blocks() * 512
}

#[cfg(not(unix))]
fn allocated(metadata: &fs::Metadata) -> u64 {
    metadata.len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_of_two_names_is_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("one"), [1; 100_000]).unwrap();
        let alone = disk_bytes(dir.path()).unwrap();
        assert!(alone >= 100_000);
        fs::create_dir(dir.path().join("half")).unwrap();
        fs::hard_link(dir.path().join("one"), dir.path().join("half").join("two")).unwrap();
        assert_eq!(disk_bytes(dir.path()), Some(alone));
    }

    #[test]
    fn proc_files() {
        let stat = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 75 0 0 20 0 1 0";
        assert_eq!(cpu_time(stat), Some(CpuTime { user_s: 2.5, system_s: 0.75 }));
        assert_eq!(start_time(&format!("{stat} 12345 9 9")), Some(123.45));
        assert_eq!((cpu_time("garbage"), start_time("garbage"), start_time(stat)), (None, None, None));
        assert_eq!(peak_rss("Name:\tx\nVmHWM:\t  1024 kB\n"), Some(1 << 20));
        assert_eq!(peak_rss(""), None);
        let disks = "   7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n 254 0 vda 46 17 158 139 60 15 13 55 0 2500 20396 11 4\n";
        let vda = DeviceTraffic { name: "vda".to_owned(), reads: 46.0, writes: 60.0, busy_s: 2.5 };
        assert_eq!(DeviceTraffic::in_table(disks, (254, 0)), Some(vda));
        assert_eq!(DeviceTraffic::in_table(disks, (254, 1)), None);
    }

    #[test]
    fn a_folder_is_counted_with_its_folders() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("inner")).unwrap();
        fs::write(dir.path().join("inner/file"), vec![1; 100_000]).unwrap();
        assert!((100_000..200_000).contains(&disk_bytes(dir.path()).unwrap()));
        assert_eq!(disk_bytes(&dir.path().join("nowhere")), None);
    }
}
