//! Collections are as a plain model has them: the log tells in which order their writes were made, and every reply is what the
//! model replies there.
//!
//! - A write that was answered is in one committed entry, one that was refused in none.
//! - One that was answered before another was asked is before it in the log.
//! - The reply of a write is the model's, at its place in the log, by the clock of its entry.
//! - A client of a blocking command has several attempts in the log. At most one finds something, and its reply is the client's;
//!   none does if the client was refused, or was told that there was nothing in time.
//! - Of two clients that wait for one key alone, the one that was known to wait before the other asked is served first.
//! - A request whose script ran out of its budget has changed nothing.
//! - What a script publishes leaves once if it was answered, at most once if that is not known, and never if it was refused or
//!   ran out of its budget.
//! - The reply of a read is the model's at some place: not before what was answered before the read was asked, not before
//!   what an earlier read saw, and not after what was asked after the read was answered.

use crate::collections::{self, CollectionRequest, Keyspace, STATES_MAX, Told, WRONG_TYPE, Way, Words, tag_of};
use resp::Value;
use std::collections::BTreeMap;

/// What the client of a script is told that has run out of its budget.
const OVER_BUDGET: &str = "ERR the script ran more instructions";

/// What a committed entry did to collections.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Logged {
    /// The request of that tag.
    Request(u64),
    /// An attempt for a client of a blocking command: what was tried.
    Attempt(u64, Words),
    /// All keys were removed.
    Clear,
}

/// What the committed entries of a log did to collections, by index and by the place in the entry; with the clock of the
/// entry, in ms.
#[derive(Clone, Debug, Default)]
pub struct CollectionLog(BTreeMap<(u64, usize), (u64, Logged)>);

impl CollectionLog {
    /// An entry is committed.
    pub fn note(&mut self, index: u64, data: &[u8]) -> Result<(), &'static str> {
        let (clock_ms, items) = node::decode_entry(data)?;
        for (at, item) in items.enumerate() {
            let item = item?;
            let logged = match item {
                node::Item::Clear => Some(Logged::Clear),
                item => tag_of(&item).map(|tag| match attempt_of(&item) {
                    Some(words) => Logged::Attempt(tag, words),
                    None => Logged::Request(tag),
                }),
            };
            if let Some(logged) = logged {
                self.0.insert((index, at), (clock_ms, logged));
            }
        }
        Ok(())
    }

    /// What is before an entry.
    #[must_use]
    pub fn before(&self, index: u64) -> Self {
        Self(self.0.range(..(index, 0)).map(|(at, what)| (*at, what.clone())).collect())
    }
}

/// One request and what was told of it.
struct Operation {
    request: CollectionRequest,
    /// Moments: numbers that only rise.
    begun: u64,
    /// `u64::MAX` if no answer came.
    ended: u64,
    told: Told,
    /// Since when it waits in a blocking command and has its place among those that do.
    waits_since: Option<u64>,
    /// What the time may be at a node that deals with it, in ms: the earliest when it was asked, and the latest when the
    /// answer came.
    between_ms: (u64, u64),
    /// How often its script has told subscribers of it.
    published: usize,
}

/// What clients of collections asked and were told.
#[derive(Default)]
pub struct CollectionHistory {
    operations: BTreeMap<u64, Operation>,
    moment: u64,
}

impl CollectionHistory {
    /// A client asks.
    pub fn asked(&mut self, request: &CollectionRequest, now_ms: u64) {
        self.moment += 1;
        let (begun, ended, told) = (self.moment, u64::MAX, Told::Unknown);
        let between_ms = (now_ms, u64::MAX);
        let operation =
            Operation { request: request.clone(), begun, ended, told, waits_since: None, between_ms, published: 0 };
        self.operations.insert(request.tag, operation);
    }

    /// A client of a blocking command has its place among those that wait, or has it no longer.
    pub fn waits(&mut self, tag: u64, has_place: bool) {
        self.moment += 1;
        if let Some(operation) = self.operations.get_mut(&tag) {
            operation.waits_since = has_place.then_some(self.moment);
        }
    }

    /// A script has told subscribers that it runs for the request of that tag.
    pub fn published(&mut self, tag: &[u8]) {
        let number = tag.get(1..).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        if let Some(operation) = number.and_then(|tag: u64| self.operations.get_mut(&tag)) {
            operation.published += 1;
        }
    }

