//! From when on clients of a cluster may use databases beyond 0: a setting of the map says it, which the store sets once all of its
//! nodes are known to tell the keys of such databases apart. The first client that asks begins it.

use cluster::Map;
use node::session::ClusterDatabases;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// The setting: by which layout their keys are stored.
pub(crate) const LAYOUT_SETTING: &str = "cluster-database-layout";
/// The layout that this program writes.
pub(crate) const LAYOUT: &str = "1";
/// For how long it holds that they could not be begun: the next client that asks has it tried again.
const REFUSED_FOR: Duration = Duration::from_secs(1);

/// Whether the nodes of a store tell the keys of cluster databases apart.
pub(crate) fn has_cluster_databases(map: &Map) -> bool {
    map.settings.get(LAYOUT_SETTING).is_some_and(|layout| layout == LAYOUT)
}

/// What this node does to have the store begin them.
#[derive(Default)]
pub(crate) struct ClusterDatabasesBegin(Mutex<BeginState>);

#[derive(Default)]
enum BeginState {
    #[default]
    Idle,
    /// A client waits.
    Wanted,
    UnderWay,
    Refused(String, Instant),
}

impl ClusterDatabasesBegin {
    /// A client wants them, and there are none.
    pub(crate) fn want(&self) -> ClusterDatabases {
        let mut state = self.0.lock();
        match &*state {
            BeginState::Refused(text, at) if at.elapsed() < REFUSED_FOR => {
                return ClusterDatabases::Refused(text.clone());
            }
            BeginState::Idle | BeginState::Refused(..) => *state = BeginState::Wanted,
            BeginState::Wanted | BeginState::UnderWay => {}
        }
        ClusterDatabases::Awaited
    }

    /// Whether a client waits for it, and nothing is done yet: the caller does it, and tells by `ended`.
    pub(crate) fn take_wanted(&self) -> bool {
        let mut state = self.0.lock();
        let is_wanted = matches!(*state, BeginState::Wanted);
        if is_wanted {
            *state = BeginState::UnderWay;
        }
        is_wanted
    }

    /// They have begun, or cannot: the error is the text of a reply.
    pub(crate) fn ended(&self, end: Result<(), String>) {
        *self.0.lock() = end.map_or_else(|text| BeginState::Refused(text, Instant::now()), |()| BeginState::Idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_begins_and_the_others_wait() {
        let begin = ClusterDatabasesBegin::default();
        assert!(!begin.take_wanted(), "no client asks");
        assert_eq!(begin.want(), ClusterDatabases::Awaited);
        assert_eq!(begin.want(), ClusterDatabases::Awaited);
        assert!(begin.take_wanted() && !begin.take_wanted());
        assert_eq!(begin.want(), ClusterDatabases::Awaited);
        begin.ended(Err("ERR node 2 is older".to_owned()));
        assert_eq!(begin.want(), ClusterDatabases::Refused("ERR node 2 is older".to_owned()));
        assert!(!begin.take_wanted());
    }
}
