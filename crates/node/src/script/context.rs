//! What an entry tells of a script beside the words of its client: the last argument of EVAL and FCALL in an entry.
//!
//! ```text
//! u8 version (1 or 2; 0x80 is added if there is a user), varint slot, varint instructions, varint bytes, varint 0 or 1 + the
//! number of a database; of version 2, varint first and varint last slot of the keys that it may touch; of a user, bytes its
//! name and bytes its rules without passwords
//! ```
//! Version 1 is that of a user without restrictions. Every replica decides by the rules in the entry, whatever it knows of users.

use crate::acl::User;
use std::sync::Arc;
use vocab::limits::USER_NAME_BYTES_MAX;
use vocab::{Database, Reader, Slot, SlotSpan, put_bytes, put_varint};

const VERSION: u8 = 1;
const VERSION_WITH_SPAN: u8 = 2;
/// Added to the version: there is a user.
const WITH_USER: u8 = 0x80;

/// The slot of a script's keys, and its budgets: the same on every replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptContext {
    /// The slot of its keys, declared or not; or of the first of them.
    pub slot: Slot,
    /// Where the keys are that it may touch, if they may be of several slots.
    pub wider: Option<SlotSpan>,
    /// The database that it runs in, if its client is one of a database: its keys have the names that such clients use.
    pub database: Option<Database>,
    /// Instructions of Lua that it may run.
    pub instructions_max: u64,
    /// Bytes that its Lua state may hold.
    pub memory_bytes_max: u64,
    /// As whom it runs; none: it may run every command.
    pub user: Option<Arc<User>>,
}

impl ScriptContext {
    /// The argument.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let version = if self.wider.is_some() { VERSION_WITH_SPAN } else { VERSION };
        let mut bytes = vec![if self.user.is_some() { version | WITH_USER } else { version }];
        put_varint(&mut bytes, u64::from(self.slot.0));
        put_varint(&mut bytes, self.instructions_max);
        put_varint(&mut bytes, self.memory_bytes_max);
        put_varint(&mut bytes, self.database.map_or(0, |database| 1 + u64::from(database.number())));
        if let Some(span) = self.wider {
            put_varint(&mut bytes, u64::from(span.first().0));
            put_varint(&mut bytes, u64::from(span.last().0));
        }
        if let Some(user) = &self.user {
            put_bytes(&mut bytes, user.name().as_bytes());
            put_bytes(&mut bytes, &user.rights());
        }
        bytes
    }

    /// Reads it; none if it is something else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let version = reader.u8().ok()?;
        let (of_user, version) = (version & WITH_USER != 0, version & !WITH_USER);
        if version != VERSION && version != VERSION_WITH_SPAN {
            return None;
        }
        let slot = Slot(reader.number().ok()?);
        let (instructions_max, memory_bytes_max) = (reader.varint().ok()?, reader.varint().ok()?);
        let database = match reader.varint().ok()?.checked_sub(1) {
            Some(number) => Some(Database::of_number(number)?),
            None => None,
        };
        let wider = match version {
            VERSION => None,
            _ => {
                let (first, last) = (reader.number().ok()?, reader.number().ok()?);
                (first <= last).then(|| SlotSpan::between(first, last))
            }
        };
        let user = if of_user { Some(Arc::new(read_user(&mut reader)?)) } else { None };
        reader.end().ok()?;
        Some(Self { slot, wider, database, instructions_max, memory_bytes_max, user })
    }
}

/// A user whose rules cannot be read may run nothing.
fn read_user(reader: &mut Reader<'_>) -> Option<User> {
    let name = reader.text(USER_NAME_BYTES_MAX).ok()?;
    let rules = reader.bytes().ok()?;
    Some(User::of_rules(name, rules).unwrap_or_else(|_| User::new(name, false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_read_as_it_was_written_and_nothing_else_is() {
        let context = ScriptContext {
            slot: Slot(16_383),
            wider: None,
            database: Database::of_number(3),
            instructions_max: 400_000_000,
            memory_bytes_max: 1 << 26,
            user: None,
        };
        let plain = ScriptContext { database: None, ..context.clone() };
        assert_eq!(ScriptContext::decode(&plain.encode()), Some(plain));
        let wide = ScriptContext { wider: Some(SlotSpan::between(5, 16_383)), ..context.clone() };
        assert_eq!(ScriptContext::decode(&wide.encode()), Some(wide));
        let user = User::of_rules("u", b"resetchannels ~a* -@all +get").expect("rules");
        let of_user = ScriptContext { user: Some(Arc::new(user)), ..context.clone() };
        assert_eq!(ScriptContext::decode(&of_user.encode()), Some(of_user));
        let bytes = context.encode();
        assert_eq!(ScriptContext::decode(&bytes), Some(context));
        for cut in 0..bytes.len() {
            assert_eq!(ScriptContext::decode(&bytes[..cut]), None);
        }
        assert_eq!(ScriptContext::decode(b"2 keys"), None);
        assert_eq!(ScriptContext::decode(&[&bytes[..], b"x"].concat()), None);
    }
}
