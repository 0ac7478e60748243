//! A store for tests: nodes that are threads with sockets, answer what the test says, and can be killed and paused.
#![allow(clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use resp::{Value, decode};

use crate::Address;

/// What a node does with a request.
pub(crate) enum Deed {
    /// Sends these bytes.
    Say(String),
    /// Never answers.
    Nothing,
    /// Closes the connection.
    HangUp,
}

type Behaviour = dyn Fn(&[String]) -> Deed + Send + Sync;

struct Shared {
    behaviour: Mutex<Box<Behaviour>>,
    heard: Mutex<Vec<String>>,
    news: Condvar,
    streams: Mutex<Vec<TcpStream>>,
    stop: AtomicBool,
    paused: Mutex<bool>,
    resumed: Condvar,
}

/// A node.
pub(crate) struct FakeNode {
    pub(crate) address: Address,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl FakeNode {
    pub(crate) fn start() -> Self {
        Self::start_at("127.0.0.1:0")
    }

    pub(crate) fn start_at(place: &str) -> Self {
        let listener = TcpListener::bind(place).unwrap();
        let address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let shared = Arc::new(Shared {
            behaviour: Mutex::new(Box::new(|_| Deed::Say("-ERR it has not been told what to do\r\n".to_owned()))),
            heard: Mutex::default(),
            news: Condvar::new(),
            streams: Mutex::default(),
            stop: AtomicBool::new(false),
            paused: Mutex::new(false),
            resumed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.stop.load(Ordering::Acquire) {
                    return;
                }
                let stream = stream.unwrap();
                accepting.streams.lock().unwrap().push(stream.try_clone().unwrap());
                let serving = Arc::clone(&accepting);
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        Self { address, shared, thread: Some(thread) }
    }

    /// What it does from now on with a request, whose words are given.
    pub(crate) fn behave(&self, behaviour: impl Fn(&[String]) -> Deed + Send + Sync + 'static) {
        *self.shared.behaviour.lock().unwrap() = Box::new(behaviour);
    }

    /// The requests that it has heard, without those about the map.
    pub(crate) fn heard(&self) -> Vec<String> {
        let heard = self.shared.heard.lock().unwrap();
        heard.iter().filter(|line| !line.starts_with("CLUSTER")).cloned().collect()
    }

    /// Waits until it has heard a request of these words.
    pub(crate) fn wait_for(&self, line: &str) {
        let heard = self.shared.heard.lock().unwrap();
        drop(self.shared.news.wait_while(heard, |heard| !heard.iter().any(|other| other == line)).unwrap());
    }

    /// From now on requests are heard and not answered, until it is resumed.
    pub(crate) fn pause(&self, paused: bool) {
        *self.shared.paused.lock().unwrap() = paused;
        self.shared.resumed.notify_all();
    }

    /// Stops listening, and cuts all connections.
    pub(crate) fn kill(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.shared.stop.store(true, Ordering::Release);
        self.pause(false);
        // The thread waits for a connection: it gets one.
        let _ = TcpStream::connect(self.address.resolve().unwrap());
        thread.join().unwrap();
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) {
        let (mut input, mut room) = (Vec::new(), [0; 4096]);
        loop {
            while let Some((request, length)) = decode(&input).unwrap() {
                input.drain(..length);
                let Value::Array(words) = request else { panic!("no request: {request:?}") };
                let words: Vec<String> =
                    words.iter().map(|word| String::from_utf8(word.as_bytes().unwrap().to_vec()).unwrap()).collect();
                self.heard.lock().unwrap().push(words.join(" "));
                self.news.notify_all();
                let paused = self.paused.lock().unwrap();
                drop(self.resumed.wait_while(paused, |paused| *paused).unwrap());
                let deed = (self.behaviour.lock().unwrap())(&words);
                match deed {
                    Deed::Say(text) if stream.write_all(text.as_bytes()).is_ok() => {}
                    Deed::Nothing => {}
                    Deed::Say(_) => return,
                    Deed::HangUp => {
                        let _ = stream.shutdown(Shutdown::Both);
                        return;
                    }
                }
            }
            match stream.read(&mut room) {
                Ok(0) | Err(_) => return,
                Ok(read) => input.extend_from_slice(&room[..read]),
            }
        }
    }
}

/// The answer to CLUSTER SLOTS: ranges, each with its nodes, the leader first.
pub(crate) fn slots(ranges: &[(u16, u16, &[&Address])]) -> String {
    let mut out = format!("*{}\r\n", ranges.len());
    for (first, last, nodes) in ranges {
        out += &format!("*{}\r\n:{first}\r\n:{last}\r\n", 2 + nodes.len());
        for node in *nodes {
            out += &format!("*3\r\n${}\r\n{}\r\n:{}\r\n$2\r\nid\r\n", node.host.len(), node.host, node.port);
        }
    }
    out
}

/// The answer to CLUSTER SHARDS of one shard that has every slot.
pub(crate) fn one_shard(nodes: &[(&Address, &str)]) -> String {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let mut out = format!("*1\r\n*4\r\n{}*2\r\n:0\r\n:16383\r\n{}*{}\r\n", bulk("slots"), bulk("nodes"), nodes.len());
    for (address, role) in nodes {
        out += &format!("*8\r\n{}:{}\r\n", bulk("port"), address.port);
        for (name, value) in [("endpoint", address.host.as_str()), ("role", role), ("health", "online")] {
            out += &(bulk(name) + &bulk(value));
        }
    }
    out
}
