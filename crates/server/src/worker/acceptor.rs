//! Accepts connections, one listener after the other, and gives them to the workers in turn.

use crate::mailbox::WorkerMessage;
use crate::net::Stream;
use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use node::session::Keyspace;
use std::collections::VecDeque;
use std::io;

/// Where clients connect.
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    /// Whose keys their requests name.
    pub(crate) keyspace: Keyspace,
    /// Whether they begin with TLS.
    pub(crate) encrypted: bool,
}

/// A connection, and the worker that it is for.
pub(super) struct Accepted {
    pub(super) worker: usize,
    pub(super) message: WorkerMessage,
}

/// The listeners of a worker.
pub(super) struct Acceptor {
    listeners: Vec<Listener>,
    /// Those that may have connections, in the order in which they have their turns.
    waiting: VecDeque<usize>,
    /// The worker that had the last connection.
    last_worker: usize,
}

impl Acceptor {
    /// Listens for events: their tokens are `first_token` and the following ones.
    pub(super) fn open(
        mut listeners: Vec<Listener>,
        registry: &Registry,
        first_token: usize,
        worker: usize,
    ) -> io::Result<Self> {
        for (at, listener) in listeners.iter_mut().enumerate() {
            registry.register(&mut listener.socket, Token(first_token + at), Interest::READABLE)?;
        }
        Ok(Self { listeners, waiting: VecDeque::new(), last_worker: worker })
    }

    /// A listener may have connections.
    pub(super) fn note(&mut self, listener: usize) {
        if !self.waiting.contains(&listener) {
            self.waiting.push_back(listener);
        }
    }

    /// Whether there may be connections that were not accepted.
    pub(super) fn has_more(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next connection of the listener whose turn it is, or else of those behind it.
    pub(super) fn next(&mut self, workers: usize) -> Option<Accepted> {
        while let Some(&listener) = self.waiting.front() {
            let accepted = self.accept(listener, workers, true);
            if accepted.is_some() {
                return accepted;
            }
            self.waiting.pop_front();
        }
        None
    }

    /// The next listener has its turn first.
    pub(super) fn rotate(&mut self) {
        if let Some(listener) = self.waiting.pop_front() {
            self.waiting.push_back(listener);
        }
    }

    /// Looks at all listeners, of which none has announced anything: connections that could not be accepted for want of
    /// descriptors are not announced again.
    pub(super) fn look_again(&mut self, workers: usize) -> Vec<Accepted> {
        let mut all = Vec::new();
        for listener in 0..self.listeners.len() {
            if let Some(accepted) = self.accept(listener, workers, false) {
                all.push(accepted);
                self.note(listener);
            }
        }
        all
    }

    fn accept(&mut self, listener: usize, workers: usize, announced: bool) -> Option<Accepted> {
        let Listener { socket, keyspace, encrypted } = self.listeners.get(listener)?;
        loop {
            return match socket.accept() {
                Ok((stream, _)) => {
                    self.last_worker = (self.last_worker + 1) % workers;
                    let stream = Stream::plain(stream.into());
                    let message = match encrypted {
                        false => WorkerMessage::Connection(stream, *keyspace),
                        true => WorkerMessage::Handshake(stream, *keyspace),
                    };
                    Some(Accepted { worker: self.last_worker, message })
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    if announced && e.kind() != io::ErrorKind::WouldBlock {
                        log::warn!("cannot accept a connection: {e}");
                    }
                    None
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use mio::Poll;
    use std::net::TcpStream;

    #[test]
    fn listeners_have_turns_and_workers_get_connections_in_turn() {
        let (poll, mut listeners, mut clients) = (Poll::new().unwrap(), Vec::new(), Vec::new());
        for _ in 0..2 {
            let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            (0..3).for_each(|_| clients.push(TcpStream::connect(socket.local_addr().unwrap()).unwrap()));
            socket.set_nonblocking(true).unwrap();
            let socket = TcpListener::from_std(socket);
            listeners.push(Listener { socket, keyspace: Keyspace::Cluster, encrypted: listeners.len() == 1 });
        }
        let mut acceptor = Acceptor::open(listeners, poll.registry(), 1, 0).unwrap();
        assert!(!acceptor.has_more() && acceptor.next(2).is_none(), "nothing is announced");
        [0, 1, 0].into_iter().for_each(|listener| acceptor.note(listener));
        let mut given = Vec::new();
        while let Some(Accepted { worker, message }) = acceptor.next(2) {
            given.push((worker, matches!(message, WorkerMessage::Handshake(..))));
            acceptor.rotate();
        }
        assert_eq!(given, [(1, false), (0, true), (1, false), (0, true), (1, false), (0, true)]);
        assert!(!acceptor.has_more() && acceptor.look_again(2).is_empty());
        let again = TcpStream::connect(acceptor.listeners[1].socket.local_addr().unwrap()).unwrap();
        assert_eq!(acceptor.look_again(2).len(), 1);
        assert!(acceptor.has_more(), "there may be another");
        drop((again, clients));
    }
}
