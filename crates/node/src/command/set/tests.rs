//! Sets against sets of the standard library, small and large.

#![allow(clippy::unwrap_used)]

use crate::command::testspace::{self, TestSpace};
use crate::command::transcript;
use resp::Value;
use std::collections::BTreeSet;
use vocab::Prng;

#[test]
fn transcript() {
    transcript::check("set");
}

fn run(space: &mut TestSpace, args: &[&[u8]]) -> Value {
    let value = testspace::answer(space, args);
    space.validate();
    value
}

fn members(value: &Value) -> Members {
    let Value::Array(members) = value else { panic!("{value:?}") };
    let found: Members = members.iter().map(|member| member.as_bytes().unwrap().to_vec()).collect();
    assert_eq!(found.len(), members.len(), "a member comes once");
    found
}

fn int(value: &Value) -> i64 {
    let Value::Int(n) = value else { panic!("{value:?}") };
    *n
}

type Members = BTreeSet<Vec<u8>>;

const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];

/// A store of three sets, and what they should be.
struct Model {
    space: TestSpace,
    sets: [Members; 3],
    prng: Prng,
    /// Members are numbers below this.
    bound: u64,
}

impl Model {
    fn some(&mut self) -> Vec<Vec<u8>> {
        let count = 1 + self.prng.below(8);
        (0..count).map(|_| format!("member:{}", self.prng.below(self.bound)).into_bytes()).collect()
    }

    fn step(&mut self) {
        let (i, j) = (self.prng.below(3) as usize, self.prng.below(3) as usize);
        let some = self.some();
        let given = |word: &'static [u8], key: &'static [u8]| {
            let mut args: Vec<&[u8]> = vec![word, key];
            args.extend(some.iter().map(|member| &member[..]));
            args
        };
        match self.prng.below(8) {
            0..=2 => {
                let added = some.iter().filter(|member| self.sets[i].insert((*member).clone())).count();
                assert_eq!(int(&run(&mut self.space, &given(b"SADD", KEYS[i]))), added as i64);
            }
            3 => {
                let removed = some.iter().filter(|member| self.sets[i].remove(*member)).count();
                assert_eq!(int(&run(&mut self.space, &given(b"SREM", KEYS[i]))), removed as i64);
            }
            4 => {
                let moved = self.sets[i].contains(&some[0]);
                if moved {
                    self.sets[i].remove(&some[0]);
                    self.sets[j].insert(some[0].clone());
                }
                let answer = run(&mut self.space, &[b"SMOVE", KEYS[i], KEYS[j], &some[0]]);
                assert_eq!(int(&answer), i64::from(moved));
            }
            5 => {
                let count = self.prng.below(20);
                let popped = members(&run(&mut self.space, &[b"SPOP", KEYS[i], count.to_string().as_bytes()]));
                assert_eq!(popped.len() as u64, count.min(self.sets[i].len() as u64));
                assert!(popped.iter().all(|member| self.sets[i].remove(member)), "what is popped was there");
            }
            _ => self.combine(i, j),
        }
    }

    fn combine(&mut self, i: usize, j: usize) {
        let (a, b) = (self.sets[i].clone(), self.sets[j].clone());
        let table: [(&[u8], &[u8], Members); 3] = [
            (b"SINTER", b"SINTERSTORE", a.intersection(&b).cloned().collect()),
            (b"SUNION", b"SUNIONSTORE", a.union(&b).cloned().collect()),
            (b"SDIFF", b"SDIFFSTORE", a.difference(&b).cloned().collect()),
        ];
        for (reads, stores, expected) in table {
            assert_eq!(members(&run(&mut self.space, &[reads, KEYS[i], KEYS[j]])), expected);
            let stored = run(&mut self.space, &[stores, b"d", KEYS[i], KEYS[j]]);
            assert_eq!(int(&stored), expected.len() as i64);
            assert_eq!(members(&run(&mut self.space, &[b"SMEMBERS", b"d"])), expected);
        }
    }

    fn check(&mut self) {
        for (key, set) in KEYS.iter().zip(&self.sets) {
            assert_eq!(int(&run(&mut self.space, &[b"SCARD", key])), set.len() as i64);
            assert_eq!(members(&run(&mut self.space, &[b"SMEMBERS", key])), *set);
            let dumped = run(&mut self.space, &[b"DUMP", key]);
            if let Some(dumped) = dumped.as_bytes() {
                run(&mut self.space, &[b"RESTORE", b"r", b"0", dumped, b"REPLACE"]);
                assert_eq!(members(&run(&mut self.space, &[b"SMEMBERS", b"r"])), *set);
            }
        }
    }
}

#[test]
fn sets_are_what_the_model_is() {
    for (bound, steps) in [(12, 600), (300, 600), (2_000, 600)] {
        let (space, sets) = (TestSpace::new(), Default::default());
        let mut model = Model { space, sets, prng: Prng::new(bound), bound };
        if bound > 1_000 {
            for n in 0..bound / 2 {
                let member = format!("member:{n}").into_bytes();
                run(&mut model.space, &[b"SADD", b"a", &member]);
                model.sets[0].insert(member);
            }
        }
        for step in 0..steps {
            model.step();
            if step % 50 == 0 {
                model.check();
            }
        }
        model.check();
    }
}

#[test]
fn each_member_is_popped_equally_often() {
    let mut counts = [0u32; 10];
    for _ in 0..2_000 {
        let mut space = TestSpace::new();
        let digits: [&[u8]; 10] = [b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"9"];
        space.randomize(u64::from(counts.iter().sum::<u32>()) + 1);
        run(&mut space, &[&[&b"SADD"[..], b"s"], &digits[..]].concat());
        let popped = run(&mut space, &[b"SPOP", b"s"]);
        counts[usize::from(popped.as_bytes().unwrap()[0] - b'0')] += 1;
    }
    let chi: f64 = counts.iter().map(|&n| (f64::from(n) - 200.0).powi(2) / 200.0).sum();
    assert!(chi < 30.0, "{counts:?}");
}
