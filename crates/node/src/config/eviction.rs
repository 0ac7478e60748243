//! The eviction policies of Redis.

use vocab::EVICTION_POLICIES;

/// Among which keys a policy chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// All.
    All,
    /// Those that expire.
    Volatile,
}

/// Which of them go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Those that have not been used for the longest time.
    LeastRecentlyUsed,
    /// Those that are used least often.
    LeastFrequentlyUsed,
    /// Any.
    Chance,
    /// Those that expire soonest.
    TimeToLive,
}

/// `maxmemory-policy`, except `noeviction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionPolicy {
    /// Among which keys it chooses.
    pub among: Among,
    /// Which of them go first.
    pub by: By,
}

impl EvictionPolicy {
    /// The names of `maxmemory-policy`, in the order in which Redis tells them; the last one evicts nothing.
    pub const NAMES: [&'static str; 8] = EVICTION_POLICIES;

    /// The policy of that place among the names; `None` evicts nothing.
    #[must_use]
    pub fn of_name(at: usize) -> Option<Self> {
        let name = Self::NAMES.get(at)?;
        let (among, by) = name.split_once('-')?;
        let among = if among == "volatile" { Among::Volatile } else { Among::All };
        let by = match by {
            "lru" => By::LeastRecentlyUsed,
            "lfu" => By::LeastFrequentlyUsed,
            "random" => By::Chance,
            _ => By::TimeToLive,
        };
        Some(Self { among, by })
    }

    /// Whether it goes by how often keys are used.
    #[must_use]
    pub fn goes_by_frequency(self) -> bool {
        self.by == By::LeastFrequentlyUsed
    }

    /// Whether it goes by the use of keys.
    #[must_use]
    pub fn asks_for_usage(self) -> bool {
        matches!(self.by, By::LeastRecentlyUsed | By::LeastFrequentlyUsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_policy_but_the_last() {
        let of = |name: &str| {
            EvictionPolicy::of_name(EvictionPolicy::NAMES.iter().position(|own| *own == name).unwrap_or(99))
        };
        let policy = |among, by| Some(EvictionPolicy { among, by });
        assert_eq!(of("volatile-lru"), policy(Among::Volatile, By::LeastRecentlyUsed));
        assert_eq!(of("volatile-lfu"), policy(Among::Volatile, By::LeastFrequentlyUsed));
        assert_eq!(of("volatile-random"), policy(Among::Volatile, By::Chance));
        assert_eq!(of("volatile-ttl"), policy(Among::Volatile, By::TimeToLive));
        assert_eq!(of("allkeys-lru"), policy(Among::All, By::LeastRecentlyUsed));
        assert_eq!(of("allkeys-lfu"), policy(Among::All, By::LeastFrequentlyUsed));
        assert_eq!(of("allkeys-random"), policy(Among::All, By::Chance));
        assert_eq!((of("noeviction"), of("other")), (None, None));
    }
}
