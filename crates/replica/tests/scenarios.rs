//! One thing at a time that random faults would seldom show.

#![allow(clippy::unwrap_used)]

mod group;

use group::history::History;
use group::node::{Node, Parcel, SHARD};
use group::{Group, HEALTHY};
use replica::{Entry, Error, LogStore, LogWrite, MemberChange, MemberKind, MemoryLog, Message, MessageType, Replica};
use std::sync::Arc;
use vocab::ReplicaId;

/// A group with a leader, where everyone has `entries` entries; the leader and another one.
fn settled(sync: bool, entries: usize) -> (Group, ReplicaId, ReplicaId) {
    let mut group = Group::new(1, sync, HEALTHY);
    group.quiet = true;
    group.run_until("a leader is elected", |group| group.leader().is_some());
    for _ in 0..entries {
        group.propose().unwrap();
    }
    let leader = group.leader().unwrap();
    run_until_equal(&mut group);
    let other = *group.nodes.keys().find(|id| **id != leader).unwrap();
    (group, leader, other)
}

fn run_until_equal(group: &mut Group) {
    group.run_until("everyone has everything", |group| {
        let last = group.nodes.values().map(|node| node.replica.as_ref().unwrap().status().last).max();
        group.nodes.values().all(|node| Some(node.tree.index) == last && !node.has_writes())
    });
}

fn change(id: u64, kind: MemberKind) -> MemberChange {
    MemberChange { id: ReplicaId(id), kind }
}

#[test]
fn a_lost_tail_comes_back_though_nothing_happens() {
    let (mut group, leader, other) = settled(false, 20);
    let term = group.node(leader.0).replica().term();
    assert!(group.node(other.0).log.unsynced() > 0);
    group.crash(other, 0);
    group.start(other);
    let status = group.node(other.0).replica().status();
    assert!(status.last < 10, "nothing was lost: {status:?}");
    run_until_equal(&mut group);
    assert_eq!((group.leader(), group.node(leader.0).replica().term()), (Some(leader), term));
}

/// After a restart, the end of a log may be what it was before its leader replaced it: only entries say what is committed.
#[test]
fn a_heartbeat_commits_nothing_that_was_not_compared() {
    let voters = [1, 2, 3].map(ReplicaId);
    let (mut node, mut history) = (Node::new(ReplicaId(1), &voters, true), History::new(false));
    node.start(1);
    let of = |kind: MessageType, term: u64, commit: u64| {
        let mut message = Message { to: 1, from: 2, term, commit, ..Message::default() };
        message.set_msg_type(kind);
        message
    };
    let mut append = of(MessageType::MsgAppend, 1, 3);
    append.set_entries((1..=5).map(|index| Entry { index, term: 1, ..Entry::default() }).collect::<Vec<_>>().into());
    node.receive(Parcel { message: append, rows: None }, &mut history);
    node.finish_write(&mut history);
    node.crash(0);
    node.start(1);
    node.receive(Parcel { message: of(MessageType::MsgHeartbeat, 2, 5), rows: None }, &mut history);
    assert!(node.replica().status().committed <= 3);
    while node.has_writes() {
        node.finish_write(&mut history);
    }
    let answer = node.out.pop().unwrap().message;
    assert_eq!((answer.get_msg_type(), answer.reject), (MessageType::MsgHeartbeatResponse, true));
    assert_eq!(answer.reject_hint, 5);
    let mut append = of(MessageType::MsgAppend, 2, 5);
    (append.index, append.log_term) = (5, 1);
    node.receive(Parcel { message: append, rows: None }, &mut history);
    assert_eq!(node.replica().status().committed, 5);
}

#[test]
fn a_restart_breaks_no_promise() {
    let (mut group, leader, other) = settled(true, 3);
    group.crash(other, 0);
    group.start(other);
    let third = (1..=3).find(|id| ![leader.0, other.0].contains(id)).unwrap();
    let mut asks = |context: &'static [u8]| {
        let node = group.node(other.0);
        let status = node.replica().status();
        let mut message = Message { to: other.0, from: third, term: status.term + 1, ..Message::default() };
        (message.index, message.log_term, message.context) = (status.last + 9, status.term, context.into());
        message.set_msg_type(MessageType::MsgRequestPreVote);
        node.receive(Parcel { message, rows: None }, &mut History::new(false));
        let granted = !node.out.is_empty();
        node.out.clear();
        node.replica().tick();
        granted
    };
    // The ticks of an election timeout.
    for _ in 0..16 {
        assert!(!asks(b""), "a vote that a leader was promised not to be given");
    }
    assert!(asks(b""));
}

