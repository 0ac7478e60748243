//! Damage that was found on a replica's disk: the replica is to be rebuilt from the others, and should not lead.

use std::sync::OnceLock;
use vocab::ShardId;

/// The first damage that a read or background work met.
#[derive(Debug, Default)]
pub struct Damage(OnceLock<String>);

impl Damage {
    /// Notes what a read of that shard, or background work on it, has failed with, if that is damage.
    pub fn note(&self, shard: ShardId, error: &storage::Error) {
        if matches!(error, storage::Error::Corrupt { .. }) && self.0.set(error.to_string()).is_ok() {
            log::error!(
                "shard {shard}: {error}; the replica here is damaged: it is made anew from the others by itself (setting auto-rebuild), or by `ctl plan apply rebuild`"
            );
        }
    }

    /// Whether there was any.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.0.get().is_some()
    }

    /// What it was.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::Damage;
    use storage::Error;
    use vocab::ShardId;

    #[test]
    fn the_first_damage_is_kept_and_nothing_else_counts() {
        let damage = Damage::default();
        let corrupt = |detail: &str| Error::Corrupt { path: "shards/3/7".into(), detail: detail.to_owned() };
        damage.note(ShardId(3), &Error::Full { path: "shards/3/7".into() });
        assert!(!damage.is_known());
        damage.note(ShardId(3), &corrupt("checksum mismatch"));
        damage.note(ShardId(3), &corrupt("another"));
        assert_eq!(damage.detail(), Some("corrupt data in shards/3/7: checksum mismatch"));
    }
}
