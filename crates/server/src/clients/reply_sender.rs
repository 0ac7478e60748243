//! How answers leave: the event loop sends them, or the send thread does while the loop goes on.
//!
//! Waking a thread pays for the answers of many clients. A client that is alone would only wait for the wake-up.

use super::connection::Connection;
use super::registry::{ClientId, Clients};
use super::send_thread::SendThread;
use crate::mailbox::Mailbox;
use mio::Registry;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::limits::CLIENT_SEND_BYTES_SOFT;

/// The fewest clients that the send thread answers.
const CLIENTS_MIN: usize = 4;
/// The send thread answers only if turns with an fsync answer so many clients on average.
const CLIENTS_MEAN_MIN: usize = 7;
/// The event loop itself sends what one client is owed beyond so many bytes.
const ASIDE_BYTES_MAX: usize = 16 << 10;
/// The event loop sends so many bytes in one turn, beyond which clients have theirs in the next.
const TURN_BYTES_MAX: usize = 2 * CLIENT_SEND_BYTES_SOFT;
/// For so long the event loop sends in one turn; what is left comes first in the next.
const SEND_SPAN: Duration = Duration::from_micros(600);
/// It looks at the clock after so many clients.
const SENDS_PER_LOOK: usize = 8;
/// So many bytes that are owed to one client count as another client.
const BYTES_PER_SEND: usize = 8 << 10;
/// For so long it closes connections in one turn.
const CLOSE_SPAN: Duration = Duration::from_micros(200);
/// The mean is over about so many turns.
const TURNS_NOTED: usize = 16;

/// How many clients a turn with an fsync answers, on average.
#[derive(Default)]
struct MeanClients {
    /// The mean, times `TURNS_NOTED`.
    scaled: usize,
}

impl MeanClients {
    /// A turn answers so many clients: whether these are many, as is usual.
    fn note(&mut self, clients: usize) -> bool {
        self.scaled = self.scaled - self.scaled / TURNS_NOTED + clients;
        clients >= CLIENTS_MIN && self.scaled >= CLIENTS_MEAN_MIN * TURNS_NOTED
    }
}

/// The time that a turn has for sending. A send of few bytes takes about as long as any other, one of many as long as many of them.
#[derive(Default)]
struct SendSpan {
    /// Sends since the clock was looked at.
    sends: usize,
    /// When it was looked at first.
    begun: Option<Instant>,
}

impl SendSpan {
    /// Whether the time is over before so many bytes are sent to another client, as far as `now` is asked.
    fn is_over(&mut self, bytes: usize, now: impl FnOnce() -> Instant) -> bool {
        self.sends += 1 + bytes / BYTES_PER_SEND;
        if self.sends < SENDS_PER_LOOK {
            return false;
        }
        self.sends = 0;
        let now = now();
        now.duration_since(*self.begun.get_or_insert(now)) > SEND_SPAN
    }
}

/// Sends the answers of a worker's clients.
pub(crate) struct ReplySender {
    /// The worker's number.
    index: usize,
    mailbox: Arc<Mailbox>,
    /// None until it is of use.
    thread: Option<SendThread>,
    /// The newest round of the send thread.
    last_round: u64,
    may_have_thread: bool,
    mean_clients: MeanClients,
    /// Connections that are over, and are closed when there is time.
    to_close: VecDeque<ClientId>,
}

impl ReplySender {
    pub(crate) fn new(index: usize, mailbox: Arc<Mailbox>) -> Self {
        Self {
            index,
            mailbox,
            thread: None,
            last_round: 0,
            may_have_thread: true,
            mean_clients: MeanClients::default(),
            to_close: VecDeque::new(),
        }
    }

    /// Whether connections are over that are not closed.
    pub(crate) fn has_to_close(&self) -> bool {
        !self.to_close.is_empty()
    }

