//! Where a request runs.

use super::handlers::PoolCommand;
use crate::shared::{NodeShared, VersionedLibraries};
use node::command::{ReadHandler, StoreHandler};
use node::session::no_room_for_script;
use node::{EncodedCommand, KeyHashes, KnownScript, ScriptFlags};
use std::sync::Arc;
use vocab::{Namespace, ShardId, Slot, SlotSpan};

/// The shard of a request's keys.
pub(crate) struct KeyTarget {
    /// The shard; `None` while the node belongs to no store.
    pub(crate) shard: Option<ShardId>,
    /// The slot of the keys, or of the first of them.
    pub(crate) slot: Slot,
    /// Where the keys are, if they are of several slots.
    pub(crate) wider: Option<SlotSpan>,
    /// Hashes of the keys.
    pub(crate) keys: KeyHashes,
}

/// How a script runs.
pub(crate) enum ScriptRuns {
    /// As a read: it says that it writes nothing.
    Read,
    /// As a read, and in an entry where it writes: it has not written at this node so far, or there is no room for data. Then with the refusal
    /// of what may add some.
    ReadFirst(MayWrite, Option<&'static str>),
    /// In an entry.
    Write,
}

/// What is not known to write.
pub(crate) enum MayWrite {
    /// A script.
    Script(Arc<KnownScript>),
    /// The function of that name of one of the libraries.
    Function(Arc<VersionedLibraries>, String),
}

impl ScriptRuns {
    /// How a script runs that may write and has these flags; the error is the text of the reply. `writes`: it has written at this node.
    pub(super) fn of_writer(
        store: &NodeShared,
        flags: ScriptFlags,
        namespace: Option<Namespace>,
        writes: bool,
        may_write: impl FnOnce() -> MayWrite,
    ) -> Result<Self, &'static str> {
        let database = match namespace {
            Some(Namespace::Database(database)) => Some(database),
            _ => None,
        };
        let refusal = if flags.allow_oom { None } else { no_room_for_script(store, database) };
        match refusal {
            Some(_) if !flags.is_plain => {
                Err("OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'")
            }
            None if writes => Ok(Self::Write),
            refusal => Ok(Self::ReadFirst(may_write(), refusal)),
        }
    }
}

impl MayWrite {
    /// It writes.
    pub(crate) fn note_writes(&self) {
        match self {
            Self::Script(script) => script.note_writes(),
            Self::Function(libraries, name) => libraries.note_writes(name),
        }
    }
}

/// Where a request runs.
pub(crate) enum Routed {
    /// On a replica of one shard that may answer, by this handler.
    Read(KeyTarget, ReadHandler),
    /// On the leader of one shard: what runs it is found when its entry is applied.
    Write(KeyTarget),
    /// On all shards together.
    Store {
        /// What runs it.
        handler: StoreHandler,
        /// The slot whose leader is to run it, if it matters.
        slot: Option<Slot>,
    },
    /// By a thread of the pool, over what that finds out itself.
    Pool {
        /// What runs it.
        handler: PoolCommand,
    },
    /// A script, on one shard.
    Script {
        /// Where.
        target: KeyTarget,
        /// The command as an entry has it.
        command: EncodedCommand,
        /// How it runs.
        runs: ScriptRuns,
    },
    /// A script that this node does not know: once it does, the request is routed anew.
    UnknownScript,
    /// On each shard: FLUSHALL.
    Clear,
}
