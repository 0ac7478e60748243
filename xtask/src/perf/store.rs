//! A store of three nodes under measurement, on this machine.

use super::bench::Bench;
use super::certificates::Certificates;
use super::phase::Phase;
use super::program;
use super::progress;
use super::server::{Server, free_ports, wait_until_up};
use super::wire::Connection;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// As many nodes as a shard has replicas.
pub const NODES: usize = 3;
/// A key in the slot of database 0.
const IN_DATABASE_0: &str = "{06S}probe";
const PHASE_BOUND: Duration = Duration::from_secs(900);
const BALANCED_BOUND: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);
/// Of each node, unless a measurement says otherwise.
const MEMORY: &str = "1G";

/// Three nodes with the same settings; they end with it.
pub struct Store<'a> {
    bench: &'a Bench,
    /// What the nodes run; clients are those of the program under measurement.
    program: PathBuf,
    nodes: Vec<Server>,
    /// Where each node listens for the others.
    peers: Vec<String>,
    durability: &'static str,
    shards: u32,
    memory: &'static str,
    /// Where each node listens for clients of databases; empty: nowhere.
    databases: Vec<u16>,
    secured: Option<Secured>,
}

/// Clients and nodes speak TLS.
struct Secured {
    certificates: Certificates,
    /// Where each node listens for clients with TLS.
    ports: [u16; NODES],
}

impl<'a> Store<'a> {
    /// Starts it on empty folders, and waits until every node says that every slot is served.
    pub fn start(bench: &'a Bench, durability: &'static str, shards: u32) -> Result<Self, String> {
        Self::start_with(bench, durability, shards, MEMORY)
    }

    /// The same with so much memory for each node.
    pub fn start_with(
        bench: &'a Bench,
        durability: &'static str,
        shards: u32,
        memory: &'static str,
    ) -> Result<Self, String> {
        Self::start_program(bench, &bench.basalt, durability, shards, memory)
    }

    /// The same with nodes of another program.
    pub fn start_program(
        bench: &'a Bench,
        program: &Path,
        durability: &'static str,
        shards: u32,
        memory: &'static str,
    ) -> Result<Self, String> {
        Self::start_listening((bench, program), durability, shards, memory, (Vec::new(), None))
    }

    /// The same with a listener for databases on each node.
    pub fn start_with_databases(bench: &'a Bench, durability: &'static str, shards: u32) -> Result<Self, String> {
        let databases: [u16; NODES] = free_ports()?;
        Self::start_listening((bench, &bench.basalt), durability, shards, MEMORY, (databases.to_vec(), None))
    }

    /// The first with TLS for clients and between nodes, in folders of its own.
    pub fn start_secured(
        bench: &'a Bench,
        durability: &'static str,
        shards: u32,
        certificates: Certificates,
    ) -> Result<Self, String> {
        let secured = Secured { certificates, ports: free_ports()? };
        Self::start_listening((bench, &bench.basalt), durability, shards, MEMORY, (Vec::new(), Some(secured)))
    }

    fn start_listening(
        (bench, program): (&'a Bench, &Path),
        durability: &'static str,
        shards: u32,
        memory: &'static str,
        (databases, secured): (Vec<u16>, Option<Secured>),
    ) -> Result<Self, String> {
        let (ports, peer_ports) = {
            let all: [u16; 2 * NODES] = free_ports()?;
            (all[..NODES].to_vec(), all[NODES..].to_vec())
        };
        let join: Vec<String> = peer_ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let program = program.to_path_buf();
        let mut store =
            Self { bench, program, nodes: Vec::new(), peers: join, durability, shards, memory, databases, secured };
        for (number, &port) in ports.iter().enumerate() {
            let folder = bench.empty_folder(&store.folder_name(number))?;
            let mut command = store.command(number, port, &folder);
            if number == 0 {
                command.arg("--init");
            }
            store.nodes.push(Server::start("basalt", &mut command, port, &folder)?);
        }
        store.wait_until_up()?;
        Ok(store)
    }

    fn command(&self, number: usize, port: u16, folder: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["start", "--listen", &format!("127.0.0.1:{port}"), "--peer-listen", &self.peers[number]]);
        command.args(["--join", &self.peers.join(","), "--durability", self.durability, "--memory", self.memory]);
        command.args(["--shards", &self.shards.to_string(), "--dir"]).arg(folder.join("data"));
        if let Some(port) = self.databases.get(number) {
            command.args(["--database-listen", &format!("127.0.0.1:{port}")]);
        }
        if let Some(Secured { certificates, ports }) = &self.secured {
            command.args([
                "--tls-port",
                &ports[number].to_string(),
                "--tls-auth-clients",
                "no",
                "--tls-cluster",
                "yes",
            ]);
            command.arg("--tls-cert-file").arg(&certificates.certificate).arg("--tls-key-file").arg(&certificates.key);
            command.arg("--tls-ca-cert-file").arg(&certificates.authority);
        }
        command
    }

