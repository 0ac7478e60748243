//! What the operating system knows of this process: from /proc, so nothing where there is none.

use nix::sys::resource::{UsageWho, getrusage};
use std::cell::Cell;
use std::fs::read_to_string;

/// Figures of the process. `None`: not known on this system.
pub(crate) struct ProcessFacts {
    pub(crate) os: String,
    pub(crate) rss_bytes: Option<u64>,
    pub(crate) rss_bytes_peak: Option<u64>,
    pub(crate) system_memory_bytes: Option<u64>,
    pub(crate) cpu_user_us: Option<u64>,
    pub(crate) cpu_system_us: Option<u64>,
}

/// The figures as of now.
pub(crate) fn process_facts() -> ProcessFacts {
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    let memory = read_to_string("/proc/meminfo").unwrap_or_default();
    let release = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (user, system) = cpu_us().map_or((None, None), |(user, system)| (Some(user), Some(system)));
    ProcessFacts {
        os: format!("{} {} {}", capitalised(std::env::consts::OS), release.trim(), std::env::consts::ARCH),
        rss_bytes: kilobytes(&status, "VmRSS:"),
        rss_bytes_peak: kilobytes(&status, "VmHWM:"),
        system_memory_bytes: kilobytes(&memory, "MemTotal:"),
        cpu_user_us: user,
        cpu_system_us: system,
    }
}

/// Whether this thread has had blocks read from a disk since it last asked: a wait for the disk, rather than for a
/// processor. The first answer is no: there is nothing to compare with.
pub(crate) fn waited_for_disk() -> bool {
    thread_local! {
        static BLOCKS: Cell<Option<i64>> = const { Cell::new(None) };
    }
    let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) else { return true };
    let blocks = usage.block_reads();
    BLOCKS.with(|before| before.replace(Some(blocks)).is_some_and(|before| before != blocks))
}

/// What was read from a disk until now was for something else: the log, which reads the block that a write ends in, if the
/// system has given its page away.
pub(crate) fn forget_waits() {
    waited_for_disk();
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kb| kb * 1024)
}

/// User and system time of all threads, in µs: proc(5), fields 14 and 15 of stat, in ticks.
fn cpu_us() -> Option<(u64, u64)> {
    let stat = read_to_string("/proc/self/stat").ok()?;
    let fields = stat.rsplit_once(')')?.1;
    let mut numbers = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let tick_us = 1_000_000 / rustix::param::clock_ticks_per_second();
    Some((numbers.next()?.ok()? * tick_us, numbers.next()?.ok()? * tick_us))
}
