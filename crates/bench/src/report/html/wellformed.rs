//! Whether a page is well formed, its references resolve, and what a run says stays text: checked with a reader that is
//! stricter than any browser.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use super::super::sample;
use super::render;
use crate::model::RunReport;

const VOID: [&str; 2] = ["meta", "link"];
/// Elements whose content is no markup.
const RAW: [&str; 2] = ["style", "script"];

/// What the reader found.
#[derive(Default)]
struct Page {
    elements: Vec<(String, Vec<(String, String)>)>,
    text: String,
    raw: Vec<String>,
}

impl Page {
    fn attributes<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let all = self.elements.iter().flat_map(|(_, attributes)| attributes);
        all.filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn count(&self, element: &str) -> usize {
        self.elements.iter().filter(|(name, _)| name == element).count()
    }
}

fn unescape(text: &str) -> String {
    const ENTITIES: [(&str, &str); 5] =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let known = |(entity, _): &&(&str, &str)| after.starts_with(&entity[1..]);
        let (entity, plain) = ENTITIES.iter().find(known).unwrap_or_else(|| panic!("a lone & in {text:?}"));
        out.push_str(plain);
        rest = &after[entity.len() - 1..];
    }
    out + rest
}

/// Name and attributes of a tag's inside: `a href="#x"`.
fn tag(inside: &str) -> (String, Vec<(String, String)>) {
    let (name, mut rest) = inside.split_once([' ', '\n']).unwrap_or((inside, ""));
    assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "a tag called {name:?}");
    let mut attributes = Vec::new();
    while !rest.trim().is_empty() {
        let (key, after) = rest.trim_start().split_once("=\"").unwrap_or_else(|| panic!("unquoted in <{inside}>"));
        let (value, after) = after.split_once('"').unwrap_or_else(|| panic!("no end of quotes in <{inside}>"));
        assert!(key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "an attribute called {key:?}");
        attributes.push((key.to_owned(), unescape(value)));
        rest = after;
    }
    (name.to_owned(), attributes)
}

fn read(html: &str) -> Page {
    let mut page = Page::default();
    let mut open: Vec<String> = Vec::new();
    let mut rest = html.strip_prefix("<!doctype html>").unwrap();
    while let Some((text, after)) = rest.split_once('<') {
        assert!(!text.contains('>'), "a lone > in {text:?}");
        page.text.push_str(&unescape(text));
        let (inside, after) = after.split_once('>').unwrap();
        rest = after;
        if let Some(closed) = inside.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(closed), "at {:?}", rest.chars().take(60).collect::<String>());
            continue;
        }
        let (name, attributes) = tag(inside.strip_suffix('/').unwrap_or(inside));
        if RAW.contains(&name.as_str()) {
            let (content, after) = rest.split_once(&format!("</{name}>")).unwrap();
            page.raw.push(content.to_owned());
            rest = after;
        } else if !inside.ends_with('/') && !VOID.contains(&name.as_str()) {
            open.push(name.clone());
        }
        page.elements.push((name, attributes));
    }
    assert_eq!(open, Vec::<String>::new());
    page
}

fn checked(report: &RunReport) -> Page {
    let page = read(&render(report));
    let ids: Vec<&str> = page.attributes("id").collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(unique.len(), ids.len(), "an id occurs twice");
    for target in page.attributes("href").filter(|target| *target != "data:,") {
        assert!(unique.contains(target.strip_prefix('#').unwrap()), "{target} leads nowhere");
    }
    for clip in page.attributes("clip-path") {
        let id = clip.strip_prefix("url(#").and_then(|clip| clip.strip_suffix(')')).unwrap();
        assert!(unique.contains(id), "{clip} clips nothing");
    }
    assert_eq!(page.attributes("src").count(), 0, "the page needs another file");
    for path in page.attributes("d") {
        assert!(!path.contains("NaN") && !path.contains("inf"), "{path}");
    }
    page
}

#[test]
fn a_page_is_well_formed_and_whole() {
    let run = sample::run();
    let page = checked(&run);
    // Throughput, latency, distribution and one metric of each phase, and the two comparisons.
    assert_eq!(page.count("svg"), run.phases.len() * 4 + 2);
    assert_eq!(page.raw.len(), 3);
    let data: Vec<serde_json::Value> = serde_json::from_str(&page.raw[1]).unwrap();
    assert_eq!(data.len(), run.phases.len() * 4);
    let ids: BTreeSet<&str> = page.attributes("id").collect();
    assert!(data.iter().all(|chart| ids.contains(chart["id"].as_str().unwrap())));
    for told in
        ["252,280", "sync", "zipfian", "17,701,200 answers verified, 0 wrong", "fieldlength", "Closed and open loop"]
    {
        assert!(page.text.contains(told), "{told}");
    }
}

#[test]
fn a_search_shows_its_tries_under_the_bound() {
    let run = sample::searched_run();
    let page = checked(&run);
    assert_eq!(page.count("svg"), 1 + run.phases.len() * 4 + 2, "one chart more than its phases have");
    assert_eq!((page.attributes("class").filter(|class| *class == "level").count(), page.count("details")), (1, 1));
    for told in ["bound 20.0 µs", "in 1 of 1 trial", "does not", "UPDATE p99 48.0 µs of 20.0 µs"] {
        assert!(page.text.contains(told), "{told}");
    }
}

#[test]
fn what_a_run_says_stays_text() {
    let report = sample::troubled_run();
    let page = checked(&report);
    let markup = &report.configuration.properties["fieldnameprefix"];
    assert_eq!(
        page.text.matches(markup.as_str()).count(),
        7,
        "property, note, the event in a sentence and four tooltips"
    );
    assert_eq!(page.count("b") + page.count("script"), crate::report::warnings(&report).len() + 2);
    let data: serde_json::Value = serde_json::from_str(&page.raw[1]).unwrap();
    assert!(data.to_string().contains("</script><script>alert(1)"), "the label is in the data, whole");
    assert!(!page.raw[1].contains('<'));
}

#[test]
fn a_run_without_figures_still_makes_a_page() {
    let mut report = sample::run();
    report.phases.truncate(2);
    report.phases[0] = crate::model::Phase { name: "load".to_owned(), ..Default::default() };
    let phase = &mut report.phases[1];
    phase.series.iter_mut().for_each(|series| series.points.truncate(1));
    phase.metrics[0].points.truncate(1);
    phase.metrics[0].points[0].value = 0.0;
    phase.ops.truncate(1);
    phase.ops[0].latency = Default::default();
    let page = checked(&report);
    assert_eq!(page.count("svg"), 2, "one point is no chart");
    report.phases.clear();
    checked(&report);
}
