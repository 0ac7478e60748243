//! A client that waits: for tools and tests.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use resp::{FrameState, Value, decode_with, encode_request};

use tls::ClientSide;

use crate::stream::{self, Stream};
use crate::{Address, Failure, Login, Secure, StoreUrl};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// A request is sent to so many nodes at most before its MOVED is the answer.
const MOVES_MAX: usize = 5;
/// Between two attempts at a request that was refused; it doubles up to the second.
const BACK_OFF: Duration = Duration::from_millis(10);
const BACK_OFF_MAX: Duration = Duration::from_millis(200);
/// Connections that are kept to nodes where it has been.
const KEPT_MAX: usize = 64;

/// One request at a time, to whichever node leads what it is about.
#[derive(Debug)]
pub struct Client {
    store: StoreUrl,
    /// None without TLS.
    side: Option<ClientSide>,
    link: Link,
    /// Connections to other nodes that have been asked.
    kept: Vec<Link>,
    connect: Duration,
    answer: Duration,
}

/// A connection to one node.
#[derive(Debug)]
struct Link {
    address: Address,
    stream: Stream<TcpStream>,
    input: Vec<u8>,
    /// How far the reply that `input` begins with has been looked through.
    frame: FrameState,
    output: Vec<u8>,
}

impl Client {
    /// Connects to the server at `address`.
    ///
    /// # Errors
    /// Nothing listens there, or the name is unknown.
    pub fn connect(address: &Address) -> io::Result<Self> {
        Self::connect_within(address, CONNECT_WITHIN, ANSWER_WITHIN)
    }

    /// The same, with bounds on how long to wait for the connection and for an answer.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_within(address: &Address, connect: Duration, answer: Duration) -> io::Result<Self> {
        Self::open_within(&StoreUrl::from(address.clone()), connect, answer)
    }

    /// Connects to the first of the store's nodes that answers.
    ///
    /// # Errors
    /// None can be reached, or the store does not know who asks.
    pub fn open(store: &StoreUrl) -> io::Result<Self> {
        Self::open_within(store, CONNECT_WITHIN, ANSWER_WITHIN)
    }

    /// The same, with bounds on how long to wait for a connection and for an answer: one request is repeated for no
    /// longer than the second.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub fn open_within(store: &StoreUrl, connect: Duration, answer: Duration) -> io::Result<Self> {
        let side = store.secure.as_ref().map(Secure::load).transpose()?;
        let who = Who { side: side.as_ref(), login: store.login.as_ref() };
        let link = first(&store.seeds, |seed| Link::open(seed, who, connect, answer))?;
        Ok(Self { store: store.clone(), side, link, kept: Vec::new(), connect, answer })
    }

    /// Whether it speaks TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.side.is_some()
    }

    /// Where it is connected to: another node than at first, after a MOVED.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.link.address
    }

    /// Sends a request and waits for its answer, from whichever node a MOVED names. What is refused before anything was
    /// done is asked again for a while.
    ///
    /// # Errors
    /// The connection fails: then the request may have been done. An error reply is an answer.
    pub fn call(&mut self, args: &[&[u8]]) -> io::Result<Value> {
        self.repeat(args, false)
    }

    /// The same for a request that may be done twice: it is asked again of another node when the connection fails.
    ///
    /// # Errors
    /// No node answers.
    pub fn call_repeatable(&mut self, args: &[&[u8]]) -> io::Result<Value> {
        self.repeat(args, true)
    }

    /// The same, made once: a refusal is the answer, from whichever node a MOVED names.
    ///
    /// # Errors
    /// The connection fails: then the request may have been done. An error reply is an answer.
    pub fn call_once(&mut self, args: &[&[u8]]) -> io::Result<Value> {
        for _ in 0..MOVES_MAX {
            let answer = self.call_here(args)?;
            let Value::Error(text) = &answer else { return Ok(answer) };
            match moved(text, &self.link.address) {
                Some(leader) => self.go_to(&leader)?,
                None => return Ok(answer),
            }
        }
        self.call_here(args)
    }

    fn repeat(&mut self, args: &[&[u8]], repeatable: bool) -> io::Result<Value> {
        let end = Instant::now() + self.answer;
        let mut wait = BACK_OFF;
        loop {
            let answer = match self.call_once(args) {
                Err(error) if !repeatable || Instant::now() + wait > end => return Err(error),
                Err(_) => {
                    std::thread::sleep(wait);
                    wait = (wait * 2).min(BACK_OFF_MAX);
                    // When none can be reached either, the next attempt fails as this one has.
                    let _ = self.reconnect();
                    continue;
                }
                Ok(answer) => answer,
            };
            let Value::Error(text) = &answer else { return Ok(answer) };
            if is_refusal(text) && Instant::now() + wait < end {
                std::thread::sleep(wait);
                wait = (wait * 2).min(BACK_OFF_MAX);
            } else {
                return Ok(answer);
            }
        }
    }

    fn who(&self) -> Who<'_> {
        Who { side: self.side.as_ref(), login: self.store.login.as_ref() }
    }

    /// Turns to another node.
    fn go_to(&mut self, node: &Address) -> io::Result<()> {
        let link = match self.kept.iter().position(|link| link.address == *node) {
            Some(kept) => self.kept.swap_remove(kept),
            None => Link::open(node, self.who(), self.connect, self.answer)?,
        };
        let left = std::mem::replace(&mut self.link, link);
        if self.kept.len() == KEPT_MAX {
            self.kept.remove(0);
        }
        self.kept.push(left);
        Ok(())
    }

    /// Connects anew, to any node that is known.
    ///
    /// # Errors
    /// None can be reached.
    pub fn reconnect(&mut self) -> io::Result<()> {
        let known = self.kept.drain(..).map(|link| link.address);
        let mut places: Vec<Address> = known.chain(self.store.seeds.iter().cloned()).collect();
        places.push(self.link.address.clone());
        self.link = first(&places, |place| Link::open(place, self.who(), self.connect, self.answer))?;
        Ok(())
    }

    /// Sends a request and waits for this node's answer, whatever it is.
    ///
    /// # Errors
    /// The connection fails.
    pub fn call_here(&mut self, args: &[&[u8]]) -> io::Result<Value> {
        self.link.call(args)
    }

    /// Sends requests in one write. As many [`Client::receive`] must follow.
    ///
    /// # Errors
    /// The connection fails.
    pub fn send(&mut self, requests: &[&[&[u8]]]) -> io::Result<()> {
        self.link.send(requests)
    }

    /// The next answer.
    ///
    /// # Errors
    /// The connection fails, or what comes is no reply.
    pub fn receive(&mut self) -> io::Result<Value> {
        self.link.receive()
    }
}

