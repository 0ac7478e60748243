//! Whether a password is right. Where that takes a slow hash, a thread finds out, and the answer is remembered.
//!
//! What is remembered is keyed with a secret of the process: it tells nothing of the password without the process's memory.

use super::password::{Digest, Password};
use super::user::User;
use parking_lot::Mutex;
use std::collections::VecDeque;
use vocab::limits::{LOGINS_REMEMBERED_MAX, SLOW_HASHES_AT_ONCE};

/// A user's passwords and a given one, keyed.
type Mark = [u8; 32];

/// What is known of a login.
#[derive(Debug)]
pub enum Login {
    /// The password is the user's.
    Right,
    /// It is not, or the user may not log in.
    Wrong,
    /// A thread is to find out, by `LoginCheck::run`, and the login is tried again then.
    Unknown(LoginCheck),
    /// As many threads find out as may: it is to be tried again.
    Busy,
}

/// A comparison that takes a while.
#[derive(Debug)]
pub struct LoginCheck {
    passwords: Vec<Password>,
    given: Digest,
    mark: Mark,
}

impl LoginCheck {
    /// Compares, and has `logins` remember the outcome.
    pub fn run(self, logins: &Logins) -> bool {
        let is_right = self.passwords.iter().any(|own| own.is(&self.given));
        logins.found(self.mark, is_right);
        is_right
    }
}

/// The logins of a node.
#[derive(Debug)]
pub struct Logins {
    key: [u8; 32],
    state: Mutex<Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    right: VecDeque<Mark>,
    wrong: VecDeque<Mark>,
    /// Comparisons under way.
    running: Vec<Mark>,
}

impl Logins {
    /// Of a process with that secret.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self { key, state: Mutex::default() }
    }

    /// Whether a password is a user's.
    pub fn check(&self, user: &User, given: Digest) -> Login {
        if !user.is_enabled() {
            return Login::Wrong;
        }
        let quick = |own: &Password| !own.is_slow() && own.is(&given);
        if user.takes_any_password() || user.passwords().iter().any(quick) {
            return Login::Right;
        }
        let slow: Vec<Password> = user.passwords().iter().filter(|own| own.is_slow()).cloned().collect();
        if slow.is_empty() {
            return Login::Wrong;
        }
        let mark = self.mark(&slow, &given);
        let mut state = self.state.lock();
        if state.right.contains(&mark) {
            return Login::Right;
        }
        if state.wrong.contains(&mark) {
            return Login::Wrong;
        }
        if state.running.len() >= SLOW_HASHES_AT_ONCE || state.running.contains(&mark) {
            return Login::Busy;
        }
        state.running.push(mark);
        Login::Unknown(LoginCheck { passwords: slow, given, mark })
    }

    /// The same, where a thread may wait.
    pub fn check_waiting(&self, user: &User, given: Digest) -> bool {
        match self.check(user, given) {
            Login::Right => true,
            Login::Wrong => false,
            Login::Unknown(check) => check.run(self),
            Login::Busy => user.passwords().iter().any(|own| own.is(&given)),
        }
    }

    fn mark(&self, passwords: &[Password], given: &Digest) -> Mark {
        let mut mac = hmac_sha256::HMAC::new(self.key);
        mac.update(given.bytes());
        passwords.iter().for_each(|password| mac.update(password.text()));
        mac.finalize()
    }

    fn found(&self, mark: Mark, is_right: bool) {
        let mut state = self.state.lock();
        state.running.retain(|running| *running != mark);
        let known = if is_right { &mut state.right } else { &mut state.wrong };
        known.push_back(mark);
        if known.len() > LOGINS_REMEMBERED_MAX {
            known.pop_front();
        }
    }
}
