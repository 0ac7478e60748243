//! The checker itself: it accepts what could have happened, and finds what could not.

use crate::checker::{Action, KEYS, Operation, Outcome, State, check};
use crate::common::Random;

/// `connection begun..ended` and what was done and answered.
fn operation(connection: usize, times: (u64, u64), parts: &[(usize, Action, Outcome)]) -> Operation {
    Operation {
        connection,
        actions: parts.iter().map(|&(key, action, _)| (key, action)).collect(),
        outcomes: Some(parts.iter().map(|&(_, _, outcome)| outcome).collect()),
        begun: times.0,
        ended: times.1,
    }
}

fn set(connection: usize, times: (u64, u64), value: i64) -> Operation {
    operation(connection, times, &[(0, Action::Set(value), Outcome::Done)])
}

fn get(connection: usize, times: (u64, u64), value: Option<i64>) -> Operation {
    operation(connection, times, &[(0, Action::Get, Outcome::Value(value))])
}

fn put_if(connection: usize, times: (u64, u64), value: i64, version: u64, new: Option<u64>) -> Operation {
    operation(connection, times, &[(0, Action::PutIf(value, version), Outcome::Put(new))])
}

/// Connection 0 is cut off while it writes.
fn cut_off(value: i64) -> Operation {
    Operation { outcomes: None, ended: u64::MAX, ..set(0, (1, 1), value) }
}

fn both(connection: usize, times: (u64, u64), a: i64, b: i64) -> Operation {
    let part = |key, value| (key, Action::Get, Outcome::Value(Some(value)));
    operation(connection, times, &[part(0, a), part(1, b)])
}

fn set_both(connection: usize, times: (u64, u64), value: i64) -> Operation {
    let part = |key| (key, Action::Set(value), Outcome::Done);
    operation(connection, times, &[part(0), part(1)])
}

#[test]
fn known_histories_are_judged_right() {
    let versioned = |connection, times, value, version| {
        operation(connection, times, &[(0, Action::GetVersion, Outcome::Versioned(Some((value, version))))])
    };
    let sound: &[(&str, Vec<Operation>)] = &[
        (
            "either value while a write is under way",
            vec![set(0, (1, 9), 1), get(1, (2, 3), None), get(2, (4, 5), Some(1))],
        ),
        (
            "two writes at once, in the other order",
            vec![set(0, (1, 9), 1), set(1, (2, 8), 2), get(2, (10, 11), Some(1))],
        ),
        ("a write in doubt that happened", vec![cut_off(1), get(1, (5, 6), None), get(1, (7, 8), Some(1))]),
        ("a write in doubt that did not", vec![cut_off(1), get(1, (5, 6), None), get(1, (7, 8), None)]),
        (
            "one of two compare-and-sets",
            vec![put_if(0, (1, 2), 1, 0, Some(5)), put_if(1, (3, 6), 2, 5, Some(7)), put_if(2, (3, 6), 3, 5, None)],
        ),
        (
            "a pair read as it was written",
            vec![set_both(0, (1, 2), 1), set_both(0, (3, 9), 2), both(1, (4, 5), 1, 1), both(1, (6, 7), 2, 2)],
        ),
    ];
    for (name, history) in sound {
        check(State::default(), history).unwrap_or_else(|detail| panic!("{name}: {detail}"));
    }
    let broken: &[(&str, Vec<Operation>)] = &[
        ("a lost write", vec![set(0, (1, 2), 1), get(1, (3, 4), None)]),
        ("a stale read", vec![set(0, (1, 2), 1), set(0, (3, 4), 2), get(1, (5, 6), Some(1))]),
        ("a value that goes back", vec![set(0, (1, 9), 1), get(1, (2, 3), Some(1)), get(2, (4, 5), None)]),
        ("a write in doubt that is taken back", vec![cut_off(1), get(1, (5, 6), Some(1)), get(1, (7, 8), None)]),
        (
            "both of two compare-and-sets",
            vec![put_if(0, (1, 2), 1, 0, Some(5)), put_if(1, (3, 6), 2, 5, Some(7)), put_if(2, (3, 6), 3, 5, Some(8))],
        ),
        (
            "a version of two values",
            vec![set(0, (1, 2), 1), versioned(1, (3, 4), 1, 5), set(0, (5, 6), 2), versioned(1, (7, 8), 2, 5)],
        ),
        ("a torn pair", vec![set_both(0, (1, 2), 1), set_both(0, (3, 9), 2), both(1, (4, 5), 1, 2)]),
        ("a read that overtakes a write of its own pipeline", vec![set(0, (1, 9), 1), get(0, (1, 9), None)]),
        (
            "an increment that counts twice",
            vec![set(0, (1, 2), 1), operation(1, (3, 4), &[(0, Action::Increment, Outcome::Number(3))])],
        ),
    ];
    for (name, history) in broken {
        assert!(check(State::default(), history).is_err(), "{name}: not found");
    }
}

/// A store in which each operation happens at a random moment of its time; with a bug, one read in fifty is answered
/// from a copy that is refreshed now and then.
fn simulate(seed: u64, bug: bool) -> (Vec<Operation>, bool) {
    let mut random = Random::new(seed);
    let mut moments: Vec<(u64, u64, u64, usize)> = Vec::new();
    for connection in 0..6 {
        let mut now = 0;
        for _ in 0..60 {
            let begun = now + 1 + random.below(20);
            let at = begun + random.below(30);
            now = at + random.below(30);
            moments.push((at, begun, now, connection));
        }
    }
    moments.sort_unstable();
    let mut cells = [None; KEYS];
    let mut copy = cells;
    let mut stale = false;
    let mut history = Vec::new();
    for (i, (_, begun, ended, connection)) in moments.into_iter().enumerate() {
        let key = random.below(KEYS as u64) as usize;
        let part = match random.below(4) {
            0 => {
                cells[key] = Some(i as i64 * 1_000_000);
                (key, Action::Set(i as i64 * 1_000_000), Outcome::Done)
            }
            1 => {
                cells[key] = Some(cells[key].unwrap_or(0) + 1);
                (key, Action::Increment, Outcome::Number(cells[key].unwrap()))
            }
            _ if bug && random.below(50) == 0 => {
                stale |= copy[key] != cells[key];
                (key, Action::Get, Outcome::Value(copy[key]))
            }
            _ => (key, Action::Get, Outcome::Value(cells[key])),
        };
        if i % 40 == 0 {
            copy = cells;
        }
        history.push(operation(connection, (begun, ended), &[part]));
    }
    history.sort_by_key(|operation| operation.begun);
    (history, stale)
}

#[test]
fn a_bug_in_a_simulated_store_is_found() {
    let (mut stale, mut found) = (0, 0);
    for seed in 0..40 {
        let (history, _) = simulate(seed, false);
        check(State::default(), &history).unwrap_or_else(|detail| panic!("seed {seed}: {detail}"));
        let (history, any) = simulate(seed, true);
        let judged = check(State::default(), &history).is_err();
        assert!(any || !judged, "seed {seed}: found, though nothing was stale");
        stale += u32::from(any);
        found += u32::from(judged);
    }
    // A stale read may by chance look like one that was early.
    assert!(stale > 30 && found * 10 >= stale * 9, "{found} of {stale} found");
}
