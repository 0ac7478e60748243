//! `cjson.decode`.

use super::arguments::{Arguments, TEXT_READ_INSTRUCTIONS};
use super::json_settings::JsonSettings;
use crate::script::meter::Meter;
use mlua::{Error, Table, Value};
use vocab::limits::SCRIPT_VALUE_INSTRUCTIONS;

/// Values within values, whatever is set.
const DEPTH_MAX: i64 = 1000;

pub(super) fn decode(of: &Arguments<'_>, settings: &JsonSettings, meter: &Meter) -> mlua::Result<Value> {
    if of.values.len() != 1 {
        return Err(of.bad(1, "expected 1 argument"));
    }
    let text = of.bytes(1)?;
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(of.error("JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut parser = Parser { of, settings, meter, text: &text, at: 0, depth: 0 };
    let value = parser.value()?;
    let last = parser.next();
    match last.kind {
        Kind::End => Ok(value),
        _ => Err(parser.expected("the end", &last)),
    }
}

/// What stands at a place of the text.
enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Wrong(&'static str),
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::Text(_) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Wrong(why) => why,
        }
    }
}

struct Token {
    kind: Kind,
    /// Where it is, or where it is wrong.
    at: usize,
}

struct Parser<'a> {
    of: &'a Arguments<'a>,
    settings: &'a JsonSettings,
    meter: &'a Meter,
    text: &'a [u8],
    at: usize,
    depth: i64,
}

