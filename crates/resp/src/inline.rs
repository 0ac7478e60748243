//! Splits inline requests into words, with the quoting that redis-cli and Redis itself understand.

use crate::ProtocolError;
use std::ops::Range;

/// What separates words; within an unquoted word only the first four do, as in Redis.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0B | 0x0C)
}

fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// The words of a line without quotes, as ranges of it.
pub(crate) fn split_plain(line: &[u8], words: &mut Vec<Range<usize>>) {
    let mut at = 0;
    loop {
        at += line[at..].iter().take_while(|&&b| is_blank(b)).count();
        if at == line.len() {
            return;
        }
        let length = line[at..].iter().take_while(|&&b| !ends_word(b)).count();
        words.push(at..at + length);
        at += length;
    }
}

/// The words of a line with quotes, unquoted into `out`, as ranges of that.
pub(crate) fn split_quoted(line: &[u8], out: &mut Vec<u8>, words: &mut Vec<Range<usize>>) -> Result<(), ProtocolError> {
    out.clear();
    let mut rest = line;
    loop {
        let blanks = rest.iter().take_while(|&&b| is_blank(b)).count();
        rest = &rest[blanks..];
        if rest.is_empty() {
            return Ok(());
        }
        let start = out.len();
        rest = unquote_word(rest, out)?;
        words.push(start..out.len());
    }
}

/// The words of a line, with or without quotes.
pub fn inline_words(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let (mut unquoted, mut words) = (Vec::new(), Vec::new());
    split_quoted(line, &mut unquoted, &mut words)?;
    Ok(words.into_iter().map(|word| unquoted[word].to_vec()).collect())
}

/// Appends the word that `rest` begins with; answers what follows it.
fn unquote_word<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        match rest {
            [] => return Ok(rest),
            [quote @ (b'"' | b'\''), tail @ ..] => {
                let tail = if *quote == b'"' { unquote_double(tail, out)? } else { unquote_single(tail, out)? };
                return match tail.first() {
                    Some(&next) if !is_blank(next) => Err(ProtocolError::UnbalancedQuotes),
                    _ => Ok(tail),
                };
            }
            [byte, ..] if ends_word(*byte) => return Ok(rest),
            [byte, tail @ ..] => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
}

/// Within `"…"`: `\n \r \t \b \a`, `\xHH`, and any other byte after `\` stands for itself.
fn unquote_double<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'"', tail @ ..] => return Ok(tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.push(hex_value(*high) << 4 | hex_value(*low));
                rest = tail;
            }
            [b'\\', escaped, tail @ ..] => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                rest = tail;
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
}

/// Within `'…'`: only `\'` is an escape.
fn unquote_single<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'\'', tail @ ..] => return Ok(tail),
            [b'\\', b'\'', tail @ ..] => {
                out.push(b'\'');
                rest = tail;
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}
