//! Every system that `--target` can name: what stands before `://`, and how the system is reached.

/// How a system is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A server that answers without a store.
    Noop,
    /// The Redis Cluster protocol, by the laboratory's own client.
    Redis,
    /// An adapter in Go.
    Go,
    /// An adapter in Java, built with this driver of CQL.
    Java {
        /// A profile of the adapter's build.
        driver: &'static str,
    },
}

/// One system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetRow {
    /// Before `://`.
    pub scheme: &'static str,
    /// How it is reached.
    pub reach: Reach,
}

const fn row(scheme: &'static str, reach: Reach) -> TargetRow {
    TargetRow { scheme, reach }
}

/// The driver of adapters to which CQL does not matter.
const APACHE: Reach = Reach::Java { driver: "apache" };

/// All systems over a network. An embedded store is named by the word `embedded`.
pub const TARGETS: &[TargetRow] = &[
    row("redis", Reach::Redis),
    row("rediss", Reach::Redis),
    row("valkey", Reach::Redis),
    row("noop", Reach::Noop),
    row("etcd", Reach::Go),
    row("cassandra", APACHE),
    row("scylla", Reach::Java { driver: "scylla" }),
    row("ycql", Reach::Java { driver: "yugabyte" }),
    row("oracle-nosql", APACHE),
    row("voltdb", APACHE),
    row("voldemort", APACHE),
    row("noop+go", Reach::Go),
    row("noop+java", APACHE),
];

impl TargetRow {
    /// The system that `url` names; none if its scheme is none of these.
    #[must_use]
    pub fn of(url: &str) -> Option<Self> {
        let scheme = url.split_once("://")?.0;
        TARGETS.iter().find(|row| row.scheme == scheme).copied()
    }

    /// Whether it is reached through an adapter.
    #[must_use]
    pub fn has_adapter(&self) -> bool {
        matches!(self.reach, Reach::Go | Reach::Java { .. })
    }
}

/// What `--target` says of itself.
#[must_use]
pub fn target_help() -> String {
    let others: Vec<&str> = TARGETS.iter().filter(|row| row.has_adapter()).map(|row| row.scheme).collect();
    format!(
        "The system under test: embedded, redis://[USER:PASSWORD@]HOST:PORT[,HOST:PORT…] (rediss:// with TLS), noop:// (started here), \
         noop://HOST:PORT, or another system by the same pattern: valkey, {} (docs/PEERS.md)",
        others.join(", ")
    )
}

/// What is said of a target that is none of them.
#[must_use]
pub fn targets_expected() -> String {
    let schemes: Vec<String> = TARGETS.iter().map(|row| format!("{}://", row.scheme)).collect();
    format!("expected embedded, {}", schemes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_known_by_their_schemes() {
        for (url, scheme) in [("redis://a:1", Some("redis")), ("noop+go://", Some("noop+go")), ("mongodb://a", None)] {
            assert_eq!(TargetRow::of(url).map(|row| row.scheme), scheme, "{url}");
        }
        assert_eq!(TargetRow::of("127.0.0.1:7000"), None);
        assert!(TARGETS.iter().all(|row| target_help().contains(row.scheme)));
    }
}
