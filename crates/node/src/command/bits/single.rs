//! SETBIT and GETBIT.

use super::value::{BitUse, offset_of};
use crate::Patch;
use crate::command::args::check_release;
use crate::command::call::{Outcome, ReadCall, WriteCall};
use crate::command::string::{edit_string, look_into};
use crate::keyspace_events::Event;

pub(super) fn setbit(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let key = call.args[1];
    let offset = offset_of(call.args[2], BitUse::Write)?;
    let bit = match call.args[3] {
        b"0" => 0,
        b"1" => 1,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    let (at, shift) = ((offset / 8) as usize, 7 - offset % 8);
    let (before, is_changed) = edit_string(call.space, key, |string| {
        let old = string.byte(at)?;
        let new = old & !(1 << shift) | bit << shift;
        let is_changed = string.len() <= at || new != old;
        let patch = is_changed.then(|| Patch { offset: at, bytes: vec![new] });
        Ok(((old >> shift & 1, is_changed), patch.into_iter().collect()))
    })?;
    if is_changed {
        call.space.notify(Event::SETBIT, key);
    }
    call.reply.int(i64::from(before));
    Ok(())
}

/// By how many bytes SETBIT may make a string longer.
pub(super) fn growth(args: &[&[u8]]) -> usize {
    offset_of(args[2], BitUse::Write).map_or(0, |offset| (offset / 8) as usize)
}

pub(super) fn getbit(call: &mut ReadCall<'_>) -> Outcome {
    let offset = offset_of(call.args[2], BitUse::Read)?;
    let byte = look_into(call.space, call.args[1], |string| Ok(string.byte((offset / 8) as usize)?))?;
    call.reply.int(i64::from(byte >> (7 - offset % 8) & 1));
    Ok(())
}
