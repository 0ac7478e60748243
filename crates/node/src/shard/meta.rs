//! The state of the metadata group: the map, as its entries have made it, and what is remembered of how.

use super::events::{EventNumbers, ToldEvent, made, told};
use super::map_rows::MapRows;
use crate::shard_handle::ShardHandle;
use cluster::{Change, MadeChange, Map, MapUpdate};
use resp::Reply;
use std::sync::Arc;
use storage::WriteBatch;

/// The map as of the applied index. `None` until the group's first entry has brought it.
#[derive(Debug, Default)]
pub(crate) struct MetaState {
    map: Option<Arc<Map>>,
    rows: MapRows,
    events: EventNumbers,
}

/// A change, as an entry carries it.
#[derive(Clone, Copy)]
pub(super) struct ChangeItem<'a> {
    pub(super) bytes: &'a [u8],
    /// The tree keeps the change, rather than the map that it makes.
    pub(super) is_kept: bool,
    /// The leader's clock.
    pub(super) now_ms: u64,
}

/// What one change came to.
#[derive(Default)]
struct Done {
    update: Option<MapUpdate>,
    told: Option<ToldEvent>,
}

/// The map that the metadata group's tree holds, as of its applied index; none before the first entry.
pub fn stored_map(handle: &ShardHandle) -> Result<Option<Map>, String> {
    Ok(MapRows::load(handle).map_err(|e| e.to_string())?.map(|(map, _)| map))
}

impl MetaState {
    /// What the group's tree holds.
    pub(crate) fn load(handle: &ShardHandle) -> storage::Result<Self> {
        let events = EventNumbers::load(handle)?;
        let (map, rows) = MapRows::load(handle)?.unzip();
        Ok(Self { map: map.map(Arc::new), rows: rows.unwrap_or_default(), events })
    }

    pub(crate) fn map(&self) -> Option<&Arc<Map>> {
        self.map.as_ref()
    }

    /// Applies entry `index`, which carries one change; answers the map if it is another now. A refused change is its
    /// reply.
    pub(super) fn apply(
        &mut self,
        handle: &ShardHandle,
        index: u64,
        item: ChangeItem<'_>,
        reply: &mut Reply,
    ) -> Option<MapUpdate> {
        let is_first = self.map.is_none();
        let done = self.change(item, reply);
        let mut batch = WriteBatch::default();
        if let Some(update) = &done.update {
            if is_first {
                (self.rows, batch.writes) = MapRows::begin(&update.map);
            } else {
                batch.writes = self.rows.keep(&update.map, update.changes.first().filter(|_| item.is_kept));
            }
        }
        if let Some(told) = &done.told {
            batch.writes.extend(self.events.push(told));
        }
        handle.begin_write(index);
        handle.engine().apply(index, batch);
        done.update
    }

    fn change(&mut self, item: ChangeItem<'_>, reply: &mut Reply) -> Done {
        let change = match Change::decode(item.bytes) {
            Ok(change) => change,
            Err(detail) => {
                reply.error(&format!("ERR not a change of the map: {detail}"));
                return Done::default();
            }
        };
        if let Change::Begin(map) = change {
            return self.begin(map, item.now_ms, reply);
        }
        let Some(map) = &self.map else {
            reply.error("ERR the store has no map yet");
            return Done::default();
        };
        let mut next = Map::clone(map);
        match cluster::apply(&mut next, &change) {
            Ok(outcome) => {
                reply.ok();
                let told = told(map, &next, &change, outcome.changed, item.now_ms);
                let update = outcome.changed.then(|| {
                    let made = MadeChange { epoch: next.epoch, bytes: item.bytes.into() };
                    MapUpdate { map: Arc::new(next), changes: vec![made] }
                });
                if let Some(update) = &update {
                    self.map = Some(update.map.clone());
                }
                Done { update, told }
            }
            Err(refusal) => {
                reply.error(&format!("ERR {refusal}"));
                Done::default()
            }
        }
    }

    /// The first entry of the group; every later leader may have proposed it too.
    fn begin(&mut self, map: Map, now_ms: u64, reply: &mut Reply) -> Done {
        reply.ok();
        if self.map.is_some() {
            return Done::default();
        }
        let told = made(&map, now_ms);
        let map = Arc::new(map);
        self.map = Some(map.clone());
        Done { update: Some(MapUpdate::whole(map)), told: Some(told) }
    }
}
