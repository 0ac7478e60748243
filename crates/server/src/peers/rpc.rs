//! Commands that run on another node, because it leads the shard that they are about.

use crate::embedded::Caller;
use crate::inbox::Message;
use crate::peers::LINKS_WORKER;
use crate::store::Store;
use node::EncodedCommand;
use node::peer::PeerMessage;
use resp::{Proto, Reply};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vocab::{NodeId, ShardId};

/// How long one node may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long a leader is looked for.
const LEADER_WITHIN: Duration = Duration::from_secs(4);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// The calls of this node that wait for their answers. Their number is bounded by the threads of the pool.
#[derive(Default)]
pub(crate) struct Calls {
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, SyncSender<Vec<u8>>>>,
}

impl Calls {
    /// The answer to a call has come.
    pub(crate) fn answered(&self, id: u64, reply: Vec<u8>) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(waiting) = waiting {
            // Whoever asked may have given up.
            let _ = waiting.try_send(reply);
        }
    }
}

/// A call that has set out.
struct Asked {
    id: u64,
    receiver: Receiver<Vec<u8>>,
}

impl Store {
    /// Runs a command on the leader of a shard, wherever that is; answers its reply, one RESP3 frame. Waits: for threads
    /// of the pool.
    pub(crate) fn call_leader(self: &Arc<Self>, shard: ShardId, args: &[&[u8]]) -> Result<Vec<u8>, String> {
        let until = Instant::now() + LEADER_WITHIN;
        loop {
            let leader = self.leader_of(shard);
            let outcome = match leader {
                Some(node) if node == self.node() => Ok(self.run_here(shard, args)),
                Some(node) => self.call(node, shard, args),
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

    /// Who leads a shard, as far as this node knows.
    pub(crate) fn leader_of(&self, shard: ShardId) -> Option<NodeId> {
        self.known().place(shard.0 as usize).and_then(|place| crate::admin::leader(self, place))
    }

    /// Runs a command on the leaders of several shards at once; the answers are in the order of the shards.
    pub(crate) fn call_leaders(self: &Arc<Self>, shards: &[ShardId], args: &[&[u8]]) -> Vec<Result<Vec<u8>, String>> {
        self.call_each_leader(shards, &vec![args.to_vec(); shards.len()])
    }

    /// The same with a command of its own for each.
    pub(crate) fn call_each_leader(
        self: &Arc<Self>,
        shards: &[ShardId],
        commands: &[Vec<&[u8]>],
    ) -> Vec<Result<Vec<u8>, String>> {
        let asked: Vec<_> = shards.iter().zip(commands).map(|(shard, args)| self.ask(*shard, args)).collect();
        let until = Instant::now() + ANSWER_WITHIN;
        let take = |((asked, shard), args): ((Option<Asked>, &ShardId), &Vec<&[u8]>)| {
            let first = asked.and_then(|asked| self.await_answer(&asked, until));
            match first {
                Some(reply) if !is_redirection(&reply) => Ok(reply),
                // The leader was another, or did not answer.
                _ => self.call_leader(*shard, args),
            }
        };
        asked.into_iter().zip(shards).zip(commands).map(take).collect()
    }

    fn ask(&self, shard: ShardId, args: &[&[u8]]) -> Option<Asked> {
        let leader = self.leader_of(shard)?;
        (leader != self.node()).then(|| self.send_call(leader, shard, args))
    }

    fn send_call(&self, node: NodeId, shard: ShardId, args: &[&[u8]]) -> Asked {
        let id = self.calls.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = sync_channel(1);
        self.calls.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        let command = EncodedCommand::new(args).into_bytes();
        if let Some(inbox) = self.inbox(LINKS_WORKER) {
            inbox.send(Message::Post(node, PeerMessage::Call { id, shard, command }));
        }
        Asked { id, receiver }
    }

    fn await_answer(&self, asked: &Asked, until: Instant) -> Option<Vec<u8>> {
        let answer = asked.receiver.recv_timeout(until.saturating_duration_since(Instant::now()));
        self.calls.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&asked.id);
        answer.ok()
    }

    /// Runs a command on a node; answers its reply, one RESP3 frame. Waits: for threads that may.
    pub(crate) fn call(&self, node: NodeId, shard: ShardId, args: &[&[u8]]) -> Result<Vec<u8>, String> {
        let asked = self.send_call(node, shard, args);
        let answer = self.await_answer(&asked, Instant::now() + ANSWER_WITHIN);
        answer.ok_or_else(|| format!("CLUSTERDOWN node {node} does not answer for shard {shard}"))
    }

    /// Runs a command that another node has sent here.
    pub(crate) fn serve_call(self: &Arc<Self>, from: NodeId, id: u64, shard: ShardId, command: Vec<u8>) {
        let store = self.clone();
        // Not in the pool: its threads may all be waiting for such answers themselves.
        self.call_pool.run(Box::new(move || {
            let reply = match EncodedCommand::decode(command) {
                Ok(command) => store.run_here(shard, &command.args()),
                Err(detail) => error(detail),
            };
            if let Some(inbox) = store.inbox(LINKS_WORKER) {
                inbox.send(Message::Post(from, PeerMessage::Answer { id, reply }));
            }
        }));
    }

    /// Runs a command on this node's replica of a shard, if it leads.
    fn run_here(self: &Arc<Self>, shard: ShardId, args: &[&[u8]]) -> Vec<u8> {
        if args.first().is_some_and(|name| name.eq_ignore_ascii_case(b"KV.ADMIN")) {
            return crate::admin::serve(self, shard, args);
        }
        if args.first().is_some_and(|name| name.eq_ignore_ascii_case(b"KV.BACKUP")) {
            return self.backup_call(shard, args);
        }
        Caller::new(self.clone()).call_shard(shard, args)
    }
}

fn is_redirection(reply: &[u8]) -> bool {
    reply.starts_with(b"-MOVED") || reply.starts_with(b"-CLUSTERDOWN")
}

fn error(text: &str) -> Vec<u8> {
    let mut reply = Reply::new(Proto::Resp3);
    reply.error(&format!("ERR {text}"));
    reply.buf
}
