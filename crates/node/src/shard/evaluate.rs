//! What the items of an entry do: deterministic, and bounded in what they answer.
//!
//! An item that is committed has an outcome on every replica: it writes, or it answers an error and writes nothing.
//! Only a replica whose own storage fails stops. What an item answers counts against the bound that `reply` has been
//! given, whether or not a client waits, so that all replicas refuse the same items. What it reads and writes counts likewise.
//!
//! On an event loop an entry that is more work than a loop should do at a time is given up (`Fault::WouldBlock`): nothing
//! of it has been written, and a thread evaluates it from the beginning.

use super::apply_error::ApplyError;
use super::proposer::Proposer;
use super::scripts::{self, Commands};
use super::ticket::Awaited;
use crate::awaited_keys::ReadyKey;
use crate::command::{
    Call, Error, Handler, Outcome, Progress, ReadCall, ReadHandler, ReplySteps, Rest, ScriptCommand, StepHandler,
    WriteHandler, entry_handler, handler, holds, run_to_end,
};
use crate::format::entry::{Args, Bounding, EncodedCommand, Item, Items, TOO_MANY_ARGUMENTS, decode};
use crate::keyspace_events::{EventClasses, KeyspaceEvent};
use crate::monitored_calls::MonitoredCalls;
use crate::outcome::KEYS_MAX_REACHED;
use crate::script::Rights;
use crate::script_message::ScriptMessage;
use crate::shard_handle::ShardHandle;
use crate::space::apply::{Collected, EntrySpace, Place};
use crate::tracking::Changes;
use crate::{Evaluation, Fault, ReadSpace, Record, WriteSpace, request};
use resp::table::{self, CommandId, CommandSpec, behaviour};
use resp::{Proto, Reply};
use vocab::limits::{
    APPLY_INLINE_ARGUMENTS_MAX, ENTRY_REPLIES_BYTES_MAX, ENTRY_WRITTEN_BYTES_MAX, ITEM_REPLY_BYTES_MAX, ITEM_ROWS_MAX,
    ITEM_TOUCHED_BYTES_MAX, LARGE_REQUEST_BYTES, STREAM_STEP_BYTES_SOFT, STREAM_STEP_ITEMS_MAX,
};

const NOT_OF_ENTRY: &str = "ERR this command cannot be part of an entry";
const ONLY_IN_ENTRY: &str = "ERR this command writes, and cannot be run as a read";
const TRANSACTION_TOO_LONG: &str =
    "ERR the answer would take more bytes than a transaction may answer: nothing was written";

/// The text of the refusal of an item whose answer passes its bound.
pub(crate) const ANSWER_TOO_LONG: &str =
    "ERR the answer would take more bytes than one request may answer: nothing was written";

/// The text of the refusal of an item that reads and writes more than one may.
const TOUCHES_TOO_MUCH: &str =
    "ERR the request reads or writes more than one may (4194304 rows, 1 GiB; 384 MiB written): nothing was written";

const _: () = assert!(ITEM_ROWS_MAX == 4_194_304 && ITEM_TOUCHED_BYTES_MAX == 1 << 30, "it says how much");
const _: () = assert!(ENTRY_WRITTEN_BYTES_MAX >> 20 == 384, "it says how much");

/// What the items of one entry may answer, in bytes: the same on every replica, whether or not clients wait there.
struct ReplyBounds {
    left: usize,
    of_item: usize,
}

impl ReplyBounds {
    /// Entries of format 1 had no bound.
    fn of_entry(evaluation: Evaluation) -> Self {
        match evaluation {
            Evaluation::First => Self { left: usize::MAX, of_item: usize::MAX },
            Evaluation::Second => Self { left: ENTRY_REPLIES_BYTES_MAX, of_item: ITEM_REPLY_BYTES_MAX },
        }
    }

    /// What the next item may answer.
    fn of_item(&self) -> usize {
        self.left.min(self.of_item)
    }

    /// An item has answered so many.
    fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }
}

/// What the items of an entry have come to.
#[derive(Default)]
pub(crate) struct Evaluated {
    /// The clock of the entry, in ms.
    pub(super) now_ms: u64,
    /// Where in the reply the answer of each item ends; of those for which no client waits, nothing is in it.
    pub(super) ends: Vec<usize>,
    /// Long answers that are not in the reply, by their items, in order: nothing of them is copied where they are sent.
    pub(super) long: Vec<(usize, Vec<u8>)>,
    /// What steps of background collection have left.
    pub(super) collected: Vec<Collected>,
    /// Keys that were written, and for which clients may wait.
    pub(super) ready: Vec<ReadyKey>,
    /// Which keys were changed, where clients are told of it.
    pub(super) changes: Changes,
    /// What it has read is registered for some of its clients.
    pub(super) registers: bool,
    /// What has happened to keys, where it is to be told.
    pub(super) events: Vec<KeyspaceEvent>,
    /// What its scripts have published, where this replica has proposed the entry.
    pub(super) messages: Vec<ScriptMessage>,
    /// What is told of the commands of its scripts, where this replica has proposed the entry.
    pub(super) calls: MonitoredCalls,
    /// The entry has removed all keys of the shard.
    pub(super) is_cleared: bool,
}

