//! Glob patterns as Redis has them: `*`, `?`, `[abc]`, `[a-z]`, `[^abc]` and `\` before what stands for itself.

/// Whether `text` matches `pattern`. Takes time bounded by the product of their lengths, whatever the pattern.
#[must_use]
pub fn glob_matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on when a match fails: behind the last star, with the star taking one byte more. Stars before it
    // need not be tried again: what they could reach, the last one can reach too.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        if t == text.len() {
            return p == pattern.len();
        }
        if p < pattern.len()
            && let Some(next) = one(&pattern[p..], text[t], ignore_case)
        {
            p += next;
            t += 1;
            continue;
        }
        let Some((behind_star, at)) = retry else { return false };
        retry = Some((behind_star, at + 1));
        (p, t) = (behind_star, at + 1);
    }
}

/// The length of the pattern's first item, if `byte` matches it.
fn one(pattern: &[u8], byte: u8, ignore_case: bool) -> Option<usize> {
    let fold = |b: u8| if ignore_case { b.to_ascii_lowercase() } else { b };
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', set @ ..] => {
            let (length, hit) = class(set, fold(byte), fold);
            hit.then_some(1 + length)
        }
        [b'\\', literal, ..] => (fold(*literal) == fold(byte)).then_some(2),
        [literal, ..] => (fold(*literal) == fold(byte)).then_some(1),
        [] => None,
    }
}

/// Reads what follows `[`: its length up to and with `]` (or the pattern's end), and whether `byte` is in it.
fn class(set: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> (usize, bool) {
    let negated = set.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut hit = false;
    loop {
        match &set[at..] {
            [] => return (at, hit != negated),
            [b']', ..] => return (at + 1, hit != negated),
            [b'\\', literal, ..] => {
                hit |= fold(*literal) == byte;
                at += 2;
            }
            [low, b'-', high, ..] => {
                let (low, high) = (fold(*low.min(high)), fold(*low.max(high)));
                hit |= (low..=high).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                hit |= fold(*literal) == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::glob_matches;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("*a*b", "aab", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-c]llo", "hdllo", false),
            (r"h\?llo", "h?llo", true),
            (r"h\?llo", "hello", false),
            (r"[\]]", "]", true),
            ("[ab", "a", true),
            ("x\\", "x\\", true),
            ("HELLO", "hello", false),
        ] {
            assert_eq!(glob_matches(pattern.as_bytes(), text.as_bytes(), false), expected, "{pattern} {text}");
        }
        assert!(glob_matches(b"H[A-C]*", b"hb", true));
        // A pattern that makes a recursive matcher take for ever.
        assert!(!glob_matches(b"a*a*a*a*a*a*a*a*a*a*b", &[b'a'; 2000], false));
    }
}
