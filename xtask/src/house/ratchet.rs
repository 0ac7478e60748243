//! What is still excused of the rules that came after the code: numbers a crate that only become smaller.
//!
//! `xtask/excuses/CRATE.txt` holds them. A number that is larger than what stands in the crate is as wrong as one that
//! is smaller, so that nothing comes back. The sums over all crates have ceilings in this file.

use super::prose;
use super::tree::Breach;
use super::workspace::Workspace;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// The folder that holds the excuses.
const FOLDER: &str = "xtask/excuses";

/// How the message about an excuse that is too large ends.
const STALE: &str = "run `cargo xtask house --shrink`";

/// Sums over all crates that the excuses may not exceed: an excuse more in one place is one less in another.
const CEILINGS: Figures = Figures { circle_files: 0, circle_folders: 0, banned_words: 0, extra_impls: BTreeMap::new() };
/// Whether an excuse that is larger than what stands is a breach.
const STALE_EXCUSES_FAIL: bool = true;
/// The same for the extra `impl` blocks of all types together.
const EXTRA_IMPLS_MAX: usize = 0;

/// One crate's numbers: what stands in it, or what is excused.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Files that stand in a circle of imports between files.
    pub circle_files: usize,
    /// Folders, and files beside them, that stand in a circle of imports.
    pub circle_folders: usize,
    /// Words that are banned and not yet replaced.
    pub banned_words: usize,
    /// Inherent `impl` blocks beyond the first, by type, with the reason.
    pub extra_impls: BTreeMap<String, (usize, String)>,
}

impl Figures {
    /// All extra `impl` blocks.
    pub fn extra_impls_all(&self) -> usize {
        self.extra_impls.values().map(|(count, _)| count).sum()
    }

    /// Reads a file of excuses.
    fn parse(text: &str) -> Result<Self, String> {
        let mut figures = Self::default();
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            let wrong = || format!("`{line}`: a line is `NAME: NUMBER`, or `impl TYPE: NUMBER, REASON`");
            let (name, value) = line.split_once(": ").ok_or_else(wrong)?;
            if let Some(name) = name.strip_prefix("impl ") {
                let (count, reason) = value.split_once(", ").ok_or_else(wrong)?;
                let count = count.parse().map_err(|_| wrong())?;
                figures.extra_impls.insert(name.to_owned(), (count, reason.to_owned()));
                continue;
            }
            let count = value.parse().map_err(|_| wrong())?;
            match name {
                "files in circles" => figures.circle_files = count,
                "folders in circles" => figures.circle_folders = count,
                "banned words" => figures.banned_words = count,
                _ => return Err(wrong()),
            }
        }
        Ok(figures)
    }

    /// The file of excuses that says this.
    fn text(&self) -> String {
        let mut text = String::new();
        let numbers = [
            ("files in circles", self.circle_files),
            ("folders in circles", self.circle_folders),
            ("banned words", self.banned_words),
        ];
        for (name, count) in numbers.into_iter().filter(|(_, count)| *count > 0) {
            let _ = writeln!(text, "{name}: {count}");
        }
        for (name, (count, reason)) in &self.extra_impls {
            let _ = writeln!(text, "impl {name}: {count}, {reason}");
        }
        text
    }

    /// What of these excuses is still needed where `actual` stands.
    fn shrunk(&self, actual: &Self) -> Self {
        let needed = self.extra_impls.iter().filter_map(|(name, (count, reason))| {
            let count = (*count).min(actual.extra_impls.get(name)?.0);
            Some((name.clone(), (count, reason.clone())))
        });
        Self {
            circle_files: self.circle_files.min(actual.circle_files),
            circle_folders: self.circle_folders.min(actual.circle_folders),
            banned_words: self.banned_words.min(actual.banned_words),
            extra_impls: needed.collect(),
        }
    }
}

/// What stands in each crate.
pub fn actual(workspace: &Workspace) -> BTreeMap<String, Figures> {
    let mut rooms: BTreeMap<String, Figures> = BTreeMap::new();
    for file in workspace.files.iter().filter(|file| file.path != "docs/GLOSSARY.md") {
        let count = prose::banned(file).len();
        if count > 0 {
            rooms.entry(file.room().to_owned()).or_default().banned_words += count;
        }
    }
    for found in &workspace.crates {
        let figures = rooms.entry(found.name.clone()).or_default();
        (figures.circle_files, figures.circle_folders) = found.circles().members();
        for (name, places) in found.extra_impls() {
            figures.extra_impls.insert(name, (places.len(), String::new()));
        }
    }
    rooms
}

