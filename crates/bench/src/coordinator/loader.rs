//! The loader of a phase: this process, or several agents.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::agents::Agents;
use super::options::LoaderOptions;
use super::phase_run::phase_run;
use super::spawn::Spawned;
use crate::agent::{Job, Share, read_secret};
use crate::driver::{PhasePlan, PhaseResult, Snapshot, run_phase};
use crate::options::PhaseOptions;
use crate::phase::open_target::with_target;
use crate::program::Program;
use crate::target::Target;
use crate::trouble::Trouble;
use crate::workload::{Config, Properties, Workload};

/// A target, and who loads it.
pub(crate) struct Loader<'a> {
    target: &'a dyn Target,
    agents: Option<RefCell<Agents>>,
    options: &'a PhaseOptions,
    /// The number of threads of each process.
    threads: Option<usize>,
}

impl Loader<'_> {
    /// What is loaded.
    pub(crate) fn target(&self) -> &dyn Target {
        self.target
    }

    /// Runs a phase, here or with the agents.
    pub(crate) fn run_phase(
        &self,
        plan: &PhasePlan,
        properties: &Properties,
        workload: &Arc<Workload>,
        stop: &AtomicBool,
        on_progress: &mut dyn FnMut(Snapshot),
    ) -> PhaseResult {
        let Some(agents) = &self.agents else { return run_phase(plan, self.target, workload, stop, on_progress) };
        let mut agents = agents.borrow_mut();
        let of = agents.links.len();
        let job = |index| Job::of(plan, workload.task(), self.options, properties, self.threads, Share { index, of });
        let jobs = (0..of).map(job).collect();
        let percentiles = workload.config.percentiles.as_slice();
        phase_run(&mut agents, self.target, (plan, percentiles), jobs, stop, on_progress)
    }
}

/// Opens the target, and gathers the agents if any are asked for, for as long as `then` takes.
pub(crate) fn with_loader<T>(
    options: &PhaseOptions,
    loader: &LoaderOptions,
    properties: &Properties,
    config: &Config,
    program: &Program<'_>,
    then: &mut dyn FnMut(&Loader<'_>) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    if !loader.is_asked() {
        return with_target(options, properties, config, program, &mut |target| {
            then(&Loader { target, agents: None, options, threads: None })
        });
    }
    loader.check(options, properties, config).map_err(Trouble::Usage)?;
    let spawned = loader.processes.map(Spawned::start).transpose()?;
    let (names, secret) = match &spawned {
        Some(spawned) => (spawned.addresses.clone(), spawned.secret.clone()),
        None => (loader.agents.clone(), read_secret(loader.secret_file.as_deref()).map_err(Trouble::Usage)?),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // Processes of one machine share its cores; an agent elsewhere knows its own.
    let threads = options.threads.or(spawned.is_some().then(|| (cores / names.len()).max(1)));
    let mut plain = options.clone();
    // What the coordinator has read, and where its report goes, is not the agents' affair.
    (plain.files, plain.properties, plain.output.out) = (Vec::new(), Vec::new(), None);
    with_target(options, properties, config, program, &mut |target| {
        let agents = Agents::gather(&names, &secret, program.version)?;
        then(&Loader { target, agents: Some(RefCell::new(agents)), options: &plain, threads })
    })
}
