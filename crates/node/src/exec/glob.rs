//! Patterns of KEYS, SCAN and HSCAN: `*`, `?`, `[a-z]`, `[^a-z]`, and `\` before what is meant literally.

/// Whether the whole of `text` is as `pattern` says, to the letter as Redis has it: an unfinished `[` ends with the
/// pattern, a range may run backwards, and no pattern but the empty one describes the empty text.
///
/// Takes steps in the order of the product of the two lengths at worst, never more.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    // After the last star: the pattern that follows it, and the text that it has not swallowed yet.
    let mut star: Option<(usize, usize)> = None;
    while let Some(&byte) = text.get(t) {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, t));
            continue;
        }
        if let Some(used) = one(&pattern[p..], byte) {
            p += used;
            t += 1;
        } else if let Some((after, swallowed)) = star {
            (p, t) = (after, swallowed + 1);
            star = Some((p, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// How long the beginning of `pattern` is that describes one byte, if it describes `byte`.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', class @ ..] => {
            let (found, used) = in_class(class, byte);
            found.then_some(1 + used)
        }
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

/// Whether `byte` is in the class whose text begins after the bracket, and how long that text is.
fn in_class(class: &[u8], byte: u8) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut found = false;
    let mut at = usize::from(negated);
    loop {
        let step = match &class[at..] {
            [] => return (found != negated, at),
            [b'\\', literal, ..] => {
                found |= *literal == byte;
                2
            }
            [b']', ..] => return (found != negated, at + 1),
            [from, b'-', to, ..] => {
                found |= (*from.min(to)..=*from.max(to)).contains(&byte);
                3
            }
            [literal, ..] => {
                found |= *literal == byte;
                1
            }
        };
        at += step;
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, yes, no) in [
            ("", &[""][..], &["a"][..]),
            ("*", &["a", "abc"], &[""]),
            ("a*", &["a", "ab"], &["ba", ""]),
            ("*a*b", &["ab", "xaxb", "aabb"], &["a", "ba", "abx"]),
            ("h?llo", &["hello", "hallo"], &["hllo", "heello"]),
            ("h[ae]llo", &["hello", "hallo"], &["hillo"]),
            ("h[^e]llo", &["hallo"], &["hello"]),
            ("h[a-c]llo", &["hallo", "hcllo"], &["hdllo"]),
            ("h[c-a]llo", &["hbllo"], &["hdllo"]),
            ("h[]llo", &[], &["hllo", "h]llo"]),
            ("[abc", &["a", "c"], &["d", "[abc"]),
            ("[a-", &["a", "-"], &["b"]),
            ("[\\]]", &["]"], &["\\"]),
            ("a\\*", &["a*"], &["ab"]),
            ("a\\", &["a\\"], &["a"]),
            ("a**", &["a", "ab"], &["b"]),
        ] {
            yes.iter().for_each(|text| assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}"));
            no.iter().for_each(|text| assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}"));
        }
    }

    #[test]
    fn many_stars_end_soon() {
        let pattern = "a*".repeat(1000) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(10_000).as_bytes()));
    }
}
