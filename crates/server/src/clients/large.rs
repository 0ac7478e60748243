//! Large requests: a thread runs them, and the event loop serves others meanwhile.
//!
//! A request of very many arguments, or one about very many commands, keys or channels of its session, is looked at argument by
//! argument many times: its rights, its keys, their slots, copies, confirmations, answers. None of that needs the event loop.
//! So the connection is lent to a thread, which runs the request as the loop would, by the same code, and gives the connection
//! back with what the request wants of the worker. What comes for the connection meanwhile waits for it.
//!
//! Each worker has one such thread, so large requests of its clients run one after another.

use super::client_id::ClientId;
use super::connections::Away;
use super::dispatch::Dispatcher;
use super::invalidations::{tell_here, tell_instead};
use super::is_large::is_large;
use super::large_request::{BackAgain, Job, Lender, Loan};
use super::letters::{Letter, are_long};
use super::looks::{exchanged_of, users_changed_of};
use super::monitor::show_call;
use super::pushes::{evict_one, push_to, show_to};
use super::ran::Collected;
use super::registry::Clients;
use super::watch::watched;
use crate::api::close_session;
use crate::mailbox::{BlockingMessage, Mailbox, WorkerMessage};
use crate::os::{NICE_BESIDE, set_niceness, spawn_critical};
use crate::shared::NodeShared;
use node::Write;
use node::stats::Stats;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::vec::IntoIter;
use vocab::NodeId;
use vocab::limits::LARGE_REQUEST_ARGUMENTS;

/// A connection on its way back.
struct GivenBack {
    /// It alone.
    clients: Clients,
    /// What its request wants of the worker.
    collected: Collected,
    /// What has come for it before and only the worker can read, and what came behind that.
    rest: Vec<Letter>,
}

/// The thread, and the ways to it and back; dropping it ends the thread.
pub(crate) struct LargeThread {
    loans: Sender<Option<Loan>>,
    given_back: Receiver<GivenBack>,
    thread: Option<JoinHandle<()>>,
}

impl LargeThread {
    /// Starts that of a worker, whose clients it serves from now on.
    pub(crate) fn of(clients: &mut Clients, mailbox: &Arc<Mailbox>) -> Option<Self> {
        let started = Self::start(clients, mailbox);
        started.inspect_err(|e| log::warn!("large requests run on the event loop: no thread for them: {e}")).ok()
    }

    fn start(clients: &mut Clients, mailbox: &Arc<Mailbox>) -> std::io::Result<Self> {
        let ((loans, taken), (gives, given_back)) = (channel(), channel());
        let (worker, store, mailbox) = (clients.worker(), clients.store().clone(), mailbox.clone());
        let run = move || {
            set_niceness(NICE_BESIDE);
            serve(worker, &store, &mailbox, (&taken, &gives));
        };
        let thread = spawn_critical(&format!("large-{worker}"), run)?;
        clients.lend_by(Lender::to(loans.clone()));
        Ok(Self { loans, given_back, thread: Some(thread) })
    }
}

