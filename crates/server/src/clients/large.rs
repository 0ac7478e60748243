//! Large requests: a thread runs them, and the event loop serves others meanwhile.
//!
//! A request of very many arguments, or one about very many commands, keys or channels of its session, is looked at argument by
//! argument many times: its rights, its keys, their slots, copies, confirmations, answers. None of that needs the event loop.
//! So the connection is lent to a thread, which runs the request as the loop would, by the same code, and gives the connection
//! back with what the request wants of the worker. What comes for the connection meanwhile waits for it.
//!
//! Each worker has one such thread, so large requests of its clients run one after another.

use super::client_id::ClientId;
use super::connection::Connection;
use super::connections::{Away, Letter};
use super::dispatch::{Collected, Dispatcher};
use super::invalidations::{tell_here, tell_instead};
use super::registry::Clients;
use super::watch::watched;
use crate::api::close_session;
use crate::mailbox::{BlockingMessage, Mailbox, WorkerMessage};
use crate::os::spawn_critical;
use crate::shared::NodeShared;
use node::stats::Stats;
use node::{Ticket, Write};
use replica::Bytes;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use vocab::NodeId;
use vocab::limits::{LARGE_REQUEST_ARGUMENTS, LARGE_REQUEST_BYTES};

/// Whether a request of so many arguments in so many bytes is one for the thread.
#[inline]
pub(super) fn is_large(arguments: usize, bytes: usize) -> bool {
    arguments > LARGE_REQUEST_ARGUMENTS || bytes > LARGE_REQUEST_BYTES
}

/// A request that was taken out of a connection's input.
pub(super) struct LargeRequest {
    /// The input, which begins with it.
    pub(super) input: Bytes,
    /// What its arguments are in, if that is not the input: it was typed by hand.
    pub(super) typed: Option<Vec<u8>>,
    /// Its arguments.
    pub(super) ranges: Vec<Range<usize>>,
    /// Its bytes in the input.
    pub(super) bytes: usize,
}

/// A request that waits is in its connection's input again.
pub(super) fn put_back(connection: &mut Connection, request: LargeRequest) {
    let LargeRequest { input, typed, ranges, .. } = request;
    if typed.is_none() && input.first() == Some(&b'*') {
        connection.parse.put_back(ranges);
    }
    connection.input = input.into();
}

/// Whether a request is about all that its session holds, which is much.
#[cold]
pub(super) fn is_about_all(connection: &Connection, input: &[u8], ranges: &[Range<usize>]) -> bool {
    let args: SmallVec<[&[u8]; 8]> = ranges.iter().map(|range| &input[range.clone()]).collect();
    connection.session.is_about_all(&args)
}

/// What the thread does with a connection.
pub(super) enum Job {
    /// Runs its next request.
    Run(LargeRequest),
    /// Gives it the answer of a transaction.
    Answer(Ticket, Vec<u8>),
    /// Gives it what else is long.
    Message(Box<WorkerMessage>),
    /// Makes room for more of its input.
    Grow,
    /// Forgets it: it is closed.
    Close,
}

/// A connection on its way to the thread.
struct Loan {
    id: usize,
    connection: Connection,
    job: Job,
}

/// A connection on its way back.
pub(crate) struct GivenBack {
    /// It alone.
    clients: Clients,
    /// What its request wants of the worker.
    collected: Collected,
}

/// The thread, and the way to it; dropping it ends the thread.
pub(super) struct LargeThread {
    loans: Option<Sender<Loan>>,
    thread: Option<JoinHandle<()>>,
}

/// What runs the large requests of a worker's clients.
#[derive(Default)]
pub(super) struct LargeRequests {
    /// None before the first.
    thread: Option<LargeThread>,
}

