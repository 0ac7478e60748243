//! What is known of a store as a whole, against which everything that happens is held. Each invariant is a file of `check`;
//! here is what several of them need together.

use crate::check::acknowledged;
use crate::check::collections::CollectionHistory;
use crate::check::linear;
use crate::check::maps::Maps;
use crate::check::messages::Messages;
use crate::check::raft::Group;
use crate::check::reads::Reads;
use crate::check::removals::Removals;
use crate::check::splits::Splits;
use crate::check::weak::{Weak, WeakRead};
use crate::clock::SPREAD_MS;
use crate::collections::{CollectionRequest, Told as CollectionTold};
use crate::history::{Action, Answer, History, KEYS, Operation, Outcome as Told};
use crate::places::Place;
use crate::request::{Form, Request, key_name};
use crate::schedule::Micros;
use cluster::{Map, Routes};
use node::SplitTask;
use replica::{LogStore, LogWrite, Members, Op};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vocab::{NodeId, ReplicaId, ShardId, Slot, slot_of};

/// How far the clock of an entry may be from the truth, in ms.
const STAMP_MS_MAX: u64 = 1000;

/// The result of anything in a run; the error is what a checker found.
pub type Outcome = Result<(), String>;

/// A moment of a run: virtual time, and what a right wall clock shows.
#[derive(Clone, Copy, Debug)]
pub struct Instant {
    /// Since the run began.
    pub us: Micros,
    /// Since the epoch.
    pub wall_ms: u64,
}

/// Where a group of keys began anew, because its shard went on without its majority.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// Operations that began before belong to what was before.
    moment: u64,
    /// The end of the log that is gone on with: what is found and was written up to there was there already.
    last: u64,
}

/// The operations that a request is in the history: its own, and one in each further group of keys that it concerns.
#[derive(Clone, Debug, Default)]
pub struct AskedOperation {
    /// Its own.
    pub operation: usize,
    /// Those in other groups of keys.
    pub twins: Vec<usize>,
}

/// Everything that is known of a store.
pub struct Checkers {
    /// Groups of keys that clients use.
    key_groups: usize,
    /// The newest map that the metadata group has made, and the way through it.
    map: Option<(Arc<Map>, Routes)>,
    made_at: Option<Micros>,
    maps: Maps,
    removals: Removals,
    splits: Splits,
    /// Entries whose clocks were looked at: shard, index and term.
    stamped: BTreeSet<(ShardId, u64, u64)>,
    groups: BTreeMap<ShardId, Group>,
    history: History,
    collections: CollectionHistory,
    reads: Reads,
    weak: Weak,
    /// What is published, and who listens.
    pub messages: Messages,
    /// Operations that have cleared a shard, and which.
    cleared: BTreeMap<usize, ShardId>,
    /// Shards that have lost their majority for good.
    lost: Vec<ShardId>,
    /// Groups of keys that began anew, by an operator's order.
    recoveries: BTreeMap<usize, Recovery>,
}

impl Checkers {
    /// Of a run in which clients use so many groups of keys.
    #[must_use]
    pub fn new(key_groups: usize) -> Self {
        Self {
            key_groups,
            map: None,
            made_at: None,
            maps: Maps::default(),
            removals: Removals::default(),
            splits: Splits::default(),
            stamped: BTreeSet::new(),
            groups: BTreeMap::new(),
            history: History::default(),
            collections: CollectionHistory::default(),
            reads: Reads::default(),
            weak: Weak::default(),
            messages: Messages::default(),
            cleared: BTreeMap::new(),
            lost: Vec::new(),
            recoveries: BTreeMap::new(),
        }
    }

    /// The newest map that the metadata group has made.
    #[must_use]
    pub fn map(&self) -> Option<Arc<Map>> {
        self.map.as_ref().map(|(map, _)| map.clone())
    }

    /// When the store was made, if it has been.
    #[must_use]
    pub fn made_at(&self) -> Option<Micros> {
        self.made_at
    }

