//! Values of every type and packing.

use crate::format::{VERSION_VALKEY, has_type, value as ty};
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
    if let Some(mut elements) = Elements::begin(reader, of)? {
        return elements.next(reader, usize::MAX);
    }
    Ok(match of {
        ty::STRING => Value::String(reader.string()?),
        ty::STREAM_1 | ty::STREAM_2 | ty::STREAM_3 | ty::STREAM_4 | ty::STREAM_5 => {
            Value::Stream(Box::new(stream::read(reader, of)?))
        }
        ty::MODULE => skip_module(reader)?,
        _ => packed_value(reader, of)?,
    })
}

/// The value of a type that is none of elements that stand one after the other. None for a string or a stream that takes more than the
/// budget has, which is passed over.
pub(crate) fn read_value_that_fits<R: Read>(reader: &mut Reader<R>, of: u8) -> Result<Option<Value>, Error> {
    Ok(match of {
        ty::STRING => reader.string_that_fits()?.map(Value::String),
        ty::STREAM_1 | ty::STREAM_2 | ty::STREAM_3 | ty::STREAM_4 | ty::STREAM_5 => {
            stream::read_that_fits(reader, of)?.map(|stream| Value::Stream(Box::new(stream)))
        }
        _ => Some(read_value(reader, of)?),
    })
}

/// The elements of a collection that stand one after the other, some at a time.
pub(crate) struct Elements {
    of: u8,
    /// How many are still to be read.
    left: u64,
    /// What is added to the times of a hash's fields.
    base_ms: u64,
}

impl Elements {
    /// Reads how many there are; `None` for a type whose value is in one piece. A type that the version has not is refused.
    pub(crate) fn begin<R: Read>(reader: &mut Reader<R>, of: u8) -> Result<Option<Self>, Error> {
        if !has_type(reader.version(), of) {
            return Err(Error::Unknown("type", of.into()));
        }
        let is_in_elements = matches!(
            of,
            ty::LIST
                | ty::SET
                | ty::HASH
                | ty::SORTED_SET
                | ty::SORTED_SET_TEXTS
                | ty::LIST_OF_ZIPLISTS
                | ty::LIST_OF_LISTPACKS
                | ty::HASH_TTLS
                | ty::HASH_TTLS_EARLY
        );
        if !is_in_elements {
            return Ok(None);
        }
        // Times are told as their distance from the first, and one more, so that 0 is none.
        let base_ms = if of == ty::HASH_TTLS { reader.time_ms()?.saturating_sub(1) } else { 0 };
        Ok(Some(Self { of, left: reader.length()?, base_ms }))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Reads the next ones: no more than those with which the value has taken `bytes_soft` bytes of the budget.
    pub(crate) fn next<R: Read>(&mut self, reader: &mut Reader<R>, bytes_soft: usize) -> Result<Value, Error> {
        let mut value = match self.of {
            ty::LIST | ty::LIST_OF_ZIPLISTS | ty::LIST_OF_LISTPACKS => Value::List(Vec::new()),
            ty::SET => Value::Set(Vec::new()),
            ty::SORTED_SET | ty::SORTED_SET_TEXTS => Value::SortedSet(Vec::new()),
            _ => Value::Hash(Vec::new()),
        };
        while self.left > 0 && reader.budget().spent() < bytes_soft {
            match &mut value {
                Value::List(elements) if self.of != ty::LIST => elements.extend(piece_of_list(reader, self.of)?),
                Value::List(strings) | Value::Set(strings) => strings.push(reader.string()?),
                Value::SortedSet(members) => members.push(self.member(reader)?),
                Value::Hash(fields) => fields.push(self.field(reader)?),
                Value::String(_) | Value::Stream(_) | Value::Module(_) => {}
            }
            self.left -= 1;
        }
        Ok(value)
    }

    fn member<R: Read>(&self, reader: &mut Reader<R>) -> Result<(Vec<u8>, f64), Error> {
        let member = reader.string()?;
        let score = if self.of == ty::SORTED_SET {
            checked_score(f64::from_le_bytes(reader.array()?))?
        } else {
            score_text(reader)?
        };
        Ok((member, score))
    }

    fn field<R: Read>(&self, reader: &mut Reader<R>) -> Result<HashField, Error> {
        if self.of == ty::HASH {
            return field(reader, None);
        }
        if self.of == ty::HASH_TTLS_EARLY && reader.version() >= VERSION_VALKEY {
            let field = field(reader, None)?;
            let expire_at_ms = u64::try_from(i64::from_le_bytes(reader.array()?)).ok();
            return Ok(HashField { expire_at_ms, ..field });
        }
        let ttl = reader.length()?;
        field(reader, (ttl != 0).then(|| self.base_ms.saturating_add(ttl)))
    }
}

fn field<R: Read>(reader: &mut Reader<R>, expire_at_ms: Option<u64>) -> Result<HashField, Error> {
    Ok(HashField { name: reader.string()?, value: reader.string()?, expire_at_ms })
}

/// The elements of one piece of a list.
fn piece_of_list<R: Read>(reader: &mut Reader<R>, of: u8) -> Result<Vec<Vec<u8>>, Error> {
    const ONE_ELEMENT: u64 = 1;
    const PACKED: u64 = 2;
    let container = if of == ty::LIST_OF_LISTPACKS { reader.length()? } else { PACKED };
    let piece = reader.string()?;
    match container {
        ONE_ELEMENT => Ok(vec![piece]),
        PACKED if of == ty::LIST_OF_LISTPACKS => listpack::strings(&piece, reader.budget()),
        PACKED => ziplist::strings(&piece, reader.budget()),
        _ => Err(Error::Unknown("container of a list", container)),
    }
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

/// The name of a module's type, nine characters above ten bits for its version.
pub(crate) fn module_name(id: u64) -> String {
    characters(id >> 10, 9)
}

/// So many characters of six bits each, the last one in the lowest.
fn characters(bits: u64, count: u32) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..count).rev().map(|n| char::from(ALPHABET[(bits >> (6 * n) & 63) as usize])).collect()
}

/// What modules have written of a key besides its value, which was skipped.
pub(crate) struct KeyMeta {
    /// Who has.
    pub(crate) names: String,
    /// A server without those modules takes the key without it.
    pub(crate) is_optional: bool,
}

/// Skips what modules have written of the key that follows.
pub(crate) fn skip_key_meta<R: Read>(reader: &mut Reader<R>) -> Result<KeyMeta, Error> {
    const MODULES_MAX: u64 = 7;
    const OPTIONAL: u32 = 1;
    let count = reader.length()?;
    if count > MODULES_MAX {
        return Err(Error::Corrupt("number of modules"));
    }
    let (mut names, mut is_optional) = (Vec::new(), true);
    for _ in 0..count {
        // A name of four characters above five bits for its version and three for what may be done without it.
        let class = u32::from_le_bytes(reader.array()?);
        names.push(format!("META-{}", characters((class >> 8).into(), 4)));
        is_optional &= class & OPTIONAL != 0;
        reader.skip_module_parts()?;
    }
    Ok(KeyMeta { names: names.join(", "), is_optional })
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
