//! How threads talk to an event loop: its mailbox, and the messages of a worker.

mod message;
mod queue;

pub(crate) use message::{
    EMBEDDED, Forked, Opened, ShardSnapshot, Submission, WaitingClient, WorkerMessage, WriteBarrier,
};
pub(crate) use queue::Mailbox;
