//! Handlers of the commands that need the server itself, rather than a shard's rows.

use crate::shared::NodeShared;
use node::session::{Durability, Host, Keyspace};
use node::{ShardHandle, Type};
use resp::Reply;
use std::sync::Arc;
use vocab::limits::COPY_WHOLE_ELEMENTS_MAX;
use vocab::{ShardId, SlotSpan, slot_of};

/// Runs a command on a thread of the pool, which may wait.
pub(crate) type PoolHandler = fn(&Arc<NodeShared>, &[&[u8]], &mut Reply);

/// The same of a command that writes keys, with what its client is promised of them.
pub(crate) type PoolWriter = fn(&Arc<NodeShared>, &[&[u8]], Durability, &mut Reply);

/// What runs a command on a thread of the pool.
#[derive(Clone, Copy)]
pub(crate) enum PoolCommand {
    /// It writes no keys: what it changes is promised the same to all clients.
    Plain(PoolHandler),
    /// It writes keys.
    Writes(PoolWriter),
}

impl PoolCommand {
    /// Runs it for a client that is promised that of what it writes.
    pub(crate) fn run(self, store: &Arc<NodeShared>, args: &[&[u8]], durability: Durability, reply: &mut Reply) {
        match self {
            Self::Plain(handler) => handler(store, args, reply),
            Self::Writes(handler) => handler(store, args, durability, reply),
        }
    }
}

/// Runs a command that another node has sent, about that shard; answers one RESP3 frame.
pub(crate) type CallHandler = fn(&Arc<NodeShared>, ShardId, &[&[u8]]) -> Vec<u8>;

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
    /// Those with one of these words whose first two keys no one shard has, or whose first one is too large for one entry.
    Apart(&'static [&'static str]),
    /// Those in a store whose cluster's clients have no databases beyond 0.
    WithoutClusterDatabases,
}

impl Takes {
    pub(super) fn takes(self, store: &NodeShared, args: &[&[u8]]) -> bool {
        match self {
            Self::All => true,
            Self::Bare => args.len() == 1,
            Self::WithoutClusterDatabases => !store.has_cluster_databases(),
            Self::With(words) => has_word(args, words),
            Self::Larger(ty, elements) => may_hold_larger(store, args, &[ty], elements),
            Self::Apart(words) => {
                let [_, one, other, option, ..] = args else { return false };
                let span = SlotSpan::from(slot_of(one)).with(slot_of(other));
                words.iter().any(|word| option.eq_ignore_ascii_case(word.as_bytes()))
                    && (!store.share_shard(span, Keyspace::Stored)
                        || may_hold_larger(store, args, &COLLECTIONS, COPY_WHOLE_ELEMENTS_MAX))
            }
        }
    }
}

const COLLECTIONS: [Type; 5] = [Type::Hash, Type::List, Type::Set, Type::SortedSet, Type::Stream];

/// Whether the first key of a request may hold a collection of one of these types with more elements than that.
fn may_hold_larger(store: &NodeShared, args: &[&[u8]], types: &[Type], elements: u64) -> bool {
    let known = store.known();
    let key = args.get(1).copied().unwrap_or_default();
    let shard = known.shard_of(slot_of(key));
    let handle: Option<&Arc<ShardHandle>> = shard.and_then(|shard| known.handle(shard));
    handle.is_some_and(|handle| types.iter().any(|ty| handle.may_hold_larger(key, *ty, elements)))
}

/// Whether one of these words is among the options of a request.
pub(super) fn has_word(args: &[&[u8]], words: &[&str]) -> bool {
    let is_one = |arg: &&[u8]| words.iter().any(|word| arg.eq_ignore_ascii_case(word.as_bytes()));
    args.iter().skip(2).any(is_one)
}
