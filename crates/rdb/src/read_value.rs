//! Values of every type and packing.

use crate::format::{VERSION_VALKEY, value as ty};
use crate::packed::{intset, listpack, ziplist, zipmap};
use crate::reader::Reader;
use crate::{Error, HashField, Value, stream};
use std::io::Read;

/// A score as a text.
fn score_text<R: Read>(reader: &mut Reader<R>) -> Result<f64, Error> {
    match reader.byte()? {
        253 => Err(Error::Corrupt("score that is not a number")),
        254 => Ok(f64::INFINITY),
        255 => Ok(f64::NEG_INFINITY),
        bytes => score_of(&reader.bytes(bytes.into())?),
    }
}

/// The value of a type.
pub(crate) fn read_value<R: Read>(reader: &mut Reader<R>, of: u8) -> Result<Value, Error> {
    Ok(match of {
        ty::STRING => Value::String(reader.string()?),
        ty::LIST => Value::List(strings(reader)?),
        ty::SET => Value::Set(strings(reader)?),
        ty::HASH => {
            let count = reader.length()?;
            Value::Hash((0..count).map(|_| field(reader, None)).collect::<Result<_, _>>()?)
        }
        ty::SORTED_SET | ty::SORTED_SET_TEXTS => {
            let count = reader.length()?;
            let scored = (0..count).map(|_| {
                let member = reader.string()?;
                let score = if of == ty::SORTED_SET {
                    checked_score(f64::from_le_bytes(reader.array()?))?
                } else {
                    score_text(reader)?
                };
                Ok::<_, Error>((member, score))
            });
            Value::SortedSet(scored.collect::<Result<_, _>>()?)
        }
        ty::LIST_OF_ZIPLISTS | ty::LIST_OF_LISTPACKS => list_of_lists(reader, of)?,
        ty::STREAM_1 | ty::STREAM_2 | ty::STREAM_3 => Value::Stream(Box::new(stream::read(reader, of)?)),
        ty::HASH_TTLS | ty::HASH_TTLS_EARLY => hash_with_ttls(reader, of)?,
        ty::MODULE => skip_module(reader)?,
        _ => packed_value(reader, of)?,
    })
}

fn strings<R: Read>(reader: &mut Reader<R>) -> Result<Vec<Vec<u8>>, Error> {
    let count = reader.length()?;
    (0..count).map(|_| reader.string()).collect()
}

fn field<R: Read>(reader: &mut Reader<R>, expire_at_ms: Option<u64>) -> Result<HashField, Error> {
    Ok(HashField { name: reader.string()?, value: reader.string()?, expire_at_ms })
}

/// A list in pieces of several elements each.
fn list_of_lists<R: Read>(reader: &mut Reader<R>, of: u8) -> Result<Value, Error> {
    const ONE_ELEMENT: u64 = 1;
    const PACKED: u64 = 2;
    let mut elements = Vec::new();
    for _ in 0..reader.length()? {
        let container = if of == ty::LIST_OF_LISTPACKS { reader.length()? } else { PACKED };
        let piece = reader.string()?;
        match container {
            ONE_ELEMENT => elements.push(piece),
            PACKED if of == ty::LIST_OF_LISTPACKS => elements.extend(listpack::strings(&piece, reader.budget())?),
            PACKED => elements.extend(ziplist::strings(&piece, reader.budget())?),
            _ => return Err(Error::Unknown("container of a list", container)),
        }
    }
    Ok(Value::List(elements))
}

fn hash_with_ttls<R: Read>(reader: &mut Reader<R>, of: u8) -> Result<Value, Error> {
    if of == ty::HASH_TTLS_EARLY && reader.version() >= VERSION_VALKEY {
        let count = reader.length()?;
        let fields = (0..count).map(|_| {
            let field = field(reader, None)?;
            let expire_at_ms = u64::try_from(i64::from_le_bytes(reader.array()?)).ok();
            Ok::<_, Error>(HashField { expire_at_ms, ..field })
        });
        return Ok(Value::Hash(fields.collect::<Result<_, _>>()?));
    }
    // Times are told as their distance from the first, and one more, so that 0 is none.
    let base = if of == ty::HASH_TTLS { reader.time_ms()?.saturating_sub(1) } else { 0 };
    let count = reader.length()?;
    let fields = (0..count).map(|_| {
        let ttl = reader.length()?;
        field(reader, (ttl != 0).then(|| base.saturating_add(ttl)))
    });
    Ok(Value::Hash(fields.collect::<Result<_, _>>()?))
}

