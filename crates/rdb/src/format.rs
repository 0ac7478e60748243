//! The numbers of the format.

/// The version that is written: that of Redis 7.0.
pub const VERSION: u16 = 10;
/// The version that is written where fields of a hash expire: that of Redis 7.4.
pub const VERSION_FIELD_TTLS: u16 = 12;
/// The newest version of Redis that is read: that of 8.8.
pub(crate) const VERSION_MAX: u16 = 14;
/// The version of Redis 8.6, from which on modules may write something before a key, and streams have producers.
pub(crate) const VERSION_KEY_META: u16 = 13;
/// The version of Valkey 9.0, which numbers its own from here.
pub(crate) const VERSION_VALKEY: u16 = 80;
/// The newest version of Valkey that is read: that of 9.2.
pub(crate) const VERSION_VALKEY_MAX: u16 = 81;

/// Whether a version is one that is read.
pub(crate) fn is_known(version: u16) -> bool {
    version <= VERSION_MAX || (VERSION_VALKEY..=VERSION_VALKEY_MAX).contains(&version)
}

/// Whether the version is one of Redis that may have something of modules before a key.
pub(crate) fn has_key_meta(version: u16) -> bool {
    (VERSION_KEY_META..VERSION_VALKEY).contains(&version)
}

/// Whether the number of a type means in that version what it is called here.
pub(crate) fn has_type(version: u16, of: u8) -> bool {
    match of {
        value::STREAM_4 | value::STREAM_5 => has_key_meta(version),
        // Valkey 9.2 gives the first of these to a type of its own.
        value::HASH_LISTPACK_TTLS_EARLY..=value::HASH_LISTPACK_TTLS => version <= VERSION_VALKEY,
        _ => true,
    }
}

/// Types of values.
pub mod value {
    /// A string.
    pub const STRING: u8 = 0;
    /// Elements.
    pub const LIST: u8 = 1;
    /// Members.
    pub const SET: u8 = 2;
    /// Members and scores, which are texts.
    pub const SORTED_SET_TEXTS: u8 = 3;
    /// Names and values.
    pub const HASH: u8 = 4;
    /// Members and scores.
    pub const SORTED_SET: u8 = 5;
    /// What a module wrote.
    pub const MODULE: u8 = 7;
    /// A hash in one string, of Redis before 2.6.
    pub const HASH_ZIPMAP: u8 = 9;
    /// A list in one string.
    pub const LIST_ZIPLIST: u8 = 10;
    /// A set of numbers in one string.
    pub const SET_INTSET: u8 = 11;
    /// A sorted set in one string.
    pub const SORTED_SET_ZIPLIST: u8 = 12;
    /// A hash in one string.
    pub const HASH_ZIPLIST: u8 = 13;
    /// A list in several strings.
    pub const LIST_OF_ZIPLISTS: u8 = 14;
    /// A stream of Redis 5.
    pub const STREAM_1: u8 = 15;
    /// A hash in one string, of Redis 7.
    pub const HASH_LISTPACK: u8 = 16;
    /// A sorted set in one string, of Redis 7.
    pub const SORTED_SET_LISTPACK: u8 = 17;
    /// A list in several strings, of Redis 7.
    pub const LIST_OF_LISTPACKS: u8 = 18;
    /// A stream of Redis 7.0.
    pub const STREAM_2: u8 = 19;
    /// A set in one string, of Redis 7.2.
    pub const SET_LISTPACK: u8 = 20;
    /// A stream of Redis 7.2.
    pub const STREAM_3: u8 = 21;
    /// Of Redis 7.4's candidates, times as they are; in Valkey, a hash with a time behind each field.
    pub const HASH_TTLS_EARLY: u8 = 22;
    /// A hash in one string whose fields expire, of Redis 7.4's candidates.
    pub const HASH_LISTPACK_TTLS_EARLY: u8 = 23;
    /// A hash whose fields expire, of Redis 7.4.
    pub const HASH_TTLS: u8 = 24;
    /// The same in one string.
    pub const HASH_LISTPACK_TTLS: u8 = 25;
    /// A stream of Redis 8.6, with its producers behind the groups.
    pub const STREAM_4: u8 = 26;
    /// A stream of Redis 8.8, with what is pending for no consumer.
    pub const STREAM_5: u8 = 27;
}

/// What stands before a key in a file.
pub(crate) mod operation {
    /// Of Valkey: slots that are being moved. Of Redis: what modules have written of the key that follows.
    pub(crate) const SLOT_IMPORT_OR_KEY_META: u8 = 243;
    pub(crate) const SLOT_INFO: u8 = 244;
    pub(crate) const FUNCTION: u8 = 245;
    pub(crate) const MODULE_AUX: u8 = 247;
    pub(crate) const IDLE: u8 = 248;
    pub(crate) const FREQUENCY: u8 = 249;
    pub(crate) const AUX: u8 = 250;
    pub(crate) const SIZES: u8 = 251;
    pub(crate) const EXPIRE_MS: u8 = 252;
    pub(crate) const EXPIRE_SECONDS: u8 = 253;
    pub(crate) const DATABASE: u8 = 254;
    pub(crate) const END: u8 = 255;
}
