//! What a client, or a web page that drives a browser, cannot do to a node.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Dir, Server, Setup, Value};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// All that the node answers to `bytes` before it closes the connection.
fn answer_until_closed(server: &Server, bytes: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // The node may close while the rest is sent.
    let _ = stream.write_all(bytes.as_bytes());
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn a_browsers_request_ends_the_connection_and_runs_nothing() {
    let dir = Dir::new("doors-http");
    let server = Server::start(&Setup::new(&dir.join("data")));
    let mut connection = server.connect();
    assert_eq!(connection.call("SET key value"), Value::ok());
    for head in ["POST / HTTP/1.1\r\n", "post / HTTP/1.1\r\n", "Host: example\r\n", "GET key\r\nhOsT: example\r\n"] {
        let answer = answer_until_closed(&server, &format!("{head}\r\nFLUSHALL\r\nFLUSHALL\r\n"));
        assert!(!answer.contains("+OK"), "{head:?}: {answer:?}");
        assert_eq!(connection.call("GET key"), Value::Bulk(b"value".to_vec()), "after {head:?}");
    }
    assert!(server.messages().contains("WARN"), "the log tells: {}", server.messages());
    assert!(server.stop());
}

#[test]
fn limits_hold_within_a_transaction() {
    let dir = Dir::new("doors-multi");
    let server = Server::start(&Setup::new(&dir.join("data")));
    let mut connection = server.connect();
    let key = "k".repeat(65_535);
    assert_eq!(connection.call("MULTI"), Value::ok());
    let refused = connection.try_call(&["SET", &key, "value"]).unwrap().text();
    assert!(refused.contains("key is too long"), "{refused}");
    assert!(connection.call("EXEC").text().starts_with("EXECABORT"));
    // What changes how many answers there are is refused where their number is fixed.
    assert_eq!(connection.call("MULTI"), Value::ok());
    assert!(matches!(connection.call("CLIENT REPLY OFF"), Value::Error(_)));
    assert!(connection.call("EXEC").text().starts_with("EXECABORT"));
    assert_eq!(connection.call("KEYS *").items().len(), 0);
    assert!(server.stop());
}

#[test]
fn secrets_are_hidden_and_names_are_bounded() {
    let dir = Dir::new("doors-secrets");
    let server = Server::start(&Setup::new(&dir.join("data")));
    let mut connection = server.connect();
    assert!(matches!(connection.try_call(&["CLIENT", "SETNAME", &"n".repeat(2048)]).unwrap(), Value::Error(_)));
    assert_eq!(connection.call("CONFIG SET requirepass hunter2"), Value::ok());
    let shown = format!("{:?}", connection.call("CONFIG GET *"));
    assert!(shown.contains("requirepass") && !shown.contains("hunter2"), "{shown}");
    assert!(server.stop());
}
