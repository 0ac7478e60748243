//! What a reader must know before the figures: what is wrong, what may mislead, and what is merely worth knowing.

use crate::model::{BuildProfile, CpuUse, Link, Phase, RunOutcome, RunReport};

use crate::figure;

/// A measured part shorter than this says little about a store that compacts in the background.
const SHORT_PHASE_S: f64 = 10.0;
/// A client busier than this share of its threads measures itself.
const SATURATED_SHARE: f64 = 0.85;
/// Others that use more than this share of the machine's cores take part in the figures.
const OTHERS_SHARE: f64 = 0.15;
/// An open loop that achieves less than this share of what it offers has fallen behind.
const KEPT_UP_SHARE: f64 = 0.98;
/// Memory above this multiple of the budget is more than the budget allows.
const BUDGET_SLACK: f64 = 1.3;

/// How much a warning matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The run found something wrong, or did not end.
    Failure,
    /// The figures may mislead.
    Caution,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// The word that reports print.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Caution => "caution",
            Self::Note => "note",
        }
    }
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// How much it matters.
    pub severity: Severity,
    /// A sentence or two.
    pub text: String,
}

/// All of them, the gravest first.
#[must_use]
pub fn warnings(report: &RunReport) -> Vec<Warning> {
    let mut list = Vec::new();
    run_warnings(report, &mut list);
    for phase in &report.phases {
        failures(report, phase, &mut list);
    }
    cautions(report, &mut list);
    list.extend(report.notes.iter().map(|text| Warning { severity: Severity::Note, text: text.clone() }));
    list.sort_by_key(|warning| warning.severity);
    list
}

fn add(list: &mut Vec<Warning>, severity: Severity, text: String) {
    list.push(Warning { severity, text });
}

fn run_warnings(report: &RunReport, list: &mut Vec<Warning>) {
    match report.outcome {
        RunOutcome::Completed => {}
        RunOutcome::Interrupted => add(
            list,
            Severity::Failure,
            "The run was interrupted: the last phase holds what had been done by then.".to_owned(),
        ),
        RunOutcome::Failed => {
            add(list, Severity::Failure, "The run could not go on: phases may be missing or cut short.".to_owned());
        }
    }
    if report.environment.build == BuildProfile::Debug {
        let text = "This is a debug build, several times slower than a release build: its figures mean nothing.";
        add(list, Severity::Caution, text.to_owned());
    }
    if report.environment.link == Link::Loopback {
        let text = "Client and server met over the loopback interface and shared this machine's cores: no network was \
                    measured.";
        add(list, Severity::Note, text.to_owned());
    }
    let (data, memory) = (report.configuration.data_bytes(), report.environment.memory_bytes);
    if data > 0 && data < memory && report.environment.link != Link::Network {
        let text = format!(
            "The data ({}) is smaller than the machine's memory ({}), so the operating system may answer reads from \
             its page cache.",
            figure::bytes(data),
            figure::bytes(memory)
        );
        add(list, Severity::Note, text);
    }
}

fn failures(report: &RunReport, phase: &Phase, list: &mut Vec<Warning>) {
    let name = &phase.name;
    let wrong = phase.verification_failures();
    if wrong > 0 {
        let mut text = format!("Phase {name}: {} WRONG: not what had been written.", figure::plural(wrong, "answer"));
        if let Some(first) = phase.ops.iter().find_map(|op| op.first_wrong.as_deref()) {
            text += &format!(" The first: {first}.");
        }
        add(list, Severity::Failure, text);
    }
    let missing = phase.not_found();
    if missing > 0 {
        let text = format!("Phase {name}: {} not found that must exist.", figure::plural(missing, "record"));
        add(list, Severity::Failure, text);
    }
    for op in phase.ops.iter().filter(|op| op.error_count() > 0) {
        let kinds: Vec<String> =
            op.errors.iter().map(|(kind, times)| format!("{} × {kind}", figure::count(*times))).collect();
        let mut text = format!(
            "Phase {name}: {} of {} {} operations failed ({}).",
            figure::count(op.error_count()),
            figure::count(op.count()),
            op.op,
            kinds.join(", ")
        );
        for (kind, first) in &op.error_texts {
            text += &format!(" The first {kind} said: `{first}`.");
        }
        // In a search, trials above what the store can do may fail: the verdict on each is in its table.
        let tolerated = !report.searches.is_empty() || op.errors.keys().all(|kind| report.tolerates(kind));
        add(list, if tolerated { Severity::Caution } else { Severity::Failure }, text);
    }
}

fn cautions(report: &RunReport, list: &mut Vec<Warning>) {
    if !report.searches.is_empty() {
        // Trials are short, and some are too much for the store by intention: each has its verdict.
        return over_budget(report, list);
    }
    // The load ends when the records do; how long it takes is its result.
    let measured = || report.phases.iter().filter(|phase| !phase.name.eq_ignore_ascii_case("load"));
    let short: Vec<&str> =
        measured().filter(|phase| phase.duration_s < SHORT_PHASE_S).map(|phase| phase.name.as_str()).collect();
    if !short.is_empty() {
        let text = format!(
            "Measured for less than {} s: {}. Too short to show what compaction costs.",
            SHORT_PHASE_S,
            short.join(", ")
        );
        add(list, Severity::Caution, text);
    }
    let threads = f64::from(report.configuration.threads.max(1));
    for phase in &report.phases {
        let busy = phase.cpu.client.map_or(0.0, |cpu| cpu.total_s() / (phase.duration_s.max(1e-9) * threads));
        if busy > SATURATED_SHARE {
            let text = format!(
                "Phase {}: the client's threads were busy {} of the time, so the figures may show the client's \
                 ceiling. Compare with `noop://`, add threads, or offer a fixed rate.",
                phase.name,
                figure::percent(busy.min(1.0))
            );
            add(list, Severity::Caution, text);
        }
        agents(report, phase, list);
        others(report, phase, list);
        stolen(report, phase, list);
        open_loop(phase, list);
    }
    over_budget(report, list);
}

