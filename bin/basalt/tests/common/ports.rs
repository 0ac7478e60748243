//! Ports for servers.

use parking_lot::Mutex;
use std::net::{TcpListener, UdpSocket};
use std::ops::Range;

/// Below those that the system gives to connections that go out: one of these may take a port that was free when it was
/// chosen, before the server comes to it. So may the one for HTTP, which is 1,000 above the node's.
const PORTS: Range<u16> = 20_000..31_700;
/// So many ports are one process's, while it runs: tests of several processes at a time are not given the same.
const BLOCK: u16 = 450;

/// A block of ports.
struct Block {
    first: u16,
    next: u16,
    /// That this process has it: its first port of UDP, which no server here uses.
    _claim: UdpSocket,
}

impl Block {
    /// One that no other process has.
    fn claimed() -> Self {
        let claim = |first: u16| {
            let claim = UdpSocket::bind(("127.0.0.1", first)).ok()?;
            Some(Self { first, next: first, _claim: claim })
        };
        let mut firsts = PORTS.step_by(usize::from(BLOCK)).take_while(|first| first + BLOCK <= PORTS.end);
        firsts.find_map(claim).expect("too many processes test at the same time")
    }
}

/// The first of `count` ports in a row that are free now, and that this process was not given lately.
pub fn free_ports(count: u16) -> u16 {
    static OWN: Mutex<Option<Block>> = Mutex::new(None);
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let mut own = OWN.lock();
    let block = own.get_or_insert_with(Block::claimed);
    for _ in 0..BLOCK {
        let is_over = block.next + count > block.first + BLOCK;
        let first = if is_over { block.first } else { block.next };
        block.next = first + count;
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
