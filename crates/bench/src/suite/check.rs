//! Whether a suite can be run at all: every store, step and table is looked at before the first store is started, so that
//! no typing error is found after hours.

use std::time::Duration;

use super::file::{Does, StepFile};
use super::options::{StepTarget, loader, options, search, task};
use super::peer_store;
use super::plan::{Part, Plan, Step};
use super::runner::{due, embedded_settings};
use crate::coordinator::LoaderOptions;
use crate::model::{ActionFile, StoreFile, TableFile};
use crate::options::{PhaseOptions, Span};
use crate::phase::setup;
use crate::program::Program;
use crate::published;
use crate::report::is_figure;
use crate::slo::Slo;
use crate::target::{TargetRow, check_frame};
use crate::trouble::Trouble;
use crate::workload::KNOWN;

/// The store that the suite runs on, if it is one that is there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Existing {
    /// A store was named.
    pub(crate) is_given: bool,
    /// With a program that does things to it.
    pub(crate) can_act: bool,
}

/// Looks at all of `plan`, whose load `loader` makes.
///
/// # Errors
/// The first thing that cannot be, and where it stands.
pub(crate) fn check(
    plan: &Plan,
    existing: Existing,
    loader: &LoaderOptions,
    program: &Program<'_>,
) -> Result<(), String> {
    for part in &plan.parts {
        let at = |problem: String| format!("part {}: {problem}", part.name);
        store(&part.store, existing, program).map_err(at)?;
        for (index, step) in part.steps.iter().enumerate() {
            let at = |problem: String| format!("part {}, step {}: {problem}", part.name, step.name);
            self::step(part, index, step, existing).map_err(at)?;
            phase(part, step, existing, loader, program).map_err(at)?;
        }
    }
    plan.tables.iter().try_for_each(|table| self::table(plan, table))
}

fn store(store: &StoreFile, existing: Existing, program: &Program<'_>) -> Result<(), String> {
    for (name, value, words) in
        [("durability", &store.durability, ["sync", "nosync"]), ("engine", &store.engine, ["lsm", "memory"])]
    {
        if !value.is_empty() && !words.contains(&value.as_str()) {
            return Err(format!("store: {name} `{value}`: expected {}", words.join(" or ")));
        }
    }
    match store.system.as_str() {
        "noop" => Ok(()),
        "" | "basalt" | "embedded" => program.stores.check(store).map_err(|problem| format!("store: {problem}")),
        name => match peer_store::named(name) {
            // It has the shape that it has.
            Some(_) if existing.is_given => Ok(()),
            Some(peer) => peer_store::check(peer, store).map_err(|problem| format!("store: {problem}")),
            None => {
                let peers = peer_store::names().join(", ");
                Err(format!("store: system `{name}`: expected basalt, embedded, noop, {peers}"))
            }
        },
    }
}

fn step(part: &Part, index: usize, step: &Step, existing: Existing) -> Result<(), String> {
    let file = &step.file;
    if (file.does == Does::Act) != file.action.is_some() {
        return Err("a step has an `action` if it does `act`, and none otherwise".to_owned());
    }
    if (file.does == Does::Search) != file.goal.is_some() {
        return Err("a step has a `goal` if it does `search`, and none otherwise".to_owned());
    }
    let timed = due(file)?;
    for action in timed.iter().map(|due| &due.action).chain(&file.action) {
        self::action(part, action, existing)?;
    }
    if !file.published.is_empty() {
        published::row(&file.published).map_err(|problem| format!("published: {problem}"))?;
    }
    if let Some(name) = &file.rate_of {
        let earlier = part.steps[..index].iter().find(|step| step.name == *name);
        let measures = |step: &&Step| task(step.file.does).is_some();
        earlier.filter(measures).ok_or_else(|| format!("rate-of `{name}`: no step before this one is called so"))?;
    }
    if let (Does::Settle, Some(patience)) = (file.does, &file.duration) {
        patience.parse::<Span>().and_then(|span| span.time("duration"))?;
    }
    Ok(())
}

