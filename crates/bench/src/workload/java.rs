//! Java's property files, read as `java.util.Properties` reads them: Latin-1 with `\uXXXX`, lines that end with LF, CR or
//! both, continued by a backslash, with names that end at `=`, `:` or a blank.
//!
//! One thing is added: a file that begins with UTF-8's byte order mark, as editors on Windows write it, is UTF-8.

const UTF_8_MARK: &[u8] = b"\xef\xbb\xbf";
const UTF_16_MARKS: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];
/// What Java takes for blank within a line.
const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

/// The text of a file.
///
/// # Errors
/// It is in an encoding that Java would not read.
pub(super) fn decoded(bytes: &[u8]) -> Result<String, String> {
    if UTF_16_MARKS.iter().any(|mark| bytes.starts_with(mark)) {
        return Err("the file is UTF-16: save it as Latin-1 or UTF-8".to_owned());
    }
    match bytes.strip_prefix(UTF_8_MARK) {
        Some(rest) => String::from_utf8(rest.to_vec()).map_err(|_| "the file begins as UTF-8 and is not".to_owned()),
        None => Ok(bytes.iter().copied().map(char::from).collect()),
    }
}

/// The names and values of a text, in its order.
///
/// # Errors
/// A malformed `\u` escape.
pub(super) fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |line: &String| {
        let (name, value) = split(line);
        Ok((unescape(name)?, unescape(value)?))
    };
    logical_lines(text).iter().map(pair).collect()
}

/// Lines without comments and blank ones, continued ones joined.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open: Option<String> = None;
    let text = text.replace("\r\n", "\n");
    for line in text.split(['\r', '\n']) {
        let line = line.trim_start_matches(BLANKS);
        if open.is_none() && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        let mut whole = open.take().unwrap_or_default();
        let backslashes = line.bytes().rev().take_while(|&byte| byte == b'\\').count();
        if backslashes % 2 == 1 {
            whole.push_str(&line[..line.len() - 1]);
            open = Some(whole);
        } else {
            whole.push_str(line);
            lines.push(whole);
        }
    }
    lines.extend(open);
    lines
}

/// The name ends at the first unescaped `=`, `:` or blank.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|character: char| {
        let ends = !escaped && (character == '=' || character == ':' || BLANKS.contains(&character));
        escaped = character == '\\' && !escaped;
        ends
    });
    let Some(end) = end else { return (line, "") };
    let rest = line[end..].trim_start_matches(BLANKS);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (&line[..end], value.trim_start_matches(BLANKS))
}

fn unescape(text: &str) -> Result<String, String> {
    // Java's characters are of 16 bits: two escapes may make one character.
    let mut out: Vec<u16> = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    let mut buffer = [0; 2];
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.extend_from_slice(character.encode_utf16(&mut buffer));
            continue;
        }
        let plain = match characters.next() {
            Some('t') => '\t',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('f') => '\u{c}',
            Some('u') => {
                let digits: String = characters.by_ref().take(4).collect();
                let is_code = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                let code = u16::from_str_radix(&digits, 16).ok().filter(|_| is_code);
                out.push(code.ok_or_else(|| format!("malformed \\u{digits}"))?);
                continue;
            }
            Some(other) => other,
            None => continue,
        };
        out.extend_from_slice(plain.encode_utf16(&mut buffer));
    }
    Ok(String::from_utf16_lossy(&out))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// What Java's own class makes of each text, as `name=value` joined by `|`.
    const TABLE: &[(&[u8], &str)] = &[
        (b"# comment\n! comment too\n\n  a = 1\nb:2\nc 3\nd=\ne\n", "a=1|b=2|c=3|d=|e="),
        (b"f=one\\\n   two\\\\\ng\\ h=x=y:z \\u0041\\t.\r\na=4\n", "f=onetwo\\|g h=x=y:z A\t.|a=4"),
        (b"recordcount=7\roperationcount=10\r", "recordcount=7|operationcount=10"),
        (b"a=1\r\nb=2\r\n\r\nc=3", "a=1|b=2|c=3"),
        (b"a=x\\\r\n  y\r\nb=1", "a=xy|b=1"),
        (b"\xef\xbb\xbfrecordcount=7\n", "recordcount=7"),
        (b"\xef\xbb\xbfa=\xc3\xa9\n", "a=\u{e9}"),
        (b"# caf\xe9\nname=caf\xe9\n", "name=caf\u{e9}"),
        (b"keyprefix=\\ x", "keyprefix= x"),
        (b"a=trailing  \n", "a=trailing  "),
        (b"a=\\ud83d\\ude00", "a=\u{1f600}"),
        (b"\x0ca\x0c=\x0c1", "a=1"),
        (b"a\xa0b=1", "a\u{a0}b=1"),
        (b"a=1\\", "a=1"),
        (b"a=1\\\n\nb=2", "a=1|b=2"),
        (b"=5", "=5"),
    ];

    #[test]
    fn files_are_read_as_java_reads_them() {
        for (bytes, expected) in TABLE {
            let found = pairs(&decoded(bytes).unwrap()).unwrap();
            let shown: Vec<String> = found.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(shown.join("|"), *expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn what_java_would_not_read_is_refused() {
        assert!(pairs("a=\\u00").is_err() && pairs("a=\\u00zz").is_err() && pairs("a=\\u+041").is_err());
        assert!(decoded(b"\xff\xfea\x00=\x001\x00").unwrap_err().contains("UTF-16"));
        assert!(decoded(b"\xef\xbb\xbf\xe9").is_err());
    }
}
