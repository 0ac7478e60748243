//! Each invariant, broken.

#![allow(clippy::unwrap_used)]
use super::*;
use replica::{HardState, LogWrite, MemoryLog, Replica};

const SHARD: ShardId = ShardId(1);
const ONE: ReplicaId = ReplicaId(1);
const TWO: ReplicaId = ReplicaId(2);

fn entry(index: u64, term: u64, data: &[u8]) -> Entry {
    Entry { index, term, data: data.to_vec().into(), ..Entry::default() }
}

/// A log that holds those entries, as a group of one wrote them.
fn log_of(count: u64) -> MemoryLog {
    let log = std::sync::Arc::new(MemoryLog::default());
    Replica::bootstrap(&*log, SHARD, ONE, &[ONE], &[]).unwrap();
    let state = log.state(SHARD).unwrap().unwrap();
    let mut replica = Replica::open(log.clone(), SHARD, state, 0, None, 1).unwrap();
    replica.campaign().unwrap();
    while log.state(SHARD).unwrap().unwrap().bounds.1 < count {
        let mut write = LogWrite::default();
        let mut number = 0;
        while let Some(turn) = replica.ready(&mut write).unwrap() {
            number = number.max(turn.number);
            if let Some(last) = turn.committed.last() {
                replica.applied(last);
            }
        }
        log.write(write, true).unwrap();
        replica.persisted(number);
        if replica.is_leader() {
            _ = replica.propose(node::EntryBuilder::new().seal(1), true);
        }
    }
    drop(replica);
    std::sync::Arc::into_inner(log).unwrap()
}

fn status(term: u64, leads: bool, applied: u64, committed: u64, last: u64) -> ReplicaStatus {
    ReplicaStatus { term, leads, applied, committed, last, ..ReplicaStatus::default() }
}

#[test]
fn one_leader_a_term() {
    let (mut group, log) = (Group::default(), MemoryLog::default());
    assert_eq!(group.did(SHARD, ONE, &status(3, true, 0, 0, 0), &log), Ok(()));
    assert_eq!(group.did(SHARD, ONE, &status(3, true, 0, 0, 0), &log), Ok(()));
    assert_eq!(group.did(SHARD, TWO, &status(3, false, 0, 0, 0), &log), Ok(()));
    assert!(group.did(SHARD, TWO, &status(3, true, 0, 0, 0), &log).unwrap_err().contains("two leaders"));
}

#[test]
fn one_vote_a_term() {
    let mut group = Group::default();
    let vote = |term, vote| Op::HardState(HardState { term, vote, ..HardState::default() });
    assert_eq!(group.wrote(ONE, &vote(3, 1)), Ok(()));
    assert_eq!(group.wrote(TWO, &vote(3, 2)), Ok(()));
    assert_eq!(group.wrote(ONE, &vote(4, 2)), Ok(()));
    assert!(group.wrote(ONE, &vote(4, 1)).is_err());
}

#[test]
fn logs_match() {
    let mut group = Group::default();
    assert_eq!(group.wrote(ONE, &Op::Entries(vec![entry(1, 1, b"a"), entry(2, 2, b"b")])), Ok(()));
    assert_eq!(group.wrote(TWO, &Op::Entries(vec![entry(1, 1, b"a")])), Ok(()));
    assert!(group.wrote(TWO, &Op::Entries(vec![entry(2, 2, b"x")])).is_err(), "another entry");
    let before = vec![entry(1, 2, b"c"), entry(2, 2, b"b")];
    assert!(group.wrote(TWO, &Op::Entries(before)).is_err(), "the same entry after another");
}

#[test]
fn committed_entries_stay_and_leaders_have_them() {
    let mut group = Group::default();
    let log = log_of(3);
    assert_eq!(group.did(SHARD, ONE, &status(1, true, 3, 3, 3), &log), Ok(()));
    assert!(group.did(SHARD, TWO, &status(2, true, 0, 0, 2), &log).unwrap_err().contains("lacks"));
    group.committed.insert(3, 9);
    group.began(ONE);
    assert!(group.did(SHARD, ONE, &status(1, true, 3, 3, 3), &log).unwrap_err().contains("was committed of term 9"));
}

