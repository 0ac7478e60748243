//! Scripts on a space: what a command that runs one gives `crate::script`, and what its commands run on.

use crate::acl::{Denial, User};
use crate::command::{Error, Outcome, ScriptCommand, ScriptName};
use crate::script::{self, EngineVersion, Rights, ScriptContext, ScriptDatabases, ScriptHost, Source};
use crate::script_message::ScriptMessage;
use crate::script_turn::ScriptTurn;
use crate::script_watch::ScriptWatch;
use crate::stats::EndedCall;
use crate::{EncodedCommand, Fault, ReadSpace, Rules, WriteSpace};
use resp::table::{self, CommandSpec, flag};
use resp::{Reply, parse_integer};
use std::sync::{Arc, LazyLock};
use vocab::limits::{CHANNEL_BYTES_MAX, SCRIPT_INSTRUCTION_COST, SCRIPT_INSTRUCTIONS_MAX, SCRIPT_WRITTEN_BYTE_COST};
use vocab::{Namespace, Slot};

/// The error of a script that the store does not know.
pub const NOSCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

/// What runs a command of a script on a space.
type Nested<S> = fn(&'static CommandSpec, &[&[u8]], &mut S, &mut Reply) -> Result<(), Fault>;

/// The commands of a script on a space.
pub(super) struct Commands<'a, S: ?Sized> {
    pub(super) space: &'a mut S,
    pub(super) run: Nested<S>,
}

impl<S: ReadSpace + ?Sized> ScriptHost for Commands<'_, S> {
    fn seed(&mut self) -> u64 {
        // A read may begin anew on another space: its chance is its time's.
        let of_read = self.space.now_ms();
        self.space.random_u64().unwrap_or(of_read)
    }

    fn is_slice(&self) -> bool {
        self.space.is_slice()
    }

    fn rules(&self) -> Rules {
        self.space.rules()
    }

    fn afford(&mut self, instructions: u64) -> Result<(), Fault> {
        let steps = instructions.saturating_mul(SCRIPT_INSTRUCTION_COST);
        self.space.afford(usize::try_from(steps).unwrap_or(usize::MAX))
    }

    fn instructions_left(&self) -> u64 {
        self.space.steps_left() as u64 / SCRIPT_INSTRUCTION_COST
    }

    fn watch(&self) -> Option<Arc<ScriptWatch>> {
        self.space.script_watch().cloned()
    }

    fn turn(&self) -> Option<Arc<ScriptTurn>> {
        self.space.script_turn().cloned()
    }

    fn now_ms(&self) -> u64 {
        self.space.now_ms()
    }

    fn refuse(&mut self, text: &'static str) -> Error {
        self.space.refuse(text).map_or_else(|| text.into(), Error::Fault)
    }

    fn denied(&mut self, denial: &Denial, args: &[&[u8]]) {
        if let Some(calls) = self.space.monitored_calls() {
            calls.denied(denial, args);
        }
    }

    fn note(&mut self, database: u16, spec: &CommandSpec, words: &[&[u8]]) {
        let now_ms = self.space.now_ms();
        if let Some(calls) = self.space.monitored_calls() {
            calls.note(now_ms, database, spec, words);
        }
    }

    fn run(&mut self, spec: &'static CommandSpec, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
        if spec.is_write() {
            // A script may name a million long keys, which its request does not carry.
            let bytes: usize = args.iter().map(|arg| arg.len()).sum();
            self.space.afford(bytes * SCRIPT_WRITTEN_BYTE_COST)?;
        }
        self.space.run_in_script(true);
        let done = (self.run)(spec, args, self.space, reply);
        self.space.run_in_script(false);
        if done.is_ok()
            && let Some(calls) = self.space.monitored_calls()
        {
            calls.ended(EndedCall { command: spec.id, has_failed: reply.buf.first() == Some(&b'-') });
        }
        done
    }
}

/// Runs a script. The last argument is its context, which its client has not sent.
pub(super) fn run<S: ReadSpace + ?Sized>(
    command: ScriptCommand,
    rights: Rights,
    args: &[&[u8]],
    commands: &mut Commands<'_, S>,
    reply: &mut Reply,
) -> Outcome {
    let (context, args) = args.split_last().ok_or("ERR a script without its context")?;
    // An entry has the source in place of a SHA1: words that end in a context nevertheless are a client's own.
    let context = ScriptContext::decode(context).filter(|_| command.names != ScriptName::Sha);
    let Some(context) = context else {
        // Nothing resolved its name: no node has found it.
        return Err(match command.names {
            ScriptName::Sha => NOSCRIPT.into(),
            ScriptName::Source => "ERR a script without its context".into(),
            ScriptName::Function => "ERR Function not found".into(),
        });
    };
    if command.names == ScriptName::Function {
        return run_function(rights, &context, args, commands, reply);
    }
    let keys = declared_keys(args)?;
    let source =
        Source { text: args[1], function: None, keys: &args[3..3 + keys], argv: &args[3 + keys..], words: args };
    script::run(&source, &context, rights, commands, reply)
}

/// Runs a function. Before the context stands its library.
fn run_function<S: ReadSpace + ?Sized>(
    rights: Rights,
    context: &ScriptContext,
    args: &[&[u8]],
    commands: &mut Commands<'_, S>,
    reply: &mut Reply,
) -> Outcome {
    let (library, args) = args.split_last().ok_or("ERR Function not found")?;
    let keys = declared_keys(args)?;
    let name = String::from_utf8_lossy(args[1]);
    let (text, function, argv) = (library, Some(&*name), &args[3 + keys..]);
    let source = Source { text, function, keys: &args[3..3 + keys], argv, words: args };
    script::run(&source, context, rights, commands, reply)
}

/// The words of a request without the namespace of its client, and that namespace. A client's words never end in the mark of one: what runs
/// the requests of databases adds it.
#[must_use]
pub fn without_namespace<'a, 'b>(args: &'b [&'a [u8]]) -> (&'b [&'a [u8]], Option<Namespace>) {
    match args {
        [rest @ .., last] => Namespace::of_mark(last).map_or((args, None), |namespace| (rest, Some(namespace))),
        [] => (args, None),
    }
}

/// The command of an entry that calls a function of a library.
#[must_use]
pub fn function_command(library: &[u8], args: &[&[u8]], context: &ScriptContext, reads: bool) -> EncodedCommand {
    let name = if reads { "FCALL_RO" } else { "FCALL" };
    let context = context.encode();
    let mut words = Vec::with_capacity(args.len() + 2);
    words.push(name.as_bytes());
    words.extend_from_slice(&args[1..]);
    words.extend([library, &context]);
    EncodedCommand::new(&words)
}

