//! The sections about commands and errors.

use super::section::{Facts, Lines};

pub(super) fn commandstats(facts: &Facts<'_>, lines: &mut Lines) {
    for (spec, totals) in facts.host.stats().commands() {
        let (calls, us) = (totals.calls(), totals.ns as f64 / 1000.0);
        let each = if calls == 0 { 0.0 } else { us / calls as f64 };
        lines.add(
            &format!("cmdstat_{}", spec.shown_name()),
            format_args!(
                "calls={calls},usec={us:.0},usec_per_call={each:.2},rejected_calls={},failed_calls={}",
                totals.rejected, totals.failed
            ),
        );
    }
}

pub(super) fn errorstats(facts: &Facts<'_>, lines: &mut Lines) {
    for (code, count) in facts.host.stats().errors() {
        lines.add(&format!("errorstat_{code}"), format_args!("count={count}"));
    }
}

/// The percentiles of the setting `latency-tracking-info-percentiles`.
pub(super) fn latencystats(facts: &Facts<'_>, lines: &mut Lines) {
    let config = facts.host.config();
    if !config.latency_tracking() {
        return;
    }
    let percentiles = config.text("latency-tracking-info-percentiles").unwrap_or_default();
    let percentiles: Vec<(&str, f64)> =
        percentiles.split_whitespace().filter_map(|word| Some((word, word.parse().ok()?))).collect();
    for (spec, totals) in facts.host.stats().commands().filter(|(_, totals)| totals.latency.count() > 0) {
        let figures: Vec<String> = percentiles
            .iter()
            .map(|(name, percentile)| {
                format!("p{name}={:.3}", totals.latency.percentile_ns(*percentile) as f64 / 1000.0)
            })
            .collect();
        lines.add(&format!("latency_percentiles_usec_{}", spec.shown_name()), figures.join(","));
    }
}
