//! What backups and exports ask of a node.

use client::{Client, StoreUrl, Value};
use std::time::Duration;
use vocab::limits::EVENT_BYTES_MAX;

const CONNECT_WITHIN: Duration = Duration::from_secs(3);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The answer of the node that leads what is asked for, or else of the one that is connected; an error reply is an error.
pub(crate) fn said(client: &mut Client, request: &[&[u8]]) -> Result<Value, String> {
    match client.call_once(request) {
        Ok(Value::Error(text)) => Err(format!("{} answers: {text}", client.address())),
        Ok(answer) => Ok(answer),
        Err(e) => Err(format!("{}: {e}", client.address())),
    }
}

/// Has the store remember it, among its events. What was done is done whether or not that can be noted.
pub(crate) fn note(node: &StoreUrl, kind: &str, text: &str) {
    let end = (0..=text.len().min(EVENT_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let request: [&[u8]; 4] = [b"KV.ADMIN", b"NOTE", kind.as_bytes(), &text.as_bytes()[..end]];
    if let Err(e) = connect(node).and_then(|mut client| said(&mut client, &request)) {
        bench::note!("basalt ctl: the store's events do not have this: {e}");
    }
}

/// The number in the answer to CONFIG GET of one setting.
pub(crate) fn number_of_setting(answer: &Value) -> Option<u64> {
    text_of_setting(answer)?.parse().ok()
}

/// The same as a text.
pub(crate) fn text_of_setting(answer: &Value) -> Option<String> {
    let text = match answer {
        Value::Array(found) => found.get(1)?.as_bytes(),
        Value::Map(found) => found.first()?.1.as_bytes(),
        _ => None,
    };
    String::from_utf8(text?.to_vec()).ok()
}

pub(crate) fn connect(node: &StoreUrl) -> Result<Client, String> {
    Client::open_within(node, CONNECT_WITHIN, ANSWER_WITHIN)
        .map_err(|e| format!("{e}; --node names another node of the store"))
}
