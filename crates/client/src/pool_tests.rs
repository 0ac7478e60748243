#![allow(clippy::unwrap_used)]
use super::*;
use crate::fake_cluster::{Deed, FakeNode, one_shard, slots};
use crate::nodes::RUN;

fn say(text: &str) -> Deed {
    Deed::Say(text.to_owned())
}

/// A server that is no cluster, and does `then` with other requests.
fn alone(then: impl Fn(&[String]) -> Deed + Send + Sync + 'static) -> FakeNode {
    let node = FakeNode::start();
    node.behave(move |words| match words[0].as_str() {
        "CLUSTER" => say("-ERR This instance has cluster support disabled\r\n"),
        _ => then(words),
    });
    node
}

/// It answers the map as `map`, and with its name else.
fn member(node: &FakeNode, name: &'static str, map: String) {
    node.behave(move |words| match words[0].as_str() {
        "CLUSTER" => say(&map),
        "READONLY" => say("+OK\r\n"),
        _ => say(&format!("+{name}\r\n")),
    });
}

fn options() -> PoolOptions {
    PoolOptions { connections: 1, timeout: Duration::from_secs(30), read_from: ReadFrom::Leader, greetings: Vec::new() }
}

fn pool(node: &FakeNode) -> Pool {
    Pool::open(&node.address.clone().into(), options()).unwrap()
}

fn pool_any(seeds: &[&FakeNode]) -> Pool {
    let store = StoreUrl { seeds: seeds.iter().map(|node| node.address.clone()).collect(), login: None, secure: None };
    Pool::open(&store, PoolOptions { read_from: ReadFrom::Any, ..options() }).unwrap()
}

fn ask(pool: &mut Pool, token: u32, access: Access) {
    let name: &[u8] = if access == Access::Read { b"GET" } else { b"SET" };
    pool.request(Ask { client: 0, token, key: Some(b"a"), access, arguments: 2 }).arg(name).arg(b"a");
}

/// Waits for `count` answers and shows them.
fn answers(pool: &mut Pool, count: usize) -> Vec<String> {
    let mut shown = Vec::new();
    while shown.len() < count {
        let until = Some(Instant::now() + Duration::from_secs(5));
        pool.wait(until, &mut |token, answer, _| {
            shown.push(match answer {
                Answer::Reply(Frame::Bulk(bytes)) => format!("{token} bulk of {}", bytes.len()),
                Answer::Reply(Frame::Simple(text)) => format!("{token} {}", String::from_utf8_lossy(text)),
                Answer::Reply(other) => format!("{token} {other:?}"),
                Answer::Again(failure) => format!("{token} again: {}", failure.name()),
                Answer::Failed(failure) => format!("{token} unknown: {}", failure.name()),
            });
        })
        .unwrap();
    }
    shown
}

/// The answer to a request that is repeated as long as it may be.
fn insist(pool: &mut Pool, access: Access) -> String {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        ask(pool, 0, access);
        let answer = answers(pool, 1).remove(0);
        if !answer.contains("again") || Instant::now() > end {
            return answer;
        }
    }
}

#[test]
fn replies_come_back_in_order_whatever_their_size() {
    let node = alone(|words| match words[1].as_str() {
        "b" => say(&format!("$600000\r\n{}\r\n", "x".repeat(600_000))),
        "c" => say("*1\r\n:5\r\n"),
        _ => say("$1\r\n1\r\n"),
    });
    let mut pool = pool(&node);
    for (token, key) in [(7, b"a"), (8, b"b"), (9, b"c")] {
        let ask = Ask { client: 0, token, key: Some(key), access: Access::Read, arguments: 2 };
        pool.request(ask).arg(b"GET").arg(key);
    }
    let shown = answers(&mut pool, 3);
    assert_eq!(shown[..2], ["7 bulk of 1", "8 bulk of 600000"]);
    assert!(shown[2].starts_with("9 Nested"), "{}", shown[2]);
}

#[test]
fn a_broken_connection_tells_what_may_be_done_again() {
    let node = alone(|words| if words[0] == "SET" { Deed::HangUp } else { say("+one\r\n") });
    let mut pool = pool(&node);
    for (token, access) in [(1, Access::Read), (2, Access::Write), (3, Access::Repeatable), (4, Access::Read)] {
        ask(&mut pool, token, access);
    }
    let expected = ["1 one", "2 unknown: disconnected", "3 again: disconnected", "4 again: disconnected"];
    assert_eq!(answers(&mut pool, 4), expected);
    ask(&mut pool, 5, Access::Read);
    assert_eq!(answers(&mut pool, 1), ["5 one"], "it is made again");
}