impl Evaluated {
    /// Takes long answers out of the reply if it has several, on a thread that has the time to copy them.
    pub(super) fn take_long_out(&mut self, reply: &mut Reply) {
        if self.ends.len() < 2 || reply.buf.len() <= LARGE_REQUEST_BYTES {
            return;
        }
        let (mut short, mut from) = (Vec::new(), 0);
        for (item, end) in self.ends.iter_mut().enumerate() {
            let answer = &reply.buf[from..*end];
            from = *end;
            if answer.len() > LARGE_REQUEST_BYTES {
                self.long.push((item, answer.to_vec()));
            } else {
                short.extend_from_slice(answer);
            }
            *end = short.len();
        }
        reply.buf = short;
    }

    /// The same of an entry's only item, whose answer is the whole reply: nothing is copied.
    pub(super) fn take_only_out(&mut self, reply: &mut Reply) {
        if let [end] = &mut self.ends[..]
            && *end > LARGE_REQUEST_BYTES
        {
            reply.buf.truncate(*end);
            self.long.push((0, std::mem::take(&mut reply.buf)));
            *end = 0;
        }
    }
}

/// Evaluates the items of an entry, none of which is alone in it, and makes them visible in the tree; `done` is what they
/// come to. `awaited` tells of each item for which a client may wait what is known of that client, if one does; `rows` has the
/// rows of the commands, as far as this replica has proposed them. On an event loop, `Fault::WouldBlock` says that a thread
/// is to do it.
pub(crate) fn items(
    handle: &ShardHandle,
    (index, now_ms): (u64, u64),
    items: &Items<'_>,
    (awaited, rows): (impl Iterator<Item = Option<Awaited>> + Clone, &[Option<CommandId>]),
    reply: &mut Reply,
    (place, proposer): (Place, Proposer),
    done: &mut Evaluated,
) -> Result<(), ApplyError> {
    let arguments_max = if place.is_event_loop() { APPLY_INLINE_ARGUMENTS_MAX } else { usize::MAX };
    let told = if proposer.is_here { handle.event_classes() } else { EventClasses::NONE };
    let mut takes_back = false;
    loop {
        let mut space = EntrySpace::at(place, handle, (index, now_ms), items.evaluation());
        space.take_back(takes_back);
        space.tell(told);
        if proposer.registers || handle.has_trackers() {
            space.note_changes();
        }
        if proposer.is_here {
            space.note_calls(handle.script_watch().is_some_and(|watch| watch.is_monitored()));
        }
        let within = items.clone().within(arguments_max);
        let ends = Vec::with_capacity(awaited.size_hint().0);
        *done = Evaluated { now_ms, ends, registers: proposer.registers, ..Evaluated::default() };
        match each_item(&mut space, within, (awaited.clone(), rows), reply, done) {
            // Taking back costs the others so much that it is done only where an item has to be.
            Err(ApplyError::Fault(Fault::WouldBlock)) if space.refuses_item() && !takes_back => takes_back = true,
            Err(error) => return Err(error),
            Ok(()) => {
                done.ready = ready_keys(&space, proposer.may_wait);
                done.events = space.take_events();
                done.changes = space.take_changes();
                if proposer.is_here {
                    done.messages = space.take_messages();
                    done.calls = space.take_calls();
                }
                space.commit();
                return Ok(());
            }
        }
    }
}

/// Whether an item says how those behind it are evaluated, which the space is told.
fn says_how(item: &Item<'_>, space: &mut EntrySpace<'_>) -> bool {
    match item {
        Item::Packing(packing) => space.set_packing(*packing),
        Item::KeyBounds(bounds) => space.bound_keys(bounds, Bounding::OfClients),
        Item::BoundsOfAll(bounds) => space.bound_keys(bounds, Bounding::OfAll),
        Item::Together => space.draw_together(),
        Item::GoingOn => space.draw_on(),
        Item::Rules(rules) => space.go_by(*rules),
        _ => return false,
    }
    true
}

fn each_item(
    space: &mut EntrySpace<'_>,
    items: Items<'_>,
    (mut awaited, mut rows): (impl Iterator<Item = Option<Awaited>>, &[Option<CommandId>]),
    reply: &mut Reply,
    done: &mut Evaluated,
) -> Result<(), ApplyError> {
    // What the items may still answer, in bytes: the same on every replica, whether or not clients wait there.
    let mut bounds = ReplyBounds::of_entry(items.evaluation());
    reply.buf.clear();
    for item in items {
        let item = match &item {
            Err(TOO_MANY_ARGUMENTS) => return Err(Fault::WouldBlock.into()),
            Err(detail) => return Err((*detail).into()),
            Ok(item) => item,
        };
        if says_how(item, space) {
            continue;
        }
        match item {
            Item::Housekeeping => {
                space.of_item(None);
                space.housekeep()?;
                continue;
            }
            Item::Collect(from) => {
                space.of_item(None);
                done.collected.push(space.collect(from)?);
                continue;
            }
            _ => {}
        }
        let awaited = awaited.next().flatten();
        let proto = awaited.map(|awaited| awaited.proto);
        reply.proto = proto.unwrap_or(Proto::Resp2);
        reply.discard(proto.is_none());
        reply.limit(bounds.of_item());
        space.of_item(Some(done.ends.len()));
        if awaited.is_some_and(|awaited| awaited.registers) {
            space.note_reads();
        }
        match item {
            Item::Command(args) => {
                let row = take_rows(&mut rows, 1).first().copied().flatten();
                command(space, args, row, reply)?;
            }
            Item::Transaction { watches, commands } => {
                let rows = take_rows(&mut rows, commands.len());
                transaction(space, watches, commands, rows, reply)?;
            }
            _ => return Err("an item that must be alone in its entry is not".into()),
        }
        bounds.spend(reply.spent());
        if proto.is_none() {
            reply.buf.truncate(done.ends.last().copied().unwrap_or_default());
        }
        done.ends.push(reply.buf.len());
    }
    Ok(())
}

