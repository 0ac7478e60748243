//! What a shard remembers of numbered requests, as rows of its tree: one a client, their number, and the order in which
//! they are to be forgotten.

use super::writes::EntryWrites;
use crate::Fault;
use crate::format::client_requests::ClientRequests;
use crate::format::keys;
use storage::{Slice, Span};
use vocab::limits;

/// What is remembered of a client.
pub(super) fn row_of(writes: &EntryWrites<'_>, client: &[u8]) -> Result<Option<Slice>, Fault> {
    writes.row(&keys::requests(client))
}

/// Writes what `row_of` reads, to be forgotten at `until_ms`.
pub(super) fn write(
    writes: &mut EntryWrites<'_>,
    client: &[u8],
    row: &[u8],
    until_ms: u64,
    was_until_ms: Option<u64>,
) -> Result<(), Fault> {
    assert!(!client.is_empty(), "the row of no client is the count of clients");
    if was_until_ms.is_none() {
        count_clients(writes, 1)?;
    }
    if was_until_ms != Some(until_ms) {
        if let Some(at_ms) = was_until_ms {
            writes.write(&keys::forgetting(at_ms, client), None);
        }
        writes.write(&keys::forgetting(until_ms, client), Some(Slice::from(&[][..])));
        writes.handle().expires_at(until_ms);
    }
    writes.write(&keys::requests(client), Some(Slice::from(row)));
    Ok(())
}

/// Of how many clients something is remembered.
pub(super) fn client_count(writes: &EntryWrites<'_>) -> Result<u64, Fault> {
    let Some(count) = writes.row(keys::REQUEST_CLIENTS)? else { return Ok(0) };
    let count = count[..].try_into().map_err(|_| {
        Fault::Storage(writes.handle().corrupt("the count of clients with numbered requests has a wrong length"))
    })?;
    Ok(u64::from_le_bytes(count))
}

fn count_clients(writes: &mut EntryWrites<'_>, by: i64) -> Result<(), Fault> {
    let count = client_count(writes)?.saturating_add_signed(by);
    let row = (count > 0).then(|| Slice::from(&count.to_le_bytes()[..]));
    writes.write(keys::REQUEST_CLIENTS, row);
    Ok(())
}

/// One step of forgetting clients whose time is over; answers when the next one's is.
pub(super) fn forget(writes: &mut EntryWrites<'_>) -> Result<u64, Fault> {
    let (start, end) = keys::forgettings();
    let now_ms = writes.now_ms();
    let is_later = |tree_key: &[u8]| keys::parse_forgetting(tree_key).is_some_and(|(at_ms, _)| at_ms > now_ms);
    let due = writes.merged_keys_until(&Span { start, end }, limits::COLLECT_STEP_MAX, is_later)?;
    let mut next = u64::MAX;
    for tree_key in due {
        let handle = writes.handle();
        let malformed = |detail| Fault::Storage(handle.corrupt(detail));
        let (at_ms, client) = keys::parse_forgetting(&tree_key)
            .ok_or_else(|| malformed("a time at which requests are to be forgotten cannot be parsed"))?;
        if at_ms > writes.now_ms() {
            return Ok(at_ms);
        }
        next = writes.now_ms();
        if let Some(row) = row_of(writes, client)? {
            let until_ms = ClientRequests::decode(&row).map(|row| row.until_ms);
            // It is kept with the row; a stray one is dropped all the same.
            if until_ms.ok_or_else(|| malformed("the row of a client's requests is malformed"))? == at_ms {
                writes.write(&keys::requests(client), None);
                count_clients(writes, -1)?;
            }
        }
        writes.write(&tree_key, None);
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::command::{Call, Handler, handler};
    use crate::test_shard::{empty_shard, entry};
    use crate::{EntrySpace, ShardHandle, WriteSpace};
    use resp::Reply;
    use std::sync::Arc;
    use vocab::ShardId;
    use vocab::limits::REQUESTS_KEPT_MS;

    /// A shard in memory, and the time of its next entry.
    struct Requests {
        handle: Arc<ShardHandle>,
        now_ms: u64,
        _folder: tempfile::TempDir,
    }

    impl Requests {
        fn new() -> Self {
            let (handle, folder) = empty_shard(ShardId(1));
            Self { handle, now_ms: 1_700_000_000_000, _folder: folder }
        }

        fn entry<T>(&mut self, run: impl FnOnce(&mut EntrySpace<'_>) -> T) -> T {
            entry(&self.handle, self.now_ms, run)
        }

        fn put(&mut self, client: &str, number: &str) -> String {
            self.entry(|space| put(space, client, number))
        }

        fn rows(&self) -> usize {
            let snapshot = self.handle.engine().snapshot();
            let all = snapshot.iter(storage::Span { start: Vec::new(), end: Vec::new() }, false);
            all.filter(|row| matches!(row.as_ref().unwrap().0.first(), Some(b'q' | b'y'))).count()
        }
    }

    fn put(space: &mut EntrySpace<'_>, client: &str, number: &str) -> String {
        let args = [&b"KV.PUT"[..], b"k", b"v", b"REQUEST", client.as_bytes(), number.as_bytes()];
        let mut reply = Reply::default();
        let Some(Handler::Write(run)) = handler(resp::table::lookup(args[0]).unwrap()) else { panic!("a write") };
        run(&mut Call { args: &args, space, reply: &mut reply }).unwrap();
        String::from_utf8(reply.buf).unwrap().trim_end().to_owned()
    }

    #[test]
    fn retries_are_told_within_an_entry_and_later() {
        let mut requests = Requests::new();
        let twice = requests.entry(|space| [put(space, "a", "1"), put(space, "b", "1"), put(space, "a", "1")]);
        assert_eq!(twice, [":1", ":1", ":1"]);
        assert_eq!([requests.put("c", "1"), requests.put("a", "1"), requests.put("a", "2")], [":2", ":1", ":4"]);
        assert_eq!(requests.entry(|space| space.request_clients().unwrap()), 3);
        // A row and a time for each, and their count.
        assert_eq!(requests.rows(), 7);
    }

    #[test]
    fn clients_are_forgotten_when_their_time_is_over() {
        let mut requests = Requests::new();
        requests.put("a", "1");
        requests.entry(|space| space.housekeep().unwrap());
        assert!(!requests.handle.wants_housekeeping(requests.now_ms));
        requests.now_ms += REQUESTS_KEPT_MS;
        requests.put("b", "1");
        requests.put("a", "2");
        assert_eq!(requests.rows(), 5, "a place in the order of forgetting is left when another is taken");
        requests.entry(|space| space.housekeep().unwrap());
        assert_eq!(requests.put("a", "1"), ":1", "it was used since");
        requests.now_ms += REQUESTS_KEPT_MS * 11 / 10;
        assert!(requests.handle.wants_housekeeping(requests.now_ms));
        requests.entry(|space| space.housekeep().unwrap());
        assert_eq!((requests.rows(), requests.entry(|space| space.request_clients().unwrap())), (0, 0));
        requests.entry(|space| space.housekeep().unwrap());
        assert!(!requests.handle.wants_housekeeping(u64::MAX - 1), "nothing is left to forget");
    }
}
