//! Why data cannot be read.

/// Why a command could not see what it needs. Never to be answered as "not found".
#[derive(Debug)]
pub enum Fault {
    /// The value is not in memory: run the command again where it may wait for the disk.
    WouldBlock,
    /// Storage failed.
    Storage(storage::Error),
    /// The shard is elsewhere, and its leader could not be asked or has refused: the text of the error reply.
    Remote(String),
    /// What was begun as a read writes: it is to be an entry.
    Writes {
        /// And it may add data, so that it is refused where there is no room.
        adds: bool,
    },
}

impl From<storage::Error> for Fault {
    fn from(error: storage::Error) -> Self {
        match error {
            // Only a scan of an event loop bounds them.
            storage::Error::ManyRemovals => Self::WouldBlock,
            error => Self::Storage(error),
        }
    }
}
