//! Lists against deques of the standard library, small and large; and what only large lists promise.
#![allow(clippy::unwrap_used)]

use super::large::Large;
use crate::command::testspace::{TestSpace, answer as run};
use crate::command::transcript;
use crate::{ReadSpace, Type};
use resp::Value;
use std::collections::VecDeque;
use vocab::{Prng, limits};

#[test]
fn transcript() {
    transcript::check("list");
}

fn int(value: &Value) -> i64 {
    let Value::Int(n) = value else { panic!("{value:?}") };
    *n
}

fn strings(value: &Value) -> Vec<Vec<u8>> {
    let Value::Array(elements) = value else { panic!("{value:?}") };
    elements.iter().map(|element| element.as_bytes().unwrap().to_vec()).collect()
}

/// A list's rows are those that can be reached from its record.
fn validate(space: &mut TestSpace, key: &[u8]) {
    space.validate();
    let Some(record) = space.get(key).unwrap() else {
        assert_eq!(space.element_count(key), 0);
        return;
    };
    if record.view().kind.is_large() {
        let reached = Large::of(key, &record).unwrap().rows_reached(space).unwrap();
        assert_eq!(space.element_count(key), reached, "rows of {}", key.escape_ascii());
    }
}

type Elements = VecDeque<Vec<u8>>;

const KEYS: [&[u8]; 2] = [b"a", b"b"];

/// Two lists, and what they should be.
struct Model {
    space: TestSpace,
    lists: [Elements; 2],
    prng: Prng,
    /// Longest element.
    bytes_max: u64,
}

impl Model {
    fn element(&mut self) -> Vec<u8> {
        let length = self.prng.below(self.bytes_max) as usize;
        let n = self.prng.below(40);
        let mut element = format!("{n}:").into_bytes();
        element.resize(element.len().max(length), b'x');
        element
    }

    fn elements(&mut self) -> Vec<Vec<u8>> {
        let count = 1 + self.prng.below(6);
        (0..count).map(|_| self.element()).collect()
    }

    fn index(&mut self, i: usize) -> i64 {
        let length = self.lists[i].len() as i64;
        self.prng.below(2 * length as u64 + 3) as i64 - length - 1
    }

    fn place(&self, i: usize, index: i64) -> Option<usize> {
        let length = self.lists[i].len() as i64;
        let place = if index < 0 { length + index } else { index };
        (0..length).contains(&place).then_some(place as usize)
    }

    /// Some element that is there, mostly.
    fn known(&mut self, i: usize) -> Vec<u8> {
        if self.lists[i].is_empty() {
            return b"none".to_vec();
        }
        let at = self.prng.below(self.lists[i].len() as u64) as usize;
        self.lists[i][at].clone()
    }

    fn push(&mut self, i: usize, word: &'static [u8]) {
        let some = self.elements();
        for element in &some {
            if word == b"LPUSH" {
                self.lists[i].push_front(element.clone())
            } else {
                self.lists[i].push_back(element.clone())
            }
        }
        let mut args: Vec<&[u8]> = vec![word, KEYS[i]];
        args.extend(some.iter().map(Vec::as_slice));
        assert_eq!(int(&run(&mut self.space, &args)), self.lists[i].len() as i64);
    }

    fn pop(&mut self, i: usize, word: &'static [u8]) {
        let count = self.prng.below(8);
        let taken: Vec<Vec<u8>> = (0..count)
            .filter_map(|_| if word == b"LPOP" { self.lists[i].pop_front() } else { self.lists[i].pop_back() })
            .collect();
        let answer = run(&mut self.space, &[word, KEYS[i], count.to_string().as_bytes()]);
        if taken.is_empty() {
            assert!(matches!(answer, Value::Null) || strings(&answer).is_empty());
        } else {
            assert_eq!(strings(&answer), taken);
        }
    }

