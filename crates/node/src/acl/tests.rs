//! Tables of rules, and rules drawn at random.
#![allow(clippy::unwrap_used)]

use super::*;
use resp::table;
use vocab::{ClusterDatabase, Database, Prng};

fn rules(line: &str) -> Vec<&[u8]> {
    line.split(' ').filter(|word| !word.is_empty()).map(str::as_bytes).collect()
}

fn changed(user: &mut User, line: &str) -> Result<String, String> {
    user.change(&rules(line), &mut NewUser { all: false, salt: &mut || [1; 16] })?;
    Ok(String::from_utf8(user.rules()).unwrap())
}

#[test]
fn rules_come_to_what_redis_shows() {
    for (line, shown) in [
        ("on", "on resetchannels -@all"),
        ("on nopass ~* &* +@all", "on nopass ~* &* +@all"),
        ("allkeys allchannels allcommands", "off ~* &* +@all"),
        ("on nopass resetchannels &foo +@all", "on nopass resetchannels &foo +@all"),
        ("+@all -client +client|id +client|setname", "off resetchannels +@all -client +client|id +client|setname"),
        ("+@all -client|kill", "off resetchannels +@all -client|kill"),
        ("+acl +config -config|set", "off resetchannels -@all +acl +config -config|set"),
        ("+memory|doctor +memory", "off resetchannels -@all +memory"),
        ("+get +set -get", "off resetchannels -@all +set -get"),
        ("+GET +@Read", "off resetchannels -@all +get +@read"),
        ("+get +@all +client|id", "off resetchannels +@all +client|id"),
        ("+select|0 +select|1 +select|0", "off resetchannels -@all +select|1 +select|0"),
        ("+get +get|a -get", "off resetchannels -@all -get"),
        ("%R~a %W~a %RW~b", "off ~a ~b resetchannels -@all"),
        ("%rw~a %R~b", "off ~a %R~b resetchannels -@all"),
        ("%RW~* ~a", "off %RW~* ~a resetchannels -@all"),
        ("~a %R~* %W~* +@all", "off ~a %RW~* resetchannels +@all"),
        // Redis has these commands.
        ("+@all -save -BGSAVE +cluster|failover -module|load", "off resetchannels +@all"),
        ("~a ~b resetkeys", "off resetchannels -@all"),
        ("db=0,3 db=1", "off resetchannels resetdbs db=0,1,3 -@all"),
        ("db=1 alldbs", "off resetchannels -@all"),
        ("resetdbs", "off resetchannels resetdbs -@all"),
        (
            "(+get ~a) (+set %W~b &c)",
            "off resetchannels -@all (~a resetchannels -@all +get) (%W~b resetchannels &c -@all +set)",
        ),
        ("() ( ~a +get ) clearselectors", "off resetchannels -@all"),
        ("skip-sanitize-payload", "off skip-sanitize-payload resetchannels -@all"),
        ("on +get (+set) reset", "off sanitize-payload resetchannels -@all"),
        (
            "#5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8",
            "off #5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8 resetchannels -@all",
        ),
        ("#5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8 <password", "off resetchannels -@all"),
    ] {
        let mut user = User::new("u", false);
        assert_eq!(changed(&mut user, line).as_deref(), Ok(shown), "{line}");
        assert_eq!(User::of_rules("u", &user.rules()).unwrap(), user, "{line}");
    }
}