    /// A client is answered, or gives up.
    pub fn told(&mut self, tag: u64, told: Told, now_ms: u64) {
        self.moment += 1;
        let Some(operation) = self.operations.get_mut(&tag) else { return };
        if told != Told::Unknown {
            (operation.ended, operation.between_ms.1) = (self.moment, now_ms);
        }
        operation.told = told;
    }

    /// Checks one group of keys against the log of its shard.
    pub fn check(&self, group: usize, log: &CollectionLog) -> Result<(), String> {
        let of_group = || self.operations.values().filter(|operation| operation.request.group == group);
        if of_group().next().is_none() {
            return Ok(());
        }
        let Some(replay) = Replay::run(&self.operations, group, log)? else { return Ok(()) };
        for operation in of_group().filter(|operation| operation.request.writes) {
            let place = replay.places.get(&operation.request.tag);
            match (&operation.told, place) {
                (Told::Done(reply), None) if !operation.found_nothing(reply) => {
                    return Err(format!("it was answered, and is in no committed entry: {operation}"));
                }
                (Told::Refused, Some(_)) => return Err(format!("it was refused, and is in the log: {operation}")),
                _ => {}
            }
            operation.check_messages()?;
        }
        replay.check_order(&self.operations)?;
        replay.check_service(&self.operations)?;
        replay.check_reads(of_group())
    }
}

/// The model over the log of a group.
struct Replay {
    /// By tag: which of the writes in `states` it is.
    places: BTreeMap<u64, usize>,
    /// Before the first write, and after each: the states that may be.
    states: Vec<Vec<Keyspace>>,
}

impl Replay {
    /// Runs what the log holds of a group; none if there are too many states that may be to tell anything.
    fn run(operations: &BTreeMap<u64, Operation>, group: usize, log: &CollectionLog) -> Result<Option<Self>, String> {
        let mut replay = Self { places: BTreeMap::new(), states: vec![vec![Keyspace::default()]] };
        for (&(index, _), (clock_ms, logged)) in &log.0 {
            let (before, clock_ms) = (replay.states.last().cloned().unwrap_or_default(), *clock_ms);
            let after = match logged {
                Logged::Clear => vec![Keyspace::default()],
                Logged::Request(tag) | Logged::Attempt(tag, _) => {
                    let Some(operation) = operations.get(tag).filter(|of| of.request.group == group) else { continue };
                    if let Logged::Attempt(_, words) = logged {
                        match finds(&before, words, clock_ms) {
                            Finds::Something => {}
                            Finds::Nothing => continue,
                            Finds::Either => return Ok(None),
                        }
                    }
                    let place = replay.states.len();
                    if let Some(first) = replay.places.insert(*tag, place) {
                        return Err(format!("it is write {first} in the log and write {place}: {operation}"));
                    }
                    let after = match logged {
                        Logged::Attempt(_, words) => operation.after_attempt(&before, words, clock_ms),
                        _ => operation.after(&before, clock_ms),
                    };
                    if after.is_empty() {
                        return Err(format!(
                            "its answer is not that of entry {index}, where the keys are {}: {operation}",
                            brief(&before)
                        ));
                    }
                    after
                }
            };
            if after.len() > STATES_MAX {
                return Ok(None);
            }
            replay.states.push(after);
        }
        Ok(Some(replay))
    }

    /// What was answered before another was asked comes before it.
    fn check_order(&self, operations: &BTreeMap<u64, Operation>) -> Result<(), String> {
        let mut in_order: Vec<(usize, &Operation)> =
            self.places.iter().map(|(tag, place)| (*place, &operations[tag])).collect();
        in_order.sort_by_key(|(place, _)| *place);
        let mut latest: Option<&Operation> = None;
        for (_, operation) in in_order {
            if let Some(latest) = latest.filter(|latest| operation.ended < latest.begun) {
                return Err(format!(
                    "it was answered before another was asked, and comes after it: {operation}, {latest}"
                ));
            }
            if latest.is_none_or(|latest| latest.begun < operation.begun) {
                latest = Some(operation);
            }
        }
        Ok(())
    }

    /// Who is known to wait for a key before another asks for it is served before it.
    fn check_service(&self, operations: &BTreeMap<u64, Operation>) -> Result<(), String> {
        let served = self.places.iter().map(|(tag, place)| (*place, &operations[tag]));
        let mut served: Vec<_> =
            served.filter_map(|(place, operation)| Some((place, operation, operation.awaits()?))).collect();
        served.sort_by_key(|(place, ..)| *place);
        for (at, (_, early, awaited)) in served.iter().enumerate() {
            let overtakes = |late: &Operation| late.waits_since.is_some_and(|since| since < early.begun);
            let mut later = served[at + 1..].iter().filter(|(_, late, of)| of == awaited && late.is_answered());
            if let Some((_, late, _)) = later.find(|(_, late, _)| overtakes(late)) {
                return Err(format!("it was served before one that waited when it asked: {early}, {late}"));
            }
        }
        Ok(())
    }

