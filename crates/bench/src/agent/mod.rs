//! `basalt bench agent`: makes a part of the load for a coordinator, which is another process, here or elsewhere.
//!
//! The two exchange frames of JSON over TCP (`frame`, `message`): a hello with the protocol's version and a nonce each
//! way, a proof of the shared secret each way (`handshake`), then pings that compare the clocks, a job, and what comes
//! of it. Nothing of the frames is encrypted: the secret keeps strangers out, not listeners.

mod converse;
mod frame;
pub(crate) mod handshake;
mod job;
mod message;
mod options;
mod serve;
mod work;

pub use options::AgentOptions;

pub(crate) use frame::{FrameReader, write_frame};
pub(crate) use job::{Job, Share};
pub(crate) use message::{Done, FromAgent, ToAgent};
pub(crate) use options::{SECRET_VARIABLE, read_secret};
#[cfg(test)]
pub(crate) use serve::accept;
pub(crate) use serve::serve;
