//! A node's users, as its sessions see them.

use super::denial_log::DenialLog;
use super::login_delay::LoginDelay;
use super::logins::Logins;
use super::users::Users;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A node's users, what it has refused, and who tries to log in.
#[derive(Debug)]
pub struct AccessControl {
    users: ArcSwap<Users>,
    /// Rises with each change of `users`, after it: a session compares it with its own before each request.
    version: AtomicU64,
    /// What was refused.
    pub denials: DenialLog,
    /// Logins that take a while.
    pub logins: Logins,
    /// Addresses from which logins have failed.
    pub delay: LoginDelay,
}

impl AccessControl {
    /// Without users but `default`. `key`: a secret of the process.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self {
            users: ArcSwap::from_pointee(Users::default()),
            version: AtomicU64::new(1),
            denials: DenialLog::default(),
            logins: Logins::new(key),
            delay: LoginDelay::default(),
        }
    }

    /// The users as they are now.
    #[must_use]
    pub fn users(&self) -> Arc<Users> {
        self.users.load_full()
    }

    /// How often the users have changed.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// There are other users from now on.
    pub fn set_users(&self, users: Users) {
        self.users.store(Arc::new(users));
        self.version.fetch_add(1, Ordering::AcqRel);
    }
}
