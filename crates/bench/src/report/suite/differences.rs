//! What differs between our run and a published one, in plain words.

use crate::model::StepRecord;
use crate::model::{Link, RunReport};
use crate::published::{self, Published};
use crate::report::SuiteReport;

use super::figures::in_memory;
use super::grid::beside;
use crate::figure;

/// A publication, and what differs from it.
#[must_use]
pub fn differences(report: &SuiteReport) -> Vec<(&'static Published, Vec<String>)> {
    let mut found: Vec<(&'static Published, Vec<String>)> = Vec::new();
    for of in published::all() {
        let steps: Vec<&StepRecord> =
            report.steps.iter().filter(|step| beside(step).is_some_and(|row| row.of.id == of.id)).collect();
        if !steps.is_empty() {
            found.push((of, sentences(report, of, &steps)));
        }
    }
    found
}

fn sentences(report: &SuiteReport, of: &Published, steps: &[&StepRecord]) -> Vec<String> {
    let mut list = vec![machines(report, of)];
    let runs: Vec<&RunReport> = steps.iter().filter_map(|step| step.report.as_ref()).collect();
    list.extend(link(report, of));
    list.extend(scale(&runs, steps, of));
    list.extend(memory(steps));
    list.extend(settings(&runs, of));
    list.push(per_core(report));
    list.extend(report.about.differs.iter().cloned());
    list.extend(of.remarks.iter().map(|remark| format!("Of theirs: {remark}")));
    list
}

fn per_core(report: &SuiteReport) -> String {
    format!(
        "Per core: ours is operations by all {} processors of this machine, which the clients needed too; theirs is operations \
         by all cores of their servers, and their clients had machines of their own. A processor here may be a hardware \
         thread, which is less than a core. Per busy core, ours is by the time that the store's processes were busy; that \
         leaves out the clients, and what a real network and idle cores cost, so it is not set against theirs. Years of \
         hardware lie between the two as well.",
        report.about.environment.cores
    )
}

fn machines(report: &SuiteReport, of: &Published) -> String {
    let machine = &report.about.environment;
    let theirs = match (of.cores, of.hw_threads) {
        (Some(cores), _) => format!("{} servers with {cores} cores", of.servers),
        (None, Some(threads)) => format!("{} servers with {threads} hardware threads", of.servers),
        (None, None) => format!("{} servers", of.servers),
    };
    format!(
        "Hardware: one machine with {} processors ({}) and {} of memory ran all nodes and the clients; theirs was {theirs}, \
         {} GB of memory each, {}.",
        machine.cores,
        machine.cpu_model,
        figure::bytes(machine.memory_bytes),
        of.ram_gb_per_server,
        of.storage
    )
}

fn link(report: &SuiteReport, of: &Published) -> Option<String> {
    let theirs = if of.network.is_empty() { "a network that is not told".to_owned() } else { of.network.clone() };
    match report.about.environment.link {
        Link::Network => None,
        Link::Loopback => {
            Some(format!("Network: none, for the loopback interface is no network; theirs was {theirs}."))
        }
        Link::InProcess => Some(format!("Network: none, for client and store share a process; theirs was {theirs}.")),
    }
}

fn scale(runs: &[&RunReport], steps: &[&StepRecord], of: &Published) -> Option<String> {
    let ours = runs.iter().map(|run| run.configuration.record_count).max()?;
    let largest = runs.iter().max_by_key(|run| run.configuration.data_bytes())?;
    let memory = largest.configuration.memory_budget_bytes;
    let theirs = steps.iter().filter_map(|step| beside(step)?.number("records")).reduce(f64::max);
    let theirs = theirs.or(of.records.map(|records| records as f64));
    let theirs = theirs.map_or_else(String::new, |theirs| {
        format!(", {} times fewer than theirs", figure::count((theirs / ours.max(1) as f64).round() as u64))
    });
    let budget = memory.map_or_else(String::new, |memory| {
        let times = largest.configuration.data_bytes() as f64 / memory.max(1) as f64;
        format!(" One copy of the largest data is {} times the memory budget of all nodes.", figure::rate(times))
    });
    Some(format!(
        "Scale: up to {} records of {}{theirs}.{budget}",
        figure::count(ours),
        figure::bytes(largest.configuration.record_size_bytes)
    ))
}

/// Where ours came from memory, and theirs did not.
fn memory(steps: &[&StepRecord]) -> Option<String> {
    let is_unlike = |step: &&&StepRecord| {
        let ours = step.report.as_ref().zip(step.phase()).is_some_and(|(report, phase)| in_memory(report, phase));
        ours && beside(step).is_some_and(|row| !row.in_memory())
    };
    let unlike = steps.iter().filter(is_unlike).count();
    (unlike > 0).then(|| {
        format!(
            "Memory: in {unlike} of {} steps that have a published figure beside them all of our data fitted into memory, and \
             theirs did not: we did not wait for disks where they did. `in memory` marks these rows; a larger scale, or a \
             bound of memory, makes them alike.",
            steps.len()
        )
    })
}

fn settings(runs: &[&RunReport], of: &Published) -> Option<String> {
    let asked = &runs.first()?.configuration;
    Some(format!(
        "Settings: ours are durability {}, copies {}, reads: {}; theirs: a write was acknowledged by {}, copies {}, reads: {}.",
        asked.durability,
        asked.replication,
        asked.consistency,
        of.write_ack,
        of.replication_factor,
        of.read_consistency
    ))
}
