#![allow(clippy::unwrap_used)]

use super::LogInspection;
use crate::disk_log::{Log, LogOptions};
use crate::log_store::LogStore;
use crate::log_write::{Install, LogWrite};
use crate::memory_log::MemoryLog;
use crate::{DiskHealth, Entry};
use raft::eraftpb::{ConfState, HardState};
use std::path::Path;
use std::sync::Arc;
use vocab::{Prng, ReplicaId, ShardId};

const SHARDS: u32 = 5;

/// Both readers must come to the same, whatever is in the files.
fn compare(log: &Log, dir: &Path, round: u32) {
    let inspection = LogInspection::open(dir).unwrap();
    let (_, _, damage) = inspection.verify();
    assert!(damage.is_empty(), "round {round}: {damage:?}");
    for shard in (0..SHARDS).map(ShardId) {
        let (expected, found) = (log.state(shard).unwrap(), inspection.state(shard).unwrap());
        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "round {round}: shard {shard}");
        let (first, last) = expected.unwrap().bounds;
        let expected = if first > last { Vec::new() } else { log.fetch(shard, first, last + 1, u64::MAX).unwrap() };
        let found: Vec<Entry> = inspection.entries(shard, 0, u64::MAX).map(Result::unwrap).collect();
        assert!(found == expected, "round {round}: entries {first}..{last} of shard {shard}");
    }
}

/// The log in memory says what the one on disk says.
fn compare_memory(log: &Log, memory: &MemoryLog, round: u64) {
    for shard in (0..SHARDS).map(ShardId) {
        let state = log.state(shard).unwrap();
        assert_eq!(memory.state(shard).unwrap(), state, "round {round}: shard {shard} in memory");
        let (first, last) = state.map_or((1, 0), |state| state.bounds);
        if first <= last {
            let fetch = |log: &dyn LogStore, bytes| log.fetch(shard, first, last + 1, bytes).unwrap();
            assert_eq!(fetch(memory, u64::MAX), fetch(log, u64::MAX));
            assert_eq!(fetch(memory, 0).len(), 1);
        }
    }
}

/// Files so small that old ones are copied out, deleted and used again all the time.
#[test]
fn it_reads_what_the_log_reads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let options = LogOptions { bytes_max: 64 << 10, file_bytes: 16 << 10 };
    let mut prng = Prng::new(1);
    let mut bounds = [(1u64, 0u64); SHARDS as usize];
    let memory = MemoryLog::default();
    for round in 0..40 {
        let log = Log::open(&path, &options, Arc::new(DiskHealth::default())).unwrap();
        let mut write = LogWrite::default();
        for shard in (0..SHARDS).map(ShardId) {
            if log.state(shard).unwrap().is_none() {
                write.install(shard, Install { replica: ReplicaId(1), ..Install::default() });
            }
        }
        log.write(write.clone(), true).unwrap();
        memory.write(write, true).unwrap();
        for _ in 0..40 {
            let mut write = LogWrite::default();
            let shard = prng.below(u64::from(SHARDS)) as u32;
            let (first, last) = &mut bounds[shard as usize];
            // Shard 4 is seldom written to: its entries are what is copied out.
            if shard == 4 && prng.below(10) > 0 {
                continue;
            }
            match prng.below(9) {
                0 => {
                    let members = ConfState { voters: vec![prng.next_u64()], ..ConfState::default() };
                    write.members(ShardId(shard), members, round, true);
                }
                1 => {
                    let state = HardState { term: round, commit: *last, ..HardState::default() };
                    write.hard_state(ShardId(shard), state, true);
                }
                2 if *last > *first + 20 => {
                    *first = *last - prng.below(20);
                    write.truncate(ShardId(shard), *first - 1, round);
                }
                3 if prng.below(4) == 0 => {
                    // A snapshot, ahead of what there is or of a log that went elsewhere.
                    let index = (*first + prng.below(*last + 30 - *first)).max(1);
                    let conf_state = ConfState { voters: vec![7], ..ConfState::default() };
                    let hard_state = HardState { term: round, commit: index, ..HardState::default() };
                    let install = Install { replica: ReplicaId(round), index, term: round, conf_state, hard_state };
                    write.install(ShardId(shard), install);
                    (*first, *last) = (index + 1, index);
                }
                _ => {
                    // At times the end is replaced, as by a new leader.
                    let from = if prng.below(4) == 0 { (*last).max(*first) } else { *last + 1 };
                    let count = 1 + prng.below(6);
                    let data = vec![prng.next_u64() as u8; prng.below(600) as usize];
                    let entry = |index| Entry { index, term: round, data: data.clone().into(), ..Entry::default() };
                    let entries: Vec<Entry> = (from..from + count).map(entry).collect();
                    write.entries(ShardId(shard), entries);
                    *last = from + count - 1;
                }
            }
            log.write(write.clone(), false).unwrap();
            memory.write(write, false).unwrap();
        }
        log.purge().unwrap();
        compare(&log, &path, round as u32);
        compare_memory(&log, &memory, round);
    }
    let names = std::fs::read_dir(&path).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let rewritten = names.filter(|name| name.ends_with(".rewrite")).count();
    let copied = std::fs::read_dir(&path).unwrap().map(|file| file.unwrap()).filter(|file| {
        file.path().extension().is_some_and(|suffix| suffix == "rewrite") && file.metadata().unwrap().len() > 100
    });
    assert!(rewritten > 0 && copied.count() > 0, "nothing was copied out: the test tests nothing");
}