#[test]
fn applied_is_behind_committed_and_neither_goes_back() {
    let (mut group, log) = (Group::default(), MemoryLog::default());
    assert!(group.did(SHARD, ONE, &status(1, false, 3, 2, 3), &log).is_err());
    assert_eq!(group.did(SHARD, ONE, &status(1, false, 2, 3, 3), &log), Ok(()));
    assert!(group.did(SHARD, ONE, &status(1, false, 2, 2, 3), &log).is_err());
    assert!(group.did(SHARD, ONE, &status(1, false, 1, 3, 3), &log).is_err());
    group.began(ONE);
    assert_eq!(group.did(SHARD, ONE, &status(1, false, 1, 1, 3), &log), Ok(()), "after a restart it may");
}

#[test]
fn a_write_is_in_one_entry() {
    let mut group = Group::default();
    assert_eq!(group.note(vec![(7, true), (8, false)], 3), Ok(()));
    assert_eq!(group.note(vec![(7, true)], 4), Ok(()), "sent again");
    assert_eq!(group.values()[&7], 3);
    assert!(group.note(vec![(8, false)], 4).is_err());
}

#[test]
fn a_group_that_is_split_off_has_what_its_parent_had_before() {
    let mut parent = Group::default();
    let log = log_of(5);
    assert_eq!(parent.did(SHARD, ONE, &status(1, true, 3, 3, 5), &log), Ok(()));
    assert_eq!(parent.note(vec![(7, false)], 2), Ok(()));
    assert_eq!(parent.note(vec![(8, false)], 5), Ok(()));
    let mut child = parent.split_off(4, 1);
    assert_eq!(child.values(), &Values::from([(7, 2)]));
    assert_eq!(child.clocks().keys().max(), Some(&3));
    assert!(child.did(SHARD, TWO, &status(2, true, 0, 0, 3), &log).unwrap_err().contains("lacks"));
    assert_eq!(child.did(SHARD, ONE, &status(3, true, 0, 0, 4), &log), Ok(()));
}

#[test]
fn what_a_survivor_lacks_is_lost_and_nothing_else() {
    let (whole, short) = (log_of(5), log_of(3));
    let mut group = Group::default();
    assert_eq!(group.did(SHARD, ONE, &status(1, true, 5, 5, 5), &whole), Ok(()));
    assert_eq!(group.note(vec![(7, false)], 3), Ok(()));
    assert_eq!(group.note(vec![(8, false)], 4), Ok(()));
    let (_, last) = short.state(SHARD).unwrap().unwrap().bounds;
    let mut cautious = group.split_off(9, 1);
    assert_eq!(group.recovered(SHARD, (1, last), &short), last);
    let left: Vec<u64> = [(7, 3), (8, 4)].iter().filter(|(_, index)| *index <= last).map(|(value, _)| *value).collect();
    assert_eq!(group.values().keys().copied().collect::<Vec<_>>(), left);
    assert!(group.committed.keys().all(|index| *index <= last));
    // One whose log is of another term from some entry on.
    cautious.committed.insert(1, 7);
    assert_eq!(cautious.recovered(SHARD, (1, last), &short), 0);
}

#[test]
fn terms_that_a_survivor_had_not_heard_of_are_free() {
    let (mut group, log) = (Group::default(), MemoryLog::default());
    assert_eq!(group.did(SHARD, ONE, &status(2, true, 0, 0, 0), &log), Ok(()));
    assert_eq!(group.recovered(SHARD, (2, 0), &log), 0);
    assert!(group.did(SHARD, TWO, &status(2, true, 0, 0, 0), &log).unwrap_err().contains("two leaders"));
    assert_eq!(group.recovered(SHARD, (1, 0), &log), 0);
    assert_eq!(group.did(SHARD, TWO, &status(2, true, 0, 0, 0), &log), Ok(()));
}
