//! What kind of run a seed makes: how large the store is, how it is used, and what it has to bear.

use crate::bug::Bug;
use crate::bulk::BulkShape;
use crate::chance::Chance;
use crate::clock::{DRIFT_PER_MILLE_MAX, SPREAD_MS};
use crate::schedule::MILLISECOND;
use crate::workload::WorkShape;
use vocab::Prng;

/// Two ticks, what messages take, and what the clocks of two nodes differ by.
const SLACK_US: u64 = 150_000 + 2 * SPREAD_MS * MILLISECOND;

/// What the steady clocks of machines drift at the most, in parts of a thousand: time services slew by half of that.
const DRIFT_PER_MILLE_OF_MACHINES: u64 = 1;
/// How long a link or a log is busy with the largest request at the most, in ms.
const BULK_MS: u64 = 300;

/// The kind of run. All of it follows from the seed.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Nodes.
    pub nodes: usize,
    /// As many are there at the beginning; the others come later.
    pub first: usize,
    /// Zones that they are spread over; 1: none.
    pub zones: usize,
    /// Replicas a shard.
    pub replication: u32,
    /// Data shards.
    pub shards: u32,
    /// Clients.
    pub clients: usize,
    /// Groups of keys.
    pub groups: usize,
    /// Longest pause of a client between two requests, in ms.
    pub think_ms: u64,
    /// Whether writes are on a majority's disks before they are acknowledged. If not, no crash loses what was written,
    /// as when only processes die.
    pub sync: bool,
    /// How bad the network is while it is: 0 to 3.
    pub severity: u64,
    /// Mean time between two faults, in ms.
    pub fault_every_ms: u64,
    /// Mean time between two flushes of a node's trees, in ms.
    pub flush_every_ms: u64,
    /// Bytes of log that a leader keeps for followers that lag.
    pub keep_bytes: u64,
    /// Whether a node goes on deciding while a log write is under way, and writes what that comes to after it.
    pub overlap: bool,
    /// After how long a node that is not heard of counts as lost, in ms, if not after the usual time.
    pub failure_timeout_ms: Option<u64>,
    /// From so many operations a second on shards are divided unasked, and for how long the halves rest, in ms.
    pub split_ops: Option<(u64, u64)>,
    /// Whether entries wait for their rows while a disk is slow.
    pub deferred_apply: bool,
    /// How many rows an event loop reads and writes for an entry before it gives it up, if fewer than usual.
    pub inline_rows: Option<usize>,
    /// How many of a thousand requests go to any node, whatever their client knows of leaders.
    pub astray_per_mille: u64,
    /// How many of a thousand reads wait for a disk.
    pub cold_reads_per_mille: u64,
    /// How many parts in a thousand steady clocks run fast or slow at the most.
    pub drift_per_mille: u64,
    /// What hostile clients send, if there are any.
    pub bulk: Option<BulkShape>,
    /// Clients of collections.
    pub collection_clients: usize,
    /// Clients that listen to what others publish; without them no client publishes.
    pub listeners: usize,
    /// What clients ask beside the usual.
    pub work: WorkShape,
    /// Which kinds of faults there are.
    pub faults: Faults,
}

/// Which kinds of faults a run has.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Links that are cut, slow or lossy.
    pub network: bool,
    /// Nodes that crash and come back.
    pub crashes: bool,
    /// Nodes that stand still for a while.
    pub pauses: bool,
    /// Clocks that jump and drift.
    pub clocks: bool,
    /// Slow, full and failing disks.
    pub disks: bool,
    /// Processes that run out of descriptors or memory.
    pub shortages: bool,
    /// Leaders that are told to hand over, and plans of all kinds.
    pub changes: bool,
    /// Shards that are divided.
    pub splits: bool,
    /// Nodes that die for good.
    pub deaths: bool,
    /// So many nodes die for good at once that shards lose their majority.
    pub disaster: bool,
    /// Bytes that are damaged on disk while a node is down.
    pub damage: bool,
}

