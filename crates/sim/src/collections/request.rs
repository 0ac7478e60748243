//! A request of a client of collections, and how the log tells which request an item of an entry is.
//!
//! Each write has a number, its tag, which is in the log with it: the last argument of a plain command ends in it where
//! that changes nothing but a set that gets one more member; a transaction watches an absent key of that name.

use super::way::{Way, Words};
use crate::history::Answer;
use crate::request::{key_name, refused};
use node::{EncodedCommand, Item, Write, key_hash};
use resp::Value;
use vocab::{Slot, slot_of};

/// What begins a tag.
const TAG: u8 = b'~';

/// What a client asks.
#[derive(Clone, Debug)]
pub struct CollectionRequest {
    /// Which client.
    pub client: usize,
    /// Tells it from all other requests of the run.
    pub tag: u64,
    /// Of which group of keys.
    pub group: usize,
    /// Its commands: one, unless it is a transaction.
    pub commands: Vec<Words>,
    /// How they reach their shard.
    pub way: Way,
    /// Whether it goes through the log.
    pub writes: bool,
}

/// What a client knows of its request.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// Nothing: it may have been done, or be done yet, or never.
    Unknown,
    /// It was not done, and will never be.
    Refused,
    /// It was done, and answered.
    Done(Value),
}

/// The bytes of a tag.
pub fn tag_word(tag: u64) -> Vec<u8> {
    format!("{}{tag}", char::from(TAG)).into_bytes()
}

/// A timeout in seconds that bears a tag: in its digits below a ms.
pub fn timeout_word(ms: u64, tag: u64) -> Vec<u8> {
    format!("{}.{:03}{tag:07}", ms / 1000, ms % 1000).into_bytes()
}

/// The tag of such a timeout.
fn tag_of_timeout(word: &[u8]) -> Option<u64> {
    let (_, below) = std::str::from_utf8(word).ok()?.split_once('.')?;
    below.get(3..).filter(|digits| digits.len() == 7)?.parse().ok()
}

/// Whether a command waits if it finds nothing.
fn is_blocking(name: &[u8]) -> bool {
    name.first() == Some(&b'B')
}

/// The tag's bytes as a key of a group, which is always absent.
pub fn tag_key(group: usize, tag: u64) -> Vec<u8> {
    [prefix(group), tag_word(tag)].concat()
}

/// The name of a key of collections.
pub fn collection_key(group: usize, key: usize) -> Vec<u8> {
    [prefix(group), format!("c{key}").into_bytes()].concat()
}

/// What all keys of a group begin with.
fn prefix(group: usize) -> Vec<u8> {
    let key = key_name(group, 0);
    let end = key.iter().position(|byte| *byte == b'}').map_or(key.len(), |end| end + 1);
    key[..end].to_vec()
}

/// The part of a key behind the name of its group.
fn suffix(key: &[u8]) -> &[u8] {
    key.iter().position(|byte| *byte == b'}').map_or(key, |end| &key[end + 1..])
}

