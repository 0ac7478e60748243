//! Which replica may serve a request, by what a node knows of the shard, and how long the request may wait for one.

use super::LeaderCell;
use crate::guarantees::Consistency;
use crate::shard_handle::ShardHandle;
use cluster::Map;
use std::fmt;
use std::sync::Arc;
use vocab::limits::{FRESHNESS_WAIT_US_MAX, LEADER_WAIT_US_MAX, SLOT_MOVE_WAIT_US_MAX};
use vocab::{Moment, NodeId, ShardId, Slot};

/// What a node knows of one shard.
#[derive(Clone, Copy)]
pub struct LocalShard<'a> {
    /// This node.
    pub node: NodeId,
    /// The shard.
    pub shard: ShardId,
    /// The newest map that the node has.
    pub map: &'a Map,
    /// The node's replica, if it has one.
    pub handle: Option<&'a Arc<ShardHandle>>,
    /// The news of leaders.
    pub leader: Option<&'a LeaderCell>,
}

/// Why this node's replica does not serve a request now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotHere {
    /// Another node leads the shard.
    Redirect(NodeId),
    /// No leader is known, or the state is too old: ask again after news, and at `until_us` at the latest.
    Wait {
        /// The end of the wait, in µs of the steady clock.
        until_us: u64,
    },
    /// The client gets the error.
    Refuse(Refusal),
}

/// Where a request goes: to this node's replica, or not.
pub type Access<T> = Result<T, NotHere>;

/// A replica that leads its shard and owns the request's slot: only [`leader_access`] and [`read_access`] make one. A
/// write takes nothing else.
#[derive(Clone, Copy)]
pub struct Leader<'a>(&'a Arc<ShardHandle>);

impl<'a> Leader<'a> {
    /// The shard.
    #[must_use]
    pub fn handle(self) -> &'a Arc<ShardHandle> {
        self.0
    }
}

/// A replica that may serve a read.
#[derive(Clone, Copy)]
pub enum Replica<'a> {
    /// The leader: the answer counts if its leadership is confirmed.
    Leader(Leader<'a>),
    /// Any replica whose state keeps what the read's consistency promises.
    Follower(&'a Arc<ShardHandle>),
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The node belongs to no store.
    NoStore,
    /// No leader was known, or confirmed, in time.
    NoLeader,
    /// The replica's state does not keep the promise of this consistency.
    Stale(Consistency),
    /// The shard's only replica cannot go on; why.
    Broken(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStore => {
                f.write_str("CLUSTERDOWN The cluster is down: this node belongs to no store yet (basalt ctl init)")
            }
            Self::NoLeader => f.write_str("CLUSTERDOWN The cluster is down: no leader of the shard is known"),
            Self::Stale(consistency) => f.write_str(&consistency.refusal()),
            Self::Broken(why) => write!(f, "ERR {why}"),
        }
    }
}

impl Refusal {
    /// The refusal of a request that has waited for too long.
    #[must_use]
    pub fn after_wait(consistency: Consistency) -> Self {
        match consistency {
            Consistency::Version { .. } | Consistency::Lag { .. } => Self::Stale(consistency),
            Consistency::Absolute | Consistency::Any => Self::NoLeader,
        }
    }
}

/// Whether a leader keeps a write back because the write's slot moves: it was given to another shard, or is about to be.
#[must_use]
pub fn is_slot_moving(handle: &ShardHandle, slot: Slot) -> bool {
    // The metadata group has no slots, and writes of its own.
    handle.id() != ShardId::META && handle.leading() && !handle.owns(slot)
}

