//! Messages: publish and subscribe.

use crate::table::behaviour::{ABOUT_NODE, AFTER_WRITES, ALONE, FOR_SUBSCRIBERS, MATCHES_PATTERNS};
use crate::table::key_flag::NOT_KEY;
use crate::table::spec::flag::{FAST, LOADING, MAY_REPLICATE, NOSCRIPT, PUBSUB, STALE};
use crate::table::spec::{ChannelArgs, CommandSpec, Group, acl, command, key, keys_to_end};

const fn pubsub(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::PubSub, acl::PUBSUB, name, arity, since, summary)
}

/// A command that changes what its client has subscribed to.
const fn subscribing(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    pubsub(name, arity, since, summary).flags(PUBSUB | NOSCRIPT | LOADING | STALE).does_also(ALONE | FOR_SUBSCRIBERS)
}

const ASKING: u32 = PUBSUB | LOADING | STALE;
const PUBLISHING: u32 = PUBSUB | LOADING | STALE | FAST | MAY_REPLICATE;
const COST_NAMES: &str = "O(N), N being the number of names";
const COST_ACTIVE: &str = "O(N), N being the number of channels with subscribers";

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    subscribing("PSUBSCRIBE", -2, "2.0.0", "Listens to the channels whose names match patterns, at any node.")
        .names_channels(ChannelArgs::Patterns)
        .cost(COST_NAMES)
        .args("pattern:pattern [pattern:pattern ...]"),
    pubsub(
        "PUBLISH",
        3,
        "2.0.0",
        "Sends a message to the subscribers of a channel at every node, and returns their number.",
    )
    .flags(PUBLISHING)
    .does_also(AFTER_WRITES)
    .names_channels(ChannelArgs::First)
    .cost("O(N+M), N being the number of subscribers and M that of patterns")
    .args("channel message"),
    command(Group::PubSub, 0, "PUBSUB", -2, "2.8.0", "Groups the commands about subscriptions.")
        .cost("Depends on the subcommand."),
    pubsub("PUBSUB|CHANNELS", -2, "2.8.0", "Returns the channels that have subscribers at this node.")
        .does_also(ABOUT_NODE | MATCHES_PATTERNS)
        .flags(ASKING)
        .cost(COST_ACTIVE)
        .args("[pattern:pattern]"),
    command(Group::PubSub, 0, "PUBSUB|HELP", 2, "6.2.0", "Lists the subcommands.").flags(LOADING | STALE),
    pubsub("PUBSUB|NUMPAT", 2, "2.8.0", "Returns how many patterns have subscribers at this node.").flags(ASKING),
    pubsub(
        "PUBSUB|NUMSUB",
        -2,
        "2.8.0",
        "Returns how many subscribers channels have at this node, without those of patterns.",
    )
    .flags(ASKING)
    .cost(COST_NAMES)
    .args("[channel [channel ...]]"),
    pubsub("PUBSUB|SHARDCHANNELS", -2, "7.0.0", "Returns the channels of slots that have subscribers at this node.")
        .does_also(ABOUT_NODE | MATCHES_PATTERNS)
        .flags(ASKING)
        .cost(COST_ACTIVE)
        .args("[pattern:pattern]"),
    pubsub("PUBSUB|SHARDNUMSUB", -2, "7.0.0", "Returns how many subscribers channels of slots have at this node.")
        .flags(ASKING)
        .cost(COST_NAMES)
        .args("[shardchannel [shardchannel ...]]"),
    subscribing(
        "PUNSUBSCRIBE",
        -1,
        "2.0.0",
        "Listens no more to channels that match patterns; without one, to no patterns.",
    )
    .cost(COST_NAMES)
    .args("[pattern:pattern [pattern:pattern ...]]"),
    pubsub("SPUBLISH", 3, "7.0.0", "Sends a message to the subscribers of a slot's channel, and returns their number.")
        .flags(PUBLISHING)
        .does_also(AFTER_WRITES)
        .names_channels(ChannelArgs::First)
        .touches(&[key(1, NOT_KEY)])
        .cost("O(N), N being the number of subscribers")
        .args("shardchannel message"),
    subscribing("SSUBSCRIBE", -2, "7.0.0", "Listens to channels of one slot, at the node that leads it.")
        .names_channels(ChannelArgs::All)
        .touches(&[keys_to_end(1, 1, NOT_KEY)])
        .cost(COST_NAMES)
        .args("shardchannel [shardchannel ...]"),
    subscribing("SUBSCRIBE", -2, "2.0.0", "Listens to channels: to what is published to them at any node.")
        .names_channels(ChannelArgs::All)
        .cost(COST_NAMES)
        .args("channel [channel ...]"),
    subscribing("SUNSUBSCRIBE", -1, "7.0.0", "Listens no more to channels of slots; without one, to none of them.")
        .touches(&[keys_to_end(1, 1, NOT_KEY)])
        .cost(COST_NAMES)
        .args("[shardchannel [shardchannel ...]]"),
    subscribing("UNSUBSCRIBE", -1, "2.0.0", "Listens no more to channels; without one, to none.")
        .cost(COST_NAMES)
        .args("[channel [channel ...]]"),
];
