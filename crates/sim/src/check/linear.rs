//! Whether the history of one group could have happened one operation at a time.
//!
//! A search as Wing's and Gong's with Lowe's memory of where it has been, led by versions: a version is an index of the
//! one log that a group's keys share, so writes whose versions are known have only one order. They are known if they
//! were told, if someone saw the value, or from the log itself, which also tells what never happened. What changes
//! nothing is taken as soon as it fits. So a choice is left only where none of these knows what a write did.
//!
//! Values that expire do so by the clock in entries, which the log tells, and by the leader's when it is read: in between the
//! moments at which a read was asked and answered, both are right.
//! <https://www.cs.ox.ac.uk/people/gavin.lowe/LinearizabiltyTesting/paper.pdf>

use crate::history::{Action, Answer, KEYS, Operation, Outcome, Seen};
use std::collections::{BTreeMap, HashSet};
use vocab::Prng;

/// Steps after which a search gives up. A sound history takes about one an operation.
const STEPS_MAX: usize = 1_000_000;
/// The version of a write that no read saw.
const UNSEEN: u64 = 0;

/// The keys of a group.
type KeyStates = [Seen; KEYS];

/// One operation, with what was found out about it.
struct Step<'a> {
    operation: &'a Operation,
    /// The version of its writes, if it is known.
    version: Option<u64>,
    /// Whether it must have a place in the order.
    certain: bool,
    /// Whether it does nothing there if a condition does not hold.
    may_fail: bool,
    /// By which clock what has expired is told: not before, not after.
    clock_ms: (u64, u64),
}

/// What a group's log holds.
#[derive(Clone, Copy)]
pub struct Log<'a> {
    /// Values, and the indexes of their entries.
    pub values: &'a BTreeMap<u64, u64>,
    /// By index, the clock in the entry.
    pub clocks: &'a BTreeMap<u64, u64>,
}

/// When values expire, in ms.
type Expiries = BTreeMap<u64, u64>;

/// Checks the operations of one group, in the order in which they began. `log` has what the group's log holds, if that is
/// known. The error tells what contradicts what.
pub fn check(operations: &[&Operation], log: Option<Log<'_>>) -> Result<(), String> {
    let steps = resolve(operations, log)?;
    let expiries = expiries(&steps, log);
    Search::new(steps, expiries).run([None; KEYS])
}

