//! One run of a script.

use super::calls::WORD_INSTRUCTIONS;
use super::context::{EngineVersion, ScriptContext};
use super::end::End;
use super::engine::{Compiled, Engine, may_run_at_once, text_of, with_used_again};
use super::host::ScriptHost;
use super::lent::Answers;
use super::meter::Meter;
use super::to_reply::ScriptAnswer;
use crate::command::{Error, Outcome, block_option};
use crate::request::{Refusal, check_patterns};
use crate::script_watch::{Running, RunningScript, ScriptWatch};
use crate::transfer_request::{number_word, transfer_request};
use crate::{Fault, Rules};
use mlua::Value;
use resp::table::{self, ChannelArgs, CommandSpec, Group, behaviour, flag};
use resp::{Reply, parse_integer};
use smallvec::SmallVec;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use vocab::limits::{
    ENTRY_REPLIES_BYTES_MAX, ITEM_REPLY_BYTES_MAX, SCRIPT_CALL_INSTRUCTIONS, SCRIPT_SLICE_INSTRUCTIONS_MAX,
    SCRIPT_SLICE_MEMORY_BYTES_MAX,
};
use vocab::{ClusterDatabase, Database, Namespace, slot_of};

const TOO_LONG: &str =
    "ERR the script ran more instructions than a script may (`script-instructions-max`): nothing was written";
const TOO_LARGE: &str =
    "ERR the script needed more memory than a script may (`script-memory-max`): nothing was written";
const ANSWER_TOO_LARGE: &str = "ERR a command of the script answered more than a script may take: nothing was written";
const KILLED: &str = "ERR Script killed by user with SCRIPT KILL.";
const FUNCTION_KILLED: &str = "ERR Script killed by user with FUNCTION KILL.";
const INVALID: &str = "ERR Invalid arguments specified for command";
const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
const READ_ONLY: &str = "ERR Write commands are not allowed from read-only scripts.";
const ANSWER_LEFT_OUT: &str =
    "ERR the script has run to its end, and what it wrote is written: its answer is longer than an answer may be";

/// Bytes of a name that are compared with a pattern for the price of one instruction.
const COMPARED_BYTES_PER_INSTRUCTION: usize = 4;
/// Bytes that replies may take in memory, with texts of scripts that count for nothing: those of engines before the seventh.
const REPLIES_BYTES_MAX: usize = 2 * ENTRY_REPLIES_BYTES_MAX;

/// What runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    /// The script, or a library.
    pub(crate) text: &'a [u8],
    /// Which function of the library.
    pub(crate) function: Option<&'a str>,
    /// Keys that it declares.
    pub(crate) keys: &'a [&'a [u8]],
    /// Its other arguments.
    pub(crate) argv: &'a [&'a [u8]],
    /// The words of its request.
    pub(crate) words: &'a [&'a [u8]],
}

/// What a run may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// It may write.
    Write,
    /// It may, and is a read as long as it does not: a command that writes ends the run with `Fault::Writes`.
    ReadFirst,
    /// It may not: the client has said so.
    Read,
}

/// Runs a script and writes its reply, an error of its own included. The error takes back what it has written.
pub(crate) fn run(
    source: &Source<'_>,
    context: &ScriptContext,
    rights: Rights,
    host: &mut dyn ScriptHost,
    reply: &mut Reply,
) -> Outcome {
    // A budget that refuses what a script does must do so on all replicas: there the state is new.
    let is_exact = rights == Rights::Write && !host.is_slice();
    if host.is_slice() && host.goes_on_elsewhere() && !may_run_at_once(context.engine) {
        return Err(host.refuse(TOO_LONG));
    }
    let watch = host.watch();
    let seen = watch.as_deref().filter(|_| !host.is_slice()).map(|watch| {
        let script = RunningScript::new(source.function, source.words, rights == Rights::Write, host.now_ms());
        watch.begin(script.in_turn(host.turn()))
    });
    let run = Run { context, rights, host, watch: watch.as_deref(), seen: seen.as_ref().map(Running::script) };
    let evaluate = |engine: &mut Engine| {
        let done = run.run(engine, source, reply);
        engine.meter.finish();
        done
    };
    let done = match is_exact {
        true => Engine::new(context.engine, false).map(|mut engine| evaluate(&mut engine)),
        false => with_used_again(context.engine, evaluate),
    };
    done.unwrap_or_else(|e| Err(fail(&e)))
}

