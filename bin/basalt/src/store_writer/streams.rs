//! Streams on their way into a store: entry after entry, then what is known of the stream, then its groups.
//!
//! Each request may be made twice: what it would make a second time is there already, and it says so.

use crate::moment::Item;
use client::{Client, StoreUrl, Value};
use rdb::StreamId;

/// The group that makes a stream without entries, for a moment.
const MAKER: &[u8] = b"basalt-restore";

/// Writes streams, one request at a time.
pub(super) struct StreamWriter {
    client: Client,
}

impl StreamWriter {
    pub(super) fn open(node: &StoreUrl) -> Result<Self, String> {
        Ok(Self { client: Client::open(node).map_err(|e| e.to_string())? })
    }

    /// Writes these items of a stream. The first ones replace what was at the key.
    pub(super) fn append(&mut self, key: &[u8], is_first: bool, items: &[Item]) -> Result<(), String> {
        if is_first {
            self.call(&[b"DEL", key])?;
        }
        items.iter().try_for_each(|item| self.write(key, item))
    }

    fn write(&mut self, key: &[u8], item: &Item) -> Result<(), String> {
        let item: Vec<&[u8]> = item.iter().map(Vec::as_slice).collect();
        match item[..] {
            [b"E", id, ref strings @ ..] => {
                let args = [&[b"XADD", key, id], strings].concat();
                // It was added when its answer was lost.
                self.call_unless(&args, "is equal or smaller than the target stream top item")
            }
            [b"S", last, max_deleted, added] => {
                // A stream that has no entries yet is made by a group that it does not keep.
                self.call_unless(&[b"XGROUP", b"CREATE", key, MAKER, b"0", b"MKSTREAM"], "BUSYGROUP")?;
                self.call(&[b"XGROUP", b"DESTROY", key, MAKER])?;
                // Redis 7.0 lets XSETID go back behind entries that were deleted. Where the next ones come matters more than what is told of those.
                let max_deleted = if StreamId::parse(last) < StreamId::parse(max_deleted) { last } else { max_deleted };
                self.call(&[b"XSETID", key, last, b"ENTRIESADDED", added, b"MAXDELETEDID", max_deleted])
            }
            [b"G", name, last, read] => {
                self.call_unless(&[b"XGROUP", b"CREATE", key, name, last, b"ENTRIESREAD", read], "BUSYGROUP")
            }
            [b"C", group, name, ..] => self.call(&[b"XGROUP", b"CREATECONSUMER", key, group, name]),
            [b"P", group, consumer, id, delivered, deliveries] => self.call(&[
                b"XCLAIM",
                key,
                group,
                consumer,
                b"0",
                id,
                b"TIME",
                delivered,
                b"RETRYCOUNT",
                deliveries,
                b"FORCE",
                b"JUSTID",
            ]),
            [b"N", group, id, deliveries] => {
                self.call(&[b"XNACK", key, group, b"SILENT", b"IDS", b"1", id, b"RETRYCOUNT", deliveries, b"FORCE"])
            }
            _ => Err(format!("the stream {} has an item of an unknown kind", key.escape_ascii())),
        }
    }

    fn call(&mut self, args: &[&[u8]]) -> Result<(), String> {
        self.call_unless(args, "\0")
    }

    /// Makes a request; an error with these words means that it was made before.
    fn call_unless(&mut self, args: &[&[u8]], words: &str) -> Result<(), String> {
        match self.client.call_repeatable(args) {
            Ok(Value::Error(text)) if !text.contains(words) => Err(format!("the store refuses a row: {text}")),
            Ok(_) => Ok(()),
            Err(e) if e.to_string().contains(words) => Ok(()),
            Err(e) => Err(e.to_string()),
        }
    }
}
