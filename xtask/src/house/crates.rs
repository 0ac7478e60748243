//! The crates of the workspace: their module trees, and which file uses which.

use super::source::{Module, Path, Source};
use super::tree::{Breach, File};
use std::collections::{BTreeMap, BTreeSet};

/// How many names may stand between a use and its definition.
const DETOURS_MAX: usize = 16;

/// One file of a crate.
pub struct CrateFile {
    /// Its path from the workspace's root.
    pub path: String,
    /// What it holds.
    pub source: Source,
    /// The path of the module that it is, from the crate's root.
    module: Vec<String>,
}

/// One crate without its tests.
pub struct Crate {
    /// The name of its folder.
    pub name: String,
    /// Its files that are compiled outside tests.
    pub files: Vec<CrateFile>,
}

/// What a path leads to.
enum Target {
    Module(Vec<String>),
    /// An item of the file with this number.
    Item(usize),
}

/// Reads every crate, and says which files cannot be read.
pub fn read(files: &[File]) -> (Vec<Crate>, Vec<Breach>) {
    let mut crates = Vec::new();
    let mut breaches = Vec::new();
    for root in files.iter().filter(|file| is_root(&file.path)) {
        let mut found = Crate { name: root.room().to_owned(), files: Vec::new() };
        let folder = root.path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let mut waiting = vec![(root, Vec::new(), folder)];
        while let Some((file, module, folder)) = waiting.pop() {
            let source = match Source::parse(&file.text) {
                Ok(source) => source,
                Err(why) => {
                    breaches.push(Breach { rule: "readable", place: file.path.clone(), why });
                    continue;
                }
            };
            for child in &source.module.children {
                let paths = [format!("{folder}/{child}.rs"), format!("{folder}/{child}/mod.rs")];
                if let Some(file) = files.iter().find(|file| paths.contains(&file.path)) {
                    let module = module.iter().cloned().chain([child.clone()]).collect();
                    waiting.push((file, module, format!("{folder}/{child}")));
                }
            }
            found.files.push(CrateFile { path: file.path.clone(), source, module });
        }
        found.files.sort_by(|a, b| a.path.cmp(&b.path));
        crates.push(found);
    }
    (crates, breaches)
}

fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], ["crates" | "bin", _, "src", "lib.rs" | "main.rs"] | ["xtask", "src", "lib.rs" | "main.rs"])
}

impl Crate {
    /// For each file the files that its code uses, with the line of the first use.
    pub fn imports(&self) -> Vec<BTreeMap<usize, usize>> {
        let numbers: BTreeMap<&[String], usize> =
            self.files.iter().enumerate().map(|(number, file)| (file.module.as_slice(), number)).collect();
        let mut imports = vec![BTreeMap::new(); self.files.len()];
        for (number, file) in self.files.iter().enumerate() {
            for path in &file.source.paths {
                if let Some(target) = self.target_file(&numbers, file, path)
                    && target != number
                {
                    imports[number].entry(target).or_insert(path.line);
                }
            }
        }
        imports
    }

    fn target_file(&self, numbers: &BTreeMap<&[String], usize>, file: &CrateFile, path: &Path) -> Option<usize> {
        let from: Vec<String> = file.module.iter().chain(&path.within).cloned().collect();
        match self.resolve(numbers, &from, &path.segments, DETOURS_MAX)? {
            Target::Item(number) => Some(number),
            // A module that is only named: what is used of it is seen where it is used.
            Target::Module(_) => None,
        }
    }

