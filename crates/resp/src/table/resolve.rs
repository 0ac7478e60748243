//! From a request to its row, or to the error that Redis 7.0 answers.

use super::index::{lookup, subcommand};
use super::spec::CommandSpec;

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
