//! What the audit log is told: who has done or tried what. Never a value or a password.

use std::borrow::Cow;

/// What of a text is shown, in characters.
const AUDITED_CHARS_MAX: usize = 256;

/// What kind of thing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditKind {
    /// A login.
    Login,
    /// A request that its user has no right to.
    Denied,
    /// A change of users.
    User,
    /// A change of settings.
    Setting,
    /// A plan was begun, paused, taken up again or given up.
    Plan,
    /// A backup was begun or ended.
    Backup,
    /// Another request of an operator.
    Admin,
}

impl AuditKind {
    /// As the log has it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Denied => "denied",
            Self::User => "user",
            Self::Setting => "setting",
            Self::Plan => "plan",
            Self::Backup => "backup",
            Self::Admin => "admin",
        }
    }
}

/// One line of the audit log.
#[derive(Clone, Debug)]
pub struct AuditEvent<'a> {
    /// What kind of thing it is.
    pub kind: AuditKind,
    /// The user who has done it.
    pub user: Cow<'a, str>,
    /// The client's address.
    pub address: Cow<'a, str>,
    /// What was done: a command, and what of it may be told.
    pub what: Cow<'a, str>,
    /// Why it was refused, or has failed; none: it was done.
    pub refusal: Option<Cow<'a, str>>,
}

impl<'a> AuditEvent<'a> {
    /// A login by the certificate of a TLS connection.
    #[must_use]
    pub fn of_certificate(user: &'a str, address: &'a str, refusal: Option<&'a str>) -> Self {
        let refusal = refusal.map(Cow::from);
        Self { kind: AuditKind::Login, user: user.into(), address: address.into(), what: "certificate".into(), refusal }
    }

    /// Its line in the log, without a line end: JSON.
    #[must_use]
    pub fn line(&self, at_ms: u64) -> String {
        let mut line = format!("{{\"at_ms\":{at_ms}");
        let outcome = if self.refusal.is_none() { "done" } else { "refused" };
        let why = unquoted(self.refusal.as_deref().unwrap_or_default());
        for (name, text) in [
            ("kind", self.kind.word()),
            ("user", &self.user),
            ("address", &self.address),
            ("what", &self.what),
            ("outcome", outcome),
            ("why", &why),
        ] {
            if name != "why" || !text.is_empty() {
                line.push_str(&format!(",\"{name}\":\"{}\"", escaped(text)));
            }
        }
        line.push('}');
        line
    }
}

/// What a reply says against the request: the text of its error, if it is one, without what it repeats of the arguments.
#[must_use]
pub fn refusal_of<'r>(reply: &'r [u8], args: &[&[u8]]) -> Option<Cow<'r, str>> {
    let text = reply.strip_prefix(b"-")?.trim_ascii_end();
    Some(without_arguments(String::from_utf8_lossy(text), args))
}

/// An error's text with `…` for each argument that is a word of it, the longest first. The command and its subcommand stay.
#[must_use]
pub fn without_arguments<'t>(text: Cow<'t, str>, args: &[&[u8]]) -> Cow<'t, str> {
    let mut text = text;
    let mut words: Vec<Cow<'_, str>> = args.iter().skip(2).map(|arg| String::from_utf8_lossy(arg)).collect();
    words.retain(|word| (1..=text.len()).contains(&word.len()));
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    for word in &words {
        let joins = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let is_word =
            |at: usize| !joins(text[..at].chars().next_back()) && !joins(text[at + word.len()..].chars().next());
        let places: Vec<usize> = text.match_indices(&**word).map(|(at, _)| at).filter(|&at| is_word(at)).collect();
        for at in places.into_iter().rev() {
            text.to_mut().replace_range(at..at + word.len(), "…");
        }
    }
    text
}

/// An error's text without what it quotes: errors quote arguments, and one of these may be a password where none is expected. The
/// quotes of a text are not told apart, for there may be some in an argument.
fn unquoted(text: &str) -> Cow<'_, str> {
    match (text.find('\''), text.rfind('\'')) {
        (Some(first), Some(last)) if first < last => format!("{}…{}", &text[..=first], &text[last..]).into(),
        _ => text.into(),
    }
}

/// A text as JSON has it between quotes. What is long is cut.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (at, c) in text.chars().enumerate() {
        if at >= AUDITED_CHARS_MAX {
            escaped.push('…');
            break;
        }
        match c {
            '"' | '\\' => escaped.extend(['\\', c]),
            c if c.is_control() => escaped.push_str(&format!("\\u{:04x}", c as u32)),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_json_whatever_a_client_calls_itself() {
        let long = "x".repeat(AUDITED_CHARS_MAX + 5);
        let event = AuditEvent {
            kind: AuditKind::Login,
            user: "a\"b\\\n".into(),
            address: "1.2.3.4:5".into(),
            what: long.into(),
            refusal: Some("wrong".into()),
        };
        let line = event.line(7);
        let head = r#"{"at_ms":7,"kind":"login","user":"a\"b\\\u000a","address":"1.2.3.4:5","what":"xxx"#;
        assert!(line.starts_with(head), "{line}");
        assert!(line.ends_with(r#"x…","outcome":"refused","why":"wrong"}"#), "{line}");
    }

    #[test]
    fn what_an_error_repeats_of_the_request_is_not_told() {
        let line = "CONFIG SET audit-log /x/geheim a failed";
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).chain([&b""[..], &[0xFF]]).collect();
        for (reply, told) in [
            (
                "-ERR CONFIG SET failed (possibly related to argument 'audit-log') - the log /x/geheim cannot be a file\r\n",
                Some("ERR CONFIG SET … (possibly related to argument '…') - the log … cannot be … file"),
            ),
            ("-ERR /x/geheimer and /x/geheim/a\r\n", Some("ERR /x/geheimer and …/…")),
            ("-\r\n", Some("")),
            ("+OK\r\n", None),
        ] {
            assert_eq!(refusal_of(reply.as_bytes(), &args).as_deref(), told, "{reply}");
        }
    }

    #[test]
    fn what_an_error_quotes_is_not_told() {
        for (text, told) in [
            ("no right to the command", "no right to the command"),
            (
                "ERR Error in ACL SETUSER modifier 'geheim': Syntax error",
                "ERR Error in ACL SETUSER modifier '…': Syntax error",
            ),
            ("modifier 'it's': wrong, see 'x'.", "modifier '…'."),
            ("it's wrong", "it's wrong"),
            ("", ""),
        ] {
            assert_eq!(unquoted(text), told);
        }
    }
}
