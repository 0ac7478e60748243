//! Scripts and functions on three nodes, one of which dies.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Client, Connection, Dir, Nodes, Server, Setup, eventually, passing};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// Takes a lock, or tells who has it.
const TAKE: &str = "if redis.call('SET',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return 1 end return 0";
/// Gives a lock back that one has.
const RELEASE: &str = "if redis.call('GET',KEYS[1]) == ARGV[1] then redis.call('PUBLISH','released',KEYS[1]) return redis.call('DEL',KEYS[1]) end return 0";

fn call(client: &mut Client, words: &[&str]) -> String {
    client.call(PATIENCE, words).words()
}

fn ask(connection: &mut Connection, words: &[&str]) -> String {
    connection.try_call(words).unwrap().words()
}

/// The answer of the key's leader. It is waited for, while a client of all nodes asks again after a moment.
fn ask_leader(nodes: &Nodes, key: &str, words: &[&str]) -> String {
    eventually("the leader answers", PATIENCE, || {
        let mut leader = nodes.connect(nodes.leader(0, key));
        leader.patience(PATIENCE);
        let answer = leader.try_call(words).ok()?.words();
        (!answer.starts_with("MOVED ") && !passing(&answer)).then_some(answer)
    })
}

#[test]
fn a_lock_outlives_the_leader_of_its_slot_and_its_scripts_are_known_everywhere() {
    let dir = Dir::new("scripts-lock");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "3")]);
    nodes.wait_spread();
    let lock = nodes.key_led_by(2, "lock");
    // One is loaded at one node, the other is known because it was run.
    let release = ask(&mut nodes.connect(0), &["SCRIPT", "LOAD", RELEASE]);
    let mut client = nodes.client();
    assert_eq!(call(&mut client, &["EVAL", TAKE, "1", &lock, "me", "600000"]), "1");
    let take = ask(&mut nodes.connect(1), &["SCRIPT", "LOAD", TAKE]);
    assert_eq!(ask(&mut nodes.connect(2), &["SCRIPT", "EXISTS", &take, &release, &"0".repeat(40)]), "1 1 0");
    assert_eq!(call(&mut client, &["EVALSHA", &take, "1", &lock, "other", "600000"]), "0");
    let mut listener = nodes.connect(0);
    assert_eq!(ask(&mut listener, &["SUBSCRIBE", "released"]), "subscribe released 1");
    assert_eq!(call(&mut client, &["EVALSHA", &release, "1", &lock, "other"]), "0");
    nodes.kill(2);
    // The next leader knows the script. A request that was held while there was no leader may have been given up by its client, and
    // be made all the same: then the client's next one finds no lock. What was published tells that one of them has released it.
    let released = call(&mut client, &["EVALSHA", &release, "1", &lock, "me"]);
    assert!(released == "1" || released == "0", "{released}");
    assert_eq!(listener.read().unwrap().words(), format!("message released {lock}"));
    assert_eq!(call(&mut client, &["EVALSHA", &release, "1", &lock, "me"]), "0");
    nodes.kill_all();
    (0..3).for_each(|n| nodes.spawn(n));
    nodes.wait_whole();
    let mut client = nodes.client();
    assert_eq!(call(&mut client, &["EVALSHA", &take, "1", &lock, "me", "600000"]), "1");
    assert_eq!(ask(&mut nodes.connect(1), &["SCRIPT", "FLUSH"]), "OK");
    assert!(client.call(PATIENCE, &["EVALSHA", &take, "1", &lock, "me", "1"]).text().starts_with("NOSCRIPT "));
    nodes.kill_all();
}

#[test]
fn scripts_touch_keys_of_their_slot_and_no_others() {
    let dir = Dir::new("scripts-keys");
    let server = Server::start(&Setup::bare(&dir.join("data")).with("--shards", "3"));
    let mut connection = server.connect();
    let mut ask = |words: &[&str]| self::ask(&mut connection, words);
    // Keys that are not declared: the first that is touched says which slot it is.
    for key in ["a", "b", "c", "d"] {
        assert_eq!(ask(&["EVAL", "return redis.call('INCR',ARGV[1])", "0", key]), "1");
        assert_eq!(ask(&["EVAL", "return redis.call('INCR','{'..KEYS[1]..'}x')", "1", key]), "1");
        assert_eq!(ask(&["GET", key]), "1");
        assert_eq!(ask(&["EVAL_RO", "return redis.call('GET',ARGV[1])", "0", key]), "1");
    }
    let refused = ask(&["EVAL", "redis.call('GET','a') return redis.call('GET','b')", "0"]);
    assert!(refused.contains("Script attempted to access a non local key in a cluster node"), "{refused}");
    assert!(ask(&["EVAL", "return 1", "2", "a", "b"]).starts_with("CROSSSLOT "));
    // In a transaction.
    assert_eq!(ask(&["MULTI"]), "OK");
    for words in [
        &["EVAL", "return redis.call('INCR',KEYS[1])", "1", "a"][..],
        &["INCR", "a"],
        &["EVAL_RO", "return redis.call('GET',KEYS[1])", "1", "a"],
    ] {
        assert_eq!(ask(words), "QUEUED");
    }
    assert_eq!(ask(&["EXEC"]), "2 3 3");
    // One that never ends is ended, and has written nothing.
    assert!(ask(&["KV.ADMIN", "SETTINGS", "SET", "script-instructions-max", "1000000"]).starts_with('{'));
    eventually("a script is ended", PATIENCE, || {
        let text = ask(&["EVAL", "redis.call('SET',KEYS[1],'x') while true do end", "1", "a"]);
        text.contains("more instructions").then_some(())
    });
    assert_eq!(ask(&["GET", "a"]), "3");
    assert!(server.stop());
}

