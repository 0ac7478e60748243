//! The patterns of KEYS, SCAN, CONFIG GET and COMMAND LIST: `*`, `?`, `[a-z]`, `[^a]`, `\`.

use std::ops::ControlFlow;

/// Steps for each byte of pattern and text, after which the rest is matched in another way.
const STEPS_PER_BYTE: usize = 8;

/// Whether all of `text` matches `pattern`, as Redis matches. Takes at most time |pattern| × |text| / 64, about.
#[must_use]
pub fn glob_matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let mut steps = STEPS_PER_BYTE * (pattern.len() + text.len());
    match try_match(pattern, text, ignore_case, &mut steps) {
        ControlFlow::Break(matches) => matches,
        ControlFlow::Continue(left) => left.matches(ignore_case),
    }
}

/// The same, of which `left` tells how many steps it may take; `None`: it would take more.
#[must_use]
pub fn glob_matches_within(pattern: &[u8], text: &[u8], left: &mut usize) -> Option<bool> {
    let allowed = (STEPS_PER_BYTE * (pattern.len() + text.len())).min(*left);
    let mut steps = allowed;
    let tried = try_match(pattern, text, false, &mut steps);
    *left -= allowed - steps;
    match tried {
        ControlFlow::Break(matches) => Some(matches),
        ControlFlow::Continue(rest) => {
            *left = left.checked_sub(rest.cost())?;
            Some(rest.matches(false))
        }
    }
}

/// What is left to be matched: any bytes, then the pattern.
#[derive(Clone, Copy)]
struct BehindStar<'a> {
    pattern: &'a [u8],
    text: &'a [u8],
}

/// Matches until it is decided, or until the steps are used up.
fn try_match<'a>(
    pattern: &'a [u8],
    text: &'a [u8],
    ignore_case: bool,
    steps: &mut usize,
) -> ControlFlow<bool, BehindStar<'a>> {
    let (mut p, mut t) = (pattern, text);
    // Behind the last star: the pattern, and the text not yet given up to the star.
    let mut retry: Option<BehindStar<'a>> = None;
    loop {
        if let [b'*', rest @ ..] = p {
            if rest.is_empty() {
                return ControlFlow::Break(true);
            }
            retry = Some(BehindStar { pattern: rest, text: t });
            p = rest;
            continue;
        }
        if *steps == 0
            && let Some(left) = retry
        {
            return ControlFlow::Continue(left);
        }
        let step = match t {
            [] => return ControlFlow::Break(p.is_empty()),
            [byte, tail @ ..] => {
                let (matches, rest) = match_one(p, *byte, ignore_case);
                *steps = steps.saturating_sub(1 + p.len() - rest.len());
                matches.then_some((rest, tail))
            }
        };
        if let Some(next) = step {
            (p, t) = next;
        } else if let Some(BehindStar { pattern, text: [_, tail @ ..] }) = retry {
            // The star takes one byte more. Giving bytes to an earlier star instead can never help.
            retry = Some(BehindStar { pattern, text: tail });
            (p, t) = (pattern, tail);
        } else {
            return ControlFlow::Break(false);
        }
    }
}

/// Bytes that an element of a pattern matches.
type Bytes = [u64; 4];

impl BehindStar<'_> {
    /// About how many steps it takes to match it.
    fn cost(&self) -> usize {
        self.pattern.len() * (256 + self.text.len() / 64)
    }

    /// Whether the text matches, by comparing 64 elements of the pattern at a time.
    fn matches(&self, ignore_case: bool) -> bool {
        let (mut pattern, mut text) = (self.pattern, self.text);
        loop {
            // Each element takes a byte of the text.
            let mut elements: Vec<Bytes> = Vec::new();
            while let [first, ..] = pattern
                && *first != b'*'
            {
                let (bytes, rest) = element(pattern, ignore_case);
                elements.push(bytes);
                if elements.len() > text.len() {
                    return false;
                }
                pattern = rest;
            }
            match pattern {
                [] => {
                    let end = &text[text.len() - elements.len()..];
                    return end.iter().zip(&elements).all(|(byte, bytes)| has(bytes, *byte));
                }
                [_, rest @ ..] => {
                    let Some(behind) = end_of_first(&elements, text) else { return false };
                    (pattern, text) = (rest, &text[behind..]);
                    if pattern.is_empty() {
                        return true;
                    }
                }
            }
        }
    }
}

