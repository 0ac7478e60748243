//! A large write that is encoded before it comes to its shard.
//!
//! To copy a long value into an entry, or to look at very many commands one by one, would keep the event loop of the shard. So a
//! thread does all of that: what is asked of the write on its way is worked out, and its bytes are those of the entry that has it
//! alone. The event loop sets the clock in them, and says before them how they are evaluated, in headroom that is left for that.

use crate::format::entry::PreparedEntry;
use resp::table::CommandId;
use smallvec::SmallVec;

/// The rows of commands in the command table: of an entry's, in their order; `None` for one that no client can send.
pub(crate) type CommandRows = SmallVec<[Option<CommandId>; 16]>;

/// See the module's documentation.
#[derive(Debug)]
pub struct PreparedWrite {
    /// The entry that has it alone. Shared with nothing else when the entry is proposed, so that it is not copied.
    pub(super) entry: PreparedEntry,
    /// The rows of its commands.
    pub(super) rows: CommandRows,
    /// What it writes depends on what the entry says before it.
    pub(super) packs: bool,
    /// It may change parts of strings.
    pub(super) is_ruled: bool,
    pub(super) operations: u64,
    pub(super) bytes: usize,
    pub(super) arguments: usize,
    pub(super) is_of_slot: bool,
    pub(super) rewrites: bool,
    pub(super) reports_version: bool,
    pub(super) scripts: usize,
    pub(super) known_answer: Option<&'static [u8]>,
}
