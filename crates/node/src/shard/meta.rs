//! The state of the metadata group: the map, as its entries have made it.

use crate::keys;
use crate::view::ShardView;
use cluster::{Change, Map};
use resp::Reply;
use std::sync::Arc;
use storage::{Slice, WriteBatch};

/// The map as of the applied index. `None` until the group's first entry has brought it.
#[derive(Debug, Default)]
pub(crate) struct MetaState {
    map: Option<Arc<Map>>,
}

impl MetaState {
    /// What the group's tree holds.
    pub(crate) fn load(view: &ShardView) -> Result<Self, String> {
        match view.engine().get(keys::MAP).map_err(|e| e.to_string())? {
            None => Ok(Self::default()),
            Some(bytes) => Ok(Self { map: Some(Arc::new(Map::decode(&bytes).map_err(|e| format!("the map: {e}"))?)) }),
        }
    }

    pub(crate) fn map(&self) -> Option<&Arc<Map>> {
        self.map.as_ref()
    }

    /// Applies entry `index`, which carries one change; true if the map is another now. A refused change is its reply.
    pub(crate) fn apply(&mut self, view: &ShardView, index: u64, change: &[u8], reply: &mut Reply) -> bool {
        let changed = self.change(change, reply);
        let mut batch = WriteBatch::default();
        if changed && let Some(map) = &self.map {
            batch.writes.push((Slice::from(keys::MAP), Some(Slice::from(map.encode()))));
        }
        view.begin_write(index);
        view.engine().apply(index, batch);
        changed
    }

    fn change(&mut self, bytes: &[u8], reply: &mut Reply) -> bool {
        let change = match Change::decode(bytes) {
            Ok(change) => change,
            Err(detail) => {
                reply.error(&format!("ERR not a change of the map: {detail}"));
                return false;
            }
        };
        if let Change::Begin(map) = change {
            // The first entry of the group; every later leader may have proposed it too.
            let first = self.map.is_none();
            if first {
                self.map = Some(Arc::new(map));
            }
            reply.ok();
            return first;
        }
        let Some(map) = &self.map else {
            reply.error("ERR the store has no map yet");
            return false;
        };
        let mut next = Map::clone(map);
        match next.apply(&change) {
            Ok(outcome) => {
                reply.ok();
                let changed = outcome.changed;
                if changed {
                    self.map = Some(Arc::new(next));
                }
                changed
            }
            Err(refusal) => {
                reply.error(&format!("ERR {refusal}"));
                false
            }
        }
    }
}