/// Where a request that only the leader may serve goes: a write, or what reads before one.
pub fn leader_access(local: Option<LocalShard<'_>>, slot: Slot, deadline: Deadline, now_us: u64) -> Access<Leader<'_>> {
    to_leader(local, slot, Wait { deadline, now_us, consistency: Consistency::Absolute })
}

fn to_leader(local: Option<LocalShard<'_>>, slot: Slot, wait: Wait) -> Access<Leader<'_>> {
    let Some(local) = local else { return Err(NotHere::Refuse(Refusal::NoStore)) };
    match local.handle.filter(|handle| handle.leading()) {
        Some(handle) if local.answers_for(handle, slot) => Ok(Leader(handle)),
        // The slot is moving: the shard that gets it is known in a moment.
        Some(_) => wait.or_refuse(),
        None => local.elsewhere(wait),
    }
}

/// Where a read goes.
pub fn read_access(
    local: Option<LocalShard<'_>>,
    slot: Slot,
    consistency: Consistency,
    deadline: Deadline,
    now: Moment,
) -> Access<Replica<'_>> {
    let wait = Wait { deadline, now_us: now.mono_us, consistency };
    if let Some(found) = local
        && consistency.allows_followers()
        && let Some(handle) = found.handle.filter(|handle| !handle.leading() && handle.has_slot(slot))
    {
        return match FollowerState::of(handle, consistency, now.wall_ms) {
            FollowerState::Ready => Ok(Replica::Follower(handle)),
            FollowerState::Behind => wait.or_refuse(),
            FollowerState::Empty => Err(NotHere::Refuse(Refusal::Stale(consistency))),
            // The leader answers while this replica applies its log again.
            FollowerState::Replaying => found.elsewhere(wait),
        };
    }
    to_leader(local, slot, wait).map(Replica::Leader)
}

impl LocalShard<'_> {
    /// Whether a leader answers for a slot. The metadata group owns none, and answers for what is sent to it.
    fn answers_for(&self, handle: &ShardHandle, slot: Slot) -> bool {
        self.shard == ShardId::META || handle.owns(slot)
    }

    /// This node's replica cannot serve the request.
    fn elsewhere<T>(&self, wait: Wait) -> Access<T> {
        if let Some(node) = self.other_leader() {
            return Err(NotHere::Redirect(node));
        }
        match self.given_up() {
            Some(why) => Err(NotHere::Refuse(Refusal::Broken(why))),
            None => wait.or_refuse(),
        }
    }

    /// The other node that leads the shard, if one is known and is in the map.
    #[must_use]
    pub fn other_leader(&self) -> Option<NodeId> {
        let node = self.leader?.node()?;
        (node != self.node && self.map.nodes.contains_key(&node)).then_some(node)
    }

    /// Why the shard will have no leader again: its only voter is here and cannot go on.
    fn given_up(&self) -> Option<String> {
        let why = self.handle?.broken()?;
        (self.map.shards.get(&self.shard)?.voters().count() == 1).then_some(why)
    }
}

/// How a request waits.
#[derive(Clone, Copy)]
struct Wait {
    deadline: Deadline,
    now_us: u64,
    consistency: Consistency,
}

impl Wait {
    fn or_refuse<T>(self) -> Access<T> {
        match self.deadline.is_over(self.now_us) {
            true => Err(NotHere::Refuse(Refusal::after_wait(self.consistency))),
            false => Err(NotHere::Wait { until_us: self.deadline.until_us() }),
        }
    }
}

/// Whether a follower's state keeps a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FollowerState {
    /// It does.
    Ready,
    /// It will, in a moment.
    Behind,
    /// The replica has never taken part in its group.
    Empty,
    /// The replica was started again and has yet to apply what it had applied before.
    Replaying,
}

impl FollowerState {
    /// Of a replica that does not lead. Where a `lag` read finds it behind, its leader is asked for news.
    fn of(handle: &ShardHandle, consistency: Consistency, wall_ms: u64) -> Self {
        match consistency {
            Consistency::Absolute => Self::Empty,
            Consistency::Any if handle.is_replaying() => Self::Replaying,
            Consistency::Any if handle.has_joined() => Self::Ready,
            Consistency::Any => Self::Empty,
            Consistency::Version { token } if handle.engine().applied_index() >= token => Self::Ready,
            Consistency::Version { .. } => Self::Behind,
            Consistency::Lag { ms } if handle.freshness().lag_ms(wall_ms).is_some_and(|lag| lag <= ms) => Self::Ready,
            Consistency::Lag { .. } => {
                handle.freshness().want();
                Self::Behind
            }
        }
    }
}

/// The end of a request's wait, in µs of the steady clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    until_us: u64,
}

impl Deadline {
    /// A request that waits for its shard to have a confirmed leader.
    #[must_use]
    pub fn for_leader(since_us: u64) -> Self {
        Self { until_us: since_us + LEADER_WAIT_US_MAX }
    }

    /// A read that waits for a replica which may serve it. A `lag` read waits for one report of the leader only.
    #[must_use]
    pub fn for_read(consistency: Consistency, since_us: u64) -> Self {
        match consistency {
            Consistency::Lag { .. } => Self { until_us: since_us + FRESHNESS_WAIT_US_MAX },
            Consistency::Absolute | Consistency::Any | Consistency::Version { .. } => Self::for_leader(since_us),
        }
    }

    /// A write that is accepted and waits while its slot moves to another shard.
    #[must_use]
    pub fn for_slot_move(since_us: u64) -> Self {
        Self { until_us: since_us + SLOT_MOVE_WAIT_US_MAX }
    }

    /// When the wait ends.
    #[must_use]
    pub fn until_us(self) -> u64 {
        self.until_us
    }