    /// Finds the first place at which each read fits.
    fn check_reads<'a>(&self, operations: impl Iterator<Item = &'a Operation>) -> Result<(), String> {
        let mut operations: Vec<&Operation> = operations.collect();
        operations.sort_by_key(|operation| operation.begun);
        // When an operation ended, and where it has its place.
        let mut ended: Vec<(u64, usize)> = Vec::new();
        let place_of = |operation: &Operation| self.places.get(&operation.request.tag).copied();
        for (at, operation) in operations.iter().enumerate() {
            let place = match (&operation.told, operation.request.writes) {
                (_, true) => place_of(operation),
                (Told::Done(reply), false) => {
                    let before = ended.iter().filter(|(ended, _)| *ended < operation.begun);
                    let first = before.map(|(_, place)| *place).max().unwrap_or(0);
                    let later = operations[at..].iter().filter(|later| later.begun > operation.ended);
                    let last =
                        later.filter_map(|later| place_of(later)).min().map_or(self.states.len() - 1, |at| at - 1);
                    let found = (first..=last).find(|place| operation.reads(reply, &self.states[*place]));
                    if found.is_none() {
                        let seen = self.states.get(first).map_or(String::new(), |states| brief(states));
                        return Err(format!(
                            "after {first} writes, and up to {last}, its answer fits nowhere; first the keys are {seen}: {operation}"
                        ));
                    }
                    found
                }
                _ => None,
            };
            ended.extend(place.map(|place| (operation.ended, place)));
        }
        Ok(())
    }
}

impl Operation {
    /// What was replied to each of its commands, as far as that is known; none if nothing was done.
    fn replies(&self) -> Option<Vec<Option<&Value>>> {
        let count = self.request.commands.len();
        match (&self.told, self.request.way) {
            (Told::Done(reply), Way::Plain) => Some(vec![Some(reply)]),
            (Told::Done(Value::Array(replies)), way) if replies.len() == count => {
                let mut replies: Vec<Option<&Value>> = replies.iter().map(Some).collect();
                if way == Way::ReversingFunction {
                    replies.reverse();
                }
                Some(replies)
            }
            // Nothing writes the key that a transaction watches, and no script answers less.
            (Told::Done(_), _) => None,
            _ => Some(vec![None; count]),
        }
    }

    /// The states that may follow those before it, by a clock; none if its answer contradicts them.
    fn after(&self, before: &[Keyspace], clock_ms: u64) -> Vec<Keyspace> {
        if self.request.way == Way::Runaway {
            let is_ended = |reply: &Value| reply.as_error().is_some_and(|text| text.starts_with(OVER_BUDGET));
            let fits = !matches!(&self.told, Told::Done(reply) if !is_ended(reply));
            return if fits { before.to_vec() } else { Vec::new() };
        }
        let Some(replies) = self.replies() else { return Vec::new() };
        let mut states = before.to_vec();
        for (words, told) in self.request.commands.iter().zip(replies) {
            states = states.iter().flat_map(|state| collections::after(state, words, clock_ms, told)).collect();
            states.sort();
            states.dedup();
            if states.len() > STATES_MAX {
                break;
            }
        }
        states
    }

    /// The states that may follow an attempt for its client that finds something; none if that was not answered.
    fn after_attempt(&self, before: &[Keyspace], words: &Words, clock_ms: u64) -> Vec<Keyspace> {
        let told = match &self.told {
            Told::Done(reply) => Some(reply),
            Told::Unknown | Told::Refused => None,
        };
        let mut states: Vec<Keyspace> =
            before.iter().flat_map(|state| collections::after(state, words, clock_ms, told)).collect();
        states.sort();
        states.dedup();
        states
    }

    /// What a script publishes leaves once, when its entry is applied, and not at all where it is taken back.
    fn check_messages(&self) -> Result<(), String> {
        let (least, most) = match (&self.told, self.request.way) {
            (Told::Done(_), Way::Script) => (1, 1),
            (Told::Unknown, Way::Script) => (0, 1),
            _ => (0, 0),
        };
        if (least..=most).contains(&self.published) {
            return Ok(());
        }
        Err(format!("its script has told subscribers {} times: {self}", self.published))
    }

