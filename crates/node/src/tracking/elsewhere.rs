//! How another node is to track what it answers for a client of this one.

use super::options::TrackingOptions;
use std::sync::Arc;

/// Tells another node what a client of this one is to be told of; refused to clients.
const TRACKING: &[u8] = b"KV.TRACKING";

/// How another node is to track what it answers for a client.
#[derive(Clone, Debug)]
pub struct TrackingElsewhere {
    /// What the client has asked for.
    pub options: Arc<TrackingOptions>,
    /// CLIENT CACHING is about the request under way.
    pub(crate) caching_is_given: bool,
}

impl TrackingElsewhere {
    /// The same of a request which is registered in any case.
    #[must_use]
    pub fn registering(self) -> Self {
        Self { caching_is_given: self.options.opt_in, ..self }
    }

    /// What goes right before the request, if something does.
    #[must_use]
    pub fn caching(&self) -> Option<[&'static [u8]; 3]> {
        let word: &[u8] = if self.options.opt_in { b"YES" } else { b"NO" };
        self.caching_is_given.then_some([b"CLIENT", b"CACHING", word])
    }

    /// The requests by which a node that tracks as `before` said comes to do so as `now` says, where both are not the same.
    #[must_use]
    pub fn requests<'a>(before: Option<&TrackingOptions>, now: Option<&'a TrackingOptions>) -> Vec<Vec<&'a [u8]>> {
        let off = || vec![TRACKING, b"OFF"];
        let Some(now) = now else { return vec![off()] };
        // Prefixes are only ever added. What a client was to be told of before is told until all is new.
        let known = before.filter(|before| goes_on(before, now)).map_or(0, |before| before.prefixes.len());
        let mut on = vec![TRACKING, &b"ON"[..]];
        let flags: [(bool, &[u8]); 4] =
            [(now.is_broadcast, b"BCAST"), (now.opt_in, b"OPTIN"), (now.opt_out, b"OPTOUT"), (now.no_loop, b"NOLOOP")];
        on.extend(flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, word)| word));
        now.prefixes[known..].iter().for_each(|prefix| on.extend([&b"PREFIX"[..], prefix]));
        let begins_anew = before.is_some_and(|before| !goes_on(before, now));
        begins_anew.then(off).into_iter().chain([on]).collect()
    }
}

/// Whether a client may come from one to the other without an end between.
fn goes_on(before: &TrackingOptions, now: &TrackingOptions) -> bool {
    let switches = before.opt_in && now.opt_out || before.opt_out && now.opt_in;
    !switches && before.is_broadcast == now.is_broadcast && now.prefixes.starts_with(&before.prefixes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracking::options::options_of;

    #[test]
    fn another_node_is_told_what_is_new() {
        for (before, now, expected) in [
            (None, None, "OFF"),
            (None, Some(""), "ON"),
            (Some(""), None, "OFF"),
            (None, Some("optin noloop"), "ON OPTIN NOLOOP"),
            (Some("optin"), Some("noloop"), "ON NOLOOP"),
            (Some("optin"), Some("optout"), "OFF, ON OPTOUT"),
            (Some("optin"), Some("bcast"), "OFF, ON BCAST"),
            (None, Some("bcast a b"), "ON BCAST PREFIX a PREFIX b"),
            (Some("bcast a b"), Some("bcast a b c"), "ON BCAST PREFIX c"),
            (Some("bcast a b"), Some("bcast a b noloop"), "ON BCAST NOLOOP"),
            (Some("bcast a b"), Some("bcast c"), "OFF, ON BCAST PREFIX c"),
        ] {
            let (old, new) = (before.map(options_of), now.map(options_of));
            let requests = TrackingElsewhere::requests(old.as_ref(), new.as_ref());
            let shown = |words: &Vec<&[u8]>| String::from_utf8_lossy(&words[1..].join(&b' ')).into_owned();
            assert_eq!(requests.iter().map(shown).collect::<Vec<_>>().join(", "), expected, "{before:?} {now:?}");
        }
    }

    #[test]
    fn caching_is_told_before_the_request() {
        for (words, given, expected) in [
            ("", false, ""),
            ("optin", false, ""),
            ("optin", true, "YES"),
            ("optout", true, "NO"),
            ("optout", false, ""),
        ] {
            let elsewhere = TrackingElsewhere { options: Arc::new(options_of(words)), caching_is_given: given };
            let word = |elsewhere: &TrackingElsewhere| elsewhere.caching().map_or(&b""[..], |words| words[2]).to_vec();
            assert_eq!(word(&elsewhere), expected.as_bytes(), "{words}");
            let anyway = if words == "optin" { "YES" } else { "" };
            assert_eq!(word(&elsewhere.registering()), anyway.as_bytes(), "{words}: in any case");
        }
    }
}
