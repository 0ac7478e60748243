//! Lua's patterns, as Lua 5.1 matches them, with every step counted. A pattern of a few bytes may take any number of steps, and no hook of
//! Lua sees them. Where Lua calls itself, what is to be tried later is kept in memory, which has a bound too.

use super::context::EngineVersion;
use super::meter::{Meter, NATIVE_CALL_INSTRUCTIONS};
use super::raised::Raised;
use mlua::{Error, Lua, MultiValue, Value};
use vocab::limits::SCRIPT_CAPTURE_INSTRUCTIONS;

const CAPTURES_MAX: usize = 32;
/// How many matches may be nested in each other: there the stack of Redis ends. Each is of a part of the pattern of its own.
const DEPTH_MAX: usize = 64 * 1024;
/// The same for engines before the seventh.
const DEPTH_MAX_BEFORE: usize = 200;
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

/// What is done where what is nested in a match has not matched. `s` is a place in the text, `p` one in the pattern.
#[derive(Clone, Copy)]
enum Pending {
    /// An optional item is left out: the match goes on there.
    WithoutItem { s: usize, p: usize },
    /// The last capture is taken back.
    Opened,
    /// A capture is as it was.
    Closed { at: usize, was: Capture },
    /// An item is repeated once less than `count` times from `s` on; what follows on it is at `p`.
    Fewer { s: usize, count: usize, p: usize },
    /// The item from `p` to `end` is repeated once more, at `s`.
    More { s: usize, p: usize, end: usize },
}

/// Where a match goes on: in the text, and in the pattern.
#[derive(Clone, Copy)]
struct At {
    s: usize,
    p: usize,
}

/// What a walk has come to, along what the pattern leaves no choice about.
enum Walked {
    /// The match ends there in the text.
    Found(usize),
    /// Nothing matches.
    Failed,
    /// Another match is nested in this one.
    Nested(At),
}

struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    /// Of each match in which another one is nested, from the outermost on.
    pending: Vec<Pending>,
    depth_max: usize,
    steps: u64,
    meter: &'a Meter,
}

