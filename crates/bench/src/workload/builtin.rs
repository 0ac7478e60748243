//! YCSB's six core workloads, and those of collections, embedded, so that `-P workloada` needs no file.

/// The text of the named workload.
#[must_use]
pub fn builtin(name: &str) -> Option<&'static str> {
    Some(match name {
        "workloada" => include_str!("builtin/workloada.properties"),
        "workloadb" => include_str!("builtin/workloadb.properties"),
        "workloadc" => include_str!("builtin/workloadc.properties"),
        "workloadd" => include_str!("builtin/workloadd.properties"),
        "workloade" => include_str!("builtin/workloade.properties"),
        "workloadf" => include_str!("builtin/workloadf.properties"),
        "queue" => include_str!("builtin/queue.properties"),
        "leaderboard" => include_str!("builtin/leaderboard.properties"),
        "feed" => include_str!("builtin/feed.properties"),
        "tags" => include_str!("builtin/tags.properties"),
        "stream" => include_str!("builtin/stream.properties"),
        _ => return None,
    })
}
