//! `cjson.encode`.

use super::arguments::{Arguments, JSON_WRITTEN_INSTRUCTIONS, charge, check_order, format_g, type_name};
use super::json_settings::{InvalidNumbers, JsonSettings};
use crate::script::context::EngineVersion;
use crate::script::meter::Meter;
use mlua::{Error, Function, Table, Value};
use vocab::limits::{SCRIPT_TEXT_BYTES_MAX, SCRIPT_VALUE_INSTRUCTIONS};

/// Tables within tables, whatever is set.
const DEPTH_MAX: i64 = 1000;

pub(super) fn encode(of: &Arguments<'_>, settings: &JsonSettings, meter: &Meter) -> mlua::Result<Vec<u8>> {
    let [value] = &of.values.iter().collect::<Vec<_>>()[..] else { return Err(of.bad(1, "expected 1 argument")) };
    let is_seventh = EngineVersion::of_state(of.lua) >= EngineVersion::Seventh;
    let mut encoder = Encoder { of, settings, meter, is_seventh, text: Vec::new(), open: Vec::new() };
    encoder.begin(value)?;
    while encoder.go_on()? {}
    Ok(encoder.text)
}

/// A table that is being written.
enum Open {
    Array {
        table: Table,
        next: i64,
        length: i64,
    },
    Object {
        pairs: std::vec::IntoIter<(Value, Value)>,
        is_first: bool,
    },
    /// One of more pairs than are held at once: the next one is found behind a key.
    LongObject {
        table: Table,
        next: Function,
        key: Value,
        is_first: bool,
    },
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// So many pairs are held at once, of all objects that are being written: the binding has a place for each of their keys and values.
const PAIRS_HELD_MAX: usize = 1024;

/// Tables within tables are kept here, not on the stack of the thread.
struct Encoder<'a> {
    of: &'a Arguments<'a>,
    settings: &'a JsonSettings,
    meter: &'a Meter,
    /// By the rules of the seventh engine, or of a later one.
    is_seventh: bool,
    text: Vec<u8>,
    open: Vec<Open>,
}