#[test]
fn what_is_wrong_is_told_as_by_redis_and_changes_nothing() {
    for (line, error) in [
        ("+foo", "modifier '+foo': Unknown command or category name in ACL"),
        ("+@foo", "modifier '+@foo': Unknown command or category name in ACL"),
        ("-config|asdf", "modifier '-config|asdf': Unknown command or category name in ACL"),
        ("+get|a|b", "modifier '+get|a|b': Unknown command or category name in ACL"),
        ("+config|get|x", "modifier '+config|get|x': Allowing first-arg of a subcommand is not supported"),
        ("+select|", "modifier '+select|': Syntax error"),
        ("foo", "modifier 'foo': Syntax error"),
        (")", "modifier ')': Syntax error"),
        ("%X~a", "modifier '%X~a': Syntax error"),
        ("%~a", "modifier '%~a': Syntax error"),
        ("%", "modifier '%': Syntax error"),
        ("db=", "modifier 'db=': Syntax error"),
        ("db=70000", "modifier 'db=70000': Syntax error"),
        ("~* ~b", "modifier '~b': Adding a pattern after the * pattern (or the 'allkeys' flag)"),
        ("allchannels &b", "modifier '&b': Adding a pattern after the * pattern (or the 'allchannels' flag)"),
        ("(&* &b)", "modifier '(&* &b)': Adding a pattern after the * pattern"),
        ("(nonsense)", "modifier '(nonsense)': Syntax error"),
        ("<x", "modifier '(redacted)': The password you are trying to remove from the user does not exist"),
        ("#12", "modifier '#12': The password hash must be exactly 64 characters"),
        ("!zz", "modifier '!zz': The password hash must be exactly 64 characters"),
        ("(+get", "Unmatched parenthesis in acl selector starting at '(+get'."),
        ("(+get (~a", "Unmatched parenthesis in acl selector starting at '(~a'."),
        ("(>secret", "Unmatched parenthesis in acl selector starting at '(redacted)'."),
        ("(+get (~a ~b", "Unmatched parenthesis in acl selector starting at '(~a'."),
        ("+save|x", "modifier '+save|x': Unknown command or category name in ACL"),
        ("(+get >secret)", "modifier '(redacted)': Syntax error"),
        ("(+get <secret)", "modifier '(redacted)': Syntax error"),
    ] {
        let mut user = User::new("u", false);
        let error_of = changed(&mut user, &format!("on {line}")).unwrap_err();
        assert!(error_of.contains(error), "{line}: {error_of}");
        assert_eq!(user, User::new("u", false), "{line}");
    }
}

/// Whether a user with these rules may run a request, on a database.
fn verdict(line: &str, request: &str, database: u16) -> String {
    let mut user = User::new("u", false);
    changed(&mut user, line).unwrap();
    let args = rules(request);
    match user.denies(table::resolve(&args).unwrap(), &args, database).map(|denial| denial.subject) {
        None => "ok".to_owned(),
        Some(Subject::Command) => "command".to_owned(),
        Some(Subject::Database) => "database".to_owned(),
        Some(Subject::Key(at)) => format!("key {}", request.split(' ').nth(at).unwrap()),
        Some(Subject::Channel(at)) => format!("channel {}", request.split(' ').nth(at).unwrap()),
        Some(Subject::SortBy(at) | Subject::SortGet(at)) => format!("pattern {}", request.split(' ').nth(at).unwrap()),
    }
}

