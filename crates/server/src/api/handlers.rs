//! What runs the commands that need the server itself, rather than a shard's rows.

use crate::shared::NodeShared;
use node::ShardHandle;
use resp::Reply;
use std::sync::Arc;
use vocab::{ShardId, slot_of};

/// Runs a command on a thread of the pool, which may wait.
pub(super) type PoolHandler = fn(&Arc<NodeShared>, &[&[u8]], &mut Reply);

/// Runs a command that another node has sent, about that shard; answers one RESP3 frame.
pub(super) type CallHandler = fn(&Arc<NodeShared>, ShardId, &[&[u8]]) -> Vec<u8>;

/// Which requests of a command go to the pool.
#[derive(Clone, Copy, Default)]
pub(super) enum Takes {
    /// All.
    #[default]
    All,
    /// Those without arguments.
    Bare,
    /// Those with this word.
    With(&'static str),
    /// Those whose first key holds a list that is too long to be searched in an entry, or may hold one.
    LongLists,
}

impl Takes {
    pub(super) fn takes(self, store: &NodeShared, args: &[&[u8]]) -> bool {
        match self {
            Self::All => true,
            Self::Bare => args.len() == 1,
            Self::With(word) => has_word(args, word),
            Self::LongLists => {
                let known = store.known();
                let key = args.get(1).copied().unwrap_or_default();
                let shard = known.shard_of(slot_of(key));
                let handle: Option<&Arc<ShardHandle>> = shard.and_then(|shard| known.handle(shard.0 as usize));
                handle.is_some_and(|handle| handle.may_hold_long_list(key))
            }
        }
    }
}

/// Whether that word is among the options of a request.
pub(super) fn has_word(args: &[&[u8]], word: &str) -> bool {
    args.iter().skip(2).any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
}
