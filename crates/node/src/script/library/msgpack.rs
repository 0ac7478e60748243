//! `cmsgpack`.

use super::arguments::{Arguments, TEXT_READ_INSTRUCTIONS, charge, check_order};
use crate::script::context::EngineVersion;
use crate::script::meter::Meter;
use crate::script::raised::Raised;
use mlua::{Lua, MultiValue, Table, Value};
use std::rc::Rc;
use vocab::limits::{SCRIPT_TEXT_BYTES_MAX, SCRIPT_VALUE_INSTRUCTIONS, SCRIPT_VALUES_HELD_MAX};

/// Tables within tables that are written; deeper ones are nil.
const DEPTH_MAX: usize = 16;
/// As `pairs` refuses them.
const UNORDERED: &str = "a table with keys that are tables or functions has no order that all replicas share";
/// Values within values that are read: deeper ones would not fit the stack of a thread.
const READ_DEPTH_MAX: usize = 128;

pub(super) fn library(lua: &Lua, meter: &Rc<Meter>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let of_packed = meter.clone();
    library.raw_set("pack", lua.create_function(move |lua, values: MultiValue| pack(lua, &of_packed, &values))?)?;
    let of_all = meter.clone();
    let unpack_all = lua.create_function(move |lua, values: MultiValue| {
        let of = Arguments { lua, name: "unpack", values: &values };
        charge(&of_all, of.first_bytes())?;
        unpack(&of, &of_all, None)
    })?;
    library.raw_set("unpack", unpack_all)?;
    let of_one = meter.clone();
    let unpack_one = lua.create_function(move |lua, values: MultiValue| {
        let of = Arguments { lua, name: "unpack_one", values: &values };
        charge(&of_one, of.first_bytes())?;
        let offset = of.integer_or(2, 0)?;
        unpack(&of, &of_one, Some((1, offset)))
    })?;
    library.raw_set("unpack_one", unpack_one)?;
    let of_limit = meter.clone();
    let unpack_limit = lua.create_function(move |lua, values: MultiValue| {
        let of = Arguments { lua, name: "unpack_limit", values: &values };
        charge(&of_limit, of.first_bytes())?;
        let (limit, offset) = (of.number(2)? as i64, of.integer_or(3, 0)?);
        unpack(&of, &of_limit, Some((limit, offset)))
    })?;
    library.raw_set("unpack_limit", unpack_limit)?;
    library.raw_set("_NAME", "cmsgpack")?;
    library.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    library.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    library.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(library)
}

fn pack(lua: &Lua, meter: &Meter, values: &MultiValue) -> mlua::Result<mlua::String> {
    if values.is_empty() {
        return Err(Arguments { lua, name: "pack", values }.bad(0, "MessagePack pack needs input."));
    }
    let budget = Budget { meter, counts_texts: EngineVersion::of_state(lua) >= EngineVersion::Seventh };
    let mut bytes = Vec::new();
    for value in values {
        put(&mut bytes, budget, value, 0)?;
    }
    lua.create_string(bytes)
}

/// What pays for values that are written.
#[derive(Clone, Copy)]
struct Budget<'a> {
    meter: &'a Meter,
    /// Texts count before they are copied, from the seventh engine on: what is refused later has been written all the same.
    counts_texts: bool,
}

/// A head whose form depends on a length: up to `fixed_max` in the first byte, else in 1 (where there is that form), 2 or 4.
fn put_head(bytes: &mut Vec<u8>, length: usize, (fixed, fixed_max): (u8, usize), of_width: [Option<u8>; 3]) {
    let [one, two, four] = of_width;
    match (length, one, two, four) {
        (length, ..) if length <= fixed_max => bytes.push(fixed | length as u8),
        (0..=0xFF, Some(one), ..) => bytes.extend([one, length as u8]),
        (0..=0xFFFF, _, Some(two), _) => {
            bytes.push(two);
            bytes.extend((length as u16).to_be_bytes());
        }
        (_, _, _, four) => {
            bytes.extend(four);
            bytes.extend((length as u32).to_be_bytes());
        }
    }
}

fn put(bytes: &mut Vec<u8>, budget: Budget<'_>, value: &Value, depth: usize) -> mlua::Result<()> {
    // Tables may be shared: what is short in memory may be long as a text.
    if bytes.len() > SCRIPT_TEXT_BYTES_MAX {
        return Err(mlua::Error::MemoryError("the text is too long".to_owned()));
    }
    budget.meter.values(SCRIPT_VALUE_INSTRUCTIONS)?;
    match value {
        Value::String(text) => {
            let text = text.as_bytes();
            if budget.counts_texts {
                charge(budget.meter, text.len())?;
            }
            put_head(bytes, text.len(), (0xA0, 31), [Some(0xD9), Some(0xDA), Some(0xDB)]);
            bytes.extend_from_slice(&text);
        }
        Value::Boolean(b) => bytes.push(if *b { 0xC3 } else { 0xC2 }),
        Value::Integer(n) => put_integer(bytes, *n),
        Value::Number(d) => put_number(bytes, *d),
        Value::Table(table) if depth < DEPTH_MAX => {
            check_order(table, budget.meter, |_| Raised::reply(format!("ERR {UNORDERED}")))?;
            return put_table(bytes, budget, table, depth);
        }
        _ => bytes.push(0xC0),
    }
    Ok(())
}

