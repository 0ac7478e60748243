//! What the items of an entry do: deterministic, and bounded in what they answer.
//!
//! An item that is committed has an outcome on every replica: it writes, or it answers an error and writes nothing.
//! Only a replica whose own storage fails stops. What an item answers counts against the bound that `reply` has been
//! given, whether or not a client waits, so that all replicas refuse the same items.

use super::apply_error::ApplyError;
use crate::command::{
    Call, Error, Handler, Outcome, Progress, ReadCall, ReadHandler, ReplySteps, Rest, StepHandler, WriteHandler,
    entry_handler, handler, run_to_end,
};
use crate::format::entry::{Args, EncodedCommand, Item, Items, decode};
use crate::shard_handle::ShardHandle;
use crate::space::apply::{Collected, EntrySpace};
use crate::{Evaluation, Fault, ReadSpace, WriteSpace, request};
use resp::table::{self, CommandId, CommandSpec};
use resp::{Proto, Reply};
use vocab::limits::{ENTRY_REPLIES_BYTES_MAX, ITEM_REPLY_BYTES_MAX, STREAM_STEP_BYTES_SOFT, STREAM_STEP_ITEMS_MAX};

const NOT_OF_ENTRY: &str = "ERR this command cannot be part of an entry";
const ONLY_IN_ENTRY: &str = "ERR this command writes, and cannot be run as a read";
const TRANSACTION_TOO_LONG: &str =
    "ERR the answer would take more bytes than a transaction may answer: nothing was written";

/// The text of the refusal of an item whose answer passes its bound.
pub(crate) const ANSWER_TOO_LONG: &str =
    "ERR the answer would take more bytes than one request may answer: nothing was written";

/// What the items of one entry may answer, in bytes: the same on every replica, whether or not clients wait there.
pub(crate) struct ReplyBounds {
    left: usize,
    of_item: usize,
}

impl ReplyBounds {
    /// Entries of format 1 had no bound.
    pub(crate) fn of_entry(evaluation: Evaluation) -> Self {
        match evaluation {
            Evaluation::First => Self { left: usize::MAX, of_item: usize::MAX },
            Evaluation::Second => Self { left: ENTRY_REPLIES_BYTES_MAX, of_item: ITEM_REPLY_BYTES_MAX },
        }
    }

    /// What the next item may answer.
    pub(crate) fn of_item(&self) -> usize {
        self.left.min(self.of_item)
    }

    /// An item has answered so many.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }
}

/// What the items of an entry have come to.
#[derive(Default)]
pub(super) struct Evaluated {
    /// The clock of the entry, in ms.
    pub(super) now_ms: u64,
    /// Where in the reply the answer of each item ends; of those for which no client waits, nothing is in it.
    pub(super) ends: Vec<usize>,
    /// What steps of background collection have left.
    pub(super) collected: Vec<Collected>,
}

/// Evaluates the items of an entry, none of which is alone in it, and makes them visible in the tree. `awaited` tells of
/// each item for which a client may wait how to encode the answer, if one does; `rows` has the rows of the commands, as far
/// as this replica has proposed them.
pub(super) fn items(
    handle: &ShardHandle,
    (index, now_ms): (u64, u64),
    items: Items<'_>,
    (mut awaited, mut rows): (impl Iterator<Item = Option<Proto>>, &[Option<CommandId>]),
    reply: &mut Reply,
) -> Result<Evaluated, ApplyError> {
    let evaluation = items.evaluation();
    let mut space = EntrySpace::new(handle, index, now_ms, evaluation);
    let mut done = Evaluated { now_ms, ends: Vec::with_capacity(awaited.size_hint().0), ..Evaluated::default() };
    // What the items may still answer, in bytes: the same on every replica, whether or not clients wait there.
    let mut bounds = ReplyBounds::of_entry(evaluation);
    reply.buf.clear();
    for item in items {
        let item = item?;
        match &item {
            Item::Housekeeping => {
                space.housekeep()?;
                continue;
            }
            Item::Collect(from) => {
                done.collected.push(space.collect(from)?);
                continue;
            }
            _ => {}
        }
        let proto = awaited.next().flatten();
        reply.proto = proto.unwrap_or(Proto::Resp2);
        reply.discard(proto.is_none());
        reply.limit(bounds.of_item());
        match &item {
            Item::Command(args) => {
                let row = take_rows(&mut rows, 1).first().copied().flatten();
                command(&mut space, args, row, reply)?;
            }
            Item::Transaction { watches, commands } => {
                let rows = take_rows(&mut rows, commands.len());
                transaction(&mut space, watches, commands, rows, reply)?;
            }
            _ => return Err("an item that must be alone in its entry is not".into()),
        }
        bounds.spend(reply.spent());
        if proto.is_none() {
            reply.buf.truncate(done.ends.last().copied().unwrap_or_default());
        }
        done.ends.push(reply.buf.len());
    }
    space.commit();
    Ok(done)
}