impl LargeRequests {
    /// The thread; starts it if there is none.
    pub(super) fn thread(&mut self, worker: usize, store: &Arc<NodeShared>) -> Option<&LargeThread> {
        if self.thread.is_none() {
            match LargeThread::start(worker, store) {
                Ok(thread) => self.thread = Some(thread),
                Err(e) => log::warn!("no thread for large requests: {e}"),
            }
        }
        self.thread.as_ref()
    }
}

/// Lends a connection to the thread for large requests; gives the job back if there is no thread, or no such connection here.
pub(super) fn lend(clients: &mut Clients, id: usize, job: Job) -> Result<(), Job> {
    let (worker, store) = (clients.worker(), clients.store().clone());
    if clients.are_of_thread() {
        return Err(job);
    }
    let Some(thread) = clients.large.thread(worker, &store) else { return Err(job) };
    let Some(mut connection) = clients.connections.lend(id) else { return Err(job) };
    (connection.dirty, connection.stalled) = (false, false);
    thread.lend(id, connection, job);
    Ok(())
}

impl LargeThread {
    fn start(worker: usize, store: &Arc<NodeShared>) -> std::io::Result<Self> {
        let (loans, taken) = channel();
        let store = store.clone();
        let run = move || {
            if let Some(mailbox) = store.mailboxes.of_worker(worker).cloned() {
                serve(worker, &store, &mailbox, &taken);
            }
        };
        let thread = spawn_critical(&format!("large-{worker}"), run)?;
        Ok(Self { loans: Some(loans), thread: Some(thread) })
    }

    /// Lends a connection. It is not away any more when a `GivenBack` has come; one to be closed does not come back.
    pub(super) fn lend(&self, id: usize, connection: Connection, job: Job) {
        if let Some(loans) = &self.loans {
            // The thread is there until this is dropped.
            let _ = loans.send(Loan { id, connection, job });
        }
    }
}

