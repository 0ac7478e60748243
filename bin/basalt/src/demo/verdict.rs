//! Whether the store has kept its word.

use super::audit::Remembered;
use super::script::Played;
use crate::cluster::LocalStore;
use bench::model::Phase;
use client::Client;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Reads must never fail for so long.
const READ_GAP_S: f64 = 1.0;
/// A node that was away has everything within this time, or has not come back.
const CATCHES_UP_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// So many complaints are told in full.
const COMPLAINTS_TOLD: usize = 5;

/// All that was found.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// What happened to the node.
    pub script: Played,
    /// What writers were told.
    pub audit: Remembered,
    /// The longest time without an acknowledged write of the workload.
    pub write_gap_s: Option<f64>,
    /// The longest time without a successful read.
    read_gap_s: Option<f64>,
    /// Reads whose values were checked.
    reads_verified: u64,
    /// What was acknowledged and is not there, or is there and should not be.
    lost: Vec<String>,
    /// Why it cannot be known.
    unclear: Vec<String>,
}

impl Verdict {
    /// What those tell who only read.
    pub fn heard(&mut self, readers: Result<Phase, String>) {
        match readers {
            Ok(phase) => {
                self.read_gap_s = phase.read_gap_s_max;
                self.reads_verified = phase.ops.iter().map(|op| op.verified).sum();
                let wrong = phase.verification_failures() + phase.not_found();
                if wrong > 0 {
                    self.lost.push(format!("{wrong} reads found nothing, or what was never written"));
                }
            }
            Err(e) => self.unclear.push(format!("reading could not go on: {e}")),
        }
    }

    /// Reads back what was acknowledged: from the leaders, and from the node that was away.
    pub fn verify(&mut self, store: &LocalStore, records: u64) {
        if let Err(e) = self.read_back(store, records) {
            self.unclear.push(e);
        }
        if let Some(number) = self.script.node
            && let Err(e) = self.read_from_returned(store, number)
        {
            self.unclear.push(e);
        }
    }

    fn read_back(&mut self, store: &LocalStore, records: u64) -> Result<(), String> {
        let mut client = Client::open(&store.url()).map_err(|e| e.to_string())?;
        for counter in &self.audit.counters {
            let found = client.call_repeatable(&[b"GET", counter.key.as_bytes()]).map_err(|e| e.to_string())?;
            self.lost.extend(counter.complaint(&found));
        }
        let written = self.audit.counters.iter().filter(|counter| counter.acknowledged > 0).count() as u64;
        let tried = self.audit.counters.iter().filter(|counter| counter.tried > 0).count() as u64;
        let found = client.call_repeatable(&[b"DBSIZE", b"STORE"]).map_err(|e| e.to_string())?;
        match found.as_int().and_then(|keys| u64::try_from(keys).ok()) {
            Some(keys) if (records + written..=records + tried).contains(&keys) => Ok(()),
            Some(keys) => {
                self.lost.push(format!("the store holds {keys} keys, of {} that were written", records + written));
                Ok(())
            }
            None => Err(format!("DBSIZE STORE answers {found:?}")),
        }
    }

    /// Whatever was acknowledged reaches the node that was away.
    fn read_from_returned(&mut self, store: &LocalStore, number: usize) -> Result<(), String> {
        let node = store.roster().node(number).ok_or("the node is gone")?;
        let said = |e: std::io::Error| format!("node {number}: {e}");
        let mut client = Client::open(&store.node_url(node)).map_err(said)?;
        client.call_here(&[b"READONLY"]).map_err(said)?;
        let until = Instant::now() + CATCHES_UP_WITHIN;
        for counter in &self.audit.counters {
            loop {
                let found = client.call_here(&[b"GET", counter.key.as_bytes()]).map_err(said)?;
                let elsewhere = found.as_error().is_some_and(|text| text.starts_with("MOVED"));
                let Some(complaint) = counter.complaint(&found).filter(|_| !elsewhere) else { break };
                if Instant::now() >= until {
                    self.lost.push(format!("on node {number}, {complaint}"));
                    break;
                }
                std::thread::sleep(LOOK_EVERY);
            }
        }
        Ok(())
    }

