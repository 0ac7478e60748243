//! Commands that run scripts: from what a client sends to what an entry holds; and the scripts that the store knows.
//!
//! The metadata group keeps them. A node remembers those that it has met, so that it asks the group once for each. A script is
//! kept before it runs for the first time: a client that is answered may rely on its SHA1 at every node.

use super::functions;
use super::handlers::{CallHandler, PoolHandler};
use super::programs::{at_meta, context, engine_now, meta_leader, probed_slot, write_program};
use super::routed::{KeyTarget, MayWrite, Routed, ScriptRuns};
use super::script_engine::{ENGINE, await_engine, begin_engine};
use crate::os::now_ms;
use crate::peers::call_node;
use crate::shared::NodeShared;
use node::command::{ScriptCommand, ScriptName};
use node::session::{Host, Keyspace};
use node::{
    EncodedCommand, Killed, KnownScript, NOSCRIPT, RequestKeys, ScriptHeader, ScriptOrigin, check_script,
    declared_keys, is_sha, keep_script, script_command, script_without_context as without_context, sha1_hex,
    stored_script, stored_script_names, stored_script_sources, without_namespace,
};
use resp::table::CommandSpec;
use resp::{Proto, Reply};
use std::borrow::Cow;
use std::sync::Arc;
use vocab::limits::SCRIPT_BYTES_MAX;
use vocab::{Namespace, NodeId, ShardId, Slot};

/// Names of a command that nodes send each other: its first word is SCRIPT's.
const KEEP_RUN: &[u8] = b"KEEP";
const FORGET: &[u8] = b"FORGET";
/// All scripts of the store.
const ALL: &[u8] = b"ALL";
/// Ends what reads on the node that is asked: its second word says what.
const END: &[u8] = b"END";
const SCRIPTS: &[u8] = b"SCRIPTS";
const FUNCTIONS: &[u8] = b"FUNCTIONS";
const UNKILLABLE: &str = "UNKILLABLE the script may write, so all replicas of its shard run it: it ends at its budget \
                          (`script-instructions-max`) and writes nothing then";
/// Names that one entry of the metadata group drops.
const DROPPED_AT_ONCE: usize = 1000;

/// Where a request that runs a script goes, and with which words. The error is the text of the reply.
pub(super) fn route(
    store: &NodeShared,
    spec: &'static CommandSpec,
    command: ScriptCommand,
    args: &[&[u8]],
) -> Result<Routed, Cow<'static, str>> {
    let (args, namespace) = without_namespace(args);
    // By its words alone, any client could end its request so.
    if matches!(namespace, Some(Namespace::Cluster(_))) && !store.has_cluster_databases() {
        return Err("ERR the store has no databases beyond 0 for clients of a cluster".into());
    }
    if command.names == ScriptName::Function {
        return functions::route(store, spec, command, args, namespace);
    }
    let declared = declared_keys(args)?;
    let Some(script) = known_script(store, command, args)? else {
        return Ok(Routed::UnknownScript);
    };
    let source = &script.source;
    let keys = RequestKeys::within(spec, args, |span| store.share_shard(span, Keyspace::Cluster))?;
    let slot = match keys.slot.or_else(|| namespace.and_then(Namespace::slot)) {
        Some(slot) => slot,
        None => probed_slot(store, (source, None), &args[3 + declared..]),
    };
    let flags = ScriptHeader::of(source)?.flags;
    let reads = !command.writes || flags.no_writes;
    let Some(context) = context(store, slot, namespace) else { return Ok(Routed::UnknownScript) };
    let target = KeyTarget { shard: store.known().shard_of(slot), slot, wider: context.wider, keys: keys.hashes };
    let command = script_command(source, args, &context, reads);
    let runs = match () {
        () if reads => ScriptRuns::Read,
        () => ScriptRuns::of_writer(store, flags, namespace, script.writes(), || MayWrite::Script(script.clone()))?,
    };
    Ok(Routed::Script { target, command, runs })
}

/// Whether a request that runs a script may write, as far as this node knows the script.
pub(crate) fn script_may_write(store: &NodeShared, spec: &'static CommandSpec, args: &[&[u8]]) -> bool {
    let no_writes = |source: &[u8]| ScriptHeader::of(source).is_ok_and(|header| header.flags.no_writes);
    let Some(command) = node::command::script_of(spec) else { return false };
    command.writes
        && match command.names {
            ScriptName::Source => !no_writes(args[1]),
            ScriptName::Sha => !store.scripts.get(args[1]).is_some_and(|script| no_writes(&script.source)),
            ScriptName::Function => functions::may_write(store, args[1]),
        }
}