/// A candidate of a newer term refuses a pre-vote that was asked for before the leader was heard of again, and then asks
/// for votes itself: its word of the term must not undo what the leader's lease rests on.
#[test]
fn word_of_a_newer_term_breaks_no_promise() {
    let (mut group, leader, other) = settled(true, 3);
    let third = (1..=3).find(|id| ![leader.0, other.0].contains(id)).unwrap();
    let status = group.node(other.0).replica().status();
    let of = |kind: MessageType, from: u64, term: u64| {
        let mut message = Message { to: other.0, from, term, ..Message::default() };
        message.set_msg_type(kind);
        message
    };
    let node = group.node(other.0);
    let mut history = History::new(false);
    node.receive(Parcel { message: of(MessageType::MsgHeartbeat, leader.0, status.term), rows: None }, &mut history);
    let mut refused = of(MessageType::MsgRequestPreVoteResponse, third, status.term + 1);
    refused.reject = true;
    node.receive(Parcel { message: refused, rows: None }, &mut history);
    while node.has_writes() {
        node.finish_write(&mut history);
    }
    node.out.clear();
    let mut votes = |context: &'static [u8]| {
        let mut asks = of(MessageType::MsgRequestVote, third, status.term + 1);
        (asks.index, asks.log_term, asks.context) = (status.last + 9, status.term, context.into());
        node.receive(Parcel { message: asks, rows: None }, &mut history);
        while node.has_writes() {
            node.finish_write(&mut history);
        }
        node.replica().tick();
        let granted = node.out.iter().any(|parcel| !parcel.message.reject);
        node.out.clear();
        granted
    };
    // The ticks of an election timeout.
    for _ in 0..16 {
        assert!(!votes(b""), "a vote that a leader was promised not to be given");
    }
    assert!(votes(b""));
}

#[test]
fn a_term_is_on_the_disk_before_it_is_told() {
    let log = Arc::new(MemoryLog::default());
    Replica::bootstrap(&*log, SHARD, ReplicaId(1), &[ReplicaId(1)], &[ReplicaId(2)]).unwrap();
    let state = log.state(SHARD).unwrap().unwrap();
    let mut replica = Replica::open(log.clone(), SHARD, state, 0, None, 1).unwrap();
    replica.campaign().unwrap();
    // It leads at once, as it alone votes; the learner must not hear of the term before a crash can forget it.
    let turns = |replica: &mut Replica| {
        let (mut write, mut number, mut sent) = (LogWrite::default(), 0, 0);
        while let Some(turn) = replica.ready(&mut write).unwrap() {
            number = number.max(turn.number);
            sent += turn.messages.len();
            turn.committed.last().into_iter().for_each(|last| replica.applied(last));
            replica.validate();
        }
        let vital = write.wants_sync();
        log.write(write, vital).unwrap();
        (number, sent, vital)
    };
    let (number, sent, vital) = turns(&mut replica);
    assert!(replica.is_leader() && number > 0);
    assert_eq!((sent, vital), (0, true));
    assert!(!replica.persisted(number).is_empty());
    turns(&mut replica);
    assert!(replica.serves());
    for sync in [false, true] {
        replica.propose(vec![7], sync).unwrap();
        let (number, _, vital) = turns(&mut replica);
        assert_eq!(vital, sync);
        replica.persisted(number);
        turns(&mut replica);
    }
    assert_eq!(replica.status().applied, 3);
}

#[test]
fn who_was_away_is_served_from_the_log_while_it_is_kept() {
    for (kept, snapshots) in [(u64::MAX, false), (0, true)] {
        let (mut group, leader, other) = settled(true, 3);
        group.crash(other, 0);
        for node in group.nodes.values_mut().filter(|node| node.id != other) {
            node.replica().keep_log(kept);
        }
        for _ in 0..50 {
            group.propose().unwrap();
            group.run(5);
        }
        for id in group.nodes.keys().copied().filter(|id| *id != other).collect::<Vec<_>>() {
            group.node(id.0).flush();
        }
        group.run(5);
        let truncated = group.node(leader.0).replica().status().truncated;
        assert_eq!(truncated > 10, snapshots, "truncated up to {truncated}");
        group.start(other);
        run_until_equal(&mut group);
        assert_eq!(group.history.snapshots > 0, snapshots);
    }
}

