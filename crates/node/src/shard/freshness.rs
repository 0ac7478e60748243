//! How old a replica's rows may be, which is what `lag` asks.
//!
//! A leader's heartbeat says up to where it has applied, and since when nothing beyond that can have been acknowledged: a
//! moment of its wall clock for which a majority had confirmed it. A replica that has applied as much has it all. That
//! stays true however late the heartbeat comes, and whether or not the leader still leads or knows how far this replica
//! is. While the group hibernates there are no heartbeats, and nothing else can stand in for them: the node
//! that led may lead no more, without this replica or even that node having heard of it. So a reader that asks has
//! the group woken.

use super::lease::Lease;
use crate::shard_handle::ShardHandle;
use replica::{Message, MessageType, Replica};
use vocab::ReplicaId;

/// What a heartbeat says of its leader's commits.
pub(super) struct CommitNews {
    from: ReplicaId,
    term: u64,
    index: u64,
    wall_ms: u64,
}

impl CommitNews {
    /// Nothing if it is no heartbeat, or the leader was not sure.
    pub(super) fn by(message: &Message) -> Option<Self> {
        let says = message.get_msg_type() == MessageType::MsgHeartbeat && message.index > 0 && message.log_term > 0;
        says.then_some(Self {
            from: ReplicaId(message.from),
            term: message.term,
            index: message.index,
            wall_ms: message.log_term,
        })
    }
}

/// How old one replica's rows may be.
#[derive(Debug, Default)]
pub(super) struct Freshness {
    /// What the leader told and is not applied here yet.
    awaited: Option<Awaited>,
    /// Of a leader: a follower wants to know how old it is, and is to be told once a majority has confirmed this leader.
    told_next: bool,
}

/// The rows are as of `wall_ms` once everything up to `index` is applied.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    index: u64,
    wall_ms: u64,
}

impl Freshness {
    /// The role has changed: what another leader told counts no more.
    pub(super) fn role_changed(&mut self) {
        self.awaited = None;
    }

    /// A heartbeat was stepped that told of its leader's commits.
    pub(super) fn heard(&mut self, news: &CommitNews, replica: &Replica, handle: &ShardHandle) {
        if replica.term() == news.term && replica.leader() == Some(news.from) && !replica.is_leader() {
            // An older one that is not reached yet stays: under load there is always something newer.
            self.awaited = self.awaited.or(Some(Awaited { index: news.index, wall_ms: news.wall_ms }));
            self.refresh(handle);
        }
    }

    /// Entries may have been applied.
    pub(super) fn refresh(&mut self, handle: &ShardHandle) {
        if let Some(awaited) = self.awaited
            && handle.engine().applied_index() >= awaited.index
        {
            handle.freshness().reach(awaited.wall_ms);
            self.awaited = None;
        }
    }

    /// A follower wants to know how old it is.
    pub(super) fn wants_to_know(&mut self) {
        self.told_next = true;
    }

    /// Tells followers at once, if one wanted to know.
    pub(super) fn tell(&mut self, replica: &mut Replica) {
        if std::mem::take(&mut self.told_next) {
            replica.ping();
        }
    }
}

