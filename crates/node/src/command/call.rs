//! One command under way: its arguments, space and reply, its handler, and how it ends.

use super::cursors::ScanCursors;
pub use super::error::{Error, Outcome};
use super::steps::{Progress, Rest, StoreRest};
use crate::{Fault, ReadSpace, ShardHandle, ShardSpace, Shards, WriteSpace};
use resp::Reply;
use vocab::Slot;
use vocab::limits::ITEM_REPLY_BYTES_MAX;

/// One command under way on one shard. What the space is decides what the command can do: see `crate::space`.
pub struct Call<'a, S: ?Sized> {
    /// The request, `args[0]` being the command's name. Arity has been checked against the command table.
    pub args: &'a [&'a [u8]],
    /// The shard that owns the keys.
    pub space: &'a mut S,
    /// Where the reply goes; what stands there before is not this command's. On `Err` the caller takes back what
    /// the handler wrote and writes the error.
    pub reply: &'a mut Reply,
}

/// A command that reads the keys that it names. It cannot write:
///
/// ```compile_fail
/// use node::WriteSpace;
/// let _ = |call: &mut node::command::ReadCall<'_>| call.space.delete(b"key").is_ok();
/// ```
pub type ReadCall<'a> = Call<'a, dyn ReadSpace + 'a>;

/// A command that may write the keys that it names: it exists in an entry alone.
///
/// ```
/// use node::WriteSpace;
/// let _ = |call: &mut node::command::WriteCall<'_>| call.space.delete(b"key").is_ok();
/// ```
pub type WriteCall<'a> = Call<'a, dyn WriteSpace + 'a>;

/// A question to one shard about any of its keys.
pub type ShardCall<'a> = Call<'a, dyn ShardSpace + 'a>;

/// One command under way on the whole store (KV.RANGE, SCAN, KEYS, DBSIZE, RANDOMKEY).
pub struct StoreCall<'a> {
    /// As in `Call`.
    pub args: &'a [&'a [u8]],
    /// All shards.
    pub shards: &'a mut dyn Shards,
    /// Whether what is left of the reply is made as the client takes it: else the whole reply is in memory.
    pub streams: bool,
    /// Where the scans under way on this node stand.
    pub cursors: &'a ScanCursors,
    /// As in `Call`.
    pub reply: &'a mut Reply,
}