/// The same where what was there before is not known, but that it was written up to entry `last`: the operations must fit to
/// one state to begin with, of those that they tell of.
pub fn check_after(operations: &[&Operation], log: Option<Log<'_>>, last: u64) -> Result<(), String> {
    let steps = resolve(operations, log)?;
    let expiries = expiries(&steps, log);
    let mut result = Ok(());
    for initial in beginnings(operations, last) {
        let steps = steps.iter().map(Step::again).collect();
        result = Search::new(steps, expiries.clone()).run(initial);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// What the keys may have held at first: of each, nothing, what a client saw or asked for that was written before, or
/// something else.
fn beginnings(operations: &[&Operation], last: u64) -> Vec<KeyStates> {
    let mut cells: [BTreeMap<u64, u64>; KEYS] = Default::default();
    for operation in operations {
        let actions = operation.actions.iter().enumerate();
        for (at, (key, action)) in actions {
            let seen = match &operation.answer {
                Answer::Done(outcomes) => match outcomes.get(at) {
                    Some(Outcome::Read(seen)) => *seen,
                    _ => None,
                },
                Answer::Unmet(Some((told, seen))) if *told == at => *seen,
                _ => None,
            };
            if let Some((value, version)) = seen.filter(|(_, version)| *version <= last) {
                cells[*key].insert(version, value);
            }
            if let Action::PutIf(_, version) | Action::Check(version) = action
                && (1..=last).contains(version)
            {
                // A value that no read sees has a number of its own.
                cells[*key].entry(*version).or_insert(u64::MAX);
            }
        }
    }
    let of = |cells: &BTreeMap<u64, u64>| {
        let mut of: Vec<Seen> = cells.iter().rev().map(|(version, value)| Some((*value, *version))).collect();
        // What was seen is likelier than what was only asked for.
        of.sort_by_key(|seen| seen.is_some_and(|(value, _)| value == u64::MAX));
        // Nothing, or a value that no condition names: it is only found that there was something.
        of.extend([None, Some((u64::MAX, 1))]);
        of
    };
    let mut states = vec![[None; KEYS]];
    for (key, cells) in cells.iter().enumerate() {
        let with = |state: &KeyStates| {
            let state = *state;
            of(cells).into_iter().map(move |seen| {
                let mut state = state;
                state[key] = seen;
                state
            })
        };
        states = states.iter().flat_map(with).collect();
    }
    states
}

/// When each value expires that does, as far as the log tells.
fn expiries(steps: &[Step<'_>], log: Option<Log<'_>>) -> Expiries {
    let clock = |step: &Step<'_>| log.and_then(|log| log.clocks.get(&step.version?).copied());
    let of = |step: &Step<'_>| {
        let clock = clock(step);
        let actions = step.operation.actions.iter().filter_map(move |(_, action)| match action {
            Action::PutFor(value, ms) => Some((*value, clock? + ms)),
            _ => None,
        });
        actions.collect::<Vec<_>>()
    };
    steps.iter().flat_map(of).collect()
}

/// Every value that anyone was told, with its version.
fn seen(operation: &Operation) -> Vec<(u64, u64)> {
    match &operation.answer {
        Answer::Unmet(Some((_, seen))) => seen.iter().copied().collect(),
        Answer::Done(outcomes) => {
            let each = operation.actions.iter().zip(outcomes);
            each.filter_map(|((_, action), outcome)| match (action, outcome) {
                (_, Outcome::Read(seen)) => *seen,
                (action, Outcome::Written(version)) => Some((action.value()?, *version)),
                _ => None,
            })
            .collect()
        }
        _ => Vec::new(),
    }
}

fn values(operation: &Operation) -> impl Iterator<Item = u64> {
    operation.actions.iter().filter_map(|(_, action)| action.value())
}

/// Finds the versions of writes whose answer is not known by what others saw of them; drops what was refused.
fn resolve<'a>(operations: &[&'a Operation], log: Option<Log<'_>>) -> Result<Vec<Step<'a>>, String> {
    let mut versions: BTreeMap<u64, (u64, &Operation)> = BTreeMap::new();
    for operation in operations {
        for (value, version) in seen(operation) {
            let (first, by) = *versions.entry(value).or_insert((version, operation));
            if first != version {
                return Err(format!("value {value} was seen with two versions:\n  {by}\n  {operation}"));
            }
        }
    }
    let mut steps = Vec::new();
    for &operation in operations {
        let found = values(operation).find_map(|value| versions.get(&value));
        let logged = log.and_then(|log| log.values.get(&values(operation).next()?).copied());
        let version = operation.version().or(found.map(|(version, _)| *version)).or(logged);
        let certain = match (&operation.answer, found, logged) {
            (Answer::Refused | Answer::Unmet(_), Some((_, by)), _) => {
                return Err(format!(
                    "it was not done, as was answered, and what it wrote was seen:\n  {operation}\n  {by}"
                ));
            }
            (Answer::Refused, None, Some(index)) => {
                return Err(format!("it was refused, and entry {index} has it:\n  {operation}"));
            }
            (Answer::Refused, None, None) => continue,
            (Answer::Unknown, None, None) if !operation.writes() => continue,
            // The log has every value that was written; of what clears, it does not tell whose it was.
            (Answer::Unknown, None, None) if log.is_some() && !clears(operation) => continue,
            (Answer::Unknown, None, None) => false,
            _ => true,
        };
        // The log has it, but it may have found a condition unmet.
        let may_fail = operation.answer == Answer::Unknown && found.is_none() && logged.is_some();
        let clock = version.and_then(|version| log?.clocks.get(&version).copied());
        let clock_ms = clock.map_or(operation.between_ms, |clock| (clock, clock));
        steps.push(Step { operation, version, certain, may_fail, clock_ms });
    }
    Ok(steps)
}

fn clears(operation: &Operation) -> bool {
    operation.actions.iter().any(|(_, action)| *action == Action::Clear)
}

impl<'a> Step<'a> {
    /// The same, for another search.
    fn again(&self) -> Step<'a> {
        let Step { operation, version, certain, may_fail, clock_ms } = *self;
        Step { operation, version, certain, may_fail, clock_ms }
    }

    /// Whether it may come as soon as it changes nothing: what clears may be meant for what comes yet.
    fn may_be_idle(&self) -> bool {
        self.certain && self.version.is_none() && !clears(self.operation)
    }

    /// The state afterwards; none if it cannot come next.
    fn run(&self, before: &KeyStates, expiries: &Expiries) -> Option<KeyStates> {
        let expiry = |cell: &Seen| expiries.get(&cell.as_ref()?.0).copied();
        if before.iter().all(|cell| expiry(cell).is_none()) {
            return self.run_on(before);
        }
        let mut base = *before;
        let mut unsure = Vec::new();
        for (key, cell) in base.iter_mut().enumerate() {
            match expiry(cell) {
                Some(at_ms) if self.clock_ms.0 >= at_ms => *cell = None,
                Some(at_ms) if self.clock_ms.1 >= at_ms => unsure.push(key),
                _ => {}
            }
        }
        (0..1u32 << unsure.len()).find_map(|gone| {
            let mut state = base;
            for (bit, key) in unsure.iter().enumerate() {
                if gone & 1 << bit != 0 {
                    state[*key] = None;
                }
            }
            let mut after = self.run_on(&state)?;
            // What was not seen is not gone: clocks differ, and each tells for itself.
            for (key, cell) in after.iter_mut().enumerate() {
                if cell.is_none() && state[key].is_none() {
                    *cell = before[key];
                }
            }
            Some(after)
        })
    }

    /// The same, where nothing expires.
    fn run_on(&self, before: &KeyStates) -> Option<KeyStates> {
        if clears(self.operation) {
            return Some([None; KEYS]);
        }
        let version = self.version.unwrap_or(UNSEEN);
        match &self.operation.answer {
            Answer::Unmet(detail) => {
                let unmet =
                    self.operation.actions.iter().enumerate().find(|(_, (key, action))| !holds(before[*key], *action));
                let (at, (key, _)) = unmet?;
                let fits = detail.is_none_or(|(told, seen)| told == at && seen == before[*key]);
                fits.then_some(*before)
            }
            Answer::Done(outcomes) => {
                let mut state = *before;
                let each = self.operation.actions.iter().zip(outcomes);
                each.fold(true, |fits, ((key, action), outcome)| {
                    fits && apply(&mut state[*key], *action, Some(*outcome), version)
                })
                .then_some(state)
            }
            _ => {
                let mut state = *before;
                let actions = self.operation.actions.iter();
                let fits =
                    actions.fold(true, |fits, (key, action)| fits && apply(&mut state[*key], *action, None, version));
                if self.may_fail && !fits { Some(*before) } else { fits.then_some(state) }
            }
        }
    }
}

