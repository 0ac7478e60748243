//! How threads talk to an event loop: its mailbox, and the messages of a worker.

mod answer_room;
mod message;
mod queue;
#[cfg(test)]
mod shuttle_tests;

use crate::sync;
pub(crate) use answer_room::{AnswerRoom, AnswerShare};
pub(crate) use message::{
    BlockingMessage, Called, EMBEDDED, Forked, LearnedScript, Mailbox, Opened, ReplyPart, ShardSnapshot, StoreAnswers,
    Submission, SubscriberNews, WaitingClient, WatchedKeys, WorkerMessage, WriteBarrier,
};
