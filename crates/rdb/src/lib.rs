//! Redis's serialisation of values: what DUMP hands out, and what an RDB file holds. Pure: bytes in, values out, and back.
//!
//! | | versions |
//! |-|-|
//! | read | RDB 1 to 14 (Redis 1.2 to 8.8), and 80 and 81 (Valkey 9) |
//! | written | 10 (Redis 7.0); a hash whose fields expire needs 12 (Redis 7.4) |
//!
//! The format has no specification; these modules follow what `rdb.c`, `listpack.c`, `ziplist.c` and `t_stream.c` of Redis and Valkey
//! read and write. Values of modules are skipped, and their keys told. Of streams, the ids that producers have used are left out.

mod budget;
mod dump;
mod effort;
mod error;
mod file;
mod format;
mod in_parts;
mod items;
mod lzf;
mod packed;
mod read_value;
mod reader;
mod stream;
mod value;
mod write_value;
mod writer;

pub use dump::{
    Checksum, FOOTER_BYTES, checked_body, checked_body_before, claimed_string_bytes, put_library, read_dump,
    read_libraries, seal, write_dump, write_libraries,
};
pub use effort::reading_effort;
pub use error::Error;
pub use file::{FileReader, FileWriter, Item, Lifetime};
pub use format::{VERSION, VERSION_FIELD_TTLS, value as types};
pub use in_parts::KeyInParts;
pub use items::{Item as StreamItem, StreamBuilder, items_of};
pub use stream::{Consumer, Group, Pending, Stream, StreamEntry, StreamId};
pub use value::{HashField, Value};
pub use write_value::{field_ttl, field_ttls_head, put_hash_field, put_value, value_type};
pub use writer::{length_bytes, put_length, put_score, put_string, string_bytes};
