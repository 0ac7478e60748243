//! Histories that are sound, and each way in which one can be not.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::chance::Chance;
use crate::history::History;
use Action::{Check, Delete, Get, Put, PutIf};
use Answer::{Done, Refused, Unknown, Unmet};
use Outcome::{Deleted, Read, Written};

fn one(begun: u64, ended: u64, actions: &[(usize, Action)], answer: Answer) -> Operation {
    let ended = if ended == 0 { u64::MAX } else { ended };
    Operation { client: 0, group: 0, actions: actions.to_vec(), begun, ended, answer, weak: false, between_ms: (0, 0) }
}

fn verdict(operations: &[Operation]) -> Result<(), String> {
    check(&operations.iter().collect::<Vec<_>>(), None)
}

#[test]
fn sound_histories_pass() {
    let put = |begun, ended, value, version| one(begun, ended, &[(0, Put(value))], Done(vec![Written(version)]));
    let get = |begun, ended, seen| one(begun, ended, &[(0, Get)], Done(vec![Read(seen)]));
    let cases: Vec<Vec<Operation>> = vec![
        vec![put(1, 2, 7, 5), get(3, 4, Some((7, 5)))],
        // A read beside a write sees either.
        vec![put(1, 2, 7, 5), put(3, 6, 8, 9), get(4, 5, Some((7, 5)))],
        vec![put(1, 2, 7, 5), put(3, 6, 8, 9), get(4, 5, Some((8, 9)))],
        // One without an answer may be done late, or never.
        vec![put(1, 2, 7, 5), one(3, 0, &[(0, Put(8))], Unknown), get(4, 5, Some((7, 5))), get(6, 7, Some((8, 9)))],
        vec![put(1, 2, 7, 5), one(3, 0, &[(0, Put(8))], Unknown), get(4, 5, Some((7, 5)))],
        vec![put(1, 2, 7, 5), one(3, 0, &[(0, Delete)], Unknown), get(4, 5, Some((7, 5))), get(6, 7, None)],
        // An unseen write explains why a condition did not hold.
        vec![put(1, 2, 7, 5), one(3, 0, &[(0, Put(8))], Unknown), one(4, 5, &[(0, PutIf(9, 5))], Unmet(None))],
        vec![put(1, 2, 7, 5), one(3, 4, &[(0, PutIf(9, 0))], Unmet(Some((0, Some((7, 5))))))],
        vec![put(1, 2, 7, 5), one(3, 4, &[(0, Put(8))], Refused), get(5, 6, Some((7, 5)))],
        // All of a request is done at once.
        vec![
            put(1, 2, 7, 5),
            one(3, 6, &[(0, Get), (0, Delete), (1, Put(8))], Done(vec![Read(Some((7, 5))), Deleted(true), Written(6)])),
            one(4, 5, &[(0, Get), (1, Get)], Done(vec![Read(None), Read(Some((8, 6)))])),
        ],
        vec![one(1, 2, &[(0, Check(0)), (1, Put(3))], Done(vec![Outcome::Held, Written(4)]))],
    ];
    for (i, case) in cases.iter().enumerate() {
        assert_eq!(verdict(case), Ok(()), "case {i}");
    }
}

#[test]
fn unsound_histories_are_caught() {
    let put = |begun, ended, value, version| one(begun, ended, &[(0, Put(value))], Done(vec![Written(version)]));
    let get = |begun, ended, seen| one(begun, ended, &[(0, Get)], Done(vec![Read(seen)]));
    let cases: Vec<(&str, Vec<Operation>)> = vec![
        ("a lost write", vec![put(1, 2, 7, 5), get(3, 4, None)]),
        ("a stale read", vec![put(1, 2, 7, 5), put(3, 4, 8, 6), get(5, 6, Some((7, 5)))]),
        (
            "reads that go back",
            vec![put(1, 2, 7, 5), put(3, 9, 8, 6), get(4, 5, Some((8, 6))), get(6, 7, Some((7, 5)))],
        ),
        ("a value from nowhere", vec![get(1, 2, Some((7, 5)))]),
        ("a value before its time", vec![get(1, 2, Some((7, 5))), put(3, 4, 7, 5)]),
        ("a refused write", vec![one(1, 2, &[(0, Put(7))], Refused), get(3, 4, Some((7, 5)))]),
        (
            "a write whose condition did not hold",
            vec![one(1, 2, &[(0, PutIf(7, 3))], Unmet(None)), get(3, 4, Some((7, 5)))],
        ),
        ("two versions", vec![put(1, 2, 7, 5), get(3, 4, Some((7, 6)))]),
        ("versions that go back", vec![put(1, 2, 7, 5), put(3, 4, 8, 4)]),
        ("two of one version win", {
            let cas =
                |begun, value, version| one(begun, begun + 1, &[(0, PutIf(value, 5))], Done(vec![Written(version)]));
            vec![put(1, 2, 7, 5), cas(3, 8, 6), cas(5, 9, 7)]
        }),
        ("no write broke the condition", vec![put(1, 2, 7, 5), one(3, 4, &[(0, PutIf(9, 5))], Unmet(None))]),
        (
            "a removal that did not happen",
            vec![put(1, 2, 7, 5), one(3, 4, &[(0, Delete)], Done(vec![Deleted(true)])), get(5, 6, Some((7, 5)))],
        ),
        (
            "half a request",
            vec![
                one(1, 2, &[(0, Put(7)), (1, Put(8))], Done(vec![Written(5), Written(5)])),
                one(3, 4, &[(0, Get), (1, Get)], Done(vec![Read(Some((7, 5))), Read(None)])),
            ],
        ),
        ("removed by no write", vec![put(1, 2, 7, 5), one(3, 0, &[(1, Delete)], Unknown), get(4, 5, None)]),
    ];
    for (name, case) in &cases {
        assert!(verdict(case).is_err(), "{name}");
    }
}

