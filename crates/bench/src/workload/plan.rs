//! A phase of the core workload: which operations, on which records, in which order.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vocab::Prng;

use super::acknowledged::{AcknowledgedCounter, WindowFull};
use super::chooser::KeyChooser;
use super::config::{Config, Distribution};
use super::key::KeyOrder;
use super::mix::{Mix, OpKind};
use super::outstanding::Outstanding;
use super::properties::{BadProperty, bad};
use super::range::RecordRange;
use super::short_scans::{ShortScans, TooManyShort, near_end_max};
use super::update_log::UpdateLog;
use super::value::{Cell, ValueForm, key_hash};
use super::zipfian::Zipfian;

/// What a phase does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Task {
    /// Inserts the records.
    Load,
    /// Runs the mix.
    Run,
    /// Removes the records.
    Delete,
}

/// Fields that an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// All of the record.
    All,
    /// This one.
    One(u32),
}

/// One operation. Its buffers are used again by the next.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What it does.
    pub kind: OpKind,
    /// The key number as the generators count it; see [`Workload::number_of`].
    pub number: u64,
    /// The record's key.
    pub key: Vec<u8>,
    /// The fields it reads.
    pub read: Fields,
    /// The fields it writes.
    pub write: Fields,
    /// The tag of the values it writes; see [`Workload::added_number`].
    pub tag: u64,
    /// Records it scans at most.
    pub scan_length: u64,
}

impl Default for Operation {
    fn default() -> Self {
        let all = Fields::All;
        Self { kind: OpKind::Read, number: 0, key: Vec::new(), read: all, write: all, tag: 0, scan_length: 0 }
    }
}

/// One phase, shared by its threads.
#[derive(Debug)]
pub struct Workload {
    /// The workload's parameters.
    pub config: Config,
    task: Task,
    mix: Mix,
    /// `field0`, `field1`…
    field_names: Vec<Vec<u8>>,
    /// The next record to load or delete, and one past the last.
    turn: AtomicU64,
    turns_end: u64,
    inserts: AcknowledgedCounter,
    range: RecordRange,
    chooser: KeyChooser,
    /// Compare-and-set updates that were acknowledged.
    updates: UpdateLog,
    /// What must be in queues and streams.
    outstanding: Outstanding,
    short_scans: ShortScans,
    /// Inserts that failed: they may or may not be there.
    doubtful: Mutex<HashSet<u64>>,
    /// What makes the elements that this phase adds to collections others than those of another phase with the same seed.
    salt: u64,
}

impl Workload {
    /// Plans a phase. Instant for any record count.
    ///
    /// # Errors
    /// Properties that do not fit together.
    pub fn plan(config: Config, task: Task) -> Result<Self, BadProperty> {
        let range = config.range()?;
        let loaded = loaded(&config, range);
        let chooser = if task == Task::Run { chooser(&config, range)? } else { KeyChooser::Uniform { count: 1 } };
        let mix = match task {
            Task::Load => Mix::only(OpKind::Insert),
            Task::Run => config.mix.clone(),
            Task::Delete => Mix::only(OpKind::Delete),
        };
        let name = |field: u32| format!("{}{field}", config.field_name_prefix).into_bytes();
        Ok(Self {
            task,
            mix,
            field_names: (0..config.field_count).map(name).collect(),
            turn: AtomicU64::new(loaded.first()),
            turns_end: loaded.first() + loaded.count(),
            range,
            inserts: AcknowledgedCounter::new(config.record_count),
            chooser,
            updates: UpdateLog::default(),
            outstanding: Outstanding::default(),
            short_scans: ShortScans::default(),
            doubtful: Mutex::default(),
            salt: RandomState::new().hash_one(()),
            config,
        })
    }

    /// What this phase does.
    #[must_use]
    pub fn task(&self) -> Task {
        self.task
    }

    /// Operations after which the phase ends by itself; none = it goes on.
    #[must_use]
    pub fn operations(&self) -> Option<u64> {
        match self.task {
            Task::Load | Task::Delete => Some(self.turns_end - self.turn.load(Ordering::Relaxed).min(self.turns_end)),
            Task::Run => (self.config.operation_count > 0).then_some(self.config.operation_count),
        }
    }

    /// The operations of this phase.
    #[must_use]
    pub fn mix(&self) -> &Mix {
        &self.mix
    }

