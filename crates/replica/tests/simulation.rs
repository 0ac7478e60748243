//! Groups of replicas under faults: over many seeds, what Raft promises must hold after every step.

#![allow(clippy::unwrap_used)]

mod group;

use group::{Faults, Group};

const ROUGH: Faults =
    Faults { lost: 50, doubled: 50, delay_max: 12, crashes: 40, writes: 300, changes: 60, transfers: 20 };

fn seeds(default: u64) -> std::ops::Range<u64> {
    let from_env = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match from_env("BASALT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..from_env("BASALT_SEEDS").unwrap_or(default),
    }
}

#[test]
fn what_raft_promises_holds() {
    let (mut terms, mut reads, mut snapshots, mut crashed, mut joined) = (0, 0, 0, 0, 0);
    for seed in seeds(150) {
        let outcome = std::panic::catch_unwind(|| {
            let mut group = Group::new(seed, true, ROUGH);
            group.run(3000);
            group.heal();
            group
        });
        let group = outcome.unwrap_or_else(|_| panic!("seed {seed}"));
        terms += group.history.terms_led();
        reads += group.history.reads_answered;
        snapshots += group.history.snapshots;
        crashed += group.history.crashed_installing;
        joined += group.nodes.len() - 3;
    }
    // The test must not come to test nothing.
    println!("{terms} terms, {reads} reads, {snapshots} snapshots, {crashed} crashes amid one, {joined} joined");
    if std::env::var("BASALT_SEED").is_err() {
        assert!(terms > 150 && reads > 1000 && snapshots > 100 && crashed > 0 && joined > 100);
    }
}

#[test]
fn nothing_breaks_when_crashes_take_back_what_was_agreed_on() {
    let mut fell_out = 0;
    for seed in seeds(100) {
        let outcome = std::panic::catch_unwind(|| {
            let mut group = Group::new(seed, false, Faults { changes: 0, ..ROUGH });
            group.run(3000);
            let fell_out = group.nodes.values().filter(|node| node.diverged).count();
            if fell_out < 2 {
                group.heal();
                group.compare();
            }
            fell_out
        });
        fell_out += outcome.unwrap_or_else(|_| panic!("seed {seed}"));
    }
    println!("{fell_out} fell out");
    assert!(fell_out > 0 || std::env::var("BASALT_SEED").is_ok(), "nothing was taken back");
}
