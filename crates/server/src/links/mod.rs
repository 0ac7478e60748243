//! Links between nodes: one connection for each two, for all their shards.

mod call;
mod complaints;
mod connections;
mod contacts;
mod dialer;
mod frame;
mod greeting;
mod handshake;
mod identity;
mod link;
#[expect(clippy::module_inception, reason = "the noun is the module's")]
mod links;
mod queue;
mod refusal;
mod resolver;

pub use call::call;
pub use frame::Packing;
pub use greeting::Purpose;
pub(crate) use greeting::{
    CLUSTER_DATABASES_SINCE, FIFTH_ENGINE_SINCE, FOURTH_ENGINE_SINCE, SCRIPTS_SINCE, SEVENTH_ENGINE_SINCE,
    SIXTH_ENGINE_SINCE, THIRD_ENGINE_SINCE,
};
pub use handshake::Peer;
pub use identity::{Identity, SharedIdentity};
pub use links::{Guard, Hear, LinkEvent, LinkStats, Links, LinksOptions};
pub(crate) use refusal::ONE_STORE;
pub use refusal::{Refusal, RefusalKind};

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tls_tests;