impl Parser<'_> {
    /// The byte so far on; 0 behind the end.
    fn byte(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn expected(&self, what: &str, found: &Token) -> Error {
        self.of.error(&format!("Expected {what} but found {} at character {}", found.kind.name(), found.at + 1))
    }

    fn next(&mut self) -> Token {
        while matches!(self.byte(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        let at = self.at;
        let rest = self.text.get(at..).unwrap_or_default();
        let single = match self.byte(0) {
            b'{' => Kind::ObjectBegin,
            b'}' => Kind::ObjectEnd,
            b'[' => Kind::ArrayBegin,
            b']' => Kind::ArrayEnd,
            b',' => Kind::Comma,
            b':' => Kind::Colon,
            0 => return Token { kind: Kind::End, at },
            b'"' => return self.string(at),
            b'-' | b'0'..=b'9' if self.settings.decode_invalid.get() || !self.is_invalid_number() => {
                return self.number(at);
            }
            b'-' | b'0'..=b'9' => return Token { kind: Kind::Wrong("invalid number"), at },
            _ => {
                for (word, kind) in
                    [(&b"true"[..], Kind::Boolean(true)), (b"false", Kind::Boolean(false)), (b"null", Kind::Null)]
                {
                    if rest.starts_with(word) {
                        self.at += word.len();
                        return Token { kind, at };
                    }
                }
                let may_be_number = matches!(self.byte(0), b'+' | b'i' | b'I' | b'n' | b'N');
                if may_be_number && self.settings.decode_invalid.get() && self.is_invalid_number() {
                    return self.number(at);
                }
                return Token { kind: Kind::Wrong("invalid token"), at };
            }
        };
        self.at += 1;
        Token { kind: single, at }
    }

    /// A number that JSON does not have, and C reads.
    fn is_invalid_number(&self) -> bool {
        if self.byte(0) == b'+' {
            return true;
        }
        let sign = usize::from(self.byte(0) == b'-');
        match self.byte(sign) {
            b'0' => (self.byte(sign + 1) | 0x20) == b'x' || self.byte(sign + 1).is_ascii_digit(),
            first if first <= b'9' => false,
            _ => {
                let three: Vec<u8> = (0..3).map(|n| self.byte(sign + n).to_ascii_lowercase()).collect();
                three == b"inf" || three == b"nan"
            }
        }
    }

    fn number(&mut self, at: usize) -> Token {
        match number_at(&self.text[at..]) {
            Some((number, length)) => {
                self.at += length;
                Token { kind: Kind::Number(number), at }
            }
            None => Token { kind: Kind::Wrong("invalid number"), at },
        }
    }

    fn string(&mut self, at: usize) -> Token {
        let mut text = Vec::new();
        self.at += 1;
        loop {
            match self.byte(0) {
                b'"' => {
                    self.at += 1;
                    return Token { kind: Kind::Text(text), at };
                }
                0 => return Token { kind: Kind::Wrong("unexpected end of string"), at: self.at },
                b'\\' if self.byte(1) == b'u' => match self.unicode() {
                    Some((c, length)) => {
                        push_utf8(&mut text, c);
                        self.at += length;
                    }
                    None => return Token { kind: Kind::Wrong("invalid unicode escape code"), at: self.at },
                },
                b'\\' => {
                    text.push(match self.byte(1) {
                        b'b' => 8,
                        b't' => b'\t',
                        b'n' => b'\n',
                        b'f' => 12,
                        b'r' => b'\r',
                        plain @ (b'"' | b'\\' | b'/') => plain,
                        _ => return Token { kind: Kind::Wrong("invalid escape code"), at: self.at },
                    });
                    self.at += 2;
                }
                byte => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn hex4(&self, ahead: usize) -> Option<u32> {
        (0..4).try_fold(0, |code, n| Some(code << 4 | char::from(self.byte(ahead + n)).to_digit(16)?))
    }

    /// The character of `\uXXXX`, or of two of them, and how long they are.
    fn unicode(&self) -> Option<(u32, usize)> {
        let first = self.hex4(2)?;
        if first & 0xF800 != 0xD800 {
            return Some((first, 6));
        }
        if first & 0x400 != 0 || self.byte(6) != b'\\' || self.byte(7) != b'u' {
            return None;
        }
        let second = self.hex4(8)?;
        (second & 0xFC00 == 0xDC00).then(|| ((((first & 0x3FF) << 10) | (second & 0x3FF)) + 0x1_0000, 12))
    }

    fn descend(&mut self) -> mlua::Result<()> {
        self.depth += 1;
        if self.depth <= self.settings.decode_depth_max.get().min(DEPTH_MAX) {
            return Ok(());
        }
        let text = format!("Found too many nested data structures ({}) at character {}", self.depth, self.at);
        Err(self.of.error(&text))
    }

    /// The key of an object, and the colon behind it.
    fn key(&mut self, token: Token) -> mlua::Result<Vec<u8>> {
        let Kind::Text(key) = token.kind else { return Err(self.expected("object key string", &token)) };
        let colon = self.next();
        if matches!(colon.kind, Kind::Colon) { Ok(key) } else { Err(self.expected("colon", &colon)) }
    }

    /// The next value, with all that it holds.
    fn value(&mut self) -> mlua::Result<Value> {
        let mut open: Vec<Open> = Vec::new();
        let mut token = self.next();
        loop {
            self.meter.values(TEXT_READ_INSTRUCTIONS + SCRIPT_VALUE_INSTRUCTIONS)?;
            let value = match token.kind {
                Kind::Text(text) => Value::String(self.of.lua.create_string(text)?),
                Kind::Number(number) => Value::Number(number),
                Kind::Boolean(b) => Value::Boolean(b),
                Kind::Null => Value::NULL,
                Kind::ObjectBegin | Kind::ArrayBegin => {
                    self.descend()?;
                    let (table, next) = (self.of.lua.create_table()?, self.next());
                    match (&token.kind, &next.kind) {
                        (Kind::ObjectBegin, Kind::ObjectEnd) | (Kind::ArrayBegin, Kind::ArrayEnd) => {
                            self.depth -= 1;
                            Value::Table(table)
                        }
                        (Kind::ObjectBegin, _) => {
                            let key = self.key(next)?;
                            open.push(Open::Object(table, key));
                            token = self.next();
                            continue;
                        }
                        _ => {
                            open.push(Open::Array(table, 1));
                            token = next;
                            continue;
                        }
                    }
                }
                _ => return Err(self.expected("value", &token)),
            };
            match self.put(value, &mut open)? {
                Put::Next(next) => token = next,
                Put::Done(value) => return Ok(value),
            }
        }
    }

    /// Puts a value where it belongs, and closes what ends behind it.
    fn put(&mut self, mut value: Value, open: &mut Vec<Open>) -> mlua::Result<Put> {
        while let Some(top) = open.last_mut() {
            match top {
                Open::Array(table, at) => {
                    table.raw_set(*at, value)?;
                    *at += 1;
                }
                Open::Object(table, key) => table.raw_set(self.of.lua.create_string(&*key)?, value)?,
            }
            let end = self.next();
            match (top, &end.kind) {
                (Open::Array(..), Kind::Comma) => return Ok(Put::Next(self.next())),
                (Open::Object(_, key), Kind::Comma) => {
                    let next = self.next();
                    *key = self.key(next)?;
                    return Ok(Put::Next(self.next()));
                }
                (Open::Array(table, _), Kind::ArrayEnd) | (Open::Object(table, _), Kind::ObjectEnd) => {
                    value = Value::Table(table.clone());
                }
                (Open::Array(..), _) => return Err(self.expected("comma or array end", &end)),
                (Open::Object(..), _) => return Err(self.expected("comma or object end", &end)),
            }
            open.pop();
            self.depth -= 1;
        }
        Ok(Put::Done(value))
    }
}

/// An array or an object whose end has not been reached: kept here, not on the stack of the thread.
enum Open {
    /// And the place of the next value.
    Array(Table, usize),
    /// And the key of the next value.
    Object(Table, Vec<u8>),
}

/// What follows on a value.
enum Put {
    /// Another one, which begins so.
    Next(Token),
    /// Nothing: this is the whole.
    Done(Value),
}

/// A number below 0x110000 as UTF-8, be it a character or not.
fn push_utf8(text: &mut Vec<u8>, c: u32) {
    let tail = |shift: u32| ((c >> shift) & 0x3F) as u8 | 0x80;
    match c {
        0..0x80 => text.push(c as u8),
        0x80..0x800 => text.extend([(c >> 6) as u8 | 0xC0, tail(0)]),
        0x800..0x1_0000 => text.extend([(c >> 12) as u8 | 0xE0, tail(6), tail(0)]),
        _ => text.extend([(c >> 18) as u8 | 0xF0, tail(12), tail(6), tail(0)]),
    }
}

/// The number that a text begins with, as C's `strtod` reads it, and its length.
fn number_at(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let signed = |d: f64| if text[0] == b'-' { -d } else { d };
    let body = &text[sign..];
    let begins = |word: &[u8]| body.len() >= word.len() && body[..word.len()].eq_ignore_ascii_case(word);
    for (word, d) in [(&b"infinity"[..], f64::INFINITY), (b"inf", f64::INFINITY), (b"nan", f64::NAN)] {
        if begins(word) {
            return Some((signed(d), sign + word.len()));
        }
    }
    if begins(b"0x")
        && let Some((d, length)) = hexadecimal(&body[2..])
    {
        return Some((signed(d), sign + 2 + length));
    }
    let digits = |from: usize| body[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(0);
    let mut end = whole;
    let mut any = whole > 0;
    if body.get(end) == Some(&b'.') {
        let behind = digits(end + 1);
        any |= behind > 0;
        end += 1 + behind;
    }
    if !any {
        return None;
    }
    if matches!(body.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(body.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits((end + 1 + sign).min(body.len()));
        end += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    let number = std::str::from_utf8(&body[..end]).ok()?.parse::<f64>().ok()?;
    Some((signed(number), sign + end))
}

/// Hexadecimal digits behind `0x`, with a point and an exponent.
fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let (mut d, mut at, mut scale, mut any, mut behind) = (0.0f64, 0, 0i32, false, false);
    while let Some(&b) = text.get(at) {
        match char::from(b).to_digit(16) {
            Some(digit) => {
                d = d * 16.0 + f64::from(digit);
                scale -= if behind { 4 } else { 0 };
                any = true;
            }
            None if b == b'.' && !behind => behind = true,
            None => break,
        }
        at += 1;
    }
    if !any {
        return None;
    }
    if matches!(text.get(at), Some(b'p' | b'P')) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let digits = text[(at + 1 + sign).min(text.len())..].iter().take_while(|b| b.is_ascii_digit()).count();
        if digits > 0 {
            let word = std::str::from_utf8(&text[at + 1..at + 1 + sign + digits]).ok()?;
            scale = scale.saturating_add(word.parse().unwrap_or(if word.starts_with('-') { -9999 } else { 9999 }));
            at += 1 + sign + digits;
        }
    }
    Some((libm::scalbn(d, scale), at))
}