/// Runs a command that may write.
pub type WriteHandler = fn(&mut WriteCall<'_>) -> Outcome;

/// Begins a command that reads the keys that it names; what it does not write at once it leaves.
pub type StepHandler = fn(&mut ReadCall<'_>) -> Result<Rest, Error>;

/// Tells a slot from the arguments of a command.
type SlotOf = fn(&[&[u8]]) -> Option<Slot>;

/// Runs a command on the whole store.
#[derive(Clone, Copy, Debug)]
pub struct StoreHandler {
    run: StoreRun,
    /// The slot whose leader is to run it, where the arguments name one.
    slot: Option<SlotOf>,
    others: Others,
    walk: Option<Walk>,
}

/// How a command over the whole store walks through its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// To the end of a page. To find its beginning it may have to look at all.
    Page,
    /// To the last.
    Whole,
}

/// Whether a command over the whole store waits for the leaders of shards that other nodes lead.
#[derive(Clone, Copy, Debug)]
pub(super) enum Others {
    /// It does without those that are not there.
    NotAwaited,
    Awaited,
    /// It waits for them if this word is among its arguments.
    AwaitedWith(&'static str),
}

#[derive(Clone, Copy, Debug)]
enum StoreRun {
    Whole(fn(&mut StoreCall<'_>) -> Outcome),
    Steps(fn(&mut StoreCall<'_>) -> Result<StoreRest, Error>),
}

impl StoreHandler {
    /// Begins it; what it does not write at once it leaves.
    pub fn begin(self, call: &mut StoreCall<'_>) -> Result<StoreRest, Error> {
        match self.run {
            StoreRun::Whole(run) => run(call).map(|()| StoreRest::new()),
            StoreRun::Steps(begin) => begin(call),
        }
    }

    /// Runs it to its end.
    pub fn run(self, call: &mut StoreCall<'_>) -> Outcome {
        for mut part in self.begin(call)? {
            while !call.reply.exceeded() && part.steps.step(call.shards, call.reply)? == Progress::More {}
        }
        Ok(())
    }

    /// Whether it may wait for other nodes.
    #[must_use]
    pub fn awaits_others(self, args: &[&[u8]]) -> bool {
        match self.others {
            Others::NotAwaited => false,
            Others::Awaited => true,
            Others::AwaitedWith(word) => args.iter().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes())),
        }
    }

    /// How it walks through the keys of the store, if it does.
    #[must_use]
    pub fn walk(self) -> Option<Walk> {
        self.walk
    }

    /// The slot whose leader is to run it, where the arguments name one.
    #[must_use]
    pub fn slot(self, args: &[&[u8]]) -> Option<Slot> {
        self.slot?(args)
    }
}

/// Runs a command that writes nothing, on one shard: on any replica that may answer.
#[derive(Clone, Copy, Debug)]
pub enum ReadHandler {
    /// It reads the keys that it names.
    Keys(fn(&mut ReadCall<'_>) -> Outcome),
    /// The same, and its reply may be long.
    Steps(StepHandler),
    /// It may look at any key of the shard.
    Shard(fn(&mut ShardCall<'_>) -> Outcome),
}

impl ReadHandler {
    /// Runs it.
    #[inline]
    pub fn run(self, args: &[&[u8]], space: &mut dyn ShardSpace, reply: &mut Reply) -> Outcome {
        match self {
            Self::Keys(run) => bounded(reply, |reply| run(&mut Call { args, space, reply })),
            Self::Steps(begin) => run_to_end(begin, &mut Call { args, space, reply }),
            Self::Shard(run) => bounded(reply, |reply| run(&mut Call { args, space, reply })),
        }
    }
}

/// The error about a reply that would be too long to be in memory as a whole.
pub(super) const TOO_LONG: &str = "ERR the reply would take more than 128 MiB: ask for less at a time";
const _: () = assert!(ITEM_REPLY_BYTES_MAX == 128 << 20, "TOO_LONG says how many");

/// Runs what makes its reply at once, with a bound for it where it has none.
#[inline]
fn bounded(reply: &mut Reply, run: impl FnOnce(&mut Reply) -> Outcome) -> Outcome {
    if reply.is_limited() {
        return run(reply);
    }
    reply.limit(ITEM_REPLY_BYTES_MAX);
    let done = run(reply);
    let exceeded = reply.exceeded();
    reply.limit(usize::MAX);
    if exceeded { done.and(Err(TOO_LONG.into())) } else { done }
}

/// Runs a command to its end whose reply may be long.
pub(crate) fn run_to_end(begin: StepHandler, call: &mut ReadCall<'_>) -> Outcome {
    let Some(mut rest) = begin(call)? else { return Ok(()) };
    // Behind the bound of an answer nothing is kept: every replica stops at the same step.
    while !call.reply.exceeded() && rest.step(call.space, call.reply)? == Progress::More {}
    Ok(())
}

/// What runs a command over data.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// On one shard; it writes nothing.
    Read(ReadHandler),
    /// On one shard, in an entry.
    Write(WriteHandler),
    /// On one shard: in an entry if one of these words is among the arguments, and otherwise as a read.
    WriteIf(&'static [&'static str], WriteHandler, StepHandler),
    /// On the whole store.
    Store(StoreHandler),
    /// A script, on one shard: in an entry, or as a read.
    Script(ScriptCommand),
}

/// A command that runs a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptCommand {
    /// How the script is named.
    pub names: ScriptName,
    /// Whether it may write.
    pub writes: bool,
}

/// How a request names the script that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptName {
    /// By its source.
    Source,
    /// By its SHA1.
    Sha,
    /// By the name of a function.
    Function,
}

/// Tells a write's answer from its arguments, where nothing that the shard holds can change it.
pub(super) type KnownAnswer = fn(&[&[u8]]) -> Option<&'static [u8]>;

/// Of a command that writes a whole value which its arguments do not have: by how many bytes the arguments let it grow.
pub(super) type Growth = fn(&[&[u8]]) -> usize;

/// A row of a family: the name of a command in the command table, and what runs it.
#[derive(Clone, Copy)]
pub(crate) struct HandlerRow {
    pub(super) name: &'static str,
    pub(super) handler: Handler,
    pub(super) known_answer: Option<KnownAnswer>,
    pub(super) rewrites: Option<Growth>,
}

/// A command that reads the keys that it names.
pub(super) const fn read(name: &'static str, run: fn(&mut ReadCall<'_>) -> Outcome) -> HandlerRow {
    row(name, Handler::Read(ReadHandler::Keys(run)))
}

/// A command that reads the keys that it names, and whose reply may be long.
pub(super) const fn reads_in_steps(name: &'static str, begin: StepHandler) -> HandlerRow {
    row(name, Handler::Read(ReadHandler::Steps(begin)))
}

/// A question to one shard about any of its keys.
pub(crate) const fn shard(name: &'static str, run: fn(&mut ShardCall<'_>) -> Outcome) -> HandlerRow {
    row(name, Handler::Read(ReadHandler::Shard(run)))
}

/// A command that may write.
pub(super) const fn write(name: &'static str, run: WriteHandler) -> HandlerRow {
    row(name, Handler::Write(run))
}

/// A command that writes if one of these words is among its arguments, and whose reply may be long otherwise.
pub(super) const fn write_if(
    name: &'static str,
    words: &'static [&'static str],
    run: WriteHandler,
    begin: StepHandler,
) -> HandlerRow {
    row(name, Handler::WriteIf(words, run, begin))
}

/// A command that runs a script.
pub(super) const fn script(name: &'static str, names: ScriptName, writes: bool) -> HandlerRow {
    row(name, Handler::Script(ScriptCommand { names, writes }))
}

/// A command over the whole store.
pub(super) const fn store(name: &'static str, run: fn(&mut StoreCall<'_>) -> Outcome) -> HandlerRow {
    of_store(name, StoreRun::Whole(run), None)
}

