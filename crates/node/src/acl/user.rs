//! A user: name, passwords, selectors.

use super::argument_list::{merged, words};
use super::denial::{Denial, Subject};
use super::password::{Digest, Password};
use super::rule_error::RuleError;
use super::selector::{Channels, Selector};
use super::slow_hash::SlowHash;
use resp::table::CommandSpec;
use std::borrow::Cow;
use std::sync::Arc;
use vocab::limits::{USER_CHANGE_BYTES_MAX, USER_PASSWORDS_MAX, USER_RULES_BYTES_MAX, USER_SELECTORS_MAX};

/// The user that a connection has which has not logged in.
pub const DEFAULT_USER: &str = "default";

/// Rules by which one node asks another to keep, or to remove, the password of a digest. No client may send them.
const KEEP_DIGEST: &[u8] = b"=+";
const REMOVE_DIGEST: &[u8] = b"=-";

/// What makes new parts of users.
pub struct NewUser<'a> {
    /// Whether new users and selectors may use all channels: `acl-pubsub-default`.
    pub all: bool,
    /// Makes the salt of a password's hash.
    pub salt: &'a mut dyn FnMut() -> [u8; 16],
}

/// Whether a user's DUMP payloads are checked by RESTORE. Here they always are: the word is kept for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sanitize {
    Unsaid,
    Yes,
    Skip,
}

/// A user.
///
/// Invariant: `selectors` is not empty; the first one has the rules that stand in no parentheses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: Arc<str>,
    enabled: bool,
    any_password: bool,
    sanitize: Sanitize,
    passwords: Vec<Password>,
    selectors: Vec<Selector>,
}

impl User {
    /// One who may do nothing and cannot log in.
    #[must_use]
    pub fn new(name: &str, all_channels: bool) -> Self {
        Self {
            name: name.into(),
            enabled: false,
            any_password: false,
            sanitize: Sanitize::Unsaid,
            passwords: Vec::new(),
            selectors: vec![Selector::new(all_channels)],
        }
    }

    /// One who may do everything, with any password.
    #[must_use]
    pub fn unrestricted(name: &str) -> Self {
        let mut user = Self::new(name, true);
        (user.enabled, user.any_password) = (true, true);
        let root = &mut user.selectors[0];
        root.keys.set_all(true);
        root.commands.set_all(true);
        user
    }

    /// `default`, as long as it has no rules: `requirepass` is its password, or it takes any if that is empty.
    #[must_use]
    pub fn of_settings(requirepass: &str) -> Self {
        let mut user = Self::unrestricted(DEFAULT_USER);
        if !requirepass.is_empty() {
            user.any_password = false;
            user.passwords = vec![Password::Digest(Digest::of(requirepass.as_bytes()))];
        }
        user
    }

