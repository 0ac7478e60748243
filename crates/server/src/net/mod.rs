//! Sockets.

mod socket;

pub(crate) use socket::send_now;
