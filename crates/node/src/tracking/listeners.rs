//! The clients of a node that have asked for prefixes.

use super::changes::{ChangedKey, Invalidation};
use super::prefixes::{Prefix, Prefixes};
use super::tracker::{Audience, Tracker};
use crate::subscriber::Subscriber;
use std::collections::BTreeSet;
use vocab::Database;

/// The clients of a node that have asked for prefixes.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    /// Those that are told of keys of the cluster's clients.
    cluster: Prefixes,
    /// Those that are told of keys of databases.
    databases: Prefixes,
}

impl Listeners {
    fn of(&mut self, audience: Audience) -> &mut Prefixes {
        match audience {
            Audience::Cluster => &mut self.cluster,
            Audience::Databases => &mut self.databases,
        }
    }

    /// Whether there is room for more.
    pub(super) fn has_room(&self, more: &[Prefix]) -> bool {
        Prefixes::have_room(&[&self.cluster, &self.databases], more)
    }

    pub(super) fn add(&mut self, prefixes: &[Prefix], tracker: Tracker, audience: Audience) {
        prefixes.iter().for_each(|prefix| self.of(audience).add(prefix, tracker));
    }

    pub(super) fn remove(&mut self, prefixes: &[Prefix], client: Subscriber, audience: Audience) {
        prefixes.iter().for_each(|prefix| self.of(audience).remove(prefix, client));
    }

    pub(super) fn len(&self) -> usize {
        self.cluster.len() + self.databases.len()
    }

    /// All of them.
    pub(super) fn clients(&self) -> BTreeSet<Subscriber> {
        self.cluster.clients().chain(self.databases.clients()).collect()
    }

    /// Those that are told of keys of databases.
    pub(super) fn clients_of_databases(&self) -> BTreeSet<Subscriber> {
        self.databases.clients().collect()
    }

    /// How many clients are told of a key of a shard that this node leads, or not.
    pub(super) fn reach(&self, key: &[u8], leads: bool) -> usize {
        match Database::of_key(key) {
            None => self.cluster.reach(key),
            Some(_) if leads => self.databases.reach(key),
            Some(_) => 0,
        }
    }

    /// What is told of changes in a shard that this node leads, or not.
    pub(super) fn invalidations(&self, changed: &[ChangedKey], leads: bool) -> Vec<Invalidation> {
        let of = |databases: bool| changed.iter().filter(move |it| Database::of_key(&it.key).is_some() == databases);
        let mut told = self.cluster.invalidations(of(false));
        if leads && self.databases.len() > 0 {
            told.extend(self.databases.invalidations(of(true)));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::{ClusterDatabase, Namespace};

    #[test]
    fn keys_of_databases_are_told_by_their_leaders_alone() {
        let client = |connection| Subscriber { worker: 0, connection, generation: 1 };
        let tracker = |connection| Tracker { client: client(connection), no_loop: false };
        let prefix: [Prefix; 1] = [b"a".as_slice().into()];
        let mut listeners = Listeners::default();
        listeners.add(&prefix, tracker(1), Audience::Cluster);
        listeners.add(&prefix, tracker(2), Audience::Databases);
        assert_eq!((listeners.len(), listeners.clients().len()), (2, 2));
        assert_eq!(listeners.clients_of_databases(), BTreeSet::from([client(2)]));
        let of_cluster = ClusterDatabase::of_number(3).map(Namespace::Cluster).unwrap().stored(b"a");
        let of_database = Database::of_number(3).map(Namespace::Database).unwrap().stored(b"a");
        for (key, leads, told_to) in [
            (b"a".to_vec(), false, Some(1)),
            (b"a".to_vec(), true, Some(1)),
            (of_cluster, true, Some(1)),
            (of_database.clone(), true, Some(2)),
            (of_database, false, None),
            (b"b".to_vec(), true, None),
        ] {
            let told =
                listeners.invalidations(&[ChangedKey { key: key.clone(), client: None, stay: Vec::new() }], leads);
            assert_eq!(listeners.reach(&key, leads), usize::from(told_to.is_some()), "{}", key.escape_ascii());
            let clients: Vec<Subscriber> = told.into_iter().flat_map(|told| told.clients).collect();
            assert_eq!(clients, told_to.map(client).into_iter().collect::<Vec<_>>(), "{} {leads}", key.escape_ascii());
        }
        listeners.remove(&prefix, client(2), Audience::Cluster);
        assert_eq!(listeners.len(), 2);
        listeners.remove(&prefix, client(2), Audience::Databases);
        assert_eq!(listeners.len(), 1);
    }
}