#[test]
fn a_request_is_allowed_if_one_selector_allows_all_of_it() {
    for (line, request, expected) in [
        ("", "GET k", "command"),
        ("", "AUTH x", "ok"),
        ("", "HELLO 3", "ok"),
        ("+get", "GET k", "key k"),
        ("+get ~k*", "GET key", "ok"),
        ("+@string -set ~*", "SET k v", "command"),
        ("+@all ~*", "CONFIG GET x", "ok"),
        ("+@all -config|set ~*", "CONFIG SET x y", "command"),
        ("+select|0", "SELECT 0", "ok"),
        ("+select|0", "SELECT 1", "command"),
        // What is done to keys.
        ("+@all %R~r* %W~w*", "COPY r w", "ok"),
        ("+@all %R~r* %W~w*", "COPY w r", "key w"),
        ("+@all %R~r* %W~w*", "SET w v", "ok"),
        ("+@all %R~r* %W~w*", "SET w v GET", "key w"),
        ("+@all %R~r* %W~w*", "BITFIELD r GET u4 0", "ok"),
        ("+@all %R~r* %W~w*", "BITFIELD w SET u4 0 1", "key w"),
        ("+@all %R~r* %W~w*", "STRLEN w", "ok"),
        ("+@all %R~r* %W~w*", "STRLEN x", "key x"),
        ("+@all %R~r* %W~w*", "SINTERCARD 2 w r", "key w"),
        ("+@all %R~r* %W~w*", "SORT r STORE w", "ok"),
        ("+@all %R~r* %W~w*", "SORT r STORE r2", "key r2"),
        ("+@all %R~r* %W~w*", "EVAL x 1 r", "key r"),
        ("+@all %R~r* %W~w*", "EVAL_RO x 1 r", "ok"),
        ("+@all %R~r* %W~w*", "KV.EXEC 2 2 GET r 3 PUT w v", "ok"),
        ("+@all %R~r* %W~w*", "KV.EXEC 1 2 GET w", "key w"),
        ("+@all %R~r* %W~w*", "KV.EXEC 1 4 PUT w v RETURN", "key w"),
        ("+@all %R~r* %W~w*", "KV.PUT w v", "ok"),
        ("+@all %R~r* %W~w*", "KV.PUT w v RETURN", "key w"),
        ("+@all %R~r*", "KV.RANGE - +", "key -"),
        ("+@all %R~*", "KV.RANGE - +", "ok"),
        ("+@all ~a", "MGET a b", "key b"),
        // Options of streams come in any order, and a group or a consumer may have the name of one.
        ("+@all ~a", "XREADGROUP GROUP g c STREAMS a >", "ok"),
        ("+@all ~a", "XREADGROUP GROUP g c STREAMS a b > >", "key b"),
        ("+@all ~a", "XREADGROUP NOACK GROUP g STREAMS STREAMS b >", "key b"),
        ("+@all ~a", "XREADGROUP GROUP g c GROUP g STREAMS STREAMS b >", "key b"),
        ("+@all ~c ~STREAMS ~a", "XREADGROUP COUNT 1 GROUP STREAMS c STREAMS a b > >", "key b"),
        ("+@all ~a", "XREAD COUNT STREAMS STREAMS b 0", "key b"),
        ("+@all ~a", "XREAD BLOCK 0 STREAMS a b $ $", "key b"),
        ("+@all ~a", "MIGRATE h 1 b 0 5", "key b"),
        // Selectors do not add up.
        ("(+@all %R~r*) (+@all %W~w*)", "COPY r w", "key w"),
        ("(+get ~a) (+set ~b)", "GET a", "ok"),
        ("(+get ~a) (+set ~b)", "GET b", "key b"),
        ("+mget ~key (+mget ~key ~otherkey)", "MGET key otherkey someotherkey", "key someotherkey"),
        // Channels.
        ("+@all", "PUBLISH c m", "channel c"),
        ("+@all &c*", "PUBLISH cc m", "ok"),
        ("+@all &c*", "SUBSCRIBE cc d", "channel d"),
        ("+@all &c*", "PSUBSCRIBE c*", "ok"),
        ("+@all &c*", "PSUBSCRIBE cc", "channel cc"),
        ("+@all &c*", "SSUBSCRIBE d", "channel d"),
        ("+@all &c*", "UNSUBSCRIBE d", "ok"),
        ("+@all", "SUNSUBSCRIBE d", "ok"),
        // Roles.
        ("+@role-read", "KV.ADMIN STATUS", "ok"),
        ("+@role-read", "KV.ADMIN PLAN LIST", "ok"),
        ("+@role-read", "KV.ADMIN plan apply split-shard 1", "command"),
        ("+@role-read", "KV.ADMIN SETTINGS SET a b", "command"),
        ("+@role-read", "ACL LIST", "command"),
        ("+@role-operate", "KV.ADMIN PLAN APPLY split-shard 1", "ok"),
        ("+@role-operate", "KV.ADMIN STATUS", "ok"),
        ("+@role-operate", "KV.ADMIN SETTINGS SET a b", "command"),
        ("+@role-administer", "KV.ADMIN SETTINGS SET a b", "ok"),
        ("+@role-administer", "ACL SETUSER a", "ok"),
    ] {
        assert_eq!(verdict(line, request, 0), expected, "{line}: {request}");
    }
}

