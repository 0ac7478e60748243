//! The commands that a session answers itself: about the connection, the node and the cluster.

mod admin;
mod client;
mod client_kill;
mod client_list;
mod cluster;
mod config;
mod connection;
mod debug;
mod greeting;
mod latency;
mod memory;
mod promises;
mod slot;
mod slowlog;

use super::{Effect, Host, Session};
use crate::command::Handler;
use resp::Reply;
use resp::table::{self, CommandId, CommandSpec};
use std::borrow::Cow;
use std::sync::OnceLock;

pub(super) use slot::slot_argument;

/// One command under way.
pub(super) struct Ask<'a> {
    pub(super) session: &'a mut Session,
    pub(super) host: &'a dyn Host,
    pub(super) spec: &'static CommandSpec,
    /// The request; its length has been checked.
    pub(super) args: &'a [&'a [u8]],
    pub(super) reply: &'a mut Reply,
}

impl Ask<'_> {
    /// The time, in ms since the epoch.
    fn now_ms(&self) -> u64 {
        self.host.now_us() / 1000
    }
}

/// The text of an error reply, its code first.
type Refusal = Cow<'static, str>;

type Outcome = Result<Effect, Refusal>;

type SessionHandler = fn(&mut Ask<'_>) -> Outcome;

const SYNTAX: Refusal = Cow::Borrowed("ERR syntax error");
const NOT_INTEGER: Refusal = Cow::Borrowed("ERR value is not an integer or out of range");

/// Who runs a command.
#[derive(Clone, Copy)]
pub(super) enum Role {
    /// The session.
    Session(SessionHandler),
    /// The shard of the slot that its arguments name.
    Slot(Handler),
    /// The shard of its keys, or the whole store.
    Data,
    Multi,
    Exec,
    Discard,
    Watch,
    /// Answered by the shell, when replicas have got far enough.
    Wait,
}

/// The role of a command.
#[inline]
pub(super) fn role(command: CommandId) -> Role {
    static ROLES: OnceLock<Vec<Role>> = OnceLock::new();
    let roles = ROLES.get_or_init(|| table::all().iter().map(role_of).collect());
    roles[command.index()]
}

fn role_of(spec: &CommandSpec) -> Role {
    match spec.name {
        "MULTI" => return Role::Multi,
        "EXEC" => return Role::Exec,
        "DISCARD" => return Role::Discard,
        "WATCH" => return Role::Watch,
        "WAIT" | "WAITAOF" => return Role::Wait,
        "CLUSTER|COUNTKEYSINSLOT" => return Role::Slot(slot::count_keys),
        "CLUSTER|GETKEYSINSLOT" => return Role::Slot(slot::get_keys),
        _ => {}
    }
    let handler = connection::handler(spec.name)
        .or_else(|| admin::handler(spec.name))
        .or_else(|| greeting::handler(spec.name))
        .or_else(|| client::handler(spec.name))
        .or_else(|| config::handler(spec.name))
        .or_else(|| cluster::handler(spec.name))
        .or_else(|| debug::handler(spec.name))
        .or_else(|| latency::handler(spec.name))
        .or_else(|| memory::handler(spec.name))
        .or_else(|| promises::handler(spec.name))
        .or_else(|| slowlog::handler(spec.name))
        .or_else(|| help_handler(spec));
    handler.map_or(Role::Data, Role::Session)
}

/// HELP of every container is made from the table.
fn help_handler(spec: &CommandSpec) -> Option<SessionHandler> {
    (spec.container.is_some() && spec.short_name() == "HELP").then_some(help as SessionHandler)
}

fn help(ask: &mut Ask<'_>) -> Outcome {
    let container = ask.spec.container.expect("HELP is a subcommand").spec();
    table::help(container, ask.reply);
    Ok(Effect::None)
}

/// Runs a command of the session, writes its reply and counts it, unless the reply is for later.
pub(super) fn run(ask: &mut Ask<'_>) -> Effect {
    let Role::Session(handler) = role(ask.spec.id) else {
        ask.reply.error("ERR this command is not the session's");
        return Effect::None;
    };
    let from_us = ask.host.now_us();
    let mark = ask.reply.buf.len();
    let effect = handler(ask).unwrap_or_else(|text| {
        ask.reply.buf.truncate(mark);
        ask.reply.error(&text);
        Effect::None
    });
    // One that is answered later is counted then.
    if matches!(effect, Effect::ReplyAfter { .. }) {
        return effect;
    }
    let elapsed_ns = ask.host.now_us().saturating_sub(from_us) * 1000;
    let worker = ask.session.entry().worker;
    ask.host.stats().worker(worker).finished(ask.spec.id, elapsed_ns, &ask.reply.buf[mark..]);
    ask.session.slow(ask.spec, ask.args, elapsed_ns, ask.host);
    effect
}

/// Whether `arg` is the option `word` (upper case), in any case.
fn is_word(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// The client's bytes in an error text.
fn shown(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
