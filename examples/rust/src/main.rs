//! Counts visits with redis-rs. Argument: the port of a node.

use redis::cluster::{ClusterClient, cluster_pipe};
use redis::{RedisResult, TypedCommands};
use std::time::{SystemTime, UNIX_EPOCH};

fn main() -> RedisResult<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "7000".to_owned());
    let password = std::env::var("BASALT_PASSWORD").map_or(String::new(), |password| format!(":{password}@"));
    let mut store = ClusterClient::new([format!("redis://{password}127.0.0.1:{port}")])?.get_connection()?;

    store.hset_multiple("{user:7}:session", &[("name", "Ada"), ("city", "London")])?;
    store.expire("{user:7}:session", 3600)?;

    // Both at once; redis-rs has transactions for clients of databases alone.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (visits, _): (u64, u64) =
        cluster_pipe().incr("{user:7}:visits", 1).hset("{user:7}:session", "last", now).query(&mut store)?;

    let name = store.hget("{user:7}:session", "name")?.unwrap_or_default();
    println!("visit {visits} of {name}");
    Ok(())
}