/// A value in one piece.
fn packed_value<R: Read>(reader: &mut Reader<R>, of: u8) -> Result<Value, Error> {
    if of == ty::HASH_LISTPACK_TTLS {
        reader.time_ms()?;
    }
    let is_known = matches!(of, ty::HASH_ZIPMAP..=ty::HASH_ZIPLIST)
        || matches!(
            of,
            ty::HASH_LISTPACK
                | ty::SORTED_SET_LISTPACK
                | ty::SET_LISTPACK
                | ty::HASH_LISTPACK_TTLS
                | ty::HASH_LISTPACK_TTLS_EARLY
        );
    if !is_known {
        return Err(Error::Unknown("type", of.into()));
    }
    let packed = reader.string()?;
    let strings = match of {
        ty::HASH_ZIPMAP => zipmap::strings(&packed, reader.budget())?,
        ty::SET_INTSET => intset::strings(&packed, reader.budget())?,
        ty::LIST_ZIPLIST | ty::SORTED_SET_ZIPLIST | ty::HASH_ZIPLIST => ziplist::strings(&packed, reader.budget())?,
        _ => listpack::strings(&packed, reader.budget())?,
    };
    Ok(match of {
        ty::LIST_ZIPLIST => Value::List(strings),
        ty::SET_INTSET | ty::SET_LISTPACK => Value::Set(strings),
        ty::SORTED_SET_ZIPLIST | ty::SORTED_SET_LISTPACK => {
            let scored = groups_of(strings)?.into_iter().map(|[member, score]| Ok((member, score_of(&score)?)));
            Value::SortedSet(scored.collect::<Result<_, Error>>()?)
        }
        ty::HASH_LISTPACK_TTLS | ty::HASH_LISTPACK_TTLS_EARLY => {
            let fields = groups_of(strings)?.into_iter().map(|[name, value, time]| {
                let time = std::str::from_utf8(&time).ok().and_then(|text| text.parse::<u64>().ok());
                let time = time.ok_or(Error::Corrupt("time of a field"))?;
                Ok(HashField { name, value, expire_at_ms: (time != 0).then_some(time) })
            });
            Value::Hash(fields.collect::<Result<_, Error>>()?)
        }
        _ => {
            let field = |[name, value]: [Vec<u8>; 2]| HashField { name, value, expire_at_ms: None };
            Value::Hash(groups_of(strings)?.into_iter().map(field).collect())
        }
    })
}

/// A module's value, which says of each part what it is.
fn skip_module<R: Read>(reader: &mut Reader<R>) -> Result<Value, Error> {
    let id = reader.length()?;
    reader.skip_module_parts()?;
    Ok(Value::Module(module_name(id)))
}

/// The name of a module's type, nine characters of six bits each above ten bits for its version.
pub(crate) fn module_name(id: u64) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..9).rev().map(|n| char::from(ALPHABET[(id >> (10 + 6 * n) & 63) as usize])).collect()
}

fn groups_of<const N: usize>(strings: Vec<Vec<u8>>) -> Result<Vec<[Vec<u8>; N]>, Error> {
    let mut groups = Vec::with_capacity(strings.len() / N);
    let mut strings = strings.into_iter();
    while strings.len() >= N {
        groups.push(std::array::from_fn(|_| strings.next().unwrap_or_default()));
    }
    if strings.len() == 0 { Ok(groups) } else { Err(Error::Corrupt("number of elements")) }
}

/// The score that a text tells.
fn score_of(text: &[u8]) -> Result<f64, Error> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
    checked_score(number.ok_or(Error::Corrupt("score"))?)
}

fn checked_score(score: f64) -> Result<f64, Error> {
    if score.is_nan() { Err(Error::Corrupt("score that is not a number")) } else { Ok(score) }
}
