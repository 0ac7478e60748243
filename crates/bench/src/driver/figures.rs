//! The figures of a phase, from what one process measured or from what several did: the same way.

use std::time::{Instant, SystemTime};

use super::plan::PhasePlan;
use super::recorder::Recorder;
use super::timeline::{HistogramLog, Timeline};
use crate::date::{rfc3339, unix_ms};
use crate::machine::cores::CoreTime;
use crate::machine::usage::{ProcessUsage, cpu_between};
use crate::model::{CpuTime, CpuUse, MetricSeries, NodeUsage, OpStats, Phase};
use crate::target::{Target, TargetUsage};

/// What is read before and after the measured part.
pub struct Reading {
    pub(super) at: Instant,
    pub(super) wall: SystemTime,
    own: Option<ProcessUsage>,
    /// CPU time of what does a part of the client's work beside this process.
    aside: Option<CpuTime>,
    target: TargetUsage,
    machine: Option<CoreTime>,
}

impl Reading {
    /// At the beginning of the measured part. The bench looks at the store first, which may take long: the time and the
    /// CPU time of that are no part of what is measured.
    #[must_use]
    pub fn opening(target: &dyn Target) -> Self {
        let usage = target.usage();
        Self { target: usage, ..Self::of_client(target) }
    }

    /// After the measured part. The bench looks at the store last, for the same reason.
    #[must_use]
    pub fn closing(target: &dyn Target) -> Self {
        let own = Self::of_client(target);
        Self { target: target.usage(), ..own }
    }

    /// What the client has used, without a look at the store. The time is taken last.
    #[must_use]
    pub fn of_client(target: &dyn Target) -> Self {
        let own = ProcessUsage::own();
        let aside = target.client_cpu();
        let machine = CoreTime::of_ours();
        Self { at: Instant::now(), wall: SystemTime::now(), own, aside, target: TargetUsage::default(), machine }
    }

    /// The CPU time of this process, and of what helps it, since an earlier one.
    #[must_use]
    pub fn own_since(&self, before: &Self) -> Option<CpuTime> {
        let own = cpu_between(before.own?.cpu, self.own?.cpu);
        let between = |before: Option<_>, after: Option<_>| Some(cpu_between(before?, after?));
        let aside = between(before.aside, self.aside).unwrap_or_default();
        Some(CpuTime { user_s: own.user_s + aside.user_s, system_s: own.system_s + aside.system_s })
    }

    /// The same reading, said to be of another moment: when the processes that it is about began, not when it was taken.
    #[must_use]
    pub fn moved_to(mut self, at: Instant) -> Self {
        self.wall = if at < self.at { self.wall - (self.at - at) } else { self.wall + (at - self.at) };
        self.at = at;
        self
    }
}

/// What was measured of a phase, by one process or several.
pub(super) struct Measured {
    pub(super) recorder: Recorder,
    /// When the phase began, its warm-up included.
    pub(super) start: Instant,
    pub(super) before: Reading,
    pub(super) after: Reading,
    /// When the last operation ended.
    pub(super) end: Instant,
    /// The CPU time of all processes that made the load.
    pub(super) client_cpu: Option<CpuTime>,
    /// Whether client and store share a process.
    pub(super) in_process: bool,
    /// What the store's nodes used and did meanwhile.
    pub(super) metrics: Vec<MetricSeries>,
    /// Percentiles that are asked for.
    pub(super) percentiles: Vec<f64>,
}

