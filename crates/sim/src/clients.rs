//! Clients: each asks one thing at a time, follows leaders, and gives up after a while.

use crate::bug::Bug;
use crate::chance::Chance;
use crate::checkers::{AskedOperation, Instant, Outcome};
use crate::client::Client;
use crate::event::{Event, NodeEvent};
use crate::history::{Action, Answer, Outcome as Told};
use crate::places::place_of;
use crate::request::{Form, Request};
use crate::schedule::{MILLISECOND, Micros, SECOND};
use crate::store::Store;
use crate::workload::Workload;
use vocab::NodeId;

/// How often a request with a number is sent at the most.
const ATTEMPTS_MAX: u32 = 8;

/// All clients of a run, and what they ask.
pub struct Clients {
    clients: Vec<Client>,
    workload: Workload,
    /// They ask nothing new.
    closing: bool,
}

impl Clients {
    /// This number of clients.
    #[must_use]
    pub fn new(count: usize, workload: Workload) -> Self {
        Self { clients: (0..count).map(|_| Client::default()).collect(), workload, closing: false }
    }

    /// A client asks.
    pub fn think(&mut self, store: &mut Store, number: usize) {
        let client = &mut self.clients[number];
        if client.waits.is_some() {
            return;
        }
        let mut request = match (self.closing, client.last.last()) {
            (_, Some(read)) => read.clone(),
            (true, None) => return,
            (false, None) => self.workload.draw(),
        };
        let numbered = matches!(request.form, Form::Put | Form::Exec);
        if numbered && store.env.happens(300) {
            client.numbers += 1;
            request.id = Some((number, client.numbers));
        }
        if request.form == Form::Clear && store.checks.map().is_none() {
            let pause = store.env.between(100, SECOND);
            store.env.after(pause, Event::Think(number));
            return;
        }
        let asked = store.checks.asked(number, &request, store.env.wall_ms());
        let operation = asked.operation;
        (client.attempts, client.unsure, client.twins) = (0, false, asked.twins);
        if store.is_calm() {
            client.wants_since.get_or_insert(store.env.now());
        }
        self.send(store, number, operation, request);
    }

    /// A client sends a request, for the first time or again.
    fn send(&mut self, store: &mut Store, number: usize, operation: usize, request: Request) {
        let client = &mut self.clients[number];
        client.attempts += 1;
        let known = client.leaders.get(&request.group).map(|node| place_of(*node));
        // Some know of another leader, of long ago.
        let known = known.filter(|_| !store.env.happens(store.env.plan().astray_per_mille));
        let place = known.unwrap_or_else(|| store.env.below(store.env.plan().nodes as u64) as usize);
        client.waits = Some((operation, request.clone()));
        let delay = store.env.between(50, 1000);
        let lost = !store.env.is_healing() && store.env.plan().faults.network && store.env.happens(10);
        if !lost {
            // It goes to whatever process runs there then.
            store.env.after(delay, Event::At(place, None, NodeEvent::Request(operation, request, None)));
        }
        let patience = *store.env.pick(&[300 * MILLISECOND, 2 * SECOND, 7 * SECOND]);
        let patience = if store.is_calm() { wait_max(store) + SECOND } else { patience };
        store.env.after(patience, Event::Impatient(number, operation));
    }

    /// A client is answered.
    pub fn reply(
        &mut self,
        store: &mut Store,
        number: usize,
        operation: usize,
        answer: Answer,
        leader: Option<NodeId>,
    ) -> Outcome {
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
        self.settle(store, number, operation, request, answer)
    }

    /// A client gives up.
    pub fn impatient(&mut self, store: &mut Store, number: usize, operation: usize) -> Outcome {
        let client = &mut self.clients[number];
        let Some((_, request)) = client.waits.take_if(|(waits, _)| *waits == operation) else { return Ok(()) };
        client.leaders.remove(&request.group);
        let answer = if store.env.has(Bug::RefuseLate) { Answer::Refused } else { Answer::Unknown };
        self.settle(store, number, operation, request, answer)
    }

