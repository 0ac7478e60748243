//! The stores that a suite measures: started by the program that the laboratory is part of, or there already.

use std::io;
use std::path::Path;
use std::process::Command;

use crate::model::{ActionFile, StoreFile};

/// Starts stores.
pub trait Stores: Sync {
    /// Starts a store with its data below `dir`, or again the one whose data is there; its nodes listen on `port` and
    /// those that follow. It answers when the store serves.
    ///
    /// # Errors
    /// It cannot be started, or not like this.
    fn start(&self, shape: &StoreFile, dir: &Path, port: u16) -> io::Result<Box<dyn SuiteStore>>;

    /// Whether it could be started like this, as far as that can be told before.
    ///
    /// # Errors
    /// It could not, and why.
    fn check(&self, shape: &StoreFile) -> Result<(), String>;
}

/// A store that a suite may measure, and do things to. It ends when it is dropped, unless it was there before.
pub trait SuiteStore: Send {
    /// How `--target` names it.
    fn url(&self) -> String;

    /// Does something to it. What was done, in a few words for the report.
    ///
    /// # Errors
    /// It could not be done.
    fn act(&mut self, action: &ActionFile) -> io::Result<String>;

    /// What the reader must know of how it runs, in sentences.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Its nodes that have ended by themselves, in sentences: what is measured without them is another store.
    fn ended(&self) -> Vec<String> {
        Vec::new()
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// It did not end in order.
    fn stop(&mut self) -> io::Result<()>;
}

/// For programs that cannot start a store.
pub struct NoStores;

impl Stores for NoStores {
    fn check(&self, _shape: &StoreFile) -> Result<(), String> {
        Ok(())
    }

    fn start(&self, _shape: &StoreFile, _dir: &Path, _port: u16) -> io::Result<Box<dyn SuiteStore>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this program cannot start a store; give --target"))
    }
}

/// A store that was there before, and stays.
pub(crate) struct ExistingStore {
    url: String,
    /// The operator's program that does things to it.
    act_with: Option<String>,
}

impl ExistingStore {
    pub(crate) fn new(url: &str, act_with: Option<String>) -> Self {
        Self { url: url.to_owned(), act_with }
    }
}

impl SuiteStore for ExistingStore {
    fn url(&self) -> String {
        self.url.clone()
    }

    fn act(&mut self, action: &ActionFile) -> io::Result<String> {
        let words = words(action);
        let Some(program) = &self.act_with else {
            let text = format!("`{}`: give --act-with, a program that does this to the store", words.join(" "));
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        };
        let output = Command::new(program).args(&words).output().map_err(|e| named(program, &e))?;
        if output.status.success() {
            return Ok(words.join(" "));
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("it said nothing");
        Err(io::Error::other(format!("{program} {}: {}; {last}", words.join(" "), output.status)))
    }

    fn stop(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn named(program: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{program}: {error}"))
}

/// An action as words: `kill 2`.
#[must_use]
pub fn words(action: &ActionFile) -> Vec<String> {
    let of = |word: &str, node: usize| vec![word.to_owned(), node.to_string()];
    match action {
        ActionFile::Kill { node } => of("kill", *node),
        ActionFile::Pause { node } => of("pause", *node),
        ActionFile::Resume { node } => of("resume", *node),
        ActionFile::Restart { node } => of("restart", *node),
        ActionFile::Partition { node } => of("partition", *node),
        ActionFile::Heal { node } => of("heal", *node),
        ActionFile::AddNode => vec!["add-node".to_owned()],
        ActionFile::FlushCache => vec!["flush-cache".to_owned()],
        ActionFile::Ctl { args } => std::iter::once("ctl".to_owned()).chain(args.iter().cloned()).collect(),
    }
}
