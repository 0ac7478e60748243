//! Commands that run on another node, because it leads the shard that they are about.

use crate::mailbox::WorkerMessage;
use crate::shared::{NodeShared, PendingCall};
use node::peer_protocol::PeerMessage;
use node::{EncodedCommand, OUTCOME_UNKNOWN};
use resp::table::CommandSpec;
use resp::{Proto, Reply};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::{NodeId, ShardId};

/// How long one node may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long a leader is looked for, if the answer needs it.
pub(crate) const LEADER_WITHIN: Duration = Duration::from_secs(4);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// The reply of a leader, one RESP3 frame; the error is the text of a reply.
pub(crate) type LeaderAnswer = Result<Vec<u8>, String>;

/// Runs a command on the leader of a shard, on whichever node it is; answers its reply, one RESP3 frame. Waits: for
/// threads of the pool.
pub(crate) fn call_leader(store: &Arc<NodeShared>, shard: ShardId, args: &[&[u8]]) -> LeaderAnswer {
    let answer = call_each_leader(store, &[shard], &[args.to_vec()], LEADER_WITHIN).pop();
    answer.unwrap_or_else(|| Err("ERR no leader was asked".to_owned()))
}

/// How long a node may take to make what may be made once only.
const MADE_WITHIN: Duration = Duration::from_secs(10);