    /// The user whose rules are such a text. The error names the rule that cannot be read.
    pub fn of_rules(name: &str, rules: &[u8]) -> Result<Self, String> {
        let words = super::argument_list::words(rules);
        let mut user = Self::new(name, false);
        // No password is in clear.
        let salt = &mut || [0; 16];
        user.change(&words, &mut NewUser { all: false, salt })?;
        Ok(user)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether it may log in.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether every password is right.
    #[must_use]
    pub fn takes_any_password(&self) -> bool {
        self.any_password
    }

    /// What is kept of its passwords.
    #[must_use]
    pub fn passwords(&self) -> &[Password] {
        &self.passwords
    }

    /// Whether there is anything that it may not do.
    #[must_use]
    pub fn is_restricted(&self) -> bool {
        !self.selectors.iter().any(Selector::is_unrestricted)
    }

    /// Whether it may use every channel.
    #[must_use]
    pub fn has_all_channels(&self) -> bool {
        self.channels().any(|channels| channels.all)
    }

    /// The channels of each selector.
    pub fn channels(&self) -> impl Iterator<Item = &Channels> {
        self.selectors.iter().map(|selector| &selector.channels)
    }

    /// What of a request it may not do, if anything: what the selector says that comes furthest. `database`: the number of the
    /// client's.
    pub fn denies(&self, spec: &'static CommandSpec, args: &[&[u8]], database: u16) -> Option<Denial> {
        let mut worst: Option<Denial> = None;
        for selector in &self.selectors {
            let denial = selector.denies(spec, args, database)?;
            if worst.is_none_or(|worst| denial.subject > worst.subject) {
                worst = Some(denial);
            }
        }
        worst
    }

    /// Why it may not do what is about all databases, if it may not.
    #[must_use]
    pub fn denies_all_databases(&self, spec: &'static CommandSpec) -> Option<Denial> {
        (!self.has_all_databases()).then_some(Denial { spec, subject: Subject::Database })
    }

    /// Whether it may do what is about all databases.
    #[must_use]
    pub fn has_all_databases(&self) -> bool {
        self.selectors.iter().any(Selector::has_all_databases)
    }

    /// Applies rules, all or none. The error is the text of a reply without its code.
    pub fn change(&mut self, rules: &[&[u8]], new: &mut NewUser<'_>) -> Result<(), String> {
        check_length(rules).map_err(|error| error.text().to_owned())?;
        let rules = merged(rules).map_err(|open| unmatched(open) + ".")?;
        let mut changed = self.clone();
        for rule in &rules {
            changed.apply(rule, new).map_err(|error| refused(rule, error))?;
        }
        if changed.rules().len() > USER_RULES_BYTES_MAX {
            return Err(RuleError::TooLong.text().to_owned());
        }
        *self = changed;
        Ok(())
    }

    /// The same for a line of a file, whose faults are told together: each unknown name, and the first of all others, since those
    /// behind it may follow from it.
    pub fn change_by_line(&mut self, rules: &[&[u8]], new: &mut NewUser<'_>) -> Result<(), Vec<String>> {
        check_length(rules).map_err(|error| vec![error.text().to_owned()])?;
        let shown = |rule: &[u8]| String::from_utf8_lossy(rule).into_owned();
        let rules = merged(rules).map_err(|open| vec![unmatched(open)])?;
        let (mut changed, mut faults, mut has_other) = (self.clone(), Vec::new(), false);
        for rule in &rules {
            match changed.apply(rule, new) {
                Ok(()) => {}
                Err(RuleError::Unknown) => {
                    let why = RuleError::Unknown.text();
                    faults.push(format!("Error in applying operation '{}': {why}", shown(rule)));
                }
                Err(other) if !has_other => {
                    has_other = true;
                    faults.push(other.text().to_owned());
                }
                Err(_) => {}
            }
        }
        if changed.rules().len() > USER_RULES_BYTES_MAX && !has_other {
            faults.push(RuleError::TooLong.text().to_owned());
        }
        if faults.is_empty() {
            *self = changed;
            return Ok(());
        }
        Err(faults)
    }

    fn apply(&mut self, rule: &[u8], new: &mut NewUser<'_>) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            [] => {}
            _ if is("on") || is("off") => self.enabled = is("on"),
            _ if is("skip-sanitize-payload") => self.sanitize = Sanitize::Skip,
            _ if is("sanitize-payload") => self.sanitize = Sanitize::Yes,
            _ if is("nopass") || is("resetpass") => {
                self.any_password = is("nopass");
                self.passwords.clear();
            }
            _ if is("reset") => {
                let name = self.name.clone();
                *self = Self { sanitize: Sanitize::Yes, ..Self::new(&name, new.all) };
            }
            _ if is("clearselectors") => self.selectors.truncate(1),
            [b'>', password @ ..] => self.keep(Digest::of(password), new)?,
            [b'=', b'+', digest @ ..] => self.keep(Digest::of_hex(digest)?, new)?,
            [b'<', password @ ..] => self.remove(Digest::of(password))?,
            [b'=', b'-', digest @ ..] => self.remove(Digest::of_hex(digest)?)?,
            [b'#', text @ ..] => self.add(Password::of_text(text)?)?,
            [b'!', text @ ..] => match Password::of_text(text)? {
                Password::Digest(digest) => self.remove(digest)?,
                slow => self.remove_one(|own| *own == slow)?,
            },
            [b'(', inner @ .., b')'] => {
                if self.selectors.len() > USER_SELECTORS_MAX {
                    return Err(RuleError::TooLong);
                }
                self.selectors.push(Selector::of_rules(inner, new.all)?);
            }
            _ => self.selectors[0].apply(rule)?,
        }
        Ok(())
    }

    /// Keeps a password that was given in clear, by a slow hash.
    fn keep(&mut self, digest: Digest, new: &mut NewUser<'_>) -> Result<(), RuleError> {
        self.any_password = false;
        if self.passwords.iter().any(|own| own.is(&digest)) {
            return Ok(());
        }
        let hash = SlowHash::new(digest.bytes(), (new.salt)()).ok_or(RuleError::Syntax)?;
        self.add(Password::Slow(hash))
    }

