//! `struct`: numbers and texts in the layout of C's structures.

use super::arguments::{Arguments, charge, charge_call};
use crate::script::context::EngineVersion;
use crate::script::meter::Meter;
use crate::script::values::number_in;
use mlua::{Error, Lua, MultiValue, Table, Value};
use std::rc::Rc;
use vocab::limits::{SCRIPT_TEXT_BYTES_MAX, SCRIPT_VALUE_INSTRUCTIONS, SCRIPT_VALUES_HELD_MAX};

/// Bytes of the longest integer.
const INTEGER_BYTES_MAX: usize = 32;
const ALIGNMENT_MAX: usize = 8;
/// Bytes of a text that engines before the seventh make: the state of no script may hold more.
const TEXT_BYTES_MAX_BEFORE: usize = 1 << 30;

/// Bytes among which the end of a text is sought for the price of one instruction, from the seventh engine on.
const SOUGHT_BYTES_PER_INSTRUCTION: u64 = 8;

pub(super) fn library(lua: &Lua, meter: &Rc<Meter>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let of = meter.clone();
    let packs = lua.create_function(move |lua, values: MultiValue| {
        let arguments = Arguments { lua, name: "pack", values: &values };
        charge_format(&of, &arguments)?;
        lua.create_string(pack(&arguments, &of)?)
    })?;
    library.raw_set("pack", packs)?;
    let of = meter.clone();
    let unpacks = lua.create_function(move |lua, values: MultiValue| {
        let arguments = Arguments { lua, name: "unpack", values: &values };
        charge_format(&of, &arguments)?;
        unpack(&arguments, &of)
    })?;
    library.raw_set("unpack", unpacks)?;
    let of = meter.clone();
    let sizes = lua.create_function(move |lua, values: MultiValue| {
        let arguments = Arguments { lua, name: "size", values: &values };
        charge_format(&of, &arguments)?;
        size(&arguments)
    })?;
    library.raw_set("size", sizes)?;
    Ok(library)
}

/// Charges a run for a call, and for each option of its format, which is its first argument.
fn charge_format(meter: &Meter, arguments: &Arguments<'_>) -> mlua::Result<()> {
    charge_call(meter, arguments.values)?;
    meter.values(arguments.first_bytes() as u64 * SCRIPT_VALUE_INSTRUCTIONS)
}

/// A format as it is walked through.
struct Format<'a> {
    of: &'a Arguments<'a>,
    text: &'a [u8],
    at: usize,
    is_little: bool,
    alignment: usize,
}

impl<'a> Format<'a> {
    fn new(of: &'a Arguments<'a>, text: &'a [u8]) -> Self {
        let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
        Self { of, text: &text[..end], at: 0, is_little: true, alignment: 1 }
    }

    /// The next option and its size.
    fn next(&mut self) -> mlua::Result<Option<(u8, usize)>> {
        let Some(&option) = self.text.get(self.at) else { return Ok(None) };
        self.at += 1;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > INTEGER_BYTES_MAX {
                    let text = format!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}");
                    return Err(self.of.error(&text));
                }
                size
            }
            _ => 0,
        };
        Ok(Some((option, size)))
    }

    /// The digits that follow.
    fn number(&mut self, default: usize) -> mlua::Result<usize> {
        let digits = self.text[self.at..].iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let word = std::str::from_utf8(&self.text[self.at..self.at + digits]).unwrap_or_default();
        self.at += digits;
        let number = word.parse::<i32>().ok().and_then(|n| usize::try_from(n).ok());
        number.ok_or_else(|| self.of.error("integral size overflow"))
    }

    /// Bytes to be passed over before an option at `place`.
    fn padding(&self, place: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.alignment);
        size.wrapping_sub(place & (size - 1)) & (size - 1)
    }

    fn control(&mut self, option: u8) -> mlua::Result<()> {
        match option {
            b' ' => {}
            b'>' => self.is_little = false,
            b'<' => self.is_little = true,
            b'!' => {
                let alignment = self.number(ALIGNMENT_MAX)?;
                if !alignment.is_power_of_two() {
                    return Err(self.of.error(&format!("alignment {alignment} is not a power of 2")));
                }
                self.alignment = alignment;
            }
            _ => return Err(self.of.bad(1, &format!("invalid format option '{}'", char::from(option)))),
        }
        Ok(())
    }

    /// Bytes in the order of the format, from those in little-endian order.
    fn ordered(&self, mut little: Vec<u8>) -> Vec<u8> {
        if !self.is_little {
            little.reverse();
        }
        little
    }
}

