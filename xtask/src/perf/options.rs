//! What the command line asks for.

/// Runs of each side unless told otherwise.
const RUNS: usize = 5;
const RUNS_MAX: usize = 100;

/// The options of `cargo xtask perf`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What to measure; everything if empty.
    pub names: Vec<String>,
    /// Pairs of runs.
    pub runs: usize,
    /// Little data and few requests: shows that the tool works; the figures mean nothing.
    pub quick: bool,
    /// JSON in place of Markdown.
    pub json: bool,
    /// Only list the names.
    pub list: bool,
    /// The optimised binaries are there already.
    pub no_build: bool,
    /// The older commit that `build` compares with.
    pub against: Option<String>,
    /// The older program that `older` compares with.
    pub older: Option<String>,
    /// The program to measure, in place of the one of this tree.
    pub program: Option<String>,
}

impl Options {
    /// Reads the arguments; `known` are the names that there are.
    pub fn read(arguments: &[String], known: &[&str]) -> Result<Self, String> {
        let (mut options, mut runs) = (Self::default(), None);
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--json" => options.json = true,
                "--list" => options.list = true,
                "--no-build" => options.no_build = true,
                "--program" => options.program = Some(rest.next().ok_or("--program needs a file")?.clone()),
                "--older" => options.older = Some(rest.next().ok_or("--older needs a file")?.clone()),
                "--against" => options.against = Some(rest.next().ok_or("--against needs a commit")?.clone()),
                "--runs" => {
                    let text = rest.next().ok_or("--runs needs a number")?;
                    let number = text.parse().ok().filter(|n| (1..=RUNS_MAX).contains(n));
                    runs = Some(number.ok_or(format!("--runs {text}: not a number from 1 to {RUNS_MAX}"))?);
                }
                name if known.contains(&name) => options.names.push(name.to_owned()),
                other if other.starts_with('-') => return Err(format!("unknown option {other}")),
                other => return Err(format!("{other} is none of {}", known.join(", "))),
            }
        }
        options.runs = runs.unwrap_or(if options.quick { 1 } else { RUNS });
        Ok(options)
    }

    /// Whether `name` is to be measured: it, or the group before its `/`, was named.
    pub fn chose(&self, name: &str) -> bool {
        let group = name.split_once('/').map(|(group, _)| group);
        self.names.is_empty() || self.names.iter().any(|chosen| chosen == name || Some(chosen.as_str()) == group)
    }

    /// The number as it is, or the smaller one of a quick run.
    pub fn scale(&self, full: u64, quick: u64) -> u64 {
        if self.quick { quick } else { full }
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn a_group_chooses_all_of_it() {
        let chosen = |names: &[&str], name| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            Options { names, ..Options::default() }.chose(name)
        };
        for (names, name, expected) in [
            (&[][..], "nodes/scans", true),
            (&["nodes"], "nodes/scans", true),
            (&["nodes/scans"], "nodes/scans", true),
            (&["nodes/scans"], "nodes/etcd", false),
            (&["redis"], "redis-sync", false),
        ] {
            assert_eq!(chosen(names, name), expected, "{names:?} {name}");
        }
    }

    #[test]
    fn arguments_are_read_or_refused() {
        let read = |line: &str| {
            let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            Options::read(&arguments, &["redis", "noop"])
                .map(|options| format!("{:?} {} {} {}", options.names, options.runs, options.quick, options.json))
        };
        for (line, expected) in [
            ("", Ok("[] 5 false false")),
            ("--quick", Ok("[] 1 true false")),
            ("noop --runs 3 --quick --json", Ok("[\"noop\"] 3 true true")),
            ("--runs 0", Err("--runs 0: not a number from 1 to 100")),
            ("--runs", Err("--runs needs a number")),
            ("noop --program /usr/bin/basalt", Ok("[\"noop\"] 5 false false")),
            ("--program", Err("--program needs a file")),
            ("--against", Err("--against needs a commit")),
            ("disk", Err("disk is none of redis, noop")),
            ("--fast", Err("unknown option --fast")),
        ] {
            assert_eq!(read(line), expected.map(str::to_owned).map_err(str::to_owned), "{line}");
        }
    }
}
