//! Hostile clients: each sends the largest requests that limits allow, one after the other, beside ordinary clients. What they
//! were told of their collections must agree with what they did.

use crate::bulk::{BulkAnswer, BulkKind, BulkRequest, BulkShape, BulkType, RUNAWAYS};
use crate::chance::Chance;
use crate::checkers::Outcome;
use crate::environment::Environment;
use crate::event::{Event, NodeEvent};
use crate::places::{Place, place_of};
use crate::schedule::{MILLISECOND, SECOND};
use crate::store::Store;
use vocab::{NodeId, Prng};

/// How long a hostile client waits for an answer.
const PATIENCE: u64 = 20 * SECOND;
/// Longest pause between two of its requests, in ms.
const THINK_MS: u64 = 50;

/// How many elements a collection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Elements(usize),
    /// A request that changes it may have been done, or may be done later.
    Unknown,
}

/// One hostile client.
struct HostileClient {
    group: usize,
    /// Requests so far.
    numbers: u64,
    /// What it waits for.
    waits: Option<BulkRequest>,
    /// Where it believes that its keys' shard is led.
    leader: Option<Place>,
    /// What it knows of its collections, one of each type.
    known: [Known; BulkType::ALL.len()],
}

/// All hostile clients of a run.
pub struct Hostile {
    /// Bytes of the largest request.
    bytes: usize,
    /// Nothing fails: each request is to be answered.
    is_calm: bool,
    prng: Prng,
    clients: Vec<HostileClient>,
}

impl Hostile {
    /// Of a shape, over so many groups of keys; none without a shape. `others_clear`: ordinary clients remove all keys at times.
    #[must_use]
    pub fn new(shape: Option<BulkShape>, groups: usize, others_clear: bool, mut prng: Prng) -> Self {
        let client = |prng: &mut Prng| HostileClient {
            group: prng.below(groups as u64) as usize,
            numbers: 0,
            waits: None,
            leader: None,
            known: [if others_clear { Known::Unknown } else { Known::Elements(0) }; BulkType::ALL.len()],
        };
        let count = shape.map_or(0, |shape| shape.clients);
        let clients = (0..count).map(|_| client(&mut prng)).collect();
        Self {
            bytes: shape.map_or(0, |shape| shape.bytes),
            is_calm: shape.is_some_and(|shape| shape.is_calm),
            prng,
            clients,
        }
    }

    /// They are to ask.
    pub fn begin(&self, env: &mut Environment) {
        (0..self.clients.len()).for_each(|number| env.after(2 * SECOND, Event::BulkThink(number)));
    }

    /// A client asks, unless nothing new is asked any more.
    pub fn think(&mut self, store: &mut Store, number: usize, is_closing: bool) {
        if is_closing || self.clients[number].waits.is_some() {
            return;
        }
        let kind = self.draw_kind();
        let client = &mut self.clients[number];
        client.numbers += 1;
        let request =
            BulkRequest { client: number, number: client.numbers, group: client.group, kind, bytes: self.bytes };
        client.waits = Some(request.clone());
        let nodes = store.nodes.count() as u64;
        let place = client.leader.unwrap_or_else(|| self.prng.below(nodes) as usize);
        let delay = self.prng.between(50, 1000);
        store.env.after(PATIENCE, Event::BulkImpatient(number, request.number));
        store.env.after(delay, Event::At(place, None, NodeEvent::Bulk(Box::new(request))));
    }

    fn draw_kind(&mut self) -> BulkKind {
        let prng = &mut self.prng;
        let of = *prng.pick(&BulkType::ALL);
        match prng.below(100) {
            0..22 => BulkKind::Sets(*prng.pick(&[2, 20, 200])),
            22..34 => BulkKind::Value,
            34..56 => BulkKind::Fill(of, *prng.pick(&[100, 300, 1000])),
            56..64 => BulkKind::Delete(of),
            64..72 => BulkKind::Rename(of),
            72..80 => BulkKind::Copy(of),
            80..88 => BulkKind::ReadAll(of, *prng.pick(&[1, 4])),
            88..93 => BulkKind::Watch(*prng.pick(&[10, 1000])),
            93..97 => BulkKind::Runaway(prng.below(RUNAWAYS.len() as u64) as usize),
            _ => BulkKind::LongKey(*prng.pick(&[32_001, 65_535, 65_536])),
        }
    }

