//! Commands that cost much: the logs of COMMANDLOG, and the latency events `command` and `fast-command`.

use super::clients::ClientEntry;
use super::host::Host;
use crate::config::{CommandLogKind, Config};
use crate::stats::{LoggedCommand, ShortArgs};
use resp::table::{CommandSpec, flag};

/// What a command that has run has cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// How long it took, in ns.
    pub elapsed_ns: u64,
    /// How long its reply is, in bytes.
    pub reply_bytes: u64,
}

impl Cost {
    fn us(self) -> u64 {
        self.elapsed_ns / 1000
    }

    /// Whether the settings make it worth a note.
    #[inline]
    fn is_noted(self, config: &Config) -> bool {
        let exceeds = |kind, value| config.command_log_threshold(kind).is_some_and(|threshold| value >= threshold);
        exceeds(CommandLogKind::Slow, self.us())
            || exceeds(CommandLogKind::LargeReply, self.reply_bytes)
            || self.is_latency_event(config)
    }

    fn is_latency_event(self, config: &Config) -> bool {
        let threshold_ms = config.latency_threshold_ms();
        threshold_ms > 0 && self.us() / 1000 >= threshold_ms
    }
}

/// Notes a command that has run, if it took longer, or answered more, than the settings allow. The shell calls it for
/// commands over data. `args` makes its arguments as the logs show them.
#[inline]
pub fn note_if_costly(
    client: &ClientEntry,
    spec: &CommandSpec,
    cost: Cost,
    host: &dyn Host,
    args: impl FnOnce() -> ShortArgs,
) {
    if cost.is_noted(host.config()) {
        note(client, spec, &args(), cost, host);
    }
}

#[cold]
fn note(client: &ClientEntry, spec: &CommandSpec, args: &ShortArgs, cost: Cost, host: &dyn Host) {
    log_if_beyond(client, spec, args, (CommandLogKind::Slow, cost.us()), host);
    log_if_beyond(client, spec, args, (CommandLogKind::LargeReply, cost.reply_bytes), host);
    if cost.is_latency_event(host.config()) {
        let event = if spec.has(flag::FAST) { "fast-command" } else { "command" };
        host.stats().events().add(event, host.now_us() / 1_000_000, cost.us() / 1000);
    }
}

/// Notes a request of so many bytes, which the settings call large.
#[cold]
pub fn note_large(client: &ClientEntry, spec: &CommandSpec, args: &[&[u8]], request_bytes: usize, host: &dyn Host) {
    let args = ShortArgs::of(spec, args);
    log_if_beyond(client, spec, &args, (CommandLogKind::LargeRequest, request_bytes as u64), host);
}

#[cold]
fn log_if_beyond(
    client: &ClientEntry,
    spec: &CommandSpec,
    args: &ShortArgs,
    (kind, value): (CommandLogKind, u64),
    host: &dyn Host,
) {
    let config = host.config();
    let is_beyond = config.command_log_threshold(kind).is_some_and(|threshold| value >= threshold);
    if !is_beyond || spec.has(flag::SKIP_SLOWLOG) {
        return;
    }
    let command = LoggedCommand {
        id: 0,
        at_s: host.now_us() / 1_000_000,
        value,
        args: args.clone(),
        addr: client.addr.clone(),
        client_name: client.about().name.clone(),
    };
    host.stats().command_log(kind).add(command, config.command_log_entries_max(kind));
}
