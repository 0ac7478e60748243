//! Commands on lists, on the plain model.

use super::arguments::{count, number, place, range};
use super::keyspace::{Content, Keyspace, List, NO_SUCH_KEY, Replied};
use resp::Value;

const OUT_OF_RANGE: &str = "ERR index out of range";

/// Runs a command; none if it is not one on lists.
pub fn run(space: &mut Keyspace, name: &str, args: &[&[u8]]) -> Option<Replied> {
    let key = args[0];
    Some(match name {
        "LPUSH" | "RPUSH" | "LPUSHX" | "RPUSHX" => push(space, name, key, &args[1..]),
        "LPOP" | "RPOP" => pop(space, name == "LPOP", key, args.get(1)),
        "LMOVE" => move_element(space, key, args[1], args[2] == b"LEFT", args[3] == b"LEFT"),
        "RPOPLPUSH" => move_element(space, key, args[1], false, true),
        // Their last argument is a timeout: they find something, or nothing.
        "BLMOVE" => move_element(space, key, args[1], args[2] == b"LEFT", args[3] == b"LEFT"),
        "BLPOP" | "BRPOP" => pop_first(space, name == "BLPOP", &args[..args.len() - 1]),
        "LLEN" => list(space, key).map(|list| count(list.len())),
        "LRANGE" => list(space, key).map(|list| {
            let (first, last) = range(list.len(), args[1], args[2]);
            bulks(list.get(first..last).unwrap_or_default())
        }),
        "LINDEX" => list(space, key).map(|list| {
            place(list.len(), args[1])
                .and_then(|at| list.get(at))
                .map_or(Value::Null, |element| Value::Bulk(element.clone()))
        }),
        "LSET" => set_element(space, key, args[1], args[2]),
        "LINSERT" => insert(space, key, args[1] == b"BEFORE", args[2], args[3]),
        "LREM" => list(space, key).map(|list| {
            let (left, removed) = without(list, number(args[1]), args[2]);
            space.keep(key, Content::List(left));
            count(removed)
        }),
        "LTRIM" => list(space, key).map(|list| {
            let (first, last) = range(list.len(), args[1], args[2]);
            space.keep(key, Content::List(list.get(first..last).unwrap_or_default().to_vec()));
            Value::Simple("OK".to_owned())
        }),
        _ => return None,
    })
}

/// The list at a key.
fn list(space: &Keyspace, key: &[u8]) -> Result<List, &'static str> {
    space.content(key, |content| match content {
        Content::List(list) => Some(list.clone()),
        _ => None,
    })
}

fn push(space: &mut Keyspace, name: &str, key: &[u8], elements: &[&[u8]]) -> Replied {
    let mut list = list(space, key)?;
    if name.ends_with('X') && list.is_empty() {
        return Ok(count(0));
    }
    for element in elements {
        let at = if name.starts_with('L') { 0 } else { list.len() };
        list.insert(at, element.to_vec());
    }
    let length = list.len();
    space.keep(key, Content::List(list));
    Ok(count(length))
}

fn pop(space: &mut Keyspace, is_left: bool, key: &[u8], wanted: Option<&&[u8]>) -> Replied {
    let mut list = list(space, key)?;
    if list.is_empty() {
        return Ok(Value::Null);
    }
    let size = wanted.map_or(1, |wanted| usize::try_from(number(wanted)).unwrap_or(0)).min(list.len());
    let popped: List = (0..size).map(|_| list.remove(if is_left { 0 } else { list.len() - 1 })).collect();
    space.keep(key, Content::List(list));
    Ok(match wanted {
        Some(_) => bulks(&popped),
        None => popped.into_iter().next().map_or(Value::Null, Value::Bulk),
    })
}

/// Takes an element of the first of some keys that holds anything: the key and the element.
fn pop_first(space: &mut Keyspace, is_left: bool, keys: &[&[u8]]) -> Replied {
    let Some(key) = keys.iter().find(|key| space.has(key)) else { return Ok(Value::Null) };
    let element = pop(space, is_left, key, None)?;
    Ok(Value::Array(vec![Value::Bulk(key.to_vec()), element]))
}

fn move_element(space: &mut Keyspace, from: &[u8], to: &[u8], from_left: bool, to_left: bool) -> Replied {
    if !space.has(from) {
        return Ok(Value::Null);
    }
    list(space, from)?;
    list(space, to)?;
    let Value::Bulk(element) = pop(space, from_left, from, None)? else { return Ok(Value::Null) };
    push(space, if to_left { "LPUSH" } else { "RPUSH" }, to, &[&element])?;
    Ok(Value::Bulk(element))
}

