//! FCALL and FUNCTION: the libraries of functions that the metadata group keeps.
//!
//! All libraries are one row of the group. A setting of the store counts their changes, so that all nodes with one map have one set of
//! functions: a node that knows those of another version asks the group's leader before it calls one.

use super::admin;
use super::handlers::{CallHandler, PoolHandler};
use super::programs::{at_meta, change_at_meta, context, meta_leader, probed_slot, write_program};
use super::routed::{KeyTarget, MayWrite, Routed, ScriptRuns};
use super::script_engine::await_engine;
use crate::shared::{KnownFunctions, NodeShared, VERSION_SETTING};
use node::command::ScriptCommand;
use node::session::{Host, Keyspace};
use node::{
    EncodedCommand, LIBRARIES_NAME, Libraries, RequestKeys, ScriptContext, declared_keys, function_command,
    stored_libraries,
};
use resp::table::CommandSpec;
use resp::{Proto, Reply, Value, glob_matches};
use std::borrow::Cow;
use std::sync::Arc;
use vocab::limits::SCRIPTS_BYTES_MAX;
use vocab::{Namespace, ShardId};

const NOT_FOUND: &str = "ERR Function not found";

/// The version of the store's functions, as far as this node knows the map.
fn version_now(store: &NodeShared) -> u64 {
    store.known().map.as_ref().map_or(0, |map| KnownFunctions::version_of(map))
}

/// Where a request that calls a function goes. The error is the text of the reply.
pub(super) fn route(
    store: &NodeShared,
    spec: &'static CommandSpec,
    command: ScriptCommand,
    args: &[&[u8]],
    namespace: Option<Namespace>,
) -> Result<Routed, Cow<'static, str>> {
    let version = version_now(store);
    let Some(known) = store.functions.of_version(version) else {
        return Ok(Routed::UnknownScript);
    };
    let name = String::from_utf8_lossy(args[1]);
    let (library, info) = known.libraries.function(&name).ok_or(NOT_FOUND)?;
    let declared = declared_keys(args).map_err(|text| match text {
        "ERR value is not an integer or out of range" => "ERR Bad number of keys provided",
        text => text,
    })?;
    let keys = RequestKeys::within(spec, args, |span| store.share_shard(span, Keyspace::Cluster))?;
    let slot = match keys.slot.or_else(|| namespace.and_then(Namespace::slot)) {
        Some(slot) => slot,
        None => probed_slot(store, (&library.source, Some(&name)), &args[3 + declared..]),
    };
    let runs = match () {
        () if !command.writes || info.script_flags().no_writes => ScriptRuns::Read,
        () => ScriptRuns::of_writer(store, info.script_flags(), namespace, known.writes(&name), || {
            MayWrite::Function(known.clone(), name.clone().into_owned())
        })?,
    };
    let reads = matches!(runs, ScriptRuns::Read);
    let Some(context) = context(store, slot, namespace) else { return Ok(Routed::UnknownScript) };
    let target = KeyTarget { shard: store.known().shard_of(slot), slot, wider: context.wider, keys: keys.hashes };
    let command = function_command(&library.source, args, &context, reads);
    Ok(Routed::Script { target, command, runs })
}

/// Whether a function may write, as far as this node knows it.
pub(super) fn may_write(store: &NodeShared, name: &[u8]) -> bool {
    let known = store.functions.newest();
    let found = known.libraries.function(&String::from_utf8_lossy(name));
    !found.is_some_and(|(_, info)| info.script_flags().no_writes)
}

/// The same command as an entry has it, by what this node knows of functions now.
pub(super) fn resolved(
    store: &NodeShared,
    args: &[&[u8]],
    writes: bool,
    context: &ScriptContext,
) -> Option<EncodedCommand> {
    let known = store.functions.newest();
    let (library, _) = known.libraries.function(&String::from_utf8_lossy(args[1]))?;
    Some(function_command(&library.source, args, context, !writes))
}

/// Has this node know the functions of the store as they are now.
pub(super) fn learn(store: &Arc<NodeShared>) -> Result<Libraries, String> {
    let version = version_now(store);
    let libraries = match at_meta(store, &[b"FUNCTION", b"STORED"])? {
        Value::Bulk(bytes) if !bytes.is_empty() => store.functions.newest().libraries.decode_next(&bytes)?,
        _ => Libraries::default(),
    };
    store.functions.learn(version, libraries.clone());
    Ok(libraries)
}

