//! Whether a history of overlapping operations on one object could have happened one at a time.
//!
//! The search is Wing's and Gong's with Lowe's memory of where it has been: at each step one of the operations that no
//! other had finished before is taken to be next, if what it answered fits the state.
//! <https://www.cs.ox.ac.uk/people/gavin.lowe/LinearizabiltyTesting/paper.pdf>

use super::Random;
use std::collections::HashSet;

/// Keys of one object; they share a slot, so that transactions may have both.
pub const KEYS: usize = 2;
/// Steps after which a search gives up. Values are unique: a sound history needs about one step an operation.
const STEPS_MAX: usize = 3_000_000;

/// What is done to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Get,
    GetVersion,
    Set(i64),
    Increment,
    Delete,
    /// If the version is this one; 0: if there is no value.
    PutIf(i64, u64),
    /// FLUSHALL, as one key sees it.
    Clear,
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Value(Option<i64>),
    Versioned(Option<(i64, u64)>),
    Number(i64),
    /// The new version, if the condition held.
    Put(Option<u64>),
}

/// One request: all of its actions happen at one moment.
#[derive(Clone, Debug)]
pub struct Operation {
    pub connection: usize,
    pub actions: Vec<(usize, Action)>,
    /// None: the connection broke before the answer; it may have happened or not.
    pub outcomes: Option<Vec<Outcome>>,
    pub begun: u64,
    pub ended: u64,
}

/// One key. Versions are known only where they were told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cell {
    pub value: Option<i64>,
    pub version: Option<u64>,
    /// The highest version told so far: later ones are higher.
    pub floor: u64,
}

pub type State = [Cell; KEYS];

impl Action {
    pub fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::GetVersion)
    }

    /// The cell afterwards; none if the outcome cannot be.
    fn run(self, cell: Cell, outcome: Outcome) -> Option<Cell> {
        let written = |value| Cell { value: Some(value), version: None, ..cell };
        match (self, outcome) {
            (Self::Get, Outcome::Value(value)) => (cell.value == value).then_some(cell),
            (Self::GetVersion, Outcome::Versioned(None)) => cell.value.is_none().then_some(cell),
            (Self::GetVersion, Outcome::Versioned(Some((value, version)))) => {
                (cell.value == Some(value) && cell.may_have(version)).then_some(cell.with(version))
            }
            (Self::Set(value), Outcome::Done) => Some(written(value)),
            (Self::Clear, Outcome::Done) => Some(cell.cleared()),
            (Self::Increment, Outcome::Number(n)) => (cell.value.unwrap_or(0) + 1 == n).then_some(written(n)),
            (Self::Delete, Outcome::Number(n)) => (i64::from(cell.value.is_some()) == n).then_some(cell.cleared()),
            (Self::PutIf(value, version), Outcome::Put(Some(new))) => {
                let held = if version == 0 { cell.value.is_none() } else { cell.may_have(version) };
                let floor = cell.floor.max(version);
                (held && new > floor).then_some(Cell { value: Some(value), version: Some(new), floor: new })
            }
            (Self::PutIf(_, version), Outcome::Put(None)) => {
                let held = if version == 0 { cell.value.is_none() } else { cell.version == Some(version) };
                (!held).then_some(cell)
            }
            (action, outcome) => panic!("{action:?} was answered {outcome:?}"),
        }
    }

    /// The cells that there may be afterwards if the answer is not known.
    fn run_blind(self, cell: Cell) -> Vec<Cell> {
        let written = |value| Cell { value: Some(value), version: None, ..cell };
        match self {
            Self::Get | Self::GetVersion => vec![cell],
            Self::Set(value) => vec![written(value)],
            Self::Increment => vec![written(cell.value.unwrap_or(0) + 1)],
            Self::Delete | Self::Clear => vec![cell.cleared()],
            Self::PutIf(value, version) => {
                let may = if version == 0 { cell.value.is_none() } else { cell.may_have(version) };
                if may { vec![written(value), cell] } else { vec![cell] }
            }
        }
    }
}

impl Cell {
    pub fn cleared(self) -> Self {
        Self { value: None, version: None, ..self }
    }

    fn may_have(&self, version: u64) -> bool {
        self.value.is_some() && self.version.map_or(version > self.floor, |known| known == version)
    }

    fn with(self, version: u64) -> Self {
        Self { version: Some(version), floor: version, ..self }
    }
}

