//! redis-benchmark: the neutral client.

use super::bar::Sample;
use super::program;
use super::server::Server;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(300);
const CLIENTS: &str = "50";
/// Of a value of GET and SET.
pub const VALUE_BYTES: usize = 1000;

/// One way to call it.
#[derive(Clone, Copy)]
pub struct Load {
    /// What it sends: `-t` and the name of a test of its own, or a command whose words may hold `__rand_int__`.
    pub command: &'static [&'static str],
    /// Of a value, where the command is a test of its own.
    pub value_bytes: usize,
    /// Requests on their way on each connection.
    pub depth: u64,
    /// Requests in all.
    pub requests: u64,
    /// Keys to choose from.
    pub keys: u64,
}

/// The program.
pub struct RedisBenchmark(PathBuf);

impl RedisBenchmark {
    /// Finds it.
    pub fn find() -> Result<Self, String> {
        program::installed("redis-benchmark", "redis-tools").map(Self)
    }

    /// Requests a second, and the server's processor time for each.
    pub fn run(&self, server: &Server, load: Load) -> Result<Sample, String> {
        self.run_at(server, server.port, &[], load)
    }

    /// The same at another of the server's ports, with more words on the command line.
    pub fn run_at(&self, server: &Server, port: u16, more: &[&str], load: Load) -> Result<Sample, String> {
        let (port, size) = (port.to_string(), load.value_bytes.to_string());
        let (depth, requests, keys) = (load.depth.to_string(), load.requests.to_string(), load.keys.to_string());
        let before = server.cpu_us()?;
        let mut command = Command::new(&self.0);
        command.args(["-h", "127.0.0.1", "-p", &port, "-c", CLIENTS, "-d", &size, "-P", &depth]);
        command.args(["-n", &requests, "-r", &keys, "--csv"]).args(more).args(load.command);
        let text = program::output(&mut command, BOUND)?;
        let rate = rate(&text).ok_or_else(|| format!("redis-benchmark: not understood: {}", program::tail(&text)))?;
        let cpu_us = server.cpu_us()? - before;
        Ok(Sample { rate, cpu_us_per_op: Some(cpu_us as f64 / load.requests as f64) })
    }
}

/// The second column of the row below the head.
fn rate(csv: &str) -> Option<f64> {
    let row = csv.lines().rfind(|line| line.starts_with('"') && !line.starts_with("\"test\""))?;
    row.split("\",\"").nth(1)?.parse().ok().filter(|rate| *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn the_rate_is_found() {
        let head = "\"test\",\"rps\",\"avg_latency_ms\"\n";
        assert_eq!(rate(&format!("{head}\"GET\",\"144717.80\",\"4.245\"\n")), Some(144_717.8));
        assert_eq!(rate(head), None);
        assert_eq!(rate("Error: Server closed the connection\n"), None);
    }
}
