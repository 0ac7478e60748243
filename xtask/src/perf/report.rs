//! What was measured, as Markdown for docs/PERFORMANCE.md or as JSON.

use super::bar::{Bar, Spread};
use super::ceiling::Ceiling;
use super::death::Death;
use super::findings::Findings;
use super::floor::Floor;
use super::machine::Machine;
use super::options::Options;
use serde_json::json;
use std::fmt::Write as _;

/// The machine, the tables, and the notes below them.
pub fn markdown(machine: &Machine, options: &Options, findings: &Findings) -> String {
    let mut text = format!("{}; {}.\n", machine.line(), runs(options));
    if !findings.bars.is_empty() {
        push_bars(&findings.bars, &mut text);
    }
    if !findings.floors.is_empty() {
        push_floors(&findings.floors, &mut text);
    }
    if !findings.ceilings.is_empty() {
        text += "\n| | bar | median (min–max) | |\n|-|-|-|-|\n";
        findings.ceilings.iter().for_each(|ceiling| text += &ceiling.row());
    }
    findings.deaths.iter().for_each(|death| text += &death.markdown());
    text
}

fn push_floors(floors: &[Floor], text: &mut String) {
    *text += "\n| | bar, 1/s per core | 1/s per core | 1/s | CPU, µs an operation (client; nodes) | p99, ms | |\n";
    *text += "|-|-|-|-|-|-|-|\n";
    for floor in floors {
        let shown = |figure, show: fn(Spread) -> String| floor.spread(figure).map(show).unwrap_or_default();
        let _ = writeln!(
            text,
            "| {} | ≥ {} | {} | {} | {}; {} | {} | {} |",
            floor.what,
            grouped(floor.at_least),
            shown(|run| run.per_core, rate),
            shown(|run| run.rate, rate),
            shown(|run| run.client_us_per_op, cpu),
            shown(|run| run.nodes_us_per_op, cpu),
            shown(|run| run.p99_ms, ratio),
            if floor.held() { "held" } else { "**missed**" },
        );
    }
}

fn push_bars(bars: &[Bar], text: &mut String) {
    *text += "\n| | bar | ratio | Basalt, 1/s | peer, 1/s | server CPU, µs an operation (Basalt; peer) | |\n";
    *text += "|-|-|-|-|-|-|-|\n";
    for bar in bars {
        let (ours, theirs) = bar.rates().map_or_else(Default::default, |(ours, theirs)| (rate(ours), rate(theirs)));
        let (our_cpu, their_cpu) = bar.cpus();
        let (our_cpu, their_cpu) = (our_cpu.map_or("–".into(), cpu), their_cpu.map_or("–".into(), cpu));
        let _ = writeln!(
            text,
            "| {}; against {} | ≥ {:?} × | {} | {ours} | {theirs} | {our_cpu}; {their_cpu} | {} |",
            bar.what,
            bar.against,
            bar.at_least,
            bar.ratios().map(ratio).unwrap_or_default(),
            if bar.held() { "held" } else { "**missed**" },
        );
    }
    text.push('\n');
    for bar in bars.iter().filter(|bar| !bar.notes.is_empty()) {
        let _ = writeln!(text, "- {}: {}.", bar.what, bar.notes.join("; "));
    }
}

/// Every run of every bar.
pub fn json(machine: &Machine, options: &Options, findings: &Findings) -> String {
    let bars: Vec<_> = findings.bars.iter().map(Bar::json).collect();
    let floors: Vec<_> = findings.floors.iter().map(Floor::json).collect();
    let deaths: Vec<_> = findings.deaths.iter().map(Death::json).collect();
    let ceilings: Vec<_> = findings.ceilings.iter().map(Ceiling::json).collect();
    let (machine, runs, quick) = (machine.line(), options.runs, options.quick);
    format!(
        "{:#}",
        json!({ "machine": machine, "runs": runs, "quick": quick, "bars": bars, "floors": floors, "deaths": deaths,
            "ceilings": ceilings })
    )
}

fn runs(options: &Options) -> String {
    let quick = if options.quick { ", **quick: the figures mean nothing**" } else { "" };
    format!("{} alternating runs of each side, median (min–max){quick}", options.runs)
}

fn ratio(spread: Spread) -> String {
    format!("{:.2} ({:.2}–{:.2})", spread.median, spread.min, spread.max)
}

fn cpu(spread: Spread) -> String {
    format!("{:.2}", spread.median)
}

fn rate(spread: Spread) -> String {
    format!("{} ({}–{})", grouped(spread.median), grouped(spread.min), grouped(spread.max))
}

/// 1234567.8 as 1,234,568.
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::bar::Sample;
    use crate::perf::phase::Phase;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0.0, "0"), (999.0, "999"), (1000.0, "1,000"), (1_234_567.8, "1,234,568")] {
            assert_eq!(grouped(number), text);
        }
    }

    fn machine() -> Machine {
        let (processor, kernel) = ("a processor".into(), "6".into());
        Machine { processor, cores: 2, memory_bytes: 1 << 30, kernel, stolen_percent: 1.25 }
    }

    #[test]
    fn a_row_says_all_of_a_floor() {
        let phase =
            Phase { rate: 60_000.0, per_core: 31_000.0, client_us_per_op: 4.0, nodes_us_per_op: 28.26, p99_ms: 2.5 };
        let floor = Floor::measure("reads", 52_000.0, 1, || Ok(phase)).unwrap();
        let machine = machine();
        let findings = Findings { floors: vec![floor], ..Findings::default() };
        let text = markdown(&machine, &Options { runs: 1, ..Options::default() }, &findings);
        let row = "| reads | ≥ 52,000 | 31,000 (31,000–31,000) | 60,000 (60,000–60,000) | 4.00; 28.26 \
                   | 2.50 (2.50–2.50) | **missed** |\n";
        assert!(text.ends_with(row), "{text}");
        assert!(!text.contains("peer"), "no table without rows: {text}");
    }

    #[test]
    fn a_row_says_all_of_a_bar() {
        let sample = |rate| Ok(Sample { rate, cpu_us_per_op: Some(2.5) });
        let mut bar = Bar::new("GET", "redis-server", 1.0).alternate(1, || sample(1500.0), || sample(1000.0)).unwrap();
        bar.notes.push("noted".to_owned());
        let machine = machine();
        let text = markdown(&machine, &Options { runs: 1, ..Options::default() }, &vec![bar].into());
        let row = "| GET; against redis-server | ≥ 1.0 × | 1.50 (1.50–1.50) | 1,500 (1,500–1,500) | 1,000 (1,000–1,000) \
                   | 2.50; 2.50 | held |\n";
        assert!(text.contains(row), "{text}");
        assert!(text.ends_with("\n- GET: noted.\n"), "{text}");
        assert!(
            text.starts_with("a processor, 2 cores (1.2 % of their time given to other machines), 1 GiB, Linux 6; "),
            "{text}"
        );
    }
}
