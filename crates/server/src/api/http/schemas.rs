//! What the API takes and answers, as the OpenAPI document describes it.

/// An object.
pub(super) struct Schema {
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field],
    /// Fields that have to be there.
    pub(super) required: &'static [&'static str],
}

/// A field of one.
pub(super) struct Field {
    pub(super) name: &'static str,
    /// `text`, `count`, `number`, `flag`, `texts`, `range`, or a schema; `[]` for a list of these, `?` if it may be null.
    pub(super) kind: &'static str,
    pub(super) help: &'static str,
}

const fn field(name: &'static str, kind: &'static str, help: &'static str) -> Field {
    Field { name, kind, help }
}

const fn told(name: &'static str, fields: &'static [Field]) -> Schema {
    Schema { name, fields, required: &[] }
}

const fn asked(name: &'static str, required: &'static [&'static str], fields: &'static [Field]) -> Schema {
    Schema { name, fields, required }
}

/// All of them.
pub(super) const SCHEMAS: &[Schema] = &[
    asked(
        "Error",
        &["error", "code"],
        &[
            field("error", "text", "what is wrong, in words"),
            field("code", "text", "USAGE, NOTFOUND, REFUSED, CLUSTERDOWN or ERR; of HTTP itself, the status"),
        ],
    ),
    told(
        "Ready",
        &[
            field("ready", "flag", "whether the node takes part"),
            field("obstacles", "text[]", "what keeps it from that"),
        ],
    ),
    told(
        "Status",
        &[
            field("store", "text?", "the store's id; null before there is one"),
            field("epoch", "count", "the map's number"),
            field("at_ms", "count", "when this was so, in ms since 1970"),
            field("asked", "text", "the node that answered"),
            field("directed_by", "text?", "the node that leads the metadata group; null if it does not answer"),
            field("complete", "flag", "whether the figures are those of the whole store"),
            field("healthy", "flag", "whether nothing is wrong"),
            field("problems", "text[]", "what is wrong, the worst first"),
            field("replication_factor", "count", "how many replicas each shard is to have"),
            field("shards", "count", "data shards"),
            field("slots", "count", "slots"),
            field("slots_led", "count", "slots whose shards have leaders"),
            field("under_replicated", "count", "shards with fewer replicas that are up than they are to have"),
            field("without_leader", "count", "shards without a leader"),
            field("without_majority", "count", "shards whose majority is gone"),
            field("keys", "count", "keys"),
            field("bytes", "count", "bytes of rows, once"),
            field("ops_per_s", "number", "commands a second, lately"),
            field("zones", "Zone[]", "zones"),
            field("nodes", "Node[]", "nodes"),
            field("plans", "Plan[]", "plans that have not ended"),
            field("settings", "texts", "what is set for the store"),
        ],
    ),
    told(
        "Zone",
        &[
            field("name", "text", "its name; empty for nodes without one"),
            field("nodes", "count", "its nodes"),
            field("up", "count", "those that are up"),
        ],
    ),
    told(
        "Nodes",
        &[
            field("complete", "flag", "whether the figures are those of the whole store"),
            field("nodes", "Node[]", "nodes"),
        ],
    ),
    told("Node", NODE),
    told(
        "Transfer",
        &[
            field("shard", "count", "the shard"),
            field("peer", "text", "the other node"),
            field("inbound", "flag", "it comes rather than goes"),
            field("bytes", "count", "bytes that are there"),
            field("bytes_approx", "count", "about how many there will be; 0: unknown"),
            field("rate", "count", "bytes a second"),
        ],
    ),
    told(
        "Shards",
        &[
            field("complete", "flag", "whether the figures are those of the whole store"),
            field("nodes", "texts", "addresses for clients, by node"),
            field("shards", "Shard[]", "shards, the metadata group (0) first"),
        ],
    ),
    told(
        "Shard",
        &[
            field("id", "count", "its number"),
            field("slots", "range[]", "ranges of first and last slot"),
            field("leader", "text?", "the node that leads it"),
            field("term", "count", "the leader's term"),
            field("state", "text", "ok, under-replicated, no-leader or no-majority"),
            field("wanted", "count", "how many replicas it is to have"),
            field("bytes", "count", "bytes of its rows, once"),
            field("keys", "count", "its keys"),
            field("waits_for", "text[]", "without a majority: the nodes that it waits for"),
            field("plan", "count?", "the plan that changes it now"),
            field("replicas", "Replica[]", "its replicas"),
        ],
    ),
    told(
        "Replica",
        &[
            field("id", "count", "its id in its group"),
            field("node", "text", "its node"),
            field("role", "text", "leader, voter, learner, or coming"),
            field("state", "text", "ok, behind, broken, silent or unknown"),
            field("applied", "count", "its last applied entry"),
            field("lag", "count", "entries that it lacks"),
            field("bytes", "count", "bytes of its rows"),
            field("broken", "text?", "why it is of no use"),
        ],
    ),
    told(
        "Map",
        &[
            field("store", "text", "the store's id"),
            field("epoch", "count", "the map's number"),
            field("replication_factor", "count", "how many replicas each shard is to have"),
            field("settings", "texts", "what is set for the store"),
            field("nodes", "MapNode[]", "nodes"),
            field("shards", "MapShard[]", "shards"),
            field("steps", "Step[]", "replicas that come and go now"),
            field("splits", "Split[]", "shards that are being made of others"),
        ],
    ),
    told(
        "MapNode",
        &[
            field("id", "text", "its id"),
            field("client_address", "text", "where clients reach it"),
            field("peer_address", "text", "where nodes reach it"),
            field("zone", "text", "its zone"),
            field("capacity", "count", "how much it takes, against others"),
            field("leaving", "flag", "it is to hold nothing"),
        ],
    ),
    told(
        "MapShard",
        &[
            field("id", "count", "its number"),
            field("slots", "range[]", "ranges of first and last slot"),
            field("replicas", "MapReplica[]", "its replicas"),
        ],
    ),
    told(
        "MapReplica",
        &[
            field("id", "count", "its id in its group"),
            field("node", "text", "its node"),
            field("learner", "flag", "it does not vote"),
            field("member", "flag", "its group counts it"),
        ],
    ),
    told(
        "Step",
        &[
            field("shard", "count", "the shard"),
            field("plan", "count", "for which plan"),
            field("add", "count?", "the replica that comes"),
            field("remove", "count?", "the replica that goes"),
        ],
    ),
    told(
        "Split",
        &[
            field("child", "count", "the new shard"),
            field("parent", "count", "whose slots they are as yet"),
            field("plan", "count", "for which plan"),
            field("slots", "range[]", "which"),
        ],
    ),
    told("Events", &[field("events", "Event[]", "the oldest first")]),
    told(
        "Event",
        &[
            field("number", "count", "rising, from 1 on"),
            field("at_ms", "count", "when, in ms since 1970"),
            field("kind", "text", "store, node, failure, election, plan, shard or setting"),
            field("text", "text", "what happened"),
        ],
    ),
    told("Settings", &[field("settings", "Setting[]", "all settings")]),
    told(
        "Setting",
        &[
            field("name", "text", "its name"),
            field("value", "text?", "what holds; null: what each node was started with"),
            field("set", "flag", "whether it was set"),
            field("default", "text?", "what holds unless it is set; null: what each node was started with"),
            field("node_setting", "text?", "the setting of a node that it stands above"),
            field("values", "text", "which values it takes"),
            field("help", "text", "what it is for"),
            field("was", "text?", "of a change: what held before"),
        ],
    ),
    asked("SetSetting", &["value"], &[field("value", "text", "the new value")]),
    told(
        "Plans",
        &[field("nodes", "texts", "addresses for clients, by node"), field("plans", "Plan[]", "the oldest first")],
    ),
    told("Plan", PLAN),
    told(
        "BegunPlan",
        &[
            field("id", "count", "its number"),
            field("kind", "text", "its kind"),
            field("about", "text", "what it is about"),
            field("state", "text", "running, paused, done, cancelled or failed"),
            field("detail", "text", "what an operator should know"),
        ],
    ),
    asked(
        "NewPlan",
        &["kind"],
        &[
            field("kind", "text", "as `ctl plan apply` has it: drain-node, rebalance, …"),
            field("arguments", "text[]", "what follows the kind there"),
            field("reason", "text", "why, for those who look at it later"),
        ],
    ),
    told(
        "Preview",
        &[
            field("kind", "text", "its kind"),
            field("about", "text", "what it is about"),
            field("help", "text?", "what it does"),
            field("warning", "text?", "what cannot be undone"),
            field("moves", "count", "replicas that come, go or move"),
            field("splits", "count", "shards that become two"),
            field("hand_overs", "count", "leaders that change for it at once"),
            field("note", "text?", "what it cannot do as things are"),
            field("bytes", "count", "bytes that move"),
            field("seconds", "count", "how long that takes at least"),
            field("first_moves", "Move[]", "the first 1000"),
        ],
    ),
    told(
        "Move",
        &[
            field("shard", "count", "the shard"),
            field("from", "NodeName?", "where a replica goes"),
            field("to", "NodeName?", "where one comes"),
            field("why", "text", "repair, drain, zone, surplus or balance"),
            field("bytes", "count", "bytes of its rows"),
        ],
    ),
    told("NodeName", &[field("id", "text", "its id"), field("address", "text?", "where clients reach it")]),
    asked("StartVerification", &[], &[field("shards", "count[]", "which shards; none: all")]),
    told(
        "Verification",
        &[
            field("node", "text", "the node that compares"),
            field("state", "text", "never, running, done or stopped"),
            field("result", "text?", "once it is done: ok, wrong or incomplete"),
            field("began_ms", "count", "when it began, in ms since 1970"),
            field("ended_ms", "count", "when it ended; 0 before"),
            field("shards", "count", "shards to compare"),
            field("shards_done", "count", "those that are compared"),
            field("bytes", "count", "bytes that were read, on all nodes"),
            field("findings", "Finding[]", "what is wrong"),
            field("missing", "text[]", "what could not be looked at"),
        ],
    ),
    told(
        "Finding",
        &[
            field("kind", "text", "map, rule, replica, damage or checksum"),
            field("shard", "count?", "the shard"),
            field("text", "text", "what is wrong"),
        ],
    ),
];

const NODE: &[Field] = &[
    field("id", "text", "its id"),
    field("client_address", "text", "where clients reach it"),
    field("peer_address", "text", "where nodes reach it"),
    field("zone", "text", "its zone"),
    field("capacity", "count", "how much it takes, against others"),
    field("state", "text", "up, silent or lost"),
    field("silent_ms", "count", "for how long it was not heard of"),
    field("leaving", "flag", "it is to hold nothing"),
    field("replicas", "count", "replicas that it has or is about to have"),
    field("broken", "count", "replicas that are of no use"),
    field("leaders", "count", "shards that it leads"),
    field("leads_nothing", "flag", "it leads nothing, and who leads what it holds is known"),
    field("bytes", "count", "bytes of the rows of its replicas"),
    field("keys", "count", "keys of its replicas"),
    field("ops_per_s", "number", "commands a second, lately"),
    field("commands", "count", "commands since it was started"),
    field("errors", "count", "those that were answered by an error"),
    field("clients", "count", "connected clients"),
    field("disk_bytes", "count", "bytes of its files"),
    field("disk_free_bytes", "count", "bytes that are free on its device"),
    field("can_write", "flag", "whether its disk takes writes"),
    field("clock_skew_ms", "number", "what its wall clock is ahead of that of most nodes, in ms"),
    field("clock_is_off", "flag", "that is so much that it leads no shard"),
    field("rss_bytes", "count", "memory of the process"),
    field("cpu_us", "count", "processor time, in µs"),
    field("started_ms", "count", "when it was started, in ms since 1970; 0 if that was not told"),
    field("version", "text", "the version of its program"),
    field("problems", "text[]", "what is wrong with its certificates, or will be soon, in words"),
    field("transfers", "Transfer[]", "snapshots on their way from or to it"),
];

const PLAN: &[Field] = &[
    field("id", "count", "its number"),
    field("kind", "text", "its kind"),
    field("about", "text", "what it is about"),
    field("state", "text", "running, paused, done, cancelled or failed"),
    field("began_ms", "count", "when it was begun, in ms since 1970"),
    field("ended_ms", "count", "when it ended; 0 before"),
    field("detail", "text", "what an operator should know"),
    field("steps_done", "count", "steps that are done"),
    field("steps_now", "count", "steps and splits that are under way"),
    field("steps_left", "count", "steps that are to come, as far as is known"),
    field("bytes_moved", "count", "bytes that were moved"),
    field("bytes_left", "count", "bytes that are to be moved"),
    field("rate", "count", "bytes a second, lately"),
    field("eta_s", "count?", "in how many seconds it will be done"),
    field("waits_for", "text?", "what it waits for"),
    field("shards_now", "Shard[]", "of one plan alone: the shards that it changes now"),
    field("nodes", "texts", "of one plan alone: addresses for clients, by node"),
];
