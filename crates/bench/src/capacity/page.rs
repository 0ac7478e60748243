//! A model on the terminal.

use super::prediction::{Model, Prediction};
use super::scalability::Scalability;
use crate::figure;
use crate::report::Paint;

/// The whole text, ending in a newline.
pub(super) fn render(model: &Model, paint: Paint) -> String {
    let mut out = String::new();
    for caution in &model.cautions {
        out.push_str(&format!("{} {caution}\n", paint.with("33", "caution")));
    }
    demand(&mut out, model, paint);
    for (name, law) in [("clients", &model.clients), ("nodes", &model.nodes)] {
        match law {
            Ok(law) => scalability(&mut out, law, paint),
            Err(why) => {
                out.push_str(&format!("\n{} not fitted: {why}.\n", paint.with("1", &format!("Scaling over {name}"))))
            }
        }
    }
    predictions(&mut out, model, paint);
    out.push_str(&format!("\n{}\n", paint.with("1", "It takes for granted")));
    for assumption in &model.assumptions {
        out.push_str(&format!("- {assumption}\n"));
    }
    if !model.left_out.is_empty() {
        out.push_str(&format!("\n{}\n", paint.with("1", "Left out")));
        model.left_out.iter().for_each(|line| out.push_str(&format!("- {line}\n")));
    }
    out
}

fn demand(out: &mut String, model: &Model, paint: Paint) {
    let demand = &model.demand;
    let head = format!(
        "CPU time of the store for one operation, or one row of a scan, from {}",
        figure::plural(model.points.len() as u64, "phase")
    );
    out.push_str(&format!("\n{}\n", paint.with("1", &head)));
    for kind in &demand.kinds {
        let range = match (kind.low_us, kind.high_us) {
            (Some(low), Some(high)) => format!("{} to {}", figure::latency(low), figure::latency(high)),
            _ => "no more phases than unknowns: how sure it is cannot be told".to_owned(),
        };
        out.push_str(&format!("  {:<10} {:>9}   {range}\n", kind.kind, figure::latency(kind.cpu_us)));
    }
    if let Some(client) = demand.client_s {
        out.push_str(&format!(
            "  {:<10} {:>9}   of the client, for any operation\n",
            "client",
            figure::latency(client * 1e6)
        ));
    }
    if let Some(space) = demand.space {
        out.push_str(&format!("  On disk {space:.2} bytes for each byte of a record and each copy.\n"));
    }
    if let Some(written) = demand.written {
        out.push_str(&format!(
            "  Written {written:.1} bytes for each byte of a write and each copy (log, flushes, compaction).\n"
        ));
    }
    if let Some(reads) = demand.reads_a_miss {
        out.push_str(&format!("  {reads:.2} reads of the device for each read that memory does not answer.\n"));
    }
    if let Some(seconds) = demand.device_s {
        out.push_str(&format!(
            "  The device was busy {} for each of its reads: at most {}/s of them one after the other.\n",
            figure::latency(seconds * 1e6),
            figure::rate(1.0 / seconds)
        ));
    }
    let left_out = demand.left_out_error.map_or_else(
        || "too few phases to leave one out".to_owned(),
        |error| format!("{} when each is predicted from the others", figure::percent(error)),
    );
    out.push_str(&format!("  Mean error on these phases: {}; {left_out}.\n", figure::percent(demand.own_error)));
}

fn scalability(out: &mut String, law: &Scalability, paint: Paint) {
    let head = format!("Scaling over {}", law.axis);
    out.push_str(&format!("\n{}  {}\n", paint.with("1", &head), paint.with("2", &law.like)));
    let rows = [
        ("λ", law.lambda, "operations/s of one alone"),
        ("σ", law.sigma, "the share that waits for its turn"),
        ("κ", law.kappa, "what agreeing costs"),
    ];
    for (name, of, what) in rows {
        let text = |value: f64| if name == "λ" { figure::rate(value) } else { format!("{value:.5}") };
        let range =
            if of.high.is_finite() { format!("{} to {}", text(of.low), text(of.high)) } else { "any".to_owned() };
        out.push_str(&format!("  {name} {:>10}   {range:<24} {what}\n", text(of.value)));
    }
    let peak = law.peak.map_or_else(
        || "It grows as far as it was measured.".to_owned(),
        |(n, x)| format!("Highest at {} {}: {}/s.", figure::count(n.round() as u64), law.axis, figure::rate(x)),
    );
    let sizes = law.points.len();
    out.push_str(&format!("  {peak} Mean error on {sizes} points: {}.\n", figure::percent(law.error)));
}