#[test]
fn a_request_without_an_answer_times_out() {
    let node = alone(|_| Deed::Nothing);
    let mut pool =
        Pool::open(&node.address.clone().into(), PoolOptions { timeout: Duration::from_millis(100), ..options() })
            .unwrap();
    ask(&mut pool, 4, Access::Write);
    ask(&mut pool, 5, Access::Read);
    assert_eq!(answers(&mut pool, 2), ["4 unknown: timeout", "5 again: timeout"]);
}

#[test]
fn what_never_left_was_not_done() {
    let mut node = alone(|_| Deed::Nothing);
    let mut pool = pool(&node);
    node.kill();
    ask(&mut pool, 5, Access::Write);
    assert_eq!(answers(&mut pool, 1), ["5 again: unreachable"]);
}

#[test]
fn moved_changes_the_slot_at_once_and_then_the_map() {
    let (old, new) = (FakeNode::start(), FakeNode::start());
    let map = slots(&[(0, 16383, &[&old.address])]);
    let (moved, fresh) = (format!("-MOVED 15495 {}\r\n", new.address), slots(&[(0, 16383, &[&new.address])]));
    member(&new, "new", fresh.clone());
    old.behave(move |words| if words[0] == "CLUSTER" { say(&map) } else { say(&moved) });
    let mut pool = pool(&old);
    ask(&mut pool, 6, Access::Write);
    assert_eq!(answers(&mut pool, 1), ["6 again: MOVED"]);
    let led = |pool: &Pool, slot: u16| pool.map().nodes()[pool.map().leader(Slot(slot))].clone();
    assert_eq!((led(&pool, 15495), led(&pool, 0)), (new.address.clone(), old.address.clone()));
    ask(&mut pool, 7, Access::Write);
    assert_eq!(answers(&mut pool, 1), ["7 new"]);
    member(&old, "old", fresh);
    while led(&pool, 0) == old.address {
        pool.wait(Some(Instant::now() + Duration::from_millis(20)), &mut |_, _, _| {}).unwrap();
    }
}

#[test]
fn any_reads_are_spread_and_the_connections_say_readonly() {
    let nodes = [FakeNode::start(), FakeNode::start(), FakeNode::start()];
    let [a, b, c] = &nodes;
    let map = one_shard(&[(&a.address, "master"), (&b.address, "replica"), (&c.address, "replica")]);
    nodes.iter().zip(["a", "b", "c"]).for_each(|(node, name)| member(node, name, map.clone()));
    let mut pool = pool_any(&[a]);
    let reads = 3 * RUN as u32;
    (0..reads).for_each(|token| ask(&mut pool, token, Access::Read));
    (0..10).for_each(|token| ask(&mut pool, reads + token, Access::Write));
    answers(&mut pool, reads as usize + 10);
    for node in &nodes {
        let heard = node.heard();
        assert_eq!(heard[0], "READONLY");
        assert_eq!(heard.iter().filter(|line| *line == "GET a").count(), RUN, "{heard:?}");
    }
    assert_eq!(a.heard().iter().filter(|line| *line == "SET a").count(), 10, "writes go to the leader");
}

#[test]
fn any_reads_go_on_when_a_node_dies_is_paused_and_comes_back() {
    let mut nodes = [FakeNode::start(), FakeNode::start(), FakeNode::start()];
    let map = {
        let [a, b, c] = &nodes;
        one_shard(&[(&a.address, "master"), (&b.address, "replica"), (&c.address, "replica")])
    };
    nodes.iter().zip(["a", "b", "c"]).for_each(|(node, name)| member(node, name, map.clone()));
    let mut pool = pool_any(&[&nodes[1], &nodes[0]]);
    let names =
        |pool: &mut Pool| (0..3 * RUN).map(|_| insist(pool, Access::Read)).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(names(&mut pool).len(), 3);
    nodes[0].kill();
    assert!(names(&mut pool).is_subset(&["0 b".to_owned(), "0 c".to_owned()].into()));
    nodes[1].pause(true);
    assert_eq!(insist(&mut pool, Access::Read), "0 c");
    assert!((0..RUN).all(|_| insist(&mut pool, Access::Read) == "0 c"), "a silent node is not asked");
    nodes[1].pause(false);
    let again = FakeNode::start_at(&nodes[0].address.to_string());
    member(&again, "back", map);
    let mut seen = std::collections::BTreeSet::new();
    let end = Instant::now() + Duration::from_secs(10);
    while seen.len() < 3 && Instant::now() < end {
        seen.extend(names(&mut pool));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["0 b", "0 back", "0 c"]);
}

