//! What a link costs: two nodes in one thread over loopback, with and without packing.
//!
//! ```text
//! cargo run --release -p basalt-server --example links_speed
//! ```
//! A turn sends some messages one way and flushes once. CPU is that of both ends together, kernel included.

use mio::{Events, Poll, Token};
use node::peer_protocol::PeerMessage;
use server::links::{Identity, LinkEvent, Links, LinksOptions, Packing};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use vocab::{NodeId, Prng, ShardId};

/// How long messages are sent for each row of the table.
const SPAN: Duration = Duration::from_secs(1);

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    if cfg!(debug_assertions) {
        println!("a debug build: the figures mean nothing");
    }
    println!("{:<28} {:>10} {:>10} {:>9} {:>12}", "messages", "a second", "MB/s", "on wire", "CPU a message");
    for (bytes, batch, packing) in [
        (20, 1, Packing::Never),
        (20, 32, Packing::Never),
        (256, 32, Packing::Never),
        (1024, 32, Packing::Never),
        (1024, 32, Packing::Always),
        (16_384, 32, Packing::Never),
        (16_384, 32, Packing::Always),
    ] {
        measure(bytes, batch, packing)?;
    }
    Ok(())
}

fn measure(bytes: usize, batch: usize, packing: Packing) -> Result<(), Error> {
    let mut poll = Poll::new()?;
    let mut links = Vec::new();
    for node in 0..2u64 {
        let identity = Identity::new(NodeId(node), Vec::new(), Vec::new()).shared();
        let listener = Some(TcpListener::bind("127.0.0.1:0")?);
        let options = LinksOptions { identity, listener, packing, guard: Box::new(|_, _| Ok(())) };
        let top = Token(usize::MAX - 1 - node as usize * Links::TOKENS);
        links.push(Links::new(poll.registry().try_clone()?, top, options)?);
    }
    let address = links[1].address().ok_or("no address")?.to_string();
    links[0].dial(&address, Instant::now());
    let mut heard = 0;
    let mut turn = |links: &mut Vec<Links>, wait: Duration| -> Result<usize, Error> {
        let mut events = Events::with_capacity(16);
        poll.poll(&mut events, Some(wait))?;
        let now = Instant::now();
        for links in links {
            let hear = &mut |event| heard += usize::from(matches!(event, LinkEvent::Message(..)));
            for event in &events {
                if links.owns(event.token()) {
                    links.notice(event.token(), event, now, hear);
                }
            }
            links.resume(now, hear);
        }
        Ok(heard)
    };
    while !(links[0].is_up(NodeId(1)) && links[1].is_up(NodeId(0))) {
        for links in &mut links {
            links.tick(Instant::now(), &mut |_| {});
        }
        turn(&mut links, Duration::from_millis(1))?;
    }
    // Half of each is noise: what records look like.
    let mut prng = Prng::new(1);
    let mut message = |id| {
        let command = (0..bytes).map(|i| if i < bytes / 2 { prng.next_u64() as u8 } else { b' ' }).collect();
        PeerMessage::Call { id, shard: ShardId(1), command }
    };
    let messages: Vec<_> = (0..256).map(&mut message).collect();
    let (begun, cpu) = (Instant::now(), cpu());
    let (mut count, mut arrived) = (0, 0);
    while arrived < count || begun.elapsed() < SPAN {
        for _ in 0..if begun.elapsed() < SPAN { batch } else { 0 } {
            count += usize::from(links[0].send(NodeId(1), &messages[count % messages.len()]));
        }
        links[0].flush(Instant::now());
        arrived = turn(&mut links, Duration::ZERO)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cpu_ns = (self::cpu() - cpu).as_nanos() / count as u128;
    let on_wire = links[0].stats()[0].sent_bytes as f64 / (count * bytes) as f64;
    let name = format!("{bytes} B, {batch} a flush, {packing:?}");
    let rate = count as f64 / seconds;
    println!("{name:<28} {rate:>10.0} {:>10.0} {:>8.0}% {cpu_ns:>9} ns", rate * bytes as f64 / 1e6, on_wire * 100.0);
    Ok(())
}

/// What this process has used so far.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
