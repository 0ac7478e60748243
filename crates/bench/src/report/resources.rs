//! What a phase cost and how well the store could be reached, in sentences and rows: the same in every report.

use crate::model::Phase;

use crate::figure;

/// The heads of [`node_rows`].
pub const NODE_HEADS: [&str; 4] = ["node", "CPU s/M", "peak mem", "on disk"];

/// One row for each node of the store.
#[must_use]
pub fn node_rows(phase: &Phase) -> Vec<[String; 4]> {
    let or_empty = |value: Option<String>| value.unwrap_or_default();
    let row = |node: &crate::model::NodeUsage| {
        let cpu = node.cpu.and_then(|cpu| phase.per_million(cpu.total_s())).map(figure::cpu_seconds);
        [
            node.name.clone(),
            or_empty(cpu),
            or_empty(node.peak_rss_bytes.map(figure::bytes)),
            or_empty(node.disk_bytes.map(figure::bytes)),
        ]
    };
    phase.nodes.iter().map(row).collect()
}

/// Sentences.
#[must_use]
pub fn sentences(phase: &Phase) -> Vec<String> {
    let mut list = Vec::new();
    if let Some(each) = phase.per_core_s() {
        let whose = if phase.cpu.process.is_some() { "client and store in one process" } else { cores_of(phase) };
        list.push(format!("{} operations a second per core ({whose}).", figure::rate(each)));
    }
    for (gap, what) in [(phase.read_gap_s_max, "read"), (phase.write_gap_s_max, "write")] {
        // The watch has steps of a hundredth of a second: nothing shorter can be told.
        if let Some(gap) = gap.filter(|gap| *gap >= GAP_SHOWN_S) {
            list.push(format!("Longest time without a successful {what}: {gap:.2} s."));
        }
    }
    let unknown = phase.unknown();
    if unknown > 0 {
        list.push(format!(
            "{} failed without an answer: their records may hold the value before or after, and readers accepted both.",
            figure::plural(unknown, "write")
        ));
    }
    let stale: u64 = phase.ops.iter().map(|op| op.stale).sum();
    if stale > 0 {
        list.push(format!(
            "{} met a replica that did not have the record yet; the leader had it.",
            figure::plural(stale, "read")
        ));
    }
    list.extend(agents(phase));
    for event in &phase.events {
        list.push(format!("At {:.1} s: {}.", event.t_s, event.label.trim_end_matches('.')));
    }
    list
}

/// The processes that made the load, when it was not one.
fn agents(phase: &Phase) -> Vec<String> {
    /// More of them are summed up.
    const SHOWN_MAX: usize = 8;
    let count = phase.agents.len() as u64;
    if phase.agents.len() > SHOWN_MAX {
        let rates = || phase.agents.iter().map(|agent| agent.throughput_per_s);
        let farthest = phase.agents.iter().map(|agent| agent.clock_offset_us.abs()).fold(0.0, f64::max);
        return vec![format!(
            "{} made the load, {} to {} operations/s each; clocks at most {} apart.",
            figure::plural(count, "client process").replace("processs", "processes"),
            figure::rate(rates().fold(f64::INFINITY, f64::min)),
            figure::rate(rates().fold(0.0, f64::max)),
            figure::latency(farthest)
        )];
    }
    let sentence = |agent: &crate::model::AgentUse| {
        let busy = agent.busy_share.map_or_else(String::new, |busy| format!(", busy {}", figure::percent(busy)));
        let machine = agent
            .machine_busy_share
            .map_or_else(String::new, |busy| format!(" (its whole machine {})", figure::percent(busy)));
        let sign = if agent.clock_offset_us < 0.0 { "behind" } else { "ahead" };
        format!(
            "Client process {}: {} operations/s, p99 {}{busy}{machine}; its clock was {} {sign}, known to {}.",
            agent.name,
            figure::rate(agent.throughput_per_s),
            figure::latency(agent.p99_us),
            figure::latency(agent.clock_offset_us.abs()),
            figure::latency(agent.round_trip_us / 2.0)
        )
    };
    phase.agents.iter().map(sentence).collect()
}

/// Shorter gaps are in the nature of things.
const GAP_SHOWN_S: f64 = 0.1;

fn cores_of(phase: &Phase) -> &'static str {
    match (phase.cpu.client.is_some(), phase.cpu.server.is_some()) {
        (true, true) => "CPU time of the client and of all nodes counted",
        (true, false) => "only the client's CPU time is known",
        _ => "only the store's CPU time is known",
    }
}