    fn change(&mut self, i: usize) {
        let (index, element, pivot) = (self.index(i), self.element(), self.known(i));
        let place = self.place(i, index);
        match self.prng.below(4) {
            0 => {
                let answer = run(&mut self.space, &[b"LSET", KEYS[i], index.to_string().as_bytes(), &element]);
                match place {
                    Some(place) => self.lists[i][place] = element,
                    None => assert!(matches!(answer, Value::Error(_)), "{answer:?}"),
                }
            }
            1 => {
                let after = self.prng.below(2) == 1;
                let found = self.lists[i].iter().position(|other| *other == pivot);
                let word: &[u8] = if after { b"AFTER" } else { b"BEFORE" };
                let answer = run(&mut self.space, &[b"LINSERT", KEYS[i], word, &pivot, &element]);
                match found {
                    Some(at) => self.lists[i].insert(at + usize::from(after), element),
                    None => assert!(int(&answer) < 1),
                }
            }
            2 => {
                let count = self.prng.below(5) as i64 - 2;
                let mut places: Vec<usize> =
                    (0..self.lists[i].len()).filter(|at| self.lists[i][*at] == pivot).collect();
                if count < 0 {
                    places.reverse();
                }
                if count != 0 {
                    places.truncate(count.unsigned_abs() as usize);
                }
                let answer = run(&mut self.space, &[b"LREM", KEYS[i], count.to_string().as_bytes(), &pivot]);
                assert_eq!(int(&answer), places.len() as i64);
                places.sort_unstable();
                places.iter().rev().for_each(|at| _ = self.lists[i].remove(*at));
            }
            _ => self.check_search(i, &pivot),
        }
    }

    fn check_search(&mut self, i: usize, pivot: &[u8]) {
        let answer = run(&mut self.space, &[b"LPOS", KEYS[i], pivot, b"COUNT", b"0"]);
        let places: Vec<i64> =
            (0..self.lists[i].len()).filter(|at| self.lists[i][*at] == pivot).map(|at| at as i64).collect();
        let Value::Array(found) = answer else { panic!("{answer:?}") };
        assert_eq!(found.iter().map(int).collect::<Vec<_>>(), places);
        let last = run(&mut self.space, &[b"LPOS", KEYS[i], pivot, b"RANK", b"-1"]);
        assert_eq!(places.last().copied(), if let Value::Int(n) = last { Some(n) } else { None });
    }

    fn trim(&mut self, i: usize) {
        let (start, end) = (self.index(i), self.index(i));
        // Most trims are short.
        let (start, end) = if self.prng.below(4) > 0 {
            (self.prng.below(30) as i64, -1 - self.prng.below(30) as i64)
        } else {
            (start, end)
        };
        run(&mut self.space, &[b"LTRIM", KEYS[i], start.to_string().as_bytes(), end.to_string().as_bytes()]);
        let length = self.lists[i].len() as i64;
        let place = |index: i64| if index < 0 { length + index } else { index };
        let (start, end) = (place(start).max(0), place(end));
        let mut at = 0;
        self.lists[i].retain(|_| {
            at += 1;
            (start..=end).contains(&(at - 1))
        });
    }

    fn move_one(&mut self, i: usize, j: usize) {
        let (from, to): (&[u8], &[u8]) = match self.prng.below(4) {
            0 => (b"LEFT", b"LEFT"),
            1 => (b"LEFT", b"RIGHT"),
            2 => (b"RIGHT", b"LEFT"),
            _ => (b"RIGHT", b"RIGHT"),
        };
        let answer = run(&mut self.space, &[b"LMOVE", KEYS[i], KEYS[j], from, to]);
        let moved = if from == b"LEFT" { self.lists[i].pop_front() } else { self.lists[i].pop_back() };
        assert_eq!(answer.as_bytes(), moved.as_deref());
        if let Some(element) = moved {
            if to == b"LEFT" { self.lists[j].push_front(element) } else { self.lists[j].push_back(element) }
        }
    }

