//! The house rules that no compiler checks, over the files that git tracks or would track.

mod command_names;
mod core_types;
mod crates;
mod pictures;
mod prose;
mod ratchet;
mod report;
mod rules;
mod source;
mod tree;
mod workspace;

pub use rules::check;
pub use workspace::Workspace;

use std::path::Path;

/// What `cargo xtask house` understands.
const HELP: &str = "\
Usage: cargo xtask house [--report | --shrink]

  --report   the numbers a crate: files, lines, circles, extra `impl` blocks, banned words
  --shrink   removes from xtask/excuses what is no longer needed";

/// Runs `cargo xtask house`.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let workspace = Workspace::read(root)?;
    match arguments.first().map(String::as_str) {
        None => {
            let outcome = check(&workspace);
            print!("{}", outcome.listing());
            if outcome.breaches.is_empty() { Ok(()) } else { Err("house rules are broken".to_owned()) }
        }
        Some("--report") => {
            print!("{}", report::report(&workspace));
            Ok(())
        }
        Some("--shrink") => {
            print!("{}", ratchet::shrink(root, &workspace)?);
            Ok(())
        }
        Some(other) => Err(format!("unknown option {other}\n{HELP}")),
    }
}
