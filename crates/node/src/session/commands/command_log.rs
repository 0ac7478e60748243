//! SLOWLOG.

use super::ask::{Ask, Outcome, Row};
use crate::session::Effect;
use crate::stats::SlowCommand;
use resp::{Reply, parse_integer};

/// Entries that GET answers if it is not told how many.
const ENTRIES_DEFAULT: usize = 10;

pub(super) const ROWS: &[Row] = &[("SLOWLOG|GET", get), ("SLOWLOG|LEN", len), ("SLOWLOG|RESET", reset)];

fn get(ask: &mut Ask<'_>) -> Outcome {
    let wanted = match ask.args[2..] {
        [] => ENTRIES_DEFAULT,
        [count] => match parse_integer(count) {
            Some(-1) => usize::MAX,
            Some(count) if count >= 0 => usize::try_from(count).unwrap_or(usize::MAX),
            _ => return Err("ERR count should be greater than or equal to -1".into()),
        },
        _ => return Err("ERR wrong number of arguments for 'slowlog|get' command".into()),
    };
    let log = ask.host.stats().slowlog();
    ask.reply.array(log.iter().len().min(wanted));
    log.iter().take(wanted).for_each(|entry| write(entry, ask.reply));
    Ok(Effect::None)
}

fn write(entry: &SlowCommand, reply: &mut Reply) {
    reply.array(6);
    reply.int(entry.id as i64);
    reply.int(entry.at_s as i64);
    reply.int(entry.us as i64);
    reply.array(entry.args.len());
    entry.args.iter().for_each(|arg| reply.bulk(arg));
    reply.bulk(entry.addr.as_bytes());
    reply.bulk(entry.client_name.as_bytes());
}

fn len(ask: &mut Ask<'_>) -> Outcome {
    let entries = ask.host.stats().slowlog().iter().len();
    ask.reply.int(entries as i64);
    Ok(Effect::None)
}

fn reset(ask: &mut Ask<'_>) -> Outcome {
    ask.host.stats().slowlog().clear();
    ask.reply.ok();
    Ok(Effect::None)
}
