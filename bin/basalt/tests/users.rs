//! Users on three nodes: each node goes by the same ones, at once, after a restart too.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Connection, Dir, Nodes, Server, Setup, Value, eventually};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

fn ask(connection: &mut Connection, words: &[&str]) -> String {
    connection.try_call(words).map_or_else(|_| "closed".to_owned(), |answer| answer.words())
}

/// A connection of a user.
fn login(nodes: &Nodes, n: usize, user: &str, password: &str) -> Connection {
    let mut connection = nodes.connect(n);
    assert_eq!(ask(&mut connection, &["AUTH", user, password]), "OK", "{user} at node {n}");
    connection
}

/// Waits until a node answers so.
fn wait_for(connection: &mut Connection, words: &[&str], expected: &str) {
    let probe = || (ask(connection, words) == expected).then_some(());
    eventually(&format!("{words:?} is {expected}"), PATIENCE, probe);
}

#[test]
fn all_nodes_go_by_the_same_users() {
    let dir = Dir::new("users-nodes");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "3")]);
    nodes.wait_spread();
    let (mut first, mut third) = (nodes.connect(0), nodes.connect(2));
    let key = nodes.key_led_by(2, "app:");
    assert_eq!(
        ask(&mut first, &["ACL", "SETUSER", "app", "on", ">secret", "~app:*", "&news", "+@all", "-@dangerous"]),
        "OK"
    );
    wait_for(&mut third, &["ACL", "USERS"], "app default");
    assert_eq!(ask(&mut first, &["ACL", "LIST"]), ask(&mut third, &["ACL", "LIST"]));
    let mut app = login(&nodes, 2, "app", "secret");
    assert_eq!(ask(&mut app, &["SET", &key, "1"]), "OK");
    assert!(ask(&mut app, &["SET", "other", "1"]).starts_with("NOPERM "));
    assert!(ask(&mut app, &["CONFIG", "GET", "x"]).starts_with("NOPERM "));
    // A script may do what its user may, its first run at a node too.
    let script = "redis.call('SET',KEYS[1],2) return redis.call('GET',ARGV[1])";
    let refused = ask(&mut app, &["EVAL", script, "1", &key, &key.replace("app:", "xyz:")]);
    assert!(refused.contains("The user executing the script can't access"), "{refused}");
    let refused = ask(&mut app, &["EVAL", "return redis.call('FLUSHALL')", "1", &key]);
    assert!(refused.starts_with("ERR "), "{refused}");
    // What a script has done before its error stays, as in Redis.
    assert_eq!(ask(&mut app, &["EVAL", "return redis.call('GET',KEYS[1])", "1", &key]), "2");
    // Rights are taken away: from the next request on, and a subscriber is closed.
    let mut listener = login(&nodes, 2, "app", "secret");
    assert_eq!(ask(&mut listener, &["SUBSCRIBE", "news"]), "subscribe news 1");
    assert_eq!(ask(&mut third, &["ACL", "SETUSER", "app", "resetchannels", "-set"]), "OK");
    assert!(ask(&mut app, &["SET", &key, "1"]).starts_with("NOPERM "));
    assert!(listener.read().is_err(), "one who listens without the right to is closed");
    // A wrong password, and a user that is gone.
    let mut stranger = nodes.connect(1);
    assert!(ask(&mut stranger, &["AUTH", "app", "wrong"]).starts_with("WRONGPASS "));
    nodes.kill_all();
    (0..3).for_each(|n| nodes.spawn(n));
    nodes.wait_whole();
    let mut app = login(&nodes, 1, "app", "secret");
    assert_eq!(ask(&mut app, &["ACL", "WHOAMI"]), "app");
    let mut second = nodes.connect(1);
    assert_eq!(ask(&mut second, &["ACL", "DELUSER", "app", "nosuch"]), "1");
    assert_eq!(ask(&mut app, &["PING"]), "closed");
    let mut first = nodes.connect(0);
    wait_for(&mut first, &["ACL", "USERS"], "default");
    nodes.kill_all();
}

