//! COMMAND and its subcommands, in the shapes of Redis 7.0: clients take their routing from them.

use super::help::help;
use super::key_flag;
use super::resolve::{lookup, lookup_full, subcommand, subcommands, top_level, unknown_subcommand};
use super::spec::{CommandSpec, KeyPlace, KeySpec, acl, flag};
use super::syntax::{self, Argument, ArgumentKind};
use crate::{Reply, glob_matches};

/// Answers `COMMAND …`, whose arity has been checked by `resolve`.
pub fn command(args: &[&[u8]], reply: &mut Reply) {
    let Some(subcommand) = args.get(1) else {
        return write_info_of_all(reply);
    };
    let rest = &args[2..];
    match subcommand.to_ascii_uppercase().as_slice() {
        b"COUNT" => reply.int(top_level().count() as i64),
        b"DOCS" => write_docs(rest, reply),
        b"GETKEYS" => write_keys(rest, false, reply),
        b"GETKEYSANDFLAGS" => write_keys(rest, true, reply),
        b"INFO" if rest.is_empty() => write_info_of_all(reply),
        b"INFO" => {
            reply.array(rest.len());
            for name in rest {
                match lookup_full(name) {
                    Some(spec) => write_info(spec, reply),
                    None => reply.null(),
                }
            }
        }
        b"LIST" => write_list(rest, reply),
        _ => {
            let own = lookup(b"COMMAND").expect("COMMAND has a row");
            if subcommand.eq_ignore_ascii_case(b"HELP") {
                help(own, reply);
            } else {
                reply.error(&unknown_subcommand(own, subcommand));
            }
        }
    }
}

fn write_info_of_all(reply: &mut Reply) {
    reply.array(top_level().count());
    for spec in top_level() {
        write_info(spec, reply);
    }
}

/// One entry of COMMAND: ten elements.
fn write_info(spec: &CommandSpec, reply: &mut Reply) {
    reply.array(10);
    reply.bulk(spec.shown_name().as_bytes());
    reply.int(i64::from(spec.arity));
    write_bits(spec.flags, flag::NAMES, "", reply);
    reply.int(i64::from(spec.first_key));
    reply.int(i64::from(spec.last_key));
    reply.int(i64::from(spec.key_step));
    write_bits(spec.acl, acl::NAMES, "@", reply);
    reply.set(spec.tips.len());
    for tip in spec.tips {
        reply.bulk(tip.as_bytes());
    }
    reply.set(spec.key_specs.len());
    for keys in spec.key_specs {
        write_key_spec(keys, reply);
    }
    // An empty set where others have an array: so does Redis.
    let subcommands = subcommands(spec);
    if subcommands.is_empty() {
        reply.set(0)
    } else {
        reply.array(subcommands.len())
    }
    for subcommand in subcommands {
        write_info(subcommand, reply);
    }
}

/// The names of the bits that are set.
fn write_bits(bits: u32, names: &[(u32, &str)], prefix: &str, reply: &mut Reply) {
    let names = names.iter().filter(|(bit, _)| bits & bit != 0);
    reply.set(names.clone().count());
    for (_, name) in names {
        reply.simple(&format!("{prefix}{name}"));
    }
}

fn write_key_spec(keys: &KeySpec, reply: &mut Reply) {
    let text = |reply: &mut Reply, text: &str| reply.bulk(text.as_bytes());
    if keys.note.is_empty() {
        reply.map(3);
    } else {
        reply.map(4);
        text(reply, "notes");
        text(reply, keys.note);
    }
    text(reply, "flags");
    write_bits(keys.flags, key_flag::NAMES, "", reply);
    match keys.place {
        KeyPlace::Range { first, last, step } => {
            write_search("begin_search", "index", &[("index", i64::from(first))], reply);
            let limits = [("lastkey", i64::from(last)), ("keystep", i64::from(step)), ("limit", 0)];
            write_search("find_keys", "range", &limits, reply);
        }
        KeyPlace::Counted { count, step } => {
            write_search("begin_search", "index", &[("index", i64::from(count))], reply);
            write_search(
                "find_keys",
                "keynum",
                &[("keynumidx", 0), ("firstkey", 1), ("keystep", i64::from(step))],
                reply,
            );
        }
        KeyPlace::AfterWord { word, from, .. } => {
            begin_search(reply, "begin_search", "keyword", 2);
            reply.bulk(b"keyword");
            reply.bulk(word.as_bytes());
            reply.bulk(b"startfrom");
            reply.int(i64::from(from));
            let limits = [("lastkey", 0), ("keystep", 1), ("limit", 0)];
            write_search("find_keys", "range", &limits, reply);
        }
        KeyPlace::Halved { word, told_from, .. } => {
            begin_search(reply, "begin_search", "keyword", 2);
            reply.bulk(b"keyword");
            reply.bulk(word.as_bytes());
            reply.bulk(b"startfrom");
            reply.int(i64::from(told_from));
            write_search("find_keys", "range", &[("lastkey", -1), ("keystep", 1), ("limit", 2)], reply);
        }
        KeyPlace::OneOrRest { at, .. } => {
            write_search("begin_search", "index", &[("index", i64::from(at))], reply);
            write_search("find_keys", "range", &[("lastkey", 0), ("keystep", 1), ("limit", 0)], reply);
        }
        KeyPlace::Operations => {
            write_search("begin_search", "unknown", &[], reply);
            write_search("find_keys", "unknown", &[], reply);
        }
    }
}

fn begin_search(reply: &mut Reply, name: &str, kind: &str, facts: usize) {
    reply.bulk(name.as_bytes());
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(facts);
}

