//! Connections to other nodes that requests of this node's clients are sent over.

use crate::links::{Purpose, call};
use crate::mailbox::WorkerMessage;
use crate::net::Stream;
use crate::shared::NodeShared;
use node::OUTCOME_UNKNOWN;
use node::session::{Durability, Keyspace};
use resp::table::{self, CommandSpec};
use resp::{FrameState, encode_request, frame_len};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;
use vocab::NodeId;

/// How long a node may take to answer a call.
const CALL_WITHIN: Duration = Duration::from_secs(1);
/// How long it may take to answer a command.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// Calls a node for a client of a worker. The stream does not block. Waits: for threads of the pool. The error says why the
/// node is not reached.
pub(crate) fn call_for_client(store: &NodeShared, worker: usize, node: NodeId) -> Result<Stream, String> {
    if node == store.node() {
        return connect_to_myself(store, worker).map_err(|e| format!("this node cannot call itself: {e}"));
    }
    let stream = dial(store, node)?;
    stream.set_nonblocking(true).map_err(|e| e.to_string())?;
    Ok(stream)
}

/// A connection to a node, which blocks.
fn dial(store: &NodeShared, node: NodeId) -> Result<Stream, String> {
    if !store.peers.is_up(node) {
        // A call of a host that drops packets would keep a thread for as long as it may take.
        return Err(format!("CLUSTERDOWN there is no link to node {node}"));
    }
    let known = store.known();
    let address = known.map.as_ref().and_then(|map| Some(map.nodes.get(&node)?.peer_address.clone()));
    let address = address.ok_or_else(|| format!("CLUSTERDOWN node {node} is not in the map"))?;
    let identity = store.snapshots.get().ok_or("CLUSTERDOWN this node is a store by itself")?.identity();
    let (stream, _) = call(&address, identity, Purpose::Client, Some(node), CALL_WITHIN)?;
    Ok(stream)
}

/// Has a node run a command that names keys as they are stored; answers its reply. Waits: for threads of the pool.
pub(crate) fn ask(store: &NodeShared, node: NodeId, args: &[&[u8]]) -> Result<Vec<u8>, String> {
    Asked::of(store, node, &[args])?.answer()
}

/// The same of a command that writes, which is promised `durability`.
pub(crate) fn ask_to_write(
    store: &NodeShared,
    node: NodeId,
    durability: Durability,
    args: &[&[u8]],
) -> Result<Vec<u8>, String> {
    let mut asked = Asked::of(store, node, &[&promise(durability), args])?;
    asked.take_promise()?;
    asked.answer()
}

/// The same of commands that are made as one. The answer is that of EXEC, or of the first command that is refused.
pub(crate) fn ask_transaction(
    store: &NodeShared,
    node: NodeId,
    durability: Durability,
    commands: &[&[&[u8]]],
) -> Result<Vec<u8>, String> {
    let promised = promise(durability);
    let (multi, exec): ([&[u8]; 1], [&[u8]; 1]) = ([b"MULTI"], [b"EXEC"]);
    let all = [&[&promised[..], &multi[..]][..], commands, &[&exec[..]]].concat();
    let mut asked = Asked::of(store, node, &all)?;
    asked.take_promise()?;
    let queued = (0..=commands.len()).map(|_| asked.answer()).collect::<Result<Vec<_>, _>>()?;
    let executed = asked.answer()?;
    Ok(queued.into_iter().find(|answer| answer.starts_with(b"-")).unwrap_or(executed))
}

/// What a node is told of the writes behind it on a connection. Its own settings may be others.
fn promise(durability: Durability) -> [&'static [u8]; 3] {
    [b"KV.DURABILITY", durability.sync_word().as_bytes(), durability.acks.word().as_bytes()]
}

/// Commands that a node was sent over a connection of their own.
struct Asked {
    node: NodeId,
    stream: Stream,
    /// What has come, and was not taken.
    input: Vec<u8>,
    /// They change something.
    are_writes: bool,
}

impl Asked {
    fn of(store: &NodeShared, node: NodeId, commands: &[&[&[u8]]]) -> Result<Self, String> {
        let are_writes = commands.iter().any(|args| table::resolve(args).is_ok_and(CommandSpec::is_write));
        let asked = Self { node, stream: dial(store, node)?, input: Vec::new(), are_writes };
        asked.stream.set_timeouts(ANSWER_WITHIN).map_err(|e| asked.broken(&e))?;
        let mut request = Vec::new();
        commands.iter().for_each(|args| encode_request(&mut request, args));
        (&asked.stream).write_all(&request).map_err(|e| asked.broken(&e))?;
        Ok(asked)
    }

    /// Takes the answer to `promise`.
    fn take_promise(&mut self) -> Result<(), String> {
        let answer = self.answer()?;
        match answer.strip_prefix(b"-") {
            None => Ok(()),
            Some(text) => Err(String::from_utf8_lossy(text).trim_end().to_owned()),
        }
    }

    /// The next answer.
    fn answer(&mut self) -> Result<Vec<u8>, String> {
        let (mut frame, mut buffer) = (FrameState::default(), [0; 4096]);
        loop {
            if let Some(length) = frame_len(&self.input, &mut frame).map_err(|e| e.to_string())? {
                let rest = self.input.split_off(length);
                return Ok(std::mem::replace(&mut self.input, rest));
            }
            match (&self.stream).read(&mut buffer).map_err(|e| self.broken(&e))? {
                0 => return Err(self.broken(&io::ErrorKind::UnexpectedEof.into())),
                n => self.input.extend_from_slice(&buffer[..n]),
            }
        }
    }

    fn broken(&self, error: &io::Error) -> String {
        let text = format!("node {} has broken off: {error}", self.node);
        if self.are_writes { format!("{OUTCOME_UNKNOWN}: {text}") } else { format!("CLUSTERDOWN {text}") }
    }
}

/// A connection to the worker itself: this node has come to lead the shard of requests that were sent to another one.
fn connect_to_myself(store: &NodeShared, worker: usize) -> io::Result<Stream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mine = TcpStream::connect(listener.local_addr()?)?;
    let (theirs, from) = listener.accept()?;
    if from != mine.local_addr()? {
        return Err(io::Error::other("another process came first"));
    }
    for stream in [&mine, &theirs] {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
    }
    store.mailboxes.tell(worker, WorkerMessage::Connection(Stream::plain(theirs), Keyspace::Stored));
    Ok(Stream::plain(mine))
}