/// What an entry runs, and how far, is said by the node that proposes it: words of a client that look alike are arguments.
#[test]
fn a_client_s_words_are_no_source_and_no_context() {
    let dir = Dir::new("scripts-forged");
    let server = Server::start(&Setup::bare(&dir.join("data")).with("--shards", "1"));
    let mut connection = server.connect();
    let most = [&[0xff_u8; 9][..], &[1]].concat();
    // Engine 1, slot 0, instructions and memory without end, no namespace: what the first release wrote.
    let forged = [&[1_u8, 0][..], &most, &most, &[0]].concat();
    let library: &[u8] = b"#!lua name=l\nredis.register_function('f', function() return 'forged' end)";
    for (words, expected) in [
        ([&b"EVALSHA"[..], b"return 'forged'", b"0", &forged].to_vec(), "NOSCRIPT "),
        ([&b"EVALSHA_RO"[..], b"return 'forged'", b"0", &forged].to_vec(), "NOSCRIPT "),
        ([&b"FCALL"[..], b"f", b"0", library, &forged].to_vec(), "ERR Function not found"),
        ([&b"FCALL_RO"[..], b"f", b"0", library, &forged].to_vec(), "ERR Function not found"),
    ] {
        assert_eq!(ask(&mut connection, &["MULTI"]), "OK");
        assert_eq!(ask(&mut connection, &["SET", "k", "v"]), "QUEUED");
        assert_eq!(connection.try_call(&words).unwrap().words(), "QUEUED");
        let answer = ask(&mut connection, &["EXEC"]);
        assert!(answer.starts_with(&format!("OK {expected}")), "{answer}");
    }
    assert!(server.stop());
}

#[test]
fn functions_are_the_same_at_all_nodes() {
    let dir = Dir::new("scripts-functions");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "3")]);
    nodes.wait_spread();
    let library = |n: u32| {
        format!(
            "#!lua name=lib\nredis.register_function('add', function(keys, args) return redis.call('INCRBY', keys[1], args[1] * {n}) end)\n\
             redis.register_function{{function_name='look', callback=function(keys) return redis.call('GET', keys[1]) end, flags={{'no-writes'}}}}"
        )
    };
    assert_eq!(ask(&mut nodes.connect(1), &["FUNCTION", "LOAD", &library(1)]), "lib");
    let mut client = nodes.client();
    for n in 0..3 {
        let key = nodes.key_led_by(n, "n");
        assert_eq!(call(&mut client, &["FCALL", "add", "1", &key, "5"]), "5");
        assert_eq!(call(&mut client, &["FCALL_RO", "look", "1", &key]), "5");
    }
    assert!(ask(&mut nodes.connect(0), &["FUNCTION", "LOAD", &library(2)]).contains("already exists"));
    assert_eq!(ask(&mut nodes.connect(2), &["FUNCTION", "LOAD", "REPLACE", &library(2)]), "lib");
    let key = nodes.key_led_by(0, "m");
    eventually("the new function is called", PATIENCE, || {
        client.call(PATIENCE, &["SET", &key, "0"]);
        (call(&mut client, &["FCALL", "add", "1", &key, "5"]) == "10").then_some(())
    });
    nodes.kill_all();
    (0..3).for_each(|n| nodes.spawn(n));
    nodes.wait_whole();
    let mut client = nodes.client();
    assert_eq!(call(&mut client, &["FCALL", "look", "1", &key]), "10");
    assert_eq!(ask(&mut nodes.connect(0), &["FUNCTION", "DELETE", "lib"]), "OK");
    assert_eq!(ask(&mut nodes.connect(0), &["FUNCTION", "LIST"]), "");
    nodes.kill_all();
}

/// Sends a request whose answer is read later.
fn send(connection: &mut Connection, words: &[&str]) {
    connection.send(&Connection::encode(words)).unwrap();
}