/// A client that waits in a blocking command is told at once that it may no longer, and takes nothing from then on, at whichever node it
/// waits; one that monitors is closed; what was queued is looked at again.
#[test]
fn a_right_that_is_lost_ends_waits_and_is_gone_at_exec() {
    let dir = Dir::new("users-waits");
    let (nodes, ports) = Nodes::start_with_databases(&dir, &[("--shards", "3")]);
    nodes.wait_spread();
    let mut admin = nodes.connect(0);
    let key = nodes.key_led_by(1, "app:");
    let stream = format!("stream:{{{key}}}");
    let blocked = |port: u16| {
        let clients = Connection::open(port).unwrap().call("CLIENT LIST").text();
        clients.lines().filter(|line| line.contains(" flags=b ")).count()
    };
    // At the node that leads the key, and as clients of a database, which any node serves.
    for port in [&[nodes.port(1)], &ports[..]].concat() {
        for lost in ["-blpop", "resetkeys ~stream:*"] {
            let rules = "ACL SETUSER app reset on nopass ~* &* +@all";
            assert_eq!(admin.call(rules), Value::ok());
            let open = |user: &str| {
                let mut connection = Connection::open(port).unwrap();
                assert_eq!(ask(&mut connection, &["AUTH", user, "x"]), "OK");
                connection
            };
            let (mut waiting, mut reading, mut monitor, mut other) =
                (open("app"), open("app"), open("app"), open("default"));
            assert_eq!(monitor.call("MONITOR"), Value::ok());
            let mut queues = open("app");
            assert_eq!(ask(&mut queues, &["MULTI"]), "OK");
            for words in [&["BLPOP", &key, "1"][..], &["EXISTS", &stream]] {
                assert_eq!(ask(&mut queues, words), "QUEUED");
            }
            waiting.send(&Connection::encode(&["BLPOP", &key, "0"])).unwrap();
            reading.send(&Connection::encode(&["XREAD", "BLOCK", "0", "STREAMS", &stream, "$"])).unwrap();
            eventually("both wait", PATIENCE, || (blocked(port) == 2).then_some(()));
            assert_eq!(admin.call(&format!("ACL SETUSER app {lost} -monitor")), Value::ok());
            let refused = waiting.read().unwrap().text();
            assert!(refused.starts_with("NOPERM "), "{port} {lost}: {refused}");
            // A monitor without the right is closed.
            while monitor.read().is_ok() {}
            let answers = queues.call("EXEC");
            let [queued, exists] = answers.items() else { panic!("{port} {lost}: {answers:?}") };
            assert!(queued.text().starts_with("NOPERM ACLs rules changed "), "{port} {lost}: {queued:?}");
            assert_eq!(exists, &Value::Int(0), "{port} {lost}: what it may do is done");
            assert_eq!(blocked(port), 1, "{port}: the other one has its right");
            assert_eq!(ask(&mut other, &["RPUSH", &key, "1"]), "1");
            assert_eq!(ask(&mut other, &["LPOP", &key]), "1", "nothing was taken");
            assert_eq!(ask(&mut other, &["XADD", &stream, "1-1", "a", "b"]), "1-1");
            assert_eq!(reading.read().unwrap().words(), format!("{stream} 1-1 a b"));
            assert_eq!(ask(&mut waiting, &["ACL", "WHOAMI"]), "app", "its connection goes on");
            assert_eq!(ask(&mut other, &["DEL", &stream]), "1");
            let log = ask(&mut other, &["ACL", "LOG"]);
            let reason =
                if lost == "-blpop" { "command context toplevel object blpop" } else { "key context toplevel" };
            assert!(log.contains(&format!("reason {reason}")), "{log}");
            assert_eq!(ask(&mut other, &["ACL", "LOG", "RESET"]), "OK");
        }
    }
}

