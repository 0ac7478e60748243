//! One Raft group behind a narrow door: propose, persist, commit; and the log that all groups of a node share.
//!
//! `Replica` is pure: it decides, the shell writes. `Log` is the shared log file set (raft-engine), `DiskHealth` what
//! is known of the device below it. <https://raft.github.io/raft.pdf>

mod disk;
mod disk_health;
mod disk_log;
mod election;
mod error;
mod full_files;
mod inspect;
mod kept_log;
mod log_read;
mod log_store;
mod log_write;
mod member_change;
mod members;
mod memory_log;
mod message_validation;
mod progress;
mod raft_storage;
mod ready;
mod records;
mod replica;
mod resends;
mod snapshot;
mod spare_file;
mod staging;
mod sync_ring;
pub mod wire;

pub use bytes::Bytes;
pub use disk_health::{DiskHealth, DiskState};
pub use disk_log::{Log, LogOptions};
pub use error::{Error, Result};
pub use inspect::{LogEnd, LogFileInfo, LogInspection};
pub use log_read::{LogEntries, LogRead};
pub use log_store::{GroupState, LogStore};
pub use log_write::{Install, LogWrite, Op, is_member_change};
pub use members::{MemberChange, MemberKind, Members};
pub use memory_log::MemoryLog;
pub use raft::eraftpb::{ConfState, Entry, EntryType, HardState, Message, MessageType};
pub use ready::{FollowerState, Ready, ReplicaStatus, SnapshotPoint, has_commands};
pub use replica::Replica;
