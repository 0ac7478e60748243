//! The rows, a chapter a file. A container's subcommands follow it.

pub(super) mod basalt;
pub(super) mod bitmap;
pub(super) mod blocking;
pub(super) mod cluster;
pub(super) mod connection;
pub(super) mod generic;
pub(super) mod geo;
pub(super) mod hash;
pub(super) mod hyperloglog;
pub(super) mod list;
pub(super) mod pubsub;
pub(super) mod scripting;
pub(super) mod server;
pub(super) mod set;
pub(super) mod sorted_set;
pub(super) mod stream;
pub(super) mod string;