    /// The metadata group has made a map, or a first one was drawn. True if it is the newest.
    pub fn made(&mut self, map: &Arc<Map>, at: Micros) -> Result<bool, String> {
        self.maps.saw(map)?;
        self.made_at.get_or_insert(at);
        let is_new = self.map.as_ref().is_none_or(|(known, _)| known.epoch < map.epoch);
        if is_new {
            self.map = Some((map.clone(), Routes::from(&**map)));
        }
        Ok(is_new)
    }

    /// The shard that owns a slot, by the newest map and the splits that have been seen since; the metadata group as long
    /// as there is none.
    #[must_use]
    pub fn shard_of(&self, slot: Slot) -> ShardId {
        let routes = self.map.as_ref().map(|(_, routes)| routes);
        routes.map_or(ShardId::META, |routes| self.splits.owner(routes.shard_of(slot), slot))
    }

    /// The shard that a group of keys is in.
    #[must_use]
    pub fn shard_of_group(&self, group: usize) -> ShardId {
        self.shard_of(slot_of(&key_name(group, 0)))
    }

    /// The node of a replica that is, or was.
    #[must_use]
    pub fn node_of(&self, shard: ShardId, replica: ReplicaId) -> Option<NodeId> {
        self.maps.node_of(shard, replica)
    }

    /// What is known of a shard's Raft group.
    pub fn group(&mut self, shard: ShardId) -> &mut Group {
        self.groups.entry(shard).or_default()
    }

    /// What clients asked and were told.
    #[must_use]
    pub fn operation(&self, number: usize) -> &Operation {
        &self.history.operations()[number]
    }

    /// Where shards were split off.
    #[must_use]
    pub fn splits(&self) -> &Splits {
        &self.splits
    }

    /// A replica has come to a split; true if it is the first one.
    pub fn split(&mut self, task: &SplitTask) -> Result<bool, String> {
        let is_first = self.splits.saw(task)?;
        if is_first {
            let child = self.group(task.parent).split_off(task.point.index, task.point.term);
            self.groups.insert(task.child, child);
        }
        Ok(is_first)
    }

    /// A replica is open on a node since its start number `life`; `committed`: the entries that it knew to be.
    pub fn opened(&mut self, place: Place, life: u64, shard: ShardId, replica: ReplicaId, committed: u64) {
        self.group(shard).began(replica);
        self.weak.opened((place, life, shard), committed);
    }

    /// The entry that has changed the members of a shard last.
    #[must_use]
    pub fn members_index(&self, shard: ShardId) -> u64 {
        self.removals.newest(shard)
    }

    /// A shard's members have changed, as one of its replicas has applied.
    pub fn members_changed(
        &mut self,
        shard: ShardId,
        index: u64,
        members: &Members,
        is_down: impl Fn(NodeId) -> bool,
    ) -> Outcome {
        if !members.voters_outgoing.is_empty() {
            return Ok(());
        }
        let maps = &self.maps;
        let is_dead = |id: ReplicaId| maps.node_of(shard, id).is_some_and(&is_down);
        self.removals.changed(shard, index, &members.voters, is_dead)
    }

    /// Entries are given to a log. The clock of one that is seen for the first time, which is at its leader, must be the
    /// true time: what it makes expire goes by that.
    pub fn stamped(&mut self, write: &LogWrite, wall_ms: u64) -> Outcome {
        for (shard, op) in write.ops() {
            let Op::Entries(entries) = op else { continue };
            for entry in entries.iter().filter(|entry| replica::has_commands(entry)) {
                let is_new = self.stamped.insert((*shard, entry.index, entry.term));
                let (clock_ms, _) = node::decode_entry(&entry.data)?;
                if is_new && clock_ms.abs_diff(wall_ms) > STAMP_MS_MAX {
                    return Err(format!(
                        "entry {} of shard {shard} bears the time {clock_ms}, and in truth it is {wall_ms}",
                        entry.index
                    ));
                }
            }
        }
        Ok(())
    }