/// The first of `places` that `open` succeeds with.
fn first(places: &[Address], open: impl Fn(&Address) -> io::Result<Link>) -> io::Result<Link> {
    let mut failed = io::Error::other("no node is given");
    for place in places {
        match open(place) {
            Ok(link) => return Ok(link),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Where a MOVED points; `asked` has answered it.
fn moved(text: &str, asked: &Address) -> Option<Address> {
    let place = text.strip_prefix("MOVED ")?.split_once(' ')?.1;
    let (host, port) = place.rsplit_once(':')?;
    let host = if host.is_empty() { &asked.host } else { host };
    Some(Address { host: host.to_owned(), port: port.parse().ok()? })
}

/// Whether an error says that nothing was done, and that it may be otherwise soon.
pub(crate) fn is_refusal(text: &str) -> bool {
    matches!(Failure::of_refusal(text.as_bytes()), Some(Failure::Down | Failure::Loading))
}

/// Who asks, and how that is shown.
#[derive(Clone, Copy)]
struct Who<'a> {
    side: Option<&'a ClientSide>,
    login: Option<&'a Login>,
}

impl Link {
    fn open(address: &Address, who: Who<'_>, connect: Duration, answer: Duration) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
        let stream = stream::connect(address, who.side, connect, answer)?;
        let mut link = Self {
            address: address.clone(),
            stream,
            input: Vec::new(),
            frame: FrameState::default(),
            output: Vec::new(),
        };
        if let Some(login) = who.login {
            let request = login.request();
            let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            if let Value::Error(text) = link.call(&args).map_err(named)? {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{address}: {text}")));
            }
        }
        Ok(link)
    }

    fn call(&mut self, args: &[&[u8]]) -> io::Result<Value> {
        self.send(&[args])?;
        self.receive()
    }

    fn send(&mut self, requests: &[&[&[u8]]]) -> io::Result<()> {
        self.output.clear();
        for args in requests {
            encode_request(&mut self.output, args);
        }
        self.stream.write_all(&self.output).map_err(|error| self.told(error))
    }

    /// That nothing came in time is not what the system calls it.
    fn told(&self, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::WouldBlock => {
                let waited = self.stream.socket().read_timeout().ok().flatten().unwrap_or_default();
                let text = format!("{} has not answered within {waited:?}", self.address);
                io::Error::new(io::ErrorKind::TimedOut, text)
            }
            _ => error,
        }
    }

    fn receive(&mut self) -> io::Result<Value> {
        let invalid = |error: resp::ProtocolError| io::Error::new(io::ErrorKind::InvalidData, error);
        let mut room = [0u8; 16 * 1024];
        loop {
            if let Some((value, length)) = decode_with(&self.input, &mut self.frame).map_err(invalid)? {
                self.input.drain(..length);
                return Ok(value);
            }
            match self.stream.read(&mut room).map_err(|error| self.told(error))? {
                0 => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{} hung up", self.address))),
                read => self.input.extend_from_slice(&room[..read]),
            }
        }
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
