//! LREM and LINSERT of lists that are too long to be searched in an entry, and SORT with STORE: searched and sorted in a
//! snapshot, by a thread that may take its time, then written by one entry or in slices.
//!
//! The result counts if the list has not changed since. If it has, the search begins again, a few times.

use super::copy::{Copying, answer, text_of, until_unchanged};
use super::handlers::{PoolWriter, Takes};
use crate::os::now_ms;
use crate::shared::NodeShared;
use node::Type;
use node::command::{LongEdit, sorted_copy};
use node::session::Durability;
use resp::Reply;
use resp::table;
use std::sync::Arc;
use vocab::limits::SEARCHED_ELEMENTS_MAX;

pub(super) fn handler(name: &str) -> Option<PoolWriter> {
    match name {
        "LREM" | "LINSERT" => Some(edit as PoolWriter),
        "SORT" => Some(sort as PoolWriter),
        _ => None,
    }
}

/// Which requests of the command with that name go to the pool.
pub(super) fn takes(name: &str) -> Option<Takes> {
    match name {
        "LREM" | "LINSERT" => Some(Takes::Larger(Type::List, SEARCHED_ELEMENTS_MAX)),
        "SORT" => Some(Takes::With(&["STORE"])),
        _ => None,
    }
}

fn edit(store: &Arc<NodeShared>, args: &[&[u8]], durability: Durability, reply: &mut Reply) {
    answer(reply, until_unchanged(|| edit_once(store, args, durability)));
}

fn edit_once(store: &Arc<NodeShared>, args: &[&[u8]], durability: Durability) -> Result<Vec<u8>, String> {
    let copying = Copying::begin(store, args, 1, durability)?;
    let view = copying.attempt.handle().clone();
    match LongEdit::of(&view, args, now_ms()).map_err(text_of)? {
        LongEdit::Short => copying.write_plain(),
        LongEdit::Nothing(n) => copying.check_read(store).map(|()| format!(":{n}\r\n").into_bytes()),
        LongEdit::Command(command) => copying.write(store, command),
        LongEdit::Rewrite(source) => copying.make(store, Some(*source)),
    }
}

fn sort(store: &Arc<NodeShared>, args: &[&[u8]], durability: Durability, reply: &mut Reply) {
    answer(reply, sort_once(store, args, durability));
}

fn sort_once(store: &Arc<NodeShared>, args: &[&[u8]], durability: Durability) -> Result<Vec<u8>, String> {
    let keys = table::resolve(args)?.keys(args).map_err(|e| e.to_string())?;
    let copying = Copying::begin(store, args, keys.last().unwrap_or(1), durability)?;
    let view = copying.attempt.handle().clone();
    let source = sorted_copy(&view, args, now_ms()).map_err(text_of)?;
    copying.make(store, source)
}
