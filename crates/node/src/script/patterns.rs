//! Lua's patterns, as Lua 5.1 matches them, with every step counted. A pattern of a few bytes may take any number of steps, and no hook of
//! Lua sees them. The depth of recursion is bounded too.

use super::meter::{Meter, NATIVE_CALL_INSTRUCTIONS};
use super::raised::Raised;
use mlua::{Error, Lua, MultiValue, Value};
use vocab::limits::SCRIPT_CAPTURE_INSTRUCTIONS;

const CAPTURES_MAX: usize = 32;
/// The deepest recursion of the matcher.
const DEPTH_MAX: usize = 200;
/// Steps are counted in units of this many.
const STEPS_AT_ONCE: u64 = 1000;
/// Bytes of a pattern that are looked at for the price of one step.
const BYTES_PER_STEP: usize = 4;
const SPECIALS: &[u8] = b"^$*+?.([%-";
const ESCAPE: u8 = b'%';

/// Why matching has stopped.
enum Stop {
    /// The pattern is malformed: the text of an error.
    Malformed(&'static str),
    /// The script's run is over: its budget is used up.
    Over(Error),
}

impl From<&'static str> for Stop {
    fn from(text: &'static str) -> Self {
        Self::Malformed(text)
    }
}

type Matched = Result<Option<usize>, Stop>;

#[derive(Clone, Copy)]
enum Capture {
    Unfinished(usize),
    Position(usize),
    Part(usize, usize),
}

struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    depth: usize,
    steps: u64,
    meter: &'a Meter,
}

impl<'a> Matcher<'a> {
    fn new(text: &'a [u8], pattern: &'a [u8], meter: &'a Meter) -> Self {
        // As in C, a zero byte ends a pattern.
        let end = pattern.iter().position(|&b| b == 0).unwrap_or(pattern.len());
        Self { text, pattern: &pattern[..end], captures: Vec::new(), depth: 0, steps: 0, meter }
    }

    /// The first match that begins at `from` or behind; at `from` alone if the pattern says so and may.
    fn search(&mut self, from: usize, may_be_anchored: bool) -> Result<Option<(usize, usize)>, Stop> {
        let found = self.first(from, may_be_anchored)?;
        self.meter.steps(std::mem::take(&mut self.steps)).map_err(Stop::Over)?;
        Ok(found)
    }

    fn first(&mut self, from: usize, may_be_anchored: bool) -> Result<Option<(usize, usize)>, Stop> {
        let is_anchored = may_be_anchored && self.pattern.first() == Some(&b'^');
        let pattern_from = usize::from(is_anchored);
        for start in from..=self.text.len() {
            self.captures.clear();
            if let Some(end) = self.matches(start, pattern_from)? {
                return Ok(Some((start, end)));
            }
            if is_anchored {
                break;
            }
        }
        Ok(None)
    }

    fn step(&mut self) -> Result<(), Stop> {
        self.steps(1)
    }

    fn steps(&mut self, count: usize) -> Result<(), Stop> {
        self.steps += count as u64;
        if self.steps >= STEPS_AT_ONCE {
            self.meter.steps(std::mem::take(&mut self.steps)).map_err(Stop::Over)?;
        }
        Ok(())
    }

    fn at(&self, p: usize) -> u8 {
        self.pattern.get(p).copied().unwrap_or(0)
    }

