//! Connections to other nodes that requests of this node's clients are sent over.

use crate::links::{Purpose, call};
use crate::mailbox::WorkerMessage;
use crate::net::Stream;
use crate::shared::NodeShared;
use node::session::Keyspace;
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
    let known = store.known();
    let address = known.map.as_ref().and_then(|map| Some(map.nodes.get(&node)?.peer_address.clone()));
    let address = address.ok_or_else(|| format!("CLUSTERDOWN node {node} is not in the map"))?;
    let identity = store.snapshots.get().ok_or("CLUSTERDOWN this node is a store by itself")?.identity();
    let (stream, _) = call(&address, identity, Purpose::Client, Some(node), CALL_WITHIN)?;
    Ok(stream)
}

/// Has a node run a command that names keys as they are stored; answers its reply. Waits: for threads of the pool.
pub(crate) fn ask(store: &NodeShared, node: NodeId, args: &[&[u8]]) -> Result<Vec<u8>, String> {
    let stream = dial(store, node)?;
    let fail = |e: io::Error| format!("CLUSTERDOWN node {node} has broken off: {e}");
    stream.set_timeouts(ANSWER_WITHIN).map_err(fail)?;
    let mut request = Vec::new();
    encode_request(&mut request, args);
    (&stream).write_all(&request).map_err(fail)?;
    let (mut answer, mut frame, mut buffer) = (Vec::new(), FrameState::default(), [0; 4096]);
    while frame_len(&answer, &mut frame).map_err(|e| e.to_string())?.is_none() {
        match (&stream).read(&mut buffer).map_err(fail)? {
            0 => return Err(format!("CLUSTERDOWN node {node} has broken off")),
            n => answer.extend_from_slice(&buffer[..n]),
        }
    }
    Ok(answer)
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
