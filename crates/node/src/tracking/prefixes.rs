//! Clients that are told of all keys that begin with a prefix: BCAST.

use super::changes::{Change, Invalidation};
use super::tracker::Tracker;
use crate::subscriber::Subscriber;
use std::collections::BTreeMap;
use std::sync::Arc;
use vocab::client_key;

/// With what keys begin.
pub type Prefix = Arc<[u8]>;

/// The prefixes that clients have asked for.
#[derive(Debug, Default)]
pub(super) struct Prefixes(BTreeMap<Prefix, Vec<Tracker>>);

impl Prefixes {
    pub(super) fn add(&mut self, prefix: &[u8], tracker: Tracker) {
        let trackers = self.0.entry(prefix.into()).or_default();
        match trackers.iter_mut().find(|other| other.client == tracker.client) {
            Some(other) => *other = tracker,
            None => trackers.push(tracker),
        }
    }

    pub(super) fn remove(&mut self, prefix: &[u8], client: Subscriber) {
        if let Some(trackers) = self.0.get_mut(prefix) {
            trackers.retain(|tracker| tracker.client != client);
            if trackers.is_empty() {
                self.0.remove(prefix);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All clients.
    pub(super) fn clients(&self) -> Vec<Subscriber> {
        let mut clients: Vec<Subscriber> = self.0.values().flatten().map(|tracker| tracker.client).collect();
        clients.sort_unstable();
        clients.dedup();
        clients
    }

    /// What is told of changes: for each prefix the keys that it fits, each once. A client that does not want its own changes is told
    /// of those of others; `writer` finds who has made a change.
    pub(super) fn invalidations(
        &self,
        changes: &[Change],
        writer: impl Fn(&Change) -> Option<Subscriber>,
    ) -> Vec<Invalidation> {
        let mut told = Vec::new();
        for (prefix, trackers) in &self.0 {
            let mut fits: BTreeMap<&[u8], Option<Subscriber>> = BTreeMap::new();
            for change in changes.iter().filter(|change| client_key(&change.key).starts_with(prefix)) {
                fits.insert(&change.key, writer(change));
            }
            if fits.is_empty() {
                continue;
            }
            let (alone, others): (Vec<&Tracker>, Vec<&Tracker>) = trackers
                .iter()
                .partition(|tracker| tracker.no_loop && fits.values().any(|writer| *writer == Some(tracker.client)));
            let mut tell = |keys: Vec<Vec<u8>>, clients: Vec<Subscriber>| {
                if !keys.is_empty() && !clients.is_empty() {
                    told.push(Invalidation { keys: Some(keys), is_broadcast: true, clients });
                }
            };
            tell(fits.keys().map(|key| key.to_vec()).collect(), others.iter().map(|tracker| tracker.client).collect());
            for tracker in alone {
                let of_others = fits.iter().filter(|(_, writer)| **writer != Some(tracker.client));
                tell(of_others.map(|(key, _)| key.to_vec()).collect(), vec![tracker.client]);
            }
        }
        told
    }
}
