//! A server under measurement: started, awaited, watched, and ended by its id.

use super::machine::{process_cpu_us, process_peak_bytes};
use super::program::{end, tail};
use super::progress;
use super::wire::Connection;
use parking_lot::Mutex;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Sixteen thousand shards take their time.
const START_BOUND: Duration = Duration::from_secs(300);
/// Of a store whose nodes all answer.
const UP_BOUND: Duration = Duration::from_secs(60);
const QUIET_BOUND: Duration = Duration::from_secs(300);
const STOP_BOUND: Duration = Duration::from_secs(60);
/// A quiet server takes less than 3 % of a processor for this long.
const QUIET_TIME: Duration = Duration::from_secs(2);
/// The same in a quick run.
const QUIET_TIME_QUICK: Duration = Duration::from_millis(300);
const QUIET_PERCENT: u64 = 3;
const POLL: Duration = Duration::from_millis(50);

/// A running server.
pub struct Server {
    /// What a report calls it.
    pub name: &'static str,
    /// On 127.0.0.1.
    pub port: u16,
    child: Child,
    log: PathBuf,
}

/// A port on which no process listens now.
pub fn free_port() -> Result<u16, String> {
    free_ports().map(|[port]| port)
}

/// Different ports on which no process listens now, and of which no other process of this program has been given one while it runs.
pub fn free_ports<const N: usize>() -> Result<[u16; N], String> {
    /// Below those of connections that go out, which might take one before its server does.
    const PORTS: std::ops::Range<u16> = 20_000..32_700;
    static NEXT: AtomicU16 = AtomicU16::new(PORTS.start);
    /// The same ports of UDP, which no server here uses: who has one may give its number to a server.
    static CLAIMS: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let mut ports = [0; N];
    for port in &mut ports {
        let claimed = |port: u16| {
            let claim = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
            Some((port, claim))
        };
        let mut left =
            std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed)).take_while(|at| PORTS.contains(at));
        let (free, claim) = left.find_map(claimed).ok_or("no port below 32,700 is free")?;
        CLAIMS.lock().push(claim);
        *port = free;
    }
    Ok(ports)
}

/// Waits until each of a store's nodes, which are all here, says that every slot is served.
pub fn wait_until_up(nodes: &[Server]) -> Result<(), String> {
    let (start, bound) = (Instant::now(), progress::within(UP_BOUND));
    progress::doing("waiting until every slot is served");
    let is_up = |node: &Server| Connection::open(node.port)?.store_is_up(nodes.len());
    while !nodes.iter().all(|node| is_up(node).unwrap_or(false)) {
        if start.elapsed() > bound {
            return Err(format!("the store does not serve every slot after {} s", bound.as_secs()));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

impl Server {
    /// Starts `command`, which is to listen on `port`, with its output in a file below `folder`, and waits until it
    /// answers.
    pub fn start(name: &'static str, command: &mut Command, port: u16, folder: &Path) -> Result<Self, String> {
        let log = folder.join("output.log");
        let failed = |error: std::io::Error| format!("{name}: {error}");
        let out = File::create(&log).map_err(failed)?;
        let err = out.try_clone().map_err(failed)?;
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().map_err(failed)?;
        let mut server = Self { name, port, child, log };
        let (start, bound) = (Instant::now(), progress::within(START_BOUND));
        progress::doing(format!("waiting until {name} answers on port {port}"));
        while Connection::open(port).and_then(|mut connection| connection.ping()).is_err() {
            if server.child.try_wait().map_err(failed)?.is_some() || start.elapsed() > bound {
                let waited_s = start.elapsed().as_secs();
                return Err(format!("{name}: does not answer on port {port} after {waited_s} s\n{}", server.said()));
            }
            std::thread::sleep(POLL);
        }
        Ok(server)
    }

    fn said(&self) -> String {
        tail(&std::fs::read_to_string(&self.log).unwrap_or_default())
    }

    /// Of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Processor time so far.
    pub fn cpu_us(&self) -> Result<u64, String> {
        process_cpu_us(self.child.id()).map_err(|why| format!("{}: {why}\n{}", self.name, self.said()))
    }

    /// The most memory that it had.
    pub fn peak_bytes(&self) -> Result<u64, String> {
        process_peak_bytes(self.child.id()).map_err(|why| format!("{}: {why}\n{}", self.name, self.said()))
    }

    /// Waits until background work has come to its end: by what INFO says, and by the processor time.
    pub fn wait_until_quiet(&self) -> Result<(), String> {
        let (start, bound) = (Instant::now(), progress::within(QUIET_BOUND));
        let time = if progress::is_quick() { QUIET_TIME_QUICK } else { QUIET_TIME };
        progress::doing(format!("waiting until {} is quiet", self.name));
        loop {
            let before = self.cpu_us()?;
            std::thread::sleep(time);
            let percent = (self.cpu_us()? - before) * 100 / time.as_micros() as u64;
            let work = Connection::open(self.port)?.background_work()?;
            if percent <= QUIET_PERCENT && work.is_none() {
                return Ok(());
            }
            let busy = work.unwrap_or_else(|| format!("takes {percent} % of a processor"));
            if start.elapsed() > bound {
                return Err(format!("{}: not quiet within {} s: {busy}", self.name, bound.as_secs()));
            }
            progress::doing(format!(
                "waiting until {} is quiet, for {} s: {busy}",
                self.name,
                start.elapsed().as_secs()
            ));
        }
    }

    /// Ends it in order (SIGTERM); how long it took, in s.
    pub fn terminate(mut self) -> Result<f64, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.name);
        let begun = Instant::now();
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).map_err(|error| failed(error.into()))?;
        while begun.elapsed() < START_BOUND {
            if self.child.try_wait().map_err(failed)?.is_some() {
                return Ok(begun.elapsed().as_secs_f64());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(format!("{}: did not stop within {} s", self.name, START_BOUND.as_secs()))
    }

    /// Ends it at once (kill -9).
    pub fn kill(&mut self) {
        end(&mut self.child);
    }

    /// Ends it in order, so that it leaves nothing half-written; its data is for the caller to remove.
    pub fn stop(mut self) -> Result<(), String> {
        // The answer to SHUTDOWN is that the connection ends.
        let _ = Connection::open(self.port).and_then(|mut connection| connection.shut_down());
        let start = Instant::now();
        while start.elapsed() < STOP_BOUND {
            if self.child.try_wait().map_err(|error| format!("{}: {error}", self.name))?.is_some() {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        Err(format!("{}: did not stop within {} s", self.name, STOP_BOUND.as_secs()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

#[cfg(test)]
mod tests {
    use super::free_ports;
    use std::collections::BTreeSet;
    use std::net::{Ipv4Addr, TcpListener, UdpSocket};

    #[test]
    fn a_port_is_given_once_while_this_process_runs() {
        let [one, other]: [u16; 2] = free_ports().expect("two are free");
        let [third]: [u16; 1] = free_ports().expect("one is free");
        assert_eq!(BTreeSet::from([one, other, third]).len(), 3);
        for port in [one, other, third] {
            assert!(UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_err(), "another process would be given {port}");
            assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok(), "a server cannot have {port}");
        }
    }
}
