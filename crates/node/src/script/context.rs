//! What an entry tells of a script beside the words of its client: the last argument of EVAL and FCALL in an entry.
//!
//! ```text
//! u8 version (1 to 7; 0x80 is added if there is a user), varint slot, varint instructions, varint bytes, varint 0 or 1 + the
//! number of a database, or 16385 + the number of a cluster database (0 if the script may choose another one); from version 3 on varint
//! databases and varint count of exchanged ones, each: varint number, varint place; of a user, bytes its name and bytes its rules without passwords; if it may touch keys of several slots, varint first and varint last of these
//! ```
//!
//! The version is that of the engine by which all replicas evaluate the script. Without a user it is of one without restrictions.
//! Every replica decides by the rules in the entry, whatever it knows of users.

use super::databases::ScriptDatabases;
use crate::acl::User;
use crate::redis_version::{REDIS_VERSION, REDIS_VERSION_BEFORE};
use mlua::Lua;
use std::sync::Arc;
use vocab::limits::USER_NAME_BYTES_MAX;
use vocab::{ClusterDatabase, Database, Namespace, Reader, SLOT_COUNT, Slot, SlotSpan, put_bytes, put_varint};

/// By which rules a script is evaluated: replicas of two releases come to the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineVersion {
    /// A command counts for no instructions.
    First = 1,
    /// A command counts for instructions, and so does what a script holds and builds.
    Second = 2,
    /// Scripts see the version of Redis that clients see, and what has come to commands since: XREAD's `+`. They choose databases as
    /// clients do, after SWAPDB too, and MOVE and COPY to others.
    Third = 3,
    /// Values that functions in Rust read and make count for instructions, and what is built counts for four times as many.
    Fourth = 4,
    /// Steps of patterns, failures that are caught, coroutines and texts that are made of others count for what they take.
    Fifth = 5,
    /// So do comparisons of a sort, steps along tables that stand for each other, calls that are looked for on the stack, and powers; and numbers
    /// that C would cut down to 32 bits are refused where they say how much is to be moved.
    Sixth = 6,
    /// So does all else that takes time or memory: calls of C by C, lengths, chains of a hash table, what is passed to commands and answered;
    /// and nothing that a script does is seen by another one.
    Seventh = 7,
}

impl EngineVersion {
    /// The newest that this program evaluates.
    pub const NEWEST: Self = Self::Seventh;

    /// All that this program evaluates, from the first on.
    pub const ALL: [Self; 7] =
        [Self::First, Self::Second, Self::Third, Self::Fourth, Self::Fifth, Self::Sixth, Self::Seventh];

    /// The version of that number, if this program evaluates it.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.number() == number)
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// That by which a state evaluates.
    pub(super) fn of_state(lua: &Lua) -> Self {
        lua.app_data_ref::<Self>().map_or(Self::NEWEST, |version| *version)
    }

    /// The version of Redis that scripts see.
    pub(super) fn redis_version(self) -> &'static str {
        if self < Self::Third { REDIS_VERSION_BEFORE } else { REDIS_VERSION }
    }
}

/// What database 0 of a cluster's client stands as, where its script may choose another one: behind all databases.
const CLUSTER_DATABASE_0: u64 = 1 + SLOT_COUNT as u64;
/// What the argument of a script takes that has no user, where no databases were exchanged.
const CONTEXT_BYTES_LIKELY: usize = 32;
/// Added to the version: there is a user.
const WITH_USER: u8 = 0x80;

/// The slot of a script's keys, and its budgets: the same on every replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptContext {
    /// What evaluates it.
    pub engine: EngineVersion,
    /// The slot of its keys, declared or not; or of the first of them.
    pub slot: Slot,
    /// Where the keys are that it may touch, if they may be of several slots.
    pub wider: Option<SlotSpan>,
    /// The namespace that it runs in, if its client has one: its keys have the names that such clients use.
    pub namespace: Option<Namespace>,
    /// Whether it may choose other databases. Where it has a namespace, it may.
    pub chooses: bool,
    /// Among which it may choose; before the third engine, among all that there could be.
    pub databases: ScriptDatabases,
    /// Instructions of Lua that it may run.
    pub instructions_max: u64,
    /// Bytes that its Lua state may hold.
    pub memory_bytes_max: u64,
    /// As whom it runs; none: it may run every command.
    pub user: Option<Arc<User>>,
}

impl ScriptContext {
    /// The number of its client's database, as clients use it.
    pub(super) fn database_number(&self) -> u16 {
        self.namespace.map_or(0, |namespace| self.databases.number_of(namespace))
    }

