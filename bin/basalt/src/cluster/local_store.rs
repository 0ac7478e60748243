//! A store of several nodes on this machine, each a process of this program: started, killed, brought back, stopped.

use super::process::Process;
use super::roster::{LocalNode, Roster, RosterLock};
use crate::config::Environment;
use crate::store_login;
use client::{Address, Login, StoreUrl};
use node::config::is_secret;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A node that is told to stop and has not within this time is killed.
const STOPS_WITHIN: Duration = Duration::from_secs(30);
/// What has been killed is gone within this time, unless the system is stuck.
const GONE_WITHIN: Duration = Duration::from_secs(10);
/// Of what a node said last, so much is shown.
const LAST_WORDS_LINES: usize = 5;

/// Whether nodes outlive the program that starts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// They stop when it ends, however it ends.
    Ours,
    /// They go on.
    Their,
}

/// A store of several nodes on this machine.
pub struct LocalStore {
    dir: PathBuf,
    roster: Roster,
    /// The processes that were started here.
    children: BTreeMap<usize, Child>,
}

impl LocalStore {
    /// A new store in `dir`, nothing of which runs yet.
    pub fn create(dir: &Path, roster: Roster) -> Result<Self, String> {
        fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        if let Some(other) = Roster::foreign(dir).map_err(|e| format!("{}: {e}", dir.display()))? {
            return Err(format!(
                "{} is neither empty nor a store of `basalt cluster`: it holds {other}. Nothing was made: name another directory",
                dir.display()
            ));
        }
        let _lock = RosterLock::take(dir)?;
        if Roster::read(dir)?.is_some() {
            return Err(format!("{} holds a store already", dir.display()));
        }
        roster.write(dir)?;
        Ok(Self { dir: dir.to_owned(), roster, children: BTreeMap::new() })
    }

    /// The store in `dir`; none if there is none.
    pub fn open(dir: &Path) -> Result<Option<Self>, String> {
        let roster = Roster::read(dir)?;
        Ok(roster.map(|roster| Self { dir: dir.to_owned(), roster, children: BTreeMap::new() }))
    }

    /// Its nodes.
    #[must_use]
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How clients find it.
    #[must_use]
    pub fn url(&self) -> StoreUrl {
        StoreUrl { seeds: self.roster.nodes.iter().map(address).collect(), login: self.login(), secure: None }
    }

    /// How clients find one node.
    #[must_use]
    pub fn node_url(&self, node: &LocalNode) -> StoreUrl {
        StoreUrl { seeds: vec![address(node)], login: self.login(), secure: None }
    }

    fn login(&self) -> Option<Login> {
        // The nodes are started with this program's environment.
        let password = store_login::password()
            .or_else(|| self.roster.setting("requirepass").map(str::to_owned))
            .or_else(|| std::env::var(Environment::variable("requirepass")).ok());
        Some(Login { user: None, password: password.filter(|password| !password.is_empty())? })
    }

    /// Changes the roster, on disk first. What other programs have written to it meanwhile is taken over.
    pub fn change(&mut self, change: impl FnOnce(&mut Roster)) -> Result<(), String> {
        let _lock = RosterLock::take(&self.dir)?;
        let mut roster = Roster::read(&self.dir)?.ok_or_else(|| format!("{} is gone", self.dir.display()))?;
        change(&mut roster);
        roster.write(&self.dir)?;
        self.roster = roster;
        Ok(())
    }

    /// Reads the roster again: another program may have brought a node back.
    pub fn refresh(&mut self) -> Result<(), String> {
        for child in self.children.values_mut() {
            // The system keeps what has ended until it is waited for.
            let _ = child.try_wait();
        }
        self.roster = Roster::read(&self.dir)?.ok_or_else(|| format!("{} is gone", self.dir.display()))?;
        Ok(())
    }

    /// Starts a node that does not run.
    pub fn start(&mut self, number: usize, lifetime: Lifetime) -> Result<(), String> {
        let node = self.node(number)?;
        if node.runs() {
            return Err(format!("node {number} runs already"));
        }
        let mut command = self.command(&node, lifetime)?;
        let mut child = command.spawn().map_err(|e| format!("node {number} cannot be started: {e}"))?;
        let process = Process::of(child.id());
        let set = |roster: &mut Roster| {
            roster.nodes.iter_mut().filter(|node| node.number == number).for_each(|node| node.process = process);
        };
        if let Err(e) = self.change(set) {
            // A process that is not in the roster would never be ended.
            let _ = child.kill();
            let _ = child.wait();
            return Err(e);
        }
        self.children.insert(number, child);
        Ok(())
    }

