//! The cluster, and what its clients and test suites send besides.

use crate::table::behaviour::{ABOUT_NODE, ASKS_DATABASE, MATCHES_PATTERNS};
use crate::table::key_flag::NOT_KEY;
use crate::table::spec::acl;
use crate::table::spec::flag::{ADMIN, FAST, LOADING, READONLY, STALE};
use crate::table::spec::{CommandSpec, Group, Role, command, key};

const fn cluster(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::Cluster, 0, name, arity, since, summary)
}

const fn routing(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::Cluster, acl::CONNECTION, name, arity, since, summary)
}

const UNREPEATABLE: &[&str] = &["nondeterministic_output"];
const COST_NODES: &str = "O(N), N being the number of nodes";

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    routing("ASKING", 1, "3.0.0", "Lets the next command reach a slot that is being moved here.").flags(FAST),
    cluster("CLUSTER", -2, "3.0.0", "Groups the commands about the cluster.").cost("Depends on the subcommand."),
    cluster("CLUSTER|COUNT-FAILURE-REPORTS", 3, "3.0.0", "Returns how many nodes report that a node has failed.")
        .flags(ADMIN | STALE)
        .cost(COST_NODES)
        .tips(UNREPEATABLE)
        .args("node-id"),
    cluster("CLUSTER|COUNTKEYSINSLOT", 3, "3.0.0", "Returns how many keys a slot holds.")
        .flags(STALE)
        .does_also(ASKS_DATABASE)
        .args("slot:integer"),
    cluster("CLUSTER|GETKEYSINSLOT", 4, "3.0.0", "Returns keys of a slot.")
        .flags(STALE)
        .does_also(ASKS_DATABASE)
        .cost("O(N), N being the number of keys asked for")
        .tips(UNREPEATABLE)
        .args("slot:integer count:integer"),
    cluster("CLUSTER|HELP", 2, "5.0.0", "Lists the subcommands.").flags(LOADING | STALE),
    cluster("CLUSTER|INFO", 2, "3.0.0", "Returns the state of the cluster.").flags(STALE).tips(UNREPEATABLE),
    cluster("CLUSTER|KEYSLOT", 3, "3.0.0", "Returns the slot of a key.")
        .flags(STALE)
        .cost("O(N), N being the length of the key")
        .args("key:string"),
    cluster("CLUSTER|LINKS", 2, "7.0.0", "Returns the links between this node and the others.")
        .does_also(ABOUT_NODE)
        .flags(STALE)
        .cost(COST_NODES)
        .tips(UNREPEATABLE),
    cluster("CLUSTER|MYID", 2, "3.0.0", "Returns the id of this node.").flags(STALE).role(Role::Read),
    cluster(
        "CLUSTER|MYSHARDID",
        2,
        "7.2.0",
        "Returns the id of the shard that clients of Redis see this node as: one with it as its master alone.",
    )
    .flags(STALE)
    .tips(UNREPEATABLE)
    .role(Role::Read),
    cluster("CLUSTER|NODES", 2, "3.0.0", "Returns the nodes and their slots as text.")
        .does_also(ABOUT_NODE)
        .flags(STALE)
        .cost(COST_NODES)
        .tips(UNREPEATABLE),
    cluster("CLUSTER|REPLICAS", 3, "5.0.0", "Returns the followers of a node; nodes have none, shards do.")
        .flags(ADMIN | STALE)
        .cost(COST_NODES)
        .tips(UNREPEATABLE)
        .args("node-id"),
    cluster("CLUSTER|SHARDS", 2, "7.0.0", "Returns the slots and the nodes that serve them.")
        .does_also(ABOUT_NODE)
        .flags(STALE)
        .cost(COST_NODES)
        .tips(UNREPEATABLE),
    cluster("CLUSTER|SLAVES", 3, "3.0.0", "Returns the followers of a node; nodes have none, shards do.")
        .flags(ADMIN | STALE)
        .cost(COST_NODES)
        .tips(UNREPEATABLE)
        .args("node-id")
        .deprecated("5.0.0", "`CLUSTER REPLICAS`"),
    cluster("CLUSTER|SLOT-STATS", -4, "8.0.0", "Returns how many keys the slots have that this node leads.")
        .flags(STALE | LOADING)
        .does_also(ASKS_DATABASE)
        .cost("O(N log N), N being the number of slots")
        .tips(&["nondeterministic_output", "request_policy:all_shards"])
        .args("<SLOTSRANGE start-slot:integer end-slot:integer | ORDERBY metric [LIMIT limit:integer] [ASC | DESC]>"),
    cluster("CLUSTER|SLOTS", 2, "3.0.0", "Returns ranges of slots and the nodes that serve them.")
        .does_also(ABOUT_NODE)
        .flags(STALE)
        .cost(COST_NODES)
        .tips(UNREPEATABLE)
        .deprecated("7.0.0", "`CLUSTER SHARDS`"),
    command(
        Group::Cluster,
        acl::KEYSPACE,
        "CLUSTERSCAN",
        -2,
        "9.1.0",
        "Walks through the keys of the whole store, each part on the node that leads it.",
    )
    .flags(READONLY)
    .does_also(ASKS_DATABASE | MATCHES_PATTERNS)
    .touches(&[key(1, NOT_KEY)])
    .cost("O(1) a call, O(N) for the whole walk, N being the number of keys in the store")
    .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"])
    .args("cursor:string [MATCH pattern:pattern] [COUNT count:integer] [TYPE type] [SLOT slot:integer]"),
    routing("READONLY", 1, "3.0.0", "Lets any replica answer the connection's reads: `KV.CONSISTENCY any`.")
        .flags(LOADING | STALE | FAST),
    routing("READWRITE", 1, "3.0.0", "Ends READONLY: `KV.CONSISTENCY absolute`.").flags(LOADING | STALE | FAST),
];