    /// Sends what there is to send, and closes connections that are over; answers how many bytes were sent. With
    /// `prefer_thread` the send thread answers the clients if they are many.
    pub(crate) fn flush(&mut self, clients: &mut Clients, registry: &Registry, prefer_thread: bool) -> usize {
        let aside = prefer_thread && self.mean_clients.note(clients.dirty().len()) && self.has_thread();
        let mut sent = 0;
        if let Some(thread) = self.thread.take() {
            if aside || !thread.has_sent(self.last_round) {
                sent += self.send_aside(clients, &thread, aside);
            }
            self.thread = Some(thread);
        }
        sent += self.send(clients);
        self.close_some(clients, registry);
        sent
    }

    /// Sends what there is to send, for a while.
    fn send(&mut self, clients: &mut Clients) -> usize {
        let (mut sent, mut span, mut later) = (0, SendSpan::default(), Vec::new());
        while let Some(id) = clients.next_dirty() {
            let Some(connection) = clients.get_mut(id) else { continue };
            if connection.is_settled() {
                continue;
            }
            // The others have their turn first the next time.
            if sent > TURN_BYTES_MAX || span.is_over(connection.unsent(), Instant::now) {
                clients.put_dirty_first(id);
                break;
            }
            clients.end_abandoned(id);
            let Some(connection) = clients.get_mut(id) else { continue };
            connection.mark_clean();
            let is_sent = |round: u64| self.thread.as_ref().is_none_or(|thread| thread.has_sent(round));
            let (gone, n) = match connection.flush() {
                // If the send thread has bytes of it, the tick looks at it again.
                Ok(n) => (connection.is_over() && is_sent(connection.last_round()), n),
                Err(_) => (true, 0),
            };
            sent += connection.count(n);
            let spent = connection.output.take_spent();
            let goes_on = n > 0 && connection.goes_on();
            if !gone && connection.unsent() > 0 && connection.is_writable() {
                // The socket takes more.
                connection.mark_dirty();
                later.push(id);
            }
            if gone {
                // It is looked at no more.
                connection.mark_dirty();
                self.to_close.push_back(ClientId { id, generation: connection.generation });
            } else {
                if goes_on {
                    clients.set_ready(id);
                }
                clients.go_on(id);
            }
            if let Some(spent) = spent {
                clients.store().pool.run(Box::new(move || drop(spent)));
            }
        }
        clients.put_dirty(later);
        sent
    }

    /// Closes connections that are over, for a while.
    fn close_some(&mut self, clients: &mut Clients, registry: &Registry) {
        if self.to_close.is_empty() {
            return;
        }
        let until = Instant::now() + CLOSE_SPAN;
        while let Some(client) = self.to_close.pop_front() {
            if clients.find(client).is_some() {
                self.close(clients, registry, client.id);
                if Instant::now() > until {
                    return;
                }
            }
        }
    }

    /// Takes back what the send thread could not send. Hands it answers: all of them, or those that must follow what it
    /// has not sent yet. Answers how many bytes were sent, or handed over.
    fn send_aside(&mut self, clients: &mut Clients, thread: &SendThread, all: bool) -> usize {
        // What is large is not handed to the thread, even if it follows what the thread has.
        let large = |id: &usize| clients.get(*id).filter(|connection| connection.unsent() > ASIDE_BYTES_MAX);
        if let Some(round) = clients.dirty().iter().filter_map(large).map(|large| large.last_round()).max() {
            thread.wait_for(round);
        }
        let mut round = thread.round();
        let mut sent = 0;
        for unsent in round.take_unsent() {
            clients.take_back_unsent(&unsent);
        }
        let mut dirty = clients.take_dirty();
        dirty.retain(|&id| {
            let Some(connection) = clients.get_mut(id) else { return false };
            let follows = !round.is_over(connection.last_round());
            let goes_aside = follows || (all && is_for_thread(connection));
            if connection.unsent() == 0 || !goes_aside {
                return true;
            }
            if connection.lend_stream() {
                round.open(id, connection.stream().clone());
            }
            let to = ClientId { id, generation: connection.generation };
            let n = connection.take_unsent(|bytes| round.send(to, bytes));
            sent += connection.count(n);
            connection.sent_in_round(round.number());
            connection.mark_clean();
            if connection.goes_on() {
                clients.set_ready(id);
            }
            clients.go_on(id);
            false
        });
        clients.put_dirty(dirty);
        self.last_round = round.number();
        sent
    }

