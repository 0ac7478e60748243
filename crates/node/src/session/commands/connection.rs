//! Commands about the connection itself, and small ones without data.

use super::ask::{Ask, NOT_INTEGER, Outcome, Row, SYNTAX, is_word};
use crate::session::host::ClusterDatabases;
use crate::session::state::ReplyMode;
use crate::session::{Effect, Keyspace, clients};
use resp::{Proto, parse_integer, table};

pub(super) const ROWS: &[Row] = &[
    ("PING", ping),
    ("ECHO", echo),
    ("QUIT", quit),
    ("RESET", reset),
    ("SELECT", select),
    ("SWAPDB", |_| Err("ERR SWAPDB is not allowed in cluster mode".into())),
    ("TIME", time),
    ("UNWATCH", unwatch),
    ("ASKING", ok),
    ("REPLCONF", replication_options),
    ("PSYNC", |_| Err(NO_CHANGES.into())),
    ("SCRIPT|DEBUG", |_| Err("ERR there is no debugger of scripts".into())),
    ("INFO", info),
    ("ROLE", role),
    ("REPLICAOF", replica_of),
    ("SLAVEOF", replica_of),
    ("MONITOR", monitor),
    ("KV.MONITOR", monitor_for_node),
    ("MODULE|LIST", no_modules),
    ("COMMAND", command),
    ("COMMAND|COUNT", command),
    ("COMMAND|DOCS", command),
    ("COMMAND|GETKEYS", command),
    ("COMMAND|GETKEYSANDFLAGS", command),
    ("COMMAND|HELP", command),
    ("COMMAND|INFO", command),
    ("COMMAND|LIST", command),
];

/// With this error code a replica of Redis asks again later; with any other it asks for all keys again and again.
const NO_CHANGES: &str =
    "NOMASTERLINK Basalt sends a replica no changes: copy the keys once, with `redis-cli --rdb` or `basalt export`";

const NO_FUNCTIONS: &str =
    "ERR functions are not sent with the keys: `redis-cli FUNCTION DUMP`, or `basalt export`, keeps them";

fn ok(ask: &mut Ask<'_>) -> Outcome {
    ask.reply.ok();
    Ok(Effect::None)
}

/// What a replica says of itself before SYNC. A part of what SYNC answers cannot be asked for: to say yes would be to send something else.
fn replication_options(ask: &mut Ask<'_>) -> Outcome {
    let pairs = ask.args[1..].chunks(2);
    for pair in pairs {
        let [option, value] = pair else { return Err(SYNTAX) };
        let is = |word: &str| is_word(option, word);
        if is("RDB-FILTER-ONLY") {
            return Err(match value.split(|byte| *byte == b' ').find(|word| !word.is_empty()) {
                None => "ERR the keys are always sent".into(),
                Some(word) if is_word(word, "FUNCTIONS") => NO_FUNCTIONS.into(),
                Some(word) => format!("ERR Unsupported rdb-filter-only option: {}", word.escape_ascii()).into(),
            });
        }
        if !["LISTENING-PORT", "IP-ADDRESS", "CAPA", "ACK", "FACK", "GETACK", "RDB-ONLY", "VERSION"].into_iter().any(is)
        {
            return Err(format!("ERR Unrecognized REPLCONF option: {}", option.escape_ascii()).into());
        }
    }
    ok(ask)
}

fn ping(ask: &mut Ask<'_>) -> Outcome {
    match ask.args {
        [_] | [_, _] if ask.session.is_for_subscribers() => {
            ask.reply.array(2);
            ask.reply.bulk(b"pong");
            ask.reply.bulk(ask.args.get(1).copied().unwrap_or_default());
        }
        [_] => ask.reply.simple("PONG"),
        [_, message] => ask.reply.bulk(message),
        _ => return Err("ERR wrong number of arguments for 'ping' command".into()),
    }
    Ok(Effect::None)
}

fn echo(ask: &mut Ask<'_>) -> Outcome {
    ask.reply.bulk(ask.args[1]);
    Ok(Effect::None)
}

fn monitor(ask: &mut Ask<'_>) -> Outcome {
    ask.session.set_monitor(Some(ask.spec), ask.host);
    ok(ask)
}

/// What a client's scripts run is to be told to its node, for which this connection was made.
fn monitor_for_node(ask: &mut Ask<'_>) -> Outcome {
    if ask.session.keyspace() != Keyspace::Stored {
        return Err("ERR this command is for other nodes".into());
    }
    let is_on = is_word(ask.args[1], "ON");
    if !is_on && !is_word(ask.args[1], "OFF") {
        return Err(SYNTAX);
    }
    ask.session.show_calls(is_on, ask.host);
    ok(ask)
}

fn quit(ask: &mut Ask<'_>) -> Outcome {
    ask.session.close();
    ok(ask)
}

