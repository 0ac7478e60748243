//! MOVE, and COPY that names a database: what is run for them, with the names that are stored. Clients' requests and scripts come here.

use crate::request::{CROSSSLOT, Refusal, check_named_key};
use resp::table::{self, CommandSpec};
use vocab::{Namespace, slot_of};

/// What runs for MOVE and COPY to another database.
const TRANSFER: &str = "KV.TRANSFER";
const REPLACE: &[u8] = b"REPLACE";

/// A request that is run instead of another one.
pub(crate) struct MadeRequest {
    pub(crate) spec: &'static CommandSpec,
    pub(crate) words: Vec<Vec<u8>>,
}

/// What is run for MOVE or COPY of a client of `own` that names the database `to`; none: it names its own, and there is nothing to take
/// out of its words.
pub(crate) fn transfer_request(
    (own, spec): (Option<Namespace>, &'static CommandSpec),
    to: Option<Namespace>,
    args: &[&[u8]],
) -> Result<Option<MadeRequest>, Refusal> {
    let copies = args.len() > 3;
    if to == own {
        // COPY within its database, which its handler need not know.
        return if copies { copy(own, spec, args).map(Some) } else { Ok(None) };
    }
    // Keys of clusters' clients have the slots of their names.
    let is_of_cluster = own.and_then(Namespace::slot).is_none();
    if is_of_cluster && copies && slot_of(args[1]) != slot_of(args[2]) {
        return Err(CROSSSLOT.into());
    }
    let spec = table::lookup(TRANSFER.as_bytes()).ok_or("ERR keys cannot be transferred")?;
    let (source, destination) = (args[1], if copies { args[2] } else { args[1] });
    let what: &[u8] = if copies { b"COPY" } else { b"MOVE" };
    let mut words = vec![TRANSFER.into(), stored(own, source)?, stored(to, destination)?, what.to_vec()];
    words.extend(replaces(args).then(|| REPLACE.to_vec()));
    Ok(Some(MadeRequest { spec, words }))
}

fn replaces(args: &[&[u8]]) -> bool {
    args.iter().skip(3).any(|word| word.eq_ignore_ascii_case(REPLACE))
}

/// COPY that names its own database: the same without.
fn copy(own: Option<Namespace>, spec: &'static CommandSpec, args: &[&[u8]]) -> Result<MadeRequest, Refusal> {
    let mut words = vec![args[0].to_vec(), stored(own, args[1])?, stored(own, args[2])?];
    words.extend(replaces(args).then(|| REPLACE.to_vec()));
    Ok(MadeRequest { spec, words })
}

/// The stored name of a key; none is longer than allowed.
pub(crate) fn stored(of: Option<Namespace>, key: &[u8]) -> Result<Vec<u8>, Refusal> {
    match of {
        Some(namespace) => {
            check_named_key(namespace, key)?;
            Ok(namespace.stored(key))
        }
        None => Ok(key.to_vec()),
    }
}

/// The place of the word that says to which database MOVE or COPY goes, if they name one. What else is wrong with COPY is its
/// handler's to say.
pub(crate) fn place_of_number(spec: &CommandSpec, args: &[&[u8]]) -> Option<usize> {
    match args {
        // MOVE has no other arguments; COPY may.
        [_, _, _] if spec.arity == 3 => Some(2),
        [_, _, _, words @ ..] => {
            let (mut at, mut found) = (0, None);
            while let Some(word) = words.get(at) {
                if word.eq_ignore_ascii_case(b"DB") && at + 1 < words.len() {
                    // As in Redis, the last one counts.
                    found = Some(at + 4);
                    at += 2;
                } else if word.eq_ignore_ascii_case(b"REPLACE") {
                    at += 1;
                } else {
                    return None;
                }
            }
            found
        }
        _ => None,
    }
}

/// That word.
pub(crate) fn number_word<'a>(spec: &CommandSpec, args: &[&'a [u8]]) -> Option<&'a [u8]> {
    place_of_number(spec, args).map(|at| args[at])
}
