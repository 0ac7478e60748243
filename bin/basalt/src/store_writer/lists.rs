//! Lists on their way into a store: in order, and each element once.
//!
//! A push is not repeated blindly, since it would push twice: the length of the list tells whether it was made.

use super::parts::parts;
use client::{Client, StoreUrl, Value};
use std::time::Duration;

/// Times that a request is made before the restore is given up.
const TRIES_MAX: u32 = 60;
const PAUSE: Duration = Duration::from_millis(100);

/// Appends to lists, one request at a time.
pub(super) struct ListWriter {
    client: Client,
}

impl ListWriter {
    pub(super) fn open(node: &StoreUrl) -> Result<Self, String> {
        Ok(Self { client: Client::open(node).map_err(|e| e.to_string())? })
    }

    /// Writes these elements of a list, of which the first has the index `start`. The first ones of a list replace what was at
    /// the key.
    pub(super) fn append(&mut self, key: &[u8], start: u64, elements: &[Vec<u8>]) -> Result<(), String> {
        if start == 0 {
            self.client.call_repeatable(&[b"DEL", key]).map_err(|e| e.to_string())?;
        }
        let mut at = start;
        for part in parts(elements, Vec::len) {
            self.push(key, at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn push(&mut self, key: &[u8], start: u64, elements: &[Vec<u8>]) -> Result<(), String> {
        let end = start + elements.len() as u64;
        let wrong = |length: u64| {
            let key = key.escape_ascii();
            Err(format!(
                "the list {key} has {length} elements where {start} were restored: another client writes to it"
            ))
        };
        let mut args: Vec<&[u8]> = vec![b"RPUSH", key];
        args.extend(elements.iter().map(Vec::as_slice));
        let mut problem = String::new();
        for _ in 0..TRIES_MAX {
            match self.client.call_repeatable(&[b"LLEN", key]) {
                Ok(Value::Int(length)) if length.unsigned_abs() == end => return Ok(()),
                Ok(Value::Int(length)) if length.unsigned_abs() == start => match self.client.call(&args) {
                    Ok(Value::Int(length)) if length.unsigned_abs() == end => return Ok(()),
                    Ok(Value::Int(length)) => return wrong(length.unsigned_abs()),
                    Ok(other) => problem = format!("{other:?}"),
                    Err(e) => problem = e.to_string(),
                },
                Ok(Value::Int(length)) => return wrong(length.unsigned_abs()),
                Ok(other) => problem = format!("{other:?}"),
                Err(e) => problem = e.to_string(),
            }
            std::thread::sleep(PAUSE);
        }
        Err(format!("a list could not be written, after {TRIES_MAX} tries: {problem}"))
    }
}