impl Encoder<'_> {
    fn refuse(&self, value: &Value, why: &str) -> Error {
        self.of.error(&format!("Cannot serialise {}: {why}", type_name(value)))
    }

    fn refuse_key(&self, kind: &str) -> Error {
        self.of.error(&format!("Cannot serialise {kind}: table key must be a number or string"))
    }

    /// Writes a value, or the beginning of one that is a table.
    fn begin(&mut self, value: &Value) -> mlua::Result<()> {
        // Tables may be shared: what is short in memory may be long as a text.
        if self.text.len() > SCRIPT_TEXT_BYTES_MAX {
            return Err(Error::MemoryError("the text is too long".to_owned()));
        }
        self.meter.values(JSON_WRITTEN_INSTRUCTIONS)?;
        match value {
            Value::String(text) => self.string(&text.as_bytes())?,
            Value::Integer(n) => self.number(value, *n as f64)?,
            Value::Number(n) => self.number(value, *n)?,
            Value::Boolean(b) => self.text.extend_from_slice(if *b { b"true" } else { b"false" }),
            Value::Table(table) => return self.begin_table(value, table),
            Value::Nil => self.text.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.text.extend_from_slice(b"null"),
            _ => return Err(self.refuse(value, "type not supported")),
        }
        Ok(())
    }

    fn begin_table(&mut self, value: &Value, table: &Table) -> mlua::Result<()> {
        let depth = self.open.len() as i64 + 1;
        if depth > self.settings.encode_depth_max.get().min(DEPTH_MAX) {
            return Err(self.of.error(&format!("Cannot serialise, excessive nesting ({depth})")));
        }
        check_order(table, self.meter, |key| self.refuse_key(key))?;
        self.open.push(match self.array_length(value, table)? {
            Some(length) if length > 0 => {
                self.text.push(b'[');
                Open::Array { table: table.clone(), next: 1, length }
            }
            _ => {
                self.text.push(b'{');
                self.object(table)?
            }
        });
        Ok(())
    }

    /// The beginning of an object. All its pairs are charged for.
    fn object(&self, table: &Table) -> mlua::Result<Open> {
        let held = |open: &Open| if let Open::Object { pairs, .. } = open { pairs.len() } else { 0 };
        let room = PAIRS_HELD_MAX.saturating_sub(self.open.iter().map(held).sum());
        let (mut pairs, mut is_long) = (Vec::new(), false);
        for pair in table.pairs::<Value, Value>() {
            self.meter.values(SCRIPT_VALUE_INSTRUCTIONS)?;
            let pair = pair?;
            is_long |= pairs.len() == room;
            if is_long {
                pairs.clear();
            } else {
                pairs.push(pair);
            }
        }
        if is_long {
            let next = self.of.lua.globals().raw_get("next")?;
            return Ok(Open::LongObject { table: table.clone(), next, key: Value::Nil, is_first: true });
        }
        Ok(Open::Object { pairs: pairs.into_iter(), is_first: true })
    }

    /// Writes what comes next in the innermost table; false if none is left.
    fn go_on(&mut self) -> mlua::Result<bool> {
        let value = match self.open.last_mut() {
            None => return Ok(false),
            Some(Open::Array { table, next, length }) => {
                let at = *next;
                *next += 1;
                (at <= *length).then(|| Ok::<_, Error>((at > 1, None, table.raw_get(at)?))).transpose()?
            }
            Some(Open::Object { pairs, is_first }) => {
                let is_later = !std::mem::take(is_first);
                pairs.next().map(|(key, value)| (is_later, Some(key), value))
            }
            Some(Open::LongObject { table, next, key, is_first }) => {
                let is_later = !std::mem::take(is_first);
                let (found, value): (Value, Value) = next.call((&*table, &*key))?;
                *key = found.clone();
                (!found.is_nil()).then_some((is_later, Some(found), value))
            }
        };
        let Some((is_later, key, value)) = value else {
            let closing = if matches!(self.open.pop(), Some(Open::Array { .. })) { b']' } else { b'}' };
            self.text.push(closing);
            return Ok(true);
        };
        if is_later {
            self.text.push(b',');
        }
        match key {
            None => {}
            Some(Value::String(text)) => self.string(&text.as_bytes())?,
            Some(key @ (Value::Integer(_) | Value::Number(_))) => {
                self.text.push(b'"');
                self.begin(&key)?;
                self.text.push(b'"');
            }
            Some(key) => return Err(self.refuse_key(type_name(&key))),
        }
        if matches!(self.open.last(), Some(Open::Object { .. } | Open::LongObject { .. })) {
            self.text.push(b':');
        }
        self.begin(&value)?;
        Ok(true)
    }

    /// How long a table is that has whole numbers above zero as its keys, and nothing else.
    fn array_length(&self, value: &Value, table: &Table) -> mlua::Result<Option<i64>> {
        let (mut max, mut items) = (0.0f64, 0i64);
        for pair in table.pairs::<Value, Value>() {
            self.meter.values(SCRIPT_VALUE_INSTRUCTIONS)?;
            let key = match pair?.0 {
                Value::Integer(n) => n as f64,
                Value::Number(n) => n,
                _ => return Ok(None),
            };
            if key.floor() != key || key < 1.0 {
                return Ok(None);
            }
            if key > max {
                max = if self.is_seventh { int_of(key) } else { key };
            }
            items += 1;
        }
        let max = max as i64;
        let ratio = self.settings.sparse_ratio.get();
        if ratio > 0 && max > items.saturating_mul(ratio) && max > self.settings.sparse_safe.get() {
            return match self.settings.sparse_convert.get() {
                true => Ok(None),
                false => Err(self.refuse(value, "excessively sparse array")),
            };
        }
        Ok(Some(max))
    }

    fn number(&mut self, value: &Value, n: f64) -> mlua::Result<()> {
        let text = match self.settings.encode_invalid.get() {
            _ if n.is_finite() => format_g(n, self.settings.precision.get().clamp(1, 14) as usize),
            InvalidNumbers::Refused => return Err(self.refuse(value, "must not be NaN or Inf")),
            InvalidNumbers::Written if n.is_nan() => "nan".to_owned(),
            InvalidNumbers::Written => format_g(n, 14),
            InvalidNumbers::Null => "null".to_owned(),
        };
        self.text.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn string(&mut self, text: &[u8]) -> mlua::Result<()> {
        if self.is_seventh {
            // What is refused later has been written all the same.
            charge(self.meter, text.len())?;
        }
        self.text.push(b'"');
        for &byte in text {
            let short = match byte {
                8 => b'b',
                b'\t' => b't',
                b'\n' => b'n',
                12 => b'f',
                b'\r' => b'r',
                b'"' | b'/' | b'\\' => byte,
                0..32 | 127 => {
                    // A thousand of them are as long as a thousand other bytes: none is formatted.
                    let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                    self.text.extend_from_slice(b"\\u00");
                    self.text.extend_from_slice(&digits);
                    continue;
                }
                _ => {
                    self.text.push(byte);
                    continue;
                }
            };
            self.text.extend_from_slice(&[b'\\', short]);
        }
        self.text.push(b'"');
        Ok(())
    }
}

/// A whole number above zero as a C program on our machines casts it to an `int`.
fn int_of(number: f64) -> f64 {
    if number <= f64::from(i32::MAX) { number } else { f64::from(i32::MIN) }
}
