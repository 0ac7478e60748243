//! What may be proposed: the limits of commands, the same for every way in.
//!
//! A plain command, one that MULTI queues, one of KV.EXEC, a target of COPY or RENAME, a RESTORE and a row of a backup
//! pass here before anything is proposed. What is committed is checked once more when it is evaluated: a log may hold
//! entries of a release that let more through.

use resp::table::CommandSpec;
use std::borrow::Cow;
use vocab::limits::{ENTRY_BYTES_MAX, ITEM_REPLY_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Bytes of an entry that its head and the head of an item take.
const HEAD_BYTES: usize = 64;

/// Most bytes of one item of an entry.
pub const ITEM_BYTES_MAX: usize = ENTRY_BYTES_MAX - HEAD_BYTES;

/// The text of the error reply, its code first.
pub type Refusal = Cow<'static, str>;

/// Checks a command whose length has been checked against the table: its keys and, where it writes, its values.
pub fn check(spec: &CommandSpec, args: &[&[u8]]) -> Result<(), Refusal> {
    check_keys(spec, args)?;
    match args.iter().find(|arg| arg.len() > VALUE_BYTES_MAX) {
        Some(long) if spec.is_write() => Err(too_long("value", long.len(), VALUE_BYTES_MAX)),
        _ => Ok(()),
    }
}

/// Checks the keys of a command. Costs next to nothing where no argument is longer than a key may be.
pub fn check_keys(spec: &CommandSpec, args: &[&[u8]]) -> Result<(), Refusal> {
    if args.iter().all(|arg| arg.len() <= KEY_BYTES_MAX) {
        return Ok(());
    }
    // Where they cannot be told the handler says what is wrong.
    let keys = spec.keys(args).into_iter().flatten().map(|at| args[at]);
    keys.map(check_key).find(Result::is_err).unwrap_or(Ok(()))
}

/// Checks one key.
pub fn check_key(key: &[u8]) -> Result<(), Refusal> {
    if key.len() > KEY_BYTES_MAX { Err(too_long("key", key.len(), KEY_BYTES_MAX)) } else { Ok(()) }
}

/// Checks how many bytes an item of an entry takes: its commands and the keys that are watched for it.
pub fn check_item(bytes: usize) -> Result<(), Refusal> {
    if bytes > ITEM_BYTES_MAX {
        let text =
            format!("ERR the request is too large ({bytes} bytes, {ITEM_BYTES_MAX} are allowed): nothing was written");
        return Err(text.into());
    }
    Ok(())
}

/// Checks how many bytes of what is stored the answer of a transaction will hold, as far as that is known.
pub fn check_reply(bytes: usize) -> Result<(), Refusal> {
    if bytes > ITEM_REPLY_BYTES_MAX {
        let text = format!(
            "ERR the answer would take {bytes} bytes, {ITEM_REPLY_BYTES_MAX} are allowed in one transaction: nothing was written"
        );
        return Err(text.into());
    }
    Ok(())
}

fn too_long(what: &str, bytes: usize, bytes_max: usize) -> Refusal {
    format!("ERR {what} is too long ({bytes} bytes, {bytes_max} are allowed)").into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use resp::table::resolve;

    #[test]
    fn each_way_to_name_a_key_is_checked() {
        let (fits, long) = (vec![b'k'; KEY_BYTES_MAX], vec![b'k'; KEY_BYTES_MAX + 1]);
        let requests: [&[&[u8]]; 8] = [
            &[b"SET", b"?", b"v"],
            &[b"MSET", b"a", b"1", b"?", b"2"],
            &[b"COPY", b"a", b"?"],
            &[b"RENAME", b"a", b"?"],
            &[b"RENAMENX", b"?", b"b"],
            &[b"RESTORE", b"?", b"0", b"x"],
            &[b"KV.EXEC", b"1", b"3", b"PUT", b"?", b"v"],
            &[b"GET", b"?"],
        ];
        for request in requests {
            let with = |key: &[u8]| {
                let args: Vec<&[u8]> = request.iter().map(|arg| if *arg == b"?" { key } else { arg }).collect();
                check(resolve(&args).unwrap(), &args)
            };
            assert_eq!(with(&fits), Ok(()), "{request:?}");
            let text = with(&long).unwrap_err();
            assert_eq!(text, "ERR key is too long (32001 bytes, 32000 are allowed)", "{request:?}");
        }
    }

    #[test]
    fn values_are_checked_where_they_are_written() {
        let long = vec![0; VALUE_BYTES_MAX + 1];
        let set: [&[u8]; 3] = [b"SET", b"k", &long];
        assert!(check(resolve(&set).unwrap(), &set).unwrap_err().starts_with("ERR value is too long (67108865 bytes"));
        let field: [&[u8]; 3] = [b"HGET", b"h", &long];
        assert_eq!(check(resolve(&field).unwrap(), &field), Ok(()), "no such field can be there");
        assert_eq!(check_item(ITEM_BYTES_MAX), Ok(()));
        assert!(check_item(ITEM_BYTES_MAX + 1).is_err());
    }
}