    /// A client is answered.
    pub fn reply(
        &mut self,
        store: &mut Store,
        number: usize,
        request: u64,
        answer: &BulkAnswer,
        leader: Option<NodeId>,
    ) -> Outcome {
        let client = &mut self.clients[number];
        let Some(waits) = client.waits.take_if(|waits| waits.number == request) else { return Ok(()) };
        client.leader = match (answer, leader) {
            (BulkAnswer::Refused, leader) => leader.map(place_of),
            (BulkAnswer::Unknown, _) => None,
            _ => client.leader,
        };
        client.learn(&waits, answer)?;
        let pause = self.prng.between(1, THINK_MS) * MILLISECOND;
        store.env.after(pause, Event::BulkThink(number));
        Ok(())
    }

    /// A client has waited for long enough.
    pub fn impatient(&mut self, store: &mut Store, number: usize, request: u64) -> Outcome {
        if self.is_calm && self.clients[number].waits.as_ref().is_some_and(|waits| waits.number == request) {
            return Err(format!(
                "nothing failed, and hostile client {number} was not answered in {} s",
                PATIENCE / SECOND
            ));
        }
        self.reply(store, number, request, &BulkAnswer::Unknown, None)
    }

    /// Whether no client waits.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.clients.iter().all(|client| client.waits.is_none())
    }
}

impl HostileClient {
    /// What it knows of its collections after a request.
    fn learn(&mut self, request: &BulkRequest, answer: &BulkAnswer) -> Result<(), String> {
        let is_forbidden = request.kind.is_forbidden();
        match answer {
            BulkAnswer::Forbidden if !is_forbidden => {
                return Err(format!("{:?} is within the limits, and was refused", request.kind));
            }
            BulkAnswer::Done(_) if is_forbidden => {
                return Err(format!("{:?} is beyond a limit, and was done", request.kind));
            }
            _ => {}
        }
        let (BulkKind::Fill(of, _) | BulkKind::Delete(of) | BulkKind::ReadAll(of, _)) = request.kind else {
            return Ok(());
        };
        let known = &mut self.known[of.index()];
        let changes = !matches!(request.kind, BulkKind::ReadAll(..));
        *known = match (answer, *known, request.kind) {
            (BulkAnswer::Unknown, ..) if changes => Known::Unknown,
            // What is unknown may be done later still.
            (BulkAnswer::Done(_), Known::Elements(has), BulkKind::Fill(of, elements)) => {
                Known::Elements(if of.keeps_names() { has.max(elements) } else { elements })
            }
            (BulkAnswer::Done(_), Known::Elements(_), BulkKind::Delete(_)) => Known::Elements(0),
            (BulkAnswer::Done(Some(told)), Known::Elements(has), _) if has != *told => {
                return Err(format!("client {} has {has} elements in its {of:?}, and is told {told}", request.client));
            }
            (_, known, _) => known,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_told_of_a_collection_agrees_with_what_was_done() {
        let known = [Known::Elements(0); BulkType::ALL.len()];
        let of = |kind| BulkRequest { client: 0, number: 1, group: 0, kind, bytes: 100 };
        let done = BulkAnswer::Done(None);
        for (collection, has) in [(BulkType::Hash, 300), (BulkType::List, 100)] {
            let mut client = HostileClient { group: 0, numbers: 0, waits: None, leader: None, known };
            client.learn(&of(BulkKind::Fill(collection, 300)), &done).unwrap();
            client.learn(&of(BulkKind::Fill(collection, 100)), &done).unwrap();
            assert_eq!(client.known[collection.index()], Known::Elements(has));
            let all = of(BulkKind::ReadAll(collection, 1));
            assert!(client.learn(&all, &BulkAnswer::Done(Some(has))).is_ok());
            assert!(client.learn(&all, &BulkAnswer::Done(Some(has - 1))).is_err());
            assert!(client.learn(&of(BulkKind::ReadAll(BulkType::Stream, 1)), &BulkAnswer::Done(Some(0))).is_ok());
            let long = of(BulkKind::LongKey(40_000));
            assert!(client.learn(&long, &done).is_err() && client.learn(&long, &BulkAnswer::Forbidden).is_ok());
            assert!(client.learn(&all, &BulkAnswer::Forbidden).is_err());
            client.learn(&of(BulkKind::Delete(collection)), &BulkAnswer::Unknown).unwrap();
            assert!(client.learn(&all, &BulkAnswer::Done(Some(0))).is_ok());
        }
    }
}
