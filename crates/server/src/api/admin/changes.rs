//! Changes of the map that an operator waits for, with the reason if the metadata group refuses one.

use super::error::AdminError;
use crate::api::ShardWriter;
use crate::shared::NodeShared;
use cluster::{Change, Map};
use node::ShardHandle;
use std::sync::Arc;

/// How often a change is worked out anew because another one came first.
const TRIES: usize = 5;

/// The map as of the last entry that this node's replica of the metadata group has applied.
pub(super) fn newest_map(handle: &ShardHandle) -> Result<Map, AdminError> {
    let map = node::stored_map(handle).map_err(AdminError::Failed)?;
    map.ok_or_else(|| AdminError::Unavailable("the metadata group has no map yet".to_owned()))
}

/// Makes a change of the newest map and waits until it is so; answers what `make` has told beside it.
pub(super) fn change<T>(
    store: &Arc<NodeShared>,
    handle: &ShardHandle,
    make: impl Fn(&Map) -> Result<(Option<Change>, T), AdminError>,
) -> Result<T, AdminError> {
    let mut tries = 0;
    loop {
        let map = newest_map(handle)?;
        let (change, told) = make(&map)?;
        let Some(change) = change else { return Ok(told) };
        // What is refused for good is refused here, in the same words.
        cluster::apply(&mut map.clone(), &change).map_err(|refusal| AdminError::Refused(refusal.to_string()))?;
        match ShardWriter::new(store.clone()).change(&change) {
            Ok(()) => return Ok(told),
            Err(text) => {
                let error = AdminError::of_reply(&text);
                // What the map was when it was looked at, and what the group made of it, may differ.
                let is_late = matches!(&error, AdminError::Failed(_)) && newest_map(handle)?.epoch > map.epoch;
                tries += 1;
                if !is_late {
                    return Err(error);
                }
                if tries == TRIES {
                    return Err(AdminError::Stale(error.text().to_owned()));
                }
            }
        }
    }
}
