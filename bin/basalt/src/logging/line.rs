//! A line of the log, as text and as JSON.

use bench::report::rfc3339;
use log::Level;
use serde_json::json;

/// What is logged.
pub struct Line {
    /// When, in ms since the epoch.
    pub at_ms: u64,
    /// How grave it is.
    pub level: Level,
    /// The module that logs it.
    pub target: String,
    /// What is said.
    pub message: String,
    /// How many lines of the same place were left out before it.
    pub left_out: u64,
}

impl Line {
    /// `19:03:20.496Z WARN  …`
    pub fn text(&self) -> String {
        let Self { at_ms, level, message, left_out, .. } = self;
        let date_and_time = rfc3339(*at_ms);
        let time = date_and_time.split_once('T').map_or("", |(_, time)| time.trim_end_matches('Z'));
        let more = if *left_out == 0 { String::new() } else { format!(" ({left_out} lines like this were left out)") };
        format!("{time}.{:03}Z {level:5} {message}{more}\n", at_ms % 1000)
    }

    /// An object a line: `time` (RFC 3339), `level`, `target`, `message`, and `left_out` where lines were.
    pub fn json(&self) -> String {
        let time = rfc3339(self.at_ms).replace('Z', &format!(".{:03}Z", self.at_ms % 1000));
        let mut object = json!({
            "time": time, "level": self.level.as_str(), "target": self.target, "message": self.message,
        });
        if self.left_out > 0 {
            object["left_out"] = self.left_out.into();
        }
        format!("{object}\n")
    }
}