/// There is no state for a script.
fn fail(error: &mlua::Error) -> Error {
    Error::Reply(format!("ERR no state for a script: {error}").into())
}

/// What is to be called; the error is the text of a reply. `goes_on_elsewhere`: a thread compiles what is long.
fn script_of(engine: &mut Engine, source: &Source<'_>, goes_on_elsewhere: bool) -> Result<Rc<Compiled>, String> {
    if goes_on_elsewhere && !engine.compiles_quickly(source.text) {
        return Err(TOO_LARGE.to_owned());
    }
    let Some(name) = source.function else { return engine.compile(source.text) };
    let loaded = engine.load(source.text)?;
    let found = loaded.find(name).map_err(|e| format!("ERR {}", text_of(&e)))?;
    let (info, function) = found.ok_or("ERR Function not found")?;
    Ok(Rc::new(Compiled { function, flags: info.script_flags(), sha: name.into() }))
}

struct Run<'a> {
    context: &'a ScriptContext,
    rights: Rights,
    host: &'a mut dyn ScriptHost,
    /// What is known of the scripts of this node.
    watch: Option<&'a ScriptWatch>,
    /// Where others see it.
    seen: Option<Arc<RunningScript>>,
}

impl Run<'_> {
    fn run(mut self, engine: &mut Engine, source: &Source<'_>, reply: &mut Reply) -> Outcome {
        let is_slice = self.host.is_slice();
        let budget = |own: u64, of_slice: u64| if is_slice { own.min(of_slice) } else { own };
        // The first engine asks only afterwards what an entry can afford.
        let instructions_max = match self.context.engine {
            EngineVersion::First => self.context.instructions_max,
            _ => self.context.instructions_max.min(self.host.instructions_left()),
        };
        let memory_bytes = budget(self.context.memory_bytes_max, SCRIPT_SLICE_MEMORY_BYTES_MAX);
        let memory_bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        engine.make_room(memory_bytes).map_err(|e| fail(&e))?;
        let instructions_max = budget(instructions_max, SCRIPT_SLICE_INSTRUCTIONS_MAX);
        engine.meter.begin(instructions_max, memory_bytes, self.context.engine);
        engine.count_anew().map_err(|e| fail(&e))?;
        if let Some(seen) = self.seen.take() {
            engine.meter.seen_as(seen);
        }
        let script = match script_of(engine, source, self.host.goes_on_elsewhere()) {
            Ok(script) => script,
            // It may want for memory, which a thread has.
            Err(_) if is_slice => return Err(self.host.refuse(TOO_LARGE)),
            Err(text) => return Err(self.unmade(&engine.meter, source, text)),
        };
        self.check_flags(&script)?;
        if self.host.goes_on_elsewhere() && self.watch.is_some_and(|watch| watch.is_long(&script.sha)) {
            return Err(self.host.refuse(TOO_LONG));
        }
        let rights = if script.flags.no_writes { Rights::Read } else { self.rights };
        engine.meter.seed(self.host.seed());
        let shared = RefCell::new(Shared { host: &mut *self.host, failed: None });
        let context = self.context;
        engine.meter.run_as(context.user.clone().map(|user| (user, context.database_number())));
        let caller = Caller {
            context,
            namespace: Cell::new(context.namespace),
            rights,
            meter: engine.meter.clone(),
            patterns: OnceCell::new(),
        };
        let done = engine.calls.lend(&Answering { caller: &caller, shared: &shared }, || {
            engine.run(&script.function, (source.keys, source.argv), source.function.is_some())
        });
        let failed = shared.into_inner().failed;
        engine.meter.run_as(None);
        if let Ok((false, failure)) = &done {
            // Lua tells no handler that memory is short.
            engine.meter.is_over(failure);
        }
        let (mut end, mut instructions) = (engine.meter.end(), engine.meter.instructions());
        let done = done.map(|(ok, value)| if ok { Ok(value) } else { Err(failure_text(&value, &script)) });
        // Functions of the script may have told what it has failed with. For engines before the seventh they count for nothing.
        if is_slice || context.engine >= EngineVersion::Seventh {
            (end, instructions) = (engine.meter.end(), engine.meter.instructions());
        }
        let passed = engine.meter.passed();
        engine.meter.finish();
        self.host.afford(instructions)?;
        if let Some(error) = failed {
            return Err(self.end(error));
        }
        let end = match end {
            // Where a stack has overflown, a new state decides how deep calls may be nested again.
            None if is_slice && engine.is_worn() => Some(End::Memory),
            // What a slice could not afford may have failed without a look at the budget: a thread finds out what it comes to.
            None if is_slice && passed.is_some() => Some(End::Instructions),
            None if context.engine >= EngineVersion::Seventh => passed,
            end => end,
        };
        self.judge(end, &script, source.function.is_some())?;
        match done {
            Ok(answer) => self.put(answer, &engine.meter, reply),
            Err(mlua::Error::MemoryError(_)) => Err(self.host.refuse(TOO_LARGE)),
            Err(error) => self.put(Err(format!("ERR {}", text_of(&error)).into_bytes()), &engine.meter, reply),
        }
    }

    /// What becomes of a run that ended so.
    fn judge(&mut self, end: Option<End>, script: &Compiled, is_function: bool) -> Outcome {
        let is_too_long = self.host.is_slice() && matches!(end, Some(End::Instructions | End::Memory));
        if let Some(watch) = self.watch.filter(|_| is_too_long) {
            watch.was_too_long(&script.sha);
        }
        self.refusal(end, is_function)
    }

    /// Why there is no script to run, where `text` says what is wrong with it. Compiling it may have been too much.
    fn unmade(&mut self, meter: &Meter, source: &Source<'_>, text: String) -> Error {
        let end = meter.end().or(meter.passed()).filter(|_| self.context.engine >= EngineVersion::Seventh);
        self.refusal(end, source.function.is_some()).err().unwrap_or_else(|| Error::Reply(text.into()))
    }

    /// What a client is told of a run that ended so.
    fn refusal(&mut self, end: Option<End>, is_function: bool) -> Outcome {
        Err(match end {
            Some(End::Instructions) => self.host.refuse(TOO_LONG),
            Some(End::Memory) => self.host.refuse(TOO_LARGE),
            Some(End::Killed) if is_function => FUNCTION_KILLED.into(),
            Some(End::Killed) => KILLED.into(),
            Some(End::GivesWay) => Fault::WouldBlock.into(),
            Some(End::Given) | None => return Ok(()),
        })
    }

    /// Writes what the script has returned, or the text of the error that it has failed with.
    fn put(&mut self, done: Result<Value, Vec<u8>>, meter: &Meter, reply: &mut Reply) -> Outcome {
        let is_slice = self.host.is_slice();
        let bytes_max = if is_slice { SCRIPT_SLICE_MEMORY_BYTES_MAX as usize } else { REPLIES_BYTES_MAX };
        let mut answer = ScriptAnswer::new(reply, self.context.engine, bytes_max);
        let put = match done {
            Ok(value) => answer.put(&value, meter),
            Err(text) => {
                answer.put_error(&text);
                Ok(())
            }
        };
        let is_whole = answer.is_whole();
        if put.is_err() {
            return Err(match meter.end() {
                Some(End::Instructions) => self.host.refuse(TOO_LONG),
                Some(End::Killed) => KILLED.into(),
                Some(End::GivesWay) => Fault::WouldBlock.into(),
                _ => self.host.refuse(TOO_LARGE),
            });
        }
        match is_whole {
            true => Ok(()),
            // A thread may make a longer one.
            false if is_slice => Err(self.host.refuse(TOO_LARGE)),
            false => {
                answer.replace(ANSWER_LEFT_OUT);
                Ok(())
            }
        }
    }

    fn check_flags(&self, script: &Compiled) -> Result<(), Error> {
        // A client of a database sees no cluster.
        if script.flags.no_cluster && !is_database(self.context.namespace) {
            return Err("ERR Can not run script on cluster, 'no-cluster' flag is set.".into());
        }
        if self.rights == Rights::Read && !script.flags.is_plain && !script.flags.no_writes {
            return Err("ERR Can not execute a script with write flag using *_ro command.".into());
        }
        Ok(())
    }

    fn end(&mut self, error: Failed) -> Error {
        match error {
            Failed::Fault(fault) => fault.into(),
            Failed::AnswerTooLarge => self.host.refuse(ANSWER_TOO_LARGE),
        }
    }
}

