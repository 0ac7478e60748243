//! Clients that wait for elements: BLPOP, XREAD BLOCK and the like.
//!
//! An entry never waits. A blocking command is proposed in the form that does not block; if it finds nothing, its client
//! waits here. An entry that leaves something at a key for which clients wait has them tried again, in their order. So has time, where
//! they wait with CLAIM (`claims`).

mod blocked;
mod claims;
mod command;
mod expected;
mod queues;
mod waiters;

pub use blocked::{Blocked, PendingLook};
pub use command::BlockingCommand;
pub use waiters::{Answered, Attempt, Begin, ENDED_BY_CLIENT, End, Ended, Waiters, Withdrawn, ids_of_ended};