    /// Whether its client waited, and was told that there was nothing for it.
    fn found_nothing(&self, reply: &Value) -> bool {
        self.request.is_blocking() && matches!(reply, Value::Null | Value::Error(_))
    }

    fn is_answered(&self) -> bool {
        matches!(self.told, Told::Done(_))
    }

    /// What its client waits for, if that is one key: its type's letter, and the key.
    fn awaits(&self) -> Option<(bool, &Vec<u8>)> {
        let words = self.request.commands.first().filter(|_| self.request.is_blocking())?;
        let has_one_key = words.len() == 3 || words[0] == b"BLMOVE";
        has_one_key.then(|| (words[0].starts_with(b"BZ"), &words[1]))
    }

    /// Whether it may have read one of these states and been answered `reply`.
    fn reads(&self, reply: &Value, states: &[Keyspace]) -> bool {
        let Some(words): Option<&Words> = self.request.commands.first() else { return false };
        let (low, high) = self.between_ms;
        states.iter().any(|state| {
            // Its node's clock is somewhere in between, and matters only where something expires.
            let moments = state.expiries().filter(|at| (low..=high).contains(at));
            moments.chain([low]).any(|clock_ms| !collections::after(state, words, clock_ms, Some(reply)).is_empty())
        })
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { request, begun, ended, told, .. } = self;
        let ended = if *ended == u64::MAX { "…".to_owned() } else { ended.to_string() };
        write!(f, "client {} of collections, group {}, tag {}, ", request.client, request.group, request.tag)?;
        write!(f, "{begun}..{ended} {} → {}", request.text(), shortened(format!("{told:?}")))
    }
}

/// What was tried for a client of a blocking command, if an item of an entry is such an attempt.
fn attempt_of(item: &node::Item<'_>) -> Option<Words> {
    match item {
        node::Item::Command(args) if args[0].starts_with(b"B") => Some(args.iter().map(|word| word.to_vec()).collect()),
        _ => None,
    }
}

/// What an attempt finds.
enum Finds {
    Something,
    /// Its client waits, or the command is refused: nothing changes.
    Nothing,
    /// In some of the states that may be it finds something.
    Either,
}

/// What an attempt finds in the states that may be.
fn finds(states: &[Keyspace], words: &Words, clock_ms: u64) -> Finds {
    let nothing = [Value::Null, Value::Error(WRONG_TYPE.to_owned())];
    let fits = |state: &Keyspace, reply: &Value| !collections::after(state, words, clock_ms, Some(reply)).is_empty();
    let count = states.iter().filter(|state| nothing.iter().any(|reply| fits(state, reply))).count();
    match count {
        0 => Finds::Something,
        count if count == states.len() => Finds::Nothing,
        _ => Finds::Either,
    }
}

fn brief(states: &[Keyspace]) -> String {
    let more = if states.len() > 1 { format!(" or {} others", states.len() - 1) } else { String::new() };
    states.first().map_or(String::new(), |state| shortened(state.to_string())) + &more
}

