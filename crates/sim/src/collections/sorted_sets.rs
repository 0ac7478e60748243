//! Commands on sorted sets, on the plain model. Scores are integers.

use super::arguments::{count, number, range};
use super::keyspace::{Content, Keyspace, Replied, SortedSet};
use resp::Value;

/// Runs a command; none if it is not one on sorted sets.
pub fn run(space: &mut Keyspace, name: &str, args: &[&[u8]]) -> Option<Replied> {
    let key = args[0];
    Some(match name {
        "ZADD" => sorted_set(space, key).map(|set| add(space, key, set, &args[1..])),
        "ZINCRBY" => sorted_set(space, key).map(|mut set| {
            let score = set.entry(args[2].to_vec()).or_default();
            *score += number(args[1]);
            let score = *score;
            space.keep(key, Content::SortedSet(set));
            score_value(score)
        }),
        "ZREM" => sorted_set(space, key).map(|mut set| {
            let removed = args[1..].iter().filter(|member| set.remove(**member).is_some()).count();
            space.keep(key, Content::SortedSet(set));
            count(removed)
        }),
        "ZPOPMIN" | "ZPOPMAX" => sorted_set(space, key).map(|set| {
            let mut order = in_order(&set);
            if name == "ZPOPMAX" {
                order.reverse();
            }
            order.truncate(args.get(1).map_or(1, |wanted| usize::try_from(number(wanted)).unwrap_or(0)));
            let left = set.into_iter().filter(|(member, _)| !order.iter().any(|(_, gone)| gone == member)).collect();
            space.keep(key, Content::SortedSet(left));
            with_scores(&order)
        }),
        // Their last argument is a timeout: they find something, or nothing.
        "BZPOPMIN" | "BZPOPMAX" => pop_first(space, &name[1..], &args[..args.len() - 1]),
        "ZREMRANGEBYRANK" => sorted_set(space, key).map(|set| {
            let order = in_order(&set);
            let (first, last) = range(order.len(), args[1], args[2]);
            remove(space, key, set, order.get(first..last).unwrap_or_default())
        }),
        "ZREMRANGEBYSCORE" => sorted_set(space, key).map(|set| {
            let gone = between(&set, args[1], args[2]);
            remove(space, key, set, &gone)
        }),
        "ZUNIONSTORE" | "ZINTERSTORE" => {
            let sources = args[2..].iter().map(|key| sorted_set_or_set(space, key)).collect::<Result<Vec<_>, _>>();
            sources.map(|sources| {
                let combined = combine(name == "ZINTERSTORE", sources);
                let size = combined.len();
                space.remove(key);
                space.keep(key, Content::SortedSet(combined));
                count(size)
            })
        }
        "ZCARD" => sorted_set(space, key).map(|set| count(set.len())),
        "ZSCORE" => sorted_set(space, key).map(|set| set.get(args[1]).map_or(Value::Null, |score| score_value(*score))),
        "ZRANK" | "ZREVRANK" => sorted_set(space, key).map(|set| {
            let order = in_order(&set);
            let rank = order.iter().position(|(_, member)| member == args[1]);
            rank.map_or(Value::Null, |rank| count(if name == "ZRANK" { rank } else { order.len() - 1 - rank }))
        }),
        "ZCOUNT" => sorted_set(space, key).map(|set| count(between(&set, args[1], args[2]).len())),
        "ZRANGE" => sorted_set(space, key).map(|set| {
            let order = in_order(&set);
            let (first, last) = range(order.len(), args[1], args[2]);
            with_scores(order.get(first..last).unwrap_or_default())
        }),
        "ZRANGEBYSCORE" => sorted_set(space, key).map(|set| with_scores(&between(&set, args[1], args[2]))),
        _ => return None,
    })
}

/// Scores and members, in the order of the set.
type Order = Vec<(i64, Vec<u8>)>;

/// The sorted set at a key.
fn sorted_set(space: &Keyspace, key: &[u8]) -> Result<SortedSet, &'static str> {
    space.content(key, |content| match content {
        Content::SortedSet(set) => Some(set.clone()),
        _ => None,
    })
}

/// The same; the members of a set have the score 1.
fn sorted_set_or_set(space: &Keyspace, key: &[u8]) -> Result<SortedSet, &'static str> {
    space.content(key, |content| match content {
        Content::SortedSet(set) => Some(set.clone()),
        Content::Set(set) => Some(set.iter().map(|member| (member.clone(), 1)).collect()),
        Content::List(_) | Content::Stream(_) | Content::Text(_) => None,
    })
}

/// Takes a member of the first of some keys that holds anything: the key, the member and its score.
fn pop_first(space: &mut Keyspace, name: &str, keys: &[&[u8]]) -> Replied {
    let Some(key) = keys.iter().find(|key| space.has(key)) else { return Ok(Value::Null) };
    let popped = run(space, name, &[key]).unwrap_or(Ok(Value::Null))?;
    let Value::Array(mut popped) = popped else { return Ok(popped) };
    popped.insert(0, Value::Bulk(key.to_vec()));
    Ok(Value::Array(popped))
}

fn add(space: &mut Keyspace, key: &[u8], mut set: SortedSet, words: &[&[u8]]) -> Value {
    let flags: Vec<&[u8]> = words.iter().copied().take_while(|word| word.iter().all(u8::is_ascii_uppercase)).collect();
    let has = |flag: &[u8]| flags.contains(&flag);
    let (mut added, mut changed) = (0, 0);
    for pair in words[flags.len()..].chunks(2) {
        let (score, member) = (number(pair[0]), pair[1].to_vec());
        match set.get(&member).copied() {
            None if !has(b"XX") => {
                set.insert(member, score);
                added += 1;
            }
            Some(old) if !has(b"NX") && old != score && (!has(b"GT") || score > old) => {
                set.insert(member, score);
                changed += 1;
            }
            _ => {}
        }
    }
    space.keep(key, Content::SortedSet(set));
    count(if has(b"CH") { added + changed } else { added })
}