impl Drop for LargeThread {
    fn drop(&mut self) {
        self.loans = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(worker: usize, store: &Arc<NodeShared>, mailbox: &Arc<Mailbox>, loans: &Receiver<Loan>) {
    Stats::count_aside();
    let mut dispatcher = Dispatcher::of_thread(worker, store.clone(), mailbox.clone());
    while let Ok(Loan { id, connection, job }) = loans.recv() {
        let mut clients = Clients::of_thread(worker, store.clone(), id, connection);
        match job {
            Job::Run(request) => dispatcher.run_large(&mut clients, id, request),
            Job::Answer(ticket, reply) => clients.deliver_owned(&ticket, reply),
            Job::Message(message) => match *message {
                WorkerMessage::Watched(keys) => watched(&mut clients, *keys),
                WorkerMessage::StoreAnswers(answers) => clients.deliver_store_answers(&answers),
                WorkerMessage::WritePrefetched(ticket) => dispatcher.write_prefetched(&mut clients, &ticket),
                _ => {}
            },
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
        let back = GivenBack { clients, collected: dispatcher.take_collected() };
        mailbox.send(WorkerMessage::GivenBack(Box::new(back)));
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
    let client = ClientId { id: ticket.connection as usize, generation: ticket.generation };
    clients.find(client)?;
    match lend(clients, client.id, Job::Message(Box::new(message))) {
        Err(Job::Message(message)) => Some(*message),
        _ => None,
    }
}

/// Keeps a message for a connection that is away; answers one that is for no such connection.
fn keep(clients: &mut Clients, message: WorkerMessage) -> Option<WorkerMessage> {
    if !clients.connections.any_away() {
        return Some(message);
    }
    let of = |ticket: &Ticket| ClientId { id: ticket.connection as usize, generation: ticket.generation };
    let client = match &message {
        WorkerMessage::Part(part) => of(&part.ticket),
        WorkerMessage::StoreAnswers(answers) => of(&answers.ticket),
        WorkerMessage::Watched(watched) => of(&watched.ticket),
        WorkerMessage::LearnedScript(it) => ClientId { id: it.place, generation: it.generation },
        WorkerMessage::WritePrefetched(ticket) | WorkerMessage::DeniedInScript(ticket, _) => of(ticket),
        WorkerMessage::Called(called) => match clients.upstreams.clients.get(called.place) {
            Some(client) => *client,
            None => return Some(message),
        },
        WorkerMessage::Blocking(BlockingMessage::Unblock { place, .. }) => match clients.connections.away_at(*place) {
            Some(away) => {
                away.letters.push(Letter::Message(message));
                return None;
            }
            None => return Some(message),
        },
        _ => return Some(message),
    };
    match clients.connections.away(client) {
        Some(away) => {
            away.letters.push(Letter::Message(message));
            None
        }
        None => Some(message),
    }
}

/// The connection of the thread's clients is back, with what of it is to be done; what has come of it meanwhile.
fn take_back(clients: &mut Clients, of_thread: Clients) -> Option<(ClientId, Away)> {
    clients.ready.extend(&of_thread.ready);
    clients.divided.extend(of_thread.divided);
    clients.upstreams.waiting.extend(of_thread.upstreams.waiting);
    let (id, mut connection) = of_thread.connections.into_lent()?;
    if std::mem::take(&mut connection.stalled) {
        connection.stalled = true;
        clients.stalled.push(ClientId { id, generation: connection.generation });
    }
    connection.dirty = false;
    let client = ClientId { id, generation: connection.generation };
    let away = clients.connections.give_back(id, connection)?;
    Some((client, away))
}

/// A connection is back: it has its place again. Answers which it is, and what has come for it meanwhile.
pub(crate) fn give_back(
    clients: &mut Clients,
    dispatcher: &mut Dispatcher,
    back: GivenBack,
) -> Option<(BackAgain, Vec<Letter>)> {
    let GivenBack { clients: of_thread, collected } = back;
    dispatcher.add_collected(collected);
    let (client, Away { noticed, letters, .. }) = take_back(clients, of_thread)?;
    let connection = clients.find(client)?;
    connection.readable |= noticed.readable;
    connection.hung_up |= noticed.hung_up;
    if noticed.writable {
        connection.set_writable();
    }
    // What other nodes have sent is read, and what waits for them is sent.
    let places = connection.notice_upstreams();
    for place in places {
        clients.upstreams.dirty.push(place);
        clients.upstreams.leave_unread(place);
    }
    clients.look_again(client.id);
    Some((BackAgain(client), letters))
}

/// A connection that is back.
#[derive(Clone, Copy)]
pub(crate) struct BackAgain(pub(super) ClientId);

/// What of that only its worker can do.
#[allow(clippy::large_enum_variant, reason = "it is read at once")]
pub(crate) enum Unread {
    /// It is told something.
    Message(WorkerMessage),
    /// A node cannot be talked to.
    NodeLost(BackAgain, NodeId),
}

/// Gives a connection what has come for it while it was away.
pub(crate) fn read_letter(
    store: &NodeShared,
    clients: &mut Clients,
    back: BackAgain,
    letter: Letter,
) -> Option<Unread> {
    let BackAgain(client) = back;
    match letter {
        Letter::Answer(ticket, reply) => clients.deliver_owned(&ticket, reply),
        Letter::Message(message) => return Some(Unread::Message(message)),
        Letter::Push(delivery) => clients.push_to(client, &delivery),
        Letter::Evicted(evicted) => clients.evict_one(client, &evicted),
        Letter::Told(told) => tell_here(store, clients, &told),
        Letter::Instead(told) => tell_instead(clients, &told),
        Letter::Shown(line) => clients.show_to(client, &line),
        Letter::Unsent(unsent) => clients.take_back_unsent(&unsent),
        Letter::NodeLost(node) => return Some(Unread::NodeLost(back, node)),
        Letter::UsersChanged => clients.users_changed_of(client),
        Letter::Look => clients.end_pause(client.id),
    }
    None
}