/// Number, actions, answer once it has taken effect.
type Open = (usize, Vec<(usize, Action)>, Option<Answer>);

/// Clients whose requests take effect at a moment between question and answer; one in ten is never answered.
fn random_history(seed: u64, length: usize) -> (History, BTreeMap<u64, u64>) {
    let mut prng = Prng::new(seed);
    let (mut history, mut log) = (History::default(), BTreeMap::new());
    let mut state: KeyStates = [None; KEYS];
    let (mut version, mut value) = (1, 1);
    let mut open: Vec<Open> = Vec::new();
    while history.operations().len() < length || !open.is_empty() {
        if history.operations().len() < length && open.len() < 8 && prng.happens(400) {
            let key = prng.below(KEYS as u64) as usize;
            value += 1;
            let expected = state[key].map_or(0, |(_, version)| version) * prng.below(2);
            let action = *prng.pick(&[Get, Get, Put(value), PutIf(value, expected), Delete]);
            let mut actions = vec![(key, action)];
            if action == Delete || prng.happens(200) {
                value += 1;
                actions.push(((key + 1) % KEYS, Put(value)));
            }
            open.push((history.begin(0, 0, actions.clone(), false, 0), actions, None));
        } else if !open.is_empty() {
            let at = prng.below(open.len() as u64) as usize;
            if let Some(answer) = open[at].2.take() {
                history.end(open.swap_remove(at).0, answer, 0);
                continue;
            }
            version += 1;
            let (_, actions, answer) = &mut open[at];
            log.extend(actions.iter().filter_map(|(_, action)| Some((action.value()?, version))));
            *answer = Some(execute(&mut state, actions, version));
            if prng.happens(100) {
                history.end(open.swap_remove(at).0, Unknown, 0);
            }
        }
    }
    (history, log)
}

fn execute(state: &mut KeyStates, actions: &[(usize, Action)], version: u64) -> Answer {
    let mut after = *state;
    let mut outcomes = Vec::new();
    for (i, &(key, action)) in actions.iter().enumerate() {
        let cell = after[key];
        let has = cell.map_or(0, |(_, version)| version);
        outcomes.push(match action {
            PutIf(_, expected) if has != expected => return Unmet(Some((i, cell))),
            Check(expected) if has != expected => return Unmet(Some((i, cell))),
            Action::PutFor(..) | Action::Clear => unreachable!("none is drawn here"),
            Get => Read(cell),
            Check(_) => Outcome::Held,
            Delete => Deleted(cell.is_some()),
            Put(_) | PutIf(..) => Written(version),
        });
        match action {
            Put(value) | PutIf(value, _) => after[key] = Some((value, version)),
            Delete => after[key] = None,
            _ => {}
        }
    }
    *state = after;
    Done(outcomes)
}

#[test]
fn long_histories_of_a_sound_store_pass_and_one_wrong_answer_does_not() {
    for seed in 0..20 {
        let (history, log) = random_history(seed, 1500);
        let operations = history.of_group(0);
        assert_eq!(check(&operations, Some(Log { values: &log, clocks: &BTreeMap::new() })), Ok(()), "seed {seed}");
        // The last read of something that was overwritten is moved to the end.
        let reads =
            |operation: &&&Operation| matches!(&operation.answer, Done(all) if matches!(all[..], [Read(Some(_))]));
        let mut late = (**operations.iter().rev().skip(200).find(reads).unwrap()).clone();
        let overwritten = operations.iter().any(|later| {
            later.begun > late.ended
                && matches!((&later.answer, later.actions[0]), (Done(_), (key, Put(_))) if key == late.actions[0].0)
        });
        assert!(overwritten, "seed {seed}");
        (late.begun, late.ended) = (1_000_000, 1_000_001);
        let mut wrong = operations.clone();
        wrong.push(&late);
        assert!(check(&wrong, Some(Log { values: &log, clocks: &BTreeMap::new() })).is_err(), "seed {seed}");
    }
}