/// Whether the condition of `action`, if it has one, holds.
fn holds(cell: Seen, action: Action) -> bool {
    match action {
        Action::PutIf(_, version) | Action::Check(version) => {
            cell.map_or(0, |(_, has)| has) == version && (version != UNSEEN || cell.is_none())
        }
        _ => true,
    }
}

/// Does `action`; false if it cannot have been answered `outcome`, where that is known.
fn apply(cell: &mut Seen, action: Action, outcome: Option<Outcome>, version: u64) -> bool {
    let before = *cell;
    if !holds(before, action) {
        return false;
    }
    match action {
        Action::Put(value) | Action::PutFor(value, _) | Action::PutIf(value, _) => *cell = Some((value, version)),
        Action::Delete | Action::Clear => *cell = None,
        Action::Get | Action::Check(_) => {}
    }
    match outcome {
        None | Some(Outcome::Held | Outcome::Cleared) => true,
        Some(Outcome::Read(seen)) => seen == before,
        // One that was not acknowledged may be in the same entry.
        Some(Outcome::Written(told)) => told == version && before.is_none_or(|(_, old)| told >= old),
        Some(Outcome::Deleted(was)) => was == before.is_some(),
    }
}

struct Search<'a> {
    steps: Vec<Step<'a>>,
    expiries: Expiries,
    done: Vec<bool>,
    /// All before it are done.
    first: usize,
    /// Certain ones that are not done.
    left: usize,
    /// A set of steps is told from others by the sum of their marks.
    marks: Vec<u128>,
    set: u128,
    /// Steps by version.
    order: Vec<usize>,
}

/// A place where the search stood: what it took without a choice, and the choices that are left.
struct Frame {
    taken: Vec<usize>,
    choices: std::vec::IntoIter<(usize, KeyStates)>,
}

impl<'a> Search<'a> {
    fn new(steps: Vec<Step<'a>>, expiries: Expiries) -> Self {
        let mut prng = Prng::new(1);
        let marks = steps.iter().map(|_| u128::from(prng.next_u64()) << 64 | u128::from(prng.next_u64())).collect();
        let left = steps.iter().filter(|step| step.certain).count();
        let mut order: Vec<usize> = (0..steps.len()).filter(|&i| steps[i].version.is_some()).collect();
        order.sort_by_key(|&i| (steps[i].version, i));
        Self { done: vec![false; steps.len()], steps, expiries, first: 0, left, marks, set: 0, order }
    }

