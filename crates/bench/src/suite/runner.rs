//! Runs a suite: part by part, step by step, each kept as soon as it is done.

use parking_lot::Mutex;
use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use client::StoreUrl;

use super::act::{Due, play};
use super::file::{Does, StepFile};
use super::options::{StepTarget, loader, options, search, task};
use super::outlook::Outlook;
use super::peer_store::{self, PeerStore};
use super::plan::{Part, Plan, Step, shown};
use super::record::Folder;
use super::settle::settle;
use crate::coordinator::LoaderOptions;
use crate::date::unix_ms;
use crate::driver::HistogramLog;
use crate::model::{Event, RunOutcome};
use crate::model::{StepRecord, SuiteRecord};
use crate::options::Span;
use crate::phase::setup::Measured;
use crate::program::Program;
use crate::report::STOPPED;
use crate::report::{rate, span};
use crate::search::searched;
use crate::single::measured_by;
use crate::slo::Slo;
use crate::suite_stores::{ExistingStore, SuiteStore, words};
use crate::trouble::Trouble;

/// How often a step looks whether it is to end early.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A store comes to rest within this time, unless a step says otherwise.
const SETTLES_WITHIN: Duration = Duration::from_secs(600);

/// How a suite is run.
pub(crate) struct Runner<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) folder: &'a Folder,
    pub(crate) program: &'a Program<'a>,
    /// A store that is there; otherwise each part's is started.
    pub(crate) target: Option<&'a str>,
    pub(crate) act_with: Option<&'a str>,
    /// The first port of stores that are started.
    pub(crate) port: u16,
    /// Who makes the load, if not this process.
    pub(crate) loader: &'a LoaderOptions,
    pub(crate) seed: u64,
    pub(crate) quiet: bool,
    /// Stores' data stay when they have been measured.
    pub(crate) keeps_data: bool,
    /// How long what is left will take.
    pub(crate) outlook: RefCell<Outlook>,
}

/// What a part's steps run on.
enum Ground {
    /// Nodes over the network.
    Nodes(Mutex<Box<dyn SuiteStore>>),
    /// A store in this process, opened anew for each step.
    Embedded,
    /// A server that stores nothing.
    Noop,
}

impl Ground {
    fn url(&self) -> String {
        match self {
            Self::Nodes(store) => store.lock().url(),
            Self::Embedded => "embedded".to_owned(),
            Self::Noop => "noop://".to_owned(),
        }
    }

    fn notes(&self) -> Vec<String> {
        match self {
            Self::Nodes(store) => store.lock().notes(),
            _ => Vec::new(),
        }
    }

    fn ended(&self) -> Vec<String> {
        match self {
            Self::Nodes(store) => store.lock().ended(),
            _ => Vec::new(),
        }
    }
}

