//! What a script returns, as its client sees it.

use super::context::EngineVersion;
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

/// The answer of a script, as it is written into a reply.
///
/// Texts that are no bulk strings count against the reply's bound as these do, from the seventh engine on. Before, they count for nothing:
/// the answer goes on, whatever they come to, but those for which there is no room are left out.
pub(super) struct ScriptAnswer<'a> {
    reply: &'a mut Reply,
    /// Where it begins.
    from: usize,
    counts_texts: bool,
    /// Bytes that the reply may have with texts that do not count.
    bytes_max: usize,
    /// A text was left out.
    is_cut: bool,
}

impl<'a> ScriptAnswer<'a> {
    /// Nothing so far. With texts that do not count the reply may have `bytes_max` bytes.
    pub(super) fn new(reply: &'a mut Reply, engine: EngineVersion, bytes_max: usize) -> Self {
        let (from, counts_texts) = (reply.buf.len(), engine >= EngineVersion::Seventh);
        Self { reply, from, counts_texts, bytes_max, is_cut: false }
    }

    /// Writes a value as Redis writes what a script returns. The protocol that the script has chosen decides how booleans are written.
    /// The error: the run is over, or memory is short.
    pub(super) fn put(&mut self, value: &Value, meter: &Meter) -> mlua::Result<()> {
        self.write(value, meter, DEPTH_MAX)
    }

    /// Writes the text of an error.
    pub(super) fn put_error(&mut self, text: &[u8]) {
        if self.admits(text.len()) {
            self.reply.error_bytes(text);
        }
    }

