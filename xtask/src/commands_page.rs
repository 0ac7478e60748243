//! docs/COMMANDS.md: written from the command table, and checked against it by the gate.

use std::path::Path;

const PAGE: &str = "docs/COMMANDS.md";

/// Writes the page.
pub fn write(root: &Path) -> Result<(), String> {
    std::fs::write(root.join(PAGE), resp::table::docs_markdown()).map_err(|error| format!("{PAGE}: {error}"))
}

/// An error if the page is not what the table says.
pub fn check(root: &Path) -> Result<(), String> {
    let page = std::fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    if page == resp::table::docs_markdown() {
        return Ok(());
    }
    Err(format!("{PAGE} is not what the command table says: `cargo xtask docs` writes it"))
}
