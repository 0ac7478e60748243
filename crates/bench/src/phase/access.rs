//! How a store over the network is spoken to: options, with the workload's properties behind them.

use std::time::Duration;

use client::ReadFrom;

use crate::options::{AcksOption, DurabilityOption, PhaseOptions, ReadFromOption};
use crate::target::RedisOptions;
use crate::trouble::Trouble;
use crate::workload::Properties;

/// What `options` and `properties` ask for. An option wins over its property.
pub(crate) fn access(options: &PhaseOptions, properties: &Properties) -> Result<RedisOptions, Trouble> {
    let timeout = options.timeout.time("--timeout").map_err(Trouble::Usage)?;
    let patience = match options.retry_for {
        Some(span) => span.time("--retry-for").map_err(Trouble::Usage)?,
        None => timeout,
    };
    let given = &options.store_access;
    let read_from = match given.read_from {
        Some(ReadFromOption::Leader) => "leader",
        Some(ReadFromOption::Any) => "any",
        None => properties.get("basalt.readfrom"),
    };
    let sync = match given.durability {
        Some(DurabilityOption::Sync) => Some("sync"),
        Some(DurabilityOption::Nosync) => Some("nosync"),
        None => properties.given("basalt.durability"),
    };
    let acks = match given.acks {
        Some(AcksOption::Majority) => Some("majority"),
        Some(AcksOption::All) => Some("all"),
        Some(AcksOption::None) => Some("none"),
        None => properties.given("basalt.acks"),
    };
    Ok(RedisOptions {
        timeout: timeout.max(Duration::from_millis(1)),
        patience,
        connections: given.connections,
        read_from: if read_from == "any" { ReadFrom::Any } else { ReadFrom::Leader },
        durability: sync.into_iter().chain(acks).map(str::to_owned).collect(),
    })
}
