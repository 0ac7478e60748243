//! Where a store is and who asks: `redis://user:password@host:port,host:port`, or `rediss://` with TLS.

use std::fmt;
use std::str::FromStr;

use crate::address::PORT_DEFAULT;
use crate::{Address, BadAddress, Secure};

/// Where `basalt start` listens for clients if nothing else is said.
const PORT_OF_NODE: u16 = 7000;

/// Who asks, as AUTH takes it. The password is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// None for the user of that name that every store has.
    pub user: Option<String>,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Login").field("user", &self.user).field("password", &"…").finish()
    }
}

impl Login {
    /// The arguments of AUTH.
    #[must_use]
    pub fn request(&self) -> Vec<Vec<u8>> {
        let words = [Some("AUTH"), self.user.as_deref(), Some(&self.password)];
        words.into_iter().flatten().map(|word| word.as_bytes().to_vec()).collect()
    }
}

/// Some nodes of a store, any of which is asked for the others, and who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreUrl {
    /// At least one.
    pub seeds: Vec<Address>,
    /// None where the store asks for no password.
    pub login: Option<Login>,
    /// None without TLS.
    pub secure: Option<Secure>,
}

impl StoreUrl {
    /// The same store, by other nodes.
    #[must_use]
    pub fn with_seeds(&self, seeds: Vec<Address>) -> Self {
        Self { seeds, ..self.clone() }
    }

    /// Reads the nodes of a Basalt: where no port is given, that of a node that is not told another.
    ///
    /// # Errors
    /// It is no address.
    pub fn of_nodes(text: &str) -> Result<Self, BadAddress> {
        Self::parse(text, PORT_OF_NODE)
    }

    fn parse(text: &str, port_default: u16) -> Result<Self, BadAddress> {
        let (secure, rest) = match text.strip_prefix("rediss://") {
            Some(rest) => (Some(Secure::default()), rest),
            None => (None, text.strip_prefix("redis://").unwrap_or(text)),
        };
        // The path of a URL is the number of a database, and there is one.
        let rest = rest.strip_suffix("/0").or_else(|| rest.strip_suffix('/')).unwrap_or(rest);
        let (login, places) = match rest.rsplit_once('@') {
            Some((login, places)) => (Some(self::login(login).ok_or_else(BadAddress::of_login)?), places),
            None => (None, rest),
        };
        if let Some((_, database)) = places.rsplit_once('/') {
            return Err(BadAddress::of_database(database));
        }
        let seeds = places.split(',').map(|place| Address::parse(place, port_default)).collect::<Result<_, _>>()?;
        Ok(Self { seeds, login, secure })
    }
}

impl From<Address> for StoreUrl {
    fn from(seed: Address) -> Self {
        Self { seeds: vec![seed], login: None, secure: None }
    }
}

impl FromStr for StoreUrl {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        Self::parse(text, PORT_DEFAULT)
    }
}

/// Shows the seeds, and neither user nor password.
impl fmt::Display for StoreUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, seed) in self.seeds.iter().enumerate() {
            write!(out, "{}{seed}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// `user:password` or `:password`, with `%xx` for what a URL cannot hold.
fn login(text: &str) -> Option<Login> {
    let (user, password) = text.split_once(':')?;
    let user = if user.is_empty() { None } else { Some(unescape(user)?) };
    Some(Login { user, password: unescape(password)? })
}

fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        out.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn urls() {
        for (text, shown, login) in [
            ("redis://a:1,b:2", "a:1,b:2", None),
            ("redis://127.0.0.1", "127.0.0.1:6379", None),
            ("redis://a:1/0", "a:1", None),
            ("redis://:secret@a:1,b:2/0", "a:1,b:2", Some((None, "secret"))),
            ("redis://me:p%40ss%3a@a:1,[::1]:2/", "a:1,[::1]:2", Some((Some("me"), "p@ss:"))),
            ("redis://:secret@a", "a:6379", Some((None, "secret"))),
            ("rediss://:secret@a:1,b:2", "a:1,b:2", Some((None, "secret"))),
        ] {
            let url: StoreUrl = text.parse().unwrap();
            assert_eq!(url.secure.is_some(), text.starts_with("rediss:"), "{text}");
            let found = url.login.as_ref().map(|login| (login.user.as_deref(), login.password.as_str()));
            assert_eq!((url.to_string().as_str(), found), (shown, login), "{text}");
            assert!(!format!("{url:?}").contains("secret"));
        }
        for (text, shown) in [("a", "a:7000"), ("redis://u:p@a,b:1", "a:7000,b:1"), ("[::1]", "[::1]:7000")] {
            assert_eq!(StoreUrl::of_nodes(text).unwrap().to_string(), shown, "{text}");
        }
        for text in ["", "redis://a:1/1", "redis://a:1,,b", "redis://secret@a:1", "redis://u:%4@a", "redis://u:%zz@a"] {
            let error = text.parse::<StoreUrl>().unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
