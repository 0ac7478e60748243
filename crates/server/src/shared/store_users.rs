//! The users of the store on this node: those of the map, or as long as it has none those of the node's `aclfile`.

use cluster::{Map, Shared, UserRules};
use node::Config;
use node::acl::{AccessControl, DEFAULT_USER, LoginCheck, NewUser, User, Users, users_of_file};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Instant;
use vocab::Epoch;

/// The row of a map whose users are all gone: without any row it has had none yet, and a node has those of its `aclfile`. No user may be
/// called so. Nodes of earlier releases take it for a user, who may do nothing.
pub(crate) const NO_USERS: &str = ".no-users";
pub(crate) const NO_USERS_RULES: &[u8] = b"off resetchannels -@all";

/// What the users of this node were made of.
#[derive(Default)]
struct Applied {
    /// Those of the map.
    rules: Shared<UserRules>,
    /// The map's.
    epoch: Epoch,
}

/// The users of the store on this node.
pub(crate) struct StoreUsers {
    /// What sessions go by.
    pub(crate) control: AccessControl,
    /// Those of `aclfile`, until the store has had users.
    own: Mutex<Vec<Arc<User>>>,
    applied: Mutex<Applied>,
    /// A newer map has been applied.
    newer: Condvar,
    /// Passwords that are to be compared.
    checks: Mutex<Vec<LoginCheck>>,
    /// Held while the leader of the metadata group changes users.
    changing: Mutex<()>,
}

impl StoreUsers {
    /// `key`: a secret of the process.
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self {
            control: AccessControl::new(key),
            own: Mutex::default(),
            applied: Mutex::default(),
            newer: Condvar::new(),
            checks: Mutex::default(),
            changing: Mutex::default(),
        }
    }

    /// Reads `aclfile`, if there is one.
    pub(crate) fn load_own(&self, config: &Config, salt: &mut dyn FnMut() -> [u8; 16]) -> Result<(), String> {
        let path = config.text("aclfile").unwrap_or_default();
        if path.is_empty() {
            return Ok(());
        }
        let users = read_file(&path, config, salt)?;
        *self.own.lock() = users.into_iter().map(Arc::new).collect();
        self.control.set_users(Users::new(self.own()));
        Ok(())
    }

    /// The users of `aclfile`, as it was when the node started; none once the store has had some.
    pub(crate) fn own(&self) -> Vec<Arc<User>> {
        self.own.lock().clone()
    }

    /// Applies the users of a map. True: they are others.
    pub(crate) fn apply(&self, map: &Map) -> bool {
        let mut applied = self.applied.lock();
        applied.epoch = map.epoch;
        let is_new = !applied.rules.is_same(&map.users) && *applied.rules != *map.users;
        if is_new {
            let before = std::mem::replace(&mut applied.rules, map.users.clone());
            let users = self.control.users();
            let user = |(name, rules): (&String, &Vec<u8>)| {
                let known = users.get(name).filter(|_| before.get(name) == Some(rules));
                known.cloned().unwrap_or_else(|| Arc::new(read_user(name, rules)))
            };
            // They are the store's by now, or it had others before: they are not to come back when these are gone.
            if !map.users.is_empty() {
                self.own.lock().clear();
            }
            let all: Vec<Arc<User>> = match map.users.is_empty() {
                true => self.own(),
                false => map.users.iter().filter(|(name, _)| **name != NO_USERS).map(user).collect(),
            };
            self.control.set_users(Users::new(all));
        }
        self.newer.notify_all();
        is_new
    }

    /// Waits until the map of that epoch has been applied; false if that takes too long.
    pub(crate) fn wait_for(&self, epoch: Epoch, until: Instant) -> bool {
        let mut applied = self.applied.lock();
        while applied.epoch < epoch {
            if self.newer.wait_until(&mut applied, until).timed_out() {
                return applied.epoch >= epoch;
            }
        }
        true
    }

    /// A password is to be compared: by a thread, which `take_checks` is for.
    pub(crate) fn find_out(&self, check: LoginCheck) {
        self.checks.lock().push(check);
    }

    /// Passwords that are to be compared now.
    pub(crate) fn take_checks(&self) -> Vec<LoginCheck> {
        std::mem::take(&mut self.checks.lock())
    }

    /// Only one change at a time.
    pub(crate) fn begin_change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// Whether a client must log in.
    pub(crate) fn asks_password(&self, config: &Config) -> bool {
        !self.control.users().is_open().unwrap_or_else(|| !config.password_required())
    }
}

/// A user that cannot be read, because a later release has written it, may do nothing.
fn read_user(name: &str, rules: &[u8]) -> User {
    User::of_rules(name, rules).unwrap_or_else(|why| {
        log::error!("the user {name} may do nothing on this node, which cannot read its rules: {why}");
        User::new(name, false)
    })
}

/// The users of a file.
pub(crate) fn read_file(path: &str, config: &Config, salt: &mut dyn FnMut() -> [u8; 16]) -> Result<Vec<User>, String> {
    let text = std::fs::read(path).map_err(|e| format!("Error loading ACLs, opening file '{path}': {e}"))?;
    let all = config.new_users_have_all_channels();
    let users = users_of_file(path, &text, &mut NewUser { all, salt })?;
    for user in users.iter().filter(|user| !user.is_enabled() && **user.name() != *DEFAULT_USER) {
        log::warn!("the user {} of {path} cannot log in: its rules lack `on`", user.name());
    }
    Ok(users)
}
