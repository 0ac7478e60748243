//! The text format of Prometheus, version 0.0.4.

use super::table::{Kind, Metric};
use std::fmt::Write;

/// Figures on their way to a scraper: metric after metric, the samples of each together.
#[derive(Default)]
pub(super) struct Exposition {
    text: String,
    metric: Option<&'static Metric>,
}

impl Exposition {
    /// The samples that follow are of this metric.
    pub(super) fn begin(&mut self, metric: &'static Metric) {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.text += &format!("# HELP {} {}\n# TYPE {} {kind}\n", metric.name, metric.help, metric.name);
        self.metric = Some(metric);
    }

    /// A metric with one sample and no labels.
    pub(super) fn one(&mut self, metric: &'static Metric, value: f64) {
        self.begin(metric);
        self.sample(&[], value);
    }

    /// Writes the figure if it is known.
    pub(super) fn known(&mut self, metric: &'static Metric, value: Option<f64>) {
        if let Some(value) = value {
            self.one(metric, value);
        }
    }

    /// A sample of the metric that was begun.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.line("", labels, value);
    }

    /// A histogram: upper bounds with how many samples do not exceed them, the number of samples, and their sum.
    pub(super) fn histogram(&mut self, labels: &[(&str, &str)], buckets: &[(f64, u64)], count: u64, sum: f64) {
        for (bound, below) in buckets {
            let bound = bound.to_string();
            let mut labels = labels.to_vec();
            labels.push(("le", &bound));
            self.line("_bucket", &labels, *below as f64);
        }
        let mut all = labels.to_vec();
        all.push(("le", "+Inf"));
        self.line("_bucket", &all, count as f64);
        self.line("_sum", labels, sum);
        self.line("_count", labels, count as f64);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) {
        let name = self.metric.expect("a metric is begun before its samples").name;
        self.text += name;
        self.text += suffix;
        for (at, (label, value)) in labels.iter().enumerate() {
            let before = if at == 0 { "{" } else { "," };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            // Writing to a string does not fail.
            let _ = write!(self.text, "{before}{label}=\"{value}\"");
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}
