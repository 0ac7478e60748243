//! What threads tell a worker, done.

use super::event_loop::Worker;
use crate::mailbox::{ShardSnapshot, Submission, WorkerMessage};
use node::control::Control;
use node::core::Logging;
use replica::LogWrite;
use vocab::ShardId;

impl Worker {
    pub(crate) fn read_mail(&mut self, message: WorkerMessage) {
        match message {
            WorkerMessage::Connection(stream) => self.connect(mio::net::TcpStream::from_std(stream)),
            WorkerMessage::Write(Submission { shard, write, keys, ticket }) => self.submit(shard, write, keys, ticket),
            WorkerMessage::Answer { ticket, reply } => self.outbox.deliver(&ticket, &reply),
            WorkerMessage::Warm(ticket) => self.warmed(&ticket),
            WorkerMessage::RowsWarm(shard) => self.core.warmed(shard),
            WorkerMessage::Logged(outcome) => {
                // The ring's was before it.
                self.note_ring();
                self.logged(outcome);
            }
            WorkerMessage::Flushed(shard) => self.flushed(shard),
            WorkerMessage::Seal(shard) => {
                if let Some(owned) = self.core.shard(shard) {
                    owned.seal();
                    self.store.background.wake();
                }
            }
            WorkerMessage::AskLease(shard) => self.core.ask_lease(shard, self.now),
            WorkerMessage::Peer(from, message) => self.core.receive(from, message, self.now, &mut self.outbox),
            WorkerMessage::Post(to, message) => self.outbox.post(to, message),
            WorkerMessage::Release(shard, back) => {
                self.releases.push((shard, back));
                self.release();
            }
            WorkerMessage::Report(report) => self.report(*report),
            WorkerMessage::Forked(forked) => self.forked(*forked),
            WorkerMessage::AdoptChild { opened, leads } => {
                self.core.adopt_child(opened.shard, leads, self.now);
                self.outbox.unstall_all();
            }
            WorkerMessage::Adopt(opened) => self.core.adopt(opened.shard, opened.fresh, self.now),
            WorkerMessage::Map(map) => {
                self.core.map_changed(map);
                self.outbox.unstall_all();
            }
            WorkerMessage::MapApplied(map) => self.map_applied(&map),
            WorkerMessage::LinkDown(node) => self.core.link_down(node),
            WorkerMessage::Led => self.outbox.unstall_all(),
            WorkerMessage::SnapshotArrived(snapshot) => {
                let ShardSnapshot { shard, arrived } = *snapshot;
                self.core.snapshot_arrived(shard, arrived);
            }
            WorkerMessage::Wait(waiting) => self.begin_to_wait(*waiting),
            WorkerMessage::SnapshotSent { shard, replica, whole } => self.core.snapshot_sent(shard, replica, whole),
            WorkerMessage::Hold(asked) => self.begin_hold(asked),
            WorkerMessage::EndHold(shard) => self.end_hold(shard),
            WorkerMessage::Picture(asked) => {
                let picture = self.control.as_ref().and_then(Control::picture);
                // Whoever asked may have given up.
                let _ = asked.try_send(picture.map(Box::new));
            }
            WorkerMessage::Look => self.look_at_all(),
            // At the end of the turn it is taken back.
            WorkerMessage::Unsent => {}
            WorkerMessage::Stop => self.stopping = true,
        }
    }

    /// A shard's memory was written to files: its log can be cut.
    fn flushed(&mut self, shard: ShardId) {
        let mut write = LogWrite::default();
        let Some(owned) = self.core.shard_mut(shard) else { return };
        match owned.truncate(&mut write) {
            Ok(true) => self.write_log(write, Logging::default()),
            Ok(false) => {}
            Err(e) => log::error!("{e}"),
        }
    }

    /// Looks at every connection again.
    fn look_at_all(&mut self) {
        let held = self.outbox.connections.iter_mut().map(|(id, connection)| {
            connection.held_until_ms = 0;
            id
        });
        self.ready.extend(held);
    }
}
