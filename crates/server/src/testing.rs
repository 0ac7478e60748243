//! A node alone, in a folder that goes away: for tests of what its threads do.
#![allow(clippy::unwrap_used)]

use crate::api::Caller;
use crate::mailbox::{Mailbox, WorkerMessage};
use crate::net::Stream;
use crate::node::Server;
use crate::os::Shares;
use crate::shared::NodeShared;
use mio::{Poll, Token, Waker};
use node::Config;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use tempfile::TempDir;

fn config(folder: &TempDir, settings: &[(&str, &str)]) -> Config {
    let dir = folder.path().join("data").display().to_string();
    let fixed = [("dir", &*dir), ("shards", "2"), ("workers", "1"), ("memory", "64M")];
    Config::start(fixed.into_iter().chain(settings.iter().copied())).unwrap()
}

/// A running node without a listener. It leads its shards.
pub(crate) struct TestNode {
    server: Option<Server>,
    folder: TempDir,
}

impl TestNode {
    pub(crate) fn start(settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Some(Server::embedded(config(&folder, settings)).unwrap());
        let node = Self { server, folder };
        // Answered once the shards have elected.
        while !node.call("SET first x").starts_with('+') {
            std::thread::yield_now();
        }
        node
    }

    /// Starts it again: nothing is in memory.
    pub(crate) fn restart(&mut self, settings: &[(&str, &str)]) {
        self.server.take().unwrap().stop();
        self.server = Some(Server::embedded(config(&self.folder, settings)).unwrap());
        while !self.call("SET first x").starts_with('+') {
            std::thread::yield_now();
        }
    }

    pub(crate) fn store(&self) -> &Arc<NodeShared> {
        self.server.as_ref().unwrap().store()
    }

    /// The reply to one command, as it is encoded.
    pub(crate) fn call(&self, line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let reply = Caller::new(self.store().clone()).call(&args);
        String::from_utf8_lossy(&reply).into_owned()
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }
}

/// What the threads of a node share, without the threads of its workers and of its background: the test has the mailbox
/// of the only worker.
pub(crate) struct IdleNode {
    pub(crate) store: Arc<NodeShared>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) poll: Poll,
    _folder: TempDir,
}

impl IdleNode {
    pub(crate) const MAIL: Token = Token(0);

    pub(crate) fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shares = Shares { clients: 10, files: 100 };
        let config = Arc::new(config(&folder, &[]));
        let store = NodeShared::open(config, 1, &shares, 7, (|_, _, _| Vec::new(), |_, _, _| Vec::new())).unwrap();
        let poll = Poll::new().unwrap();
        let mailbox = Mailbox::new(Waker::new(poll.registry(), Self::MAIL).unwrap());
        assert!(store.mailboxes.set(vec![mailbox.clone()]));
        Self { store, mailbox, poll, _folder: folder }
    }

    /// A connection of a client, as its worker has accepted it, and the client's side.
    pub(crate) fn accept() -> (Stream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        (Stream::plain(stream), socket)
    }

    /// What is in the mailbox.
    pub(crate) fn mail(&self) -> Vec<WorkerMessage> {
        let mut mail = Vec::new();
        self.mailbox.take(&mut mail);
        mail
    }
}

impl Drop for IdleNode {
    fn drop(&mut self) {
        self.store.pool.stop();
        self.store.call_pool.stop();
        self.store.script_pool.stop();
        self.store.log_threads.stop();
    }
}
