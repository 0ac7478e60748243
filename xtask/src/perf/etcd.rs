//! etcd with three members, and the program that puts into it.

use super::bar::Sample;
use super::bench::Bench;
use super::machine::process_cpu_us;
use super::program;
use super::server::free_ports;
use super::store::NODES;
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const UP_BOUND: Duration = Duration::from_secs(60);
const BUILD_BOUND: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(100);
const ANSWER_BOUND: Duration = Duration::from_secs(2);
/// Of etcd's file: far above what the runs put into it, so that etcd never refuses for it.
const QUOTA_BYTES: u64 = 8 << 30;

/// What is put.
#[derive(Clone, Copy)]
pub struct Puts {
    /// Clients, each with one put on its way.
    pub clients: u64,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Keys to choose from.
    pub keys: u64,
    /// How long it is measured.
    pub seconds: u64,
    /// How long before nothing counts.
    pub warm_up_seconds: u64,
}

/// A running etcd of three members; they end with it.
pub struct Etcd {
    members: Vec<Child>,
    ports: Vec<u16>,
    load: PathBuf,
    /// The 99th percentiles of the runs so far.
    pub p99s_ms: Vec<f64>,
}

impl Etcd {
    /// Builds the load program, starts the members on empty folders, and waits until they are healthy.
    pub fn start(bench: &Bench) -> Result<Self, String> {
        let (etcd, load) = (program::installed("etcd", "etcd-server")?, build_load(bench)?);
        let all: [u16; 2 * NODES] = free_ports()?;
        let (ports, peer_ports) = all.split_at(NODES);
        let peers: Vec<String> = (0..NODES).map(|n| format!("m{n}=http://127.0.0.1:{}", peer_ports[n])).collect();
        let mut store = Self { members: Vec::new(), ports: ports.to_vec(), load, p99s_ms: Vec::new() };
        for number in 0..NODES {
            let folder = bench.empty_folder(&folder_name(number))?;
            let (client, peer) = (url(ports[number]), url(peer_ports[number]));
            let mut command = Command::new(&etcd);
            command.args(["--name", &format!("m{number}"), "--initial-cluster", &peers.join(",")]);
            command.args(["--initial-cluster-state", "new", "--quota-backend-bytes", &QUOTA_BYTES.to_string()]);
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            command.arg("--data-dir").arg(folder.join("data"));
            store.members.push(spawn(&mut command, &folder)?);
        }
        let start = Instant::now();
        while !store.ports.iter().all(|&port| is_healthy(port)) {
            if start.elapsed() > UP_BOUND {
                return Err(format!("etcd: not healthy after {} s", UP_BOUND.as_secs()));
            }
            std::thread::sleep(POLL);
        }
        Ok(store)
    }

    fn cpu_us(&self) -> Result<u64, String> {
        self.members.iter().map(|member| process_cpu_us(member.id()).map_err(|why| format!("etcd: {why}"))).sum()
    }

    /// Puts a second, and all members' processor time for each.
    pub fn run(&mut self, puts: Puts) -> Result<Sample, String> {
        let endpoints: Vec<String> = self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let mut command = Command::new(&self.load);
        command.args(["-endpoints", &endpoints.join(","), "-clients", &puts.clients.to_string()]);
        command.args(["-value-bytes", &puts.value_bytes.to_string(), "-keys", &puts.keys.to_string()]);
        command.args(["-duration", &format!("{}s", puts.seconds), "-warm-up", &format!("{}s", puts.warm_up_seconds)]);
        let before = self.cpu_us()?;
        let text = program::output(&mut command, Duration::from_secs(puts.seconds + puts.warm_up_seconds + 60))?;
        let cpu_us = self.cpu_us()? - before;
        let value: Value = serde_json::from_str(&text).map_err(|error| format!("etcd-load: {error}"))?;
        let figure = |name: &str| value[name].as_f64().ok_or_else(|| format!("etcd-load: tells no {name}"));
        self.p99s_ms.push(figure("p99_ms")?);
        let all = figure("writes")? + figure("other_writes")?;
        Ok(Sample { rate: figure("writes_per_s")?, cpu_us_per_op: (all > 0.0).then(|| cpu_us as f64 / all) })
    }

    /// Ends the members, and removes their data.
    pub fn stop(self, bench: &Bench) -> Result<(), String> {
        drop(self);
        (0..NODES).try_for_each(|number| bench.empty_folder(&folder_name(number)).map(drop))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.members.iter_mut().for_each(program::end);
    }
}

fn folder_name(number: usize) -> String {
    format!("etcd-{number}")
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn build_load(bench: &Bench) -> Result<PathBuf, String> {
    let file = bench.folder.join("etcd-load");
    let mut command = Command::new(program::installed("go", "golang-go")?);
    command.current_dir(bench.root.join("peers/etcd-load")).args(["build", "-o"]).arg(&file).arg(".");
    program::output(&mut command, BUILD_BOUND)?;
    Ok(file)
}

fn spawn(command: &mut Command, folder: &Path) -> Result<Child, String> {
    let failed = |error: std::io::Error| format!("etcd: {error}");
    let out = File::create(folder.join("output.log")).map_err(failed)?;
    let err = out.try_clone().map_err(failed)?;
    command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().map_err(failed)
}

/// What the member itself answers: it has a leader and can write.
fn is_healthy(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(ANSWER_BOUND))?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.take(4096).read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains("\"health\":\"true\""))
}
