//! What a script needs of its surroundings: commands, time, randomness.

use crate::acl::Denial;
use crate::command::Error;
use crate::script_turn::ScriptTurn;
use crate::script_watch::ScriptWatch;
use crate::{Fault, Rules};
use resp::Reply;
use resp::table::CommandSpec;
use std::sync::Arc;
use vocab::Slot;

/// The shard as a script sees it: commands that run one after the other, the time, and chance.
pub(crate) trait ScriptHost {
    /// What begins the row of a script's random numbers: the same on every replica for the same entry.
    fn seed(&mut self) -> u64;

    /// Whether an event loop waits for it: much work is to be left to a thread.
    fn is_slice(&self) -> bool;

    /// Whether a script that an event loop gives up runs elsewhere.
    fn goes_on_elsewhere(&self) -> bool {
        self.is_slice()
    }

    /// By which rules its commands are evaluated.
    fn rules(&self) -> Rules;

    /// Asked after so many instructions. The fault: that is too much here.
    fn afford(&mut self, instructions: u64) -> Result<(), Fault>;

    /// How many instructions it can afford at most.
    fn instructions_left(&self) -> u64;

    /// Where others see the scripts of this node that run beside the event loops.
    fn watch(&self) -> Option<Arc<ScriptWatch>> {
        None
    }

    /// For how long it may keep its thread, if there is a bound.
    fn turn(&self) -> Option<Arc<ScriptTurn>> {
        None
    }

    /// When it began, in ms since the epoch.
    fn now_ms(&self) -> u64;

    /// Gives the script up, and what it has written with it.
    fn refuse(&mut self, text: &'static str) -> Error;

    /// Whether the script, whose keys are of the slot `own`, may touch a key of that slot.
    fn may_touch(&mut self, slot: Slot, own: Slot) -> bool {
        slot == own
    }

    /// The user of the script may not run a command: it is not run.
    fn denied(&mut self, denial: &Denial, args: &[&[u8]]) {
        let _ = (denial, args);
    }

    /// The script runs a command, in these words, in the database of that number: monitors are shown it.
    fn note(&mut self, database: u16, spec: &CommandSpec, words: &[&[u8]]) {
        let _ = (database, spec, words);
    }

    /// Runs a command whose length has been checked, and whose keys are of the script's slot. Its errors are its reply.
    fn run(&mut self, spec: &'static CommandSpec, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault>;
}