#[test]
fn rows_are_sent_once_however_much_is_written_meanwhile() {
    let (mut group, leader, other) = settled(true, 3);
    group.crash(other, 0);
    let write = |group: &mut Group| {
        group.propose().unwrap();
        group.run(1);
        for id in group.nodes.keys().copied().filter(|id| *id != other).collect::<Vec<_>>() {
            group.node(id.0).replica().keep_log(100);
            group.node(id.0).flush();
        }
    };
    (0..15).for_each(|_| write(&mut group));
    assert!(group.node(leader.0).replica().status().truncated > 5);
    group.start(other);
    (0..200).for_each(|_| write(&mut group));
    run_until_equal(&mut group);
    // The first may have been sent when its leader did not know yet how much it lacks.
    let sent = group.history.snapshots;
    assert!((1..=2).contains(&sent), "sent {sent} times");
}

#[test]
fn what_is_read_from_the_log_at_a_time_is_bounded_and_all_of_it_comes() {
    const ENTRIES: u64 = 40;
    const BYTES: u64 = 1000;
    let log = Arc::new(MemoryLog::default());
    Replica::bootstrap(&*log, SHARD, ReplicaId(1), &[ReplicaId(1)], &[ReplicaId(2)]).unwrap();
    let state = log.state(SHARD).unwrap().unwrap();
    let mut leader = Replica::open(log.clone(), SHARD, state, 0, None, 1).unwrap();
    let turns = |replica: &mut Replica| {
        let (mut write, mut number, mut sent) = (LogWrite::default(), 0, Vec::new());
        while let Some(turn) = replica.ready(&mut write).unwrap() {
            number = number.max(turn.number);
            sent.extend(turn.messages);
            turn.committed.last().into_iter().for_each(|last| replica.applied(last));
        }
        log.write(write, true).unwrap();
        sent.extend(replica.persisted(number));
        sent
    };
    leader.campaign().unwrap();
    for _ in 0..ENTRIES {
        turns(&mut leader);
        leader.propose(vec![7; BYTES as usize], true).unwrap();
    }
    turns(&mut leader);
    // The learner has the first, and says so late.
    let term = leader.term();
    let has = |index: u64| {
        let mut message = Message { from: 2, to: 1, term, index, ..Message::default() };
        message.set_msg_type(MessageType::MsgAppendResponse);
        message
    };
    leader.step(has(1)).unwrap();
    let (mut had, mut rounds) = (1, 0);
    while had < leader.status().last {
        rounds += 1;
        assert!(rounds <= 2 * ENTRIES, "only {had} entries came");
        if let Some(read) = leader.begin_log_read(3 * BYTES) {
            leader.log_was_read(read.run());
        }
        let messages = turns(&mut leader);
        let entries = messages.iter().flat_map(|message| message.entries.iter());
        let news: Vec<u64> = entries.map(|entry| entry.index).filter(|index| *index > had).collect();
        assert!(news.len() <= 5, "{} entries at once", news.len());
        for index in news {
            assert_eq!(index, had + 1);
            had = index;
        }
        leader.step(has(had)).unwrap();
    }
    assert!(rounds > ENTRIES / 5);
}

#[test]
fn changes_of_members_that_are_refused() {
    let (mut group, leader, other) = settled(true, 3);
    let refused = |group: &mut Group, at: ReplicaId, changes: &[MemberChange]| {
        let outcome = group.node(at.0).replica().propose_members(changes, Vec::new());
        matches!(outcome, Err(Error::Members(_) | Error::NotLeader))
    };
    let others: Vec<_> = (1..=3).filter(|id| *id != leader.0).map(|id| change(id, MemberKind::Remove)).collect();
    let crowd: Vec<_> = (10..60).map(|id| change(id, MemberKind::Learner)).collect();
    assert!(refused(&mut group, other, &[change(4, MemberKind::Learner)]), "not by a follower");
    assert!(refused(&mut group, leader, &[]), "nothing");
    assert!(refused(&mut group, leader, &[change(0, MemberKind::Voter)]), "an id that no replica has");
    assert!(refused(&mut group, leader, &[change(leader.0, MemberKind::Remove)]), "the leader itself");
    assert!(refused(&mut group, leader, &crowd), "too many");
    assert!(!refused(&mut group, leader, &others), "down to one voter");
    assert!(refused(&mut group, leader, &[change(4, MemberKind::Learner)]), "two at a time");
    group.pump(leader);
    group.run_until("it leads alone", |group| group.nodes[&leader].replica.as_ref().unwrap().is_alone());
    group.propose().unwrap();
    group.run(30);
    let status = group.node(leader.0).replica().status();
    assert_eq!((status.voters, status.applied), (1, status.last));
}

