//! What one operation of each kind costs the store, in CPU time.

use serde::Serialize;

use super::point::{DISK, INSERT, KINDS, Point, READ, ROW, SCAN, UPDATE};
use crate::statistics::{Fitted, fit, quantile};

/// CPU seconds of each kind of work, with the number of copies that was measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Demand {
    /// The kinds that the runs can tell apart.
    pub(super) kinds: Vec<KindDemand>,
    /// The number of copies of each record in the runs.
    pub(super) copies: f64,
    /// The number of points minus the number of unknowns.
    pub(super) freedom: f64,
    /// The mean relative error on the points of the fit.
    pub(super) own_error: f64,
    /// The mean relative error on each point when it is predicted from the others; none if there are too few.
    pub(super) left_out_error: Option<f64>,
    /// CPU seconds of the client for an operation, where they are known.
    pub(super) client_s: Option<f64>,
    /// Bytes on disk for each byte of a record and each copy.
    pub(super) space: Option<f64>,
    /// Bytes written to disk for each byte of a write and each copy.
    pub(super) written: Option<f64>,
    /// Reads of the device for each read that memory does not hold.
    pub(super) reads_a_miss: Option<f64>,
    /// Seconds that a device was busy for each of its reads.
    pub(super) device_s: Option<f64>,
    #[serde(skip)]
    fitted: Fitted,
}

/// One kind.
#[derive(Clone, Debug, Serialize)]
pub(super) struct KindDemand {
    /// One of [`KINDS`]; `write` where updates and inserts are not told apart, `row` for scans and their rows likewise.
    pub(super) kind: &'static str,
    /// Microseconds of one core.
    pub(super) cpu_us: f64,
    /// With 95 % confidence, where there are more points than kinds.
    pub(super) low_us: Option<f64>,
    pub(super) high_us: Option<f64>,
    /// The index in [`KINDS`].
    #[serde(skip)]
    members: Vec<usize>,
}

/// What an operation of a mix costs: CPU seconds, and bounds where there are any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) cpu_s: f64,
    pub(super) low_s: Option<f64>,
    pub(super) high_s: Option<f64>,
}

