//! Asks the nodes of a store for INFO while a phase runs, over connections that are kept.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use client::{Address, Client, SlotMap, StoreUrl};

/// A node that does not answer within this time tells nothing this time.
const WITHIN: Duration = Duration::from_millis(250);

/// INFO's fields of one node.
pub type InfoFields = HashMap<String, String>;

/// A connection to each node.
#[derive(Default)]
pub(super) struct InfoClient {
    clients: BTreeMap<String, Client>,
}

impl InfoClient {
    /// What the node at `address` tells; none if it does not answer.
    pub(super) fn ask(&mut self, store: &StoreUrl, address: &Address) -> Option<InfoFields> {
        let name = address.to_string();
        let told = self.client(store, address, &name).and_then(|client| {
            let answer = client.call_here(&[b"INFO"]).ok()?;
            let text = String::from_utf8_lossy(answer.as_bytes()?).into_owned();
            let pairs = text.lines().filter_map(|line| line.trim().split_once(':'));
            Some(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
        });
        if told.is_none() {
            self.clients.remove(&name);
        }
        told
    }

    /// The nodes that the store has now, as the one at `address` knows.
    pub(super) fn nodes(&mut self, store: &StoreUrl, address: &Address) -> Option<Vec<Address>> {
        let name = address.to_string();
        let answer = self.client(store, address, &name)?.call_here(&[b"CLUSTER", b"SLOTS"]).ok()?;
        SlotMap::parse(&answer, address, store.secure.is_some()).map(|map| map.nodes().to_vec())
    }

    fn client(&mut self, store: &StoreUrl, address: &Address, name: &str) -> Option<&mut Client> {
        if !self.clients.contains_key(name) {
            let one = store.with_seeds(vec![address.clone()]);
            self.clients.insert(name.to_owned(), Client::open_within(&one, WITHIN, WITHIN).ok()?);
        }
        self.clients.get_mut(name)
    }
}