/// Why a command ends the whole run.
enum Failed {
    Fault(Fault),
    AnswerTooLarge,
}

/// What answers the commands of one run.
struct Caller<'a> {
    context: &'a ScriptContext,
    /// The namespace whose names the script uses: that of its client, until it chooses another.
    namespace: Cell<Option<Namespace>>,
    rights: Rights,
    meter: Rc<Meter>,
    /// How many patterns the rules of its user have.
    patterns: OnceCell<u64>,
}

/// What a run's commands share: what they run on, and what has ended the run.
struct Shared<'a, 'h> {
    host: &'a mut (dyn ScriptHost + 'h),
    failed: Option<Failed>,
}

/// A run that answers what its script asks.
struct Answering<'a, 's, 'h> {
    caller: &'a Caller<'a>,
    shared: &'a RefCell<Shared<'s, 'h>>,
}

impl Answers for Answering<'_, '_, '_> {
    /// What ends the run is noted, and raised.
    fn answer(&self, words: &[&[u8]], reply: &mut Reply) -> mlua::Result<()> {
        let mut shared = self.shared.try_borrow_mut().map_err(|_| mlua::Error::RecursiveMutCallback)?;
        let Shared { host, failed } = &mut *shared;
        let (caller, meter) = (self.caller, &self.caller.meter);
        let bytes: usize = words.iter().map(|word| word.len()).sum();
        let counts_first = caller.context.engine >= EngineVersion::Seventh;
        if counts_first {
            let of_words = words.len() as u64 * WORD_INSTRUCTIONS;
            meter.work(SCRIPT_CALL_INSTRUCTIONS + of_words + meter.instructions_of(bytes))?;
            caller.charge_rights(words, || table::find(words))?;
        }
        caller.command(words, *host, reply).map_err(|error| {
            *failed = Some(error);
            meter.stop(End::Given)
        })?;
        meter.work(match counts_first {
            true => meter.instructions_of(reply.buf.len()),
            false => SCRIPT_CALL_INSTRUCTIONS + meter.instructions_of(reply.buf.len() + bytes),
        })
    }

    fn may_run(&self, spec: &'static CommandSpec, words: &[&[u8]]) -> mlua::Result<bool> {
        let spec = self.caller.row(spec);
        self.caller.charge_rights(words, || Some(spec))?;
        Ok(self.caller.meter.denies(spec, words).is_none())
    }
}

