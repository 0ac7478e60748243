//! Many questions at once: each may be answered "yes" by chance, so each must be answered more strictly.

/// Holm's correction: what each probability becomes when one wrong "yes" among all of them shall stay as rare as the
/// level that they are compared with.
#[must_use]
pub(crate) fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&a, &b| chances[a].total_cmp(&chances[b]));
    let mut corrected = vec![1.0; chances.len()];
    let mut highest = 0.0f64;
    for (rank, &index) in order.iter().enumerate() {
        highest = highest.max((chances[index] * (chances.len() - rank) as f64).min(1.0));
        corrected[index] = highest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_is_multiplied_most() {
        assert_eq!(holm(&[0.25, 0.015625, 0.0625]), [0.25, 0.046875, 0.125]);
        assert_eq!(holm(&[0.03125, 0.03125]), [0.0625, 0.0625], "never below one that is smaller");
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
