//! CONFIG.

use super::ask::{Ask, Outcome, Row, SYNTAX};
use crate::config::{RewriteError, SETTINGS, Setting};
use crate::session::Effect;

pub(super) const ROWS: &[Row] =
    &[("CONFIG|GET", get), ("CONFIG|SET", set), ("CONFIG|RESETSTAT", resetstat), ("CONFIG|REWRITE", rewrite)];

fn get(ask: &mut Ask<'_>) -> Outcome {
    let found = ask.host.config().matching(&ask.args[2..]);
    // A client of a database sees no cluster.
    let is_standalone = ask.session.keyspace().database().is_some();
    ask.reply.map(found.len());
    for (name, value) in found {
        let value = if is_standalone && name == "cluster-enabled" { "no" } else { &*value };
        ask.reply.bulk(name.as_bytes());
        ask.reply.bulk(value.as_bytes());
    }
    Ok(Effect::None)
}

fn set(ask: &mut Ask<'_>) -> Outcome {
    let (pairs, rest) = ask.args[2..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(SYNTAX);
    }
    let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|[name, value]| (*name, *value)).collect();
    ask.host.config().set(&pairs).map_err(|error| format!("ERR {error}"))?;
    ask.reply.ok();
    let is_stored = |setting: &&Setting| setting.of_store && pairs.iter().any(|(name, _)| setting.is_named(name));
    Ok(match SETTINGS.iter().find(is_stored) {
        Some(setting) => Effect::ReplyOnceStored { command: ask.spec.id, setting: setting.name },
        None => Effect::None,
    })
}

fn resetstat(ask: &mut Ask<'_>) -> Outcome {
    ask.host.stats().reset();
    ask.reply.ok();
    Ok(Effect::None)
}

fn rewrite(ask: &mut Ask<'_>) -> Outcome {
    match ask.host.config().rewrite() {
        Ok(()) => ask.reply.ok(),
        Err(RewriteError::NoFile) => return Err("ERR The server is running without a config file".into()),
        Err(RewriteError::Failed(reason)) => return Err(format!("ERR Rewriting config file: {reason}").into()),
    }
    Ok(Effect::None)
}
