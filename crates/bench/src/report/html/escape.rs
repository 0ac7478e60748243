//! What a document is made of stays apart from what a run says: every string that comes from a run passes through here.

/// Text for an element's content or a double-quoted attribute. Control characters, which HTML forbids, become blanks.
#[must_use]
pub fn text(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// JSON for the content of a script element: without `<`, nothing in it can end the element or begin a comment.
#[must_use]
pub fn json(raw: &str) -> String {
    // Outside of strings JSON has no `<`, and within one the escape means the same.
    raw.replace('<', "\\u003c")
}

/// A figure and its unit stay on one line.
pub(super) fn unbroken(cell: &str) -> String {
    text(cell).replace(' ', "\u{a0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text() {
        assert_eq!(text("<a b='\"'>&\u{1b}"), "&lt;a b=&#39;&quot;&#39;&gt;&amp; ");
        assert_eq!(json(r#"["</script><!--"]"#), r#"["\u003c/script>\u003c!--"]"#);
        let back: Vec<String> = serde_json::from_str(&json(r#"["</script><!--"]"#)).expect("still JSON");
        assert_eq!(back, ["</script><!--"]);
    }
}