fn set_element(space: &mut Keyspace, key: &[u8], index: &[u8], element: &[u8]) -> Replied {
    let mut list = list(space, key)?;
    if list.is_empty() {
        return Err(NO_SUCH_KEY);
    }
    *place(list.len(), index).and_then(|at| list.get_mut(at)).ok_or(OUT_OF_RANGE)? = element.to_vec();
    space.keep(key, Content::List(list));
    Ok(Value::Simple("OK".to_owned()))
}

fn insert(space: &mut Keyspace, key: &[u8], is_before: bool, pivot: &[u8], element: &[u8]) -> Replied {
    let mut list = list(space, key)?;
    if list.is_empty() {
        return Ok(count(0));
    }
    let Some(at) = list.iter().position(|element| element == pivot) else { return Ok(Value::Int(-1)) };
    list.insert(if is_before { at } else { at + 1 }, element.to_vec());
    let length = list.len();
    space.keep(key, Content::List(list));
    Ok(count(length))
}

/// A list without `limit` elements of one value, and how many are gone: from its end if `limit` is negative; 0: all.
fn without(mut list: List, limit: i64, value: &[u8]) -> (List, usize) {
    let before = list.len();
    let most = if limit == 0 { usize::MAX } else { usize::try_from(limit.unsigned_abs()).unwrap_or(usize::MAX) };
    if limit < 0 {
        list.reverse();
    }
    let mut seen = 0;
    list.retain(|element| {
        let goes = element == value && seen < most;
        seen += usize::from(goes);
        !goes
    });
    if limit < 0 {
        list.reverse();
    }
    let removed = before - list.len();
    (list, removed)
}

fn bulks(list: &[Vec<u8>]) -> Value {
    Value::Array(list.iter().cloned().map(Value::Bulk).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::model::after;

    #[test]
    fn each_command_replies_and_leaves_what_it_should() {
        let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        let all = |text: &str| Value::Array(text.split_terminator(' ').map(|word| Value::Bulk(word.into())).collect());
        let one = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let ok = || Value::Simple("OK".to_owned());
        let (int, null) = (Value::Int, || Value::Null);
        let table = [
            ("LPUSH a x y", int(5), "y x 1 2 1"),
            ("RPUSH a x y", int(5), "1 2 1 x y"),
            ("RPUSHX b x", int(0), "1 2 1"),
            ("LPOP a", one("1"), "2 1"),
            ("RPOP a 2", all("1 2"), "1"),
            ("LPOP b", null(), "1 2 1"),
            ("LMOVE a a LEFT RIGHT", one("1"), "2 1 1"),
            ("RPOPLPUSH a b", one("1"), "1 2"),
            ("LMOVE b a LEFT LEFT", null(), "1 2 1"),
            ("BLPOP b a 9", all("a 1"), "2 1"),
            ("BRPOP a 9", all("a 1"), "1 2"),
            ("BLPOP b 9", null(), "1 2 1"),
            ("BLMOVE a b RIGHT LEFT 9", one("1"), "1 2"),
            ("BLMOVE b a RIGHT LEFT 9", null(), "1 2 1"),
            ("LLEN a", int(3), "1 2 1"),
            ("LRANGE a -2 9", all("2 1"), "1 2 1"),
            ("LRANGE a 2 1", all(""), "1 2 1"),
            ("LRANGE a -9 0", all("1"), "1 2 1"),
            ("LINDEX a -1", one("1"), "1 2 1"),
            ("LINDEX a 3", null(), "1 2 1"),
            ("LSET a 1 x", ok(), "1 x 1"),
            ("LSET a 3 x", Value::Error(OUT_OF_RANGE.to_owned()), "1 2 1"),
            ("LSET b 0 x", Value::Error(NO_SUCH_KEY.to_owned()), "1 2 1"),
            ("LINSERT a BEFORE 2 x", int(4), "1 x 2 1"),
            ("LINSERT a AFTER 9 x", int(-1), "1 2 1"),
            ("LINSERT b AFTER 9 x", int(0), "1 2 1"),
            ("LREM a 1 1", int(1), "2 1"),
            ("LREM a -1 1", int(1), "1 2"),
            ("LREM a 0 1", int(2), "2"),
            ("LTRIM a 1 -1", ok(), "2 1"),
            ("LTRIM a 5 9", ok(), ""),
            ("SADD a 1", Value::Error(crate::collections::keyspace::WRONG_TYPE.to_owned()), "1 2 1"),
        ];
        let begun = after(&Keyspace::default(), &words("RPUSH a 1 2 1"), 0, Some(&int(3))).pop().unwrap_or_default();
        for (command, reply, left) in table {
            let left_by = after(&begun, &words(command), 0, Some(&reply));
            assert_eq!(left_by.len(), 1, "{command}");
            assert_eq!(
                after(&left_by[0], &words("LRANGE a 0 -1"), 0, Some(&all(left))).len(),
                1,
                "{command}: {}",
                left_by[0]
            );
            assert!(after(&begun, &words(command), 0, Some(&int(77))).is_empty(), "{command}");
        }
    }
}
