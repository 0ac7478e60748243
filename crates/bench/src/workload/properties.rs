//! The properties that the laboratory knows, the values that each may have, and what a run was given.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use super::builtin::builtin;
use super::java;

/// A property that cannot be, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadProperty {
    /// Its name.
    pub name: String,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for BadProperty {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "property {}: {}", self.name, self.problem)
    }
}

impl std::error::Error for BadProperty {}

pub(super) fn bad(name: &str, problem: impl Into<String>) -> BadProperty {
    BadProperty { name: name.to_owned(), problem: problem.into() }
}

/// What a property's value must be.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// Any text, empty or not, blanks included.
    Text,
    /// The path of a file.
    File,
    /// A whole number from 0 on.
    Whole,
    /// A whole number from 0 on, or this word.
    WholeOr(&'static str),
    /// A number from 0 on.
    Number,
    /// A number from 0 to 1.
    Share,
    /// `true` or `false`.
    Truth,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Percentiles above 0 and up to 100, with commas between them.
    Percentiles,
    /// The class name of YCSB's core workload.
    Core,
}

/// YCSB's names for how it measures. All of them measure by histograms here.
const MEASUREMENT_TYPES: &[&str] =
    &["hdrhistogram", "histogram", "hdrhistogram+histogram", "hdrhistogram+raw", "timeseries", "raw"];
/// The core workload's class, as YCSB's files name it by now and as they named it before.
const CORE_WORKLOADS: [&str; 2] = ["site.ycsb.workloads.CoreWorkload", "com.yahoo.ycsb.workloads.CoreWorkload"];

impl Form {
    /// What is wrong with `value`, if anything is.
    fn fault(self, value: &str) -> Option<String> {
        let word = value.trim();
        let is_whole = || word.parse::<u64>().is_ok();
        let number = || word.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        let (fits, expected) = match self {
            Self::Text => (true, String::new()),
            Self::File => (!word.is_empty(), "the path of a file".to_owned()),
            Self::Whole => (is_whole(), "a whole number from 0 on".to_owned()),
            Self::WholeOr(other) => (word == other || is_whole(), format!("a whole number from 0 on, or {other}")),
            Self::Number => (number().is_some(), "a number from 0 on".to_owned()),
            Self::Share => (number().is_some_and(|share| share <= 1.0), "a number from 0 to 1".to_owned()),
            Self::Truth => (is_truth(word), "true or false".to_owned()),
            Self::OneOf(words) => {
                (words.contains(&word), format!("one of {}", words.join(", ")))
            }
            Self::Percentiles => {
                let is_percentile = |part: &str| part.trim().parse().is_ok_and(|p: f64| p > 0.0 && p <= 100.0);
                (word.split(',').all(is_percentile), "percentiles above 0 and up to 100, such as 95,99".to_owned())
            }
            Self::Core => (
                CORE_WORKLOADS.contains(&word),
                "the core workload: this laboratory has no other workload class, and another would measure something else"
                    .to_owned(),
            ),
        };
        (!fits).then(|| format!("`{value}` is not {expected}"))
    }
}

fn is_truth(word: &str) -> bool {
    ["true", "false"].iter().any(|truth| truth.eq_ignore_ascii_case(word))
}

/// A property: its name, its default (empty where it has none) and what it is for.
pub struct Known {
    /// As it is written in files and after `-p`.
    pub name: &'static str,
    /// What its value must be.
    pub form: Form,
    /// What holds when it is not given.
    pub default: &'static str,
    /// In a few words.
    pub meaning: &'static str,
}

const fn known(name: &'static str, form: Form, default: &'static str, meaning: &'static str) -> Known {
    Known { name, form, default, meaning }
}

use Form::{Core, File, Number, OneOf, Percentiles, Share, Text, Truth, Whole, WholeOr};