fn remove(space: &mut Keyspace, key: &[u8], mut set: SortedSet, gone: &[(i64, Vec<u8>)]) -> Value {
    gone.iter().for_each(|(_, member)| _ = set.remove(member));
    space.keep(key, Content::SortedSet(set));
    count(gone.len())
}

/// The union or the intersection, scores added up.
fn combine(intersects: bool, sources: Vec<SortedSet>) -> SortedSet {
    let all = sources.len();
    let mut combined: std::collections::BTreeMap<Vec<u8>, (i64, usize)> = std::collections::BTreeMap::new();
    for (member, score) in sources.into_iter().flatten() {
        let (sum, times) = combined.entry(member).or_default();
        (*sum, *times) = (*sum + score, *times + 1);
    }
    let wanted = combined.into_iter().filter(|(_, (_, times))| !intersects || *times == all);
    wanted.map(|(member, (sum, _))| (member, sum)).collect()
}

fn in_order(set: &SortedSet) -> Order {
    let mut order: Order = set.iter().map(|(member, score)| (*score, member.clone())).collect();
    order.sort();
    order
}

/// What has a score from one up to and with another.
fn between(set: &SortedSet, low: &[u8], high: &[u8]) -> Order {
    let (low, high) = (number(low), number(high));
    in_order(set).into_iter().filter(|(score, _)| (low..=high).contains(score)).collect()
}

fn score_value(score: i64) -> Value {
    Value::Bulk(score.to_string().into_bytes())
}

fn with_scores(order: &[(i64, Vec<u8>)]) -> Value {
    Value::Array(order.iter().flat_map(|(score, member)| [Value::Bulk(member.clone()), score_value(*score)]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::keyspace::WRONG_TYPE;
    use crate::collections::model::after;

    #[test]
    fn each_command_replies_and_leaves_what_it_should() {
        let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        let all = |text: &str| Value::Array(text.split_terminator(' ').map(|word| Value::Bulk(word.into())).collect());
        let one = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let (int, wrong) = (Value::Int, || Value::Error(WRONG_TYPE.to_owned()));
        let begun = ["ZADD a 1 x 2 y 2 z", "SADD s x w", "RPUSH l 1"]
            .iter()
            .fold(Keyspace::default(), |space, text| after(&space, &words(text), 0, None).pop().unwrap_or_default());
        let table = [
            ("ZADD a 5 x 5 v", int(1), "y 2 z 2 v 5 x 5"),
            ("ZADD a NX 5 x 5 v", int(1), "x 1 y 2 z 2 v 5"),
            ("ZADD a XX CH 5 x 5 v", int(1), "y 2 z 2 x 5"),
            ("ZADD a GT CH 0 x 9 y", int(1), "x 1 z 2 y 9"),
            ("ZINCRBY a 3 x", one("4"), "y 2 z 2 x 4"),
            ("ZREM a x v", int(1), "y 2 z 2"),
            ("ZPOPMIN a", all("x 1"), "y 2 z 2"),
            ("ZPOPMAX a 2", all("z 2 y 2"), "x 1"),
            ("ZPOPMIN none", all(""), "x 1 y 2 z 2"),
            ("BZPOPMIN none a 9", all("a x 1"), "y 2 z 2"),
            ("BZPOPMAX a 9", all("a z 2"), "x 1 y 2"),
            ("BZPOPMAX none 9", Value::Null, "x 1 y 2 z 2"),
            ("ZREMRANGEBYRANK a 0 -2", int(2), "z 2"),
            ("ZREMRANGEBYSCORE a 2 9", int(2), "x 1"),
            ("ZUNIONSTORE a 2 a s", int(4), "w 1 x 2 y 2 z 2"),
            ("ZINTERSTORE a 2 a s", int(1), "x 2"),
            ("ZUNIONSTORE a 2 a l", wrong(), "x 1 y 2 z 2"),
            ("ZCARD a", int(3), "x 1 y 2 z 2"),
            ("ZCARD s", wrong(), "x 1 y 2 z 2"),
            ("ZSCORE a y", one("2"), "x 1 y 2 z 2"),
            ("ZSCORE a v", Value::Null, "x 1 y 2 z 2"),
            ("ZRANK a z", int(2), "x 1 y 2 z 2"),
            ("ZREVRANK a z", int(0), "x 1 y 2 z 2"),
            ("ZCOUNT a 2 9", int(2), "x 1 y 2 z 2"),
            ("ZRANGE a -2 -1 WITHSCORES", all("y 2 z 2"), "x 1 y 2 z 2"),
            ("ZRANGEBYSCORE a 0 1 WITHSCORES", all("x 1"), "x 1 y 2 z 2"),
        ];
        for (command, reply, left) in table {
            let left_by = after(&begun, &words(command), 0, Some(&reply));
            assert_eq!(left_by.len(), 1, "{command}");
            let read = after(&left_by[0], &words("ZRANGE a 0 -1 WITHSCORES"), 0, Some(&all(left)));
            assert_eq!(read.len(), 1, "{command}: {}", left_by[0]);
            assert!(after(&begun, &words(command), 0, Some(&int(77))).is_empty(), "{command}");
        }
    }
}