/// The first `count` rows, which are taken off; none if there are not so many.
fn take_rows<'a>(rows: &mut &'a [Option<CommandId>], count: usize) -> &'a [Option<CommandId>] {
    rows.split_off(..count).unwrap_or_default()
}

/// A command of an entry, found in the table.
struct Found {
    /// None of a command that no client sends.
    spec: Option<&'static CommandSpec>,
    runs: Runs,
}

/// What runs a command of an entry: nothing that looks at more than the keys that it names.
#[derive(Clone, Copy)]
enum Runs {
    Read(fn(&mut ReadCall<'_>) -> Outcome),
    Steps(StepHandler),
    Write(WriteHandler),
}

/// The command that `args` begin with, whose row is known to the replica that has proposed it; the error is its reply.
fn find(args: &[&[u8]], row: Option<CommandId>) -> Result<Found, Error> {
    let spec = match row {
        Some(row) => {
            debug_assert!(
                table::find(args).is_some_and(|spec| spec.id == row),
                "the rows of an entry are its commands'"
            );
            table::row(row)
        }
        None => {
            if let Some(handler) = entry_handler(args) {
                return Ok(Found { spec: None, runs: Runs::Write(handler) });
            }
            table::resolve(args).map_err(|text| Error::Reply(text.into()))?
        }
    };
    let runs = match handler(spec) {
        Some(Handler::Read(ReadHandler::Keys(run))) => Runs::Read(run),
        Some(Handler::Read(ReadHandler::Steps(begin))) => Runs::Steps(begin),
        Some(Handler::Write(run)) => Runs::Write(run),
        Some(Handler::Read(ReadHandler::Shard(_)) | Handler::Store(_)) | None => return Err(NOT_OF_ENTRY.into()),
    };
    request::check_keys(spec, args).map_err(Error::Reply)?;
    Ok(Found { spec: Some(spec), runs })
}

/// Runs a handler in an entry; its errors are its reply. The error is a failure of this replica's storage.
fn run(runs: Runs, args: &[&[u8]], space: &mut dyn WriteSpace, reply: &mut Reply) -> Result<Ran, Fault> {
    let mark = reply.buf.len();
    let done = match runs {
        Runs::Read(run) => run(&mut Call { args, space, reply }),
        Runs::Steps(begin) => run_to_end(begin, &mut Call { args, space, reply }),
        Runs::Write(run) => run(&mut Call { args, space, reply }),
    };
    conclude(done, mark, reply)
}

/// Runs a handler outside of an entry: a command that may write is refused.
fn run_read(runs: Runs, args: &[&[u8]], space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Ran, Fault> {
    let mark = reply.buf.len();
    let done = match runs {
        Runs::Read(run) => run(&mut Call { args, space, reply }),
        Runs::Steps(begin) => run_to_end(begin, &mut Call { args, space, reply }),
        Runs::Write(_) => Err(ONLY_IN_ENTRY.into()),
    };
    conclude(done, mark, reply)
}

fn conclude(done: Outcome, mark: usize, reply: &mut Reply) -> Result<Ran, Fault> {
    let text = match done {
        Ok(()) => return Ok(Ran::Well),
        Err(Error::Reply(text)) => text,
        Err(Error::Fault(fault)) => return Err(fault),
    };
    reply.buf.truncate(mark);
    reply.error(&text);
    Ok(Ran::Refused)
}

/// How a handler has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ran {
    Well,
    /// The reply is an error.
    Refused,
}

/// Runs one command of an entry, whose row is known where this replica has proposed it.
pub(crate) fn command(
    space: &mut EntrySpace<'_>,
    args: &[&[u8]],
    row: Option<CommandId>,
    reply: &mut Reply,
) -> Result<(), Fault> {
    let found = match find(args, row) {
        Ok(found) => found,
        Err(error) => return refuse(&error, reply),
    };
    if found.spec.is_none_or(|spec| !spec.answers_values(args)) {
        return run(found.runs, args, space, reply).map(drop);
    }
    let mark = reply.buf.len();
    space.begin_attempt();
    let ran = run(found.runs, args, space, reply)?;
    let exceeded = reply.exceeded();
    space.end_attempt(ran == Ran::Well && !exceeded);
    if exceeded {
        reply.buf.truncate(mark);
        reply.error(ANSWER_TOO_LONG);
    }
    Ok(())
}

fn refuse(error: &Error, reply: &mut Reply) -> Result<(), Fault> {
    match error {
        Error::Reply(text) => reply.error(text),
        Error::Fault(_) => reply.error(NOT_OF_ENTRY),
    }
    Ok(())
}

/// Runs a transaction if no watched key was written since: a null array otherwise. `rows` are those of its commands, or
/// nothing. An answer that passes its bound is an
/// error, and then nothing is written.
pub(crate) fn transaction(
    space: &mut EntrySpace<'_>,
    watches: &[(&[u8], u64)],
    commands: &[Args<'_>],
    rows: &[Option<CommandId>],
    reply: &mut Reply,
) -> Result<(), Fault> {
    let mark = reply.buf.len();
    space.begin_attempt();
    let done = all(space, watches, commands, rows, reply, |runs, args, space, reply| run(runs, args, space, reply));
    let exceeded = reply.exceeded();
    space.end_attempt(done.is_ok() && !exceeded);
    if exceeded {
        reply.buf.truncate(mark);
        reply.error(TRANSACTION_TOO_LONG);
    }
    done
}

/// Watched keys with the versions that they had, and commands.
struct OneTransaction<'a> {
    watches: Vec<(&'a [u8], u64)>,
    commands: Vec<Args<'a>>,
}

impl<'a> OneTransaction<'a> {
    /// The only item of the entry that is the second argument.
    fn of(args: &[&'a [u8]]) -> Result<Self, Error> {
        match args.get(1).and_then(|data| decode(data).ok()?.1.next()?.ok()) {
            Some(Item::Transaction { watches, commands }) => Ok(Self { watches, commands }),
            _ => Err("ERR not a transaction".into()),
        }
    }
}

/// Begins a transaction that writes nothing as a read: the second argument is an entry that holds it alone.
pub fn read_transaction_in_steps(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    let OneTransaction { watches, commands } = OneTransaction::of(call.args)?;
    if has_changed(call.space, &watches)? {
        call.reply.null_array();
        return Ok(None);
    }
    call.reply.array(commands.len());
    let left: Vec<EncodedCommand> = commands.iter().map(|args| EncodedCommand::new(args)).collect();
    Ok((!left.is_empty()).then(|| Box::new(CommandsLeft { left: left.into_iter(), rest: None }) as _))
}

/// These commands of a transaction are still to be answered.
struct CommandsLeft {
    left: std::vec::IntoIter<EncodedCommand>,
    /// Of the command that is being answered.
    rest: Rest,
}

impl CommandsLeft {
    /// Begins to answer the next command: all of it, unless that is long.
    fn begin(&mut self, args: &[&[u8]], space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<(), Fault> {
        let found = match find(args, None) {
            Ok(found) => found,
            Err(error) => return refuse(&error, reply),
        };
        let Runs::Steps(steps) = found.runs else {
            return run_read(found.runs, args, space, reply).map(drop);
        };
        let mark = reply.buf.len();
        match steps(&mut Call { args, space, reply }) {
            Ok(rest) => self.rest = rest,
            Err(Error::Fault(fault)) => return Err(fault),
            Err(error) => {
                reply.buf.truncate(mark);
                refuse(&error, reply)?;
            }
        }
        Ok(())
    }
}

impl ReplySteps for CommandsLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let until = reply.buf.len() + STREAM_STEP_BYTES_SOFT;
        for _ in 0..STREAM_STEP_ITEMS_MAX {
            if let Some(rest) = &mut self.rest {
                if rest.step(space, reply)? == Progress::Done {
                    self.rest = None;
                }
            } else if let Some(command) = self.left.next() {
                self.begin(&command.args(), space, reply)?;
            }
            if self.rest.is_none() && self.left.as_slice().is_empty() {
                return Ok(Progress::Done);
            }
            if reply.buf.len() >= until {
                break;
            }
        }
        Ok(Progress::More)
    }
}

/// Runs a transaction that writes nothing as a read: the second argument is an entry that holds it alone.
pub fn read_transaction(call: &mut ReadCall<'_>) -> Outcome {
    let OneTransaction { watches, commands } = OneTransaction::of(call.args)?;
    call.reply.limit(ITEM_REPLY_BYTES_MAX);
    all(call.space, &watches, &commands, &[], call.reply, |runs, args, space, reply| {
        run_read(runs, args, space, reply)
    })?;
    if call.reply.exceeded() { Err(TRANSACTION_TOO_LONG.into()) } else { Ok(()) }
}

/// Whether a watched key has another version.
fn has_changed<S: ReadSpace + ?Sized>(space: &mut S, watches: &[(&[u8], u64)]) -> Result<bool, Fault> {
    for (key, version) in watches {
        if space.get(key)?.map_or(0, |record| record.view().version) != *version {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Compares the watched versions and runs the commands of a transaction with `run`, until the reply passes its bound.
fn all<S: ReadSpace + ?Sized>(
    space: &mut S,
    watches: &[(&[u8], u64)],
    commands: &[Args<'_>],
    rows: &[Option<CommandId>],
    reply: &mut Reply,
    run: impl Fn(Runs, &[&[u8]], &mut S, &mut Reply) -> Result<Ran, Fault>,
) -> Result<(), Fault> {
    if has_changed(space, watches)? {
        reply.null_array();
        return Ok(());
    }
    reply.array(commands.len());
    for (i, args) in commands.iter().enumerate() {
        match find(args, rows.get(i).copied().flatten()) {
            Ok(found) => drop(run(found.runs, args, space, reply)?),
            Err(error) => refuse(&error, reply)?,
        }
        if reply.exceeded() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::ShardHandle;
    use std::sync::Arc;
    use storage::{EngineKind, RowCache, SharedResources, StorageOptions, open_engine};
    use vocab::ShardId;

    struct Entries {
        handle: Arc<ShardHandle>,
        index: u64,
        _folder: tempfile::TempDir,
    }

    impl Entries {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let resources = SharedResources::new(StorageOptions::default());
            let tree = open_engine(EngineKind::Memory, folder.path(), &resources).unwrap();
            let handle = ShardHandle::open(ShardId(1), (0, 16383), tree, Arc::new(RowCache::new(1 << 20))).unwrap();
            Self { handle, index: 0, _folder: folder }
        }

        /// One entry with one item, whose answer may cost `bound`: the answer of a leader, which a follower's outcome
        /// has been compared with.
        fn item(&mut self, commands: &[&str], bound: usize) -> String {
            self.index += 1;
            let words: Vec<Vec<&[u8]>> = commands.iter().map(|c| c.split(' ').map(str::as_bytes).collect()).collect();
            let run = |reply: &mut Reply| {
                reply.limit(bound);
                let mut space = EntrySpace::new(&self.handle, self.index, 1_000, Evaluation::Second);
                match &words[..] {
                    [args] => command(&mut space, args, None, reply).unwrap(),
                    commands => transaction(&mut space, &[], commands, &[], reply).unwrap(),
                }
                (space, reply.spent())
            };
            let (mut answer, mut dropped) = (Reply::default(), Reply::default());
            dropped.discard(true);
            let (follower, spent_there) = run(&mut dropped);
            assert!(dropped.buf.len() < 200, "a follower builds no answer");
            let (leader, spent) = run(&mut answer);
            assert_eq!(leader.writes(), follower.writes());
            assert_eq!(spent, spent_there);
            leader.commit();
            String::from_utf8(answer.buf).unwrap()
        }
    }

    #[test]
    fn an_answer_that_passes_its_bound_is_an_error_and_writes_nothing() {
        let mut entries = Entries::new();
        let value = "v".repeat(1000);
        entries.item(&[&format!("SET k {value}")], 1_000_000);
        let keys = |entries: &Entries| (entries.handle.key_count(), entries.handle.expiring());
        let whole = format!("${}\r\n{value}\r\n", value.len());
        for refused in ["GETEX k EX 100", "GETDEL k", "GETSET k w", "SET k w GET", "KV.PUT k w RETURN"] {
            assert_eq!(entries.item(&[refused], 900), format!("-{ANSWER_TOO_LONG}\r\n"), "{refused}");
            assert_eq!(keys(&entries), (1, 0), "{refused}");
        }
        assert_eq!(entries.item(&["KV.PUT k w RETURN REQUEST c 1"], 900), format!("-{ANSWER_TOO_LONG}\r\n"));
        let exec = ["SET new 1", "EXPIRE new 100", "GET k", "GET k", "DEL k"];
        assert_eq!(entries.item(&exec, 1900), format!("-{TRANSACTION_TOO_LONG}\r\n"));
        assert_eq!(keys(&entries), (1, 0));
        assert_eq!(entries.item(&["GETEX k EX 100"], 1100), whole);
        assert_eq!(entries.item(&exec, 2100), format!("*5\r\n+OK\r\n:1\r\n{whole}{whole}:1\r\n"));
        assert_eq!(keys(&entries), (1, 1));
    }

    #[test]
    fn entries_of_format_1_are_evaluated_as_the_release_did_that_wrote_them() {
        let fields: Vec<String> = (0..300).map(|n| format!("f{n} v")).collect();
        let large = format!("HSET a {}", fields.join(" "));
        for (evaluation, row, garbage) in [(Evaluation::First, b'e', 1), (Evaluation::Second, b'f', 0)] {
            let entries = Entries::new();
            let mut space = EntrySpace::new(&entries.handle, 1, 1_000, evaluation);
            for line in [&large[..], "RENAME a b", "HSET b f7 w", "COPY b c"] {
                let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
                command(&mut space, &args, None, &mut Reply::default()).unwrap();
            }
            let records = ["b", "c"].map(|key| space.get(key.as_bytes()).unwrap().unwrap());
            let keyed = records.iter().all(|record| record.view().kind.layout == crate::Layout::KeyedRows);
            assert_eq!(keyed, evaluation == Evaluation::First);
            let written =
                |first: u8| space.writes().iter().filter(|(key, row)| key[0] == first && row.is_some()).count();
            assert_eq!((written(row), written(b'g')), (600 + 300 * garbage, garbage), "{evaluation:?}");
        }
    }

    #[test]
    fn what_a_log_holds_that_no_gate_lets_through_is_answered() {
        let mut entries = Entries::new();
        let long = "k".repeat(40_000);
        let refused = "-ERR key is too long (40000 bytes, 32000 are allowed)\r\n";
        assert_eq!(entries.item(&[&format!("SET {long} v")], 100), refused);
        assert_eq!(entries.item(&["SET a 1", &format!("COPY a {long}")], 100), format!("*2\r\n+OK\r\n{refused}"));
        assert!(entries.item(&["KEYS *"], 100).starts_with("-ERR "));
        assert!(entries.item(&["NOSUCH a"], 100).starts_with("-ERR unknown command"));
        assert_eq!(entries.handle.key_count(), 1);
    }
}
