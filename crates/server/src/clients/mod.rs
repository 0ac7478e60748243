//! The connections of a worker's clients: their requests, and the answers that they are owed.

mod connection;
mod dispatch;
mod gathers;
mod read;
mod registry;
mod reply_queue;
mod reply_sender;
mod send_queue;
#[cfg(test)]
mod send_queue_shuttle_tests;
mod send_thread;
mod turn;
mod wait;
mod write;

use crate::sync;
pub(crate) use dispatch::Dispatcher;
pub(crate) use registry::{Clients, FIRST_CONNECTION};
pub(crate) use reply_sender::ReplySender;
pub(crate) use wait::Waits;
