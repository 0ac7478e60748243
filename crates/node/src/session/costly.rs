//! Commands that took long: the slow log, and the latency events `command` and `fast-command`.

use super::clients::ClientEntry;
use super::host::Host;
use crate::config;
use resp::table::{CommandSpec, SecretArgs, flag};
use vocab::client_key;

/// Notes a command that has run, if it took longer than the settings allow. The shell calls it for commands over
/// data; for a write, `args` may come from its `EncodedCommand`: test `is_slow` first.
#[inline]
pub fn note_if_slow(client: &ClientEntry, spec: &CommandSpec, args: &[&[u8]], elapsed_ns: u64, host: &dyn Host) {
    if is_slow(elapsed_ns, host) {
        note_slow(client, spec, args, elapsed_ns, host);
    }
}

#[cold]
fn note_slow(client: &ClientEntry, spec: &CommandSpec, args: &[&[u8]], elapsed_ns: u64, host: &dyn Host) {
    let at_s = host.now_us() / 1_000_000;
    let us = elapsed_ns / 1000;
    let config = host.config();
    if config.slower_than_us().is_some_and(|threshold| us >= threshold) && !spec.has(flag::SKIP_SLOWLOG) {
        let name = client.about().name.clone();
        let entries_max = config.slowlog_entries_max();
        let args = without_secrets(spec, args);
        host.stats().slowlog().add(at_s, us, &args, &client.addr, &name, entries_max);
    }
    let threshold_ms = config.latency_threshold_ms();
    if threshold_ms > 0 && us / 1000 >= threshold_ms {
        let event = if spec.has(flag::FAST) { "fast-command" } else { "command" };
        host.stats().events().add(event, at_s, us / 1000);
    }
}

/// Whether `note_if_slow` would note a command that took so long.
#[inline]
pub fn is_slow(elapsed_ns: u64, host: &dyn Host) -> bool {
    let config = host.config();
    let us = elapsed_ns / 1000;
    let threshold_ms = config.latency_threshold_ms();
    config.slower_than_us().is_some_and(|threshold| us >= threshold) || (threshold_ms > 0 && us / 1000 >= threshold_ms)
}

/// The arguments without passwords.
fn without_secrets<'a>(spec: &CommandSpec, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let redacted = |at: usize| match spec.secrets {
        SecretArgs::None => false,
        SecretArgs::From(first) => at >= usize::from(first),
        // A value stands behind its name.
        SecretArgs::Settings(first) => {
            at > usize::from(first) && (at - usize::from(first)) % 2 == 1 && config::is_secret(args[at - 1])
        }
    };
    args.iter().enumerate().map(|(at, arg)| if redacted(at) { b"(redacted)" } else { client_key(arg) }).collect()
}
