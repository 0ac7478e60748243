//! Keeps a node's [`StoreClock`] by the wall clocks of most nodes, which their beats tell.
//!
//! A base is what a wall clock is ahead of this node's steady clock. Each node has one as seen from here, this node too. The
//! majority's base is one from which those of more than half of the store's nodes differ by no more than `SKEW_MS_MAX`;
//! there may be none.
//! - A node vouches for what its wall clock showed when its process started. Where the clock jumps, it vouches for nothing, until
//!   the clock is back or has gone on from the jump for `HELD_US`, or shows the time that most nodes have vouched for. What no node
//!   vouches for is in no majority: neither its own clock nor what it tells others.
//! - The time follows the majority's base by at most one part in ten. If it is further away than `SKEW_MS_MAX`, the time stays
//!   where it is, until that has lasted for `STEP_AFTER_US`: then it steps. The first majority that a process hears of counts at
//!   once.
//! - A node whose own base is further away, for `OFF_AFTER_US`, is off.
//!
//! So a wall clock that jumps for less than `HELD_US` changes nothing, however many do, and a majority that is set right is
//! followed after both times. `TOLD_FOR_US < HELD_US`: what clocks of running processes have told wrongly within the one were
//! wrong at the same moment, so clocks that are wrong one after the other make no majority, not for a process that has just
//! started either.

use crate::store_clock::{SKEW_MS_MAX, StoreClock, base_of};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vocab::{Moment, NodeId};

/// For how long a clock that has jumped must go on from there before its node vouches for it, in µs.
const HELD_US: u64 = 5_000_000;
/// For how long the majority must be away before the time steps to it, in µs.
const STEP_AFTER_US: u64 = 5_000_000;
/// For how long a clock must be off, or right again, before that counts, in µs.
const OFF_AFTER_US: u64 = 1_000_000;
/// How far the time is moved in one tick of 50 ms, in ms: more than clocks drift.
const SLEW_MS: i64 = 5;
/// For how long what a node has told is taken for true, in µs.
const TOLD_FOR_US: u64 = 3_000_000;
/// The answer to a beat that takes longer tells too little of the other clock.
const ROUND_US_MAX: u64 = 400_000;
/// What a node tells as its wall clock while it does not vouch for it: for those that do not know this, a clock that is wrong.
const UNVOUCHED_MS: u64 = 0;

const _: () = assert!(TOLD_FOR_US + ROUND_US_MAX < HELD_US);

/// What another node's wall clock is ahead of the steady clock here; none if that node does not vouch for it.
#[derive(Clone, Copy, Debug)]
struct ToldClock {
    base_ms: Option<i64>,
    at_us: u64,
}

/// This node's own wall clock, as far as it vouches for it.
#[derive(Debug)]
struct OwnClock {
    /// The base that it vouches for.
    held_ms: i64,
    /// Since when the clock shows another one, and which.
    jumped: Option<(u64, i64)>,
}

impl OwnClock {
    /// The clock shows `base_ms` now. `agreed_ms`: what most nodes have vouched for, if they have.
    fn look(&mut self, base_ms: i64, agreed_ms: Option<i64>, now_us: u64) {
        self.jumped = match self.jumped {
            _ if self.vouches_for(base_ms, agreed_ms) => None,
            Some((since_us, there_ms)) if is_near(base_ms, there_ms) => {
                (now_us.saturating_sub(since_us) < HELD_US).then_some((since_us, base_ms))
            }
            _ => Some((now_us, base_ms)),
        };
        if self.jumped.is_none() {
            self.held_ms = base_ms;
        }
    }

    /// Whether the node vouches for it while it shows `base_ms`.
    fn vouches_for(&self, base_ms: i64, agreed_ms: Option<i64>) -> bool {
        is_near(base_ms, self.held_ms) || agreed_ms.is_some_and(|agreed_ms| is_near(base_ms, agreed_ms))
    }
}

