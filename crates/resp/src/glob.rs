//! The patterns of KEYS, SCAN, CONFIG GET and COMMAND LIST: `*`, `?`, `[a-z]`, `[^a]`, `\`.

/// Whether all of `text` matches `pattern`, as Redis matches. Takes at most time |pattern| × |text|.
#[must_use]
pub fn glob_matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let (mut p, mut t) = (pattern, text);
    // Behind the last star: the pattern, and the text not yet given up to the star.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = p {
            if rest.is_empty() {
                return true;
            }
            retry = Some((rest, t));
            p = rest;
            continue;
        }
        let step = match t {
            [] if p.is_empty() => return true,
            [] => return false,
            [byte, tail @ ..] => match_one(p, *byte, ignore_case).map(|rest| (rest, tail)),
        };
        if let Some(next) = step {
            (p, t) = next;
        } else if let Some((behind_star, [_, tail @ ..])) = retry {
            // The star takes one byte more. Giving bytes to an earlier star instead can never help.
            retry = Some((behind_star, tail));
            (p, t) = (behind_star, tail);
        } else {
            return false;
        }
    }
}

/// Matches one byte against the first element of `pattern`; answers what follows the element.
fn match_one(pattern: &[u8], byte: u8, ignore_case: bool) -> Option<&[u8]> {
    let (matches, rest) = match pattern {
        [] => return None,
        [b'?', rest @ ..] => (true, rest),
        [b'[', class @ ..] => match_class(class, byte, ignore_case),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (same(*literal, byte, ignore_case), rest),
    };
    matches.then_some(rest)
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
    use super::glob_matches;

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
}
