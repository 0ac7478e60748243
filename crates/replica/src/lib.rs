//! One Raft group behind a narrow door: propose, persist, commit; and the log that all groups of a node share.
//!
//! `Replica` is pure: it decides, the shell writes. `Log` is the shared log file set (raft-engine), `DiskHealth` what
//! is known of the device below it. <https://raft.github.io/raft.pdf>

mod disk;
mod error;
mod inspect;
mod log_store;
mod replica;
mod tail;

pub use disk::{DiskHealth, DiskState};
pub use error::{Error, Result};
pub use inspect::{LogEnd, LogFileInfo, LogInspection};
pub use log_store::{GroupState, Log, LogOptions, LogWrite};
pub use raft::eraftpb::{Entry, EntryType, Message};
pub use replica::{Replica, ReplicaStatus, Turn, has_commands};
