//! Which clients are closed because they do not take their replies.

use node::config::OutputLimit;
use vocab::Millis;
use vocab::limits::STREAM_IDLE_S_MAX;

/// Why a client is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slow {
    /// It was owed more than the hard limit.
    Hard,
    /// It was owed more than the soft limit for the time that this allows.
    Soft,
    /// It has taken nothing of a long reply, which keeps old rows alive, for that time.
    Idle,
    /// Its long reply reads a closed replica whose place another one has waited for.
    Replaced,
}

/// What a connection owes at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owed {
    pub(super) bytes: usize,
    /// A long reply waits until its client takes more.
    pub(super) has_long_reply: bool,
    /// Bytes that the client has taken since it was connected.
    pub(super) taken: u64,
}

/// How long a client has been slow.
#[derive(Debug, Default)]
pub(super) struct OutputWatch {
    /// Since when more than the soft limit is owed.
    over_since_ms: Option<Millis>,
    /// Since when a long reply has waited, and what the client had taken then.
    idle_since: Option<(Millis, u64)>,
}

impl OutputWatch {
    /// Looks at a client, several times a second; the answer says whether it is to be closed.
    pub(super) fn look(&mut self, owed: Owed, limit: OutputLimit, now_ms: Millis) -> Option<Slow> {
        if limit.hard_bytes > 0 && owed.bytes as u64 > limit.hard_bytes {
            return Some(Slow::Hard);
        }
        let is_over = limit.soft_bytes > 0 && owed.bytes as u64 > limit.soft_bytes;
        let over_since_ms = *self.over_since_ms.get_or_insert(now_ms);
        if !is_over {
            self.over_since_ms = None;
        } else if now_ms.saturating_sub(over_since_ms) > limit.soft_s * 1000 {
            return Some(Slow::Soft);
        }
        let idle_s = if limit.soft_s > 0 { limit.soft_s } else { STREAM_IDLE_S_MAX };
        match self.idle_since {
            Some((since_ms, taken)) if owed.has_long_reply && taken == owed.taken => {
                (now_ms.saturating_sub(since_ms) > idle_s * 1000).then_some(Slow::Idle)
            }
            _ => {
                self.idle_since = owed.has_long_reply.then_some((now_ms, owed.taken));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_closed_for_what_it_does_not_take() {
        let limit = OutputLimit { hard_bytes: 100, soft_bytes: 50, soft_s: 2 };
        let none = OutputLimit { hard_bytes: 0, soft_bytes: 0, soft_s: 0 };
        let owed = |bytes| Owed { bytes, has_long_reply: false, taken: 0 };
        let long = |taken| Owed { bytes: 10, has_long_reply: true, taken };
        // What is looked at when (in ms), and whether the client is closed then.
        type Looks<'a> = &'a [(u64, Owed, Option<Slow>)];
        let cases: &[(OutputLimit, Looks<'_>)] = &[
            (limit, &[(0, owed(100), None), (1, owed(101), Some(Slow::Hard))]),
            (limit, &[(0, owed(51), None), (2000, owed(60), None), (2001, owed(51), Some(Slow::Soft))]),
            (limit, &[(0, owed(51), None), (1999, owed(50), None), (2001, owed(51), None), (4001, owed(51), None)]),
            (limit, &[(0, long(7), None), (2000, long(7), None), (2001, long(7), Some(Slow::Idle))]),
            (
                limit,
                &[(0, long(7), None), (2000, long(8), None), (4000, long(8), None), (4001, long(8), Some(Slow::Idle))],
            ),
            (limit, &[(0, long(7), None), (1000, owed(0), None), (3000, long(7), None), (5000, long(7), None)]),
            (none, &[(0, owed(1 << 40), None), (1 << 40, owed(1 << 40), None)]),
            (none, &[(0, long(7), None), (60_000, long(7), None), (60_001, long(7), Some(Slow::Idle))]),
        ];
        for (limit, looks) in cases {
            let mut watch = OutputWatch::default();
            for (now_ms, owed, expected) in *looks {
                assert_eq!(watch.look(*owed, *limit, *now_ms), *expected, "{limit:?}, {looks:?}, at {now_ms} ms");
            }
        }
    }
}
