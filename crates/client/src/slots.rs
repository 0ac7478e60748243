//! Which node leads each slot, as CLUSTER SLOTS tells.

use std::io;
use std::time::Duration;

use resp::Value;
use vocab::SLOT_COUNT;

use crate::{Address, Client};

/// A node that does not answer within this time is not asked further.
const WITHIN: Duration = Duration::from_secs(1);

/// Slots → nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotMap {
    nodes: Vec<Address>,
    /// The leader of each slot, as an index into `nodes`.
    leaders: Vec<u16>,
}

impl SlotMap {
    /// One node leads every slot: a server that is no cluster.
    #[must_use]
    pub fn single(node: Address) -> Self {
        Self { nodes: vec![node], leaders: vec![0; usize::from(SLOT_COUNT)] }
    }

    /// Asks the server at `seed`. One that knows no CLUSTER SLOTS leads every slot itself.
    ///
    /// # Errors
    /// The server cannot be reached, or answers what is no slot map.
    pub fn fetch(seed: &Address) -> io::Result<Self> {
        // A load generator's thread waits here, so not for long.
        let mut client = Client::connect_within(seed, WITHIN, WITHIN)?;
        match client.call_here(&[b"CLUSTER", b"SLOTS"])? {
            Value::Error(_) => Ok(Self::single(seed.clone())),
            answer => Self::parse(&answer, seed).ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{seed}: the answer to CLUSTER SLOTS is no slot map"),
                )
            }),
        }
    }

    /// Reads CLUSTER SLOTS's answer. An empty host means the one that was asked. Slots that nobody leads are asked of
    /// that one too: it knows best what to answer.
    #[must_use]
    pub fn parse(answer: &Value, asked: &Address) -> Option<Self> {
        let mut map = Self::single(asked.clone());
        for range in elements(answer)? {
            let [first, last, leader, ..] = elements(range)? else { return None };
            let [host, port, ..] = elements(leader)? else { return None };
            let (first, last) = (usize::try_from(first.as_int()?).ok()?, usize::try_from(last.as_int()?).ok()?);
            if first > last || last >= map.leaders.len() {
                return None;
            }
            let host = host.as_bytes().filter(|host| !host.is_empty()).unwrap_or(asked.host.as_bytes());
            let host = String::from_utf8_lossy(host).into_owned();
            let node = Address { host, port: u16::try_from(port.as_int()?).ok()? };
            let index = map.nodes.iter().position(|known| *known == node).unwrap_or_else(|| {
                map.nodes.push(node);
                map.nodes.len() - 1
            });
            map.leaders[first..=last].fill(u16::try_from(index).ok()?);
        }
        Some(map)
    }

    /// The nodes, the one that was asked first.
    #[must_use]
    pub fn nodes(&self) -> &[Address] {
        &self.nodes
    }

    /// The index of the node that leads `slot`.
    #[must_use]
    pub fn leader(&self, slot: vocab::Slot) -> usize {
        usize::from(self.leaders[usize::from(slot.0)])
    }
}

fn elements(value: &Value) -> Option<&[Value]> {
    if let Value::Array(elements) = value { Some(elements) } else { None }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::Slot;

    fn node(host: &str, port: i64) -> Value {
        Value::Array(vec![Value::Bulk(host.into()), Value::Int(port), Value::Bulk("id".into()), Value::Array(vec![])])
    }

    #[test]
    fn an_answer_becomes_a_map() {
        let asked: Address = "a:1".parse().unwrap();
        let range = |first, last, leader| Value::Array(vec![Value::Int(first), Value::Int(last), leader]);
        let answer = Value::Array(vec![
            range(0, 99, node("", 1)),
            range(100, 199, node("b", 2)),
            range(200, 16383, node("a", 1)),
        ]);
        let map = SlotMap::parse(&answer, &asked).unwrap();
        assert_eq!(map.nodes().len(), 2);
        for (slot, leader) in [(0, 0), (99, 0), (100, 1), (199, 1), (200, 0), (16383, 0)] {
            assert_eq!(map.leader(Slot(slot)), leader, "{slot}");
        }
        assert_eq!(SlotMap::parse(&Value::Array(vec![]), &asked), Some(SlotMap::single(asked.clone())));
        for bad in [
            Value::Int(1),
            Value::Array(vec![range(5, 4, node("", 1))]),
            Value::Array(vec![range(0, 16384, node("", 1))]),
        ] {
            assert_eq!(SlotMap::parse(&bad, &asked), None, "{bad:?}");
        }
    }
}
