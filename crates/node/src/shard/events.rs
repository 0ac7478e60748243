//! The events of the store: a bounded list in the metadata group's tree, newest last.
//!
//! Events follow from the changes that the group applies, so every replica has the same events under the same numbers.

use crate::format::keys;
use crate::shard_handle::ShardHandle;
use cluster::{Change, Map, PlanKind, UserChange};
use storage::{Slice, Span};
use vocab::limits::{EVENT_BYTES_MAX, EVENTS_MAX};
use vocab::{NodeId, Reader, ShardId, put_varint};

/// Something that happened to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreEvent {
    /// Its number: rising, from 1 on.
    pub number: u64,
    /// When, in ms since the epoch.
    pub at_ms: u64,
    /// One word: `store`, `node`, `plan`, `shard`, `setting`, `election`, …
    pub kind: String,
    /// What happened.
    pub text: String,
}

/// An event that is to be added.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ToldEvent {
    at_ms: u64,
    kind: String,
    text: String,
}

/// The numbers of the events that are stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventNumbers {
    first: u64,
    next: u64,
}

impl Default for EventNumbers {
    fn default() -> Self {
        Self { first: 1, next: 1 }
    }
}

impl EventNumbers {
    /// The numbers in the tree.
    pub(super) fn load(handle: &ShardHandle) -> storage::Result<Self> {
        let snapshot = handle.engine().snapshot();
        let end = |reverse: bool| -> storage::Result<Option<u64>> {
            let mut cursor = snapshot.cursor(span(0), reverse);
            Ok(cursor.advance()?.as_deref().and_then(keys::number_of_event))
        };
        Ok(match (end(false)?, end(true)?) {
            (Some(first), Some(last)) => Self { first, next: last + 1 },
            _ => Self::default(),
        })
    }

    /// The writes that add one event and remove the oldest beyond the bound.
    pub(super) fn push(&mut self, told: &ToldEvent) -> Vec<(Slice, Option<Slice>)> {
        let mut writes = vec![(Slice::from(keys::event(self.next)), Some(Slice::from(encode(told))))];
        self.next += 1;
        while self.next - self.first > EVENTS_MAX {
            writes.push((Slice::from(keys::event(self.first)), None));
            self.first += 1;
        }
        writes
    }
}

/// The events with numbers above `after`, at most `limit` of them, the oldest first.
pub fn events_after(handle: &ShardHandle, after: u64, limit: usize) -> storage::Result<Vec<StoreEvent>> {
    read(handle, after.saturating_add(1), limit, false)
}

/// The newest events, at most `limit` of them, the oldest first.
pub fn newest_events(handle: &ShardHandle, limit: usize) -> storage::Result<Vec<StoreEvent>> {
    let mut events = read(handle, 0, limit, true)?;
    events.reverse();
    Ok(events)
}

/// The newest stored event for which `is_wanted` holds.
pub fn newest_event(
    handle: &ShardHandle,
    is_wanted: impl Fn(&StoreEvent) -> bool,
) -> storage::Result<Option<StoreEvent>> {
    let snapshot = handle.engine().snapshot();
    let mut cursor = snapshot.cursor(span(0), true);
    while let Some(key) = cursor.advance()? {
        let event = decoded(handle, &key, &cursor.value()?)?;
        if is_wanted(&event) {
            return Ok(Some(event));
        }
    }
    Ok(None)
}

fn read(handle: &ShardHandle, from: u64, limit: usize, reverse: bool) -> storage::Result<Vec<StoreEvent>> {
    let snapshot = handle.engine().snapshot();
    let mut cursor = snapshot.cursor(span(from), reverse);
    let mut events = Vec::new();
    while events.len() < limit
        && let Some(key) = cursor.advance()?
    {
        events.push(decoded(handle, &key, &cursor.value()?)?);
    }
    Ok(events)
}

fn decoded(handle: &ShardHandle, key: &[u8], value: &[u8]) -> storage::Result<StoreEvent> {
    let number = keys::number_of_event(key).ok_or_else(|| handle.corrupt("an event without a number"))?;
    decode(number, value).ok_or_else(|| handle.corrupt("an event that cannot be read"))
}

fn span(from: u64) -> Span {
    Span { start: keys::event(from), end: keys::events_end() }
}

fn encode(told: &ToldEvent) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(told.text.len() + told.kind.len() + 16);
    put_varint(&mut bytes, told.at_ms);
    put_varint(&mut bytes, told.kind.len() as u64);
    bytes.extend_from_slice(told.kind.as_bytes());
    bytes.extend_from_slice(told.text.as_bytes());
    bytes
}

fn decode(number: u64, bytes: &[u8]) -> Option<StoreEvent> {
    let mut reader = Reader::new(bytes);
    let at_ms = reader.varint().ok()?;
    let (kind, text) = (reader.bytes().ok()?, reader.rest());
    let text_of = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    Some(StoreEvent { number, at_ms, kind: text_of(kind)?, text: text_of(text)? })
}

