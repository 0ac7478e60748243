//! Subscriptions of the connection, and what PUBSUB tells of those of the node.

use super::ask::{Ask, Outcome, Refusal, Row, wrong_arguments};
use crate::pubsub::{ClientSubscriptions, Name, Refused, Settled, SubscriptionKind};
use crate::request::{CROSSSLOT, RequestKeys};
use crate::session::{Effect, Host};
use SubscriptionKind::{Channel, Pattern, PlainShardChannel, ShardChannel};
use resp::{Reply, glob_matches};
use vocab::{Slot, slot_of};

pub(super) const ROWS: &[Row] = &[
    ("SUBSCRIBE", |ask| subscribe(ask, Channel)),
    ("PSUBSCRIBE", |ask| subscribe(ask, Pattern)),
    ("SSUBSCRIBE", subscribe_to_slot),
    ("UNSUBSCRIBE", |ask| unsubscribe(ask, Channel)),
    ("PUNSUBSCRIBE", |ask| unsubscribe(ask, Pattern)),
    ("SUNSUBSCRIBE", |ask| unsubscribe(ask, of_slots(ask))),
    ("PUBSUB|CHANNELS", |ask| names(ask, Channel)),
    ("PUBSUB|NUMSUB", |ask| subscribers(ask, Channel)),
    ("PUBSUB|NUMPAT", numpat),
    ("PUBSUB|SHARDCHANNELS", |ask| names(ask, of_slots(ask))),
    ("PUBSUB|SHARDNUMSUB", |ask| subscribers(ask, of_slots(ask))),
];

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        refused.to_string().into()
    }
}

fn subscribe(ask: &mut Ask<'_>, kind: SubscriptionKind) -> Outcome {
    let settled = change(ask, |host, subscriber, own, args, reply| {
        let confirm = |name: &[u8], count| write(reply, kind.subscribed(), Some(name), count);
        host.broker().subscribe(subscriber, own, kind, args, confirm)
    })?;
    Ok(confirmed(ask, settled))
}

/// What this client means by channels of slots.
fn of_slots(ask: &Ask<'_>) -> SubscriptionKind {
    if ask.session.keyspace().has_plain_channels() { PlainShardChannel } else { ShardChannel }
}

/// The channels must be of one slot that this node leads, before and after: of a client that knows clusters.
fn subscribe_to_slot(ask: &mut Ask<'_>) -> Outcome {
    if of_slots(ask) == PlainShardChannel {
        return subscribe(ask, PlainShardChannel);
    }
    let slot = RequestKeys::of(ask.spec, ask.args)?.slot.unwrap_or(Slot(0));
    if let Some(text) = ask.host.refuses_slot(slot) {
        return Err(text.into());
    }
    let effect = subscribe(ask, ShardChannel)?;
    // The subscriptions of a slot that moves meanwhile may have been ended before this one was made.
    if let Some(text) = ask.host.refuses_slot(slot) {
        let names = ask.args[1..].to_vec();
        change(ask, |host, subscriber, own, _, _| {
            Ok(host.broker().unsubscribe(subscriber, own, ShardChannel, &names, |_, _| ()))
        })?;
        return Err(text.into());
    }
    Ok(effect)
}

fn unsubscribe(ask: &mut Ask<'_>, kind: SubscriptionKind) -> Outcome {
    if kind == ShardChannel && ask.args[1..].windows(2).any(|two| slot_of(two[0]) != slot_of(two[1])) {
        return Err(CROSSSLOT.into());
    }
    let settled = change(ask, |host, subscriber, own, args, reply| {
        let all: Vec<Name>;
        let mut names = args.to_vec();
        if names.is_empty() {
            all = own.names(kind);
            names = all.iter().map(|name| &name[..]).collect();
        }
        if names.is_empty() {
            write(reply, kind.unsubscribed(), None, own.told_count(kind));
        }
        let confirm = |name: &[u8], count| write(reply, kind.unsubscribed(), Some(name), count);
        Ok(host.broker().unsubscribe(subscriber, own, kind, &names, confirm))
    })?;
    Ok(confirmed(ask, settled))
}

/// Changes what the connection has subscribed to: `run` is given that, and the names of the request.
fn change(
    ask: &mut Ask<'_>,
    run: impl FnOnce(
        &dyn Host,
        crate::pubsub::Subscriber,
        &mut ClientSubscriptions,
        &[&[u8]],
        &mut Reply,
    ) -> Result<Settled, Refused>,
) -> Result<Settled, Refusal> {
    let subscriber = ask.session.subscriber();
    let mut own = ask.session.take_subscriptions();
    let settled = run(ask.host, subscriber, &mut own, &ask.args[1..], ask.reply);
    ask.session.set_subscriptions(own);
    let settled = settled?;
    if settled.announces {
        ask.host.announce();
    }
    Ok(settled)
}

/// A confirmation is a message of its own: it is written even if the client wants no replies.
fn confirmed(ask: &mut Ask<'_>, settled: Settled) -> Effect {
    ask.session.silent = false;
    if settled.waits { Effect::ReplyOnceKnown { command: ask.spec.id } } else { Effect::None }
}

/// Writes a confirmation.
fn write(reply: &mut Reply, word: &[u8], name: Option<&[u8]>, count: usize) {
    reply.push(3);
    reply.bulk(word);
    reply.bulk_or_null(name);
    reply.int(count as i64);
}

fn names(ask: &mut Ask<'_>, kind: SubscriptionKind) -> Outcome {
    let pattern = match ask.args[2..] {
        [] => None,
        [pattern] => Some(pattern),
        _ => return Err(wrong_arguments(ask, "PUBSUB")),
    };
    let mut names = ask.host.broker().names(kind);
    names.retain(|name| pattern.is_none_or(|pattern| glob_matches(pattern, name, false)));
    ask.reply.array(names.len());
    names.iter().for_each(|name| ask.reply.bulk(name));
    Ok(Effect::None)
}

fn subscribers(ask: &mut Ask<'_>, kind: SubscriptionKind) -> Outcome {
    let names = &ask.args[2..];
    ask.reply.array(2 * names.len());
    for name in names {
        ask.reply.bulk(name);
        ask.reply.int(ask.host.broker().subscribers(kind, name) as i64);
    }
    Ok(Effect::None)
}

fn numpat(ask: &mut Ask<'_>) -> Outcome {
    ask.reply.int(ask.host.broker().count_of(Pattern) as i64);
    Ok(Effect::None)
}
