//! Applications from their registries, unmodified, that do their jobs against a store of one node, of three, and of three
//! of which one is killed half-way.

mod application;
mod catalogue;
mod page;
mod situation;
mod store;
mod toolchain;
mod trial;

use crate::process::{self, Count};
use crate::turns::Turns;
use application::Application;
use catalogue::APPLICATIONS;
use situation::{SITUATIONS, Situation};
use std::path::{Path, PathBuf};
use std::time::Instant;
use store::Store;

/// Into how many parts the gate divides the applications.
const QUARTERS: usize = 4;

/// What the arguments ask for.
#[derive(Debug, Default)]
struct Options {
    only: Vec<String>,
    situations: Vec<Situation>,
    /// From 1 on.
    quarter: Option<usize>,
    port: Option<u16>,
    program: Option<PathBuf>,
    list: bool,
}

/// Runs what the arguments name, or everything, and writes the page.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let options = options(arguments)?;
    if options.list {
        APPLICATIONS.iter().for_each(|application| println!("{:<24} {}", application.name, application.does));
        return Ok(());
    }
    let results = trials(root, &options)?;
    page::write(root, APPLICATIONS, &results)?;
    count(&results).map(drop).map_err(|(_, why)| why)
}

/// The situations that the gate tries each application in. One of a turn is also tried while a node is killed.
const GATE_SITUATIONS: [Situation; 2] = [Situation::Single, Situation::Three];

/// The gate's step: the applications of the quarter whose turn it is, which the number of commits decides, without suites of
/// packages and what needs root; and one of them while the node that leads its keys is killed. Writes no page.
pub fn check(root: &Path, basalt: &Path, turns: Turns) -> Result<Count, (Count, String)> {
    let quarters = (1..=QUARTERS).filter(|quarter| turns.has(quarter - 1, QUARTERS));
    process::sum(quarters.map(|quarter| check_quarter(root, basalt, quarter, turns)).collect::<Vec<_>>())
}

fn check_quarter(root: &Path, basalt: &Path, quarter: usize, turns: Turns) -> Result<Count, (Count, String)> {
    let killed = killed_in_gate(quarter, turns);
    let killed_name = killed.map_or("none", |application| application.name);
    println!(
        "quarter {quarter} of {QUARTERS}, by the number of commits, and {killed_name} while a node is killed; `cargo xtask apps \
         --quarter {quarter}` and `--only {killed_name} --situation killed` repeat it"
    );
    let program = Some(basalt.to_owned());
    let quarter = Options { quarter: Some(quarter), ..Options::default() };
    let is_in_gate = |application: &&&Application| application.is_in_gate();
    let only = chosen(&quarter).iter().filter(is_in_gate).map(|application| application.name.to_owned()).collect();
    let turn = Options { only, situations: GATE_SITUATIONS.to_vec(), program: program.clone(), ..quarter };
    let mut results = trials(root, &turn).map_err(|why| (Count::default(), why))?;
    if let Some(application) = killed {
        let only = vec![application.name.to_owned()];
        let killed = Options { only, situations: vec![Situation::Killed], program, ..Options::default() };
        results.extend(trials(root, &killed).map_err(|why| (Count::default(), why))?);
    }
    count(&results)
}

/// The application of the quarter whose leader is killed: another one each time that the quarter's turn comes.
fn killed_in_gate(quarter: usize, turns: Turns) -> Option<&'static Application> {
    let of_quarter = chosen(&Options { quarter: Some(quarter), ..Options::default() });
    let killed: Vec<_> = of_quarter.into_iter().filter(|application| application.is_killed_in_gate).collect();
    killed.get(turns.rounds(QUARTERS) % killed.len().max(1)).copied()
}

