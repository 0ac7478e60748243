//! Large requests: a thread runs them, and the event loop serves others meanwhile.
//!
//! A request of very many arguments, or one about very many commands, keys or channels of its session, is looked at argument by
//! argument many times: its rights, its keys, their slots, copies, confirmations, answers. None of that needs the event loop.
//! So the connection is lent to a thread, which runs the request as the loop would, by the same code, and gives the connection
//! back with what the request wants of the worker. What comes for the connection meanwhile waits for it.
//!
//! Each worker has one such thread, so large requests of its clients run one after another.

use super::client_id::ClientId;
use super::connections::{Away, Letter};
use super::dispatch::Dispatcher;
use super::invalidations::{tell_here, tell_instead};
use super::large_request::{BackAgain, Job, Lender, Loan, is_large};
use super::ran::Collected;
use super::registry::Clients;
use super::watch::watched;
use crate::api::close_session;
use crate::mailbox::{BlockingMessage, Mailbox, WorkerMessage};
use crate::os::spawn_critical;
use crate::shared::NodeShared;
use node::Write;
use node::stats::Stats;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use vocab::NodeId;
use vocab::limits::LARGE_REQUEST_ARGUMENTS;

/// A connection on its way back.
struct GivenBack {
    /// It alone.
    clients: Clients,
    /// What its request wants of the worker.
    collected: Collected,
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
        let run = move || serve(worker, &store, &mailbox, (&taken, &gives));
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
        // Who does not take it has ended, and with it all its clients.
        let _ = gives.send(GivenBack { clients, collected: dispatcher.take_collected() });
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
        WorkerMessage::Called(called) => match clients.upstreams.clients.get(called.place) {
            Some(client) => *client,
            None => return Some(message),
        },
        WorkerMessage::Blocking(BlockingMessage::Unblock { place, .. }) => match clients.away_at(*place) {
            Some(away) => {
                away.letters.push(Letter::Message(message));
                return None;
            }
            None => return Some(message),
        },
        _ => return Some(message),
    };
    match clients.away(client) {
        Some(away) => {
            away.letters.push(Letter::Message(message));
            None
        }
        None => Some(message),
    }
}

/// A connection is back: it has its place again. Answers which it is, and what has come for it meanwhile.
pub(crate) fn give_back(
    thread: &LargeThread,
    clients: &mut Clients,
    dispatcher: &mut Dispatcher,
) -> Option<(BackAgain, Vec<Letter>)> {
    let GivenBack { clients: of_thread, collected } = thread.given_back.try_recv().ok()?;
    dispatcher.add_collected(collected);
    let (client, Away { noticed, letters, .. }) = clients.take_back(of_thread)?;
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
