//! The keys of the clients, most of them of one slot, each with a type that its name tells, and what makes them.

use crate::common::Random;

/// A request: its arguments.
pub type Request = Vec<Vec<u8>>;

/// Keys of each type.
const KEYS_PER_TYPE: u64 = 4;
const TYPES: [&str; 8] = ["string", "hash", "list", "set", "zset", "geo", "stream", "hll"];

/// A request of words.
pub fn words(words: &str) -> Request {
    words.split_whitespace().map(|word| word.as_bytes().to_vec()).collect()
}

/// One of some words.
pub fn one_of<'a>(random: &mut Random, words: &[&'a str]) -> &'a str {
    words[random.below(words.len() as u64) as usize]
}

/// What stands in collections: members, fields and elements have the same names.
pub fn member(random: &mut Random) -> Vec<u8> {
    let most = *random.pick(&[3, 20, 200, 3000]);
    format!("m{}", random.below(most)).into_bytes()
}

/// A key with the type that a chapter of commands works on, as a rule.
pub fn key_for(group: &str, random: &mut Random) -> Vec<u8> {
    let right = match group {
        "string" | "bitmap" => "string",
        "hash" => "hash",
        "list" => "list",
        "set" => "set",
        "sorted-set" => "zset",
        "geo" => "geo",
        "stream" => "stream",
        "hyperloglog" => "hll",
        _ => any_type(random),
    };
    // A sorted set is combined with sets, a bitmap is any string, and some types are wrong.
    let chosen = if random.below(8) == 0 { any_type(random) } else { right };
    match random.below(40) {
        0 => format!("other{}", random.below(4)).into_bytes(),
        1 => [&b"{t}"[..], &vec![b'l'; *random.pick(&[31_997, 31_998, 65_533])]].concat(),
        2 => b"{t}new".to_vec(),
        _ => format!("{{t}}{chosen}{}", random.below(KEYS_PER_TYPE)).into_bytes(),
    }
}

fn any_type(random: &mut Random) -> &'static str {
    one_of(random, &TYPES)
}

/// Requests that make one of the keys anew.
pub fn plant(random: &mut Random) -> Vec<Request> {
    let kind = any_type(random);
    let key = format!("{{t}}{kind}{}", random.below(KEYS_PER_TYPE));
    let many = *random.pick(&[1, 5, 130, 600, 3000]);
    let mut requests = vec![words(&format!("DEL {key}"))];
    let named = |start: &str, each: &dyn Fn(u64) -> String| {
        let start = words(start);
        start.into_iter().chain((0..many).flat_map(|n| words(&each(n)))).collect::<Request>()
    };
    match kind {
        "string" => {
            let length = *random.pick(&[3, 100, 100_000, 2_000_000]);
            let value = if random.below(3) == 0 { b"17".to_vec() } else { random.bytes(length) };
            requests.push([words(&format!("SET {key}")), vec![value]].concat());
        }
        "hash" => {
            requests.push(named(&format!("HSET {key}"), &|n| format!("m{n} {n}")));
            requests.push(words(&format!("HPEXPIRE {key} {} FIELDS 2 m0 m1", random.below(1000))));
        }
        "list" => requests.push(named(&format!("RPUSH {key}"), &|n| format!("m{n}"))),
        "set" if random.below(3) == 0 => requests.push(named(&format!("SADD {key}"), &|n| n.to_string())),
        "set" => requests.push(named(&format!("SADD {key}"), &|n| format!("m{n}"))),
        "zset" => requests.push(named(&format!("ZADD {key}"), &|n| format!("{n} m{n}"))),
        "geo" => requests.push(named(&format!("GEOADD {key}"), &|n| format!("{}.5 {}.25 m{n}", n % 179, n % 84))),
        "hll" => requests.push(named(&format!("PFADD {key}"), &|n| format!("m{n}"))),
        _ => {
            requests.extend((1..=many.min(600)).map(|n| words(&format!("XADD {key} {n}-0 m{n} v"))));
            for group in 0..2 {
                requests.push(words(&format!("XGROUP CREATE {key} g{group} 0")));
                requests.push(words(&format!("XREADGROUP GROUP g{group} c0 COUNT {} STREAMS {key} >", many / 2 + 1)));
            }
        }
    }
    if random.below(10) == 0 {
        requests.push(words(&format!("PEXPIRE {key} {}", random.below(3000))));
    }
    requests
}
