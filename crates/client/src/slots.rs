//! Which node leads each slot, and which nodes hold it: CLUSTER SLOTS and CLUSTER SHARDS, read.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use resp::Value;
use vocab::{SLOT_COUNT, Slot};

use crate::{Address, Client, StoreUrl};

/// A node that does not answer within this time is not asked further.
const WITHIN: Duration = Duration::from_secs(1);
/// A map of more nodes than this is refused.
const NODES_MAX: usize = 10_000;

/// Slots → nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotMap {
    nodes: Vec<Address>,
    /// The leader of each slot, as an index into `nodes`.
    leaders: Vec<u16>,
    /// For each slot, which of `sets` holds it.
    holders: Vec<u16>,
    /// Nodes, leader first. The first sets have one node each, in the order of `nodes`.
    sets: Vec<Vec<u16>>,
}

/// What a map is made from.
pub(crate) struct Draft {
    nodes: Vec<Address>,
    places: HashMap<Address, u16>,
    leaders: Vec<u16>,
    /// Nodes of each slot beside its leader, as a number of `followers`.
    group_of: Vec<usize>,
    /// Followers, by group; the first is empty.
    followers: Vec<Vec<u16>>,
}

impl Draft {
    /// One node leads every slot.
    fn new(asked: &Address) -> Self {
        Self {
            nodes: vec![asked.clone()],
            places: HashMap::from([(asked.clone(), 0)]),
            leaders: vec![0; usize::from(SLOT_COUNT)],
            group_of: vec![0; usize::from(SLOT_COUNT)],
            followers: vec![Vec::new()],
        }
    }

    fn node(&mut self, node: Address) -> Option<u16> {
        if let Some(&place) = self.places.get(&node) {
            return Some(place);
        }
        let place = u16::try_from(self.nodes.len()).ok().filter(|&place| usize::from(place) < NODES_MAX)?;
        self.nodes.push(node.clone());
        self.places.insert(node, place);
        Some(place)
    }

    /// Slots that one set of nodes holds; without a leader, the node that was asked knows best what to answer.
    fn group(&mut self, ranges: &[(usize, usize)], leader: Option<u16>, followers: Vec<u16>) {
        self.followers.push(followers);
        for &(first, last) in ranges {
            self.leaders[first..=last].fill(leader.unwrap_or(0));
            self.group_of[first..=last].fill(self.followers.len() - 1);
        }
    }

    fn finish(self) -> Option<SlotMap> {
        let mut sets: Vec<Vec<u16>> = (0..self.nodes.len() as u16).map(|node| vec![node]).collect();
        let mut known: HashMap<Vec<u16>, u16> =
            sets.iter().enumerate().map(|(index, set)| (set.clone(), index as u16)).collect();
        let mut holders = Vec::with_capacity(self.leaders.len());
        let mut last: Option<(u16, usize, u16)> = None;
        for (&leader, &group) in self.leaders.iter().zip(&self.group_of) {
            if let Some((.., set)) = last.filter(|&(l, g, _)| (l, g) == (leader, group)) {
                holders.push(set);
                continue;
            }
            let mut set = vec![leader];
            set.extend(self.followers[group].iter().filter(|&&node| node != leader));
            let index = match known.get(&set) {
                Some(&index) => index,
                None => {
                    let index = u16::try_from(sets.len()).ok()?;
                    sets.push(set.clone());
                    known.insert(set, index);
                    index
                }
            };
            last = Some((leader, group, index));
            holders.push(index);
        }
        Some(SlotMap { nodes: self.nodes, leaders: self.leaders, holders, sets })
    }

    /// One element of CLUSTER SLOTS: first, last, leader, followers.
    fn add_range(&mut self, range: &[Value], asked: &Address) -> Option<()> {
        let [first, last, nodes @ ..] = range else { return None };
        let range = bounds(first, last)?;
        let mut places = Vec::new();
        for node in nodes {
            let [host, port, ..] = elements(node)? else { return None };
            places.push(self.node(address(host, port, asked)?)?);
        }
        let followers = places.split_off(1.min(places.len()));
        self.group(&[range], Some(*places.first()?), followers);
        Some(())
    }

    /// One element of CLUSTER SHARDS: slots and nodes, each with its role.
    fn add_shard(&mut self, shard: &Value, asked: &Address, secure: bool) -> Option<()> {
        let ranges: Vec<_> = elements(field(shard, "slots")?)?
            .chunks(2)
            .map(|pair| if let [first, last] = pair { bounds(first, last) } else { None })
            .collect::<Option<_>>()?;
        let (mut leader, mut followers) = (None, Vec::new());
        for node in elements(field(shard, "nodes")?)? {
            let named = |name: &str| field(node, name).filter(|host| host.as_bytes().is_some_and(|text| text != b"?"));
            let host = named("endpoint").or_else(|| named("ip")).unwrap_or(&Value::Null);
            let port = field(node, "tls-port").filter(|_| secure).or_else(|| field(node, "port"))?;
            let place = self.node(address(host, port, asked)?)?;
            let is = |name: &str, text: &[u8]| field(node, name).and_then(Value::as_bytes) == Some(text);
            if is("role", b"master") {
                leader = Some(place);
            } else if field(node, "health").is_none() || is("health", b"online") {
                followers.push(place);
            }
        }
        self.group(&ranges, leader, followers);
        Some(())
    }
}