/// The keys that were written and for which clients wait; all that were written, if a client `may_wait` soon.
fn ready_keys(space: &EntrySpace<'_>, may_wait: bool) -> Vec<ReadyKey> {
    let ready = |(key, record): (&[u8], Option<Record>)| {
        let is_there = record.is_some();
        let holds = record.and_then(|record| holds(key, &record));
        ReadyKey { key: key.to_vec(), is_other: is_there && holds.is_none(), holds }
    };
    let mut keys: Vec<ReadyKey> = space.awaited_keys().map(ready).collect();
    if may_wait {
        keys.extend(space.written_keys().map(ready));
    }
    keys
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
    Script(ScriptCommand),
}

/// What runs that command in an entry.
fn runs_of(spec: &CommandSpec) -> Result<Runs, Error> {
    Ok(match handler(spec) {
        Some(Handler::Read(ReadHandler::Keys(run))) => Runs::Read(run),
        Some(Handler::Read(ReadHandler::Steps(begin))) => Runs::Steps(begin),
        Some(Handler::Write(run) | Handler::WriteIf(_, run, _)) => Runs::Write(run),
        Some(Handler::Script(script)) => Runs::Script(script),
        Some(Handler::Read(ReadHandler::Shard(_)) | Handler::Store(_)) | None => return Err(NOT_OF_ENTRY.into()),
    })
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
    let runs = runs_of(spec)?;
    request::check_keys(spec, args).map_err(Error::Reply)?;
    Ok(Found { spec: Some(spec), runs })
}

/// Runs a handler in an entry; its errors are its reply. The error is a failure of this replica's storage.
fn run(runs: Runs, args: &[&[u8]], space: &mut dyn WriteSpace, reply: &mut Reply) -> Result<Ran, Fault> {
    if space.tells_misses() {
        tell_misses(args, space)?;
    }
    note_reads(runs, args, space);
    let mark = reply.buf.len();
    let done = match runs {
        Runs::Read(run) => run(&mut Call { args, space, reply }),
        Runs::Steps(begin) => run_to_end(begin, &mut Call { args, space, reply }),
        Runs::Write(run) => run(&mut Call { args, space, reply }),
        Runs::Script(script) => {
            let rights = if script.writes { Rights::Write } else { Rights::Read };
            scripts::run(script, rights, args, &mut Commands { space, run: run_nested }, reply)
        }
    };
    conclude(done, mark, reply)
}

