//! `maxmemory-clients`: where all clients take too much memory together, those that take the most are closed.

use super::connection::Connection;
use super::registry::Clients;
use super::slow::note_evicted;
use node::session::Keyspace;

/// Who takes less is not closed: so many others would have to go.
const EVICTED_BYTES_MIN: u64 = 64 * 1024;

/// Whether a connection may be closed to save memory. One of another node has requests of many clients.
fn may_be_closed(connection: &Connection) -> bool {
    connection.session.entry().may_be_evicted() && connection.session.keyspace() != Keyspace::Stored
}

/// Notes what the clients of a worker take, of whom these were looked at in this tick; closes the largest of these if all clients of the
/// node take too much. A client of another worker that takes twice as much is closed there.
pub(super) fn close_largest(clients: &mut Clients, looked_at: &[usize]) {
    let (store, worker) = (clients.store().clone(), clients.worker());
    let taken = |clients: &mut Clients, id: usize| {
        let connection = clients.get_mut(id).filter(|connection| !connection.is_broken())?;
        Some(connection.session.entry().total_bytes())
    };
    let largest = looked_at.iter().filter_map(|id| taken(clients, *id)).max().unwrap_or(0);
    store.client_memory.note(worker, clients.taken_bytes, largest);
    let mut over = store.client_memory.bytes().saturating_sub(store.config.clients_bytes_max());
    if over == 0 {
        return;
    }
    let least = EVICTED_BYTES_MIN.max(store.client_memory.largest() / 2);
    let mut takers: Vec<(u64, usize)> = looked_at.iter().filter_map(|id| Some((taken(clients, *id)?, *id))).collect();
    takers.retain(|(bytes, _)| *bytes >= least);
    takers.sort_unstable_by(|one, other| other.cmp(one));
    for (bytes, id) in takers {
        if over == 0 {
            break;
        }
        if let Some(connection) = clients.get_mut(id).filter(|connection| may_be_closed(connection)) {
            note_evicted(&store, worker, connection, bytes);
            clients.touch(id);
            over = over.saturating_sub(bytes);
        }
    }
}
