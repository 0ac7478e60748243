//! YCSB's six core workloads, embedded, so that `-P workloada` needs no file.

/// The text of the named workload, `workloada` to `workloadf`.
#[must_use]
pub fn builtin(name: &str) -> Option<&'static str> {
    Some(match name {
        "workloada" => include_str!("builtin/workloada.properties"),
        "workloadb" => include_str!("builtin/workloadb.properties"),
        "workloadc" => include_str!("builtin/workloadc.properties"),
        "workloadd" => include_str!("builtin/workloadd.properties"),
        "workloade" => include_str!("builtin/workloade.properties"),
        "workloadf" => include_str!("builtin/workloadf.properties"),
        _ => return None,
    })
}
