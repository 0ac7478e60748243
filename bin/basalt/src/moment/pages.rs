//! Snapshots of all shards as of one moment, and their pages.

use super::node::{connect, said};
use super::row::BackupRow;
use client::{Client, StoreUrl, Value};
use std::collections::BTreeMap;

const PAGE_BYTES: &[u8] = b"2097152";

/// A shard's snapshot.
pub(crate) struct ShardMoment {
    pub(crate) shard: u64,
    /// As ranges, `first-last` with commas between them.
    pub(crate) slots: String,
    /// The log index of the snapshot.
    pub(crate) index: u64,
    /// Keys, as the shard counts them: expired ones that are not yet collected included.
    pub(crate) keys: u64,
    /// The node that holds the snapshot.
    address: String,
}

/// Snapshots of the whole store as of one moment.
pub(crate) struct StoreMoment {
    id: String,
    /// The moment, in ms since the epoch.
    pub(crate) at_ms: u64,
    /// The id of the store.
    pub(crate) store: String,
    /// The map's number.
    pub(crate) epoch: u64,
    shards: Vec<ShardMoment>,
}

impl StoreMoment {
    /// Has the store take the snapshots.
    pub(crate) fn begin(node: &StoreUrl) -> Result<Self, String> {
        let answer = said(&mut connect(node)?, &[b"KV.BACKUP", b"BEGIN"])?;
        Self::read(&answer, node.secure.is_some())
            .ok_or_else(|| "the store's answer to KV.BACKUP BEGIN cannot be read".to_owned())
    }

    /// Reads the answer to a client that has TLS, or not: it is told of another port of a node.
    fn read(answer: &Value, secure: bool) -> Option<Self> {
        let Value::Array(fields) = answer else { return None };
        let [id, at_ms, store, epoch, Value::Array(parts)] = fields.as_slice() else { return None };
        let part = |part: &Value| {
            let Value::Array(fields) = part else { return None };
            let [shard, slots, index, keys, _, address, tls_port @ ..] = fields.as_slice() else { return None };
            let mut address = text(address)?;
            if let Some(port) = tls_port.first().and_then(Value::as_int).filter(|_| secure) {
                address = format!("{}:{port}", address.rsplit_once(':')?.0);
            }
            Some(ShardMoment {
                shard: shard.as_int()? as u64,
                slots: text(slots)?,
                index: index.as_int()? as u64,
                keys: keys.as_int()? as u64,
                address,
            })
        };
        Some(Self {
            id: text(id)?,
            at_ms: at_ms.as_int()? as u64,
            store: text(store)?,
            epoch: epoch.as_int()? as u64,
            shards: parts.iter().map(part).collect::<Option<_>>()?,
        })
    }

    /// Keys of all shards, as they count them.
    pub(crate) fn keys(&self) -> u64 {
        self.shards.iter().map(|shard| shard.keys).sum()
    }

    /// The snapshots that each node holds.
    pub(crate) fn by_node(&self) -> BTreeMap<&str, Vec<&ShardMoment>> {
        let mut by_node: BTreeMap<&str, Vec<&ShardMoment>> = BTreeMap::new();
        for shard in &self.shards {
            by_node.entry(&shard.address).or_default().push(shard);
        }
        by_node
    }
}

fn text(value: &Value) -> Option<String> {
    Some(String::from_utf8_lossy(value.as_bytes()?).into_owned())
}

/// A connection to a node that holds snapshots. The node drops them when this is dropped.
pub(crate) struct NodePages<'a> {
    client: Client,
    moment: &'a StoreMoment,
}

impl<'a> NodePages<'a> {
    /// Connects to a node of the store.
    pub(crate) fn open(store: &StoreUrl, address: &str, moment: &'a StoreMoment) -> Result<Self, String> {
        let seed = address.parse().map_err(|e| format!("{address}: {e}"))?;
        let url = store.with_seeds(vec![seed]);
        Ok(Self { client: connect(&url)?, moment })
    }

    /// Calls `each` with every row of a shard, in the order of their keys.
    pub(crate) fn read(
        &mut self,
        shard: &ShardMoment,
        mut each: impl FnMut(BackupRow) -> Result<(), String>,
    ) -> Result<(), String> {
        let (id, shard, mut cursor) = (self.moment.id.as_bytes(), shard.shard.to_string(), Vec::new());
        loop {
            let page: [&[u8]; 6] = [b"KV.BACKUP", b"PAGE", id, shard.as_bytes(), &cursor, PAGE_BYTES];
            let answer = said(&mut self.client, &page)?;
            let bad = || format!("{}: a page of shard {shard} cannot be read", self.client.address());
            let Value::Array(fields) = answer else { return Err(bad()) };
            let Ok([next, Value::Array(rows)]) = <[Value; 2]>::try_from(fields) else { return Err(bad()) };
            for row in rows {
                each(BackupRow::of_answer(row).ok_or_else(bad)?)?;
            }
            match next {
                Value::Null => return Ok(()),
                Value::Bulk(next) => cursor = next,
                _ => return Err(bad()),
            }
        }
    }
}

impl Drop for NodePages<'_> {
    fn drop(&mut self) {
        // The node drops snapshots by itself that are not read any more.
        let _ = self.client.call_here(&[b"KV.BACKUP", b"END", self.moment.id.as_bytes()]);
    }
}
