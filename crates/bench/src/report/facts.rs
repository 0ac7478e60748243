//! The run's configuration, environment and method in words: the same rows in every report.

use crate::model::{BuildProfile, Configuration, Link, Pacing, RunReport};

use crate::figure;

/// A name and what it is.
pub type Fact = (&'static str, String);

/// Where and with what it ran.
#[must_use]
pub fn environment(report: &RunReport) -> Vec<Fact> {
    let (identity, machine) = (&report.identity, &report.environment);
    let unknown = || "unknown".to_owned();
    let link = match machine.link {
        Link::InProcess => "in one process",
        Link::Loopback => "loopback interface",
        Link::Network => "network",
    };
    let build = match machine.build {
        BuildProfile::Debug => "debug",
        BuildProfile::Release => "release",
    };
    vec![
        ("run", identity.id.clone()),
        ("date", identity.date.clone()),
        ("Basalt", format!("{} ({build} build)", identity.product_version)),
        ("commit", identity.git_commit.clone().unwrap_or_else(unknown)),
        ("kernel", machine.kernel.clone()),
        ("CPU", format!("{} ({} cores)", machine.cpu_model, machine.cores)),
        ("memory", figure::bytes(machine.memory_bytes)),
        ("disk", machine.disk.clone().unwrap_or_else(unknown)),
        ("file system", machine.filesystem.clone().unwrap_or_else(unknown)),
        ("client and server", link.to_owned()),
        ("seed", identity.seed.to_string()),
    ]
}

/// What was asked for, without the workload's properties.
#[must_use]
pub fn configuration(report: &RunReport) -> Vec<Fact> {
    let asked = &report.configuration;
    let data = asked.data_bytes();
    let against_memory = match report.environment.memory_bytes {
        0 => String::new(),
        memory if data * 100 < memory => ", less than 0.01 × memory".to_owned(),
        memory => format!(", {:.2} × memory", data as f64 / memory as f64),
    };
    vec![
        ("target", asked.target.clone()),
        ("system", asked.system.clone()),
        ("engine", asked.engine.clone()),
        ("durability", asked.durability.clone()),
        ("replication", asked.replication.clone()),
        ("consistency", asked.consistency.clone()),
        ("compression", asked.compression.clone()),
        ("memory budget", asked.memory_budget_bytes.map_or_else(|| "none".to_owned(), figure::bytes)),
        ("memory limit", asked.memory_limit_bytes.map_or_else(|| "the machine's".to_owned(), figure::bytes)),
        ("records", figure::count(asked.record_count)),
        ("record size", figure::bytes(asked.record_size_bytes)),
        ("data", format!("{}{against_memory}", figure::bytes(data))),
        ("distribution", asked.distribution.clone()),
        ("loop", pacing(asked.pacing)),
        ("clients", format!("{} × {} in flight", asked.clients, asked.pipeline_depth)),
        ("client threads", asked.threads.to_string()),
        ("connections", connections(asked.connections)),
        ("tolerated", if asked.tolerates.is_empty() { "no error".to_owned() } else { asked.tolerates.join(", ") }),
        ("warm-up", asked.warm_up_rule.clone()),
        ("verification", asked.verification.clone()),
    ]
}

fn connections(each: Option<u32>) -> String {
    match each {
        None => "none: calls within the process".to_owned(),
        Some(0) => "one for each client to each node".to_owned(),
        Some(count) => format!("{count} for each thread to each node, which its clients share"),
    }
}

fn pacing(pacing: Pacing) -> String {
    match pacing {
        Pacing::Closed => "closed".to_owned(),
        Pacing::Open { offered_per_s } => format!("open, {} operations/s offered", figure::rate(offered_per_s)),
    }
}

/// How requests were paced, and what follows from it.
fn pace(asked: &Configuration) -> String {
    match asked.pacing {
        Pacing::Closed => format!(
            "The loop is closed: each of {} clients keeps {} in flight and sends the next request when an answer \
             comes. When the store is slow, a closed loop asks less of it, so these latencies say how long an operation \
             took, not how long a user would have waited who came at a time of their own choosing. Throughput is the \
             most that this many clients could get.",
            figure::count(u64::from(asked.clients)),
            if asked.pipeline_depth == 1 {
                "one request".to_owned()
            } else {
                format!("{} requests", asked.pipeline_depth)
            }
        ),
        Pacing::Open { offered_per_s } => format!(
            "The loop is open: {} operations a second are due at fixed times, whatever the store does. Latency counts \
             from the moment an operation was due (“intended”), so the time that it spent waiting for a slow \
             store is in it. Latency from the moment it was sent (“measured”) is given beside it.",
            figure::rate(offered_per_s)
        ),
    }
}

/// How it was measured: a heading and a paragraph each.
#[must_use]
pub fn method(report: &RunReport) -> Vec<(&'static str, String)> {
    let asked = &report.configuration;
    vec![
        ("Closed and open loop", pace(asked)),
        (
            "Warm-up",
            format!(
                "The rule was fixed before the run: {}. What happened during warm-up is drawn on a grey ground in the \
                 charts and is in no other figure.",
                asked.warm_up_rule.trim_end_matches('.')
            ),
        ),
        (
            "Latency",
            "Every operation is recorded in an HdrHistogram, and histograms of all clients are added up before a \
             percentile is read: no percentile here is an average of percentiles. The maximum is the slowest operation \
             of all. A phase's own line gives no percentiles, since its operations do different things."
                .to_owned(),
        ),
        (
            "Verification",
            format!(
                "{}. A record that must exist and is not found is counted as not found and fails the run; so does a wrong \
                 answer.",
                asked.verification.trim_end_matches('.')
            ),
        ),
        (
            "CPU seconds per million operations",
            "User and kernel time of the measured part, divided by its operations. For an embedded store this is the \
             whole process: the store, its background flushes and compactions, and the client that makes the load. For \
             a server it is the client's and, where the server tells, the server's, each given in the phase's details; \
             for a store of many nodes on this machine, all of them. Operations a second per core are the same figure \
             upside down."
                .to_owned(),
        ),
        (
            "Failures",
            "An operation that was surely not done, or that may be done twice, is attempted again within its time, and \
             its latency counts from the first attempt. A write that was sent and got no answer is not: it is counted \
             as failed, and readers accept its record as it was before and after. The longest time without a successful \
             read is that of all clients together, in steps of 0.01 s."
                .to_owned(),
        ),
        (
            "Disk and memory",
            "Bytes on disk are those of the data directory (the tree and the log) at the end of the phase. Peak memory \
             is the highest resident set of the store's process up to then, the client included when it is embedded; of \
             several nodes the sum of each one's highest."
                .to_owned(),
        ),
    ]
}

/// The command line, quoted so that a shell takes it as it was.
#[must_use]
pub fn command_line(report: &RunReport) -> String {
    quoted(&report.identity.command_line)
}

/// Arguments, quoted so that a shell takes them as they were.
#[must_use]
pub fn quoted(arguments: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    let quote = |argument: &String| {
        if !argument.is_empty() && argument.chars().all(plain) {
            argument.clone()
        } else {
            format!("'{}'", argument.replace('\'', r"'\''"))
        }
    };
    arguments.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_for_a_shell() {
        let mut report = RunReport::default();
        report.identity.command_line = ["basalt", "bench", "-P", "workload a", "it's", ""].map(str::to_owned).to_vec();
        assert_eq!(command_line(&report), r"basalt bench -P 'workload a' 'it'\''s' ''");
    }
}
