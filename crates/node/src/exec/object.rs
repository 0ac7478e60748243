//! OBJECT and MEMORY USAGE: how keys are kept, in Redis's words where those mean something here.

use super::args::{SYNTAX, int, is_word};
use super::hash::Stored;
use super::{Call, Error, Handler, Outcome};
use crate::{Kind, Record};
use std::borrow::Cow;

/// Longest string that Redis would embed in its object, in bytes.
const EMBEDDED_BYTES_MAX: usize = 44;
/// How many elements MEMORY USAGE looks at, as in Redis.
const SAMPLES: usize = 5;
/// Most elements it looks at when asked for more.
const SAMPLES_MAX: usize = 1024;

const OBJECT_HELP: &[&str] = &[
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
    "HELP",
    "    Prints this help.",
];

const MEMORY_HELP: &[&str] = &[
    "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "USAGE <key> [SAMPLES <count>]",
    "    Return memory in bytes used by <key> and its value. Nested values are",
    "    sampled up to <count> times (default: 5, 0 means sample all).",
    "HELP",
    "    Prints this help.",
];

const NO_FREQUENCY: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
    that when switching between policies at runtime LRU and LFU data will take some time to adjust.";

pub(super) fn handler(name: &str) -> Option<Handler> {
    Some(match name {
        "OBJECT" => object,
        "MEMORY" => memory,
        _ => return None,
    })
}

fn help(call: &mut Call<'_>, lines: &[&str]) -> Outcome {
    call.reply.array(lines.len());
    lines.iter().for_each(|line| call.reply.simple(line));
    Ok(())
}

fn wrong_count(command: &str, subcommand: &[u8]) -> Error {
    let subcommand = String::from_utf8_lossy(subcommand).to_ascii_lowercase();
    Error::Reply(Cow::Owned(format!("ERR wrong number of arguments for '{command}|{subcommand}' command")))
}

fn unknown(command: &str, subcommand: &[u8]) -> Error {
    let subcommand = String::from_utf8_lossy(subcommand);
    Error::Reply(Cow::Owned(format!("ERR unknown subcommand '{subcommand}'. Try {command} HELP.")))
}

fn object(call: &mut Call<'_>) -> Outcome {
    let subcommand = call.args[1];
    let words = ["ENCODING", "REFCOUNT", "IDLETIME", "FREQ", "HELP"];
    let Some(word) = words.into_iter().find(|word| is_word(subcommand, word)) else {
        return Err(unknown("OBJECT", subcommand));
    };
    if call.args.len() != if word == "HELP" { 2 } else { 3 } {
        return Err(wrong_count("object", subcommand));
    }
    if word == "HELP" {
        return help(call, OBJECT_HELP);
    }
    let key = call.args[2];
    let Some(record) = call.space.get(key)? else {
        call.reply.null();
        return Ok(());
    };
    match word {
        "ENCODING" => {
            let encoding = encoding(key, record)?;
            call.reply.bulk(encoding.as_bytes());
        }
        // One owner: values are not shared between keys.
        "REFCOUNT" => call.reply.int(1),
        // A read leaves no trace, so nobody knows better than "just now".
        "IDLETIME" => call.reply.int(0),
        _ => return Err(NO_FREQUENCY.into()),
    }
    Ok(())
}

/// How Redis would keep such a value.
fn encoding(key: &[u8], record: Record) -> Result<&'static str, Error> {
    if record.view().kind == Kind::String {
        let bytes = record.view().payload;
        let short = bytes.len() <= EMBEDDED_BYTES_MAX;
        let is_int = resp::parse_integer(bytes).is_some();
        return Ok(if is_int {
            "int"
        } else if short {
            "embstr"
        } else {
            "raw"
        });
    }
    Stored::of(key, record)?.encoding()
}

fn memory(call: &mut Call<'_>) -> Outcome {
    let subcommand = call.args[1];
    if is_word(subcommand, "HELP") && call.args.len() == 2 {
        return help(call, MEMORY_HELP);
    }
    if !is_word(subcommand, "USAGE") {
        return Err(unknown("MEMORY", subcommand));
    }
    let Some((key, options)) = call.args[2..].split_first() else {
        return Err(wrong_count("memory", subcommand));
    };
    let mut samples = SAMPLES;
    for option in options.chunks(2) {
        let [word, count] = option else { return Err(SYNTAX.into()) };
        if !is_word(word, "SAMPLES") {
            return Err(SYNTAX.into());
        }
        let count = usize::try_from(int(count)?).map_err(|_| Error::from(SYNTAX))?;
        samples = if count == 0 { SAMPLES_MAX } else { count.min(SAMPLES_MAX) };
    }
    let Some(record) = call.space.get(key)? else {
        call.reply.null();
        return Ok(());
    };
    let mut bytes = (key.len() + record.bytes().len()) as u64;
    if let Some(spread) = record.view().spread() {
        let sample = call.space.elements(key, spread.generation, None, samples)?;
        let sampled: usize = sample.iter().map(|(name, value)| key.len() + name.len() + value.len()).sum();
        bytes += sampled as u64 * spread.count / (sample.len() as u64).max(1);
    }
    call.reply.int(bytes as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        super::super::transcript::check("object");
    }
}
