//! The control plane's state, and what decides over it: the map with its changes, and where replicas and leaders belong.
//! Pure: no clock, no socket, no randomness of its own, so that every node comes to the same result.

mod apply;
mod bytes;
mod change;
mod databases;
mod error;
mod history;
mod map;
mod map_files;
mod membership;
mod node_info;
pub mod placement;
mod plan;
mod plan_words;
mod planning;
mod refusal;
mod routes;
mod settings;
mod shard_info;
mod shards;
mod shared;
#[cfg(test)]
mod tests;
mod users;

pub use apply::{apply, as_split};
pub use change::Change;
pub use databases::{DATABASE_WORDS, DATABASES_SETTING, DatabaseRow, DatabaseWord, Databases};
pub use error::MapError;
pub use history::{History, MadeChange, MapUpdate, NotFollowed};
pub use map::Map;
pub use map_files::{MapFiles, MapWrite, read_changes};
pub use node_info::NodeInfo;
pub use placement::initial_map;
pub use plan::{Plan, PlanKind, PlanState, Split, Step};
pub use plan_words::{ACCEPT_DATA_LOSS, PLAN_KINDS, PlanWords, plan_from_words, plan_to_words};
pub use refusal::{Outcome, Refusal};
pub use routes::Routes;
pub use settings::{STORE_SETTINGS, SettingKind, Settings, StoreSetting, setting_value, store_setting};
pub use shard_info::{ReplicaInfo, ShardInfo};
pub use shards::{ShardEdit, Shards};
pub use shared::Shared;
pub use users::{UserChange, UserRules};
