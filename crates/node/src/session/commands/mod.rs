//! The commands that a session answers itself: about the connection, the node and the cluster.

mod acl;
mod admin;
mod ask;
mod client;
mod client_kill;
mod client_list;
mod cluster;
mod command_log;
mod config;
mod connection;
mod debug;
mod greeting;
mod hot_keys;
mod info;
mod latency;
mod lolwut;
mod memory;
mod promises;
mod pubsub;
mod sentinel;
mod tracking;

pub(super) use ask::Ask;
pub use info::info;

use super::{Cost, Effect, Keyspace, costly};
use crate::acl::{AuditEvent, audited, refusal_of};
use crate::command::{self, Handler, ReadHandler};
use crate::pubsub::SubscriptionKind;
use crate::stats::ShortArgs;
use ask::{Outcome, Row, SessionHandler};
use resp::table::behaviour::TAKES_MANY;
use resp::table::{self, CommandId, CommandSpec, flag};
use std::sync::LazyLock;
use vocab::limits::SESSION_ARGUMENTS_MAX;

/// Who runs a command.
#[derive(Clone, Copy)]
pub(super) enum Role {
    /// The session.
    Session(SessionHandler),
    /// The shard of the slot that its arguments name.
    Slot(ReadHandler),
    /// The shard of its keys, or the whole store.
    Data,
    Multi,
    Exec,
    Discard,
    Watch,
    /// Answered by the shell, when replicas have got far enough.
    Wait,
    /// The shell brings a message to those who have subscribed to its channel, which is of this kind.
    Publish(SubscriptionKind),
}

/// The commands that the session answers. To add one, put its row into its family and into the command table.
const FAMILIES: &[&[Row]] = &[
    acl::ROWS,
    connection::ROWS,
    admin::ROWS,
    greeting::ROWS,
    client::ROWS,
    config::ROWS,
    cluster::ROWS,
    command_log::ROWS,
    debug::ROWS,
    hot_keys::ROWS,
    latency::ROWS,
    lolwut::ROWS,
    memory::ROWS,
    promises::ROWS,
    pubsub::ROWS,
    sentinel::ROWS,
    tracking::ROWS,
];

/// The commands that change what the session does with others.
const CONTROLS: &[(&str, Role)] = &[
    ("MULTI", Role::Multi),
    ("EXEC", Role::Exec),
    ("DISCARD", Role::Discard),
    ("WATCH", Role::Watch),
    ("WAIT", Role::Wait),
    ("WAITAOF", Role::Wait),
    ("PUBLISH", Role::Publish(SubscriptionKind::Channel)),
    ("SPUBLISH", Role::Publish(SubscriptionKind::ShardChannel)),
];

/// By the number of the command.
static ROLES: LazyLock<Vec<Role>> = LazyLock::new(|| {
    let mut roles: Vec<Role> = table::all().iter().map(role_without_row).collect();
    let sessions = FAMILIES.iter().copied().flatten().map(|(name, handler)| (*name, Role::Session(*handler)));
    for (name, role) in sessions.chain(CONTROLS.iter().copied()) {
        let spec = table::lookup_full(name.as_bytes()).expect("a handler's command is in the command table");
        roles[spec.id.index()] = role;
    }
    roles
});

/// The role of a command.
#[inline]
pub(super) fn role(command: CommandId) -> Role {
    ROLES[command.index()]
}

/// The kind of channel to which a command publishes, if it does.
#[must_use]
pub fn published_kind(spec: &CommandSpec, keyspace: Keyspace) -> Option<SubscriptionKind> {
    match role(spec.id) {
        Role::Publish(SubscriptionKind::ShardChannel) if keyspace.has_plain_channels() => {
            Some(SubscriptionKind::PlainShardChannel)
        }
        Role::Publish(kind) => Some(kind),
        _ => None,
    }
}

/// Whether a command waits for replicas.
pub(super) fn is_wait(spec: &CommandSpec) -> bool {
    matches!(role(spec.id), Role::Wait)
}

/// The role of a command that has no row here.
fn role_without_row(spec: &CommandSpec) -> Role {
    match command::handler(spec) {
        Some(Handler::Read(handler @ ReadHandler::Shard(_))) => Role::Slot(handler),
        // HELP of every container is made from the table.
        None if spec.container.is_some() && spec.short_name() == "HELP" => Role::Session(help),
        _ => Role::Data,
    }
}

fn help(ask: &mut Ask<'_>) -> Outcome {
    let container = table::row(ask.spec.container.expect("HELP is a subcommand"));
    table::help(container, ask.reply);
    Ok(Effect::None)
}

fn too_many(_: &mut Ask<'_>) -> Outcome {
    Err("ERR this command is answered at once, and takes 1024 arguments at most".into())
}

const _: () = assert!(SESSION_ARGUMENTS_MAX == 1024);

/// The audit log gets what an operator has done; its reply begins at `mark`.
fn audit(ask: &Ask<'_>, mark: usize) {
    let Some((kind, what)) = audited(ask.spec, ask.args) else { return };
    ask.host.audit(&AuditEvent {
        kind,
        user: ask.session.user().name().as_ref().into(),
        address: ask.session.entry().addr.as_str().into(),
        what: what.into(),
        refusal: ask.reply.buf.get(mark..).and_then(|reply| refusal_of(reply, ask.args)),
    });
}

/// Runs a command of the session, writes its reply and counts it, unless the reply is for later.
pub(super) fn run(ask: &mut Ask<'_>) -> Effect {
    let Role::Session(handler) = role(ask.spec.id) else {
        ask.reply.error("ERR this command is not the session's");
        return Effect::None;
    };
    let from_us = ask.host.now_us();
    let mark = ask.reply.buf.len();
    let is_bounded = !ask.spec.has(flag::PUBSUB) && !ask.spec.does(TAKES_MANY);
    let handler = if is_bounded && ask.args.len() > SESSION_ARGUMENTS_MAX { too_many } else { handler };
    let effect = handler(ask).unwrap_or_else(|text| {
        ask.reply.buf.truncate(mark);
        ask.reply.error(&text);
        Effect::None
    });
    // One that is answered later is counted then.
    if effect.is_later() {
        audit(ask, mark);
        return effect;
    }
    let elapsed_ns = ask.host.now_us().saturating_sub(from_us) * 1000;
    audit(ask, mark);
    ask.stats().finished(ask.spec.id, elapsed_ns, &ask.reply.buf[mark..]);
    let cost = Cost { elapsed_ns, reply_bytes: (ask.reply.buf.len() - mark) as u64 };
    let args = || ShortArgs::of(ask.spec, ask.args);
    costly::note_if_costly(ask.session.entry(), ask.spec, cost, ask.host, args);
    effect
}
