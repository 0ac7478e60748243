//! Commands that run on another node, because it leads the shard that they are about.

use crate::mailbox::WorkerMessage;
use crate::shared::{NodeShared, PendingCall};
use node::EncodedCommand;
use node::peer::PeerMessage;
use resp::{Proto, Reply};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::{NodeId, ShardId};

/// How long one node may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long a leader is looked for.
const LEADER_WITHIN: Duration = Duration::from_secs(4);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// Runs a command on the leader of a shard, wherever that is; answers its reply, one RESP3 frame. Waits: for threads
/// of the pool.
pub(crate) fn call_leader(store: &Arc<NodeShared>, shard: ShardId, args: &[&[u8]]) -> Result<Vec<u8>, String> {
    let until = Instant::now() + LEADER_WITHIN;
    loop {
        let leader = store.leader_of(shard);
        let outcome = match leader {
            Some(node) if node == store.node() => Ok((store.peer_command)(store, shard, args)),
            Some(node) => call_node(store, node, shard, args),
            None => Err(format!("CLUSTERDOWN shard {shard} has no leader that is known")),
        };
        match outcome {
            Ok(reply) if !is_redirection(&reply) => return Ok(reply),
            Ok(_) | Err(_) if Instant::now() < until => std::thread::sleep(PAUSE),
            Ok(_) => return Err(format!("CLUSTERDOWN shard {shard} has no leader that stays")),
            Err(e) => return Err(e),
        }
    }
}

/// Runs a command on the leaders of several shards at once; the answers are in the order of the shards.
pub(crate) fn call_leaders(
    store: &Arc<NodeShared>,
    shards: &[ShardId],
    args: &[&[u8]],
) -> Vec<Result<Vec<u8>, String>> {
    call_each_leader(store, shards, &vec![args.to_vec(); shards.len()])
}

/// The same with a command of its own for each.
pub(crate) fn call_each_leader(
    store: &Arc<NodeShared>,
    shards: &[ShardId],
    commands: &[Vec<&[u8]>],
) -> Vec<Result<Vec<u8>, String>> {
    let asked: Vec<_> = shards.iter().zip(commands).map(|(shard, args)| ask(store, *shard, args)).collect();
    let until = Instant::now() + ANSWER_WITHIN;
    let take = |((asked, shard), args): ((Option<PendingCall>, &ShardId), &Vec<&[u8]>)| {
        let first = asked.and_then(|asked| store.calls.wait(&asked, until));
        match first {
            Some(reply) if !is_redirection(&reply) => Ok(reply),
            // The leader was another, or did not answer.
            _ => call_leader(store, *shard, args),
        }
    };
    asked.into_iter().zip(shards).zip(commands).map(take).collect()
}

fn ask(store: &NodeShared, shard: ShardId, args: &[&[u8]]) -> Option<PendingCall> {
    let leader = store.leader_of(shard)?;
    (leader != store.node()).then(|| send_call(store, leader, shard, args))
}

fn send_call(store: &NodeShared, node: NodeId, shard: ShardId, args: &[&[u8]]) -> PendingCall {
    let call = store.calls.begin();
    let command = EncodedCommand::new(args).into_bytes();
    store.tell_links_worker(WorkerMessage::Post(node, PeerMessage::Call { id: call.id, shard, command }));
    call
}

/// Runs a command on a node; answers its reply, one RESP3 frame. Waits: for threads that may.
pub(crate) fn call_node(store: &NodeShared, node: NodeId, shard: ShardId, args: &[&[u8]]) -> Result<Vec<u8>, String> {
    let asked = send_call(store, node, shard, args);
    let answer = store.calls.wait(&asked, Instant::now() + ANSWER_WITHIN);
    answer.ok_or_else(|| format!("CLUSTERDOWN node {node} does not answer for shard {shard}"))
}

/// Runs a command of another node.
pub(crate) fn serve_call(store: &Arc<NodeShared>, from: NodeId, id: u64, shard: ShardId, command: Vec<u8>) {
    let of_job = store.clone();
    // Not in the pool: its threads may all be waiting for such answers themselves.
    store.call_pool.run(Box::new(move || {
        let reply = match EncodedCommand::decode(command) {
            Ok(command) => (of_job.peer_command)(&of_job, shard, &command.args()),
            Err(detail) => error(detail),
        };
        of_job.tell_links_worker(WorkerMessage::Post(from, PeerMessage::Answer { id, reply }));
    }));
}

fn is_redirection(reply: &[u8]) -> bool {
    reply.starts_with(b"-MOVED") || reply.starts_with(b"-CLUSTERDOWN")
}

fn error(text: &str) -> Vec<u8> {
    let mut reply = Reply::new(Proto::Resp3);
    reply.error(&format!("ERR {text}"));
    reply.buf
}
