//! GEOADD, GEOPOS, GEOHASH and GEODIST, and the arguments that they share with searches.

use super::geohash::{LATITUDE_MAX, LONGITUDE_MAX, Position};
use super::shape::{Unit, distance};
use crate::ReadSpace;
use crate::command::args::{SYNTAX, is_word};
use crate::command::call::{Error, Outcome, ReadCall, WriteCall};
use crate::command::zset::{Conditions, Scored, SortedSet, add, parse_score};
use resp::Reply;

pub(super) fn geoadd(call: &mut WriteCall<'_>) -> Outcome {
    let mut conditions = Conditions::default();
    let mut rest = &call.args[2..];
    while let Some((word, behind)) = rest.split_first() {
        match () {
            () if is_word(word, "NX") => conditions.absent = true,
            () if is_word(word, "XX") => conditions.present = true,
            () if is_word(word, "CH") => conditions.changed = true,
            () => break,
        }
        rest = behind;
    }
    let (places, odd) = rest.as_chunks::<3>();
    if !odd.is_empty() || conditions.absent && conditions.present {
        return Err(SYNTAX.into());
    }
    let mut members = Vec::with_capacity(places.len());
    for [longitude, latitude, member] in places {
        members.push(Scored { member, score: position(longitude, latitude)?.score() });
    }
    if members.is_empty() {
        return Err(SYNTAX.into());
    }
    let done = add(call.space, call.args[1], conditions, &members)?;
    call.reply.int(done.count(&conditions));
    Ok(())
}

pub(super) fn geopos(call: &mut ReadCall<'_>) -> Outcome {
    each_member(call, |reply, position| match position {
        Some(Position { longitude, latitude }) => {
            reply.array(2);
            reply.plain_double(longitude);
            reply.plain_double(latitude);
        }
        None => reply.null_array(),
    })
}

pub(super) fn geohash(call: &mut ReadCall<'_>) -> Outcome {
    each_member(call, |reply, position| {
        reply.bulk_or_null(position.map(Position::letters).as_ref().map(|bytes| &bytes[..]))
    })
}

fn each_member(call: &mut ReadCall<'_>, write: fn(&mut Reply, Option<Position>)) -> Outcome {
    let set = SortedSet::load(call.space, call.args[1])?;
    let members = &call.args[2..];
    call.reply.array(members.len());
    for member in members {
        let found = match &set {
            Some(set) => position_of(call.space, set, member)?,
            None => None,
        };
        write(call.reply, found);
    }
    Ok(())
}

pub(super) fn geodist(call: &mut ReadCall<'_>) -> Outcome {
    let unit = match call.args[4..] {
        [] => Unit(1.0),
        [unit] => parse_unit(unit)?,
        _ => return Err(SYNTAX.into()),
    };
    let Some(set) = SortedSet::load(call.space, call.args[1])? else {
        call.reply.null();
        return Ok(());
    };
    let a = position_of(call.space, &set, call.args[2])?;
    let b = position_of(call.space, &set, call.args[3])?;
    match a.zip(b) {
        Some((a, b)) => write_distance(call.reply, distance(a, b) / unit.0),
        None => call.reply.null(),
    }
    Ok(())
}

/// Where a member is.
pub(super) fn position_of(
    space: &mut dyn ReadSpace,
    set: &SortedSet<'_>,
    member: &[u8],
) -> Result<Option<Position>, Error> {
    Ok(set.score(space, member)?.map(Position::of_score))
}

/// A distance with four digits behind the point, as in Redis.
pub(super) fn write_distance(reply: &mut Reply, distance: f64) {
    let scaled = (distance * 10_000.0).round_ties_even() as i64;
    reply.bulk(format!("{}.{:04}", scaled / 10_000, scaled % 10_000).as_bytes());
}

/// A position in two arguments.
pub(super) fn position(longitude: &[u8], latitude: &[u8]) -> Result<Position, Error> {
    let (longitude, latitude) = (parse_score(longitude)?, parse_score(latitude)?);
    if longitude.abs() > LONGITUDE_MAX || latitude.abs() > LATITUDE_MAX {
        let text = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
        return Err(Error::Reply(text.into()));
    }
    Ok(Position { longitude, latitude })
}

/// A unit of length.
pub(super) fn parse_unit(text: &[u8]) -> Result<Unit, Error> {
    match () {
        () if is_word(text, "M") => Ok(Unit(1.0)),
        () if is_word(text, "KM") => Ok(Unit(1000.0)),
        () if is_word(text, "FT") => Ok(Unit(0.3048)),
        () if is_word(text, "MI") => Ok(Unit(1609.34)),
        () => Err("ERR unsupported unit provided. please use M, KM, FT, MI".into()),
    }
}