#[test]
fn databases_are_allowed_by_number() {
    for (request, database, expected) in [
        ("GET k", 0, "ok"),
        ("GET k", 1, "database"),
        ("PING", 1, "ok"),
        ("SELECT 3", 1, "ok"),
        ("SELECT 1", 0, "database"),
        ("MOVE k 1", 0, "database"),
        ("MOVE k 3", 0, "ok"),
        ("COPY a b DB 1", 0, "database"),
        ("COPY a b REPLACE DB 3", 0, "ok"),
        ("COPY a b DB 3 DB 1", 0, "database"),
        ("COPY a b DB 3 REPLACE db 1", 0, "database"),
        ("COPY a b DB 1 DB 3", 0, "ok"),
        ("KEYS *", 1, "database"),
        ("DBSIZE DATABASE 3", 0, "ok"),
        ("DBSIZE DATABASE 1", 0, "database"),
        ("DBSIZE SELECTED 3", 1, "database"),
        ("SCAN 0 DATABASE 1 COUNT 10", 0, "database"),
        ("SCAN 0 MATCH DATABASE COUNT 10", 0, "ok"),
        ("SCAN 0 DATABASE 3 SELECTED 1", 0, "database"),
        ("FLUSHDB ASYNC SELECTED 1", 0, "database"),
        ("FLUSHDB", 0, "ok"),
        ("FLUSHDB", 1, "database"),
        ("FLUSHALL", 0, "database"),
        ("KV.EMPTY", 0, "database"),
        ("SWAPDB 0 1", 0, "database"),
        ("KV.SWAP 0 1", 0, "database"),
        ("KV.SWAP 0 3", 0, "ok"),
        ("KV.RANGE - +", 0, "ok"),
        ("KV.RANGE - +", 1, "database"),
        ("KV.BACKUP PAGE 1 2 3 4", 0, "database"),
    ] {
        assert_eq!(verdict("+@all ~* &* db=0,3", request, database), expected, "{request} on {database}");
    }
}

/// What a restore may do needs the right to all databases: the name alone does not say which number the database has.
#[test]
fn who_has_some_databases_names_no_keys_as_they_are_stored() {
    let [one, other] = [Database::of_number(3).unwrap(), Database::of_number(1).unwrap()];
    let of_cluster = ClusterDatabase::of_number(3).unwrap();
    for stored in [one.prefix().to_vec(), other.prefix().to_vec(), of_cluster.mark().to_vec()] {
        let stored = [&stored[..], b"k"].concat();
        let bound = [b"[", &stored[..]].concat();
        let requests: [&[&[u8]]; 11] = [
            &[b"GET", &stored],
            &[b"MGET", b"k", &stored],
            &[b"RESTORE", &stored, b"0", b"x"],
            &[b"WATCH", &stored],
            &[b"SORT", &stored],
            &[b"EVAL", b"return 1", b"1", &stored],
            &[b"KV.EMPTY", &stored],
            &[b"KV.REMOVE", &stored, b"9"],
            &[b"KV.TRANSFER", b"k", &stored, b"COPY"],
            &[b"KV.RANGE", &bound, b"+", b"LIMIT", b"9"],
            &[b"KV.RANGE", b"-", &bound],
        ];
        for args in requests {
            for (line, is_allowed) in [("db=0,3", false), ("resetdbs", false), ("alldbs", true)] {
                let mut user = User::new("u", false);
                changed(&mut user, &format!("+@all ~* &* {line}")).unwrap();
                let denial = user.denies(table::resolve(args).unwrap(), args, 0);
                assert_eq!(denial.is_none(), is_allowed, "{line}: {}", args[0].escape_ascii());
            }
        }
    }
}

#[test]
fn a_password_in_clear_is_kept_slowly_and_removed_by_its_hash() {
    let mut user = User::new("u", false);
    let mut apply = |line: &str| changed(&mut user, line);
    let shown = apply("on >password >password").unwrap();
    assert!(shown.starts_with("on #$argon2id$v=19$m=") && shown.ends_with(" resetchannels -@all"), "{shown}");
    assert_eq!(shown.matches('#').count(), 1, "it is kept once");
    let digest = Digest::of(b"password");
    apply(&format!("=+{}", digest.hex())).unwrap();
    assert_eq!(apply(&format!("!{}", digest.hex())).unwrap(), "on resetchannels -@all");
    assert!(apply("<password").is_err());
    let refused = without_passwords(&[b"on", b"=+x"]).unwrap_err();
    assert_eq!(refused, "Error in ACL SETUSER modifier '(redacted)': Syntax error", "no client may send such a rule");
    let sent = without_passwords(&[b"on", b">password", b"<password", b"(+get", b">password)"]).unwrap();
    let (kept, removed) = (format!("=+{}", digest.hex()), format!("=-{}", digest.hex()));
    assert_eq!(sent, ["on", &kept, &removed, "(+get >password)"].map(|rule| rule.as_bytes().to_vec()));
    assert!(without_passwords(&[b"(+get", b">password"]).unwrap_err().contains("starting at '(+get'."));
    // An error shows no password.
    let error = user.change(&[b"=+x"], &mut NewUser { all: false, salt: &mut || [1; 16] }).unwrap_err();
    assert!(error.contains("(redacted)"), "{error}");
}

