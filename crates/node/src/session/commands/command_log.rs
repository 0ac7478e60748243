//! COMMANDLOG, and SLOWLOG: the first of its logs.

use super::ask::{Ask, Outcome, Refusal, Row};
use crate::config::CommandLogKind;
use crate::session::Effect;
use crate::stats::LoggedCommand;
use resp::{Reply, parse_integer, table};

/// Entries that SLOWLOG GET answers if it is not told how many.
const ENTRIES_DEFAULT: usize = 10;

pub(super) const ROWS: &[Row] = &[
    ("SLOWLOG|GET", |ask| match ask.args.len() {
        2 | 3 => get(ask, CommandLogKind::Slow),
        _ => Err(table::wrong_arity(ask.spec).into()),
    }),
    ("SLOWLOG|LEN", |ask| len(ask, CommandLogKind::Slow)),
    ("SLOWLOG|RESET", |ask| reset(ask, CommandLogKind::Slow)),
    ("COMMANDLOG|GET", |ask| get(ask, kind(ask.args[3])?)),
    ("COMMANDLOG|LEN", |ask| len(ask, kind(ask.args[2])?)),
    ("COMMANDLOG|RESET", |ask| reset(ask, kind(ask.args[2])?)),
];

/// The log of that name.
fn kind(name: &[u8]) -> Result<CommandLogKind, Refusal> {
    let named = CommandLogKind::NAMES.into_iter().find(|(own, _)| name.eq_ignore_ascii_case(own.as_bytes()));
    named.map(|(_, kind)| kind).ok_or_else(|| {
        format!("ERR type should be one of the following: {}", CommandLogKind::NAMES.map(|(name, _)| name).join(", "))
            .into()
    })
}

fn get(ask: &mut Ask<'_>, kind: CommandLogKind) -> Outcome {
    let wanted = match ask.args.get(2).map(|count| parse_integer(count)) {
        None => ENTRIES_DEFAULT,
        Some(Some(-1)) => usize::MAX,
        Some(Some(count)) if count >= 0 => usize::try_from(count).unwrap_or(usize::MAX),
        Some(_) => return Err("ERR count should be greater than or equal to -1".into()),
    };
    let log = ask.host.stats().command_log(kind);
    ask.reply.array(log.iter().len().min(wanted));
    log.iter().take(wanted).for_each(|entry| write(entry, ask.reply));
    Ok(Effect::None)
}

fn write(entry: &LoggedCommand, reply: &mut Reply) {
    reply.array(6);
    reply.int(entry.id as i64);
    reply.int(entry.at_s as i64);
    reply.int(entry.value as i64);
    let args = entry.args.as_slice();
    reply.array(args.len());
    args.iter().for_each(|arg| reply.bulk(arg));
    reply.bulk(entry.addr.as_bytes());
    reply.bulk(entry.client_name.as_bytes());
}

fn len(ask: &mut Ask<'_>, kind: CommandLogKind) -> Outcome {
    let entries = ask.host.stats().command_log(kind).iter().len();
    ask.reply.int(entries as i64);
    Ok(Effect::None)
}

fn reset(ask: &mut Ask<'_>, kind: CommandLogKind) -> Outcome {
    ask.host.stats().command_log(kind).clear();
    ask.reply.ok();
    Ok(Effect::None)
}