    /// The names of a record's fields.
    #[must_use]
    pub fn field_names(&self) -> &[Vec<u8>] {
        &self.field_names
    }

    /// The records that were there before the run began.
    #[must_use]
    pub fn range(&self) -> RecordRange {
        self.range
    }

    /// Makes `operation` a read of the whole record `number`.
    pub fn read_of(&self, number: u64, operation: &mut Operation) {
        let key = std::mem::take(&mut operation.key);
        *operation = Operation { number, key, ..Operation::default() };
        operation.key.clear();
        self.config.keys.write(number, &mut operation.key);
    }

    /// A source of operations for one thread. The whole sequence follows from `seed`, as long as threads do not meet.
    #[must_use]
    pub fn source(self: &Arc<Self>, seed: u64) -> Source {
        Source { workload: Arc::clone(self), prng: Prng::new(seed), chooser: self.chooser.clone() }
    }

    /// The number whose name a record bears. The generators count this process's inserts as if it were alone; parallel
    /// processes take turns, so that none inserts another's record.
    #[must_use]
    pub fn number_of(&self, counted: u64) -> u64 {
        let Config { record_count, process, processes, plays_all, .. } = self.config;
        if counted < record_count || plays_all {
            counted
        } else {
            record_count + (counted - record_count) * processes + process
        }
    }

    /// Notes the end of `operation`: an insert of a run may be read once it and all before it were answered.
    ///
    /// # Errors
    /// An insert is still unanswered a million inserts later.
    pub fn finished(&self, operation: &Operation, succeeded: bool) -> Result<(), WindowFull> {
        if operation.kind != OpKind::Insert || self.task != Task::Run {
            return Ok(());
        }
        if !succeeded {
            self.doubtful.lock().insert(operation.number);
        }
        self.inserts.acknowledge(operation.number)
    }

    /// One past the last record that may be read: the records of the load and those that the run has inserted.
    #[must_use]
    pub fn readable_end(&self) -> u64 {
        self.inserts.end()
    }

    /// Whether the record must be there: all but those whose insert failed.
    #[must_use]
    pub fn must_exist(&self, number: u64) -> bool {
        !self.doubtful.lock().contains(&number)
    }

    /// Rows that a scan in the order of keys must have at least: its record, and those that are known to be behind it.
    #[must_use]
    pub fn scan_rows_min(&self, operation: &Operation) -> u64 {
        let end = self.range.first() + self.range.count();
        let behind = end.saturating_sub(operation.number);
        let known = if self.config.keys.ascends_below(end) { behind } else { 1 };
        known.clamp(1, operation.scan_length.max(1))
    }

    /// Notes that a scan has come to the store's end before it had its length.
    ///
    /// # Errors
    /// That cannot be so for all records from which scans have.
    pub fn ended_short(&self, operation: &Operation) -> Result<(), TooManyShort> {
        let inserted = self.inserts.handed_out_end().saturating_sub(self.config.record_count);
        let scattered = self.config.keys.order == KeyOrder::Hashed;
        let records_max = near_end_max(self.config.scan_length.max(), self.range.count(), inserted, scattered);
        self.short_scans.note(key_hash(&operation.key), records_max)
    }

    /// Notes a compare-and-set write to `key` that replaced `version` and was acknowledged. False if an update is lost.
    #[must_use]
    pub fn is_first_update(&self, key: &[u8], version: u64) -> bool {
        self.updates.is_first(key_hash(key), version)
    }

    /// What must be in queues and streams, as far as this process knows. None: other processes take from them, too.
    #[must_use]
    pub fn outstanding(&self) -> Option<&Outstanding> {
        (self.config.processes == 1).then_some(&self.outstanding)
    }

    /// The number of the element that `operation` adds to a collection. It does not follow from the seed alone: a collection
    /// may still hold what an earlier run with the same seed has added, and an element that comes twice is wrong.
    #[must_use]
    pub fn added_number(&self, operation: &Operation) -> u64 {
        operation.tag ^ self.salt
    }

    /// Appends the value that `operation` writes to `field`, compressed if the client does that.
    pub fn write_value(&self, operation: &Operation, hash: u64, field: u32, out: &mut Vec<u8>) {
        let length = self.config.field_length.constant().unwrap_or_else(|| {
            // From the tag, so that a second attempt writes the same.
            self.config.field_length.next(&mut Prng::new(operation.tag ^ u64::from(field) << 40))
        });
        let cell = self.cell(&operation.key, hash, field);
        self.config.compression.write(|out| self.form().write(cell, operation.tag, length as usize, out), out);
    }

