//! The exposition by a strict reading of the format, and what docs/ makes of the metrics.
#![allow(clippy::unwrap_used)]

use super::store::{write_backup_age, write_status};
use super::table::{Kind, METRICS};
use super::text::Exposition;
use node::control::director::StoreStatus;
use std::collections::{BTreeMap, BTreeSet};

/// A metric as read back: its type, and its samples with their labels.
type Read = BTreeMap<String, (String, Vec<(String, f64)>)>;

/// Reads an exposition and checks everything that the format demands.
fn read(text: &str) -> Read {
    assert!(text.ends_with('\n'));
    let mut metrics = Read::new();
    let mut current = String::new();
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            current = rest.split(' ').next().unwrap().to_owned();
            assert!(!metrics.contains_key(&current), "{current} twice");
            assert!(rest.len() > current.len() + 1, "{current} without help");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, current, "TYPE follows HELP");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
            metrics.insert(current.clone(), (kind.to_owned(), Vec::new()));
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let (kind, samples) = metrics.get_mut(&current).unwrap();
            let suffix = name.strip_prefix(&current).unwrap_or_else(|| panic!("{line} below {current}"));
            let allowed: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(allowed.contains(&suffix), "{line}");
            check_labels(&series[name.len()..]);
            assert!(seen.insert(series.to_owned()), "{series} twice");
            let value: f64 = value.parse().unwrap();
            assert!(value >= 0.0 && value.is_finite(), "{line}");
            samples.push((series.to_owned(), value));
        }
    }
    metrics
}

fn check_labels(labels: &str) {
    if labels.is_empty() {
        return;
    }
    let inner = labels.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
    let mut rest = inner;
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").unwrap();
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{labels}");
        let mut escaped = false;
        let end = after.bytes().position(|b| {
            let ends = b == b'"' && !escaped;
            escaped = b == b'\\' && !escaped;
            ends
        });
        rest = &after[end.unwrap() + 1..];
        rest = if rest.is_empty() { rest } else { rest.strip_prefix(',').unwrap() };
    }
}

fn of_a_node() -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data").display().to_string();
    let config = node::Config::start([("dir", path.as_str()), ("shards", "2"), ("memory", "64mb")]).unwrap();
    let server = crate::Server::embedded(config).unwrap();
    let mut caller = server.caller();
    for args in [&[&b"SET"[..], b"k", b"v"][..], &[b"GET", b"k"], &[b"NOSUCH"]] {
        caller.call(args);
    }
    let mut text = server.metrics();
    let mut out = Exposition::default();
    write_status(&StoreStatus::default(), &mut out);
    write_backup_age(Some(1000), 3000, &mut out);
    text += &out.finish();
    server.stop();
    text
}

#[test]
fn every_metric_is_exposed_as_the_format_has_it() {
    let metrics = read(&of_a_node());
    let names: BTreeSet<&str> = metrics.keys().map(String::as_str).collect();
    let table: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(names, table);
    assert_eq!(METRICS.len(), table.len(), "two metrics of one name");
    for metric in METRICS {
        let is_total = metric.name.ends_with("_total");
        assert_eq!(is_total, metric.kind == Kind::Counter, "{}", metric.name);
        assert!(metric.name.starts_with("basalt_") || metric.name.starts_with("process_"), "{}", metric.name);
        for unit in ["_ms", "_us", "_kb", "_mb", "_percent"] {
            assert!(!metric.name.contains(unit), "{}: not a base unit", metric.name);
        }
    }
}

#[test]
fn histograms_add_up_and_labels_are_escaped() {
    static METRIC: super::table::Metric = super::table::Metric { name: "h", kind: Kind::Histogram, help: "h" };
    let mut out = Exposition::default();
    out.begin(&METRIC);
    out.histogram(&[("a", "x\"y\\z\n")], &[(0.5, 1), (1.0, 3)], 4, 2.5);
    let text = out.finish();
    let samples = &read(&text)["h"].1;
    let label = r#"a="x\"y\\z\n""#;
    let expected = [
        (format!("h_bucket{{{label},le=\"0.5\"}}"), 1.0),
        (format!("h_bucket{{{label},le=\"1\"}}"), 3.0),
        (format!("h_bucket{{{label},le=\"+Inf\"}}"), 4.0),
        (format!("h_sum{{{label}}}"), 2.5),
        (format!("h_count{{{label}}}"), 4.0),
    ];
    assert_eq!(*samples, expected);
}

/// The words of an expression that are names of our metrics.
fn named(expression: &str) -> Vec<String> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("basalt_") || word.starts_with("process_"));
    ours.map(str::to_owned).collect()
}

fn is_exposed(name: &str) -> bool {
    METRICS.iter().any(|metric| match metric.kind {
        Kind::Histogram => {
            ["_bucket", "_sum", "_count"].iter().any(|suffix| name == format!("{}{suffix}", metric.name))
        }
        _ => metric.name == name,
    })
}

#[test]
fn the_dashboard_and_the_alerts_use_metrics_that_exist() {
    let file = |name: &str| {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
    };
    let dashboard: serde_json::Value = serde_json::from_str(&file("grafana-dashboard.json")).unwrap();
    let mut expressions = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(!panel["title"].as_str().unwrap().is_empty());
        for target in panel["targets"].as_array().into_iter().flatten() {
            expressions.push(target["expr"].as_str().unwrap().to_owned());
        }
    }
    let alerts = file("alerts.yml");
    let count = alerts.lines().filter(|line| line.trim_start().starts_with("- alert:")).count();
    let of_alerts = alerts.lines().filter_map(|line| line.trim_start().strip_prefix("expr: "));
    let of_alerts: Vec<String> = of_alerts.map(str::to_owned).collect();
    assert_eq!((of_alerts.len(), count), (count, count), "an alert without an expression on one line");
    assert!(count >= 8 && expressions.len() >= 12);
    expressions.extend(of_alerts);
    for expression in &expressions {
        let names = named(expression);
        assert!(!names.is_empty(), "{expression} is about none of ours");
        for name in names {
            assert!(is_exposed(&name), "{expression}: there is no {name}");
        }
    }
}