#[test]
fn a_write_finds_the_heir_of_a_dead_or_silent_leader() {
    for dies in [true, false] {
        let (mut old, new) = (FakeNode::start(), FakeNode::start());
        let map = slots(&[(0, 16383, &[&old.address, &new.address])]);
        member(&old, "old", map.clone());
        let down = "-CLUSTERDOWN The cluster is down\r\n";
        new.behave(move |words| if words[0] == "CLUSTER" { say(&map) } else { say(down) });
        let mut pool = pool(&old);
        assert_eq!(insist(&mut pool, Access::Write), "0 old");
        if dies {
            old.kill()
        } else {
            old.pause(true)
        }
        ask(&mut pool, 1, Access::Read);
        ask(&mut pool, 2, Access::Write);
        if dies {
            let lost = answers(&mut pool, 2);
            assert!(lost[0].contains("again") && !lost[1].contains("2 old"), "{lost:?}");
        } else {
            old.wait_for("SET a");
        }
        // The heir's map is stale at first, then it knows.
        let fresh = slots(&[(0, 16383, &[&new.address])]);
        member(&new, "new", fresh);
        if !dies {
            assert_eq!(answers(&mut pool, 1), ["1 again: MOVED"], "the read need not wait for the silent one");
        }
        assert_eq!(insist(&mut pool, Access::Repeatable), "0 new");
    }
}

#[test]
fn refusals_may_be_made_again_and_other_errors_are_replies() {
    for (said, shown) in [
        ("-CLUSTERDOWN Hash slot not served\r\n", "1 again: CLUSTERDOWN"),
        ("-LOADING dataset\r\n", "1 again: LOADING"),
        ("-TRYAGAIN later\r\n", "1 again: LOADING"),
        ("-TIMEOUT not confirmed in time\r\n", "1 unknown: timeout"),
        ("-MOVED 99999 nowhere\r\n", "1 again: MOVED"),
        ("-ERR MOVED is part of the text\r\n", "1 Error"),
    ] {
        let node = alone(move |_| say(said));
        let mut pool = pool(&node);
        ask(&mut pool, 1, Access::Write);
        assert!(answers(&mut pool, 1)[0].starts_with(shown), "{said}");
    }
}

#[test]
fn greetings_come_first_and_a_refused_one_ends_it() {
    let node = alone(|words| match words[0].as_str() {
        "AUTH" if words[1..] == ["me", "right"] => say("+OK\r\n"),
        "AUTH" => say("-WRONGPASS invalid username-password pair\r\n"),
        _ => say("+fine\r\n"),
    });
    let open = |password: &str, greetings| {
        let url: StoreUrl = format!("redis://me:{password}@{}", node.address).parse().unwrap();
        Pool::open(&url, PoolOptions { greetings, ..options() })
    };
    let greeting = Greeting { args: vec![b"KV.DURABILITY".to_vec(), b"nosync".to_vec()], must: true };
    let mut pool = open("right", vec![greeting]).unwrap();
    ask(&mut pool, 1, Access::Read);
    assert_eq!(answers(&mut pool, 1), ["1 fine"]);
    assert_eq!(node.heard()[1..], ["AUTH me right", "KV.DURABILITY nosync", "GET a"]);
    assert_eq!(open("wrong", Vec::new()).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    let refused = Greeting { args: vec![b"AUTH".to_vec(), b"x".to_vec()], must: true };
    let mut pool = open("right", vec![refused]).unwrap();
    ask(&mut pool, 1, Access::Read);
    let end = Instant::now() + Duration::from_secs(5);
    let error = loop {
        match pool.wait(Some(end), &mut |_, _, _| {}) {
            Err(error) => break error.to_string(),
            Ok(()) => assert!(Instant::now() < end),
        }
    };
    assert!(error.contains("AUTH") && error.contains("WRONGPASS"), "{error}");
}
