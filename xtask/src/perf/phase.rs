//! What the bench's report tells of its last phase: rate, processor time of the client and of all nodes, latency.

use super::embedded::last_throughput;
use serde_json::Value;

/// One run against a store of several nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Operations a second.
    pub rate: f64,
    /// Operations a second of processor time, the client's and all nodes' together.
    pub per_core: f64,
    /// Processor time of the client for one operation.
    pub client_us_per_op: f64,
    /// Processor time of all nodes for one operation.
    pub nodes_us_per_op: f64,
    /// The 99th percentile of the operation that has the highest.
    pub p99_ms: f64,
}

impl Phase {
    /// Reads the bench's JSON; an error if anything went wrong in the run, or if the client's or the nodes' processor
    /// time is missing: a sum without it would flatter.
    pub fn read(text: &str) -> Result<Self, String> {
        let rate = last_throughput(text)?;
        let value: Value = serde_json::from_str(text).map_err(|error| format!("basalt bench: {error}"))?;
        let phase = value["phases"].as_array().and_then(|phases| phases.last()).unwrap_or(&Value::Null);
        let cpu_us = |whose: &str| {
            let time = &phase["cpu"][whose];
            let seconds = time["user_s"].as_f64()? + time["system_s"].as_f64()?;
            (seconds > 0.0).then_some(seconds * 1e6)
        };
        let of = |whose: &str| cpu_us(whose).ok_or_else(|| format!("basalt bench: tells no CPU time of the {whose}"));
        let (client_us, nodes_us) = (of("client")?, of("server")?);
        let operations = phase["operations"].as_f64().filter(|count| *count > 0.0);
        let operations = operations.ok_or("basalt bench: no operation was completed")?;
        let ops = phase["ops"].as_array().map_or(&[][..], Vec::as_slice);
        let p99_us = ops.iter().filter_map(|op| op["latency"]["measured"]["p99_us"].as_f64()).fold(0.0, f64::max);
        Ok(Self {
            rate,
            per_core: operations / ((client_us + nodes_us) / 1e6),
            client_us_per_op: client_us / operations,
            nodes_us_per_op: nodes_us / operations,
            p99_ms: p99_us / 1000.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Phase;

    #[test]
    fn the_processor_time_of_all_counts() {
        let run = |server: &str| {
            Phase::read(&format!(
                r#"{{"phases":[{{"throughput_per_s":500.0,"operations":1000,
                "cpu":{{"client":{{"user_s":1.0,"system_s":0.5}},"server":{server}}},
                "ops":[{{"op":"READ","verification_failures":0,"latency":{{"measured":{{"p99_us":1500.0}}}}}},
                {{"op":"UPDATE","verification_failures":0,"latency":{{"measured":{{"p99_us":2500.0}}}}}}]}}]}}"#
            ))
        };
        let expected =
            Phase { rate: 500.0, per_core: 250.0, client_us_per_op: 1500.0, nodes_us_per_op: 2500.0, p99_ms: 2.5 };
        assert_eq!(run(r#"{"user_s":1.5,"system_s":1.0}"#), Ok(expected));
        assert!(run("null").is_err(), "the nodes' time is missing");
    }
}
