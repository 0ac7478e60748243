//! A step as the options of the phase that it is: what `bench run` takes on its command line.

use std::path::Path;

use clap::ValueEnum;
use toml::Value;

use super::file::{Does, StepFile};
use crate::model::plain;
use crate::options::{AccessOptions, ArrivalsOption, Format, OutputOptions, PhaseOptions, StoreOptions, TlsOptions};
use crate::workload::Task;

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

/// The options of the phase that `step` is.
///
/// # Errors
/// A word that means nothing.
pub(crate) fn options(step: &StepFile, place: StepTarget<'_>) -> Result<PhaseOptions, String> {
    let span = |text: &Option<String>| text.as_deref().map(str::parse).transpose();
    let mut properties: Vec<String> =
        step.properties.iter().map(|(name, value)| format!("{name}={}", property(name, value))).collect();
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