impl SlotMap {
    /// One node leads every slot: a server that is no cluster.
    #[must_use]
    pub fn single(node: &Address) -> Self {
        Draft::new(node).finish().expect("one node is not too many")
    }

    /// Asks the first of the store's nodes that answers. One that knows no CLUSTER leads every slot itself.
    ///
    /// # Errors
    /// No node can be reached, or what answers is no slot map.
    pub fn fetch(store: &StoreUrl, followers: bool) -> io::Result<Self> {
        let mut failed = io::Error::other("no node is given");
        for seed in &store.seeds {
            let one = store.with_seeds(vec![seed.clone()]);
            match Client::open_within(&one, WITHIN, WITHIN).and_then(|mut client| Self::ask(&mut client, followers)) {
                Ok(map) => return Ok(map),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn ask(client: &mut Client, followers: bool) -> io::Result<Self> {
        let seed = client.address().clone();
        let mut answer = Value::Error(String::new());
        if followers {
            answer = client.call_here(&[b"CLUSTER", b"SHARDS"])?;
        }
        if matches!(answer, Value::Error(_)) {
            answer = client.call_here(&[b"CLUSTER", b"SLOTS"])?;
        }
        if let Value::Error(text) = &answer {
            // It is not this server's fault that no login was given.
            return if text.starts_with("NOAUTH") {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{seed}: {text}")))
            } else {
                Ok(Self::single(&seed))
            };
        }
        Self::parse(&answer, &seed, client.is_secure()).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{seed}: the answer to CLUSTER is no slot map"))
        })
    }

    /// Reads the answer to CLUSTER SLOTS or CLUSTER SHARDS. An empty host means the one that was asked. Slots that
    /// have no leader are asked of that one too: it knows best what to answer. `secure`: the client speaks TLS.
    #[must_use]
    pub fn parse(answer: &Value, asked: &Address, secure: bool) -> Option<Self> {
        let mut draft = Draft::new(asked);
        for part in elements(answer)? {
            match part {
                Value::Array(range) if matches!(range.first(), Some(Value::Int(_))) => draft.add_range(range, asked)?,
                shard => draft.add_shard(shard, asked, secure)?,
            }
        }
        draft.finish()
    }

    /// The nodes, the one that was asked first.
    #[must_use]
    pub fn nodes(&self) -> &[Address] {
        &self.nodes
    }

    /// The index of the node that leads `slot`.
    #[must_use]
    pub fn leader(&self, slot: Slot) -> usize {
        usize::from(self.leaders[usize::from(slot.0)])
    }

    /// The indices of the nodes that hold `slot`, its leader first.
    #[must_use]
    pub fn holders(&self, slot: Slot) -> &[u16] {
        &self.sets[usize::from(self.holders[usize::from(slot.0)])]
    }

    /// The least number of nodes that hold a slot.
    #[must_use]
    pub fn replication(&self) -> usize {
        self.holders.iter().map(|&set| self.sets[usize::from(set)].len()).min().unwrap_or(0)
    }

    /// The node at `leader`, a new one perhaps, leads `slot`; who else holds it is not known. False when there are too
    /// many nodes.
    pub(crate) fn moved(&mut self, slot: Slot, leader: &Address) -> bool {
        let node = match self.nodes.iter().position(|node| node == leader) {
            Some(node) => node as u16,
            None if self.nodes.len() < NODES_MAX => {
                self.nodes.push(leader.clone());
                self.nodes.len() as u16 - 1
            }
            None => return false,
        };
        let alone = match self.sets.iter().position(|set| *set == [node]) {
            Some(set) => set as u16,
            None if self.sets.len() <= usize::from(u16::MAX) => {
                self.sets.push(vec![node]);
                self.sets.len() as u16 - 1
            }
            None => return false,
        };
        self.leaders[usize::from(slot.0)] = node;
        self.holders[usize::from(slot.0)] = alone;
        true
    }

    /// The same map over another list of nodes: `places` says where each of ours is in it.
    pub(crate) fn renumber(&mut self, nodes: Vec<Address>, places: &[u16]) {
        for node in self.leaders.iter_mut().chain(self.sets.iter_mut().flatten()) {
            *node = places[usize::from(*node)];
        }
        self.nodes = nodes;
    }
}

fn bounds(first: &Value, last: &Value) -> Option<(usize, usize)> {
    let (first, last) = (usize::try_from(first.as_int()?).ok()?, usize::try_from(last.as_int()?).ok()?);
    (first <= last && last < usize::from(SLOT_COUNT)).then_some((first, last))
}

fn address(host: &Value, port: &Value, asked: &Address) -> Option<Address> {
    let host = host.as_bytes().filter(|host| !host.is_empty()).unwrap_or(asked.host.as_bytes());
    Some(Address { host: String::from_utf8_lossy(host).into_owned(), port: u16::try_from(port.as_int()?).ok()? })
}

fn elements(value: &Value) -> Option<&[Value]> {
    if let Value::Array(elements) = value { Some(elements) } else { None }
}

/// The field of a map, which RESP2 has as an array of names and values.
fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    let is = |key: &Value| key.as_bytes() == Some(name.as_bytes());
    match map {
        Value::Map(pairs) => pairs.iter().find(|(key, _)| is(key)).map(|(_, value)| value),
        Value::Array(flat) => flat.chunks_exact(2).find(|pair| is(&pair[0])).map(|pair| &pair[1]),
        _ => None,
    }
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
