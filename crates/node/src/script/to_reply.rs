//! What a script returns, as its client sees it.

use super::meter::Meter;
use crate::Outcome;
use mlua::{Table, Value};
use resp::{Proto, Reply};

/// Tables within tables, at most.
const DEPTH_MAX: usize = 128;

/// What a value of an answer costs beside its bytes.
const VALUE_COST: usize = 16;
/// For how many instructions it counts: a table is asked for several fields.
const VALUE_INSTRUCTIONS: u64 = 20;
const TABLE_INSTRUCTIONS: u64 = 200;

/// Writes a value as Redis writes what a script returns. The protocol that the script has chosen decides how booleans are written.
/// The error: the run is over, or memory is short.
pub(super) fn to_reply(value: &Value, meter: &Meter, reply: &mut Reply) -> mlua::Result<()> {
    write(value, meter, reply, DEPTH_MAX)
}

fn write(value: &Value, meter: &Meter, reply: &mut Reply, depth: usize) -> mlua::Result<()> {
    if depth == 0 {
        reply.error("ERR reached lua stack limit");
        return Ok(());
    }
    // Tables may be shared: what is short in memory may be long as an answer.
    reply.spend(VALUE_COST);
    meter.work(if value.is_table() { TABLE_INSTRUCTIONS } else { VALUE_INSTRUCTIONS })?;
    if reply.exceeded() {
        return Ok(());
    }
    match value {
        Value::String(text) => reply.bulk(&text.as_bytes()),
        Value::Integer(n) => reply.int(*n),
        Value::Number(n) => reply.int(truncated(*n)),
        Value::Boolean(b) if meter.proto() == Proto::Resp3 => reply.boolean(*b),
        Value::Boolean(true) => reply.int(1),
        Value::Table(table) => return write_table(table, meter, reply, depth),
        _ => reply.null(),
    }
    Ok(())
}

/// As a C program on our machines casts a double.
fn truncated(n: f64) -> i64 {
    if n > -9.3e18 && n < 9.223_372_036_854_775e18 { n as i64 } else { i64::MIN }
}

fn write_table(table: &Table, meter: &Meter, reply: &mut Reply, depth: usize) -> mlua::Result<()> {
    if let Some(text) = text_field(table, "err")? {
        reply.error_bytes(&Outcome::chosen_text(text));
        return Ok(());
    }
    if let Some(text) = text_field(table, "ok")? {
        reply.simple_bytes(&one_line(&text));
        return Ok(());
    }
    match table.raw_get::<Value>("double")? {
        Value::Number(d) => {
            reply.double(d);
            return Ok(());
        }
        Value::Integer(n) => {
            reply.double(n as f64);
            return Ok(());
        }
        _ => {}
    }
    if let Some(text) = text_field(table, "big_number")? {
        reply.big_number_bytes(&one_line(&text));
        return Ok(());
    }
    if let Value::Table(verbatim) = table.raw_get("verbatim_string")?
        && let (Some(format), Some(text)) = (text_field(&verbatim, "format")?, text_field(&verbatim, "string")?)
    {
        let mut three = *b"   ";
        three.iter_mut().zip(&format).for_each(|(to, from)| *to = *from);
        reply.verbatim_as(three, &text);
        return Ok(());
    }
    if let Value::Table(map) = table.raw_get("map")? {
        return write_map(&map, meter, reply, depth);
    }
    if let Value::Table(set) = table.raw_get("set")? {
        return write_set(&set, meter, reply, depth);
    }
    let mark = reply.begin_array();
    let mut count = 0;
    loop {
        let value: Value = table.raw_get(count + 1)?;
        if value.is_nil() {
            break;
        }
        write(&value, meter, reply, depth - 1)?;
        count += 1;
        if reply.exceeded() {
            break;
        }
    }
    reply.end_array(mark, count);
    Ok(())
}

fn write_map(map: &Table, meter: &Meter, reply: &mut Reply, depth: usize) -> mlua::Result<()> {
    let mark = reply.begin_array();
    let mut count = 0;
    for pair in map.pairs::<Value, Value>() {
        let (key, value) = pair?;
        write(&key, meter, reply, depth - 1)?;
        write(&value, meter, reply, depth - 1)?;
        count += 1;
    }
    reply.end_map(mark, count);
    Ok(())
}

fn write_set(set: &Table, meter: &Meter, reply: &mut Reply, depth: usize) -> mlua::Result<()> {
    let count = set.pairs::<Value, Value>().count();
    reply.set(count);
    for pair in set.pairs::<Value, Value>() {
        write(&pair?.0, meter, reply, depth - 1)?;
    }
    Ok(())
}

fn text_field(table: &Table, name: &str) -> mlua::Result<Option<Vec<u8>>> {
    Ok(match table.raw_get::<Value>(name)? {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        _ => None,
    })
}

/// Line breaks become spaces.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}
