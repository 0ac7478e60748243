//! HELLO and AUTH: who the client is and what it speaks.

use super::ask::{Ask, Outcome, Refusal, Row, shown};
use super::client::set_name;
use crate::session::login::{Credentials, HelloOptions, LoggedIn, log_in, rescues};
use crate::session::{Effect, REDIS_VERSION};
use resp::{Proto, parse_integer};

const WRONGPASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const TOO_SOON: &str = "ERR too many wrong passwords have come from this address: log in again in a few seconds";
const HELLO_NOAUTH: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
     <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version \
     at the same time";
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. Are you \
     sure your configuration is correct?";

pub(super) const ROWS: &[Row] = &[("HELLO", hello), ("AUTH", auth)];

fn auth(ask: &mut Ask<'_>) -> Outcome {
    match *ask.args {
        [_, password] if default_takes_any_password(ask) && !rescues(password, ask.session, ask.host) => {
            return Err(NO_PASSWORD.into());
        }
        [_, password] => authenticate(ask, b"default", password)?,
        [_, user, password] => authenticate(ask, user, password)?,
        _ => return Err("ERR syntax error".into()),
    }
    ask.reply.ok();
    Ok(Effect::None)
}

fn default_takes_any_password(ask: &Ask<'_>) -> bool {
    let users = ask.host.access_control().users();
    match users.rules_of_default() {
        true => users.default_user().takes_any_password(),
        false => !ask.host.config().password_required(),
    }
}

fn authenticate(ask: &mut Ask<'_>, user: &[u8], password: &[u8]) -> Result<(), Refusal> {
    match log_in(ask.session, Credentials { user, password }, ask.args[0], ask.host) {
        LoggedIn::Done => Ok(()),
        LoggedIn::Wrong => Err(WRONGPASS.into()),
        LoggedIn::TooSoon => Err(TOO_SOON.into()),
    }
}

fn hello(ask: &mut Ask<'_>) -> Outcome {
    let proto = match ask.args.get(1).map(|version| parse_integer(version)) {
        None => None,
        Some(None) => return Err("ERR Protocol version is not an integer or out of range".into()),
        Some(Some(2)) => Some(Proto::Resp2),
        Some(Some(3)) => Some(Proto::Resp3),
        Some(Some(_)) => return Err("NOPROTO unsupported protocol version".into()),
    };
    let options = HelloOptions::parse(ask.args.get(2..).unwrap_or_default());
    let HelloOptions { login, own_name } =
        options.map_err(|option| format!("ERR Syntax error in HELLO option '{}'", shown(option)))?;
    if let Some(Credentials { user, password }) = login {
        authenticate(ask, user, password)?;
    }
    if !ask.session.authenticated(ask.host) {
        return Err(HELLO_NOAUTH.into());
    }
    if let Some(name) = own_name {
        set_name(ask, name)?;
    }
    if let Some(proto) = proto {
        ask.session.set_proto(proto);
        ask.reply.proto = proto;
    }
    let reply = &mut *ask.reply;
    reply.map(7);
    for (field, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.int(if ask.session.proto() == Proto::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.int(ask.session.entry().id as i64);
    let mode = if ask.session.keyspace().database().is_some() { "standalone" } else { "cluster" };
    for (field, value) in [("mode", mode), ("role", "master")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    Ok(Effect::None)
}