fn reset(ask: &mut Ask<'_>) -> Outcome {
    let session = &mut *ask.session;
    session.leave_multi();
    session.unwatch();
    session.leave(ask.host);
    session.set_proto(Proto::Resp2);
    session.forget_choices();
    session.log_out(ask.host);
    session.reply_mode = ReplyMode::On;
    session.silent = false;
    for bit in [clients::state::NO_EVICT, clients::state::NO_TOUCH] {
        session.entry.set(bit, false);
    }
    session.entry.about().name.clear();
    ask.reply.proto = Proto::Resp2;
    ask.reply.simple("RESET");
    Ok(Effect::None)
}

fn select(ask: &mut Ask<'_>) -> Outcome {
    match parse_integer(ask.args[1]).map(i32::try_from) {
        Some(Ok(_)) if ask.session.keyspace().database().is_some() => {
            let chosen = ask.host.chosen_database(ask.args[1]);
            ask.session.enter(Keyspace::Database(chosen.ok_or("ERR DB index is out of range")?));
            ok(ask)
        }
        Some(Ok(0)) if ask.session.keyspace() == Keyspace::Stored => ok(ask),
        Some(Ok(number)) => select_of_cluster(ask, i64::from(number)),
        Some(Err(_)) => Err("ERR value is out of range, value must between -2147483648 and 2147483647".into()),
        None => {
            let named = ask.session.keyspace().database().and_then(|_| ask.host.chosen_database(ask.args[1]));
            ask.session.enter(Keyspace::Database(named.ok_or(NOT_INTEGER)?));
            ok(ask)
        }
    }
}

const NOT_BEGUN: &str = "TRYAGAIN the store has no databases beyond 0 for clients of a cluster yet";

/// Of a client of Redis Cluster.
fn select_of_cluster(ask: &mut Ask<'_>, number: i64) -> Outcome {
    if number != 0 && (ask.host.config().cluster_databases() == 1 || !ask.session.keyspace().is_of_cluster()) {
        return Err("ERR SELECT is not allowed in cluster mode".into());
    }
    let chosen = ask.host.chosen_of_cluster(number).ok_or("ERR DB index is out of range")?;
    if let (Keyspace::Cluster, Keyspace::ClusterDatabase(_)) = (ask.session.keyspace(), chosen) {
        match ask.host.cluster_databases() {
            ClusterDatabases::Begun => {}
            ClusterDatabases::Refused(text) => return Err(text.into()),
            // It waited until databases of cluster clients had begun: EXEC runs a SELECT that was refused when it was queued.
            ClusterDatabases::Awaited => return Err(NOT_BEGUN.into()),
        }
    }
    ask.session.enter(chosen);
    ok(ask)
}

fn time(ask: &mut Ask<'_>) -> Outcome {
    let now_us = ask.host.now_us();
    ask.reply.array(2);
    ask.reply.bulk_int((now_us / 1_000_000) as i64);
    ask.reply.bulk_int((now_us % 1_000_000) as i64);
    Ok(Effect::None)
}

fn unwatch(ask: &mut Ask<'_>) -> Outcome {
    ask.session.unwatch();
    ok(ask)
}

fn info(ask: &mut Ask<'_>) -> Outcome {
    let sections: Option<Vec<&str>> = ask.args[1..].iter().map(|arg| std::str::from_utf8(arg).ok()).collect();
    let text = super::info::info(ask.host, &sections.ok_or(SYNTAX)?, ask.session.keyspace());
    ask.reply.verbatim(&text);
    Ok(Effect::None)
}

/// What INFO says under Replication.
fn role(ask: &mut Ask<'_>) -> Outcome {
    let facts = ask.host.cluster_facts();
    // What another node answers to clients of databases comes from this one: to them it is no replica.
    let followers = match ask.session.keyspace().database() {
        None => facts.followers_of_mine(),
        Some(_) => Vec::new(),
    };
    let led = ask.host.shard_facts().into_iter().filter(|shard| shard.status.leads);
    let offset: u64 = led.map(|shard| shard.status.applied).sum();
    ask.reply.array(3);
    ask.reply.bulk(b"master");
    ask.reply.int(offset as i64);
    ask.reply.array(followers.len());
    for (node, index) in followers {
        ask.reply.array(3);
        ask.reply.bulk(node.host.as_bytes());
        ask.reply.bulk_int(i64::from(node.port));
        ask.reply.bulk_int(index as i64);
    }
    Ok(Effect::None)
}

/// A master follows no other server; what follows one for a while is `basalt import`.
fn replica_of(ask: &mut Ask<'_>) -> Outcome {
    if !matches!(ask.session.keyspace(), Keyspace::Database(_)) {
        return Err("ERR REPLICAOF not allowed in cluster mode.".into());
    }
    if !(is_word(ask.args[1], "NO") && is_word(ask.args[2], "ONE")) {
        return Err("ERR a database follows no other server; `basalt import` does".into());
    }
    ask.reply.ok();
    Ok(Effect::None)
}

fn no_modules(ask: &mut Ask<'_>) -> Outcome {
    ask.reply.array(0);
    Ok(Effect::None)
}

fn command(ask: &mut Ask<'_>) -> Outcome {
    table::command(ask.args, ask.reply);
    Ok(Effect::None)
}
