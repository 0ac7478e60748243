//! What a command found, from which `basalt ctl` makes its exit code.

/// What a command found, from which the exit code follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Done, and nothing is wrong.
    Good,
    /// Something is wrong.
    Bad,
    /// It could not be found out, or not in time.
    Unknown,
}

impl Verdict {
    /// Good or bad.
    pub(super) fn of(good: bool) -> Self {
        if good { Self::Good } else { Self::Bad }
    }
}
