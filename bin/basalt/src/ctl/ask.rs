//! Asking a node, and telling why it could not be done.

use crate::moment::number_of_setting;
use bench::output::Reader;
use client::{Client, StoreUrl, Value as Reply};
use node::Outcome;
use serde_json::{Value, json};
use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;
use vocab::Database;

const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// A node looks for the metadata group's leader for some seconds before it answers by itself.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// To be said to who is not known, or does not say who asks.
const WHO_ASKS: &str = "Give a user and a password: --user NAME, and BASALT_PASSWORD in the environment";

/// Said of a change that was sent, and has no answer.
const NOT_KNOWN: &str = "it is not known whether that was done: look before it is asked again";

/// How many digits the id of a node has.
const NODE_DIGITS: usize = 16;

/// Why something was not done.
#[derive(Debug)]
pub(super) enum Failure {
    /// The command line, or what it names, is wrong.
    Usage(String),
    /// The store does not do it as it is, or the answer cannot be printed.
    Refused(String),
    /// What it goes by has changed meanwhile: nothing was done.
    Stale(String),
    /// No node can be asked, or the one that has to know does not answer: what was to be done may be done or not.
    Unreachable(String),
}

impl Failure {
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::Stale(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
        }
    }

    /// The same, with what has become of it.
    pub(super) fn and(self, what: &str) -> Self {
        let text = format!("{self}; {what}");
        match self {
            Self::Usage(_) => Self::Usage(text),
            Self::Refused(_) => Self::Refused(text),
            Self::Stale(_) => Self::Stale(text),
            Self::Unreachable(_) => Self::Unreachable(text),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::Refused(text) | Self::Stale(text) | Self::Unreachable(text)) = self;
        out.write_str(text)
    }
}

/// What goes wrong beside the store itself.
impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Refused(text)
    }
}

/// Connects to some node of the store.
pub(super) fn reached(node: &StoreUrl) -> Result<Client, Failure> {
    let told = |e: std::io::Error| match e.kind() {
        // It was reached, and knows who asks.
        ErrorKind::PermissionDenied => Failure::Usage(format!("{e}. {WHO_ASKS}")),
        _ => Failure::Unreachable(format!("{e}; --node names another node of the store")),
    };
    Client::open_within(node, CONNECT_WITHIN, ANSWER_WITHIN).map_err(told)
}

/// A connection to some node of the store.
pub(super) struct Asker {
    client: Client,
    /// The connection has failed, or an answer may come late: what is asked next is asked on another one.
    is_broken: bool,
    /// Whether answers are shown as they come.
    pub(super) json: bool,
}

impl Asker {
    pub(super) fn new(node: &StoreUrl, json: bool) -> Result<Self, Failure> {
        Ok(Self { client: reached(node)?, is_broken: false, json })
    }

    pub(super) fn init(&mut self) -> Result<(), Failure> {
        let answer = self.call(&["INIT"])?;
        let text = answer.as_bytes().map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default();
        self.show(&json!({ "made": text }), |_| format!("{text}\n"))
    }

    /// A node that asks for a password answers too.
    pub(super) fn ping(&mut self) -> Result<(), Failure> {
        let answer = self.exchange(&[b"PING"])?;
        if let Reply::Error(text) = answer
            && !["NOAUTH ", "NOPERM ", "WRONGPASS "].iter().any(|code| text.starts_with(code))
        {
            return Err(Failure::Refused(format!("{} answers: {text}", self.client.address())));
        }
        self.show(&json!({ "answers": true }), |_| "the node answers\n".to_owned())
    }

    /// The id of the node that is asked.
    pub(super) fn asked_node(&mut self) -> Result<String, Failure> {
        match self.exchange(&[b"CLUSTER", b"MYID"])? {
            Reply::Error(text) => Err(self.refusal(&text)),
            answer => {
                // As Redis has ids: 40 digits, of which the last are ours.
                let text = answer.as_bytes().and_then(|id| std::str::from_utf8(id).ok());
                let id = text.and_then(|id| id.get(id.len().checked_sub(NODE_DIGITS)?..));
                id.map(str::to_owned).ok_or_else(|| self.unreachable("the node does not say its id"))
            }
        }
    }

    /// What the store answers to these words.
    pub(super) fn ask(&mut self, words: &[&str]) -> Result<Value, Failure> {
        let answer = self.call(words)?;
        let read = answer.as_bytes().and_then(|text| serde_json::from_slice(text).ok());
        let mut read: Value =
            read.ok_or_else(|| self.unreachable("what it answers is not read by this version of basalt"))?;
        if !self.json {
            remove_control(&mut read);
        }
        Ok(read)
    }

    /// How many databases clients may choose from.
    pub(super) fn databases(&mut self) -> Result<u64, Failure> {
        let unread = || Failure::Unreachable("the node does not say how many databases there are".to_owned());
        let answer = self.exchange(&[b"CONFIG", b"GET", b"databases"])?;
        number_of_setting(&answer).ok_or_else(unread)
    }

    /// How many keys are in the slot of a database.
    pub(super) fn keys_of(&mut self, place: Database) -> Result<u64, Failure> {
        let number = place.number().to_string();
        match self.client.call_repeatable(&[b"DBSIZE", b"DATABASE", number.as_bytes()]) {
            Ok(Reply::Int(count)) => Ok(count.unsigned_abs()),
            Ok(Reply::Error(text)) => Err(Failure::Unreachable(text)),
            Ok(_) => Err(Failure::Unreachable("the node does not count keys".to_owned())),
            Err(e) => Err(self.unreachable(e)),
        }
    }

