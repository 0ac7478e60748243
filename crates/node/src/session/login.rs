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
        let user = users.named(self.user).cloned();
        if let Some(user) = user.as_ref().filter(|user| users.is_of_settings(user)) {
            let is_right = host.config().lets_default_in(self.password);
            return if is_right { Known::Right(user.clone()) } else { Known::Wrong };
        }
        match host.access_control().logins.check(self.user, user.as_deref(), Digest::of(self.password)) {
            Login::Right => user.map_or(Known::Wrong, Known::Right),
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
    /// A thread is to find out whether it is this user's; none: there is none of that name.
    Unknown(Option<Arc<User>>, LoginCheck),
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

/// What has become of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoggedIn {
    Done,
    /// Name or password is wrong.
    Wrong,
    /// Too many wrong passwords have come from its address: this one was not looked at.
    TooSoon,
}

/// Logs a connection in.
pub(super) fn log_in(session: &mut Session, credentials: Credentials<'_>, word: &[u8], host: &dyn Host) -> LoggedIn {
    let next_ms = session.entry.ip().and_then(|ip| host.access_control().delay.next_ms(ip));
    // It was held back before; in a transaction that was when it was queued, and others have failed since.
    let is_early = next_ms.is_some_and(|next_ms| next_ms > host.now_us() / 1000);
    let known = (!is_early).then(|| credentials.known(session, host));
    // A transaction is not held back: what was found out when it was queued may be forgotten, and to compare takes long.
    let is_unknown = session.in_multi() && matches!(known, Some(Known::Unknown(..) | Known::Busy));
    let is_slowed = is_early || is_unknown;
    let is_rescued = matches!(known, Some(Known::Rescued));
    let user = match known {
        Some(Known::Right(user)) => Some(user),
        Some(Known::Rescued) => Some(Arc::new(User::unrestricted(DEFAULT_USER))),
        // It was held back for too long, or what was found out is forgotten already.
        Some(Known::Unknown(user, check)) if !is_unknown => {
            let is_right = check.run(&host.access_control().logins);
            user.filter(|_| is_right)
        }
        Some(Known::Wrong | Known::Busy | Known::Unknown(..)) | None => None,
    };
    let refusal = if is_slowed { "too many wrong passwords from there" } else { "wrong user or password" };
    let noted_user = noted(credentials.user);
    let name = String::from_utf8_lossy(&noted_user);
    host.audit(&AuditEvent {
        kind: AuditKind::Login,
        user: name.clone(),
        address: session.entry.addr.as_str().into(),
        what: String::from_utf8_lossy(word).to_ascii_lowercase().into(),
        refusal: user.is_none().then(|| refusal.into()),
    });
    let Some(user) = user else {
        if is_slowed {
            return LoggedIn::TooSoon;
        }
        if let Some(ip) = session.entry.ip() {
            host.access_control().delay.failed(ip, host.now_us() / 1000);
        }
        let place = if session.in_multi() { Where::Multi } else { Where::Toplevel };
        note(session, (DenialReason::Auth, word.to_vec()), &name, place, host);
        return LoggedIn::Wrong;
    };
    session.log_in(user);
    session.set_rescued(is_rescued);
    LoggedIn::Done
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::session::testhost::TestHost;
    use crate::session::{Admission, Host as _, Session, admit};
    use resp::{Reply, table};
    use std::net::Ipv4Addr;

    /// What a request is answered, once its password has been compared.
    fn ask(session: &mut Session, line: &str, host: &TestHost) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut reply = Reply::default();
        for _ in 0..2 {
            if let Admission::Answered(_) = admit(session, table::resolve(&args), &args, host, &mut reply) {
                return String::from_utf8(reply.buf).unwrap();
            }
        }
        "it is held back".to_owned()
    }

    /// They were all queued before one had failed.
    #[test]
    fn wrong_passwords_of_many_transactions_count_as_often_as_others() {
        let host = TestHost::new();
        let mut sessions: Vec<Session> = (1..=40).map(|port| host.connect(port)).collect();
        for session in &mut sessions {
            assert_eq!(ask(session, "MULTI", &host), "+OK\r\n");
            assert_eq!(ask(session, "AUTH alice wrong", &host), "+QUEUED\r\n");
        }
        let answers: Vec<String> = sessions.iter_mut().map(|session| ask(session, "EXEC", &host)).collect();
        let looked_at = answers.iter().filter(|answer| answer.starts_with("*1\r\n-WRONGPASS ")).count();
        assert_eq!(looked_at, 11, "ten are free: {answers:?}");
        assert!(answers[11..].iter().all(|answer| answer.contains("-ERR too many wrong passwords")), "{answers:?}");
        let (delay, now_ms) = (&host.access_control().delay, host.now_us() / 1000);
        assert_eq!(delay.until_ms(Ipv4Addr::LOCALHOST.into(), now_ms), Some(now_ms + 25));
        assert_eq!(ask(&mut sessions[0], "AUTH default any", &host), "it is held back");
    }

    /// A name that is none, one that may not log in, and one whose password is not kept slowly are refused as others are.
    #[test]
    fn no_name_is_told_by_a_refusal_at_once() {
        let host = TestHost::new();
        let digest = crate::acl::Digest::of(b"right").hex();
        for rules in ["off >right", &format!("on #{digest}"), "on", "on >right"] {
            let words = format!("ACL SETUSER alice reset {rules}");
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            host.set_user(&words, &mut Reply::default());
            for name in ["alice", "nosuch"] {
                let mut session = host.connect(1);
                let line = format!("AUTH {name} wrong-{}", rules.len());
                let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
                let mut admit_it = || admit(&mut session, table::resolve(&args), &args, &host, &mut Reply::default());
                assert!(matches!(admit_it(), Admission::Hold { .. }), "{line} ({rules})");
                assert!(matches!(admit_it(), Admission::Answered(_)), "{line} ({rules})");
            }
        }
    }
}
