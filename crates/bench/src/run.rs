//! A run of several phases on one store, put together by the caller: one progress, one report.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::driver::{HistogramLog, PhasePlan, Snapshot, run_phase};
use crate::model::{Phase, RunOutcome, RunReport};
use crate::options::{Format, OutputOptions};
use crate::phase::assemble::{Drive, begin, configuration, finish, notes};
use crate::phase::status::StatusReporter;
use crate::program::Program;
use crate::report::{Claimed, Progress, default_dir};
use crate::target::Target;
use crate::workload::{Config, Properties, Workload};

/// A run under way.
pub struct Run<'a> {
    program: &'a Program<'a>,
    output: &'a OutputOptions,
    target: &'a dyn Target,
    report: RunReport,
    logs: Vec<(String, HistogramLog)>,
    folder: Claimed,
}

impl<'a> Run<'a> {
    /// Begins a run of that name; `config`, `properties` and `drive` are what its phases share. Its folder is the one
    /// that `output` names, or one of its own.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn begin(
        name: &str,
        (config, properties): (&Config, &Properties),
        drive: &Drive<'_>,
        target: &'a dyn Target,
        output: &'a OutputOptions,
        program: &'a Program<'a>,
    ) -> io::Result<Self> {
        let asked = configuration(config, properties, target, drive);
        let mut report = begin(name, output.seed, program, target, asked);
        report.notes = notes(config);
        let folder = Claimed::make(&output.out.clone().unwrap_or_else(|| default_dir(&report.identity)))?;
        Ok(Self { program, output, target, report, logs: Vec::new(), folder })
    }

    /// What is known by now.
    #[must_use]
    pub fn report(&self) -> &RunReport {
        &self.report
    }

    /// What the report is to say besides.
    pub fn report_mut(&mut self) -> &mut RunReport {
        &mut self.report
    }

    /// Runs a phase, of which `watch` sees what everybody sees. What it measured; none if it could not go on.
    pub fn phase(
        &mut self,
        plan: &PhasePlan,
        workload: &Arc<Workload>,
        watch: &mut dyn FnMut(&Snapshot),
    ) -> Option<&Phase> {
        let silent = self.output.quiet || self.output.format == Format::Ycsb;
        let progress = if silent { Progress::silent() } else { Progress::new() };
        let mut status = StatusReporter::progress(progress, plan);
        let mut on_progress = |snapshot: Snapshot| {
            watch(&snapshot);
            status.show(snapshot);
        };
        let measured = match run_phase(plan, self.target, workload, self.program.stop, &mut on_progress) {
            Ok((phase, log)) => {
                status.finish(&phase);
                self.logs.push((plan.name.clone(), log));
                self.report.phases.push(phase);
                true
            }
            Err(failure) => {
                drop(status);
                crate::note!("basalt: {}", failure.error);
                self.report.outcome = RunOutcome::Failed;
                self.report.notes.push(format!("Phase {} could not go on: {}.", plan.name, failure.error));
                self.report.phases.extend(failure.phase.map(|phase| *phase));
                false
            }
        };
        if self.program.stop.load(Ordering::Relaxed) {
            self.report.outcome = RunOutcome::Interrupted;
        }
        self.report.phases.last().filter(|_| measured)
    }

    /// Whether it can go on: nothing has failed, and it was not told to end.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.report.outcome == RunOutcome::Completed
    }

    /// Writes the report and shows it. True when all went well.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self) -> io::Result<bool> {
        finish(&self.report, &self.logs, self.output, Some(&self.folder))
    }
}