    /// A client asks: the history gets to know of it, where it clears a shard for each group of keys that is there.
    pub fn asked(&mut self, client: usize, request: &Request, wall_ms: u64) -> AskedOperation {
        let (now_ms, weak) = (wall_ms - SPREAD_MS, request.weak.is_some());
        let operation = self.history.begin(client, request.group, request.actions.clone(), weak, now_ms);
        let mut groups = vec![request.group];
        let mut twins = Vec::new();
        if request.form == Form::Clear {
            // What the shard is split into meanwhile may be cleared or not.
            let root_of = |group| self.splits.root(self.shard_of_group(group));
            let here = root_of(request.group);
            groups = (0..self.key_groups).filter(|group| root_of(*group) == here).collect();
        }
        for group in groups {
            if group != request.group {
                twins.push(self.history.begin(client, group, request.actions.clone(), weak, now_ms));
            }
            for (key, action) in &request.actions {
                match action {
                    Action::Clear => (0..KEYS).for_each(|key| self.weak.may_go(group, key)),
                    Action::Delete | Action::PutFor(..) => self.weak.may_go(group, *key),
                    _ => {}
                }
            }
        }
        self.reads.begun(operation, &self.history.operations()[operation]);
        AskedOperation { operation, twins }
    }

    /// A shard has answered a request: holds the answer against the log.
    pub fn answered(&mut self, shard: ShardId, request: &Request, told: &Operation, number: usize) -> Outcome {
        if request.form == Form::Clear && matches!(told.answer, Answer::Done(_)) {
            self.cleared.insert(number, shard);
        }
        // Of a request that was sent more than once, another one may be in the log.
        if told.answer != Answer::Refused || request.id.is_none() {
            acknowledged::check(told, self.group(shard).values())?;
        }
        Ok(())
    }

    /// A client is answered, or gives up.
    pub fn told(&mut self, asked: &AskedOperation, request: &Request, answer: &Answer, at: Instant) -> Outcome {
        let cleared = self.cleared.remove(&asked.operation);
        for &each in asked.twins.iter().chain([&asked.operation]) {
            let slot = slot_of(&key_name(self.operation(each).group, 0));
            let answer = match cleared {
                // It is unknown whether this was before or after.
                Some(shard) if self.splits.gave_away(shard, slot) => Answer::Unknown,
                Some(shard) if self.shard_of(slot) != shard => Answer::Refused,
                _ => answer.clone(),
            };
            self.history.end(each, answer, at.wall_ms + SPREAD_MS);
        }
        let shard = self.shard_of(slot_of(&request.keys()[0]));
        let ended = &self.history.operations()[asked.operation];
        self.reads.ended(asked.operation, ended)?;
        acknowledged::check(ended, self.groups.entry(shard).or_default().values())?;
        if let Answer::Done(outcomes) = &ended.answer {
            for ((key, _), outcome) in ended.actions.iter().zip(outcomes) {
                if let Told::Written(version) | Told::Read(Some((_, version))) = outcome {
                    self.weak.told(ended.group, *key, *version, at.us);
                }
            }
        }
        Ok(())
    }

    /// A replica that does not lead has answered a read.
    pub fn weak_read(&mut self, read: &WeakRead, shard: ShardId, slack: Option<Micros>) -> Outcome {
        let values = self.groups.get(&shard).map(Group::values);
        let logged = read.seen.and_then(|(value, _)| values?.get(&value).copied());
        self.weak.check(read, logged, slack)
    }

    /// A client of collections asks.
    pub fn asked_collection(&mut self, request: &CollectionRequest, wall_ms: u64) {
        self.collections.asked(request, wall_ms - SPREAD_MS);
    }

    /// A client of collections begins to wait in a blocking command.
    pub fn waits_collection(&mut self, tag: u64) {
        self.collections.waits(tag, true);
    }

    /// A client of collections has lost its place among those that wait.
    pub fn waits_no_longer(&mut self, tag: u64) {
        self.collections.waits(tag, false);
    }

    /// A script of a client of collections has told subscribers that it runs.
    pub fn published(&mut self, tag: &[u8]) {
        self.collections.published(tag);
    }

    /// A client of collections is answered, or gives up.
    pub fn told_collection(&mut self, tag: u64, told: CollectionTold, wall_ms: u64) {
        self.collections.told(tag, told, wall_ms + SPREAD_MS);
    }

