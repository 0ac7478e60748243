//! Events that the director records for operators: nodes that fall silent, are lost and return; leaders that change.

use super::action::DirectorAction;
use super::inputs::Inputs;
use cluster::Change;
use std::collections::BTreeMap;
use vocab::limits::EVENT_BYTES_MAX;
use vocab::{NodeId, ShardId};

/// The time between two events about leaders, in µs: changes within it are one event.
const LEADERS_US: u64 = 1_000_000;

/// Whether a node answered when the director last looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Answers,
    Silent,
    Lost,
}

/// What the last events were about.
#[derive(Debug, Default)]
pub(super) struct LastEvents {
    nodes: BTreeMap<NodeId, Health>,
    leaders: BTreeMap<ShardId, (NodeId, u64)>,
    elected: Vec<(ShardId, NodeId)>,
    at_us: u64,
}

impl LastEvents {
    /// Records what has changed since the last look. Leaders that this director meets for the first time are no news.
    pub(super) fn tell(&mut self, inputs: &Inputs<'_>, actions: &mut Vec<DirectorAction>) {
        let &Inputs { map, settings, seen, now } = inputs;
        let mut event = |kind: &str, text: String| {
            let text = shortened(text);
            actions.push(DirectorAction::Propose(Change::Event { at_ms: now.wall_ms, kind: kind.to_owned(), text }));
        };
        self.nodes.retain(|node, _| map.nodes.contains_key(node));
        for &node in map.nodes.keys() {
            let silent_us = seen.silent_us(node, now);
            let health = match silent_us {
                _ if seen.answers(node, now) => Health::Answers,
                silent_us if silent_us >= settings.failure_timeout_ms * 1000 => Health::Lost,
                _ => Health::Silent,
            };
            let before = self.nodes.insert(node, health);
            let seconds = silent_us / 1_000_000;
            match (before, health) {
                (Some(Health::Silent | Health::Lost), Health::Answers) => {
                    event("node", format!("node {node} answers again"));
                }
                // Who has just begun to direct was not told by the one before: that one may be who is silent.
                (Some(Health::Answers) | None, Health::Silent) => {
                    event("failure", format!("node {node} does not answer"));
                }
                (Some(Health::Answers | Health::Silent) | None, Health::Lost) => {
                    event("failure", format!("node {node} was not heard of for {seconds} s and counts as lost"));
                }
                _ => {}
            }
        }
        self.note_leaders(inputs);
        if !self.elected.is_empty() && now.mono_us >= self.at_us + LEADERS_US {
            self.at_us = now.mono_us;
            let elected = std::mem::take(&mut self.elected);
            let list: Vec<String> = elected.iter().map(|(shard, node)| format!("{shard} by {node}")).collect();
            event("election", format!("shards led anew: {}", list.join(", ")));
        }
    }

    fn note_leaders(&mut self, inputs: &Inputs<'_>) {
        self.leaders.retain(|shard, _| inputs.map.shards.contains_key(shard));
        for (&shard, seen) in &inputs.seen.shards {
            let Some(leader) = &seen.leader else { continue };
            let now = (leader.node, leader.term);
            let before = self.leaders.insert(shard, now);
            if before.is_some_and(|before| before != now) {
                self.elected.push((shard, leader.node));
            }
        }
    }
}

/// The text, cut to the length of an event.
fn shortened(mut text: String) -> String {
    if text.len() > EVENT_BYTES_MAX {
        let end = (0..=EVENT_BYTES_MAX - 4).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
        text.push_str(" …");
    }
    text
}