impl Operation {
    fn run(&self, state: State) -> Vec<State> {
        let mut states = vec![state];
        for (i, &(key, action)) in self.actions.iter().enumerate() {
            let mut after = Vec::new();
            for state in states {
                let cells = match &self.outcomes {
                    Some(outcomes) => action.run(state[key], outcomes[i]).into_iter().collect(),
                    None => action.run_blind(state[key]),
                };
                after.extend(cells.into_iter().map(|cell| {
                    let mut state = state;
                    state[key] = cell;
                    state
                }));
            }
            states = after;
        }
        states
    }

    /// Whether one connection's requests must keep their order: they share a key, and one of them writes it.
    fn conflicts(&self, other: &Self) -> bool {
        self.actions.iter().any(|&(key, action)| {
            other.actions.iter().any(|&(theirs, their)| key == theirs && !(action.is_read() && their.is_read()))
        })
    }
}

struct Search<'a> {
    operations: &'a [Operation],
    /// Of each, those of its connection that must come first.
    before: Vec<Vec<usize>>,
    done: Vec<bool>,
    left: usize,
}

impl<'a> Search<'a> {
    /// `operations` are in the order in which they began; those of one connection in the order in which it sent them.
    fn new(operations: &'a [Operation]) -> Self {
        let before = operations.iter().enumerate().map(|(i, operation)| {
            let earlier = operations[..i].iter().enumerate().filter(|(_, one)| {
                one.connection == operation.connection && one.ended > operation.begun && one.conflicts(operation)
            });
            earlier.map(|(at, _)| at).collect()
        });
        let left = operations.iter().filter(|operation| operation.outcomes.is_some()).count();
        Self { operations, before: before.collect(), done: vec![false; operations.len()], left }
    }

    /// What may be next, and the state after it; what had to be answered first comes first.
    fn choices(&self, state: State) -> Vec<(usize, State)> {
        let mut horizon = u64::MAX;
        let mut able = Vec::new();
        for (i, operation) in self.operations.iter().enumerate() {
            if operation.begun > horizon {
                break;
            }
            if self.done[i] {
                continue;
            }
            if operation.outcomes.is_some() {
                horizon = horizon.min(operation.ended);
            }
            able.push(i);
        }
        able.retain(|&i| self.operations[i].begun <= horizon && self.before[i].iter().all(|&one| self.done[one]));
        able.sort_by_key(|&i| (self.operations[i].outcomes.is_none(), self.operations[i].ended));
        able.into_iter().flat_map(|i| self.operations[i].run(state).into_iter().map(move |after| (i, after))).collect()
    }

    fn mark(&mut self, i: usize, done: bool) {
        self.done[i] = done;
        if self.operations[i].outcomes.is_some() {
            self.left = if done { self.left - 1 } else { self.left + 1 };
        }
    }
}

/// Looks for an order in which `operations` could have happened one at a time, from `initial` on. The error shows the
/// operations where the longest attempt ended.
pub fn check(initial: State, operations: &[Operation]) -> Result<(), String> {
    let mut random = Random::new(1);
    let marks: Vec<u128> =
        operations.iter().map(|_| u128::from(random.next()) << 64 | u128::from(random.next())).collect();
    let mut search = Search::new(operations);
    // A set of operations is told from others by the sum of their marks.
    let mut set = 0;
    let mut seen = HashSet::new();
    let mut path: Vec<usize> = Vec::new();
    let mut stack = vec![search.choices(initial).into_iter()];
    let mut longest = (0, String::new());
    let mut steps = 0;
    while search.left > 0 {
        steps += 1;
        if steps > STEPS_MAX {
            return Err(format!("not decided in {STEPS_MAX} steps; the longest attempt ended at\n{}", longest.1));
        }
        let Some(choices) = stack.last_mut() else { return Err(longest.1) };
        let Some((i, state)) = choices.next() else {
            stack.pop();
            if let Some(i) = path.pop() {
                set ^= marks[i];
                search.mark(i, false);
            }
            continue;
        };
        if !seen.insert((set ^ marks[i], state)) {
            continue;
        }
        set ^= marks[i];
        search.mark(i, true);
        path.push(i);
        if path.len() > longest.0 {
            longest = (path.len(), describe(&search, state));
        }
        stack.push(search.choices(state).into_iter());
    }
    Ok(())
}

fn describe(search: &Search<'_>, state: State) -> String {
    let left = (0..search.operations.len()).filter(|&i| !search.done[i]).take(12);
    let lines: Vec<String> = left.map(|i| format!("  {:?}", search.operations[i])).collect();
    format!("state {state:?}\nto come:\n{}", lines.join("\n"))
}
