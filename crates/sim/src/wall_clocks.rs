//! Wall clocks that are set wrong, and right again. At any time most are right, whichever nodes a store has: where most are wrong,
//! nothing tells the true time.

use crate::chance::Chance;
use crate::event::Event;
use crate::places::{Place, node_id, place_of};
use crate::schedule::{Micros, SECOND};
use crate::store::Store;
use cluster::Map;
use std::collections::BTreeSet;
use vocab::NodeId;

const YEAR_MS: i64 = 365 * 24 * 3_600_000;
/// A jump of less changes nothing, whichever clocks jump: no node vouches for its own.
const SHORT: Micros = 4 * SECOND;

/// A wall clock is set, by seconds or by years, and right again after a while: often after half a second. For a longer while so few
/// are wrong that most are right: of all nodes, and of those on every map that a node goes by, for a node asks those on its own
/// map, which may be fewer.
pub fn jump(store: &mut Store, place: Place) {
    let mut wrong = wrong_ones(store);
    if !wrong.insert(node_id(place)) {
        return;
    }
    // Of which nodes a store is made is not known before.
    let fewest = match store.checks.map() {
        Some(_) => store.nodes.count(),
        None => store.env.plan().replication as usize,
    };
    let lasts = if store.env.happens(500) { SECOND / 2 } else { store.env.a_while() };
    if lasts > SHORT && (wrong.len() * 2 >= fewest || !are_few_everywhere(&wrong, store)) {
        return;
    }
    let by = store.env.below(20_000) as i64 - 10_000;
    let by = if store.env.happens(500) { by } else { by * (YEAR_MS / 1000) };
    store.nodes[place].clock.jump(by);
    store.env.note(format_args!("the wall clock of node {} jumps by {by} ms", place + 1));
    store.env.after(lasts, Event::SetClock(place));
}

/// A map has been made. If it has lost so many nodes that the clocks of most that are left are wrong, they are set right.
pub fn keep_most_right(store: &mut Store, map: &Map) {
    let wrong = wrong_ones(store);
    if !are_few(&wrong, map) {
        store.env.note(format_args!("the wall clocks of nodes {wrong:?} are set right"));
        wrong.into_iter().for_each(|node| store.nodes[place_of(node)].clock.set_right());
    }
}

/// The nodes whose wall clocks are wrong.
fn wrong_ones(store: &Store) -> BTreeSet<NodeId> {
    store.nodes.iter().filter(|host| !host.clock.is_right()).map(|host| host.info.id).collect()
}

/// Whether most nodes of every map that a node goes by are none of those.
fn are_few_everywhere(nodes: &BTreeSet<NodeId>, store: &Store) -> bool {
    let mut maps = store.nodes.iter().filter_map(|host| host.process.as_ref()?.map.as_ref());
    maps.all(|map| are_few(nodes, map))
}

/// Whether most of a map's nodes are none of those.
fn are_few(nodes: &BTreeSet<NodeId>, map: &Map) -> bool {
    nodes.is_empty() || nodes.iter().filter(|node| map.nodes.contains_key(node)).count() * 2 < map.nodes.len()
}
