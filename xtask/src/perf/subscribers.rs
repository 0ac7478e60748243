//! Clients that have subscribed to a channel, and read what comes.

use super::progress;
use super::server::Server;
use super::wire::Connection;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks at connections that had nothing.
const PAUSE: Duration = Duration::from_millis(1);
/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// Subscribers of one server: a thread reads what all of them are sent.
pub struct Subscribers {
    is_over: Arc<AtomicBool>,
    taken_bytes: Arc<AtomicU64>,
    reader: JoinHandle<Result<(), String>>,
}

impl Subscribers {
    /// Subscribes so many clients.
    pub fn start(server: &Server, channel: &str, count: usize) -> Result<Self, String> {
        progress::doing(format!("SUBSCRIBE of {count} clients at {}", server.name));
        let subscribe = |_| {
            let stream = Connection::open(server.port)?.subscribe(channel)?;
            stream.set_nonblocking(true).map_err(|e| format!("{}: {e}", server.name))?;
            Ok::<_, String>(stream)
        };
        let streams: Vec<TcpStream> = (0..count).map(subscribe).collect::<Result<_, _>>()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let taken_bytes = Arc::new(AtomicU64::new(0));
        let (ends, taken, name) = (is_over.clone(), taken_bytes.clone(), server.name);
        let reader = std::thread::spawn(move || read_all(&streams, &ends, &taken).map_err(|e| format!("{name}: {e}")));
        Ok(Self { is_over, taken_bytes, reader })
    }

    /// How many bytes all of them together have been sent.
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// Closes the connections; an error if one was closed before.
    pub fn stop(self) -> Result<(), String> {
        self.is_over.store(true, Ordering::Relaxed);
        self.reader.join().map_err(|_| "the thread of the subscribers has panicked".to_owned())?
    }
}

fn read_all(streams: &[TcpStream], is_over: &AtomicBool, taken: &AtomicU64) -> Result<(), String> {
    let mut buffer = vec![0; READ_BYTES];
    while !is_over.load(Ordering::Relaxed) {
        let mut any = false;
        for mut stream in streams {
            match stream.read(&mut buffer) {
                Ok(0) => return Err("a subscriber was closed".to_owned()),
                Ok(bytes) => {
                    any = true;
                    taken.fetch_add(bytes as u64, Ordering::Relaxed);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(format!("a subscriber: {e}")),
            }
        }
        if !any {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}