/// The phase that a step is, if it is one.
fn phase(
    part: &Part,
    step: &Step,
    existing: Existing,
    loader: &LoaderOptions,
    program: &Program<'_>,
) -> Result<(), String> {
    let file = &step.file;
    let Some(task) = task(file.does) else { return Ok(()) };
    properties(file)?;
    let is_embedded = part.store.system == "embedded" && !existing.is_given;
    let settings = if is_embedded { embedded_settings(part) } else { Vec::new() };
    let place = StepTarget { target: "redis://127.0.0.1:1", data: None, seed: 1, settings: &settings, quiet: true };
    let loader = self::loader(file, loader);
    let mut options: PhaseOptions = options(file, place, &loader)?;
    if let Some(rate) = file.rate.filter(|rate| !rate.is_finite() || *rate <= 0.0) {
        return Err(format!("rate {rate}: expected a number above 0"));
    }
    if file.does == Does::Search && options.duration.is_none() {
        // Its trials have a duration of their own.
        options.duration = Some(Span::Time(Duration::from_secs(1)));
    }
    if file.rate_of.is_some() {
        options.rate = Some(file.rate.unwrap_or(1.0));
    }
    let planned = setup::planned(&step.name, task, &options, program).map_err(|trouble| match trouble {
        Trouble::Usage(text) => text,
        Trouble::Failed(error) => error.to_string(),
    });
    let (properties, workload, _) = planned?;
    if is_embedded {
        "embedded".clone_into(&mut options.target);
    }
    loader.check(&options, &properties, &workload.config)?;
    let scheme = format!("{}://", part.store.system);
    if !existing.is_given && TargetRow::of(&scheme).is_some_and(|row| row.has_adapter()) {
        check_frame(&workload.config)?;
    }
    match file.goal.as_deref().map(str::parse::<Slo>).transpose()? {
        Some(goal) => search(&goal).check(&options, &workload, &loader),
        None => Ok(()),
    }
}

/// What a property file may hold and the laboratory does not know, a suite may not: it is written for the laboratory.
fn properties(file: &StepFile) -> Result<(), String> {
    let unknown = file.properties.keys().find(|name| !KNOWN.iter().any(|known| known.name == name.as_str()));
    unknown.map_or(Ok(()), |name| Err(format!("property {name}: there is none (`basalt bench properties` lists them)")))
}

fn action(part: &Part, action: &ActionFile, existing: Existing) -> Result<(), String> {
    use ActionFile::{AddNode, Ctl, FlushCache, Heal, Kill, Partition, Pause, Restart, Resume};
    let what = crate::suite_stores::words(action).join(" ");
    if existing.is_given {
        let lacks = "it needs --act-with, a program that does this to the store of --target";
        return if existing.can_act { Ok(()) } else { Err(format!("`{what}`: {lacks}")) };
    }
    if !matches!(part.store.system.as_str(), "" | "basalt") {
        return Err(format!("`{what}`: it cannot be done to the system `{}`", part.store.system));
    }
    // Nodes that the part adds have the numbers that follow.
    let events = part.steps.iter().flat_map(|step| step.file.events.iter().map(|event| &event.action));
    let actions = events.chain(part.steps.iter().filter_map(|step| step.file.action.as_ref()));
    let added = actions.filter(|action| **action == AddNode).count();
    let nodes = usize::from(part.store.nodes.max(1)) + added;
    match action {
        Partition { .. } | Heal { .. } => Err(format!("`{what}`: nodes of one machine cannot be cut off; pause it")),
        Kill { node } | Pause { node } | Resume { node } | Restart { node } if !(1..=nodes).contains(node) => {
            Err(format!("`{what}`: nodes are 1 to {nodes}"))
        }
        Ctl { args } if args.is_empty() => Err("`ctl` has no arguments".to_owned()),
        Kill { .. } | Pause { .. } | Resume { .. } | Restart { .. } | AddNode | FlushCache | Ctl { .. } => Ok(()),
    }
}

fn table(plan: &Plan, table: &TableFile) -> Result<(), String> {
    let steps: Vec<&Step> = plan.parts.iter().flat_map(|part| &part.steps).collect();
    for name in &table.steps {
        if !steps.iter().any(|step| step.name.starts_with(name.as_str())) {
            return Err(format!("table {}: no step's name begins with `{name}`", table.title));
        }
    }
    for column in &table.columns {
        let is_shown = steps.iter().any(|step| step.file.shows.contains_key(column));
        if !is_shown && !is_figure(column) {
            let title = &table.title;
            return Err(format!("table {title}: column `{column}` is no figure, and no step shows such a value"));
        }
    }
    Ok(())
}
