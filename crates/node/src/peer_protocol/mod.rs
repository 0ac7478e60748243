//! The messages between nodes, and their codec.

mod codec;
mod encoded;
mod interest;
mod message;
mod node_report;
mod raft;

pub use encoded::{Encoded, Pieces};
pub use interest::{Interest, Wish};
pub use message::{Order, PeerMessage, Series};
pub use node_report::{
    DivisionReport, LeaderReport, MemberReport, NodeFigures, NodeReport, ReplicaReport, TransferReport,
};