type Results = Vec<(&'static str, Situation, Result<String, String>)>;

fn trials(root: &Path, options: &Options) -> Result<Results, String> {
    let folder = root.join("target/apps");
    let program = options.program.clone().map_or_else(|| process::basalt(root), Ok)?;
    let chosen: Vec<&'static Application> = chosen(options);
    let mut stores: [Option<Store>; 2] = [None, None];
    let mut results = Results::new();
    for application in chosen {
        let begun = Instant::now();
        let own = folder.join(application.name);
        let toolchain = application.toolchain;
        let programs = root.join("xtask/apps").join(toolchain.folder());
        let installed = toolchain.install(application.name, application.packages, &programs, &own);
        println!(
            "=== {} ({}), installed in {:.1} s",
            application.name,
            application.version(),
            begun.elapsed().as_secs_f64()
        );
        for &situation in options.situations.iter().filter(|situation| application.situations.contains(situation)) {
            let begun = Instant::now();
            let result = match &installed {
                Ok(()) => {
                    let store = &mut stores[usize::from(situation != Situation::Single)];
                    let base = options.port.map(|port| if situation == Situation::Single { port + 3 } else { port });
                    trial(application, &own, (store, &program, &folder, base), situation)
                }
                Err(why) => Err(format!("it could not be installed: {why}")),
            };
            let seconds = begun.elapsed().as_secs_f64();
            match &result {
                Ok(what) => println!("{:<24} {:<7} {seconds:>6.1} s  ok: {what}", application.name, situation.name()),
                Err(why) => {
                    println!("{:<24} {:<7} {seconds:>6.1} s  FAILED: {why}", application.name, situation.name())
                }
            }
            results.push((application.name, situation, result));
        }
    }
    Ok(results)
}

/// A trial with a store that is started if it is not there. One that a trial has left unwell is not used again.
fn trial(
    application: &Application,
    own: &Path,
    (store, program, folder, base): (&mut Option<Store>, &Path, &Path, Option<u16>),
    situation: Situation,
) -> Result<String, String> {
    if store.is_none() {
        *store = Some(Store::start(program, folder, situation.nodes(), base)?);
    }
    let used = store.as_mut().ok_or("it was just started")?;
    let result = trial::run(application, own, used, situation);
    if result.is_err() {
        *store = None;
    }
    result
}

fn count(results: &Results) -> Result<Count, (Count, String)> {
    let mut whys = String::new();
    let mut count = Count::default();
    for (name, situation, result) in results {
        match result {
            Ok(_) => count.passed += 1,
            Err(why) => {
                count.failed += 1;
                whys += &format!("{name}, {}: {why}\n", situation.name());
            }
        }
    }
    if count.failed == 0 { Ok(count) } else { Err((count, whys)) }
}

fn chosen(options: &Options) -> Vec<&'static Application> {
    let is_wanted = |(number, application): &(usize, &Application)| {
        options.quarter.is_none_or(|quarter| number % QUARTERS == quarter - 1)
            && (options.only.is_empty() || options.only.iter().any(|name| name == application.name))
    };
    APPLICATIONS.iter().enumerate().filter(is_wanted).map(|(_, application)| application).collect()
}

fn options(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        if name == "--list" {
            options.list = true;
            continue;
        }
        let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--only" => options.only.extend(value.split(',').map(str::to_owned)),
            "--situation" => options.situations.extend(situations(value)?),
            "--quarter" => {
                let quarter = value.parse().ok().filter(|quarter| (1..=QUARTERS).contains(quarter));
                options.quarter =
                    Some(quarter.ok_or_else(|| format!("{name} {value}: not a number from 1 to {QUARTERS}"))?);
            }
            "--port" => options.port = Some(value.parse().map_err(|_| format!("{name} {value}: not a port"))?),
            "--program" => options.program = Some(PathBuf::from(value)),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    if options.situations.is_empty() {
        options.situations = SITUATIONS.to_vec();
    }
    let is_known = |name: &&String| APPLICATIONS.iter().any(|application| application.name == name.as_str());
    match options.only.iter().find(|name| !is_known(name)) {
        Some(unknown) => Err(format!("no application is called {unknown}; `cargo xtask apps --list` lists them")),
        None => Ok(options),
    }
}

fn situations(names: &str) -> Result<Vec<Situation>, String> {
    let one = |name: &str| SITUATIONS.into_iter().find(|situation| situation.name() == name);
    names
        .split(',')
        .map(|name| one(name).ok_or_else(|| format!("--situation {name}: single, three or killed")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        options(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn quarters_are_all_applications_once() {
        let mut names: Vec<&str> = (1..=QUARTERS)
            .flat_map(|quarter| chosen(&Options { quarter: Some(quarter), ..Options::default() }))
            .map(|application| application.name)
            .collect();
        names.sort_unstable();
        let mut all: Vec<&str> = APPLICATIONS.iter().map(|application| application.name).collect();
        all.sort_unstable();
        assert_eq!(names, all);
        all.dedup();
        assert_eq!(names.len(), all.len(), "two applications have one name");
    }

    #[test]
    fn the_gate_kills_the_leader_of_each_that_is_marked_in_turn() {
        let in_gate = |commits| killed_in_gate(commits % QUARTERS + 1, Turns::after(commits));
        let mut killed: Vec<&str> =
            (0..QUARTERS * APPLICATIONS.len()).filter_map(in_gate).map(|application| application.name).collect();
        assert_eq!(killed.len(), QUARTERS * APPLICATIONS.len(), "a quarter has none");
        killed.sort_unstable();
        killed.dedup();
        let mut marked: Vec<&str> = APPLICATIONS
            .iter()
            .filter(|application| application.is_killed_in_gate && application.is_in_gate())
            .map(|application| application.name)
            .collect();
        marked.sort_unstable();
        assert_eq!(killed, marked);
    }

    #[test]
    fn arguments_are_read_or_refused() {
        let name = APPLICATIONS[0].name;
        let one = read(&format!("--only {name} --situation killed --quarter 1")).expect("all of it is known");
        assert_eq!(
            (one.situations, chosen(&read(&format!("--only {name}")).expect("known")).len()),
            (vec![Situation::Killed], 1)
        );
        for (line, why) in [
            ("--quarter 5", "--quarter 5: not a number from 1 to 4"),
            ("--situation none", "--situation none: single, three or killed"),
            ("--only nothing", "no application is called nothing; `cargo xtask apps --list` lists them"),
            ("--fast 1", "unknown option --fast"),
        ] {
            assert_eq!(read(line).err().as_deref(), Some(why), "{line}");
        }
    }
}
