//! Redis and Valkey: one server, or a cluster of masters with their replicas.
//!
//! A node of the cluster is a machine's worth of servers: its own master, and the replicas of those before it.

use std::io::{self, ErrorKind};
use std::time::Duration;

use client::{Address, Client, StoreUrl, Value};
use vocab::SLOT_COUNT;

use super::build::tool;
use super::ports::Ports;
use super::site::{Site, Up};

const UP_WITHIN: Duration = Duration::from_secs(30);
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// One server without followers.
pub(super) fn one(site: &mut Site<'_>, program: &str) -> io::Result<Up> {
    Ports { hosts: 1, first: site.options.port, count: 1 }.require_free()?;
    let address = start(site, program, 0, false)?;
    Ok(Up { target: format!("redis://{address}"), settings: format!("one server; {}", durability(site)) })
}

/// A cluster.
pub(super) fn cluster(site: &mut Site<'_>, program: &str) -> io::Result<Up> {
    let (masters, copies) = (usize::from(site.options.nodes()), usize::from(site.options.replication_factor));
    let servers = site.options.nodes() * site.options.replication_factor;
    // Each has a port for clients and one for the others.
    Ports { hosts: 1, first: site.options.port, count: 2 * servers }.require_free()?;
    let mut places = Vec::new();
    for number in 0..masters * copies {
        places.push(start(site, program, number, true)?);
    }
    join(site, &places, masters)?;
    let seeds: Vec<String> = places[..masters].iter().map(ToString::to_string).collect();
    let settings = format!(
        "{masters} masters, {copies} copies of each record, {} servers; {}; replicas follow asynchronously, so a write \
         that was answered can be lost with its master",
        places.len(),
        durability(site)
    );
    Ok(Up { target: format!("redis://{}", seeds.join(",")), settings })
}

fn durability(site: &Site<'_>) -> String {
    format!("appendfsync {}", if site.syncs() { "always" } else { "everysec" })
}

/// Starts one server and waits until it answers.
fn start(site: &mut Site<'_>, program: &str, number: usize, cluster: bool) -> io::Result<Address> {
    let port = site.options.port + number as u16;
    let mut command = tool(program, program)?;
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no", "--save", ""]);
    command.args(["--appendonly", "yes", "--appendfsync", if site.syncs() { "always" } else { "everysec" }]);
    command.arg("--dir").arg(site.node_dir(number)?);
    if cluster {
        let servers = site.options.nodes() * site.options.replication_factor;
        command.args(["--cluster-enabled", "yes", "--cluster-port", &(port + servers).to_string()]);
    }
    let address = Address { host: "127.0.0.1".to_owned(), port };
    site.start(address.to_string(), command)?;
    let last = site.nodes.len() - 1;
    site.await_all(UP_WITHIN, |node| node != &site.nodes[last] || ask(&address, &["PING"]).is_ok())?;
    Ok(address)
}

/// What a server answers; an error reply is an error.
fn ask(place: &Address, words: &[&str]) -> io::Result<Value> {
    let store = StoreUrl::from(place.clone());
    let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    match Client::open_within(&store, ANSWER_WITHIN, ANSWER_WITHIN)?.call_here(&args)? {
        Value::Error(error) => Err(io::Error::other(format!("{place} answers {} with {error}", words.join(" ")))),
        value => Ok(value),
    }
}

fn text(place: &Address, words: &[&str]) -> io::Result<String> {
    let value = ask(place, words)?;
    Ok(value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default())
}

/// Makes one cluster of the servers: the first are masters, the others follow them in turn.
fn join(site: &Site<'_>, places: &[Address], masters: usize) -> io::Result<()> {
    let bound = |master: usize| master * usize::from(SLOT_COUNT) / masters;
    for (number, place) in places[..masters].iter().enumerate() {
        let (first, last) = (bound(number).to_string(), (bound(number + 1) - 1).to_string());
        ask(place, &["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        // Two masters of one epoch would have to find out who keeps it.
        ask(place, &["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])?;
    }
    for place in &places[1..] {
        let bus = place.port + places.len() as u16;
        let (port, bus) = (place.port.to_string(), bus.to_string());
        ask(&places[0], &["CLUSTER", "MEET", &place.host, &port, &bus])?;
    }
    let known = format!("cluster_known_nodes:{}", places.len());
    wait_for(site, places, &["CLUSTER", "INFO"], &known, "the servers do not find each other")?;
    for (number, place) in places.iter().enumerate().skip(masters) {
        // A replica is on another machine than its master.
        let (copy, machine) = (number / masters, number % masters);
        let master = text(&places[(machine + masters - copy) % masters], &["CLUSTER", "MYID"])?;
        ask(place, &["CLUSTER", "REPLICATE", &master])?;
    }
    wait_for(site, places, &["CLUSTER", "INFO"], "cluster_state:ok", "the cluster does not come up")?;
    let replicas = &places[masters..];
    wait_for(site, replicas, &["INFO", "replication"], "master_link_status:up", "a replica does not follow")
}

/// Waits until each place answers `words` with a text that has `part` in it.
fn wait_for(site: &Site<'_>, places: &[Address], words: &[&str], part: &str, otherwise: &str) -> io::Result<()> {
    for place in places {
        if !site.until(UP_WITHIN, || text(place, words).is_ok_and(|text| text.contains(part)))? {
            let text = format!("{otherwise}: {place} does not tell {part} after {} s", UP_WITHIN.as_secs());
            return Err(io::Error::new(ErrorKind::TimedOut, text));
        }
    }
    Ok(())
}