impl Drop for LargeThread {
    fn drop(&mut self) {
        let _ = self.loans.send(None);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(
    worker: usize,
    store: &Arc<NodeShared>,
    mailbox: &Arc<Mailbox>,
    (loans, gives): (&Receiver<Option<Loan>>, &Sender<GivenBack>),
) {
    Stats::count_aside();
    let mut dispatcher = Dispatcher::of_thread(worker, store.clone(), mailbox.clone());
    while let Ok(Some(Loan { id, connection, job })) = loans.recv() {
        let client = ClientId { id, generation: connection.generation };
        let mut clients = Clients::of_thread(worker, store.clone(), id, connection);
        let mut rest = Vec::new();
        match job {
            Job::Run(request) => dispatcher.run_large(&mut clients, id, request),
            Job::Answer(ticket, reply) => clients.deliver_owned(&ticket, reply),
            Job::Message(message) => match *message {
                WorkerMessage::Watched(keys) => watched(&mut clients, *keys),
                WorkerMessage::StoreAnswers(answers) => clients.deliver_store_answers(&answers),
                WorkerMessage::WritePrefetched(ticket) => dispatcher.write_prefetched(&mut clients, &ticket),
                _ => {}
            },
            Job::Letters(letters) => {
                let mut letters = letters.into_iter();
                while let Some(letter) = letters.next() {
                    if letter.is_for_worker() {
                        rest = std::iter::once(letter).chain(letters).collect();
                        break;
                    }
                    read_letter(store, &mut clients, BackAgain(client), letter);
                }
            }
            Job::Grow => {
                if let Some(connection) = clients.get_mut(id) {
                    connection.grow_input();
                }
            }
            Job::Close => {
                if let Some((_, mut connection)) = clients.into_lent() {
                    connection.session.leave(&**store);
                    close_session(store, &connection.session);
                }
                continue;
            }
        }
        // Who does not take it has ended, and with it all its clients.
        let _ = gives.send(GivenBack { clients, collected: dispatcher.take_collected(), rest });
        mailbox.send(WorkerMessage::GivenBack);
    }
}

/// Keeps a message for a connection that is away, and hands one to the thread that is long; answers one that its worker reads.
#[inline]
pub(crate) fn hand_over(clients: &mut Clients, message: WorkerMessage) -> Option<WorkerMessage> {
    let message = keep(clients, message)?;
    let ticket = match &message {
        WorkerMessage::WritePrefetched(ticket) => match clients.pending_write(ticket) {
            Some(Write::Command(write)) if is_large(write.arguments(), write.bytes()) => *ticket,
            _ => return Some(message),
        },
        WorkerMessage::Watched(it) if it.keys.len() > LARGE_REQUEST_ARGUMENTS => it.ticket,
        WorkerMessage::StoreAnswers(it) if it.answers.len() > LARGE_REQUEST_ARGUMENTS => it.ticket,
        _ => return Some(message),
    };
    let client = ClientId::from(&ticket);
    clients.find(client)?;
    match clients.lend(client.id, Job::Message(Box::new(message))) {
        Err(Job::Message(message)) => Some(*message),
        _ => None,
    }
}

/// Keeps a message for a connection that is away; answers one that is for no such connection.
fn keep(clients: &mut Clients, message: WorkerMessage) -> Option<WorkerMessage> {
    if !clients.any_away() {
        return Some(message);
    }
    let client = match &message {
        WorkerMessage::Part(part) => (&part.ticket).into(),
        WorkerMessage::StoreAnswers(answers) => (&answers.ticket).into(),
        WorkerMessage::Watched(watched) => (&watched.ticket).into(),
        WorkerMessage::LearnedScript(it) => ClientId { id: it.place, generation: it.generation },
        WorkerMessage::WritePrefetched(ticket) | WorkerMessage::DeniedInScript(ticket, _) => ticket.into(),
        WorkerMessage::Called(called) => match clients.upstreams.client_at(called.place) {
            Some(client) => client,
            None => return Some(message),
        },
        WorkerMessage::Blocking(BlockingMessage::Unblock { place, .. }) => match clients.away_at(*place) {
            Some(away) => {
                away.letters.keep(Letter::Message(message));
                return None;
            }
            None => return Some(message),
        },
        _ => return Some(message),
    };
    match clients.away(client) {
        Some(away) => {
            away.letters.keep(Letter::Message(message));
            None
        }
        None => Some(message),
    }
}

/// A connection is back: it has its place again. Answers what has come for it meanwhile.
pub(crate) fn give_back(thread: &LargeThread, clients: &mut Clients, dispatcher: &mut Dispatcher) -> Option<Arrivals> {
    let GivenBack { clients: of_thread, collected, rest } = thread.given_back.try_recv().ok()?;
    dispatcher.add_collected(collected);
    let (client, Away { noticed, letters, .. }) = clients.take_back(of_thread)?;
    let connection = clients.find(client)?;
    connection.notice(noticed.readable, noticed.hung_up);
    if noticed.writable {
        connection.set_writable();
    }
    // What other nodes have sent is read, and what waits for them is sent.
    let places = connection.notice_upstreams();
    for place in places {
        clients.upstreams.touch(place);
        clients.upstreams.leave_unread(place);
    }
    clients.look_again(client.id);
    let is_over = letters.is_over();
    let mut all = rest;
    all.extend(letters.into_all());
    if is_over {
        clients.close_slow(client);
        // To drop them takes as long as they are.
        let dropped = std::mem::take(&mut all);
        clients.store().pool.run(Box::new(move || drop(dropped)));
    }
    Some(Arrivals { client, is_long: are_long(&all), letters: all.into_iter() })
}

/// What has come for a connection while it was away.
pub(crate) struct Arrivals {
    client: ClientId,
    letters: IntoIter<Letter>,
    /// The thread is to read those that need no worker.
    is_long: bool,
}

impl Arrivals {
    /// Gives the connection what is next for it, up to what only its worker can do.
    pub(crate) fn read(&mut self, store: &NodeShared, clients: &mut Clients) -> Option<Unread> {
        while let Some(letter) = self.letters.next() {
            // One before has sent it away again.
            if let Some(away) = clients.away(self.client) {
                away.letters.keep(letter);
                continue;
            }
            if self.is_long && !letter.is_for_worker() && clients.find(self.client).is_some() {
                let rest = std::iter::once(letter).chain(&mut self.letters).collect();
                if let Err(Job::Letters(back)) = clients.lend(self.client.id, Job::Letters(rest)) {
                    (self.letters, self.is_long) = (back.into_iter(), false);
                }
                continue;
            }
            let unread = read_letter(store, clients, BackAgain(self.client), letter);
            if unread.is_some() {
                return unread;
            }
        }
        None
    }
}

/// What of that only its worker can do.
#[allow(clippy::large_enum_variant, reason = "it is read at once")]
pub(crate) enum Unread {
    /// It is told something.
    Message(WorkerMessage),
    /// A node cannot be talked to.
    NodeLost(BackAgain, NodeId),
}

/// Gives a connection a letter.
fn read_letter(store: &NodeShared, clients: &mut Clients, back: BackAgain, letter: Letter) -> Option<Unread> {
    let BackAgain(client) = back;
    match letter {
        Letter::Answer(ticket, reply) => clients.deliver_owned(&ticket, reply),
        Letter::Message(message) => return Some(Unread::Message(message)),
        Letter::Push(delivery) => push_to(clients, client, &delivery),
        Letter::Evicted(evicted) => evict_one(clients, client, &evicted),
        Letter::Told(told) => tell_here(store, clients, &told),
        Letter::Instead(told) => tell_instead(clients, &told),
        Letter::Shown(line) => show_to(clients, client, &line),
        Letter::Called(line) => {
            if let Some(client) = clients.find(client).map(|connection| connection.session.subscriber()) {
                show_call(store, clients, client, line);
            }
        }
        Letter::Unsent(unsent) => clients.take_back_unsent(&unsent),
        Letter::NodeLost(node) => return Some(Unread::NodeLost(back, node)),
        Letter::UsersChanged => users_changed_of(clients, client),
        Letter::Exchanged => exchanged_of(clients, client),
        Letter::Look => clients.end_pause(client.id),
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::clients::tick;
    use crate::net::Stream;
    use crate::testing::TestNode;
    use mio::{Poll, Token, Waker};
    use node::session::Keyspace;
    use std::net::{TcpListener, TcpStream};

    /// One client of a worker, and the thread's ends of the ways to it and back.
    struct Lent {
        _poll: Poll,
        _socket: TcpStream,
        store: Arc<NodeShared>,
        clients: Clients,
        dispatcher: Dispatcher,
        thread: LargeThread,
        taken: Receiver<Option<Loan>>,
        gives: Sender<GivenBack>,
    }

    impl Lent {
        fn new(node: &TestNode) -> Self {
            let poll = Poll::new().unwrap();
            let mailbox = Mailbox::new(Waker::new(poll.registry(), Token(0)).unwrap());
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let stream = listener.accept().unwrap().0;
            stream.set_nonblocking(true).unwrap();
            let store = node.store().clone();
            let mut clients = Clients::new(0, store.clone());
            clients.connect(Stream::plain(stream), Keyspace::Cluster, poll.registry(), store.now_ms());
            let ((loans, taken), (gives, given_back)) = (channel(), channel());
            clients.lend_by(Lender::to(loans.clone()));
            let thread = LargeThread { loans, given_back, thread: None };
            let dispatcher = Dispatcher::new(0, store.clone(), mailbox);
            Self { _poll: poll, _socket: socket, store, clients, dispatcher, thread, taken, gives }
        }

        fn id(&self) -> usize {
            self.clients.ids()[0]
        }

        /// The client is shown so many lines of so many bytes while it is away.
        fn show_while_away(&mut self, lines: usize, bytes: usize) -> Arrivals {
            let id = self.id();
            assert!(self.clients.lend(id, Job::Grow).is_ok());
            let Loan { connection, .. } = self.taken.recv().unwrap().unwrap();
            let client = ClientId { id, generation: connection.generation };
            let line = vec![b'x'; bytes];
            (0..lines).for_each(|_| show_to(&mut self.clients, client, &line));
            let clients = Clients::of_thread(0, self.store.clone(), id, connection);
            let collected = self.dispatcher.take_collected();
            assert!(self.gives.send(GivenBack { clients, collected, rest: Vec::new() }).is_ok());
            give_back(&self.thread, &mut self.clients, &mut self.dispatcher).unwrap()
        }
    }

    #[test]
    fn a_client_is_closed_for_what_has_come_while_it_was_away() {
        let node = TestNode::start(&[]);
        let mut lent = Lent::new(&node);
        // The limit of monitors is 32 MB.
        let mut few = lent.show_while_away(16, 1 << 20);
        assert!(few.letters.len() == 16 && !lent.clients.get(lent.id()).unwrap().is_broken());
        few.letters = Vec::new().into_iter();
        let many = lent.show_while_away(100, 1 << 20);
        assert!(many.letters.len() == 0 && lent.clients.get(lent.id()).unwrap().is_broken());
        // It is counted once, however often it is found too slow before it is gone.
        tick(&mut lent.clients, 0);
        lent.clients.pushed(lent.id());
        assert_eq!(lent.store.stats.totals().output_limit_disconnections, 1);
    }

    #[test]
    fn what_has_come_is_read_by_the_thread_if_it_is_much() {
        let node = TestNode::start(&[]);
        let mut lent = Lent::new(&node);
        let mut few = lent.show_while_away(LARGE_REQUEST_ARGUMENTS / 4, 10);
        assert!(few.read(&lent.store, &mut lent.clients).is_none() && lent.taken.try_recv().is_err());
        let mut many = lent.show_while_away(2 * LARGE_REQUEST_ARGUMENTS, 10);
        let id = lent.id();
        assert!(many.read(&lent.store, &mut lent.clients).is_none() && lent.clients.get(id).is_none());
        match lent.taken.try_recv().unwrap().unwrap().job {
            Job::Letters(letters) => assert_eq!(letters.len(), 2 * LARGE_REQUEST_ARGUMENTS),
            _ => panic!("another job"),
        }
    }
}
