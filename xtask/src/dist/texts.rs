//! What packages say of the program.

pub const MAINTAINER: &str = "Basalt maintainers <maintainers@basalt.invalid>";
pub const SUMMARY: &str = "distributed key-value database that speaks the Redis protocol";
pub const DESCRIPTION: &str = "\
Basalt keeps keys and values on one node or many, and answers clients of Redis
and of Redis Cluster. Each shard is a Raft group: an acknowledged write is on
the disks of a majority. One program is the server, the tools of operators, the
benchmarks and the simulator.";
