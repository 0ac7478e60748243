//! A connection that is told things it has not asked for at the moment.

/// A connection that listens, as its worker finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subscriber {
    /// The worker that owns it.
    pub worker: u32,
    /// Its place there.
    pub connection: u32,
    /// Tells it from the connections that had its place before.
    pub generation: u32,
}

/// The workers that have some of the clients, in their order.
pub fn workers_of(clients: &[Subscriber]) -> Vec<u32> {
    let mut workers: Vec<u32> = clients.iter().map(|client| client.worker).collect();
    workers.sort_unstable();
    workers.dedup();
    workers
}
