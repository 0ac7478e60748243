//! Least squares: parameters of a law that is not linear in them, and how sure they are.

/// More parameters than this no law here has.
const PARAMETERS_MAX: usize = 8;
const ROUNDS_MAX: usize = 500;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fitted {
    /// The parameters.
    pub(crate) parameters: Vec<f64>,
    /// Their standard errors; infinite where the points do not tell them.
    pub(crate) errors: Vec<f64>,
    /// Covariances, row by row.
    pub(crate) covariance: Vec<Vec<f64>>,
    /// Points beyond parameters.
    pub(crate) freedom: f64,
    /// The sum of squares that is left.
    pub(crate) left: f64,
}

/// Fits `residuals(parameters)`, one for each point, from `start` on, by damped Gauss-Newton steps (Levenberg and
/// Marquardt). Parameters stay within `low`. None when there are fewer points than parameters.
#[must_use]
pub(crate) fn fit(start: &[f64], low: &[f64], residuals: &dyn Fn(&[f64]) -> Vec<f64>) -> Option<Fitted> {
    assert!(start.len() <= PARAMETERS_MAX && low.len() == start.len(), "a bound for each of a few parameters");
    let clamp = |parameters: Vec<f64>| -> Vec<f64> { parameters.iter().zip(low).map(|(p, low)| p.max(*low)).collect() };
    let mut parameters = clamp(start.to_vec());
    let mut here = residuals(&parameters);
    if here.len() < parameters.len() {
        return None;
    }
    let mut left = squares(&here);
    let mut damping = 1e-3;
    for _ in 0..ROUNDS_MAX {
        let slopes = slopes(&parameters, &here, residuals);
        let (matrix, side) = normal_equations(&slopes, &here);
        let mut damped = matrix.clone();
        for (index, row) in damped.iter_mut().enumerate() {
            row[index] += damping * matrix[index][index].max(1e-30);
        }
        let Some(step) = solve(damped, side) else { break };
        let next = clamp(parameters.iter().zip(&step).map(|(p, step)| p - step).collect());
        let there = residuals(&next);
        let sum = squares(&there);
        if sum.is_finite() && sum <= left {
            let gained = left - sum;
            (parameters, here, left) = (next, there, sum);
            damping = (damping / 5.0).max(1e-12);
            if gained <= left * 1e-14 {
                break;
            }
        } else {
            damping *= 10.0;
            if damping > 1e16 {
                break;
            }
        }
    }
    Some(conclude(parameters, &here, left, residuals))
}

fn conclude(parameters: Vec<f64>, here: &[f64], left: f64, residuals: &dyn Fn(&[f64]) -> Vec<f64>) -> Fitted {
    let freedom = (here.len() - parameters.len()) as f64;
    let (matrix, _) = normal_equations(&slopes(&parameters, here, residuals), here);
    let scatter = if freedom > 0.0 { left / freedom } else { f64::INFINITY };
    let size = parameters.len();
    let column = |index: usize| {
        let unit = (0..size).map(|row| f64::from(u8::from(row == index))).collect();
        solve(matrix.clone(), unit).unwrap_or_else(|| vec![f64::INFINITY; size])
    };
    let covariance: Vec<Vec<f64>> =
        (0..size).map(|index| column(index).into_iter().map(|value| value * scatter).collect()).collect();
    let errors = covariance.iter().enumerate().map(|(index, row)| row[index].max(0.0).sqrt()).collect();
    Fitted { parameters, errors, covariance, freedom, left }
}

fn squares(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}

/// How each residual changes with each parameter.
fn slopes(parameters: &[f64], here: &[f64], residuals: &dyn Fn(&[f64]) -> Vec<f64>) -> Vec<Vec<f64>> {
    let of = |index: usize| {
        let mut moved = parameters.to_vec();
        let step = (moved[index].abs() * 1e-6).max(1e-9);
        moved[index] += step;
        residuals(&moved).iter().zip(here).map(|(there, here)| (there - here) / step).collect()
    };
    (0..parameters.len()).map(of).collect()
}

