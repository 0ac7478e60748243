//! A connection's session: its user, what it has queued and what it watches, and which of its requests may run.
//!
//! # Contract with the shell
//! For every connection: `Clients::connect` → `Session::new`; for every request, in the order of arrival:
//!
//! ```text
//! let row = authorize(&mut session, table::resolve(args), args, host);
//! match admit(&mut session, row, args, host, &mut reply) {
//!     Admission::Answered(effect) => the reply (or nothing, if silenced) is written; carry out `effect`.
//!     Admission::Execute(spec) => a command over data: route it, run it, write its reply.
//!     Admission::ExecuteAt { spec, slot, handler } => as Execute, but on the shard of `slot`, with `handler`.
//!     Admission::Watch { keys, .. } => look up each key's version, `session.watching(keys, versions)`, reply +OK.
//!         Hold the connection's later requests until then.
//!     Admission::Transaction(t) => propose `t.watches()` and `t.take_data()` as one entry on the shard of `t.slot()`;
//!         then `t.answer(session, host, outcome, elapsed_ns, &mut reply)`, which writes the array (or null, or the
//!         error) and runs the queued session commands in their places.
//!     Admission::WaitFor(wait) => answer with `wait.answer` once `wait.is_met`, or its time is over; hold the connection's
//!         later requests until then. Admit WAIT and WAITAOF only when all requests before are answered.
//!     Admission::Publish { spec, kind } => bring the message to the subscribers; the reply is their number.
//!     Admission::Hold { until_ms } => CLIENT PAUSE, or no room for data: nothing is written; admit the same request
//!         again at that time, or earlier when `Host::wake_all` was called.
//! }
//! ```
//!
//! - Errors of routing (`MOVED`, `CROSSSLOT`, `CLUSTERDOWN`) that the shell finds go through `session.reject`, which
//!   spoils a MULTI under way as Redis does; `admit` itself finds CROSSSLOT within MULTI.
//! - `session.silent()` tells, after `admit`, whether this request's reply is to be thrown away (CLIENT REPLY).
//!   `Answered` has already done so.
//! - A request that was admitted but cannot begin yet is put back (`session.put_back`) before it is admitted again.
//! - A command over data that has ended is counted with `WorkerStats::finished` and `note_if_costly`; what the session
//!   answers, and the commands of a transaction, are counted here.
//! - `session.closing()` true: send what is written, then close. It is also true after CLIENT KILL by another client,
//!   for which `Host::wake` has been called with the entry.
//! - After `admit`, `session.durability_for(spec, args)` (of EXEC:
//!   `durability()`) and `session.consistency_for(spec, args)` tell what the client is promised.
//! - A write that has been answered is told to `session.wrote`, with the shard's last entry at that time or the write's.
//! - A session belongs to one thread and is told the time once a turn with `active`. What others may see of it
//!   (CLIENT LIST) is in its `ClientEntry`.

mod admission;
mod clients;
mod cluster_facts;
mod commands;
mod costly;
mod database_request;
mod door;
mod effect;
mod host;
mod keyspace;
mod login;
mod memory_figures;
mod queue;
mod resolved;
mod rights;
mod shown_certificate;
mod state;
#[cfg(test)]
mod testhost;
mod transaction;
mod wait;
mod watches;

pub use crate::guarantees::{Acks, Consistency, Durability, consistency_of};
pub use admission::{Admission, admit, no_room_for_script};
pub use clients::{About, Buffers, ClientEntry, Clients};
pub use cluster_facts::{ClusterFacts, ClusterLink, ClusterNode, ClusterReplica, ClusterShard, Route, SlotRange};
pub use commands::{info, published_kind};
pub use costly::{Cost, note_if_costly, note_large};
pub use database_request::{DatabaseArgs, DatabaseClient, DatabaseRequest, other_number};
pub use door::{is_protected, turned_away};
pub use effect::Effect;
pub use host::{
    CertificateFigures, ClusterDatabases, Host, NodeFacts, ProgramFacts, REDIS_VERSION, ShardFacts, TlsFigures,
    TransferFacts,
};
pub use keyspace::Keyspace;
pub use memory_figures::MemoryFigures;
pub use resolved::Resolved;
pub use rights::{authorize, note_denied_in_script, refused_wait};
pub use shown_certificate::ShownCertificate;
pub use state::{Discarded, Session, ToldHow};
pub use transaction::{Transaction, check_flush, flushed_database};
pub use wait::{WaitFor, Written};
