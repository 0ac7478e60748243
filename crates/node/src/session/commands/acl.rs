//! ACL: what a node knows of users and their rights. What changes users is the shell's.

use super::ask::{Ask, NOT_INTEGER, Outcome, Row, is_word, shown, wrong_arguments};
use crate::acl::{User, Users, hex};
use crate::session::Effect;
use resp::table::{self, acl};
use resp::{Reply, parse_integer};
use std::sync::Arc;

/// Most bits of a password that ACL GENPASS makes.
const PASSWORD_BITS_MAX: i64 = 4096;
/// Refusals that ACL LOG shows unless it is told how many.
const SHOWN_DENIALS: i64 = 10;

pub(super) const ROWS: &[Row] = &[
    ("ACL|CAT", categories),
    ("ACL|DRYRUN", try_out),
    ("ACL|GENPASS", password),
    ("ACL|GETUSER", get),
    ("ACL|LIST", list),
    ("ACL|LOG", log),
    ("ACL|USERS", names),
    ("ACL|WHOAMI", whoami),
    ("KV.SCRIPTUSER", script_user),
];

/// A user as operators are shown it. The password of `default` may be a setting.
fn shown_user(ask: &Ask<'_>, users: &Users, user: &Arc<User>) -> Arc<User> {
    match users.is_of_settings(user) {
        true => Arc::new(User::of_settings(&ask.host.config().text("requirepass").unwrap_or_default())),
        false => user.clone(),
    }
}

fn categories(ask: &mut Ask<'_>) -> Outcome {
    match ask.args[2..] {
        [] => {
            ask.reply.array(acl::NAMES.len());
            acl::NAMES.iter().for_each(|(_, name)| ask.reply.bulk(name.as_bytes()));
        }
        [category] => {
            let unknown = || format!("ERR Unknown category '{}'", shown(&category[..category.len().min(128)]));
            let bit = acl::bit_of(category).ok_or_else(unknown)?;
            let of_it: Vec<String> =
                table::all().iter().filter(|spec| spec.acl & bit != 0).map(|spec| spec.shown_name()).collect();
            ask.reply.array(of_it.len());
            of_it.iter().for_each(|name| ask.reply.bulk(name.as_bytes()));
        }
        _ => return Err(wrong_arguments(ask, "ACL")),
    }
    Ok(Effect::None)
}

fn try_out(ask: &mut Ask<'_>) -> Outcome {
    let (name, request) = (ask.args[2], &ask.args[3..]);
    let users = ask.host.access_control().users();
    let user = users.named(name).ok_or_else(|| format!("ERR User '{}' not found", shown(name)))?;
    let row = table::lookup(request[0]);
    let row = row.and_then(|row| match request.get(1) {
        Some(word) if row.is_container() => table::subcommand(row, word),
        _ => Some(row),
    });
    let spec = row.ok_or_else(|| format!("ERR Command '{}' not found", shown(request[0])))?;
    if !spec.check_arity(request.len()) {
        return Err(table::wrong_arity(spec).into());
    }
    let database = ask.session.keyspace().number();
    match user.denies(spec, request, database) {
        None => ask.reply.ok(),
        Some(denial) => ask.reply.bulk(denial.text_of_trial(request).as_bytes()),
    }
    Ok(Effect::None)
}

fn password(ask: &mut Ask<'_>) -> Outcome {
    let bits = match ask.args[2..] {
        [] => 256,
        [bits] => parse_integer(bits).ok_or(NOT_INTEGER)?,
        _ => return Err(wrong_arguments(ask, "ACL")),
    };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
             {PASSWORD_BITS_MAX}"
        )
        .into());
    }
    let digits = (bits as usize).div_ceil(4);
    let mut random = vec![0; digits.div_ceil(2)];
    ask.host.fill_random(&mut random);
    ask.reply.bulk(&hex(&random).as_bytes()[..digits]);
    Ok(Effect::None)
}

fn get(ask: &mut Ask<'_>) -> Outcome {
    let users = ask.host.access_control().users();
    let Some(user) = users.named(ask.args[2]) else {
        ask.reply.null();
        return Ok(Effect::None);
    };
    let user = shown_user(ask, &users, user);
    let reply = &mut *ask.reply;
    let mut selectors = user.selector_parts().into_iter();
    let root = selectors.next().unwrap_or_default();
    reply.map(3 + root.len());
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().iter().for_each(|password| reply.bulk(password.text().as_bytes()));
    write_parts(&root, reply);
    reply.bulk(b"selectors");
    reply.array(selectors.len());
    for parts in selectors {
        reply.map(parts.len());
        write_parts(&parts, reply);
    }
    Ok(Effect::None)
}

fn write_parts(parts: &[(&str, Vec<u8>)], reply: &mut Reply) {
    for (name, text) in parts {
        reply.bulk(name.as_bytes());
        reply.bulk(text);
    }
}

fn list(ask: &mut Ask<'_>) -> Outcome {
    let users = ask.host.access_control().users();
    ask.reply.array(users.iter().len());
    for user in users.iter() {
        let line = [b"user ", user.name().as_bytes(), b" ", &shown_user(ask, &users, user).rules()].concat();
        ask.reply.bulk(&line);
    }
    Ok(Effect::None)
}

fn names(ask: &mut Ask<'_>) -> Outcome {
    let users = ask.host.access_control().users();
    ask.reply.array(users.iter().len());
    users.iter().for_each(|user| ask.reply.bulk(user.name().as_bytes()));
    Ok(Effect::None)
}

fn whoami(ask: &mut Ask<'_>) -> Outcome {
    ask.reply.bulk(ask.session.user().name().as_bytes());
    Ok(Effect::None)
}

fn script_user(ask: &mut Ask<'_>) -> Outcome {
    let name = std::str::from_utf8(ask.args[1]).unwrap_or("?");
    if !ask.session.run_scripts_as(name, ask.host) {
        return Err("ERR this command is for other nodes".into());
    }
    ask.reply.ok();
    Ok(Effect::None)
}

fn log(ask: &mut Ask<'_>) -> Outcome {
    let denials = &ask.host.access_control().denials;
    let count = match ask.args[2..] {
        [] => SHOWN_DENIALS,
        [word] if is_word(word, "RESET") => {
            denials.clear();
            ask.reply.ok();
            return Ok(Effect::None);
        }
        [count] => parse_integer(count).ok_or(NOT_INTEGER)?,
        _ => return Err(wrong_arguments(ask, "ACL")),
    };
    let shown = denials.newest(usize::try_from(count).unwrap_or(0));
    let now_ms = ask.now_ms();
    let reply = &mut *ask.reply;
    reply.array(shown.len());
    for denial in shown {
        reply.map(10);
        reply.bulk(b"count");
        reply.int(denial.count as i64);
        for (name, text) in [
            ("reason", denial.reason.word().as_bytes()),
            ("context", denial.place.word().as_bytes()),
            ("object", &denial.object[..]),
            ("username", denial.user.as_bytes()),
        ] {
            reply.bulk(name.as_bytes());
            reply.bulk(text);
        }
        reply.bulk(b"age-seconds");
        reply.double(now_ms.saturating_sub(denial.last_ms) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(denial.client.as_bytes());
        for (name, number) in [
            ("entry-id", denial.id),
            ("timestamp-created", denial.first_ms),
            ("timestamp-last-updated", denial.last_ms),
        ] {
            reply.bulk(name.as_bytes());
            reply.int(number as i64);
        }
    }
    Ok(Effect::None)
}
