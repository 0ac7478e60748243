//! CLIENT TRACKING and what belongs to it: whether the connection is told of changes of what it may have cached.

use super::ask::{Ask, NOT_INTEGER, Outcome, Refusal, Row, SYNTAX, is_word};
use crate::session::{Effect, Keyspace};
use crate::tracking::{TrackingMode, TrackingOptions};
use resp::parse_integer;

pub(super) const ROWS: &[Row] = &[
    ("CLIENT|GETREDIR", getredir),
    ("CLIENT|TRACKINGINFO", trackinginfo),
    ("CLIENT|TRACKING", tracking),
    ("CLIENT|CACHING", caching),
    ("KV.TRACKING", tracking_for_node),
];

fn options(ask: &Ask<'_>, words: &[&[u8]]) -> Result<TrackingOptions, Refusal> {
    let mut options = TrackingOptions::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let has_more = !words.as_slice().is_empty();
        match () {
            () if has_more && is_word(word, "REDIRECT") => {
                if options.redirect.is_some() {
                    return Err("ERR A client can only redirect to a single other client".into());
                }
                let id = words.next().and_then(|id| parse_integer(id)).ok_or(NOT_INTEGER)?;
                let client = u64::try_from(id).ok().filter(|id| ask.host.clients().get(*id).is_some());
                let text = "ERR The client ID you want redirect to does not exist";
                options.redirect = Some(client.ok_or(text)?);
            }
            () if has_more && is_word(word, "PREFIX") => {
                options.prefixes.extend(words.next().map(|word| (*word).into()))
            }
            () if is_word(word, "BCAST") => options.is_broadcast = true,
            () if is_word(word, "OPTIN") => options.opt_in = true,
            () if is_word(word, "OPTOUT") => options.opt_out = true,
            () if is_word(word, "NOLOOP") => options.no_loop = true,
            () => return Err(SYNTAX),
        }
    }
    Ok(options)
}

fn tracking(ask: &mut Ask<'_>) -> Outcome {
    let args = ask.args;
    // The names that it is told of are those of all databases.
    if args[3..].iter().any(|word| is_word(word, "BCAST"))
        && let Some(denial) = ask.session.user().denies_all_databases(ask.spec)
    {
        return Err(denial.text().into());
    }
    set_mode(ask, args[2], &args[3..])
}

/// What a client of another node is to be told of, for which this connection was made.
fn tracking_for_node(ask: &mut Ask<'_>) -> Outcome {
    if ask.session.keyspace() != Keyspace::Stored {
        return Err("ERR this command is for other nodes".into());
    }
    let args = ask.args;
    set_mode(ask, args[1], &args[2..])
}

fn set_mode(ask: &mut Ask<'_>, word: &[u8], options_given: &[&[u8]]) -> Outcome {
    let options = options(ask, options_given)?;
    let mode = match word {
        word if is_word(word, "ON") => {
            if !ask.host.tracking().has_room(&options.prefixes) {
                return Err("ERR the prefixes that clients of this node are told of take too much memory".into());
            }
            Some(TrackingMode::begin(ask.session.tracking(), options)?)
        }
        word if is_word(word, "OFF") => None,
        _ => return Err(SYNTAX),
    };
    ask.session.set_tracking(mode, ask.host);
    ask.reply.ok();
    Ok(Effect::None)
}

fn caching(ask: &mut Ask<'_>) -> Outcome {
    let Some(mode) = ask.session.tracking_mut() else {
        return Err("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT \
                    mode enabled"
            .into());
    };
    let yes = match ask.args[2] {
        word if is_word(word, "YES") => true,
        word if is_word(word, "NO") => false,
        _ => return Err(SYNTAX),
    };
    mode.set_caching(yes)?;
    ask.reply.ok();
    Ok(Effect::None)
}

fn getredir(ask: &mut Ask<'_>) -> Outcome {
    ask.reply.int(redirect(ask));
    Ok(Effect::None)
}

/// The client that is told instead: 0 for none, -1 without tracking.
fn redirect(ask: &Ask<'_>) -> i64 {
    let mode = ask.session.tracking();
    mode.map_or(-1, |mode| mode.options().redirect.map_or(0, |client| client as i64))
}

fn trackinginfo(ask: &mut Ask<'_>) -> Outcome {
    let redirect = redirect(ask);
    let mode = ask.session.tracking();
    let flags = mode.map_or_else(|| vec!["off"], TrackingMode::flags);
    let prefixes = mode.map_or(&[][..], |mode| &mode.options().prefixes);
    let reply = &mut *ask.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.int(redirect);
    reply.bulk(b"prefixes");
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(Effect::None)
}
