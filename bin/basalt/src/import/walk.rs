//! Walks through the keys of a store that may be those of a source.

use super::scope::Destination;
use client::{Client, Value as Answer};
use vocab::Namespace;

/// A walk through the keys of one kind, a page at a time.
pub(super) struct KeyWalk {
    of: Destination,
    /// Of which type they are; none for any.
    of_type: Option<&'static str>,
    /// None at the end.
    cursor: Option<Vec<u8>>,
}

impl KeyWalk {
    pub(super) fn new(of: Destination, of_type: Option<&'static str>) -> Self {
        Self { of, of_type, cursor: Some(b"0".to_vec()) }
    }

    /// The next keys, by the names that are stored; `None` at the end.
    pub(super) fn next(&mut self, store: &mut Client) -> Result<Option<Vec<Vec<u8>>>, String> {
        let Some(cursor) = self.cursor.take() else { return Ok(None) };
        let of_type = self.of_type.into_iter().flat_map(|name| [b"TYPE".to_vec(), name.as_bytes().to_vec()]);
        let which: Vec<Vec<u8>> = of_type.chain(self.of.walked()).collect();
        let head: [&[u8]; 4] = [b"SCAN", &cursor, b"COUNT", b"500"];
        let asked: Vec<&[u8]> = head.into_iter().chain(which.iter().map(Vec::as_slice)).collect();
        let (next, keys) = page_of(ask(store, &asked)?)?;
        self.cursor = (next != b"0").then_some(next);
        let stored = |key: Vec<u8>| if Namespace::of_key(&key).is_some() { key } else { self.of.stored(&key) };
        Ok(Some(keys.into_iter().map(stored).collect()))
    }
}

/// What the store answers to a question.
pub(super) fn ask(store: &mut Client, words: &[&[u8]]) -> Result<Answer, String> {
    match store.call_repeatable(words).map_err(|e| format!("the store: {e}"))? {
        Answer::Error(text) => Err(format!("the store: {text}")),
        answer => Ok(answer),
    }
}

/// The cursor behind a page, and what is on it.
pub(super) fn page_of(answer: Answer) -> Result<(Vec<u8>, Vec<Vec<u8>>), String> {
    if let Answer::Array(parts) = answer
        && let Ok([Answer::Bulk(next), Answer::Array(items)]) = <[Answer; 2]>::try_from(parts)
    {
        let bytes = items.into_iter().filter_map(|item| if let Answer::Bulk(item) = item { Some(item) } else { None });
        return Ok((next, bytes.collect()));
    }
    Err("the store answers no page of keys".to_owned())
}