    /// Whether nothing of it was left out that does not count.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_cut
    }

    /// An error stands in its place.
    pub(super) fn replace(self, error: &str) {
        let Self { reply, from, .. } = self;
        reply.buf.truncate(from);
        reply.error(error);
    }

    /// Whether a text of so many bytes that is no bulk string is to be written. It counts before it is copied.
    fn admits(&mut self, bytes: usize) -> bool {
        if self.counts_texts {
            self.reply.spend(bytes);
        } else if self.reply.keeps() && self.reply.buf.len().saturating_add(bytes) > self.bytes_max {
            self.is_cut = true;
            return false;
        }
        self.reply.keeps()
    }

    fn write(&mut self, value: &Value, meter: &Meter, depth: usize) -> mlua::Result<()> {
        if depth == 0 {
            self.reply.error("ERR reached lua stack limit");
            return Ok(());
        }
        // Tables may be shared: what is short in memory may be long as an answer.
        self.reply.spend(VALUE_COST);
        meter.work(if value.is_table() { TABLE_INSTRUCTIONS } else { VALUE_INSTRUCTIONS })?;
        if self.reply.exceeded() {
            return Ok(());
        }
        match value {
            Value::String(text) => self.reply.bulk(&text.as_bytes()),
            Value::Integer(n) => self.reply.int(*n),
            Value::Number(n) => self.reply.int(truncated(*n)),
            Value::Boolean(b) if meter.proto() == Proto::Resp3 => self.reply.boolean(*b),
            Value::Boolean(true) => self.reply.int(1),
            Value::Table(table) => return self.write_table(table, meter, depth),
            _ => self.reply.null(),
        }
        Ok(())
    }

    fn write_table(&mut self, table: &Table, meter: &Meter, depth: usize) -> mlua::Result<()> {
        if self.write_text(table)? {
            return Ok(());
        }
        if let Value::Table(map) = table.raw_get("map")? {
            return self.write_map(&map, meter, depth);
        }
        if let Value::Table(set) = table.raw_get("set")? {
            return self.write_set(&set, meter, depth);
        }
        let mark = self.reply.begin_array();
        let mut count = 0;
        loop {
            let value: Value = table.raw_get(count + 1)?;
            if value.is_nil() {
                break;
            }
            self.write(&value, meter, depth - 1)?;
            count += 1;
            if self.reply.exceeded() {
                break;
            }
        }
        self.reply.end_array(mark, count);
        Ok(())
    }

    /// Writes what a table stands for that has one of the fields of texts and doubles; false if it has none.
    fn write_text(&mut self, table: &Table) -> mlua::Result<bool> {
        if let Some(text) = text_field(table, "err")? {
            let text = text.as_bytes();
            if self.admits(text.len()) {
                self.reply.error_bytes(&Outcome::chosen_text(text.to_vec()));
            }
            return Ok(true);
        }
        if let Some(text) = text_field(table, "ok")? {
            let text = text.as_bytes();
            if self.admits(text.len()) {
                self.reply.simple_bytes(&one_line(&text));
            }
            return Ok(true);
        }
        match table.raw_get::<Value>("double")? {
            Value::Number(d) => {
                self.reply.double(d);
                return Ok(true);
            }
            Value::Integer(n) => {
                self.reply.double(n as f64);
                return Ok(true);
            }
            _ => {}
        }
        if let Some(text) = text_field(table, "big_number")? {
            let text = text.as_bytes();
            if self.admits(text.len()) {
                self.reply.big_number_bytes(&one_line(&text));
            }
            return Ok(true);
        }
        if let Value::Table(verbatim) = table.raw_get("verbatim_string")?
            && let (Some(format), Some(text)) = (text_field(&verbatim, "format")?, text_field(&verbatim, "string")?)
        {
            let (format, text) = (format.as_bytes(), text.as_bytes());
            let mut three = *b"   ";
            three.iter_mut().zip(&*format).for_each(|(to, from)| *to = *from);
            if self.admits(text.len()) {
                self.reply.verbatim_as(three, &text);
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn write_map(&mut self, map: &Table, meter: &Meter, depth: usize) -> mlua::Result<()> {
        let mark = self.reply.begin_array();
        let mut count = 0;
        for pair in map.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.write(&key, meter, depth - 1)?;
            self.write(&value, meter, depth - 1)?;
            count += 1;
        }
        self.reply.end_map(mark, count);
        Ok(())
    }

    fn write_set(&mut self, set: &Table, meter: &Meter, depth: usize) -> mlua::Result<()> {
        let count = set.pairs::<Value, Value>().count();
        self.reply.set(count);
        for pair in set.pairs::<Value, Value>() {
            self.write(&pair?.0, meter, depth - 1)?;
        }
        Ok(())
    }
}

/// As a C program on our machines casts a double.
fn truncated(n: f64) -> i64 {
    if n > -9.3e18 && n < 9.223_372_036_854_775e18 { n as i64 } else { i64::MIN }
}

fn text_field(table: &Table, name: &str) -> mlua::Result<Option<mlua::String>> {
    Ok(match table.raw_get::<Value>(name)? {
        Value::String(text) => Some(text),
        _ => None,
    })
}

/// Line breaks become spaces.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use mlua::Lua;

    /// What the reply comes to, and whether all of it is there.
    fn answer(engine: EngineVersion, value: &Value, bound: usize, bytes_max: usize, discards: bool) -> (Reply, bool) {
        let mut reply = Reply::new(Proto::Resp3);
        reply.limit(bound);
        reply.discard(discards);
        let mut answer = ScriptAnswer::new(&mut reply, engine, bytes_max);
        answer.put(value, &Meter::default()).unwrap();
        let is_whole = answer.is_whole();
        (reply, is_whole)
    }

    #[test]
    fn texts_that_are_no_bulk_strings_take_no_more_memory_than_they_may() {
        let (sixth, seventh) = (EngineVersion::Sixth, EngineVersion::Seventh);
        for fields in ["err = s", "ok = s", "big_number = s", "verbatim_string = {format = 'txt', string = s}"] {
            let lua = Lua::new();
            let script = "local t = {} for i = 1, 100 do t[i] = e end return t";
            let script = format!("local s = ('x'):rep(1000) local e = {{{fields}}} {script}");
            let value: Value = lua.load(script).eval().unwrap();
            let (plain, counted) = (101 * VALUE_COST, 101 * VALUE_COST + 100 * 1000);
            let whole = 100_000..110_000;
            for (engine, bound, discards, spent, bytes) in [
                (seventh, usize::MAX, false, counted..=counted, whole.clone()),
                (seventh, usize::MAX, true, counted..=counted, 0..100),
                (seventh, 50_000, false, 50_001..=52_000, 45_000..51_000),
                (seventh, 50_000, true, 50_001..=52_000, 0..100),
                (sixth, usize::MAX, false, plain..=plain, whole),
                (sixth, usize::MAX, true, plain..=plain, 0..100),
            ] {
                let (reply, is_whole) = answer(engine, &value, bound, 200_000, discards);
                let case = format!("{fields}, {engine:?}, {bound}, {discards}");
                assert!(spent.contains(&reply.spent()), "{case}: {}", reply.spent());
                assert!(bytes.contains(&reply.buf.len()), "{case}: {}", reply.buf.len());
                assert!(is_whole, "{case}");
            }
            let (reply, is_whole) = answer(sixth, &value, usize::MAX, 50_000, false);
            assert!(!is_whole && reply.spent() == plain && reply.buf.len() < 51_000, "{fields}: {}", reply.buf.len());
        }
    }

    #[test]
    fn an_error_stands_in_place_of_an_answer_for_which_there_is_no_room() {
        let mut reply = Reply::default();
        reply.ok();
        let mut answer = ScriptAnswer::new(&mut reply, EngineVersion::Sixth, 100);
        answer.put_error(&[b'x'; 50]);
        assert!(answer.is_whole());
        answer.put_error(&[b'x'; 50]);
        assert!(!answer.is_whole());
        answer.replace("ERR long");
        assert_eq!(reply.buf, b"+OK\r\n-ERR long\r\n");
    }
}