    fn command(&self, node: &LocalNode, lifetime: Lifetime) -> Result<Command, String> {
        let dir = Roster::node_dir(&self.dir, node.number);
        let messages = self.messages(node.number);
        let open = || {
            fs::create_dir_all(&dir)?;
            let file = OpenOptions::new().create(true).append(true).open(&messages)?;
            Ok((file.try_clone()?, file))
        };
        let (out, err) = open().map_err(|e: std::io::Error| format!("{}: {e}", messages.display()))?;
        let program = std::env::current_exe().map_err(|e| format!("this program cannot be found: {e}"))?;
        let mut command = Command::new(program);
        let peers: Vec<String> = self.roster.nodes.iter().map(|node| local(node.peer_port)).collect();
        command.arg("start").args(["--listen", &local(node.port), "--peer-listen", &local(node.peer_port)]);
        command.args(["--join", &peers.join(",")]).arg("--dir").arg(dir.join("data"));
        if node.number == 1 && !self.roster.made {
            command.arg("--init");
        }
        if let Some(port) = node.http_port {
            command.args(["--http-listen", &local(port)]);
        }
        // A restart of one that was killed finds the port free again.
        if let Some(port) = self.roster.database_port(node).filter(|port| is_free(*port)) {
            command.args(["--database-listen", &local(port)]);
        }
        if self.has_tls() {
            command.args(["--tls-port", &self.roster.tls_port(node)?.to_string()]);
        }
        for (name, value) in &self.roster.settings {
            if is_secret(name.as_bytes()) {
                // Others of the machine see what a process was started with, and not its environment.
                command.env(Environment::variable(name), value);
            } else {
                command.args(["--set", &format!("{name}={value}")]);
            }
        }
        if lifetime == Lifetime::Ours {
            command.arg("--stop-with-stdin");
        }
        command.stdin(if lifetime == Lifetime::Ours { Stdio::piped() } else { Stdio::null() });
        // Ctrl-C is for the one who started it, who ends the nodes in order.
        command.stdout(out).stderr(err).process_group(0);
        Ok(command)
    }

    /// Makes sure that these nodes can listen where they are to. Another program at one of their ports would answer for them.
    ///
    /// # Errors
    /// A port is in use: which, and what for.
    pub fn require_free_ports(&self, numbers: &[usize]) -> Result<(), String> {
        for number in numbers {
            let node = self.node(*number)?;
            let tls_port = if self.has_tls() { Some(self.roster.tls_port(&node)?) } else { None };
            let ports = [
                ("clients", "--port", Some(node.port)),
                ("other nodes", "--peer-port", Some(node.peer_port)),
                ("HTTP", "--http-port", node.http_port),
                ("clients with TLS", "--port", tls_port),
            ];
            for (purpose, flag, port) in ports {
                let Some(port) = port.filter(|port| !is_free(*port)) else { continue };
                // A store keeps its ports, but for those of HTTP.
                let other = if self.roster.made && flag != "--http-port" {
                    String::new()
                } else {
                    format!(", or give another {flag}")
                };
                return Err(format!(
                    "port {port} (node {number}, for {purpose}) is in use by another program: end that one{other}"
                ));
            }
        }
        Ok(())
    }

    /// What to say of nodes that will not serve clients of databases, because another program has their port.
    #[must_use]
    pub fn without_databases(&self) -> Option<String> {
        let taken = self.roster.nodes.iter().filter_map(|node| self.roster.database_port(node));
        let taken: Vec<String> = taken.filter(|port| !is_free(*port)).map(|port| port.to_string()).collect();
        (!taken.is_empty()).then(|| {
            format!(
                "in use by another program, so that nodes do not serve clients of databases there: port {}",
                taken.join(", ")
            )
        })
    }

    fn has_tls(&self) -> bool {
        self.roster.setting("tls-cert-file").is_some_and(|file| !file.is_empty())
    }

    /// How a client connects with TLS, as a line.
    #[must_use]
    pub fn tls_line(&self) -> String {
        let port = self.roster.nodes.first().and_then(|node| self.roster.tls_port(node).ok());
        let (Some(port), Some(file)) = (port.filter(|_| self.has_tls()), self.roster.setting("tls-ca-cert-file"))
        else {
            return String::new();
        };
        format!("TLS redis-cli -c --tls --cacert {file} -p {port}\n")
    }