impl Demand {
    /// From all points.
    ///
    /// # Errors
    /// The points are too few to tell the kinds apart.
    pub(super) fn of(points: &[Point]) -> Result<Self, String> {
        if points.is_empty() {
            return Err(
                "no phase tells the store's CPU time: run against a store on this machine, with --out".to_owned()
            );
        }
        let copies = points[0].copies;
        if points.iter().any(|point| point.copies != copies) {
            return Err("the runs have different numbers of copies: model them apart".to_owned());
        }
        let groups = groups(points);
        let told_apart = |groups: &Vec<Vec<usize>>| rank(points, groups) == groups.len();
        let groups = groups.into_iter().find(told_apart).ok_or_else(|| {
            "the runs do not tell what a read costs and what a write costs: all have the same mix. Add one with another, \
             such as a load, workloada or workloadc"
                .to_owned()
        })?;
        let fitted = solve(points, &groups).ok_or("the costs of operations do not follow from the runs")?;
        let left_out: Option<Vec<f64>> = (0..points.len())
            .map(|out| {
                let others: Vec<Point> = points
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| *index != out)
                    .map(|(_, point)| point.clone())
                    .collect();
                if rank(&others, &groups) < groups.len() {
                    return None;
                }
                let fitted = solve(&others, &groups)?;
                Some((predicted(&points[out], &groups, &fitted.parameters) / points[out].store_cpu_s - 1.0).abs())
            })
            .collect();
        let own: Vec<f64> = points
            .iter()
            .map(|point| (predicted(point, &groups, &fitted.parameters) / point.store_cpu_s - 1.0).abs())
            .collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let sum = |of: &dyn Fn(&Point) -> Option<(f64, f64)>| {
            let known: Vec<(f64, f64)> = points.iter().filter_map(of).collect();
            let (cost, count) = known.iter().fold((0.0, 0.0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
            (count > 0.0).then(|| cost / count)
        };
        Ok(Self {
            kinds: kinds(&groups, &fitted),
            copies,
            freedom: fitted.freedom,
            own_error: mean(&own),
            left_out_error: left_out.map(|errors| mean(&errors)),
            client_s: sum(&|point| {
                Some((point.client_cpu_s?, point.operations())).filter(|_| point.counts[SCAN] == 0.0)
            }),
            space: median(points.iter().filter_map(|point| point.space).collect()),
            written: median(points.iter().filter_map(|point| point.written).collect()),
            reads_a_miss: median(points.iter().filter_map(|point| point.reads_a_miss).collect()),
            device_s: median(points.iter().filter_map(|point| point.device_s).collect()),
            fitted,
        })
    }

    /// Whether the CPU time of a read of the device is known.
    pub(super) fn knows_disk_reads(&self) -> bool {
        self.place(DISK).is_some()
    }

    fn place(&self, kind: usize) -> Option<usize> {
        self.kinds.iter().position(|known| known.members.contains(&kind))
    }

    /// What one operation costs in a mix of `shares` of [`KINDS`], with so many copies. A write is done once on each
    /// copy, so it costs in proportion to them. What a read of the device costs is left out where it is not known.
    pub(super) fn cost(&self, shares: [f64; KINDS.len()], copies: f64) -> Result<Cost, String> {
        let mut weights = vec![0.0; self.kinds.len()];
        for (kind, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            let is_write = [UPDATE, INSERT].contains(&kind);
            // An insert that was never measured is taken for an update, and the other way round.
            let other = || is_write.then(|| self.place(UPDATE).or(self.place(INSERT))).flatten();
            let Some(place) = self.place(kind).or_else(other) else {
                if kind == DISK {
                    continue;
                }
                return Err(format!("no run has {}s: their cost is not known", KINDS[kind]));
            };
            weights[place] += share * if is_write { copies / self.copies } else { 1.0 };
        }
        let cpu_s: f64 = weights.iter().zip(&self.fitted.parameters).map(|(weight, cost)| weight * cost).sum();
        let row = |row: usize| -> f64 {
            weights.iter().zip(&self.fitted.covariance[row]).map(|(weight, value)| weight * value).sum()
        };
        let variance: f64 = (0..weights.len()).map(|index| weights[index] * row(index)).sum();
        let reach = (self.freedom > 0.0 && variance.is_finite())
            .then(|| quantile(0.95, self.freedom) * variance.max(0.0).sqrt());
        Ok(Cost { cpu_s, low_s: reach.map(|reach| (cpu_s - reach).max(0.0)), high_s: reach.map(|reach| cpu_s + reach) })
    }
}

/// The ways to tell kinds apart, the finest first. A scan is one with its rows where all scans were of one length; what
/// a read of the device costs is left out at last.
fn groups(points: &[Point]) -> Vec<Vec<Vec<usize>>> {
    let present = |kinds: &[usize]| -> Vec<usize> {
        kinds.iter().copied().filter(|&kind| points.iter().any(|point| point.counts[kind] > 0.0)).collect()
    };
    let apart = |kinds: &[usize]| -> Vec<Vec<usize>> { present(kinds).into_iter().map(|kind| vec![kind]).collect() };
    let joined = |kinds: &[usize]| -> Vec<Vec<usize>> {
        Some(present(kinds)).into_iter().filter(|kinds| !kinds.is_empty()).collect()
    };
    let mut ways = Vec::new();
    for disk in [apart(&[DISK]), Vec::new()] {
        for scans in [apart(&[SCAN, ROW]), joined(&[SCAN, ROW])] {
            for writes in [apart(&[UPDATE, INSERT]), joined(&[UPDATE, INSERT])] {
                ways.push([apart(&[READ]), writes, scans.clone(), disk.clone()].concat());
            }
        }
    }
    ways
}

fn row(point: &Point, groups: &[Vec<usize>]) -> Vec<f64> {
    groups.iter().map(|members| members.iter().map(|kind| point.counts[*kind]).sum()).collect()
}

/// How many of the groups' costs the points can tell apart: mixes that differ by less than a hundredth are one.
fn rank(points: &[Point], groups: &[Vec<usize>]) -> usize {
    const APART: f64 = 0.01;
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for point in points {
        let mut shares = row(point, groups);
        let sum: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= sum);
        for known in &basis {
            let along: f64 = shares.iter().zip(known).map(|(a, b)| a * b).sum();
            shares.iter_mut().zip(known).for_each(|(share, known)| *share -= along * known);
        }
        let length = shares.iter().map(|share| share * share).sum::<f64>().sqrt();
        if length > APART {
            basis.push(shares.iter().map(|share| share / length).collect());
        }
    }
    basis.len()
}

fn predicted(point: &Point, groups: &[Vec<usize>], costs: &[f64]) -> f64 {
    row(point, groups).iter().zip(costs).map(|(count, cost)| count * cost).sum()
}

fn solve(points: &[Point], groups: &[Vec<usize>]) -> Option<Fitted> {
    let mean = points.iter().map(|point| point.store_cpu_s / point.operations()).sum::<f64>() / points.len() as f64;
    // Relative errors: a long run is not worth more than a short one. Costs are fitted as multiples of their mean.
    let residuals = |costs: &[f64]| -> Vec<f64> {
        let costs: Vec<f64> = costs.iter().map(|cost| cost * mean).collect();
        points.iter().map(|point| predicted(point, groups, &costs) / point.store_cpu_s - 1.0).collect()
    };
    let mut fitted = fit(&vec![1.0; groups.len()], &vec![0.0; groups.len()], &residuals)?;
    fitted.parameters.iter_mut().chain(&mut fitted.errors).for_each(|value| *value *= mean);
    fitted.covariance.iter_mut().flatten().for_each(|value| *value *= mean * mean);
    Some(fitted)
}

fn kinds(groups: &[Vec<usize>], fitted: &Fitted) -> Vec<KindDemand> {
    let reach =
        |error: f64| (fitted.freedom > 0.0 && error.is_finite()).then(|| quantile(0.95, fitted.freedom) * error);
    let each = groups.iter().zip(fitted.parameters.iter().zip(&fitted.errors));
    each.map(|(members, (&cost, &error))| KindDemand {
        kind: match members[..] {
            [only] => KINDS[only],
            [SCAN, ROW] => KINDS[ROW],
            _ => "write",
        },
        cpu_us: cost * 1e6,
        low_us: reach(error).map(|reach| (cost - reach).max(0.0) * 1e6),
        high_us: reach(error).map(|reach| (cost + reach) * 1e6),
        members: members.clone(),
    })
    .collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
