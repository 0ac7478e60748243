//! What was measured, behind the rows that were printed as they came, or as JSON.

use super::bar::Bar;
use super::ceiling::Ceiling;
use super::death::Death;
use super::findings::Findings;
use super::floor::Floor;
use super::machine::Machine;
use super::options::Options;
use serde_json::json;
use std::fmt::Write as _;

/// The machine, and the notes about rows.
pub fn closing(machine: &Machine, options: &Options, findings: &Findings) -> String {
    let mut text = format!("\n{}; {}.\n", machine.line(), runs(options));
    for bar in findings.bars.iter().filter(|bar| !bar.notes.is_empty()) {
        let _ = writeln!(text, "- {}: {}.", bar.what, bar.notes.join("; "));
    }
    text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_names_the_machine_and_what_to_know() {
        let (processor, kernel) = ("a processor".into(), "6".into());
        let machine = Machine { processor, cores: 2, memory_bytes: 1 << 30, kernel, stolen_percent: 1.25 };
        let mut bar = Bar::new("GET", "redis-server", 1.0);
        bar.notes.push("noted".to_owned());
        let text = closing(&machine, &Options { runs: 1, ..Options::default() }, &vec![bar].into());
        let head = "\na processor, 2 cores (1.2 % of their time given to other machines), 1 GiB, Linux 6; ";
        assert!(text.starts_with(head), "{text}");
        assert!(text.ends_with("\n- GET: noted.\n"), "{text}");
    }
}