fn normal_equations(slopes: &[Vec<f64>], here: &[f64]) -> (Vec<Vec<f64>>, Vec<f64>) {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let matrix = slopes.iter().map(|a| slopes.iter().map(|b| dot(a, b)).collect()).collect();
    (matrix, slopes.iter().map(|slope| dot(slope, here)).collect())
}

/// Solves a small system by elimination with pivots, its rows and columns scaled to one size; none if it is singular.
fn solve(mut matrix: Vec<Vec<f64>>, mut side: Vec<f64>) -> Option<Vec<f64>> {
    let size = side.len();
    let scale: Vec<f64> = (0..size).map(|index| matrix[index][index].abs().sqrt().max(1e-150)).collect();
    for row in 0..size {
        for column in 0..size {
            matrix[row][column] /= scale[row] * scale[column];
        }
        side[row] /= scale[row];
    }
    for column in 0..size {
        let pivot = (column..size).max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        if !matrix[pivot][column].is_finite() || matrix[pivot][column].abs() < 1e-13 {
            return None;
        }
        matrix.swap(column, pivot);
        side.swap(column, pivot);
        for row in column + 1..size {
            let factor = matrix[row][column] / matrix[column][column];
            let pivot = matrix[column].clone();
            matrix[row].iter_mut().zip(&pivot).skip(column).for_each(|(value, above)| *value -= factor * above);
            side[row] -= factor * side[column];
        }
    }
    let mut result = vec![0.0; size];
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|column| matrix[row][column] * result[column]).sum();
        result[row] = (side[row] - known) / matrix[row][row];
    }
    Some(result.iter().zip(&scale).map(|(value, scale)| value / scale).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_line_as_a_table_of_statistics_has_it() {
        // y = 1.5 + 2x with residuals +1, -1, -1, +1 at x = 0, 1, 2, 3.
        let points = [(0.0, 2.5), (1.0, 2.5), (2.0, 4.5), (3.0, 8.5)];
        let residuals = |p: &[f64]| -> Vec<f64> { points.iter().map(|(x, y)| p[0] + p[1] * x - y).collect() };
        let low = [f64::NEG_INFINITY; 2];
        let found = fit(&[0.0, 0.0], &low, &residuals).unwrap();
        assert!((found.parameters[0] - 1.5).abs() < 1e-6 && (found.parameters[1] - 2.0).abs() < 1e-6, "{found:?}");
        // s² = 4 / 2; var(slope) = s² / Σ(x - x̄)² = 2 / 5.
        assert!((found.errors[1] - 0.4f64.sqrt()).abs() < 1e-5 && found.freedom == 2.0, "{found:?}");
        let bounded = fit(&[0.0, 0.0], &[f64::NEG_INFINITY, 2.5], &residuals).unwrap();
        assert!((bounded.parameters[1] - 2.5).abs() < 1e-9, "{bounded:?}");
        assert_eq!(fit(&[0.0; 2], &low, &|_| vec![1.0]), None, "one point, two parameters");
    }

    #[test]
    fn a_curve_is_found_from_afar() {
        let xs = [1.0, 2.0, 4.0, 8.0, 16.0];
        let of = |p: &[f64], x: f64| p[0] * (1.0 - (-p[1] * x).exp());
        let residuals = |p: &[f64]| -> Vec<f64> { xs.iter().map(|x| of(p, *x) - of(&[1e5, 0.2], *x)).collect() };
        let found = fit(&[1e3, 0.01], &[0.0; 2], &residuals).unwrap();
        assert!((found.parameters[0] / 1e5 - 1.0).abs() < 1e-4, "{found:?}");
        assert!((found.parameters[1] / 0.2 - 1.0).abs() < 1e-4, "{found:?}");
    }
}
