//! CLIENT: the connection's own figures and options.

use super::ask::{Ask, NOT_INTEGER, Outcome, Refusal, Row, SYNTAX, is_word, shown};
use super::{client_kill, client_list};
use crate::blocking::End;
use crate::session::state::ReplyMode;
use crate::session::{Effect, Keyspace, clients};
use resp::parse_integer;
use vocab::limits::CLIENT_TEXT_BYTES_MAX;

pub(super) const ROWS: &[Row] = &[
    ("CLIENT|ID", id),
    ("CLIENT|GETNAME", getname),
    ("CLIENT|SETNAME", setname),
    ("CLIENT|SETINFO", setinfo),
    ("CLIENT|INFO", client_list::info),
    ("CLIENT|LIST", client_list::list),
    ("CLIENT|KILL", client_kill::kill),
    ("CLIENT|NO-EVICT", |ask| switch(ask, clients::state::NO_EVICT)),
    ("CLIENT|NO-TOUCH", |ask| switch(ask, clients::state::NO_TOUCH)),
    ("CLIENT|REPLY", reply),
    ("CLIENT|PAUSE", pause),
    ("CLIENT|UNPAUSE", unpause),
    ("CLIENT|UNBLOCK", unblock),
];

fn ok(ask: &mut Ask<'_>) -> Outcome {
    ask.reply.ok();
    Ok(Effect::None)
}

fn id(ask: &mut Ask<'_>) -> Outcome {
    ask.reply.int(ask.session.entry().id as i64);
    Ok(Effect::None)
}

fn getname(ask: &mut Ask<'_>) -> Outcome {
    let name = ask.session.entry().about().name.clone();
    ask.reply.bulk_or_null((!name.is_empty()).then_some(name.as_bytes()));
    Ok(Effect::None)
}

/// A word that can stand in a line of CLIENT LIST; `what` it is, for the error.
fn word<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str, Refusal> {
    if bytes.len() > CLIENT_TEXT_BYTES_MAX {
        return Err(format!("ERR {what} cannot be longer than {CLIENT_TEXT_BYTES_MAX} bytes").into());
    }
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.bytes().all(|b| (b'!'..=b'~').contains(&b)));
    text.ok_or_else(|| format!("ERR {what} cannot contain spaces, newlines or special characters.").into())
}

/// Names the connection; an empty name takes the name away.
pub(super) fn set_name(ask: &mut Ask<'_>, name: &[u8]) -> Result<(), Refusal> {
    word(name, "Client names")?.clone_into(&mut ask.session.entry().about().name);
    Ok(())
}

fn setname(ask: &mut Ask<'_>) -> Outcome {
    set_name(ask, ask.args[2])?;
    ok(ask)
}

fn setinfo(ask: &mut Ask<'_>) -> Outcome {
    let (option, value) = (ask.args[2], ask.args[3]);
    let mut about = ask.session.entry().about();
    let (field, shown_name) = if is_word(option, "LIB-NAME") {
        (&mut about.lib_name, "lib-name")
    } else if is_word(option, "LIB-VER") {
        (&mut about.lib_ver, "lib-ver")
    } else {
        return Err(format!("ERR Unrecognized option '{}'", shown(option)).into());
    };
    word(value, shown_name)?.clone_into(field);
    drop(about);
    ok(ask)
}

fn switch(ask: &mut Ask<'_>, bit: u32) -> Outcome {
    let on = match ask.args[2] {
        word if is_word(word, "ON") => true,
        word if is_word(word, "OFF") => false,
        _ => return Err(SYNTAX),
    };
    ask.session.entry().set(bit, on);
    ok(ask)
}

fn reply(ask: &mut Ask<'_>) -> Outcome {
    let session = &mut *ask.session;
    match ask.args[2] {
        word if is_word(word, "ON") => {
            session.reply_mode = ReplyMode::On;
            session.silent = false;
            return ok(ask);
        }
        word if is_word(word, "OFF") => session.reply_mode = ReplyMode::Off,
        word if is_word(word, "SKIP") => {
            if session.reply_mode == ReplyMode::On {
                session.reply_mode = ReplyMode::SkipNext;
            }
        }
        _ => return Err(SYNTAX),
    }
    session.silent = true;
    Ok(Effect::None)
}

fn pause(ask: &mut Ask<'_>) -> Outcome {
    let writes_only = match ask.args[3..] {
        [] => false,
        [mode] if is_word(mode, "WRITE") => true,
        [mode] if is_word(mode, "ALL") => false,
        _ => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
    };
    let timeout_ms = match parse_integer(ask.args[2]).map(u64::try_from) {
        None => return Err("ERR timeout is not an integer or out of range".into()),
        Some(Err(_)) => return Err("ERR timeout is negative".into()),
        Some(Ok(ms)) => ms,
    };
    let now_ms = ask.now_ms();
    let until_ms = now_ms.checked_add(timeout_ms).filter(|until_ms| i64::try_from(*until_ms).is_ok());
    let until_ms = until_ms.ok_or("ERR timeout is out of range")?;
    ask.host.clients().pause(now_ms, until_ms, writes_only);
    ok(ask)
}

fn unpause(ask: &mut Ask<'_>) -> Outcome {
    ask.host.clients().unpause();
    ask.host.wake_all();
    ok(ask)
}

/// Ends the wait of another connection's blocking command.
fn unblock(ask: &mut Ask<'_>) -> Outcome {
    let is_of_node = ask.session.keyspace() == Keyspace::Stored;
    let end = ask.args.get(3).map_or(Some(End::Timeout), |reason| End::of_word(reason));
    let end = end.filter(|end| *end != End::Moved || is_of_node);
    let end = end.ok_or("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")?;
    let id = parse_integer(ask.args[2]).ok_or(NOT_INTEGER)?;
    let clients = ask.host.clients();
    let client = u64::try_from(id).ok().and_then(|id| clients.get(id));
    let blocked = client.and_then(|client| clients.unblock(&client).map(|place| (client, place)));
    if let Some((client, place)) = &blocked {
        ask.host.unblock(client, *place, end);
    }
    ask.reply.int(i64::from(blocked.is_some()));
    Ok(Effect::None)
}
