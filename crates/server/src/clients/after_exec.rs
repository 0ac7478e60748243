//! What a transaction asks of the whole store, after its shard has answered: SCAN, KEYS, DBSIZE and the like, WAIT, PUBLISH
//! and changes of users.
//!
//! A transaction is one shard's. What is asked of the whole store is read when the shard has answered: it sees all that the
//! transaction has written, and may see what others have written since. Users change then too: the shard's commands have run with
//! the rights from before.

use super::connection::RunningTransaction;
use super::deed::Deed;
use super::message_send::publish_and_wait;
use super::replica_count::{look_up, narrow, replicas_that_hold};
use crate::api::{Routed, StoreRequest, route, run_on_store};
use crate::mailbox::{StoreAnswers, WorkerMessage};
use crate::os::steady_us;
use crate::shared::NodeShared;
use node::command::handler;
use node::pubsub::SubscriptionKind;
use node::session::{Consistency, Session, WaitFor, published_kind};
use node::{EncodedCommand, Ticket};
use resp::Reply;
use resp::table::{CommandSpec, behaviour};
use std::sync::Arc;
use vocab::limits::ITEM_REPLY_BYTES_MAX;

const TOO_LONG: &str = "ERR the answer would take more bytes than a transaction may answer";

const NOT_IN_TRANSACTION: &str = "ERR this command cannot be part of a transaction";

/// One command.
enum Question {
    /// It waits for nothing within a transaction, as in Redis: it tells how many replicas there are by now.
    Wait(Result<WaitFor, &'static str>),
    /// A message to the subscribers of a channel.
    Publish(SubscriptionKind, EncodedCommand),
    /// A change of users, and what the audit log is told of it.
    Change(&'static CommandSpec, EncodedCommand, Option<Deed>),
    /// Over the whole store.
    Store(&'static CommandSpec, EncodedCommand, Consistency),
}

/// Has the pool answer what a transaction asks of the whole store; false if it asks nothing.
pub(super) fn begin(
    store: &Arc<NodeShared>,
    session: &Session,
    running: &RunningTransaction,
    ticket: Ticket,
    outcome: &[u8],
) -> bool {
    let is_array = !matches!(outcome, [b'*', b'-', ..] | [b'_', ..] | [b'-', ..]);
    let question = |(spec, command): (&'static CommandSpec, &EncodedCommand)| {
        let args = command.args();
        match handler(spec) {
            Some(_) => Question::Store(spec, command.clone(), session.consistency_for(spec, &args)),
            None if spec.does(behaviour::FOLLOWS_EXEC) => {
                Question::Change(spec, command.clone(), Deed::of(session, spec, &args))
            }
            None => match published_kind(spec, session.keyspace()) {
                Some(kind) => Question::Publish(kind, command.clone()),
                None => Question::Wait(session.wait_for(spec, &args).map(|mut wait| {
                    narrow(store, session, &mut wait.written);
                    wait
                })),
            },
        }
    };
    let questions: Vec<Question> = running.transaction.for_shell().map(question).collect();
    if questions.is_empty() || !is_array {
        return false;
    }
    let (of_job, outcome) = (store.clone(), outcome.to_vec());
    store.pool.run_patient(Box::new(move || {
        let mut left = ITEM_REPLY_BYTES_MAX;
        let answers = questions.into_iter().map(|question| answer(&of_job, question, ticket, &mut left)).collect();
        let answers = Box::new(StoreAnswers { ticket, outcome, answers });
        of_job.mailboxes.tell(ticket.worker as usize, WorkerMessage::StoreAnswers(answers));
    }));
    true
}

/// The answer to one question. All those of a transaction are in memory together: `left` are the bytes that they may still
/// take.
fn answer(store: &Arc<NodeShared>, question: Question, ticket: Ticket, left: &mut usize) -> Vec<u8> {
    let mut reply = Reply::new(ticket.proto);
    reply.limit(*left);
    match question {
        Question::Wait(Ok(mut wait)) => {
            look_up(store, &mut wait.written);
            wait.answer(false, replicas_that_hold(store, &wait), &mut reply);
        }
        Question::Wait(Err(text)) => reply.error(text),
        Question::Publish(kind, command) => return publish_and_wait(store, kind, &command.args(), ticket),
        Question::Change(spec, command, deed) => {
            let args = command.args();
            match route(store, spec, &args) {
                Ok(Routed::Pool { handler }) => handler.run(store, &args, ticket.durability(), &mut reply),
                Ok(_) => reply.error(NOT_IN_TRANSACTION),
                Err(text) => reply.error(&text),
            }
            if let Some(deed) = deed {
                deed.note(store, &reply);
            }
        }
        Question::Store(spec, command, consistency) => {
            let args = command.args();
            let (seed, arrived_us) = (ticket.sequence, steady_us());
            let asked = StoreRequest { args: &args, seed, arrived_us, consistency, client: None };
            match route(store, spec, &args) {
                Ok(Routed::Store { handler, .. }) => run_on_store(store, handler, &asked, &mut reply),
                Ok(_) => reply.error(NOT_IN_TRANSACTION),
                Err(text) => reply.error(&text),
            }
            if reply.exceeded() {
                reply = Reply::new(ticket.proto);
                reply.error(TOO_LONG);
            }
            *left = left.saturating_sub(reply.spent());
        }
    }
    reply.buf
}
