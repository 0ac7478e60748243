//! Basalt's own configuration file: TOML (toml.io, version 1.0), each setting a key of the top.

use super::file::{FileSettings, Note};
use super::given::{Given, Origin, find};
use node::config::{Kind, Setting};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

/// Reads a file's text.
pub fn parse(path: &Arc<Path>, text: &str) -> FileSettings {
    let mut settings = FileSettings::default();
    let line_of = |span: &Range<usize>| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
    let note = |line, text: String| Note { path: path.clone(), line, text };
    let (table, errors) = DeTable::parse_recoverable(text);
    for e in errors {
        settings.errors.push(note(line_of(&e.span().unwrap_or_default()), e.message().to_owned()));
    }
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    for (name, value) in entries {
        let line = line_of(&name.span());
        match value_text(value.get_ref()) {
            Ok(value) => {
                let origin = Origin::File { path: path.clone(), line };
                settings.given.push(Given { name: name.get_ref().to_string(), value, origin });
            }
            Err(reason) => settings.errors.push(note(line, format!("{}: {reason}", name.get_ref()))),
        }
    }
    settings
}

/// A text as TOML has it: a basic string.
pub fn text(value: &str) -> String {
    let escaped = value.chars().map(|c| match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// A setting's value as TOML has it: numbers and truths without quotes.
pub fn value(setting: &Setting, value: &str) -> String {
    match (setting.kind, value) {
        (Kind::Bool, "yes") => "true".to_owned(),
        (Kind::Bool, "no") => "false".to_owned(),
        (Kind::Integer { .. }, number) if number.parse::<i64>().is_ok() => number.to_owned(),
        _ => text(value),
    }
}

/// The value as CONFIG SET takes it.
fn value_text(value: &DeValue<'_>) -> Result<String, &'static str> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(n) if n.radix() == 10 => Ok(n.as_str().trim_start_matches('+').to_owned()),
        DeValue::Integer(_) => Err("write the number in decimal"),
        DeValue::Boolean(true) => Ok("yes".to_owned()),
        DeValue::Boolean(false) => Ok("no".to_owned()),
        DeValue::Array(items) => {
            let texts: Result<Vec<_>, _> = items.iter().map(|item| value_text(item.get_ref())).collect();
            Ok(texts?.join(","))
        }
        DeValue::Table(_) => Err("settings are at the top of the file, not in tables"),
        DeValue::Float(_) | DeValue::Datetime(_) => Err("a setting is text, a whole number, or true and false"),
    }
}

/// Writes new values of settings into a file's text: where the file has the setting, under either name, its value is replaced,
/// and all else stays; what it lacks is added below the comment that `basalt config print` writes of it, or at the end.
pub fn rewrite(text: &str, changes: &[(&str, String)]) -> String {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut spans: Vec<(Range<usize>, String)> = Vec::new();
    let mut added = String::new();
    for (name, value) in changes {
        let value = find(name).map_or_else(|| self::text(value), |setting| self::value(setting, value));
        let is_it = |key: &str| find(key).is_some_and(|setting| setting.name == *name);
        let known = spans.len();
        let lines = table.get_ref().iter().filter(|(key, _)| is_it(key.get_ref()));
        spans.extend(lines.map(|(_, old)| (old.span(), value.clone())));
        if spans.len() == known {
            let line = format!("{name} = {value}\n");
            match below_comment(text, name) {
                Some(at) => spans.push((at..at, line)),
                None => added.push_str(&line),
            }
        }
    }
    spans.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let mut text = text.to_owned();
    for (span, value) in spans {
        text.replace_range(span, &value);
    }
    if !added.is_empty() && !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text + &added
}

/// Where the line after `# NAME = …` begins.
fn below_comment(text: &str, name: &str) -> Option<usize> {
    let comment = format!("# {name} = ");
    let mut end = 0;
    text.split_inclusive('\n').find_map(|line| {
        end += line.len();
        (line.starts_with(&comment) && line.ends_with('\n')).then_some(end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> FileSettings {
        parse(&Arc::from(Path::new("b.toml")), text)
    }

    #[test]
    fn values_of_each_kind() {
        let settings = parsed(
            "# a node\nlisten = \"127.0.0.1:7000\"\nmaxclients = 1_000\n\nprotected-mode = false\njoin = [\"a:1\", \"b:2\"]\n",
        );
        assert_eq!(settings.errors, []);
        let line = |one: &Given| match &one.origin {
            Origin::File { line, .. } => *line,
            _ => 0,
        };
        let found: Vec<_> =
            settings.given.iter().map(|one| (line(one), one.name.as_str(), one.value.as_str())).collect();
        let expected = [
            (2, "listen", "127.0.0.1:7000"),
            (3, "maxclients", "1000"),
            (5, "protected-mode", "no"),
            (6, "join", "a:1,b:2"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn errors_have_lines() {
        let settings = parsed("hz = 1.5\nmemory = \n[server]\nport = 1\n");
        let errors: Vec<_> = settings.errors.iter().map(ToString::to_string).collect();
        assert!(errors.iter().any(|e| e.starts_with("b.toml:1: hz: a setting is text")), "{errors:?}");
        assert!(errors.iter().any(|e| e.starts_with("b.toml:2: ")), "{errors:?}");
        assert!(errors.iter().any(|e| e.starts_with("b.toml:3: server: settings are at the top")), "{errors:?}");
    }

    #[test]
    fn a_rewrite_keeps_what_is_around() {
        let text = "# ours\nhz = 10 # ten\nsave = \"\"";
        let changes = [("hz", "50".to_owned()), ("requirepass", "a\"b".to_owned())];
        let rewritten = rewrite(text, &changes);
        assert_eq!(rewritten, "# ours\nhz = 50 # ten\nsave = \"\"\nrequirepass = \"a\\\"b\"\n");
        let again: Vec<_> = parsed(&rewritten).given.into_iter().map(|one| (one.name, one.value)).collect();
        assert_eq!(again[0], ("hz".to_owned(), "50".to_owned()));
        assert_eq!(again[2], ("requirepass".to_owned(), "a\"b".to_owned()));
        // The second name of a setting, and both of them.
        let changes = [("hash-max-listpack-entries", "9".to_owned())];
        assert_eq!(rewrite("hash-max-ziplist-entries = 1\n", &changes), "hash-max-ziplist-entries = 9\n");
        let both = rewrite("hash-max-listpack-entries = 1\nhash-max-ziplist-entries = 2\n", &changes);
        assert_eq!(both, "hash-max-listpack-entries = 9\nhash-max-ziplist-entries = 9\n");
        // A file as `config print` writes it.
        let printed = "# Seconds. (live)\n# timeout = 0\n\n# Or not.\n# latency-tracking = true\n";
        let changes = [("timeout", "7".to_owned()), ("latency-tracking", "no".to_owned())];
        let expected = "# Seconds. (live)\n# timeout = 0\ntimeout = 7\n\n# Or not.\n# latency-tracking = true\nlatency-tracking = false\n";
        assert_eq!(rewrite(printed, &changes), expected);
    }
}
