//! All trials of a search on the terminal.

use crate::figure;
use crate::model::Search;
use crate::report::Paint;

/// A table and the answer, ending in a newline.
pub(crate) fn render(search: &Search, paint: Paint) -> String {
    let head = format!("{:<12} {:>10} {:>10} {:>9} {:>9}", "trial", "offered/s", "achieved/s", "p50", "p99");
    let mut out = format!("\n{}  {}\n{}\n", paint.with("1", "search"), search.goal, paint.with("2", &head));
    for one in &search.trials {
        out.push_str(&format!(
            "{:<12} {:>10} {:>10} {:>9} {:>9}  {}\n",
            one.phase,
            figure::rate(one.offered_per_s),
            figure::rate(one.achieved_per_s),
            figure::latency(one.p50_us),
            figure::latency(one.p99_us),
            paint.with(if one.holds { "32" } else { "31" }, &one.why)
        ));
    }
    out.push_str(&format!("\n{}\n", paint.with("1", &search.answer)));
    out
}
