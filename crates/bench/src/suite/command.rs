//! `basalt bench suite`: its options, and what it does.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use toml::Value;

use super::builtin::{BUILTIN, text};
use super::check::{Existing, check};
use super::file::Does;
use super::outlook::{Outlook, records};
use super::plan::{Plan, Wishes};
use super::record::Folder;
use super::runner::Runner;
use crate::command_line;
use crate::coordinator::LoaderOptions;
use crate::date::{rfc3339, unix_ms};
use crate::machine::environment::environment;
use crate::model::SuiteRecord;
use crate::model::{Identity, Link, RunOutcome};
use crate::output::print;
use crate::phase::assemble::link_to;
use crate::program::Program;
use crate::report::SuiteReport;
use crate::report::{Claimed, RUNS, count, default_dir, span};
use crate::trouble::Trouble;

const AFTER: &str = "\
Examples:
  basalt bench suite --list                      what there is, and how long each takes
  basalt bench suite oracle-scale                a whole experiment, its stores started and ended here
  basalt bench suite oracle-scale --only '2 shards'
  basalt bench suite oracle-scale --resume       go on where the last run was interrupted
  basalt bench suite ./mine.toml --set records=50000

Exit codes: 0 all steps were taken and all answers were right, 1 not so, 2 the command line or the file is wrong.";

/// Options of `bench suite`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct SuiteOptions {
    /// A built-in suite, or a suite's file
    pub name: Option<String>,
    /// How large: a scale of the suite, such as default or real
    #[arg(long, value_name = "SCALE", default_value = "default")]
    pub scale: String,
    /// Show the suites, or the parts and steps of the one that is named and how long they take, and run nothing
    #[arg(long, visible_alias = "dry-run")]
    pub list: bool,
    /// Only parts or steps whose name contains this, with the loads before them; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// The run folder, for reports, raw data and the stores' data while they are measured
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with a run that was interrupted: the one in --out, or else the last of this suite
    #[arg(long)]
    pub resume: bool,
    /// Another value for one of the scale's names; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Megabytes of memory of each node, which sizes of data follow where the suite says so; the name memory_mb
    #[arg(long, value_name = "MB")]
    pub memory: Option<u32>,
    /// Measure this store, which is there, rather than starting one for each part
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// With --target: a program that does things to the store, such as `PROGRAM kill 2`
    #[arg(long, value_name = "PROGRAM", requires = "target")]
    pub act_with: Option<String>,
    /// Let these agents make the load of every step (`basalt bench agent`, here or on other hosts)
    #[arg(long, value_name = "HOST:PORT,HOST:PORT…", value_delimiter = ',')]
    pub agents: Vec<String>,
    /// The file with the secret that the agents know; without it, what BASALT_BENCH_SECRET says
    #[arg(long, value_name = "FILE", requires = "agents")]
    pub secret_file: Option<PathBuf>,
    /// The first port of the nodes that are started; between each other they use those 50 above
    #[arg(long, value_name = "PORT", default_value_t = 7000)]
    pub port: u16,
    /// Keep the stores' data in the run folder
    #[arg(long)]
    pub keep_data: bool,
    /// All random choices derive from it, the order of parts included
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
}

#[cfg(test)]
impl SuiteOptions {
    /// What the command line `bench suite NAME` gives.
    pub(crate) fn of(name: &str) -> Self {
        crate::test_options::Given::by(["suite", name])
    }
}

/// Runs it. True when all went well.
pub(crate) fn run(options: &SuiteOptions, program: &Program<'_>) -> Result<bool, Trouble> {
    let Some(name) = &options.name else {
        if options.list {
            return list_suites();
        }
        return Err(Trouble::Usage("which suite? --list shows them".to_owned()));
    };
    let dir = options.resume.then(|| resumed(options, name)).transpose()?;
    let suite = match &dir {
        // A run goes on with the file that it began with.
        Some(dir) => Folder::open(dir)?.0.text()?,
        None => text(name).map_err(Trouble::Usage)?,
    };
    let wrong = |e: String| Trouble::Usage(format!("{name}: {e}"));
    let mut plan = Plan::read(&suite, &wishes(options)?).map_err(wrong)?;
    let existing = Existing { is_given: options.target.is_some(), can_act: options.act_with.is_some() };
    let loader = LoaderOptions {
        agents: options.agents.clone(),
        secret_file: options.secret_file.clone(),
        ..LoaderOptions::default()
    };
    check(&plan, existing, &loader, program).map_err(wrong)?;
    plan.keep_only(&options.only).map_err(wrong)?;
    if options.list {
        return list_steps(&plan);
    }
    let (folder, mut about) = match dir {
        Some(dir) => Folder::open(&dir)?,
        None => begin(options, &plan, &suite, program)?,
    };
    if about.scale != plan.scale {
        let text = format!("the run in {} was made with --scale {}", folder.dir().display(), about.scale);
        return Err(Trouble::Usage(text));
    }
    (about.outcome, about.notes) = (RunOutcome::Interrupted, Vec::new());
    if !options.quiet {
        crate::note!("{}: {}; raw data in {}", plan.name, plan.takes, folder.dir().display());
    }
    let runner = Runner {
        loader: &loader,
        plan: &plan,
        folder: &folder,
        program,
        target: options.target.as_deref(),
        act_with: options.act_with.as_deref(),
        port: options.port,
        seed: options.seed,
        quiet: options.quiet,
        keeps_data: options.keep_data,
        outlook: RefCell::new(Outlook::new()),
    };
    let clean = runner.run(&mut about)?;
    draw(&folder, about)?;
    Ok(clean)
}

