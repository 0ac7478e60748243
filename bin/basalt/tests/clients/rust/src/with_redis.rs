//! redis-rs.

use crate::{Library, expect};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_read_routing::RandomReplicaStrategy;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{AsyncCommands, FromRedisValue, RedisResult, Value, cmd, pipe};
use std::collections::HashMap;
use std::time::Duration;

pub struct RedisRs {
    leaders: ClusterConnection,
    any: ClusterConnection,
}

impl RedisRs {
    pub async fn connect(port: &str) -> Self {
        let builder = || {
            let url = format!("redis://127.0.0.1:{port}/");
            let timeout = Duration::from_secs(1);
            ClusterClient::builder([url]).connection_timeout(timeout).response_timeout(timeout)
        };
        let leaders = builder().build().expect("a client").get_async_connection().await;
        let any = builder().read_routing_strategy(RandomReplicaStrategy).build().expect("a client");
        let any = any.get_async_connection().await;
        Self { leaders: leaders.expect("the leaders"), any: any.expect("the replicas") }
    }

    async fn scan(&mut self) -> RedisResult<Vec<String>> {
        let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
        let slots: Vec<Vec<Value>> = cmd("CLUSTER").arg("SLOTS").query_async(&mut self.leaders).await?;
        let (host, port, _, _): (String, u16, String, Value) = FromRedisValue::from_redis_value(slots[0][2].clone())?;
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg("redis-rs:key:*").arg("COUNT").arg(20).arg("STORE");
            let node = RoutingInfo::SingleNode(SingleNodeRoutingInfo::ByAddress { host: host.clone(), port });
            let page = self.leaders.route_command(scan, node).await?;
            let (next, some): (String, Vec<String>) = FromRedisValue::from_redis_value(page)?;
            keys.extend(some);
            if next == "0" {
                return Ok(keys);
            }
            cursor = next;
        }
    }

    async fn various(&mut self) -> RedisResult<()> {
        let fields: Vec<(String, String)> = (0..50).map(|n| (format!("field:{n}"), n.to_string())).collect();
        let _: () = self.leaders.hset_multiple("redis-rs:hash", &fields).await?;
        let hash: HashMap<String, String> = self.leaders.hgetall("redis-rs:hash").await?;
        expect("HGETALL", hash, fields.into_iter().collect());
        let a = "{redis-rs}a";
        for mut several in [pipe(), pipe().atomic().clone()] {
            let answers: (String, i64, String) =
                several.set(a, 1).incr(a, 1).get(a).query_async(&mut self.leaders).await?;
            expect("a pipeline, then MULTI", answers, ("OK".to_owned(), 2, "2".to_owned()));
        }
        let keys: Vec<String> = (0..crate::KEYS).map(|n| format!("redis-rs:key:{n}")).collect();
        let values: Vec<Option<String>> = cmd("MGET").arg(&keys).query_async(&mut self.leaders).await?;
        expect("MGET over slots", values, keys.iter().map(|key| Some(crate::of(key))).collect());
        let size: usize = cmd("DBSIZE").query_async(&mut self.leaders).await?;
        expect("DBSIZE of all nodes", size >= crate::KEYS, true);
        Ok(())
    }
}

fn text<T>(result: RedisResult<T>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

impl Library for RedisRs {
    const NAME: &str = "redis-rs";

    async fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        text(self.leaders.set(key, value).await)
    }

    async fn get(&mut self, key: &str) -> Result<Option<String>, String> {
        text(self.leaders.get(key).await)
    }

    async fn get_from_any(&mut self, key: &str) -> Result<Option<String>, String> {
        text(self.any.get(key).await)
    }

    async fn others(&mut self) -> Result<Vec<String>, String> {
        text(self.various().await)?;
        text(self.scan().await)
    }
}
