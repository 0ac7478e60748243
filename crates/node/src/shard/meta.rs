//! The state of the metadata group: the map, as its entries have made it, and what is remembered of how.

use super::events::{EventNumbers, Told, made, told};
use crate::format::keys;
use crate::view::ShardView;
use cluster::{Change, Map};
use resp::Reply;
use std::sync::Arc;
use storage::{Slice, WriteBatch};

/// The map as of the applied index. `None` until the group's first entry has brought it.
#[derive(Debug, Default)]
pub(crate) struct MetaState {
    map: Option<Arc<Map>>,
    events: EventNumbers,
}

/// What one change came to.
#[derive(Default)]
struct Done {
    changed: bool,
    told: Option<Told>,
}

/// The map that the metadata group's tree holds, as of its applied index; none before the first entry.
pub fn stored_map(view: &ShardView) -> Result<Option<Map>, String> {
    let bytes = view.engine().get(keys::MAP).map_err(|e| e.to_string())?;
    bytes.map(|bytes| Map::decode(&bytes).map_err(|e| format!("the map: {e}"))).transpose()
}

impl MetaState {
    /// What the group's tree holds.
    pub(crate) fn load(view: &ShardView) -> Result<Self, String> {
        let events = EventNumbers::load(view).map_err(|e| e.to_string())?;
        Ok(Self { map: stored_map(view)?.map(Arc::new), events })
    }

    pub(crate) fn map(&self) -> Option<&Arc<Map>> {
        self.map.as_ref()
    }

    /// Applies entry `index` of `now_ms`, which carries one change; true if the map is another now. A refused change is
    /// its reply.
    pub(crate) fn apply(
        &mut self,
        view: &ShardView,
        index: u64,
        change: &[u8],
        now_ms: u64,
        reply: &mut Reply,
    ) -> bool {
        let done = self.change(change, now_ms, reply);
        let mut batch = WriteBatch::default();
        if done.changed
            && let Some(map) = &self.map
        {
            batch.writes.push((Slice::from(keys::MAP), Some(Slice::from(map.encode()))));
        }
        if let Some(told) = &done.told {
            batch.writes.extend(self.events.push(told));
        }
        view.begin_write(index);
        view.engine().apply(index, batch);
        done.changed
    }

    fn change(&mut self, bytes: &[u8], now_ms: u64, reply: &mut Reply) -> Done {
        let change = match Change::decode(bytes) {
            Ok(change) => change,
            Err(detail) => {
                reply.error(&format!("ERR not a change of the map: {detail}"));
                return Done::default();
            }
        };
        if let Change::Begin(map) = change {
            return self.begin(map, now_ms, reply);
        }
        let Some(map) = &self.map else {
            reply.error("ERR the store has no map yet");
            return Done::default();
        };
        let mut next = Map::clone(map);
        match next.apply(&change) {
            Ok(outcome) => {
                reply.ok();
                let changed = outcome.changed;
                let told = told(map, &next, &change, changed, now_ms);
                if changed {
                    self.map = Some(Arc::new(next));
                }
                Done { changed, told }
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
        self.map = Some(Arc::new(map));
        Done { changed: true, told: Some(told) }
    }
}
