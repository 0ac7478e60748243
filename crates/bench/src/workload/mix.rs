//! Which operation comes next.

/// What one operation does, in YCSB's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpKind {
    /// Read one record.
    Read,
    /// Write fields of an existing record.
    Update,
    /// Write a new record.
    Insert,
    /// Read records from a key on, in order.
    Scan,
    /// Read a record, then write fields of it.
    ReadModifyWrite,
    /// Remove a record.
    Delete,
}

impl OpKind {
    /// Every kind.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Update, Self::Insert, Self::Scan, Self::ReadModifyWrite, Self::Delete];

    /// As YCSB prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "READ",
            Self::Update => "UPDATE",
            Self::Insert => "INSERT",
            Self::Scan => "SCAN",
            Self::ReadModifyWrite => "READ-MODIFY-WRITE",
            Self::Delete => "DELETE",
        }
    }
}

/// Weighted kinds.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Kinds of a weight above 0, in YCSB's order.
    weights: Vec<(OpKind, f64)>,
    sum: f64,
}

impl Mix {
    /// A mix of `weights`, which need not sum to 1; none when all are 0 or one is not a weight.
    #[must_use]
    pub fn new(weights: &[(OpKind, f64)]) -> Option<Self> {
        if weights.iter().any(|&(_, weight)| !weight.is_finite() || weight < 0.0) {
            return None;
        }
        let weights: Vec<_> = weights.iter().copied().filter(|&(_, weight)| weight > 0.0).collect();
        let sum = weights.iter().map(|&(_, weight)| weight).sum();
        (!weights.is_empty()).then_some(Self { weights, sum })
    }

    /// Only one kind.
    #[must_use]
    pub fn only(kind: OpKind) -> Self {
        Self { weights: vec![(kind, 1.0)], sum: 1.0 }
    }

    /// The kind that a uniform `u` in [0, 1) stands for.
    #[must_use]
    pub fn at(&self, u: f64) -> OpKind {
        let mut rest = u;
        for &(kind, weight) in &self.weights {
            let share = weight / self.sum;
            if rest < share {
                return kind;
            }
            rest -= share;
        }
        // Rounding may leave a crumb after the last share.
        self.weights[self.weights.len() - 1].0
    }

    /// The share of `kind`.
    #[must_use]
    pub fn share(&self, kind: OpKind) -> f64 {
        self.weights.iter().filter(|&&(other, _)| other == kind).map(|&(_, weight)| weight / self.sum).sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn weights_are_normalised_in_order() {
        let mix = Mix::new(&[(OpKind::Read, 1.0), (OpKind::Update, 0.0), (OpKind::Scan, 2.0), (OpKind::Insert, 1.0)]);
        let mix = mix.unwrap();
        for (u, kind) in [
            (0.0, OpKind::Read),
            (0.2499, OpKind::Read),
            (0.25, OpKind::Scan),
            (0.7499, OpKind::Scan),
            (0.75, OpKind::Insert),
            (0.999_999_999, OpKind::Insert),
        ] {
            assert_eq!(mix.at(u), kind, "{u}");
        }
        assert_eq!(mix.share(OpKind::Scan), 0.5);
        assert_eq!(Mix::new(&[(OpKind::Read, 0.0)]), None);
        assert_eq!(Mix::new(&[(OpKind::Read, 1.0), (OpKind::Scan, -1.0)]), None);
    }
}
