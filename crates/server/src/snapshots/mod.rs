//! Snapshots between nodes: threads and connections of their own, beside the links.

mod bucket;
mod intake;
mod outbound;
mod parts;
mod receiver;
mod sender;
mod shared;
#[expect(clippy::module_inception, reason = "the noun is the module's")]
mod snapshots;
mod stream;
mod transfer;

pub use outbound::{Outbound, Received, SnapshotHost};
pub use shared::SnapshotOptions;
pub use snapshots::Snapshots;
pub use transfer::{Direction, TransferStatus};

#[cfg(test)]
mod tests;
