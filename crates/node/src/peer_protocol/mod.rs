//! What nodes say to each other.

mod codec;
mod encoded;
mod message;
mod node_report;
mod raft;

pub use encoded::{Encoded, Pieces};
pub use message::{Order, PeerMessage};
pub use node_report::{
    DivisionReport, LeaderReport, MemberReport, NodeFigures, NodeReport, ReplicaReport, TransferReport,
};
