#![allow(clippy::unwrap_used)]
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::fake_cluster::{Deed, FakeNode};

fn say(text: &str) -> Deed {
    Deed::Say(text.to_owned())
}

#[test]
fn a_request_goes_where_moved_says_and_the_client_stays_there() {
    let (old, new) = (FakeNode::start(), FakeNode::start());
    let moved = format!("-MOVED 1 {}\r\n", new.address);
    old.behave(move |_| say(&moved));
    new.behave(|_| say("+done\r\n"));
    let mut client = Client::connect(&old.address).unwrap();
    for _ in 0..2 {
        assert_eq!(client.call(&[b"SET", b"a", b"1"]).unwrap(), Value::Simple("done".to_owned()));
        assert_eq!(client.address(), &new.address);
    }
    assert_eq!((old.heard().len(), new.heard().len()), (1, 2));
    let back = format!("-MOVED 1 {}\r\n", old.address);
    new.behave(move |_| say(&back));
    let shown = client.call(&[b"GET", b"a"]).unwrap();
    assert!(
        matches!(&shown, Value::Error(text) if text.starts_with("MOVED")),
        "two that point at each other: {shown:?}"
    );
}

#[test]
fn what_was_refused_is_asked_again_until_it_is_not() {
    let node = FakeNode::start();
    let times = AtomicUsize::new(0);
    node.behave(move |_| match times.fetch_add(1, Ordering::Relaxed) {
        0 => say("-CLUSTERDOWN The cluster is down\r\n"),
        1 => say("-LOADING the data\r\n"),
        _ => say(":1\r\n"),
    });
    let mut client = Client::connect(&node.address).unwrap();
    assert_eq!(client.call(&[b"INCR", b"a"]).unwrap(), Value::Int(1));
}

#[test]
fn only_what_may_be_done_twice_is_asked_of_another_node() {
    let (one, two) = (FakeNode::start(), FakeNode::start());
    one.behave(|_| Deed::HangUp);
    two.behave(|_| say("+two\r\n"));
    let store = StoreUrl { seeds: vec![one.address.clone(), two.address.clone()], login: None, secure: None };
    let mut client = Client::open(&store).unwrap();
    assert!(client.call(&[b"SET", b"a", b"1"]).is_err());
    drop(one);
    assert_eq!(client.call_repeatable(&[b"GET", b"a"]).unwrap(), Value::Simple("two".to_owned()));
    assert_eq!(client.address(), &two.address);
}

#[test]
fn a_password_is_told_to_every_node() {
    let node = FakeNode::start();
    node.behave(|words| match words[0].as_str() {
        "AUTH" if words[1] == "right" => say("+OK\r\n"),
        "AUTH" => say("-WRONGPASS no\r\n"),
        _ => say("+fine\r\n"),
    });
    let open = |password: &str| Client::open(&format!("redis://:{password}@{}", node.address).parse().unwrap());
    assert_eq!(open("right").unwrap().call(&[b"PING"]).unwrap(), Value::Simple("fine".to_owned()));
    assert_eq!(open("wrong").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
}