    /// The argument.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let of_user = if self.user.is_some() { WITH_USER } else { 0 };
        let mut bytes = Vec::with_capacity(CONTEXT_BYTES_LIKELY);
        bytes.push(self.engine.number() | of_user);
        put_varint(&mut bytes, u64::from(self.slot.0));
        put_varint(&mut bytes, self.instructions_max);
        put_varint(&mut bytes, self.memory_bytes_max);
        put_varint(
            &mut bytes,
            match self.namespace {
                Some(namespace) => number_of(namespace),
                None if self.chooses => CLUSTER_DATABASE_0,
                None => 0,
            },
        );
        if self.engine >= EngineVersion::Third {
            self.databases.encode(&mut bytes);
        }
        if let Some(user) = &self.user {
            put_bytes(&mut bytes, user.name().as_bytes());
            put_bytes(&mut bytes, &user.rights());
        }
        if let Some(span) = self.wider {
            put_varint(&mut bytes, u64::from(span.first().0));
            put_varint(&mut bytes, u64::from(span.last().0));
        }
        bytes
    }

    /// Reads it; none if it is something else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let version = reader.u8().ok()?;
        let engine = EngineVersion::of_number(version & !WITH_USER)?;
        let slot = Slot(reader.number().ok()?);
        let (instructions_max, memory_bytes_max) = (reader.varint().ok()?, reader.varint().ok()?);
        let (namespace, chooses) = match reader.varint().ok()? {
            0 => (None, false),
            CLUSTER_DATABASE_0 => (None, true),
            number => (Some(namespace_of(number)?), true),
        };
        let databases = match engine {
            EngineVersion::First | EngineVersion::Second => ScriptDatabases::default(),
            _ => ScriptDatabases::decode(&mut reader)?,
        };
        let user = match version & WITH_USER {
            0 => None,
            _ => Some(Arc::new(read_user(&mut reader)?)),
        };
        let wider = match reader.is_empty() {
            true => None,
            false => {
                let (first, last) = (reader.number().ok()?, reader.number().ok()?);
                Some((first <= last).then(|| SlotSpan::between(first, last))?)
            }
        };
        reader.end().ok()?;
        Some(Self { engine, slot, wider, namespace, chooses, databases, instructions_max, memory_bytes_max, user })
    }
}

/// What stands for a namespace in the argument.
fn number_of(namespace: Namespace) -> u64 {
    match namespace {
        Namespace::Database(database) => 1 + u64::from(database.number()),
        Namespace::Cluster(database) => CLUSTER_DATABASE_0 + u64::from(database.number()),
    }
}

fn namespace_of(number: u64) -> Option<Namespace> {
    match number.checked_sub(CLUSTER_DATABASE_0) {
        Some(number) => ClusterDatabase::of_number(number).map(Namespace::Cluster),
        None => Database::of_number(number.checked_sub(1)?).map(Namespace::Database),
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
        let database = |number| Database::of_number(number).expect("a database");
        let context = ScriptContext {
            engine: EngineVersion::NEWEST,
            slot: Slot(16_383),
            wider: None,
            namespace: Database::of_number(3).map(Namespace::Database),
            chooses: true,
            databases: ScriptDatabases {
                count: 16,
                exchanged: vec![(database(1), database(4)), (database(4), database(1))],
            },
            instructions_max: 400_000_000,
            memory_bytes_max: 1 << 26,
            user: None,
        };
        let of_cluster = ClusterDatabase::of_number(929).map(Namespace::Cluster);
        let in_cluster = ScriptContext { namespace: of_cluster, ..context.clone() };
        assert_eq!(ScriptContext::decode(&in_cluster.encode()), Some(in_cluster));
        let plain = ScriptContext { namespace: None, ..context.clone() };
        assert_eq!(ScriptContext::decode(&plain.encode()), Some(plain));
        let plain = ScriptContext { namespace: None, chooses: false, ..context.clone() };
        assert_eq!(ScriptContext::decode(&plain.encode()), Some(plain));
        let none = ScriptDatabases::default();
        let first = ScriptContext { engine: EngineVersion::First, databases: none, ..context.clone() };
        assert_eq!(first.encode()[0], 1);
        assert_eq!(ScriptContext::decode(&first.encode()), Some(first));
        let wide = ScriptContext { wider: Some(SlotSpan::between(5, 16_383)), ..context.clone() };
        assert_eq!(ScriptContext::decode(&wide.encode()), Some(wide));
        let user = User::of_rules("u", b"resetchannels ~a* -@all +get").expect("rules");
        let of_user = ScriptContext { user: Some(Arc::new(user)), ..context.clone() };
        let wide_of_user = ScriptContext { wider: Some(SlotSpan::between(5, 16_383)), ..of_user.clone() };
        for context in [of_user, wide_of_user] {
            assert_eq!(ScriptContext::decode(&context.encode()), Some(context));
        }
        let bytes = context.encode();
        assert_eq!(ScriptContext::decode(&bytes), Some(context));
        for cut in 0..bytes.len() {
            assert_eq!(ScriptContext::decode(&bytes[..cut]), None);
        }
        assert_eq!(ScriptContext::decode(b"2 keys"), None);
        let newer = EngineVersion::NEWEST.number() + 1;
        assert_eq!(ScriptContext::decode(&[&[newer], &bytes[1..]].concat()), None);
        assert_eq!(ScriptContext::decode(&[&bytes[..], b"x"].concat()), None);
    }
}
