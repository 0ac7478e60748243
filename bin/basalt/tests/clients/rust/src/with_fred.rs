//! fred.

use crate::{Library, expect};
use fred::prelude::*;
use futures_util::TryStreamExt;
use std::collections::HashMap;
use std::time::Duration;

pub struct Fred(Client);

impl Fred {
    pub async fn connect(port: &str) -> Self {
        let url = format!("redis-cluster://127.0.0.1:{port}");
        let client = Builder::from_config(Config::from_url(&url).expect("a URL"))
            .with_connection_config(|config| {
                config.connection_timeout = Duration::from_secs(1);
                config.internal_command_timeout = Duration::from_secs(1);
                config.replica.primary_fallback = true;
            })
            .with_performance_config(|config| config.default_command_timeout = Duration::from_secs(1))
            .set_policy(ReconnectPolicy::new_constant(0, 100))
            .build()
            .expect("a client");
        client.init().await.expect("a connection");
        Self(client)
    }

    async fn various(&mut self) -> Result<Vec<String>, Error> {
        let client = &self.0;
        let fields: HashMap<String, String> = (0..50).map(|n| (format!("field:{n}"), n.to_string())).collect();
        let _: () = client.hset("fred:hash", fields.clone()).await?;
        let hash: HashMap<String, String> = client.hgetall("fred:hash").await?;
        expect("HGETALL", hash, fields);
        let (a, wanted) = ("{fred}a", ("OK".to_owned(), 2, "2".to_owned()));
        let pipeline = client.pipeline();
        let _: () = pipeline.set(a, 1, None, None, false).await?;
        let _: () = pipeline.incr(a).await?;
        let _: () = pipeline.get(a).await?;
        let answers: (String, i64, String) = pipeline.all().await?;
        expect("a pipeline", answers, wanted.clone());
        let transaction = client.multi();
        let _: () = transaction.set(a, 1, None, None, false).await?;
        let _: () = transaction.incr(a).await?;
        let _: () = transaction.get(a).await?;
        let answers: (String, i64, String) = transaction.exec(true).await?;
        expect("MULTI", answers, wanted);
        let keys: Vec<Key> = client.scan_cluster_buffered("fred:key:*", Some(20), None).try_collect().await?;
        Ok(keys.into_iter().filter_map(Key::into_string).collect())
    }
}

fn text<T>(result: Result<T, Error>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

impl Library for Fred {
    const NAME: &str = "fred";

    async fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        text(self.0.set(key, value, None, None, false).await)
    }

    async fn get(&mut self, key: &str) -> Result<Option<String>, String> {
        text(self.0.get(key).await)
    }

    async fn get_from_any(&mut self, key: &str) -> Result<Option<String>, String> {
        text(self.0.replicas().get(key).await)
    }

    async fn others(&mut self) -> Result<Vec<String>, String> {
        text(self.various().await)
    }
}
