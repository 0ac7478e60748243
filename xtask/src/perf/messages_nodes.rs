//! PUBLISH on three nodes: what a message costs each of them, with subscribers on all and with none.

use super::bench::Bench;
use super::ceiling::{Ceiling, Rows};
use super::progress;
use super::redis_benchmark::{Load, RedisBenchmark};
use super::server::Server;
use super::store::{NODES, Store};
use super::subscribers::Subscribers;
use std::time::Duration;

const SHARDS: u32 = 16;
const CHANNEL: &str = "channel";
const TOKEN: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";
/// Subscribers on each node.
const EACH: usize = 10;
/// What is still on its way to other nodes arrives meanwhile.
const PAUSE: Duration = Duration::from_millis(300);

/// 50 clients publish at the first node.
pub fn measure(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let (store, benchmark) = (Store::start(bench, "nosync", SHARDS)?, RedisBenchmark::find()?);
    let mut rows = Rows::default();
    for each in [0, EACH] {
        let requests = bench.options.scale(if each == 0 { 500_000 } else { 200_000 }, 2_000);
        let command = &["PUBLISH", CHANNEL, TOKEN];
        let load = Load { command, value_bytes: TOKEN.len(), depth: 1, requests, keys: 1 };
        let nodes = || (0..NODES).map(|number| store.node(number));
        let listening = nodes().map(|node| Subscribers::start(node, CHANNEL, each)).collect::<Result<Vec<_>, _>>()?;
        store.wait_until_quiet()?;
        let before = nodes().map(Server::cpu_us).collect::<Result<Vec<_>, _>>()?;
        let rate = benchmark.run(store.node(0), load)?.rate;
        let taken_bytes = until_quiet(&listening);
        let taken = |(node, before): (&Server, u64)| -> Result<f64, String> {
            Ok((node.cpu_us()? - before) as f64 / requests as f64)
        };
        let times = nodes().zip(before).map(taken).collect::<Result<Vec<_>, String>>()?;
        listening.into_iter().try_for_each(Subscribers::stop)?;
        let sent = requests * message_bytes() * (NODES * each) as u64;
        if taken_bytes < sent {
            return Err(format!("subscribers were sent {taken_bytes} bytes of {sent}: messages were lost"));
        }
        let who = if each == 0 { "no subscribers".to_owned() } else { format!("{each} subscribers on each node") };
        let what = |what: &str| format!("PUBLISH at one of three nodes, {who}: {what}");
        rows.push(Ceiling::told(what("messages"), "1/s", rate))?;
        rows.push(Ceiling::told(what("processor time a message, there"), "µs", times[0]))?;
        let others = times[1..].iter().sum::<f64>() / (NODES - 1) as f64;
        rows.push(Ceiling::told(what("… each other node"), "µs", others))?;
    }
    store.stop()?;
    Ok(rows.all())
}

/// Waits until nothing comes any more; how many bytes there were.
fn until_quiet(listening: &[Subscribers]) -> u64 {
    progress::doing("waiting until subscribers have had all messages");
    let taken = || listening.iter().map(Subscribers::taken_bytes).sum::<u64>();
    loop {
        let before = taken();
        std::thread::sleep(PAUSE);
        if taken() == before {
            return before;
        }
    }
}

/// Of a message as a subscriber reads it.
fn message_bytes() -> u64 {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len()).len();
    (4 + bulk("message") + bulk(CHANNEL) + bulk(TOKEN)) as u64
}