    fn step(&mut self, grow: u64) {
        let (i, j) = (self.prng.below(2) as usize, self.prng.below(2) as usize);
        match self.prng.below(10 + grow) {
            0 | 1 => self.pop(i, b"LPOP"),
            2 | 3 => self.pop(i, b"RPOP"),
            4 | 5 => self.change(i),
            6 => self.move_one(i, j),
            7 if self.prng.below(8) == 0 => self.trim(i),
            n if n % 2 == 0 => self.push(i, b"LPUSH"),
            _ => self.push(i, b"RPUSH"),
        }
        let index = self.index(i);
        let found = run(&mut self.space, &[b"LINDEX", KEYS[i], index.to_string().as_bytes()]);
        assert_eq!(found.as_bytes(), self.place(i, index).map(|at| &self.lists[i][at][..]));
    }

    fn check(&mut self) {
        for (i, key) in KEYS.into_iter().enumerate() {
            validate(&mut self.space, key);
            assert_eq!(int(&run(&mut self.space, &[b"LLEN", key])), self.lists[i].len() as i64);
            let all = strings(&run(&mut self.space, &[b"LRANGE", key, b"0", b"-1"]));
            assert!(self.lists[i].iter().eq(all.iter()));
            let (start, end) = (self.index(i), self.index(i));
            let some = [start, end].map(|n| n.to_string());
            let some = strings(&run(&mut self.space, &[b"LRANGE", key, some[0].as_bytes(), some[1].as_bytes()]));
            let length = self.lists[i].len() as i64;
            let place = |index: i64| if index < 0 { length + index } else { index };
            let (start, end) = (place(start).max(0), place(end).min(length - 1));
            let expected = (start..=end).map(|at| &self.lists[i][at as usize]);
            assert!(expected.eq(some.iter()));
            let dumped = run(&mut self.space, &[b"DUMP", key]);
            if let Some(dumped) = dumped.as_bytes() {
                run(&mut self.space, &[b"RESTORE", b"r", b"0", dumped, b"REPLACE"]);
                assert_eq!(strings(&run(&mut self.space, &[b"LRANGE", b"r", b"0", b"-1"])), all);
                validate(&mut self.space, b"r");
            }
        }
    }
}

#[test]
fn lists_are_what_the_model_is() {
    let table = [(1, 8, 0, 1_500), (2, 8, 4, 3_000), (3, 300, 3, 1_500), (4, 3_000, 3, 800)];
    for (seed, bytes_max, grow, steps) in table {
        let mut model = Model { space: TestSpace::new(), lists: Default::default(), prng: Prng::new(seed), bytes_max };
        let mut large = false;
        for step in 0..steps {
            model.step(grow);
            if step % 50 == 0 {
                model.check();
            }
            large |= model.space.get(b"a").unwrap().is_some_and(|record| record.view().kind.is_large());
        }
        model.check();
        assert_eq!(large, grow > 0 || bytes_max > 100, "seed {seed}");
    }
}

/// A list `q` of so many elements of six digits.
fn queue(count: usize) -> TestSpace {
    let mut space = TestSpace::new();
    let elements: Vec<String> = (0..count).map(|n| format!("{n:06}")).collect();
    for part in elements.chunks(1_000) {
        let mut args: Vec<&[u8]> = vec![b"RPUSH", b"q"];
        args.extend(part.iter().map(String::as_bytes));
        run(&mut space, &args);
    }
    validate(&mut space, b"q");
    space
}

#[test]
fn what_a_command_costs_does_not_grow_with_the_list() {
    let commands: [&[&[u8]]; 8] = [
        &[b"LPUSH", b"q", b"x"],
        &[b"RPOP", b"q"],
        &[b"LINDEX", b"q", b"70000"],
        &[b"LSET", b"q", b"70000", b"y"],
        &[b"LRANGE", b"q", b"70000", b"70009"],
        &[b"LREM", b"q", b"1", b"000009"],
        &[b"LINSERT", b"q", b"BEFORE", b"000100", b"x"],
        &[b"LTRIM", b"q", b"30000", b"-30000"],
    ];
    let mut space = queue(200_000);
    for args in commands {
        (space.reads, space.writes) = (0, 0);
        let answer = run(&mut space, args);
        assert!(!matches!(answer, Value::Error(_)), "{answer:?}");
        let most = if args[0] == b"LTRIM" { (80, 1_500) } else { (12, 8) };
        assert!(space.reads <= most.0, "{}: {} reads", args[0].escape_ascii(), space.reads);
        assert!(space.writes <= most.1, "{}: {} writes", args[0].escape_ascii(), space.writes);
    }
    validate(&mut space, b"q");
}

