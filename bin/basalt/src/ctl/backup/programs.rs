//! The functions and scripts of a store, in a backup: as they are soon after its moment.

use crate::moment::said;
use client::{Client, Value};
use node::Libraries;
use serde::{Deserialize, Serialize};

const DAMAGED: &str = "the backup's functions and scripts are damaged";

/// Functions and scripts, as digits: their bytes need be no text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Programs {
    /// What FUNCTION DUMP returns, with its own checksum; empty if there are none.
    functions: String,
    /// The sources of scripts.
    scripts: Vec<String>,
}

impl Programs {
    /// Those of a store; none if it is of a release without them.
    pub(crate) fn of_store(client: &mut Client) -> Result<Option<Self>, String> {
        let answer = match said(client, &[b"KV.BACKUP", b"PROGRAMS"]) {
            Ok(answer) => answer,
            Err(text) if text.contains("unknown subcommand") => return Ok(None),
            Err(text) => return Err(text),
        };
        Self::of_answer(&answer).map(Some).ok_or_else(|| "the store's functions and scripts cannot be read".to_owned())
    }

    fn of_answer(answer: &Value) -> Option<Self> {
        let Value::Array(parts) = answer else { return None };
        let [functions, Value::Array(scripts)] = parts.as_slice() else { return None };
        let digits = |value: &Value| Some(digits_of(value.as_bytes()?));
        Some(Self { functions: digits(functions)?, scripts: scripts.iter().map(digits).collect::<Option<_>>()? })
    }

    /// Whether they are the digits that a backup writes.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut all = std::iter::once(&self.functions).chain(&self.scripts);
        if all.all(|digits| bytes_of(digits).is_some()) { Ok(()) } else { Err(DAMAGED.to_owned()) }
    }

    /// Whether a store can load the functions.
    pub(crate) fn check_functions(&self) -> Result<(), String> {
        let functions = bytes_of(&self.functions).ok_or(DAMAGED)?;
        if functions.is_empty() {
            return Ok(());
        }
        Libraries::of_dump(&functions).map(drop).map_err(|why| format!("the functions cannot be loaded: {why}"))
    }

    /// Has a store know them.
    pub(crate) fn restore(&self, client: &mut Client) -> Result<(), String> {
        let functions = bytes_of(&self.functions).ok_or(DAMAGED)?;
        if !functions.is_empty() {
            said(client, &[b"FUNCTION", b"RESTORE", &functions, b"REPLACE"])?;
        }
        for script in &self.scripts {
            said(client, &[b"SCRIPT", b"LOAD", &bytes_of(script).ok_or(DAMAGED)?])?;
        }
        Ok(())
    }
}

/// Bytes as hexadecimal digits.
pub(super) fn digits_of(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(|n| char::from_digit(n.into(), 16)).collect()
}

/// What `digits_of` was given.
pub(super) fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let (pairs, odd) = digits.as_bytes().as_chunks::<2>();
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
    if odd.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_a_store_cannot_load_are_damage() {
        let of = |functions: &[u8]| Programs { functions: digits_of(functions), scripts: Vec::new() };
        let source = b"#!lua name=one\nredis.register_function('f', function() return 1 end)".to_vec();
        let dump = rdb::write_libraries(std::iter::once(&source[..]));
        assert_eq!(of(&dump).check_functions(), Ok(()));
        assert_eq!(of(b"").check_functions(), Ok(()));
        let mut changed = dump.clone();
        changed[dump.len() / 2] ^= 1;
        assert!(of(&changed).check().is_ok() && of(&changed).check_functions().is_err());
    }

    #[test]
    fn what_a_store_has_is_kept_byte_for_byte() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(bytes_of(&digits_of(&all)), Some(all.clone()));
        assert!(bytes_of("f").is_none() && bytes_of("zz").is_none());
        let answer = Value::Array(vec![
            Value::Bulk(vec![0, 255]),
            Value::Array(vec![Value::Bulk(b"return 1".to_vec()), Value::Bulk(Vec::new())]),
        ]);
        let programs = Programs { functions: "00ff".to_owned(), scripts: vec![digits_of(b"return 1"), String::new()] };
        assert_eq!(Programs::of_answer(&answer), Some(programs));
        assert_eq!(Programs::of_answer(&Value::Null), None);
    }
}