/// Every property that means something here: YCSB's, then the laboratory's own.
pub const KNOWN: &[Known] = &[
    known("recordcount", Whole, "0", "records that the load writes"),
    known("operationcount", Whole, "0", "operations of a run; 0 = until maxexecutiontime"),
    known("maxexecutiontime", Number, "0", "seconds after which a phase ends; 0 = never"),
    known("target", Number, "0", "operations a second at most, closed loop; 0 = no bound"),
    known("threadcount", Whole, "1", "clients"),
    known("table", Text, "usertable", "not part of the key here"),
    known("fieldcount", Whole, "10", "fields of a record"),
    known("fieldlength", Whole, "100", "bytes of a field, or their maximum"),
    known("minfieldlength", Whole, "1", "bytes of the shortest field"),
    known(
        "fieldlengthdistribution",
        OneOf(&["constant", "uniform", "zipfian", "histogram"]),
        "constant",
        "constant | uniform | zipfian | histogram",
    ),
    known("fieldlengthhistogram", File, "hist.txt", "file of field lengths"),
    known("fieldnameprefix", Text, "field", "what stands before a field's number"),
    known("readallfields", Truth, "true", "read all fields, or one"),
    known("writeallfields", Truth, "false", "update all fields, or one"),
    known("dataintegrity", Truth, "false", "values that follow from key and field, as YCSB makes them"),
    known("readproportion", Number, "0.95", "weight of reads"),
    known("updateproportion", Number, "0.05", "weight of updates"),
    known("insertproportion", Number, "0", "weight of inserts"),
    known("scanproportion", Number, "0", "weight of scans"),
    known("readmodifywriteproportion", Number, "0", "weight of read-modify-writes"),
    known(
        "requestdistribution",
        OneOf(&["uniform", "zipfian", "latest", "sequential", "hotspot", "exponential"]),
        "uniform",
        "uniform | zipfian | latest | sequential | hotspot | exponential",
    ),
    known("hotspotdatafraction", Share, "0.2", "share of the records that is hot"),
    known("hotspotopnfraction", Share, "0.8", "share of the operations on hot records"),
    known("exponential.percentile", Number, "95", "per cent of the operations within exponential.frac"),
    known("exponential.frac", Number, "0.8571428571", "share of the records that they reach"),
    known("minscanlength", Whole, "1", "records of the shortest scan"),
    known("maxscanlength", Whole, "1000", "records of the longest scan"),
    known("scanlengthdistribution", OneOf(&["uniform", "zipfian"]), "uniform", "uniform | zipfian"),
    known("insertorder", OneOf(&["hashed", "ordered"]), "hashed", "hashed | ordered"),
    known("zeropadding", Whole, "1", "digits of a key at least"),
    known("keyprefix", Text, "user", "what stands before a key's digits"),
    known("insertstart", Whole, "0", "first key number of this process"),
    known("insertcount", Whole, "", "key numbers of this process; recordcount - insertstart"),
    known("core_workload_insertion_retry_limit", Whole, "0", "attempts of a failed load insert beyond the first"),
    known("core_workload_insertion_retry_interval", Number, "3", "seconds between them, give or take a fifth"),
    known("measurementtype", OneOf(MEASUREMENT_TYPES), "hdrhistogram", "always hdrhistogram here"),
    known(
        "measurement.interval",
        OneOf(&["op", "intended", "both"]),
        "op",
        "op | intended | both: which start a latency is taken from",
    ),
    known("hdrhistogram.percentiles", Percentiles, "95,99", "percentiles of --format ycsb"),
    known("status.interval", Whole, "10", "seconds between status lines of --format ycsb"),
    known("timeseries.granularity", Whole, "1000", "milliseconds of one point of a series"),
    known("workload", Core, "site.ycsb.workloads.CoreWorkload", "always the core workload here"),
    known(
        "basalt.keys",
        OneOf(&["decimal", "base32"]),
        "decimal",
        "decimal | base32: thirteen base-32 digits, all keys of one size",
    ),
    known(
        "basalt.values",
        OneOf(&["ycsb", "incompressible", "page"]),
        "ycsb",
        "ycsb (deflates to 0.8) | incompressible | page (about 5.6 : 1)",
    ),
    known(
        "basalt.compress",
        OneOf(&["none", "lz4", "zstd", "gzip"]),
        "none",
        "none | lz4 | zstd | gzip: the client compresses every value it writes",
    ),
    known(
        "basalt.record",
        OneOf(&["hash", "string", "queue", "leaderboard", "feed", "tags", "stream"]),
        "",
        "hash | string: one hash a record, or one packed string; hash unless updates are cas. queue | leaderboard | feed | \
         tags | stream: one collection a record",
    ),
    known("basalt.update", OneOf(&["write", "cas"]), "write", "write | cas: updates as compare-and-set by version"),
    known(
        "basalt.retry",
        OneOf(&["safe", "updates"]),
        "safe",
        "safe | updates: updates too are made again when their connection dies",
    ),
    known(
        "basalt.readfrom",
        OneOf(&["leader", "any"]),
        "leader",
        "leader | any: where reads go, unless --read-from says",
    ),
    known(
        "basalt.durability",
        OneOf(&["sync", "nosync"]),
        "",
        "sync | nosync: what every connection asks for, unless --durability says",
    ),
    known(
        "basalt.acks",
        OneOf(&["majority", "all", "none"]),
        "",
        "majority | all | none: likewise, unless --acks says",
    ),
    known(
        "basalt.zipfian",
        OneOf(&["shared", "process"]),
        "shared",
        "shared | process: every process has its own hot keys",
    ),
    known(
        "basalt.process",
        WholeOr("all"),
        "0",
        "which of the parallel processes this is, from 0; all: it stands in for all of them",
    ),
    known("basalt.processes", Whole, "1", "how many processes load or run in parallel"),
];

