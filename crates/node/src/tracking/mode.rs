//! How one client has its reads tracked, by what CLIENT TRACKING ON was told.

use super::elsewhere::TrackingElsewhere;
use super::options::TrackingOptions;
use super::prefixes::Prefix;
use std::sync::Arc;
use vocab::limits::{KEY_BYTES_MAX, TRACKED_PREFIXES_MAX};

/// How a client has its reads tracked.
///
/// Invariant: no prefix begins with another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackingMode {
    options: Arc<TrackingOptions>,
    caching: Caching,
    /// What it was before the command that began last.
    caching_before: Caching,
    /// The client that is told instead is gone.
    pub(crate) is_broken: bool,
}

/// What CLIENT CACHING is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Caching {
    #[default]
    Nothing,
    /// The next command, or transaction.
    Next,
    /// The command under way.
    Now,
}

/// Whether a key can begin with both.
fn overlap(a: &[u8], b: &[u8]) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

impl TrackingMode {
    /// The mode of a client whose mode was `before`, with these options, which are checked. The error is the text of the reply.
    pub fn begin(before: Option<&Self>, mut options: TrackingOptions) -> Result<Self, String> {
        let error = |text: &str| Err(format!("ERR {text}"));
        if !options.is_broadcast && !options.prefixes.is_empty() {
            return error("PREFIX option requires BCAST mode to be enabled");
        }
        if before.is_some_and(|before| before.options.is_broadcast != options.is_broadcast) {
            return error(
                "You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it \
                 with a different mode.",
            );
        }
        if options.is_broadcast && (options.opt_in || options.opt_out) {
            return error("OPTIN and OPTOUT are not compatible with BCAST");
        }
        if options.opt_in && options.opt_out {
            return error("You can't specify both OPTIN mode and OPTOUT mode");
        }
        let switches =
            |before: &Self| options.opt_in && before.options.opt_out || options.opt_out && before.options.opt_in;
        if before.is_some_and(switches) {
            return error(
                "You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it \
                 with a different mode.",
            );
        }
        let had = before.map_or(&[][..], |before| &before.options.prefixes);
        check_prefixes(had, &options.prefixes)?;
        if options.is_broadcast {
            if options.prefixes.is_empty() {
                // All keys: those with the prefixes that it had are among them.
                options.prefixes.push(Prefix::from(&b""[..]));
            } else {
                options.prefixes.splice(..0, had.iter().cloned());
            }
        }
        Ok(Self { options: Arc::new(options), ..Self::default() })
    }

    /// What it was told.
    #[must_use]
    pub fn options(&self) -> &TrackingOptions {
        &self.options
    }

    /// CLIENT CACHING YES, or NO: it is about the next command. The error is the text of the reply.
    pub fn set_caching(&mut self, yes: bool) -> Result<(), &'static str> {
        match yes {
            true if !self.options.opt_in => {
                Err("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
            }
            false if !self.options.opt_out => {
                Err("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
            }
            _ => {
                self.caching = Caching::Next;
                Ok(())
            }
        }
    }

    /// A command begins: one of CLIENT or not, and one of a transaction or not.
    pub(crate) fn pass(&mut self, is_about_client: bool, is_within: bool) {
        self.caching_before = self.caching;
        self.caching = match self.caching {
            Caching::Next if is_about_client || is_within => Caching::Next,
            Caching::Next => Caching::Now,
            Caching::Nothing | Caching::Now => Caching::Nothing,
        };
    }

    /// The command that began last could not run, and begins again later.
    pub(crate) fn put_back(&mut self) {
        self.caching = self.caching_before;
    }

    /// Whether the keys that the client reads are registered.
    #[must_use]
    pub fn registers(&self) -> bool {
        let TrackingOptions { is_broadcast, opt_in, opt_out, .. } = *self.options;
        let is_given = self.caching != Caching::Nothing;
        let counts = match (opt_in, opt_out) {
            (true, _) => is_given,
            (false, true) => !is_given,
            (false, false) => true,
        };
        !is_broadcast && counts
    }

    /// How another node is to track what it answers.
    #[must_use]
    pub fn elsewhere(&self) -> TrackingElsewhere {
        let caching_is_given = self.caching != Caching::Nothing;
        TrackingElsewhere { options: self.options.clone(), caching_is_given }
    }

    /// The words of CLIENT TRACKINGINFO.
    #[must_use]
    pub fn flags(&self) -> Vec<&'static str> {
        let TrackingOptions { is_broadcast, opt_in, opt_out, no_loop, .. } = *self.options;
        let words = [
            (true, "on"),
            (is_broadcast, "bcast"),
            (opt_in, "optin"),
            (opt_in && self.caching != Caching::Nothing, "caching-yes"),
            (opt_out, "optout"),
            (opt_out && self.caching != Caching::Nothing, "caching-no"),
            (no_loop, "noloop"),
            (self.is_broken, "broken_redirect"),
        ];
        words.into_iter().filter(|(is_set, _)| *is_set).map(|(_, word)| word).collect()
    }
}

