//! Seeded random commands of a client without cluster mode, over several databases, to Basalt and to redis-server: every answer must
//! be the same, but for orders and moments that are a matter of chance.

use super::common::{Connection, Dir, Random, Server, Setup, Value, free_port, installed, number, skip};

/// What is sent, one request a word of `;`. `K` is a key, `D` a database, `V` a value, `I` an integer, `M` a member, `F` a field, `S` a script.
const COMMANDS: &[&str] = &[
    "SET K V;SET K I;SET K V NX;SET K V XX GET;SET K V EX 100000;GET K;GETDEL K;GETSET K V;APPEND K V;STRLEN K;INCR K;INCRBY K I",
    "MGET K K K;MSET K V K V;MSETNX K V K V;SETRANGE K 5 V;GETRANGE K 0 3;SETBIT K 7 1;BITOP AND K K K;BITCOUNT K;PFADD K V V",
    "DEL K;DEL K K;UNLINK K K;EXISTS K K;TYPE K;RENAME K K;RENAMENX K K;EXPIRE K 100000;PERSIST K;TTL K;TOUCH K K;PFCOUNT K K",
    "COPY K K;COPY K K REPLACE;COPY K K DB D;COPY K K DB D REPLACE;COPY K K DB 99;MOVE K D;MOVE K 99;MOVE K abc;PFMERGE K K K",
    "KEYS *;KEYS k1*;DBSIZE;RANDOMKEY;SCAN 0 COUNT 1000;SCAN 0 COUNT 1000 MATCH k[1-3] TYPE list;FLUSHDB;FLUSHALL",
    "SELECT D;SELECT D;SELECT D;SELECT 99;SELECT abc;SWAPDB D D;SWAPDB 0 99;SWAPDB x 1;SWAPDB 1 x",
    "LPUSH K V V;RPUSH K I I I;LPOP K;RPOP K 2;LRANGE K 0 -1;LLEN K;LINDEX K 0;LSET K 0 V;LREM K 0 V;LTRIM K 0 3;LMOVE K K LEFT RIGHT",
    "RPOPLPUSH K K;LMPOP 2 K K LEFT COUNT 2;LINSERT K BEFORE V V;LPOS K V;BLPOP K K 0.01;BRPOPLPUSH K K 0.01;BLMOVE K K LEFT LEFT 0.01",
    "SADD K M M M;SREM K M;SMEMBERS K;SCARD K;SISMEMBER K M;SMOVE K K M;SINTER K K;SUNION K K;SDIFF K K;SINTERSTORE K K K",
    "SUNIONSTORE K K K;SDIFFSTORE K K K;SINTERCARD 2 K K;ZADD K 1 M 2 M;ZADD K I M;ZREM K M;ZRANGE K 0 -1 WITHSCORES;ZSCORE K M",
    "ZCARD K;ZINCRBY K 2 M;ZRANK K M;ZUNIONSTORE K 2 K K;ZINTERSTORE K 2 K K WEIGHTS 2 3;ZDIFF 2 K K WITHSCORES;ZRANGESTORE K K 0 1",
    "ZPOPMIN K;ZMPOP 2 K K MIN;BZPOPMIN K K 0.01;HSET K F V F V;HGET K F;HGETALL K;HDEL K F;HLEN K;HINCRBY K F I;HMGET K F F",
    "XADD K 1-I F V;XLEN K;XRANGE K - +;XREAD STREAMS K K 0 0;XDEL K 1-1;XGROUP CREATE K g 0 MKSTREAM;XACK K g 1-1",
    "SORT K;SORT K ALPHA;SORT K BY w*;SORT K ALPHA BY w* GET #;SORT K BY h*->F GET # GET w* GET h*->F ALPHA;SORT K LIMIT 1 2 DESC",
    "SORT K ALPHA STORE K;SORT K GET none;SORT_RO K ALPHA BY w* DESC;SET w1 I;SET w2 I;SET w3 V;HSET h1 F I;HSET h2 F I",
    "MULTI;MULTI;MULTI;EXEC;EXEC;EXEC;EXEC;DISCARD;WATCH K K;WATCH K;UNWATCH;PING;ECHO V;EVAL S 2 K K;EVAL S 2 K K;PUBLISH ch V",
];

const SCRIPTS: &[&str] = &[
    "return redis.call('get',KEYS[1])",
    "return redis.call('set',KEYS[1],KEYS[2])",
    "return #redis.call('keys','*')",
    "return redis.call('dbsize')",
    "redis.call('set','k5','x') return redis.call('exists','k5','k1')",
    "return redis.call('type',KEYS[1])",
    "return redis.pcall('incr',KEYS[1])",
    "return redis.call('mget','k1','k2')",
];

/// The databases that are used, and the keys of each.
const DATABASES: u64 = 4;
const KEYS: u64 = 8;