fn write_search(name: &str, kind: &str, numbers: &[(&str, i64)], reply: &mut Reply) {
    begin_search(reply, name, kind, numbers.len());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.int(*number);
    }
}

/// COMMAND DOCS: a map from names to maps. Unknown names are left out.
fn write_docs(names: &[&[u8]], reply: &mut Reply) {
    let specs: Vec<_> = if names.is_empty() {
        top_level().collect()
    } else {
        names.iter().filter_map(|name| lookup_full(name)).collect()
    };
    reply.map(specs.len());
    for spec in specs {
        write_docs_of(spec, reply);
    }
}

fn write_docs_of(spec: &CommandSpec, reply: &mut Reply) {
    reply.bulk(spec.shown_name().as_bytes());
    let arguments = syntax::parse(spec.arguments);
    let mark = reply.begin_array();
    let mut pairs = 4;
    for (name, value) in [
        ("summary", spec.summary),
        ("since", spec.since),
        ("group", spec.group.name()),
        ("complexity", spec.complexity),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    if let Some((since, by)) = spec.deprecated {
        pairs += 3;
        reply.bulk(b"doc_flags");
        reply.set(1);
        reply.simple("deprecated");
        for (name, value) in [("deprecated_since", since), ("replaced_by", by)] {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
    }
    if !arguments.is_empty() {
        pairs += 1;
        reply.bulk(b"arguments");
        write_arguments(&arguments, spec, &mut 0, reply);
    }
    if spec.is_container() {
        pairs += 1;
        reply.bulk(b"subcommands");
        reply.map(subcommands(spec).len());
        for subcommand in subcommands(spec) {
            write_docs_of(subcommand, reply);
        }
    }
    reply.end_map(mark, pairs);
}

fn write_arguments(arguments: &[Argument], spec: &CommandSpec, keys_seen: &mut usize, reply: &mut Reply) {
    reply.array(arguments.len());
    for argument in arguments {
        let mark = reply.begin_array();
        let mut pairs = 2;
        reply.bulk(b"name");
        reply.bulk(argument.name.as_bytes());
        reply.bulk(b"type");
        reply.bulk(argument.kind.name().as_bytes());
        if argument.kind == ArgumentKind::Key {
            pairs += 1;
            reply.bulk(b"key_spec_index");
            reply.int((*keys_seen).min(spec.key_specs.len().saturating_sub(1)) as i64);
            *keys_seen += 1;
        }
        if let Some(token) = argument.token {
            pairs += 1;
            reply.bulk(b"token");
            reply.bulk(token.as_bytes());
        }
        if argument.optional || argument.multiple {
            pairs += 1;
            reply.bulk(b"flags");
            let flags = [(argument.optional, "optional"), (argument.multiple, "multiple")];
            let flags = flags.iter().filter(|(set, _)| *set);
            reply.set(flags.clone().count());
            for (_, name) in flags {
                reply.simple(name);
            }
        }
        if !argument.children.is_empty() {
            pairs += 1;
            reply.bulk(b"arguments");
            write_arguments(&argument.children, spec, keys_seen, reply);
        }
        reply.end_map(mark, pairs);
    }
}

/// COMMAND GETKEYS and GETKEYSANDFLAGS of a request.
fn write_keys(request: &[&[u8]], with_flags: bool, reply: &mut Reply) {
    let container = request.first().and_then(|name| lookup(name));
    let spec = match (container, request.get(1)) {
        (Some(container), Some(name)) if container.is_container() => subcommand(container, name),
        (spec, _) => spec,
    };
    let Some(spec) = spec else {
        return reply.error("ERR Invalid command specified");
    };
    // Channels have slots, as keys have, and are none.
    if spec.key_specs.iter().all(|of| of.flags & key_flag::NOT_KEY != 0) {
        return reply.error("ERR The command has no key arguments");
    }
    if !spec.check_arity(request.len()) {
        return reply.error("ERR Invalid number of arguments specified for command");
    }
    let Ok(keys) = spec.keys_and_flags(request) else {
        return reply.error("ERR Invalid arguments specified for command");
    };
    reply.array(keys.len());
    for (at, flags) in keys {
        if with_flags {
            reply.array(2);
        }
        reply.bulk(request[at]);
        if with_flags {
            write_bits(flags, key_flag::NAMES, "", reply);
        }
    }
}

/// COMMAND LIST [FILTERBY <MODULE name | ACLCAT category | PATTERN pattern>]
fn write_list(filter: &[&[u8]], reply: &mut Reply) {
    let keep: Box<dyn Fn(&CommandSpec) -> bool> = match filter {
        [] => Box::new(|_| true),
        [by, kind, what] if by.eq_ignore_ascii_case(b"FILTERBY") => {
            let what = what.to_vec();
            match kind.to_ascii_uppercase().as_slice() {
                // There are no modules.
                b"MODULE" => Box::new(|_| false),
                b"ACLCAT" => {
                    let category = acl::NAMES.iter().find(|(_, name)| name.as_bytes().eq_ignore_ascii_case(&what));
                    let bit = category.map_or(0, |(bit, _)| *bit);
                    Box::new(move |spec| spec.acl & bit != 0)
                }
                b"PATTERN" => Box::new(move |spec| glob_matches(&what, spec.shown_name().as_bytes(), true)),
                _ => return reply.error("ERR syntax error"),
            }
        }
        _ => return reply.error("ERR syntax error"),
    };
    let mark = reply.begin_array();
    let mut count = 0;
    for spec in super::all().iter().filter(|spec| keep(spec)) {
        reply.bulk(spec.shown_name().as_bytes());
        count += 1;
    }
    reply.end_array(mark, count);
}
