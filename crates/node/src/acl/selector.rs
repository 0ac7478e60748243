//! A selector: commands, keys, channels and databases that are allowed together.

use super::argument_list::words;
use super::command_rules::CommandRules;
use super::denial::{Denial, Subject};
use super::key_patterns::{KeyAccess, KeyPatterns};
use super::rule_error::RuleError;
use crate::transfer_request::place_of_number;
use resp::glob_matches;
use resp::table::{self, ChannelArgs, CommandSpec, behaviour, key_flag};
use std::collections::BTreeSet;
use vocab::{client_key, is_database_key};

/// Channels that are allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    pub(super) all: bool,
    patterns: Vec<Vec<u8>>,
}

impl Channels {
    fn add(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all {
            return Err(RuleError::AllChannels);
        }
        if pattern.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0 || *byte == 0x0b) {
            return Err(RuleError::Syntax);
        }
        if !self.patterns.iter().any(|known| known == pattern) {
            self.patterns.push(pattern.to_vec());
        }
        Ok(())
    }

    pub(super) fn set_all(&mut self, all: bool) {
        *self = Self { all, patterns: Vec::new() };
    }

    /// Whether a channel is allowed. A pattern of channels is if it is one of the rules itself.
    #[must_use]
    pub fn allow(&self, channel: &[u8], is_pattern: bool) -> bool {
        let matches = |known: &Vec<u8>| match is_pattern {
            true => known == channel,
            false => glob_matches(known, channel, false),
        };
        self.all || self.patterns.iter().any(matches)
    }

    fn text(&self) -> Vec<u8> {
        if self.all {
            return b"&*".to_vec();
        }
        self.patterns.iter().map(|known| [b"&", &known[..]].concat()).collect::<Vec<_>>().join(&b' ')
    }
}

/// Databases that are allowed, by number. A client of the cluster counts as one of database 0.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Databases {
    all: bool,
    numbers: BTreeSet<u16>,
}

impl Databases {
    fn add(&mut self, list: &[u8]) -> Result<(), RuleError> {
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u16>().ok();
        let numbers: Option<Vec<u16>> = list.split(|byte| *byte == b',').map(number).collect();
        self.all = false;
        self.numbers.extend(numbers.ok_or(RuleError::Syntax)?);
        Ok(())
    }

    fn allow(&self, number: u16) -> bool {
        self.all || self.numbers.contains(&number)
    }

    fn text(&self) -> String {
        if self.all {
            return "alldbs".to_owned();
        }
        let numbers: Vec<String> = self.numbers.iter().map(u16::to_string).collect();
        if numbers.is_empty() { "resetdbs".to_owned() } else { format!("db={}", numbers.join(",")) }
    }
}

/// Commands, keys, channels and databases that are allowed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selector {
    pub(super) commands: CommandRules,
    pub(super) keys: KeyPatterns,
    pub(super) channels: Channels,
    databases: Databases,
}

impl Selector {
    /// Allows nothing but, if `all_channels`, channels.
    pub(super) fn new(all_channels: bool) -> Self {
        Self {
            commands: CommandRules::default(),
            keys: KeyPatterns::default(),
            channels: Channels { all: all_channels, patterns: Vec::new() },
            databases: Databases { all: true, numbers: BTreeSet::new() },
        }
    }

    /// The selector of a rule in parentheses, without these.
    pub(super) fn of_rules(rules: &[u8], all_channels: bool) -> Result<Self, RuleError> {
        let mut selector = Self::new(all_channels);
        words(rules).into_iter().try_for_each(|rule| selector.apply(rule))?;
        Ok(selector)
    }