#[test]
fn what_expires_is_seen_until_then_and_not_after() {
    let (values, clocks) = (BTreeMap::from([(7, 5), (8, 6)]), BTreeMap::from([(5, 1_000), (6, 1_200)]));
    let put = one(1, 2, &[(0, Action::PutFor(7, 100))], Done(vec![Written(5)]));
    let get =
        |at_ms: (u64, u64), seen| Operation { between_ms: at_ms, ..one(3, 4, &[(0, Get)], Done(vec![Read(seen)])) };
    let there = Some((7, 5));
    let again = |answer| one(3, 4, &[(0, PutIf(8, 0))], answer);
    let cases = [
        (get((1_050, 1_099), there), true),
        (get((1_050, 1_099), None), false),
        (get((1_050, 1_100), there), true),
        (get((1_050, 1_100), None), true),
        (get((1_100, 1_101), there), false),
        (get((1_100, 1_101), None), true),
        (again(Done(vec![Written(6)])), true),
    ];
    let log = Log { values: &values, clocks: &clocks };
    for (i, (then, sound)) in cases.iter().enumerate() {
        assert_eq!(check(&[&put, then], Some(log)).is_ok(), *sound, "case {i}");
    }
    let kept = one(1, 2, &[(0, Put(7))], Done(vec![Written(5)]));
    assert!(check(&[&kept, &again(Done(vec![Written(6)]))], Some(log)).is_err(), "it does not expire");
}

#[test]
fn a_clear_takes_everything_and_may_come_late_or_never() {
    let put = |begun, ended, key, value, version| one(begun, ended, &[(key, Put(value))], Done(vec![Written(version)]));
    let get = |begun, ended, key, seen| one(begun, ended, &[(key, Get)], Done(vec![Read(seen)]));
    let clear = |answer| one(5, 6, &[(0, Action::Clear)], answer);
    let (a, b) = (put(1, 2, 0, 7, 5), put(3, 4, 1, 8, 6));
    let log = BTreeMap::from([(7, 5), (8, 6)]);
    let verdict =
        |operations: &[&Operation]| check(operations, Some(Log { values: &log, clocks: &BTreeMap::new() })).is_ok();
    let done = clear(Done(vec![Outcome::Cleared]));
    assert!(verdict(&[&a, &b, &done, &get(7, 8, 0, None), &get(9, 10, 1, None)]));
    assert!(!verdict(&[&a, &b, &done, &get(7, 8, 0, None), &get(9, 10, 1, Some((8, 6)))]));
    let unknown = Operation { ended: u64::MAX, ..clear(Unknown) };
    assert!(verdict(&[&a, &b, &unknown, &get(7, 8, 0, Some((7, 5))), &get(9, 10, 1, None)]));
    assert!(verdict(&[&a, &b, &unknown, &get(7, 8, 0, Some((7, 5))), &get(9, 10, 1, Some((8, 6)))]));
    assert!(!verdict(&[&a, &b, &unknown, &get(7, 8, 0, None), &get(9, 10, 1, Some((8, 6)))]));
}

#[test]
fn what_was_there_before_a_recovery_is_unknown_and_one_thing() {
    let after = |operations: &[Operation]| check_after(&operations.iter().collect::<Vec<_>>(), None, 10);
    let get = |begun, seen| one(begun, begun + 1, &[(0, Get)], Done(vec![Read(seen)]));
    let delete = || one(1, 2, &[(0, Delete)], Done(vec![Deleted(true)]));
    let put_if = |version| one(1, 2, &[(0, PutIf(9, version))], Done(vec![Written(12)]));
    for sound in [
        vec![get(1, Some((7, 5))), get(3, Some((7, 5)))],
        vec![delete(), get(3, None)],
        vec![put_if(4), get(3, Some((9, 12)))],
        vec![put_if(0), get(3, Some((9, 12)))],
    ] {
        assert_eq!(after(&sound), Ok(()), "{sound:?}");
    }
    for unsound in [
        vec![get(1, Some((7, 5))), get(3, Some((8, 6)))],
        vec![get(1, None), get(3, Some((7, 5)))],
        vec![get(1, Some((7, 12)))],
        vec![delete(), get(3, Some((7, 5)))],
        vec![put_if(4), get(3, Some((7, 4)))],
    ] {
        assert!(after(&unsound).is_err(), "{unsound:?}");
    }
}
