//! Links between nodes: one connection for each two, for all their shards.

mod call;
mod complaints;
mod contacts;
mod frame;
mod greeting;
mod handshake;
mod identity;
mod link;
#[expect(clippy::module_inception, reason = "the noun is the module's")]
mod links;
mod meeting;
mod queue;
mod refusal;
mod resolver;

pub use call::call;
pub use frame::Packing;
pub use greeting::Purpose;
pub use handshake::Peer;
pub use identity::{Identity, SharedIdentity};
/// What to do about two stores that meet.
pub(crate) const ONE_STORE: &str = "two stores were made where one was meant (only one node is told `--init`, or `ctl \
    init` once): stop the nodes of the one that is to go, and start them again with --join and an empty data directory";

pub use links::{Hear, LinkEvent, LinkStats, Links, LinksOptions};
pub use refusal::{Refusal, RefusalKind};

#[cfg(test)]
mod tests;