/// The same command as an entry has it: with the source of its script, and its context. One whose script is not known has none: its
/// answer says so. A client's own words never stand where a context is looked for.
pub(crate) fn resolved(store: &NodeShared, command: EncodedCommand, slot: Slot) -> EncodedCommand {
    let Some(script) = command.spec().and_then(node::command::script_of) else { return command };
    let args = command.args();
    let (args, namespace) = without_namespace(&args);
    let Some(context) = context(store, slot, namespace) else { return without_context(&command) };
    if script.names == ScriptName::Function {
        return functions::resolved(store, args, script.writes, &context).unwrap_or_else(|| without_context(&command));
    }
    match known_script(store, script, args) {
        Ok(Some(known)) => script_command(&known.source, args, &context, !script.writes),
        _ if script.names == ScriptName::Source => script_command(args[1], args, &context, !script.writes),
        _ => without_context(&command),
    }
}

/// The script of a request, if this node knows that the store knows it.
fn known_script(
    store: &NodeShared,
    command: ScriptCommand,
    args: &[&[u8]],
) -> Result<Option<Arc<KnownScript>>, Cow<'static, str>> {
    let name = args[1];
    match command.names {
        ScriptName::Source => {
            check_length(name)?;
            Ok(store.scripts.of_source(name))
        }
        ScriptName::Sha if !is_sha(name) => Err(NOSCRIPT.into()),
        ScriptName::Function => Ok(None),
        ScriptName::Sha => Ok(store.scripts.get(name)),
    }
}

fn check_length(source: &[u8]) -> Result<(), String> {
    if source.len() > SCRIPT_BYTES_MAX {
        return Err(format!("ERR the script is too long ({} bytes, {SCRIPT_BYTES_MAX} are allowed)", source.len()));
    }
    Ok(())
}

/// Has this node know the script of a request, which the store knows then. The error is the text of the reply.
pub(crate) fn learn(store: &Arc<NodeShared>, spec: &'static CommandSpec, name: &[u8]) -> Result<(), String> {
    await_engine(store)?;
    match node::command::script_of(spec).map(|script| script.names) {
        Some(ScriptName::Source) => keep(store, name, KEEP_RUN),
        Some(ScriptName::Sha) => find(store, name),
        Some(ScriptName::Function) => functions::learn(store).map(drop),
        None => Err("ERR not a script".to_owned()),
    }
}

/// Has the store know a script; `word` says why.
fn keep(store: &Arc<NodeShared>, source: &[u8], word: &[u8]) -> Result<(), String> {
    check_script(engine_now(store), source)?;
    at_meta(store, &[b"SCRIPT", word, source])?;
    store.scripts.add(source);
    Ok(())
}

/// Has this node know a script that the store knows.
fn find(store: &Arc<NodeShared>, sha: &[u8]) -> Result<(), String> {
    match at_meta(store, &[b"SCRIPT", b"SHOW", sha])? {
        resp::Value::Bulk(source) => {
            store.scripts.add(&source);
            Ok(())
        }
        _ => Err(NOSCRIPT.to_owned()),
    }
}

/// What runs a command about scripts for a client.
pub(super) fn handler(name: &str) -> Option<PoolHandler> {
    match name {
        "SCRIPT|LOAD" => Some(load as PoolHandler),
        "SCRIPT|EXISTS" => Some(pass_on as PoolHandler),
        "SCRIPT|SHOW" => Some(show as PoolHandler),
        "SCRIPT|FLUSH" => Some(flush as PoolHandler),
        "SCRIPT|KILL" => Some(|store, _, reply| kill(store, SCRIPTS, reply)),
        "KV.BACKUP|PROGRAMS" => Some(programs as PoolHandler),
        "FUNCTION|KILL" => Some(|store, _, reply| kill(store, FUNCTIONS, reply)),
        _ => None,
    }
}

/// What runs one for another node.
pub(super) fn call_handler(name: &str) -> Option<CallHandler> {
    (name == "SCRIPT").then_some(serve as CallHandler)
}

fn load(store: &Arc<NodeShared>, args: &[&[u8]], reply: &mut Reply) {
    let source = args[2];
    let kept = check_length(source).and_then(|()| await_engine(store)).and_then(|()| keep(store, source, b"LOAD"));
    match kept {
        Ok(()) => reply.bulk(sha1_hex(source).as_bytes()),
        Err(text) => reply.error(&text),
    }
}

/// What a backup keeps of functions and scripts: a dump, and the sources that clients have loaded or run.
fn programs(store: &Arc<NodeShared>, _: &[&[u8]], reply: &mut Reply) {
    let mark = reply.buf.len();
    let found = functions::learn(store).and_then(|libraries| Ok((libraries, at_meta(store, &[b"SCRIPT", ALL])?)));
    match found {
        Ok((libraries, scripts)) => {
            reply.array(2);
            let has_any = libraries.counts().0 > 0;
            reply.bulk(&if has_any { libraries.dump() } else { Vec::new() });
            scripts.write(reply);
        }
        Err(text) => {
            reply.buf.truncate(mark);
            reply.error(&text);
        }
    }
}

fn show(store: &Arc<NodeShared>, args: &[&[u8]], reply: &mut Reply) {
    match at_meta(store, args) {
        Ok(resp::Value::Null) => reply.error(NOSCRIPT),
        Ok(value) => value.write(reply),
        Err(text) => reply.error(&text),
    }
}