    /// The directory of one node: its data and what it said.
    #[must_use]
    pub fn node_dir(&self, number: usize) -> PathBuf {
        Roster::node_dir(&self.dir, number)
    }

    /// What a node says goes here.
    #[must_use]
    pub fn messages(&self, number: usize) -> PathBuf {
        Roster::node_dir(&self.dir, number).join("messages")
    }

    /// What a node has said last.
    #[must_use]
    pub fn last_words(&self, number: usize) -> String {
        let text = fs::read(self.messages(number)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.len().saturating_sub(LAST_WORDS_LINES);
        lines[last..].iter().map(|line| format!("\n    {line}")).collect()
    }

    /// Kills a node (kill -9). False if it did not run.
    pub fn kill(&mut self, number: usize) -> Result<bool, String> {
        let node = self.node(number)?;
        let Some(process) = node.process.filter(|process| process.runs()) else { return Ok(false) };
        process.kill().map_err(|e| format!("node {number} cannot be killed: {e}"))?;
        self.gone(number, process)?;
        Ok(true)
    }

    /// Holds a node up (SIGSTOP): the others find it silent.
    pub fn pause(&self, number: usize) -> Result<(), String> {
        self.running(number)?.pause().map_err(|e| format!("node {number} cannot be paused: {e}"))
    }

    /// Lets a paused node go on.
    pub fn resume(&self, number: usize) -> Result<(), String> {
        self.running(number)?.resume().map_err(|e| format!("node {number} cannot go on: {e}"))
    }

    fn running(&self, number: usize) -> Result<Process, String> {
        let process = self.node(number)?.process.filter(|process| process.runs());
        process.ok_or_else(|| format!("node {number} does not run"))
    }

    /// A further node, on the ports that follow: its number. It does not run yet.
    pub fn add(&mut self) -> Result<usize, String> {
        self.change(Roster::add)?;
        let last = self.roster.nodes.last().map(|node| node.number);
        last.ok_or_else(|| "a store has nodes".to_owned())
    }

    fn gone(&mut self, number: usize, process: Process) -> Result<(), String> {
        if !process.wait(Instant::now() + GONE_WITHIN) {
            return Err(format!("node {number} (process {}) was killed and does not end", process.pid));
        }
        if let Some(mut child) = self.children.remove(&number).filter(|child| child.id() == process.pid) {
            let _ = child.wait();
        }
        Ok(())
    }

    /// Stops these nodes, all at once and in order, and those that do not stop in time by force: their numbers.
    pub fn stop(&mut self, numbers: &[usize]) -> Result<Vec<usize>, String> {
        let mut running = Vec::new();
        for number in numbers {
            let node = self.node(*number)?;
            if let Some(process) = node.process.filter(|process| process.runs()) {
                process.terminate().map_err(|e| format!("node {number} cannot be stopped: {e}"))?;
                running.push((*number, process));
            }
        }
        let until = Instant::now() + STOPS_WITHIN;
        let mut forced = Vec::new();
        for (number, process) in running {
            if !process.wait(until) {
                process.kill().map_err(|e| format!("node {number} cannot be killed: {e}"))?;
                forced.push(number);
            }
            self.gone(number, process)?;
        }
        Ok(forced)
    }

    /// The same for all nodes.
    pub fn stop_all(&mut self) -> Result<Vec<usize>, String> {
        self.refresh()?;
        self.stop(&self.numbers())
    }

    /// The numbers of its nodes.
    #[must_use]
    pub fn numbers(&self) -> Vec<usize> {
        self.roster.nodes.iter().map(|node| node.number).collect()
    }

    /// Kills what was started here and still runs: for an end that was not planned.
    pub fn kill_children(&mut self) {
        for child in self.children.values_mut() {
            let _ = child.kill();
        }
        for (_, mut child) in std::mem::take(&mut self.children) {
            let _ = child.wait();
        }
    }

    /// The children are not ours any more: they go on.
    pub fn let_go(&mut self) {
        self.children.clear();
    }

    fn node(&self, number: usize) -> Result<LocalNode, String> {
        let nodes = self.roster.nodes.len();
        self.roster.node(number).cloned().ok_or_else(|| format!("there is no node {number}: nodes are 1 to {nodes}"))
    }
}

fn is_free(port: u16) -> bool {
    std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port)).is_ok()
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        self.kill_children();
    }
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn address(node: &LocalNode) -> Address {
    Address { host: "127.0.0.1".to_owned(), port: node.port }
}