/// A leader never removes itself; but who was to be removed may have come to lead before that was committed.
#[test]
fn who_leads_and_is_removed_tells_those_that_stay() {
    let (mut group, leader, other) = settled(true, 5);
    let third = *group.nodes.keys().find(|id| **id != leader && **id != other).unwrap();
    let remove = |group: &mut Group, id: ReplicaId| {
        let changes = [change(id.0, MemberKind::Remove)];
        group.node(leader.0).replica().propose_members(&changes, b"why".to_vec()).unwrap();
    };
    remove(&mut group, third);
    group.pump(leader);
    group.run_until("two are left", |group| {
        [leader, other].iter().all(|id| group.nodes[id].replica.as_ref().unwrap().members().voters.len() == 2)
    });
    // It gets the entry, its leader does not hear of that and gives up, and it leads.
    remove(&mut group, other);
    group.pump(leader);
    let proposed = group.node(leader.0).replica().status().last;
    group
        .run_until("it has the entry", |group| group.nodes[&other].replica.as_ref().unwrap().status().last == proposed);
    group.cut.insert(leader);
    group.run_until("no node leads", |group| !group.nodes[&leader].leads());
    group.cut.remove(&leader);
    group.node(other.0).replica().campaign().unwrap();
    group.pump(other);
    group.run_until("it is removed by itself", |group| {
        let removed = group.nodes[&other].replica.as_ref().unwrap();
        removed.term() > 1 && !removed.members().contains(other)
    });
    // What it says at once is all that it says.
    group.run(5);
    group.cut.extend([other, third]);
    group.run_until("the last one leads alone", |group| group.leader() == Some(leader));
}

#[test]
fn leadership_is_handed_over_and_rest_follows() {
    let (mut group, leader, other) = settled(true, 3);
    assert!(!group.node(other.0).replica().transfer_leader(leader), "only the leader hands over");
    assert!(!group.node(leader.0).replica().transfer_leader(ReplicaId(9)), "there is no such replica");
    assert!(group.node(leader.0).replica().transfer_leader(other));
    let outcome = group.node(leader.0).replica().propose(vec![1], false);
    assert!(matches!(outcome, Err(Error::HandingOver)));
    group.pump(leader);
    group.run_until("the other one leads", |group| group.leader() == Some(other));
    let rests = |group: &Group| group.nodes.values().all(|node| node.replica.as_ref().unwrap().can_hibernate());
    group.run_until("everyone may rest", rests);
    group.propose().unwrap();
    assert!(!rests(&group), "no replica rests while something is under way");
    assert_eq!(group.node(other.0).replica().matched_by(1), (3, 3));
    let last = group.node(other.0).replica().status().last;
    assert_eq!(group.node(other.0).replica().matched_by(last), (0, 3), "not even the leader has written it");
}

#[test]
fn a_log_that_cannot_be_read_ends_the_replica_and_not_the_process() {
    let mut node = Node::new(ReplicaId(1), &[ReplicaId(1)], true);
    let mut history = History::new(true);
    node.start(1);
    node.replica().campaign().unwrap();
    for _ in 0..5 {
        node.pump(&mut history);
        node.finish_write(&mut history);
        drop(node.replica().propose(vec![1], true));
    }
    node.crash(0);
    node.log.corrupt(SHARD, 2);
    node.start(1);
    let log = node.log.clone();
    let replica = node.replica();
    replica.campaign().unwrap();
    let mut write = LogWrite::default();
    let mut outcome = Ok(());
    for _ in 0..4 {
        match replica.ready(&mut write) {
            Ok(Some(turn)) => {
                log.write(std::mem::take(&mut write), true).unwrap();
                replica.persisted(turn.number);
                turn.committed.last().into_iter().for_each(|last| replica.applied(last));
            }
            Ok(None) => break,
            Err(e) => outcome = Err(e),
        }
    }
    assert!(matches!(outcome, Err(Error::Corrupt(_))), "{outcome:?}");
    assert!(matches!(replica.propose(vec![1], true), Err(Error::Corrupt(_))), "for good");
}
