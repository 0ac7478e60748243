//! A comparison on the terminal.

use super::figures::Kind;
use super::verdict::{Against, Change, Comparison, Shown, Verdict};
use crate::figure;
use crate::report::Paint;

/// The whole text, ending in a newline.
pub(super) fn render(comparison: &Comparison, paint: Paint) -> String {
    let runs = |count: usize| figure::plural(count as u64, "run");
    let mut out = format!("\nA  {}  ({})\n", comparison.baseline, runs(comparison.baseline_runs));
    for side in &comparison.sides {
        out.push_str(&format!("{}  {}  ({})\n", side.side, side.given, runs(side.runs)));
        for difference in &side.differences {
            out.push_str(&format!("   {}\n", paint.with("2", difference)));
        }
    }
    for caution in &comparison.cautions {
        out.push_str(&format!("{} {caution}\n", paint.with("33", "caution")));
    }
    for side in &comparison.sides {
        table(&mut out, side, comparison, paint);
    }
    for side in &comparison.sides {
        out.push('\n');
        for fault in &side.faults {
            out.push_str(&format!("{}\n", paint.with("1;31", fault)));
        }
        for (index, sentence) in side.summary.iter().enumerate() {
            let code = if index > 0 {
                "0"
            } else if side.is_worse {
                "1;31"
            } else {
                "1;32"
            };
            out.push_str(&format!("{}\n", paint.with(code, sentence)));
        }
    }
    out.push_str(&format!(
        "\n{}\n",
        paint.with(
            "2",
            &format!(
                "Bounds are of {} % each. Worse or better: beyond noise at {} % for all questions together (Holm), and by \
                 {} % at least. CPU, disk, memory and gaps do not decide. `--help` tells the method.",
                comparison.confidence * 100.0,
                comparison.confidence * 100.0,
                comparison.matters_percent
            )
        )
    ));
    out
}

fn table(out: &mut String, side: &Against, comparison: &Comparison, paint: Paint) {
    let mut phase = "";
    for change in &side.changes {
        if change.phase != phase {
            phase = &change.phase;
            let range = format!("{} % range", comparison.confidence * 100.0);
            let head = format!(
                "{:<18} {:<9} {:>27} {:>27} {:>9} {:>18}",
                format!("phase {phase}"),
                "",
                "A",
                side.side,
                "change",
                range
            );
            out.push_str(&format!("\n{}\n", paint.with("1", &head)));
        }
        // Nothing failed on either side, or it is not known: nothing to say.
        let nothing = |shown: &Shown| shown.value.is_none_or(|value| value == 0.0);
        let quiet = change.kind == Kind::Failures && nothing(&change.before) && nothing(&change.after);
        if !quiet {
            out.push_str(&line(change, paint));
        }
    }
}

fn line(change: &Change, paint: Paint) -> String {
    let code = match change.verdict {
        Verdict::Better => "32",
        Verdict::Worse => "1;31",
        _ => "2",
    };
    let mut words = change.verdict.words().to_owned();
    if let Some(why) = change.why {
        words.push_str(&format!(": {why}"));
    }
    let percent = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{:+.1} %", value * 100.0));
    let range = match (change.change_low, change.change_high) {
        (Some(low), Some(high)) => format!("{:+.1} … {:+.1}", low * 100.0, high * 100.0),
        (Some(low), None) => format!("{:+.1} … ?", low * 100.0),
        (None, Some(high)) => format!("? … {:+.1}", high * 100.0),
        (None, None) => String::new(),
    };
    format!(
        "{:<18} {:<9} {:>27} {:>27} {:>9} {:>18}  {}\n",
        change.op,
        change.figure,
        side(change.kind, &change.before),
        side(change.kind, &change.after),
        percent(change.change),
        range,
        paint.with(code, &words)
    )
}

fn side(kind: Kind, shown: &Shown) -> String {
    let Some(value) = shown.value else { return "–".to_owned() };
    let text = |value: f64| match kind {
        Kind::Throughput => figure::rate(value),
        Kind::Latency => figure::latency(value),
        Kind::Failures => format!("{:.3} %", value * 100.0),
        Kind::Cpu => figure::cpu_seconds(value),
        Kind::Bytes => figure::bytes(value.round() as u64),
        Kind::Gap => format!("{value:.2} s"),
    };
    // The unit stands once, behind the value; its bounds are in the same unit, as shares of it.
    match (shown.low, shown.high) {
        (Some(low), Some(high)) if value > 0.0 && kind != Kind::Failures => {
            format!("{} (−{:.1} +{:.1} %)", text(value), (1.0 - low / value) * 100.0, (high / value - 1.0) * 100.0)
        }
        _ => text(value),
    }
}
