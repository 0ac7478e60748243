//! A control group around a store's nodes: a device that is slowed down as a spinning disk would be, and a bound for the
//! memory that the system gives their files. Linux's, of both versions; it needs root.

use bench::model::{DiskFile, StoreFile};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What one disk of 7,200 turns a minute does: reads or writes at random places a second, and bytes in a row.
const SLOW_OPERATIONS_PER_S: u64 = 120;
const SLOW_BYTES_PER_S: u64 = 160_000_000;
const ROOT: &str = "/sys/fs/cgroup";

/// The group. It is removed when it is dropped, after the processes in it have ended.
pub struct Group {
    folders: Vec<PathBuf>,
    notes: Vec<String>,
}

impl Group {
    /// The group that `shape` asks for, around a store in `dir`; none if it asks for none.
    pub fn of(shape: &StoreFile, dir: &Path) -> io::Result<Option<Self>> {
        let slow = shape.disk == DiskFile::Slow;
        if !slow && shape.memory_limit_mb == 0 {
            return Ok(None);
        }
        let name = format!("basalt-bench-{}", std::process::id());
        let mut group = Self { folders: Vec::new(), notes: Vec::new() };
        if slow {
            group.slow_down(&name, dir, u64::from(shape.nodes.max(1)))?;
        }
        if shape.memory_limit_mb > 0 {
            let bytes = shape.memory_limit_mb.saturating_mul(1_000_000);
            group.bound_memory(&name, bytes.saturating_mul(u64::from(shape.nodes.max(1))))?;
        }
        Ok(Some(group))
    }

    fn slow_down(&mut self, name: &str, dir: &Path, nodes: u64) -> io::Result<()> {
        let device = device_of(dir)?;
        // Each node's disk is emulated, and all share one device.
        let (operations, bytes) = (SLOW_OPERATIONS_PER_S * nodes, SLOW_BYTES_PER_S * nodes);
        if Path::new(ROOT).join("blkio").is_dir() {
            let folder = self.make("blkio", name)?;
            for (file, bound) in [
                ("blkio.throttle.read_iops_device", operations),
                ("blkio.throttle.write_iops_device", operations),
                ("blkio.throttle.read_bps_device", bytes),
                ("blkio.throttle.write_bps_device", bytes),
            ] {
                set(&folder.join(file), &format!("{device} {bound}"))?;
            }
        } else {
            let folder = self.make("", name)?;
            let bounds = format!("{device} riops={operations} wiops={operations} rbps={bytes} wbps={bytes}");
            set(&folder.join("io.max"), &bounds)?;
        }
        self.notes.push(format!(
            "The slow disk is an emulation: the kernel lets all nodes together do {operations} reads and as many writes a \
             second on the device, {SLOW_OPERATIONS_PER_S} for each node, as one spinning disk would. It has no arm that \
             must move, so neighbouring reads cost as much as distant ones."
        ));
        Ok(())
    }

    fn bound_memory(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        let (folder, file) = if Path::new(ROOT).join("memory").is_dir() {
            (self.make("memory", name)?, "memory.limit_in_bytes")
        } else {
            (self.make("", name)?, "memory.max")
        };
        set(&folder.join(file), &bytes.to_string())?;
        self.notes.push(format!(
            "The kernel gives all nodes together {} MB, its cache of their files included: what does not fit is read from \
             the device.",
            bytes / 1_000_000
        ));
        Ok(())
    }

    fn make(&mut self, controller: &str, name: &str) -> io::Result<PathBuf> {
        let folder = Path::new(ROOT).join(controller).join(name);
        match fs::create_dir(&folder) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                let text = format!(
                    "{}: {e} (a slow disk or a bound of memory needs control groups and root)",
                    folder.display()
                );
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
            _ => {}
        }
        if !self.folders.contains(&folder) {
            self.folders.push(folder.clone());
        }
        Ok(folder)
    }

    /// A process begins to live within the bounds.
    pub fn take_in(&self, pid: u32) -> io::Result<()> {
        self.folders.iter().try_for_each(|folder| set(&folder.join("cgroup.procs"), &pid.to_string()))
    }

    /// How many processes the kernel has ended because together they needed more memory than the bound.
    pub fn killed_for_memory(&self) -> u64 {
        let files =
            self.folders.iter().flat_map(|folder| ["memory.events", "memory.oom_control"].map(|f| folder.join(f)));
        files.filter_map(|file| kills(&fs::read_to_string(file).ok()?)).sum()
    }

    /// What the reader must know of it.
    pub fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// From the text in which the kernel counts them.
fn kills(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in &self.folders {
            if let Err(e) = fs::remove_dir(folder) {
                log::warn!("{}: {e}", folder.display());
            }
        }
    }
}

fn set(file: &Path, value: &str) -> io::Result<()> {
    fs::write(file, value).map_err(|e| io::Error::new(e.kind(), format!("{}: {value}: {e}", file.display())))
}

/// The device below `dir`: of a partition its disk, which is what is slowed down.
fn device_of(dir: &Path) -> io::Result<String> {
    let number = fs::metadata(dir)?.dev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let block = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    if block.join("partition").exists() {
        let disk = fs::read_to_string(block.join("../dev"))?;
        return Ok(disk.trim().to_owned());
    }
    if block.exists() {
        return Ok(format!("{major}:{minor}"));
    }
    let text = format!("{}: its file system lies on no device that could be slowed down", dir.display());
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_killed_is_counted() {
        assert_eq!(kills("low 0\nhigh 0\nmax 310\noom 3\noom_kill 2\noom_group_kill 0\n"), Some(2));
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"), Some(1));
        assert_eq!(kills("oom_kill_disable 0\n"), None);
    }
}