#[test]
fn logins_are_found_out_once() {
    let logins = Logins::new([9; 32]);
    let mut user = User::new("u", false);
    changed(&mut user, "on >right").unwrap();
    let (right, wrong) = (Digest::of(b"right"), Digest::of(b"wrong"));
    let check = |user: &User, given| logins.check(b"u", Some(user), given);
    let Login::Unknown(found_out) = check(&user, right) else { panic!("it is not known yet") };
    assert!(matches!(check(&user, right), Login::Busy), "it is being found out");
    assert!(found_out.run(&logins));
    assert!(matches!(check(&user, right), Login::Right));
    let Login::Unknown(found_out) = check(&user, wrong) else { panic!("another password") };
    assert!(!found_out.run(&logins));
    assert!(matches!(check(&user, wrong), Login::Wrong));
    changed(&mut user, "off").unwrap();
    let Login::Unknown(found_out) = check(&user, right) else { panic!("it is not told at once that it is off") };
    assert!(!found_out.run(&logins));
    assert!(matches!(check(&user, right), Login::Wrong));
    changed(&mut user, "on nopass").unwrap();
    assert!(matches!(check(&user, wrong), Login::Right));
}

/// Each is compared with a slow hash, and remembered by its name.
#[test]
fn names_that_are_none_are_found_out_as_others_are() {
    let logins = Logins::new([9; 32]);
    let mut quick = User::new("quick", false);
    let digest = Digest::of(b"right");
    changed(&mut quick, &format!("on #{}", digest.hex())).unwrap();
    assert!(matches!(logins.check(b"quick", Some(&quick), digest), Login::Right));
    for (name, user) in [("none", None), ("other", None), ("quick", Some(&quick))] {
        let check = || logins.check(name.as_bytes(), user, Digest::of(b"wrong"));
        let Login::Unknown(found_out) = check() else { panic!("{name} is told at once") };
        assert!(matches!(check(), Login::Busy), "{name}");
        assert!(!found_out.run(&logins));
        assert!(matches!(check(), Login::Wrong), "{name}");
        assert!(!logins.check_waiting(name.as_bytes(), user, Digest::of(b"another")));
    }
}

#[test]
fn files_are_read_and_written() {
    let new = |text: &str| users_of_file("u.acl", text.as_bytes(), &mut NewUser { all: false, salt: &mut || [1; 16] });
    let users =
        new("user alice on allcommands allkeys &* nopass\r\n\nuser bob on -@all +@set ~set* (+get ~b)\n").unwrap();
    let shown = users_to_file(&Users::new(users.into_iter().map(std::sync::Arc::new)));
    // `default` has no rules: its password is a setting.
    let expected = "user alice on nopass ~* &* +@all\nuser bob on ~set* resetchannels -@all +@set (~b resetchannels -@all \
                    +get)\n";
    assert_eq!(String::from_utf8(shown).unwrap(), expected);
    let of_default = new("user default on nopass +@all").unwrap();
    let shown = users_to_file(&Users::new(of_default.into_iter().map(std::sync::Arc::new)));
    assert_eq!(String::from_utf8(shown).unwrap(), "user default on nopass resetchannels +@all\n");
    assert_eq!(users_to_file(&Users::default()), b"");
    for (text, error) in [
        ("user a\nuser a on\n", "WARNING: Duplicate user 'a' found on line 2. WARNING: ACL errors detected"),
        ("usr a on\n", "u.acl:1 should start with user keyword followed by the username. "),
        ("user a +nosuch\n", "u.acl:1: Error in applying operation '+nosuch': Unknown command"),
        (
            "user a foo +@x #zz +y|z\n\nuser b (+get",
            "u.acl:1: Syntax error. u.acl:1: Error in applying operation '+@x': Unknown command or category name in ACL. \
             u.acl:1: Error in applying operation '+y|z': Unknown command or category name in ACL. u.acl:3: Unmatched \
             parenthesis in acl selector starting at '(+get'. WARNING: ACL errors detected",
        ),
    ] {
        let found = new(text).unwrap_err();
        assert!(found.contains(error), "{found}");
    }
    let long = format!("user a {}", "~a ".repeat(vocab::limits::USER_CHANGE_BYTES_MAX));
    assert!(new(&long).unwrap_err().contains("u.acl:1: The user would have more rules than a user may"));
}

