//! The nodes that a pool knows: where they are, how far, and which of them a read goes to.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::Address;

/// Nodes are equally near when they take no more than this factor of the nearest one's time…
const NEAR_FACTOR: f32 = 2.0;
/// …and this many microseconds more: less is noise, and no distance.
const NEAR_US: f32 = 1_000.0;
/// So many reads in a row go to one of several that are equally near: those of one turn leave in fewer, larger writes.
pub(crate) const RUN: usize = 16;
/// Weight of the newest answer in a node's smoothed latency.
const NEWEST: f32 = 0.05;
/// What is left of the latency of a node that was not asked since: it is tried again some day.
const FADES: f32 = 0.95;
/// No connection.
const NONE: u32 = u32::MAX;

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: Address,
    pub(crate) socket: SocketAddr,
    /// Connections, by their number within the node.
    places: Vec<u32>,
    latency_us: f32,
    /// It has answered since the last look.
    answered: bool,
    /// It is silent or gone: reads that another may do go there.
    pub(crate) suspect: bool,
}

/// All nodes that were ever in the map; they keep their numbers.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    list: Vec<Node>,
    turn: usize,
}

impl Nodes {
    /// The number of the node at `address`, a new one perhaps.
    pub(crate) fn place(&mut self, address: &Address) -> io::Result<u16> {
        if let Some(found) = self.list.iter().position(|node| node.address == *address) {
            return Ok(found as u16);
        }
        let socket = address.resolve()?;
        if let Some(found) = self.list.iter().position(|node| node.socket == socket) {
            return Ok(found as u16);
        }
        let number = u16::try_from(self.list.len()).map_err(|_| io::Error::other("too many nodes"))?;
        self.list.push(Node {
            address: address.clone(),
            socket,
            places: Vec::new(),
            latency_us: 0.0,
            answered: false,
            suspect: false,
        });
        Ok(number)
    }

    pub(crate) fn get(&self, node: usize) -> &Node {
        &self.list[node]
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.list.iter().map(|node| node.address.clone()).collect()
    }

    /// The connection of this number to `node`.
    pub(crate) fn connection(&self, node: usize, number: usize) -> Option<usize> {
        self.list[node].places.get(number).filter(|&&place| place != NONE).map(|&place| place as usize)
    }

    pub(crate) fn connected(&mut self, node: usize, number: usize, place: usize) {
        let places = &mut self.list[node].places;
        if places.len() <= number {
            places.resize(number + 1, NONE);
        }
        places[number] = place as u32;
    }

    /// `node` has answered a request that had taken so long.
    pub(crate) fn answered(&mut self, node: usize, latency: Duration) {
        let node = &mut self.list[node];
        let us = latency.as_secs_f32() * 1e6;
        node.latency_us = if node.latency_us == 0.0 { us } else { node.latency_us + NEWEST * (us - node.latency_us) };
        node.answered = true;
        node.suspect = false;
    }

    /// Forgets who is suspect, and lets the latencies fade of those that have not answered since the last look.
    pub(crate) fn look(&mut self) {
        for node in &mut self.list {
            if !std::mem::take(&mut node.answered) {
                node.latency_us *= FADES;
            }
            node.suspect = false;
        }
    }

    pub(crate) fn suspect(&mut self, node: usize) {
        self.list[node].suspect = true;
    }

    /// Whether another node than `node` is not suspect.
    pub(crate) fn has_other(&self, node: usize) -> bool {
        self.list.iter().enumerate().any(|(index, other)| index != node && !other.suspect)
    }

    /// One of `set`: the nearest that is not suspect; in turn where several are equally near.
    pub(crate) fn nearest(&mut self, set: &[u16]) -> usize {
        if let [only] = set {
            return usize::from(*only);
        }
        let list = &self.list;
        let usable = || set.iter().map(|&node| (usize::from(node), &list[usize::from(node)])).filter(|n| !n.1.suspect);
        let least = usable().map(|(_, node)| node.latency_us).fold(f32::MAX, f32::min);
        let near = || usable().filter(|(_, node)| node.latency_us <= least * NEAR_FACTOR + NEAR_US);
        self.turn = self.turn.wrapping_add(1);
        match near().count() {
            0 => usize::from(set[self.turn / RUN % set.len()]),
            count => near().nth(self.turn / RUN % count).map_or(usize::from(set[0]), |(node, _)| node),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn reads_go_to_the_nearest_and_are_spread_over_equals() {
        let mut nodes = Nodes::default();
        for port in 1..=3 {
            nodes.place(&Address { host: "127.0.0.1".to_owned(), port }).unwrap();
        }
        assert_eq!(nodes.place(&"localhost:2".parse().unwrap()).unwrap(), 1, "the same place by another name");
        let shares = |nodes: &mut Nodes, set: &[u16]| {
            let mut counts = [0; 3];
            (0..6 * RUN).for_each(|_| counts[nodes.nearest(set)] += 1);
            counts
        };
        assert_eq!(shares(&mut nodes, &[0, 1, 2]), [2 * RUN; 3]);
        assert_eq!(shares(&mut nodes, &[2]), [0, 0, 6 * RUN]);
        for (node, us) in [(0, 20_000), (1, 300), (2, 900)] {
            nodes.answered(node, Duration::from_micros(us));
        }
        assert_eq!(shares(&mut nodes, &[0, 1, 2]), [0, 3 * RUN, 3 * RUN], "the first is in another place");
        nodes.suspect(1);
        assert_eq!(shares(&mut nodes, &[0, 1, 2]), [0, 0, 6 * RUN]);
        nodes.suspect(2);
        assert_eq!(shares(&mut nodes, &[0, 1, 2]), [6 * RUN, 0, 0]);
        nodes.suspect(0);
        assert_eq!(shares(&mut nodes, &[0, 1, 2]), [2 * RUN; 3], "all are suspect: any may be the first to answer");
        nodes.look();
        (0..400).for_each(|_| nodes.look());
        assert_eq!(shares(&mut nodes, &[0, 1, 2]), [2 * RUN; 3], "who is not asked is tried again");
    }
}