/// Runs a command of a script in an entry.
fn run_nested(
    spec: &'static CommandSpec,
    args: &[&[u8]],
    space: &mut (dyn WriteSpace + '_),
    reply: &mut Reply,
) -> Result<(), Fault> {
    match runs_of(spec) {
        Ok(runs) => run(runs, args, space, reply).map(drop),
        Err(_) if scripts::publishes(spec) => scripts::publish(spec, args, space, reply),
        Err(_) => scripts::run_own(spec, args, space, reply),
    }
}

/// Runs a command of a script that is a read.
fn run_nested_read(
    spec: &'static CommandSpec,
    args: &[&[u8]],
    space: &mut (dyn ReadSpace + '_),
    reply: &mut Reply,
) -> Result<(), Fault> {
    match runs_of(spec) {
        Ok(runs) => run_read(runs, args, space, reply).map(drop),
        Err(_) => scripts::run_own(spec, args, space, reply),
    }
}

/// Runs a script that writes nothing, as a read. The arguments are those that an entry would have.
pub fn read_script(call: &mut ReadCall<'_>) -> Outcome {
    run_script(call, Rights::Read)
}

/// The same of one that may write: where it does, `Fault::Writes` says that it is to be an entry.
pub fn read_script_first(call: &mut ReadCall<'_>) -> Outcome {
    run_script(call, Rights::ReadFirst)
}

fn run_script(call: &mut ReadCall<'_>, rights: Rights) -> Outcome {
    let Some(Handler::Script(script)) = call.args.first().and_then(|name| table::lookup(name)).and_then(handler) else {
        return Err(NOT_OF_ENTRY.into());
    };
    scripts::run(script, rights, call.args, &mut Commands { space: call.space, run: run_nested_read }, call.reply)
}

/// Runs a handler outside of an entry: a command that may write is refused.
fn run_read(runs: Runs, args: &[&[u8]], space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Ran, Fault> {
    note_reads(runs, args, space);
    let mark = reply.buf.len();
    let done = match runs {
        Runs::Read(run) => run(&mut Call { args, space, reply }),
        Runs::Steps(begin) => run_to_end(begin, &mut Call { args, space, reply }),
        Runs::Write(_) => Err(ONLY_IN_ENTRY.into()),
        Runs::Script(script) if script.writes => Err(ONLY_IN_ENTRY.into()),
        Runs::Script(script) => {
            scripts::run(script, Rights::Read, args, &mut Commands { space, run: run_nested_read }, reply)
        }
    };
    conclude(done, mark, reply)
}

/// Notes the keys that a command is about to read, if its client is to be told of their changes. Of a script its own commands do so.
#[inline]
fn note_reads<S: ReadSpace + ?Sized>(runs: Runs, args: &[&[u8]], space: &mut S) {
    if matches!(runs, Runs::Read(_) | Runs::Steps(_)) && space.notes_reads() {
        let spec = table::find(args);
        let positions = spec.and_then(|spec| spec.keys(args).ok());
        positions.into_iter().flatten().for_each(|at| space.note_read(args[at]));
    }
}

/// Tells which keys are not there that a command in an entry is about to look up. Of a script its own commands do so.
#[cold]
fn tell_misses(args: &[&[u8]], space: &mut dyn WriteSpace) -> Result<(), Fault> {
    let Some(spec) = table::find(args).filter(|spec| !spec.does(behaviour::RUNS_SCRIPT)) else { return Ok(()) };
    for (at, flags) in spec.keys_and_flags(args).unwrap_or_default() {
        if spec.looks_up(args, flags) {
            space.tell_if_missing(args[at])?;
        }
    }
    Ok(())
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
pub(super) fn command(
    space: &mut EntrySpace<'_>,
    args: &[&[u8]],
    row: Option<CommandId>,
    reply: &mut Reply,
) -> Result<(), Fault> {
    let found = match find(args, row) {
        Ok(found) => found,
        Err(error) => return refuse(&error, reply),
    };
    space.begin_item();
    // A script that is refused has run for long: it is not run again.
    let takes_back = space.takes_back() || (matches!(found.runs, Runs::Script(_)) && !space.is_slice());
    if !takes_back {
        run(found.runs, args, space, reply)?;
        judge_keys(space, found.spec)?;
        let is_bounded =
            || found.spec.is_some_and(|spec| spec.answers_values(args) || matches!(found.runs, Runs::Script(_)));
        let is_refused = reply.exceeded() && is_bounded();
        // It may have written before it answered so much: the entry is evaluated again, and it is taken back.
        return if is_refused { space.refuse_item() } else { Ok(()) };
    }
    let mark = reply.buf.len();
    space.begin_attempt();
    let ran = run(found.runs, args, space, reply).and_then(|ran| judge_keys(space, found.spec).map(|()| ran));
    let refusal = refusal_of(&ran, space, reply, ANSWER_TOO_LONG);
    space.end_attempt(refusal.is_none() && matches!(ran, Ok(Ran::Well)));
    if let Some(text) = refusal {
        reply.buf.truncate(mark);
        reply.error(text);
        return Ok(());
    }
    ran.map(drop)
}

/// Refuses a command that has left a database with more keys than it may have. What nodes make of a client's command that goes in slices is
/// judged where the entry says so: an earlier release, which may have a replica, does not.
fn judge_keys(space: &mut EntrySpace<'_>, spec: Option<&CommandSpec>) -> Result<(), Fault> {
    let is_judged = spec.is_some() || space.bounds_all();
    if is_judged { space.judge_keys(KEYS_MAX_REACHED) } else { Ok(()) }
}

/// Why an item that has run is taken back, if it is; `too_long` is the text about its answer.
fn refusal_of<T>(
    ran: &Result<T, Fault>,
    space: &EntrySpace<'_>,
    reply: &Reply,
    too_long: &'static str,
) -> Option<&'static str> {
    match ran {
        Ok(_) => reply.exceeded().then_some(too_long),
        Err(Fault::WouldBlock) => space.refuses_item().then(|| space.refusal().unwrap_or(TOUCHES_TOO_MUCH)),
        Err(_) => None,
    }
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
pub(super) fn transaction(
    space: &mut EntrySpace<'_>,
    watches: &[(&[u8], u64)],
    commands: &[Args<'_>],
    rows: &[Option<CommandId>],
    reply: &mut Reply,
) -> Result<(), Fault> {
    let mark = reply.buf.len();
    space.begin_item();
    space.begin_attempt();
    let done = all(space, watches, commands, rows, reply, |runs, args, space, reply| run(runs, args, space, reply))
        .and_then(|()| space.judge_keys(KEYS_MAX_REACHED));
    let refusal = refusal_of(&done, space, reply, TRANSACTION_TOO_LONG);
    space.end_attempt(refusal.is_none() && done.is_ok());
    if let Some(text) = refusal {
        reply.buf.truncate(mark);
        reply.error(text);
        return Ok(());
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
    use crate::format::internal_commands::STAGE;
    use crate::format::key_bound::KeyBound;
    use crate::space::apply::LoopBudget;
    use crate::test_shard::empty_shard;
    use crate::{CollectionCopy, EntryBuilder, Pops, Rules, ShardHandle, SnapshotSpace, StagedAt};
    use std::sync::Arc;
    use vocab::limits::VALUE_BYTES_MAX;
    use vocab::{Database, Namespace, ShardId};

    struct Entries {
        handle: Arc<ShardHandle>,
        index: u64,
        _folder: tempfile::TempDir,
    }

    impl Entries {
        fn new() -> Self {
            let (handle, folder) = empty_shard(ShardId(1));
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
                space.take_back(true);
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

    /// The answers to the items of an entry, or that another thread is to evaluate it.
    fn entry(handle: &ShardHandle, index: u64, lines: &[&str], place: Place) -> Result<String, ApplyError> {
        entry_of(EntryBuilder::new(), handle, index, lines, place)
    }

    /// A key as it is stored: what begins with @ is one of database 3.
    fn stored(word: &str) -> Vec<u8> {
        match word.strip_prefix('@') {
            Some(name) => Namespace::Database(Database::of_number(3).unwrap()).stored(name.as_bytes()),
            None => word.as_bytes().to_vec(),
        }
    }

    /// The same of an entry that begins so.
    fn entry_of(
        mut builder: EntryBuilder,
        handle: &ShardHandle,
        index: u64,
        lines: &[&str],
        place: Place,
    ) -> Result<String, ApplyError> {
        for line in lines {
            let words: Vec<Vec<u8>> = line.split(' ').map(stored).collect();
            builder.command(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        let data = builder.seal(1_000);
        let (now_ms, found) = decode(&data).unwrap();
        let mut reply = Reply::default();
        let clients = (lines.iter().map(|_| Some(Awaited { proto: Proto::Resp2, registers: false })), &[][..]);
        let (how, mut done) = ((place, Proposer::default()), Evaluated::default());
        items(handle, (index, now_ms), &found, clients, &mut reply, how, &mut done)?;
        Ok(String::from_utf8_lossy(&reply.buf).into_owned())
    }

    #[test]
    fn members_that_are_popped_together_are_the_same_everywhere_and_come_once() {
        const MEMBERS: usize = 3000;
        let all: Vec<String> = (0..MEMBERS).map(|n| format!("m{n}")).collect();
        let last = VALUE_BYTES_MAX * 8 - 1;
        let too_much = format!("EXISTS {}", ["long"; 20].join(" "));
        let popping = |refused: bool| {
            let (mut lines, mut adds) = (Vec::new(), 0);
            for round in 0..18 {
                lines.extend(["SPOP s"; 7].map(str::to_owned));
                lines.push(format!("SREM s m{round}"));
                if round % 9 == 4 {
                    lines.push(format!("SADD s new{round}"));
                    adds += 1;
                }
                if refused && round % 20 == 3 {
                    lines.push(too_much.clone());
                }
            }
            (lines, adds)
        };
        let run = |place: Place, refused: bool| {
            let entries = Entries::new();
            let handle = &entries.handle;
            let fill = [format!("SADD s {}", all.join(" ")), format!("SETBIT long {last} 1")];
            let (lines, adds) = popping(refused);
            for (index, line) in (1..).zip(&fill) {
                entry(handle, index, &[line], Place::Aside).unwrap();
            }
            let mut together = EntryBuilder::new();
            together.pop(Pops::Together);
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let answers = entry_of(together, handle, 3, &lines, place).unwrap();
            let left = entry(handle, 4, &["SCARD s", "SMEMBERS s"], Place::Aside).unwrap();
            let popped: Vec<&str> = answers.lines().filter(|line| line.starts_with(['m', 'n'])).collect();
            let distinct: std::collections::BTreeSet<&str> = popped.iter().copied().collect();
            assert_eq!((popped.len(), distinct.len()), (126, 126), "each is popped once");
            assert!(left.lines().all(|member| !distinct.contains(member)), "what was popped is gone");
            let removed = answers.lines().filter(|line| *line == ":1").count() - adds;
            assert!(left.starts_with(&format!(":{}\r\n", MEMBERS + adds - 126 - removed)), "the count is right");
            (answers, left)
        };
        assert_eq!(run(Place::EventLoop(LoopBudget::default()), false), run(Place::Aside, false));
        // Of an item that is refused, members that it has popped are there again.
        assert_eq!(run(Place::Aside, true), run(Place::Aside, true));
    }

    /// Commands of one entry: mostly pops of a large set and of another one, and what changes them beside.
    fn popping_entry(prng: &mut vocab::Prng, too_much: &str) -> Vec<String> {
        let member = |prng: &mut vocab::Prng| format!("m{}", prng.below(6000));
        (0..1 + prng.below(40))
            .map(|_| match prng.below(60) {
                0 => format!("SADD s {}", member(prng)),
                1 => format!("SREM s {}", member(prng)),
                2 => "SPOP other".to_owned(),
                3 if prng.below(4) == 0 => too_much.to_owned(),
                4 => format!("SADD other {}", member(prng)),
                5 if prng.below(12) == 0 => "SPOP s 9".to_owned(),
                _ => "SPOP s".to_owned(),
            })
            .collect()
    }

    #[test]
    fn pops_that_go_on_are_the_same_whether_or_not_a_replica_has_kept_the_names() {
        let last = VALUE_BYTES_MAX * 8 - 1;
        let too_much = format!("EXISTS {}", ["long"; 20].join(" "));
        let add = |key: &str, count: usize| {
            format!("SADD {key} {}", (0..count).map(|n| format!("m{n}")).collect::<Vec<_>>().join(" "))
        };
        let fill = [add("s", 3000), add("other", 500), format!("SETBIT long {last} 1")];
        for seed in 0..12 {
            let (keeps, forgets) = (Entries::new(), Entries::new());
            let mut prng = vocab::Prng::new(seed);
            let (mut index, mut kept) = (0, 0);
            let mut both = |lines: &[&str], how: Pops, prng: &mut vocab::Prng| {
                index += 1;
                let places = [Place::Aside, Place::EventLoop(LoopBudget::default())];
                let [one, other] = [&keeps, &forgets].map(|entries| {
                    let builder = || {
                        let mut builder = EntryBuilder::new();
                        builder.pop(how);
                        builder
                    };
                    let place = places[prng.below(2) as usize];
                    entry_of(builder(), &entries.handle, index, lines, place)
                        .or_else(|_| entry_of(builder(), &entries.handle, index, lines, Place::Aside))
                        .unwrap()
                });
                assert_eq!(one, other, "seed {seed}, entry {index}");
                kept += usize::from(keeps.handle.kept_stretch().take().is_some_and(|stretch| {
                    keeps.handle.kept_stretch().keep(stretch);
                    true
                }));
                forgets.handle.kept_stretch().forget();
                one
            };
            fill.iter().for_each(|line| _ = both(&[line], Pops::Alone, &mut prng));
            for _ in 0..150 {
                let lines = popping_entry(&mut prng, &too_much);
                let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                let how = [Pops::GoingOn, Pops::GoingOn, Pops::GoingOn, Pops::Together][prng.below(4) as usize];
                both(&lines, how, &mut prng);
            }
            let left = both(&["SCARD s", "SMEMBERS s", "SCARD other", "SMEMBERS other"], Pops::Alone, &mut prng);
            assert!(left.len() > 20 && kept > 50, "{kept}");
            let rows = |entries: &Entries| {
                let all = storage::Span { start: Vec::new(), end: Vec::new() };
                entries.handle.engine().snapshot().iter(all, false).collect::<Result<Vec<_>, _>>().unwrap()
            };
            assert_eq!(rows(&keeps), rows(&forgets));
        }
    }

    /// A command about one of two strings, which may be long.
    fn string_command(prng: &mut vocab::Prng) -> String {
        let length = 140_000;
        let (at, other) = (prng.below(length), prng.below(length));
        let near = at + prng.below(9_000);
        let text = |prng: &mut vocab::Prng, most: u64| {
            let letter = [b'a' + prng.below(26) as u8, 0][usize::from(prng.below(4) == 0)];
            String::from_utf8(vec![letter; 1 + prng.below(most) as usize]).unwrap()
        };
        let key = ["a", "b", "a", "a", "small"][prng.below(5) as usize];
        match prng.below(24) {
            0..3 => format!("SETBIT {key} {} {}", at * 8 + prng.below(8), prng.below(2)),
            3..6 => format!("SETRANGE {key} {at} {}", text(prng, 9_000)),
            6 => format!("APPEND {key} {}", text(prng, 5_000)),
            7 => format!(
                "BITFIELD {key} SET u8 #{at} 7 INCRBY i16 {} 300 GET u13 {other} SET u4 {} 9",
                at * 8,
                other * 8
            ),
            8 => format!("BITFIELD {key} GET u8 {at} OVERFLOW FAIL INCRBY u2 #{other} 3 GET i64 #{}", at / 64),
            9 => format!("GETBIT {key} {at}"),
            10..12 => format!("GETRANGE {key} {at} {near}"),
            12 => format!("GETRANGE {key} -{near} -{}", at / 2),
            13 => format!("BITCOUNT {key} {at} {near} BIT"),
            14 => format!("BITPOS {key} {} {} -1", prng.below(2), at / 3),
            15 => format!("BITCOUNT {key}"),
            16 => format!("BITFIELD_RO {key} GET u7 {at} GET i33 {other}"),
            17 => ["COPY a b REPLACE", "RENAME b a", "COPY b small REPLACE", "RENAME a b"][prng.below(4) as usize]
                .to_owned(),
            18 => format!("EXPIRE {key} {}", 1_000 + prng.below(50)),
            19 => ["PERSIST a", "GETEX a PERSIST", "GETEX b EX 700", "TTL a"][prng.below(4) as usize].to_owned(),
            20 => ["HGET a f", "STRLEN a", "TYPE b", "EXISTS a b", "OBJECT ENCODING a", "GETDEL b"]
                [prng.below(6) as usize]
                .to_owned(),
            21 => ["GET a", "MGET a b", "DIGEST a", "BITOP NOT b a", "SET a x KEEPTTL XX GET"][prng.below(5) as usize]
                .to_owned(),
            22 if prng.below(4) == 0 => format!("SET {key} {}", text(prng, 70_000)),
            23 if prng.below(6) == 0 => format!("DEL {key}"),
            _ => format!("STRLEN {key}"),
        }
    }

    #[test]
    fn a_string_in_pieces_is_to_every_command_what_a_whole_one_is() {
        let mut in_pieces = 0;
        let shown =
            |lines: &[&str]| format!("{:?}", lines.iter().map(|line| &line[..line.len().min(60)]).collect::<Vec<_>>());
        for seed in 0..30 {
            let (pieces, whole) = (Entries::new(), Entries::new());
            let mut prng = vocab::Prng::new(seed);
            for index in 1..120 {
                let lines: Vec<String> = (0..1 + prng.below(6)).map(|_| string_command(&mut prng)).collect();
                let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                // An entry of a leader that does not know whether all replicas keep pieces does not say so.
                let keeps = prng.below(8) > 0;
                let place = [Place::Aside, Place::EventLoop(LoopBudget::default())][prng.below(2) as usize];
                let builder = |keeps: bool| {
                    let mut builder = EntryBuilder::new();
                    if keeps {
                        builder.go_by(Rules::Pieces);
                    }
                    builder
                };
                let one = entry_of(builder(keeps), &pieces.handle, index, &lines, place)
                    .or_else(|_| entry_of(builder(keeps), &pieces.handle, index, &lines, Place::Aside))
                    .unwrap();
                let other = entry_of(builder(false), &whole.handle, index, &lines, Place::Aside).unwrap();
                let first =
                    one.bytes().zip(other.bytes()).position(|(a, b)| a != b).unwrap_or(one.len().min(other.len()));
                let around = |text: &str| {
                    String::from_utf8_lossy(&text.as_bytes()[first.saturating_sub(20)..(first + 20).min(text.len())])
                        .into_owned()
                };
                assert!(
                    one == other,
                    "seed {seed}, entry {index}: {}: {:?}, {:?}",
                    shown(&lines),
                    around(&one),
                    around(&other)
                );
                let kept = |key: &[u8]| {
                    let record = SnapshotSpace::new(&pieces.handle, 1_000, 1).stored(key).unwrap();
                    record.is_some_and(|record| record.view().kind.is_large())
                };
                in_pieces += u32::from(kept(b"a"));
                let dumped = |entries: &Entries| {
                    let space = SnapshotSpace::new(&entries.handle, 1_000, 1);
                    let mut records = space.live_records(b"", b"", false);
                    let mut found = Vec::new();
                    while let Some(key) = records.advance().unwrap() {
                        found.extend(records.record().unwrap().map(|record| (key.to_vec(), record.bytes().to_vec())));
                    }
                    found
                };
                assert!(dumped(&pieces) == dumped(&whole), "seed {seed}, entry {index}: {}", shown(&lines));
            }
            // What is gone leaves no rows.
            entry(&pieces.handle, 200, &["DEL a b small"], Place::Aside).unwrap();
            let all = storage::Span { start: Vec::new(), end: Vec::new() };
            let left = pieces.handle.engine().snapshot().iter(all, false).count();
            assert_eq!(left, 0, "seed {seed}");
        }
        assert!(in_pieces > 1_000, "{in_pieces}");
    }

    #[test]
    fn an_item_that_touches_too_much_is_refused_and_the_others_of_its_entry_are_not() {
        let entries = Entries::new();
        let last = VALUE_BYTES_MAX * 8 - 1;
        entry(&entries.handle, 1, &[&format!("SETBIT k {last} 1")], Place::Aside).unwrap();
        let all = format!("EXISTS {}", ["k"; 20].join(" "));
        let refused = format!("-{TOUCHES_TOO_MUCH}\r\n");
        let lines = ["SET a 1", &all, "SET b 2", &all, "INCR a"];
        assert!(matches!(
            entry(&entries.handle, 2, &lines, Place::EventLoop(LoopBudget::default())),
            Err(ApplyError::Fault(Fault::WouldBlock))
        ));
        assert_eq!(entries.handle.key_count(), 1, "what is given up has written nothing");
        let answers = entry(&entries.handle, 2, &lines, Place::Aside).unwrap();
        assert_eq!(answers, format!("+OK\r\n{refused}+OK\r\n{refused}:2\r\n"));
        assert_eq!(entries.handle.key_count(), 3);
        // What an entry writes is in memory together: seven times 64 MiB is too much, and six are not.
        let grow: Vec<String> = (0..7).map(|n| format!("SETBIT s{n} {last} 1")).collect();
        let grow: Vec<&str> = grow.iter().map(String::as_str).collect();
        let answers = entry(&entries.handle, 3, &grow, Place::Aside).unwrap();
        assert!(answers.starts_with(":0\r\n") && answers.ends_with(&refused), "{answers}");
        // One string is read, copied and in memory once, whether or not it changes.
        let clear = format!("SETBIT s0 {} 0", last - 8);
        let mixed = [grow[0], &clear, "SETBIT s0 8 1", &clear].repeat(25);
        for (index, lines) in [(4, &[grow[0]; 100][..]), (5, &mixed)] {
            let answers = entry(&entries.handle, index, lines, Place::Aside).unwrap();
            assert!(!answers.contains('-'), "{answers}");
        }
    }

    #[test]
    fn entries_of_format_1_are_evaluated_as_the_release_did_that_wrote_them() {
        let fields: Vec<String> = (0..300).map(|n| format!("f{n} v")).collect();
        // Keys of one slot: between slots, the rows of a hash with an id are copied too.
        let large = format!("HSET a{{s}} {}", fields.join(" "));
        for (evaluation, row, garbage) in [(Evaluation::First, b'e', 1), (Evaluation::Second, b'f', 0)] {
            let entries = Entries::new();
            let mut space = EntrySpace::new(&entries.handle, 1, 1_000, evaluation);
            for line in [&large[..], "RENAME a{s} b{s}", "HSET b{s} f7 w", "COPY b{s} c{s}"] {
                let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
                command(&mut space, &args, None, &mut Reply::default()).unwrap();
            }
            let records = ["b{s}", "c{s}"].map(|key| space.get(key.as_bytes()).unwrap().unwrap());
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

    #[test]
    fn what_would_leave_a_database_with_too_many_keys_writes_nothing() {
        let entries = Entries::new();
        let (handle, slot) = (&entries.handle, Database::of_number(3).unwrap().slot());
        let bounded = || {
            let mut builder = EntryBuilder::new();
            builder.bound_keys(&[KeyBound { slot, keys_max: 3 }], Bounding::OfClients);
            builder
        };
        // The items of an entry, and their answers.
        for (at, (lines, answers)) in [
            (
                &["SET @a 1", "SET @b 1", "SET @c 1", "SET @d 1", "SET @a 2", "SET plain 1"][..],
                "+OK +OK +OK OOM +OK +OK ",
            ),
            (&["DEL @a", "MSET @x 1 @y 2", "SET @x 1", "SET @y 1"], ":1 OOM +OK OOM "),
            (&["RENAME @b @z", "COPY @z @copy", "SET @copy 1", "EXISTS @copy"], "+OK OOM OOM :0 "),
            (&["DEL @z @c @x", "SET @a 1", "DEL @a", "MSET @a 1 @b 1 @c 1", "APPEND @d 1"], ":3 +OK :1 +OK OOM "),
        ]
        .into_iter()
        .enumerate()
        {
            let index = 2 * at as u64 + 1;
            let on_loop = entry_of(bounded(), handle, index, lines, Place::EventLoop(LoopBudget::default()));
            assert!(matches!(on_loop, Err(ApplyError::Fault(Fault::WouldBlock))), "a thread takes back");
            let answer = entry_of(bounded(), handle, index, lines, Place::Aside).unwrap();
            let shown = answer.replace(&format!("-{KEYS_MAX_REACHED}\r\n"), "OOM ").replace("\r\n", " ");
            assert_eq!((shown.as_str(), handle.database_keys_in_slot(slot)), (answers, 3), "{lines:?}");
        }
        let mut transaction = bounded();
        let commands = [&["DEL", "@a"][..], &["MSET", "@x", "1", "@y", "1"]].map(|words| {
            let words: Vec<Vec<u8>> = words.iter().map(|word| stored(word)).collect();
            EncodedCommand::new(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())
        });
        transaction.transaction(&[], &commands);
        let answer = entry_of(transaction, handle, 9, &["EXISTS @a"], Place::Aside).unwrap();
        assert_eq!(answer, format!("-{KEYS_MAX_REACHED}\r\n"), "all of it");
        assert_eq!(entry(handle, 10, &["EXISTS @a @x @y", "SET @more 1"], Place::Aside).unwrap(), ":1\r\n+OK\r\n");
        assert_eq!(handle.database_keys_in_slot(slot), 4, "an entry without a bound goes by none");
        assert_eq!(
            entry_of(bounded(), handle, 11, &["SET @a 2", "DEL @b", "SET @b 1"], Place::Aside).unwrap(),
            format!("+OK\r\n:1\r\n-{KEYS_MAX_REACHED}\r\n"),
            "above the bound nothing is added"
        );
    }

    /// Also what a node brings in slices, by commands that no client sends: where the entry says so, as an earlier release does not judge it.
    #[test]
    fn what_is_brought_in_slices_leaves_no_database_with_too_many_keys() {
        let entries = Entries::new();
        let (handle, slot) = (&entries.handle, Database::of_number(3).unwrap().slot());
        let mut index = 0;
        let mut run = |of: Bounding, commands: &[EncodedCommand]| {
            index += 1;
            let mut builder = EntryBuilder::new();
            commands.iter().for_each(|command| builder.encoded_command(command));
            builder.bound_keys(&[KeyBound { slot, keys_max: 1 }], of);
            let data = builder.seal(1_000);
            let (now_ms, found) = decode(&data).unwrap();
            let clients = commands.iter().map(|_| Some(Awaited { proto: Proto::Resp2, registers: false }));
            let (mut reply, mut done) = (Reply::default(), Evaluated::default());
            let how = (Place::Aside, Proposer::default());
            items(handle, (index, now_ms), &found, (clients, &[][..]), &mut reply, how, &mut done).unwrap();
            (reply.buf, handle.database_keys_in_slot(slot))
        };
        let (first, second) = (stored("@first"), stored("@second"));
        let mut make = |to: &[u8], of: Bounding| {
            let place = StagedAt::of_answer(&run(of, &[CollectionCopy::first(to)]).0).unwrap();
            let until = place.until_ms().to_string();
            let rows = [STAGE, b"ROWS", to, place.prefix(), until.as_bytes(), b"field", b"value"];
            assert_eq!(run(of, &[EncodedCommand::new(&rows)]).0, b"+OK\r\n");
            let end = [STAGE, b"END", to, place.prefix(), until.as_bytes(), b"1", b"0", b"ANY"];
            let made = run(of, &[EncodedCommand::new(&end)]);
            let dropped = run(of, &[place.dropped(to)]);
            (String::from_utf8(made.0).unwrap(), made.1, dropped.0.starts_with(b"+OK"))
        };
        let refused = format!("-{KEYS_MAX_REACHED}\r\n");
        assert_eq!(make(&first, Bounding::OfAll), (":1\r\n".to_owned(), 1, false));
        assert_eq!(make(&second, Bounding::OfAll), (refused, 1, true), "it may still be dropped");
        assert_eq!(make(&first, Bounding::OfAll), (":1\r\n".to_owned(), 1, false), "in the place of what is there");
        assert_eq!(make(&second, Bounding::OfClients), (":1\r\n".to_owned(), 2, false), "as the entry says");
    }
}
