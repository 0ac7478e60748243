//! Commands on sets, on the plain model.

use super::arguments::count;
use super::keyspace::{Content, Keyspace, Replied, Set, WRONG_TYPE};
use resp::Value;

/// Runs a command; none if it is not one on sets.
pub fn run(space: &mut Keyspace, name: &str, args: &[&[u8]]) -> Option<Replied> {
    let key = args[0];
    Some(match name {
        "SADD" => set(space, key).map(|mut set| {
            let added = args[1..].iter().filter(|member| set.insert(member.to_vec())).count();
            space.keep(key, Content::Set(set));
            count(added)
        }),
        "SREM" => set(space, key).map(|mut set| {
            let removed = args[1..].iter().filter(|member| set.remove(**member)).count();
            space.keep(key, Content::Set(set));
            count(removed)
        }),
        "SMOVE" => move_member(space, key, args[1], args[2]),
        "SCARD" => set(space, key).map(|set| count(set.len())),
        "SISMEMBER" => set(space, key).map(|set| count(usize::from(set.contains(args[1])))),
        "SMISMEMBER" => set(space, key).map(|set| {
            Value::Array(args[1..].iter().map(|member| count(usize::from(set.contains(*member)))).collect())
        }),
        "SMEMBERS" => set(space, key).map(members),
        "SINTER" | "SUNION" | "SDIFF" => combine(space, name, args).map(members),
        "SINTERCARD" => combine(space, "SINTER", &args[1..]).map(|set| count(set.len())),
        "SINTERSTORE" | "SUNIONSTORE" | "SDIFFSTORE" => {
            combine(space, name.trim_end_matches("STORE"), &args[1..]).map(|set| {
                let size = set.len();
                space.remove(key);
                space.keep(key, Content::Set(set));
                count(size)
            })
        }
        _ => return None,
    })
}

/// The states that may follow SPOP, which takes what it draws away, or SRANDMEMBER.
pub fn drawn(space: &Keyspace, args: &[&[u8]], takes: bool, told: Option<&Value>) -> Vec<Keyspace> {
    let (key, wanted) = (args[1], args.get(2));
    let Ok(set) = set(space, key) else {
        let is_told = told.is_none_or(|told| *told == Value::Error(WRONG_TYPE.to_owned()));
        return if is_told { vec![space.clone()] } else { Vec::new() };
    };
    let wanted = wanted.map(|word| std::str::from_utf8(word).ok().and_then(|text| text.parse().ok()).unwrap_or(0));
    let size = wanted.unwrap_or(1).min(set.len());
    let drawn: Vec<Set> = match (told, wanted) {
        (Some(Value::Null), None) if set.is_empty() => vec![Set::new()],
        (Some(Value::Bulk(member)), None) => vec![Set::from([member.clone()])],
        (Some(Value::Array(members)), Some(_)) => {
            vec![members.iter().filter_map(Value::as_bytes).map(<[u8]>::to_vec).collect()]
        }
        (Some(_), _) => return Vec::new(),
        (None, _) if !takes => return vec![space.clone()],
        (None, _) => subsets(&set, size),
    };
    let fitting = drawn.into_iter().filter(|drawn| drawn.len() == size && drawn.is_subset(&set));
    let after = fitting.map(|drawn| {
        let mut state = space.clone();
        if takes {
            state.keep(key, Content::Set(&set - &drawn));
        }
        state
    });
    after.collect()
}

/// The set at a key.
fn set(space: &Keyspace, key: &[u8]) -> Result<Set, &'static str> {
    space.content(key, |content| match content {
        Content::Set(set) => Some(set.clone()),
        _ => None,
    })
}

fn move_member(space: &mut Keyspace, from: &[u8], to: &[u8], member: &[u8]) -> Replied {
    if !space.has(from) {
        return Ok(count(0));
    }
    let (mut source, target) = (set(space, from)?, set(space, to)?);
    let moved = source.contains(member);
    if moved && from != to {
        source.remove(member);
        space.keep(from, Content::Set(source));
        space.keep(to, Content::Set(target.into_iter().chain([member.to_vec()]).collect()));
    }
    Ok(count(usize::from(moved)))
}

fn combine(space: &Keyspace, name: &str, keys: &[&[u8]]) -> Result<Set, &'static str> {
    let sets = keys.iter().map(|key| set(space, key)).collect::<Result<Vec<_>, _>>()?;
    let combined = sets.into_iter().reduce(|one, other| match name {
        "SINTER" => &one & &other,
        "SUNION" => &one | &other,
        _ => &one - &other,
    });
    Ok(combined.unwrap_or_default())
}

fn members(set: Set) -> Value {
    Value::Array(set.into_iter().map(Value::Bulk).collect())
}

/// More states than this that may follow are not told apart.
pub const STATES_MAX: usize = 2_000;

/// The subsets of a size, or more than `STATES_MAX` of them.
fn subsets(set: &Set, size: usize) -> Vec<Set> {
    if size == set.len() {
        return vec![set.clone()];
    }
    let mut all = vec![Set::new()];
    for _ in 0..size {
        let larger = |drawn: &Set| {
            let last = drawn.last().cloned();
            let drawn = drawn.clone();
            let more = set.iter().filter(move |member| last.as_ref().is_none_or(|last| *member > last));
            more.map(move |member| drawn.iter().chain([member]).cloned().collect()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(larger).take(STATES_MAX + 1).collect();
    }
    all
}