/// The figures, and each second's histograms.
pub(super) fn figures(plan: &PhasePlan, measured: Measured, timeline: &mut Timeline) -> (Phase, HistogramLog) {
    let Measured { recorder, start, before, after, end, client_cpu, in_process, metrics, percentiles } = measured;
    let duration = end.saturating_duration_since(before.at);
    let phase_length = end.saturating_duration_since(start);
    let warm_up = before.at.saturating_duration_since(start);
    let gaps = recorder.longest_gaps(warm_up, phase_length);
    let not_started = recorder.not_started_count();
    let ops = recorder.stats(&percentiles);
    let operations = ops.iter().filter(|op| op.op != "CLEANUP").map(|op| op.count() - op.parts).sum::<u64>();
    let failed: u64 = ops.iter().map(OpStats::failed_wholes).sum();
    let seconds = duration.as_secs_f64();
    let (series, log) = timeline.finish(phase_length);
    let machine = before.machine.zip(after.machine);
    let between = |before: Option<_>, after: Option<_>| Some(cpu_between(before?, after?));
    let phase = Phase {
        name: plan.name.clone(),
        title: plan.title.clone(),
        started_at: rfc3339(unix_ms(before.wall)),
        ended_at: rfc3339(unix_ms(before.wall + duration)),
        warm_up_s: if plan.warm_up.is_some() { warm_up.as_secs_f64() } else { 0.0 },
        duration_s: seconds,
        operations,
        throughput_per_s: if seconds > 0.0 { operations.saturating_sub(failed) as f64 / seconds } else { 0.0 },
        offered_per_s: plan.pace.offered_per_s(),
        not_started,
        ops,
        cpu: CpuUse {
            client: client_cpu.filter(|_| !in_process),
            server: between(before.target.server_cpu, after.target.server_cpu).filter(|_| !in_process),
            process: client_cpu.filter(|_| in_process),
            machine_s: machine.map(|(before, after)| after.busy_s_since(before)),
            stolen_s: machine.map(|(before, after)| after.stolen_s_since(before)),
        },
        disk_bytes: after.target.disk_bytes,
        peak_rss_bytes: if in_process {
            after.own.and_then(|own| own.peak_rss_bytes)
        } else {
            after.target.peak_rss_bytes
        },
        nodes: nodes(&before, &after),
        read_gap_s_max: gaps.0.map(|gap| gap.as_secs_f64()),
        write_gap_s_max: gaps.1.map(|gap| gap.as_secs_f64()),
        series,
        metrics,
        events: plan.events.of_phase(start, phase_length),
        ..Phase::default()
    };
    (phase, HistogramLog { started: before.wall - warm_up, seconds: log })
}

/// What each node used between two readings. One that came later has used all it has.
fn nodes(before: &Reading, after: &Reading) -> Vec<NodeUsage> {
    let nodes = after.target.nodes.iter().map(|node| {
        let known = before.target.nodes.iter().find(|other| other.name == node.name).and_then(|other| other.cpu);
        NodeUsage {
            name: node.name.clone(),
            cpu: node.cpu.map(|cpu| cpu_between(known.unwrap_or_default(), cpu)),
            peak_rss_bytes: node.peak_rss_bytes,
            disk_bytes: node.disk_bytes,
        }
    });
    nodes.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::target::{Lanes, Session, TargetFacts};
    use crate::workload::Workload;

    /// A store that takes time to be looked at, and notes from when to when that was.
    #[derive(Default)]
    struct SlowToLookAt(Mutex<Option<(Instant, Instant)>>);

    impl Target for SlowToLookAt {
        fn name(&self) -> String {
            String::new()
        }

        fn in_process(&self) -> bool {
            false
        }

        fn facts(&self) -> TargetFacts {
            TargetFacts::default()
        }

        fn usage(&self) -> TargetUsage {
            let from = Instant::now();
            // The clock may be coarse: the look takes at least one of its steps.
            let to = std::iter::repeat_with(Instant::now).find(|now| *now > from).unwrap();
            *self.0.lock().unwrap() = Some((from, to));
            TargetUsage { disk_bytes: Some(7), ..TargetUsage::default() }
        }

        fn open(&self, _: &Arc<Workload>, _: Lanes) -> io::Result<Box<dyn Session>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    #[test]
    fn a_look_at_the_store_is_outside_what_is_measured() {
        let target = SlowToLookAt::default();
        let before = Reading::opening(&target);
        let (_, looked_until) = target.0.lock().unwrap().take().unwrap();
        assert!(before.at >= looked_until);
        let after = Reading::closing(&target);
        let (looked_from, _) = target.0.lock().unwrap().take().unwrap();
        assert!(after.at <= looked_from);
        assert_eq!((before.target.disk_bytes, after.target.disk_bytes), (Some(7), Some(7)));
        assert_eq!(Reading::of_client(&target).target, TargetUsage::default());
        assert!(target.0.lock().unwrap().is_none(), "the store was looked at");
    }
}
