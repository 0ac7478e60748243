//! The parts of a split on one node, in their order.

use node::{Shard, SplitTask};
use std::sync::Arc;
use storage::Engine;
use vocab::ShardId;

/// What is to be done next about a split.
pub enum Fork {
    /// The tree is to be forked.
    Tree(SplitTask),
    /// It is; the child's group is to be made.
    Group(SplitTask, Arc<dyn Engine>),
    /// The parent is to go on, the child to be opened, if there is one.
    Parent(Made),
    /// The child is to be given to the core; whether it is to be led here.
    Child(Box<Shard>, bool),
}

/// What became of a split's first parts.
pub struct Made {
    pub(crate) task: SplitTask,
    pub(crate) outcome: Result<Option<Box<Shard>>, String>,
}

impl Fork {
    /// The shard that is being split off.
    #[must_use]
    pub fn child(&self) -> ShardId {
        match self {
            Self::Tree(task) | Self::Group(task, _) | Self::Parent(Made { task, .. }) => task.child,
            Self::Child(shard, _) => shard.handle().id(),
        }
    }

    /// In a word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Tree(_) => "the tree",
            Self::Group(..) => "the group",
            Self::Parent(Made { outcome: Ok(_), .. }) => "the parent goes on",
            Self::Parent(_) => "it fails",
            Self::Child(..) => "the child begins",
        }
    }
}
