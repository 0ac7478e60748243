//! Clients that only read, a few hundred times a second: whether they can is the question when a node dies. Those of
//! the workload cannot tell, for each of them soon waits for a write that no leader can take yet.

use bench::driver::{EventLog, Limit, OnlyErrors, Pace, PhasePlan, run_phase};
use bench::model::Phase;
use bench::target::Target;
use bench::workload::Workload;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

const CLIENTS: usize = 4;
const PER_S: f64 = 400.0;

/// The readers at work.
pub struct Readers<'scope> {
    stop: Arc<AtomicBool>,
    thread: ScopedJoinHandle<'scope, Result<Phase, String>>,
}

impl<'scope> Readers<'scope> {
    /// Begins to read what `workload` reads.
    pub fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        target: &'env dyn Target,
        workload: &'env Arc<Workload>,
        seed: u64,
    ) -> Self {
        let plan = PhasePlan {
            name: "readers".to_owned(),
            title: "reads only".to_owned(),
            clients: CLIENTS,
            depth: 1,
            threads: 1,
            pace: Pace::Throttled { target_per_s: PER_S },
            warm_up: None,
            measure: Limit::default(),
            seed,
            keeps_log: false,
            events: EventLog::default(),
            only_errors: OnlyErrors::EndUnlessUnavailable,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let thread = scope.spawn({
            let stop = stop.clone();
            move || match run_phase(&plan, target, workload, &stop, &mut |_| {}) {
                Ok((phase, _)) => Ok(phase),
                Err(failure) => Err(failure.error.to_string()),
            }
        });
        Self { stop, thread }
    }

    /// Ends, and tells how it went.
    pub fn finish(self) -> Result<Phase, String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
