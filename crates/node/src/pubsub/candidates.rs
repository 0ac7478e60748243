//! Which of very many patterns a channel may match: those whose first bytes, up to one that is special, are the channel's own.
//!
//! Patterns stand in the order of their bytes, so that those which begin alike stand together. All of them that a channel cannot match are
//! passed over in one step: of 10,000 patterns `user:N:*` a message is compared with one.

use super::kind::Name;
use std::ops::Bound;

/// The bytes that stand for others in a pattern, in their order.
const SPECIAL: [u8; 4] = *b"*?[\\";

/// So many bytes that a pattern and a channel may have in common count as another look.
const LOOK_BYTES: usize = 64;

/// What the beginning of a pattern tells.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// The channel may match it.
    Perhaps,
    /// The channel matches neither it nor any other that stands before this place.
    PassTo(Vec<u8>),
    /// The channel matches neither it nor any that stands behind it.
    End,
}

/// The first special byte behind that one.
fn special_behind(byte: u8) -> Option<u8> {
    SPECIAL.into_iter().find(|special| *special > byte)
}

fn look_at(pattern: &[u8], channel: &[u8]) -> Look {
    let is_common = |(of_pattern, of_channel): &(&u8, &u8)| of_pattern == of_channel && !SPECIAL.contains(of_pattern);
    let common = pattern.iter().zip(channel).take_while(is_common).count();
    let Some(byte) = pattern.get(common).copied().filter(|byte| !SPECIAL.contains(byte)) else { return Look::Perhaps };
    // What stands behind it and may be matched has another byte here: a special one, or the channel's. Or it has a special one further to
    // the left, where the channel's are common to all of them.
    let own = channel.get(common).copied().filter(|own| *own > byte);
    let here = (common, special_behind(byte).into_iter().chain(own).min());
    let before = (0..common).rev().map(|at| (at, special_behind(channel[at])));
    match std::iter::once(here).chain(before).find_map(|(at, byte)| Some((at, byte?))) {
        Some((at, byte)) => Look::PassTo([&channel[..at], &[byte]].concat()),
        None => Look::End,
    }
}

/// Shows `see` the patterns that a channel may match, in their order, as long as it wants more; `from` goes through the patterns from a
/// place on. It looks at up to `left` of them, and counts that down; long ones count more. Answers which it has looked at last, if more may
/// stand behind that.
pub(super) fn go_through<'a, V, I: Iterator<Item = (&'a Name, V)>>(
    channel: &[u8],
    begin: Bound<&[u8]>,
    left: &mut usize,
    from: impl Fn(Bound<&[u8]>) -> I,
    mut see: impl FnMut(&'a Name, V) -> bool,
) -> Option<&'a Name> {
    let (mut rest, mut last) = (from(begin), None);
    while *left > 0 {
        let (pattern, value) = rest.next()?;
        *left = left.saturating_sub(1 + pattern.len().min(channel.len()) / LOOK_BYTES);
        last = Some(pattern);
        match look_at(pattern, channel) {
            Look::Perhaps => {
                if !see(pattern, value) {
                    return None;
                }
            }
            Look::PassTo(place) => rest = from(Bound::Included(&place[..])),
            Look::End => return None,
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::glob_matches;
    use std::collections::BTreeSet;
    use vocab::Prng;

    /// The patterns that a channel is compared with, and how many were looked at.
    fn candidates(patterns: &BTreeSet<Name>, channel: &[u8]) -> (BTreeSet<Name>, usize) {
        let (mut left, mut seen) = (usize::MAX, BTreeSet::new());
        let from =
            |place: Bound<&[u8]>| patterns.range::<[u8], _>((place, Bound::Unbounded)).map(|pattern| (pattern, ()));
        let more = go_through(channel, Bound::Unbounded, &mut left, from, |pattern, ()| {
            assert!(seen.insert(pattern.clone()), "each once");
            true
        });
        assert_eq!(more, None);
        (seen, usize::MAX - left)
    }

    #[test]
    fn what_the_beginning_of_a_pattern_tells() {
        let to = |place: &str| Look::PassTo(place.as_bytes().to_vec());
        for (pattern, channel, expected) in [
            ("news", "news", Look::Perhaps),
            ("new", "news", Look::Perhaps),
            ("n*", "news", Look::Perhaps),
            ("", "news", Look::Perhaps),
            ("a*b", "a*b", Look::Perhaps),
            ("nab", "news", to("ne")),
            ("nat", "nbt", to("nb")),
            ("na1", "na5", to("na5")),
            ("na7", "na5", to("na?")),
            ("na!", "na", to("na*")),
            ("naz", "na", Look::End),
            ("5a", "5", to("?")),
            ("5a", "5b", to("5b")),
            ("zz", "news", Look::End),
        ] {
            assert_eq!(look_at(pattern.as_bytes(), channel.as_bytes()), expected, "{pattern} {channel}");
        }
    }

    #[test]
    fn none_that_a_channel_matches_is_passed_over() {
        let mut prng = Prng::new(7);
        let mut word = |alphabet: &[u8], length: u64| -> Vec<u8> {
            let length = prng.below(length + 1);
            (0..length).map(|_| alphabet[prng.below(alphabet.len() as u64) as usize]).collect()
        };
        for _ in 0..200 {
            let patterns: BTreeSet<Name> = (0..60).map(|_| Name::from(word(b"!05aAz*?[]\\^-", 6))).collect();
            let channel = word(b"!05aAz*?[\\", 5);
            let (seen, _) = candidates(&patterns, &channel);
            let matching = patterns.iter().filter(|pattern| glob_matches(pattern, &channel, false));
            for pattern in matching {
                assert!(seen.contains(pattern), "{} {}", pattern.escape_ascii(), channel.escape_ascii());
            }
        }
    }

    #[test]
    fn very_many_that_begin_otherwise_cost_little() {
        let patterns: BTreeSet<Name> = (0..10_000).map(|n| Name::from(format!("user:{n}:*").into_bytes())).collect();
        for channel in ["user:5000:x", "user:0:", "user:9999:x", "a", "user:", "zz", "user:77777:x", ""] {
            let (seen, looks) = candidates(&patterns, channel.as_bytes());
            assert!(seen.len() <= 1 && looks < 32, "{channel}: {} of {looks}", seen.len());
        }
        let mut left = 3;
        let from =
            |place: Bound<&[u8]>| patterns.range::<[u8], _>((place, Bound::Unbounded)).map(|pattern| (pattern, ()));
        let last = go_through(b"user:5000:x", Bound::Unbounded, &mut left, from, |_, ()| true);
        assert_eq!((last.map(|last| &last[..]), left), (Some(&b"user:5001:*"[..]), 0), "it can be gone on with");
    }
}
