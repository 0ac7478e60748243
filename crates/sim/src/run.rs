//! One run: a faulty phase of so many steps, then healing, then the verdict over everything that was seen.

use crate::bug::Bug;
use crate::environment::Counts;
use crate::panics;
use crate::schedule::{Micros, SECOND};
use crate::trace::Trace;
use crate::world::World;
use std::io::Write;

/// How long clients go on after all faults have stopped.
const CALM: Micros = 3 * SECOND;
/// Within this time after all faults have stopped, or after a plan has ended since, everything is as if nothing had happened.
const HEALING_MAX: Micros = 90 * SECOND;
/// So much more for each node.
const HEALING_MAX_EACH: Micros = 3 * SECOND;
/// In all, so many times as long: plans that follow each other come to an end too.
const HEALING_TIMES_MAX: u64 = 10;
/// Nodes of a store that a seed draws, in the mean.
const USUAL_NODES: usize = 5;
/// How often that is looked at.
const LOOK: Micros = SECOND / 5;

/// What to run.
#[derive(Default)]
pub struct RunOptions {
    /// From which everything follows.
    pub seed: u64,
    /// Events before the faults stop.
    pub steps: u64,
    /// A bug to put in.
    pub bug: Option<Bug>,
    /// A large store of so many nodes under churn, rather than one that the seed draws. Messages grow with the square of the
    /// nodes, and the steps with them.
    pub nodes: Option<usize>,
    /// Where the trace goes, if anywhere.
    pub trace: Option<Box<dyn Write>>,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Events.
    pub steps: u64,
    /// How long it was in its own time.
    pub virtual_us: Micros,
    /// A hash of the trace.
    pub hash: u64,
    /// What happened in it.
    pub counts: Counts,
    /// What was found.
    pub failure: Option<Failure>,
}

/// What a run found.
#[derive(Clone, Debug)]
pub struct Failure {
    /// In words.
    pub what: String,
    /// At which step.
    pub step: u64,
    /// What happened last.
    pub last: Vec<String>,
}

/// Runs a seed.
#[must_use]
pub fn run(options: RunOptions) -> Report {
    let seed = options.seed;
    let mut report = Report { seed, steps: 0, virtual_us: 0, hash: 0, counts: Counts::default(), failure: None };
    let faulty = steps_of(&options);
    let mut world = World::new(seed, options.bug, options.nodes, Trace::new(options.trace));
    let mut steps = 0;
    let outcome = panics::caught(|| play(&mut world, faulty, &mut steps)).and_then(|outcome| outcome);
    let written = world.env().trace().finish().map_err(|e| format!("the trace cannot be written: {e}"));
    let failed = outcome.and(written).err();
    let last = if failed.is_some() { world.env().trace().tail() } else { Vec::new() };
    report.failure = failed.map(|what| Failure { what, step: steps, last });
    (report.steps, report.virtual_us) = (steps, world.env().now());
    (report.hash, report.counts) = (world.env().trace().hash(), world.env().counts);
    report
}

/// How many steps the faulty phase has.
fn steps_of(options: &RunOptions) -> u64 {
    let nodes = options.nodes.unwrap_or(USUAL_NODES).max(USUAL_NODES) as u64;
    options.steps * nodes * nodes / (USUAL_NODES * USUAL_NODES) as u64
}

fn play(world: &mut World, faulty: u64, steps: &mut u64) -> Result<(), String> {
    while *steps < faulty {
        *steps += 1;
        if !world.step()? {
            return Err("nothing is going to happen any more".to_owned());
        }
    }
    world.heal();
    let calm = world.env().now() + CALM;
    let allowed = HEALING_MAX + world.nodes() as u64 * HEALING_MAX_EACH;
    let healed = world.env().now();
    let (mut late, mut ended) = (healed + allowed, world.ended_plans());
    let mut look = calm;
    let mut closed = false;
    loop {
        *steps += 1;
        world.step()?;
        if world.env().now() < look {
            continue;
        }
        let now = world.env().now();
        look = now + LOOK;
        if world.ended_plans() > ended {
            ended = world.ended_plans();
            late = (now + allowed).min(healed + HEALING_TIMES_MAX * allowed);
        }
        if !closed {
            world.close();
            closed = true;
        } else if world.is_quiet() && world.unsettled().is_none() {
            return world.verdict();
        } else if now > late {
            let why = world.unsettled().unwrap_or_else(|| "clients are not answered".to_owned());
            return Err(format!("not healed in {} s: {why}", (now - healed) / SECOND));
        }
    }
}