    /// What `segments` means in the module `from`; none if it leads out of the crate.
    fn resolve(
        &self,
        numbers: &BTreeMap<&[String], usize>,
        from: &[String],
        segments: &[String],
        detours: usize,
    ) -> Option<Target> {
        let mut module = from.to_vec();
        for (i, segment) in segments.iter().enumerate() {
            match segment.as_str() {
                "crate" => module.clear(),
                "self" => {}
                "super" => drop(module.pop()),
                // All names of a module: a use of the file that it is.
                "*" => return Some(Target::Item(self.module(numbers, &module)?.1)),
                name => {
                    let (here, file) = self.module(numbers, &module)?;
                    let is_child = here.children.iter().any(|child| child == name)
                        || here.inline.iter().any(|child| child.name == name);
                    if is_child {
                        module.push(name.to_owned());
                        continue;
                    }
                    if here.items.contains(name) {
                        return Some(Target::Item(file));
                    }
                    let rest = &segments[i + 1..];
                    let is_first = i == 0;
                    return self.brought_in(numbers, &module, name, rest, detours).or(if is_first {
                        // Another crate, or something of the prelude.
                        None
                    } else {
                        Some(Target::Item(file))
                    });
                }
            }
        }
        Some(Target::Module(module))
    }

    /// What `name`, which a `use` item of `module` brings in, and `rest` behind it mean.
    fn brought_in(
        &self,
        numbers: &BTreeMap<&[String], usize>,
        module: &[String],
        name: &str,
        rest: &[String],
        detours: usize,
    ) -> Option<Target> {
        let detours = detours.checked_sub(1)?;
        let (here, _) = self.module(numbers, module)?;
        if let Some(path) = here.names.get(name) {
            // Without the count, `use name::name` of another crate would lead here again and again.
            return match self.resolve(numbers, module, path, detours)? {
                Target::Item(file) => Some(Target::Item(file)),
                Target::Module(found) => self.resolve(numbers, &found, rest, detours),
            };
        }
        for glob in &here.globs {
            if let Some(Target::Module(found)) = self.resolve(numbers, module, glob, detours)
                && found != module
            {
                let (there, file) = self.module(numbers, &found)?;
                if there.items.contains(name) {
                    return Some(Target::Item(file));
                }
                if let Some(target) = self.brought_in(numbers, &found, name, rest, detours) {
                    return Some(target);
                }
            }
        }
        None
    }

    /// The module with this path, and the number of its file.
    fn module(&self, numbers: &BTreeMap<&[String], usize>, path: &[String]) -> Option<(&Module, usize)> {
        for depth in (0..=path.len()).rev() {
            let Some(&number) = numbers.get(&path[..depth]) else { continue };
            let mut module = &self.files[number].source.module;
            for name in &path[depth..] {
                module = module.inline.iter().find(|inner| inner.name == *name)?;
            }
            return Some((module, number));
        }
        None
    }

    /// How many inherent `impl` blocks each type has beyond its first.
    pub fn extra_impls(&self) -> BTreeMap<String, Vec<String>> {
        let numbers: BTreeMap<&[String], usize> =
            self.files.iter().enumerate().map(|(number, file)| (file.module.as_slice(), number)).collect();
        let mut blocks: BTreeMap<(usize, &str), Vec<String>> = BTreeMap::new();
        for (number, file) in self.files.iter().enumerate() {
            let mut modules = vec![(file.module.clone(), &file.source.module)];
            while let Some((path, module)) = modules.pop() {
                for name in &module.impls {
                    let home = match self.resolve(&numbers, &path, std::slice::from_ref(name), DETOURS_MAX) {
                        Some(Target::Item(home)) => home,
                        _ => number,
                    };
                    blocks.entry((home, name)).or_default().push(file.path.clone());
                }
                for inner in &module.inline {
                    modules.push((path.iter().cloned().chain([inner.name.clone()]).collect(), inner));
                }
            }
        }
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for ((_, name), mut places) in blocks {
            places.sort();
            if places.len() > 1 {
                extra.entry(name.to_owned()).or_default().extend(places.split_off(1));
            }
        }
        extra
    }

