//! The long hunt: the gate's crash test with as many rounds as one likes.

use crate::process;
use std::path::Path;

/// Runs the crash test with `--rounds` and `--seed`.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let (mut rounds, mut seed) = ("1000".to_owned(), None);
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?.clone();
        value.parse::<u64>().map_err(|_| format!("{name} {value}: not a number"))?;
        match name.as_str() {
            "--rounds" => rounds = value,
            "--seed" => seed = Some(value),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    let mut command = process::cargo(&["test", "--package", "basalt", "--test", "crash", "--", "--nocapture"]);
    command.env("BASALT_CRASH_ROUNDS", rounds);
    if let Some(seed) = seed {
        command.env("BASALT_CRASH_SEED", seed);
    }
    process::run(root, &mut command).map(|_| ()).map_err(|(_, why)| why)
}
