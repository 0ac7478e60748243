//! Transcripts: what is sent and what must come back, as text.
//!
//! ```text
//! # a comment
//! > SET key "two words\r\n"      a request, as words or quoted strings
//! raw> PING\r\n                  bytes as they are
//! < +OK                          the next answer, one line as `Value` shows it
//! <~ -ERR unknown                the next answer begins so
//! < closed                       the server has closed the connection
//! 2> GET key                     the same on a second connection; likewise `2raw>`, `2<`
//! raw> \{70000*x}\r\n          in raw bytes and quoted strings: that many of one byte
//! < ["x" :@v]                    an integer that is not known beforehand: bound here, and later the same
//! > KV.DEL key IFVERSION @v      … and used
//! ```
//!
//! With `BASALT_TRANSCRIPTS=rewrite` the answers are written into the file instead: read the diff.

use super::Connection;
use std::collections::BTreeMap;
use std::path::Path;

/// Replays a transcript against the server at `port`; all differences, a line each.
pub fn replay(path: &Path, port: u16) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut connections: BTreeMap<String, Connection> = BTreeMap::new();
    let mut differences = Vec::new();
    let mut rewritten = String::new();
    let mut bound = BTreeMap::new();
    for (i, line) in text.lines().enumerate() {
        let mut shown = line.to_owned();
        if let Some((who, what, rest)) = parts(line) {
            let connection = connections.entry(who.to_owned()).or_insert_with(|| Connection::open(port).unwrap());
            let rest = &substituted(rest, &bound);
            match what {
                ">" => drop(connection.send(&Connection::encode(&words(rest)))),
                "raw>" => drop(connection.send(&unescape(rest))),
                _ => {
                    let got = answer(connection);
                    let holds = if what == "<" { matches(rest, &got, &mut bound) } else { got.starts_with(rest) };
                    if !holds {
                        differences.push(format!("line {}: {rest}\n     but: {got}", i + 1));
                        shown = format!("{who}{what} {got}");
                    }
                }
            }
        }
        rewritten += &shown;
        rewritten.push('\n');
    }
    if std::env::var("BASALT_TRANSCRIPTS").as_deref() == Ok("rewrite") {
        std::fs::write(path, rewritten).unwrap();
    }
    differences
}

/// `text` with the variables that are bound.
fn substituted(text: &str, bound: &BTreeMap<String, String>) -> String {
    let mut parts = text.split('@');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = variable(part);
        match bound.get(name) {
            Some(value) => whole += value,
            None => whole = whole + "@" + name,
        }
        whole += rest;
    }
    whole
}

/// The name at the beginning of what follows an `@`, and the rest.
fn variable(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len()))
}

/// Whether `got` is as expected; binds the variables that it tells.
fn matches(expected: &str, got: &str, bound: &mut BTreeMap<String, String>) -> bool {
    // Categories of commands are written with an `@` too.
    if expected == got {
        return true;
    }
    let mut parts = expected.split('@');
    let Some(mut rest) = got.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    for part in parts {
        let (name, literal) = variable(part);
        let (value, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let Some(after) = after.strip_prefix(literal).filter(|_| !value.is_empty()) else { return false };
        if bound.entry(name.to_owned()).or_insert_with(|| value.to_owned()) != value {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

fn answer(connection: &mut Connection) -> String {
    match connection.read() {
        Ok(value) => format!("{value:?}"),
        Err(error) => match error.kind() {
            std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset => "closed".to_owned(),
            std::io::ErrorKind::WouldBlock => "nothing".to_owned(),
            _ => error.to_string(),
        },
    }
}

/// The connection's name, what to do, and the rest of a line; none for comments and empty lines.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (head, rest) = line.split_once(' ').unwrap_or((line, ""));
    let what = ["raw>", ">", "<~", "<"].into_iter().find(|what| head.ends_with(what));
    let what = what.unwrap_or_else(|| panic!("not a line of a transcript: {line}"));
    Some((head.strip_suffix(what).unwrap(), what, rest))
}

/// Words between spaces; a word in double quotes may hold spaces and escapes.
fn words(text: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let escaped = |i: usize| quoted[..i].bytes().rev().take_while(|&b| b == b'\\').count() % 2 == 1;
                let end = quoted.match_indices('"').find(|&(i, _)| !escaped(i)).expect("a closing quote").0;
                (unescape(&quoted[..end]), &quoted[end + 1..])
            }
            None => {
                let end = rest.find(' ').unwrap_or(rest.len());
                (rest.as_bytes()[..end].to_vec(), &rest[end..])
            }
        };
        words.push(word);
        rest = after.trim_start();
    }
    words
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(i) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..i]);
        let after = &rest[i + 1..];
        let taken = match after.as_bytes()[0] {
            b'r' => push(&mut bytes, b'\r', 1),
            b'n' => push(&mut bytes, b'\n', 1),
            b't' => push(&mut bytes, b'\t', 1),
            b'x' => push(&mut bytes, u8::from_str_radix(&after[1..3], 16).unwrap(), 3),
            b'{' => {
                let (times, end) = after[1..].split_once('*').unwrap();
                bytes.extend(std::iter::repeat_n(end.as_bytes()[0], times.parse().unwrap()));
                times.len() + 4
            }
            other => push(&mut bytes, other, 1),
        };
        rest = &after[taken..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

fn push(bytes: &mut Vec<u8>, byte: u8, taken: usize) -> usize {
    bytes.push(byte);
    taken
}