    /// Where each node listens for clients of databases.
    pub fn database_ports(&self) -> &[u16] {
        &self.databases
    }

    /// The node that leads database 0.
    pub fn leader_of_database_0(&self) -> Result<usize, String> {
        self.wait_until_balanced()?;
        let leads = |port: &u16| Connection::open(*port).and_then(|mut node| node.set(IN_DATABASE_0, "x")).is_ok();
        Ok(self.ports().iter().position(leads).ok_or("no node leads database 0")?)
    }

    /// One of its nodes.
    pub fn node(&self, number: usize) -> &Server {
        &self.nodes[number]
    }

    /// The port of each node for clients.
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.port).collect()
    }

    /// Kills a node at once.
    pub fn kill(&mut self, number: usize) {
        self.nodes[number].kill();
    }

    /// Starts a node again that was killed, with its data, and waits until it answers.
    pub fn restart(&mut self, number: usize) -> Result<(), String> {
        let (port, folder) = (self.nodes[number].port, self.bench.folder.join(self.folder_name(number)));
        let mut command = self.command(number, port, &folder);
        self.nodes[number] = Server::start("basalt", &mut command, port, &folder)?;
        Ok(())
    }

    /// Waits until every node says that every slot is served.
    pub fn wait_until_up(&self) -> Result<(), String> {
        wait_until_up(&self.nodes)
    }

    /// Waits until each node leads as many shards as the others, or one more: a store that has just begun moves its leaders, and
    /// redis-benchmark does not follow them.
    pub fn wait_until_balanced(&self) -> Result<(), String> {
        let (start, bound) = (Instant::now(), progress::within(BALANCED_BOUND));
        progress::doing("waiting until all nodes lead as many shards");
        loop {
            let led = |port: &u16| Connection::open(*port)?.told("shards_leading");
            let leading = self.ports().iter().map(led).collect::<Result<Vec<u64>, String>>()?;
            let (most, least) = (leading.iter().max().copied(), leading.iter().min().copied());
            let all: u64 = leading.iter().sum();
            if all == u64::from(self.shards) && most <= least.map(|shards| shards + 1) {
                return Ok(());
            }
            if start.elapsed() > bound {
                return Err(format!("the nodes still lead {leading:?} shards after {} s", bound.as_secs()));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits until no node works in the background.
    pub fn wait_until_quiet(&self) -> Result<(), String> {
        std::thread::scope(|scope| {
            let waits: Vec<_> = self.nodes.iter().map(|node| scope.spawn(|| node.wait_until_quiet())).collect();
            waits.into_iter().try_for_each(|wait| wait.join().unwrap_or_else(|_| Err("a watch panicked".to_owned())))
        })
    }

    /// `basalt bench load` or `run` with these properties and options.
    pub fn bench(&self, task: &str, properties: &[String], options: &[&str]) -> Result<Phase, String> {
        let mut command = self.bench_command(task, "nodes-report", properties)?;
        Phase::read(&program::output(command.args(options), PHASE_BOUND)?)
    }

    /// The command of that, with its report in a folder of that name.
    pub fn bench_command(&self, task: &str, report: &str, properties: &[String]) -> Result<Command, String> {
        let (scheme, ports) = match &self.secured {
            Some(secured) => ("rediss", secured.ports.to_vec()),
            None => ("redis", self.ports()),
        };
        let addresses: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let mut command = Command::new(&self.bench.basalt);
        command.args(["bench", task, "--target", &format!("{scheme}://{}", addresses.join(",")), "--quiet"]);
        if let Some(secured) = &self.secured {
            command.arg("--tls-ca").arg(&secured.certificates.authority);
        }
        command.args(["--threads", "1", "--durability", self.durability, "--acks", "majority", "--format", "json"]);
        command.arg("--out").arg(self.bench.empty_folder(report)?);
        for property in properties {
            command.args(["-p", property]);
        }
        Ok(command)
    }

    /// Ends the nodes, and removes their data.
    pub fn stop(self) -> Result<(), String> {
        let bench = self.bench;
        let folders: Vec<String> = (0..NODES).map(|number| self.folder_name(number)).collect();
        // One node alone cannot end in order, and what they hold is not needed.
        drop(self);
        folders.iter().try_for_each(|folder| bench.empty_folder(folder).map(drop))?;
        bench.empty_folder("nodes-report").map(drop)
    }

    /// The folder of a node. A store with TLS may run beside one without.
    fn folder_name(&self, number: usize) -> String {
        let kind = if self.secured.is_some() { "secured-node" } else { "node" };
        format!("{kind}-{number}")
    }
}
