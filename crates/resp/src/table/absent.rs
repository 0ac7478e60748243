//! Commands that Redis 7.2 has, and the table has not: rules of users that were written for Redis name them.

/// In lower case and in order, subcommands by their full names.
const ABSENT: [&str; 22] = [
    "bgrewriteaof",
    "bgsave",
    "cluster|addslots",
    "cluster|addslotsrange",
    "cluster|bumpepoch",
    "cluster|delslots",
    "cluster|delslotsrange",
    "cluster|failover",
    "cluster|flushslots",
    "cluster|forget",
    "cluster|meet",
    "cluster|replicate",
    "cluster|reset",
    "cluster|saveconfig",
    "cluster|set-config-epoch",
    "cluster|setslot",
    "failover",
    "lastsave",
    "module|load",
    "module|loadex",
    "module|unload",
    "save",
];

/// Whether Redis has a command of that full name, in lower case, and this table has none.
#[must_use]
pub fn is_absent(name: &str) -> bool {
    ABSENT.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::lookup_full;

    #[test]
    fn what_is_absent_is_in_order_and_not_in_the_table() {
        assert!(ABSENT.is_sorted());
        for name in ABSENT {
            assert!(lookup_full(name.as_bytes()).is_none() && is_absent(name), "{name}");
        }
        assert!(!is_absent("get") && !is_absent("save|x"));
    }
}
