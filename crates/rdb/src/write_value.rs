//! Values as Redis 7.0 reads them.

use crate::format::value as ty;
use crate::writer::{put_length, put_score, put_string};
use crate::{HashField, Value, stream};

/// Appends what stands before the fields of a hash some of which expire: the time from which theirs are told, and how many
/// fields there are.
pub fn field_ttls_head(out: &mut Vec<u8>, first_expire_at_ms: u64, fields: u64) {
    out.extend_from_slice(&first_expire_at_ms.to_le_bytes());
    put_length(out, fields);
}

/// What is written of a field's expiry, a length: 0 for a field that does not expire.
pub fn field_ttl(first_expire_at_ms: u64, expire_at_ms: Option<u64>) -> u64 {
    expire_at_ms.map_or(0, |at| at.saturating_sub(first_expire_at_ms).saturating_add(1))
}

/// Appends a field of such a hash: what is written of its expiry ([`field_ttl`]), its name and its value.
pub fn put_hash_field(out: &mut Vec<u8>, ttl: u64, name: &[u8], value: &[u8]) {
    put_length(out, ttl);
    put_string(out, name);
    put_string(out, value);
}

/// When the first field of a hash expires.
fn first_expiry(fields: &[HashField]) -> Option<u64> {
    fields.iter().filter_map(|field| field.expire_at_ms).min()
}

/// The number of the type that a value is written as; `None` for a module's, which is not written.
pub fn value_type(value: &Value) -> Option<u8> {
    Some(match value {
        Value::String(_) => ty::STRING,
        Value::List(_) => ty::LIST,
        Value::Set(_) => ty::SET,
        Value::SortedSet(_) => ty::SORTED_SET,
        Value::Hash(fields) if first_expiry(fields).is_some() => ty::HASH_TTLS,
        Value::Hash(_) => ty::HASH,
        Value::Stream(_) => ty::STREAM_2,
        Value::Module(_) => return None,
    })
}

/// Appends a value, without its type. Of a module's value nothing is written.
pub fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::String(string) => put_string(out, string),
        Value::List(strings) | Value::Set(strings) => {
            put_length(out, strings.len() as u64);
            strings.iter().for_each(|string| put_string(out, string));
        }
        Value::SortedSet(members) => {
            put_length(out, members.len() as u64);
            for (member, score) in members {
                put_string(out, member);
                put_score(out, *score);
            }
        }
        Value::Hash(fields) => match first_expiry(fields) {
            Some(first) => {
                field_ttls_head(out, first, fields.len() as u64);
                for field in fields {
                    put_hash_field(out, field_ttl(first, field.expire_at_ms), &field.name, &field.value);
                }
            }
            None => {
                put_length(out, fields.len() as u64);
                for field in fields {
                    put_string(out, &field.name);
                    put_string(out, &field.value);
                }
            }
        },
        Value::Stream(stream) => stream::write(out, stream),
        Value::Module(_) => {}
    }
}