/// Has a heartbeat say how far this leader has come, if it can be sure of that. raft-rs leaves both fields empty.
pub(super) fn stamp(message: &mut Message, lease: &Lease, replica: &Replica, handle: &ShardHandle) {
    if message.get_msg_type() == MessageType::MsgHeartbeat
        && let Some(wall_ms) = lease.sure_at(handle)
    {
        (message.index, message.log_term) = (replica.tellable(), wall_ms);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::shard::fixture::{Member, elect_first};
    use storage::WriteBatch;
    use vocab::{Moment, ShardId};

    /// When a reader asks, in ms.
    const NOW_MS: u64 = 10_000;

    /// A group of three that replica 1 leads.
    fn group() -> Vec<Member> {
        let mut members: Vec<Member> = (1..=3).map(|me| Member::new(ShardId(1), me, 3)).collect();
        elect_first(&mut members);
        members
    }

    /// What happens to a follower.
    enum Step {
        Heard(CommitNews),
        Applied(u64),
        RoleChanged,
    }

    #[test]
    fn rows_are_as_of_the_news_whose_entries_are_applied() {
        use Step::{Applied, RoleChanged};
        let term = group()[0].replica.term();
        let by = |from: u64, term: u64, index: u64, wall_ms: u64| {
            Step::Heard(CommitNews { from: ReplicaId(from), term, index, wall_ms })
        };
        let heard = |index: u64, wall_ms: u64| by(1, term, index, wall_ms);
        // Per case, steps and what the lag is known to be after each.
        type Case = (&'static str, Vec<(Step, Option<u64>)>);
        let cases: [Case; 5] = [
            (
                "it is known once all is applied, and at once from then on",
                vec![
                    (heard(5, 9_000), None),
                    (Applied(4), None),
                    (Applied(5), Some(1_000)),
                    (heard(5, 9_600), Some(400)),
                    (heard(5, 9_500), Some(400)),
                ],
            ),
            (
                "older news that are not reached yet stay",
                vec![
                    (heard(5, 9_000), None),
                    (heard(8, 9_500), None),
                    (Applied(5), Some(1_000)),
                    (Applied(8), Some(1_000)),
                    (heard(8, 9_600), Some(400)),
                ],
            ),
            (
                "news of a leader before the role changed count no more",
                vec![(heard(5, 9_000), None), (RoleChanged, None), (Applied(5), None)],
            ),
            (
                "news of a replica that does not lead count nothing",
                vec![(by(3, term, 5, 9_000), None), (Applied(5), None)],
            ),
            (
                "news of another term count nothing",
                vec![(by(1, term - 1, 5, 9_000), None), (by(1, term + 1, 5, 9_000), None), (Applied(5), None)],
            ),
        ];
        for (case, steps) in cases {
            let Member { handle, replica, .. } = &group()[1];
            let mut freshness = Freshness::default();
            for (at, (step, lag_ms)) in steps.into_iter().enumerate() {
                match step {
                    Step::Heard(news) => freshness.heard(&news, replica, handle),
                    RoleChanged => freshness.role_changed(),
                    Applied(index) => {
                        handle.engine().apply(index, WriteBatch::default());
                        freshness.refresh(handle);
                    }
                }
                assert_eq!(handle.freshness().lag_ms(NOW_MS), lag_ms, "{case}: step {at}");
            }
        }
    }

    #[test]
    fn a_leader_does_not_hear_itself() {
        let Member { handle, replica, .. } = &group()[0];
        let mut freshness = Freshness::default();
        let news = CommitNews { from: ReplicaId(1), term: replica.term(), index: 1, wall_ms: 9_000 };
        freshness.heard(&news, replica, handle);
        assert_eq!(handle.freshness().lag_ms(NOW_MS), None);
    }

    #[test]
    fn heartbeats_alone_tell_and_only_of_what_is_sure() {
        let mut group = group();
        let Member { handle, replica, .. } = &group[0];
        let (mut lease, tellable) = (Lease::default(), replica.tellable());
        assert!(tellable > 0);
        lease.look_at(Moment { wall_ms: 9_000, mono_us: 10 });
        handle.lease().set_leading(true);
        let says = |kind: MessageType, lease: &Lease| {
            let mut message = Message { from: 1, term: replica.term(), ..Message::default() };
            message.set_msg_type(kind);
            stamp(&mut message, lease, replica, handle);
            CommitNews::by(&message).map(|news| (news.from, news.term, news.index, news.wall_ms))
        };
        assert_eq!(says(MessageType::MsgHeartbeat, &lease), None, "no majority has confirmed this leader");
        handle.lease().confirm(5, 1_000);
        let sure = Some((ReplicaId(1), replica.term(), tellable, 9_000));
        assert_eq!(says(MessageType::MsgHeartbeat, &lease), sure);
        assert_eq!(says(MessageType::MsgAppend, &lease), None);
        lease.look_at(Moment { wall_ms: 9_500, mono_us: 1_000 });
        assert_eq!(says(MessageType::MsgHeartbeat, &lease), None, "the lease is over, and no round was answered");

        // A follower that wants to know is told once.
        let leader = &mut group[0];
        let mut freshness = Freshness::default();
        for (wants, heartbeats) in [(false, 0), (true, 2), (false, 0)] {
            if wants {
                freshness.wants_to_know();
            }
            freshness.tell(&mut leader.replica);
            let messages = leader.turn().messages;
            assert_eq!(messages.len(), heartbeats);
            assert!(messages.iter().all(|message| message.get_msg_type() == MessageType::MsgHeartbeat));
        }
    }
}
