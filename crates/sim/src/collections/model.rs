//! The plain model of collections: commands that are run word by word on a map of keys.
//!
//! A command whose outcome chance decides has several states that may follow; the reply tells which, where it is known.

use super::keyspace::Keyspace;
use super::way::Words;
use super::{any_type, lists, sets, sorted_sets, streams, strings};
use resp::Value;

/// The states that may follow a command at the time `now_ms`; none if it cannot have been answered `told`. More than
/// `STATES_MAX` are not all named.
#[must_use]
pub fn after(space: &Keyspace, words: &Words, now_ms: u64, told: Option<&Value>) -> Vec<Keyspace> {
    // What has expired stays behind: another node may go by a clock that is a little behind.
    made(space.at(now_ms), words, now_ms, told).into_iter().map(|state| state.over(space, now_ms)).collect()
}

/// The same where nothing has expired.
fn made(mut state: Keyspace, words: &Words, now_ms: u64, told: Option<&Value>) -> Vec<Keyspace> {
    let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let name = String::from_utf8_lossy(args[0]).into_owned();
    if matches!(name.as_str(), "SPOP" | "SRANDMEMBER") {
        return sets::drawn(&state, &args, name == "SPOP", told);
    }
    let args = &args[1..];
    let of_type = [sets::run, lists::run, sorted_sets::run, strings::run]
        .into_iter()
        .find_map(|run| run(&mut state, &name, args));
    let of_type = of_type.or_else(|| streams::run(&mut state, &name, args, now_ms));
    let replied = of_type.unwrap_or_else(|| any_type::run(&mut state, &name, args, now_ms));
    let reply = replied.unwrap_or_else(|text| Value::Error(text.to_owned()));
    let fits = told.is_none_or(|told| in_order(&name, told) == in_order(&name, &reply));
    if fits { vec![state] } else { Vec::new() }
}