    /// Whether there is a send thread; starts it if there may be one.
    fn has_thread(&mut self) -> bool {
        if self.thread.is_none() && self.may_have_thread {
            match SendThread::start(&format!("send-{}", self.index), self.mailbox.clone()) {
                Ok(thread) => self.thread = Some(thread),
                Err(e) => {
                    log::warn!("no thread to send answers: {e}");
                    self.may_have_thread = false;
                }
            }
        }
        self.thread.is_some()
    }

    fn close(&self, clients: &mut Clients, registry: &Registry, id: usize) {
        let is_lent = clients.close(id, registry);
        if let Some(thread) = self.thread.as_ref().filter(|_| is_lent) {
            thread.close(id);
        }
    }

    /// Ends the send thread, sends what sockets still take, and closes all connections.
    pub(crate) fn finish(&mut self, clients: &mut Clients, registry: &Registry) {
        self.may_have_thread = false;
        if let Some(mut thread) = self.thread.take() {
            thread.stop();
            self.send_aside(clients, &thread, false);
        }
        loop {
            let before = clients.dirty().len();
            self.send(clients);
            if clients.dirty().len() >= before {
                break;
            }
        }
        for id in clients.ids() {
            self.close(clients, registry, id);
        }
    }
}

/// Whether the send thread may take a connection's answers.
fn is_for_thread(connection: &Connection) -> bool {
    connection.is_writable() && connection.unsent() <= ASIDE_BYTES_MAX
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::send_queue::Unsent;
    use super::*;
    use crate::testing::IdleNode;
    use node::session::Keyspace;

    /// What the thread gives back may leave nothing to be sent: its client takes more, which no flush notices.
    #[test]
    fn a_request_that_waits_for_room_goes_on_once_what_was_given_back_is_sent() {
        let node = IdleNode::open();
        let (stream, _socket) = IdleNode::accept();
        let mut clients = Clients::new(0, node.store.clone());
        clients.connect(stream, Keyspace::Cluster, node.poll.registry(), 0);
        let id = clients.ids()[0];
        let to = ClientId { id, generation: clients.get(id).unwrap().generation };
        for is_stalled in [false, true] {
            if is_stalled {
                clients.stall(id);
            }
            clients.take_back_unsent(&Unsent { to, bytes: b"+OK\r\n".to_vec(), broken: false });
            assert_eq!((clients.has_ready(), clients.get(id).unwrap().unsent()), (is_stalled, 0));
        }
    }

    #[test]
    fn the_clock_is_looked_at_before_long_sends_and_after_some_short_ones() {
        let start = Instant::now();
        let (mut span, mut looks) = (SendSpan::default(), 0);
        let mut is_over = |bytes, passed| {
            let is_over = span.is_over(bytes, || {
                looks += 1;
                start + passed
            });
            (is_over, looks)
        };
        for _ in 1..SENDS_PER_LOOK {
            assert_eq!(is_over(100, Duration::ZERO), (false, 0));
        }
        assert_eq!(is_over(100, Duration::ZERO), (false, 1), "the span begins");
        assert_eq!(is_over(100, 2 * SEND_SPAN), (false, 1), "it is not looked at for a short one");
        assert_eq!(is_over(SENDS_PER_LOOK * BYTES_PER_SEND, SEND_SPAN), (false, 2));
        assert_eq!(is_over(CLIENT_SEND_BYTES_SOFT, SEND_SPAN + Duration::from_micros(1)), (true, 3));
    }

    #[test]
    fn many_clients_are_many_only_if_that_is_usual() {
        let mut mean = MeanClients::default();
        assert!(!mean.note(50), "one turn does not make it usual");
        let mut turns = 0;
        while !mean.note(50) {
            turns += 1;
            assert!(turns < TURNS_NOTED);
        }
        assert!(!mean.note(CLIENTS_MIN - 1), "this turn has few");
        assert!(mean.note(CLIENTS_MIN));
        assert!((0..10 * TURNS_NOTED).any(|_| !mean.note(CLIENTS_MIN)), "few clients become usual");
        assert!((0..10 * TURNS_NOTED).all(|_| !mean.note(CLIENTS_MEAN_MIN - 1)));
    }
}
