//! SETBIT and GETBIT.

use super::value::offset_of;
use crate::command::args::{bytes_of, check_release};
use crate::command::call::{Outcome, ReadCall, WriteCall};
use crate::command::string::put_string;

pub(super) fn setbit(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let key = call.args[1];
    let offset = offset_of(call.args[2])?;
    let bit = match call.args[3] {
        b"0" => 0,
        b"1" => 1,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    let record = call.space.get(key)?;
    let bytes = bytes_of(record.as_ref())?;
    let (at, shift) = ((offset / 8) as usize, 7 - offset % 8);
    let old = bytes.get(at).copied().unwrap_or(0);
    let new = [old & !(1 << shift) | bit << shift];
    if bytes.len() > at && new == [old] {
        call.reply.int(i64::from(old >> shift & 1));
        return Ok(());
    }
    let expire_at_ms = record.as_ref().and_then(|record| record.view().expire_at_ms);
    let head = &bytes[..at.min(bytes.len())];
    let gap = vec![0; at - head.len()];
    let tail = bytes.get(at + 1..).unwrap_or_default();
    put_string(call.space, key, expire_at_ms, &[head, &gap, &new, tail])?;
    call.reply.int(i64::from(old >> shift & 1));
    Ok(())
}

pub(super) fn getbit(call: &mut ReadCall<'_>) -> Outcome {
    let offset = offset_of(call.args[2])?;
    let record = call.space.get(call.args[1])?;
    let byte = bytes_of(record.as_ref())?.get((offset / 8) as usize).copied().unwrap_or(0);
    call.reply.int(i64::from(byte >> (7 - offset % 8) & 1));
    Ok(())
}