    /// Where the match ends that begins at `s`, of the pattern from `p` on.
    fn matches(&mut self, s: usize, p: usize) -> Matched {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("pattern too complex".into());
        }
        let done = self.matches_here(s, p);
        self.depth -= 1;
        done
    }

    fn matches_here(&mut self, mut s: usize, mut p: usize) -> Matched {
        loop {
            self.step()?;
            match (self.at(p), self.at(p + 1)) {
                _ if p >= self.pattern.len() => return Ok(Some(s)),
                (b'(', b')') => return self.open(s, p + 2, Capture::Position(s)),
                (b'(', _) => return self.open(s, p + 1, Capture::Unfinished(s)),
                (b')', _) => return self.close(s, p + 1),
                (ESCAPE, b'b') => match self.balance(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (ESCAPE, b'f') => match self.frontier(s, p + 2)? {
                    Some(end) => p = end,
                    None => return Ok(None),
                },
                (ESCAPE, digit @ b'0'..=b'9') => match self.repeated(s, digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                (b'$', _) if p + 1 == self.pattern.len() => return Ok((s == self.text.len()).then_some(s)),
                _ => {
                    let end = self.class_end(p)?;
                    // A set is scanned twice: for its end, and for the byte.
                    self.steps((end - p) / BYTES_PER_STEP)?;
                    let is_match = self.is_single(s, p, end);
                    match self.at(end) {
                        b'?' => {
                            if is_match && let Some(found) = self.matches(s + 1, end + 1)? {
                                return Ok(Some(found));
                            }
                            p = end + 1;
                        }
                        b'*' => return self.longest(s, p, end),
                        b'+' => return if is_match { self.longest(s + 1, p, end) } else { Ok(None) },
                        b'-' => return self.shortest(s, p, end),
                        _ if !is_match => return Ok(None),
                        _ => (s, p) = (s + 1, end),
                    }
                }
            }
        }
    }

    fn open(&mut self, s: usize, p: usize, capture: Capture) -> Matched {
        if self.captures.len() >= CAPTURES_MAX {
            return Err("too many captures".into());
        }
        self.captures.push(capture);
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.captures.pop();
        }
        Ok(found)
    }

    fn close(&mut self, s: usize, p: usize) -> Matched {
        let last = self.captures.iter().rposition(|capture| matches!(capture, Capture::Unfinished(_)));
        let last = last.ok_or("invalid pattern capture")?;
        let was = self.captures[last];
        if let Capture::Unfinished(from) = was {
            self.captures[last] = Capture::Part(from, s);
        }
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.captures[last] = was;
        }
        Ok(found)
    }

    fn balance(&mut self, s: usize, p: usize) -> Matched {
        if p + 1 >= self.pattern.len() {
            return Err("unbalanced pattern".into());
        }
        let (open, close) = (self.at(p), self.at(p + 1));
        if self.text.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for at in s + 1..self.text.len() {
            self.step()?;
            if self.text[at] == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if self.text[at] == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// Where the pattern goes on, if the text enters a set here.
    fn frontier(&mut self, s: usize, p: usize) -> Matched {
        if self.at(p) != b'[' {
            return Err("missing '[' after '%f' in pattern".into());
        }
        let end = self.class_end(p)?;
        self.steps(2 * (end - p) / BYTES_PER_STEP)?;
        let before = if s == 0 { 0 } else { self.text[s - 1] };
        let here = self.text.get(s).copied().unwrap_or(0);
        Ok((!self.is_in_set(before, p, end - 1) && self.is_in_set(here, p, end - 1)).then_some(end))
    }

    /// Behind a copy of what was captured.
    fn repeated(&mut self, s: usize, digit: u8) -> Matched {
        let number = usize::from(digit).checked_sub(usize::from(b'1')).ok_or("invalid capture index")?;
        let Some(Capture::Part(from, to)) = self.captures.get(number).copied() else {
            return Err("invalid capture index".into());
        };
        let part = &self.text[from..to];
        self.steps(part.len() / 64)?;
        Ok(self.text[s..].starts_with(part).then_some(s + part.len()))
    }

    fn longest(&mut self, s: usize, p: usize, end: usize) -> Matched {
        let mut count = 0;
        while self.is_single(s + count, p, end) {
            self.steps(1 + (end - p) / BYTES_PER_STEP)?;
            count += 1;
        }
        loop {
            if let Some(found) = self.matches(s + count, end + 1)? {
                return Ok(Some(found));
            }
            match count.checked_sub(1) {
                Some(less) => count = less,
                None => return Ok(None),
            }
        }
    }

    fn shortest(&mut self, mut s: usize, p: usize, end: usize) -> Matched {
        loop {
            if let Some(found) = self.matches(s, end + 1)? {
                return Ok(Some(found));
            }
            self.steps((end - p) / BYTES_PER_STEP)?;
            if !self.is_single(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    /// The end of the single item at `p`.
    fn class_end(&self, p: usize) -> Result<usize, Stop> {
        match self.at(p) {
            ESCAPE if p + 1 >= self.pattern.len() => Err("malformed pattern (ends with '%')".into()),
            ESCAPE => Ok(p + 2),
            b'[' => {
                let mut at = p + 1 + usize::from(self.at(p + 1) == b'^');
                loop {
                    if at >= self.pattern.len() {
                        return Err("malformed pattern (missing ']')".into());
                    }
                    at += if self.at(at) == ESCAPE && at + 1 < self.pattern.len() { 2 } else { 1 };
                    if self.at(at) == b']' {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    fn is_single(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&c) = self.text.get(s) else { return false };
        match self.at(p) {
            b'.' => true,
            ESCAPE => is_of_class(c, self.at(p + 1)),
            b'[' => self.is_in_set(c, p, end - 1),
            plain => plain == c,
        }
    }

    /// Whether a byte is in the set between the brackets at `p` and `last`.
    fn is_in_set(&self, c: u8, mut p: usize, last: usize) -> bool {
        let is_positive = self.at(p + 1) != b'^';
        p += usize::from(!is_positive);
        loop {
            p += 1;
            if p >= last {
                return !is_positive;
            }
            let is_match = if self.at(p) == ESCAPE {
                p += 1;
                is_of_class(c, self.at(p))
            } else if self.at(p + 1) == b'-' && p + 2 < last {
                p += 2;
                (self.at(p - 2)..=self.at(p)).contains(&c)
            } else {
                self.at(p) == c
            };
            if is_match {
                return is_positive;
            }
        }
    }

    /// A capture of the match from `start` to `end`: without captures, all of it.
    fn capture(&self, lua: &Lua, number: usize, (start, end): (usize, usize)) -> Result<Value, Stop> {
        let part = |from: usize, to: usize| {
            let counted = self.meter.more(SCRIPT_CAPTURE_INSTRUCTIONS);
            counted.and_then(|()| lua.create_string(&self.text[from..to])).map(Value::String).map_err(Stop::Over)
        };
        match self.captures.get(number) {
            None if number == 0 => part(start, end),
            None => Err("invalid capture index".into()),
            Some(Capture::Unfinished(_)) => Err("unfinished capture".into()),
            Some(Capture::Position(at)) => Ok(Value::Number((at + 1) as f64)),
            Some(Capture::Part(from, to)) => part(*from, *to),
        }
    }

    /// All captures; all of the match where there are none and `or_whole`.
    fn all(&self, lua: &Lua, found: (usize, usize), or_whole: bool) -> Result<Vec<Value>, Stop> {
        let count = if self.captures.is_empty() && or_whole { 1 } else { self.captures.len() };
        (0..count).map(|number| self.capture(lua, number, found)).collect()
    }
}

fn is_of_class(c: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => c.is_ascii_alphabetic(),
        b'c' => c.is_ascii_control(),
        b'd' => c.is_ascii_digit(),
        b'l' => c.is_ascii_lowercase(),
        b'p' => c.is_ascii_punctuation(),
        b's' => c.is_ascii_whitespace() || c == 11,
        b'u' => c.is_ascii_uppercase(),
        b'w' => c.is_ascii_alphanumeric(),
        b'x' => c.is_ascii_hexdigit(),
        b'z' => c == 0,
        _ => return class == c,
    };
    is != class.is_ascii_uppercase()
}

fn raise(lua: &Lua, stop: Stop) -> Error {
    match stop {
        Stop::Malformed(text) => Raised::here(lua, text),
        Stop::Over(error) => error,
    }
}

/// Where a search begins: counted from 1, or from the end if negative.
fn start_of(init: i64, length: usize) -> usize {
    let from = if init < 0 { (init + length as i64).max(0) } else { (init - 1).max(0) };
    (from as usize).min(length)
}

/// Charges for a call, and for a look at the whole pattern.
fn scan(pattern: &[u8], meter: &Meter) -> mlua::Result<()> {
    meter.spend(NATIVE_CALL_INSTRUCTIONS + (pattern.len() / BYTES_PER_STEP) as u64)
}

fn find_plain(text: &[u8], part: &[u8], meter: &Meter) -> mlua::Result<Option<usize>> {
    if part.is_empty() {
        return Ok(Some(0));
    }
    meter.spend(text.len() as u64 / 16)?;
    // Finding the first byte is cheap; the comparisons after many false hits are counted.
    let mut at = 0;
    while let Some(next) = text[at..].iter().position(|&b| b == part[0]) {
        at += next;
        if text[at..].starts_with(part) {
            return Ok(Some(at));
        }
        meter.spend(1 + part.len() as u64 / 16)?;
        at += 1;
    }
    Ok(None)
}

/// `string.find`.
pub(super) fn find(
    lua: &Lua,
    meter: &Meter,
    (text, pattern): (&[u8], &[u8]),
    init: i64,
    is_plain: bool,
) -> mlua::Result<MultiValue> {
    scan(pattern, meter)?;
    let from = start_of(init, text.len());
    let number = |n: usize| Value::Number(n as f64);
    let until_zero = pattern.split(|&b| b == 0).next().unwrap_or_default();
    if is_plain || !until_zero.iter().any(|b| SPECIALS.contains(b)) {
        let found = find_plain(&text[from..], pattern, meter)?;
        return Ok(MultiValue::from_vec(match found {
            Some(at) => vec![number(from + at + 1), number(from + at + pattern.len())],
            None => vec![Value::Nil],
        }));
    }
    let mut matcher = Matcher::new(text, pattern, meter);
    let found = matcher.search(from, true).map_err(|stop| raise(lua, stop))?;
    let Some((start, end)) = found else { return Ok(MultiValue::from_vec(vec![Value::Nil])) };
    let mut values = vec![number(start + 1), number(end)];
    values.extend(matcher.all(lua, (start, end), false).map_err(|stop| raise(lua, stop))?);
    Ok(MultiValue::from_vec(values))
}

/// `string.match`.
pub(super) fn match_of(
    lua: &Lua,
    meter: &Meter,
    (text, pattern): (&[u8], &[u8]),
    init: i64,
) -> mlua::Result<MultiValue> {
    scan(pattern, meter)?;
    let mut matcher = Matcher::new(text, pattern, meter);
    let found = matcher.search(start_of(init, text.len()), true).map_err(|stop| raise(lua, stop))?;
    let Some(found) = found else { return Ok(MultiValue::from_vec(vec![Value::Nil])) };
    matcher.all(lua, found, true).map(MultiValue::from_vec).map_err(|stop| raise(lua, stop))
}

/// The next match from `from` on, counted from 0: where it begins and ends, then its captures; nothing if there is none. What `gmatch` and `gsub`
/// are made of where a function of Lua is called for each match.
pub(super) fn next_match(
    lua: &Lua,
    meter: &Meter,
    (text, pattern): (&[u8], &[u8]),
    from: usize,
    may_be_anchored: bool,
) -> mlua::Result<MultiValue> {
    if from > text.len() {
        return Ok(MultiValue::new());
    }
    scan(pattern, meter)?;
    let mut matcher = Matcher::new(text, pattern, meter);
    let found = matcher.search(from, may_be_anchored).map_err(|stop| raise(lua, stop))?;
    let Some((start, end)) = found else { return Ok(MultiValue::new()) };
    let mut values = vec![Value::Number(start as f64), Value::Number(end as f64)];
    values.extend(matcher.all(lua, (start, end), true).map_err(|stop| raise(lua, stop))?);
    Ok(MultiValue::from_vec(values))
}

/// `string.gsub` with a text in place of each match: the new text, and how many matches there were.
pub(super) fn replace(
    lua: &Lua,
    meter: &Meter,
    (text, pattern): (&[u8], &[u8]),
    by: &[u8],
    count_max: usize,
) -> mlua::Result<(Vec<u8>, usize)> {
    scan(pattern, meter)?;
    let (mut made, mut at, mut count) = (Vec::new(), 0, 0);
    let mut matcher = Matcher::new(text, pattern, meter);
    let is_anchored = matcher.pattern.first() == Some(&b'^');
    while count < count_max {
        let found = matcher.search(at, true).map_err(|stop| raise(lua, stop))?;
        let Some((start, end)) = found else { break };
        count += 1;
        made.extend_from_slice(&text[at..start]);
        meter.spend(1 + (start - at) as u64 / 64 + by.len() as u64 / BYTES_PER_STEP as u64)?;
        let before = made.len();
        put_replacement(lua, &matcher, by, (start, end), &mut made).map_err(|stop| raise(lua, stop))?;
        meter.spend((made.len() - before) as u64 / 64)?;
        at = end;
        if start == end {
            let Some(&next) = text.get(end) else { break };
            made.push(next);
            at += 1;
        }
        if is_anchored {
            break;
        }
    }
    made.extend_from_slice(text.get(at..).unwrap_or_default());
    Ok((made, count))
}

fn put_replacement(
    lua: &Lua,
    matcher: &Matcher<'_>,
    by: &[u8],
    found: (usize, usize),
    made: &mut Vec<u8>,
) -> Result<(), Stop> {
    let mut bytes = by.iter().copied();
    while let Some(byte) = bytes.next() {
        let next = if byte == ESCAPE { bytes.next().unwrap_or(0) } else { 0 };
        match (byte, next) {
            (ESCAPE, b'0') => made.extend_from_slice(&matcher.text[found.0..found.1]),
            (ESCAPE, digit @ b'1'..=b'9') => match matcher.capture(lua, usize::from(digit - b'1'), found)? {
                Value::String(text) => made.extend_from_slice(&text.as_bytes()),
                Value::Number(n) => made.extend_from_slice(n.to_string().as_bytes()),
                _ => {}
            },
            (ESCAPE, other) => made.push(other),
            (plain, _) => made.push(plain),
        }
        if made.len() > vocab::limits::SCRIPT_TEXT_BYTES_MAX {
            return Err(Stop::Over(Error::MemoryError("the text is too long".to_owned())));
        }
    }
    Ok(())
}
