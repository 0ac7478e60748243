//! A log entry, decoded.

use super::show::{Bytes, Shown, time};
use node::inspect::touches;
use node::{Item, decode_entry};
use replica::{Entry, EntryType, has_commands};
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};

/// Words of a command or an entry that are shown where not all are asked for.
const WORDS_SHOWN: usize = 16;

/// One entry.
#[derive(Serialize)]
pub struct LoggedEntry {
    pub index: u64,
    pub term: u64,
    pub bytes: usize,
    /// The leader's clock, which decides expiry.
    pub time: Option<String>,
    pub items: Vec<LoggedItem>,
    /// Items that were left out, as they do not concern the key that was asked for.
    pub items_left_out: usize,
}

/// One item of an entry.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoggedItem {
    Command(Words),
    Transaction {
        watches: Vec<Watch>,
        commands: Vec<Words>,
    },
    Housekeeping,
    Clear,
    Change {
        bytes: usize,
    },
    /// Some slots are another shard's from here on.
    Split {
        /// The other shard.
        child: u32,
        /// Which slots: first and last of each range.
        slots: Vec<(u16, u16)>,
    },
    /// Trees write what they have in memory to files.
    Seal,
    /// How the commands behind it keep values.
    Packing,
    /// SPOP takes members of large sets some together.
    Together,
    /// The same, and goes on where the entry before has ended.
    GoingOn,
    /// By which rules the commands behind it are evaluated, as `Rules` numbers them.
    Rules {
        /// The number.
        rules: u8,
    },
    /// Databases may have so many keys.
    KeyBounds,
    /// The same, also of what nodes make of clients' commands.
    BoundsOfAll,
    Mark {
        comparison: u64,
    },
    /// The group's own: a new leader begins with it.
    LeaderBegins,
    Members,
}

/// The words of a command; of a stream's entry, its fields and values in turn.
#[derive(Serialize)]
pub struct Words {
    /// Only the first of them if `count` are more.
    words: Vec<Bytes>,
    count: usize,
}

impl Words {
    /// As many of them as were asked for.
    pub fn of(args: &[&[u8]], shown: Shown) -> Self {
        let most = if shown == Shown::Whole { usize::MAX } else { WORDS_SHOWN };
        Self { words: args.iter().take(most).map(|arg| Bytes::of(arg, shown)).collect(), count: args.len() }
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.words.iter().map(Bytes::to_string).collect();
        f.write_str(&words.join(" "))?;
        match self.count - words.len() {
            0 => Ok(()),
            left => write!(f, " … ({left} more words)"),
        }
    }
}

/// A key that a transaction watches.
#[derive(Serialize)]
pub struct Watch {
    key: Bytes,
    version: u64,
}

impl LoggedEntry {
    /// Decodes an entry; of its items only those that touch `key`, if one is given.
    pub fn of(entry: &Entry, key: Option<&[u8]>, shown: Shown) -> Result<Self, String> {
        let wrong = |why: &str| format!("entry {} cannot be decoded: {why}", entry.index);
        let mut logged = Self {
            index: entry.index,
            term: entry.term,
            bytes: entry.data.len(),
            time: None,
            items: Vec::new(),
            items_left_out: 0,
        };
        if !has_commands(entry) {
            let is_plain = entry.get_entry_type() == EntryType::EntryNormal;
            logged.items.push(if is_plain { LoggedItem::LeaderBegins } else { LoggedItem::Members });
            return Ok(logged);
        }
        let (now_ms, items) = decode_entry(&entry.data).map_err(wrong)?;
        logged.time = Some(time(now_ms));
        for item in items {
            let item = item.map_err(wrong)?;
            if key.is_none_or(|key| touches(&item, key)) {
                logged.items.push(LoggedItem::of(&item, shown));
            } else {
                logged.items_left_out += 1;
            }
        }
        Ok(logged)
    }

    /// A line for the entry and one for each command.
    pub fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let time = self.time.as_deref().unwrap_or("-");
        write!(out, "  {}  term {}  {time}  {} bytes", self.index, self.term, self.bytes)?;
        if self.items_left_out > 0 {
            write!(out, "  ({} of its items are about other keys)", self.items_left_out)?;
        }
        writeln!(out)?;
        self.items.iter().try_for_each(|item| item.text(out))
    }
}

impl LoggedItem {
    fn of(item: &Item<'_>, shown: Shown) -> Self {
        let words = |args: &Vec<&[u8]>| Words::of(args, shown);
        match item {
            Item::Command(args) => Self::Command(words(args)),
            Item::Transaction { watches, commands } => Self::Transaction {
                watches: watches
                    .iter()
                    .map(|(key, version)| Watch { key: Bytes::of(key, shown), version: *version })
                    .collect(),
                commands: commands.iter().map(words).collect(),
            },
            Item::Housekeeping | Item::Collect(_) => Self::Housekeeping,
            Item::Clear => Self::Clear,
            Item::Change(bytes) | Item::KeptChange(bytes) => Self::Change { bytes: bytes.len() },
            Item::Mark(comparison) => Self::Mark { comparison: *comparison },
            Item::Split(split) => Self::Split { child: split.child.0, slots: split.slots.clone() },
            Item::Seal => Self::Seal,
            Item::Packing(_) => Self::Packing,
            Item::Together => Self::Together,
            Item::GoingOn => Self::GoingOn,
            Item::Rules(rules) => Self::Rules { rules: *rules as u8 },
            Item::KeyBounds(_) => Self::KeyBounds,
            Item::BoundsOfAll(_) => Self::BoundsOfAll,
        }
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Command(words) => writeln!(out, "      {words}"),
            Self::Transaction { watches, commands } => {
                writeln!(
                    out,
                    "      transaction of {}",
                    super::show::count(commands.len() as u64, "command", "commands")
                )?;
                for watch in watches {
                    writeln!(out, "        if {} still has version {}", watch.key, watch.version)?;
                }
                commands.iter().try_for_each(|words| writeln!(out, "        {words}"))
            }
            Self::Housekeeping => writeln!(out, "      (collection of expired keys and garbage)"),
            Self::Clear => writeln!(out, "      (every key is removed)"),
            Self::Change { bytes } => writeln!(out, "      (a change of the map, {bytes} bytes)"),
            Self::Split { child, slots } => {
                let slots: Vec<String> = slots.iter().map(|(first, last)| format!("{first}-{last}")).collect();
                writeln!(out, "      (slots {} are shard {child}'s from here on)", slots.join(", "))
            }
            Self::Seal => writeln!(out, "      (trees are flushed here)"),
            Self::Together => writeln!(out, "      (members of large sets are popped some together)"),
            Self::GoingOn => {
                writeln!(out, "      (members of large sets are popped some together, as the entry before has begun)")
            }
            Self::Rules { rules: 1 } => {
                writeln!(out, "      (long strings are kept in pieces once they are changed in parts)")
            }
            Self::Rules { .. } => writeln!(out, "      (the same, and consumers are noted that get nothing)"),
            Self::KeyBounds | Self::BoundsOfAll => writeln!(out, "      (databases may have so many keys)"),
            Self::Packing => writeln!(out, "      (how values are kept, by the leader's settings)"),
            Self::Mark { comparison } => writeln!(out, "      (replicas are compared here: comparison {comparison})"),
            Self::LeaderBegins => writeln!(out, "      (a leader begins its term)"),
            Self::Members => writeln!(out, "      (a change of members)"),
        }
    }
}
