//! What runs the commands that need the server itself, rather than a shard's rows.

use crate::shared::NodeShared;
use node::{ShardHandle, Type};
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
    /// Those with one of these words.
    With(&'static [&'static str]),
    /// Those whose first key holds a collection of this type with more elements than that, or may hold one.
    Larger(Type, u64),
}

impl Takes {
    pub(super) fn takes(self, store: &NodeShared, args: &[&[u8]]) -> bool {
        match self {
            Self::All => true,
            Self::Bare => args.len() == 1,
            Self::With(words) => has_word(args, words),
            Self::Larger(ty, elements) => {
                let known = store.known();
                let key = args.get(1).copied().unwrap_or_default();
                let shard = known.shard_of(slot_of(key));
                let handle: Option<&Arc<ShardHandle>> = shard.and_then(|shard| known.handle(shard.0 as usize));
                handle.is_some_and(|handle| handle.may_hold_larger(key, ty, elements))
            }
        }
    }
}

/// Whether one of these words is among the options of a request.
pub(super) fn has_word(args: &[&[u8]], words: &[&str]) -> bool {
    let is_one = |arg: &&[u8]| words.iter().any(|word| arg.eq_ignore_ascii_case(word.as_bytes()));
    args.iter().skip(2).any(is_one)
}
