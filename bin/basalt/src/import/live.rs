//! One running source: its keys, then what changes.

use super::commands::{Commands, Form};
use super::copy::Copy;
use super::emptying::Empties;
use super::expiries::{Expiries, STAY_PUT_OFF};
use super::follow::Follower;
use super::options::ImportOptions;
use super::outcome::Outcome;
use super::own_slots::OwnSlots;
use super::replica::{Begun, Replica};
use super::scope::Scope;
use super::source::Source;
use super::state::{AHEAD_BYTES, Followed, ReadPlaces, StateFile};
use crate::pace::{Pace, Unit};
use crate::store_writer::StoreWriter;
use client::StoreUrl;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vocab::wall_clock_ms;

/// Between two lines that say how far behind the store is, and two times that this is kept.
const LAG_EVERY: Duration = Duration::from_secs(1);
/// While nothing is missing.
const PAUSE: Duration = Duration::from_millis(20);

/// One running source: a server, or a master of a cluster.
pub(super) struct Live<'a> {
    pub(super) options: &'a ImportOptions,
    pub(super) url: StoreUrl,
    pub(super) scope: Scope<'a>,
    pub(super) stopped: &'a AtomicBool,
    pub(super) state: &'a Mutex<StateFile>,
    /// Its slots, if it is one of several: lines say which, and there is no bar.
    pub(super) slots: Option<OwnSlots<'a>>,
}

/// Why changes are followed no longer.
enum End {
    /// Nothing is missing.
    Whole,
    /// Databases of the source were exchanged: it is to be copied anew.
    Exchanged,
}