fn has(bytes: &Bytes, byte: u8) -> bool {
    bytes[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
}

/// Where the first place ends at which the elements match. Bit n of the state: the first n + 1 elements match up to here.
fn end_of_first(elements: &[Bytes], text: &[u8]) -> Option<usize> {
    let Some(last) = elements.len().checked_sub(1) else { return Some(0) };
    let words = elements.len().div_ceil(64);
    let mut by_byte = vec![0u64; 256 * words];
    for (n, bytes) in elements.iter().enumerate() {
        for byte in (0..=u8::MAX).filter(|byte| has(bytes, *byte)) {
            by_byte[usize::from(byte) * words + n / 64] |= 1 << (n % 64);
        }
    }
    let mut state = vec![0u64; words];
    for (at, byte) in text.iter().enumerate() {
        let mut carry = 1;
        for (word, row) in state.iter_mut().zip(&by_byte[usize::from(*byte) * words..]) {
            let next = (*word << 1 | carry) & row;
            carry = *word >> 63;
            *word = next;
        }
        if state[last / 64] >> (last % 64) & 1 == 1 {
            return Some(at + 1);
        }
    }
    None
}

/// The bytes that the first element of a pattern matches, which is no star, and what follows it.
fn element(pattern: &[u8], ignore_case: bool) -> (Bytes, &[u8]) {
    let mut bytes = Bytes::default();
    let mut rest = pattern;
    // Only classes cost more than a step, and each is looked through for every byte: as often as there are bytes.
    for byte in 0..=u8::MAX {
        let (matches, behind) = match_one(pattern, byte, ignore_case);
        bytes[usize::from(byte >> 6)] |= u64::from(matches) << (byte & 63);
        rest = behind;
    }
    (bytes, rest)
}

/// Whether a byte matches the first element of `pattern`, and what follows the element.
fn match_one(pattern: &[u8], byte: u8, ignore_case: bool) -> (bool, &[u8]) {
    match pattern {
        [] => (false, &[]),
        [b'?', rest @ ..] => (true, rest),
        [b'[', class @ ..] => match_class(class, byte, ignore_case),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (same(*literal, byte, ignore_case), rest),
    }
}

/// Matches one byte against a class whose `[` has been read. A class that is not closed ends with the pattern.
fn match_class(class: &[u8], byte: u8, ignore_case: bool) -> (bool, &[u8]) {
    let (negated, mut rest) = match class {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut found = false;
    loop {
        rest = match rest {
            [] => return (found != negated, rest),
            [b'\\', literal, tail @ ..] => {
                found |= *literal == byte;
                tail
            }
            [b']', tail @ ..] => return (found != negated, tail),
            [low, b'-', high, tail @ ..] => {
                let [low, high, byte] =
                    [*low, *high, byte].map(|b| if ignore_case { b.to_ascii_lowercase() } else { b });
                found |= (low.min(high)..=low.max(high)).contains(&byte);
                tail
            }
            [literal, tail @ ..] => {
                found |= same(*literal, byte, ignore_case);
                tail
            }
        };
    }
}

fn same(a: u8, b: u8, ignore_case: bool) -> bool {
    a == b || ignore_case && a.eq_ignore_ascii_case(&b)
}

#[cfg(test)]
mod tests {
    use super::{BehindStar, glob_matches, glob_matches_within};
    use vocab::Prng;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*", "a", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[b-a]llo", "hallo", true),
            ("h[\\]]llo", "h]llo", true),
            ("h[a", "ha", true),
            ("h[", "h", false),
            ("[^]", "a", true),
            ("[^", "a", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("a\\", "a\\", true),
            ("ABC", "abc", false),
        ] {
            assert_eq!(glob_matches(pattern.as_bytes(), text.as_bytes(), false), expected, "{pattern} {text}");
        }
        assert!(glob_matches(b"A[B-C]*", b"acX", true));
    }

    /// A recursive matcher would take 2^30 steps.
    #[test]
    fn many_stars_take_polynomial_time() {
        assert!(!glob_matches("*a".repeat(30).as_bytes(), "a".repeat(29).as_bytes(), false));
        assert!(!glob_matches(("a*".repeat(30) + "b").as_bytes(), "a".repeat(10_000).as_bytes(), false));
    }

    #[test]
    fn both_ways_of_matching_agree() {
        let mut prng = Prng::new(11);
        let words: [&[u8]; 12] = [b"*", b"?", b"a", b"b", b"[ab]", b"[^a]", b"[a-b", b"\\a", b"aa", b"ab", b"*", b"B"];
        for _ in 0..20_000 {
            let pattern: Vec<u8> = (0..prng.below(7)).flat_map(|_| words[prng.below(12) as usize].to_vec()).collect();
            let text: Vec<u8> = (0..prng.below(9)).map(|_| b'a' + prng.below(2) as u8).collect();
            for ignore_case in [false, true] {
                let expected = glob_matches(&[b"*", &pattern[..]].concat(), &text, ignore_case);
                let other = BehindStar { pattern: &pattern, text: &text }.matches(ignore_case);
                let shown = format!("*{} {}", pattern.escape_ascii(), text.escape_ascii());
                assert_eq!(other, expected, "{shown}");
            }
        }
        let long = "ab".repeat(100) + "c";
        assert!(BehindStar { pattern: long.as_bytes(), text: ("ab".repeat(5_000) + "c").as_bytes() }.matches(false));
        assert!(!BehindStar { pattern: long.as_bytes(), text: "ab".repeat(5_000).as_bytes() }.matches(false));
    }

    #[test]
    fn what_would_take_too_many_steps_is_not_decided() {
        let (pattern, text) = ("*".to_owned() + &"a".repeat(4_000) + "b", "a".repeat(31_000));
        assert!(!glob_matches(pattern.as_bytes(), text.as_bytes(), false));
        let mut left = 1 << 22;
        let mut matched = || glob_matches_within(pattern.as_bytes(), text.as_bytes(), &mut left);
        assert_eq!((matched(), matched()), (Some(false), None));
        assert_eq!(glob_matches_within(b"a*b", b"axxb", &mut 100), Some(true));
        assert_eq!(glob_matches_within(b"a*b", b"axxb", &mut 0), None);
    }
}
