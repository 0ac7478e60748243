//! A model of the measured runs, and what it says of other stores.

use serde::Serialize;

use super::demand::Demand;
use super::memory::{CACHE_SHARE, miss_share};
use super::options::ModelOptions;
use super::point::{DISK, INSERT, KINDS, READ, ROW, SCAN, UPDATE, cautions, points};
use super::scalability::{self, Scalability};
use super::shape::{Shape, shapes};
use crate::compare::RunFolder;

/// The part of a network's rate that can be payload.
const NETWORK_SHARE: f64 = 0.8;

/// Everything that is printed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Model {
    /// Phases that it was made from.
    pub(super) points: Vec<String>,
    /// Phases that could not be used, and why.
    pub(super) left_out: Vec<String>,
    pub(super) cautions: Vec<String>,
    pub(super) demand: Demand,
    /// Over clients, and over nodes; or why not.
    pub(super) clients: Result<Scalability, String>,
    pub(super) nodes: Result<Scalability, String>,
    pub(super) utilisation: f64,
    pub(super) predictions: Vec<Prediction>,
    pub(super) assumptions: Vec<String>,
}

/// What is said of one store.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Prediction {
    pub(super) name: String,
    pub(super) nodes: f64,
    pub(super) cores: f64,
    pub(super) records: f64,
    pub(super) ops_per_s: f64,
    pub(super) ops_per_s_low: Option<f64>,
    pub(super) ops_per_s_high: Option<f64>,
    /// What comes to its end first.
    pub(super) bound: String,
    pub(super) per_core_s: f64,
    /// Bytes on each node's disk.
    pub(super) disk_bytes_per_node: Option<f64>,
    /// Hours to insert all records.
    pub(super) load_hours: Option<f64>,
    /// The share of reads and scans that memory does not answer, where that is told.
    pub(super) miss_share: Option<f64>,
    /// Reads a second that each node's disks answer.
    pub(super) disk_reads_per_s_and_node: Option<f64>,
    /// Cores that the clients need.
    pub(super) client_cores: Option<f64>,
    pub(super) published: Option<Beside>,
}

/// The published figures beside a prediction.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Beside {
    pub(super) source: String,
    pub(super) ops_per_s: f64,
    /// Predicted by published, less one.
    pub(super) error: f64,
    pub(super) hours: Option<f64>,
    pub(super) disk_bytes_per_node: Option<f64>,
}

impl Model {
    /// Fits what can be fitted, and predicts what is asked for.
    ///
    /// # Errors
    /// The runs do not tell enough.
    pub(super) fn of(runs: &[RunFolder], options: &ModelOptions) -> Result<Self, String> {
        options.check()?;
        let (points, left_out) = points(runs);
        let demand = Demand::of(&points).map_err(|why| {
            let reasons = left_out.iter().map(|line| format!("\n  {line}")).collect::<String>();
            format!("no model: {why}{reasons}")
        })?;
        let mut model = Self {
            points: points.iter().map(|point| point.name.clone()).collect(),
            left_out,
            cautions: cautions(runs),
            demand,
            clients: scalability::of("clients", &points),
            nodes: scalability::of("nodes", &points),
            utilisation: options.utilisation,
            predictions: Vec::new(),
            assumptions: Vec::new(),
        };
        let shapes = shapes(options)?;
        let mut lacks = Vec::new();
        for shape in &shapes {
            match model.predict(shape, options) {
                Ok(prediction) => model.predictions.push(prediction),
                Err(why) => lacks.push(why),
            }
        }
        if model.predictions.is_empty() {
            return Err(lacks.join("; "));
        }
        model.left_out.extend(lacks);
        model.assumptions = model.assumptions(&shapes, options);
        Ok(model)
    }

    fn predict(&self, shape: &Shape, options: &ModelOptions) -> Result<Prediction, String> {
        let disk =
            self.demand.space.map(|space| shape.records * shape.record_bytes * shape.copies * space / shape.nodes);
        let miss_share = misses(shape, disk);
        let mut shares = shape.shares;
        shares[DISK] =
            (shares[READ] + shares[SCAN]) * miss_share.unwrap_or(0.0) * self.demand.reads_a_miss.unwrap_or(1.0);
        let cost = self.demand.cost(shares, shape.copies).map_err(|why| format!("{}: {why}", shape.name))?;
        let efficiency = self.nodes.as_ref().map_or(1.0, |law| law.efficiency(shape.nodes));
        let cores_s = shape.nodes * shape.cores * options.core_speed * options.utilisation * efficiency;
        let mut bounds = vec![("CPU", cores_s / cost.cpu_s), ("network", network(shape, options))];
        if let (Some(each), Some(written)) = (options.disk_mb_per_s, self.demand.written) {
            let bytes = (shares[UPDATE] + shares[INSERT]) * shape.record_bytes * shape.copies * written;
            bounds.push(("disk", shape.nodes * each * 1e6 / bytes.max(f64::MIN_POSITIVE)));
        }
        if let Some(each) = shape.disk_reads_per_s.filter(|_| shares[DISK] > 0.0) {
            bounds.push(("disk reads", shape.nodes * each / shares[DISK]));
        }
        let (bound, ops_per_s) = bounds.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(("CPU", 0.0));
        // A cost that may be nothing bounds nothing.
        let within = |cost: Option<f64>| cost.filter(|cost| bound == "CPU" && *cost > 0.0).map(|cost| cores_s / cost);
        let load = if shape.shares[INSERT] == 1.0 {
            Some(ops_per_s)
        } else {
            let mut inserts = [0.0; KINDS.len()];
            inserts[INSERT] = 1.0;
            self.demand.cost(inserts, shape.copies).ok().map(|cost| cores_s / cost.cpu_s)
        };
        Ok(Prediction {
            name: shape.name.clone(),
            nodes: shape.nodes,
            cores: shape.cores,
            records: shape.records,
            ops_per_s,
            ops_per_s_low: within(cost.high_s),
            ops_per_s_high: within(cost.low_s),
            bound: bound.to_owned(),
            per_core_s: ops_per_s / (shape.nodes * shape.cores),
            disk_bytes_per_node: disk,
            load_hours: load.map(|rate| shape.records / rate / 3600.0),
            miss_share,
            disk_reads_per_s_and_node: miss_share.map(|_| ops_per_s * shares[DISK] / shape.nodes),
            client_cores: self.demand.client_s.map(|each| ops_per_s * each / options.core_speed),
            published: shape.published.as_ref().map(|published| Beside {
                source: published.source.clone(),
                ops_per_s: published.ops_per_s,
                error: ops_per_s / published.ops_per_s - 1.0,
                hours: published.hours,
                disk_bytes_per_node: published.disk_tb_per_node.map(|tb| tb * 1e12),
            }),
        })
    }