/// The same of a command that removes what others may write behind it: a leader that does not answer is not asked again, and what it was
/// asked for may be made later.
pub(crate) fn change_once_by_leader(store: &Arc<NodeShared>, shard: ShardId, args: &[&[u8]]) -> LeaderAnswer {
    let until = Instant::now() + LEADER_WITHIN;
    loop {
        let asked = CallAsked::begin(store, shard, args);
        match asked.end(store, shard, args, Instant::now() + MADE_WITHIN) {
            Ok(answer) => return Ok(answer),
            Err(NoAnswer { silent: Some(node), .. }) => return Err(unknown_at(node)),
            Err(without) if Instant::now() >= until => return Err(without.text),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn unknown_at(node: NodeId) -> String {
    format!("{OUTCOME_UNKNOWN}: node {node} was asked to make it and has not answered")
}

/// The same of a command that changes something: the error tells if it may have been made, since a leader was asked and did not answer.
pub(crate) fn change_by_leader(store: &Arc<NodeShared>, shard: ShardId, args: &[&[u8]]) -> LeaderAnswer {
    let mut silent = None;
    let answer = call_each(store, &[shard], &[args.to_vec()], LEADER_WITHIN, |node| silent = Some(node)).pop();
    let answer = answer.unwrap_or_else(|| Err("ERR no leader was asked".to_owned()));
    match (silent, &answer) {
        // Where the first one has made it after all, the second one finds it made, and says so by an error.
        (Some(node), Err(_)) => Err(unknown_at(node)),
        (Some(node), Ok(frame)) if frame.starts_with(b"-") => Err(unknown_at(node)),
        _ => answer,
    }
}

/// Runs a command on the leaders of several shards, as they are known now, all at the same time; the answers are in the order of
/// the shards. No other leader is looked for, and none is waited for longer than `within`.
pub(crate) fn call_known_leaders(
    store: &Arc<NodeShared>,
    shards: &[ShardId],
    args: &[&[u8]],
    within: Duration,
) -> Vec<LeaderAnswer> {
    let asked: Vec<CallAsked> = shards.iter().map(|shard| CallAsked::begin(store, *shard, args)).collect();
    let until = Instant::now() + within;
    let answers = asked.into_iter().zip(shards).map(|(asked, shard)| asked.end(store, *shard, args, until));
    answers.map(|answer| answer.map_err(|without| without.text)).collect()
}

/// Runs a command of its own on the leader of each shard, all at the same time. A leader that is not known or has changed is
/// looked for during `look_for`; the other shards do not wait for that.
pub(crate) fn call_each_leader(
    store: &Arc<NodeShared>,
    shards: &[ShardId],
    commands: &[Vec<&[u8]>],
    look_for: Duration,
) -> Vec<LeaderAnswer> {
    call_each(store, shards, commands, look_for, |_| {})
}

/// The same; `silent` is told of nodes that were asked and have not answered.
fn call_each(
    store: &Arc<NodeShared>,
    shards: &[ShardId],
    commands: &[Vec<&[u8]>],
    look_for: Duration,
    mut silent: impl FnMut(NodeId),
) -> Vec<LeaderAnswer> {
    let until = Instant::now() + look_for;
    let mut answers: Vec<Option<LeaderAnswer>> = vec![None; shards.len()];
    loop {
        let left = (0..shards.len()).filter(|i| !matches!(answers[*i], Some(Ok(_))));
        let asked: Vec<(usize, CallAsked)> =
            left.map(|i| (i, CallAsked::begin(store, shards[i], &commands[i]))).collect();
        let answer_until = Instant::now() + ANSWER_WITHIN;
        for (i, asked) in asked {
            let answer = asked.end(store, shards[i], &commands[i], answer_until);
            answers[i] = Some(answer.map_err(|without| {
                without.silent.into_iter().for_each(&mut silent);
                without.text
            }));
        }
        if answers.iter().all(|answer| matches!(answer, Some(Ok(_)))) || Instant::now() >= until {
            return answers.into_iter().flatten().collect();
        }
        std::thread::sleep(PAUSE);
    }
}

/// One try to run a command on a shard's leader.
enum CallAsked {
    /// This node leads: it runs the command when the others have been asked.
    Here,
    There(NodeId, PendingCall),
    Nowhere,
}

/// Why there is no answer.
struct NoAnswer {
    text: String,
    /// The node that was asked, and says nothing.
    silent: Option<NodeId>,
}

impl CallAsked {
    fn begin(store: &NodeShared, shard: ShardId, args: &[&[u8]]) -> Self {
        match store.leader_of(shard) {
            Some(node) if node == store.node() => Self::Here,
            Some(node) => Self::There(node, send_call(store, node, shard, args)),
            None => Self::Nowhere,
        }
    }

    /// The reply of the leader. A node that does not lead the shard is an error.
    fn end(self, store: &Arc<NodeShared>, shard: ShardId, args: &[&[u8]], until: Instant) -> Result<Vec<u8>, NoAnswer> {
        let without = |text: &str| NoAnswer { text: format!("CLUSTERDOWN shard {shard} {text}"), silent: None };
        let reply = match self {
            Self::Here => (store.peer_command)(store, shard, args),
            Self::There(node, call) => {
                let silence = || NoAnswer { text: no_answer(node, shard), silent: Some(node) };
                store.calls.wait(&call, until).ok_or_else(silence)?
            }
            Self::Nowhere => return Err(without("has no leader that is known")),
        };
        if is_redirection(&reply) { Err(without("has no leader that stays")) } else { Ok(reply) }
    }
}

fn send_call(store: &NodeShared, node: NodeId, shard: ShardId, args: &[&[u8]]) -> PendingCall {
    let call = store.calls.begin();
    let command = EncodedCommand::new(args).into_bytes();
    store.mailboxes.tell_links_worker(WorkerMessage::Post(node, PeerMessage::Call { id: call.id, shard, command }));
    call
}

/// Runs a command on a node; answers its reply, one RESP3 frame. Waits: for threads that may.
pub(crate) fn call_node(store: &NodeShared, node: NodeId, shard: ShardId, args: &[&[u8]]) -> Result<Vec<u8>, String> {
    let asked = send_call(store, node, shard, args);
    let answer = store.calls.wait(&asked, Instant::now() + ANSWER_WITHIN);
    answer.ok_or_else(|| no_answer(node, shard))
}

fn no_answer(node: NodeId, shard: ShardId) -> String {
    format!("CLUSTERDOWN node {node} does not answer for shard {shard}")
}

/// Runs a command of another node.
pub(crate) fn serve_call(store: &Arc<NodeShared>, from: NodeId, id: u64, shard: ShardId, command: Vec<u8>) {
    let of_job = store.clone();
    let command = EncodedCommand::decode(command);
    let may_wait = command.as_ref().is_ok_and(|command| may_wait(store, shard, command));
    let job = Box::new(move || {
        let reply = match command {
            Ok(command) => (of_job.peer_command)(&of_job, shard, &command.args()),
            Err(detail) => error(detail),
        };
        of_job.mailboxes.tell_links_worker(WorkerMessage::Post(from, PeerMessage::Answer { id, reply }));
    });
    // Not in the pool: its threads may all be waiting for such answers themselves.
    if may_wait { store.call_pool.run_patient(job) } else { store.call_pool.run(job) }
}

/// Whether a command of another node waits for a majority of the shard's replicas: it writes, or this leader is not confirmed.
fn may_wait(store: &NodeShared, shard: ShardId, command: &EncodedCommand) -> bool {
    let is_write = command.spec().is_some_and(CommandSpec::is_write);
    is_write || store.known().handle(shard).is_some_and(|handle| !handle.serving())
}

fn is_redirection(reply: &[u8]) -> bool {
    reply.starts_with(b"-MOVED") || reply.starts_with(b"-CLUSTERDOWN")
}

fn error(text: &str) -> Vec<u8> {
    let mut reply = Reply::new(Proto::Resp3);
    reply.error(&format!("ERR {text}"));
    reply.buf
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::IdleNode;
    use cluster::NodeInfo;
    use vocab::StoreId;

    const THERE: NodeId = NodeId(99);
    const SHARDS: [ShardId; 3] = [ShardId(1), ShardId(2), ShardId(3)];

    /// A node that knows another one as the leader of these shards.
    fn node(led_there: &[ShardId]) -> IdleNode {
        let node = IdleNode::open();
        let other = NodeInfo { id: THERE, ..node.store.node_info() };
        let map = cluster::initial_map(StoreId(1), &[node.store.node_info(), other], 3, 2).unwrap();
        node.store.routing.set_map(Arc::new(map));
        for shard in led_there {
            assert!(node.store.known().place(*shard).unwrap().leader.learn(Some(THERE), 1));
        }
        node
    }

    /// The calls that go out, once there are so many: call, shard, command.
    fn calls(node: &IdleNode, count: usize) -> Vec<(u64, ShardId, String)> {
        let mut calls = Vec::new();
        while calls.len() < count {
            calls.extend(node.mail().into_iter().map(|message| match message {
                WorkerMessage::Post(THERE, PeerMessage::Call { id, shard, command }) => {
                    let command = EncodedCommand::decode(command).unwrap();
                    (id, shard, String::from_utf8_lossy(&command.args().concat()).into_owned())
                }
                _ => panic!("nothing else is sent"),
            }));
            std::thread::yield_now();
        }
        calls
    }

    #[test]
    fn what_waits_for_a_majority_is_known_beforehand() {
        let node = node(&[]);
        for (command, expected) in
            [(&[&b"GET"[..], b"k"][..], false), (&[b"SET", b"k", b"v"], true), (&[b"DEL", b"k"], true)]
        {
            assert_eq!(may_wait(&node.store, SHARDS[0], &EncodedCommand::new(command)), expected, "{command:?}");
        }
    }

    #[test]
    fn all_leaders_are_asked_before_the_first_answers() {
        let node = node(&SHARDS);
        let store = node.store.clone();
        let commands = vec![vec![&b"a"[..]], vec![b"b"], vec![b"c"]];
        let asking = std::thread::spawn(move || call_each_leader(&store, &SHARDS, &commands, LEADER_WITHIN));
        let asked = calls(&node, 3);
        assert_eq!(
            asked.iter().map(|(_, shard, word)| (*shard, &**word)).collect::<Vec<_>>(),
            [(SHARDS[0], "a"), (SHARDS[1], "b"), (SHARDS[2], "c")]
        );
        // In another order; one does not lead any more and is asked again, alone.
        node.store.calls.answered(asked[2].0, b"+C\r\n".to_vec());
        node.store.calls.answered(asked[1].0, b"-MOVED 1 elsewhere:1\r\n".to_vec());
        node.store.calls.answered(asked[0].0, b"+A\r\n".to_vec());
        let again = calls(&node, 1);
        assert_eq!((again[0].1, &*again[0].2), (SHARDS[1], "b"));
        node.store.calls.answered(again[0].0, b"+B\r\n".to_vec());
        let answers = asking.join().unwrap();
        assert_eq!(answers, [b"+A\r\n", b"+B\r\n", b"+C\r\n"].map(|answer| Ok(answer.to_vec())));
    }

    #[test]
    fn a_shard_without_a_leader_is_not_looked_for_where_its_answer_is_not_needed() {
        let node = node(&[SHARDS[0], SHARDS[2]]);
        let store = node.store.clone();
        let commands = vec![vec![&b"a"[..]]; 3];
        let asking = std::thread::spawn(move || call_each_leader(&store, &SHARDS, &commands, Duration::ZERO));
        for (id, ..) in calls(&node, 2) {
            node.store.calls.answered(id, b"+A\r\n".to_vec());
        }
        let answers = asking.join().unwrap();
        assert_eq!(answers[0], Ok(b"+A\r\n".to_vec()));
        assert_eq!(answers[1], Err("CLUSTERDOWN shard 2 has no leader that is known".to_owned()));
        assert_eq!(answers[2], Ok(b"+A\r\n".to_vec()));
    }
}
