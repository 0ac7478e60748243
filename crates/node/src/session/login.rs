//! AUTH and HELLO: whose the password is that a client gives.
//!
//! Where that takes a while the request is held back, while a thread finds out. So is one from an address from which too many wrong
//! passwords have come. The same request is admitted again then.

use super::rights::note;
use super::{Host, Session};
use crate::acl::{AuditEvent, AuditKind, DEFAULT_USER, DenialReason, Digest, Login, LoginCheck, User, Where, noted};
use resp::table::{CommandSpec, behaviour};
use std::sync::Arc;

/// A request is held back for so long at most, in ms; its thread has it looked at earlier.
const HELD_MS: u64 = 5_000;
/// The word before name and password in a HELLO.
const OPTION: &[u8] = b"AUTH";
/// It is tried again after so long where too many passwords are being compared, in ms.
const TRIED_AGAIN_MS: u64 = 20;

/// Name and password.
#[derive(Clone, Copy)]
pub(super) struct Credentials<'a> {
    pub(super) user: &'a [u8],
    pub(super) password: &'a [u8],
}

impl<'a> Credentials<'a> {
    /// Those in an AUTH or a HELLO, if there are any.
    fn of(spec: &CommandSpec, args: &[&'a [u8]]) -> Option<Self> {
        match args {
            [_, _] | [_, _, _] if spec.does(behaviour::GREETS) => None,
            [_, password] => Some(Self { user: DEFAULT_USER.as_bytes(), password }),
            [_, user, password] => Some(Self { user, password }),
            // HELLO version [AUTH user password] [SETNAME name]
            // One that is malformed lets no one in.
            [_, _, options @ ..] => HelloOptions::parse(options).ok()?.login,
            _ => None,
        }
    }

    fn known(self, session: &Session, host: &dyn Host) -> Known {
        let users = host.access_control().users();
        if self.user == DEFAULT_USER.as_bytes() && rescues(self.password, session, host) {
            return Known::Rescued;
        }
        let Some(user) = users.named(self.user).cloned() else { return Known::Wrong };
        if users.is_of_settings(&user) {
            return if host.config().lets_default_in(self.password) { Known::Right(user) } else { Known::Wrong };
        }
        match host.access_control().logins.check(&user, Digest::of(self.password)) {
            Login::Right => Known::Right(user),
            Login::Wrong => Known::Wrong,
            Login::Unknown(check) => Known::Unknown(user, check),
            Login::Busy => Known::Busy,
        }
    }
}

/// What a HELLO has behind its version.
#[derive(Default)]
pub(super) struct HelloOptions<'a> {
    pub(super) login: Option<Credentials<'a>>,
    pub(super) own_name: Option<&'a [u8]>,
}

impl<'a> HelloOptions<'a> {
    /// Of several of a kind the last one counts, as in Redis. The error is the word that is no option.
    pub(super) fn parse(mut options: &[&'a [u8]]) -> Result<Self, &'a [u8]> {
        let mut found = Self::default();
        while let [option, rest @ ..] = options {
            options = match rest {
                [user, password, rest @ ..] if option.eq_ignore_ascii_case(OPTION) => {
                    found.login = Some(Credentials { user, password });
                    rest
                }
                [name, rest @ ..] if option.eq_ignore_ascii_case(b"SETNAME") => {
                    found.own_name = Some(*name);
                    rest
                }
                _ => return Err(option),
            };
        }
        Ok(found)
    }
}

/// What is known of credentials.
enum Known {
    Right(Arc<User>),
    /// It is `recovery-password`.
    Rescued,
    Wrong,
    /// A thread is to find out whether it is this user's.
    Unknown(Arc<User>, LoginCheck),
    /// As many threads find out as may.
    Busy,
}

/// Whether a password is `recovery-password`, and the client on this machine.
pub(super) fn rescues(password: &[u8], session: &Session, host: &dyn Host) -> bool {
    let is_local = session.entry.ip().is_some_and(|ip| ip.to_canonical().is_loopback());
    is_local && host.config().recovery_password_is(password)
}

/// Whether an AUTH or HELLO gives a password.
pub(super) fn gives_password(spec: &CommandSpec, args: &[&[u8]]) -> bool {
    Credentials::of(spec, args).is_some()
}

/// Until when an AUTH or HELLO is held back, in ms since the epoch; none if it can be answered.
#[cold]
pub(super) fn held_until(session: &Session, spec: &CommandSpec, args: &[&[u8]], host: &dyn Host) -> Option<u64> {
    let credentials = Credentials::of(spec, args)?;
    let now_ms = host.now_us() / 1000;
    let delayed = session.entry.ip().and_then(|ip| host.access_control().delay.until_ms(ip, now_ms));
    if delayed.is_some() {
        return delayed;
    }
    match credentials.known(session, host) {
        Known::Unknown(_, check) => {
            host.find_out(check);
            Some(now_ms + HELD_MS)
        }
        Known::Busy => Some(now_ms + TRIED_AGAIN_MS),
        Known::Right(_) | Known::Rescued | Known::Wrong => None,
    }
}

/// Logs a connection in. False: name or password is wrong.
pub(super) fn log_in(session: &mut Session, credentials: Credentials<'_>, word: &[u8], host: &dyn Host) -> bool {
    let known = credentials.known(session, host);
    let is_rescued = matches!(known, Known::Rescued);
    let user = match known {
        Known::Right(user) => Some(user),
        Known::Rescued => Some(Arc::new(User::unrestricted(DEFAULT_USER))),
        // It was held back for too long, or what was found out is forgotten already.
        Known::Unknown(user, check) => check.run(&host.access_control().logins).then_some(user),
        Known::Wrong | Known::Busy => None,
    };
    let noted_user = noted(credentials.user);
    let name = String::from_utf8_lossy(&noted_user);
    host.audit(&AuditEvent {
        kind: AuditKind::Login,
        user: name.clone(),
        address: session.entry.addr.as_str().into(),
        what: String::from_utf8_lossy(word).to_ascii_lowercase().into(),
        refusal: user.is_none().then(|| "wrong user or password".into()),
    });
    let Some(user) = user else {
        if let Some(ip) = session.entry.ip() {
            host.access_control().delay.failed(ip, host.now_us() / 1000);
        }
        let place = if session.in_multi() { Where::Multi } else { Where::Toplevel };
        note(session, (DenialReason::Auth, word.to_vec()), &name, place, host);
        return false;
    };
    session.log_in(user);
    session.set_rescued(is_rescued);
    true
}
