//! Stores of several nodes on this machine, for the suites of the laboratory: started, hurt, grown and ended.

mod group;
mod settings;

use crate::cluster::{Lifetime, LocalStore, Watch, wait_until_healthy};
use bench::model::{ActionFile, StoreFile};
use bench::suite_stores::{Stores, SuiteStore};
use group::Group;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A node that was started again serves within this time.
const SERVES_WITHIN: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// For a store that is not started.
const PORT_TO_CHECK: u16 = 7000;
/// In the store's folder: the nodes that were killed on purpose and stay dead when the suite goes on later.
const KILLED: &str = "killed.json";

/// Starts stores of this program's nodes.
pub struct LocalStores {
    /// Set when the user wants all to end.
    pub stop: Arc<AtomicBool>,
}

/// One of them.
struct LocalSuiteStore {
    store: LocalStore,
    group: Option<Group>,
    paused: BTreeSet<usize>,
    killed: BTreeSet<usize>,
    stop: Arc<AtomicBool>,
}

impl Stores for LocalStores {
    fn check(&self, shape: &StoreFile) -> Result<(), String> {
        // The ports are another matter: they are known when the suite runs.
        settings::shape(shape, PORT_TO_CHECK).fresh().map(drop).map_err(|trouble| trouble.to_string())
    }

    fn start(&self, shape: &StoreFile, dir: &Path, port: u16) -> io::Result<Box<dyn SuiteStore>> {
        if !matches!(shape.system.as_str(), "" | "basalt") {
            let text = format!("this program starts no store of the system `{}`", shape.system);
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let usage = |e: crate::cluster::Trouble| io::Error::new(io::ErrorKind::InvalidInput, e.to_string());
        let mut asked = settings::shape(shape, port);
        let store = match LocalStore::open(dir).map_err(io::Error::other)? {
            Some(mut known) => {
                // It may have grown since.
                asked.nodes = None;
                let roster = asked.again(known.roster()).map_err(usage)?;
                known.change(|roster_on_disk| *roster_on_disk = roster).map_err(io::Error::other)?;
                known
            }
            None => LocalStore::create(dir, asked.fresh().map_err(usage)?).map_err(io::Error::other)?,
        };
        let killed = match fs::read(store.dir().join(KILLED)) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(e) => return Err(e),
        };
        let group = Group::of(shape, dir)?;
        let mut opened =
            LocalSuiteStore { store, group, paused: BTreeSet::new(), killed, stop: Arc::clone(&self.stop) };
        opened.start_all().map_err(io::Error::other)?;
        Ok(Box::new(opened))
    }
}

impl LocalSuiteStore {
    fn start_all(&mut self) -> Result<(), String> {
        let wanted = self.not_killed();
        self.store.require_free_ports(&wanted)?;
        for number in &wanted {
            self.start(*number)?;
        }
        if !self.killed.is_empty() {
            return wanted.into_iter().try_for_each(|number| self.wait_for(number));
        }
        if !wait_until_healthy(&mut self.store, &self.stop)? {
            return Err("stopped while the store was coming up".to_owned());
        }
        // The node that made the store is not to make another when it comes back.
        self.store.change(|roster| roster.made = true)
    }

    fn not_killed(&self) -> Vec<usize> {
        self.store.numbers().into_iter().filter(|number| !self.killed.contains(number)).collect()
    }

    /// Starts a node, within the bounds of its group.
    fn start(&mut self, number: usize) -> Result<(), String> {
        self.store.start(number, Lifetime::Ours)?;
        if self.killed.remove(&number) {
            self.remember()?;
        }
        let process = self.store.roster().node(number).and_then(|node| node.process);
        match (&self.group, process) {
            (Some(group), Some(process)) => group.take_in(process.pid).map_err(|e| e.to_string()),
            _ => Ok(()),
        }
    }