impl Caller<'_> {
    /// A command's row, as the release has it whose engine the script runs by.
    fn row(&self, spec: &'static CommandSpec) -> &'static CommandSpec {
        if self.context.engine < EngineVersion::Seventh { table::earlier(spec) } else { spec }
    }

    /// Charges the run for a look at the rules of its user: what a command names is compared with each pattern of these. Engines before the
    /// seventh count nothing for it.
    fn charge_rights(&self, args: &[&[u8]], find: impl FnOnce() -> Option<&'static CommandSpec>) -> mlua::Result<()> {
        let Some(user) = self.context.user.as_ref().filter(|_| self.context.engine >= EngineVersion::Seventh) else {
            return Ok(());
        };
        let patterns = *self.patterns.get_or_init(|| pattern_count(&user.rights()));
        let of_pattern = find().map_or(0, |spec| comparisons(spec, args));
        self.meter.work(patterns.saturating_mul(of_pattern))
    }

    fn command(&self, args: &[&[u8]], host: &mut dyn ScriptHost, reply: &mut Reply) -> Result<(), Failed> {
        reply.proto = self.meter.proto();
        reply.limit(ITEM_REPLY_BYTES_MAX);
        let spec = match self.admit(args, host) {
            Ok(spec) => spec,
            Err(Refused::Writes { adds }) => return Err(Failed::Fault(Fault::Writes { adds })),
            Err(Refused::With(text)) => {
                reply.error(&text);
                return Ok(());
            }
        };
        let sent = (spec, args);
        match self.stored(spec, args) {
            Ok(None) => self.run(sent, sent, host, reply),
            Ok(Some((spec, words))) => {
                let args: SmallVec<[&[u8]; 8]> = words.iter().map(MadeWord::as_slice).collect();
                self.run((spec, &args[..]), sent, host, reply)
            }
            Err(text) => {
                reply.error(&text);
                Ok(())
            }
        }
    }

    /// Runs a command that is admitted, with keys under the names that are stored; monitors are shown what the script has `sent`.
    fn run(
        &self,
        (spec, args): Called<'_>,
        sent: Called<'_>,
        host: &mut dyn ScriptHost,
        reply: &mut Reply,
    ) -> Result<(), Failed> {
        let mut checked = self.check_keys(spec, args, host);
        if checked.is_ok() && spec.does(behaviour::MATCHES_PATTERNS) && host.rules() >= Rules::Fourth {
            checked = check_patterns(sent.0, sent.1).map_err(Into::into);
        }
        if checked.is_ok() && spec.has(flag::BLOCKING) && block_option(args).is_some() {
            let name = String::from_utf8_lossy(args[0]);
            checked = Err(format!("ERR {name} command is not allowed with BLOCK option from scripts"));
        }
        if checked.is_ok() && self.context.engine < EngineVersion::Third && names_last_entry(spec, args) {
            checked = Err("ERR Invalid stream ID specified as stream command argument".to_owned());
        }
        if let Err(text) = checked {
            reply.error(&text);
            return Ok(());
        }
        if spec.does(behaviour::CHOOSES_DATABASE) {
            match self.choose(args[1]) {
                Ok(()) => reply.ok(),
                Err(text) => reply.error(text),
            }
            host.note(self.database_number(), sent.0, sent.1);
            return Ok(());
        }
        host.note(self.database_number(), sent.0, sent.1);
        host.run(spec, args, reply).map_err(Failed::Fault)?;
        if reply.exceeded() { Err(Failed::AnswerTooLarge) } else { Ok(()) }
    }

    /// Has the script use the names of another database; only keys of its own shard can be reached there.
    fn choose(&self, number: &[u8]) -> Result<(), &'static str> {
        if !self.context.chooses {
            let number = parse_integer(number).ok_or(NOT_INTEGER)?;
            return if number == 0 { Ok(()) } else { Err("ERR SELECT is not allowed in cluster mode") };
        }
        let chosen = self.named(number)?;
        self.namespace.set(chosen);
        self.meter.choose_database(self.database_number());
        Ok(())
    }

    /// The number of the database that is chosen, as clients use it.
    fn database_number(&self) -> u16 {
        self.namespace.get().map_or(0, |chosen| self.context.databases.number_of(chosen))
    }

    /// The namespace of the database that a word names.
    fn named(&self, number: &[u8]) -> Result<Option<Namespace>, &'static str> {
        let ScriptContext { engine, databases, .. } = self.context;
        let number = u64::try_from(parse_integer(number).ok_or(NOT_INTEGER)?).ok();
        let number = number.filter(|number| *engine < EngineVersion::Third || *number < databases.count);
        let named = number.and_then(|number| match self.context.namespace {
            Some(Namespace::Database(_)) => {
                Database::of_number(number).map(|named| Some(Namespace::Database(databases.place_of(named))))
            }
            _ if number == 0 => Some(None),
            _ => ClusterDatabase::of_number(number).map(|named| Some(Namespace::Cluster(named))),
        });
        named.ok_or("ERR DB index is out of range")
    }

    /// What is run for MOVE or COPY that names a database; none: it is run as it is.
    fn transferred<'a>(
        &self,
        spec: &'static CommandSpec,
        args: &[&'a [u8]],
    ) -> Result<Option<MadeCommand<'a>>, Refusal> {
        let is_one = spec.does(behaviour::TO_DATABASE) && self.context.chooses;
        if !is_one || self.context.engine < EngineVersion::Third {
            return Ok(None);
        }
        let Some(to) = number_word(spec, args).map(|word| self.named(word)).transpose()? else { return Ok(None) };
        let made = transfer_request((self.namespace.get(), spec), to, args)?;
        Ok(made.map(|made| (made.spec, made.words.into_iter().map(MadeBytes::from_vec).map(MadeWord::Made).collect())))
    }

    /// Whether the script may run that command.
    fn admit(&self, args: &[&[u8]], host: &mut dyn ScriptHost) -> Result<&'static CommandSpec, Refused> {
        let spec = table::find(args).ok_or_else(|| match args.first().and_then(|name| table::lookup(name)) {
            Some(row)
                if !row.is_container() || args.get(1).is_some_and(|name| table::subcommand(row, name).is_some()) =>
            {
                "ERR Wrong number of args calling Redis command from script"
            }
            _ => "ERR Unknown Redis command called from script",
        });
        // Replicas of releases before find keys, and let scripts run what is for nodes, as their rows have it.
        let spec = self.row(spec.map_err(ToOwned::to_owned)?);
        if spec.has(flag::NOSCRIPT) {
            return Err("ERR This Redis command is not allowed from script".to_owned().into());
        }
        if let Some(denial) = self.meter.denies(spec, args) {
            host.denied(&denial, args);
            return Err(denial.text_in_script().into());
        }
        match self.rights {
            Rights::Read if writes(spec) => Err(READ_ONLY.to_owned().into()),
            Rights::ReadFirst if writes(spec) => Err(Refused::Writes { adds: spec.has(flag::DENYOOM) }),
            _ => Ok(spec),
        }
    }

    /// The command that is run, with keys under the names that are stored, where these differ from the script's.
    fn stored<'a>(&self, spec: &'static CommandSpec, args: &[&'a [u8]]) -> Result<Option<MadeCommand<'a>>, Refusal> {
        if let Some(made) = self.transferred(spec, args)? {
            return Ok(Some(made));
        }
        let Some(namespace) = self.namespace.get() else { return Ok(None) };
        if let Namespace::Database(database) = namespace
            && let Some(made) = of_database(spec, args, database)
        {
            return Ok(Some(made));
        }
        if !spec.has_keys() || spec.group == Group::PubSub {
            return Ok(None);
        }
        let mut stored: Vec<MadeWord<'a>> = args.iter().copied().map(MadeWord::Sent).collect();
        for at in spec.keys(args).map_err(|_| INVALID)? {
            crate::request::check_named_key(namespace, args[at])?;
            let mut key = MadeBytes::from_slice(&namespace.prefix(args[at]));
            key.extend_from_slice(args[at]);
            stored[at] = MadeWord::Made(key);
        }
        Ok(Some((spec, stored)))
    }

    /// Whether the keys of a command are short enough, and of the script's slot.
    fn check_keys(&self, spec: &CommandSpec, args: &[&[u8]], host: &mut dyn ScriptHost) -> Result<(), String> {
        crate::request::check(spec, args)?;
        let is_message = is_database(self.context.namespace) && spec.group == Group::PubSub;
        for at in spec.keys(args).map_err(|_| INVALID)? {
            let slot = slot_of(args[at]);
            let is_near = self.context.wider.is_some_and(|span| span.contains(slot));
            if !is_message && !is_near && !host.may_touch(slot, self.context.slot) {
                if self.context.engine >= EngineVersion::Third && is_database(self.context.namespace) {
                    return Err(
                        "ERR a script can use a database only if its shard has it too (`ctl database place`)".into()
                    );
                }
                return Err("ERR Script attempted to access a non local key in a cluster node".to_owned());
            }
        }
        Ok(())
    }
}