    fn add(&mut self, password: Password) -> Result<(), RuleError> {
        self.any_password = false;
        if self.passwords.contains(&password) {
            return Ok(());
        }
        if self.passwords.len() >= USER_PASSWORDS_MAX {
            return Err(RuleError::TooLong);
        }
        self.passwords.push(password);
        Ok(())
    }

    fn remove(&mut self, digest: Digest) -> Result<(), RuleError> {
        self.remove_one(|own| own.is(&digest))
    }

    fn remove_one(&mut self, is_it: impl Fn(&Password) -> bool) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(is_it).ok_or(RuleError::NoSuchPassword)?;
        self.passwords.remove(at);
        Ok(())
    }

    /// The words that ACL GETUSER shows as flags.
    #[must_use]
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.enabled { "on" } else { "off" }];
        if self.any_password {
            flags.push("nopass");
        }
        match self.sanitize {
            Sanitize::Unsaid => {}
            Sanitize::Yes => flags.push("sanitize-payload"),
            Sanitize::Skip => flags.push("skip-sanitize-payload"),
        }
        flags
    }

    /// The texts of the parts of each selector, with the names that ACL GETUSER gives them; the first one is the user's own.
    #[must_use]
    pub fn selector_parts(&self) -> Vec<Vec<(&'static str, Vec<u8>)>> {
        self.selectors.iter().map(Selector::parts).collect()
    }

    /// Its rules, as ACL LIST shows them behind its name.
    #[must_use]
    pub fn rules(&self) -> Vec<u8> {
        let mut words: Vec<Vec<u8>> = self.flags().into_iter().map(|flag| flag.as_bytes().to_vec()).collect();
        words.extend(self.passwords.iter().map(|password| format!("#{}", password.text()).into_bytes()));
        words.push(self.rights());
        words.join(&b' ')
    }

    /// Its rules without flags and passwords.
    #[must_use]
    pub fn rights(&self) -> Vec<u8> {
        let [root, others @ ..] = &self.selectors[..] else { return Vec::new() };
        let mut words = vec![root.text()];
        words.extend(others.iter().map(|selector| [b"(", &selector.text()[..], b")"].concat()));
        words.join(&b' ')
    }
}

/// Whether a rule has a password, or what is kept of one. In parentheses it is an error, and must not be shown there either.
fn is_secret(rule: &[u8]) -> bool {
    let is_one = |rule: &[u8]| matches!(rule, [b'>' | b'<' | b'=', ..]);
    match rule {
        [b'(', inner @ ..] => words(inner).into_iter().any(is_one),
        rule => words(rule).into_iter().any(is_one),
    }
}

/// The same rules without a password in clear: as one node sends them to another, each selector in one. The error is the text of a
/// reply without its code.
pub fn without_passwords(rules: &[&[u8]]) -> Result<Vec<Vec<u8>>, String> {
    let hidden = |rule: Cow<'_, [u8]>| match &*rule {
        // No client may send it.
        [b'=', ..] => Err(refused(b"=", RuleError::Syntax)),
        [b'>', password @ ..] => Ok([KEEP_DIGEST, Digest::of(password).hex().as_bytes()].concat()),
        [b'<', password @ ..] => Ok([REMOVE_DIGEST, Digest::of(password).hex().as_bytes()].concat()),
        _ => Ok(rule.into_owned()),
    };
    merged(rules).map_err(|open| unmatched(open) + ".")?.into_iter().map(hidden).collect()
}

/// Why a rule of ACL SETUSER is refused.
fn refused(rule: &[u8], error: RuleError) -> String {
    let rule = if is_secret(rule) { "(redacted)".into() } else { String::from_utf8_lossy(rule) };
    format!("Error in ACL SETUSER modifier '{rule}': {}", error.text())
}

fn unmatched(open: &[u8]) -> String {
    let open = if is_secret(open) { "(redacted)".into() } else { String::from_utf8_lossy(open) };
    format!("Unmatched parenthesis in acl selector starting at '{open}'")
}

/// Refuses rules that are too long to be looked at, whatever they come to.
fn check_length(rules: &[&[u8]]) -> Result<(), RuleError> {
    let bytes: usize = rules.iter().map(|rule| rule.len() + 1).sum();
    if bytes > USER_CHANGE_BYTES_MAX { Err(RuleError::TooLong) } else { Ok(()) }
}