    /// The circles between files, and those between what stands side by side in a folder if a folder is among it.
    pub fn circles(&self) -> Circles {
        let imports = self.imports();
        let edges: Vec<BTreeSet<usize>> = imports.iter().map(|uses| uses.keys().copied().collect()).collect();
        let files = strongly_connected(&edges);
        let name = |number: usize| self.files[number].path.clone();
        let files = files
            .into_iter()
            .map(|members| {
                let mut circle = Circle::default();
                for &member in &members {
                    circle.members.push(name(member));
                    let inside = imports[member].iter().filter(|(target, _)| members.contains(target));
                    circle.arrows.extend(
                        inside.map(|(&target, &line)| format!("{}:{line} uses {}", name(member), name(target))),
                    );
                }
                circle
            })
            .collect();
        Circles { files, folders: self.folder_circles(&imports) }
    }

    fn folder_circles(&self, imports: &[BTreeMap<usize, usize>]) -> Vec<Circle> {
        let folders: BTreeSet<String> = self
            .files
            .iter()
            .flat_map(|file| file.path.match_indices('/').map(|(at, _)| file.path[..at].to_owned()))
            .collect();
        let mut circles = Vec::new();
        for folder in folders {
            // `name.rs` beside a folder `name` is that folder's door, as its `mod.rs` would be.
            let unit = |path: &str| -> Option<String> {
                let rest = path.strip_prefix(&folder)?.strip_prefix('/')?;
                let first = rest.split('/').next()?;
                let is_folder = rest.contains('/');
                let stem = first.trim_end_matches(".rs");
                let has_folder = self.files.iter().any(|file| file.path.starts_with(&format!("{folder}/{stem}/")));
                Some(if is_folder || has_folder { format!("{folder}/{stem}/") } else { format!("{folder}/{first}") })
            };
            let units: Vec<Option<String>> = self.files.iter().map(|file| unit(&file.path)).collect();
            let names: Vec<&String> = units.iter().flatten().collect::<BTreeSet<_>>().into_iter().collect();
            let number = |name: &String| names.iter().position(|other| *other == name);
            let mut edges = vec![BTreeSet::new(); names.len()];
            let mut arrows: BTreeMap<(usize, usize), String> = BTreeMap::new();
            for (file, uses) in imports.iter().enumerate() {
                for (&target, &line) in uses {
                    let (Some(from), Some(to)) = (&units[file], &units[target]) else { continue };
                    let (Some(from), Some(to)) = (number(from), number(to)) else { continue };
                    if from != to {
                        edges[from].insert(to);
                        let arrow = format!("{}:{line} uses {}", self.files[file].path, self.files[target].path);
                        arrows.entry((from, to)).or_insert(arrow);
                    }
                }
            }
            for members in strongly_connected(&edges) {
                if members.iter().all(|&member| !names[member].ends_with('/')) {
                    continue;
                }
                let inside = arrows.iter().filter(|((from, to), _)| members.contains(from) && members.contains(to));
                circles.push(Circle {
                    arrows: inside.map(|(_, arrow)| arrow.clone()).collect(),
                    members: members.iter().map(|&member| names[member].clone()).collect(),
                });
            }
        }
        circles
    }
}

/// What imports itself, by a detour.
#[derive(Debug, Default)]
pub struct Circle {
    /// Files, or files and folders, that all reach each other.
    pub members: Vec<String>,
    /// The imports that tie them.
    pub arrows: Vec<String>,
}

/// The circles of a crate.
#[derive(Debug, Default)]
pub struct Circles {
    /// Between files.
    pub files: Vec<Circle>,
    /// Between folders, or between a folder and a file beside it.
    pub folders: Vec<Circle>,
}

impl Circles {
    /// How many files, and how many folders and files beside them, stand in circles.
    pub fn members(&self) -> (usize, usize) {
        let count = |circles: &[Circle]| circles.iter().map(|circle| circle.members.len()).sum();
        (count(&self.files), count(&self.folders))
    }
}

