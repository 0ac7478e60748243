//! What a client's certificate says of it, and the user that it is logged in as.

use crate::acl::{User, Users};
use crate::config::Config;
use std::sync::Arc;

/// The names in a client's certificate, which is of an authority that this node trusts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownCertificate {
    /// The common name.
    pub common_name: Option<String>,
    /// The alternative names.
    pub names: Vec<String>,
}

impl ShownCertificate {
    /// The name of the user that the client is logged in as: `tls-auth-clients-user` says where it stands. `None`: the client
    /// logs in by itself.
    #[must_use]
    pub fn user(&self, config: &Config) -> Option<&str> {
        match config.text("tls-auth-clients-user")?.as_str() {
            "CN" => self.common_name.as_deref(),
            "SAN" => self.names.first().map(String::as_str),
            _ => None,
        }
    }

    /// That user, if there is one that is on.
    #[must_use]
    pub fn user_among(&self, users: &Users, config: &Config) -> Option<Arc<User>> {
        users.get(self.user(config)?).filter(|user| user.is_enabled()).cloned()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_setting_says_which_name_is_the_users() {
        let names = vec!["alice@example.org".to_owned(), "alice.example".to_owned()];
        let shown = ShownCertificate { common_name: Some("alice".to_owned()), names };
        for (word, user) in [("off", None), ("cn", Some("alice")), ("SAN", Some("alice@example.org"))] {
            let config = Config::start([("tls-auth-clients-user", word)]).unwrap();
            assert_eq!(shown.user(&config), user, "{word}");
            assert_eq!(ShownCertificate::default().user(&config), None);
        }
    }
}