/// No two prefixes of a client overlap.
fn check_prefixes(had: &[Prefix], given: &[Prefix]) -> Result<(), String> {
    let shown = String::from_utf8_lossy;
    if had.len() + given.len() > TRACKED_PREFIXES_MAX {
        return Err(format!("ERR a client is told of {TRACKED_PREFIXES_MAX} prefixes at most"));
    }
    if given.iter().any(|prefix| prefix.len() > KEY_BYTES_MAX) {
        return Err(format!("ERR a prefix of keys may have {KEY_BYTES_MAX} bytes"));
    }
    for (at, prefix) in given.iter().enumerate() {
        if let Some(other) = had.iter().find(|other| overlap(prefix, other)) {
            return Err(format!(
                "ERR Prefix '{}' overlaps with an existing prefix '{}'. Prefixes for a single client must not overlap.",
                shown(prefix),
                shown(other)
            ));
        }
        if let Some(other) = given[at + 1..].iter().find(|other| overlap(prefix, other)) {
            return Err(format!(
                "ERR Prefix '{}' overlaps with another provided prefix '{}'. Prefixes for a single client must not overlap.",
                shown(prefix),
                shown(other)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tracking::options::options_of as options;

    #[test]
    fn modes_go_together_or_not() {
        // What was before, what is asked for, and the flags or the beginning of the error.
        for (before, asked, expected) in [
            (None, "", "on"),
            (None, "noloop", "on noloop"),
            (None, "foo", "ERR PREFIX option requires BCAST"),
            (None, "bcast foo bar", "on bcast"),
            (None, "bcast optin", "ERR OPTIN and OPTOUT are not compatible"),
            (None, "optin optout", "ERR You can't specify both"),
            (Some(""), "bcast", "ERR You can't switch BCAST"),
            (Some("optin"), "optout", "ERR You can't switch OPTIN/OPTOUT"),
            (Some("optin"), "", "on"),
            (None, "bcast FOOBAR FOO", "ERR Prefix 'FOOBAR' overlaps with another provided prefix 'FOO'"),
            (Some("bcast FOO BAR"), "bcast FO", "ERR Prefix 'FO' overlaps with an existing prefix 'FOO'"),
            (Some("bcast FOO BAR"), "bcast BARB", "ERR Prefix 'BARB' overlaps with an existing prefix 'BAR'"),
        ] {
            let before = before.map(|words| TrackingMode::begin(None, options(words)).unwrap());
            match TrackingMode::begin(before.as_ref(), options(asked)) {
                Ok(mode) => assert_eq!(mode.flags().join(" "), expected, "{asked}"),
                Err(text) => assert!(text.starts_with(expected), "{asked}: {text}"),
            }
        }
        let all = TrackingMode::begin(None, options("bcast")).unwrap();
        assert_eq!(all.options().prefixes, [Prefix::from(&b""[..])]);
        let more =
            TrackingMode::begin(Some(&TrackingMode::begin(None, options("bcast a")).unwrap()), options("bcast b"));
        let more = more.unwrap();
        assert_eq!(more.options().prefixes.len(), 2);
        let all = TrackingMode::begin(Some(&more), options("bcast noloop")).unwrap();
        assert_eq!(all.options().prefixes, [Prefix::from(&b""[..])], "all keys, with those of the prefixes before");
        assert_eq!(TrackingMode::begin(Some(&all), options("bcast")).unwrap().options().prefixes.len(), 1);
    }

    #[test]
    fn caching_is_for_the_modes_that_ask_for_it() {
        for (words, caching, is_allowed, registers) in [
            ("", Some(true), false, true),
            ("", Some(false), false, true),
            ("optin", None, true, false),
            ("optin", Some(true), true, true),
            ("optin", Some(false), false, false),
            ("optout", None, true, true),
            ("optout", Some(false), true, false),
            ("bcast", None, true, false),
        ] {
            let mut mode = TrackingMode::begin(None, options(words)).unwrap();
            let outcome = caching.map_or(Ok(()), |yes| mode.set_caching(yes));
            assert_eq!((outcome.is_ok(), mode.registers()), (is_allowed, registers), "{words} {caching:?}");
        }
    }

    #[test]
    fn caching_lasts_for_a_command_or_a_transaction() {
        // The commands behind CLIENT CACHING YES: c is one of CLIENT, m begins or is within a transaction, e ends it, and p is put back.
        for (commands, registers) in [
            ("g", "1"),
            ("gg", "10"),
            ("cg", "11"),
            ("mmeg", "1110"),
            ("ceg", "110"),
            ("pg", "11"),
            ("ppgg", "1110"),
            ("mpeg", "1110"),
            ("gpg", "100"),
        ] {
            let mut mode = TrackingMode::begin(None, options("optin")).unwrap();
            mode.set_caching(true).unwrap();
            let seen: String = commands
                .chars()
                .map(|command| {
                    mode.pass(command == 'c', command == 'm');
                    let registers = mode.registers();
                    if command == 'p' {
                        mode.put_back();
                    }
                    if registers { '1' } else { '0' }
                })
                .collect();
            assert_eq!(seen, registers, "{commands}");
        }
    }
}
