//! The read protocol: which replica may serve a request, and when the answer of a read counts.
//!
//! ```text
//! ReadRequest::begin ──► Run(attempt) ──► handler over attempt.handle() ──► Attempt::finish ──► Answer
//!        ▲  │                                                                   │
//!        │  ├─► WaitForLease   the leader asks a majority; then begin again      │
//!        │  └─► NotHere: Wait      until a leader, or a newer state, is known    │
//!        │               Redirect  another node leads                           │
//!        │               Refuse    the client gets the error                    │
//!        └──────────────────────────── Again ◄───────────────────────────────────┘
//! ```
//!
//! Every shell drives this one state machine: the server's event loops, deferred disk reads, embedded callers,
//! whole-store commands and WATCH, and the simulator. Nothing here reads a clock or sends a message.
//!
//! Invariant: an answer that `finish` releases is linearizable if the request asked for `Consistency::Absolute`, and
//! keeps what its consistency promises otherwise.

mod access;
mod attempt;
#[cfg(test)]
mod fixture;
mod leaders;
mod script_reads;
mod stream;

pub use access::{
    Access, Deadline, Leader, LocalShard, NotHere, Refusal, Replica, is_slot_moving, leader_access, read_access,
};
pub use attempt::{Again, Attempt, Begin, Confirmation, Finish, ReadRequest, confirm_leader};
pub use leaders::LeaderCell;
pub use script_reads::ScriptReads;
pub use stream::{ReplyStream, StreamShard};
