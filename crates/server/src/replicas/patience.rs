//! Opens what needs descriptors and memory, and tries again while the process lacks them. A replica that cannot be opened for lack of
//! them is not damaged.

use crate::shared::NodeShared;
use std::thread::sleep;
use std::time::Duration;
use vocab::ShardId;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// Why something could not be opened.
pub(super) enum OpenError {
    /// Storage has failed, perhaps for a shortage that passes.
    Storage(storage::Error),
    /// Anything else.
    Other(String),
}

impl From<storage::Error> for OpenError {
    fn from(error: storage::Error) -> Self {
        Self::Storage(error)
    }
}

impl From<replica::Error> for OpenError {
    fn from(error: replica::Error) -> Self {
        Self::Other(error.to_string())
    }
}

impl From<String> for OpenError {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

/// Opens something of a shard as soon as there are descriptors and memory for it. Blocks until then.
pub(super) fn patiently<T>(
    store: &NodeShared,
    shard: ShardId,
    mut open: impl FnMut() -> Result<T, OpenError>,
) -> Result<T, String> {
    loop {
        match open() {
            Ok(opened) => return Ok(opened),
            Err(OpenError::Storage(e)) if e.is_interrupted() && !store.is_stopping() => {}
            Err(OpenError::Storage(e)) if e.is_passing() && !store.is_stopping() => {
                log::warn!("shard {shard} is opened once there are descriptors and memory for it: {e}");
                sleep(PAUSE);
            }
            Err(OpenError::Storage(e)) => return Err(e.to_string()),
            Err(OpenError::Other(text)) => return Err(text),
        }
    }
}
