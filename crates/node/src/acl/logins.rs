//! Whether a password is right. Where that takes a slow hash, a thread finds out, and the answer is remembered.
//!
//! What is not right at once is compared with a slow hash, even if there is no such user, or none with a slow hash: names cannot be told
//! by how long a refusal takes.
//!
//! What is remembered is keyed with a secret of the process: it tells nothing of the password without the process's memory.

use super::password::{Digest, Password};
use super::slow_hash::SlowHash;
use super::user::User;
use parking_lot::Mutex;
use std::collections::VecDeque;
use vocab::limits::{LOGINS_REMEMBERED_MAX, SLOW_HASHES_AT_ONCE};

/// A user's name and passwords and a given one, keyed.
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

    /// Whether a password is that of the user of a name; none: there is no such user.
    pub fn check(&self, name: &[u8], user: Option<&User>, given: Digest) -> Login {
        let quick = |own: &Password| !own.is_slow() && own.is(&given);
        let is_let_in = |user: &User| user.takes_any_password() || user.passwords().iter().any(quick);
        if user.is_some_and(|user| user.is_enabled() && is_let_in(user)) {
            return Login::Right;
        }
        let slow = slow_passwords(user);
        let mark = self.mark(name, &slow, &given);
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
    pub fn check_waiting(&self, name: &[u8], user: Option<&User>, given: Digest) -> bool {
        match self.check(name, user, given) {
            Login::Right => true,
            Login::Wrong => false,
            Login::Unknown(check) => check.run(self),
            Login::Busy => slow_passwords(user).iter().any(|own| own.is(&given)),
        }
    }

    fn mark(&self, name: &[u8], passwords: &[Password], given: &Digest) -> Mark {
        let mut mac = hmac_sha256::HMAC::new(self.key);
        mac.update(given.bytes());
        mac.update(hmac_sha256::Hash::hash(name));
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

/// The slow hashes that are compared with: those of a user who may log in, or one that is of no password.
fn slow_passwords(user: Option<&User>) -> Vec<Password> {
    let own = user.filter(|user| user.is_enabled()).map(User::passwords).unwrap_or_default();
    let slow: Vec<Password> = own.iter().filter(|own| own.is_slow()).cloned().collect();
    if slow.is_empty() { vec![Password::Slow(SlowHash::of_nothing())] } else { slow }
}
