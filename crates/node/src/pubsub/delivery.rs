//! A message and the clients of this node that get it.

use super::kind::{Name, SubscriptionKind};
use super::push::Push;
use crate::subscriber::Subscriber;
use std::sync::Arc;

/// The clients that have subscribed to one name, in their order: those of a worker stand together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audience(Arc<Vec<Subscriber>>);

impl Audience {
    /// Adds a client; false if it is there.
    pub(super) fn add(&mut self, subscriber: Subscriber) -> bool {
        match self.0.binary_search(&subscriber) {
            Ok(_) => false,
            Err(at) => {
                Arc::make_mut(&mut self.0).insert(at, subscriber);
                true
            }
        }
    }

    /// Removes a client; false if it is not there.
    pub(super) fn remove(&mut self, subscriber: Subscriber) -> bool {
        let Ok(at) = self.0.binary_search(&subscriber) else { return false };
        Arc::make_mut(&mut self.0).remove(at);
        true
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of one worker.
    #[must_use]
    pub fn of_worker(&self, worker: u32) -> &[Subscriber] {
        let first = self.0.partition_point(|subscriber| subscriber.worker < worker);
        let rest = &self.0[first..];
        &rest[..rest.partition_point(|subscriber| subscriber.worker == worker)]
    }

    /// The workers that have any, in their order.
    pub fn workers(&self) -> impl Iterator<Item = u32> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let worker = self.0.get(at)?.worker;
            at += self.of_worker(worker).len();
            Some(worker)
        })
    }
}

/// A message on its way to the clients of this node that have subscribed to one name.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// What they get.
    pub push: Push,
    /// What they have subscribed to.
    pub kind: SubscriptionKind,
    /// Its name.
    pub name: Name,
    /// Who they are.
    pub audience: Audience,
}

/// Clients whose subscription to a channel of a slot has ended, because another node leads the slot now.
#[derive(Clone, Debug)]
pub struct Evicted {
    /// The channel.
    pub name: Name,
    /// Who had subscribed to it.
    pub audience: Audience,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audience_is_ordered_by_worker() {
        let of = |worker, connection| Subscriber { worker, connection, generation: 1 };
        let mut audience = Audience::default();
        assert_eq!(audience.workers().next(), None);
        for (subscriber, is_new) in [(of(2, 7), true), (of(0, 3), true), (of(2, 1), true), (of(2, 7), false)] {
            assert_eq!(audience.add(subscriber), is_new, "{subscriber:?}");
        }
        let held = audience.clone();
        assert_eq!(audience.workers().collect::<Vec<_>>(), [0, 2]);
        assert_eq!(audience.of_worker(2), [of(2, 1), of(2, 7)]);
        assert_eq!((audience.of_worker(1), audience.of_worker(3)), (&[][..], &[][..]));
        assert!(audience.remove(of(0, 3)) && !audience.remove(of(0, 3)));
        assert_eq!((audience.len(), held.len()), (2, 3), "a delivery under way keeps its own");
    }
}
