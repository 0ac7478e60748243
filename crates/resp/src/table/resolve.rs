//! All rows in one array, and the way from a request, or a name, to its row, or to the error that Redis 7.0 answers.

use super::rows::{
    basalt, bitmap, cluster, connection, generic, geo, hash, hyperloglog, list, pubsub, scripting, server, set,
    sorted_set, stream, string,
};
use super::spec::{CommandId, CommandSpec};

/// How much of a client's own words an error repeats.
const ECHO_BYTES_MAX: usize = 128;

/// The row of a request, whose length has been checked against it. The error is the text for `Reply::error`.
#[inline]
pub fn resolve(args: &[&[u8]]) -> Result<&'static CommandSpec, String> {
    find(args).ok_or_else(|| refusal(args))
}

/// Why a request has no row.
#[cold]
fn refusal(args: &[&[u8]]) -> String {
    let Some(spec) = args.first().and_then(|name| lookup(name)) else { return unknown_command(args) };
    match args.get(1) {
        Some(name) if spec.is_container() => {
            subcommand(spec, name).map_or_else(|| unknown_subcommand(spec, name), wrong_arity)
        }
        _ => wrong_arity(spec),
    }
}

/// The row of a request, if it is in the table and has the right length.
#[inline]
#[must_use]
pub fn find(args: &[&[u8]]) -> Option<&'static CommandSpec> {
    let mut spec = lookup(args.first()?)?;
    if spec.is_container() && args.len() > 1 {
        spec = subcommand(spec, args[1])?;
    }
    spec.check_arity(args.len()).then_some(spec)
}

/// `ERR unknown command 'foo', with args beginning with: 'a' 'b' `
#[cold]
#[must_use]
pub fn unknown_command(args: &[&[u8]]) -> String {
    let name = args.first().copied().unwrap_or_default();
    let mut beginning = String::new();
    for arg in args.iter().skip(1) {
        if beginning.len() >= ECHO_BYTES_MAX {
            break;
        }
        let room = ECHO_BYTES_MAX - beginning.len();
        beginning.push_str(&format!("'{}' ", echo(arg, room)));
    }
    format!("ERR unknown command '{}', with args beginning with: {beginning}", echo(name, ECHO_BYTES_MAX))
}

/// `ERR unknown subcommand 'x'. Try CLIENT HELP.`
#[cold]
#[must_use]
pub fn unknown_subcommand(container: &CommandSpec, name: &[u8]) -> String {
    format!("ERR unknown subcommand '{}'. Try {} HELP.", echo(name, ECHO_BYTES_MAX), container.name)
}

/// `ERR wrong number of arguments for 'get' command`
#[cold]
#[must_use]
pub fn wrong_arity(spec: &CommandSpec) -> String {
    format!("ERR wrong number of arguments for '{}' command", spec.shown_name())
}