/// Rules, right and wrong, and parts of rules.
const WORDS: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    "reset",
    "allkeys",
    "resetkeys",
    "~a*",
    "%R~b",
    "%W~c[",
    "%RW~d",
    "allchannels",
    "resetchannels",
    "&x",
    "&y*",
    "allcommands",
    "nocommands",
    "+@all",
    "-@all",
    "+@read",
    "-@write",
    "+get",
    "-set",
    "+client|id",
    "-client",
    "+config",
    "+select|1",
    "+@role-read",
    "db=1",
    "db=2,3",
    "alldbs",
    "resetdbs",
    "(+get",
    "~z",
    ")",
    "(~q -@all +@hash)",
    "clearselectors",
    "#12",
    "!zz",
    "+foo",
    "sanitize-payload",
    "#5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8",
    "<password",
    "\u{e9}",
    "~\u{ff}",
    "(",
    "())",
    "~)",
];

/// Rules of every kind, in any order: what a user shows is what it is, and a user without restrictions is allowed everything.
#[test]
fn whatever_rules_a_user_is_given_it_reads_back_as_it_is() {
    let requests =
        ["GET a1", "SET b v", "PUBLISH x m", "CONFIG GET a", "KV.EXEC 1 2 GET a", "FLUSHALL", "SELECT 1", "CLIENT ID"];
    let mut prng = Prng::new(7);
    for round in 0..3000 {
        let mut user = User::new("u", prng.below(2) == 0);
        for _ in 0..prng.below(8) {
            let line: Vec<&[u8]> =
                (0..1 + prng.below(5)).map(|_| WORDS[prng.below(WORDS.len() as u64) as usize].as_bytes()).collect();
            let before = user.clone();
            if user.change(&line, &mut NewUser { all: prng.below(2) == 0, salt: &mut || [1; 16] }).is_err() {
                assert_eq!(user, before, "all rules, or none");
            }
        }
        match User::of_rules("u", &user.rules()) {
            Ok(read) => assert_eq!(read, user, "round {round}: {}", String::from_utf8_lossy(&user.rules())),
            Err(why) => panic!("round {round}: {why}"),
        }
        for request in requests {
            let args = rules(request);
            let denial = user.denies(table::resolve(&args).unwrap(), &args, prng.below(4) as u16);
            assert!(denial.is_none() || user.is_restricted(), "{request}");
        }
    }
}

#[test]
fn sort_by_patterns_is_for_those_who_read_all_keys() {
    let few = User::of_rules("u", b"on ~a* resetchannels +@all").unwrap();
    let all = User::of_rules("u", b"on ~a* %R~* resetchannels +@all").unwrap();
    for (request, why) in [
        ("SORT a", None),
        ("SORT a BY nosort LIMIT 0 1 ALPHA", None),
        ("SORT a BY w_* GET x", Some("ERR BY option of SORT denied due to insufficient ACL permissions.")),
        ("SORT a LIMIT 0 1 GET #", Some("ERR GET option of SORT denied due to insufficient ACL permissions.")),
        ("SORT_RO a GET x*", Some("ERR GET option of SORT denied due to insufficient ACL permissions.")),
    ] {
        let args = rules(request);
        let denial = |user: &User| user.denies(table::resolve(&args).unwrap(), &args, 0).map(|denial| denial.text());
        assert_eq!(denial(&few).as_deref(), why, "{request}");
        assert_eq!(denial(&all), None, "{request}");
    }
    for (request, pattern) in [("SORT a BY w_* GET x", "w_*"), ("SORT a BY w GET x", "x")] {
        let args = rules(request);
        let denial = few.denies(table::resolve(&args).unwrap(), &args, 0).unwrap();
        let told = format!("This user has no permissions to access the '{pattern}' key");
        assert_eq!(denial.text_of_trial(&args), told);
        assert_eq!(denial.logged(&args).1, pattern.as_bytes());
    }
}
