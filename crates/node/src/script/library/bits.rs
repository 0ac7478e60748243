//! `bit`: operations on 32 bits.

use super::arguments::{Arguments, charge_call};
use crate::script::meter::Meter;
use mlua::{Lua, MultiValue, Table};
use std::rc::Rc;

/// Works on two operands.
type Operation = fn(u32, u32) -> u32;

const FOLDS: &[(&str, Operation)] = &[("band", |a, b| a & b), ("bor", |a, b| a | b), ("bxor", |a, b| a ^ b)];

/// The second operand is a number of places, below 32.
const SHIFTS: &[(&str, Operation)] = &[
    ("lshift", |b, n| b << n),
    ("rshift", |b, n| b >> n),
    ("arshift", |b, n| ((b as i32) >> n) as u32),
    ("rol", u32::rotate_left),
    ("ror", u32::rotate_right),
];

/// Works on one operand.
type Map = fn(u32) -> u32;

const MAPS: &[(&str, Map)] = &[("tobit", |b| b), ("bnot", |b| !b), ("bswap", u32::swap_bytes)];

pub(super) fn library(lua: &Lua, meter: &Rc<Meter>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    for &(name, run) in MAPS {
        let meter = meter.clone();
        let function = lua.create_function(move |lua, values: MultiValue| {
            charge_call(&meter, &values)?;
            Ok(f64::from(run(bits(&Arguments { lua, name, values: &values }, 1)?) as i32))
        })?;
        library.raw_set(name, function)?;
    }
    for &(name, run) in FOLDS {
        let meter = meter.clone();
        let function = lua.create_function(move |lua, values: MultiValue| {
            charge_call(&meter, &values)?;
            let arguments = Arguments { lua, name, values: &values };
            let first = bits(&arguments, 1)?;
            let folded =
                (2..=values.len()).rev().try_fold(first, |b, at| Ok::<_, mlua::Error>(run(b, bits(&arguments, at)?)));
            Ok(f64::from(folded? as i32))
        })?;
        library.raw_set(name, function)?;
    }
    for &(name, run) in SHIFTS {
        let meter = meter.clone();
        let function = lua.create_function(move |lua, values: MultiValue| {
            charge_call(&meter, &values)?;
            let arguments = Arguments { lua, name, values: &values };
            Ok(f64::from(run(bits(&arguments, 1)?, bits(&arguments, 2)? & 31) as i32))
        })?;
        library.raw_set(name, function)?;
    }
    let meter = meter.clone();
    let tohex = lua.create_function(move |lua, values: MultiValue| {
        charge_call(&meter, &values)?;
        to_hex(lua, &values)
    })?;
    library.raw_set("tohex", tohex)?;
    Ok(library)
}

/// The low 32 bits of a number, rounded to a whole one.
fn bits(arguments: &Arguments<'_>, number: usize) -> mlua::Result<u32> {
    // 2^52 + 2^51: the sum has the whole part in its low bits.
    Ok((arguments.number(number)? + 6_755_399_441_055_744.0).to_bits() as u32)
}

fn to_hex(lua: &Lua, values: &MultiValue) -> mlua::Result<String> {
    let arguments = Arguments { lua, name: "tohex", values };
    let b = bits(&arguments, 1)?;
    let digits = if values.len() < 2 { 8 } else { bits(&arguments, 2)? as i32 };
    let text = if digits < 0 { format!("{b:08X}") } else { format!("{b:08x}") };
    Ok(text[8 - (digits.unsigned_abs() as usize).min(8)..].to_owned())
}