    /// Whether it has.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let read = self.read_gap_s.is_some_and(|gap_s| gap_s < READ_GAP_S);
        let told = self.lost.is_empty() && self.unclear.is_empty() && self.script.trouble.is_none();
        read && told && self.script.killed_s.is_some() && self.script.started_s.is_some() && self.audit.acknowledged > 0
    }

    /// For the report.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let (Some(node), Some(killed_s)) = (self.script.node, self.script.killed_s) {
            let text = match self.script.started_s {
                Some(started_s) => format!("and started again after {started_s:.1} s"),
                None => "and not started again".to_owned(),
            };
            notes.push(format!("Node {node} was killed (kill -9) after {killed_s:.1} s, {text}."));
        }
        if let Some(gap_s) = self.read_gap_s {
            notes.push(format!(
                "Clients that only read, beside the workload, had {} reads verified, and never waited longer than \
                 {gap_s:.2} s for a successful one. Those of the workload may: each waits for its writes too.",
                self.reads_verified
            ));
        }
        if self.audit.acknowledged > 0 {
            notes.push(self.audit_text());
        }
        notes.extend(self.complaints());
        notes
    }

    fn audit_text(&self) -> String {
        let Remembered { counters, acknowledged, unknown, slowest } = &self.audit;
        format!(
            "Besides the workload, {acknowledged} writes to {} keys were acknowledged and then read back, from the \
             leaders and from the node that had been away; of {unknown} the outcome was unknown; the slowest took {:.2} s.",
            counters.len(),
            slowest.as_secs_f64()
        )
    }

    fn complaints(&self) -> Vec<String> {
        let mut told: Vec<String> =
            self.lost.iter().take(COMPLAINTS_TOLD).map(|lost| format!("LOST: {lost}.")).collect();
        if self.lost.len() > COMPLAINTS_TOLD {
            told.push(format!("LOST: {} more like this.", self.lost.len() - COMPLAINTS_TOLD));
        }
        told.extend(self.unclear.iter().map(|why| format!("Not everything could be checked: {why}.")));
        told.extend(self.script.trouble.iter().map(|trouble| format!("It did not go as planned: {trouble}.")));
        if let Some(gap_s) = self.read_gap_s.filter(|gap_s| *gap_s >= READ_GAP_S) {
            told.push(format!("For {gap_s:.2} s no read succeeded; the bar is {READ_GAP_S} s."));
        }
        told
    }

    /// For the user who has watched.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from("\n");
        let at = |when: Option<f64>| when.map_or_else(|| "never".to_owned(), |when| format!("{when:.1} s"));
        let gap = |gap: Option<f64>| gap.map_or_else(|| "unknown".to_owned(), |gap| format!("{gap:.2} s"));
        let Played { node, killed_s, started_s, returned_s, leads_s, .. } = &self.script;
        let rows = [
            (format!("node {} killed (kill -9) at", node.unwrap_or_default()), at(*killed_s)),
            ("longest time without a successful read".to_owned(), gap(self.read_gap_s)),
            ("longest time without an acknowledged write".to_owned(), gap(self.write_gap_s)),
            (
                "slowest write of a key, failover included".to_owned(),
                format!("{:.2} s", self.audit.slowest.as_secs_f64()),
            ),
            ("node started again at".to_owned(), at(*started_s)),
            ("took part again at".to_owned(), at(*returned_s)),
            ("led shards again at".to_owned(), at(*leads_s)),
            ("acknowledged writes read back, every key".to_owned(), self.audit.acknowledged.to_string()),
        ];
        for (what, how) in rows {
            let _ = writeln!(text, "{what:<46} {how:>10}");
        }
        for complaint in self.complaints() {
            let _ = writeln!(text, "{complaint}");
        }
        let verdict =
            if self.is_good() { "Nothing that was acknowledged is lost, and reads went on." } else { "NOT GOOD." };
        let _ = writeln!(text, "{verdict}");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_broken_promise_is_told() {
        let good = Verdict {
            script: Played { node: Some(2), killed_s: Some(20.0), started_s: Some(40.0), ..Played::default() },
            audit: Remembered { acknowledged: 9, ..Remembered::default() },
            read_gap_s: Some(0.2),
            write_gap_s: Some(1.2),
            ..Verdict::default()
        };
        assert!(good.is_good());
        assert!(good.complaints().is_empty(), "{:?}", good.complaints());
        let bad = [
            Verdict { read_gap_s: Some(1.0), ..good.clone() },
            Verdict { lost: vec!["k".to_owned(); 9], ..good.clone() },
            Verdict { unclear: vec!["no node answers".to_owned()], ..good.clone() },
            Verdict { script: Played { trouble: Some("x".to_owned()), ..good.script.clone() }, ..good.clone() },
        ];
        for bad in bad {
            assert!(!bad.is_good(), "{bad:?}");
            assert!(!bad.complaints().is_empty(), "{bad:?}");
            assert!(bad.text().contains("NOT GOOD"), "{bad:?}");
        }
        assert!(!Verdict::default().is_good());
        assert!(!Verdict { script: Played::default(), ..good }.is_good());
    }
}