    /// Whether it allows everything.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.commands.is_all() && self.keys.all && self.channels.all && self.databases.all
    }

    /// Whether it allows all databases.
    pub(super) fn has_all_databases(&self) -> bool {
        self.databases.all
    }

    /// Applies one rule.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        if is("allkeys") || rule == b"~*" {
            self.keys.set_all(true);
        } else if is("resetkeys") {
            self.keys.set_all(false);
        } else if is("allchannels") || rule == b"&*" {
            self.channels.set_all(true);
        } else if is("resetchannels") {
            self.channels.set_all(false);
        } else if is("allcommands") || is("nocommands") {
            self.commands.set_all(is("allcommands"));
        } else if is("alldbs") || is("resetdbs") {
            self.databases = Databases { all: is("alldbs"), numbers: BTreeSet::new() };
        } else if let Some(list) = rule.strip_prefix(b"db=") {
            self.databases.add(list)?;
        } else if let Some(pattern) = rule.strip_prefix(b"&") {
            self.channels.add(pattern)?;
        } else {
            match rule {
                [b'~' | b'%', ..] => self.keys.add(rule)?,
                [sign @ (b'+' | b'-'), name @ ..] => {
                    let name = std::str::from_utf8(name).map_err(|_| RuleError::Unknown)?;
                    self.commands.apply(*sign == b'+', name)?;
                }
                _ => return Err(RuleError::Syntax),
            }
        }
        Ok(())
    }

    /// What of a request it does not allow, if anything; `database`: the number of the client's.
    pub(super) fn denies(&self, spec: &'static CommandSpec, args: &[&[u8]], database: u16) -> Option<Denial> {
        let denial = |subject| Some(Denial { spec, subject });
        if !self.databases.all && !self.allows_databases(spec, args, database) {
            return denial(Subject::Database);
        }
        if !self.commands.allows(spec, args) {
            return denial(Subject::Command);
        }
        if let Some(other) = spec.other_right(args).and_then(|name| table::lookup_full(name.as_bytes()))
            && !self.commands.allows(other, &[])
        {
            return Some(Denial { spec: other, subject: Subject::Command });
        }
        if !self.keys.all
            && let Some(at) = self.denied_key(spec, args)
        {
            return denial(Subject::Key(at));
        }
        if spec.does(behaviour::READS_BY_PATTERN)
            && !self.keys.allow_all(KeyAccess::READ)
            && let Some(option) = pattern_of_sort(args)
        {
            return denial(option);
        }
        self.denied_channel(spec, args).and_then(|at| denial(Subject::Channel(at)))
    }

    fn allows_databases(&self, spec: &CommandSpec, args: &[&[u8]], own: u16) -> bool {
        let named = |text: Option<&&[u8]>| {
            let number = text.and_then(|text| resp::parse_integer(text)).and_then(|number| u16::try_from(number).ok());
            // What is no number is refused by the command itself.
            number.is_none_or(|number| self.databases.allow(number))
        };
        if spec.does(behaviour::CHOOSES_DATABASE) {
            return named(args.get(1));
        }
        if spec.does(behaviour::SWAPS_DATABASES) {
            return named(args.get(1)) && named(args.get(2));
        }
        if spec.does(behaviour::TO_DATABASE) {
            // Where the command itself finds it.
            let other = place_of_number(spec, args).and_then(|at| args.get(at));
            if !named(other) {
                return false;
            }
        }
        // A question may name the database that it is about, anywhere among its options.
        let names_other = |pair: &[&[u8]]| {
            let is_named = pair[0].eq_ignore_ascii_case(b"DATABASE") || pair[0].eq_ignore_ascii_case(b"SELECTED");
            is_named && !named(Some(&pair[1]))
        };
        if spec.behaviour & (behaviour::ASKS_DATABASE | behaviour::EMPTIES_DATABASE) != 0
            && args.windows(2).any(names_other)
        {
            return false;
        }
        // FLUSHALL is about all databases, by whichever name, and so is a page of a backup.
        let reads_all = spec.does(behaviour::READS_ALL_KEYS);
        let is_of_all = (spec.does(behaviour::CLEARS_STORE) && !spec.does(behaviour::EMPTIES_DATABASE))
            || (spec.does(behaviour::EMPTIES_NAMED) && args.len() == 1)
            || (reads_all && !spec.does(behaviour::ASKS_DATABASE))
            || names_stored_key(spec, args)
            || names_stored_bound(spec, args);
        let is_of_one = spec.does(behaviour::ASKS_DATABASE)
            || reads_all
            || spec.does(behaviour::EMPTIES_DATABASE)
            || (spec.has_keys() && spec.channels == ChannelArgs::None);
        !is_of_all && (!is_of_one || self.databases.allow(own))
    }

    /// The place of the first key that it does not allow.
    fn denied_key(&self, spec: &CommandSpec, args: &[&[u8]]) -> Option<usize> {
        if spec.does(behaviour::READS_ALL_KEYS) && !self.keys.allow_all(KeyAccess::READ) {
            return Some(1);
        }
        if !spec.has_keys() {
            return None;
        }
        // Where the keys cannot be found, the command itself answers the error, and does nothing.
        let keys = spec.keys_and_flags(args).ok()?;
        let is_denied = |(at, flags): &(usize, u32)| {
            flags & key_flag::NOT_KEY == 0 && !self.keys.allow(client_key(args[*at]), KeyAccess::needed(*flags))
        };
        keys.iter().find(|key| is_denied(key)).map(|(at, _)| *at)
    }

    /// The place of the first channel that it does not allow.
    fn denied_channel(&self, spec: &CommandSpec, args: &[&[u8]]) -> Option<usize> {
        let (count, is_pattern) = match spec.channels {
            ChannelArgs::None => return None,
            ChannelArgs::First => (1, false),
            ChannelArgs::All => (usize::MAX, false),
            ChannelArgs::Patterns => (usize::MAX, true),
        };
        let mut channels = args.iter().enumerate().skip(1).take(count);
        channels.find(|(_, channel)| !self.channels.allow(channel, is_pattern)).map(|(at, _)| at)
    }

    /// The texts of its parts, with the names that ACL GETUSER gives them.
    pub(super) fn parts(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut parts = vec![
            ("commands", self.commands.text().into_bytes()),
            ("keys", self.keys.text()),
            ("channels", self.channels.text()),
        ];
        if !self.databases.all {
            parts.push(("databases", self.databases.text().into_bytes()));
        }
        parts
    }

    /// As ACL SETUSER takes it, without parentheses.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut parts = vec![self.keys.text()];
        if !self.channels.all {
            parts.push(b"resetchannels".to_vec());
        }
        parts.push(self.channels.text());
        if !self.databases.all {
            parts.push(b"resetdbs".to_vec());
            if !self.databases.numbers.is_empty() {
                parts.push(self.databases.text().into_bytes());
            }
        }
        parts.push(self.commands.text().into_bytes());
        parts.retain(|part| !part.is_empty());
        parts.join(&b' ')
    }
}

/// Whether a request names a key of a database as it is stored, as a restore does: it may be that of any database.
fn names_stored_key(spec: &CommandSpec, args: &[&[u8]]) -> bool {
    spec.has_keys() && spec.keys(args).into_iter().flatten().any(|at| is_database_key(args[at]))
}

/// Whether a range begins or ends at a key of a database as it is stored. From there on it has keys of all databases.
fn names_stored_bound(spec: &CommandSpec, args: &[&[u8]]) -> bool {
    spec.does(behaviour::IN_KEY_ORDER)
        && args.iter().skip(1).take(2).any(|bound| bound.get(1..).is_some_and(is_database_key))
}

/// The first pattern of a SORT by which it reads keys that it does not name.
fn pattern_of_sort(args: &[&[u8]]) -> Option<Subject> {
    let mut at = 2;
    while let Some(option) = args.get(at) {
        let pattern = args.get(at + 1)?;
        match option.to_ascii_uppercase().as_slice() {
            b"BY" if pattern.contains(&b'*') => return Some(Subject::SortBy(at + 1)),
            b"GET" => return Some(Subject::SortGet(at + 1)),
            b"BY" | b"STORE" => at += 2,
            b"LIMIT" => at += 3,
            _ => at += 1,
        }
    }
    None
}
