//! What goes wrong, and when: drawn from the seed, within what the plan allows.
//!
//! Any number of nodes may be down, cut off or still at once. What is never lost is what a majority's disks hold: so
//! crashes that lose unsynced writes are the only way in which data goes.

use crate::chance::Chance;
use crate::clock::DRIFT_PER_MILLE_MAX;
use crate::event::{Event, Place};
use crate::schedule::{MILLISECOND, Micros, SECOND};
use crate::world::{Outcome, World};

const YEAR_MS: i64 = 365 * 24 * 3_600_000;

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
    Transfer,
    Plan,
    Split,
    Damage,
    Kill,
    Destroy,
}

impl World {
    /// Something goes wrong.
    pub(crate) fn fault(&mut self) -> Outcome {
        if self.healing {
            return Ok(());
        }
        let every = self.prng.between(1, 2 * self.plan.fault_every_ms) * MILLISECOND;
        self.schedule.after(every, Event::Fault);
        let faults = self.plan.faults;
        let kinds = [
            (faults.network, &[Fault::Degrade, Fault::Partition, Fault::Partition, Fault::OneWay][..]),
            (faults.crashes, &[Fault::Crash, Fault::Crash, Fault::Crash, Fault::CrashAll]),
            (faults.pauses, &[Fault::Pause, Fault::Pause]),
            (faults.clocks, &[Fault::Jump, Fault::Drift]),
            (faults.disks, &[Fault::SlowDisk, Fault::SlowDisk, Fault::FullDisk, Fault::FailingDisk]),
            (faults.changes, &[Fault::Transfer, Fault::Plan]),
            (faults.splits, &[Fault::Split]),
            (faults.damage, &[Fault::Damage]),
            (faults.deaths, &[Fault::Kill]),
            (faults.disaster, &[Fault::Destroy]),
        ];
        let kinds: Vec<Fault> =
            kinds.iter().filter(|(on, _)| *on).flat_map(|(_, kinds)| kinds.iter().copied()).collect();
        if kinds.is_empty() {
            return Ok(());
        }
        let kind = *self.prng.pick(&kinds);
        let place = self.prng.below(self.plan.nodes as u64) as usize;
        match kind {
            Fault::Degrade => self.network.degrade(self.plan.severity),
            Fault::Partition => self.cut(false),
            Fault::OneWay => self.cut(true),
            Fault::Crash => self.crash_for_a_while(place),
            Fault::CrashAll => (0..self.plan.nodes).for_each(|place| self.crash_for_a_while(place)),
            Fault::Pause => self.pause(place),
            Fault::Jump => self.jump(place),
            Fault::Drift => {
                let rate = 1000 - DRIFT_PER_MILLE_MAX + self.prng.below(2 * DRIFT_PER_MILLE_MAX + 1);
                let now = self.now();
                self.hosts[place].clock.drift(now, rate);
                self.note(format_args!("the clock of node {} runs at {rate} ‰", place + 1));
            }
            Fault::SlowDisk => {
                self.hosts[place].disk.slowness = self.prng.between(10, 3000);
                self.mend_later(place);
            }
            Fault::FullDisk => {
                self.hosts[place].disk.set_full(true);
                self.note(format_args!("the disk of node {} is full", place + 1));
                self.mend_later(place);
            }
            Fault::FailingDisk => {
                self.hosts[place].disk.fail();
                self.note(format_args!("the disk of node {} fails", place + 1));
            }
            Fault::Transfer => self.transfer(),
            Fault::Plan => self.want()?,
            Fault::Split => self.want_split()?,
            Fault::Damage => self.damage(place)?,
            Fault::Kill => self.kill(place),
            Fault::Destroy => self.destroy(),
        }
        Ok(())
    }

    /// A wall clock is set, by seconds or by years, and right again after a while. At any time most are right.
    fn jump(&mut self, place: Place) {
        let wrong = self.hosts.iter().filter(|host| !host.clock.is_right()).count();
        if !self.hosts[place].clock.is_right() || (wrong + 1) * 2 >= self.plan.nodes {
            return;
        }
        let by = self.prng.below(20_000) as i64 - 10_000;
        let by = if self.prng.happens(500) { by } else { by * (YEAR_MS / 1000) };
        self.hosts[place].clock.jump(by);
        self.note(format_args!("the wall clock of node {} jumps by {by} ms", place + 1));
        let lasts = self.a_while();
        self.schedule.after(lasts, Event::SetClock(place));
    }

    fn cut(&mut self, one_way: bool) {
        let nodes = self.plan.nodes as u64;
        let size = self.prng.between(1, nodes) as usize;
        let mut side: Vec<Place> = (0..self.plan.nodes).collect();
        while side.len() > size {
            let gone = self.prng.below(side.len() as u64) as usize;
            side.remove(gone);
        }
        self.network.partition(&side, one_way);
        self.note(format_args!("places {side:?} are cut off, one way: {one_way}"));
        let lasts = self.a_while();
        self.schedule.after(lasts, Event::Join);
    }

    pub(crate) fn crash_for_a_while(&mut self, place: Place) {
        if self.hosts[place].process.is_none() {
            return;
        }
        self.crash(place);
        let lasts = self.a_while();
        self.schedule.after(lasts, Event::Start(place));
    }

    fn pause(&mut self, place: Place) {
        if self.hosts[place].process.is_some() && !self.hosts[place].paused {
            let now = self.moment(place);
            let host = &mut self.hosts[place];
            (host.paused, host.turn) = (true, Some(now));
            let lasts = self.a_while() * 3;
            self.note(format_args!("node {} stands still for {} ms", place + 1, lasts / MILLISECOND));
            self.schedule.after(lasts, Event::Resume(place));
        }
    }

    fn mend_later(&mut self, place: Place) {
        let lasts = self.a_while();
        self.schedule.after(lasts, Event::Mend(place));
    }

    /// A disk is as it should be again.
    pub(crate) fn mend(&mut self, place: Place) {
        self.hosts[place].disk.slowness = 0;
        self.hosts[place].disk.set_full(false);
        if let Some(process) = &mut self.hosts[place].process {
            // What could not be opened is tried again.
            process.refused.clear();
        }
        self.follow_map(place);
    }

    fn a_while(&mut self) -> Micros {
        let most = *self.prng.pick(&[300, 1500, 10_000]);
        self.prng.between(10, most) * MILLISECOND
    }

    /// A node that does not write any more is started anew.
    pub(crate) fn restart(&mut self, place: Place) {
        self.crash(place);
        self.schedule.after(SECOND / 10, Event::Start(place));
    }
}
