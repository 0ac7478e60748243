//! A byte stream to a node, plain or with TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tls::{ClientSide, Received};

use crate::{Address, StoreUrl};

/// A socket, and TLS over it.
#[derive(Debug)]
pub(crate) struct Stream<S> {
    socket: S,
    tls: Option<Box<tls::Connection>>,
}

impl<S: Read + Write> Stream<S> {
    /// A stream over a socket that is connected, or about to be.
    pub(crate) fn new(socket: S, tls: Option<tls::Connection>) -> Self {
        Self { socket, tls: tls.map(Box::new) }
    }

    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    /// Goes on with the handshake, if there is one, as far as the socket allows. Answers whether it is over.
    pub(crate) fn handshake(&mut self) -> io::Result<bool> {
        match &mut self.tls {
            Some(tls) => tls.handshake(&mut self.socket),
            None => Ok(true),
        }
    }

    /// Reads from a socket that does not block. Answers how many bytes there were, and whether there are no more for now; no
    /// bytes at all: the end.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
        let Some(tls) = &mut self.tls else {
            let read = self.socket.read(buffer)?;
            return Ok((read, read < buffer.len()));
        };
        match tls.receive(&mut self.socket, buffer)? {
            Received::Drained(0) => Err(ErrorKind::WouldBlock.into()),
            Received::Drained(read) => Ok((read, true)),
            Received::More(read) => Ok((read, false)),
            Received::Closed => Ok((0, true)),
        }
    }
}

impl<S: Read + Write> Read for Stream<S> {
    /// A program that is stopped and goes on (Ctrl-Z, `fg`) reads on: the time limit of a socket makes the system say that it was interrupted.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match &mut self.tls {
                Some(tls) => tls.read(&mut self.socket, buffer),
                None => self.socket.read(buffer),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

impl<S: Read + Write> Write for Stream<S> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => tls.send(&mut self.socket, bytes),
            None => self.socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Connects and shakes hands, each within its time. The stream blocks, for `answer` at a time.
pub(crate) fn connect(
    address: &Address,
    side: Option<&ClientSide>,
    connect: Duration,
    answer: Duration,
) -> io::Result<Stream<TcpStream>> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
    let socket = TcpStream::connect_timeout(&address.resolve().map_err(named)?, connect).map_err(named)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(answer))?;
    socket.set_write_timeout(Some(answer))?;
    let tls = side.map(|side| side.connect(&address.host)).transpose();
    let mut stream = Stream::new(socket, tls.map_err(|why| named(io::Error::other(why)))?);
    let told = |error: io::Error| match error.kind() {
        ErrorKind::UnexpectedEof => io::Error::other("TLS: it hangs up; does it speak TLS at this port?"),
        _ => io::Error::new(error.kind(), format!("TLS: {error}")),
    };
    if !stream.handshake().map_err(|error| named(told(error)))? {
        return Err(named(io::Error::new(
            ErrorKind::TimedOut,
            "TLS: no answer in time; does it speak TLS at this port?",
        )));
    }
    Ok(stream)
}

/// A stream that one thread reads and another writes.
#[derive(Clone, Debug)]
pub struct SharedStream {
    stream: Arc<Mutex<Stream<TcpStream>>>,
    /// For how long a read waits.
    patience: Duration,
}

/// For how long a reader keeps the writer out.
const READ_WITHIN: Duration = Duration::from_millis(50);

impl SharedStream {
    /// Connects to the first of the store's seeds. A read waits for `patience`.
    ///
    /// # Errors
    /// It cannot be reached, or is not trusted.
    pub fn open(store: &StoreUrl, within: Duration, patience: Duration) -> io::Result<Self> {
        let seed = store.seeds.first().ok_or_else(|| io::Error::other("no node is given"))?;
        let side = store.secure.as_ref().map(crate::Secure::load).transpose()?;
        let stream = connect(seed, side.as_ref(), within, patience)?;
        stream.socket().set_read_timeout(Some(READ_WITHIN))?;
        Ok(Self { stream: Arc::new(Mutex::new(stream)), patience })
    }
}

impl Read for SharedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let until = Instant::now() + self.patience;
        loop {
            match self.stream.lock().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < until => {}
                read => return read,
            }
        }
    }
}

impl Write for SharedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
