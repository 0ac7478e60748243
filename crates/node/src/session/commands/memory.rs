//! MEMORY, but for USAGE, which is about a key.

use super::ask::{Ask, Outcome, Row};
use crate::session::{Effect, MemoryFigures};

pub(super) const ROWS: &[Row] = &[
    ("MEMORY|DOCTOR", doctor),
    ("MEMORY|STATS", stats),
    ("MEMORY|PURGE", purge),
    ("MEMORY|MALLOC-STATS", malloc_stats),
];

fn malloc_stats(ask: &mut Ask<'_>) -> Outcome {
    ask.reply.bulk(b"Stats not supported for the current allocator");
    Ok(Effect::None)
}

fn stats(ask: &mut Ask<'_>) -> Outcome {
    let figures = MemoryFigures::of(ask.host);
    let rows = [
        ("peak.allocated", figures.rss_bytes_peak),
        ("total.allocated", figures.rss_bytes),
        ("clients.normal", figures.client_bytes),
        ("cache.bytes", figures.cache_bytes),
        ("memtable.bytes", figures.memtable_bytes),
        ("budget.bytes", figures.budget_bytes),
        ("keys.count", figures.keys),
        ("dataset.bytes", figures.dataset_bytes()),
    ];
    ask.reply.map(rows.len());
    for (name, value) in rows {
        ask.reply.bulk(name.as_bytes());
        ask.reply.int(value as i64);
    }
    Ok(Effect::None)
}

fn doctor(ask: &mut Ask<'_>) -> Outcome {
    let figures = MemoryFigures::of(ask.host);
    let mut findings = Vec::new();
    if figures.rss_bytes > figures.budget_bytes + figures.budget_bytes / 4 {
        findings.push(format!(
            "The process takes {} bytes, which is more than a quarter above its budget of {} (setting `memory`).",
            figures.rss_bytes, figures.budget_bytes
        ));
    }
    if figures.client_bytes > figures.budget_bytes / 4 {
        findings.push(format!(
            "Buffers of clients take {} bytes. CLIENT LIST (qbuf, omem) shows which.",
            figures.client_bytes
        ));
    }
    if figures.memtable_bytes > figures.budget_bytes / 2 {
        findings
            .push(format!("Memtables take {} bytes: flushes do not keep up with the writes.", figures.memtable_bytes));
    }
    if findings.is_empty() {
        findings.push("Nothing wrong with the memory of this node.".to_owned());
    }
    ask.reply.verbatim(&findings.join("\n"));
    Ok(Effect::None)
}

/// The allocator gives memory back by itself; there is nothing to do.
fn purge(ask: &mut Ask<'_>) -> Outcome {
    ask.reply.ok();
    Ok(Effect::None)
}
