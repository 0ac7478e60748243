//! What each command tells, as Redis 7.0 does: `testdata/keyspace_events.txt` was made by playing its commands to a Redis and noting what
//! came on `__keyevent@0__:*`. Each command is an entry.
#![allow(clippy::unwrap_used)]

use super::evaluate::{Evaluated, items as evaluate_items};
use super::proposer::Proposer;
use crate::format::entry::decode;
use crate::space::apply::Place;
use crate::test_shard::empty_shard;
use crate::{CollectFrom, Config, EncodedCommand, EntryBuilder, Event, ShardHandle};
use resp::Reply;
use std::sync::Arc;
use vocab::ShardId;

const NOW_MS: u64 = 1_700_000_000_000;

/// Applies entries to a shard, and notes what they tell.
struct Teller {
    handle: Arc<ShardHandle>,
    index: u64,
    now_ms: u64,
    _folder: tempfile::TempDir,
}

impl Teller {
    fn new(letters: &str) -> Self {
        let (handle, folder) = empty_shard(ShardId(1));
        handle.set_config(Arc::new(Config::start([("notify-keyspace-events", letters)]).unwrap()));
        Self { handle, index: 0, now_ms: NOW_MS, _folder: folder }
    }

    /// The events of an entry, as the replica that has proposed it tells them, or another.
    fn entry(&mut self, is_here: bool, fill: impl FnOnce(&mut EntryBuilder)) -> Vec<(Event, String)> {
        let mut builder = EntryBuilder::new();
        fill(&mut builder);
        self.index += 1;
        let data = builder.seal(self.now_ms);
        let (now_ms, items) = decode(&data).unwrap();
        let clients = (std::iter::repeat_n(None, 8), &[][..]);
        let proposer = Proposer { is_here, ..Proposer::default() };
        let mut reply = Reply::default();
        let at = (self.index, now_ms);
        let (how, mut done) = ((Place::Aside, proposer), Evaluated::default());
        evaluate_items(&self.handle, at, &items, clients, &mut reply, how, &mut done).unwrap();
        let events = done.events.into_iter();
        events.map(|event| (event.event, String::from_utf8(event.key).unwrap())).collect()
    }

    fn command(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').map(|word| if word == "\"\"" { "" } else { word }).collect();
        let events =
            self.entry(true, |entry| entry.command(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>()));
        shown(&events)
    }
}

fn shown(events: &[(Event, String)]) -> String {
    events.iter().map(|(event, key)| format!("{} {key}", event.name)).collect::<Vec<_>>().join(", ")
}

#[test]
fn commands_tell_what_redis_tells() {
    let mut teller = Teller::new("EAn");
    let mut commands = 0;
    for line in
        include_str!("testdata/keyspace_events.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (command, expected) = line.split_once(" -> ").or(line.strip_suffix(" ->").map(|line| (line, ""))).unwrap();
        assert_eq!(teller.command(command), expected, "{command}");
        commands += 1;
    }
    assert!(commands > 150);
}

#[test]
fn keys_expire_once_whatever_finds_them() {
    let mut teller = Teller::new("EAn");
    for key in ["a", "b", "c", "d"] {
        teller.command(&format!("SET {key} 1 PX 10"));
    }
    teller.now_ms += 10;
    assert_eq!(teller.command("SET a 2"), "expired a, new a, set a");
    assert_eq!(teller.command("DEL b"), "expired b");
    assert_eq!(teller.command("GET c"), "");
    let collected = teller.entry(true, |entry| entry.collect(&CollectFrom::default()));
    assert_eq!(shown(&collected), "expired c, expired d");
    assert_eq!(shown(&teller.entry(true, |entry| entry.collect(&CollectFrom::default()))), "");
}

#[test]
fn only_the_proposer_tells_and_only_the_classes_that_are_asked_for() {
    let run = |letters: &str, is_here: bool| {
        let mut teller = Teller::new(letters);
        let events = teller.entry(is_here, |entry| {
            entry.command(&[b"SET", b"a", b"1"]);
            entry.command(&[b"LPUSH", b"l", b"1"]);
            entry.command(&[b"LPUSH", b"a", b"1"]);
            entry.command(&[b"DEL", b"a"]);
        });
        shown(&events)
    };
    for (letters, is_here, expected) in [
        ("EAn", true, "new a, set a, new l, lpush l, del a"),
        ("KA", true, "set a, lpush l, del a"),
        ("Kl", true, "lpush l"),
        ("Kg", true, "del a"),
        ("A", true, ""),
        ("", true, ""),
        ("KEAn", false, ""),
    ] {
        assert_eq!(run(letters, is_here), expected, "{letters} {is_here}");
    }
}

/// What is taken back has not happened.
#[test]
fn a_refused_item_tells_nothing() {
    let mut teller = Teller::new("EAn");
    let value = "v".repeat(1 << 20);
    teller.command(&format!("SET big {value}"));
    let mut commands = vec![EncodedCommand::new(&[b"SET", b"a", b"1"])];
    commands.resize(200, EncodedCommand::new(&[b"GET", b"big"]));
    assert_eq!(shown(&teller.entry(true, |entry| entry.transaction(&[], &commands))), "");
    assert_eq!(teller.command("SET a 1"), "new a, set a");
}
