//! CONFIG.

use super::ask::{Ask, Outcome, Row, SYNTAX};
use crate::session::Effect;

pub(super) const ROWS: &[Row] = &[
    ("CONFIG|GET", get),
    ("CONFIG|SET", set),
    ("CONFIG|RESETSTAT", resetstat),
    ("CONFIG|REWRITE", |_| Err("ERR The server is running without a config file".into())),
];

fn get(ask: &mut Ask<'_>) -> Outcome {
    let found = ask.host.config().matching(&ask.args[2..]);
    ask.reply.map(found.len());
    for (name, value) in found {
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
    Ok(Effect::None)
}

fn resetstat(ask: &mut Ask<'_>) -> Outcome {
    ask.host.stats().reset();
    ask.reply.ok();
    Ok(Effect::None)
}