/// Whether that is a database of clients that see no cluster.
fn is_database(namespace: Option<Namespace>) -> bool {
    matches!(namespace, Some(Namespace::Database(_)))
}

/// Why a command of a script does not run.
enum Refused {
    /// For the text of the error.
    With(String),
    /// It writes, and the run is a read so far.
    Writes {
        /// And it may add data.
        adds: bool,
    },
}

impl From<String> for Refused {
    fn from(text: String) -> Self {
        Self::With(text)
    }
}

/// Whether a command is one of a script that writes.
fn writes(spec: &CommandSpec) -> bool {
    spec.is_write() || spec.has(flag::MAY_REPLICATE)
}

/// Whether it reads streams from their last entries on: an id is `+`.
fn names_last_entry(spec: &CommandSpec, args: &[&[u8]]) -> bool {
    let reads = spec.group == Group::Stream && spec.has(flag::BLOCKING) && !spec.is_write();
    let keys = if reads { spec.keys(args).map_or(0, |keys| keys.len()) } else { 0 };
    args[args.len() - keys..].contains(&&b"+"[..])
}

/// The command that a question about all keys of a database is, or FLUSHDB; none if it is another command.
fn of_database<'a>(spec: &CommandSpec, args: &[&'a [u8]], database: Database) -> Option<MadeCommand<'a>> {
    let is_asked = spec.does(behaviour::ASKS_DATABASE) && !spec.does(behaviour::IN_KEY_ORDER);
    let (name, given): (&'static [u8], &[&'a [u8]]) = if is_asked {
        (b"KV.KEYS", args)
    } else if spec.does(behaviour::EMPTIES_DATABASE) {
        (b"KV.EMPTY", &[])
    } else {
        return None;
    };
    let made = [MadeWord::Sent(name), MadeWord::Made(MadeBytes::from_slice(&database.prefix()))];
    Some((table::lookup(name)?, made.into_iter().chain(given.iter().copied().map(MadeWord::Sent)).collect()))
}

