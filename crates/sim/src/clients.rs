//! Clients: each asks one thing at a time, follows leaders, and gives up after a while.

use crate::bug::Bug;
use crate::chance::Chance;
use crate::check::acknowledged;
use crate::clock::SPREAD_MS;
use crate::event::{Event, NodeEvent};
use crate::history::{Action, Answer, KEYS, Outcome as Told};
use crate::request::{Form, Request, key_name};
use crate::schedule::{MILLISECOND, SECOND};
use crate::world::{Outcome, World, place_of};
use vocab::{NodeId, slot_of};

/// How often a request with a number is sent at the most.
const ATTEMPTS_MAX: u32 = 8;

impl World {
    /// A client asks.
    pub(crate) fn think(&mut self, number: usize) {
        let client = &mut self.clients[number];
        if client.waits.is_some() {
            return;
        }
        let request = match (self.closing, client.last.last()) {
            (_, Some(read)) => read.clone(),
            (true, None) => return,
            (false, None) => self.workload.draw(),
        };
        let mut request = request;
        let numbered = matches!(request.form, Form::Put | Form::Exec);
        if numbered && self.prng.happens(300) {
            let client = &mut self.clients[number];
            client.numbers += 1;
            request.id = Some((number, client.numbers));
        }
        if request.form == Form::Clear && self.map.is_none() {
            let pause = self.prng.between(100, SECOND);
            self.schedule.after(pause, Event::Think(number));
            return;
        }
        let operation = self.begin(number, &request);
        self.reads.begun(operation, &self.history.operations()[operation]);
        (self.clients[number].attempts, self.clients[number].unsure) = (0, false);
        self.send(number, operation, request);
    }

    /// The history gets to know of a request: of one that clears a shard, for each group of keys that is there.
    fn begin(&mut self, number: usize, request: &Request) -> usize {
        let (now_ms, weak) = (self.wall_ms() - SPREAD_MS, request.weak.is_some());
        let operation = self.history.begin(number, request.group, request.actions.clone(), weak, now_ms);
        let mut groups = vec![request.group];
        if request.form == Form::Clear {
            // What the shard is split into meanwhile may be cleared or not.
            let shard_of = |group| self.splits.root(self.shard_of(slot_of(&key_name(group, 0))));
            let here = shard_of(request.group);
            groups = (0..self.plan.groups).filter(|group| shard_of(*group) == here).collect();
        }
        for group in groups {
            if group != request.group {
                let twin = self.history.begin(number, group, request.actions.clone(), weak, now_ms);
                self.clients[number].twins.push(twin);
            }
            for (key, action) in &request.actions {
                match action {
                    Action::Clear => (0..KEYS).for_each(|key| self.weak.may_go(group, key)),
                    Action::Delete | Action::PutFor(..) => self.weak.may_go(group, *key),
                    _ => {}
                }
            }
        }
        operation
    }

    /// A client sends a request, for the first time or again.
    fn send(&mut self, number: usize, operation: usize, request: Request) {
        self.clients[number].attempts += 1;
        let known = self.clients[number].leaders.get(&request.group).map(|node| place_of(*node));
        // Some know of another leader, of long ago.
        let known = known.filter(|_| !self.prng.happens(self.plan.astray_per_mille));
        let place = known.unwrap_or_else(|| self.prng.below(self.plan.nodes as u64) as usize);
        self.clients[number].waits = Some((operation, request.clone()));
        let delay = self.prng.between(50, 1000);
        let lost = !self.healing && self.plan.faults.network && self.prng.happens(10);
        if !lost {
            // It goes to whatever process runs there then.
            self.schedule.after(delay, Event::At(place, None, NodeEvent::Request(operation, request, None)));
        }
        let patience = *self.prng.pick(&[300 * MILLISECOND, 2 * SECOND, 7 * SECOND]);
        self.schedule.after(patience, Event::Impatient(number, operation));
    }

    /// A client is answered.
    pub(crate) fn reply(&mut self, number: usize, operation: usize, answer: Answer, leader: Option<NodeId>) -> Outcome {
        let client = &mut self.clients[number];
        let Some((_, request)) = client.waits.take_if(|(waits, _)| *waits == operation) else { return Ok(()) };
        match (&answer, leader) {
            (Answer::Refused, Some(leader)) => _ = client.leaders.insert(request.group, leader),
            (Answer::Refused | Answer::Unknown, None) => _ = client.leaders.remove(&request.group),
            _ => {}
        }
        if matches!(answer, Answer::Done(_)) {
            client.last.pop();
        }
        self.settle(number, operation, request, answer)
    }