#[test]
fn a_queue_reads_no_rows_but_whole_leaves() {
    let mut space = queue(10_000);
    (space.reads, space.writes) = (0, 0);
    for n in 0..20_000 {
        run(&mut space, &[b"RPUSH", b"q", format!("{:06}", n + 10_000).as_bytes()]);
        let popped = run(&mut space, &[b"LPOP", b"q"]);
        assert_eq!(popped.as_bytes(), Some(format!("{n:06}").as_bytes()));
    }
    validate(&mut space, b"q");
    // Two records a round, and a leaf in about a hundred.
    assert!(space.reads < 20_000 * 21 / 10, "{} reads", space.reads);
    assert!(space.writes < 20_000 * 22 / 10, "{} writes", space.writes);
}

#[test]
fn what_was_trimmed_off_is_removed_in_passing() {
    let mut space = queue(100_000);
    run(&mut space, &[b"LTRIM", b"q", b"45000", b"54999"]);
    validate(&mut space, b"q");
    assert_eq!(strings(&run(&mut space, &[b"LRANGE", b"q", b"0", b"0"])), [b"045000"]);
    for n in 0..2_000 {
        run(&mut space, &[b"RPUSH", b"q", format!("{n:06}").as_bytes()]);
    }
    validate(&mut space, b"q");
    assert!(space.element_count(b"q") < 150, "{} rows of 12,000 elements", space.element_count(b"q"));
    run(&mut space, &[b"LTRIM", b"q", b"0", b"9"]);
    validate(&mut space, b"q");
    assert_eq!(space.element_count(b"q"), 0, "a few elements are one record again");
}

#[test]
fn a_large_list_is_renamed_copied_and_emptied() {
    let mut space = queue(3_000);
    let all = run(&mut space, &[b"LRANGE", b"q", b"0", b"-1"]);
    run(&mut space, &[b"COPY", b"q", b"c"]);
    run(&mut space, &[b"RENAME", b"q", b"r"]);
    for key in [b"c", b"r"] {
        assert_eq!(run(&mut space, &[b"LRANGE", key, b"0", b"-1"]), all);
        run(&mut space, &[b"EXPIRE", key, b"100"]);
        run(&mut space, &[b"RPUSH", key, b"x"]);
        assert_eq!(int(&run(&mut space, &[b"TTL", key])), 100);
        assert_eq!(space.get(key).unwrap().unwrap().view().kind.ty, Type::List);
        run(&mut space, &[b"LPOP", key, b"2999"]);
        run(&mut space, &[b"LPOP", key]);
        assert_eq!(run(&mut space, &[b"RPOP", key]).as_bytes(), Some(&b"x"[..]));
        assert_eq!(int(&run(&mut space, &[b"EXISTS", key])), 0);
        validate(&mut space, key);
    }
}

#[test]
fn work_within_one_entry_is_bounded() {
    let popped = (limits::POPPED_ELEMENTS_MAX + 1).to_string();
    let mut space = queue(limits::POPPED_ELEMENTS_MAX as usize + 1);
    assert!(matches!(run(&mut space, &[b"LPOP", b"q", popped.as_bytes()]), Value::Error(_)));
    let mut space = queue(limits::SEARCHED_ELEMENTS_MAX as usize + 10);
    for args in [
        &[&b"LREM"[..], b"q", b"1", b"none"][..],
        &[b"LREM", b"q", b"0", b"000001"],
        &[b"LINSERT", b"q", b"AFTER", b"none", b"x"],
    ] {
        let writes = space.writes;
        assert!(matches!(run(&mut space, args), Value::Error(_)), "{}", args[0].escape_ascii());
        assert_eq!(space.writes, writes);
    }
    assert_eq!(int(&run(&mut space, &[b"LREM", b"q", b"-1", b"065000"])), 1);
}
