//! PFADD, PFCOUNT, PFMERGE and PFDEBUG.

use super::estimate::{estimate, place_of};
use super::sketch::{Corrupt, NotSketch, Registers, Sketch};
use crate::command::args::{check_release, is_word, string_of};
use crate::command::call::{Error, Outcome, ReadCall, WriteCall};
use crate::command::string::put_string;
use crate::keyspace_events::Event;
use crate::{Record, WriteSpace};
use std::fmt::Write as _;

const NOT_SKETCH: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";
const CORRUPT: &str = "INVALIDOBJ Corrupted HLL object detected";

impl From<NotSketch> for Error {
    fn from(_: NotSketch) -> Self {
        NOT_SKETCH.into()
    }
}

impl From<Corrupt> for Error {
    fn from(_: Corrupt) -> Self {
        CORRUPT.into()
    }
}

fn sketch_of(record: Option<&Record>) -> Result<Option<Sketch>, Error> {
    record.map(|record| Ok(Sketch::parse(string_of(record)?)?)).transpose()
}

/// Writes a sketch; the key keeps its expiry.
fn put(space: &mut dyn WriteSpace, key: &[u8], record: Option<&Record>, sketch: &Sketch) -> Outcome {
    let expire_at_ms = record.and_then(|record| record.view().expire_at_ms);
    Ok(put_string(space, key, expire_at_ms, &[sketch.bytes()])?)
}

pub(super) fn pfadd(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let key = call.args[1];
    let record = call.space.get(key)?;
    let (mut sketch, mut changed) = match sketch_of(record.as_ref())? {
        Some(sketch) => (sketch, false),
        None => (Sketch::new(), true),
    };
    let bytes_max = call.space.packing().sketch_bytes;
    for element in &call.args[2..] {
        let (index, value) = place_of(element);
        changed |= sketch.raise(index, value, bytes_max)?;
    }
    if changed {
        sketch.forget_count();
        put(call.space, key, record.as_ref(), &sketch)?;
        call.space.notify(Event::PFADD, key);
    }
    call.reply.int(i64::from(changed));
    Ok(())
}

/// Counts anew each time: the number is not stored, because a read writes nothing.
pub(super) fn pfcount(call: &mut ReadCall<'_>) -> Outcome {
    if let [_, key] = call.args {
        let count = match sketch_of(call.space.get(key)?.as_ref())? {
            None => 0,
            Some(sketch) => match sketch.known_count() {
                Some(count) => count,
                None => estimate(&sketch.histogram()?),
            },
        };
        call.reply.int(count as i64);
        return Ok(());
    }
    let mut registers = [0; _];
    for key in &call.args[1..] {
        if let Some(sketch) = sketch_of(call.space.get(key)?.as_ref())? {
            sketch.merge_into(&mut registers)?;
        }
    }
    call.reply.int(count_of(&registers) as i64);
    Ok(())
}

fn count_of(registers: &Registers) -> u64 {
    let mut histogram = [0; _];
    registers.iter().for_each(|value| histogram[usize::from(*value)] += 1);
    estimate(&histogram)
}

pub(super) fn pfmerge(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let key = call.args[1];
    let record = call.space.get(key)?;
    let mut merged = sketch_of(record.as_ref())?.unwrap_or_else(Sketch::new);
    let mut registers = [0; _];
    merged.merge_into(&mut registers)?;
    let mut is_dense = merged.is_dense();
    for key in &call.args[2..] {
        if let Some(sketch) = sketch_of(call.space.get(key)?.as_ref())? {
            is_dense |= sketch.is_dense();
            sketch.merge_into(&mut registers)?;
        }
    }
    if is_dense {
        merged.make_dense()?;
    }
    let bytes_max = call.space.packing().sketch_bytes;
    merged.raise_all(&registers, bytes_max)?;
    merged.forget_count();
    put(call.space, key, record.as_ref(), &merged)?;
    call.space.notify(Event::PFADD, key);
    call.reply.ok();
    Ok(())
}

pub(super) fn pfdebug(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let (word, key) = (call.args[1], call.args[2]);
    let record = call.space.get(key)?;
    let mut sketch = sketch_of(record.as_ref())?.ok_or("ERR The specified key does not exist")?;
    let was_dense = sketch.is_dense();
    if is_word(word, "GETREG") {
        sketch.make_dense()?;
        let mut registers = [0; _];
        sketch.merge_into(&mut registers)?;
        call.reply.array(registers.len());
        registers.into_iter().for_each(|value| call.reply.int(i64::from(value)));
    } else if is_word(word, "DECODE") {
        if was_dense {
            return Err("ERR HLL encoding is not sparse".into());
        }
        call.reply.bulk(decoded(&sketch).as_bytes());
    } else if is_word(word, "ENCODING") {
        call.reply.simple(if was_dense { "dense" } else { "sparse" });
    } else if is_word(word, "TODENSE") {
        sketch.make_dense()?;
        call.reply.int(i64::from(!was_dense));
    } else {
        return Err(Error::Reply(format!("ERR Unknown PFDEBUG subcommand '{}'", word.escape_ascii()).into()));
    }
    if sketch.is_dense() != was_dense {
        put(call.space, key, record.as_ref(), &sketch)?;
    }
    Ok(())
}

/// The runs of a sparse sketch as PFDEBUG DECODE shows them.
fn decoded(sketch: &Sketch) -> String {
    let mut text = String::new();
    for run in sketch.runs() {
        let _ = match (run.value, run.bytes) {
            (0, 1) => write!(text, "z:{} ", run.length),
            (0, _) => write!(text, "Z:{} ", run.length),
            (value, _) => write!(text, "v:{value},{} ", run.length),
        };
    }
    text.truncate(text.trim_end().len());
    text
}