/// A reply whose elements have no order, in one; a member that is told twice stays there twice.
fn in_order(name: &str, reply: &Value) -> Value {
    match reply {
        Value::Array(elements) if matches!(name, "SMEMBERS" | "SINTER" | "SUNION" | "SDIFF") => {
            let mut elements = elements.clone();
            elements.sort_by(|one, other| one.as_bytes().cmp(&other.as_bytes()));
            Value::Array(elements)
        }
        reply => reply.clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::collections::STATES_MAX;
    use crate::collections::keyspace::NO_SUCH_KEY;

    fn words(text: &str) -> Words {
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    /// The state after commands whose replies are not known and not drawn.
    fn state(commands: &[&str]) -> Keyspace {
        commands.iter().fold(Keyspace::default(), |state, text| after(&state, &words(text), 0, None).pop().unwrap())
    }

    fn bulks(text: &str) -> Value {
        Value::Array(text.split_terminator(' ').map(|word| Value::Bulk(word.as_bytes().to_vec())).collect())
    }

    #[test]
    fn each_command_has_one_reply_that_fits() {
        let begun = state(&["SADD a 1 2 3", "SADD b 3 4", "PEXPIRE b 100"]);
        let text = |text: &str| Value::Simple(text.to_owned());
        let table = [
            ("SADD a 3 4 5", Value::Int(2)),
            ("SREM a 1 9", Value::Int(1)),
            ("SMOVE a b 1", Value::Int(1)),
            ("SMOVE a b 9", Value::Int(0)),
            ("SCARD a", Value::Int(3)),
            ("SISMEMBER a 2", Value::Int(1)),
            ("SMISMEMBER a 2 9", Value::Array(vec![Value::Int(1), Value::Int(0)])),
            ("SMEMBERS a", bulks("3 1 2")),
            ("SINTER a b", bulks("3")),
            ("SUNION a b none", bulks("1 2 3 4")),
            ("SDIFF a b", bulks("1 2")),
            ("SINTERCARD 2 a b", Value::Int(1)),
            ("SDIFFSTORE b a none", Value::Int(3)),
            ("DEL a b none", Value::Int(2)),
            ("EXISTS a a none", Value::Int(2)),
            ("TYPE a", text("set")),
            ("TYPE none", text("none")),
            ("RENAME a b", text("OK")),
            ("RENAME none b", Value::Error(NO_SUCH_KEY.to_owned())),
            ("COPY a b", Value::Int(0)),
            ("COPY a b REPLACE", Value::Int(1)),
            ("PERSIST a", Value::Int(0)),
            ("PERSIST b", Value::Int(1)),
            ("PEXPIRETIME a", Value::Int(-1)),
            ("PEXPIRETIME b", Value::Int(100)),
        ];
        for (command, reply) in table {
            assert_eq!(after(&begun, &words(command), 50, Some(&reply)).len(), 1, "{command}");
            assert!(after(&begun, &words(command), 50, Some(&Value::Int(77))).is_empty(), "{command}");
        }
        let twice = bulks("1 2 3 3");
        assert!(after(&begun, &words("SMEMBERS a"), 0, Some(&twice)).is_empty(), "a member is told twice");
        assert_eq!(after(&begun, &words("SCARD b"), 99, Some(&Value::Int(2))).len(), 1);
        assert_eq!(after(&begun, &words("SCARD b"), 100, Some(&Value::Int(0))).len(), 1, "it has expired");
        let later = after(&begun, &words("SADD a 9"), 100, None).pop().unwrap();
        assert_eq!(after(&later, &words("SCARD b"), 99, Some(&Value::Int(2))).len(), 1, "by another clock it has not");
        let written = after(&begun, &words("SADD b 9"), 100, None).pop().unwrap();
        assert_eq!(after(&written, &words("SCARD b"), 99, Some(&Value::Int(1))).len(), 1);
    }

    #[test]
    fn what_commands_leave_is_what_the_next_ones_see() {
        let strings: [(&[&str], &str, Value); 6] = [
            (&["SETBIT a 300001 1"], "STRLEN a", Value::Int(37_501)),
            (&["SETBIT a 300001 1", "SETRANGE a 40000 xy"], "BITCOUNT a", Value::Int(10)),
            (&["SETBIT a 7 1", "APPEND a z"], "GET a", Value::Bulk(b"\x01z".to_vec())),
            (&["SETBIT a 7 1", "SETBIT a 7 0"], "GETBIT a 7", Value::Int(0)),
            (&["APPEND a xyz"], "GETRANGE a -2 -1", Value::Bulk(b"yz".to_vec())),
            (&["SADD a 1"], "GET b", Value::Null),
        ];
        for (commands, read, told) in strings {
            let state = state(commands);
            assert_eq!(after(&state, &words(read), 0, Some(&told)).len(), 1, "{commands:?}: {state:?}");
        }
        let table: [(&[&str], &str, &str); 6] = [
            (&["SADD a 1", "RENAME a b"], "SMEMBERS b", "1"),
            (&["SADD a 1", "COPY a b", "SADD a 2"], "SMEMBERS b", "1"),
            (&["SADD a 1 2", "SMOVE a b 1"], "SMEMBERS b", "1"),
            (&["SADD a 1", "SADD b 2", "SUNIONSTORE b a b"], "SMEMBERS b", "1 2"),
            (&["SADD a 1", "SADD b 2", "SINTERSTORE a a b"], "SMEMBERS a", ""),
            (&["SADD a 1", "SREM a 1"], "SUNION a", ""),
        ];
        for (commands, read, members) in table {
            let state = state(commands);
            assert_eq!(after(&state, &words(read), 0, Some(&bulks(members))).len(), 1, "{commands:?}: {state:?}");
        }
    }

    #[test]
    fn what_chance_decides_has_several_states_that_may_follow() {
        let begun = state(&["SADD a 1 2 3"]);
        let count = |command: &str, told: Option<Value>| after(&begun, &words(command), 0, told.as_ref()).len();
        let one = |text: &str| Some(Value::Bulk(text.as_bytes().to_vec()));
        assert_eq!(count("SPOP a", None), 3);
        assert_eq!((count("SPOP a", one("2")), count("SPOP a", one("4"))), (1, 0));
        assert_eq!((count("SPOP a 2", None), count("SPOP a 9", None)), (3, 1));
        assert_eq!((count("SPOP a 2", Some(bulks("1 3"))), count("SPOP a 2", Some(bulks("1")))), (1, 0));
        assert_eq!((count("SPOP none", Some(Value::Null)), count("SPOP a", Some(Value::Null))), (1, 0));
        assert_eq!((count("SRANDMEMBER a", None), count("SRANDMEMBER a", one("4"))), (1, 0));
        assert_eq!(count("SRANDMEMBER a 2", Some(bulks("3 3"))), 0, "one member twice");
        let popped = after(&begun, &words("SPOP a"), 0, one("2").as_ref()).pop().unwrap();
        assert_eq!(after(&popped, &words("SMEMBERS a"), 0, Some(&bulks("1 3"))).len(), 1);
        let large = (0..300).fold("SADD a".to_owned(), |text, n| format!("{text} {n}"));
        assert!(after(&state(&[&large]), &words("SPOP a 2"), 0, None).len() > STATES_MAX);
    }
}
