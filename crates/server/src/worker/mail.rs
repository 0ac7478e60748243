//! What threads tell a worker, done.

use crate::inbox::Message;
use crate::requests::KeyHashes;
use crate::worker::Worker;
use node::control::Control;
use node::core::Logging;
use replica::LogWrite;
use vocab::ShardId;

impl Worker {
    pub(crate) fn read_mail(&mut self, message: Message) {
        match message {
            Message::Connection(stream) => self.connect(mio::net::TcpStream::from_std(stream)),
            Message::Write { shard, write, keys, ticket } => {
                self.submit(shard as usize, write, KeyHashes::from_vec(keys), ticket)
            }
            Message::Answer { ticket, reply } => self.outbox.deliver(&ticket, &reply),
            Message::Warm(ticket) => self.warmed(&ticket),
            Message::RowsWarm(shard) => self.core.warmed(shard),
            Message::Logged(outcome) => {
                // The ring's was before it.
                self.note_ring();
                self.logged(outcome);
            }
            Message::Flushed(shard) => self.flushed(ShardId(shard)),
            Message::Seal(shard) => {
                if let Some(owned) = self.core.shard(ShardId(shard)) {
                    owned.seal();
                    self.store.background.wake();
                }
            }
            Message::AskLease(shard) => self.core.ask_lease(ShardId(shard), self.now),
            Message::Peer(from, message) => self.core.receive(from, message, self.now, &mut self.outbox),
            Message::Post(to, message) => self.outbox.post(to, message),
            Message::Release(shard, back) => {
                self.releases.push((shard, back));
                self.release();
            }
            Message::Report(report) => self.report(*report),
            Message::Forked(forked) => self.forked(*forked),
            Message::AdoptChild(opened, leads) => {
                self.core.adopt_child(opened.shard, leads, self.now);
                self.outbox.unstall_all();
            }
            Message::Adopt(opened) => self.core.adopt(opened.shard, opened.fresh, self.now),
            Message::Map(map) => {
                self.core.map_changed(map);
                self.outbox.unstall_all();
            }
            Message::MapApplied(map) => self.map_applied(&map),
            Message::LinkDown(node) => self.core.link_down(node),
            Message::Led => self.outbox.unstall_all(),
            Message::SnapshotArrived(shard, arrived) => self.core.snapshot_arrived(shard, *arrived),
            Message::Wait(waiting) => self.begin_to_wait(*waiting),
            Message::SnapshotSent(shard, to, whole) => self.core.snapshot_sent(shard, to, whole),
            Message::Hold(asked) => self.begin_hold(asked),
            Message::EndHold(shard) => self.end_hold(shard),
            Message::Picture(asked) => {
                let picture = self.control.as_ref().and_then(Control::picture);
                // Whoever asked may have given up.
                let _ = asked.try_send(picture.map(Box::new));
            }
            Message::Look => self.look_at_all(),
            // At the end of the turn it is taken back.
            Message::Unsent => {}
            Message::Stop => self.stopping = true,
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
