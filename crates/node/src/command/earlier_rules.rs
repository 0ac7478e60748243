//! What commands of entries do by the rules of releases before, which all replicas go by as long as one is of such a release.

use super::call::Error;
use super::testspace::{self, TestSpace};
use crate::Rules;
use resp::Reply;

/// The reply of the last of these commands, each of which is evaluated by the same rules.
fn reply(rules: Rules, commands: &str) -> String {
    let mut space = TestSpace::new();
    space.rules = rules;
    let mut last = String::new();
    for command in commands.split("; ") {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let mut reply = Reply::default();
        space.version += 1;
        let outcome = testspace::run(&mut space, &args, &mut reply);
        space.validate();
        last = match outcome {
            Ok(()) => String::from_utf8_lossy(&reply.buf).replace("\r\n", " "),
            Err(Error::Reply(text)) => text.into_owned(),
            Err(Error::Fault(fault)) => panic!("{command}: {fault:?}"),
        };
    }
    last
}

#[test]
fn what_the_fourth_rules_take_was_refused() {
    const NOT_DIGEST: &str = "ERR must be exactly 16 hexadecimal characters";
    const FIELDS: &str = "ERR Mandatory argument FIELDS is missing or not at the right position";
    for (commands, was, is) in [
        ("SET k v IFDNE bad", NOT_DIGEST, "+OK "),
        ("SET k v IFDEQ bad", NOT_DIGEST, "$-1 "),
        ("SET k a; SET k v IFDNE zzzzzzzzzzzzzzzz", NOT_DIGEST, "+OK "),
        ("SET k a; SET k v IFEQ b IFEQ a", "ERR syntax error", "+OK "),
        ("DELEX k IFDEQ bad", NOT_DIGEST, ":0 "),
        ("DELEX k IF v", "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE", ":0 "),
        ("INCREX k BYFLOAT 1 LBOUND -inf", "ERR LBOUND is not a valid float", "*2 $1 1 $1 1 "),
        ("SET k inf; INCREX k BYFLOAT 1", "*2 $3 inf $1 0 ", "ERR value cannot be Infinity"),
        ("SET k 1e30; INCREX k BYFLOAT 0.5; INCREX k BYFLOAT -1e30; GET k", "$1 0 ", "$1 0 "),
        ("HSET h f v; HEXPIRE h 60 FIELDS 1 f NX", FIELDS, "*1 :1 "),
        ("HSET h f v; HPEXPIREAT h 60 NX NX FIELDS 1 f", FIELDS, "*1 :2 "),
        ("HSET h f v; HGETEX h FIELDS 1 f EX 60", FIELDS, "*1 $1 v "),
        ("HSETEX h FIELDS 1 f v EX 60", FIELDS, ":1 "),
        ("HSETEX h NX FIELDS 1 f v", "ERR unknown argument: NX", ":1 "),
        ("HSETEX h XX FIELDS 1 f v", "ERR unknown argument: XX", ":0 "),
        ("ZADD z 5 m; ZUNION 1 z AGGREGATE COUNT WITHSCORES", "ERR syntax error", "*2 $1 m $1 1 "),
        ("ZADD z 5 m; ZINTERSTORE d 1 z AGGREGATE COUNT", "ERR syntax error", ":1 "),
    ] {
        assert_eq!((&reply(Rules::Later, commands)[..], &reply(Rules::Fourth, commands)[..]), (was, is), "{commands}");
    }
}

#[test]
fn patterns_of_one_slot_were_refused_to_clients_of_the_cluster() {
    for command in
        ["SORT {a}l BY {a}w_*", "SORT {a}l GET #", "SORT {a}l GET {a}w_* STORE {a}d", "SORT_RO {a}l BY {a}w_*"]
    {
        let commands = format!("RPUSH {{a}}l 1; {command}");
        assert!(reply(Rules::Later, &commands).contains("denied in Cluster mode"), "{command}");
        assert!(!reply(Rules::Fourth, &commands).starts_with("ERR"), "{command}");
    }
}

#[test]
fn what_was_taken_is_taken_as_it_was() {
    for commands in [
        "SET k a; SET k b IFDEQ e6c632b61e964e1f; GET k",
        "SET k a; DELEX k IFDEQ E6C632B61E964E1F",
        "INCREX k BYFLOAT 1.5 UBOUND 1 SATURATE",
        "INCREX k BYINT 5 EX 100; INCREX k PERSIST; TTL k",
        "HSETEX h FNX EX 60 FIELDS 2 a 1 b 2; HGETEX h PERSIST FIELDS 1 a; HPEXPIRE h 5000 LT FIELDS 2 a b",
        "SORT l BY nosort LIMIT 0 1",
        "ZADD z 5 m; ZUNION 2 z z WEIGHTS 2 3 AGGREGATE MAX WITHSCORES",
    ] {
        let was = reply(Rules::Later, commands);
        assert!(!was.starts_with("ERR"), "{commands}: {was}");
        assert_eq!(reply(Rules::Fourth, commands), was, "{commands}");
    }
}