/// The tag of the request that an item of an entry is; `None` if it is no request for collections.
#[must_use]
pub fn tag_of(item: &Item<'_>) -> Option<u64> {
    let word = match item {
        Item::Command(args) if is_blocking(args[0]) => return tag_of_timeout(args.last()?),
        // Name, source, number of keys, a key, the tag.
        Item::Command(args) if matches!(args[0], b"EVAL" | b"FCALL") => args.get(4)?,
        Item::Command(args) if args.get(1).is_some_and(|key| suffix(key).first() == Some(&b'c')) => args.last()?,
        Item::Transaction { watches, .. } => watches.first()?.0,
        _ => return None,
    };
    let digits = suffix(word).strip_prefix(&[TAG])?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

impl CollectionRequest {
    /// The slot of its keys.
    #[must_use]
    pub fn slot(&self) -> Slot {
        slot_of(&key_name(self.group, 0))
    }

    /// Whether it waits if it finds nothing.
    #[must_use]
    pub fn is_blocking(&self) -> bool {
        self.way == Way::Plain && self.commands.iter().all(|words| is_blocking(&words[0]))
    }

    /// The command of a client that waits, which has another timeout by now, with the request's tag.
    #[must_use]
    pub fn tagged(&self, command: &EncodedCommand) -> EncodedCommand {
        let mut args: Vec<&[u8]> = command.args().to_vec();
        let timeout = args.pop().unwrap_or_default();
        let whole = [timeout, format!("{:07}", self.tag).as_bytes()].concat();
        EncodedCommand::new(&[&args[..], &[&whole]].concat())
    }

    /// As a shard takes it.
    #[must_use]
    pub fn write(&self) -> Write {
        let encode = |words: &Words| EncodedCommand::new(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        match &self.commands[..] {
            commands if self.way.is_script() => {
                let key = collection_key(self.group, 0);
                Write::Command(self.way.command(&key, &tag_word(self.tag), commands))
            }
            [command] if self.way == Way::Plain => Write::Command(encode(command)),
            commands => Write::Transaction {
                watches: vec![(tag_key(self.group, self.tag), 0)],
                commands: commands.iter().map(encode).collect(),
            },
        }
    }

    /// Hashes of its keys.
    #[must_use]
    pub fn key_hashes(&self) -> Vec<u64> {
        let keys = self.commands.iter().flatten().filter(|word| word.starts_with(b"{g"));
        keys.map(|key| key_hash(key)).collect()
    }

    /// Reads the answer; an error is one that is none.
    pub fn answer(&self, reply: &[u8]) -> Result<Told, String> {
        let decoded = resp::decode(reply).map_err(|e| format!("{:?}: a reply that is none ({e})", self.commands))?;
        let Some((value, length)) = decoded else { return Err(format!("{:?}: a reply cut short", self.commands)) };
        if length != reply.len() {
            return Err(format!("{:?}: more than one reply", self.commands));
        }
        Ok(match value.as_error().and_then(refused) {
            Some(Answer::Refused) => Told::Refused,
            Some(_) => Told::Unknown,
            None => Told::Done(value),
        })
    }

    /// Its commands in a line.
    #[must_use]
    pub fn text(&self) -> String {
        let words = |words: &Words| {
            let words: Vec<_> = words.iter().take(12).map(|word| String::from_utf8_lossy(word)).collect();
            words.join(" ")
        };
        self.commands.iter().map(words).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn words(text: &str) -> Words {
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn the_log_tells_which_request_an_item_is() {
        let request = |commands: &[&str], way| CollectionRequest {
            client: 0,
            tag: 17,
            group: 3,
            commands: commands.iter().map(|text| words(text)).collect(),
            way,
            writes: true,
        };
        let tag = |request: &CollectionRequest| {
            let mut entry = node::EntryBuilder::new();
            match request.write() {
                Write::Command(command) => entry.encoded_command(&command),
                Write::Transaction { watches, commands } => entry.transaction(&watches, &commands),
                _ => panic!("it is one of the two"),
            }
            let bytes = entry.seal(1);
            let item = node::decode_entry(&bytes).unwrap().1.next().unwrap().unwrap();
            tag_of(&item)
        };
        assert_eq!(tag(&request(&["SADD {g3}c1 m1 ~17"], Way::Plain)), Some(17));
        assert_eq!(tag(&request(&["DEL {g3}c1 {g3}~17"], Way::Plain)), Some(17));
        assert_eq!(tag(&request(&["RENAME {g3}c1 {g3}c2", "SPOP {g3}c0"], Way::Transaction)), Some(17));
        for way in [Way::Script, Way::Function, Way::ReversingFunction, Way::Runaway] {
            assert_eq!(tag(&request(&["RENAME {g3}c1 {g3}c2", "SPOP {g3}c0"], way)), Some(17));
        }
        assert_eq!(tag(&request(&["SADD {g3}k1 ~17"], Way::Plain)), None, "no key of collections");
        assert_eq!(timeout_word(1200, 17), b"1.2000000017");
        let waits = request(&["BLPOP {g3}c1 {g3}c2 1.2000000017"], Way::Plain);
        assert!(waits.is_blocking() && !request(&["BLPOP {g3}c1 1.2000000017"], Way::Transaction).is_blocking());
        assert_eq!(tag(&waits), Some(17));
        let later = waits.tagged(&EncodedCommand::new(&[b"BLPOP", b"{g3}c2", b"0.900"]));
        assert_eq!(later.args(), [&b"BLPOP"[..], b"{g3}c2", b"0.9000000017"]);
        assert_eq!(tag(&request(&["RENAME {g3}c1 {g3}c2"], Way::Plain)), None);
    }

    #[test]
    fn an_answer_is_told_apart_from_a_refusal() {
        let request = CollectionRequest {
            client: 0,
            tag: 1,
            group: 0,
            commands: vec![words("SCARD {g0}c1")],
            way: Way::Plain,
            writes: false,
        };
        let told = |reply: &str| request.answer(reply.as_bytes());
        assert_eq!(told(":3\r\n"), Ok(Told::Done(Value::Int(3))));
        assert_eq!(told("-MOVED 7 a:1\r\n"), Ok(Told::Refused));
        assert_eq!(told("-TIMEOUT it may be made\r\n"), Ok(Told::Unknown));
        assert!(matches!(told("-ERR no such key\r\n"), Ok(Told::Done(Value::Error(_)))));
        assert!(told(":3\r\n:4\r\n").is_err() && told(":3").is_err());
        assert_eq!(request.slot(), slot_of(b"{g0}c1"));
    }
}