fn pass_on(store: &Arc<NodeShared>, args: &[&[u8]], reply: &mut Reply) {
    match at_meta(store, args) {
        Ok(value) => value.write(reply),
        Err(text) => reply.error(&text),
    }
}

/// Once the group has forgotten the scripts, so do the nodes that can be reached. One that cannot goes on running them by name
/// until it starts again: that they are the right ones is sure, since their names are their sums.
fn flush(store: &Arc<NodeShared>, args: &[&[u8]], reply: &mut Reply) {
    let is_right = match args {
        [_, _] => true,
        [_, _, how] => how.eq_ignore_ascii_case(b"SYNC") || how.eq_ignore_ascii_case(b"ASYNC"),
        _ => false,
    };
    if !is_right {
        return reply.error("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
    }
    if let Err(text) = at_meta(store, &[b"SCRIPT", b"FLUSH"]) {
        return reply.error(&text);
    }
    store.scripts.forget_all();
    for node in other_nodes(store) {
        // What is lost here is explained above.
        let _ = call_node(store, node, ShardId::META, &[b"SCRIPT", FORGET]);
    }
    reply.ok();
}

/// Ends the scripts, or the functions, that only read and run beside the event loops, on all nodes that can be reached.
fn kill(store: &Arc<NodeShared>, what: &[u8], reply: &mut Reply) {
    let mut killed = store.script_watch.kill(what == FUNCTIONS);
    for node in other_nodes(store) {
        // One that cannot be reached has no client of this store's that could be helped.
        let answer = call_node(store, node, ShardId::META, &[b"SCRIPT", END, what]);
        if let Ok(Ok(Some((resp::Value::Int(number), _)))) = answer.map(|frame| resp::decode(&frame)) {
            killed = killed.max(Killed::of_number(number));
        }
    }
    match killed {
        Killed::Ended => reply.ok(),
        Killed::MayWrite => reply.error(UNKILLABLE),
        Killed::OfOtherKind if what == FUNCTIONS => {
            reply.error("BUSY a script runs, and no function: SCRIPT KILL ends it, if it only reads");
        }
        Killed::OfOtherKind => {
            reply.error("BUSY a function runs, and no script: FUNCTION KILL ends it, if it only reads");
        }
        Killed::NoneRuns => reply.error("NOTBUSY No scripts in execution right now."),
    }
}

fn other_nodes(store: &NodeShared) -> Vec<NodeId> {
    let known = store.known();
    let nodes = known.map.iter().flat_map(|map| map.nodes.keys().copied());
    nodes.filter(|node| *node != store.node()).collect()
}

/// Answers another node: one RESP3 frame.
fn serve(store: &Arc<NodeShared>, _: ShardId, args: &[&[u8]]) -> Vec<u8> {
    let mut reply = Reply::new(Proto::Resp3);
    if args.get(1).is_some_and(|word| *word == FORGET) {
        store.scripts.forget_all();
        reply.ok();
        return reply.buf;
    }
    if let [_, word, what] = args
        && *word == END
    {
        reply.int(store.script_watch.kill(*what == FUNCTIONS) as i64);
        return reply.buf;
    }
    if let Err(text) = leading(store, args, &mut reply) {
        reply.buf.clear();
        reply.error(&text);
    }
    reply.buf
}

/// On the leader of the metadata group.
fn leading(store: &Arc<NodeShared>, args: &[&[u8]], reply: &mut Reply) -> Result<(), String> {
    let handle = meta_leader(store)?;
    let is = |word: &[u8], name: &[u8]| word.eq_ignore_ascii_case(name);
    match args {
        [_, word, source] if is(word, KEEP_RUN) || is(word, b"LOAD") => {
            let origin = if is(word, KEEP_RUN) { ScriptOrigin::Run } else { ScriptOrigin::Loaded };
            // The lock is not held while the group writes.
            let kept = keep_script(&handle, &mut store.script_tally.lock(), source, origin, now_ms())?;
            for words in kept {
                write_program(store, &words)?;
            }
            reply.ok();
        }
        [_, word] if is(word, ENGINE) => {
            begin_engine(store)?;
            reply.ok();
        }
        [_, word] if is(word, ALL) => {
            let sources = stored_script_sources(&handle)?;
            reply.array(sources.len());
            sources.iter().for_each(|source| reply.bulk(source));
        }
        [_, word, sha] if is(word, b"SHOW") => match stored_script(&handle, sha)? {
            Some(source) => reply.bulk(&source),
            None => reply.null(),
        },
        [_, word, shas @ ..] if is(word, b"EXISTS") => {
            reply.array(shas.len());
            for sha in shas {
                reply.int(i64::from(stored_script(&handle, sha)?.is_some()));
            }
        }
        [_, word] if is(word, b"FLUSH") => {
            for names in stored_script_names(&handle)?.chunks(DROPPED_AT_ONCE) {
                let mut words = vec![b"DROP".to_vec()];
                words.extend_from_slice(names);
                write_program(store, &words)?;
            }
            store.script_tally.lock().reset();
            reply.ok();
        }
        _ => return Err("ERR this command is not for other nodes".to_owned()),
    }
    Ok(())
}
