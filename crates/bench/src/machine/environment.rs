//! The machine that a run was made on, as Linux tells. What is not known says so.

use std::fs;
use std::path::Path;

use crate::model::{BuildProfile, Environment, Link};

/// The machine, and the disk below `data_dir` when there is one.
#[must_use]
pub fn environment(data_dir: Option<&Path>, link: Link) -> Environment {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let word = |path: &str| read(path).trim().to_owned();
    let kernel = format!("{} {}", word("/proc/sys/kernel/ostype"), word("/proc/sys/kernel/osrelease"));
    let mount = data_dir.and_then(|dir| {
        let dir = dir.canonicalize().ok()?;
        mount_of(&read("/proc/self/mountinfo"), &dir)
    });
    Environment {
        kernel: or_unknown(kernel.trim()),
        cpu_model: or_unknown(&cpu_model(&read("/proc/cpuinfo"))),
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        memory_bytes: memory_bytes(&read("/proc/meminfo"), &read("/sys/fs/cgroup/memory.max")),
        disk: mount.as_ref().map(|mount| disk(&mount.device, &mount.source)),
        filesystem: mount.map(|mount| mount.filesystem),
        link,
        build: BuildProfile::current(),
    }
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() { "unknown".to_owned() } else { text.to_owned() }
}

fn cpu_model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name") || line.starts_with("Model"));
    line.and_then(|line| line.split_once(':')).map_or_else(String::new, |(_, model)| model.trim().to_owned())
}

/// The machine's memory, or the control group's bound where that is lower.
fn memory_bytes(meminfo: &str, group_max: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok());
    let machine = kib.unwrap_or(0) * 1024;
    group_max.trim().parse().map_or(machine, |bound: u64| bound.min(machine))
}

/// What a directory lies on.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    /// Major and minor number.
    device: String,
    source: String,
    filesystem: String,
}

/// The mount with the longest path above `dir`; of equals the last, which covers the others.
fn mount_of(mountinfo: &str, dir: &Path) -> Option<Mount> {
    let mut best: Option<(usize, Mount)> = None;
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (left, right): (Vec<_>, Vec<_>) = (left.split(' ').collect(), right.split(' ').collect());
        let (Some(device), Some(point), [filesystem, source, ..]) = (left.get(2), left.get(4), right.as_slice()) else {
            continue;
        };
        if dir.starts_with(point) && best.as_ref().is_none_or(|(length, _)| point.len() >= *length) {
            let mount = Mount {
                device: (*device).to_owned(),
                source: (*source).to_owned(),
                filesystem: (*filesystem).to_owned(),
            };
            best = Some((point.len(), mount));
        }
    }
    best.map(|(_, mount)| mount)
}

/// The device's name, with its model and kind where the kernel knows them.
fn disk(device: &str, source: &str) -> String {
    let block = Path::new("/sys/dev/block").join(device);
    // A partition's own folder lies in its disk's.
    let folders = [block.clone(), block.join("..")];
    let read = |name: &str| folders.iter().find_map(|folder| fs::read_to_string(folder.join(name)).ok());
    let model = read("device/model").map(|model| model.trim().to_owned()).filter(|model| !model.is_empty());
    let name = source.rsplit('/').next().unwrap_or(source);
    let kind = read("queue/rotational").map(|flag| kind(name, flag.trim() == "1"));
    [Some(source.to_owned()), model, kind.map(str::to_owned)].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What kind of disk it is. Of a virtual machine's nothing is known: its flag is set whatever lies below.
fn kind(name: &str, is_rotating: bool) -> &'static str {
    let is_virtual = ["vd", "xvd"].iter().any(|start| name.starts_with(start));
    match (is_virtual, is_rotating) {
        (true, _) => "virtual: what lies below is not known",
        (false, true) => "rotating",
        (false, false) => "solid state",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proc_says() {
        assert_eq!(cpu_model("processor: 0\nmodel name\t: A CPU @ 2 GHz\n"), "A CPU @ 2 GHz");
        assert_eq!(memory_bytes("MemTotal:   1024 kB\n", "max\n"), 1 << 20);
        assert_eq!(memory_bytes("MemTotal:   1024 kB\n", "4096\n"), 4096);
        let mounts =
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /data rw - xfs /dev/sdb rw\n3 1 8:3 / /dat rw - x y z\n";
        let found = mount_of(mounts, Path::new("/data/run")).map(|mount| (mount.filesystem, mount.source));
        assert_eq!(found, Some(("xfs".to_owned(), "/dev/sdb".to_owned())));
        let found = mount_of(mounts, Path::new("/database")).map(|mount| mount.filesystem);
        assert_eq!(found.as_deref(), Some("ext4"));
        assert_eq!(mount_of("", Path::new("/")), None);
        assert_eq!((kind("sda1", true), kind("nvme0n1p1", false)), ("rotating", "solid state"));
        assert!(kind("vda", true).starts_with("virtual"));
    }

    #[test]
    fn this_machine_is_known() {
        let here = environment(Some(Path::new("/")), Link::InProcess);
        assert!(here.cores > 0 && !here.kernel.is_empty() && !here.cpu_model.is_empty());
    }
}