    fn run(mut self, initial: KeyStates) -> Result<(), String> {
        let mut state = initial;
        let mut been: HashSet<(u128, KeyStates)> = HashSet::new();
        let mut frames: Vec<Frame> = Vec::new();
        let mut chosen = None;
        let mut longest = (usize::MAX, String::new());
        for _ in 0..STEPS_MAX {
            let taken = self.take(chosen, &state);
            if self.left == 0 {
                return Ok(());
            }
            if self.left < longest.0 {
                longest = (self.left, self.describe(&state));
            }
            let choices = if been.insert((self.set, state)) { self.choices(&state) } else { Vec::new() };
            frames.push(Frame { taken, choices: choices.into_iter() });
            loop {
                let Some(frame) = frames.last_mut() else { return Err(longest.1) };
                if let Some((step, after)) = frame.choices.next() {
                    (chosen, state) = (Some(step), after);
                    break;
                }
                let taken = frames.pop().map(|frame| frame.taken).unwrap_or_default();
                taken.into_iter().for_each(|step| self.mark(step, false));
            }
        }
        Err(format!("not decided in {STEPS_MAX} steps; the longest attempt ended at\n{}", longest.1))
    }

    /// Takes `chosen`, and then what may come next and changes nothing, as long as there is any.
    fn take(&mut self, chosen: Option<usize>, state: &KeyStates) -> Vec<usize> {
        let mut taken: Vec<usize> = chosen.into_iter().collect();
        chosen.into_iter().for_each(|step| self.mark(step, true));
        loop {
            let able = self.able();
            let idle = able.into_iter().filter(|&i| self.steps[i].may_be_idle());
            let fitting: Vec<usize> =
                idle.filter(|&i| self.steps[i].run(state, &self.expiries).as_ref() == Some(state)).collect();
            if fitting.is_empty() {
                return taken;
            }
            fitting.iter().for_each(|&step| self.mark(step, true));
            taken.extend(fitting);
        }
    }

    /// Those that no other one that is not done had ended before.
    fn able(&self) -> Vec<usize> {
        let mut horizon = u64::MAX;
        let mut able = Vec::new();
        for i in self.first..self.steps.len() {
            let operation = self.steps[i].operation;
            if operation.begun > horizon {
                break;
            }
            if !self.done[i] {
                horizon = horizon.min(operation.ended);
                able.push(i);
            }
        }
        able.retain(|&i| self.steps[i].operation.begun <= horizon);
        able
    }

    /// What may change the state next, the likeliest first.
    fn choices(&self, state: &KeyStates) -> Vec<(usize, KeyStates)> {
        let least = self.order.iter().find(|&&i| !self.done[i]).and_then(|&i| self.steps[i].version);
        let mut able = self.able();
        able.retain(|&i| self.steps[i].version.is_none_or(|version| Some(version) == least));
        able.sort_by_key(|&i| (!self.steps[i].certain, self.steps[i].operation.ended));
        let after = able.into_iter().filter_map(|i| Some((i, self.steps[i].run(state, &self.expiries)?)));
        after.filter(|(i, after)| after != state || self.steps[*i].certain).collect()
    }

    fn mark(&mut self, step: usize, done: bool) {
        self.done[step] = done;
        self.set ^= self.marks[step];
        if self.steps[step].certain {
            self.left = if done { self.left - 1 } else { self.left + 1 };
        }
        self.first = if done { self.first } else { self.first.min(step) };
        while self.first < self.done.len() && self.done[self.first] {
            self.first += 1;
        }
    }

    fn describe(&self, state: &KeyStates) -> String {
        let open = (0..self.steps.len()).filter(|&i| !self.done[i]);
        let (certain, rest): (Vec<usize>, Vec<usize>) = open.partition(|&i| self.steps[i].certain);
        let lines = certain.iter().take(8).chain(rest.iter().take(4)).map(|&i| {
            let version = self.steps[i].version.map_or(String::new(), |version| format!(" (version {version})"));
            format!("  {}{version}", self.steps[i].operation)
        });
        format!("the keys are {state:?}\nto come:\n{}", lines.collect::<Vec<_>>().join("\n"))
    }
}

#[cfg(test)]
#[path = "linear_tests.rs"]
mod tests;
