//! A step as the options of the phase that it is: what `bench run` takes on its command line.

use std::path::Path;

use clap::ValueEnum;
use toml::Value;

use super::file::{Does, StepFile};
use crate::coordinator::LoaderOptions;
use crate::model::plain;
use crate::options::{AccessOptions, ArrivalsOption, Format, OutputOptions, PhaseOptions, StoreOptions, TlsOptions};
use crate::search::SearchOptions;
use crate::slo::Slo;
use crate::workload::Task;

/// How close a search comes.
const SEARCH_TOLERANCE_PERCENT: f64 = 5.0;
/// How many trials of one rate decide about it.
const SEARCH_REPEATS: u32 = 3;

/// Which phase a step is; none if it is none.
pub(crate) fn task(does: Does) -> Option<Task> {
    match does {
        Does::Load => Some(Task::Load),
        Does::Run | Does::Search => Some(Task::Run),
        Does::Delete => Some(Task::Delete),
        Does::Settle | Does::Act => None,
    }
}

/// Where a step's phase runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepTarget<'a> {
    /// The system under test, as `--target` names it.
    pub(crate) target: &'a str,
    /// The directory of an embedded store.
    pub(crate) data: Option<&'a Path>,
    /// The seed from which all random choices derive.
    pub(crate) seed: u64,
    /// Settings of an embedded store.
    pub(crate) settings: &'a [String],
    /// Show no progress.
    pub(crate) quiet: bool,
}

/// Who makes the load of `step`: the agents that are `asked` to make that of every step, else its own processes.
pub(crate) fn loader(step: &StepFile, asked: &LoaderOptions) -> LoaderOptions {
    LoaderOptions { processes: step.processes.filter(|_| asked.agents.is_empty()), ..asked.clone() }
}

/// How a step looks for the highest rate that keeps `goal`.
pub(crate) fn search(goal: &Slo) -> SearchOptions {
    let (tolerance, repeats) = (SEARCH_TOLERANCE_PERCENT, SEARCH_REPEATS);
    SearchOptions { find_max_rate: Some(goal.clone()), rates: Vec::new(), tolerance, repeats }
}

/// The options of the phase that `step` is, whose load `loader` makes.
///
/// # Errors
/// A word that means nothing.
pub(crate) fn options(step: &StepFile, place: StepTarget<'_>, loader: &LoaderOptions) -> Result<PhaseOptions, String> {
    let span = |text: &Option<String>| text.as_deref().map(str::parse).transpose();
    // Processes that make the load are told by their coordinator which one each of them is.
    let is_for_one = |name: &str| !loader.is_asked() || !name.starts_with("basalt.process");
    let given = step.properties.iter().filter(|(name, _)| is_for_one(name));
    let mut properties: Vec<String> = given.map(|(name, value)| format!("{name}={}", property(name, value))).collect();
    let ends_by_time = step.duration.is_some() && !step.properties.contains_key("operationcount");
    if ends_by_time {
        properties.push("operationcount=0".to_owned());
    }
    Ok(PhaseOptions {
        tls: TlsOptions::default(),
        target: place.target.to_owned(),
        store_access: AccessOptions {
            connections: step.connections.unwrap_or(1),
            read_from: word(step.read_from.as_deref(), "read-from")?,
            durability: word(step.durability.as_deref(), "durability")?,
            acks: word(step.acks.as_deref(), "acks")?,
        },
        files: step.workload.iter().cloned().collect(),
        properties,
        clients: step.clients,
        depth: step.depth.unwrap_or(1),
        threads: step.threads,
        rate: step.rate,
        arrivals: word(step.arrivals.as_deref(), "arrivals")?.unwrap_or(ArrivalsOption::Even),
        warm_up: span(&step.warm_up)?,
        duration: span(&step.duration)?,
        timeout: step.timeout.as_deref().unwrap_or("10s").parse()?,
        retry_for: span(&step.retry_for)?,
        tolerate: step.tolerate.iter().map(|text| one(text, "tolerate")).collect::<Result<_, _>>()?,
        events: Vec::new(),
        store: StoreOptions { data: place.data.map(Path::to_owned), settings: place.settings.to_vec() },
        output: OutputOptions {
            format: Format::Table,
            // Only that there is one says that histograms are kept; the suite writes them.
            out: Some(Path::new(".").to_owned()),
            seed: place.seed,
            quiet: place.quiet,
        },
    })
}

/// Numbers of properties are written without a point where they are whole, and counts are whole.
fn property(name: &str, value: &Value) -> String {
    match value {
        Value::Float(number) if number.fract() == 0.0 || name.ends_with("count") => format!("{:.0}", number.floor()),
        other => plain(other),
    }
}

fn word<T: ValueEnum>(text: Option<&str>, name: &str) -> Result<Option<T>, String> {
    text.map(|text| one(text, name)).transpose()
}

fn one<T: ValueEnum>(text: &str, name: &str) -> Result<T, String> {
    T::from_str(text, true).map_err(|_| {
        let known: Vec<String> = T::value_variants()
            .iter()
            .filter_map(|value| Some(value.to_possible_value()?.get_name().to_owned()))
            .collect();
        format!("{name} `{text}`: expected {}", known.join(" or "))
    })
}
