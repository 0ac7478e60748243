//! Users, their rules, and the decision whether a user may run a request.
//!
//! A user has passwords and one or more *selectors*. A selector says which commands, keys, channels and databases go
//! together. A request is allowed if one selector allows all of it. The rules are those of Redis 7.2, with the databases of
//! Valkey 9.1; texts of errors are those of Redis 7.0.15, as everywhere.
//!
//! All of it is pure. The shell keeps the users in an `AccessControl`, which the map of the store fills.
//!
//! Invariants: `User::of_rules(name, user.rules()) = user`; a user without restrictions is allowed everything that any user is.

mod access_control;
mod argument_list;
mod audit_event;
mod audited;
mod command_rules;
mod denial;
mod denial_log;
mod key_patterns;
mod login_delay;
mod logins;
mod password;
mod rule_error;
mod selector;
mod slow_hash;
#[cfg(test)]
mod tests;
mod user;
mod user_file;
mod users;

pub use access_control::AccessControl;
pub use audit_event::{AuditEvent, AuditKind, refusal_of, without_arguments};
pub use audited::audited;
pub use denial::{Denial, Subject};
pub(crate) use denial_log::noted;
pub use denial_log::{DenialLog, DenialReason, LoggedDenial, Where};
pub use login_delay::LoginDelay;
pub use logins::{Login, LoginCheck, Logins};
pub(crate) use password::hex;
pub use password::{Digest, Password};
pub use rule_error::RuleError;
pub use selector::Channels;
pub use user::{DEFAULT_USER, NewUser, User, without_passwords};
pub use user_file::{users_of_file, users_to_file};
pub use users::Users;
