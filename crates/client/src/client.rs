//! A client that waits: for tools and tests.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use resp::{FrameState, Value, decode_with, encode_request};

use crate::Address;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// A request is sent to so many nodes at most before its MOVED is the answer.
const MOVES_MAX: usize = 5;

/// One connection, one request at a time.
#[derive(Debug)]
pub struct Client {
    address: Address,
    stream: TcpStream,
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
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
        let target = address.resolve().map_err(named)?;
        let stream = TcpStream::connect_timeout(&target, connect).map_err(named)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(answer))?;
        Ok(Self {
            address: address.clone(),
            stream,
            input: Vec::new(),
            frame: FrameState::default(),
            output: Vec::new(),
        })
    }

    /// Where it is connected to: another node than at first, after a MOVED.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Sends a request and waits for its answer, from whichever node a MOVED names.
    ///
    /// # Errors
    /// The connection fails. An error reply is an answer.
    pub fn call(&mut self, args: &[&[u8]]) -> io::Result<Value> {
        let mut answer = self.call_here(args)?;
        for _ in 0..MOVES_MAX {
            let Some(leader) = self.moved(&answer) else { break };
            *self = Self::connect(&leader)?;
            answer = self.call_here(args)?;
        }
        Ok(answer)
    }

    fn moved(&self, answer: &Value) -> Option<Address> {
        let Value::Error(text) = answer else { return None };
        let place = text.strip_prefix("MOVED ")?.split_once(' ')?.1;
        let (host, port) = place.rsplit_once(':')?;
        let host = if host.is_empty() { &self.address.host } else { host };
        Some(Address { host: host.to_owned(), port: port.parse().ok()? })
    }

    /// Sends a request and waits for this node's answer, whatever it is.
    ///
    /// # Errors
    /// The connection fails.
    pub fn call_here(&mut self, args: &[&[u8]]) -> io::Result<Value> {
        self.send(&[args])?;
        self.receive()
    }

    /// Sends requests in one write. As many [`Client::receive`] must follow.
    ///
    /// # Errors
    /// The connection fails.
    pub fn send(&mut self, requests: &[&[&[u8]]]) -> io::Result<()> {
        self.output.clear();
        for args in requests {
            encode_request(&mut self.output, args);
        }
        self.stream.write_all(&self.output)
    }

    /// The next answer.
    ///
    /// # Errors
    /// The connection fails, or what comes is no reply.
    pub fn receive(&mut self) -> io::Result<Value> {
        let invalid = |error: resp::ProtocolError| io::Error::new(io::ErrorKind::InvalidData, error);
        let mut room = [0u8; 16 * 1024];
        loop {
            if let Some((value, length)) = decode_with(&self.input, &mut self.frame).map_err(invalid)? {
                self.input.drain(..length);
                return Ok(value);
            }
            match self.stream.read(&mut room)? {
                0 => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{} hung up", self.address))),
                read => self.input.extend_from_slice(&room[..read]),
            }
        }
    }
}
