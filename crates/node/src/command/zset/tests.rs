//! Sorted sets against ordered lists of the standard library, small and large.
#![allow(clippy::unwrap_used)]

use crate::ReadSpace;
use crate::command::testspace::{TestSpace, answer as run};
use crate::command::transcript;
use resp::{Value, format_double};
use std::collections::BTreeMap;
use vocab::Prng;

#[test]
fn transcript() {
    transcript::check("zset");
}

fn run_words(space: &mut TestSpace, words: &str) -> Value {
    run(space, &words.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

fn strings(value: &Value) -> Vec<String> {
    let Value::Array(items) = value else { panic!("{value:?}") };
    items.iter().map(|item| String::from_utf8(item.as_bytes().unwrap().to_vec()).unwrap()).collect()
}

fn int(value: &Value) -> i64 {
    let Value::Int(n) = value else { panic!("{value:?}") };
    *n
}

/// A sorted set at `z`, and what it should be.
struct Model {
    space: TestSpace,
    scores: BTreeMap<String, f64>,
    prng: Prng,
    /// Members are numbers below this.
    bound: u64,
    /// How long members are at most, about.
    bytes_max: u64,
}

impl Model {
    fn new(bound: u64, bytes_max: u64) -> Self {
        Self { space: TestSpace::new(), scores: BTreeMap::new(), prng: Prng::new(bound), bound, bytes_max }
    }

    fn member(&mut self) -> String {
        let n = self.prng.below(self.bound);
        // The same member has the same length.
        format!("{}m{n}", "x".repeat((n * 7919 % self.bytes_max) as usize))
    }

    fn score(&mut self) -> f64 {
        match self.prng.below(10) {
            0 => 0.0,
            1 => [f64::INFINITY, f64::NEG_INFINITY][self.prng.below(2) as usize],
            2 | 3 => self.prng.below(5) as f64,
            _ => self.prng.below(100_000) as f64 / 8.0 - 5_000.0,
        }
    }

    fn ordered(&self) -> Vec<(f64, String)> {
        let mut all: Vec<(f64, String)> = self.scores.iter().map(|(member, score)| (*score, member.clone())).collect();
        all.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap().then_with(|| a.1.cmp(&b.1)));
        all
    }

    fn step(&mut self, grows: bool) {
        match self.prng.below(12) {
            0..=4 if grows => self.add(),
            0..=2 => self.remove(),
            3 => self.pop(),
            4 => self.remove_range(),
            5 => self.increment(),
            6 => self.add(),
            7 => self.rank(),
            _ => self.range(),
        }
    }

    fn add(&mut self) {
        let count = if self.prng.below(10) == 0 { 40 } else { 1 + self.prng.below(2) };
        let pairs: Vec<(String, String)> = (0..count).map(|_| (format_double(self.score()), self.member())).collect();
        let mut args: Vec<&[u8]> = vec![b"ZADD", b"z"];
        args.extend(pairs.iter().flat_map(|(score, member)| [score.as_bytes(), member.as_bytes()]));
        let before = self.scores.len();
        pairs.iter().for_each(|(score, member)| self.set(member, score.parse().unwrap()));
        assert_eq!(int(&run(&mut self.space, &args)), (self.scores.len() - before) as i64);
    }

    /// A score that equals the one that is there leaves it, with its sign.
    fn set(&mut self, member: &str, score: f64) {
        let current = self.scores.entry(member.to_owned()).or_insert(score);
        if *current != score {
            *current = score;
        }
    }

    fn increment(&mut self) {
        let (member, by) = (self.member(), self.prng.below(9) as f64 / 2.0 - 2.0);
        let score = self.scores.get(&member).copied().unwrap_or(0.0) + by;
        let score = if self.scores.contains_key(&member) { score } else { by };
        self.set(&member, score);
        let answer = run(&mut self.space, &[b"ZINCRBY", b"z", format_double(by).as_bytes(), member.as_bytes()]);
        assert_eq!(answer.as_bytes().unwrap(), format_double(score).as_bytes());
    }

    fn remove(&mut self) {
        let members: Vec<String> = (0..1 + self.prng.below(6)).map(|_| self.member()).collect();
        let mut args: Vec<&[u8]> = vec![b"ZREM", b"z"];
        args.extend(members.iter().map(String::as_bytes));
        let before = self.scores.len();
        self.scores.retain(|member, _| !members.contains(member));
        assert_eq!(int(&run(&mut self.space, &args)), (before - self.scores.len()) as i64);
    }

    fn pop(&mut self) {
        let (word, falls) = if self.prng.below(2) == 0 { ("ZPOPMIN", false) } else { ("ZPOPMAX", true) };
        let count = self.prng.below(40);
        let mut all = self.ordered();
        if falls {
            all.reverse();
        }
        all.truncate(count as usize);
        let answer = run(&mut self.space, &[word.as_bytes(), b"z", count.to_string().as_bytes()]);
        assert_eq!(strings(&answer), flat(&all));
        all.iter().for_each(|(_, member)| _ = self.scores.remove(member));
    }

    fn remove_range(&mut self) {
        let all = self.ordered();
        let (first, count) = (self.prng.below(self.bound) as usize, self.prng.below(30) as usize);
        let gone: Vec<_> = all.iter().skip(first).take(count).collect();
        let last = (first + count) as i64 - 1;
        if count > 0 {
            let words = format!("ZREMRANGEBYRANK z {first} {last}");
            assert_eq!(int(&run_words(&mut self.space, &words)), gone.len() as i64);
            gone.iter().for_each(|(_, member)| _ = self.scores.remove(member));
        }
    }

    fn rank(&mut self) {
        let (member, all) = (self.member(), self.ordered());
        let expected = all.iter().position(|(_, other)| *other == member);
        let found = run(&mut self.space, &[b"ZRANK", b"z", member.as_bytes()]);
        assert_eq!(expected.is_none(), found == Value::Null);
        if let Some(rank) = expected {
            assert_eq!(int(&found), rank as i64);
            let found = run(&mut self.space, &[b"ZREVRANK", b"z", member.as_bytes()]);
            assert_eq!(int(&found), (all.len() - 1 - rank) as i64);
            let score = run(&mut self.space, &[b"ZSCORE", b"z", member.as_bytes()]);
            assert_eq!(score.as_bytes().unwrap(), format_double(all[rank].0).as_bytes());
        }
    }

    fn range(&mut self) {
        let (all, falls) = (self.ordered(), self.prng.below(2) == 0);
        let (a, b) = (self.score(), self.score());
        let (low, high) = (a.min(b), a.max(b));
        let (open_low, open_high) = (self.prng.below(2) == 0, self.prng.below(2) == 0);
        let is_in = |score: f64| {
            (if open_low { score > low } else { score >= low })
                && (if open_high { score < high } else { score <= high })
        };
        let mut within: Vec<(f64, String)> = all.into_iter().filter(|(score, _)| is_in(*score)).collect();
        let bound = |open: bool, score: f64| format!("{}{}", if open { "(" } else { "" }, format_double(score));
        let (first, last) = (bound(open_low, low), bound(open_high, high));
        assert_eq!(int(&run_words(&mut self.space, &format!("ZCOUNT z {first} {last}"))), within.len() as i64);
        let (offset, limit) = (self.prng.below(5) as usize, self.prng.below(60) as usize);
        let words = if falls {
            within.reverse();
            format!("ZRANGE z {last} {first} BYSCORE REV LIMIT {offset} {limit} WITHSCORES")
        } else {
            format!("ZRANGEBYSCORE z {first} {last} WITHSCORES LIMIT {offset} {limit}")
        };
        let within: Vec<_> = within.into_iter().skip(offset).take(limit).collect();
        assert_eq!(strings(&run_words(&mut self.space, &words)), flat(&within));
    }

    fn check(&mut self) {
        self.space.validate();
        let mut all = self.ordered();
        assert_eq!(strings(&run_words(&mut self.space, "ZRANGE z 0 -1 WITHSCORES")), flat(&all));
        let dumped = run_words(&mut self.space, "DUMP z");
        if let Some(dumped) = dumped.as_bytes() {
            run(&mut self.space, &[b"RESTORE", b"r", b"0", dumped, b"REPLACE"]);
            assert_eq!(strings(&run_words(&mut self.space, "ZRANGE r 0 -1 WITHSCORES")), flat(&all));
            run_words(&mut self.space, "COPY z c REPLACE");
            run_words(&mut self.space, "RENAME c r");
            self.space.validate();
        }
        all.reverse();
        assert_eq!(strings(&run_words(&mut self.space, "ZREVRANGE z 0 -1 WITHSCORES")), flat(&all));
        let mut scanned: Vec<String> = Vec::new();
        let mut cursor = String::from("0");
        loop {
            let Value::Array(parts) = run_words(&mut self.space, &format!("ZSCAN z {cursor} COUNT 100")) else {
                panic!("two parts")
            };
            scanned.extend(strings(&parts[1]));
            cursor = String::from_utf8(parts[0].as_bytes().unwrap().to_vec()).unwrap();
            if cursor == "0" {
                break;
            }
        }
        let scanned: BTreeMap<&String, &String> = scanned.chunks(2).map(|pair| (&pair[0], &pair[1])).collect();
        assert_eq!(scanned.len(), self.scores.len());
        assert!(self.scores.iter().all(|(member, score)| *scanned[member] == format_double(*score)));
    }
}

fn flat(all: &[(f64, String)]) -> Vec<String> {
    all.iter().flat_map(|(score, member)| [member.clone(), format_double(*score)]).collect()
}

#[test]
fn sorted_sets_are_what_the_model_is() {
    for (bound, bytes_max, steps) in [(12, 3, 400), (300, 3, 400), (5_000, 3, 1_500), (400, 900, 400)] {
        let mut model = Model::new(bound, bytes_max);
        let mut was_large = false;
        for phase in 0..6 {
            for _ in 0..steps {
                model.step(phase % 2 == 0);
                was_large |= model.space.get(b"z").unwrap().is_some_and(|record| record.view().kind.is_large());
            }
            model.check();
        }
        assert_eq!(was_large, bound > 12);
    }
}

/// A sorted set of `n` members `m0`, `m1` … with their numbers as scores.
fn space_with(n: usize) -> TestSpace {
    let mut space = TestSpace::new();
    for chunk in (0..n).collect::<Vec<_>>().chunks(1000) {
        let words: Vec<String> = chunk.iter().flat_map(|i| [i.to_string(), format!("m{i}")]).collect();
        let mut args: Vec<&[u8]> = vec![b"ZADD", b"z"];
        args.extend(words.iter().map(String::as_bytes));
        run(&mut space, &args);
    }
    space
}

#[test]
fn a_command_costs_the_same_in_a_large_sorted_set() {
    let mut costs = Vec::new();
    for n in [1_000, 40_000] {
        let mut space = space_with(n);
        let middle = n / 2;
        let commands = [
            format!("ZADD z {middle}.5 new"),
            format!("ZINCRBY z 0.25 m{middle}"),
            format!("ZRANK z m{middle}"),
            format!("ZRANGE z {middle} {}", middle + 9),
            format!("ZRANGEBYSCORE z {middle} +inf LIMIT 0 10"),
            format!("ZCOUNT z 5 {middle}"),
            "ZPOPMIN z".to_owned(),
            "ZPOPMAX z".to_owned(),
            format!("ZREM z m{middle}"),
            "ZRANDMEMBER z 3".to_owned(),
        ];
        let mut cost = Vec::new();
        for command in commands {
            (space.reads, space.writes) = (0, 0);
            run_words(&mut space, &command);
            cost.push(space.reads + space.writes);
        }
        costs.push(cost);
    }
    for (small, large) in costs[0].iter().zip(&costs[1]) {
        // A tree of one level more, and of a node that is divided now and then.
        assert!(*large <= small + 16 && *large < 60, "{costs:?}");
    }
}

#[test]
fn a_range_without_an_end_does_not_look_for_it() {
    let mut space = space_with(40_000);
    // The way to a leaf is two levels of two rows. The members that are shown lie in one leaf or two.
    for (words, costly, reads_max) in [
        ("ZCOUNT z -inf +inf", "ZCOUNT z (-inf (+inf", 1),
        ("ZRANGEBYSCORE z -inf 20000 LIMIT 0 10", "ZRANGEBYSCORE z (-inf 20000 LIMIT 0 10", 1 + 5 + 6),
        ("ZRANGE z 20000 +inf BYSCORE LIMIT 0 10", "ZRANGE z 20000 (+inf BYSCORE LIMIT 0 10", 1 + 5 + 2),
        ("ZREVRANGEBYSCORE z +inf -inf LIMIT 3 7", "ZREVRANGEBYSCORE z (+inf (-inf LIMIT 3 7", 1 + 6),
        ("ZREVRANGEBYSCORE z 20010 -inf LIMIT 3 7", "ZREVRANGEBYSCORE z 20010 (-inf LIMIT 3 7", 1 + 5 + 2),
    ] {
        let mut cost = |words: &str| {
            space.reads = 0;
            (run_words(&mut space, words), space.reads)
        };
        let ((found, reads), (same, more)) = (cost(words), cost(costly));
        assert!(found == same && reads <= reads_max && reads < more, "{words}: {reads}, {more}");
    }
}

#[test]
fn a_large_sorted_set_is_trimmed_by_what_is_left() {
    for (words, left) in [("ZREMRANGEBYRANK z 100 -1", 0..100), ("ZREMRANGEBYRANK z 50 19899", 0..150)] {
        let mut space = space_with(20_000);
        (space.reads, space.writes) = (0, 0);
        assert_eq!(int(&run_words(&mut space, words)), 20_000 - left.len() as i64);
        assert!(space.reads + space.writes < 1_000, "{}", space.reads + space.writes);
        space.validate();
        let members = strings(&run_words(&mut space, "ZRANGE z 0 -1"));
        assert_eq!((members.len(), &members[0][..], &members[49][..]), (left.len(), "m0", "m49"));
    }
    let mut space = space_with(20_000);
    assert_eq!(int(&run_words(&mut space, "ZREMRANGEBYSCORE z 5 1004")), 1_000);
    space.validate();
    assert_eq!(strings(&run_words(&mut space, "ZRANGE z 4 5")), ["m4", "m1005"]);
}

#[test]
fn each_member_is_drawn_equally_often() {
    let mut space = space_with(300);
    let mut counts = [0u32; 300];
    for _ in 0..300 {
        for member in strings(&run_words(&mut space, "ZRANDMEMBER z -100")) {
            counts[member[1..].parse::<usize>().unwrap()] += 1;
        }
    }
    let chi: f64 = counts.iter().map(|&n| (f64::from(n) - 100.0).powi(2) / 100.0).sum();
    assert!(chi < 400.0, "{chi}");
    for count in [7, 150, 299, 300, 500] {
        let mut drawn = strings(&run_words(&mut space, &format!("ZRANDMEMBER z {count}")));
        drawn.sort();
        drawn.dedup();
        assert_eq!(drawn.len(), count.min(300));
    }
}

#[test]
fn a_set_that_is_named_very_often_is_read_once() {
    let mut space = TestSpace::new();
    for n in 0..120 {
        run_words(&mut space, &format!("ZADD z {n} member-{n}"));
    }
    let reads = space.reads;
    for (command, factor) in [("ZUNION", 50_000), ("ZINTER", 50_000), ("ZDIFF", 0)] {
        let keys = " z".repeat(50_000);
        let found = strings(&run_words(&mut space, &format!("{command} 50000{keys} WITHSCORES")));
        let expected =
            (0..if factor > 0 { 120 } else { 0 }).flat_map(|n| [format!("member-{n}"), (n * factor).to_string()]);
        assert_eq!(found, expected.collect::<Vec<_>>(), "{command}");
    }
    assert_eq!(space.reads - reads, 3);
}

/// What an entry reads counts: it is what every release has read.
#[test]
fn in_an_entry_a_set_is_read_as_often_as_it_is_named() {
    let mut space = TestSpace::new();
    space.counts_reads = true;
    run_words(&mut space, "ZADD small 1 a 2 b");
    for n in 0..200 {
        run_words(&mut space, &format!("ZADD large {n} member-{n}"));
    }
    for (words, expected) in [
        ("ZUNION 3 small small small", 3),
        // Of each large one the record, and 200 rows in two chunks.
        ("ZUNION 4 large small large large", 4 + 3 * 2),
        // Both members of the small one are not in the first of the others, after which it is not looked further.
        ("ZINTER 3 small large large", 3 + 2),
        ("ZDIFF 4 small large large large", 4 + 2 * 3),
    ] {
        let reads = space.reads;
        run_words(&mut space, words);
        assert_eq!(space.reads - reads, expected, "{words}");
    }
}

/// One set that is small is one row, and much work for a member that is looked for in it again and again.
#[test]
fn what_small_sets_are_asked_for_counts_in_an_entry() {
    for (counts, command, expected) in [
        (true, "ZINTER 3 a b b", 2 * 3 * 2),
        (true, "ZINTERCARD 2 a b", 2 * 3 * 2),
        (true, "ZDIFF 2 a b", 2 * 3 * 2),
        (true, "SINTER x y y", 2 * 3 * 2),
        (true, "SDIFF x y", 2 * 3 * 2),
        (true, "ZUNION 2 a b", 0),
        (false, "ZINTER 2 a b", 0),
    ] {
        let mut space = TestSpace::new();
        run_words(&mut space, "ZADD a 1 m 2 n");
        run_words(&mut space, "ZADD b 1 m 2 n 3 o");
        run_words(&mut space, "SADD x m n");
        run_words(&mut space, "SADD y m n o");
        space.counts_reads = counts;
        let steps = space.steps;
        run_words(&mut space, command);
        assert_eq!(space.steps - steps, expected, "{command}");
    }
}

/// A union of sets, some of which are named several times, is what the scores come to in the order of the sets' sizes.
#[test]
fn scores_are_joined_in_the_order_of_the_sizes() {
    let (mut space, mut prng) = (TestSpace::new(), Prng::new(11));
    let mut sets: Vec<BTreeMap<String, f64>> = Vec::new();
    for (key, bound) in [5_u64, 20, 20, 60, 400, 400].into_iter().enumerate() {
        let mut set = BTreeMap::new();
        for _ in 0..bound {
            let score = match prng.below(20) {
                0 => f64::INFINITY,
                1 => f64::NEG_INFINITY,
                n => (prng.below(1000) as f64 + n as f64) / 7.0,
            };
            let member = format!("m{}", prng.below(bound));
            run(&mut space, &[b"ZADD", key.to_string().as_bytes(), format_double(score).as_bytes(), member.as_bytes()]);
            set.insert(member, score);
        }
        sets.push(set);
    }
    for round in 0..300 {
        let named: Vec<(usize, f64)> = (0..1 + prng.below(8))
            .map(|_| (prng.below(6) as usize, [1.0, 0.1, -3.7, 0.0][prng.below(4) as usize]))
            .collect();
        let (keys, weights): (Vec<String>, Vec<String>) =
            named.iter().map(|(key, weight)| (key.to_string(), weight.to_string())).unzip();
        let how = ["SUM", "MIN", "MAX", "COUNT"][prng.below(4) as usize];
        let mut ordered = named.clone();
        ordered.sort_by_key(|(key, _)| sets[*key].len());
        let number = |score: f64| if score.is_nan() { 0.0 } else { score };
        let join = |a: f64, b: f64| match how {
            "SUM" | "COUNT" => number(a + b),
            "MIN" if b < a => b,
            "MAX" if b > a => b,
            _ => a,
        };
        for command in ["ZUNION", "ZINTER"] {
            let mut all: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
            for (key, weight) in &ordered {
                for (member, score) in &sets[*key] {
                    let raw = if how == "COUNT" { *weight } else { score * weight };
                    let score = if command == "ZUNION" { number(raw) } else { raw };
                    let joined = all.entry(member).or_insert((0, number(raw)));
                    *joined = (joined.0 + 1, if joined.0 == 0 { joined.1 } else { join(joined.1, score) });
                }
            }
            let words = format!(
                "{command} {} {} WEIGHTS {} AGGREGATE {how} WITHSCORES",
                named.len(),
                keys.join(" "),
                weights.join(" ")
            );
            let found = strings(&run_words(&mut space, &words));
            let found: BTreeMap<&str, &str> = found.chunks(2).map(|pair| (&pair[0][..], &pair[1][..])).collect();
            let is_in = |count: usize| command == "ZUNION" || count == named.len();
            let expected: BTreeMap<&str, String> = all
                .iter()
                .filter(|(_, (count, _))| is_in(*count))
                .map(|(member, (_, score))| (*member, format_double(*score)))
                .collect();
            let expected: BTreeMap<&str, &str> = expected.iter().map(|(member, score)| (*member, &score[..])).collect();
            assert_eq!(found, expected, "round {round}: {words}");
        }
    }
}
