//! Scripts: Lua 5.1 with what Redis 7 gives a script, run on a space as the commands of a transaction are.
//!
//! A script that may write is evaluated when its entry is applied, on every replica, with one result. So nothing that it sees may
//! differ between replicas: its time and chance are the entry's, no address in memory is shown, tables whose order would depend
//! on one are in the order in which their keys came (engines before the seventh refuse to walk over them), and the budgets of instructions
//! and memory count what is the same everywhere. What passes a budget is refused, and nothing of it is written.
//!
//! On an event loop a script has a small budget, and a Lua state that the thread uses again. One that needs more is given up, and a
//! thread evaluates it from the beginning in a state of its own: there a budget ends it at the same instruction on all replicas.
//!
//! A script that is not known to write begins as a read ([`Rights::ReadFirst`]). Where it writes all the same, it is given up,
//! and its request becomes an entry.

mod allocation;
mod call;
mod calls;
mod context;
mod databases;
mod direct;
mod end;
mod engine;
mod functions;
mod header;
mod host;
mod known;
mod lent;
mod libraries;
mod library;
mod library_source;
mod meter;
mod natives;
mod patterns;
mod raised;
mod stand_in;
mod stored;
mod to_lua;
mod to_reply;
mod values;

pub(crate) use call::{Rights, Source, run};
pub use context::{EngineVersion, ScriptContext};
pub use databases::ScriptDatabases;
pub use engine::{LoadedLibrary, check_library, check_script, keep_script_state};
pub use functions::FunctionInfo;
pub use header::{ScriptFlags, ScriptHeader};
pub(crate) use host::ScriptHost;
pub use known::{KnownScript, KnownScripts};
pub use libraries::Libraries;
pub use natives::{is_sha, sha1_hex};
pub use stored::{
    LIBRARIES_NAME, ScriptOrigin, ScriptTally, keep_script, stored_libraries, stored_script, stored_script_names,
    stored_script_sources,
};
