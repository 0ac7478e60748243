//! Commands that took long: the slow log, and the latency events `command` and `fast-command`.

use super::{Host, Session};
use resp::table::{CommandSpec, flag};

impl Session {
    /// Notes a command that has run, if it took longer than the settings allow. The shell calls it for commands over
    /// data; for a write, `args` may come from its `EncodedCommand`: test `is_slow` first.
    #[inline]
    pub fn slow(&self, spec: &CommandSpec, args: &[&[u8]], elapsed_ns: u64, host: &dyn Host) {
        if is_slow(elapsed_ns, host) {
            self.note_slow(spec, args, elapsed_ns, host);
        }
    }

    #[cold]
    fn note_slow(&self, spec: &CommandSpec, args: &[&[u8]], elapsed_ns: u64, host: &dyn Host) {
        let at_s = host.now_us() / 1_000_000;
        let us = elapsed_ns / 1000;
        let config = host.config();
        if config.slower_than_us().is_some_and(|threshold| us >= threshold) && !spec.has(flag::SKIP_SLOWLOG) {
            let name = self.entry.about().name.clone();
            let entries_max = config.slowlog_entries_max();
            let args = without_secrets(spec, args);
            host.stats().slowlog().add(at_s, us, &args, &self.entry.addr, &name, entries_max);
        }
        let threshold_ms = config.latency_threshold_ms();
        if threshold_ms > 0 && us / 1000 >= threshold_ms {
            let event = if spec.has(flag::FAST) { "fast-command" } else { "command" };
            host.stats().events().add(event, at_s, us / 1000);
        }
    }
}

/// Whether `Session::slow` would note a command that took so long.
#[inline]
pub fn is_slow(elapsed_ns: u64, host: &dyn Host) -> bool {
    let config = host.config();
    let us = elapsed_ns / 1000;
    let threshold_ms = config.latency_threshold_ms();
    config.slower_than_us().is_some_and(|threshold| us >= threshold) || (threshold_ms > 0 && us / 1000 >= threshold_ms)
}

/// The arguments without passwords.
fn without_secrets<'a>(spec: &CommandSpec, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let from = match spec.name {
        "AUTH" => 1,
        "HELLO" | "CONFIG|SET" => 2,
        _ => args.len(),
    };
    let secret = spec.name != "CONFIG|SET" || args.iter().any(|arg| arg.eq_ignore_ascii_case(b"requirepass"));
    let redacted = |at: usize| secret && at >= from;
    args.iter().enumerate().map(|(at, arg)| if redacted(at) { b"(redacted)" } else { *arg }).collect()
}
