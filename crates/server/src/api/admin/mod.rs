//! What an operator asks of the store: one function behind `KV.ADMIN`, `basalt ctl` and the HTTP API.
//!
//! It runs on threads that may wait. What needs the newest map or the director is asked of the node that leads the
//! metadata group. While no node leads it, the node that was asked answers with what it sees itself, and says so.

mod changes;
mod digests;
mod error;
mod events;
mod findings;
mod maps;
mod nodes;
mod plans;
mod preview;
mod query;
mod recover;
mod request;
mod run;
mod settings;
mod shards;
mod sight;
mod status;
mod users;
mod verify;

pub(crate) use digests::digest_marked;
pub(crate) use error::{AdminError, decode};
pub(crate) use run::{admin, call_handler, handler};
pub(crate) use sight::director_status;
pub(crate) use users::{call_handler as call_users_handler, handler as users_handler, import_patiently};

/// Whether the admin function understands these words.
#[cfg(test)]
pub(crate) fn understands(words: &[String]) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    request::AdminRequest::parse(&words).is_ok()
}