/// By whichever name it asks, alone and in a transaction, at the node that leads its database and at the others.
#[test]
fn who_may_use_some_databases_stays_in_them() {
    let dir = Dir::new("users-databases");
    let (nodes, ports) = Nodes::start_with_databases(&dir, &[("--shards", "3")]);
    nodes.wait_spread();
    let mut admin = nodes.connect(0);
    let read = ["EVAL", "return redis.call('GET',ARGV[1])", "0", "a"];
    for port in &ports {
        // Known where the tenant is.
        let mut here = Connection::open(*port).unwrap();
        let mut change = |rules: &str| {
            assert_eq!(admin.call(&format!("ACL SETUSER tenant {rules}")), Value::ok());
            let list = ask(&mut admin, &["ACL", "LIST"]);
            wait_for(&mut here, &["ACL", "LIST"], &list);
        };
        change("reset on nopass ~* &* +@all db=0,3");
        let mut tenant = Connection::open(*port).unwrap();
        assert_eq!(ask(&mut tenant, &["AUTH", "tenant", "x"]), "OK");
        let ask_all = |connection: &mut Connection, lines: &[&str]| -> Vec<String> {
            lines.iter().map(|line| connection.call(line).words()).collect()
        };
        for refused in ["SWAPDB 0 5", "FLUSHALL", "COPY a b DB 3 DB 5", "MOVE a 5", "SELECT 5"] {
            assert!(tenant.call(refused).text().starts_with("NOPERM "), "{port}: {refused}");
        }
        // What nodes make of these is no client's, whatever its rights.
        for internal in ["KV.SWAP 0 5", "KV.EMPTY", "KV.KEYS a DBSIZE", "KV.REMOVE a 9", "KV.TRANSFER a b MOVE"] {
            assert_eq!(tenant.call(internal).text(), "ERR this command is for other nodes", "{port}: {internal}");
        }
        let refused = ask(&mut tenant, &["EVAL", "return redis.call('KV.EMPTY', KEYS[1])", "1", "a"]);
        assert!(refused.contains("is not allowed from script"), "{port}: {refused}");
        let queued = ["MULTI", "SELECT 3", "SET a 3", "COPY a b REPLACE", "EXISTS a"];
        ask_all(&mut tenant, &queued);
        assert_eq!(tenant.call("EXEC").words(), "OK OK 1 1", "{port}");
        // Its rights are others when it runs: what is lost is refused, the rest is done.
        for (rules, expected) in [
            ("-exists", [true, true, true, false]),
            ("resetdbs db=0", [false; 4]),
            ("resetdbs db=0,3", [true; 4]),
            ("resetdbs db=3", [true; 4]),
        ] {
            change("+exists resetdbs db=0,3");
            assert_eq!(ask(&mut tenant, &["SELECT", "0"]), "OK");
            ask_all(&mut tenant, &queued);
            change(rules);
            let answers = tenant.call("EXEC");
            let done: Vec<bool> = answers.items().iter().map(|answer| !answer.is_error()).collect();
            assert_eq!(done, expected, "{port} {rules}: {answers:?}");
        }
        // A script runs by the rights of now, wherever that is.
        assert_eq!(ask(&mut tenant, &["SELECT", "3"]), "OK");
        assert_eq!(ask(&mut tenant, &read), "3", "{port}");
        change("-get");
        eventually("its script is refused", PATIENCE, || {
            ask(&mut tenant, &read).contains("can't run this command").then_some(())
        });
        // One guess a transaction.
        ask_all(&mut tenant, &["MULTI", "AUTH tenant x"]);
        assert!(tenant.call("AUTH tenant y").text().starts_with("ERR a transaction may log in only once"));
        assert!(tenant.call("EXEC").text().starts_with("EXECABORT "), "{port}");
    }
}

