//! A server of a test's own: started on a free port, known to be ready, and ended by the pid that it got.
//!
//! With `BASALT_BLACKBOX_PEER=redis-server` the peer is started in Basalt's place: what a transcript says of both
//! must hold for both.

use super::{Connection, Value, eventually, free_port, signal};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longest start: a log of a whole test is replayed within it.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// How to start it.
#[derive(Clone, Debug)]
pub struct Setup {
    pub dir: PathBuf,
    pub arguments: Vec<String>,
    /// The binary: that of this commit, unless a test says otherwise.
    pub program: PathBuf,
    /// The port to listen on; none: any that is free.
    port: Option<u16>,
    peer: Option<String>,
    /// Whether a peer is to run without cluster mode.
    plain: bool,
    /// Most open files that the process may have; none: as many as this one.
    descriptors: Option<u32>,
    /// A program and its arguments that run Basalt, and become it.
    wrapper: Vec<String>,
}

impl Setup {
    /// A small store: few shards and little memory, so that flushes and compactions happen within a test.
    pub fn new(dir: &Path) -> Self {
        Self::bare(dir).with("--shards", "4").with("--memory", "256M")
    }

    /// The defaults.
    pub fn bare(dir: &Path) -> Self {
        let peer = std::env::var("BASALT_BLACKBOX_PEER").ok();
        let program = PathBuf::from(env!("CARGO_BIN_EXE_basalt"));
        Self {
            dir: dir.to_path_buf(),
            arguments: Vec::new(),
            program,
            port: None,
            peer,
            plain: false,
            descriptors: None,
            wrapper: Vec::new(),
        }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        if let Some(at) = self.arguments.iter().position(|argument| argument == name) {
            self.arguments.drain(at..at + 2);
        }
        self.arguments.extend([name.to_owned(), value.to_owned()]);
        self
    }

    /// Of nodes that others know by their address.
    pub fn on_port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// As after `ulimit -n`.
    pub fn with_descriptors(mut self, most: u32) -> Self {
        self.descriptors = Some(most);
        self
    }

    /// Run by a program with these arguments, which leaves the process that it is to Basalt.
    pub fn under<A: Into<String>>(mut self, wrapper: impl IntoIterator<Item = A>) -> Self {
        self.wrapper = wrapper.into_iter().map(Into::into).collect();
        self
    }

    fn basalt(&self) -> Command {
        if let [wrapper, arguments @ ..] = &self.wrapper[..] {
            let mut command = Command::new(wrapper);
            command.args(arguments).arg(&self.program);
            return command;
        }
        let Some(most) = self.descriptors else { return Command::new(&self.program) };
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {most}; exec \"$0\" \"$@\"")]).arg(&self.program);
        shell
    }

    fn command(&self, port: u16) -> Command {
        let Some(peer) = &self.peer else {
            let mut command = self.basalt();
            command.args(["start", "--listen", &format!("127.0.0.1:{port}"), "--dir"]).arg(&self.dir);
            command.args(&self.arguments);
            return command;
        };
        std::fs::create_dir_all(&self.dir).unwrap();
        let mut command = Command::new(peer);
        let cluster = if self.plain { "no" } else { "yes" };
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--cluster-enabled", cluster, "--dir"]);
        command.arg(&self.dir);
        command.args([
            "--cluster-port",
            &free_port().to_string(),
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
        ]);
        command
    }
}

/// A running server.
pub struct Server {
    child: Child,
    port: u16,
    messages: PathBuf,
    is_peer: bool,
    plain: bool,
}

impl Server {
    /// Starts redis-server without cluster mode, to compare with.
    pub fn start_plain_peer(setup: &Setup) -> Self {
        Self::start(&Setup { peer: Some("redis-server".to_owned()), plain: true, ..setup.clone() })
    }

    /// Starts it and waits until it answers.
    pub fn start(setup: &Setup) -> Self {
        Self::try_start(setup).unwrap_or_else(|messages| panic!("the server ended instead of starting:\n{messages}"))
    }

    /// Starts redis-server to compare with.
    pub fn start_peer(setup: &Setup) -> Self {
        Self::start(&Setup { peer: Some("redis-server".to_owned()), ..setup.clone() })
    }

    /// As `start`, but a server that ends instead of answering is an answer too: what it said.
    pub fn try_start(setup: &Setup) -> Result<Self, String> {
        loop {
            let mut server = Self::spawn(setup);
            match server.wait_ready() {
                Ok(()) => return Ok(server),
                // Between our look and its bind, another process took the port.
                Err(messages) if setup.port.is_none() && messages.contains("ddress already in use") => continue,
                Err(messages) => return Err(messages),
            }
        }
    }

    /// Starts it and kills it after `delay`, wherever it is by then.
    pub fn start_and_kill(setup: &Setup, delay: Duration) {
        let server = Self::spawn(setup);
        std::thread::sleep(delay);
        server.kill();
    }

    /// Starts it and does not wait.
    pub fn spawn(setup: &Setup) -> Self {
        let port = setup.port.unwrap_or_else(free_port);
        let messages = setup.dir.with_extension("messages");
        std::fs::create_dir_all(setup.dir.parent().unwrap()).unwrap();
        let file = std::fs::File::options().create(true).append(true).open(&messages).unwrap();
        let child =
            setup.command(port).stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Self { child, port, messages, is_peer: setup.peer.is_some(), plain: setup.plain }
    }

    /// Waits until it answers; what it said if it has ended instead.
    pub fn wait_ready(&mut self) -> Result<(), String> {
        eventually("the server answers PING", READY_WITHIN, || {
            if self.child.try_wait().unwrap().is_some() {
                return Some(Err(self.messages()));
            }
            let mut connection = Connection::open(self.port).ok()?;
            match connection.try_call(&["PING"]) {
                Ok(Value::Simple(text)) if text == "PONG" => {}
                // It is loading, or it is ending.
                _ => return None,
            }
            if self.is_peer && !self.plain {
                connection.call("CLUSTER ADDSLOTSRANGE 0 16383");
                (connection.call("CLUSTER INFO").text().contains("cluster_state:ok")).then_some(Ok(()))
            } else {
                Some(Ok(()))
            }
        })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address for clients.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.port).unwrap()
    }

    /// All that it has said so far.
    pub fn messages(&self) -> String {
        std::fs::read_to_string(&self.messages).unwrap_or_default()
    }

    /// SIGSTOP, or whatever else it is to be sent.
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// SIGKILL, and gone when this returns.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM; true if it ended well within the time that a stop may take.
    pub fn stop(mut self) -> bool {
        self.signal("-TERM");
        eventually("the server ends after SIGTERM", Duration::from_secs(30), || self.child.try_wait().unwrap())
            .success()
    }

    /// Resident memory now, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let messages = self.messages();
            let tail = messages.lines().rev().take(20).collect::<Vec<_>>();
            super::announce(&format!(
                "the server's last words:\n{}",
                tail.into_iter().rev().collect::<Vec<_>>().join("\n")
            ));
        }
    }
}