/// An open loop offers what it offers, whether the store can do it or not.
fn open_loop(phase: &Phase, list: &mut Vec<Warning>) {
    if phase.not_started > 0 {
        let text = format!(
            "Phase {}: {} due before its end, and not started 5 s after it. Their latencies are missing in the figures.",
            phase.name,
            figure::plural(phase.not_started, "operation")
        );
        add(list, Severity::Caution, text);
    }
    if let Some(offered) = phase.offered_per_s.filter(|offered| phase.throughput_per_s < offered * KEPT_UP_SHARE) {
        let text = format!(
            "Phase {}: {} operations/s were offered and {} achieved. It fell behind, so latency from the intended \
             start grows with the length of the run.",
            phase.name,
            figure::rate(offered),
            figure::rate(phase.throughput_per_s)
        );
        add(list, Severity::Caution, text);
    }
}

/// Other processes that used the machine took that from the store, or from the client.
fn others(report: &RunReport, phase: &Phase, list: &mut Vec<Warning>) {
    let here = report.environment.link != Link::Network && phase.agents.iter().all(|agent| is_here(&agent.name));
    let cores = phase.cpu.others_s().filter(|_| here).map_or(0.0, |others| others / phase.duration_s.max(1e-9));
    if cores > f64::from(report.environment.cores.max(1)) * OTHERS_SHARE {
        let text = format!(
            "Phase {}: other processes, or the kernel for them, used {cores:.2} of this machine's {} meanwhile: the figures \
             are lower, and scatter more, than they would on a machine of one's own.",
            phase.name,
            figure::plural(u64::from(report.environment.cores), "core")
        );
        add(list, Severity::Caution, text);
    }
}

/// Other machines of the host took it from the store, or from the client.
fn stolen(report: &RunReport, phase: &Phase, list: &mut Vec<Warning>) {
    let share = phase.cpu.stolen_share(phase.duration_s, report.environment.cores);
    if share > CpuUse::STOLEN_SHARE_MAX {
        let text = format!(
            "Phase {}: this machine's host gave {} of its cores' time to other machines (steal time): the figures are lower, and \
             scatter more, than they would on a machine of one's own.",
            phase.name,
            figure::percent(share)
        );
        add(list, Severity::Caution, text);
    }
}

/// Whether an agent's address is of this machine.
fn is_here(address: &str) -> bool {
    ["127.", "localhost:", "[::1]"].iter().any(|here| address.starts_with(here))
}

/// Of several client processes, each is looked at: one that is too slow spoils the figures of all.
fn agents(report: &RunReport, phase: &Phase, list: &mut Vec<Warning>) {
    let ours = &report.identity.product_version;
    for agent in &phase.agents {
        if agent.version != *ours {
            let text = format!(
                "Phase {}: the client process at {} runs Basalt {}, and the coordinator {ours}: each release makes a load in its \
                 own way. Run the same version on all.",
                phase.name, agent.name, agent.version
            );
            add(list, Severity::Caution, text);
        }
        if let Some(why) = &agent.lost {
            let text = format!(
                "Phase {}: the client process at {} was lost ({why}). What it did is in no figure.",
                phase.name, agent.name
            );
            add(list, Severity::Failure, text);
        } else if agent.is_saturated() {
            let text = format!(
                "Phase {}: the client process at {} was busy {} of the time that its threads had, so the figures may show \
                 its own ceiling. Add agents, or threads.",
                phase.name,
                agent.name,
                figure::percent(agent.busy_share.unwrap_or(1.0).min(1.0))
            );
            add(list, Severity::Caution, text);
        }
    }
}

fn over_budget(report: &RunReport, list: &mut Vec<Warning>) {
    let Some(budget) = report.configuration.memory_budget_bytes else { return };
    // A node that came meanwhile brought a budget of its own.
    let asked_of = nodes_at_first(report);
    let grown = |phase: &Phase| asked_of.map_or(1.0, |first| (phase.nodes.len() as f64 / first).max(1.0));
    let peak = report.phases.iter().filter_map(|phase| Some((phase.peak_rss_bytes? as f64 / grown(phase)) as u64));
    let peak = peak.max().unwrap_or(0);
    if peak as f64 > budget as f64 * BUDGET_SLACK {
        let text = format!(
            "Peak memory {} is above {BUDGET_SLACK} times the budget of {}.",
            figure::bytes(peak),
            figure::bytes(budget)
        );
        add(list, Severity::Caution, text);
    }
}

/// How many nodes the store had when the run began: `3 on 4 nodes`.
fn nodes_at_first(report: &RunReport) -> Option<f64> {
    let (_, nodes) = report.configuration.replication.split_once(" on ")?;
    nodes.split(' ').next()?.parse().ok().filter(|count: &f64| *count > 0.0)
}
