//! All users as of one moment.

use super::user::{DEFAULT_USER, User};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All users as of one moment.
#[derive(Debug)]
pub struct Users {
    /// By name. One is `default`.
    all: BTreeMap<Arc<str>, Arc<User>>,
    /// Whether `default` has rules of its own. If not it may do everything, and its password is the setting `requirepass`.
    rules_of_default: bool,
}

impl Default for Users {
    fn default() -> Self {
        Self::new(std::iter::empty())
    }
}

impl Users {
    /// These, and `default`.
    pub fn new(users: impl IntoIterator<Item = Arc<User>>) -> Self {
        let mut all: BTreeMap<Arc<str>, Arc<User>> =
            users.into_iter().map(|user| (user.name().clone(), user)).collect();
        let rules_of_default = all.contains_key(DEFAULT_USER);
        let default = || Arc::new(User::unrestricted(DEFAULT_USER));
        all.entry(DEFAULT_USER.into()).or_insert_with(default);
        Self { all, rules_of_default }
    }

    /// The user of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<User>> {
        self.all.get(name)
    }

    /// The same by bytes, which a client has sent.
    #[must_use]
    pub fn named(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.get(std::str::from_utf8(name).ok()?)
    }

    /// Whether a user is `default` without rules of its own: the settings say what its password is.
    #[must_use]
    pub fn is_of_settings(&self, user: &User) -> bool {
        !self.rules_of_default && **user.name() == *DEFAULT_USER
    }

    /// The user of connections that have not logged in.
    #[must_use]
    pub fn default_user(&self) -> Arc<User> {
        self.all.get(DEFAULT_USER).cloned().unwrap_or_else(|| Arc::new(User::unrestricted(DEFAULT_USER)))
    }

    /// Whether connections are let in that have not logged in. None: as the setting `requirepass` says.
    #[must_use]
    pub fn is_open(&self) -> Option<bool> {
        let default = self.all.get(DEFAULT_USER).filter(|_| self.rules_of_default)?;
        Some(default.is_enabled() && default.takes_any_password())
    }

    /// Whether `default` has rules of its own.
    #[must_use]
    pub fn rules_of_default(&self) -> bool {
        self.rules_of_default
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.all.values()
    }
}
