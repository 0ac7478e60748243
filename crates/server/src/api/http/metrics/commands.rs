//! Figures of the commands that have run, and of the errors that have been answered.

use super::table as m;
use super::text::Exposition;
use crate::shared::NodeShared;
use node::stats::CommandTotals;

/// Bounds of the buckets, as powers of two in ns: 16 µs to 17 s.
const FIRST_BITS: u32 = 14;
const LAST_BITS: u32 = 34;

pub(super) fn write(store: &NodeShared, out: &mut Exposition) {
    let commands: Vec<(String, CommandTotals)> =
        store.stats.commands().map(|(spec, totals)| (spec.shown_name(), totals)).collect();
    type Figure = fn(&CommandTotals) -> u64;
    let figures: [(_, Figure); 3] = [
        (&m::COMMANDS, CommandTotals::calls),
        (&m::COMMANDS_FAILED, |totals| totals.failed),
        (&m::COMMANDS_REFUSED, |totals| totals.rejected),
    ];
    for (metric, figure) in figures {
        out.begin(metric);
        for (name, totals) in &commands {
            out.sample(&[("command", name)], figure(totals) as f64);
        }
    }
    out.begin(&m::COMMAND_SECONDS);
    for (name, totals) in commands.iter().filter(|(_, totals)| totals.calls() > 0) {
        let bucket = |bits: u32| ((1u64 << bits) as f64 / 1e9, totals.latency.below(bits));
        let buckets: Vec<(f64, u64)> = (FIRST_BITS..=LAST_BITS).map(bucket).collect();
        out.histogram(&[("command", name)], &buckets, totals.calls(), totals.ns as f64 / 1e9);
    }
    out.begin(&m::ERRORS);
    for (code, count) in store.stats.errors() {
        out.sample(&[("code", &code)], count as f64);
    }
}