impl Faults {
    /// Nothing fails.
    pub const NONE: Self = Self {
        network: false,
        crashes: false,
        pauses: false,
        clocks: false,
        disks: false,
        shortages: false,
        changes: false,
        splits: false,
        deaths: false,
        disaster: false,
        damage: false,
    };
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn draw(prng: &mut Prng) -> Self {
        let nodes = prng.between(3, 8) as usize;
        let replication = if nodes >= 5 && prng.happens(300) { 5 } else { 3 };
        let faults = Faults {
            network: prng.happens(700),
            crashes: prng.happens(700),
            pauses: prng.happens(500),
            clocks: prng.happens(500),
            disks: prng.happens(400),
            shortages: false,
            changes: prng.happens(500),
            splits: prng.happens(400),
            damage: prng.happens(200),
            deaths: prng.happens(200),
            disaster: nodes >= 5 && prng.happens(150),
        };
        let faults = match faults.disaster {
            // What else may be lost would not be known.
            true => Faults { damage: false, deaths: false, ..faults },
            false => faults,
        };
        let most = nodes.min(replication as usize);
        Self {
            nodes,
            first: if prng.happens(400) { prng.between(most as u64, nodes as u64 + 1) as usize } else { nodes },
            zones: if prng.happens(300) { prng.between(2, 5) as usize } else { 1 },
            replication,
            shards: prng.between(1, 4) as u32,
            clients: prng.between(2, 9) as usize,
            groups: prng.between(2, 7) as usize,
            think_ms: *prng.pick(&[2, 20, 100]),
            sync: prng.happens(800) || faults.disaster,
            severity: prng.below(4),
            fault_every_ms: *prng.pick(&[100, 400, 1500]),
            flush_every_ms: *prng.pick(&[100, 500, 3000]),
            overlap: prng.happens(500),
            keep_bytes: *prng.pick(&[0, 2_000, 1 << 20]),
            work: WorkShape {
                expires: prng.happens(500) && !faults.disaster,
                clears: prng.happens(300) && !faults.disaster,
                careless: prng.happens(300),
                weak: if prng.happens(500) { 300 } else { 0 },
            },
            astray_per_mille: 100,
            cold_reads_per_mille: 300,
            failure_timeout_ms: prng.happens(300).then(|| prng.between(5_000, 20_000)),
            split_ops: Self::draw_split_ops(&mut prng.clone()),
            deferred_apply: prng.clone().next_u64().is_multiple_of(2),
            inline_rows: Self::draw_inline_rows(&mut Prng::new(prng.clone().next_u64().swap_bytes())),
            drift_per_mille: DRIFT_PER_MILLE_MAX,
            bulk: None,
            collection_clients: 0,
            listeners: 0,
            faults,
        }
        .with_more(&mut prng.clone())
        .with_collections(&mut Prng::new(prng.clone().next_u64()))
        .with_listeners(&mut Prng::new(!prng.clone().next_u64()))
    }

    /// Draws whether there are clients that listen, and others that publish.
    fn with_listeners(mut self, prng: &mut Prng) -> Self {
        if prng.happens(300) {
            self.listeners = prng.between(2, 6) as usize;
        }
        self
    }

    /// Draws whether there are clients of collections. Not where nothing but bulk is to keep others waiting, nor where
    /// writes are lost because a shard goes on without its majority.
    fn with_collections(mut self, prng: &mut Prng) -> Self {
        let is_calm = self.bulk.is_some_and(|bulk| bulk.is_calm);
        if prng.happens(600) && !is_calm && !self.faults.disaster {
            self.collection_clients = prng.between(1, 4) as usize;
        }
        self
    }

    /// Draws what a generator of its own decides.
    fn with_more(mut self, prng: &mut Prng) -> Self {
        // What is drawn before.
        prng.next_u64();
        self.faults.shortages = prng.happens(300);
        // Leases bear steady clocks that no machine has; expiry is held to the truth where they are as machines' are.
        if prng.happens(600) {
            self.drift_per_mille = DRIFT_PER_MILLE_OF_MACHINES;
        }
        self.work.expires &= !self.faults.clocks || self.drift_per_mille == DRIFT_PER_MILLE_OF_MACHINES;
        if prng.happens(250) {
            self = self.with_bulk(prng);
        } else if !self.sync && prng.happens(500) {
            self = self.with_lonely_power_cuts();
        }
        self
    }

    fn with_bulk(mut self, prng: &mut Prng) -> Self {
        let bytes = *prng.pick(&[30_000, 100_000, 300_000]);
        let is_calm = prng.happens(400);
        let clients = prng.between(1, 4) as usize;
        let bytes_per_ms = bytes as u64 / *prng.pick(&[50, 150, BULK_MS]);
        self.bulk = Some(BulkShape { clients, bytes, bytes_per_ms, is_calm });
        if is_calm {
            self.first = self.nodes;
            self.split_ops = None;
            self.faults = Faults::NONE;
        }
        self
    }

    /// Whether steady clocks drift no more than those of machines do.
    #[must_use]
    pub fn has_good_clocks(&self) -> bool {
        self.drift_per_mille <= DRIFT_PER_MILLE_OF_MACHINES
    }

    /// Where `nosync`'s promise is tried: the power of one node fails, then processes are killed.
    fn with_lonely_power_cuts(mut self) -> Self {
        let faults = self.faults;
        self.faults = Faults { crashes: true, changes: faults.changes, splits: faults.splits, ..Faults::NONE };
        self
    }

