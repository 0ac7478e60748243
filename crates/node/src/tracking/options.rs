//! What CLIENT TRACKING ON is told.

use super::prefixes::Prefix;

/// The options of CLIENT TRACKING ON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackingOptions {
    /// The number of the client that is told instead; none: the client itself.
    pub redirect: Option<u64>,
    /// It is told of all keys with these prefixes, rather than of those that it has read.
    pub is_broadcast: bool,
    /// The prefixes; without any, all keys.
    pub prefixes: Vec<Prefix>,
    /// Only reads behind CLIENT CACHING YES count.
    pub opt_in: bool,
    /// Reads behind CLIENT CACHING NO do not count.
    pub opt_out: bool,
    /// It is not told of its own changes.
    pub no_loop: bool,
}

/// Those of a test.
#[cfg(test)]
pub(super) fn options_of(words: &str) -> TrackingOptions {
    let mut options = TrackingOptions::default();
    for word in words.split_whitespace() {
        match word {
            "bcast" => options.is_broadcast = true,
            "optin" => options.opt_in = true,
            "optout" => options.opt_out = true,
            "noloop" => options.no_loop = true,
            prefix => options.prefixes.push(prefix.as_bytes().into()),
        }
    }
    options
}