/// As a read, as a write, on a thread for scripts that take long, in EXEC and as a function.
#[test]
fn scripts_may_do_what_their_user_may_wherever_they_run() {
    const HIDDEN: &str = "xyz{app:1}";
    let dir = Dir::new("users-scripts");
    let server = Server::start(&Setup::bare(&dir.join("data")));
    let (mut admin, mut app) = (server.connect(), server.connect());
    let rules = ["~app:*", "-@all", "+@scripting", "+@transaction", "+get", "+set", "-function|load"];
    assert_eq!(ask(&mut admin, &[&["ACL", "SETUSER", "app", "on", ">secret"][..], &rules].concat()), "OK");
    let library =
        "#!lua name=l\nredis.register_function('run', function(_, words) return redis.call(unpack(words)) end)";
    assert_eq!(ask(&mut admin, &["FUNCTION", "LOAD", library]), "l");
    assert_eq!(ask(&mut admin, &["MSET", "app:1", "1", HIDDEN, "hidden"]), "OK");
    assert_eq!(ask(&mut app, &["AUTH", "app", "secret"]), "OK");
    assert!(ask(&mut app, &["FUNCTION", "LOAD", library]).starts_with("NOPERM "));
    let script = |rounds: u32| format!("for _ = 1, {rounds} do end return redis.call(unpack(ARGV))");
    let (short, long) = (script(0), script(10_000_000));
    let (no_key, no_command) = ("can't access at least one of the keys", "can't run this command or subcommand");
    // What writes is known to write from then on.
    for (words, expected) in [
        (&["GET", "app:1"][..], "1"),
        (&["GET", HIDDEN], no_key),
        (&["SET", HIDDEN, "2"], no_key),
        (&["INCR", "app:1"], no_command),
        (&["SET", "app:1", "1"], "OK"),
        (&["GET", HIDDEN], no_key),
        (&["INCR", "app:1"], no_command),
    ] {
        for run in [["EVAL", &short, "1", "app:1"], ["EVAL", &long, "1", "app:1"], ["FCALL", "run", "1", "app:1"]] {
            let request = [&run[..], words].concat();
            let found = ask(&mut app, &request);
            assert!(found.contains(expected), "{request:?}: {found}");
            assert_eq!(ask(&mut app, &["MULTI"]), "OK");
            assert_eq!(ask(&mut app, &request), "QUEUED");
            let found = ask(&mut app, &["EXEC"]);
            assert!(found.contains(expected), "{request:?} in EXEC: {found}");
        }
    }
    assert_eq!(ask(&mut admin, &["MGET", "app:1", HIDDEN]), "1 hidden");
    // Each refusal is in the log of the client's node once, wherever the script ran.
    let log = ask(&mut admin, &["ACL", "LOG"]);
    for refusal in [
        format!("count 18 reason key context lua object {HIDDEN} username app "),
        "count 12 reason command context lua object incr username app ".to_owned(),
    ] {
        assert!(log.contains(&refusal), "no `{refusal}` in {log}");
    }
    assert!(log.contains("cmd=fcall user=app") || log.contains("cmd=exec user=app"), "{log}");
    server.kill();
}

