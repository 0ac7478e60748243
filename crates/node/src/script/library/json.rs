//! `cjson`: its functions and settings.

use super::arguments::{Arguments, charge};
use super::json_decode::decode;
use super::json_encode::encode;
use super::json_settings::{InvalidNumbers, JsonSettings};
use crate::script::context::EngineVersion;
use crate::script::direct::bound_all;
use crate::script::meter::Meter;
use mlua::{Lua, MultiValue, Table, Value};
use std::cell::Cell;
use std::rc::Rc;

/// For how many instructions it counts to make the library once more, from the seventh engine on.
const NEW_INSTRUCTIONS: u64 = 1500;

/// Bytes of a text that is decoded for the price of one instruction, besides, from the seventh engine on.
const DECODED_BYTES_PER_INSTRUCTION: u64 = 2;

/// A function of the library.
type Run = fn(&Arguments<'_>, &JsonSettings) -> mlua::Result<MultiValue>;

const FUNCTIONS: &[(&str, usize, Run)] = &[
    ("encode_sparse_array", 3, sparse_array),
    ("encode_max_depth", 1, |of, settings| {
        integer(of, 1, &settings.encode_depth_max, (1, i64::from(i32::MAX))).map(one)
    }),
    ("decode_max_depth", 1, |of, settings| {
        integer(of, 1, &settings.decode_depth_max, (1, i64::from(i32::MAX))).map(one)
    }),
    ("encode_number_precision", 1, |of, settings| integer(of, 1, &settings.precision, (1, 14)).map(one)),
    ("encode_keep_buffer", 1, |of, settings| flag(of, 1, &settings.keep_buffer).map(one)),
    ("encode_invalid_numbers", 1, invalid_numbers),
    ("decode_invalid_numbers", 1, |of, settings| flag(of, 1, &settings.decode_invalid).map(one)),
];

pub(super) fn library(lua: &Lua, settings: &Rc<JsonSettings>, meter: &Rc<Meter>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    for &(name, count_max, run) in FUNCTIONS {
        let of = settings.clone();
        let function = lua.create_function(move |lua, values: MultiValue| {
            let arguments = Arguments { lua, name, values: &values };
            match values.len() > count_max {
                true => Err(arguments.bad(count_max + 1, "found too many arguments")),
                false => run(&arguments, &of),
            }
        })?;
        library.raw_set(name, function)?;
    }
    let (of, meter_of) = (settings.clone(), meter.clone());
    let function = lua.create_function(move |lua, values: MultiValue| {
        let arguments = Arguments { lua, name: "encode", values: &values };
        let text = encode(&arguments, &of, &meter_of)?;
        charge(&meter_of, text.len())?;
        lua.create_string(text)
    })?;
    library.raw_set("encode", function)?;
    let (of, meter_of) = (settings.clone(), meter.clone());
    let function = lua.create_function(move |lua, values: MultiValue| {
        let arguments = Arguments { lua, name: "decode", values: &values };
        let bytes = arguments.first_bytes();
        charge(&meter_of, bytes)?;
        meter_of.since_seventh(bytes as u64 / DECODED_BYTES_PER_INSTRUCTION)?;
        decode(&arguments, &of, &meter_of)
    })?;
    library.raw_set("decode", function)?;
    let meter = meter.clone();
    let function = lua.create_function(move |lua, ()| {
        let is_bounded = EngineVersion::of_state(lua) >= EngineVersion::Seventh;
        if is_bounded {
            meter.work(NEW_INSTRUCTIONS)?;
        }
        let library = self::library(lua, &Rc::new(JsonSettings::default()), &meter)?;
        // Before, a run would have allocated less for it.
        if is_bounded {
            bound_all(lua, &library)?;
        }
        Ok(library)
    })?;
    library.raw_set("new", function)?;
    library.raw_set("null", Value::NULL)?;
    library.raw_set("_NAME", "cjson")?;
    library.raw_set("_VERSION", "2.1.0")?;
    Ok(library)
}

fn one(value: Value) -> MultiValue {
    MultiValue::from_iter([value])
}

fn is_given(of: &Arguments<'_>, number: usize) -> bool {
    of.value(number).is_some_and(|value| !value.is_nil())
}

fn integer(of: &Arguments<'_>, number: usize, setting: &Cell<i64>, (min, max): (i64, i64)) -> mlua::Result<Value> {
    if is_given(of, number) {
        let value = of.integer_or(number, 0)?;
        if !(min..=max).contains(&value) {
            return Err(of.bad(1, &format!("expected integer between {min} and {max}")));
        }
        setting.set(value);
    }
    Ok(Value::Number(setting.get() as f64))
}

/// The place of the word that is given among `words`.
fn word(of: &Arguments<'_>, number: usize, words: &[&str]) -> mlua::Result<usize> {
    let given = of.bytes(number)?;
    let found = words.iter().position(|word| *word.as_bytes() == *given);
    found.ok_or_else(|| of.bad(number, &format!("invalid option '{}'", String::from_utf8_lossy(&given))))
}

fn flag(of: &Arguments<'_>, number: usize, setting: &Cell<bool>) -> mlua::Result<Value> {
    match of.value(number) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(value)) => setting.set(*value),
        Some(_) => setting.set(word(of, number, &["off", "on"])? == 1),
    }
    Ok(Value::Boolean(setting.get()))
}

fn sparse_array(of: &Arguments<'_>, settings: &JsonSettings) -> mlua::Result<MultiValue> {
    let any = (0, i64::from(i32::MAX));
    Ok(MultiValue::from_iter([
        flag(of, 1, &settings.sparse_convert)?,
        integer(of, 2, &settings.sparse_ratio, any)?,
        integer(of, 3, &settings.sparse_safe, any)?,
    ]))
}

fn invalid_numbers(of: &Arguments<'_>, settings: &JsonSettings) -> mlua::Result<MultiValue> {
    match of.value(1) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(value)) => {
            settings.encode_invalid.set(if *value { InvalidNumbers::Written } else { InvalidNumbers::Refused });
        }
        Some(_) => settings.encode_invalid.set(match word(of, 1, &["off", "on", "null"])? {
            0 => InvalidNumbers::Refused,
            1 => InvalidNumbers::Written,
            _ => InvalidNumbers::Null,
        }),
    }
    Ok(one(match settings.encode_invalid.get() {
        InvalidNumbers::Refused => Value::Boolean(false),
        InvalidNumbers::Written => Value::Boolean(true),
        InvalidNumbers::Null => Value::String(of.lua.create_string("null")?),
    }))
}
