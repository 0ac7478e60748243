//! What goes wrong, and when: drawn from the seed, within what the plan allows.
//!
//! Any number of nodes may be down, cut off or still at once. What is never lost is what a majority's disks hold: so
//! crashes that lose unsynced writes are the only way in which data goes.

use crate::chance::Chance;
use crate::checkers::Outcome;
use crate::control;
use crate::event::Event;
use crate::operator::{self, Operator};
use crate::places::Place;
use crate::plan;
use crate::schedule::MILLISECOND;
use crate::store::Store;
use crate::wall_clocks;

/// Kinds of faults.
#[derive(Clone, Copy)]
enum Fault {
    Degrade,
    Partition,
    OneWay,
    Crash,
    CrashAll,
    Pause,
    Jump,
    Drift,
    SlowDisk,
    FullDisk,
    FailingDisk,
    Shortage,
    Transfer,
    Plan,
    Split,
    Damage,
    Kill,
    Destroy,
}

/// The faults of a run, and how often each kind comes.
pub struct FaultSchedule {
    /// One of these happens at a time; those that stand here more than once, more often.
    kinds: Vec<Fault>,
}

impl FaultSchedule {
    /// The faults that a plan allows.
    #[must_use]
    pub fn new(kinds: &plan::Faults) -> Self {
        let all = [
            (kinds.network, &[Fault::Degrade, Fault::Partition, Fault::Partition, Fault::OneWay][..]),
            (kinds.crashes, &[Fault::Crash, Fault::Crash, Fault::Crash, Fault::CrashAll]),
            (kinds.pauses, &[Fault::Pause, Fault::Pause]),
            (kinds.clocks, &[Fault::Jump, Fault::Drift]),
            (kinds.disks, &[Fault::SlowDisk, Fault::SlowDisk, Fault::FullDisk, Fault::FailingDisk]),
            (kinds.shortages, &[Fault::Shortage, Fault::Shortage]),
            (kinds.changes, &[Fault::Transfer, Fault::Plan]),
            (kinds.splits, &[Fault::Split]),
            (kinds.damage, &[Fault::Damage]),
            (kinds.deaths, &[Fault::Kill]),
            (kinds.disaster, &[Fault::Destroy]),
        ];
        Self { kinds: all.iter().filter(|(on, _)| *on).flat_map(|(_, kinds)| kinds.iter().copied()).collect() }
    }

    /// Something goes wrong, and the next fault is set for later.
    pub fn strike(&self, store: &mut Store, operator: &mut Operator) -> Outcome {
        if store.env.is_healing() {
            return Ok(());
        }
        let every = store.env.between(1, 2 * store.env.plan().fault_every_ms) * MILLISECOND;
        store.env.after(every, Event::Fault);
        if self.kinds.is_empty() {
            return Ok(());
        }
        let kind = *store.env.pick(&self.kinds);
        let place = store.env.below(store.env.plan().nodes as u64) as usize;
        match kind {
            Fault::Degrade => {
                let severity = store.env.plan().severity;
                store.env.network().degrade(severity);
            }
            Fault::Partition => cut(store, false),
            Fault::OneWay => cut(store, true),
            Fault::Crash => _ = store.crash_for_a_while(place),
            Fault::CrashAll => (0..store.nodes.count()).for_each(|place| _ = store.crash_for_a_while(place)),
            Fault::Pause => pause(store, place),
            Fault::Jump => wall_clocks::jump(store, place),
            Fault::Drift => drift(store, place),
            Fault::SlowDisk => {
                store.nodes[place].disk.slowness = store.env.between(10, 3000);
                mend_later(store, place);
            }
            Fault::FullDisk => {
                store.nodes[place].disk.set_full(true);
                store.env.note(format_args!("the disk of node {} is full", place + 1));
                mend_later(store, place);
            }
            Fault::FailingDisk => {
                store.nodes[place].disk.fail();
                store.env.note(format_args!("the disk of node {} fails", place + 1));
            }
            Fault::Shortage => run_short(store, place),
            Fault::Transfer => operator::transfer(store),
            Fault::Plan => operator.want(store)?,
            Fault::Split => operator.want_split(store)?,
            Fault::Damage => operator.damage(store, place),
            Fault::Kill => operator.kill(store, place),
            Fault::Destroy => operator.destroy(store),
        }
        Ok(())
    }
}

/// A steady clock runs at another rate.
fn drift(store: &mut Store, place: Place) {
    let most = store.env.plan().drift_per_mille;
    let rate = 1000 - most + store.env.below(2 * most + 1);
    store.nodes[place].clock.drift(store.env.now(), rate);
    store.env.note(format_args!("the clock of node {} runs at {rate} ‰", place + 1));
}

fn cut(store: &mut Store, one_way: bool) {
    let nodes = store.nodes.count();
    let size = store.env.between(1, nodes as u64) as usize;
    let mut side: Vec<Place> = (0..nodes).collect();
    while side.len() > size {
        let gone = store.env.below(side.len() as u64) as usize;
        side.remove(gone);
    }
    store.env.network().partition(&side, one_way);
    store.env.note(format_args!("places {side:?} are cut off, one way: {one_way}"));
    let lasts = store.env.a_while();
    store.env.after(lasts, Event::Join);
}

fn pause(store: &mut Store, place: Place) {
    if store.nodes[place].process.is_some() && !store.nodes[place].paused {
        let now = store.moment(place);
        let host = &mut store.nodes[place];
        (host.paused, host.turn) = (true, Some(now));
        let lasts = store.env.a_while() * 3;
        store.env.note(format_args!("node {} stands still for {} ms", place + 1, lasts / MILLISECOND));
        store.env.after(lasts, Event::Resume(place));
        store.checks.messages.stands_still(place, true, store.env.now());
    }
}

/// A process runs out of descriptors or memory for a while, or its calls are interrupted.
fn run_short(store: &mut Store, place: Place) {
    // EINTR, EAGAIN, ENOMEM, ENFILE, EMFILE: errno(3).
    let number = *store.env.pick(&[4, 11, 12, 23, 24]);
    store.nodes[place].disk.set_shortage(Some(number));
    let error = std::io::Error::from_raw_os_error(number);
    store.env.note(format_args!("node {} runs short: {error}", place + 1));
    mend_later(store, place);
}

fn mend_later(store: &mut Store, place: Place) {
    let lasts = store.env.a_while();
    store.env.after(lasts, Event::Mend(place));
}

/// A disk is as it should be again.
pub fn mend(store: &mut Store, place: Place) {
    store.nodes[place].disk.slowness = 0;
    store.nodes[place].disk.set_full(false);
    store.nodes[place].disk.set_shortage(None);
    if let Some(process) = &mut store.nodes[place].process {
        // What could not be opened is tried again.
        process.refused.clear();
    }
    control::follow_map(store, place);
}

/// All faults stop.
pub fn heal(store: &mut Store) {
    store.env.heal();
    let now = store.env.now();
    for place in 0..store.nodes.count() {
        mend(store, place);
        store.nodes[place].clock.drift(now, 1000);
        store.nodes[place].clock.set_right();
        if store.nodes[place].paused {
            store.env.after(0, Event::Resume(place));
        }
        store.env.after((place as u64 + 1) * MILLISECOND, Event::Start(place));
    }
}