/// The beginning of a client's word, up to a zero byte, as Redis shows it.
fn echo(word: &[u8], bytes_max: usize) -> String {
    let word = &word[..word.len().min(bytes_max)];
    let word = word.split(|&b| b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(word).replace(['\r', '\n'], " ")
}

const CHAPTERS: &[&[CommandSpec]] = &[
    basalt::ROWS,
    string::ROWS,
    hash::ROWS,
    set::ROWS,
    list::ROWS,
    sorted_set::ROWS,
    geo::ROWS,
    bitmap::ROWS,
    hyperloglog::ROWS,
    stream::ROWS,
    generic::ROWS,
    connection::ROWS,
    pubsub::ROWS,
    server::ROWS,
    cluster::ROWS,
    scripting::ROWS,
    super::rows::blocking::ROWS,
];

const COUNT: usize = {
    let (mut count, mut i) = (0, 0);
    while i < CHAPTERS.len() {
        count += CHAPTERS[i].len();
        i += 1;
    }
    count
};

/// How many rows there are, subcommands included: one more than the largest `CommandId`.
pub const COMMAND_COUNT: usize = COUNT;

static COMMANDS: [CommandSpec; COUNT] = collect();

/// Numbers the rows and ties subcommands to their containers.
const fn collect() -> [CommandSpec; COUNT] {
    let mut rows = [CHAPTERS[0][0]; COUNT];
    let (mut chapter, mut row, mut at, mut container) = (0, 0, 0, 0);
    while at < COUNT {
        if row == CHAPTERS[chapter].len() {
            chapter += 1;
            row = 0;
            continue;
        }
        rows[at] = CHAPTERS[chapter][row];
        rows[at].id = CommandId(at as u16);
        if is_subcommand(rows[at].name, rows[container].name) {
            rows[at].container = Some(CommandId(container as u16));
            rows[container].subcommand_count += 1;
        } else {
            container = at;
        }
        at += 1;
        row += 1;
    }
    rows
}

/// Whether `name` is `container|…`. A `|` behind anything else is a row in the wrong place.
const fn is_subcommand(name: &str, container: &str) -> bool {
    let (name, container) = (name.as_bytes(), container.as_bytes());
    let mut i = 0;
    while i < name.len() && name[i] != b'|' {
        i += 1;
    }
    if i == name.len() {
        return false;
    }
    assert!(i == container.len(), "a subcommand must follow its container");
    while i > 0 {
        i -= 1;
        assert!(name[i] == container[i], "a subcommand must follow its container");
    }
    true
}

/// Longest name of a command that is in the index: longer ones are few, and looked for one by one.
const NAME_BYTES_MAX: usize = 16;
/// A power of two, a few times the number of commands, so that most names are found at the first look.
const BUCKETS: usize = 512;
const EMPTY: u16 = u16::MAX;

/// Upper-case names as numbers, and their rows; a name lies in the first free bucket from its hash on.
static INDEX: [(u128, u16); BUCKETS] = index();

const fn index() -> [(u128, u16); BUCKETS] {
    let rows = collect();
    let mut buckets = [(0, EMPTY); BUCKETS];
    let mut at = 0;
    while at < COUNT {
        let name = rows[at].name.as_bytes();
        if rows[at].container.is_none() && name.len() <= NAME_BYTES_MAX {
            let mut bytes = [0; NAME_BYTES_MAX];
            let mut i = 0;
            while i < name.len() {
                assert!(!name[i].is_ascii_lowercase(), "names of rows are in upper case");
                bytes[i] = name[i];
                i += 1;
            }
            let packed = u128::from_le_bytes(bytes);
            let mut bucket = bucket_of(packed);
            while buckets[bucket].1 != EMPTY {
                assert!(buckets[bucket].0 != packed, "a name stands in the table twice");
                bucket = (bucket + 1) % BUCKETS;
            }
            buckets[bucket] = (packed, at as u16);
        }
        at += 1;
    }
    buckets
}

const fn bucket_of(packed: u128) -> usize {
    let mixed = (packed as u64 ^ ((packed >> 64) as u64).rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 48) as usize % BUCKETS
}

/// A name of at most 16 bytes as a number, in upper case. Reads words that may overlap rather than single bytes.
#[inline]
fn pack(name: &[u8]) -> u128 {
    let short = |at: usize| u128::from(u32::from_le_bytes([name[at], name[at + 1], name[at + 2], name[at + 3]]));
    let byte = |at: usize| u128::from(name[at]) << (8 * at);
    let packed = match name.len() {
        0 => 0,
        length @ 1..4 => byte(0) | byte(length / 2) | byte(length - 1),
        length @ 4..8 => short(0) | short(length - 4) << (8 * (length - 4)),
        length => {
            let (front, back) = (short(0) | short(4) << 32, short(length - 8) | short(length - 4) << 32);
            front | back << (8 * (length - 8))
        }
    };
    u128::from(uppercase(packed as u64)) | u128::from(uppercase((packed >> 64) as u64)) << 64
}

/// Eight bytes in ASCII upper case. The sums set the high bit of each byte that is at least `a`, or more than `z`.
const fn uppercase(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let low_bits = word & (EACH * 0x7F);
    let from_a = low_bits + EACH * (0x80 - b'a' as u64);
    let beyond_z = low_bits + EACH * (0x7F - b'z' as u64);
    let is_lower = (from_a ^ beyond_z) & !word & (EACH * 0x80);
    word ^ (is_lower >> 2)
}

/// The command called `name`, in upper or lower case. Containers only, not their subcommands.
#[inline]
#[must_use]
pub fn lookup(name: &[u8]) -> Option<&'static CommandSpec> {
    if name.len() > NAME_BYTES_MAX {
        return long_name(name);
    }
    let packed = pack(name);
    let mut bucket = bucket_of(packed);
    loop {
        let (found, row) = INDEX[bucket];
        if row == EMPTY {
            return None;
        }
        if found == packed {
            let spec = &COMMANDS[usize::from(row)];
            // Zero bytes at the end of a name are not the padding that they look like.
            return (spec.name.len() == name.len()).then_some(spec);
        }
        bucket = (bucket + 1) % BUCKETS;
    }
}

#[cold]
fn long_name(name: &[u8]) -> Option<&'static CommandSpec> {
    top_level().find(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
}

/// The command or subcommand whose full name is `name`, such as `client|id`.
#[must_use]
pub fn lookup_full(name: &[u8]) -> Option<&'static CommandSpec> {
    match name.iter().position(|&b| b == b'|') {
        None => lookup(name),
        Some(i) => subcommand(lookup(&name[..i])?, &name[i + 1..]),
    }
}

/// All rows, subcommands included, by `CommandId`.
#[must_use]
pub fn all() -> &'static [CommandSpec] {
    &COMMANDS
}

/// All rows that are no subcommands.
pub fn top_level() -> impl Iterator<Item = &'static CommandSpec> {
    COMMANDS.iter().filter(|spec| spec.container.is_none())
}

/// The row of that number.
#[must_use]
pub fn row(id: CommandId) -> &'static CommandSpec {
    &COMMANDS[id.index()]
}

/// The subcommands of a container.
#[must_use]
pub fn subcommands(container: &CommandSpec) -> &'static [CommandSpec] {
    let first = container.id.index() + 1;
    &COMMANDS[first..first + usize::from(container.subcommand_count)]
}

/// The subcommand of a container called `name`, in upper or lower case.
#[must_use]
pub fn subcommand(container: &CommandSpec, name: &[u8]) -> Option<&'static CommandSpec> {
    subcommands(container).iter().find(|spec| spec.short_name().as_bytes().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_packed_in_upper_case() {
        for length in 0..=NAME_BYTES_MAX {
            for first in 0..=255u8 {
                let name: Vec<u8> = (0..length as u8).map(|i| first.wrapping_add(i)).collect();
                let mut bytes = [0; NAME_BYTES_MAX];
                bytes[..length].copy_from_slice(&name.to_ascii_uppercase());
                assert_eq!(pack(&name), u128::from_le_bytes(bytes), "{name:?}");
            }
        }
    }
}
