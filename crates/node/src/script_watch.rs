//! What is seen of the scripts that run on a node: monitors see their commands, SCRIPT KILL and FUNCTION STATS those that take
//! long.
//!
//! A script that takes long runs beside the event loops: one that may write when its entry is applied, on every replica, and one
//! that only reads on a thread for such scripts. The second kind can be ended, since no replica depends on what it comes to.

use crate::monitors::Monitors;
use crate::script_turn::ScriptTurn;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of each word of a request that FUNCTION STATS shows.
const SHOWN_BYTES_MAX: usize = 128;
/// Words of a request that FUNCTION STATS shows.
const SHOWN_WORDS_MAX: usize = 32;

/// What all shards of a node share of the scripts that run there.
#[derive(Debug, Default)]
pub struct ScriptWatch {
    monitors: Arc<Monitors>,
    running: Mutex<Vec<Arc<RunningScript>>>,
    /// Scripts and functions that were too long for an event loop, and how often each is not to be tried on one.
    long: Mutex<HashMap<Box<str>, u8>>,
    /// Whether there are any: read for each script.
    any_long: AtomicBool,
}

/// So many runs of a script that was too long for an event loop begin beside it.
const SKIPS: u8 = 15;
/// Scripts that are known to be so.
const LONG_MAX: usize = 1024;

/// A script that runs beside the event loops.
#[derive(Debug, Default)]
pub struct RunningScript {
    /// The function's name; none of a script.
    pub function: Option<String>,
    /// The words of its request, shortened.
    pub words: Vec<Vec<u8>>,
    /// Whether it may write: then all replicas run it, and none of them may end it before its budget does.
    pub may_write: bool,
    /// When it began, in ms since the epoch.
    pub began_ms: u64,
    /// For how long it may keep its thread, if there is a bound.
    turn: Option<Arc<ScriptTurn>>,
    killed: AtomicBool,
}

/// What came of SCRIPT KILL or FUNCTION KILL on a node: the larger says more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Killed {
    /// No script runs.
    #[default]
    NoneRuns,
    /// What runs is of the other kind.
    OfOtherKind,
    /// What runs may write.
    MayWrite,
    /// At least one has been told to end.
    Ended,
}

impl Killed {
    /// What another node has answered, as a number.
    #[must_use]
    pub fn of_number(number: i64) -> Self {
        let known = [Self::NoneRuns, Self::OfOtherKind, Self::MayWrite, Self::Ended];
        known.into_iter().find(|killed| *killed as i64 == number).unwrap_or_default()
    }
}

/// A script runs until this is dropped.
pub(crate) struct Running<'a> {
    watch: &'a ScriptWatch,
    script: Arc<RunningScript>,
}

impl RunningScript {
    /// A script whose request has those words.
    pub(crate) fn new(function: Option<&str>, words: &[&[u8]], may_write: bool, began_ms: u64) -> Self {
        let shown = |word: &&[u8]| word[..word.len().min(SHOWN_BYTES_MAX)].to_vec();
        Self {
            function: function.map(str::to_owned),
            words: words.iter().take(SHOWN_WORDS_MAX).map(shown).collect(),
            may_write,
            began_ms,
            turn: None,
            killed: AtomicBool::new(false),
        }
    }

    /// The same, which has its thread for that turn.
    pub(crate) fn in_turn(self, turn: Option<Arc<ScriptTurn>>) -> Self {
        Self { turn, ..self }
    }

    /// Whether it is to give way to others.
    pub(crate) fn gives_way(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.is_over())
    }

    /// Whether it has been told to end.
    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }
}

impl ScriptWatch {
    /// The scripts of a node whose monitors are these.
    #[must_use]
    pub fn new(monitors: Arc<Monitors>) -> Self {
        Self { monitors, ..Self::default() }
    }

    /// Whether a client is to see the commands of scripts.
    pub(crate) fn is_monitored(&self) -> bool {
        self.monitors.any_of_scripts()
    }

