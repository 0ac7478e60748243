//! INFO: sections of figures, in the format of Redis, with Basalt's own at the end.

mod commands;
mod data;
mod process;
mod section;

use crate::session::{Host, Keyspace, MemoryFigures};
use section::{Facts, Lines};

/// Whether INFO shows a section without being asked for it.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    Always,
    OnDemand,
}

type Writer = fn(&Facts<'_>, &mut Lines);

const SECTIONS: &[(&str, Shown, Writer)] = &[
    ("Server", Shown::Always, process::server),
    ("Clients", Shown::Always, process::clients),
    ("Memory", Shown::Always, process::memory),
    ("Persistence", Shown::Always, data::persistence),
    ("Stats", Shown::Always, process::stats),
    ("Replication", Shown::Always, data::replication),
    ("CPU", Shown::Always, process::cpu),
    ("Commandstats", Shown::OnDemand, commands::commandstats),
    ("Errorstats", Shown::Always, commands::errorstats),
    ("Latencystats", Shown::OnDemand, commands::latencystats),
    ("Cluster", Shown::Always, data::cluster),
    ("Keyspace", Shown::Always, data::keyspace),
    ("Basalt", Shown::Always, data::basalt),
];

/// The text of INFO with these sections for a client of that keyspace; without any, the usual ones.
#[must_use]
pub fn info(host: &dyn Host, sections: &[&str], keyspace: Keyspace) -> String {
    host.stats().tick(host.now_us() / 1000);
    let facts = Facts {
        host,
        keyspace,
        node: host.node_facts(),
        shards: host.shard_facts(),
        cluster: host.cluster_facts(),
        memory: MemoryFigures::of(host),
    };
    let asked = |word: &str| sections.iter().any(|section| section.eq_ignore_ascii_case(word));
    let all = asked("all") || asked("everything");
    let usual = sections.is_empty() || asked("default");
    let texts: Vec<String> = SECTIONS
        .iter()
        .filter(|(name, shown, _)| all || (usual && *shown == Shown::Always) || asked(name))
        .map(|(name, _, write)| {
            let mut lines = Lines::new(name);
            write(&facts, &mut lines);
            lines.into_text()
        })
        .collect();
    texts.join("\r\n")
}