fn predictions(out: &mut String, model: &Model, paint: Paint) {
    let head = format!(
        "{:<24} {:>5} {:>6} {:>14} {:>11} {:>27} {:>8} {:>10} {:>9} {:>11}",
        "store", "nodes", "cores", "records", "ops/s", "95 % range", "/s core", "bound", "disk/node", "load"
    );
    out.push_str(&format!("\n{}\n{}\n", paint.with("1", "Predictions"), paint.with("2", &head)));
    for of in &model.predictions {
        out.push_str(&line(of));
        if let Some(beside) = &of.published {
            let own = Prediction {
                name: "  published".to_owned(),
                nodes: of.nodes,
                cores: of.cores,
                records: of.records,
                ops_per_s: beside.ops_per_s,
                per_core_s: beside.ops_per_s / (of.nodes * of.cores),
                disk_bytes_per_node: beside.disk_bytes_per_node,
                load_hours: beside.hours,
                ..Prediction::default()
            };
            let error = format!("predicted {:+.0} %", beside.error * 100.0);
            out.push_str(&format!("{}  {}\n", line(&own).trim_end(), paint.with("33", &error)));
        }
    }
    asks(out, model, paint);
}

/// What a predicted store asks of its disks and of its clients.
fn asks(out: &mut String, model: &Model, paint: Paint) {
    let head =
        format!("{:<24} {:>16} {:>22} {:>14}", "store", "not from memory", "disk reads/s and node", "client cores");
    out.push_str(&format!("\n{}\n{}\n", paint.with("1", "What that asks for"), paint.with("2", &head)));
    let measured = model.demand.device_s.map_or(f64::INFINITY, |seconds| 1.0 / seconds);
    let mut unheld = false;
    for of in &model.predictions {
        let too_many = of.bound != "disk reads" && of.disk_reads_per_s_and_node.is_some_and(|reads| reads > measured);
        unheld |= too_many;
        let missed = of.miss_share.map_or_else(|| "not told".to_owned(), figure::percent);
        let reads = of.disk_reads_per_s_and_node.map_or_else(String::new, figure::rate);
        let clients = of.client_cores.map_or_else(String::new, |cores| figure::count(cores.ceil() as u64));
        out.push_str(&format!(
            "{:<24} {missed:>16} {reads:>22} {clients:>14}{}\n",
            of.name,
            if too_many { "  !" } else { "" }
        ));
    }
    if unheld {
        out.push_str(&format!(
            "  ! More reads than the device here gives one after the other ({}/s). Where the published disks are known to give \
             fewer than it\n    takes, --disk-reads-per-s has them count; until then the prediction is one of processors alone.\n",
            figure::rate(measured)
        ));
    }
}

fn line(of: &Prediction) -> String {
    let range = match (of.ops_per_s_low, of.ops_per_s_high) {
        (Some(low), Some(high)) => format!("{} to {}", figure::rate(low), figure::rate(high)),
        (Some(low), None) => format!("{} or more", figure::rate(low)),
        _ => String::new(),
    };
    let disk = of.disk_bytes_per_node.map_or_else(String::new, |bytes| figure::bytes(bytes as u64));
    let load = of.load_hours.map_or_else(String::new, |hours| match hours {
        hours if hours < 1.0 => figure::span(hours * 3600.0),
        hours if hours < 100.0 => format!("{hours:.1} h"),
        hours => format!("{:.1} d", hours / 24.0),
    });
    format!(
        "{:<24} {:>5} {:>6} {:>14} {:>11} {:>27} {:>8} {:>10} {:>9} {:>11}\n",
        of.name,
        of.nodes,
        of.cores,
        figure::count(of.records as u64),
        figure::rate(of.ops_per_s),
        range,
        figure::rate(of.per_core_s),
        of.bound,
        disk,
        load
    )
}