/// What keeps a node's time. Pure: told of ticks and answers to beats.
#[derive(Debug)]
pub struct ClockKeeper {
    clock: Arc<StoreClock>,
    own: OwnClock,
    told: BTreeMap<NodeId, ToldClock>,
    /// Whether a majority of several nodes has set the time. The first one counts at once; until then the time goes on from
    /// what the node's own wall clock showed when it started.
    has_heard_most: bool,
    /// Since when the time is away from a majority's base, and that base.
    apart: Option<(u64, i64)>,
    /// Since when the own wall clock is not what it is taken for: off, or right.
    otherwise_since_us: Option<u64>,
}

impl ClockKeeper {
    /// Keeps that clock, which shows what the wall clock showed when the process started.
    #[must_use]
    pub fn new(clock: Arc<StoreClock>) -> Self {
        let own = OwnClock { held_ms: clock.offset_ms(), jumped: None };
        Self { clock, own, told: BTreeMap::new(), has_heard_most: false, apart: None, otherwise_since_us: None }
    }

    /// The clock that it keeps.
    #[must_use]
    pub fn clock(&self) -> &Arc<StoreClock> {
        &self.clock
    }

    /// What other nodes are told of the wall clock.
    #[must_use]
    pub fn wall_to_tell(&self, raw: Moment) -> u64 {
        if self.own.vouches_for(base_of(raw), self.agreed_ms()) { raw.wall_ms } else { UNVOUCHED_MS }
    }

    /// The base that most nodes have vouched for, if they have since the process started.
    fn agreed_ms(&self) -> Option<i64> {
        self.has_heard_most.then(|| self.clock.offset_ms())
    }

    /// A node has answered a beat that was sent at `sent_us`: its wall clock showed `wall_ms` in between.
    pub fn answered(&mut self, node: NodeId, sent_us: u64, wall_ms: u64, raw: Moment) {
        let Some(round_us) = raw.mono_us.checked_sub(sent_us).filter(|round_us| *round_us <= ROUND_US_MAX) else {
            return;
        };
        let then = Moment { wall_ms, mono_us: raw.mono_us - round_us / 2 };
        let base_ms = (wall_ms != UNVOUCHED_MS).then(|| base_of(then));
        self.told.insert(node, ToldClock { base_ms, at_us: raw.mono_us });
    }

    /// 50 ms have passed in a store of so many nodes; answers the time.
    pub fn tick(&mut self, raw: Moment, nodes: usize) -> Moment {
        self.told.retain(|_, told| raw.mono_us.saturating_sub(told.at_us) <= TOLD_FOR_US);
        let own = base_of(raw);
        self.own.look(own, self.agreed_ms(), raw.mono_us);
        match self.majority(own, nodes.max(1)) {
            Some(base) => {
                self.follow(base, nodes > 1, raw.mono_us);
                self.judge(own - base, base, raw.mono_us);
            }
            None => {
                self.apart = None;
                self.otherwise_since_us = None;
            }
        }
        self.clock.read(raw)
    }

    /// The base that most nodes vouch for.
    fn majority(&self, own: i64, nodes: usize) -> Option<i64> {
        let own = Some(own).filter(|own| self.own.vouches_for(*own, self.agreed_ms()));
        let mut bases: Vec<i64> = self.told.values().filter_map(|told| told.base_ms).chain(own).collect();
        bases.sort_unstable();
        // Where more than half agree, the one in the middle of them is right.
        let agree = |base: i64| bases.iter().filter(move |other| is_near(**other, base));
        let (count, base) = bases.iter().map(|base| (agree(*base).count(), *base)).max_by_key(|(count, _)| *count)?;
        let middle = agree(base).nth(count / 2).copied();
        middle.filter(|_| count * 2 > nodes)
    }

    fn follow(&mut self, base: i64, of_several: bool, now_us: u64) {
        let offset = self.clock.offset_ms();
        if of_several && !self.has_heard_most {
            self.has_heard_most = true;
            return self.clock.set_offset(base);
        }
        if is_near(offset, base) {
            self.apart = None;
            return self.clock.set_offset(offset + (base - offset).clamp(-SLEW_MS, SLEW_MS));
        }
        match self.apart {
            Some((since_us, then)) if is_near(then, base) => {
                if now_us.saturating_sub(since_us) >= STEP_AFTER_US {
                    log::warn!("the clocks of most nodes were set: the store's time goes by {} ms", base - offset);
                    self.clock.set_offset(base);
                    self.apart = None;
                }
            }
            _ => self.apart = Some((now_us, base)),
        }
    }