#[test]
fn operators_have_roles_and_what_they_do_is_noted() {
    let dir = Dir::new("users-roles");
    let log = dir.join("audit.log");
    let server = Server::start(&Setup::bare(&dir.join("data")).with("--set", "recovery-password=rescue"));
    let mut admin = server.connect();
    assert_eq!(ask(&mut admin, &["CONFIG", "SET", "audit-log", log.to_str().unwrap()]), "OK");
    let nowhere = dir.join("nowhere/audit.log");
    let refused = ask(&mut admin, &["CONFIG", "SET", "audit-log", nowhere.to_str().unwrap(), "timeout", "5"]);
    assert!(refused.starts_with("ERR CONFIG SET failed") && refused.contains("cannot be written"), "{refused}");
    let kept = admin.call("CONFIG GET audit-log").items()[1].text();
    assert_eq!(kept, log.to_str().unwrap(), "what was there before stays");
    assert_eq!(admin.call("CONFIG GET timeout").items()[1].text(), "0", "all are set, or none");
    let mistyped = ask(&mut admin, &["ACL", "SETUSER", "eyes", "on", "geheim"]);
    assert!(mistyped.contains("modifier 'geheim'"), "{mistyped}");
    assert_eq!(ask(&mut admin, &["ACL", "SETUSER", "eyes", "on", ">see", "+@role-read"]), "OK");
    assert_eq!(ask(&mut admin, &["ACL", "SETUSER", "hands", "on", ">do", "+@role-operate"]), "OK");
    let mut eyes = server.connect();
    assert_eq!(ask(&mut eyes, &["AUTH", "eyes", "see"]), "OK");
    assert!(ask(&mut eyes, &["KV.ADMIN", "STATUS"]).starts_with('{'));
    assert!(ask(&mut eyes, &["KV.ADMIN", "SETTINGS", "SET", "auto-split", "no"]).starts_with("NOPERM "));
    let mut hands = server.connect();
    assert!(ask(&mut hands, &["AUTH", "hands", "no"]).starts_with("WRONGPASS "));
    assert_eq!(ask(&mut hands, &["AUTH", "hands", "do"]), "OK");
    assert!(ask(&mut hands, &["KV.ADMIN", "PLAN", "APPLY", "balance-leaders"]).starts_with('{'));
    assert!(ask(&mut hands, &["KV.ADMIN", "SETTINGS", "SET", "auto-split", "no"]).starts_with("NOPERM "));
    assert!(ask(&mut hands, &["ACL", "LIST"]).starts_with("NOPERM "));
    // The way back in.
    assert_eq!(ask(&mut admin, &["ACL", "SETUSER", "default", "off"]), "OK");
    let mut locked = server.connect();
    assert!(ask(&mut locked, &["PING"]).starts_with("NOAUTH "));
    // It is `nopass`, and off.
    let refused = ask(&mut locked, &["AUTH", "wrong"]);
    assert!(refused.starts_with("ERR AUTH <password> called without any password"), "{refused}");
    assert_eq!(ask(&mut locked, &["AUTH", "rescue"]), "OK");
    assert_eq!(ask(&mut locked, &["ACL", "SETUSER", "default", "on"]), "OK");
    let noted = || {
        let text = std::fs::read_to_string(&log).ok()?;
        text.contains("acl|setuser default").then_some(text)
    };
    let text = eventually("the last line of the audit log", PATIENCE, noted);
    let moved = dir.join("audit.log.moved");
    std::fs::rename(&log, &moved).unwrap();
    server.signal("-HUP");
    let again = || {
        assert_eq!(ask(&mut locked, &["ACL", "SETUSER", "default", "on"]), "OK");
        log.exists().then_some(())
    };
    eventually("the audit log is opened again", PATIENCE, again);
    for line in [
        r#""kind":"user","user":"default","#,
        r#""what":"acl|setuser eyes","outcome":"done""#,
        r#""kind":"denied","user":"eyes","#,
        r#""kind":"login","user":"hands","#,
        r#""outcome":"refused","why":"wrong user or password""#,
        r#""kind":"plan","user":"hands","#,
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
    assert!(!text.contains("geheim"), "{text}");
    for secret in ["see", "rescue", ">do"] {
        assert!(
            !text.contains(&format!("\"{secret}\"")) && !text.contains(&format!(">{secret}")),
            "{secret} in\n{text}"
        );
    }
    assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{text}");
    server.kill();
}

/// EXEC is one entry of a shard, and users are the metadata group's: they change when the shard has answered, if it has run.
#[test]
fn a_transaction_changes_users_once_its_shard_has_answered() {
    let dir = Dir::new("users-multi");
    let (file, log) = (dir.join("users.acl"), dir.join("audit.log"));
    std::fs::write(&file, "").unwrap();
    let setup = Setup::bare(&dir.join("data")).with("--set", &format!("aclfile={}", file.display()));
    let server = Server::start(&setup);
    let (mut connection, mut other) = (server.connect(), server.connect());
    assert_eq!(ask(&mut connection, &["CONFIG", "SET", "audit-log", log.to_str().unwrap()]), "OK");
    let mut exec = |commands: &str| {
        let commands: Vec<Vec<&str>> = commands.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(ask(&mut connection, &["MULTI"]), "OK");
        for words in commands.iter().filter(|words| !words.is_empty()) {
            assert_eq!(ask(&mut connection, words), "QUEUED", "{words:?}");
        }
        ask(&mut connection, &["EXEC"])
    };
    let made = exec("ACL WHOAMI\nACL SETUSER app on nopass ~a -@all +get\nSET k 1\nACL USERS\nACL DRYRUN app GET a");
    assert_eq!(made, "default OK OK app default OK");
    // One that is refused takes nothing from the others.
    let some = exec("ACL SETUSER app +nosuch\nINCR k\nACL SETUSER app ~b\nACL DELUSER default\nACL DRYRUN app GET b");
    let refused = "ERR Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL";
    assert_eq!(some, format!("{refused} 2 OK ERR The 'default' user cannot be removed OK"));
    assert_eq!(exec("ACL SAVE"), "OK");
    assert!(std::fs::read_to_string(&file).unwrap().contains("user app on nopass ~a ~b "));
    assert_eq!(exec("ACL DELUSER app nosuch\nACL USERS"), "1 default");
    assert_eq!(exec("ACL LOAD\nACL USERS"), "OK app default");
    assert_eq!(ask(&mut other, &["AUTH", "app", "any"]), "OK");
    assert_eq!(exec("ACL DELUSER app"), "1");
    assert_eq!(ask(&mut other, &["GET", "a"]), "closed");
    // A watched key was written: nothing of it runs.
    let (mut watcher, mut writer) = (server.connect(), server.connect());
    for (words, answer) in [
        (&["WATCH", "k"][..], "OK"),
        (&["MULTI"], "OK"),
        (&["ACL", "SETUSER", "eve", "on"], "QUEUED"),
        (&["SET", "k", "mine"], "QUEUED"),
    ] {
        assert_eq!(ask(&mut watcher, words), answer, "{words:?}");
    }
    assert_eq!(ask(&mut writer, &["SET", "k", "theirs"]), "OK");
    assert_eq!(ask(&mut watcher, &["EXEC"]), "*-1");
    assert_eq!(ask(&mut watcher, &["ACL", "USERS"]), "default");
    let noted = || {
        let text = std::fs::read_to_string(&log).ok()?;
        (text.matches(r#""what":"acl|deluser app""#).count() == 1 && text.contains("acl|load")).then_some(text)
    };
    let text = eventually("the audit log has what transactions change", PATIENCE, noted);
    assert!(text.contains(r#""what":"acl|setuser app","outcome":"refused""#) && !text.contains("eve"), "{text}");
    server.kill();
}

#[test]
fn a_file_of_users_is_imported_and_written() {
    let dir = Dir::new("users-file");
    let file = dir.join("users.acl");
    std::fs::write(&file, "user alice on allcommands allkeys &* nopass\nuser bob on -@all +@set +acl ~set* nopass\n")
        .unwrap();
    let setup = Setup::bare(&dir.join("data")).with("--set", &format!("aclfile={}", file.display()));
    let server = Server::start(&setup);
    let mut connection = server.connect();
    wait_for(&mut connection, &["ACL", "USERS"], "alice bob default");
    assert_eq!(ask(&mut connection, &["ACL", "SETUSER", "eve", "on", "nopass", "+get", "~*"]), "OK");
    assert_eq!(ask(&mut connection, &["ACL", "SAVE"]), "OK");
    let saved = std::fs::read_to_string(&file).unwrap();
    assert!(saved.contains("user eve on nopass ~* resetchannels -@all +get\n"), "{saved}");
    assert!(!saved.contains("user default"), "its password is a setting: {saved}");
    assert_eq!(ask(&mut connection, &["ACL", "DELUSER", "eve", "bob"]), "2");
    assert_eq!(ask(&mut connection, &["ACL", "LOAD"]), "OK");
    assert_eq!(ask(&mut connection, &["ACL", "USERS"]), "alice bob default eve");
    // Those of the file do not come back by the next change.
    assert_eq!(ask(&mut connection, &["ACL", "DELUSER", "alice", "bob", "eve"]), "3");
    assert_eq!(ask(&mut connection, &["ACL", "USERS"]), "default");
    assert_eq!(ask(&mut connection, &["ACL", "SETUSER", "zoe", "on"]), "OK");
    assert_eq!(ask(&mut connection, &["ACL", "USERS"]), "default zoe");
    assert_eq!(ask(&mut connection, &["ACL", "DELUSER", "zoe"]), "1");
    assert_eq!(ask(&mut connection, &["ACL", "USERS"]), "default");
    std::fs::write(&file, "user alice on\nuser alice off\n").unwrap();
    assert!(ask(&mut connection, &["ACL", "LOAD"]).contains("Duplicate user 'alice' found"));
    server.kill();
    assert!(Server::try_start(&setup).is_err(), "a node does not start with a file that is wrong");
}