impl<'a> Matcher<'a> {
    fn new(lua: &Lua, meter: &'a Meter, (text, pattern): (&'a [u8], &'a [u8])) -> Self {
        // As in C, a zero byte ends a pattern.
        let end = pattern.iter().position(|&b| b == 0).unwrap_or(pattern.len());
        let is_seventh = EngineVersion::of_state(lua) >= EngineVersion::Seventh;
        let depth_max = if is_seventh { DEPTH_MAX } else { DEPTH_MAX_BEFORE };
        let (captures, pending) = (Vec::new(), Vec::new());
        Self { text, pattern: &pattern[..end], captures, pending, depth_max, steps: 0, meter }
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
            if let Some(end) = self.matches(At { s: start, p: pattern_from })? {
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

    /// Where the match ends that begins there.
    fn matches(&mut self, from: At) -> Matched {
        self.pending.clear();
        let mut at = from;
        loop {
            at = match self.walk(at)? {
                Walked::Found(end) => return Ok(Some(end)),
                Walked::Nested(inner) => inner,
                Walked::Failed => match self.retry()? {
                    Some(next) => next,
                    None => return Ok(None),
                },
            };
        }
    }

    /// A match is nested in the one that is under way, which goes on with `pending` if that fails.
    fn nest(&mut self, pending: Pending, s: usize, p: usize) -> Result<Walked, Stop> {
        self.pending.push(pending);
        // The outermost one counts too.
        if self.pending.len() >= self.depth_max {
            Err("pattern too complex".into())
        } else {
            Ok(Walked::Nested(At { s, p }))
        }
    }

    /// Where it goes on after the innermost match has failed; none: all have.
    fn retry(&mut self) -> Result<Option<At>, Stop> {
        while let Some(pending) = self.pending.pop() {
            match pending {
                Pending::WithoutItem { s, p } => return Ok(Some(At { s, p })),
                Pending::Opened => {
                    self.captures.pop();
                }
                Pending::Closed { at, was } => self.captures[at] = was,
                Pending::Fewer { s, count, p } => {
                    if let Some(count) = count.checked_sub(1) {
                        self.pending.push(Pending::Fewer { s, count, p });
                        return Ok(Some(At { s: s + count, p }));
                    }
                }
                Pending::More { s, p, end } => {
                    self.steps((end - p) / BYTES_PER_STEP)?;
                    if self.is_single(s, p, end) {
                        self.pending.push(Pending::More { s: s + 1, p, end });
                        return Ok(Some(At { s: s + 1, p: end + 1 }));
                    }
                }
            }
        }
        Ok(None)
    }

    fn walk(&mut self, At { mut s, mut p }: At) -> Result<Walked, Stop> {
        loop {
            self.step()?;
            match (self.at(p), self.at(p + 1)) {
                _ if p >= self.pattern.len() => return Ok(Walked::Found(s)),
                (b'(', b')') => return self.open(s, p + 2, Capture::Position(s)),
                (b'(', _) => return self.open(s, p + 1, Capture::Unfinished(s)),
                (b')', _) => return self.close(s, p + 1),
                (ESCAPE, b'b') => match self.balance(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(Walked::Failed),
                },
                (ESCAPE, b'f') => match self.frontier(s, p + 2)? {
                    Some(end) => p = end,
                    None => return Ok(Walked::Failed),
                },
                (ESCAPE, digit @ b'0'..=b'9') => match self.repeated(s, digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(Walked::Failed),
                },
                (b'$', _) if p + 1 == self.pattern.len() => {
                    return Ok(if s == self.text.len() { Walked::Found(s) } else { Walked::Failed });
                }
                _ => {
                    let end = self.class_end(p)?;
                    // A set is scanned twice: for its end, and for the byte.
                    self.steps((end - p) / BYTES_PER_STEP)?;
                    let is_match = self.is_single(s, p, end);
                    match self.at(end) {
                        b'?' if is_match => {
                            return self.nest(Pending::WithoutItem { s, p: end + 1 }, s + 1, end + 1);
                        }
                        b'?' => p = end + 1,
                        b'*' => return self.longest(s, p, end),
                        b'+' => return if is_match { self.longest(s + 1, p, end) } else { Ok(Walked::Failed) },
                        b'-' => return self.nest(Pending::More { s, p, end }, s, end + 1),
                        _ if !is_match => return Ok(Walked::Failed),
                        _ => (s, p) = (s + 1, end),
                    }
                }
            }
        }
    }

    fn open(&mut self, s: usize, p: usize, capture: Capture) -> Result<Walked, Stop> {
        if self.captures.len() >= CAPTURES_MAX {
            return Err("too many captures".into());
        }
        self.captures.push(capture);
        self.nest(Pending::Opened, s, p)
    }

    fn close(&mut self, s: usize, p: usize) -> Result<Walked, Stop> {
        let last = self.captures.iter().rposition(|capture| matches!(capture, Capture::Unfinished(_)));
        let last = last.ok_or("invalid pattern capture")?;
        let was = self.captures[last];
        if let Capture::Unfinished(from) = was {
            self.captures[last] = Capture::Part(from, s);
        }
        self.nest(Pending::Closed { at: last, was }, s, p)
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

    fn longest(&mut self, s: usize, p: usize, end: usize) -> Result<Walked, Stop> {
        let mut count = 0;
        while self.is_single(s + count, p, end) {
            self.steps(1 + (end - p) / BYTES_PER_STEP)?;
            count += 1;
        }
        self.nest(Pending::Fewer { s, count, p: end + 1 }, s + count, end + 1)
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
        meter.spend(meter.of_small_work() + part.len() as u64 / 16)?;
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
    if !is_plain {
        // Each byte is compared with all that is special.
        meter.since_seventh(pattern.len() as u64)?;
    }
    let until_zero = pattern.split(|&b| b == 0).next().unwrap_or_default();
    if is_plain || !until_zero.iter().any(|b| SPECIALS.contains(b)) {
        let found = find_plain(&text[from..], pattern, meter)?;
        return Ok(MultiValue::from_vec(match found {
            Some(at) => vec![number(from + at + 1), number(from + at + pattern.len())],
            None => vec![Value::Nil],
        }));
    }
    let mut matcher = Matcher::new(lua, meter, (text, pattern));
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
    let mut matcher = Matcher::new(lua, meter, (text, pattern));
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
    let mut matcher = Matcher::new(lua, meter, (text, pattern));
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
    let mut matcher = Matcher::new(lua, meter, (text, pattern));
    let is_anchored = matcher.pattern.first() == Some(&b'^');
    while count < count_max {
        let found = matcher.search(at, true).map_err(|stop| raise(lua, stop))?;
        let Some((start, end)) = found else { break };
        count += 1;
        made.extend_from_slice(&text[at..start]);
        meter.spend(meter.of_small_work() + (start - at) as u64 / 64 + by.len() as u64 / BYTES_PER_STEP as u64)?;
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
