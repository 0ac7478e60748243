//! The control plane's state, and what decides over it: the map with its changes, and where replicas and leaders belong.
//! Pure: no clock, no socket, no randomness of its own, so that every node comes to the same result.

mod apply;
mod apply_plans;
mod bytes;
mod change;
mod encoding;
mod map;
pub mod placement;
mod plan;
mod plan_words;
mod routes;
mod settings;
#[cfg(test)]
mod tests;

pub use apply::{Outcome, Refusal};
pub use change::Change;
pub use map::{Map, MapError, NodeInfo, ReplicaInfo, ShardInfo};
pub use plan::{Plan, PlanKind, PlanState, Split, Step};
pub use plan_words::{ACCEPT_DATA_LOSS, PLAN_KINDS, PlanWords};
pub use routes::Routes;
pub use settings::{STORE_SETTINGS, SettingKind, Settings, StoreSetting, setting_value, store_setting};
