//! Rules as words: the parts of a selector may be given in one argument or in several.

use std::borrow::Cow;

/// The words of a text of rules.
pub(super) fn words(text: &[u8]) -> Vec<&[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect()
}

/// Rules of which those in parentheses are one argument each. The error is the last argument that opens a
/// parenthesis, if one is never closed, as Redis tells it.
pub(super) fn merged<'a>(rules: &[&'a [u8]]) -> Result<Vec<Cow<'a, [u8]>>, &'a [u8]> {
    let mut merged = Vec::with_capacity(rules.len());
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for rule in rules {
        let closes = rule.ends_with(b")");
        match &mut open {
            None if rule.starts_with(b"(") && !closes => open = Some((rule, rule.to_vec())),
            None => merged.push(Cow::Borrowed(*rule)),
            Some((first, selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(rule);
                if rule.starts_with(b"(") && !closes {
                    *first = rule;
                }
                if closes && let Some((_, selector)) = open.take() {
                    merged.push(Cow::Owned(selector));
                }
            }
        }
    }
    open.map_or(Ok(merged), |(first, _)| Err(first))
}
