//! Snapshots of a shard: rows that are taken for a follower that lacks too much, and rows that came for this replica.

use super::apply::Applier;
use super::effects::{ArrivedSnapshot, Effects, SnapshotTask};
use crate::format::slots::Slots;
use crate::format::{keys, snapshot_point};
use crate::shard_handle::ShardHandle;
use crate::storage_failure::note_lack;
use replica::{DiskHealth, LogWrite, Message, Replica, SnapshotPoint};
use std::sync::Arc;
use storage::{Ingested, Slice};
use vocab::{NodeId, ReplicaId};

/// A snapshot that is being received.
#[derive(Default)]
pub(super) struct SnapshotIntake {
    /// Its message has been stepped and not been accepted yet.
    arrived: Option<ArrivedSnapshot>,
    /// It was accepted, and is not in place.
    accepted: Option<Accepted>,
}

/// A snapshot that the replica has accepted: what is left of taking it.
struct Accepted {
    point: SnapshotPoint,
    /// Until they are in place.
    rows: Option<Box<dyn Ingested>>,
    /// The slots that were the shard's before.
    slots_before: Arc<Slots>,
}

/// A snapshot that is in place.
pub(super) struct Installed {
    /// To be handed back once the log write is done.
    pub(super) number: u64,
    /// The slots that were the shard's, and are not any more.
    pub(super) slots_lost: Slots,
}

impl SnapshotIntake {
    /// All rows are here. The replica is to step the message, and may accept it in its next turn.
    pub(super) fn arrive(&mut self, arrived: ArrivedSnapshot) -> Message {
        self.arrived.insert(arrived).message.clone()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.arrived.is_none() && self.accepted.is_none()
    }

    /// The replica did not need the rows after all.
    pub(super) fn forget(&mut self) {
        self.arrived = None;
    }

    /// Whether an accepted snapshot waits for room, descriptors or memory.
    pub(super) fn is_lacking(&self) -> bool {
        self.accepted.is_some()
    }

    /// The replica has accepted the snapshot whose rows are here.
    pub(super) fn accept(&mut self, point: SnapshotPoint, handle: &ShardHandle) -> Result<(), String> {
        let arrived = self.arrived.take().filter(|arrived| arrived.point.index == point.index);
        let arrived = arrived.ok_or_else(|| format!("shard {}: a snapshot without rows was accepted", handle.id()))?;
        self.accepted = Some(Accepted { point, rows: Some(arrived.rows), slots_before: handle.applied_slots() });
        Ok(())
    }

    /// Puts the rows of the accepted snapshot in the place of the shard's, and reads anew what `applier` knows of them. `None`
    /// if room, descriptors or memory lack, which `health` is told: then it is to be called again.
    pub(super) fn install(
        &mut self,
        (handle, replica, applier): (&ShardHandle, &mut Replica, &mut Applier),
        health: &DiskHealth,
        write: &mut LogWrite,
    ) -> Result<Option<Installed>, String> {
        let Some(accepted) = &mut self.accepted else { return Ok(None) };
        let index = accepted.point.index;
        let installed = handle.install(&mut accepted.rows, index).and_then(|()| applier.reload(handle));
        if let Err(error) = installed {
            if note_lack(health, &error) {
                log::warn!("shard {}: a snapshot is installed once that is possible: {error}", handle.id());
                return Ok(None);
            }
            return Err(error.to_string());
        }
        let Some(Accepted { point, slots_before, .. }) = self.accepted.take() else { return Ok(None) };
        let number = replica.installed(&point, write).map_err(|e| e.to_string())?;
        handle.followers().comes_to(point.index, point.term);
        log::info!("shard {} has taken a snapshot as of entry {index}", handle.id());
        Ok(Some(Installed { number, slots_lost: slots_before.without(&handle.applied_slots()) }))
    }
}

