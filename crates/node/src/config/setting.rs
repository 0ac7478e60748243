//! One setting: its name, kind, default, bounds and meaning.

use std::borrow::Cow;

/// One row of the table of settings.
#[derive(Debug)]
pub struct Setting {
    /// Its name, in lower case.
    pub name: &'static str,
    /// A second name under which CONFIG GET and SET know it, from before Redis 7.
    pub alias: Option<&'static str>,
    /// What its values are.
    pub kind: Kind,
    /// The value that it has unless another is set, as text.
    pub default: &'static str,
    /// Whether CONFIG SET may change it while the node runs.
    pub mutable: bool,
    /// False: accepted and stored because clients set it, but nothing here depends on it.
    pub effective: bool,
    /// Whether its value is shown to no client and in no log.
    pub secret: bool,
    /// Whether CONFIG SET at one node changes it at all nodes.
    pub of_store: bool,
    /// The files that are opened again when CONFIG SET changes it: it holds only if they can be.
    pub files: Option<SettingFiles>,
    /// Whether CONFIG GET answers it to a pattern. If not, its whole name must be asked for.
    pub listed: bool,
    /// What it is for, in a line.
    pub doc: &'static str,
}

/// Files that settings name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingFiles {
    /// Those of TLS.
    Certificates,
    /// That of the audit log.
    AuditLog,
}

impl SettingFiles {
    /// All kinds of them.
    pub const ALL: [Self; 2] = [Self::Certificates, Self::AuditLog];
}

/// What the values of a setting are.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Bool,
    /// A whole number.
    Integer {
        /// The smallest allowed.
        min: i64,
        /// The largest allowed.
        max: i64,
    },
    /// A number of bytes, which may be written as `100mb`.
    Memory {
        /// The smallest allowed.
        min: i64,
        /// The largest allowed.
        max: i64,
    },
    /// A number of bytes, or a percentage from 0 to 100, such as `5%`, which is kept as a negative number.
    MemoryOrPercent,
    /// One of some words.
    Word(&'static [&'static str]),
    /// Any text.
    Text,
    /// Pairs of seconds and changes, as Redis' `save` has them.
    SavePoints,
    /// What classes of clients may leave unread, as Redis' `client-output-buffer-limit` has it.
    OutputLimits,
    /// Entries of logs: `SHARD:INDEX`, separated by commas.
    Entries,
    /// A set of letters out of `AKEg$lshzxetdmn`, as Redis' `notify-keyspace-events` has them.
    EventLetters,
}

impl Setting {
    pub(super) const fn new(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Self {
        Self {
            name,
            alias: None,
            kind,
            default,
            mutable: true,
            effective: true,
            secret: false,
            of_store: false,
            files: None,
            listed: true,
            doc,
        }
    }

    /// Known under a second name too.
    pub(super) const fn alias(self, alias: &'static str) -> Self {
        Self { alias: Some(alias), ..self }
    }

    /// Not to be changed while the node runs.
    pub(super) const fn fixed(self) -> Self {
        Self { mutable: false, ..self }
    }

    /// Shown to no client.
    pub(super) const fn secret(self) -> Self {
        Self { secret: true, ..self }
    }

    /// CONFIG SET at one node changes it at all nodes.
    pub(super) const fn of_store(self) -> Self {
        Self { of_store: true, ..self }
    }

    /// The certificates are read again when CONFIG SET changes it.
    pub(super) const fn tls(self) -> Self {
        Self { files: Some(SettingFiles::Certificates), ..self }
    }

    /// The audit log is opened again when CONFIG SET changes it.
    pub(super) const fn audit(self) -> Self {
        Self { files: Some(SettingFiles::AuditLog), ..self }
    }

    /// Not answered to a pattern, as in Redis.
    pub(super) const fn unlisted(self) -> Self {
        Self { listed: false, ..self }
    }

    /// Accepted and stored, with no effect.
    pub(super) const fn accepted(self) -> Self {
        Self { effective: false, ..self }
    }

    /// A value as CONFIG GET would show it.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in the words of CONFIG SET.
    pub fn normal(&self, text: &str) -> Result<String, Cow<'static, str>> {
        self.kind.normal(text)
    }

    /// Whether this is the setting of that name, in any case.
    #[must_use]
    pub fn is_named(&self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.name.as_bytes())
            || self.alias.is_some_and(|alias| name.eq_ignore_ascii_case(alias.as_bytes()))
    }
}