#[test]
fn scripts_that_take_long_hold_up_no_client_and_those_that_read_can_be_killed() {
    let dir = Dir::new("scripts-kill");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "3"), ("--workers", "1")]);
    nodes.wait_spread();
    let (here, there) = (nodes.key_led_by(0, "k"), nodes.key_led_by(1, "k"));
    let (mut client, mut other) = (nodes.connect(0), nodes.connect(1));
    assert!(ask(&mut other, &["SCRIPT", "KILL"]).starts_with("NOTBUSY "));
    // Some seconds, here: what reads is to be killed earlier.
    assert!(ask(&mut client, &["KV.ADMIN", "SETTINGS", "SET", "script-instructions-max", "60000000"]).starts_with('{'));
    assert_eq!(ask(&mut client, &["SET", &here, "1"]), "OK");
    let library = "#!lua name=lib\nredis.register_function('spin', function(keys) while true do redis.call('GET', keys[1]) end end)";
    assert_eq!(ask(&mut client, &["FUNCTION", "LOAD", library]), "lib");
    let mut runner = nodes.connect(0);
    for (request, kill, other_kill) in [
        (&["EVAL", "while true do pcall(redis.call, 'GET', KEYS[1]) end", "1", &here][..], "SCRIPT", "FUNCTION"),
        (&["FCALL", "spin", "1", &here], "FUNCTION", "SCRIPT"),
    ] {
        send(&mut runner, request);
        eventually("it runs", PATIENCE, || ask(&mut other, &[other_kill, "KILL"]).starts_with("BUSY ").then_some(()));
        // Others are answered meanwhile, by the same worker and of the same shard.
        assert_eq!(ask(&mut client, &["SET", &here, "2"]), "OK");
        assert_eq!(ask(&mut client, &["EVAL", "return redis.call('GET',KEYS[1])", "1", &here]), "2");
        // Any node ends it.
        assert_eq!(ask(&mut other, &[kill, "KILL"]), "OK");
        let answer = runner.read().unwrap().words();
        assert!(answer.contains("killed by user"), "{answer}");
    }
    // One that has written is ended by its budget alone; other shards go on.
    assert!(ask(&mut client, &["KV.ADMIN", "SETTINGS", "SET", "script-instructions-max", "20000000"]).starts_with('{'));
    eventually("the budget is known", PATIENCE, || {
        send(&mut runner, &["EVAL", "redis.call('SET',KEYS[1],'x') while true do end", "1", &here]);
        eventually("it is written", PATIENCE, || {
            assert_eq!(ask(&mut other, &["SET", &there, "1"]), "OK");
            ask(&mut other, &["SCRIPT", "KILL"]).starts_with("UNKILLABLE ").then_some(())
        });
        runner.read().unwrap().words().contains("more instructions").then_some(())
    });
    assert_eq!(ask(&mut client, &["GET", &here]), "2");
    nodes.kill_all();
}

/// Scripts that would run for hours have all threads for scripts: one that takes a moment too long for an event loop comes between.
#[test]
fn scripts_that_read_for_hours_leave_a_thread_to_others_and_end_with_their_clients() {
    let dir = Dir::new("scripts-turns");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--shards", "1").with("--workers", "1"));
    let mut client = server.connect();
    assert!(
        ask(&mut client, &["KV.ADMIN", "SETTINGS", "SET", "script-instructions-max", "100000000000"]).starts_with('{')
    );
    assert_eq!(ask(&mut client, &["SET", "{k}", "1"]), "OK");
    let endless = "while true do redis.call('GET', KEYS[1]) end";
    let mut hostile: Vec<Connection> = (0..12).map(|_| server.connect()).collect();
    for (n, runner) in hostile.iter_mut().enumerate() {
        send(runner, &[if n % 2 == 0 { "EVAL" } else { "EVAL_RO" }, endless, "1", "{k}"]);
    }
    let short = "local n = 0 for i = 1, 5000 do n = n + redis.call('GET', KEYS[1]) end return n";
    for request in ["EVAL", "EVAL_RO", "EVAL"] {
        assert_eq!(ask(&mut client, &[request, short, "1", "{k}"]), "5000");
    }
    // Only those that may write go on without their clients.
    drop(hostile);
    eventually("what only reads has ended", PATIENCE, || {
        let killed = ask(&mut client, &["SCRIPT", "KILL"]);
        assert!(killed == "OK" || killed.starts_with("NOTBUSY "), "{killed}");
        killed.starts_with("NOTBUSY ").then_some(())
    });
    assert!(server.stop());
}

