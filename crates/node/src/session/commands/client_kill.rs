//! CLIENT KILL, in its old form (an address) and its new one (filters).

use super::ask::{Ask, Outcome, Refusal, SYNTAX, is_word, shown};
use super::client_list::{ClientType, client_type};
use crate::acl::Users;
use crate::session::{ClientEntry, Effect};
use resp::parse_integer;
use std::collections::BTreeMap;

/// Which clients are killed: those that all given filters fit.
#[derive(Default)]
struct Filter<'a> {
    id: Option<u64>,
    addr: Option<&'a [u8]>,
    laddr: Option<&'a [u8]>,
    kind: Option<ClientType>,
    user: Option<&'a [u8]>,
    /// Those that are connected for so long.
    max_age_s: Option<u64>,
    skip_me: bool,
}

impl Filter<'_> {
    fn fits(&self, client: &ClientEntry, me: u64, now_ms: u64) -> bool {
        // Whose client it is, and what kind, the other node knows.
        let may_be_meant = !client.is_of_node() || self.id.is_some() || self.addr.is_some();
        may_be_meant
            && self.id.is_none_or(|id| client.id == id)
            && self.addr.is_none_or(|addr| client.addr.as_bytes() == addr)
            && self.laddr.is_none_or(|laddr| client.laddr.as_bytes() == laddr)
            && self.kind.is_none_or(|kind| kind.fits(client))
            && self.user.is_none_or(|user| client.user().as_bytes() == user)
            && self.max_age_s.is_none_or(|age_s| client.age_s(now_ms) >= age_s)
            && !(self.skip_me && client.id == me)
    }
}

pub(super) fn kill(ask: &mut Ask<'_>) -> Outcome {
    if let [_, _, addr] = *ask.args {
        let filter = Filter { addr: Some(addr), ..Filter::default() };
        if apply(ask, &filter) == 0 {
            return Err("ERR No such client".into());
        }
        ask.reply.ok();
        return Ok(Effect::None);
    }
    let filter = parse(&ask.args[2..], &ask.host.access_control().users())?;
    let killed = apply(ask, &filter);
    ask.reply.int(killed);
    Ok(Effect::None)
}

fn parse<'a>(options: &[&'a [u8]], users: &Users) -> Result<Filter<'a>, Refusal> {
    let mut filter = Filter { skip_me: true, ..Filter::default() };
    for pair in options.chunks(2) {
        let [option, value] = *pair else { return Err(SYNTAX) };
        if is_word(option, "ID") {
            let id = parse_integer(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
            filter.id = Some(id.ok_or("ERR client-id should be greater than 0")?);
        } else if is_word(option, "TYPE") {
            filter.kind = Some(client_type(value)?);
        } else if is_word(option, "ADDR") {
            filter.addr = Some(value);
        } else if is_word(option, "LADDR") {
            filter.laddr = Some(value);
        } else if is_word(option, "USER") {
            if users.named(value).is_none() {
                return Err(format!("ERR No such user '{}'", shown(value)).into());
            }
            filter.user = Some(value);
        } else if is_word(option, "MAXAGE") {
            let age_s = parse_integer(value).ok_or("ERR maxage is not an integer or out of range")?;
            let age_s = u64::try_from(age_s).ok().filter(|age_s| *age_s > 0);
            filter.max_age_s = Some(age_s.ok_or("ERR maxage should be greater than 0")?);
        } else if is_word(option, "SKIPME") && (is_word(value, "YES") || is_word(value, "NO")) {
            filter.skip_me = is_word(value, "YES");
        } else {
            return Err(SYNTAX);
        }
    }
    Ok(filter)
}

/// Kills the clients that fit and counts them. The one that asks is closed when it has its answer.
fn apply(ask: &mut Ask<'_>, filter: &Filter<'_>) -> i64 {
    let (me, now_ms) = (ask.session.entry().id, ask.now_ms());
    let (mut killed, mut workers) = (0, BTreeMap::new());
    for client in ask.host.clients().all() {
        if !filter.fits(&client, me, now_ms) {
            continue;
        }
        killed += 1;
        if client.id == me {
            ask.session.close();
        } else {
            ask.host.clients().kill(&client);
            workers.insert(client.worker, client);
        }
    }
    // Each looks at all its connections.
    workers.values().for_each(|client| ask.host.wake(client));
    killed
}