/// The command of an entry that runs a script for a request, whose arguments declare their keys rightly.
#[must_use]
pub fn script_command(source: &[u8], args: &[&[u8]], context: &ScriptContext, reads: bool) -> EncodedCommand {
    let name = if reads { "EVAL_RO" } else { "EVAL" };
    let context = context.encode();
    let mut words = Vec::with_capacity(args.len() + 1);
    words.extend([name.as_bytes(), source]);
    words.extend_from_slice(&args[2..]);
    words.push(&context);
    EncodedCommand::new(&words)
}

/// The command of an entry for a request whose script is not known: nothing stands in the place of its context.
#[must_use]
pub fn script_without_context(command: &EncodedCommand) -> EncodedCommand {
    let mut words = command.args();
    words.push(b"");
    EncodedCommand::new(&words)
}

/// The same command of an entry, for a user who may not run every command: what its script runs is refused by the user's rules.
#[must_use]
pub fn script_as(command: &EncodedCommand, user: &Arc<User>) -> EncodedCommand {
    let mut words = command.args();
    let Some(context) = words.pop().and_then(ScriptContext::decode) else { return command.clone() };
    let context = ScriptContext { user: Some(user.clone()), ..context }.encode();
    words.push(&context);
    EncodedCommand::new(&words)
}

/// The slot of the first key that a script without declared keys touches, if it touches one: found by running it up to there.
#[must_use]
pub fn slot_of_script(
    engine: EngineVersion,
    text: &[u8],
    function: Option<&str>,
    argv: &[&[u8]],
    now_ms: u64,
) -> Option<Slot> {
    let mut probe = Probe { now_ms, slot: None };
    let context = ScriptContext {
        engine,
        slot: Slot(0),
        wider: None,
        namespace: None,
        chooses: false,
        databases: ScriptDatabases::default(),
        instructions_max: SCRIPT_INSTRUCTIONS_MAX,
        memory_bytes_max: u64::MAX,
        user: None,
    };
    let source = Source { text, function, keys: &[], argv, words: &[] };
    // Its answer is for no client, and may be long.
    let mut reply = Reply::default();
    reply.discard(true);
    let _ = script::run(&source, &context, Rights::Write, &mut probe, &mut reply);
    probe.slot
}

/// Runs a script up to the first key that it touches.
struct Probe {
    now_ms: u64,
    slot: Option<Slot>,
}

impl ScriptHost for Probe {
    fn seed(&mut self) -> u64 {
        self.now_ms
    }

    fn is_slice(&self) -> bool {
        true
    }

    fn goes_on_elsewhere(&self) -> bool {
        false
    }

    fn rules(&self) -> Rules {
        Rules::NEWEST
    }

    fn afford(&mut self, _: u64) -> Result<(), Fault> {
        Ok(())
    }

    fn instructions_left(&self) -> u64 {
        u64::MAX
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn refuse(&mut self, text: &'static str) -> Error {
        text.into()
    }

    fn may_touch(&mut self, slot: Slot, _: Slot) -> bool {
        self.slot.get_or_insert(slot);
        true
    }

    fn run(&mut self, spec: &'static CommandSpec, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
        if self.slot.is_some() {
            return Err(Fault::WouldBlock);
        }
        match publishes(spec) {
            true => reply.int(0),
            false => answer_own(spec, args, self.now_ms, reply),
        }
        Ok(())
    }
}

/// How many keys a request declares; the error is the text of its reply.
pub fn declared_keys(args: &[&[u8]]) -> Result<usize, &'static str> {
    let count =
        args.get(2).and_then(|count| parse_integer(count)).ok_or("ERR value is not an integer or out of range")?;
    let count = usize::try_from(count).map_err(|_| "ERR Number of keys can't be negative")?;
    if count > args.len() - 3 {
        return Err("ERR Number of keys can't be greater than number of args");
    }
    Ok(count)
}

/// Commands that publish, and whether their channel is a slot's.
const PUBLISHING: &[(&str, bool)] = &[("PUBLISH", false), ("SPUBLISH", true)];

/// Whether that command publishes.
pub(super) fn publishes(spec: &CommandSpec) -> bool {
    spec.has(flag::PUBSUB) && PUBLISHING.iter().any(|(name, _)| *name == spec.name)
}