impl Runner<'_> {
    /// Runs what has not been done. True when all steps were taken and all went well.
    pub(crate) fn run(&self, about: &mut SuiteRecord) -> Result<bool, Trouble> {
        let mut clean = true;
        let total = self.plan.parts.len();
        for known in self.folder.steps()?.iter().filter(|known| known.done) {
            self.outlook.borrow_mut().knew(known.part.0, known.step.0);
        }
        for (index, part) in self.plan.parts.iter().enumerate() {
            if self.stopped() {
                break;
            }
            let known = self.folder.steps()?;
            let is_done = |step: &Step| {
                known.iter().any(|known| known.done && (known.part.0, known.step.0) == (part.number, step.number))
            };
            if part.steps.iter().all(is_done) {
                self.say(&format!("part {} of {total}: {}: done before", index + 1, part.name));
                continue;
            }
            self.say(&format!("part {} of {total}: {}", index + 1, part.name));
            if let Err(trouble) = self.part(part, &known) {
                clean = false;
                let text = match trouble {
                    Trouble::Usage(text) => text,
                    Trouble::Failed(error) => error.to_string(),
                };
                self.say(&format!("part {}: {text}", part.name));
                about.notes.push(format!("Part {}{STOPPED}{text}.", part.name));
                self.folder.write_about(about)?;
            }
        }
        let steps = self.folder.steps()?;
        let wrong = |step: &&StepRecord| step.report.as_ref().is_some_and(|report| !report.is_clean());
        let taken = |part: &Part, step: &Step| {
            steps.iter().any(|known| known.done && (known.part.0, known.step.0) == (part.number, step.number))
        };
        let whole = self.plan.parts.iter().all(|part| part.steps.iter().all(|step| taken(part, step)));
        about.outcome = match whole {
            true => RunOutcome::Completed,
            false if self.stopped() => RunOutcome::Interrupted,
            false => RunOutcome::Failed,
        };
        self.folder.write_about(about)?;
        Ok(clean && whole && steps.iter().find(wrong).is_none())
    }

    fn stopped(&self) -> bool {
        self.program.stop.load(Ordering::Relaxed)
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            crate::note!("{text}");
        }
    }

    fn part(&self, part: &Part, known: &[StepRecord]) -> Result<(), Trouble> {
        let dir = self.folder.store_dir(part.number);
        // A peer is not started again on its data.
        let starts_over = peer_store::named(&part.store.system).is_some();
        let first = if starts_over { 0 } else { self.first_step(part, known, &dir) };
        if first == 0 {
            remove(&dir)?;
        }
        fs::create_dir_all(&dir)?;
        let began = Instant::now();
        let ground = self.ground(part, &dir)?;
        // The nodes of a new store have joined it one after the other: their share is moved to them first.
        if self.target.is_none() {
            self.rest(&ground, SETTLES_WITHIN)?;
        }
        self.outlook.borrow_mut().started(part, began.elapsed().as_secs_f64());
        let result = part.steps[first..].iter().try_for_each(|step| self.step(part, step, &ground, &dir));
        let ended = match &ground {
            Ground::Nodes(store) => store.lock().stop(),
            _ => Ok(()),
        };
        drop(ground);
        if let Err(e) = ended {
            self.say(&format!("part {}: the store: {e}", part.name));
        }
        if result.is_ok() && !self.keeps_data {
            remove(&dir)?;
        }
        result
    }

    /// The first step that must be taken: the first that is not done, if the store's data are still there and whole, and
    /// the store has the shape that the steps before gave it.
    fn first_step(&self, part: &Part, known: &[StepRecord], dir: &Path) -> usize {
        let is_done = |step: &Step| {
            known.iter().any(|known| known.done && (known.part.0, known.step.0) == (part.number, step.number))
        };
        let undone = part.steps.iter().position(|step| !is_done(step)).unwrap_or(part.steps.len());
        let begun = |step: &Step| known.iter().any(|known| (known.part.0, known.step.0) == (part.number, step.number));
        let broken = |step: &Step| step.file.does == Does::Load || (reshapes(&step.file) && begun(step));
        let broken = part.steps.get(undone).is_some_and(broken);
        let has_data = self.target.is_some() || dir.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if undone > 0 && has_data && !broken { undone } else { 0 }
    }

    fn ground(&self, part: &Part, dir: &Path) -> Result<Ground, Trouble> {
        if let Some(url) = self.target {
            let existing = ExistingStore::new(url, self.act_with.map(str::to_owned));
            return Ok(Ground::Nodes(Mutex::new(Box::new(existing))));
        }
        match part.store.system.as_str() {
            "embedded" => Ok(Ground::Embedded),
            "noop" => Ok(Ground::Noop),
            name => {
                let store: Box<dyn SuiteStore> = match peer_store::named(name) {
                    Some(name) => Box::new(PeerStore::start(name, &part.store, dir, self.port, self.program.stop)?),
                    None => self.program.stores.start(&part.store, dir, self.port)?,
                };
                Ok(Ground::Nodes(Mutex::new(store)))
            }
        }
    }

    fn step(&self, part: &Part, step: &Step, ground: &Ground, dir: &Path) -> Result<(), Trouble> {
        if self.stopped() {
            let text = "stopped; --resume goes on where it was";
            return Err(Trouble::Failed(io::Error::new(io::ErrorKind::Interrupted, text)));
        }
        let began = Instant::now();
        let mut record = StepRecord {
            part: (part.number, part.name.clone()),
            step: (step.number, step.name.clone()),
            does: step.file.does.word().to_owned(),
            system: part.store.system.clone(),
            timeline: part.timeline,
            shows: shown(&step.file.shows),
            published: step.file.published.clone(),
            notes: ground.notes(),
            began_ms: unix_ms(SystemTime::now()),
            ..StepRecord::default()
        };
        if reshapes(&step.file) {
            // A run that goes on after an interruption must know that it had begun.
            self.folder.keep(&record, &[])?;
        }
        let mut logs = Vec::new();
        let result = match step.file.does {
            Does::Settle => self.settle(&step.file, ground, &mut record),
            Does::Act => self.act(&step.file, ground, &mut record),
            _ => self.phase(part, step, ground, dir, &mut record).map(|kept| logs = kept),
        };
        // Whatever else went wrong, that is why.
        let ended = ground.ended();
        let result = if ended.is_empty() { result } else { Err(Trouble::Failed(io::Error::other(ended.join("; ")))) };
        record.done &= ended.is_empty();
        record.took_s = began.elapsed().as_secs_f64();
        if let Err(Trouble::Failed(e)) = &result {
            record.notes.push(format!("It could not be done: {e}."));
        }
        self.folder.keep(&record, &logs)?;
        if record.done {
            self.outlook.borrow_mut().took(part, step, record.took_s);
        }
        self.show(&record);
        result
    }

    /// One line a step, and how far the suite is.
    fn show(&self, record: &StepRecord) {
        let (done, all, left_s) = self.outlook.borrow().progress(self.plan);
        let ahead = if left_s > 0.0 { format!(", about {} left", span(left_s)) } else { String::new() };
        self.say(&format!("{}  ({done} of {all} steps{ahead})", Self::line(record)));
    }

    fn line(record: &StepRecord) -> String {
        if let Some(search) = record.report.iter().flat_map(|report| &report.searches).next() {
            return format!("  {}: {}", record.step.1, search.answer);
        }
        let Some(phase) = record.phase() else {
            return format!("  {}: {:.1} s", record.step.1, record.took_s);
        };
        let wrong = phase.error_count() + phase.not_found() + phase.verification_failures();
        let wrong = if wrong > 0 { format!(", {wrong} operations WENT WRONG") } else { String::new() };
        let rate = rate(phase.throughput_per_s);
        format!("  {}: {rate} operations/s over {:.1} s{wrong}", record.step.1, phase.duration_s)
    }

    /// A share of what an earlier step of the part has reached.
    fn rate_of(&self, part: &Part, name: &str, share: f64) -> Result<f64, Trouble> {
        let steps = self.folder.steps()?;
        let earlier = steps.iter().find(|step| step.part.0 == part.number && step.step.1 == name && step.done);
        let reached = earlier.and_then(StepRecord::phase).map(|phase| phase.throughput_per_s * share);
        reached
            .filter(|rate| *rate > 0.0)
            .ok_or_else(|| Trouble::Usage(format!("rate-of {name}: no such step has been taken")))
    }

    fn settle(&self, step: &StepFile, ground: &Ground, record: &mut StepRecord) -> Result<(), Trouble> {
        let patience = match &step.duration {
            Some(text) => text.parse::<Span>().and_then(|span| span.time("duration")).map_err(Trouble::Usage)?,
            None => SETTLES_WITHIN,
        };
        self.rest(ground, patience)?;
        record.done = !self.stopped();
        Ok(())
    }

    /// Waits until the store has nothing left to do. What is behind an adapter tells nothing of its work.
    fn rest(&self, ground: &Ground, patience: Duration) -> Result<(), Trouble> {
        let url = ground.url();
        if let Ground::Nodes(_) = ground
            && url.starts_with("redis://")
        {
            let store: StoreUrl = url.parse().map_err(|bad: client::BadAddress| Trouble::Usage(bad.to_string()))?;
            settle(&store, patience, self.program.stop, &|text| self.say(text))?;
        }
        Ok(())
    }

    fn act(&self, step: &StepFile, ground: &Ground, record: &mut StepRecord) -> Result<(), Trouble> {
        let action =
            step.action.as_ref().ok_or_else(|| Trouble::Usage("a step that acts has an `action`".to_owned()))?;
        let Ground::Nodes(store) = ground else {
            return Err(Trouble::Usage(format!("`{}` needs a store of nodes", words(action).join(" "))));
        };
        let what = store.lock().act(action)?;
        record.events.push(Event { t_s: 0.0, label: what });
        record.done = true;
        Ok(())
    }

    /// A phase, with what is done to the store meanwhile.
    fn phase(
        &self,
        part: &Part,
        step: &Step,
        ground: &Ground,
        dir: &Path,
        record: &mut StepRecord,
    ) -> Result<Vec<(String, HistogramLog)>, Trouble> {
        let url = ground.url();
        let settings: Vec<String> = match ground {
            Ground::Embedded => embedded_settings(part),
            _ => Vec::new(),
        };
        let seed = self.seed ^ (part.number as u64) << 32 ^ (step.number as u64) << 16;
        let data = dir.join("embedded");
        let place = StepTarget { target: &url, data: Some(&data), seed, settings: &settings, quiet: self.quiet };
        let loader = loader(&step.file, self.loader);
        let mut options = options(&step.file, place, &loader).map_err(Trouble::Usage)?;
        if let Some(name) = &step.file.rate_of {
            options.rate = Some(self.rate_of(part, name, step.file.rate.unwrap_or(1.0))?);
        }
        let task = task(step.file.does).ok_or_else(|| Trouble::Usage("not a phase".to_owned()))?;
        let due = due(&step.file).map_err(Trouble::Usage)?;
        let goal = step.file.goal.as_deref().map(str::parse::<Slo>).transpose().map_err(Trouble::Usage)?;
        let measure = |program: &Program<'_>| match &goal {
            Some(goal) => searched(&step.name, &options, &search(goal), &loader, program),
            None => measured_by(&step.name, task, &options, &loader, program),
        };
        let run = || self.while_all_run(ground, measure);
        let result = match ground {
            Ground::Nodes(store) if !due.is_empty() => std::thread::scope(|scope| {
                let (running, ended) = mpsc::channel::<()>();
                let events = &self.program.events;
                let actor = scope.spawn(move || play(due, store, events, &ended));
                let result = run();
                drop(running);
                record.notes.extend(actor.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
                result
            }),
            _ => run(),
        };
        let Measured { mut report, logs } = result?;
        let is_ours = self.target.is_none() && peer_store::named(&part.store.system).is_none();
        if matches!(ground, Ground::Nodes(_)) && is_ours && part.store.memory_limit_mb > 0 {
            let nodes = u64::from(part.store.nodes.max(1));
            report.configuration.memory_limit_bytes = Some(part.store.memory_limit_mb * 1_000_000 * nodes);
        }
        record.done = report.outcome == RunOutcome::Completed;
        record.report = Some(report);
        if record.done || self.stopped() {
            return Ok(logs);
        }
        Err(Trouble::Failed(io::Error::other(format!("step {} could not go on", step.name))))
    }

    /// Measures until it is stopped, or a node has ended by itself: a load that waits for it might never end.
    fn while_all_run<T>(&self, ground: &Ground, measure: impl FnOnce(&Program<'_>) -> T) -> T {
        let stop = AtomicBool::new(false);
        let program = Program { stop: &stop, events: self.program.events.clone(), ..*self.program };
        let (asked, stop) = (self.program.stop, &stop);
        let (running, over) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while over.recv_timeout(LOOK_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                    if asked.load(Ordering::Relaxed) || !ground.ended().is_empty() {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
            let measured = measure(&program);
            drop(running);
            measured
        })
    }
}

