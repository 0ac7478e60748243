//! Streams as Redis dumps them, of their items (`command::stream::Export`).

use super::error::{BAD_DATA, TOO_LARGE};
use crate::command::call::Error;
use crate::command::stream::Export;
use crate::{ReadSpace, Record};
use rdb::{StreamBuilder, Value};

/// The stream whose record was read at `key`, of no more than `bytes_max` bytes.
pub(super) fn read(space: &mut dyn ReadSpace, key: &[u8], record: Record, bytes_max: usize) -> Result<Value, Error> {
    let mut export = Export::new(key, record, None);
    let (mut stream, mut bytes) = (StreamBuilder::default(), 0);
    while let Some(items) = export.next(space)? {
        for item in items {
            bytes += item.iter().map(Vec::len).sum::<usize>();
            if bytes > bytes_max {
                return Err(TOO_LARGE.into());
            }
            stream.add(item).ok_or(BAD_DATA)?;
        }
    }
    Ok(Value::Stream(Box::new(stream.into_stream())))
}
