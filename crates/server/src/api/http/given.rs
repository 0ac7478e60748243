//! The parameters of a request: parts of the path, the query, the body.

use crate::api::admin::AdminError;
use serde_json::Value;

/// The parts of a request that its route uses.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// The parts of the path that stand for something, in order.
    pub(super) path: Vec<String>,
    /// Names and values behind the question mark.
    pub(super) query: Vec<(String, String)>,
    /// The body; null if there is none.
    pub(super) body: Value,
}

impl Given {
    /// One of the names behind the question mark.
    pub(super) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A text of the body.
    pub(super) fn text(&self, name: &str) -> Result<String, AdminError> {
        self.optional(name)?.ok_or_else(|| AdminError::Usage(format!("the body has to have {name}, a text")))
    }

    pub(super) fn optional(&self, name: &str) -> Result<Option<String>, AdminError> {
        match &self.body[name] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            Value::Number(number) => Ok(Some(number.to_string())),
            Value::Bool(flag) => Ok(Some(if *flag { "yes" } else { "no" }.to_owned())),
            _ => Err(AdminError::Usage(format!("{name} has to be a text"))),
        }
    }

    /// Texts or numbers of the body; none if there is nothing of that name.
    pub(super) fn list(&self, name: &str) -> Result<Vec<String>, AdminError> {
        let wrong = || AdminError::Usage(format!("{name} has to be a list of texts"));
        match &self.body[name] {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => items
                .iter()
                .map(|item| match item {
                    Value::String(text) => Ok(text.clone()),
                    Value::Number(number) => Ok(number.to_string()),
                    _ => Err(wrong()),
                })
                .collect(),
            _ => Err(wrong()),
        }
    }
}

/// `%xx` and, in a query, `+` undone; none if that makes no text.
pub(super) fn unescape(text: &str, in_query: bool) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                out.push((digit()? * 16 + digit()?) as u8);
            }
            b'+' if in_query => out.push(b' '),
            byte => out.push(byte),
        }
    }
    String::from_utf8(out).ok()
}

/// The names and values of a query.
pub(super) fn pairs(query: &str) -> Option<Vec<(String, String)>> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((unescape(name, true)?, unescape(value, true)?))
    };
    pairs.map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        for (text, in_query, expected) in [
            ("a%3A1", false, Some("a:1")),
            ("a+b", false, Some("a+b")),
            ("a+b", true, Some("a b")),
            ("%4", false, None),
            ("%zz", false, None),
            ("%ff", false, None),
        ] {
            assert_eq!(unescape(text, in_query).as_deref(), expected, "{text}");
        }
        let expected = vec![("a".to_owned(), "1 2".to_owned()), ("b".to_owned(), String::new())];
        assert_eq!(pairs("a=1+2&&b"), Some(expected));
        assert_eq!(pairs("a=%"), None);
    }
}