    fn assumptions(&self, shapes: &[Shape], options: &ModelOptions) -> Vec<String> {
        let mut list = vec![
            format!(
                "A core of the predicted store does {} what one of the measured machine does, and may be busy {:.0} % of \
                 the time.",
                if options.core_speed == 1.0 {
                    "as much as".to_owned()
                } else {
                    format!("{} times", options.core_speed)
                },
                options.utilisation * 100.0
            ),
            format!(
                "A write costs in proportion to the copies that are made of it ({} were measured); a read costs the same \
                 whatever their number.",
                self.demand.copies
            ),
            self.disk_assumption(),
            match &self.nodes {
                Ok(law) => format!(
                    "Nodes scale by the law above (σ {:.4}, κ {:.6}), which was measured up to {} nodes.",
                    law.sigma.value,
                    law.kappa.value,
                    law.points.iter().map(|point| point.0).fold(0.0, f64::max)
                ),
                Err(_) => {
                    "Nodes are taken to scale without loss, since it was not measured: the prediction is the most \
                           that can be."
                        .to_owned()
                }
            },
            format!(
                "The network is {} Gbit/s a node, of which {:.0} % can be used; keys are spread evenly.",
                options.network_gbit,
                NETWORK_SHARE * 100.0
            ),
        ];
        if self.demand.space.is_some() {
            list.push(
                "Bytes on disk grow in proportion to the records; they are those of the trees, where the store tells, and \
                 its log comes on top. What updates leave behind weighs more in a small store, so runs of a few hundred \
                 megabytes make them look too many."
                    .to_owned(),
            );
        }
        if options.disk_mb_per_s.is_none() {
            list.push("Disks are fast enough: give --disk-mb-per-s to have them count.".to_owned());
        } else if self.demand.written.is_none() {
            list.push(
                "What writes cost the disk is not known from the runs, so disks are taken to be fast enough."
                    .to_owned(),
            );
        }
        if self.demand.kinds.iter().any(|kind| kind.kind == KINDS[ROW]) {
            list.push(
                "A scan costs what its rows cost, each as one of the scans that were measured; the disk is asked once for a \
                 scan that memory does not hold."
                    .to_owned(),
            );
        }
        for assumed in shapes.iter().flat_map(|shape| &shape.assumes) {
            if !list.contains(assumed) {
                list.push(assumed.clone());
            }
        }
        list
    }

    /// What is taken for granted of reads that memory does not answer.
    fn disk_assumption(&self) -> String {
        let reads = match self.demand.reads_a_miss {
            Some(reads) => format!("asks the disk {reads:.2} times, as in the runs with bounded memory"),
            None => {
                "asks the disk once, which no run tells: it takes uniform reads of data larger than a bound of memory"
                    .to_owned()
            }
        };
        let cpu = if self.demand.knows_disk_reads() {
            "costs the CPU time above beside that"
        } else {
            "costs no more CPU time than one that memory answers, for no run tells what it costs"
        };
        format!(
            "{:.0} % of a node's memory hold the records that are asked for most, packed without gaps; a read of another \
             {reads}, and {cpu}.",
            CACHE_SHARE * 100.0
        )
    }
}

/// The share of a store's reads that its memory does not answer, where its memory and its data are known.
fn misses(shape: &Shape, disk_bytes_per_node: Option<f64>) -> Option<f64> {
    let (memory, on_disk) = (shape.memory_bytes?, disk_bytes_per_node?);
    let held = memory * CACHE_SHARE / on_disk;
    Some(shape.requests.map_or(0.0, |requests| miss_share(requests, held, shape.records)))
}

/// Operations a second that the network carries: a read leaves one node once, a scan each of its rows; a write comes in
/// and goes to the others.
fn network(shape: &Shape, options: &ModelOptions) -> f64 {
    let (reads, writes) = (shape.shares[READ] + shape.shares[ROW], shape.shares[UPDATE] + shape.shares[INSERT]);
    let out = reads + writes * (shape.copies - 1.0);
    let into = writes * shape.copies;
    shape.nodes * options.network_gbit * 1e9 / 8.0 * NETWORK_SHARE / (shape.record_bytes * out.max(into))
}