    /// The field `field` of the record `key`, whose hash is `hash`.
    #[must_use]
    pub fn cell<'a>(&'a self, key: &'a [u8], hash: u64, field: u32) -> Cell<'a> {
        Cell { key, key_hash: hash, field, name: &self.field_names[field as usize] }
    }

    /// What values look like.
    #[must_use]
    pub fn form(&self) -> ValueForm {
        self.config.values
    }

    /// The number of the field called `name`. `hint` is tried first: answers come mostly in order.
    #[must_use]
    pub fn field_named(&self, name: &[u8], hint: u32) -> Option<u32> {
        if self.field_names.get(hint as usize).is_some_and(|field| field == name) {
            return Some(hint);
        }
        self.field_names.iter().position(|field| field == name).map(|field| field as u32)
    }
}

/// The part of `range` that this process loads: every process has an equal one.
fn loaded(config: &Config, range: RecordRange) -> RecordRange {
    let shares = config.processes > 1 && !config.plays_all;
    if shares { range.part(config.process, config.processes) } else { range }
}

fn chooser(config: &Config, range: RecordRange) -> Result<KeyChooser, BadProperty> {
    let count = range.count();
    Ok(match config.distribution {
        Distribution::Uniform => KeyChooser::Uniform { count },
        Distribution::Sequential => KeyChooser::Sequential { count, turn: Arc::default() },
        Distribution::Zipfian => {
            // Room for the records that the run inserts: twice what is to be expected.
            let new = (config.operation_count as f64 * config.mix.share(OpKind::Insert) * 2.0) as u64;
            let salt = |process: u64| key_hash(&process.to_le_bytes()) >> 1;
            let salts = match (config.own_hot_keys, config.plays_all) {
                (false, _) => vec![0],
                (true, false) => vec![salt(config.process)],
                (true, true) => (0..config.processes).map(salt).collect(),
            };
            KeyChooser::scrambled(count + new, salts)
        }
        Distribution::Latest if count < 2 => {
            return Err(bad("recordcount", "the latest distribution needs two records at least"));
        }
        Distribution::Latest => KeyChooser::Latest(Zipfian::new(0, count - 2)),
        Distribution::Hotspot { data, operations } => {
            KeyChooser::Hotspot { count, hot: (count as f64 * data) as u64, share: operations }
        }
        Distribution::Exponential { percentile, fraction } => {
            KeyChooser::exponential(percentile, count as f64 * fraction)
        }
    })
}

/// One thread's operations.
#[derive(Debug)]
pub struct Source {
    workload: Arc<Workload>,
    prng: Prng,
    chooser: KeyChooser,
}

impl Source {
    /// Puts the next operation into `operation`. False when a load or delete has come to its end.
    pub fn next(&mut self, operation: &mut Operation) -> bool {
        let workload = &*self.workload;
        let config = &workload.config;
        operation.kind = workload.mix.at(if workload.task == Task::Run { self.prng.next_f64() } else { 0.0 });
        operation.number = match (workload.task, operation.kind) {
            (Task::Load | Task::Delete, _) => {
                let number = workload.turn.fetch_add(1, Ordering::Relaxed);
                if number >= workload.turns_end {
                    return false;
                }
                number
            }
            (Task::Run, OpKind::Insert) => workload.inserts.next(),
            (Task::Run, _) => {
                let readable = workload.range.readable(workload.inserts.end());
                workload.range.number(self.chooser.next(&mut self.prng, readable))
            }
        };
        let named = if workload.task == Task::Run { workload.number_of(operation.number) } else { operation.number };
        operation.key.clear();
        config.keys.write(named, &mut operation.key);
        let fields = u64::from(config.field_count);
        operation.read = if config.read_all_fields { Fields::All } else { Fields::One(self.prng.below(fields) as u32) };
        let all = config.write_all_fields || operation.kind == OpKind::Insert;
        operation.write = if all { Fields::All } else { Fields::One(self.prng.below(fields) as u32) };
        operation.tag = self.prng.next_u64();
        operation.scan_length =
            if operation.kind == OpKind::Scan { config.scan_length.next(&mut self.prng) } else { 0 };
        true
    }

    /// A random number, for what drives this source.
    pub fn prng(&mut self) -> &mut Prng {
        &mut self.prng
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