/// The events of a change that turned `before` into `after`; `changed` says whether it did.
pub(super) fn told(before: &Map, after: &Map, change: &Change, changed: bool, now_ms: u64) -> Option<ToldEvent> {
    let (at_ms, kind, text) = match change {
        Change::Event { at_ms, kind, text } => (*at_ms, kind.as_str(), text.clone()),
        _ if !changed => return None,
        Change::RegisterNode(node) => (now_ms, "node", format!("{} has joined the store", named(after, node.id))),
        Change::UpdateNode { now, .. } => {
            (now_ms, "node", format!("{} has other addresses, zone or capacity", named(after, now.id)))
        }
        Change::ForgetNode(node) => (now_ms, "node", format!("{} is forgotten", named(before, *node))),
        Change::Setting { name, was, now } => {
            let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "the default".to_owned());
            (now_ms, "setting", format!("{name}: {} -> {}", shown(was), shown(now)))
        }
        Change::SetUsers(users) => (now_ms, "user", users_text(users)),
        Change::BeginPlan { id, kind, at_ms, detail } => {
            (*at_ms, "plan", format!("plan {id} is begun: {}{}", described(after, kind), why(detail)))
        }
        Change::SetPlan { id, now, at_ms, detail, .. } => {
            if before.plans.get(id).is_some_and(|plan| plan.state == *now) {
                return None;
            }
            (*at_ms, "plan", format!("plan {id} is {}{}", now.word(), why(detail)))
        }
        Change::EndStep { shard, done, .. } => (now_ms, "shard", step_text(before, *shard, *done)?),
        Change::EndSplit { child } => {
            let parent = before.splits.get(child)?.parent;
            (now_ms, "shard", format!("shard {child} has been split off shard {parent}"))
        }
        Change::ChooseSurvivor { plan, shard, replica } => {
            let node = after.replica(*shard, *replica).map(|replica| named(after, replica.node));
            let on = node.map_or_else(|| format!("replica {replica}"), |node| format!("the replica on {node}"));
            (now_ms, "plan", format!("shard {shard} is to go on with {on} alone (plan {plan})"))
        }
        Change::Begin(_)
        | Change::AddReplica { .. }
        | Change::SetReplicas { .. }
        | Change::ForgetReplica { .. }
        | Change::BeginStep { .. }
        | Change::BeginSplit { .. } => return None,
    };
    Some(ToldEvent { at_ms, kind: kind.to_owned(), text: cut(text) })
}

/// The store has been made.
pub(super) fn made(map: &Map, now_ms: u64) -> ToldEvent {
    let (nodes, shards) = (map.nodes.len(), map.data_shards().count());
    let text = format!("the store {} is made of {nodes} nodes, {shards} shards", map.store);
    ToldEvent { at_ms: now_ms, kind: "store".to_owned(), text }
}

/// Events about users that were added, changed or removed, without their rules.
fn users_text(users: &[UserChange]) -> String {
    let text = |user: &UserChange| match (&user.was, &user.now) {
        (None, _) => format!("{} is made", user.name),
        (Some(_), None) => format!("{} is deleted", user.name),
        (Some(_), Some(_)) => format!("{} has other rules", user.name),
    };
    let changed = users.iter().filter(|user| user.was != user.now);
    changed.map(text).collect::<Vec<_>>().join(", ")
}

fn step_text(before: &Map, shard: ShardId, done: bool) -> Option<String> {
    let step = before.steps.get(&shard)?;
    let place = |id: vocab::ReplicaId| before.replica(shard, id).map(|replica| named(before, replica.node));
    let (add, remove) = (step.add.and_then(place), step.remove.and_then(place));
    let what = match (add, remove) {
        (Some(add), Some(remove)) => format!("a replica on {add} in place of one on {remove}"),
        (Some(add), None) => format!("a replica on {add}"),
        (None, Some(remove)) => format!("a replica on {remove} taken away"),
        // The node is not in the map any more: its removal was reported.
        (None, None) => "a replica taken away".to_owned(),
    };
    let outcome = if done { "" } else { "; given up" };
    Some(format!("shard {shard}: {what}{outcome} (plan {})", step.plan))
}

/// A plan's words, nodes with their addresses.
fn described(map: &Map, kind: &PlanKind) -> String {
    let mut words = cluster::plan_to_words(kind);
    for word in &mut words[1..] {
        let node = if word.len() == 16 { u64::from_str_radix(word, 16).ok().map(NodeId) } else { None };
        if let Some(node) = node.filter(|node| map.nodes.contains_key(node)) {
            *word = named(map, node);
        }
    }
    words.join(" ")
}

fn named(map: &Map, node: NodeId) -> String {
    match map.nodes.get(&node) {
        Some(info) => format!("node {node} ({}:{})", info.client_host, info.client_port),
        None => format!("node {node}"),
    }
}

fn why(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!("; {detail}") }
}

/// Cut to the allowed length.
fn cut(mut text: String) -> String {
    if text.len() > EVENT_BYTES_MAX {
        let end = (0..=EVENT_BYTES_MAX - '…'.len_utf8()).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        text.push('…');
    }
    text
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