/// Has the rows sent to a follower. They are taken now, so the message must speak of now.
pub(super) fn send(
    handle: &ShardHandle,
    source: &mut Replica,
    replica: ReplicaId,
    node: NodeId,
    mut message: Message,
    effects: &mut dyn Effects,
) {
    if !effects.may_send(handle.id(), node) {
        // Its turn comes: raft asks again with the next heartbeat that is answered.
        source.report_snapshot(replica, false);
        return;
    }
    let point = source.snapshot_point();
    source.sends_rows(replica, point.index);
    point.put_into(&mut message);
    let rows = handle.snapshot();
    assert_eq!(rows.index(), point.index, "the tree is not where the replica is");
    let mut facts = handle.facts();
    facts.push((Slice::from(keys::META_SNAPSHOT), Slice::from(snapshot_point::encode(&point))));
    effects.snapshot_wanted(SnapshotTask { shard: handle.id(), replica, node, rows, facts, point, message });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::shard::fixture::{Member, Shell, elect_first, run};
    use replica::{LogStore, MessageType};
    use storage::WriteBatch;
    use vocab::ShardId;

    const SHARD: ShardId = ShardId(1);
    const OLD: &[u8] = b"old";
    const NEW: &[u8] = b"new";

    /// The leader of a group of three whose replica 2 has missed both entries.
    fn source() -> Member {
        let mut members = [Member::new(SHARD, 1, 3), Member::new(SHARD, 3, 3)];
        elect_first(&mut members);
        members[0].replica.propose(vec![0], false).unwrap();
        run(&mut members);
        let [leader, _] = members;
        leader
    }

    /// What the leader asks its shell to send to replica 2.
    fn task(source: &mut Member) -> Option<SnapshotTask> {
        let mut message = Message { from: 1, to: 2, term: source.replica.term(), ..Message::default() };
        message.set_msg_type(MessageType::MsgSnapshot);
        let mut shell = Shell::default();
        send(&source.handle, &mut source.replica, ReplicaId(2), NodeId(20), message, &mut shell);
        shell.snapshots.pop()
    }

    /// Replica 2, with a row in its tree.
    fn target() -> Member {
        let target = Member::new(SHARD, 2, 3);
        let writes = vec![(Slice::from(OLD), Some(Slice::from(&b"1"[..])))];
        target.handle.engine().apply(1, WriteBatch { writes, ..WriteBatch::default() });
        target
    }

    /// The snapshot of a task, taken in beside the tree of `target`.
    fn arrived(task: SnapshotTask, target: &Member) -> ArrivedSnapshot {
        let mut ingest = target.handle.engine().ingest().unwrap();
        ingest.put(Slice::from(NEW), Slice::from(&b"2"[..])).unwrap();
        let rows = ingest.finish(task.point.index, task.facts).unwrap();
        ArrivedSnapshot { rows, message: task.message, point: task.point }
    }

    #[test]
    fn what_is_sent_speaks_of_the_moment_at_which_its_rows_are_taken() {
        let mut source = source();
        let sent = task(&mut source).unwrap();
        let point = source.replica.snapshot_point();
        assert_eq!((sent.shard, sent.replica, sent.node), (SHARD, ReplicaId(2), NodeId(20)));
        assert_eq!((sent.rows.index(), &sent.point), (source.handle.engine().applied_index(), &point));
        assert_eq!(SnapshotPoint::of(&sent.message), point);
        let of_point = |(key, _): &&(Slice, Slice)| **key == *keys::META_SNAPSHOT;
        let (_, bytes) = sent.facts.iter().find(of_point).unwrap();
        assert_eq!(snapshot_point::decode(bytes), Some(point));
    }

    #[test]
    fn nothing_is_taken_while_the_shell_may_not_send() {
        let mut source = source();
        let mut shell = Shell { sends_no_snapshot: true, ..Shell::default() };
        send(&source.handle, &mut source.replica, ReplicaId(2), NodeId(20), Message::default(), &mut shell);
        assert!(shell.snapshots.is_empty());
    }

    /// Lets the replica accept what has arrived, and installs it.
    fn take_in(
        intake: &mut SnapshotIntake,
        target: &mut Member,
        accepted: SnapshotPoint,
        write: &mut LogWrite,
    ) -> Result<Option<Installed>, String> {
        let mut applier = Applier::new(&target.handle).unwrap();
        intake.accept(accepted, &target.handle)?;
        intake.install((&target.handle, &mut target.replica, &mut applier), &DiskHealth::default(), write)
    }

    #[test]
    fn rows_that_were_accepted_take_the_place_of_the_shards() {
        let (mut source, mut target) = (source(), target());
        let sent = task(&mut source).unwrap();
        let point = sent.point.clone();
        let mut intake = SnapshotIntake::default();
        let message = intake.arrive(arrived(sent, &target));
        target.replica.step(message).unwrap();
        let accepted = target.turn().snapshot.unwrap();
        assert_eq!(accepted, point);
        let mut write = LogWrite::default();
        let number = take_in(&mut intake, &mut target, accepted, &mut write).unwrap().unwrap().number;
        assert!(intake.is_empty());
        let engine = target.handle.engine();
        assert_eq!(engine.applied_index(), point.index);
        assert_eq!((engine.get(OLD).unwrap(), engine.get(NEW).unwrap().as_deref()), (None, Some(&b"2"[..])));
        assert_eq!(target.handle.snapshot_point().unwrap(), Some(point.clone()));
        target.log.write(write, true).unwrap();
        assert_eq!(target.log.state(SHARD).unwrap().unwrap().truncated, (point.index, point.term));
        let answers = target.replica.persisted(number);
        assert!(answers.iter().any(|answer| answer.index == point.index && !answer.reject), "{answers:?}");
        target.replica.validate();
    }

    #[test]
    fn no_other_rows_are_installed_than_those_that_were_accepted() {
        // Whether rows have arrived, whether they were forgotten, and by how much they differ from what was accepted.
        for (has_arrived, is_forgotten, differs_by) in [(false, false, 0), (true, true, 0), (true, false, 1)] {
            let (mut source, mut target) = (source(), target());
            let sent = task(&mut source).unwrap();
            let mut accepted = sent.point.clone();
            accepted.index += differs_by;
            let mut intake = SnapshotIntake::default();
            if has_arrived {
                let _ = intake.arrive(arrived(sent, &target));
            }
            if is_forgotten {
                intake.forget();
            }
            let mut write = LogWrite::default();
            let refused = take_in(&mut intake, &mut target, accepted, &mut write).map(drop);
            assert_eq!(refused, Err("shard 1: a snapshot without rows was accepted".to_owned()));
            assert!(intake.is_empty() && write.is_empty(), "{has_arrived} {is_forgotten} {differs_by}");
            assert!(target.handle.engine().get(OLD).unwrap().is_some(), "its own rows stay");
        }
    }
}