/// What runs a command about functions for a client.
pub(super) fn handler(name: &str) -> Option<PoolHandler> {
    match name {
        "FUNCTION|LOAD" | "FUNCTION|DELETE" | "FUNCTION|FLUSH" | "FUNCTION|RESTORE" => Some(change as PoolHandler),
        "FUNCTION|LIST" => Some(|store, args, reply| answer(reply, |reply| list(store, args, reply))),
        "FUNCTION|STATS" => Some(|store, _, reply| answer(reply, |reply| stats(store, reply))),
        "FUNCTION|DUMP" => Some(|store, _, reply| {
            answer(reply, |reply| {
                reply.bulk(&learn(store)?.dump());
                Ok(())
            });
        }),
        _ => None,
    }
}

/// What runs one for another node.
pub(super) fn call_handler(name: &str) -> Option<CallHandler> {
    (name == "FUNCTION").then_some(serve as CallHandler)
}

fn answer(reply: &mut Reply, run: impl FnOnce(&mut Reply) -> Result<(), String>) {
    let mark = reply.buf.len();
    if let Err(text) = run(reply) {
        reply.buf.truncate(mark);
        reply.error(&text);
    }
}

/// A change of functions, which the leader of the metadata group makes.
fn change(store: &Arc<NodeShared>, args: &[&[u8]], reply: &mut Reply) {
    answer(reply, |reply| {
        await_engine(store)?;
        change_at_meta(store, args)?.write(reply);
        // The next call finds them, whenever the map comes.
        learn(store).map(drop)
    });
}

/// Answers another node, on the leader of the metadata group: one RESP3 frame.
fn serve(store: &Arc<NodeShared>, _: ShardId, args: &[&[u8]]) -> Vec<u8> {
    let mut reply = Reply::new(Proto::Resp3);
    answer(&mut reply, |reply| {
        let handle = meta_leader(store)?;
        if args.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"STORED")) {
            reply.bulk(&stored_libraries(&handle)?);
            return Ok(());
        }
        let mut counted = store.functions.begin_change();
        let stored = stored_libraries(&handle)?;
        let mut libraries = match &stored[..] {
            [] => Libraries::default(),
            stored => store.functions.newest().libraries.decode_next(stored)?,
        };
        let changed = changed(&mut libraries, args)?;
        if libraries.bytes() > SCRIPTS_BYTES_MAX {
            return Err(format!("OOM the functions of the store would take more than {SCRIPTS_BYTES_MAX} bytes"));
        }
        let (encoded, version) = (libraries.encode(), version_now(store));
        // Applications load the same library at each start: nothing changes.
        if encoded != stored || !counted.is(version, &encoded) {
            counted.forget();
            write_program(store, &[b"PUT".to_vec(), LIBRARIES_NAME.to_vec(), encoded.clone()])?;
            let version = (version + 1).to_string();
            admin::admin(store, &["SETTINGS", "SET", VERSION_SETTING, &version]).map_err(|e| e.reply())?;
            counted.note(version_now(store), &encoded);
        }
        match changed {
            Some(name) => reply.bulk(name.as_bytes()),
            None => reply.ok(),
        }
        Ok(())
    });
    reply.buf
}