    /// A client gives up.
    pub(crate) fn impatient(&mut self, number: usize, operation: usize) -> Outcome {
        let client = &mut self.clients[number];
        let Some((_, request)) = client.waits.take_if(|(waits, _)| *waits == operation) else { return Ok(()) };
        client.leaders.remove(&request.group);
        let answer = if self.bug == Some(Bug::RefuseLate) { Answer::Refused } else { Answer::Unknown };
        self.settle(number, operation, request, answer)
    }

    /// What is known now is what remains, unless the request has a number and can be sent again.
    fn settle(&mut self, number: usize, operation: usize, request: Request, answer: Answer) -> Outcome {
        let client = &mut self.clients[number];
        let known = matches!(answer, Answer::Done(_) | Answer::Unmet(_));
        client.unsure |= answer == Answer::Unknown;
        if !known && request.id.is_some() && client.attempts < ATTEMPTS_MAX {
            client.waits = Some((operation, request));
            let pause = self.prng.between(1, 300) * MILLISECOND;
            self.schedule.after(pause, Event::Again(number, operation));
            return Ok(());
        }
        let answer = if client.unsure && !known { Answer::Unknown } else { answer };
        self.end(number, operation, &request, answer)
    }

    /// A client sends its request again, unless it has been answered meanwhile.
    pub(crate) fn again(&mut self, number: usize, operation: usize) {
        let waits = self.clients[number].waits.take_if(|(waits, _)| *waits == operation);
        if let Some((_, mut request)) = waits {
            if self.bug == Some(Bug::Twice) {
                // Another number makes it another request.
                self.clients[number].numbers += 1;
                request.id = Some((number, self.clients[number].numbers));
            }
            self.send(number, operation, request);
        }
    }

    fn end(&mut self, number: usize, operation: usize, request: &Request, answer: Answer) -> Outcome {
        let done = matches!(answer, Answer::Done(_) | Answer::Unmet(_));
        let think_ms = if done { self.plan.think_ms } else { self.plan.think_ms.max(50) };
        let pause = self.prng.between(100, think_ms * MILLISECOND);
        self.schedule.after(pause, Event::Think(number));
        let now_ms = self.wall_ms() + SPREAD_MS;
        let cleared = self.cleared.remove(&operation);
        for each in std::mem::take(&mut self.clients[number].twins).into_iter().chain([operation]) {
            let slot = slot_of(&key_name(self.history.operations()[each].group, 0));
            let answer = match cleared {
                // It is unknown whether this was before or after.
                Some(shard) if self.splits.gave_away(shard, slot) => Answer::Unknown,
                Some(shard) if self.shard_of(slot) != shard => Answer::Refused,
                _ => answer.clone(),
            };
            self.history.end(each, answer, now_ms);
        }
        let ended = &self.history.operations()[operation];
        self.reads.ended(operation, ended)?;
        let shard = self.shard_of(slot_of(&request.keys()[0]));
        acknowledged::check(ended, self.groups.entry(shard).or_default().values())?;
        self.counts.answered += u64::from(done);
        if let Answer::Done(outcomes) = &ended.answer {
            for ((key, action), outcome) in ended.actions.iter().zip(outcomes) {
                if let Told::Written(version) | Told::Read(Some((_, version))) = outcome {
                    self.weak.told(ended.group, *key, *version, self.schedule.now());
                }
                match (action, outcome) {
                    (_, Told::Read(seen)) => self.workload.learn(ended.group, *key, seen.map(|(_, version)| version)),
                    (Action::Delete, _) => self.workload.learn(ended.group, *key, None),
                    (_, Told::Written(version)) => self.workload.learn(ended.group, *key, Some(*version)),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Nothing new is asked any more; every key is read once more.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        for (i, read) in self.workload.all_reads().into_iter().enumerate() {
            let number = i % self.clients.len();
            self.clients[number].last.push(read);
        }
        for number in 0..self.clients.len() {
            self.schedule.after(SECOND, Event::Think(number));
        }
    }

    /// Whether every client has got what it wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.clients.iter().all(|client| client.waits.is_none() && client.last.is_empty())
    }
}