    /// What is known now is what remains, unless the request has a number and can be sent again.
    fn settle(
        &mut self,
        store: &mut Store,
        number: usize,
        operation: usize,
        request: Request,
        answer: Answer,
    ) -> Outcome {
        let client = &mut self.clients[number];
        let known = matches!(answer, Answer::Done(_) | Answer::Unmet(_));
        client.unsure |= answer == Answer::Unknown;
        if !known && request.id.is_some() && client.attempts < ATTEMPTS_MAX {
            client.waits = Some((operation, request));
            let pause = store.env.between(1, 300) * MILLISECOND;
            store.env.after(pause, Event::Again(number, operation));
            return Ok(());
        }
        let answer = if client.unsure && !known { Answer::Unknown } else { answer };
        self.end(store, number, operation, &request, &answer)
    }

    /// A client sends its request again, unless it has been answered meanwhile.
    pub fn again(&mut self, store: &mut Store, number: usize, operation: usize) {
        let client = &mut self.clients[number];
        if let Some((_, mut request)) = client.waits.take_if(|(waits, _)| *waits == operation) {
            if store.env.has(Bug::Twice) {
                // Another number makes it another request.
                client.numbers += 1;
                request.id = Some((number, client.numbers));
            }
            self.send(store, number, operation, request);
        }
    }

    fn end(
        &mut self,
        store: &mut Store,
        number: usize,
        operation: usize,
        request: &Request,
        answer: &Answer,
    ) -> Outcome {
        let done = matches!(answer, Answer::Done(_) | Answer::Unmet(_));
        self.check_progress(store, number, done)?;
        let think_ms = store.env.plan().think_ms;
        let think_ms = if done { think_ms } else { think_ms.max(50) };
        let pause = store.env.between(100, think_ms * MILLISECOND);
        store.env.after(pause, Event::Think(number));
        let asked = AskedOperation { operation, twins: std::mem::take(&mut self.clients[number].twins) };
        let at = Instant { us: store.env.now(), wall_ms: store.env.wall_ms() };
        store.checks.told(&asked, request, answer, at)?;
        store.env.counts.answered += u64::from(done);
        let ended = store.checks.operation(operation);
        if let Answer::Done(outcomes) = &ended.answer {
            for ((key, action), outcome) in ended.actions.iter().zip(outcomes) {
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

    /// Where nothing fails, each client is answered within a bound, whatever hostile clients send.
    fn check_progress(&mut self, store: &Store, number: usize, done: bool) -> Outcome {
        let now = store.env.now();
        let client = &mut self.clients[number];
        let wanting = client.wants_since.take_if(|_| done || !store.is_calm());
        match wanting.or(client.wants_since) {
            Some(since) if store.is_calm() && now > since + wait_max(store) => Err(format!(
                "nothing fails but that hostile clients send bulk, and client {number} was not answered for {} ms",
                (now - since) / MILLISECOND
            )),
            _ => Ok(()),
        }
    }

    /// Nothing new is asked any more; every key is read once more.
    pub fn close(&mut self, store: &mut Store) {
        self.closing = true;
        for (i, read) in self.workload.all_reads().into_iter().enumerate() {
            let number = i % self.clients.len();
            self.clients[number].last.push(read);
        }
        for number in 0..self.clients.len() {
            store.env.after(SECOND, Event::Think(number));
        }
    }

    /// Whether nothing new is asked any more.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether every client has got what it wanted.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.clients.iter().all(|client| client.waits.is_none() && client.last.is_empty())
    }
}

/// How long a client waits at the most where nothing fails.
fn wait_max(store: &Store) -> Micros {
    store.env.plan().bulk.map_or(0, |bulk| bulk.wait_ms_max() * MILLISECOND)
}