    /// Whether the power of one node may fail wherever its leader holds everything: nothing else fails then.
    #[must_use]
    pub fn has_lonely_power_cuts(&self) -> bool {
        let faults = self.faults;
        let others = [faults.network, faults.pauses, faults.clocks, faults.disks, faults.shortages, faults.deaths];
        !self.sync && self.bulk.is_none() && !faults.damage && !faults.disaster && others.iter().all(|on| !on)
    }

    /// Of a generator of its own: what else a seed makes is as it was before there was this.
    fn draw_split_ops(prng: &mut Prng) -> Option<(u64, u64)> {
        prng.happens(300).then(|| (prng.between(1, 30), prng.between(1_000, 5_000)))
    }

    /// Draws how soon an event loop gives an entry up, likewise.
    fn draw_inline_rows(prng: &mut Prng) -> Option<usize> {
        prng.happens(400).then(|| *prng.pick(&[4, 12, 40]))
    }

    /// The plan of a large store under churn: nodes join, crash, die and leave.
    #[must_use]
    pub fn large(nodes: usize, prng: &mut Prng) -> Self {
        let few = Self::draw(prng);
        Self {
            nodes,
            first: nodes - nodes / 10,
            zones: 5,
            replication: 3,
            shards: nodes as u32,
            clients: 8,
            groups: 8,
            think_ms: 100,
            sync: true,
            severity: 1,
            fault_every_ms: 400,
            flush_every_ms: 3000,
            failure_timeout_ms: Some(10_000),
            bulk: None,
            listeners: 0,
            faults: Faults {
                crashes: true,
                changes: true,
                deaths: true,
                clocks: false,
                damage: false,
                disaster: false,
                ..few.faults
            },
            ..few
        }
    }

    /// The same plan, with the faults without which a planted bug does not show.
    #[must_use]
    pub fn exposing(mut self, bug: Bug) -> Self {
        if let Some(bulk) = &mut self.bulk {
            // More than bulk may be the reason of a stall now; what is about bulk says so below.
            bulk.is_calm = false;
        }
        match bug {
            // A leader that is cut off, or stands still, while a read of it waits for the disk.
            Bug::LeaseOnce => {
                self.faults.pauses = true;
                self.faults.network = true;
                self.cold_reads_per_mille = 900;
                self.astray_per_mille = 400;
            }
            Bug::OwnerOnce => {
                self.faults.splits = true;
                self.cold_reads_per_mille = 900;
            }
            // What waits behind bulk waits for that of all clients.
            Bug::BulkFirst => self.be_bulky(8, true),
            Bug::MuteLog => self.be_bulky(3, true),
            // What was not to be admitted may keep others waiting.
            Bug::NoAdmission => self.be_bulky(3, false),
            Bug::ForgetInterest | Bug::SwapMessages | Bug::DoubleMessage | Bug::EarlyConfirm | Bug::KeepSubscribers => {
                self.listeners = 5;
                self.faults.network = true;
                self.faults.changes |= bug == Bug::KeepSubscribers;
            }
            Bug::KeepGivenUp => self.inline_rows = Some(4),
            Bug::PoisonOnLack => self.faults.shortages = true,
            Bug::LocalExpiry => {
                self.faults.clocks = true;
                self.drift_per_mille = DRIFT_PER_MILLE_OF_MACHINES;
                self.work.expires = true;
            }
            Bug::BeforeReplay => {
                self.faults.crashes = true;
                self.work.weak = 300;
                self.astray_per_mille = 600;
                self.flush_every_ms = 3000;
            }
            _ => {}
        }
        self
    }

    /// So many hostile clients, and nothing else that fails.
    fn be_bulky(&mut self, clients: usize, is_calm: bool) {
        self.collection_clients = 0;
        let bytes = 100_000;
        self.bulk = Some(BulkShape { clients, bytes, bytes_per_ms: bytes as u64 / BULK_MS, is_calm });
        self.first = self.nodes;
        self.split_ops = None;
        self.faults = Faults::NONE;
    }

    /// How long disks are slow and fast in turns, in µs, where entries wait for their rows.
    #[must_use]
    pub fn slow_spell(&self) -> u64 {
        self.flush_every_ms * 1000
    }

    /// How much later than a leader another replica may learn of a write, beside the lag that it tells, in µs; none if its
    /// lag means nothing, because clocks jump.
    #[must_use]
    pub fn slack(&self) -> Option<u64> {
        (!self.faults.clocks).then_some(SLACK_US)
    }

    /// How many replicas plans may ask for. Fewer than three bear no damage.
    #[must_use]
    pub fn factors(&self) -> &'static [u32] {
        if self.faults.damage || self.faults.deaths || self.faults.disaster { &[3, 3, 5] } else { &[1, 2, 3, 3, 3, 5] }
    }
}
