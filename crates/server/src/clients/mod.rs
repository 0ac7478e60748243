//! The connections of a worker's clients: their requests, and the answers that they are owed.

mod connection;
mod dispatch;
mod gathers;
mod read;
mod registry;
mod reply_queue;
mod reply_sender;
mod send_thread;
mod wait;
mod write;

pub(crate) use dispatch::Requests;
pub(crate) use registry::{Clients, FIRST_CONNECTION};
pub(crate) use reply_sender::ReplySender;
pub(crate) use wait::Waits;