/// Publishes what a script does, once its entry is applied. How many will receive it no replica knows: the answer is 0.
pub(super) fn publish(
    spec: &CommandSpec,
    args: &[&[u8]],
    space: &mut (dyn WriteSpace + '_),
    reply: &mut Reply,
) -> Result<(), Fault> {
    if args[1].len() > CHANNEL_BYTES_MAX {
        reply.error(&format!("ERR a channel's name may have {CHANNEL_BYTES_MAX} bytes"));
        return Ok(());
    }
    let is_of_slot = PUBLISHING.iter().any(|(name, is_of_slot)| *name == spec.name && *is_of_slot);
    space.publish(ScriptMessage { is_of_slot, channel: args[1].to_vec(), message: args[2].to_vec() })?;
    reply.int(0);
    Ok(())
}

/// Answers a command without keys, as of a time in ms.
type Own = fn(&[&[u8]], u64, &mut Reply);

/// Commands that a script may run though they are no shard's.
const OWN: &[(&str, Own)] = &[
    ("ECHO", |args, _, reply| reply.bulk(args[1])),
    ("PING", |args, _, reply| match args {
        [_] => reply.simple("PONG"),
        [_, text] => reply.bulk(text),
        _ => reply.error("ERR wrong number of arguments for 'ping' command"),
    }),
    ("TIME", |_, now_ms, reply| {
        reply.array(2);
        reply.bulk((now_ms / 1000).to_string().as_bytes());
        reply.bulk((now_ms % 1000 * 1000).to_string().as_bytes());
    }),
];

/// Runs such a command, or answers why it cannot be run.
pub(super) fn run_own<S: ReadSpace + ?Sized>(
    spec: &CommandSpec,
    args: &[&[u8]],
    space: &mut S,
    reply: &mut Reply,
) -> Result<(), Fault> {
    answer_own(spec, args, space.now_ms(), reply);
    Ok(())
}

fn answer_own(spec: &CommandSpec, args: &[&[u8]], now_ms: u64, reply: &mut Reply) {
    static BY_NUMBER: LazyLock<Vec<Option<Own>>> = LazyLock::new(|| {
        let mut own = vec![None; table::COMMAND_COUNT];
        for (name, run) in OWN {
            let spec = table::lookup(name.as_bytes()).expect("it is in the command table");
            own[spec.id.index()] = Some(*run);
        }
        own
    });
    match BY_NUMBER.get(spec.id.index()).copied().flatten() {
        Some(run) => run(args, now_ms, reply),
        None => reply.error(&format!("ERR {} is not about one shard: a script cannot run it", spec.typed_name())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::command::transcript::{Player, check_with};
    use crate::shard::evaluate::command;
    use crate::space::apply::{LoopBudget, Place};
    use crate::test_shard::empty_shard;
    use crate::{EntrySpace, Evaluation, ScriptHeader, ShardHandle};
    use resp::Proto;
    use vocab::limits::SCRIPT_MEMORY_BYTES_MAX;
    use vocab::{ShardId, SlotSpan};

    /// A shard, and a client whose every request is an entry.
    struct Entries {
        handle: Arc<ShardHandle>,
        index: u64,
        proto: Proto,
        context: ScriptContext,
        _folder: tempfile::TempDir,
    }

    impl Entries {
        fn new() -> Self {
            let (handle, folder) = empty_shard(ShardId(1));
            let context = ScriptContext {
                engine: EngineVersion::NEWEST,
                slot: Slot(0),
                wider: None,
                namespace: None,
                chooses: false,
                databases: ScriptDatabases::default(),
                instructions_max: SCRIPT_INSTRUCTIONS_MAX,
                memory_bytes_max: SCRIPT_MEMORY_BYTES_MAX,
                user: None,
            };
            Self { handle, index: 0, proto: Proto::Resp2, context, _folder: folder }
        }

        /// What the entry of a request holds; the error is its answer.
        fn entry_of(&self, args: &[&[u8]]) -> Result<EncodedCommand, String> {
            let spec = table::resolve(args)?;
            let Some(script) = crate::command::script_of(spec) else { return Ok(EncodedCommand::of(spec, args)) };
            let declared = declared_keys(args)?;
            let keys = spec.keys(args).unwrap().next().map(|at| vocab::slot_of(args[at]));
            let slot =
                keys.or_else(|| slot_of_script(EngineVersion::NEWEST, args[1], None, &args[3 + declared..], 1000));
            let context = ScriptContext { slot: slot.unwrap_or(Slot(0)), ..self.context.clone() };
            let header = ScriptHeader::of(args[1])?;
            Ok(script_command(args[1], args, &context, !script.writes || header.flags.no_writes))
        }

        fn at(&self, place: Place, args: &[&[u8]]) -> (Result<(), Fault>, Vec<u8>, EntrySpace<'_>) {
            let mut space = EntrySpace::at(place, &self.handle, (self.index, 1_000), Evaluation::Second);
            space.take_back(!place.is_event_loop());
            let mut reply = Reply::new(self.proto);
            let done = command(&mut space, args, None, &mut reply);
            (done, reply.buf, space)
        }
    }

    impl Player for Entries {
        fn directive(&mut self, words: &[&str]) {
            self.proto = if words == ["resp3"] { Proto::Resp3 } else { Proto::Resp2 };
        }

        fn command(&mut self, args: &[&[u8]]) -> Vec<u8> {
            self.index += 1;
            let encoded = match self.entry_of(args) {
                Ok(encoded) => encoded,
                Err(text) => {
                    let mut reply = Reply::new(self.proto);
                    reply.error(&text);
                    return reply.buf;
                }
            };
            let args = encoded.args();
            let (done, answer, space) = self.at(Place::Aside, &args);
            done.unwrap();
            // A state that is used again comes to the same, or gives the script up.
            if let (Ok(()), there, loop_space) = self.at(Place::EventLoop(LoopBudget::default()), &args) {
                assert_eq!(there.escape_ascii().to_string(), answer.escape_ascii().to_string());
                assert_eq!(loop_space.writes(), space.writes());
            }
            space.commit();
            answer
        }
    }

    #[test]
    fn scripts_answer_as_redis_does() {
        check_with("src/script/testdata/eval.txt", || Box::new(Entries::new()));
    }

    #[test]
    fn libraries_answer_as_those_of_redis_do() {
        check_with("src/script/testdata/libraries.txt", || Box::new(Entries::new()));
        check_with("src/script/testdata/patterns.txt", || Box::new(Entries::new()));
    }

    #[test]
    fn the_clock_of_a_script_does_not_tell_what_ran_before_it() {
        let mut entries = Entries::new();
        let script = "redis.call('SET',KEYS[1],'1') for i=1,100 do local s='s'..i end return tostring(os.clock()*1e8)";
        let mut ask = || entries.command(&[b"EVAL", script.as_bytes(), b"1", b"k"]).escape_ascii().to_string();
        let first = ask();
        // Each run leaves a state that is used again with texts, and nearer to the next look at its budget.
        for _ in 0..20 {
            assert_eq!(ask(), first);
        }
    }

    /// Answers of all kinds count alike where a new state makes values of Lua of them, and where one does that is used again.
    #[test]
    fn the_clock_of_a_script_does_not_tell_where_its_commands_are_answered() {
        let mut entries = Entries::new();
        for request in [
            "RPUSH {k}l a b c 4 5",
            "HSET {k}h f v g w",
            "SADD {k}s 1 2 3",
            "ZADD {k}z 1 a 2.5 b",
            "XADD {k}x 1-1 f v",
            "XADD {k}x 1-2 f v g w",
            "XGROUP CREATE {k}x group 0",
            "GEOADD {k}g 13.36 38.11 m",
            "SET {k}t text",
        ] {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            assert!(!entries.command(&args).starts_with(b"-"), "{request}");
        }
        let calls = [
            "'LRANGE','{k}l',0,-1",
            "'LRANGE','{k}none',0,-1",
            "'GET','{k}t'",
            "'GET','{k}none'",
            "'MGET','{k}t','{k}none'",
            "'INCR','{k}n'",
            "'SET','{k}t','text'",
            "'LPOP','{k}none',2",
            "'HGETALL','{k}h'",
            "'SMEMBERS','{k}s'",
            "'SMISMEMBER','{k}s',1,9",
            "'ZRANGE','{k}z',0,-1,'WITHSCORES'",
            "'ZSCORE','{k}z','b'",
            "'ZMSCORE','{k}z','a','none'",
            "'GEOPOS','{k}g','m','none'",
            "'XRANGE','{k}x','-','+'",
            "'XREAD','STREAMS','{k}x',0",
            "'XPENDING','{k}x','group'",
            "'XINFO','STREAM','{k}x','FULL'",
            "'INCR','{k}l'",
            "'NONE','{k}l'",
            "'SET','{k}t',{}",
        ];
        let mut compared = 0;
        for (call, proto) in calls.iter().flat_map(|call| [(call, 2), (call, 3)]) {
            entries.index += 1;
            let script = format!(
                "redis.call('SET',KEYS[1],1) redis.setresp({proto}) redis.pcall({call}) redis.pcall({call}) \
                 return tostring(os.clock()*1e8)"
            );
            let entry = entries.entry_of(&[b"EVAL", script.as_bytes(), b"1", b"k"]).unwrap();
            let args = entry.args();
            let (done, answer, _) = entries.at(Place::Aside, &args);
            assert!(done.is_ok() && answer.starts_with(b"$"), "{call}: {}", answer.escape_ascii());
            if let (Ok(()), there, _) = entries.at(Place::EventLoop(LoopBudget::default()), &args) {
                assert_eq!(there.escape_ascii().to_string(), answer.escape_ascii().to_string(), "{call}, {proto}");
                compared += 1;
            }
        }
        assert!(compared > calls.len(), "an event loop answers most of them: {compared}");
    }

    /// `Entries` runs each script in a new state and in one that is used again, and compares what these come to.
    #[test]
    fn calls_come_to_the_same_in_a_state_that_is_used_again() {
        let mut entries = Entries::new();
        let mut ask = |script: &str| {
            let answer = entries.command(&[b"EVAL", script.as_bytes(), b"1", b"k", b"v"]);
            answer.escape_ascii().to_string()
        };
        for (script, answer) in [
            ("return redis.call('SET', KEYS[1], ARGV[1])", "+OK\\r\\n"),
            ("return redis.call('SET', KEYS[1], ARGV[1]).ok", "$2\\r\\nOK\\r\\n"),
            ("return {redis.call('GET', KEYS[1]), redis.call('GET', 'k{k}')}", "*2\\r\\n$1\\r\\nv\\r\\n$-1\\r\\n"),
            ("return type(redis.call('GET', 'k{k}'))", "$7\\r\\nboolean\\r\\n"),
            ("redis.setresp(3) return type(redis.call('GET', 'k{k}'))", "$3\\r\\nnil\\r\\n"),
            ("return redis.call('RPUSH', '{k}l', 1, -2.5, 1e15, 'x', 1790000000123456, 1e300)", ":6\\r\\n"),
            (
                "return redis.call('LRANGE', '{k}l', 0, -1)",
                "*6\\r\\n$1\\r\\n1\\r\\n$4\\r\\n-2.5\\r\\n$16\\r\\n1000000000000000\\r\\n$1\\r\\nx\\r\\n\
                 $16\\r\\n1790000000123456\\r\\n$23\\r\\n1.0000000000000001e+300\\r\\n",
            ),
            ("return #redis.call('HSET', '{k}h', 'f', 'v') + redis.call('HLEN', '{k}h')", "script: "),
            (
                "redis.call('HSET', '{k}h', 'f', 'v') redis.setresp(3) return redis.call('HGETALL', '{k}h').map.f",
                "$1\\r\\nv\\r\\n",
            ),
            ("return redis.pcall('INCR', KEYS[1]).err", "not an integer"),
            ("redis.call('INCR', KEYS[1])", "-ERR value is not an integer or out of range script: "),
            ("local ok, e = pcall(redis.call, 'INCR', KEYS[1]) return e", "not an integer"),
            ("return redis.call()", "Please specify at least one argument"),
            ("return redis.call('SET', KEYS[1], {})", "must be strings or integers"),
            ("return redis.pcall('NONE', KEYS[1]).err", "Unknown Redis command"),
            ("local t = {} for i = 1, 200 do t[i] = i end return redis.call('RPUSH', '{k}m', unpack(t))", ":200\\r\\n"),
            ("return coroutine.wrap(function() return redis.call('GET', KEYS[1]) end)()", "$1\\r\\nv\\r\\n"),
            ("return coroutine.wrap(function() coroutine.yield(redis.call('GET', KEYS[1])) end)()", "$1\\r\\nv\\r\\n"),
            ("redis.call('SET', KEYS[1], ('x'):rep(1e5)) return #redis.call('GET', KEYS[1])", ":100000\\r\\n"),
            ("redis.call('SET', KEYS[1], 'a\\0b') return redis.call('GET', KEYS[1])", "$3\\r\\na\\x00b\\r\\n"),
        ] {
            let found = ask(script);
            assert!(found.contains(answer), "{script}: {found}");
        }
        // Where the stack ends: of calls, and of calls in C.
        for depth in (9_980..10_020).chain(19_980..20_010) {
            let recursion = "local function f(n) if n == 0 then return redis.call('STRLEN', KEYS[1]) end \
                             local r = f(n - 1) return r end";
            ask(&format!("{recursion} local ok, r = pcall(f, {depth}) return type(r)"));
        }
        for depth in (90..110).chain(190..205) {
            let nested = "local function f(n) if n == 0 then return redis.call('STRLEN', KEYS[1]) end \
                          local ok, r = pcall(f, n - 1) return r end";
            ask(&format!("{nested} return type(f({depth}))"));
        }
    }

    #[test]
    fn a_budget_ends_a_script_and_nothing_of_it_is_written() {
        let mut entries = Entries::new();
        entries.context.instructions_max = 1_000_000;
        entries.context.memory_bytes_max = 4 << 20;
        let mut ask = |script: &str| {
            let answer = entries.command(&[b"EVAL", script.as_bytes(), b"1", b"k"]);
            (String::from_utf8(answer).unwrap(), entries.handle.key_count())
        };
        for (script, why) in [
            ("redis.call('SET',KEYS[1],1) while true do end", "more instructions"),
            (
                "redis.call('SET',KEYS[1],1) while true do pcall(function() while true do end end) end",
                "more instructions",
            ),
            (
                "redis.call('SET',KEYS[1],1) local c=coroutine.wrap(function() while true do end end) pcall(c)",
                "more instructions",
            ),
            (
                "redis.call('SET',KEYS[1],1) return ('a'):rep(30):find(('a?'):rep(30) .. ('a'):rep(31))",
                "more instructions",
            ),
            ("redis.call('SET',KEYS[1],1) return ('a'):rep(300):find('(.-)(.-)(.-)(.-)(.-)b')", "more instructions"),
            ("redis.call('SET',KEYS[1],1) for i=1,2000 do local s=('x'):rep(1e5) end", "more instructions"),
            (
                "redis.call('SET',KEYS[1],1) local s=('x'):rep(1e5) while true do local t=s..'y' end",
                "more instructions",
            ),
            (
                "redis.call('SET',KEYS[1],1) local s=('x'):rep(1e5) local t=s..'y' while true do local is=s<t end",
                "more instructions",
            ),
            ("redis.call('SET',KEYS[1],1) for i=1,9 do (''):rep(2^31-1) end while true do end", "more instructions"),
            ("redis.call('SET',KEYS[1],1) local s='x' while true do s=s..s end", "more memory"),
            ("redis.call('SET',KEYS[1],1) pcall(string.rep,'x',1e8) return 1", "more memory"),
            ("redis.call('SET',KEYS[1],1) local t={} for i=1,1e9 do t[i]=i end", "more "),
        ] {
            let (answer, keys) = ask(script);
            assert!(answer.starts_with("-ERR the script") && answer.contains(why), "{script}: {answer}");
            assert_eq!(keys, 0, "{script}");
        }
        assert_eq!(ask("for i=1,100000 do end return redis.call('SET',KEYS[1],1)"), ("+OK\r\n".to_owned(), 1));
    }

    #[test]
    fn texts_that_lua_has_already_count_by_the_rules_of_the_second_engine() {
        let mut entries = Entries::new();
        entries.context.instructions_max = 1_000_000;
        for script in [
            "for i=1,2000 do local s=('x'):rep(100000) end return 1",
            "local s=('x'):rep(100000) for i=1,2000 do s:gsub('^y','z') end return 1",
        ] {
            for (engine, expected) in [(EngineVersion::First, ":1\r\n"), (EngineVersion::Second, "more instructions")] {
                entries.context.engine = engine;
                let answer = String::from_utf8(entries.command(&[b"EVAL", script.as_bytes(), b"0"])).unwrap();
                assert!(answer.contains(expected), "{engine:?}, {script}: {answer}");
            }
        }
    }

    #[test]
    fn commands_have_as_many_arguments_as_lua_hands_over_in_each_engine() {
        let fill = "local t={} for i=1,N do t[i]='{h}'..i end";
        for engine in EngineVersion::ALL {
            let mut entries = Entries::new();
            entries.context.engine = engine;
            for (count, work, expected) in [
                // The first one of a state, whose stacks have not grown.
                ("7990", "return redis.call('RPUSH','{h}l',unpack(t))", ":7990\r\n"),
                ("7990", "redis.call('SET','{h}s',1) return redis.call('DEL',unpack(t))", ":0\r\n"),
                ("7000", "return #redis.call('MGET',unpack(t))", ":7000\r\n"),
                ("7000", "t[6000]={} return redis.pcall('DEL',unpack(t)).err", "strings or integers"),
                ("7000", "t[6000]={} return redis.call('DEL',unpack(t))", "strings or integers"),
                ("7990", "return cmsgpack.pack(unpack(t))", "too many arguments"),
                ("6000", "return #cmsgpack.pack(unpack(t))", ":"),
                ("1", "return #{cmsgpack.unpack(('\\161a'):rep(9000))}", "stack overflow"),
                ("1", "return #{struct.unpack(('c1'):rep(9000),('a'):rep(9000))}", "too many results"),
                ("1", "table.insert({},2^31,1)", "number out of range"),
                (
                    "1",
                    "return table.concat({},',',1,2^31)..'.'",
                    if engine < EngineVersion::Sixth { "." } else { "out of range" },
                ),
                // Where such keys are in a table is another place on each replica.
                ("1", "local m={} for i=1,20 do m[{}]=i end return cmsgpack.pack(m)", "no order"),
                ("1", "return cmsgpack.pack({1,{[{}]=1,[{}]=1}})", "no order"),
                ("1", "local m={1} m[{}]=1 m[tostring]=2 return cjson.encode(m)", "Cannot serialise table: table key"),
                ("1", "return #cmsgpack.pack({a=1,[true]=2,[1.5]=3})", ":"),
                ("1", "return #cmsgpack.pack({1,2,[{}]=1})", ":"),
                // Of each pair a library of ours would hold two values.
                ("7000", "local m={} for i=1,7000 do m[t[i]]=t[i] end return #cjson.encode({m,{m}})", ":"),
                (
                    "1",
                    "local m=1 for i=1,900 do m={a=m,b=i} end cjson.encode_max_depth(950) return #cjson.encode(m)",
                    ":",
                ),
            ] {
                let script = format!("{} {work}", fill.replace('N', count));
                let answer = String::from_utf8(entries.command(&[b"EVAL", script.as_bytes(), b"1", b"{h}"])).unwrap();
                assert!(answer.contains(expected), "{engine:?}, {work}: {answer}");
            }
        }
    }

    #[test]
    fn what_c_does_in_one_instruction_counts_by_the_rules_of_the_sixth_engine() {
        let mut entries = Entries::new();
        entries.context.instructions_max = 1_000_000;
        for work in [
            "local t={} for i=1,98 do t=setmetatable({},{__index=t}) end for i=1,3000 do local x=t.q end",
            "local t={} for i=1,98 do t=setmetatable({},{__newindex=t}) end for i=1,3000 do t.q=nil end",
            "local function f(n) if n>0 then return 1+f(n-1) end for i=1,1000 do getfenv(9000) end return 1 end f(9000)",
            "local y=1 for i=1,200000 do y=1.1^i end",
            "for i=1,60000 do redis.acl_check_cmd('SET','k','v') end",
            "local t={} for i=1,10000 do t[i]=(i*7919)%10007 end table.sort(t)",
        ] {
            let script = format!("{work} return 1");
            for (engine, expected) in [(EngineVersion::Fifth, ":1\r\n"), (EngineVersion::Sixth, "more instructions")] {
                entries.context.engine = engine;
                let answer = String::from_utf8(entries.command(&[b"EVAL", script.as_bytes(), b"0"])).unwrap();
                assert!(answer.contains(expected), "{engine:?}, {work}: {answer}");
            }
        }
        entries.context.engine = EngineVersion::Sixth;
        for (work, expected) in [
            ("local t={} for i=1,200 do t[i]=(i*7)%211 end table.sort(t) return t[1]..t[200]", "1210"),
            ("local t={} for i=1,200 do t[i]='v'..i end table.sort(t) return t[1]..t[200]", "v1v99"),
            ("local t={} for i=1,200 do t[i]=i end t[9]='x' table.sort(t)", "attempt to compare"),
            ("local t={1,2,3} table.insert(t,2,9) table.remove(t,1) return table.concat(t,',',2,3)", "2,3"),
            ("return bit.band('0xff',15)", ":15"),
            ("table.concat({},'',2^32+1)", "number out of range"),
            ("table.remove({1},0/0)", "number out of range"),
            ("unpack({},2^40)", "number out of range"),
        ] {
            let answer = String::from_utf8(entries.command(&[b"EVAL", work.as_bytes(), b"0"])).unwrap();
            assert!(answer.contains(expected), "{work}: {answer}");
        }
    }

    #[test]
    fn what_is_passed_to_functions_counts_by_the_rules_of_the_seventh_engine() {
        let mut entries = Entries::new();
        entries.context.instructions_max = 1_000_000;
        let patterns: Vec<String> = (0..100).map(|number| format!("~p{number}*")).collect();
        let rules = format!("resetchannels {} +@all", patterns.join(" "));
        let user = Arc::new(User::of_rules("u", rules.as_bytes()).unwrap());
        for (is_of_user, work) in [
            (false, "for i=1,100 do redis.log(0,s) end"),
            (false, "for i=1,100 do redis.acl_check_cmd('GET',s) end"),
            (false, "for i=1,30 do redis.acl_check_cmd('DEL',unpack(t)) end"),
            (false, "for i=1,30 do redis.pcall('DEL',unpack(t)) end"),
            (false, "t[4000]={} for i=1,30 do redis.pcall('DEL',unpack(t)) end"),
            (true, "for i=1,3 do redis.acl_check_cmd('DEL',unpack(t)) end"),
            (true, "for i=1,3 do redis.pcall('DEL',unpack(t)) end"),
            (false, "for i=1,100 do pcall(cjson.encode,{s,tostring}) end"),
            (false, "for i=1,100 do pcall(struct.pack,'c0c0',s,{}) end"),
            (false, "for i=1,700 do cjson.new() end"),
        ] {
            entries.context.user = is_of_user.then(|| user.clone());
            let script = format!("local s,t=('x'):rep(100000),{{}} for i=1,4000 do t[i]='k' end {work} return 1");
            for (engine, expected) in [(EngineVersion::Sixth, ":1\r\n"), (EngineVersion::Seventh, "more instructions")]
            {
                entries.context.engine = engine;
                let answer = String::from_utf8(entries.command(&[b"EVAL", script.as_bytes(), b"1", b"k"])).unwrap();
                assert!(answer.contains(expected), "{engine:?}, {work}: {answer}");
            }
        }
    }

    #[test]
    fn libraries_do_as_those_of_redis_by_the_rules_of_the_seventh_engine() {
        let mut entries = Entries::new();
        for (script, sixth, seventh) in [
            ("return struct.unpack('bc0','\\255abc')", "$0\r\n", "data string too short"),
            ("return {struct.unpack('dc0',struct.pack('d',0/0)..'abc')}", "$0\r\n", "data string too short"),
            ("return {struct.unpack('c2c0','03abc')}", "needs a previous size", "*2\r\n$3\r\nabc\r\n:6\r\n"),
            ("return {struct.unpack('c4c0','0x02abc')}", "needs a previous size", "*2\r\n$2\r\nab\r\n:7\r\n"),
            ("return {struct.unpack('c3c0','infabc')}", "needs a previous size", "*2\r\n$0\r\n\r\n:4\r\n"),
            ("return {struct.unpack('c2c0','xxabc')}", "needs a previous size", "needs a previous size"),
            (
                "return redis.sha1hex(1/3)",
                "469ac555e5db6267befee7356a7e4c365569226f",
                "84910dc3dc7e0d7252c72e18174a1bee6d2077b8",
            ),
            ("return redis.sha1hex(1e15)", "$40\r\n", "29649fb9b5a7f057fcfd4d03bc770039deb636be"),
            ("return #('a'):rep(300):match(('a?'):rep(300))", "pattern too complex", ":300\r\n"),
            ("return #('a'):rep(70000):match(('a?'):rep(70000))", "pattern too complex", "pattern too complex"),
            ("return cjson.encode({[1700000000000]=1})", "excessively sparse array", "{\"1700000000000\":1}"),
            ("return cjson.encode({[2^31]=1})", "excessively sparse array", "{\"2147483648\":1}"),
            ("return cjson.encode({[2^31-1]=1})", "excessively sparse array", "excessively sparse array"),
            ("return cjson.encode({[2^31]=1,[3]=2})", "excessively sparse array", "[null,null,2]"),
            ("return cmsgpack.unpack('\\129\\192\\1')", "more memory", "-ERR table index is nil script: "),
            (
                "return cmsgpack.unpack('\\129\\203\\127\\248\\0\\0\\0\\0\\0\\0\\1')",
                "more memory",
                "-ERR table index is NaN script: ",
            ),
            (
                "local _,e=pcall(cmsgpack.unpack,'\\129\\192\\1') return e",
                "more memory",
                "$18\r\ntable index is nil\r\n",
            ),
        ] {
            for (engine, expected) in [(EngineVersion::Sixth, sixth), (EngineVersion::Seventh, seventh)] {
                entries.context.engine = engine;
                let answer = String::from_utf8(entries.command(&[b"EVAL", script.as_bytes(), b"0"])).unwrap();
                assert!(answer.contains(expected), "{engine:?}, {script}: {answer}");
            }
        }
        let many = "local t={} for i=1,7900 do t[i]=i end return cjson.new().encode(unpack(t))";
        let answer = String::from_utf8(entries.command(&[b"EVAL", many.as_bytes(), b"0"])).unwrap();
        assert!(answer.contains("too many arguments"), "{answer}");
    }

    /// Whether a client waits for it or none does.
    #[test]
    fn texts_of_an_answer_count_by_the_rules_of_the_seventh_engine() {
        let mut entries = Entries::new();
        for (answer, is_error) in [
            ("{ok=s}", false),
            ("{err=s}", false),
            ("{big_number=s}", false),
            ("{verbatim_string={format='txt',string=s}}", false),
            ("{err=s}", true),
        ] {
            let ends = if is_error { format!("error({answer})") } else { format!("return {{e,e,e,e}} --{answer}") };
            let script = format!("redis.call('SET',KEYS[1],1) local s=('x'):rep(20000) local e={answer} {ends}");
            for (engine, bytes, is_refused) in [
                (EngineVersion::Sixth, 15_000, false),
                (EngineVersion::Seventh, 15_000, true),
                (EngineVersion::Seventh, 100_000, false),
            ] {
                entries.context.engine = engine;
                entries.index += 1;
                let entry = entries.entry_of(&[b"EVAL", script.as_bytes(), b"1", b"k"]).unwrap();
                let args = entry.args();
                let spent = [false, true].map(|discards| {
                    let at = (entries.index, 1_000);
                    let mut space = EntrySpace::at(Place::Aside, &entries.handle, at, Evaluation::Second);
                    space.take_back(true);
                    let mut reply = Reply::default();
                    reply.limit(bytes);
                    reply.discard(discards);
                    command(&mut space, &args, None, &mut reply).unwrap();
                    let case = format!("{engine:?}, {script}, {bytes}, {discards}");
                    assert_eq!(space.writes().is_empty(), is_refused, "{case}");
                    assert_eq!(reply.buf.starts_with(b"-ERR the answer would take more bytes"), is_refused, "{case}");
                    assert_eq!(reply.buf.len() > 1_000, !is_refused && !discards, "{case}");
                    reply.spent()
                });
                assert_eq!(spent[0], spent[1], "{engine:?}, {script}");
            }
        }
    }

    #[test]
    fn what_a_script_fails_with_is_asked_for_within_its_budgets() {
        let mut entries = Entries::new();
        (entries.context.instructions_max, entries.context.memory_bytes_max) = (1_000_000, 4 << 20);
        for (work, seventh) in
            [("while true do end", "more instructions"), ("local s='x' while true do s=s..s end", "more memory")]
        {
            let script =
                format!("redis.call('SET',KEYS[1],1) error(setmetatable({{}},{{__index=function() {work} end}}))");
            for (engine, expected, keys) in [(EngineVersion::Sixth, "(null)", 1), (EngineVersion::Seventh, seventh, 0)]
            {
                entries.context.engine = engine;
                entries.command(&[b"DEL", b"k"]);
                let answer = String::from_utf8(entries.command(&[b"EVAL", script.as_bytes(), b"1", b"k"])).unwrap();
                assert!(answer.contains(expected), "{engine:?}, {work}: {answer}");
                assert_eq!(entries.handle.key_count(), keys, "{engine:?}, {work}");
            }
        }
    }

    #[test]
    fn values_that_functions_in_rust_read_and_make_count_by_the_rules_of_the_fourth_engine() {
        let mut entries = Entries::new();
        entries.context.instructions_max = 2_000_000;
        for work in [
            "cjson.encode(t)",
            "cjson.encode(m)",
            "cjson.decode(json)",
            "cmsgpack.pack(t)",
            "cmsgpack.unpack(packed)",
            "redis.call('HGETALL','h')",
            "redis.sha1hex(long)",
            "for j=1,400 do bit.band(j,255) end",
            "for j=1,400 do struct.unpack('>I2I2','abcd') end",
        ] {
            let script = format!(
                "local t,m={{}},{{}} for i=1,1000 do t[i]=i m['f'..i]=i redis.call('HSET','h',i,i) end \
                 local json,packed,long=cjson.encode(t),cmsgpack.pack(t),('x'):rep(50000) for i=1,60 do {work} end return 1"
            );
            for (engine, expected) in [(EngineVersion::Third, ":1\r\n"), (EngineVersion::Fourth, "more instructions")] {
                entries.context.engine = engine;
                let answer = String::from_utf8(entries.command(&[b"EVAL", script.as_bytes(), b"0"])).unwrap();
                assert!(answer.contains(expected), "{engine:?}, {work}: {answer}");
            }
        }
    }

    #[test]
    fn what_takes_long_in_c_counts_by_the_rules_of_the_fifth_engine() {
        let mut entries = Entries::new();
        let mut least = |engine: EngineVersion, work: &str| {
            let script = format!("local t=('a'):rep(300) for i=1,300 do {work} end return 1");
            let passes = |instructions_max: &u64| {
                (entries.context.engine, entries.context.instructions_max) = (engine, *instructions_max);
                entries.command(&[b"EVAL", script.as_bytes(), b"0"]) == b":1\r\n"
            };
            std::iter::successors(Some(1_000), |max| Some(max * 6 / 5)).find(passes).unwrap()
        };
        for work in [
            "pcall(error,'x')",
            "xpcall(error,function() end)",
            "coroutine.resume(coroutine.create(function() error('x') end))",
            "tonumber('1.5')",
            "for j=1,20 do local x='1.5'+j end",
            "string.format('%99.99f',1e300)",
            "loadstring('return 1')",
            "load(function() end)",
            "t:find('.-b')",
            "t:match('(a)(a)(a)(a)(a)(a)(a)(a)')",
            "t:gsub('a',i)",
            "t:upper()",
        ] {
            let (fourth, fifth) = (least(EngineVersion::Fourth, work), least(EngineVersion::Fifth, work));
            assert!(fifth > fourth, "{work}: {fourth}, {fifth}");
        }
        let plain = "local x=i*2";
        assert_eq!(least(EngineVersion::Fourth, plain), least(EngineVersion::Fifth, plain));
    }

    #[test]
    fn what_redis_has_since_is_there_from_the_third_engine_on() {
        let mut entries = Entries::new();
        let version = "return {redis.REDIS_VERSION,redis.REDIS_VERSION_NUM}";
        let last = "redis.call('DEL','s') redis.call('XADD','s','1-1','a','b') local r=redis.pcall('XREAD','STREAMS','s','+') \
                    return r.err or r[1][2][1][1]";
        let (second, third) = (EngineVersion::Second, EngineVersion::Third);
        // And back: a state that is used again is not one of another version.
        for engine in [EngineVersion::First, second, third, second] {
            entries.context.engine = engine;
            let mut ask =
                |script: &str| String::from_utf8(entries.command(&[b"EVAL", script.as_bytes(), b"0"])).unwrap();
            let (version, last) = (ask(version), ask(last));
            if engine < third {
                assert_eq!(version, "*2\r\n$6\r\n7.0.15\r\n:458767\r\n", "{engine:?}");
                assert!(last.contains("Invalid stream ID"), "{engine:?}: {last}");
            } else {
                assert_eq!(version, "*2\r\n$5\r\n7.4.7\r\n:459783\r\n");
                assert_eq!(last, "$3\r\n1-1\r\n");
            }
        }
    }

    #[test]
    fn a_script_moves_and_copies_to_databases_as_their_numbers_are() {
        let mut entries = Entries::new();
        let database = |number| vocab::Database::of_number(number).unwrap();
        let stored = |place: u64, key: &[u8]| Namespace::Database(database(place)).stored(key);
        // The client is in database 0; SWAPDB 0 1 was there before.
        entries.context.namespace = Some(Namespace::Database(database(1)));
        entries.context.chooses = true;
        entries.context.wider = Some(SlotSpan::ALL);
        let exchanged = vec![(database(0), database(1)), (database(1), database(0))];
        entries.context.databases = ScriptDatabases { count: 16, exchanged };
        let mut ask = |script: &str| {
            let answer = entries.command(&[b"EVAL", script.as_bytes(), b"0"]);
            let get = |place: u64, key: &[u8], entries: &mut Entries| {
                String::from_utf8(entries.command(&[b"GET", &stored(place, key)])).unwrap().contains('v')
            };
            let places: Vec<u64> = (0..4).filter(|place| get(*place, b"k", &mut entries)).collect();
            let copies: Vec<u64> = (0..4).filter(|place| get(*place, b"copy", &mut entries)).collect();
            (String::from_utf8(answer).unwrap(), places, copies)
        };
        let one = ":1\r\n".to_owned();
        assert_eq!(ask("redis.call('SET','k','v') return redis.call('MOVE','k',1)"), (one.clone(), vec![0], vec![]));
        assert_eq!(ask("return redis.call('MOVE','k',1)"), (":0\r\n".to_owned(), vec![0], vec![]), "it is not here");
        let copied = "redis.call('SELECT',1) return redis.call('COPY','k','copy','DB',3)";
        assert_eq!(ask(copied), (one.clone(), vec![0], vec![3]));
        assert_eq!(
            ask("redis.call('SELECT',1) return redis.call('COPY','k','copy','DB',1)"),
            (one.clone(), vec![0], vec![0, 3])
        );
        assert_eq!(ask("redis.call('SELECT',1) return redis.call('MOVE','k',0)"), (one, vec![1], vec![0, 3]));
        for (command, why) in [
            ("'MOVE','k',16", "out of range"),
            ("'MOVE','k',-1", "out of range"),
            ("'MOVE','k','x'", "not an integer"),
            ("'MOVE','k',0", "are the same"),
            ("'COPY','k','copy','DB',16", "out of range"),
            ("'SELECT',16", "out of range"),
        ] {
            let (answer, places, copies) = ask(&format!("return redis.pcall({command}).err"));
            assert!(answer.contains(why), "{command}: {answer}");
            assert_eq!((places, copies), (vec![1], vec![0, 3]), "{command}");
        }
        // Only what the shard has.
        entries.context.wider = None;
        let apart = entries.command(&[b"EVAL", b"return redis.pcall('MOVE','k',2).err", b"0"]);
        assert!(String::from_utf8(apart).unwrap().contains("ctl database place"));
        // The engine before knows neither.
        entries.context.engine = EngineVersion::Second;
        let before =
            entries.command(&[b"EVAL", b"redis.call('SELECT',16383) return redis.pcall('MOVE','k',2).err", b"0"]);
        assert!(!String::from_utf8(before).unwrap().contains("range"));
    }

    #[test]
    fn a_script_of_a_cluster_s_client_moves_keys_within_their_slots() {
        let mut entries = Entries::new();
        let three = Namespace::Cluster(vocab::ClusterDatabase::of_number(3).unwrap());
        (entries.context.chooses, entries.context.databases.count) = (true, 16);
        let mut ask = |request: &[&[u8]]| String::from_utf8(entries.command(request)).unwrap();
        assert_eq!(
            ask(&[b"EVAL", b"redis.call('SET',KEYS[1],'v') return redis.call('MOVE',KEYS[1],3)", b"1", b"k"]),
            ":1\r\n"
        );
        assert_eq!(ask(&[b"GET", b"k"]), "$-1\r\n");
        assert_eq!(ask(&[b"GET", &three.stored(b"k")]), "$1\r\nv\r\n");
        let back = b"redis.call('SELECT',3) return redis.call('COPY',KEYS[1],'{k}2','DB',0)";
        assert_eq!(ask(&[b"EVAL", back, b"1", b"k"]), ":1\r\n");
        assert_eq!(ask(&[b"GET", b"{k}2"]), "$1\r\nv\r\n");
        let other = ask(&[b"EVAL", b"return redis.pcall('COPY',KEYS[1],'other','DB',3).err", b"1", b"k"]);
        assert!(other.contains("CROSSSLOT"), "{other}");
    }

    #[test]
    fn a_script_may_do_what_its_user_may() {
        let mut entries = Entries::new();
        let user = User::of_rules("u", b"~a* resetchannels -@all +set +get").unwrap();
        entries.context.user = Some(Arc::new(user));
        let mut ask = |script: &str| String::from_utf8(entries.command(&[b"EVAL", script.as_bytes(), b"0"])).unwrap();
        for (script, answer) in [
            ("return redis.call('SET','a',1)", "+OK\r\n"),
            ("return redis.pcall('INCR','a').err", "can't run this command or subcommand"),
            ("return redis.pcall('GET','b').err", "can't access at least one of the keys"),
            ("return redis.pcall('PUBLISH','c','m').err", "can't run this command or subcommand"),
            ("return redis.error_reply('MOVED 1 x')", "-ERR script: MOVED 1 x\r\n"),
            ("return redis.acl_check_cmd('SET','a','1')", ":1\r\n"),
            ("return redis.acl_check_cmd('SET','b','1')", "$-1\r\n"),
            ("return redis.acl_check_cmd('INCR','a')", "$-1\r\n"),
        ] {
            let found = ask(script);
            assert!(found.contains(answer), "{script}: {found}");
        }
    }

    #[test]
    fn the_slot_of_a_script_is_that_of_the_first_key_it_touches() {
        for (script, key) in [
            ("return redis.call('GET','a')", Some("a")),
            ("redis.call('PING') if redis.call('TIME') then return redis.call('SET',ARGV[1],1) end", Some("b")),
            ("return 1", None),
            ("return {", None),
        ] {
            let slot = slot_of_script(EngineVersion::NEWEST, script.as_bytes(), None, &[b"b"], 1);
            assert_eq!(slot, key.map(|key| vocab::slot_of(key.as_bytes())), "{script}");
        }
    }
}
