//! The run as JSON: the data model itself, so that nothing is lost.

use crate::model::RunReport;

/// Pretty-printed, ending in a newline.
///
/// # Errors
/// When a figure cannot be written as JSON, which the check of a report excludes.
pub fn render(report: &RunReport) -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    Ok(text)
}

/// Reads what [`render`] wrote.
///
/// # Errors
/// When the text is not JSON of this model.
pub fn parse(text: &str) -> serde_json::Result<RunReport> {
    serde_json::from_str(text)
}
