//! One run: a faulty phase of so many steps, then healing, then the verdict over everything that was seen.

use crate::bug::Bug;
use crate::check::replicas;
use crate::panics;
use crate::schedule::{Micros, SECOND};
use crate::trace::Trace;
use crate::world::{Counts, World, place_of};
use cluster::Map;
use cluster::placement::{Observed, Why, next_moves};
use replica::LogStore as _;
use std::io::Write;
use storage::Span;
use vocab::ShardId;

/// How long clients go on after all faults have stopped.
const CALM: Micros = 3 * SECOND;
/// Within this time after all faults have stopped everything is as if nothing had happened.
const HEALING_MAX: Micros = 90 * SECOND;
/// So much more for each node.
const HEALING_MAX_EACH: Micros = 3 * SECOND;
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
    let written = world.trace.finish().map_err(|e| format!("the trace cannot be written: {e}"));
    let failed = outcome.and(written).err();
    let last = if failed.is_some() { world.trace.tail() } else { Vec::new() };
    report.failure = failed.map(|what| Failure { what, step: steps, last });
    (report.steps, report.virtual_us) = (steps, world.now());
    (report.hash, report.counts) = (world.trace.hash(), world.counts);
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
    let calm = world.now() + CALM;
    let allowed = HEALING_MAX + world.hosts.len() as u64 * HEALING_MAX_EACH;
    let late = world.now() + allowed;
    let mut look = calm;
    let mut closed = false;
    loop {
        *steps += 1;
        world.step()?;
        if world.now() < look {
            continue;
        }
        look = world.now() + LOOK;
        if !closed {
            world.close();
            closed = true;
        } else if world.is_quiet() && world.unsettled().is_none() {
            return world.verdict();
        } else if world.now() > late {
            let why = world.unsettled().unwrap_or_else(|| "clients are not answered".to_owned());
            return Err(format!("not healed in {} s: {why}", allowed / SECOND));
        }
    }
}

impl World {
    /// Which shard has not come to rest, and what its replicas say.
    fn unsettled(&self) -> Option<String> {
        let Some(map) = &self.map else { return Some("no store has been made".to_owned()) };
        if let Some(what) = self.unshaped(map).or_else(|| self.check_places(map).err()) {
            // A node may not have heard of the newest map yet.
            return Some(what);
        }
        let mine = self.hosts.iter().filter(|host| map.nodes.contains_key(&host.info.id));
        let behind = mine.into_iter().find(|host| host.epoch() != Some(map.epoch));
        if let Some(host) = behind {
            return Some(format!("node {} has map {:?}, the newest is {}", host.info.id, host.epoch(), map.epoch));
        }
        let found = map.shards.keys().copied().find(|shard| !self.is_settled(map, *shard));
        found.map(|shard| format!("shard {shard} is not settled:\n{}", self.describe(shard)))
    }

    fn is_settled(&self, map: &Map, shard: ShardId) -> bool {
        let mut leaders = 0;
        let mut ends = Vec::new();
        for replica in &map.shards[&shard].replicas {
            let process = self.hosts[place_of(replica.node)].process.as_ref();
            let Some(here) = process.and_then(|process| process.core.shard(shard)) else { return false };
            let status = here.replica().status();
            leaders += u32::from(status.leads);
            ends.push(status.applied);
            ends.push(status.committed);
            ends.push(status.last);
        }
        leaders == 1 && ends.iter().all(|end| *end == ends[0])
    }

    /// Replicas are where placement wants them, and nothing is left of those that are gone.
    fn check_places(&self, map: &Map) -> Result<(), String> {
        let observed = Observed { leaving: map.leaving.clone(), ..Observed::default() };
        if let Some(wrong) = next_moves(map, &observed).iter().find(|step| step.why != Why::Balance) {
            return Err(format!("all plans are done, and {wrong:?} is to be made: {}", crate::shape::layout(map)));
        }
        for host in self.hosts.iter().filter(|host| host.process.is_some()) {
            for shard in host.disk.log.groups().into_iter().chain(host.disk.trees()) {
                let wanted = map.shards.get(&shard).and_then(|info| info.replica_on(host.info.id));
                if wanted.is_none() {
                    return Err(format!("node {} has no replica of shard {shard}, and holds its files", host.info.id));
                }
            }
        }
        Ok(())
    }

    /// All checks over the whole of what was seen.
    fn verdict(&mut self) -> Result<(), String> {
        let map = self.map.clone().ok_or("no store has been made")?;
        self.check_places(&map)?;
        for (&shard, info) in &map.shards {
            let mut holdings = Vec::new();
            for replica in &info.replicas {
                let process = self.hosts[place_of(replica.node)].process.as_ref();
                let Some(here) = process.and_then(|process| process.core.shard(shard)) else { continue };
                let snapshot = here.view().snapshot();
                let all = Span { start: vec![1], end: Vec::new() };
                let digest = snapshot.digest(all).map_err(|e| e.to_string())?;
                let holding = replicas::Holding { index: snapshot.index(), digest, keys: here.view().key_count() };
                holdings.push((replica.node, holding));
            }
            replicas::check(shard, &holdings)?;
        }
        for number in 0..self.plan.groups {
            self.check_history(number)?;
        }
        self.check_record()
    }
}