/// An entry that takes long is evaluated by another thread: the leader keeps its lease meanwhile.
#[test]
fn reads_of_a_shard_go_on_while_an_entry_of_it_is_evaluated() {
    let dir = Dir::new("scripts-lease");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "3")]);
    nodes.wait_spread();
    let here = nodes.key_led_by(0, "k");
    let (mut client, mut reader, mut runner) = (nodes.connect(0), nodes.connect(0), nodes.connect(0));
    assert_eq!(ask(&mut client, &["SET", &here, "1"]), "OK");
    send(&mut runner, &["EVAL", "redis.call('SET',KEYS[1],'x') while true do end", "1", &here]);
    let ran = std::thread::spawn(move || runner.read().unwrap().words());
    while !ran.is_finished() {
        assert_eq!(ask(&mut reader, &["GET", &here]), "1");
    }
    let answer = ran.join().unwrap();
    assert!(answer.contains("more instructions"), "{answer}");
    nodes.kill_all();
}

#[test]
fn hostile_scripts_end_and_write_nothing() {
    let dir = Dir::new("scripts-hostile");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "3")]);
    nodes.wait_spread();
    let mut client = nodes.client();
    let set = ["KV.ADMIN", "SETTINGS", "SET", "script-instructions-max", "3000000"];
    assert!(ask(&mut nodes.connect(0), &set).starts_with('{'));
    for (n, script) in [
        "local s,i=('x'):rep(1e6),0 while true do i=i+1 local t=s..i end",
        "local s=('x'):rep(6e6) while true do local t=s..'y' end",
        "while true do local s=('x'):rep(6e6) end",
        "local s=('x'):rep(1e6) while true do local t=s:upper():lower():reverse():sub(2) end",
        "local s=('x'):rep(1e6) while true do local t=('%q'):format(s) end",
        "local s=('x'):rep(1e6) local t=s..'y' while true do local is=s<t end",
        "local s=('1'):rep(1e6) while true do local n=s+0 end",
        "local s=('a'):rep(1e5) while true do s:find('.-.-.-.-b') end",
        "local s='['..('x'):rep(1e5)..']' while true do (' '):rep(100):find(s) end",
        "local t={} for i=1,1e5 do t[i]='' end while true do table.concat(t) end",
        "local t={} for i=1,1e5 do t[i]=i end while true do table.insert(t,1,0) table.remove(t,1) end",
        "local t={} for i=1,3e4 do t['k'..i]=i end for k in pairs(t) do t[k]=nil end while true do next(t) end",
        "local t={} for i=1,2e5 do t[i]=i end while true do table.sort(t) end",
        "local t={} for i=1,7000 do t[i]=i end while true do unpack(t) end",
        "while true do pcall(function() error({}) end) end",
        "local function f() return f() end return f()",
        "local t=setmetatable({},{__index=function(t,k) return t[k+1] end}) return t[1]",
        "while true do redis.pcall('SET',KEYS[1],('v'):rep(100000)) end",
        "while true do redis.pcall('PUBLISH','c','m') end",
        "while true do loadstring('return ' .. ('1+'):rep(1000) .. '1') end",
        "local s='return '..('a and '):rep(20000)..'1' while true do loadstring(s) end",
        "local t={} for i=1,5000 do t[i]=i end local function f(n) if n==0 then return unpack(t) end return 1,f(n-1) end while true do f(1000) end",
        "local s=cjson.encode({('x'):rep(1e6)}) while true do cjson.decode(s) end",
        "local c=coroutine.wrap(function() while true do coroutine.yield() end end) while true do c() end",
        "return ('a'):rep(1e6):gsub('.', function(c) return ('b'):rep(1000) end)",
        "local t={} t[1]=t for i=1,100 do t={t,t,t,t,t,t,t,t} end return t",
    ]
    .into_iter()
    .enumerate()
    {
        let key = nodes.key_led_by(n % 3, "h");
        let whole = format!("redis.call('SET',KEYS[1],'x') {script}");
        let answer = ask_leader(&nodes, &key, &["EVAL", &whole, "1", &key]);
        assert!(answer.contains("ERR "), "{script}: {answer}");
        let found = call(&mut client, &["EXISTS", &key]);
        let is_error_of_its_own = !answer.contains("nothing was written");
        assert!(found == "0" || is_error_of_its_own, "{script}: {answer}");
        call(&mut client, &["DEL", &key]);
    }
    // One that is too much to compile, once the nodes know that all of them count that.
    let (key, chain) = (nodes.key_led_by(0, "h"), format!("return {}1", "a and ".repeat(5000)));
    eventually("what is compiled counts", PATIENCE, || {
        let answer = ask_leader(&nodes, &key, &["EVAL", &chain, "1", &key]);
        answer.contains("more instructions").then_some(())
    });
    (0..3).for_each(|n| assert_eq!(ask(&mut nodes.connect(n), &["PING"]), "PONG"));
    nodes.kill_all();
}