    /// Whether the wait is over.
    #[must_use]
    pub fn is_over(self, now_us: u64) -> bool {
        now_us >= self.until_us
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{ARRIVED, Fixture, HERE, SHARD, SLOT};
    use super::*;

    const LEADER: NodeId = NodeId(2);
    const ANY: Consistency = Consistency::Any;
    const LAG: Consistency = Consistency::Lag { ms: 100 };
    const ALL: [Consistency; 5] =
        [Consistency::Absolute, ANY, LAG, Consistency::Version { token: 5 }, Consistency::Version { token: 6 }];

    /// Where a request goes, in a word.
    fn word(access: Access<Replica<'_>>) -> String {
        match access {
            Ok(Replica::Leader(_)) => "leads".to_owned(),
            Ok(Replica::Follower(_)) => "follows".to_owned(),
            Err(NotHere::Redirect(node)) => format!("to {}", node.0),
            Err(NotHere::Wait { until_us }) => format!("wait {}", (until_us - ARRIVED.mono_us) / 1_000),
            Err(NotHere::Refuse(Refusal::NoStore)) => "no store".to_owned(),
            Err(NotHere::Refuse(Refusal::NoLeader)) => "no leader".to_owned(),
            Err(NotHere::Refuse(Refusal::Stale(_))) => "stale".to_owned(),
            Err(NotHere::Refuse(Refusal::Broken(why))) => why,
        }
    }

    fn reads(local: Option<LocalShard<'_>>, now: Moment) -> Vec<String> {
        let hold = |consistency| Deadline::for_read(consistency, ARRIVED.mono_us);
        ALL.map(|consistency| word(read_access(local, SLOT, consistency, hold(consistency), now))).to_vec()
    }

    fn write(local: Option<LocalShard<'_>>, now: Moment) -> String {
        let deadline = Deadline::for_leader(ARRIVED.mono_us);
        word(leader_access(local, SLOT, deadline, now.mono_us).map(Replica::Leader))
    }

    type Setup = fn(&mut Fixture);

    /// What happened to the shard; then where a write goes, and reads of each consistency.
    const CASES: &[(&str, Setup, &str, [&str; 5])] = &[
        (
            "it follows, no leader is known",
            |_| {},
            "wait 2000",
            ["wait 2000", "follows", "wait 1000", "follows", "wait 2000"],
        ),
        (
            "another node leads",
            |f| _ = f.leader.learn(Some(LEADER), 3),
            "to 2",
            ["to 2", "follows", "wait 1000", "follows", "wait 2000"],
        ),
        (
            "it has heard of its leader",
            |f| f.handle.freshness().reach(ARRIVED.wall_ms - 100),
            "wait 2000",
            ["wait 2000", "follows", "follows", "follows", "wait 2000"],
        ),
        (
            "it has heard of it too long ago",
            |f| f.handle.freshness().reach(ARRIVED.wall_ms - 101),
            "wait 2000",
            ["wait 2000", "follows", "wait 1000", "follows", "wait 2000"],
        ),
        (
            "the news are of a node that the map has not",
            |f| _ = f.leader.learn(Some(NodeId(9)), 3),
            "wait 2000",
            ["wait 2000", "follows", "wait 1000", "follows", "wait 2000"],
        ),
        (
            "the news are of this node",
            |f| _ = f.leader.learn(Some(HERE), 3),
            "wait 2000",
            ["wait 2000", "follows", "wait 1000", "follows", "wait 2000"],
        ),
        ("it leads", |f| f.lead(0, 0), "leads", ["leads"; 5]),
        (
            "it leads, whatever the news are",
            |f| {
                f.lead(0, 0);
                f.leader.learn(Some(LEADER), 3);
            },
            "leads",
            ["leads"; 5],
        ),
        (
            "it leads and gives the slot away",
            |f| {
                f.lead(0, 0);
                f.fence();
            },
            "wait 2000",
            ["wait 2000", "wait 2000", "wait 1000", "wait 2000", "wait 2000"],
        ),
        (
            "it leads and has given the slot away",
            |f| {
                f.lead(0, 0);
                f.give_away();
            },
            "wait 2000",
            ["wait 2000", "wait 2000", "wait 1000", "wait 2000", "wait 2000"],
        ),
        (
            "it follows, and the slot is another shard's",
            |f| {
                f.give_away();
                f.leader.learn(Some(LEADER), 3);
            },
            "to 2",
            ["to 2"; 5],
        ),
        (
            "it has never taken part",
            Fixture::empty,
            "wait 2000",
            ["wait 2000", "stale", "wait 1000", "wait 2000", "wait 2000"],
        ),
        (
            "it applies its log again, another leads",
            |f| {
                f.handle.set_replayed_at(6);
                f.leader.learn(Some(LEADER), 3);
            },
            "to 2",
            ["to 2", "to 2", "wait 1000", "follows", "wait 2000"],
        ),
        (
            "it applies its log again, there is no leader",
            |f| f.handle.set_replayed_at(6),
            "wait 2000",
            ["wait 2000", "wait 2000", "wait 1000", "follows", "wait 2000"],
        ),
        (
            "it has applied its log again",
            |f| f.handle.set_replayed_at(5),
            "wait 2000",
            ["wait 2000", "follows", "wait 1000", "follows", "wait 2000"],
        ),
        (
            "it cannot go on, others can",
            |f| f.handle.set_broken("torn"),
            "wait 2000",
            ["wait 2000", "follows", "wait 1000", "follows", "wait 2000"],
        ),
    ];

    #[test]
    fn a_request_goes_where_it_can_be_served() {
        for (what, setup, expected_write, expected) in CASES {
            let mut fixture = Fixture::new(3);
            setup(&mut fixture);
            assert_eq!(write(Some(fixture.local()), ARRIVED), *expected_write, "{what}");
            assert_eq!(reads(Some(fixture.local()), ARRIVED), *expected, "{what}");
        }
    }

    #[test]
    fn without_a_replica_the_leader_is_waited_for_or_named() {
        let fixture = Fixture::new(3);
        let local = LocalShard { handle: None, ..fixture.local() };
        assert_eq!(reads(Some(local), ARRIVED), ["wait 2000", "wait 2000", "wait 1000", "wait 2000", "wait 2000"]);
        assert!(fixture.leader.learn(Some(LEADER), 1));
        assert_eq!(reads(Some(local), ARRIVED), ["to 2"; 5]);
        assert_eq!(
            (write(None, ARRIVED), reads(None, ARRIVED)),
            ("no store".to_owned(), vec!["no store".to_owned(); 5])
        );
    }

    #[test]
    fn the_only_replica_that_cannot_go_on_says_why() {
        let fixture = Fixture::new(1);
        fixture.handle.set_broken("torn");
        assert_eq!(write(Some(fixture.local()), ARRIVED), "torn");
        assert_eq!(reads(Some(fixture.local()), ARRIVED), ["torn", "follows", "wait 1000", "follows", "wait 2000"]);
    }

    #[test]
    fn a_wait_ends() {
        let fixture = Fixture::new(3);
        let at = |us: u64| Moment { mono_us: ARRIVED.mono_us + us, ..ARRIVED };
        let cases = [
            (FRESHNESS_WAIT_US_MAX - 1, ["wait 2000", "follows", "wait 1000", "follows", "wait 2000"]),
            (FRESHNESS_WAIT_US_MAX, ["wait 2000", "follows", "stale", "follows", "wait 2000"]),
            (LEADER_WAIT_US_MAX - 1, ["wait 2000", "follows", "stale", "follows", "wait 2000"]),
            (LEADER_WAIT_US_MAX, ["no leader", "follows", "stale", "follows", "stale"]),
        ];
        for (us, expected) in cases {
            assert_eq!(reads(Some(fixture.local()), at(us)), expected, "after {us} µs");
        }
        assert_eq!(write(Some(fixture.local()), at(LEADER_WAIT_US_MAX)), "no leader");
    }

    #[test]
    fn the_metadata_group_owns_no_slot_and_answers() {
        let fixture = Fixture::new(3);
        fixture.lead(0, 0);
        fixture.fence();
        let local = LocalShard { shard: ShardId::META, ..fixture.local() };
        assert_eq!(write(Some(local), ARRIVED), "leads");
        assert_eq!(write(Some(LocalShard { shard: SHARD, ..local }), ARRIVED), "wait 2000");
        assert!(is_slot_moving(&fixture.handle, SLOT) && !is_slot_moving(&fixture.handle, Slot(8)));
    }

    #[test]
    fn each_wait_has_its_end() {
        let lag = Consistency::Lag { ms: 5 };
        let cases = [
            (Deadline::for_leader(7), 7 + LEADER_WAIT_US_MAX),
            (Deadline::for_read(Consistency::Absolute, 7), 7 + LEADER_WAIT_US_MAX),
            (Deadline::for_read(Consistency::Any, 7), 7 + LEADER_WAIT_US_MAX),
            (Deadline::for_read(Consistency::Version { token: 1 }, 7), 7 + LEADER_WAIT_US_MAX),
            (Deadline::for_read(lag, 7), 7 + FRESHNESS_WAIT_US_MAX),
            (Deadline::for_slot_move(7), 7 + SLOT_MOVE_WAIT_US_MAX),
        ];
        for (i, (deadline, until_us)) in cases.into_iter().enumerate() {
            assert_eq!(deadline.until_us(), until_us, "case {i}");
            assert!(!deadline.is_over(until_us - 1) && deadline.is_over(until_us), "case {i}");
        }
    }
}
