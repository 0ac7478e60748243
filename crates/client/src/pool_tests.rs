#![allow(clippy::unwrap_used)]
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;

/// A server that follows a script: for each connection in turn, what it waits to receive and what it then sends.
type Script = Vec<Vec<(&'static str, Vec<u8>)>>;

fn serve(script: Script) -> (Address, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let thread = std::thread::spawn(move || {
        for steps in script {
            let (mut stream, _) = listener.accept().unwrap();
            for (expected, answer) in steps {
                let mut received = vec![0; expected.len()];
                stream.read_exact(&mut received).unwrap();
                assert_eq!(String::from_utf8_lossy(&received), expected);
                stream.write_all(&answer).unwrap();
            }
            // The connection ends with its script, when the other side is done with it.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read(&mut [0]);
        }
    });
    (address, thread)
}

const SLOTS: &str = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";
const GET_A: &str = "*2\r\n$3\r\nGET\r\n$1\r\na\r\n";

/// A server that is no cluster.
fn alone() -> Vec<(&'static str, Vec<u8>)> {
    vec![(SLOTS, b"-ERR This instance has cluster support disabled\r\n".to_vec())]
}

fn pool(address: &Address) -> Pool {
    impatient_pool(address, Duration::from_secs(30))
}

fn impatient_pool(address: &Address, timeout: Duration) -> Pool {
    Pool::open(address, PoolOptions { clients: 1, timeout }).unwrap()
}

fn ask(pool: &mut Pool, token: u32) {
    pool.request(0, b"a", token, 2).arg(b"GET").arg(b"a");
}

/// Waits for `count` answers and shows them.
fn answers(pool: &mut Pool, count: usize) -> Vec<String> {
    let mut shown = Vec::new();
    while shown.len() < count {
        let until = Some(Instant::now() + Duration::from_secs(5));
        pool.wait(until, &mut |token, answer, _| {
            shown.push(match answer {
                Answer::Reply(Frame::Bulk(bytes)) => format!("{token} bulk of {}", bytes.len()),
                Answer::Reply(other) => format!("{token} {other:?}"),
                Answer::Moved => format!("{token} moved"),
                Answer::Failed(failure) => format!("{token} {}", failure.name()),
            });
        })
        .unwrap();
    }
    shown
}

#[test]
fn replies_come_back_in_order_whatever_their_size() {
    let large = [format!("${}\r\n", 600_000).into_bytes(), vec![b'x'; 600_000], b"\r\n".to_vec()].concat();
    let both = [GET_A, GET_A, GET_A].concat();
    let replies = [b"$1\r\n1\r\n".to_vec(), large, b"*1\r\n:5\r\n".to_vec()].concat();
    let (address, server) = serve(vec![alone(), vec![(both.leak(), replies)]]);
    let mut pool = pool(&address);
    (7..10).for_each(|token| ask(&mut pool, token));
    let shown = answers(&mut pool, 3);
    assert_eq!(shown[..2], ["7 bulk of 1", "8 bulk of 600000"]);
    assert!(shown[2].starts_with("9 Nested"), "{}", shown[2]);
    drop(pool);
    server.join().unwrap();
}

#[test]
fn a_broken_connection_fails_what_waits_and_is_made_again() {
    let twice = [GET_A, GET_A].concat();
    let script = vec![alone(), vec![(twice.leak(), b"+one\r\n".to_vec())], vec![(GET_A, b"+two\r\n".to_vec())]];
    let (address, server) = serve(script);
    let mut pool = pool(&address);
    ask(&mut pool, 1);
    ask(&mut pool, 2);
    assert_eq!(answers(&mut pool, 2)[1], "2 disconnected");
    ask(&mut pool, 3);
    let shown = answers(&mut pool, 1);
    assert!(shown[0].starts_with("3 Simple"), "{shown:?}");
    drop(pool);
    server.join().unwrap();
}

#[test]
fn a_request_without_an_answer_times_out() {
    let (address, server) = serve(vec![alone(), vec![(GET_A, Vec::new()), ("never", Vec::new())]]);
    let mut pool = impatient_pool(&address, Duration::from_millis(100));
    ask(&mut pool, 4);
    assert_eq!(answers(&mut pool, 1), ["4 timeout"]);
    drop(pool);
    assert!(server.join().is_err(), "the script waits for what never comes");
}

#[test]
fn nothing_listens() {
    let (address, server) = serve(vec![alone()]);
    let mut pool = pool(&address);
    server.join().unwrap();
    ask(&mut pool, 5);
    assert_eq!(answers(&mut pool, 1), ["5 unreachable"]);
}

#[test]
fn moved_reads_the_map_again() {
    let (there, other) = serve(vec![vec![(GET_A, b"+here\r\n".to_vec())]]);
    let map = |address: &Address| {
        let host = &address.host;
        format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n${}\r\n{host}\r\n:{}\r\n", host.len(), address.port).into_bytes()
    };
    let moved = format!("-MOVED 15495 {there}\r\n").into_bytes();
    let (address, server) = serve(vec![alone(), vec![(GET_A, moved)], vec![(SLOTS, map(&there))]]);
    let mut pool = pool(&address);
    ask(&mut pool, 6);
    assert_eq!(answers(&mut pool, 1), ["6 moved"]);
    while pool.map().nodes().len() == 1 {
        pool.wait(Some(Instant::now() + Duration::from_millis(20)), &mut |_, _, _| {}).unwrap();
    }
    ask(&mut pool, 6);
    let shown = answers(&mut pool, 1);
    assert!(shown[0].starts_with("6 Simple"), "{shown:?}");
    drop(pool);
    server.join().unwrap();
    other.join().unwrap();
}