/// Properties by name; the last one set wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    values: BTreeMap<String, String>,
}

impl Properties {
    /// None set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what a property file says: the file at this path, or else the built-in workload of this name.
    ///
    /// # Errors
    /// The file cannot be read, or is not a property file.
    pub fn add_file(&mut self, name: &str) -> Result<(), String> {
        let base = Path::new(name).file_name().and_then(|base| base.to_str()).unwrap_or(name);
        let text = match std::fs::read(name) {
            Ok(bytes) => java::decoded(&bytes).map_err(|problem| format!("{name}: {problem}"))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => match builtin(base) {
                Some(text) => text.to_owned(),
                None => {
                    return Err(format!(
                        "{name}: {error} (built-in workloads are workloada to workloadf, queue, leaderboard, feed, tags and stream)"
                    ));
                }
            },
            Err(error) => return Err(format!("{name}: {error}")),
        };
        self.add_text(&text).map_err(|problem| format!("{name}: {problem}"))
    }

    /// Adds the properties of a text in Java's property format.
    ///
    /// # Errors
    /// A malformed `\u` escape, or a value without a name.
    pub fn add_text(&mut self, text: &str) -> Result<(), String> {
        for (name, value) in java::pairs(text)? {
            if name.is_empty() {
                return Err(format!("`={value}`: a property has a name"));
            }
            self.values.insert(name, value);
        }
        Ok(())
    }

    /// Adds `name=value`.
    ///
    /// # Errors
    /// There is no name, or no `=`.
    pub fn add_assignment(&mut self, assignment: &str) -> Result<(), String> {
        let pair = assignment.split_once('=').map(|(name, value)| (name.trim(), value));
        let (name, value) =
            pair.filter(|(name, _)| !name.is_empty()).ok_or_else(|| format!("-p {assignment}: expected name=value"))?;
        self.set(name, value);
        Ok(())
    }

    /// Sets one.
    pub fn set(&mut self, name: &str, value: &str) {
        self.values.insert(name.to_owned(), value.to_owned());
    }

