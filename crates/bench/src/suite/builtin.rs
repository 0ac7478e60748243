//! The suites that every program of ours carries.

/// Names and texts.
pub(crate) const BUILTIN: [(&str, &str); 7] = [
    ("oracle-scale", include_str!("../../../../suites/oracle-scale.toml")),
    ("oracle-flash", include_str!("../../../../suites/oracle-flash.toml")),
    ("voldemort-pages", include_str!("../../../../suites/voldemort-pages.toml")),
    ("yugabyte-growth", include_str!("../../../../suites/yugabyte-growth.toml")),
    ("voltdb-curve", include_str!("../../../../suites/voltdb-curve.toml")),
    ("reshape", include_str!("../../../../suites/reshape.toml")),
    ("peers", include_str!("../../../../suites/peers.toml")),
];

/// The text of the built-in suite of that name, or else of the file at that path.
///
/// # Errors
/// There is neither.
pub(crate) fn text(name: &str) -> Result<String, String> {
    if let Some((_, text)) = BUILTIN.iter().find(|(known, _)| *known == name) {
        return Ok((*text).to_owned());
    }
    std::fs::read_to_string(name).map_err(|e| {
        let known: Vec<&str> = BUILTIN.iter().map(|(name, _)| *name).collect();
        format!("{name}: {e} (built-in suites are {})", known.join(", "))
    })
}