/// A command over the whole store that the leader of a slot runs, where its arguments name one.
pub(super) const fn store_at(name: &'static str, run: fn(&mut StoreCall<'_>) -> Outcome, slot: SlotOf) -> HandlerRow {
    of_store(name, StoreRun::Whole(run), Some(slot))
}

/// The same, and its reply may be long.
pub(super) const fn store_in_steps(
    name: &'static str,
    begin: fn(&mut StoreCall<'_>) -> Result<StoreRest, Error>,
    slot: SlotOf,
) -> HandlerRow {
    of_store(name, StoreRun::Steps(begin), Some(slot))
}

const fn of_store(name: &'static str, run: StoreRun, slot: Option<SlotOf>) -> HandlerRow {
    row(name, Handler::Store(StoreHandler { run, slot, others: Others::NotAwaited, walk: None }))
}

const fn row(name: &'static str, handler: Handler) -> HandlerRow {
    HandlerRow { name, handler, known_answer: None, rewrites: None }
}

impl HandlerRow {
    /// The command over the whole store waits for the shards of other nodes, always or with a word.
    pub(super) const fn awaits(self, others: Others) -> Self {
        match self.handler {
            Handler::Store(StoreHandler { run, slot, walk, .. }) => {
                Self { handler: Handler::Store(StoreHandler { run, slot, others, walk }), ..self }
            }
            _ => self,
        }
    }

    /// The command over the whole store walks through its keys. It is to ask `Shards::is_abandoned` meanwhile.
    pub(super) const fn walks(self, walk: Walk) -> Self {
        match self.handler {
            Handler::Store(StoreHandler { run, slot, others, .. }) => {
                Self { handler: Handler::Store(StoreHandler { run, slot, others, walk: Some(walk) }), ..self }
            }
            _ => self,
        }
    }

    /// The write's answer may be known beforehand.
    pub(super) const fn answers(mut self, known: KnownAnswer) -> Self {
        self.known_answer = Some(known);
        self
    }

    /// The write stores the values of its keys anew, however long they are.
    pub(super) const fn rewrites(mut self, growth: Growth) -> Self {
        self.rewrites = Some(growth);
        self
    }
}

/// Turns a handler's failure into its reply, which begins at `mark`.
pub fn conclude(done: Outcome, reply: &mut Reply, mark: usize) {
    let text = match done {
        Ok(()) => return,
        Err(Error::Reply(text)) => text,
        Err(Error::Fault(Fault::Storage(e))) => {
            log::error!("{e}");
            format!("ERR {e}").into()
        }
        Err(Error::Fault(Fault::Remote(text))) => text.into(),
        Err(Error::Fault(Fault::Writes { .. })) => "ERR this script writes, and cannot be run as a read".into(),
        Err(Error::Fault(Fault::WouldBlock)) => "ERR this read would wait for the disk without end".into(),
    };
    reply.buf.truncate(mark);
    reply.error(&text);
}

/// Turns the failure of a command that ran on a replica into its reply. If the command met damage, the replica counts as
/// damaged from now on.
pub fn conclude_on(handle: &ShardHandle, done: Outcome, reply: &mut Reply, mark: usize) {
    if let Err(Error::Fault(Fault::Storage(e))) = &done {
        handle.damage().note(handle.id(), e);
    }
    conclude(done, reply, mark);
}