    fn judge(&mut self, skew_ms: i64, base: i64, now_us: u64) {
        let is_right = |told: &ToldClock| told.base_ms.is_some_and(|told_ms| is_near(told_ms, base));
        let off = self.told.iter().filter(|(_, told)| !is_right(told)).map(|(node, _)| *node);
        let (was_off, is_off) = (self.clock.is_off(), !is_near(skew_ms, 0));
        let mut counts = was_off;
        if was_off == is_off {
            self.otherwise_since_us = None;
        } else if now_us.saturating_sub(*self.otherwise_since_us.get_or_insert(now_us)) >= OFF_AFTER_US {
            self.otherwise_since_us = None;
            counts = is_off;
            if is_off {
                log::error!(
                    "the clock of this machine is {skew_ms} ms off from that of most nodes: this node leads no shard until \
                     it is within {SKEW_MS_MAX} ms; see to its time service (chronyc tracking, timedatectl)"
                );
            } else {
                log::warn!("the clock of this machine is within {SKEW_MS_MAX} ms of that of most nodes again");
            }
        }
        self.clock.judge(skew_ms, counts, off.collect::<BTreeSet<_>>());
    }
}

fn is_near(one: i64, other: i64) -> bool {
    one.abs_diff(other) <= SKEW_MS_MAX.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR_MS: i64 = 365 * 24 * 3_600_000;
    const BEGIN_MS: i64 = 1_700_000_000_000;
    const TICK_US: u64 = 50_000;

    /// A node with others whose wall clocks are what the test sets, ahead of the true time, in ms.
    struct Node {
        keeper: ClockKeeper,
        at_us: u64,
        own_ms: i64,
        others_ms: Vec<i64>,
        nodes: usize,
    }

    impl Node {
        fn new(own_ms: i64, others_ms: &[i64]) -> Self {
            let raw = Moment { wall_ms: (BEGIN_MS + own_ms).unsigned_abs(), mono_us: 7_000_000 };
            let keeper = ClockKeeper::new(Arc::new(StoreClock::new(raw)));
            Self { keeper, at_us: 7_000_000, own_ms, others_ms: others_ms.to_vec(), nodes: others_ms.len() + 1 }
        }

        fn wall(&self, ahead_ms: i64) -> u64 {
            (BEGIN_MS + (self.at_us / 1000) as i64 - 7_000 + ahead_ms).unsigned_abs()
        }

        /// So many ms pass; answers how far the time is ahead of the true time then.
        fn run(&mut self, ms: u64) -> i64 {
            let mut ahead = 0;
            for _ in 0..ms / 50 {
                self.at_us += TICK_US;
                let raw = Moment { wall_ms: self.wall(self.own_ms), mono_us: self.at_us };
                for (n, ahead_ms) in self.others_ms.clone().into_iter().enumerate() {
                    self.keeper.answered(NodeId(n as u64 + 2), self.at_us - 2000, self.wall(ahead_ms), raw);
                }
                ahead = self.keeper.tick(raw, self.nodes).wall_ms as i64 - self.wall(0) as i64;
            }
            ahead
        }

        fn is_off(&self) -> bool {
            self.keeper.clock().is_off()
        }
    }

    #[test]
    fn a_clock_that_jumps_for_a_moment_changes_nothing_whichever_node_it_is_of() {
        for others in [&[][..], &[0, 0], &[3, -4, 8, 1]] {
            for (jump, after_ms) in [(10 * YEAR_MS, 500), (-10 * YEAR_MS, 0), (2_000, 0), (-2_000, 500)] {
                let mut node = Node::new(0, others);
                node.run(after_ms);
                node.own_ms = jump;
                assert!(node.run(500).abs() < 50, "{others:?} {jump} after {after_ms} ms");
                node.own_ms = 0;
                assert!(node.run(20_000).abs() < 50, "{others:?} {jump} after {after_ms} ms, later");
                for n in 0..others.len() {
                    node.others_ms[n] = jump;
                    assert!(node.run(500).abs() < 50, "{others:?} {jump}: node {n} of the others");
                    assert!(!node.is_off());
                    node.others_ms[n] = others[n];
                    assert!(node.run(500).abs() < 50);
                }
            }
        }
    }

    #[test]
    fn one_that_stays_wrong_is_off_and_is_known_to_be_and_right_again_after_it_is_set() {
        let mut node = Node::new(0, &[0, 0]);
        node.run(500);
        node.own_ms = 1_000;
        assert!(node.run(30_000).abs() < 50 && node.is_off());
        assert!((950..1050).contains(&node.keeper.clock().skew_ms()));
        node.own_ms = 0;
        node.others_ms[1] = YEAR_MS;
        node.run(2_000);
        let clock = node.keeper.clock();
        assert!(!clock.is_off() && clock.is_node_off(NodeId(3)) && !clock.is_node_off(NodeId(2)));
    }

    #[test]
    fn one_that_is_wrong_from_the_first_takes_the_time_of_the_others_at_once() {
        let mut node = Node::new(10 * YEAR_MS, &[0, 2]);
        assert!(node.run(50).abs() < 50);
        node.run(1_000);
        assert!(node.is_off());
    }

    #[test]
    fn where_most_were_set_or_a_node_is_alone_the_time_follows_after_a_while() {
        for nodes in [1, 3] {
            let mut store = Several::new(nodes);
            store.run(500, &[]);
            store.ahead_ms.fill(60_000);
            assert!(store.run(9_500, &[]).iter().all(|ms| *ms < 50), "{nodes}: not yet");
            store.run(1_500, &[]);
            assert!(store.now_ahead_ms().iter().all(|ms| (59_950..60_050).contains(ms)), "{nodes}");
            assert!(store.keepers.iter().all(|keeper| !keeper.clock().is_off()));
            // Small differences are made up for slowly.
            store.ahead_ms.fill(60_400);
            store.run(1_000, &[]);
            assert!(store.now_ahead_ms().iter().all(|ms| (60_090..60_110).contains(ms)), "{nodes}");
            store.run(8_000, &[]);
            assert!(store.now_ahead_ms().iter().all(|ms| (60_350..60_450).contains(ms)), "{nodes}");
        }
    }

    #[test]
    fn without_a_majority_that_agrees_the_time_goes_on_steadily() {
        let mut node = Node::new(0, &[0, 0]);
        node.run(500);
        node.others_ms.clear();
        // What the others have told is forgotten by then.
        node.run(2 * TOLD_FOR_US / 1000);
        node.own_ms = YEAR_MS;
        assert!(node.run(60_000).abs() < 50 && !node.is_off(), "cut off");
        node.others_ms = vec![-YEAR_MS, 5 * YEAR_MS];
        assert!(node.run(60_000).abs() < 50 && !node.is_off(), "no two agree");
    }

    /// Nodes that tell each other what they have, every 200 ms, however long ago that was.
    struct Several {
        keepers: Vec<ClockKeeper>,
        /// How far each wall clock is ahead of the true time, in ms.
        ahead_ms: Vec<i64>,
        at_us: u64,
    }

    impl Several {
        fn new(nodes: usize) -> Self {
            let at_us = 7_000_000;
            let raw = Moment { wall_ms: BEGIN_MS.unsigned_abs(), mono_us: at_us };
            let keeper = |_| ClockKeeper::new(Arc::new(StoreClock::new(raw)));
            Self { keepers: (0..nodes).map(keeper).collect(), ahead_ms: vec![0; nodes], at_us }
        }

        fn raw(&self, node: usize) -> Moment {
            let true_ms = BEGIN_MS + (self.at_us / 1000) as i64 - 7_000;
            Moment { wall_ms: (true_ms + self.ahead_ms[node]).unsigned_abs(), mono_us: self.at_us }
        }

        /// The process of a node starts anew.
        fn restart(&mut self, node: usize) {
            self.keepers[node] = ClockKeeper::new(Arc::new(StoreClock::new(self.raw(node))));
        }

        /// So many ms pass, in which the nodes of `mute` answer nothing; answers how far each node's time is ahead of the true time
        /// at the most.
        fn run(&mut self, ms: u64, mute: &[usize]) -> Vec<i64> {
            let mut most = vec![0; self.keepers.len()];
            for _ in 0..ms / 50 {
                self.at_us += TICK_US;
                for node in 0..self.keepers.len() {
                    let raw = self.raw(node);
                    if self.at_us.is_multiple_of(200_000) {
                        for other in (0..self.keepers.len()).filter(|other| *other != node && !mute.contains(other)) {
                            let told = self.keepers[other].wall_to_tell(self.raw(other));
                            self.keepers[node].answered(NodeId(other as u64 + 1), self.at_us, told, raw);
                        }
                    }
                    let nodes = self.keepers.len();
                    self.keepers[node].tick(raw, nodes);
                }
                for (most, ahead_ms) in most.iter_mut().zip(self.now_ahead_ms()) {
                    *most = ahead_ms.abs().max(*most);
                }
            }
            most
        }

        /// How far each node's time is ahead of the true time.
        fn now_ahead_ms(&self) -> Vec<i64> {
            let true_ms = BEGIN_MS + (self.at_us / 1000) as i64 - 7_000;
            let times = self.keepers.iter().enumerate().map(|(node, keeper)| keeper.clock().read(self.raw(node)));
            times.map(|time| time.wall_ms as i64 - true_ms).collect()
        }
    }

    /// The simulator's seeds 3642861 and 3661120: each clock is wrong by about as much as another that was wrong a moment ago, and
    /// what that one told then is not forgotten yet. A process that has just started had taken both for a majority.
    #[test]
    fn clocks_that_jump_one_after_the_other_make_no_majority_for_a_process_that_has_just_started() {
        for ahead_ms in [2_600, -2_600, 5 * YEAR_MS] {
            let mut store = Several::new(3);
            store.run(2_000, &[]);
            store.ahead_ms[2] = ahead_ms;
            store.run(900, &[]);
            store.restart(1);
            // Node 0 is not heard of, and node 2 not again.
            store.run(100, &[0]);
            store.ahead_ms[2] = 0;
            store.ahead_ms[1] = ahead_ms + 30;
            assert_eq!(store.run(2_900, &[0, 2]), [0; 3], "{ahead_ms}");
            store.ahead_ms[1] = 0;
            assert_eq!(store.run(20_000, &[]), [0; 3], "{ahead_ms}");
        }
    }

    /// The simulator's seed 3643707: most nodes of a store that has just been made.
    #[test]
    fn a_jump_of_most_clocks_or_all_for_less_than_five_seconds_changes_nothing_for_new_processes_either() {
        for jump in [&[0, 1][..], &[0, 1, 2]] {
            let mut store = Several::new(3);
            assert_eq!(store.run(200, &[]), [0; 3]);
            jump.iter().for_each(|node| store.ahead_ms[*node] = -6_000);
            assert_eq!(store.run(2_000, &[]), [0; 3], "{jump:?}");
            let raw = store.raw(0);
            assert_eq!(store.keepers[0].wall_to_tell(raw), UNVOUCHED_MS, "it knows that its clock has jumped");
            if jump.len() == 2 {
                // Its own clock is right, and the others vouch for nothing.
                store.restart(2);
            }
            assert_eq!(store.run(2_900, &[]), [0; 3], "{jump:?}");
            jump.iter().for_each(|node| store.ahead_ms[*node] = 0);
            assert_eq!(store.run(20_000, &[]), [0; 3], "{jump:?}");
        }
    }

    #[test]
    fn a_clock_that_is_set_right_is_vouched_for_once_it_has_held_or_shows_what_most_have_vouched_for() {
        for (mute, waits) in [(&[0, 2][..], true), (&[], false)] {
            let mut store = Several::new(3);
            store.ahead_ms[1] = -YEAR_MS;
            store.restart(1);
            store.run(500, mute);
            assert_ne!(store.keepers[1].wall_to_tell(store.raw(1)), UNVOUCHED_MS, "it knows no better");
            store.ahead_ms[1] = 0;
            store.run(4_900, mute);
            assert_eq!(store.keepers[1].wall_to_tell(store.raw(1)) == UNVOUCHED_MS, waits);
            store.run(500, mute);
            assert_eq!(store.keepers[1].wall_to_tell(store.raw(1)), store.raw(1).wall_ms);
        }
    }
}