/// What is excused in each crate.
fn excused(workspace: &Workspace) -> Result<BTreeMap<String, Figures>, Breach> {
    let mut rooms = BTreeMap::new();
    for file in &workspace.files {
        let name = file.path.strip_prefix(FOLDER).and_then(|rest| rest.strip_prefix('/')?.strip_suffix(".txt"));
        let Some(name) = name else { continue };
        let figures =
            Figures::parse(&file.text).map_err(|why| Breach { rule: "excuses", place: file.path.clone(), why })?;
        rooms.insert(name.to_owned(), figures);
    }
    Ok(rooms)
}

/// The rule: what stands in each crate is what is excused, and the excuses are below their ceilings.
pub fn rule(workspace: &Workspace) -> Vec<Breach> {
    let mut breaches = rule_below(workspace, &CEILINGS, EXTRA_IMPLS_MAX);
    breaches.retain(|breach| STALE_EXCUSES_FAIL || !breach.why.ends_with(STALE));
    breaches
}

fn rule_below(workspace: &Workspace, ceilings: &Figures, extra_impls_max: usize) -> Vec<Breach> {
    let excused = match excused(workspace) {
        Ok(excused) => excused,
        Err(breach) => return vec![breach],
    };
    let actual = actual(workspace);
    let none = Figures::default();
    let mut breaches = Vec::new();
    let mut names: Vec<&String> = actual.keys().chain(excused.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (stands, may) = (actual.get(name).unwrap_or(&none), excused.get(name).unwrap_or(&none));
        Comparison { workspace, name, breaches: &mut breaches }.all(stands, may);
    }
    let sum = |count: fn(&Figures) -> usize| excused.values().map(count).sum::<usize>();
    let sums: [(&'static str, usize, usize); 4] = [
        ("file circles", sum(|figures| figures.circle_files), ceilings.circle_files),
        ("folder circles", sum(|figures| figures.circle_folders), ceilings.circle_folders),
        ("banned words", sum(|figures| figures.banned_words), ceilings.banned_words),
        ("one impl", sum(Figures::extra_impls_all), extra_impls_max),
    ];
    for (rule, sum, ceiling) in sums.into_iter().filter(|(_, sum, ceiling)| sum > ceiling) {
        let why = format!("the excuses of all crates come to {sum}; at most {ceiling} may be, and excuses only go");
        breaches.push(Breach { rule, place: FOLDER.to_owned(), why });
    }
    breaches
}

/// Compares what stands in one crate with what is excused there.
struct Comparison<'a> {
    workspace: &'a Workspace,
    name: &'a str,
    breaches: &'a mut Vec<Breach>,
}

impl Comparison<'_> {
    fn all(&mut self, stands: &Figures, may: &Figures) {
        if self.differs("file circles", "files in circles", stands.circle_files, may.circle_files) {
            self.circles("file circles");
        }
        if self.differs("folder circles", "folders in circles", stands.circle_folders, may.circle_folders) {
            self.circles("folder circles");
        }
        if self.differs("banned words", "banned words", stands.banned_words, may.banned_words) {
            self.words();
        }
        let names = stands.extra_impls.keys().chain(may.extra_impls.keys());
        let names: std::collections::BTreeSet<&String> = names.collect();
        for name in names {
            let count = |figures: &Figures| figures.extra_impls.get(name).map_or(0, |(count, _)| *count);
            if self.differs("one impl", &format!("impl {name}"), count(stands), count(may)) {
                self.impls(name);
            }
        }
    }

    /// Whether there is more than may be. Less is a breach too, of the excuse.
    fn differs(&mut self, rule: &'static str, what: &str, stands: usize, may: usize) -> bool {
        if stands == may {
            return false;
        }
        let why = if stands > may {
            format!("`{what}`: {stands}, and {may} are excused")
        } else {
            format!("`{what}`: {may} are excused and {stands} are left; {STALE}")
        };
        self.breaches.push(Breach { rule, place: format!("{FOLDER}/{}.txt", self.name), why });
        stands > may
    }

    fn circles(&mut self, rule: &'static str) {
        for found in self.workspace.crates.iter().filter(|found| found.name == self.name) {
            let circles = found.circles();
            let circles = if rule == "file circles" { circles.files } else { circles.folders };
            for circle in circles {
                let why = circle.arrows.join("\n    ");
                self.breaches.push(Breach { rule, place: circle.members.join(", "), why: format!("\n    {why}") });
            }
        }
    }

    fn words(&mut self) {
        for file in self.workspace.files.iter().filter(|file| file.room() == self.name) {
            for (line, phrase) in prose::banned(file) {
                let why = format!("`{phrase}`: name the actor, or use the field's term");
                self.breaches.push(Breach { rule: "banned words", place: file.place(line), why });
            }
        }
    }

    fn impls(&mut self, name: &str) {
        for found in self.workspace.crates.iter().filter(|found| found.name == self.name) {
            for place in found.extra_impls().remove(name).unwrap_or_default() {
                let why = format!("another inherent `impl {name}`; what is too long gives up a struct");
                self.breaches.push(Breach { rule: "one impl", place, why });
            }
        }
    }
}

