//! The names of events, as Redis has them, and the messages that tell them.

use super::classes::EventClass;
use EventClass::{Evicted, Expired, Generic, Hash, KeyMiss, List, New, Set, SortedSet, Stream, String};
use cluster::Databases;
use vocab::{Namespace, client_key};

/// What has happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its class.
    pub class: EventClass,
    /// Its name.
    pub name: &'static str,
}

const fn of(class: EventClass, name: &'static str) -> Event {
    Event { class, name }
}

#[expect(missing_docs, reason = "the names are Redis's")]
impl Event {
    pub const DEL: Self = of(Generic, "del");
    pub const RENAME_FROM: Self = of(Generic, "rename_from");
    pub const RENAME_TO: Self = of(Generic, "rename_to");
    pub const COPY_TO: Self = of(Generic, "copy_to");
    pub const MOVE_FROM: Self = of(Generic, "move_from");
    pub const MOVE_TO: Self = of(Generic, "move_to");
    pub const RESTORE: Self = of(Generic, "restore");
    pub const EXPIRE: Self = of(Generic, "expire");
    pub const PERSIST: Self = of(Generic, "persist");
    pub const EXPIRED: Self = of(Expired, "expired");
    pub const EVICTED: Self = of(Evicted, "evicted");
    pub const NEW: Self = of(New, "new");
    pub const KEYMISS: Self = of(KeyMiss, "keymiss");
    pub const SET: Self = of(String, "set");
    pub const SETRANGE: Self = of(String, "setrange");
    pub const APPEND: Self = of(String, "append");
    pub const INCRBY: Self = of(String, "incrby");
    pub const INCRBYFLOAT: Self = of(String, "incrbyfloat");
    pub const SETBIT: Self = of(String, "setbit");
    pub const PFADD: Self = of(String, "pfadd");
    pub const HSET: Self = of(Hash, "hset");
    pub const HDEL: Self = of(Hash, "hdel");
    pub const HEXPIRE: Self = of(Hash, "hexpire");
    pub const HPERSIST: Self = of(Hash, "hpersist");
    pub const HEXPIRED: Self = of(Hash, "hexpired");
    pub const HINCRBY: Self = of(Hash, "hincrby");
    pub const HINCRBYFLOAT: Self = of(Hash, "hincrbyfloat");
    pub const LPUSH: Self = of(List, "lpush");
    pub const RPUSH: Self = of(List, "rpush");
    pub const LPOP: Self = of(List, "lpop");
    pub const RPOP: Self = of(List, "rpop");
    pub const LINSERT: Self = of(List, "linsert");
    pub const LSET: Self = of(List, "lset");
    pub const LTRIM: Self = of(List, "ltrim");
    pub const LREM: Self = of(List, "lrem");
    pub const SORTSTORE: Self = of(List, "sortstore");
    pub const SADD: Self = of(Set, "sadd");
    pub const SREM: Self = of(Set, "srem");
    pub const SPOP: Self = of(Set, "spop");
    pub const SINTERSTORE: Self = of(Set, "sinterstore");
    pub const SUNIONSTORE: Self = of(Set, "sunionstore");
    pub const SDIFFSTORE: Self = of(Set, "sdiffstore");
    pub const ZADD: Self = of(SortedSet, "zadd");
    pub const ZINCR: Self = of(SortedSet, "zincr");
    pub const ZREM: Self = of(SortedSet, "zrem");
    pub const ZREMRANGEBYRANK: Self = of(SortedSet, "zremrangebyrank");
    pub const ZREMRANGEBYSCORE: Self = of(SortedSet, "zremrangebyscore");
    pub const ZREMRANGEBYLEX: Self = of(SortedSet, "zremrangebylex");
    pub const ZPOPMIN: Self = of(SortedSet, "zpopmin");
    pub const ZPOPMAX: Self = of(SortedSet, "zpopmax");
    pub const ZUNIONSTORE: Self = of(SortedSet, "zunionstore");
    pub const ZINTERSTORE: Self = of(SortedSet, "zinterstore");
    pub const ZDIFFSTORE: Self = of(SortedSet, "zdiffstore");
    pub const ZRANGESTORE: Self = of(SortedSet, "zrangestore");
    pub const GEOSEARCHSTORE: Self = of(SortedSet, "geosearchstore");
    pub const GEORADIUSSTORE: Self = of(SortedSet, "georadiusstore");
    pub const XADD: Self = of(Stream, "xadd");
    pub const XDEL: Self = of(Stream, "xdel");
    pub const XTRIM: Self = of(Stream, "xtrim");
    pub const XSETID: Self = of(Stream, "xsetid");
    pub const XGROUP_CREATE: Self = of(Stream, "xgroup-create");
    pub const XGROUP_SETID: Self = of(Stream, "xgroup-setid");
    pub const XGROUP_DESTROY: Self = of(Stream, "xgroup-destroy");
    pub const XGROUP_CREATECONSUMER: Self = of(Stream, "xgroup-createconsumer");
    pub const XGROUP_DELCONSUMER: Self = of(Stream, "xgroup-delconsumer");
}

/// An event of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceEvent {
    /// What has happened.
    pub event: Event,
    /// To which key.
    pub key: Vec<u8>,
}

impl KeyspaceEvent {
    /// What it takes of memory, about, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        64 + self.key.len()
    }

    /// The channel of the key, on which the name of the event is the message. `database` is the number of its database.
    #[must_use]
    pub fn channel_of_key(&self, database: u16) -> Vec<u8> {
        let mut channel = format!("__keyspace@{database}__:").into_bytes();
        channel.extend_from_slice(self.shown_key());
        channel
    }

    /// The channel of the event, on which the key is the message.
    #[must_use]
    pub fn channel_of_event(&self, database: u16) -> Vec<u8> {
        format!("__keyevent@{database}__:{}", self.event.name).into_bytes()
    }

    /// The key, as its clients name it.
    #[must_use]
    pub fn shown_key(&self) -> &[u8] {
        client_key(&self.key)
    }

    /// The number of its database; 0 for a key that is no database's.
    #[must_use]
    pub fn database(&self, databases: &Databases) -> u16 {
        match Namespace::of_key(&self.key) {
            Some(Namespace::Database(place)) => databases.database_at(place).number(),
            Some(Namespace::Cluster(database)) => database.number(),
            None => 0,
        }
    }
}
