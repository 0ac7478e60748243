//! What the store's nodes use and do while a phase runs, second by second, on the phase's own axis.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::machine::cores::CoreTime;
use crate::machine::usage::{DeviceTraffic, ProcessTraffic};
use crate::model::{MetricPoint, MetricSeries};
use crate::target::{InfoFields, Target};

/// The time between two samples.
const EVERY: Duration = Duration::from_secs(1);
/// In a longer phase, in seconds, samples become rarer: a chart shows no more points.
const POINTS_MAX: usize = 4000;
/// The line of the client.
const CLIENT: &str = "client";
/// The line of steal time.
const HOST: &str = "this machine's host";

/// How a figure of INFO is drawn.
enum Kind {
    /// The value itself.
    Level,
    /// Its growth a second.
    Growth,
}

/// Figures of INFO that are worth a chart, as they are called there and in reports.
const TOLD: [(&str, &str, &str, Kind); 12] = [
    ("total_net_input_bytes", "network in", "bytes/s", Kind::Growth),
    ("total_net_output_bytes", "network out", "bytes/s", Kind::Growth),
    ("shards_leading", "leaders", "", Kind::Level),
    ("shards", "replicas", "", Kind::Level),
    ("tree_bytes", "data in trees", "bytes", Kind::Level),
    ("log_bytes", "log", "bytes", Kind::Level),
    ("memtable_bytes", "memtables", "bytes", Kind::Level),
    ("log_entries_unapplied", "entries not yet applied", "", Kind::Level),
    ("debt_max", "debt of flushes and compactions", "", Kind::Level),
    ("compactions_running", "compactions under way", "", Kind::Level),
    ("flushes_running", "flushes under way", "", Kind::Level),
    ("cache_misses", "row cache misses", "/s", Kind::Growth),
];

/// Takes samples.
pub(super) struct Sampler {
    start: Instant,
    series: Vec<MetricSeries>,
    places: HashMap<(&'static str, String), usize>,
    /// Growing figures as of the last sample: by series, the time and the value.
    before: HashMap<(&'static str, String), (f64, f64)>,
}

impl Sampler {
    /// For a phase that began at `start`.
    pub(super) fn new(start: Instant) -> Self {
        Self { start, series: Vec::new(), places: HashMap::new(), before: HashMap::new() }
    }

    /// Samples `target` until `ended` is closed. Answers the series.
    pub(super) fn watch(mut self, target: &dyn Target, ended: &Receiver<()>) -> Vec<MetricSeries> {
        let mut looks = 0;
        loop {
            self.look(target);
            looks += 1;
            let pause = EVERY * u32::try_from(looks / POINTS_MAX + 1).unwrap_or(u32::MAX);
            if !matches!(ended.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                return self.finish();
            }
        }
    }

    fn look(&mut self, target: &dyn Target) {
        let own = (CLIENT.to_owned(), std::process::id());
        for (node, process) in target.processes().into_iter().chain([own]) {
            let Some(traffic) = ProcessTraffic::of(process) else { continue };
            let at = self.start.elapsed().as_secs_f64();
            // A node that was started again is another process, whose counters begin anew.
            let key = |node: &str| format!("{node}#{process}");
            self.growth(("CPU", "cores"), &node, &key(&node), at, traffic.cpu_s);
            self.level(("memory", "bytes"), &node, at, traffic.rss_bytes as f64);
            for (name, bytes) in [("disk reads", traffic.read_bytes), ("disk writes", traffic.written_bytes)] {
                if let Some(bytes) = bytes.filter(|_| node != CLIENT) {
                    self.growth((name, "bytes/s"), &node, &key(&node), at, bytes as f64);
                }
            }
        }
        for (node, told) in target.node_infos() {
            self.told(&node, &told);
        }
        if let Some(time) = CoreTime::of_ours() {
            let at = self.start.elapsed().as_secs_f64();
            self.growth(("CPU given to other machines", "cores"), HOST, HOST, at, time.stolen_s());
        }
        if let Some(device) = target.data_dir().and_then(DeviceTraffic::below) {
            let at = self.start.elapsed().as_secs_f64();
            let name = format!("{} (of all processes)", device.name);
            self.growth(("device reads", "/s"), &name, &name, at, device.reads);
            self.growth(("device writes", "/s"), &name, &name, at, device.writes);
            self.growth(("device busy", "%"), &name, &name, at, device.busy_s * 100.0);
        }
    }

    fn told(&mut self, node: &str, told: &InfoFields) {
        let at = self.start.elapsed().as_secs_f64();
        let process = told.get("run_id").map_or("", String::as_str);
        for (field, name, unit, kind) in &TOLD {
            let Some(value) = told.get(*field).and_then(|text| text.parse::<f64>().ok()) else { continue };
            match kind {
                Kind::Level => self.level((*name, *unit), node, at, value),
                Kind::Growth => self.growth((*name, *unit), node, &format!("{node}#{process}"), at, value),
            }
        }
    }

    fn level(&mut self, (name, unit): (&'static str, &'static str), node: &str, t_s: f64, value: f64) {
        if !value.is_finite() {
            return;
        }
        let series = &mut self.series;
        let place = *self.places.entry((name, node.to_owned())).or_insert_with(|| {
            let node = Some(node.to_owned());
            series.push(MetricSeries { name: name.to_owned(), unit: unit.to_owned(), node, points: Vec::new() });
            series.len() - 1
        });
        self.series[place].points.push(MetricPoint { t_s, value });
    }

    fn growth(&mut self, what: (&'static str, &'static str), node: &str, key: &str, t_s: f64, value: f64) {
        let before = self.before.insert((what.0, key.to_owned()), (t_s, value));
        if let Some((then, was)) = before.filter(|(then, was)| t_s > *then && value >= *was) {
            self.level(what, node, t_s, (value - was) / (t_s - then));
        }
    }

    /// Charts that never show anything but zero are left out.
    fn finish(self) -> Vec<MetricSeries> {
        let Self { series, .. } = self;
        let speaks = |name: &str| {
            let of_name = series.iter().filter(|series| series.name == name);
            of_name.flat_map(|series| &series.points).any(|point| point.value != 0.0)
        };
        let kept: Vec<bool> = series.iter().map(|series| speaks(&series.name)).collect();
        let mut found: Vec<MetricSeries> =
            series.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(series, _)| series).collect();
        let order: Vec<String> = found.iter().map(|series| series.name.clone()).collect();
        found.sort_by_key(|series| order.iter().position(|name| *name == series.name));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_a_rate_and_a_new_process_begins_anew() {
        let mut sampler = Sampler::new(Instant::now());
        let rate = ("network in", "bytes/s");
        for (key, t_s, value) in [("a#1", 0.0, 100.0), ("a#1", 2.0, 300.0), ("a#2", 3.0, 10.0), ("a#2", 4.0, 60.0)] {
            sampler.growth(rate, "a", key, t_s, value);
        }
        sampler.level(("leaders", ""), "a", 1.0, 0.0);
        let series = sampler.finish();
        let points: Vec<_> = series[0].points.iter().map(|point| (point.t_s, point.value)).collect();
        assert_eq!((series.len(), points), (1, vec![(2.0, 100.0), (4.0, 50.0)]));
    }
}