    /// These shards have lost their majority for good.
    pub fn lose(&mut self, shards: Vec<ShardId>) {
        self.lost = shards;
    }

    /// Shards that have lost their majority for good.
    #[must_use]
    pub fn lost(&self) -> &[ShardId] {
        &self.lost
    }

    /// A replica goes on alone with its log, which ends at `last`; `heard`: the newest term that it knew. What was told
    /// before is checked as it was then. Answers the last entry that is not lost.
    pub fn recovered(&mut self, shard: ShardId, (heard, last): (u64, u64), log: &dyn LogStore) -> Result<u64, String> {
        let groups: Vec<usize> = (0..self.key_groups).filter(|group| self.shard_of_group(*group) == shard).collect();
        for group in &groups {
            self.check_history(*group).map_err(|e| format!("before shard {shard} was recovered: {e}"))?;
        }
        let cut = self.group(shard).recovered(shard, (heard, last), log);
        let recovery = Recovery { moment: self.history.moment(), last };
        for group in groups {
            self.recoveries.insert(group, recovery);
            self.reads.forget(group, cut);
            self.weak.forget(group, shard, cut);
        }
        Ok(cut)
    }

    /// Checks the histories of all groups of keys.
    pub fn check_histories(&self) -> Outcome {
        (0..self.key_groups).try_for_each(|group| self.check_history(group))?;
        (0..self.key_groups).try_for_each(|group| self.check_collections(group))
    }

    /// Checks what clients of collections were told of a group of keys.
    fn check_collections(&self, number: usize) -> Outcome {
        let shard = self.shard_of_group(number);
        let Some(group) = self.groups.get(&shard) else { return Ok(()) };
        let checked = self.collections.check(number, group.collections());
        checked.map_err(|e| format!("collections of group {number} in shard {shard}: {e}"))
    }

    /// Checks the history of a group of keys so far.
    fn check_history(&self, number: usize) -> Outcome {
        let shard = self.shard_of_group(number);
        let log = self.groups.get(&shard).map(|group| linear::Log { values: group.values(), clocks: group.clocks() });
        let mut operations = self.history.of_group(number);
        operations.retain(|operation| !operation.weak);
        let checked = match self.recoveries.get(&number) {
            None => linear::check(&operations, log),
            Some(Recovery { moment, last }) => {
                // One that was under way counts if it was made after.
                let version = |operation: &Operation| {
                    let logged = |value: u64| log.and_then(|log| log.values.get(&value).copied());
                    let mut values = operation.actions.iter().filter_map(|(_, action)| action.value());
                    operation.version().or_else(|| values.find_map(logged)).unwrap_or(0)
                };
                let after = |operation: &&Operation| {
                    operation.begun > *moment || (operation.ended > *moment && version(operation) > *last)
                };
                operations.retain(after);
                linear::check_after(&operations, log, *last)
            }
        };
        checked.map_err(|e| format!("group {number} in shard {shard}: {e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_held_against_what_was_asked_before() {
        let mut checkers = Checkers::new(1);
        let request = |action| Request { form: Form::Put, group: 0, actions: vec![(0, action)], id: None, weak: None };
        let at = Instant { us: 5, wall_ms: 1_000 };
        let (put, get) = (request(Action::Put(7)), request(Action::Get));
        let (write, early) = (checkers.asked(0, &put, 1_000), checkers.asked(1, &get, 1_000));
        let lost = checkers.told(&write, &put, &Answer::Done(vec![Told::Written(3)]), at);
        assert!(lost.is_err_and(|what| what.contains("in no committed entry")), "nothing is in the log");
        let read = |version| Answer::Done(vec![Told::Read(Some((9, version)))]);
        assert_eq!(checkers.told(&early, &get, &read(2), at), Ok(()), "it was asked before");
        let late = checkers.asked(1, &get, 1_000);
        assert!(checkers.told(&late, &get, &read(2), at).is_err_and(|what| what.contains("was known before")));
    }
}
