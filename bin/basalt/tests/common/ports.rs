//! Ports for servers.

use parking_lot::Mutex;
use std::net::TcpListener;
use std::ops::Range;

/// Below those that the system gives to connections that go out: one of these may take a port that was free when it was
/// chosen, before the server comes to it. So may the one for HTTP, which is 1,000 above the node's.
const PORTS: Range<u16> = 20_000..31_700;

/// The first of `count` ports in a row that are free now, and that this process was not given lately.
pub fn free_ports(count: u16) -> u16 {
    static NEXT: Mutex<Option<u16>> = Mutex::new(None);
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let mut next = NEXT.lock();
    // Tests of several processes at a time seldom begin at the same one.
    let begin = || PORTS.start + (std::process::id() % 100 * 110) as u16;
    for _ in 0..PORTS.len() {
        let first = next.unwrap_or_else(begin);
        let first = if first + count > PORTS.end { PORTS.start } else { first };
        *next = Some(first + count);
        if (first..first + count).all(is_free) {
            return first;
        }
    }
    panic!("no {count} ports in a row are free");
}

/// A port that is free now.
pub fn free_port() -> u16 {
    free_ports(1)
}