/// A command and its words.
type Called<'a> = (&'static CommandSpec, &'a [&'a [u8]]);

/// One word of a command that is run instead of that of a script. What a script passes is not copied: it may name one long text very often.
enum MadeWord<'a> {
    /// As the script has sent it.
    Sent(&'a [u8]),
    Made(MadeBytes),
}

impl MadeWord<'_> {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Sent(word) => word,
            Self::Made(word) => word,
        }
    }
}

/// The bytes of a word that is made.
type MadeBytes = SmallVec<[u8; 64]>;

/// A command that is run instead of that of a script.
type MadeCommand<'a> = (&'static CommandSpec, Vec<MadeWord<'a>>);

/// How many patterns of keys and channels the rules of a user have, in all selectors.
fn pattern_count(rights: &[u8]) -> u64 {
    let words = rights.split(|byte| *byte == b' ').map(|word| word.strip_prefix(b"(").unwrap_or(word));
    words.filter(|word| matches!(word, [b'~' | b'%' | b'&', ..])).count() as u64
}

/// For how many instructions it counts to compare what a command names with one pattern.
fn comparisons(spec: &CommandSpec, args: &[&[u8]]) -> u64 {
    let of_one = |name: &[u8]| 1 + (name.len() / COMPARED_BYTES_PER_INSTRUCTION) as u64;
    let keys: u64 = spec.keys(args).into_iter().flatten().map(|at| of_one(args[at])).sum();
    match spec.channels {
        ChannelArgs::None => keys,
        _ => keys + args.iter().skip(1).map(|channel| of_one(channel)).sum::<u64>(),
    }
}

/// What the client of a script that has failed is told.
fn failure_text(failure: &Value, script: &Compiled) -> Vec<u8> {
    let Value::Table(table) = failure else { return b"ERR execution failure".to_vec() };
    let field = |name: &str| match table.get::<Value>(name) {
        Ok(Value::String(text)) => Some(text.to_string_lossy()),
        Ok(Value::Integer(n)) => Some(n.to_string()),
        Ok(Value::Number(n)) => Some(n.to_string()),
        _ => None,
    };
    let mut text = field("err").unwrap_or_else(|| "(null)".to_owned());
    if let (Some(source), Some(line)) = (field("source"), field("line")) {
        text.push_str(&format!(" script: {}, on {source}:{line}.", script.sha));
    }
    crate::Outcome::chosen_text(text.into_bytes())
}