fn fill(word: &str, random: &mut Random) -> String {
    let pick = |choices: &[&str], random: &mut Random| (*random.pick(choices)).to_owned();
    match word {
        "K" => format!("k{}", random.below(KEYS)),
        "D" => random.below(DATABASES).to_string(),
        "I" => pick(&["0", "1", "2", "3", "5", "10", "-1", "7"], random),
        "V" => pick(&["a", "b", "7", "3", "xxxxxxxxxxxxxxxxxxxx", "value", "1", "2"], random),
        "M" => pick(&["a", "b", "c", "1", "2", "3"], random),
        "F" => pick(&["f", "g", "h"], random),
        "S" => pick(SCRIPTS, random),
        literal => literal.to_owned(),
    }
}

/// An answer without what is a matter of chance.
fn shown(name: &str, answer: &Value) -> String {
    let sorted = |items: &[Value]| {
        let mut items: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
        items.sort();
        items.join(" ")
    };
    match (name, answer) {
        ("RANDOMKEY", Value::Bulk(_)) => "a key".to_owned(),
        ("TTL", Value::Int(left)) if *left > 0 => "some time".to_owned(),
        ("SMEMBERS" | "SINTER" | "SUNION" | "SDIFF" | "KEYS", Value::Array(items)) => sorted(items),
        ("HGETALL", Value::Array(items)) => {
            let mut pairs: Vec<String> = items.chunks(2).map(|pair| format!("{pair:?}")).collect();
            pairs.sort();
            pairs.join(" ")
        }
        // Whose weights are equal may come in any order.
        ("SORT" | "SORT_RO", Value::Array(items)) => sorted(items),
        ("SCAN", Value::Array(items)) => items.iter().map(|item| shown("KEYS", item)).collect::<Vec<_>>().join(" "),
        // What is wrong is said in other words.
        ("EVAL", Value::Error(text)) => text.split(' ').next().unwrap_or_default().to_owned(),
        (_, answer) => format!("{answer:?}"),
    }
}

/// One connection to each, and what was sent.
struct Pair {
    ours: Connection,
    theirs: Connection,
    history: Vec<String>,
    /// What MULTI has queued.
    queued: Option<Vec<String>>,
}

impl Pair {
    fn call(&mut self, request: &[String]) -> Result<(), String> {
        let name = request[0].clone();
        // Refused within a transaction here: it is no shard's.
        if self.queued.is_some() && name == "SWAPDB" {
            return Ok(());
        }
        let ours = self.ours.try_call(request).map_err(|error| format!("basalt: {error}"))?;
        let theirs = self.theirs.try_call(request).map_err(|error| format!("redis: {error}"))?;
        self.history.push(format!("{}  →  {theirs:?}", request.join(" ")));
        let is_same = match (&self.queued, &ours, &theirs) {
            (Some(names), Value::Array(ours), Value::Array(theirs)) if name == "EXEC" => {
                let shown_all = |answers: &[Value]| -> Vec<String> {
                    names.iter().zip(answers).map(|(name, answer)| shown(name, answer)).collect()
                };
                ours.len() == theirs.len() && shown_all(ours) == shown_all(theirs)
            }
            _ => shown(&name, &ours) == shown(&name, &theirs),
        };
        if !is_same {
            let tail = self.history.len().saturating_sub(25);
            return Err(format!("{}\nbut basalt: {ours:?}", self.history[tail..].join("\n")));
        }
        match (name.as_str(), &mut self.queued) {
            ("MULTI", None) => self.queued = Some(Vec::new()),
            ("EXEC" | "DISCARD", _) => self.queued = None,
            // Redis looks which of the watched keys are there.
            ("SWAPDB", None) => return self.call(&["UNWATCH".to_owned()]),
            (_, Some(names)) if theirs == Value::Simple("QUEUED".to_owned()) => names.push(name),
            _ => {}
        }
        Ok(())
    }
}

#[test]
fn random_commands_over_several_databases_answer_as_redis_does() {
    if !installed("redis-server") {
        skip("redis", "redis-server is not installed");
        return;
    }
    let dir = Dir::new("databases-random");
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let setup = Setup::new(&dir.join("ours")).with("--shards", "1").with("--durability", "nosync");
    let _ours = Server::start(&setup.with("--database-listen", &listen));
    let theirs = Server::start_plain_peer(&Setup::new(&dir.join("theirs")));
    let commands: Vec<&str> = COMMANDS.iter().flat_map(|line| line.split(';')).collect();
    let first = number("BASALT_DIFFERENTIAL_SEED", 1);
    let mut failures = Vec::new();
    for seed in first..first + number("BASALT_DIFFERENTIAL_SEEDS", 8) {
        let mut random = Random::new(seed);
        let (ours, theirs) = (Connection::open(port).unwrap(), theirs.connect());
        let mut pair = Pair { ours, theirs, history: Vec::new(), queued: None };
        let mut next = || {
            let words = random.pick(&commands).split(' ');
            words.map(str::to_owned).collect::<Vec<_>>().iter().map(|word| fill(word, &mut random)).collect::<Vec<_>>()
        };
        let outcome =
            pair.call(&["FLUSHALL".to_owned()]).and_then(|()| (0..1_500).try_for_each(|_| pair.call(&next())));
        failures.extend(outcome.err().map(|why| format!("BASALT_DIFFERENTIAL_SEED={seed}\n{why}")));
    }
    assert!(failures.is_empty(), "{} seeds:\n{}", failures.len(), failures.join("\n\n"));
}