fn shortened(mut text: String) -> String {
    if text.len() > 600 {
        let end = (0..=600).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn words(text: &str) -> Words {
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    fn request(tag: u64, text: &str, writes: bool) -> CollectionRequest {
        CollectionRequest {
            client: 0,
            tag,
            group: 0,
            commands: text.split("; ").map(words).collect(),
            way: if text.contains("; ") { Way::Transaction } else { Way::Plain },
            writes,
        }
    }

    /// What a client was told: `?` nothing, `-` that it was refused, `:1` a number, `nil`, `1` bytes, `(1 2)` several.
    fn told(text: &str) -> Told {
        fn value(text: &str) -> Value {
            match text {
                "nil" => Value::Null,
                text if text.starts_with('(') => {
                    Value::Array(text[1..text.len() - 1].split_terminator(' ').map(value).collect())
                }
                text => text
                    .strip_prefix(':')
                    .and_then(|number| number.parse().ok())
                    .map_or_else(|| Value::Bulk(text.as_bytes().to_vec()), Value::Int),
            }
        }
        match text {
            "?" => Told::Unknown,
            "-" => Told::Refused,
            text => Told::Done(value(text)),
        }
    }

    /// Checks a history: `1 SADD a x` asks, `1 waits` has its place, `1 = :1` answers. `logged`: the tags in the log, in order;
    /// 0 removes all keys.
    fn check(happens: &str, logged: &[u64]) -> Result<(), String> {
        let mut history = CollectionHistory::default();
        for step in happens.split(", ") {
            let (tag, rest) = step.split_once(' ').unwrap();
            let tag = tag.parse().unwrap();
            match rest.strip_prefix("= ") {
                _ if rest == "waits" => history.waits(tag, true),
                Some(answer) => history.told(tag, told(answer), 10),
                None => history.asked(&request(tag, rest, !rest.starts_with("SMEMBERS")), 0),
            }
        }
        let mut log = CollectionLog::default();
        for (at, tag) in logged.iter().enumerate() {
            let request = history.operations.get(tag).map(|operation| &operation.request);
            let logged = match request {
                None => Logged::Clear,
                Some(request) if request.is_blocking() => Logged::Attempt(*tag, request.commands[0].clone()),
                Some(_) => Logged::Request(*tag),
            };
            log.0.insert((at as u64 + 1, 0), (5, logged));
        }
        history.check(0, &log)
    }

    /// A history, what the log has of it, and what is wrong with it; nothing if that is empty.
    const HISTORIES: &[(&str, &[u64], &str)] = &[
        ("1 SADD a 1, 1 = :1", &[1], ""),
        ("1 SADD a 1, 1 = :1", &[], "in no committed entry"),
        ("1 SADD a 1, 1 = :1", &[1, 1], "write 1 in the log and write 2"),
        ("1 SADD a 1, 1 = -", &[1], "it was refused"),
        ("1 SADD a 1, 1 = :0", &[1], "the keys are"),
        ("1 SADD a 1, 1 = :1, 9 SMEMBERS a, 9 = (1)", &[1], ""),
        ("1 SADD a 1, 1 = :1, 9 SMEMBERS a, 9 = ()", &[1], "fits nowhere"),
        // All keys may have been removed for another group of keys.
        ("1 SADD a 1, 1 = :1, 9 SMEMBERS a, 9 = ()", &[1, 0], ""),
        // A write under way may be seen or not; once it was seen it is there.
        ("1 SADD a 1, 1 = :1, 2 SADD a 2, 9 SMEMBERS a, 9 = (1 2), 2 = :1", &[1, 2], ""),
        ("1 SADD a 1, 1 = :1, 2 SADD a 2, 9 SMEMBERS a, 9 = (1), 2 = :1", &[1, 2], ""),
        ("1 SADD a 1, 1 = :1, 2 SADD a 2, 8 SMEMBERS a, 8 = (1 2), 9 SMEMBERS a, 9 = (1)", &[1, 2], "fits nowhere"),
        // A write that is asked later is not seen.
        ("1 SADD a 1, 1 = :1, 9 SMEMBERS a, 9 = (1 2), 2 SADD a 2, 2 = :1", &[1, 2], "fits nowhere"),
        ("1 SADD a 1, 1 = :1, 2 SADD b 1, 2 = :1", &[2, 1], "comes after it"),
        // One that was given up may be made late.
        ("2 SADD a 2, 2 = ?, 1 SADD a 1, 1 = :1, 8 SMEMBERS a, 8 = (1), 9 SMEMBERS a, 9 = (1 2)", &[1, 2], ""),
        ("1 SADD a 1; SPOP a, 1 = (:1 1)", &[1], ""),
        ("1 SADD a 1; SPOP a, 1 = nil", &[1], "the keys are"),
        // What chance decided and no client was told shows in what is left.
        ("1 SADD a 1 2 3, 1 = :3, 2 SPOP a, 2 = ?, 9 SMEMBERS a, 9 = (1 3)", &[1, 2], ""),
        ("1 SADD a 1 2 3, 1 = :3, 2 SPOP a, 2 = ?, 9 SMEMBERS a, 9 = (1)", &[1, 2], "fits nowhere"),
        // A client that waits has several attempts, of which one finds something.
        ("2 BLPOP a 9, 1 RPUSH a 1, 1 = :1, 2 = (a 1)", &[2, 1, 2], ""),
        ("2 BLPOP a 9, 1 RPUSH a 1 1, 1 = :2, 2 = (a 1)", &[2, 1, 2, 2], "write 2 in the log and write 3"),
        ("2 BLPOP a 9, 1 RPUSH a 1, 1 = :1, 2 = (a 3)", &[2, 1, 2], "its answer is not"),
        ("2 BLPOP a 9, 1 RPUSH a 1, 1 = :1, 2 = nil", &[2, 1], ""),
        ("2 BLPOP a 9, 1 RPUSH a 1, 1 = :1, 2 = nil", &[2, 1, 2], "its answer is not"),
        ("2 BLPOP a 9, 1 RPUSH a 1, 1 = :1, 2 = -", &[2, 1], ""),
        ("2 BLPOP a 9, 1 RPUSH a 1, 1 = :1, 2 = -", &[2, 1, 2], "it was refused"),
        ("2 BLPOP a 9, 1 RPUSH a 1, 1 = :1, 2 = (a 1)", &[2, 1], "in no committed entry"),
        ("2 BLPOP a 9, 2 waits, 3 BRPOP a 9, 1 RPUSH a 1 2, 1 = :2, 2 = (a 1), 3 = (a 2)", &[2, 1, 2, 3], ""),
        (
            "2 BLPOP a 9, 2 waits, 3 BLPOP a 9, 1 RPUSH a 1 2, 1 = :2, 2 = (a 2), 3 = (a 1)",
            &[2, 1, 3, 2],
            "served before",
        ),
        // Nothing is promised to one that is not known to wait.
        ("2 BLPOP a 9, 3 BLPOP a 9, 2 waits, 1 RPUSH a 1 2, 1 = :2, 2 = (a 2), 3 = (a 1)", &[2, 1, 3, 2], ""),
        // What expires in between may be seen or not.
        ("1 SADD a 1; PEXPIRE a 1, 1 = (:1 :1), 9 SMEMBERS a, 9 = ()", &[1], ""),
        ("1 SADD a 1; PEXPIRE a 1, 1 = (:1 :1), 9 SMEMBERS a, 9 = (1)", &[1], ""),
        ("1 SADD a 1; PEXPIRE a 99, 1 = (:1 :1), 9 SMEMBERS a, 9 = ()", &[1], "fits nowhere"),
    ];

    #[test]
    fn scripts_answer_change_and_publish_as_they_are_to() {
        let budget = format!("{OVER_BUDGET} than a script may");
        for (way, told, is_logged, published, wrong) in [
            (Way::Script, Told::Done(Value::Array(vec![Value::Int(1)])), true, 1, ""),
            (Way::Script, Told::Done(Value::Array(vec![Value::Int(0)])), true, 1, "the keys are"),
            (Way::Script, Told::Done(Value::Array(vec![Value::Int(1)])), true, 0, "0 times"),
            (Way::Script, Told::Unknown, true, 2, "2 times"),
            (Way::Script, Told::Refused, false, 1, "1 times"),
            (Way::Function, Told::Done(Value::Array(vec![Value::Int(1)])), true, 0, ""),
            (Way::Runaway, Told::Done(Value::Error(budget.clone())), true, 0, ""),
            (Way::Runaway, Told::Done(Value::Error(budget)), true, 1, "1 times"),
            (Way::Runaway, Told::Done(Value::Array(vec![Value::Int(1)])), true, 0, "the keys are"),
        ] {
            let mut history = CollectionHistory::default();
            history.asked(&CollectionRequest { way, ..request(1, "SADD a 1", true) }, 0);
            (0..published).for_each(|_| history.published(b"~1"));
            let shown = format!("{way:?} {told:?} {published}");
            history.told(1, told, 0);
            let mut log = CollectionLog::default();
            if is_logged {
                log.0.insert((1, 0), (5, Logged::Request(1)));
            }
            match history.check(0, &log) {
                Ok(()) => assert_eq!(wrong, "", "{shown}"),
                Err(what) => assert!(!wrong.is_empty() && what.contains(wrong), "{shown}: {what}"),
            }
        }
    }

    #[test]
    fn replies_are_held_against_the_model_at_their_place_in_the_log() {
        for (happens, logged, wrong) in HISTORIES {
            let found = check(happens, logged);
            match &found {
                Ok(()) => assert_eq!(*wrong, "", "{happens}"),
                Err(what) => assert!(!wrong.is_empty() && what.contains(wrong), "{happens}: {what}"),
            }
        }
    }

    #[test]
    fn a_part_that_is_split_off_begins_with_what_came_before() {
        let mut log = CollectionLog::default();
        for index in 1..=3 {
            log.0.insert((index, 0), (5, Logged::Request(index)));
        }
        assert_eq!(log.before(3).0.len(), 2);
        let mut entry = node::EntryBuilder::new();
        entry.command(&[b"SADD", b"{g0}c1", b"~4"]);
        log.note(4, &entry.seal(9)).unwrap();
        assert_eq!(log.0.last_key_value(), Some((&(4, 0), &(9, Logged::Request(4)))));
    }
}
