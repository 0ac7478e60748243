//! KV.DURABILITY and KV.CONSISTENCY, READONLY and READWRITE: what the connection is promised of its writes and reads.

use super::ask::{Ask, Outcome, Row, SYNTAX};
use crate::session::{Consistency, Effect};

pub(super) const ROWS: &[Row] = &[
    ("KV.DURABILITY", durability),
    ("KV.CONSISTENCY", consistency),
    ("READONLY", |ask| choose(ask, Consistency::Any)),
    ("READWRITE", |ask| choose(ask, Consistency::Absolute)),
];

fn durability(ask: &mut Ask<'_>) -> Outcome {
    if ask.args.len() > 1 {
        ask.session.choose_durability(&ask.args[1..]).ok_or(SYNTAX)?;
        ask.reply.ok();
        return Ok(Effect::None);
    }
    let durability = ask.session.durability();
    ask.reply.array(2);
    ask.reply.bulk(durability.sync_word().as_bytes());
    ask.reply.bulk(durability.acks.word().as_bytes());
    Ok(Effect::None)
}

fn consistency(ask: &mut Ask<'_>) -> Outcome {
    if ask.args.len() > 1 {
        return choose(ask, Consistency::parse(&ask.args[1..])?);
    }
    let (word, number) = match ask.session.consistency() {
        Consistency::Absolute => ("absolute", None),
        Consistency::Any => ("any", None),
        Consistency::Lag { ms } => ("lag", Some(ms)),
        Consistency::Version { token } => ("version", Some(token)),
    };
    ask.reply.array(1 + usize::from(number.is_some()));
    ask.reply.bulk(word.as_bytes());
    if let Some(number) = number {
        ask.reply.int(number as i64);
    }
    Ok(Effect::None)
}

fn choose(ask: &mut Ask<'_>, consistency: Consistency) -> Outcome {
    ask.session.choose_consistency(Some(consistency));
    ask.reply.ok();
    Ok(Effect::None)
}
