//! temporary
use crate::model::RunReport;
/// Renders.
pub fn render(_: &RunReport) -> String {
    "<!doctype html>".to_owned()
}
