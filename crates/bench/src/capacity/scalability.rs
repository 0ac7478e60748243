//! The universal scalability law: X(N) = λN / (1 + σ(N − 1) + κN(N − 1)). σ is the share that waits for its turn, κ what
//! it costs that everybody must agree with everybody.

use serde::Serialize;

use super::point::Point;
use crate::statistics::{fit, quantile};

/// Three unknowns, and one point to see an error by.
pub(super) const POINTS_MIN: usize = 4;

/// A fitted law.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Scalability {
    /// What N counts.
    pub(super) axis: &'static str,
    /// The workload.
    pub(super) like: String,
    /// N and operations a second, as measured.
    pub(super) points: Vec<(f64, f64)>,
    /// Operations a second of one alone.
    pub(super) lambda: Bounded,
    pub(super) sigma: Bounded,
    pub(super) kappa: Bounded,
    /// Where throughput is highest, and how high; none when it only grows.
    pub(super) peak: Option<(f64, f64)>,
    /// The mean error on the points, as a share.
    pub(super) error: f64,
}

/// A parameter with 95 % confidence.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Bounded {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Scalability {
    /// Fits points of N and throughput.
    ///
    /// # Errors
    /// They are at too few different N.
    pub(super) fn fit(axis: &'static str, like: &str, points: &[(f64, f64)]) -> Result<Self, String> {
        let mut sizes: Vec<f64> = points.iter().map(|point| point.0).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        if sizes.len() < POINTS_MIN {
            let shown: Vec<String> = sizes.iter().map(f64::to_string).collect();
            return Err(format!(
                "throughput is known at {} different numbers of {axis} ({}); the law needs {POINTS_MIN} at least",
                sizes.len(),
                if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
            ));
        }
        let slope = points.iter().map(|(n, x)| x / n).fold(0.0, f64::max);
        // σ and κ are small, λ is not: it is fitted as a multiple of its first guess.
        let residuals = |p: &[f64]| -> Vec<f64> {
            points.iter().map(|(n, x)| law([p[0] * slope, p[1], p[2]], *n) / x - 1.0).collect()
        };
        let best = [[1.0, 0.01, 1e-4], [1.0, 0.2, 1e-3], [1.5, 0.5, 0.0]]
            .iter()
            .filter_map(|start| fit(start, &[1e-9, 0.0, 0.0], &residuals))
            .min_by(|a, b| a.left.total_cmp(&b.left))
            .ok_or("the law cannot be fitted")?;
        let t = if best.freedom > 0.0 { quantile(0.95, best.freedom) } else { f64::INFINITY };
        let bounded = |index: usize, scale: f64| {
            let (value, reach) = (best.parameters[index] * scale, t * best.errors[index] * scale);
            Bounded { value, low: (value - reach).max(0.0), high: value + reach }
        };
        let (lambda, sigma, kappa) = (bounded(0, slope), bounded(1, 1.0), bounded(2, 1.0));
        let parameters = [lambda.value, sigma.value, kappa.value];
        let at = ((1.0 - sigma.value).max(0.0) / kappa.value).sqrt();
        let peak =
            (at.is_finite() && at >= 1.0 && at < sizes[sizes.len() - 1] * 100.0).then(|| (at, law(parameters, at)));
        let errors = residuals(&best.parameters);
        Ok(Self {
            axis,
            like: like.to_owned(),
            points: points.to_vec(),
            lambda,
            sigma,
            kappa,
            peak,
            error: errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64,
        })
    }

    /// What `n` give, as a share of `n` times what one gives.
    pub(super) fn efficiency(&self, n: f64) -> f64 {
        law([1.0, self.sigma.value, self.kappa.value], n) / n
    }
}

fn law([lambda, sigma, kappa]: [f64; 3], n: f64) -> f64 {
    lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0))
}

/// The law over `axis`, from the workload with the most points.
pub(super) fn of(axis: &'static str, points: &[Point]) -> Result<Scalability, String> {
    let by_nodes = axis == "nodes";
    let size = |point: &Point| if by_nodes { point.nodes } else { point.concurrency };
    // What is held still while the other moves; of nodes the best throughput at any concurrency counts.
    let key = |point: &Point| {
        let still = if by_nodes { String::new() } else { format!(" · {} nodes", point.nodes) };
        format!("{}{still}", point.like)
    };
    // Throughput that was given says nothing of what there is.
    let free: Vec<&Point> = points.iter().filter(|point| !point.paced).collect();
    let (mut most, mut best) = (0, (String::new(), Vec::new()));
    for point in &free {
        let like = key(point);
        let alike: Vec<(f64, f64)> =
            free.iter().filter(|other| key(other) == like).map(|other| (size(other), other.throughput_per_s)).collect();
        let alike = if by_nodes { highest(alike) } else { alike };
        let mut sizes: Vec<u64> = alike.iter().map(|point| point.0 as u64).collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.len() > most {
            (most, best) = (sizes.len(), (like, alike));
        }
    }
    Scalability::fit(axis, &best.0, &best.1)
}

/// The highest throughput at each size.
fn highest(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let mut list: Vec<(f64, f64)> = Vec::new();
    for (n, x) in points {
        match list.iter_mut().find(|known| known.0 == n) {
            Some(known) => known.1 = known.1.max(x),
            None => list.push((n, x)),
        }
    }
    list
}