/// Draws the report of a run folder, and shows its tables.
pub(crate) fn draw(folder: &Folder, about: SuiteRecord) -> Result<(), Trouble> {
    let report = SuiteReport { about, steps: folder.steps()? };
    let html = crate::report::write_suite(folder.dir(), &report)?;
    print(&crate::report::suite_tables_text(&report))?;
    crate::note!("the report is in {}", html.display());
    Ok(())
}

/// Draws the report of the suite's run in `dir` again.
pub(crate) fn redraw(dir: &Path) -> Result<(), Trouble> {
    let (folder, about) = Folder::open(dir)?;
    draw(&folder, about)
}

fn wishes(options: &SuiteOptions) -> Result<Wishes<'_>, Trouble> {
    let mut wishes = Wishes { scale: &options.scale, seed: options.seed, ..Wishes::default() };
    for set in &options.set {
        let pair = set.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, value) = pair.ok_or_else(|| Trouble::Usage(format!("--set {set}: expected NAME=VALUE")))?;
        wishes.names.insert(name.to_owned(), typed(value));
    }
    if let Some(memory) = options.memory {
        wishes.names.insert("memory_mb".to_owned(), Value::Integer(i64::from(memory)));
    }
    Ok(wishes)
}

/// A value as TOML has it, or else a text.
fn typed(value: &str) -> Value {
    let parsed = toml::from_str::<toml::Table>(&format!("value = {value}")).ok();
    parsed.and_then(|mut table| table.remove("value")).unwrap_or_else(|| Value::String(value.to_owned()))
}

fn begin(
    options: &SuiteOptions,
    plan: &Plan,
    suite: &str,
    program: &Program<'_>,
) -> Result<(Folder, SuiteRecord), Trouble> {
    let date = rfc3339(unix_ms(SystemTime::now()));
    let identity = Identity {
        id: format!("{}-{}", date.replace(':', "-"), plan.name),
        name: plan.name.clone(),
        date,
        product_version: program.version.to_owned(),
        git_commit: program.commit.map(str::to_owned),
        command_line: command_line::shown(),
        seed: options.seed,
    };
    let claimed = Claimed::make(&options.out.clone().unwrap_or_else(|| default_dir(&identity)))?;
    let dir = claimed.dir().to_owned();
    let link = options.target.as_deref().map_or(Link::Loopback, link_to);
    let mut about = SuiteRecord {
        identity,
        environment: environment(Some(&dir), link),
        name: plan.name.clone(),
        title: plan.title.clone(),
        about: plan.about.clone(),
        differs: plan.differs.clone(),
        scale: plan.scale.clone(),
        takes: plan.takes.clone(),
        names: super::plan::shown(&plan.names),
        tables: plan.tables.clone(),
        ..SuiteRecord::default()
    };
    let folder = Folder::create(&dir, &mut about, suite)?;
    Ok((folder, about))
}

/// The folder of the run to go on with.
fn resumed(options: &SuiteOptions, name: &str) -> Result<PathBuf, Trouble> {
    if let Some(dir) = &options.out {
        return if Folder::is_at(dir) {
            Ok(dir.clone())
        } else {
            Err(Trouble::Usage(format!("--out {}: there is no suite's run here", dir.display())))
        };
    }
    let word = Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or(name);
    let runs = std::fs::read_dir(RUNS).into_iter().flatten().flatten().map(|entry| entry.path());
    let of_suite = |dir: &PathBuf| Folder::is_at(dir) && Folder::open(dir).is_ok_and(|(_, about)| about.name == word);
    let last = runs.filter(of_suite).max();
    last.ok_or_else(|| Trouble::Usage(format!("--resume: there is no run of {word} in {RUNS}; give --out")))
}

fn list_suites() -> Result<bool, Trouble> {
    let mut list = String::new();
    for (name, text) in BUILTIN {
        let scales =
            toml::from_str::<super::file::SuiteFile>(text).map_err(|e| Trouble::Usage(format!("{name}: {e}")))?;
        list += &format!("{name:<18}{}\n", scales.title);
        for (scale, file) in &scales.scales {
            list += &format!("{:<18}--scale {scale}: {}\n", "", file.takes);
        }
    }
    print(&list)?;
    Ok(true)
}

fn list_steps(plan: &Plan) -> Result<bool, Trouble> {
    let mut list =
        format!("{}: {}\n{}\n--scale {}: {}\n", plan.name, plan.title, plan.about.trim(), plan.scale, plan.takes);
    list += &format!("{}\n", time_text(plan));
    for part in &plan.parts {
        let store = &part.store;
        let system = if store.system.is_empty() { "basalt" } else { &store.system };
        let alone = Outlook::new().ahead(plan, &|other, _| other.number != part.number).all();
        let shards = if store.shards > 0 { format!(", {} shards", store.shards) } else { String::new() };
        list += &format!("\n{}: {system}, {} nodes{shards}; about {}\n", part.name, store.nodes.max(1), span(alone));
        for step in &part.steps {
            list += &format!("  {:<28} {}\n", step.name, step.file.does.word());
        }
    }
    print(&list)?;
    Ok(true)
}

/// Where the time goes.
fn time_text(plan: &Plan) -> String {
    let ahead = Outlook::new().ahead(plan, &|_, _| false);
    let inserts = plan.parts.iter().flat_map(|part| &part.steps).filter(|step| step.file.does == Does::Load);
    let records: f64 = inserts.map(|step| records(&step.file)).sum();
    format!(
        "Worked out for two cores, before anything is known: about {}. Phases of a given length {}; loads and deletes {} \
         ({} records inserted in all); stores that start and come to rest {}.",
        span(ahead.all()),
        span(ahead.phases),
        span(ahead.loads),
        count(records as u64),
        span(ahead.stores)
    )
}
