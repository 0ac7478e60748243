//! How answers leave: this thread sends them, or the send thread does while this one goes on.

use super::outbox::Outbox;
use super::send_thread::{Addressee, SendThread};
use crate::worker::Worker;
use mio::unix::SourceFd;
use std::os::fd::AsRawFd;

/// It is worth waking a thread for the answers of so many clients, if in fsyncs' turns there are that many on average: where
/// there are fewer, each waits for that longer than for the others' answers.
const CLIENTS_MIN: usize = 4;
const CLIENTS_MIN_OF_LATE: usize = 7;
/// More than that of one client is sent by the event loop, in bytes.
const ASIDE_BYTES_MAX: usize = 16 << 10;
/// Turns that tell how many there are of late.
const TURNS_NOTED: usize = 16;

impl Worker {
    /// Sends what there is to send.
    ///
    /// If this thread has made an fsync for many clients, the send thread answers them (docs/adr/0020); otherwise a client that is
    /// alone would wait for that to wake.
    pub(crate) fn flush_all(&mut self) {
        let aside = self.synced_here && self.answers_many() && self.has_send_thread();
        let mut sent = 0;
        if let Some(sends) = self.send_thread.take() {
            if aside || !sends.has_sent(self.last_round) {
                sent += self.send_aside(&sends, aside);
            }
            self.send_thread = Some(sends);
        }
        while let Some(id) = self.outbox.dirty.pop() {
            let Some(connection) = self.outbox.connections.get_mut(id) else { continue };
            connection.dirty = false;
            let is_sent = |round: u64| self.send_thread.as_ref().is_none_or(|sends| sends.has_sent(round));
            let (gone, n) = match connection.flush() {
                // If the send thread has something of it, the tick sees to it.
                Ok(n) => (connection.is_over() && is_sent(connection.sent_aside), n),
                Err(_) => (true, 0),
            };
            sent += connection.count(n);
            if gone {
                self.close(id);
            } else if n > 0 && connection.goes_on() {
                self.ready.push(id);
            }
        }
        self.store.stats.worker(self.index).sent(sent);
    }

    /// Takes back what the send thread could not send. Hands it answers: all of them, or those that have to follow what it has
    /// not sent yet. Tells how many bytes were sent, or handed over.
    fn send_aside(&mut self, sends: &SendThread, all: bool) -> usize {
        // What is large the thread is not handed, also if it follows what it has.
        let large =
            |id: &usize| self.outbox.connections.get(*id).filter(|connection| connection.unsent() > ASIDE_BYTES_MAX);
        if let Some(round) = self.outbox.dirty.iter().filter_map(large).map(|large| large.sent_aside).max() {
            sends.wait_for(round);
        }
        let mut round = sends.round();
        let mut sent = 0;
        for unsent in round.take_unsent() {
            let connection = self.outbox.connections.get_mut(unsent.to.id);
            if let Some(connection) = connection.filter(|connection| connection.generation == unsent.to.generation) {
                connection.take_back(&unsent.bytes, unsent.broken);
                self.outbox.touch(unsent.to.id);
            }
        }
        let Outbox { dirty, connections, .. } = &mut self.outbox;
        dirty.retain(|&id| {
            let Some(connection) = connections.get_mut(id) else { return false };
            let follows = !round.is_over(connection.sent_aside);
            let goes_aside = follows || (all && connection.is_writable() && connection.unsent() <= ASIDE_BYTES_MAX);
            if connection.unsent() == 0 || !goes_aside {
                return true;
            }
            if !std::mem::replace(&mut connection.is_lent, true) {
                round.open(id, connection.stream.clone());
            }
            let to = Addressee { id, generation: connection.generation };
            let n = connection.take_unsent(|bytes| round.send(to, bytes));
            sent += connection.count(n);
            (connection.sent_aside, connection.dirty) = (round.number(), false);
            if connection.goes_on() {
                self.ready.push(id);
            }
            false
        });
        self.last_round = round.number();
        sent
    }

    /// Whether there are answers for many clients, as is usual.
    fn answers_many(&mut self) -> bool {
        let clients = self.outbox.dirty.len();
        self.clients_of_late = self.clients_of_late - self.clients_of_late / TURNS_NOTED + clients;
        clients >= CLIENTS_MIN && self.clients_of_late >= CLIENTS_MIN_OF_LATE * TURNS_NOTED
    }

    /// Starts it, if there is none; false if there cannot be.
    fn has_send_thread(&mut self) -> bool {
        if self.send_thread.is_none() && self.may_have_send_thread {
            match SendThread::start(&format!("send-{}", self.index), self.mailbox.clone()) {
                Ok(thread) => self.send_thread = Some(thread),
                Err(e) => {
                    log::warn!("no thread to send answers: {e}");
                    self.may_have_send_thread = false;
                }
            }
        }
        self.send_thread.is_some()
    }

    /// What it was handed is sent, as far as sockets take it; the rest is taken back.
    pub(crate) fn end_send_thread(&mut self) {
        self.may_have_send_thread = false;
        if let Some(mut sends) = self.send_thread.take() {
            sends.stop();
            self.send_aside(&sends, false);
        }
    }

    pub(crate) fn close(&mut self, id: usize) {
        let mut connection = self.outbox.connections.remove(id);
        // Writes that never set out: nobody waits for them any more.
        for cold in connection.cold.drain(..) {
            self.store.write_left(cold.write.bytes());
        }
        let _ = self.poll.registry().deregister(&mut SourceFd(&connection.stream.as_raw_fd()));
        if let Some(sends) = self.send_thread.as_ref().filter(|_| connection.is_lent) {
            sends.close(id);
        }
        self.close_session(&connection.session);
    }
}