    /// A script begins to run beside the event loops.
    pub(crate) fn begin(&self, script: RunningScript) -> Running<'_> {
        let script = Arc::new(script);
        self.running.lock().push(script.clone());
        Running { watch: self, script }
    }

    /// The scripts that run now, the first to begin first.
    #[must_use]
    pub fn running(&self) -> Vec<Arc<RunningScript>> {
        self.running.lock().clone()
    }

    /// Tells all scripts to end that write nothing, or all such functions.
    pub fn kill(&self, functions: bool) -> Killed {
        let kill = |script: &Arc<RunningScript>| match script.function.is_some() == functions {
            false => Killed::OfOtherKind,
            true if script.may_write => Killed::MayWrite,
            true => {
                script.killed.store(true, Ordering::Relaxed);
                Killed::Ended
            }
        };
        self.running.lock().iter().map(kill).max().unwrap_or_default()
    }

    /// Whether a run of what has that name is likely to be too long for an event loop.
    pub(crate) fn is_long(&self, name: &str) -> bool {
        if !self.any_long.load(Ordering::Relaxed) {
            return false;
        }
        let mut long = self.long.lock();
        let Some(left) = long.get_mut(name) else { return false };
        *left -= 1;
        if *left == 0 {
            long.remove(name);
        }
        self.any_long.store(!long.is_empty(), Ordering::Relaxed);
        true
    }

    /// A run of what has that name was too long for an event loop.
    pub(crate) fn was_too_long(&self, name: &str) {
        let mut long = self.long.lock();
        if long.len() >= LONG_MAX {
            long.clear();
        }
        long.insert(name.into(), SKIPS);
        self.any_long.store(true, Ordering::Relaxed);
    }

    /// Tells all scripts and functions to end that write nothing: the node stops.
    pub fn kill_all(&self) {
        self.kill(false);
        self.kill(true);
    }
}

impl Running<'_> {
    /// What runs.
    pub(crate) fn script(&self) -> Arc<RunningScript> {
        self.script.clone()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.watch.running.lock().retain(|script| !Arc::ptr_eq(script, &self.script));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_ends_what_reads_and_is_of_its_kind() {
        let watch = ScriptWatch::default();
        assert_eq!((watch.kill(false), watch.kill(true)), (Killed::NoneRuns, Killed::NoneRuns));
        let writer = watch.begin(RunningScript::new(None, &[b"EVAL"], true, 1));
        assert_eq!((watch.kill(false), watch.kill(true)), (Killed::MayWrite, Killed::OfOtherKind));
        let reader = watch.begin(RunningScript::new(None, &[b"EVAL_RO"], false, 2));
        let function = watch.begin(RunningScript::new(Some("f"), &[b"FCALL_RO", b"f"], false, 3));
        assert_eq!(watch.kill(false), Killed::Ended);
        let killed = || [&writer, &reader, &function].map(|running| running.script().is_killed());
        assert_eq!(killed(), [false, true, false]);
        drop(reader);
        assert_eq!(watch.running().iter().map(|script| script.began_ms).collect::<Vec<_>>(), [1, 3]);
        watch.kill_all();
        assert!(function.script().is_killed() && !writer.script().is_killed());
        assert_eq!([3, 0, 9].map(Killed::of_number), [Killed::Ended, Killed::NoneRuns, Killed::NoneRuns]);
    }

    #[test]
    fn what_was_too_long_for_an_event_loop_is_tried_there_again_after_some_runs() {
        let watch = ScriptWatch::default();
        assert!(!watch.is_long("a"));
        watch.was_too_long("a");
        assert!(!watch.is_long("b"));
        assert_eq!((0..100).filter(|_| watch.is_long("a")).count(), usize::from(SKIPS));
    }

    #[test]
    fn what_is_shown_of_a_request_is_bounded() {
        let long = vec![b'x'; 1000];
        let words = vec![&long[..]; 100];
        let script = RunningScript::new(None, &words, false, 0);
        assert_eq!((script.words.len(), script.words[0].len()), (SHOWN_WORDS_MAX, SHOWN_BYTES_MAX));
    }
}
