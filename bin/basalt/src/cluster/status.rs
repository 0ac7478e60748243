//! How a store on this machine is, in words: a few lines that are kept up to date, and a table.

use super::watch::{NodeSight, Sight};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two lines where standard error is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// What to call a node.
#[must_use]
pub fn node_name(number: usize, port: u16) -> String {
    format!("node {number} (127.0.0.1:{port})")
}

/// A path as a shell takes it: quoted where it holds more than letters, digits and `-_./`.
#[must_use]
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Where the state is shown: on a terminal lines that are rewritten, elsewhere a line every few seconds.
pub enum Board {
    /// The lines on a terminal.
    Live(ProgressBar),
    /// The lines; when the next is due.
    Lines(Instant),
}

impl Board {
    /// On standard error.
    #[must_use]
    pub fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines(Instant::now());
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Self::Live(bar)
    }

    /// Shows how it is.
    pub fn show(&mut self, sight: &Sight) {
        match self {
            Self::Live(bar) => {
                bar.set_message(sight.lines());
                bar.tick();
            }
            Self::Lines(due) if Instant::now() >= *due => {
                bench::note!("{}", sight.line());
                *due = Instant::now() + LINE_EVERY;
            }
            Self::Lines(_) => {}
        }
    }

    /// Says something that stays.
    pub fn say(&self, text: &str) {
        match self {
            Self::Live(bar) => bar.suspend(|| bench::note!("{text}")),
            Self::Lines(_) => bench::note!("{text}"),
        }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if let Self::Live(bar) = self {
            bar.finish_and_clear();
        }
    }
}

impl Sight {
    /// In one line.
    #[must_use]
    pub fn line(&self) -> String {
        self.nodes.iter().fold(self.summary(), |line, node| format!("{line} | {}: {}", node.port, node.summary()))
    }

    /// In a line, and one for each node.
    #[must_use]
    pub fn lines(&self) -> String {
        let row = |node: &NodeSight| format!("\n  {}: {}", node_name(node.number, node.port), node.summary());
        self.summary() + &self.nodes.iter().map(row).collect::<String>()
    }

    fn summary(&self) -> String {
        let up = self.nodes.iter().filter(|node| node.told.is_some()).count();
        let (nodes, led, shards) = (self.nodes.len(), self.shards_led, self.shards);
        format!("{up}/{nodes} nodes up, {led}/{shards} shards led, {} ops/s", self.operations_per_s)
    }

    /// A row a node.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = format!(
            "{:<6} {:>6} {:>9} {:>9} {:<13} {:>8} {:>9} {:>10} {:>9} {:>9}\n",
            "node", "port", "peer port", "process", "state", "leading", "replicas", "keys", "ops/s", "memory"
        );
        for node in &self.nodes {
            let process = node.process.map_or_else(|| "-".to_owned(), |process| process.to_string());
            let told = node.told.clone().unwrap_or_default();
            text += &format!(
                "{:<6} {:>6} {:>9} {process:>9} {:<13} {:>8} {:>9} {:>10} {:>9} {:>6} MB\n",
                node.number,
                node.port,
                node.peer_port,
                node.state(),
                told.leading,
                told.replicas,
                told.keys,
                told.operations_per_s,
                told.rss_bytes / 1_000_000
            );
        }
        text + &format!("{} of {} shards have leaders\n", self.shards_led, self.shards) + &self.databases()
    }

    /// Where clients of databases reach the nodes that answer, as a line; empty if they do not.
    #[must_use]
    pub fn databases(&self) -> String {
        let told = self.nodes.iter().filter_map(|node| node.told.as_ref()?.databases.as_ref());
        let urls: Vec<String> = told.map(|address| format!("redis://{address}")).collect();
        if urls.is_empty() { String::new() } else { format!("databases {}\n", urls.join(",")) }
    }
}

impl NodeSight {
    fn summary(&self) -> String {
        match &self.told {
            Some(told) if !told.locked => format!("{} leaders, {} ops/s", told.leading, told.operations_per_s),
            _ => self.state().to_owned(),
        }
    }

    fn state(&self) -> &'static str {
        match (&self.process, &self.told) {
            (None, _) => "down",
            (Some(_), None) => "not answering",
            (Some(_), Some(told)) if told.locked => "locked",
            (Some(_), Some(told)) if told.shards == 0 => "no store yet",
            (Some(_), Some(told)) if !told.serves() => "no leaders",
            (Some(_), Some(_)) => "up",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::watch::NodeStatus;

    #[test]
    fn paths_in_commands_can_be_copied() {
        for (path, shown) in
            [("d/c3", "d/c3"), ("d/c3 \u{fc} sp", "'d/c3 \u{fc} sp'"), ("it's", r"'it'\''s'"), ("$x", "'$x'")]
        {
            assert_eq!(quoted(Path::new(path)), shown);
        }
    }

    #[test]
    fn a_store_in_words() {
        let told = NodeStatus { shards: 4, shards_led: 4, leading: 3, operations_per_s: 7, ..NodeStatus::default() };
        let node = |number: usize, process, told| NodeSight {
            number,
            port: 7000 + number as u16,
            peer_port: 17000 + number as u16,
            process,
            told,
        };
        let behind = NodeStatus { shards_led: 3, ..told.clone() };
        let sight = Sight {
            healthy: false,
            shards: 4,
            shards_led: 3,
            operations_per_s: 14,
            nodes: vec![
                node(1, Some(5), Some(told)),
                node(2, None, None),
                node(3, Some(6), None),
                node(4, Some(7), Some(behind)),
                node(5, Some(8), Some(NodeStatus::default())),
            ],
        };
        assert_eq!(
            sight.line(),
            "3/5 nodes up, 3/4 shards led, 14 ops/s | 7001: 3 leaders, 7 ops/s | 7002: down | 7003: not answering \
             | 7004: 3 leaders, 7 ops/s | 7005: 0 leaders, 0 ops/s"
        );
        assert_eq!(sight.lines().lines().nth(2), Some("  node 2 (127.0.0.1:7002): down"));
        let states: Vec<_> = sight.nodes.iter().map(NodeSight::state).collect();
        assert_eq!(states, ["up", "down", "not answering", "no leaders", "no store yet"]);
        assert_eq!(sight.table().lines().count(), 7);
        let mut sight = sight;
        for (node, port) in sight.nodes.iter_mut().zip(7101..) {
            node.told.iter_mut().for_each(|told| told.databases = Some(format!("127.0.0.1:{port}")));
        }
        let databases = "databases redis://127.0.0.1:7101,redis://127.0.0.1:7104,redis://127.0.0.1:7105";
        assert_eq!(sight.table().lines().last(), Some(databases), "two do not answer");
    }
}