    /// Whether every value of a known property is one that it may have.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), BadProperty> {
        for known in KNOWN {
            if let Some(problem) = self.values.get(known.name).and_then(|value| known.form.fault(value)) {
                return Err(bad(known.name, problem));
            }
        }
        Ok(())
    }

    /// What was given for `name`, without blanks around it.
    #[must_use]
    pub fn given(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.trim())
    }

    /// What holds for the known property `name`, without blanks around it: given, or its default.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.given(name).unwrap_or_else(|| default(name))
    }

    /// What holds for the known property `name`, which is a text: blanks are a part of it.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or_else(|| default(name), String::as_str)
    }

    /// Names that mean nothing here. They are kept, and reported.
    #[must_use]
    pub fn unknown(&self) -> Vec<&str> {
        let is_known = |name: &str| KNOWN.iter().any(|known| known.name == name);
        self.values.keys().map(String::as_str).filter(|name| !is_known(name)).collect()
    }

    /// Everything that holds, defaults included.
    #[must_use]
    pub fn effective(&self) -> BTreeMap<String, String> {
        let defaults = KNOWN.iter().filter(|known| !known.default.is_empty());
        let mut all: BTreeMap<_, _> = defaults.map(|known| (known.name.to_owned(), known.default.to_owned())).collect();
        all.extend(self.values.clone());
        all
    }
}

fn default(name: &str) -> &'static str {
    KNOWN.iter().find(|known| known.name == name).map_or("", |known| known.default)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_last_one_wins_and_the_unknown_are_kept() {
        let mut properties = Properties::new();
        properties.add_file("workloads/workloada").unwrap();
        properties.add_assignment("recordcount=5000000000").unwrap();
        properties.add_assignment("redis.host=h").unwrap();
        assert_eq!(properties.get("recordcount"), "5000000000");
        assert_eq!(properties.get("updateproportion"), "0.5");
        assert_eq!(properties.get("fieldcount"), "10");
        assert_eq!(properties.unknown(), ["redis.host"]);
        assert_eq!(properties.effective()["redis.host"], "h");
        assert!(properties.add_assignment("nothing").is_err() && properties.add_assignment("=5").is_err());
        assert!(properties.add_file("workloadz").is_err() && properties.add_text("=5").is_err());
    }

    #[test]
    fn every_default_is_a_value_that_may_be_given() {
        for known in KNOWN.iter().filter(|known| !known.default.is_empty()) {
            assert_eq!(known.form.fault(known.default), None, "{}", known.name);
        }
    }

    #[test]
    fn values_that_cannot_be_are_refused_by_their_form() {
        let refused = "requestdistribution= requestdistribution=Zipfian fieldcount= fieldcount=-1 fieldcount=1.5 insertorder= \
            insertorder=random readallfields=yes dataintegrity= hotspotdatafraction=1.1 readproportion=NaN target=-1 \
            measurement.interval= measurement.interval=foo hdrhistogram.percentiles=abc hdrhistogram.percentiles=101 \
            hdrhistogram.percentiles=-5 hdrhistogram.percentiles=95, status.interval=x measurementtype=none \
            workload=site.ycsb.workloads.TimeSeriesWorkload workload=RestWorkload workload= threadcount=x \
            fieldlengthhistogram= basalt.record= basalt.process=some insertcount= maxexecutiontime=soon";
        for assignment in refused.split_whitespace() {
            let mut properties = Properties::new();
            properties.add_assignment(assignment).unwrap();
            let name = assignment.split_once('=').unwrap().0;
            assert_eq!(properties.check().unwrap_err().name, name, "{assignment}");
        }
        let taken = "keyprefix= fieldnameprefix= table= requestdistribution=zipfian readallfields=TRUE fieldcount=7 \
            hdrhistogram.percentiles=50,99.9,100 workload=com.yahoo.ycsb.workloads.CoreWorkload basalt.process=all x=";
        let mut properties = Properties::new();
        taken.split_whitespace().for_each(|assignment| properties.add_assignment(assignment).unwrap());
        properties.check().unwrap();
        assert_eq!((properties.text("keyprefix"), properties.text("fieldnameprefix")), ("", ""));
    }
}
