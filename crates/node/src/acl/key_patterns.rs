//! Which keys a selector allows, and what may be done to them.

use super::rule_error::RuleError;
use resp::glob_matches;
use resp::table::key_flag;

/// What may be done to the keys that match a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyAccess {
    pub(super) read: bool,
    pub(super) write: bool,
}

impl KeyAccess {
    pub(super) const READ: Self = Self { read: true, write: false };
    const BOTH: Self = Self { read: true, write: true };

    /// What a command needs, by bits of `key_flag`.
    pub(super) fn needed(flags: u32) -> Self {
        let has = |bits: u32| flags & bits != 0;
        Self { read: has(key_flag::ACCESS), write: has(key_flag::INSERT | key_flag::DELETE | key_flag::UPDATE) }
    }

    fn covers(self, needed: Self) -> bool {
        (self.read || !needed.read) && (self.write || !needed.write)
    }

    fn prefix(self) -> &'static str {
        match (self.read, self.write) {
            (true, false) => "%R~",
            (false, true) => "%W~",
            _ => "~",
        }
    }
}

/// The pattern of all keys.
const ALL: &[u8] = b"*";

#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    access: KeyAccess,
    pattern: Vec<u8>,
}

/// The keys that a selector allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyPatterns {
    pub(super) all: bool,
    patterns: Vec<KeyPattern>,
}

impl KeyPatterns {
    /// `~pattern`, `%R~pattern` and the like; the rule begins with `~` or `%`.
    pub(super) fn add(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.all {
            return Err(RuleError::AllKeys);
        }
        let (access, pattern) = parse(rule).ok_or(RuleError::Syntax)?;
        if pattern.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0 || *byte == 0x0b) {
            return Err(RuleError::Syntax);
        }
        match self.patterns.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => {
                known.access.read |= access.read;
                known.access.write |= access.write;
            }
            None => self.patterns.push(KeyPattern { access, pattern: pattern.to_vec() }),
        }
        Ok(())
    }

    pub(super) fn set_all(&mut self, all: bool) {
        *self = Self { all, patterns: Vec::new() };
    }

    /// Whether a key may be used so.
    pub(super) fn allow(&self, key: &[u8], needed: KeyAccess) -> bool {
        let matches = |known: &KeyPattern| known.access.covers(needed) && glob_matches(&known.pattern, key, false);
        self.all || self.patterns.iter().any(matches)
    }

    /// Whether every key may be used so.
    pub(super) fn allow_all(&self, needed: KeyAccess) -> bool {
        self.all || self.patterns.iter().any(|known| known.access.covers(needed) && known.pattern == ALL)
    }

    /// As ACL SETUSER takes them.
    pub(super) fn text(&self) -> Vec<u8> {
        if self.all {
            return b"~*".to_vec();
        }
        let shown = |known: &KeyPattern| {
            // `~*` would be read as the flag, behind which no pattern may stand.
            let is_flag = known.access == KeyAccess::BOTH && known.pattern == ALL;
            let prefix = if is_flag { "%RW~" } else { known.access.prefix() };
            [prefix.as_bytes(), &known.pattern].concat()
        };
        self.patterns.iter().map(shown).collect::<Vec<_>>().join(&b' ')
    }
}

fn parse(rule: &[u8]) -> Option<(KeyAccess, &[u8])> {
    let Some(rest) = rule.strip_prefix(b"%") else { return Some((KeyAccess::BOTH, rule.strip_prefix(b"~")?)) };
    let mut access = KeyAccess { read: false, write: false };
    for (at, byte) in rest.iter().enumerate() {
        match byte {
            b'r' | b'R' if !access.read => access.read = true,
            b'w' | b'W' if !access.write => access.write = true,
            b'~' if access.read || access.write => return Some((access, &rest[at + 1..])),
            _ => return None,
        }
    }
    // Redis takes a rule without a pattern as one with an empty one.
    (access.read || access.write).then_some((access, b""))
}
