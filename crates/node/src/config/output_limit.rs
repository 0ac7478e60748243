//! How much clients may leave unread: `client-output-buffer-limit`, as Redis has it.
//!
//! ```text
//! class hard-limit soft-limit soft-seconds [class …]
//! ```
//! A class that is not named keeps what it has.

use std::borrow::Cow;
use std::fmt::Write as _;

/// What kind of client it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientClass {
    /// All others.
    Normal,
    /// Replicas that speak Redis's protocol: there are none.
    Replica,
    /// Clients that have subscribed to channels.
    Pubsub,
}

const CLASSES: usize = 3;
/// The name that is told, and another that is understood.
const NAMES: [(&str, &str); CLASSES] = [("normal", "normal"), ("slave", "replica"), ("pubsub", "pubsub")];

/// What one class of clients may leave unread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// More closes the client at once; 0: no limit.
    pub hard_bytes: u64,
    /// More for `soft_s` closes it; 0: no limit.
    pub soft_bytes: u64,
    /// In seconds.
    pub soft_s: u64,
}

/// The limits of all classes that a text names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OutputLimits([Option<OutputLimit>; CLASSES]);

impl OutputLimits {
    pub(super) fn parse(text: &str) -> Result<Self, Cow<'static, str>> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (groups, rest) = words.as_chunks::<4>();
        if groups.is_empty() || !rest.is_empty() {
            return Err("Wrong number of arguments in buffer limit configuration.".into());
        }
        let mut limits = Self::default();
        for [class, hard, soft, seconds] in groups {
            let is_named =
                |(told, other): &(&str, &str)| class.eq_ignore_ascii_case(told) || class.eq_ignore_ascii_case(other);
            let at = NAMES.iter().position(is_named);
            let at = at.ok_or("Invalid client class specified in buffer limit configuration.")?;
            let bytes = |text: &str| vocab::memory_bytes(text.as_bytes());
            let limit = || {
                let soft_s = seconds.parse::<u32>().ok()?;
                Some(OutputLimit { hard_bytes: bytes(hard)?, soft_bytes: bytes(soft)?, soft_s: u64::from(soft_s) })
            };
            limits.0[at] =
                Some(limit().ok_or("Error in hard, soft or soft_seconds setting in buffer limit configuration.")?);
        }
        Ok(limits)
    }

    /// These, and those of `before` for classes that are not named.
    pub(super) fn over(self, before: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at].or(before.0[at])))
    }

    pub(super) fn of(self, class: ClientClass) -> OutputLimit {
        self.0[class as usize].unwrap_or_default()
    }

    /// The classes that are named, with their limits in one form.
    pub(super) fn text(self) -> String {
        let mut text = String::new();
        let named = NAMES.iter().zip(self.0).filter_map(|((name, _), limit)| Some((name, limit?)));
        for (name, OutputLimit { hard_bytes, soft_bytes, soft_s }) in named {
            let space = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{space}{name} {hard_bytes} {soft_bytes} {soft_s}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn classes_that_are_not_named_keep_their_limits() {
        let before = OutputLimits::parse("normal 1mb 512kb 60 replica 0 0 0 PUBSUB 32mb 8mb 60").unwrap();
        assert_eq!(before.text(), "normal 1048576 524288 60 slave 0 0 0 pubsub 33554432 8388608 60");
        let after = OutputLimits::parse("slave 7 6 5").unwrap().over(before);
        assert_eq!(after.text(), "normal 1048576 524288 60 slave 7 6 5 pubsub 33554432 8388608 60");
        assert_eq!(after.of(ClientClass::Replica), OutputLimit { hard_bytes: 7, soft_bytes: 6, soft_s: 5 });
        for wrong in ["", "normal 0 0", "normal 0 0 0 slave", "master 0 0 0", "normal x 0 0", "normal 0 0 -1"] {
            assert!(OutputLimits::parse(wrong).is_err(), "{wrong}");
        }
    }
}