fn put_number(bytes: &mut Vec<u8>, d: f64) {
    let whole = d as i64;
    if d > -9.2e18 && d < 9.2e18 && whole as f64 == d {
        put_integer(bytes, whole);
    } else if f64::from(d as f32) == d {
        bytes.push(0xCA);
        bytes.extend((d as f32).to_be_bytes());
    } else {
        bytes.push(0xCB);
        bytes.extend(d.to_be_bytes());
    }
}

fn put_integer(bytes: &mut Vec<u8>, n: i64) {
    match n {
        -32..=127 => bytes.push(n as u8),
        128..=0xFF => bytes.extend([0xCC, n as u8]),
        0x100..=0xFFFF => {
            bytes.push(0xCD);
            bytes.extend((n as u16).to_be_bytes());
        }
        0x1_0000..=0xFFFF_FFFF => {
            bytes.push(0xCE);
            bytes.extend((n as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            bytes.push(0xCF);
            bytes.extend(n.to_be_bytes());
        }
        -128..=-33 => bytes.extend([0xD0, n as u8]),
        -32_768..=-129 => {
            bytes.push(0xD1);
            bytes.extend((n as i16).to_be_bytes());
        }
        -2_147_483_648..=-32_769 => {
            bytes.push(0xD2);
            bytes.extend((n as i32).to_be_bytes());
        }
        _ => {
            bytes.push(0xD3);
            bytes.extend(n.to_be_bytes());
        }
    }
}

/// How long a table is whose keys are the numbers from 1 on without a hole.
fn array_length(meter: &Meter, table: &Table) -> mlua::Result<Option<usize>> {
    let (mut count, mut max) = (0usize, 0f64);
    for pair in table.pairs::<Value, Value>() {
        meter.values(SCRIPT_VALUE_INSTRUCTIONS)?;
        let key = match pair?.0 {
            Value::Integer(n) => n as f64,
            Value::Number(n) => n,
            _ => return Ok(None),
        };
        if key <= 0.0 || key.floor() != key || key > f64::from(i32::MAX) {
            return Ok(None);
        }
        max = max.max(key);
        count += 1;
    }
    Ok((max as usize == count).then_some(count))
}

fn put_table(bytes: &mut Vec<u8>, budget: Budget<'_>, table: &Table, depth: usize) -> mlua::Result<()> {
    if let Some(length) = array_length(budget.meter, table)? {
        put_head(bytes, length, (0x90, 15), [None, Some(0xDC), Some(0xDD)]);
        for at in 1..=length {
            put(bytes, budget, &table.raw_get(at)?, depth + 1)?;
        }
        return Ok(());
    }
    let count = table.pairs::<Value, Value>().count();
    budget.meter.values(count as u64 * SCRIPT_VALUE_INSTRUCTIONS)?;
    put_head(bytes, count, (0x80, 15), [None, Some(0xDE), Some(0xDF)]);
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        put(bytes, budget, &key, depth + 1)?;
        put(bytes, budget, &value, depth + 1)?;
    }
    Ok(())
}

/// Why bytes cannot be read.
enum Wrong {
    Short,
    Format,
    Lua(mlua::Error),
}

impl From<mlua::Error> for Wrong {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

/// All values of the first argument; or, with a limit and an offset, so many, behind the place of the next.
fn unpack(of: &Arguments<'_>, meter: &Meter, part: Option<(i64, i64)>) -> mlua::Result<MultiValue> {
    let bytes = of.bytes(1)?;
    let (limit, offset) = part.unwrap_or((0, 0));
    if offset < 0 || limit < 0 {
        let text = format!("Invalid request to unpack with offset of {offset} and limit of {}.", bytes.len());
        return Err(of.error(&text));
    }
    let Some(left) = bytes.get(offset as usize..) else {
        return Err(of.error(&format!("Start offset {offset} greater than input length {}.", bytes.len())));
    };
    let is_whole = limit == 0 && offset == 0;
    let checks_keys = EngineVersion::of_state(of.lua) >= EngineVersion::Seventh;
    let mut cursor = Cursor { lua: of.lua, meter, checks_keys, left, depth: 0 };
    let mut values = MultiValue::new();
    while !cursor.left.is_empty() && (is_whole || (values.len() as i64) < limit) {
        if values.len() >= SCRIPT_VALUES_HELD_MAX {
            return Err(of.error("stack overflow (in function mp_unpack)"));
        }
        values.push_back(cursor.value().map_err(|wrong| match wrong {
            Wrong::Short => of.error("Missing bytes in input."),
            Wrong::Format => of.error("Bad data format in input."),
            Wrong::Lua(error) => error,
        })?);
    }
    if !is_whole {
        let next = if cursor.left.is_empty() { -1 } else { (bytes.len() - cursor.left.len()) as i64 };
        values.push_front(Value::Integer(next));
    }
    Ok(values)
}

/// Refuses what Lua takes for no key of a table.
fn check_key(key: &Value) -> mlua::Result<()> {
    match key {
        Value::Nil => Err(Raised::text("table index is nil")),
        Value::Number(n) if n.is_nan() => Err(Raised::text("table index is NaN")),
        _ => Ok(()),
    }
}

struct Cursor<'a> {
    lua: &'a Lua,
    meter: &'a Meter,
    /// Keys that no table has are errors, from the seventh engine on. Before, they end the run.
    checks_keys: bool,
    left: &'a [u8],
    depth: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Wrong> {
        let (taken, left) = self.left.split_at_checked(count).ok_or(Wrong::Short)?;
        self.left = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Wrong> {
        self.take(N)?.try_into().map_err(|_| Wrong::Short)
    }

    /// A big-endian number of 1, 2 or 4 bytes.
    fn length(&mut self, width: usize) -> Result<usize, Wrong> {
        Ok(self.take(width)?.iter().fold(0, |n, b| n << 8 | usize::from(*b)))
    }

    fn value(&mut self) -> Result<Value, Wrong> {
        let [first] = self.array()?;
        self.meter.values(TEXT_READ_INSTRUCTIONS)?;
        Ok(match first {
            0x00..=0x7F => Value::Integer(i64::from(first)),
            0xE0..=0xFF => Value::Integer(i64::from(first as i8)),
            0xCC => Value::Integer(self.length(1)? as i64),
            0xCD => Value::Integer(self.length(2)? as i64),
            0xCE => Value::Integer(self.length(4)? as i64),
            0xCF | 0xD3 => Value::Number(i64::from_be_bytes(self.array()?) as f64),
            0xD0 => Value::Integer(i64::from(i8::from_be_bytes(self.array()?))),
            0xD1 => Value::Integer(i64::from(i16::from_be_bytes(self.array()?))),
            0xD2 => Value::Integer(i64::from(i32::from_be_bytes(self.array()?))),
            0xC0 => Value::Nil,
            0xC2 | 0xC3 => Value::Boolean(first == 0xC3),
            0xCA => Value::Number(f64::from(f32::from_be_bytes(self.array()?))),
            0xCB => Value::Number(f64::from_be_bytes(self.array()?)),
            0xA0..=0xBF => self.string(usize::from(first & 0x1F))?,
            0xD9 => self.string_of(1)?,
            0xDA => self.string_of(2)?,
            0xDB => self.string_of(4)?,
            0x90..=0x9F => self.list(usize::from(first & 0xF))?,
            0xDC => self.list_of(2)?,
            0xDD => self.list_of(4)?,
            0x80..=0x8F => self.map(usize::from(first & 0xF))?,
            0xDE => self.map_of(2)?,
            0xDF => self.map_of(4)?,
            _ => return Err(Wrong::Format),
        })
    }

    fn string(&mut self, length: usize) -> Result<Value, Wrong> {
        Ok(Value::String(self.lua.create_string(self.take(length)?)?))
    }

    fn string_of(&mut self, width: usize) -> Result<Value, Wrong> {
        let length = self.length(width)?;
        self.string(length)
    }

    fn list_of(&mut self, width: usize) -> Result<Value, Wrong> {
        let count = self.length(width)?;
        self.list(count)
    }

    fn map_of(&mut self, width: usize) -> Result<Value, Wrong> {
        let count = self.length(width)?;
        self.map(count)
    }

    fn descend(&mut self) -> Result<(), Wrong> {
        self.depth += 1;
        if self.depth > READ_DEPTH_MAX { Err(Wrong::Format) } else { Ok(()) }
    }

    fn list(&mut self, count: usize) -> Result<Value, Wrong> {
        self.descend()?;
        let table = self.lua.create_table()?;
        for at in 1..=count {
            table.raw_set(at, self.value()?)?;
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize) -> Result<Value, Wrong> {
        self.descend()?;
        let table = self.lua.create_table()?;
        for _ in 0..count {
            let key = self.value()?;
            let value = self.value()?;
            if self.checks_keys {
                check_key(&key)?;
            }
            table.set(key, value)?;
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }
}