/// Changes libraries as a command says; answers the name of the one that is loaded. The error is the text of a reply.
fn changed(libraries: &mut Libraries, args: &[&[u8]]) -> Result<Option<String>, String> {
    let word = args[1].to_ascii_uppercase();
    match (&word[..], &args[2..]) {
        (b"LOAD", [options @ .., code]) => {
            let mut replace = false;
            for option in options {
                if !option.eq_ignore_ascii_case(b"REPLACE") {
                    return Err(format!("ERR Unknown option given: {}", String::from_utf8_lossy(option)));
                }
                replace = true;
            }
            libraries.add(code, replace).map(Some)
        }
        (b"DELETE", [name]) if libraries.remove(&String::from_utf8_lossy(name)) => Ok(None),
        (b"DELETE", [_]) => Err("ERR Library not found".to_owned()),
        (b"FLUSH", []) => {
            *libraries = Libraries::default();
            Ok(None)
        }
        (b"FLUSH", [how]) if how.eq_ignore_ascii_case(b"SYNC") || how.eq_ignore_ascii_case(b"ASYNC") => {
            *libraries = Libraries::default();
            Ok(None)
        }
        (b"FLUSH", [_]) => Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".to_owned()),
        (b"FLUSH", _) => Err(wrong_arguments(args[1])),
        (b"RESTORE", [dump, policy @ ..]) => restored(libraries, args[1], dump, policy).map(|()| None),
        _ => Err("ERR syntax error".to_owned()),
    }
}

fn restored(libraries: &mut Libraries, word: &[u8], dump: &[u8], policy: &[&[u8]]) -> Result<(), String> {
    let policy = match policy {
        [] => "APPEND".to_owned(),
        [word] => String::from_utf8_lossy(word).to_ascii_uppercase(),
        _ => return Err(wrong_arguments(word)),
    };
    let replace = match policy.as_str() {
        "APPEND" => false,
        "FLUSH" | "REPLACE" => true,
        _ => return Err("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.".to_owned()),
    };
    let given = Libraries::of_dump(dump)?;
    if policy == "FLUSH" {
        *libraries = given;
        return Ok(());
    }
    libraries.join(&given, replace)
}

/// The error about words behind a subcommand, as the client has written that.
fn wrong_arguments(word: &[u8]) -> String {
    let word = String::from_utf8_lossy(word);
    format!("ERR unknown subcommand or wrong number of arguments for '{word}'. Try FUNCTION HELP.")
}

fn list(store: &Arc<NodeShared>, args: &[&[u8]], reply: &mut Reply) -> Result<(), String> {
    let (mut with_code, mut pattern) = (false, None);
    let mut words = args[2..].iter();
    while let Some(word) = words.next() {
        if !with_code && word.eq_ignore_ascii_case(b"WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && word.eq_ignore_ascii_case(b"LIBRARYNAME") {
            pattern = Some(*words.next().ok_or("ERR library name argument was not given")?);
        } else {
            return Err(format!("ERR Unknown argument {}", String::from_utf8_lossy(word)));
        }
    }
    let libraries = learn(store)?;
    let is_asked = |name: &str| pattern.is_none_or(|pattern| glob_matches(pattern, name.as_bytes(), true));
    let listed: Vec<_> = libraries.all().filter(|library| is_asked(&library.loaded.name)).collect();
    reply.array(listed.len());
    for library in listed {
        reply.map(if with_code { 4 } else { 3 });
        reply.bulk(b"library_name");
        reply.bulk(library.loaded.name.as_bytes());
        reply.bulk(b"engine");
        reply.bulk(b"LUA");
        reply.bulk(b"functions");
        reply.array(library.loaded.functions.len());
        for info in &library.loaded.functions {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(info.name.as_bytes());
            reply.bulk(b"description");
            reply.bulk_or_null(info.description.as_ref().map(String::as_bytes));
            reply.bulk(b"flags");
            reply.set(info.flags.len());
            info.flags.iter().for_each(|flag| reply.simple(flag));
        }
        if with_code {
            reply.bulk(b"library_code");
            reply.bulk(&library.source);
        }
    }
    Ok(())
}

fn stats(store: &Arc<NodeShared>, reply: &mut Reply) -> Result<(), String> {
    let (libraries, functions) = learn(store)?.counts();
    reply.map(2);
    reply.bulk(b"running_script");
    let running = store.script_watch.running();
    match running.iter().find_map(|script| Some((script.function.as_ref()?, script))) {
        None => reply.null(),
        Some((name, script)) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(name.as_bytes());
            reply.bulk(b"command");
            reply.array(script.words.len());
            script.words.iter().for_each(|word| reply.bulk(word));
            reply.bulk(b"duration_ms");
            reply.int(store.now_ms().saturating_sub(script.began_ms) as i64);
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.int(libraries as i64);
    reply.bulk(b"functions_count");
    reply.int(functions as i64);
    Ok(())
}