    fn call(&mut self, words: &[&str]) -> Result<Reply, Failure> {
        let mut args: Vec<&[u8]> = vec![b"KV.ADMIN"];
        args.extend(words.iter().map(|word| word.as_bytes()));
        let connected = self.connect();
        let is_sent = connected.is_ok();
        let answer = match connected.and_then(|()| self.exchange(&args)) {
            Err(_) if is_look(words) => self.exchange(&args),
            Err(failure) if is_sent && is_change(words) => Err(failure.and(NOT_KNOWN)),
            answer => answer,
        };
        match answer? {
            Reply::Error(text) => Err(self.refusal(&text)),
            answer => Ok(answer),
        }
    }

    /// Connects anew, if the connection has failed.
    fn connect(&mut self) -> Result<(), Failure> {
        if self.is_broken {
            self.client.reconnect().map_err(|e| Failure::Unreachable(e.to_string()))?;
            self.is_broken = false;
        }
        Ok(())
    }

    /// One request and its answer, on a connection that works.
    fn exchange(&mut self, args: &[&[u8]]) -> Result<Reply, Failure> {
        self.connect()?;
        let answer = self.client.call_here(args);
        self.is_broken = answer.is_err();
        answer.map_err(|e| self.unreachable(e))
    }

    fn unreachable(&self, why: impl fmt::Display) -> Failure {
        Failure::Unreachable(format!("{}: {why}", self.client.address()))
    }

    fn refusal(&self, text: &str) -> Failure {
        if Outcome::of_text(text.as_bytes()) == Some(Outcome::Unknown) {
            return self.unreachable(text);
        }
        let (code, rest) = text.split_once(' ').unwrap_or(("ERR", text));
        match code {
            "USAGE" | "NOTFOUND" => Failure::Usage(rest.to_owned()),
            "REFUSED" => Failure::Refused(rest.to_owned()),
            "STALE" => Failure::Stale(rest.to_owned()),
            "CLUSTERDOWN" | "MOVED" => Failure::Unreachable(format!("{}: {rest}", self.client.address())),
            "NOAUTH" | "WRONGPASS" => Failure::Usage(format!("{rest} {WHO_ASKS} ({})", self.client.address())),
            "NOPERM" => Failure::Refused(format!(
                "{rest}: the roles for operators are +@role-read, +@role-operate and +@role-administer"
            )),
            _ => Failure::Refused(format!("{} answers: {text}", self.client.address())),
        }
    }

    /// Shows an answer: as JSON if that is wanted, else as `show` has it.
    pub(super) fn show(&self, answer: &Value, show: impl FnOnce(&Value) -> String) -> Result<(), Failure> {
        print(&if self.json { format!("{answer:#}\n") } else { show(answer) }).map(drop)
    }
}

/// Whether a request only looks at the store, and any node answers it alike: it may be asked again, of another node.
fn is_look(words: &[&str]) -> bool {
    matches!(
        words,
        ["STATUS" | "NODES" | "SHARDS" | "MAP" | "EVENTS", ..]
            | ["PLAN", "LIST" | "SHOW", ..]
            | ["SETTINGS", "LIST" | "GET", ..]
    )
}

/// Whether a request changes the store.
fn is_change(words: &[&str]) -> bool {
    !is_look(words) && !matches!(words, ["PLAN", "PREVIEW", ..] | ["RECOVER-MAP", "PREVIEW"] | ["VERIFY", ..])
}

/// Takes control characters out of texts that others have written, such as names of users and reasons of plans: they would drive
/// the terminal.
fn remove_control(shown: &mut Value) {
    match shown {
        Value::String(text) if text.chars().any(char::is_control) => {
            *text = text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
        }
        Value::Array(items) => items.iter_mut().for_each(remove_control),
        Value::Object(fields) => fields.values_mut().for_each(remove_control),
        _ => {}
    }
}

/// Prints to standard output, which may have been closed.
pub(super) fn print(text: &str) -> Result<Reader, Failure> {
    bench::output::print(text).map_err(|e| Failure::Refused(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_does_not_drive_the_terminal() {
        let mut shown = json!({ "a": "plain é", "b": ["\x1b[2Jx\u{9b}y\n"], "c": { "d": "\r" }, "n": 1 });
        remove_control(&mut shown);
        assert_eq!(
            shown,
            json!({ "a": "plain é", "b": ["\u{fffd}[2Jx\u{fffd}y\u{fffd}"], "c": { "d": "\u{fffd}" }, "n": 1 })
        );
    }

    #[test]
    fn a_change_is_what_is_not_only_looked_at() {
        for (words, changes) in [
            ("STATUS", false),
            ("PLAN SHOW 7", false),
            ("PLAN PREVIEW split-all", false),
            ("VERIFY START", false),
            ("RECOVER-MAP PREVIEW", false),
            ("INIT", true),
            ("PLAN APPLY split-all", true),
            ("SETTINGS SET acks all", true),
            ("RECOVER-MAP accept-data-loss", true),
            ("DRAIN-LEADERS a", true),
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            assert_eq!(is_change(&words), changes, "{words:?}");
        }
    }
}