/// What a step does to the store meanwhile, and when.
pub(crate) fn due(step: &StepFile) -> Result<Vec<Due>, String> {
    let each = step.events.iter().map(|event| {
        let at = event.at.parse::<Span>()?.time("at")?;
        Ok(Due { at, action: event.action.clone() })
    });
    each.collect()
}

/// Whether a step leaves the store in another shape than it found it in: it cannot be taken twice.
fn reshapes(step: &StepFile) -> bool {
    use crate::model::ActionFile::{AddNode, Ctl, Kill};
    step.events.iter().any(|event| matches!(event.action, AddNode | Ctl { .. } | Kill { .. }))
}

/// A store in this process has the settings of one node.
pub(super) fn embedded_settings(part: &Part) -> Vec<String> {
    let store = &part.store;
    let shards = if store.shards > 0 { store.shards.to_string() } else { String::new() };
    let named =
        [("shards", &shards), ("durability", &store.durability), ("engine", &store.engine), ("memory", &store.memory)];
    let named = named.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!("{name}={value}"));
    named.chain(store.set.iter().map(|(name, value)| format!("{name}={}", crate::model::plain(value)))).collect()
}

fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(io::Error::new(e.kind(), format!("{}: {e}", dir.display())))
        }
        _ => Ok(()),
    }
}