fn pack(of: &Arguments<'_>, meter: &Meter) -> mlua::Result<Vec<u8>> {
    let is_seventh = EngineVersion::of_state(of.lua) >= EngineVersion::Seventh;
    let bytes_max = if is_seventh { SCRIPT_TEXT_BYTES_MAX } else { TEXT_BYTES_MAX_BEFORE };
    let text = of.bytes(1)?;
    let mut format = Format::new(of, &text);
    let (mut bytes, mut argument) = (Vec::new(), 2);
    while let Some((option, size)) = format.next()? {
        bytes.resize(bytes.len() + format.padding(bytes.len(), option, size), 0);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let n = of.number(argument)?;
                // As C casts: a negative number by way of a signed one.
                let value = if n < 0.0 { n as i64 as u64 } else { n as u64 };
                let little: Vec<u8> = (0..size).map(|at| if at < 8 { (value >> (8 * at)) as u8 } else { 0 }).collect();
                bytes.extend(format.ordered(little));
                argument += 1;
            }
            b'x' => bytes.push(0),
            b'f' => {
                bytes.extend(format.ordered((of.number(argument)? as f32).to_le_bytes().to_vec()));
                argument += 1;
            }
            b'd' => {
                bytes.extend(format.ordered(of.number(argument)?.to_le_bytes().to_vec()));
                argument += 1;
            }
            b'c' | b's' => {
                let word = of.bytes(argument)?;
                argument += 1;
                let size = if size == 0 { word.len() } else { size };
                let Some(word) = word.get(..size) else { return Err(of.bad(argument, "string too short")) };
                if is_seventh {
                    charge(meter, size)?;
                }
                if bytes.len() + size > bytes_max {
                    return Err(Error::MemoryError("the text is too long".to_owned()));
                }
                bytes.extend_from_slice(word);
                if option == b's' {
                    bytes.push(0);
                }
            }
            _ => format.control(option)?,
        }
    }
    Ok(bytes)
}

fn integer_of(bytes: &[u8], is_little: bool, is_signed: bool) -> f64 {
    let fold = |n: u64, b: &u8| n << 8 | u64::from(*b);
    let value = if is_little { bytes.iter().rev().fold(0, fold) } else { bytes.iter().fold(0, fold) };
    if !is_signed {
        return value as f64;
    }
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    ((value << unused) as i64 >> unused) as f64
}

fn unpack(of: &Arguments<'_>, meter: &Meter) -> mlua::Result<MultiValue> {
    let (text, data) = (of.bytes(1)?, of.bytes(2)?);
    let from = of.integer_or(3, 1)?;
    let from = usize::try_from(from).ok().filter(|from| *from > 0);
    let mut place = from.ok_or_else(|| of.bad(3, "offset must be 1 or greater"))? - 1;
    let mut format = Format::new(of, &text);
    let mut values: Vec<Value> = Vec::new();
    while let Some((option, mut size)) = format.next()? {
        if values.len() >= SCRIPT_VALUES_HELD_MAX {
            return Err(of.error("too many results"));
        }
        place = place.saturating_add(format.padding(place, option, size));
        let at = |place: usize, size: usize| {
            let found = place.checked_add(size).and_then(|end| data.get(place..end));
            found.ok_or_else(|| of.bad(2, "data string too short"))
        };
        let found = at(place, size)?;
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                values.push(Value::Number(integer_of(found, format.is_little, option.is_ascii_lowercase())));
            }
            b'x' => {}
            b'f' => {
                let bytes = format.ordered(found.to_vec()).try_into().unwrap_or_default();
                values.push(Value::Number(f64::from(f32::from_le_bytes(bytes))));
            }
            b'd' => {
                let bytes = format.ordered(found.to_vec()).try_into().unwrap_or_default();
                values.push(Value::Number(f64::from_le_bytes(bytes)));
            }
            b'c' => {
                if size == 0 {
                    let length = previous_size(of, values.pop().as_ref());
                    size = length.ok_or_else(|| of.error("format 'c0' needs a previous size"))?;
                }
                values.push(Value::String(of.lua.create_string(at(place, size)?)?));
            }
            b's' => {
                let rest = data.get(place..).unwrap_or_default();
                let end = rest.iter().position(|&b| b == 0);
                // Also where there is no end.
                meter.since_seventh(end.unwrap_or(rest.len()) as u64 / SOUGHT_BYTES_PER_INSTRUCTION)?;
                let end = end.ok_or_else(|| of.error("unfinished string in data"))?;
                values.push(Value::String(of.lua.create_string(&rest[..end])?));
                size = end + 1;
            }
            _ => format.control(option)?,
        }
        place += size;
    }
    values.push(Value::Number((place + 1) as f64));
    Ok(MultiValue::from_vec(values))
}

/// The size that the value before says. For engines before the seventh a text is none that is a number, and there are none below zero.
fn previous_size(of: &Arguments<'_>, value: Option<&Value>) -> Option<usize> {
    let is_seventh = EngineVersion::of_state(of.lua) >= EngineVersion::Seventh;
    match value? {
        Value::Number(n) if is_seventh => Some(size_of(*n)),
        Value::Number(n) => Some(*n as usize),
        text => number_in(of.lua, text).filter(|_| is_seventh).map(size_of),
    }
}

/// As a C program on our machines casts a double to a `size_t`.
fn size_of(n: f64) -> usize {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    let signed = |n: f64| if (-HALF..HALF).contains(&n) { n as i64 } else { i64::MIN };
    let size = if n >= HALF { signed(n - HALF) as u64 ^ (1 << 63) } else { signed(n) as u64 };
    usize::try_from(size).unwrap_or(usize::MAX)
}

fn size(of: &Arguments<'_>) -> mlua::Result<f64> {
    let text = of.bytes(1)?;
    let mut format = Format::new(of, &text);
    let mut place = 0usize;
    while let Some((option, size)) = format.next()? {
        place = place.saturating_add(format.padding(place, option, size));
        match (option, size) {
            (b's', _) => return Err(of.bad(1, "option 's' has no fixed size")),
            (b'c', 0) => return Err(of.bad(1, "option 'c0' has no fixed size")),
            _ if !option.is_ascii_alphanumeric() => format.control(option)?,
            _ => {}
        }
        place = place.saturating_add(size);
    }
    Ok(place as f64)
}