impl Live<'_> {
    fn name(&self) -> String {
        self.url.to_string()
    }

    fn note(&self, text: &str) {
        match (self.options.quiet, self.slots.is_some()) {
            (true, _) => {}
            (false, true) => bench::note!("{}: {text}", self.name()),
            (false, false) => bench::note!("{text}"),
        }
    }

    /// Imports it.
    pub(super) fn run(&self, outcome: &mut Outcome) -> Result<(), String> {
        let options = self.options;
        let mut target = if options.dry_run { None } else { Some(StoreWriter::open(&options.node)?) };
        // Without a stream behind it, a copy is what it is.
        let mut expiries = (!options.no_follow && !options.dry_run).then(|| Expiries::new(true));
        let ended = self.take_over(target.as_mut(), expiries.as_mut(), outcome);
        let (Some(expiries), Some(target)) = (&mut expiries, &mut target) else { return ended };
        if ended.is_err() && self.state.lock().checkpoints().is_some() {
            if !expiries.is_empty() {
                self.note(STAY_PUT_OFF);
            }
            return ended;
        }
        let settled = expiries.settle(target, outcome);
        ended.and(settled)
    }

    fn take_over(
        &self,
        mut target: Option<&mut StoreWriter>,
        mut expiries: Option<&mut Expiries>,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        let options = self.options;
        if let Some(number) = self.scope.number() {
            // A source that has no such database says so.
            Source::open(&self.url)?.select(number)?;
        }
        let before = self.state.lock().followed(&self.name());
        let mut replica = Replica::open(&self.url, before.as_ref())?;
        let mut from = match (&replica.begun, before) {
            (Begun::Stream, Some(before)) => {
                self.note("the source's stream goes on where it ended");
                // A source that was promoted goes on under another id.
                Followed { stream: replica.stream.clone(), ..before }
            }
            _ => {
                let is_renewed = self.state.lock().resumes();
                if is_renewed {
                    // What an import before this one has written may have changed at the source since.
                    self.note("the source's stream cannot go on where it ended: all keys are copied anew");
                }
                let replace = options.replace || is_renewed;
                let selected =
                    self.copy(&mut replica, replace, target.as_deref_mut(), expiries.as_deref_mut(), outcome)?;
                behind(&replica, selected, is_renewed)
            }
        };
        loop {
            let Some(target) = target.as_deref_mut().filter(|_| !options.no_follow) else { return Ok(()) };
            self.keep(&from)?;
            self.note(&format!("the copy is there ({} keys); following what changes", outcome.written));
            // Opened now: an idle connection may not outlast a copy.
            let source = Source::open(&self.url)?;
            let mut follower = Follower::new(&mut *target, Some(source), self.scope, from.selected);
            follower.put_off(expiries.as_deref_mut());
            follower.own(self.slots);
            follower.note_reads(ReadPlaces { state: self.state, source: self.name() });
            follower.may_empty(self.empties());
            match self.follow(follower, &mut replica, &mut from, outcome)? {
                // Also if others of the source's masters go on, or there are problems.
                End::Whole if options.cut_over => return self.state.lock().forget_was_empty(),
                End::Whole => return Ok(()),
                End::Exchanged => {
                    self.note("databases of the source were exchanged (SWAPDB): all keys are copied anew")
                }
            }
            // Interrupted from here on, it begins with a copy.
            self.state.lock().forget_followed(&self.name())?;
            replica = Replica::open(&self.url, None)?;
            let selected = self.copy(&mut replica, true, Some(target), expiries.as_deref_mut(), outcome)?;
            from = behind(&replica, selected, false);
        }
    }

    /// Whether databases are emptied because those of the source were.
    fn empties(&self) -> Empties<'_> {
        match (self.state.lock().was_empty(self.scope.places_hash()), self.options.follow_flushes) {
            (false, _) => Empties::NotKnown,
            (true, false) => Empties::NotAsked,
            (true, true) => Empties::Of(&self.options.node),
        }
    }

    fn keep(&self, at: &Followed) -> Result<(), String> {
        self.state.lock().note_followed(&self.name(), at.clone())
    }

    /// Copies all keys. Answers which database the stream behind them is about.
    fn copy(
        &self,
        replica: &mut Replica,
        replace: bool,
        target: Option<&mut StoreWriter>,
        expiries: Option<&mut Expiries>,
        outcome: &mut Outcome,
    ) -> Result<u64, String> {
        let Begun::Copy { bytes } = replica.begun else { return Err("the source sends no keys".to_owned()) };
        let options = self.options;
        let quiet = options.quiet || self.slots.is_some();
        let mut pace = Pace::new(Unit::Bytes, bytes, options.rate, quiet);
        let (scope, now_ms) = (self.scope, wall_clock_ms());
        let mut copy = Copy {
            scope,
            replace,
            target,
            pace: &mut pace,
            now_ms,
            node: &options.node,
            gathered: None,
            saves: None,
            emptied: None,
            slots: self.slots,
            expiries,
        };
        let selected = copy.run(&mut replica.input, outcome)?;
        pace.end();
        replica.end_copy().map(|()| selected)
    }

    /// Repeats what the source is told, until the store lacks nothing (`--cut-over`), someone ends it, or it is to be copied anew.
    fn follow(
        &self,
        mut follower: Follower<'_>,
        replica: &mut Replica,
        from: &mut Followed,
        outcome: &mut Outcome,
    ) -> Result<End, String> {
        follower.doubt(from.until);
        if from.is_renewed {
            follower.trust_none();
        }
        let mut offset = from.offset;
        // The stream is read while nothing waits in its buffer only if there is more of it.
        let (mut told, mut pace) = (Instant::now(), Pace::new(Unit::Keys, None, self.options.rate, true));
        let mut end = follower.stream_end()?.unwrap_or(offset);
        loop {
            if end > from.until {
                *from = Followed { offset, until: end + AHEAD_BYTES, selected: follower.selected(), ..from.clone() };
                self.keep(from)?;
            }
            while offset < end {
                let mut commands = Commands::new(&mut replica.input, Form::Stream, offset);
                let args = commands.next().map_err(|e| format!("the source: {e}"))?;
                let args = args.ok_or("the source has closed the connection")?;
                pace.wait(1);
                let start = std::mem::replace(&mut offset, commands.position());
                follower.command(args, start..offset, outcome)?;
                if follower.needs_copy() {
                    return Ok(End::Exchanged);
                }
                if told.elapsed() > LAG_EVERY {
                    break;
                }
            }
            follower.settle(offset, outcome)?;
            replica.report(offset);
            end = follower.stream_end()?.unwrap_or(offset);
            let lag = end.saturating_sub(offset);
            let is_over = lag == 0 && (self.options.cut_over || self.stopped.load(Ordering::Acquire));
            if is_over || told.elapsed() > LAG_EVERY {
                told = Instant::now();
                // Keys may have been read from the source at any place up to its end.
                let until = from.until.max(end);
                *from = Followed { offset, until, selected: follower.selected(), ..from.clone() };
                self.keep(from)?;
                let (commands, problems) = (outcome.commands, outcome.problems.count());
                self.note(&format!("{lag} bytes behind; {commands} commands followed, {problems} problems"));
            }
            if is_over {
                self.note("nothing is missing");
                return Ok(End::Whole);
            }
            if lag == 0 {
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// Where the stream stands behind a copy.
fn behind(replica: &Replica, selected: u64, is_renewed: bool) -> Followed {
    let (stream, offset) = (replica.stream.clone(), replica.offset);
    Followed { stream, offset, until: offset, selected, is_renewed }
}