/// The sets of two and more nodes that all reach each other: Tarjan's algorithm, without recursion.
fn strongly_connected(edges: &[BTreeSet<usize>]) -> Vec<BTreeSet<usize>> {
    let mut order = vec![None; edges.len()];
    let mut low = vec![0; edges.len()];
    let mut on_stack = vec![false; edges.len()];
    let mut stack = Vec::new();
    let mut found = Vec::new();
    let mut next = 0;
    for start in 0..edges.len() {
        if order[start].is_some() {
            continue;
        }
        let mut calls = vec![(start, edges[start].iter())];
        while let Some((node, targets)) = calls.last_mut() {
            let node = *node;
            if order[node].is_none() {
                order[node] = Some(next);
                low[node] = next;
                next += 1;
                stack.push(node);
                on_stack[node] = true;
            }
            if let Some(&target) = targets.next() {
                match order[target] {
                    None => calls.push((target, edges[target].iter())),
                    Some(seen) if on_stack[target] => low[node] = low[node].min(seen),
                    Some(_) => {}
                }
                continue;
            }
            calls.pop();
            if let Some((parent, _)) = calls.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
            if Some(low[node]) == order[node] {
                let mut members = BTreeSet::new();
                while let Some(member) = stack.pop() {
                    on_stack[member] = false;
                    members.insert(member);
                    if member == node {
                        break;
                    }
                }
                if members.len() > 1 {
                    found.push(members);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> Crate {
        let files: Vec<File> = files
            .iter()
            .map(|(path, text)| File { path: format!("crates/a/src/{path}"), text: (*text).to_owned() })
            .collect();
        let (mut crates, breaches) = read(&files);
        assert!(breaches.is_empty(), "{breaches:?}");
        crates.pop().expect("there is a crate")
    }

    fn circles(files: &[(&str, &str)]) -> (usize, usize) {
        crate_of(files).circles().members()
    }

    #[test]
    fn circles_between_files_are_seen_and_their_lookalikes_are_not() {
        let lib = ("lib.rs", "mod a; mod b;");
        // By imports; by paths in code; by a name that another file passes on.
        assert_eq!(
            circles(&[lib, ("a.rs", "use crate::b::B; pub struct A;"), ("b.rs", "use super::a::A; struct B;")]),
            (2, 0)
        );
        assert_eq!(circles(&[lib, ("a.rs", "fn a() { crate::b::b() }"), ("b.rs", "fn b() { crate::a::a() }")]), (2, 0));
        let door = ("lib.rs", "mod a; mod b; pub use a::A;");
        assert_eq!(
            circles(&[
                door,
                ("a.rs", "use crate::b; pub struct A; fn f() { b::b() }"),
                ("b.rs", "use crate::A; fn b() {}")
            ]),
            (2, 0)
        );
        // A crate's root is no part of a circle for passing names on, but is for what it defines.
        assert_eq!(circles(&[door, ("a.rs", "pub struct A;"), ("b.rs", "use crate::A;")]), (0, 0));
        assert_eq!(
            circles(&[("lib.rs", "mod a; fn f() { a::a() } struct L;"), ("a.rs", "use crate::L; fn a() {}")]),
            (2, 0)
        );
        // Tests may look where they like.
        assert_eq!(
            circles(&[
                lib,
                ("a.rs", "use crate::b::B;"),
                ("b.rs", "struct B; #[cfg(test)] mod tests { use crate::a::A; }")
            ]),
            (0, 0)
        );
    }

    #[test]
    fn circles_between_folders_are_seen_without_one_between_files() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod one; mod two;"),
            ("a/one.rs", "use crate::b::three::T;"),
            ("a/two.rs", "pub struct U;"),
            ("b/mod.rs", "pub mod three; mod four;"),
            ("b/three.rs", "pub struct T;"),
            ("b/four.rs", "use crate::a::two::U;"),
        ];
        assert_eq!(circles(&files), (0, 2));
    }

    #[test]
    fn a_second_impl_block_is_seen_wherever_it_stands() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub struct A; impl A {} impl Clone for A {} pub struct C; impl C {}"),
            // Another type of the same name has a block of its own.
            ("b.rs", "use crate::a::A; impl A {} struct C; impl C {}"),
        ];
        let extra = crate_of(&files).extra_impls();
        assert_eq!(extra.into_iter().collect::<Vec<_>>(), [("A".to_owned(), vec!["crates/a/src/b.rs".to_owned()])]);
    }
}
