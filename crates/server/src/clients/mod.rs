//! The connections of a worker's clients: their requests, and the answers that they are owed.

mod after_exec;
mod client_id;
mod connection;
mod deed;
mod dispatch;
mod forward;
mod forwarded;
mod forwarding;
mod gathers;
mod handshakes;
mod invalidations;
mod learn;
mod long_replies;
mod message_send;
mod monitor;
mod output_watch;
mod publish;
mod read;
mod registry;
mod replica_count;
mod reply_queue;
mod reply_sender;
mod request;
mod script;
mod send_queue;
#[cfg(test)]
mod send_queue_shuttle_tests;
mod send_thread;
mod store_setting;
mod turn;
mod upstream;
mod upstreams;
mod wait;
mod watch;
mod write;

use crate::sync;
pub(crate) use dispatch::Dispatcher;
pub(crate) use forward::{FIRST_UPSTREAM, Forwarder};
pub(crate) use handshakes::{FIRST_HANDSHAKE, Handshakes, Secured};
pub(crate) use invalidations::{tell, tell_here, tell_instead, tend};
pub(crate) use learn::learned;
pub(crate) use monitor::{show_here, show_line};
pub(crate) use registry::{Clients, FIRST_CONNECTION};
pub(crate) use reply_sender::ReplySender;
pub(crate) use wait::Waits;
pub(crate) use watch::watched;
