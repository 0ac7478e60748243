//! Messages that no replica would send: whatever they say, the process goes on, and what is committed stays.

#![allow(clippy::unwrap_used)]

mod group;

use group::history::History;
use group::node::{Node, Parcel, SHARD, Tree};
use replica::{ConfState, Entry, EntryType, Error, LogStore, Message, MessageType, SnapshotPoint};
use vocab::fuzz::WorkClock;
use vocab::{Prng, ReplicaId};

const KINDS: [MessageType; 14] = [
    MessageType::MsgAppend,
    MessageType::MsgAppend,
    MessageType::MsgAppend,
    MessageType::MsgAppendResponse,
    MessageType::MsgAppendResponse,
    MessageType::MsgHeartbeat,
    MessageType::MsgHeartbeatResponse,
    MessageType::MsgRequestPreVote,
    MessageType::MsgRequestPreVoteResponse,
    MessageType::MsgRequestVote,
    MessageType::MsgRequestVoteResponse,
    MessageType::MsgTimeoutNow,
    MessageType::MsgSnapshot,
    MessageType::MsgPropose,
];

/// A message with numbers near those of `node`.
fn message(prng: &mut Prng, node: &mut Node) -> Message {
    let status = node.replica().status();
    let near = |prng: &mut Prng, number: u64| (number + prng.below(5)).saturating_sub(2);
    let mut message = Message { to: 1, from: 1 + prng.below(4), ..Message::default() };
    message.set_msg_type(KINDS[prng.below(KINDS.len() as u64) as usize]);
    message.term = near(prng, status.term);
    let place = [status.last, status.committed, status.truncated][prng.below(3) as usize];
    message.index = near(prng, place);
    message.log_term = near(prng, status.term.saturating_sub(1));
    message.commit = near(prng, status.committed);
    message.commit_term = near(prng, status.term);
    message.reject = prng.below(2) == 0;
    message.reject_hint = near(prng, status.last);
    message.request_snapshot = u64::from(prng.below(5) == 0);
    if prng.below(3) == 0 {
        message.context = b"CampaignTransfer".to_vec().into();
    }
    let kind = message.get_msg_type();
    if matches!(kind, MessageType::MsgAppend | MessageType::MsgPropose) {
        let mut at = (message.index, message.log_term);
        let entries = (0..prng.below(4)).map(|_| {
            at = (at.0 + 1, near(prng, at.1 + 2));
            let mut entry =
                Entry { index: at.0, term: at.1, data: vec![prng.next_u64() as u8].into(), ..Entry::default() };
            if prng.below(10) == 0 {
                entry.set_entry_type(EntryType::EntryConfChangeV2);
            }
            entry
        });
        message.set_entries(entries.collect::<Vec<_>>().into());
    }
    if kind == MessageType::MsgSnapshot {
        let mut ids = |count| (0..prng.below(count)).map(|_| prng.below(5)).collect::<Vec<u64>>();
        let (voters, voters_outgoing, learners, learners_next) = (ids(4), ids(2), ids(2), ids(2));
        let auto_leave = prng.below(2) == 0;
        let conf_state =
            ConfState { voters, voters_outgoing, learners, learners_next, auto_leave, ..ConfState::default() };
        let (index, term) = (message.index, message.log_term);
        SnapshotPoint { index, term, conf_state }.put_into(&mut message);
    }
    message
}

fn started(seed: u64) -> Node {
    let voters = [1, 2, 3].map(ReplicaId);
    let mut node = Node::new(ReplicaId(1), &voters, true);
    node.start(seed);
    node
}

/// So many rounds meet everything that is to be met.
const ROUNDS_MAX: u64 = 5_000;

#[test]
fn no_message_ends_the_process() {
    let seconds = std::env::var("BASALT_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(2);
    let clock = WorkClock::new();
    let mut prng = Prng::new(1);
    let (mut led, mut installed, mut diverged, mut committed, mut rounds) = (0, 0, 0, 0, 0);
    let has_met_all = |led: u64, installed: u64, diverged: u64, committed: u64| {
        led > 100 && installed > 10 && diverged > 10 && committed > 100
    };
    // A busy machine gets less far in that time.
    while clock.elapsed() < std::time::Duration::from_secs(seconds)
        || !has_met_all(led, installed, diverged, committed) && rounds < ROUNDS_MAX
    {
        rounds += 1;
        let mut node = started(prng.next_u64());
        let mut history = History::new(false);
        for _ in 0..300 {
            if prng.below(4) == 0 {
                node.replica().tick();
                node.pump(&mut history);
            }
            if prng.below(3) == 0 && node.has_writes() {
                node.finish_write(&mut history);
            }
            if node.leads() && prng.below(4) == 0 {
                drop(node.replica().propose(vec![1], true));
                node.pump(&mut history);
            }
            let message = message(&mut prng, &mut node);
            let point = SnapshotPoint::of(&message);
            let rows = message.has_snapshot().then_some(Tree { index: point.index, term: point.term, hash: 0 });
            let before = node.replica().status();
            match node.offer(Parcel { message, rows }, &mut history) {
                Ok(()) | Err(Error::Malformed(_)) => {}
                Err(Error::Diverged(_)) => {
                    diverged += 1;
                    break;
                }
                Err(e) => panic!("{e}"),
            }
            let after = node.replica().status();
            assert!(after.committed >= before.committed && after.term >= before.term);
            led += u64::from(after.leads);
            installed += u64::from(after.truncated > before.truncated);
        }
        committed += node.log.state(SHARD).unwrap().unwrap().hard_state.commit;
    }
    assert!(has_met_all(led, installed, diverged, committed), "{led} {installed} {diverged} {committed}");
}