    /// Writes down who was killed.
    fn remember(&self) -> Result<(), String> {
        let path = self.store.dir().join(KILLED);
        let text = serde_json::to_vec(&self.killed).map_err(|e| e.to_string())?;
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Waits until a node knows a leader of every shard.
    fn wait_for(&mut self, number: usize) -> Result<(), String> {
        let until = Instant::now() + SERVES_WITHIN;
        let mut watch = Watch::default();
        loop {
            let node = self.store.roster().node(number).cloned().ok_or_else(|| format!("there is no node {number}"))?;
            let sight = watch.look_at(&self.store, &node);
            if sight.told.is_some_and(|told| told.serves()) {
                return Ok(());
            }
            if sight.process.is_none() {
                let words = self.store.last_words(number);
                return Err(format!("node {number} has ended instead of starting; it said last:{words}"));
            }
            if Instant::now() >= until {
                return Err(format!("node {number} does not serve after {} s", SERVES_WITHIN.as_secs()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn kill(&mut self, number: usize) -> Result<String, String> {
        let leading = Watch::default().look(&self.store).nodes.into_iter().find(|node| node.number == number);
        let leading = leading.and_then(|node| node.told).map_or(0, |told| told.leading);
        self.paused.remove(&number);
        match self.store.kill(number)? {
            true => {
                self.killed.insert(number);
                self.remember()?;
                Ok(format!("node {number} killed, which led {leading} shards"))
            }
            false => Err(format!("node {number} does not run")),
        }
    }

    fn restart(&mut self, number: usize) -> Result<String, String> {
        self.resume(number)?;
        self.store.stop(&[number])?;
        self.start(number)?;
        Ok(format!("node {number} started again"))
    }

    fn pause(&mut self, number: usize) -> Result<String, String> {
        self.store.pause(number)?;
        self.paused.insert(number);
        Ok(format!("node {number} paused"))
    }

    fn resume(&mut self, number: usize) -> Result<String, String> {
        if self.paused.remove(&number) {
            self.store.resume(number)?;
        }
        Ok(format!("node {number} goes on"))
    }

    fn add_node(&mut self) -> Result<String, String> {
        let number = self.store.add()?;
        self.start(number)?;
        Ok(format!("node {number} added"))
    }

    /// One node after the other, so that the store serves meanwhile.
    fn flush_cache(&mut self) -> Result<String, String> {
        for number in self.not_killed() {
            self.resume(number)?;
            self.store.stop(&[number])?;
            forget(&self.store.node_dir(number)).map_err(|e| format!("the system's cache of node {number}: {e}"))?;
            self.start(number)?;
            self.wait_for(number)?;
        }
        Ok("all caches emptied".to_owned())
    }

    fn ctl(&self, args: &[String]) -> Result<String, String> {
        let program = std::env::current_exe().map_err(|e| format!("this program cannot be found: {e}"))?;
        let mut command = Command::new(program);
        command.arg("ctl").args(args).args(["--node", &self.store.url().to_string()]).stdin(Stdio::null());
        let output = command.output().map_err(|e| format!("basalt ctl: {e}"))?;
        let said = format!("basalt ctl {}", args.join(" "));
        if output.status.success() {
            return Ok(said);
        }
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        Err(format!("{said}: {}", text.lines().last().unwrap_or("it failed and said nothing")))
    }
}

impl SuiteStore for LocalSuiteStore {
    fn url(&self) -> String {
        format!("redis://{}", self.store.url())
    }

    fn act(&mut self, action: &ActionFile) -> io::Result<String> {
        let done = match action {
            ActionFile::Kill { node } => self.kill(*node),
            ActionFile::Pause { node } => self.pause(*node),
            ActionFile::Resume { node } => self.resume(*node),
            ActionFile::Restart { node } => self.restart(*node),
            ActionFile::AddNode => self.add_node(),
            ActionFile::FlushCache => self.flush_cache(),
            ActionFile::Ctl { args } => self.ctl(args),
            ActionFile::Partition { node } | ActionFile::Heal { node } => {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    format!(
                        "node {node} cannot be cut off: all nodes share this machine's loopback interface; pause it, which \
                         looks the same to the others, or use real hosts with --target and --act-with"
                    ),
                ));
            }
        };
        done.map_err(io::Error::other)
    }

    fn notes(&self) -> Vec<String> {
        self.group.as_ref().map(Group::notes).unwrap_or_default()
    }

    fn ended(&self) -> Vec<String> {
        let nodes = self.store.roster().nodes.iter().filter(|node| node.process.is_some() && !node.runs());
        let nodes = nodes.filter(|node| !self.killed.contains(&node.number));
        let why = match self.group.as_ref().map_or(0, Group::killed_for_memory) {
            0 => "",
            _ => ": the kernel ended it, for the nodes needed more memory than they were given",
        };
        let told = nodes.map(|node| {
            let words = self.store.last_words(node.number);
            let words = if words.is_empty() { String::new() } else { format!("; it said last:{words}") };
            format!("node {} has ended by itself{why}{words}", node.number)
        });
        told.collect()
    }

    fn stop(&mut self) -> io::Result<()> {
        for number in self.paused.clone() {
            self.resume(number).map_err(io::Error::other)?;
        }
        let forced = self.store.stop_all().map_err(io::Error::other)?;
        self.group = None;
        if forced.is_empty() {
            return Ok(());
        }
        Err(io::Error::other(format!("nodes {forced:?} did not stop in time and were killed")))
    }
}

/// Lets the system's cache forget the files below `dir`.
fn forget(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            forget(&entry.path())?;
        } else if let Ok(file) = File::open(entry.path()) {
            // What is still to be written can't be forgotten.
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}