/// Writes the excuses anew without what is no longer needed. It never adds one.
pub fn shrink(root: &Path, workspace: &Workspace) -> Result<String, String> {
    let actual = actual(workspace);
    let none = Figures::default();
    let mut said = String::new();
    for (name, may) in excused(workspace).map_err(|breach| format!("{}: {}", breach.place, breach.why))? {
        let needed = may.shrunk(actual.get(&name).unwrap_or(&none));
        if needed == may {
            continue;
        }
        let path = root.join(FOLDER).join(format!("{name}.txt"));
        let done = if needed == none { std::fs::remove_file(&path) } else { std::fs::write(&path, needed.text()) };
        done.map_err(|error| format!("{}: {error}", path.display()))?;
        let _ = writeln!(said, "{FOLDER}/{name}.txt is shorter");
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::super::tree::File;
    use super::*;

    fn workspace(excuses: &str) -> Workspace {
        let files = [
            ("crates/a/src/lib.rs", "mod a; mod b; pub mod c;"),
            ("crates/a/src/a.rs", "use crate::b::B; pub struct A; impl A {}"),
            ("crates/a/src/b.rs", concat!("use super::a::A; pub struct B; impl A {} // No", "body.\n")),
            ("crates/a/src/c/mod.rs", "mod d; mod e { pub use super::d::D; }"),
            ("crates/a/src/c/d.rs", "pub struct D;"),
            ("xtask/excuses/a.txt", excuses),
        ];
        Workspace::of(files.map(|(path, text)| File { path: path.to_owned(), text: text.to_owned() }).into())
    }

    const NEEDED: &str = "files in circles: 2\nbanned words: 1\nimpl A: 1, a reason\n";

    fn ceilings() -> Figures {
        Figures { circle_files: 2, banned_words: 1, ..Figures::default() }
    }

    fn rules(excuses: &str) -> Vec<&'static str> {
        let mut rules: Vec<_> =
            rule_below(&workspace(excuses), &ceilings(), 1).into_iter().map(|breach| breach.rule).collect();
        rules.dedup();
        rules
    }

    #[test]
    fn what_stands_is_what_is_excused_no_more_and_no_less() {
        let cases: [(&str, &[&str]); 8] = [
            (NEEDED, &[]),
            ("banned words: 1\nimpl A: 1, a reason\n", &["file circles"]),
            ("files in circles: 2\nimpl A: 1, a reason\n", &["banned words"]),
            ("files in circles: 2\nbanned words: 1\n", &["one impl"]),
            // Excuses that are not needed are breaches themselves, of their rule and of the ceiling.
            ("files in circles: 3\nbanned words: 1\nimpl A: 1, a reason\n", &["file circles"]),
            ("files in circles: 2\nbanned words: 1\nimpl A: 1, a reason\nimpl B: 1, a reason\n", &["one impl"]),
            ("files in circles: 2\nfolders in circles: 1\nbanned words: 1\nimpl A: 1, a\n", &["folder circles"]),
            ("files in circles: some\n", &["excuses"]),
        ];
        for (excuses, expected) in cases {
            assert_eq!(rules(excuses), expected, "{excuses}");
        }
    }

    #[test]
    fn the_sum_of_the_excuses_has_a_ceiling() {
        let lower = Figures { circle_files: 1, ..ceilings() };
        let breaches = rule_below(&workspace(NEEDED), &lower, 1);
        assert_eq!(breaches.len(), 1, "{breaches:?}");
        assert_eq!(rule_below(&workspace(NEEDED), &ceilings(), 0).len(), 1);
    }

    #[test]
    fn shrinking_keeps_what_is_needed_and_adds_nothing() {
        let may = Figures::parse("files in circles: 9\nimpl A: 3, why\nimpl C: 1, why\n").expect("it is well formed");
        let actual = actual(&workspace(""));
        let needed = may.shrunk(&actual["a"]);
        assert_eq!(needed.text(), "files in circles: 2\nimpl A: 1, why\n");
    }
}
