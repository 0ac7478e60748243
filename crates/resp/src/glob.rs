//! The patterns of KEYS, SCAN, CONFIG GET and COMMAND LIST: `*`, `?`, `[a-z]`, `[^a]`, `\`.

use std::ops::ControlFlow;

/// Steps for each byte of the text, after which the rest is matched in another way.
const STEPS_PER_BYTE: usize = 8;

/// Whether all of `text` matches `pattern`, as Redis matches. Takes about 2 × |pattern| + |text| × (256 + |pattern| / 64) steps
/// at most.
#[must_use]
pub fn glob_matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let mut steps = steps_to_try(pattern, text);
    match try_match(pattern, text, ignore_case, &mut steps) {
        ControlFlow::Break(matches) => matches,
        ControlFlow::Continue(left) => left.matches(ignore_case),
    }
}

/// The same, of which `left` tells how many steps it may take; `None`: it would take more.
#[must_use]
pub fn glob_matches_within(pattern: &[u8], text: &[u8], left: &mut usize) -> Option<bool> {
    let allowed = steps_to_try(pattern, text).min(*left);
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

/// How many steps matching by trying may take. A pattern is walked once, as a class may be all of it.
fn steps_to_try(pattern: &[u8], text: &[u8]) -> usize {
    pattern.len() + STEPS_PER_BYTE * text.len()
}

/// How many stars a pattern begins with. They match what one of them matches.
fn leading_stars(pattern: &[u8]) -> usize {
    pattern.iter().take_while(|byte| **byte == b'*').count()
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
        let stars = leading_stars(p);
        if stars > 0 {
            *steps = steps.saturating_sub(stars);
            p = &p[stars..];
            if p.is_empty() {
                return ControlFlow::Break(true);
            }
            retry = Some(BehindStar { pattern: p, text: t });
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
    /// About how many steps it takes to match it: the pattern is read once, each element is entered for all bytes that it may match,
    /// and the text is compared with 64 elements at a time.
    fn cost(&self) -> usize {
        // Each element takes a byte of the text: of more elements one is read, and nothing matches.
        let elements = self.pattern.len().min(self.text.len() + 1);
        self.pattern.len() + 256 * elements + self.text.len() * elements.div_ceil(64)
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
                stars => {
                    let Some(behind) = end_of_first(&elements, text) else { return false };
                    (pattern, text) = (&stars[leading_stars(stars)..], &text[behind..]);
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

/// The bytes that the first element of a pattern matches, which is no star, and what follows it. Reads the element once.
fn element(pattern: &[u8], ignore_case: bool) -> (Bytes, &[u8]) {
    match pattern {
        [] => (Bytes::default(), pattern),
        [b'?', rest @ ..] => ([u64::MAX; 4], rest),
        [b'[', class @ ..] => class_bytes(class, ignore_case),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => {
            let mut bytes = Bytes::default();
            add_range(&mut bytes, *literal, *literal);
            if ignore_case {
                add_range(&mut bytes, literal.to_ascii_lowercase(), literal.to_ascii_lowercase());
                add_range(&mut bytes, literal.to_ascii_uppercase(), literal.to_ascii_uppercase());
            }
            (bytes, rest)
        }
    }
}

/// The bytes that a class matches whose `[` has been read, and what follows it.
fn class_bytes(class: &[u8], ignore_case: bool) -> (Bytes, &[u8]) {
    let (negated, mut rest) = after_negation(class);
    // Bytes as they are, and those with which a byte is compared in lower case.
    let (mut bytes, mut folded) = (Bytes::default(), Bytes::default());
    loop {
        let (item, tail) = class_item(rest);
        rest = tail;
        match item {
            Some(ClassItem::Exact(literal)) => add_range(&mut bytes, literal, literal),
            Some(ClassItem::Range { low, high }) if ignore_case => {
                let [low, high] = [low, high].map(|b| b.to_ascii_lowercase());
                add_range(&mut folded, low.min(high), low.max(high));
            }
            Some(ClassItem::Range { low, high }) => add_range(&mut bytes, low.min(high), low.max(high)),
            None => break,
        }
    }
    if ignore_case {
        let matching = (0..=u8::MAX).filter(|byte| has(&folded, byte.to_ascii_lowercase()));
        matching.for_each(|byte| add_range(&mut bytes, byte, byte));
    }
    (if negated { bytes.map(|word| !word) } else { bytes }, rest)
}

/// Adds the bytes from `low` to `high`, both among them.
fn add_range(bytes: &mut Bytes, low: u8, high: u8) {
    let (first, last) = (usize::from(low >> 6), usize::from(high >> 6));
    let (from_low, to_high) = (u64::MAX << (low & 63), u64::MAX >> (63 - (high & 63)));
    if first == last {
        bytes[first] |= from_low & to_high;
        return;
    }
    bytes[first] |= from_low;
    bytes[first + 1..last].fill(u64::MAX);
    bytes[last] |= to_high;
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

/// Matches one byte against a class whose `[` has been read.
fn match_class(class: &[u8], byte: u8, ignore_case: bool) -> (bool, &[u8]) {
    let (negated, mut rest) = after_negation(class);
    let mut found = false;
    loop {
        let (item, tail) = class_item(rest);
        rest = tail;
        match item {
            Some(ClassItem::Exact(literal)) => found |= literal == byte,
            Some(ClassItem::Range { low, high }) => {
                let [low, high, byte] = [low, high, byte].map(|b| if ignore_case { b.to_ascii_lowercase() } else { b });
                found |= (low.min(high)..=low.max(high)).contains(&byte);
            }
            None => return (found != negated, rest),
        }
    }
}

/// What a class lists.
enum ClassItem {
    /// A byte behind `\`. Its case counts even where that of others is ignored, as in Redis.
    Exact(u8),
    /// The bytes between two, in either order; one byte, if both are the same.
    Range { low: u8, high: u8 },
}

/// Whether a class is of the bytes that it does not list, and its list.
fn after_negation(class: &[u8]) -> (bool, &[u8]) {
    class.strip_prefix(b"^").map_or((false, class), |list| (true, list))
}

/// The next item of a class, and what follows it. `None` at the end of the class, which one that is not closed has where the pattern
/// ends.
fn class_item(class: &[u8]) -> (Option<ClassItem>, &[u8]) {
    match class {
        [] => (None, class),
        [b'\\', literal, tail @ ..] => (Some(ClassItem::Exact(*literal)), tail),
        [b']', tail @ ..] => (None, tail),
        [low, b'-', high, tail @ ..] => (Some(ClassItem::Range { low: *low, high: *high }), tail),
        [literal, tail @ ..] => (Some(ClassItem::Range { low: *literal, high: *literal }), tail),
    }
}

fn same(a: u8, b: u8, ignore_case: bool) -> bool {
    a == b || ignore_case && a.eq_ignore_ascii_case(&b)
}

#[cfg(test)]
mod tests {
    use super::{BehindStar, element, glob_matches, glob_matches_within, has, match_one};
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

    /// That the bytes of an element are those that match it one by one, and that both ways go on at the same place.
    fn assert_elements_agree(pattern: &[u8]) {
        for ignore_case in [false, true] {
            let (bytes, rest) = element(pattern, ignore_case);
            for byte in 0..=u8::MAX {
                let (found, expected) = ((has(&bytes, byte), rest), match_one(pattern, byte, ignore_case));
                assert_eq!(found, expected, "{} {byte} {ignore_case}", pattern.escape_ascii());
            }
        }
    }

    #[test]
    fn the_bytes_of_an_element_are_those_that_match_it() {
        for pattern in [
            "", "?", "?a", "a", "Ab", "\\", "\\A", "\\*b", "[", "[]", "[]x", "[^", "[^]", "[^]x", "[^^]", "[ab]c",
            "[^aB]c", "[a-f]", "[f-a]", "[F-a]", "[^z-a]", "[0-_]", "[Z-^]", "[@-{]", "[a-]", "[a-", "[-a]", "[a-]]b",
            "[\\A]", "[\\]]", "[\\", "[a\\", "[a-\\]]", "[\\a-z]", "[^\\a-z", "[a-c-e]", "[[]", "[*?]x",
        ] {
            assert_elements_agree(pattern.as_bytes());
        }
        for pattern in
            [&b"\xff"[..], b"[\0-\xff]", b"[\xff-\0]", b"[^\0-\xff]", b"[?-@]", b"[\x3f-\x40\x7f-\x80\xbf-\xc0]"]
        {
            assert_elements_agree(pattern);
        }
        let mut prng = Prng::new(12);
        for _ in 0..2_000 {
            let mut byte = || match prng.below(3) {
                0 => prng.below(256) as u8,
                1 => b"aAzZ_@[{"[prng.below(8) as usize],
                _ => b"^-]\\"[prng.below(4) as usize],
            };
            let class: Vec<u8> = (0..12).map(|_| byte()).collect();
            assert_elements_agree(&[b"[", &class[..prng.below(12) as usize]].concat());
        }
    }

    #[test]
    fn steps_are_what_is_walked() {
        let (class, stars) = ("[".to_owned() + &"a".repeat(4_000), "*".repeat(4_000));
        for (pattern, text, steps_max) in [
            // A long class is not read once more for each byte of the text, nor for each that there is.
            ("*".to_owned() + &class, "b".repeat(100), 3 * 4_000 + 300 * 100),
            (stars.clone() + "b", "a".repeat(100), 2 * 4_000 + 300 * 100),
            ("*a".to_owned() + &stars + "b", "a".repeat(100), 2 * 4_000 + 300 * 100),
            // More elements than the text has bytes.
            ("*".to_owned() + &"a".repeat(4_000), "a".repeat(10), 2 * 4_000 + 300 * 10),
        ] {
            assert!(!glob_matches(pattern.as_bytes(), text.as_bytes(), false));
            let mut left = 1 << 22;
            assert_eq!(glob_matches_within(pattern.as_bytes(), text.as_bytes(), &mut left), Some(false));
            let steps = (1 << 22) - left;
            assert!(steps <= steps_max, "{steps} steps for {}…", &pattern[..8]);
        }
        let mut left = 1 << 22;
        assert_eq!(glob_matches_within(stars.as_bytes(), b"a", &mut left), Some(true));
        assert!(left < 1 << 22, "stars are walked, too");
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
