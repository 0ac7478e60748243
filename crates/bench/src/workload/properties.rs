//! YCSB's property files (Java's format) and the properties that the laboratory knows.

use std::collections::BTreeMap;
use std::path::Path;

use super::builtin::builtin;

/// A property: its name, its default (empty where it has none) and what it is for.
pub struct Known {
    /// As it is written in files and after `-p`.
    pub name: &'static str,
    /// What holds when it is not given.
    pub default: &'static str,
    /// In a few words.
    pub meaning: &'static str,
}

const fn known(name: &'static str, default: &'static str, meaning: &'static str) -> Known {
    Known { name, default, meaning }
}

/// Every property that means something here: YCSB's, then the laboratory's own.
pub const KNOWN: &[Known] = &[
    known("recordcount", "0", "records that the load writes"),
    known("operationcount", "0", "operations of a run; 0 = until maxexecutiontime"),
    known("maxexecutiontime", "0", "seconds after which a phase ends; 0 = never"),
    known("target", "0", "operations a second at most, closed loop; 0 = no bound"),
    known("threadcount", "1", "clients"),
    known("table", "usertable", "not part of the key here"),
    known("fieldcount", "10", "fields of a record"),
    known("fieldlength", "100", "bytes of a field, or their maximum"),
    known("minfieldlength", "1", "bytes of the shortest field"),
    known("fieldlengthdistribution", "constant", "constant | uniform | zipfian | histogram"),
    known("fieldlengthhistogram", "hist.txt", "file of field lengths"),
    known("fieldnameprefix", "field", "what stands before a field's number"),
    known("readallfields", "true", "read all fields, or one"),
    known("writeallfields", "false", "update all fields, or one"),
    known("dataintegrity", "false", "values that follow from key and field, as YCSB makes them"),
    known("readproportion", "0.95", "weight of reads"),
    known("updateproportion", "0.05", "weight of updates"),
    known("insertproportion", "0", "weight of inserts"),
    known("scanproportion", "0", "weight of scans"),
    known("readmodifywriteproportion", "0", "weight of read-modify-writes"),
    known("requestdistribution", "uniform", "uniform | zipfian | latest | sequential | hotspot | exponential"),
    known("hotspotdatafraction", "0.2", "share of the records that is hot"),
    known("hotspotopnfraction", "0.8", "share of the operations on hot records"),
    known("exponential.percentile", "95", "per cent of the operations within exponential.frac"),
    known("exponential.frac", "0.8571428571", "share of the records that they reach"),
    known("minscanlength", "1", "records of the shortest scan"),
    known("maxscanlength", "1000", "records of the longest scan"),
    known("scanlengthdistribution", "uniform", "uniform | zipfian"),
    known("insertorder", "hashed", "hashed | ordered"),
    known("zeropadding", "1", "digits of a key at least"),
    known("keyprefix", "user", "what stands before a key's digits"),
    known("insertstart", "0", "first key number of this process"),
    known("insertcount", "", "key numbers of this process; recordcount - insertstart"),
    known("core_workload_insertion_retry_limit", "0", "attempts of a failed load insert beyond the first"),
    known("core_workload_insertion_retry_interval", "3", "seconds between them, give or take a fifth"),
    known("measurementtype", "hdrhistogram", "always hdrhistogram here"),
    known("measurement.interval", "op", "op | intended | both: which start a latency is taken from"),
    known("hdrhistogram.percentiles", "95,99", "percentiles of --format ycsb"),
    known("status.interval", "10", "seconds between status lines of --format ycsb"),
    known("timeseries.granularity", "1000", "milliseconds of one point of a series"),
    known("workload", "site.ycsb.workloads.CoreWorkload", "always the core workload here"),
    known("basalt.keys", "decimal", "decimal | base32: thirteen base-32 digits, all keys of one size"),
    known("basalt.values", "ycsb", "ycsb (deflates to 0.8) | incompressible | page (about 5.6 : 1)"),
    known("basalt.compress", "none", "none | lz4 | zstd | gzip: the client compresses every value it writes"),
    known("basalt.record", "", "hash | string: one hash a record, or one packed string; hash unless updates are cas"),
    known("basalt.update", "write", "write | cas: updates as compare-and-set by version"),
    known("basalt.retry", "safe", "safe | updates: updates too are made again when their connection dies"),
    known("basalt.readfrom", "leader", "leader | any: where reads go, unless --read-from says"),
    known("basalt.durability", "", "sync | nosync: what every connection asks for, unless --durability says"),
    known("basalt.acks", "", "majority | all | none: likewise, unless --acks says"),
    known("basalt.zipfian", "shared", "shared | process: every process has its own hot keys"),
    known("basalt.process", "0", "which of the parallel processes this is, from 0; all: it stands in for all of them"),
    known("basalt.processes", "1", "how many processes load or run in parallel"),
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

    /// Adds what a property file says: the built-in workload of this name, or else the file at this path.
    ///
    /// # Errors
    /// The file cannot be read, or is not a property file.
    pub fn add_file(&mut self, name: &str) -> Result<(), String> {
        let base = Path::new(name).file_name().and_then(|base| base.to_str()).unwrap_or(name);
        match std::fs::read_to_string(name) {
            Ok(text) => self.add_text(&text).map_err(|problem| format!("{name}: {problem}")),
            Err(_) if builtin(base).is_some() => self.add_text(builtin(base).unwrap_or_default()),
            Err(error) => Err(format!("{name}: {error} (built-in workloads are workloada to workloadf)")),
        }
    }

    /// Adds the properties of a text in Java's property format.
    ///
    /// # Errors
    /// A malformed `\u` escape.
    pub fn add_text(&mut self, text: &str) -> Result<(), String> {
        for line in logical_lines(text) {
            let (name, value) = split(&line);
            self.values.insert(unescape(name)?, unescape(value)?);
        }
        Ok(())
    }

    /// Adds `name=value`.
    ///
    /// # Errors
    /// There is no `=`.
    pub fn add_assignment(&mut self, assignment: &str) -> Result<(), String> {
        let (name, value) =
            assignment.split_once('=').ok_or_else(|| format!("-p {assignment}: expected name=value"))?;
        self.set(name.trim(), value.trim());
        Ok(())
    }

    /// Sets one.
    pub fn set(&mut self, name: &str, value: &str) {
        self.values.insert(name.to_owned(), value.to_owned());
    }

    /// What was given for `name`, if anything but nothing was.
    #[must_use]
    pub fn given(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// What holds for the known property `name`: given, or its default.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        let default = || KNOWN.iter().find(|known| known.name == name).map_or("", |known| known.default);
        self.given(name).unwrap_or_else(default)
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

/// Lines without comments and blank ones, continued ones joined.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        let line = line.trim_start();
        if open.is_none() && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        let mut whole = open.take().unwrap_or_default();
        let backslashes = line.bytes().rev().take_while(|&byte| byte == b'\\').count();
        if backslashes % 2 == 1 {
            whole.push_str(&line[..line.len() - 1]);
            open = Some(whole);
        } else {
            whole.push_str(line);
            lines.push(whole);
        }
    }
    lines.extend(open);
    lines
}

/// The name ends at the first unescaped `=`, `:` or blank.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|character: char| {
        let ends = !escaped && (character == '=' || character == ':' || character.is_whitespace());
        escaped = character == '\\' && !escaped;
        ends
    });
    let Some(end) = end else { return (line, "") };
    let rest = line[end..].trim_start();
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (&line[..end], value.trim_start())
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let digits: String = characters.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
                out.push(code.and_then(char::from_u32).ok_or_else(|| format!("malformed \\u{digits}"))?);
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn java_property_files() {
        let text = "# comment\n! comment too\n\n  a = 1\nb:2\nc 3\nd=\ne\nf=one\\\n   two\\\\\ng\\ h=x=y:z \\u0041\\t.\r\na=4\n";
        let mut properties = Properties::new();
        properties.add_text(text).unwrap();
        let expected =
            [("a", "4"), ("b", "2"), ("c", "3"), ("d", ""), ("e", ""), ("f", "onetwo\\"), ("g h", "x=y:z A\t.")];
        let found: Vec<_> = properties.values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, expected);
        assert!(properties.add_text("a=\\u00").is_err());
    }

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
        assert!(properties.add_assignment("nothing").is_err());
        assert!(properties.add_file("workloadz").is_err());
    }
}
