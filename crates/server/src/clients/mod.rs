//! The connections of a worker's clients: their requests, and the answers that they are owed.

mod connection;
mod dispatch;
mod outbox;
mod replies;
mod send_thread;
mod wait;
mod write;

pub(crate) use connection::{Connection, Effect, Received};
pub(crate) use dispatch::{Step, Target};
pub(crate) use outbox::Outbox;
pub(crate) use send_thread::SendThread;
