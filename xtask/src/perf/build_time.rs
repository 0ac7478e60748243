//! What it takes to build the program from nothing, against an older commit: the processor's time, which other work on the machine
//! changes little.

use super::bench::Bench;
use super::ceiling::{Ceiling, Rows};
use super::machine::ended_cpu_us;
use super::progress;
use crate::{before, process};
use std::time::Instant;

/// The one that docs/PERFORMANCE.md compares with.
const AGAINST: &str = "4673c0e";
/// A crate without dependencies, which a quick run builds.
const QUICK: [&str; 2] = ["--package", "basalt-resp"];

/// This tree's last commit, and the older one: once, however many runs are asked for, since each takes half an hour.
pub fn measure(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let against = bench.options.against.as_deref().unwrap_or(AGAINST);
    let mut rows = Rows::default();
    let mut seconds = Vec::new();
    for commit in [against, "HEAD"] {
        let id = before::resolved(&bench.root, commit)?;
        let (cpu_s, took_s) = build(bench, &id)?;
        let what = |what: &str| format!("`cargo build --release` of {}, from nothing: {what}", &id[..8]);
        rows.push(Ceiling::told(what("processor time"), "s", cpu_s))?;
        rows.push(Ceiling::told(what("time"), "s", took_s))?;
        seconds.push(cpu_s);
    }
    let what = format!("`cargo build --release` from nothing: processor time, against {against}");
    rows.push(Ceiling::new(what, "×", 1.0, seconds[1] / seconds[0]))?;
    Ok(rows.all())
}

/// The processor's time and the time that it took, in s.
fn build(bench: &Bench, commit: &str) -> Result<(f64, f64), String> {
    let (source, target) = (bench.empty_folder("build-source")?, bench.empty_folder("build-target")?);
    before::unpack(&bench.root, commit, &source)?;
    let mut cargo = process::cargo(&["build", "--release", "--locked", "--quiet", "--target-dir"]);
    cargo.arg(&target).args(if progress::is_quick() { &QUICK[..] } else { &[] });
    progress::doing(format!("cargo builds {commit}"));
    // What is downloaded first takes no part in it.
    process::build(&source, process::cargo(&["fetch", "--locked", "--quiet"]).current_dir(&source))?;
    let (before, begun) = (ended_cpu_us()?, Instant::now());
    process::build(&source, &mut cargo)?;
    let took = ((ended_cpu_us()? - before) as f64 / 1e6, begun.elapsed().as_secs_f64());
    bench.empty_folders(&["build-source", "build-target"])?;
    Ok(took)
}
