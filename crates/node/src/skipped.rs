//! Entries that an operator has replicas go on without: `start --skip-entry SHARD:INDEX[,SHARD:INDEX…]`.

use vocab::ShardId;

/// The entries in the text of the setting; `None` if it is not a list of them.
#[must_use]
pub(crate) fn parse(text: &str) -> Option<Vec<(ShardId, u64)>> {
    let entry = |text: &str| {
        let (shard, index) = text.trim().split_once(':')?;
        Some((ShardId(shard.parse().ok()?), index.parse().ok()?))
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(entry).collect()
}

/// The indexes of those of one shard.
pub(crate) fn of_shard(text: &str, shard: ShardId) -> Vec<u64> {
    let entries = parse(text).unwrap_or_default();
    entries.into_iter().filter(|(of, _)| *of == shard).map(|(_, index)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_whole_or_refused() {
        assert_eq!(parse(""), Some(Vec::new()));
        assert_eq!(parse("3:17"), Some(vec![(ShardId(3), 17)]));
        assert_eq!(of_shard("3:17, 4:2,3:18,", ShardId(3)), [17, 18]);
        for wrong in ["3", "3:", ":4", "a:1", "3:17;4:2", "3:-1", "3:17:2"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
