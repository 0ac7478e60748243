//! A library of functions while its code runs: what it registers.

use super::context::EngineVersion;
use super::direct::bounded;
use super::header::ScriptFlags;
use super::library_source::is_name;
use super::raised::Raised;
use mlua::{Function, Lua, MultiValue, Table, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The flags of a function, and the words for them.
const FLAGS: &[&str] = &["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

/// A function of a library, as it is listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Its name.
    pub name: String,
    /// What its author says of it.
    pub description: Option<String>,
    /// Its flags.
    pub flags: Vec<&'static str>,
}

impl FunctionInfo {
    /// What they say of how it is run.
    #[must_use]
    pub fn script_flags(&self) -> ScriptFlags {
        ScriptFlags {
            is_plain: false,
            no_writes: self.flags.contains(&"no-writes"),
            allow_oom: self.flags.contains(&"allow-oom"),
            no_cluster: self.flags.contains(&"no-cluster"),
        }
    }
}

/// What a library has registered so far.
///
/// What its functions call is in one table of Lua: a state has room for some thousand values that are kept outside, and panics beyond.
pub(super) struct Registered {
    functions: RefCell<Functions>,
    /// By their places, from 1 on.
    callbacks: Table,
}

#[derive(Default)]
struct Functions {
    infos: Vec<FunctionInfo>,
    /// Their names in lower case.
    names: BTreeSet<String>,
}

/// A library whose code has been run.
pub(super) struct Loaded {
    /// Its name.
    pub(super) name: String,
    pub(super) functions: Vec<FunctionInfo>,
    /// What they call, by their places from 1 on.
    callbacks: Table,
}

impl Loaded {
    /// The function of a name, and what it calls.
    pub(super) fn find(&self, name: &str) -> mlua::Result<Option<(&FunctionInfo, Function)>> {
        let found = self.functions.iter().position(|info| info.name.eq_ignore_ascii_case(name));
        found.map(|at| Ok((&self.functions[at], self.callbacks.raw_get(at + 1)?))).transpose()
    }
}

impl Registered {
    /// Nothing.
    pub(super) fn new(lua: &Lua) -> mlua::Result<Self> {
        Ok(Self { functions: RefCell::default(), callbacks: lua.create_table()? })
    }

    /// The library of that name with the functions, which are taken out.
    pub(super) fn take(&self, name: String) -> Loaded {
        let Functions { infos, .. } = std::mem::take(&mut *self.functions.borrow_mut());
        Loaded { name, functions: infos, callbacks: self.callbacks.clone() }
    }

    /// `redis.register_function`.
    pub(super) fn register_function(self: &Rc<Self>, lua: &Lua) -> mlua::Result<Function> {
        let of = self.clone();
        let function = lua.create_function(move |_, args: MultiValue| match parse(&args) {
            Ok((info, callback)) => of.register(info, callback),
            Err(text) => Err(Raised::reply(format!("ERR {text}"))),
        })?;
        // It is a call of a run, and what that allocates counts: engines before the seventh allocate no more than they did.
        match EngineVersion::of_state(lua) < EngineVersion::Seventh {
            true => Ok(function),
            false => bounded(lua, function),
        }
    }

    fn register(&self, info: FunctionInfo, callback: Function) -> mlua::Result<()> {
        let mut functions = self.functions.borrow_mut();
        if !functions.names.insert(info.name.to_ascii_lowercase()) {
            return Err(Raised::reply("ERR Function already exists in the library".to_owned()));
        }
        functions.infos.push(info);
        self.callbacks.raw_set(functions.infos.len(), callback)
    }
}

/// What `redis.register_function` is given.
fn parse(args: &MultiValue) -> Result<(FunctionInfo, Function), String> {
    let (info, callback) = match (args.len(), args.front(), args.get(1)) {
        (1, Some(Value::Table(table)), _) => named(table)?,
        (1, ..) => {
            return Err("calling redis.register_function with a single argument is only applicable to Lua table \
                        (representing named arguments)."
                .to_owned());
        }
        (2, Some(name), Some(callback)) => {
            let name = text(name).ok_or("first argument to redis.register_function must be a string")?;
            let Value::Function(callback) = callback else {
                return Err("second argument to redis.register_function must be a function".to_owned());
            };
            (FunctionInfo { name, ..FunctionInfo::default() }, callback.clone())
        }
        _ => return Err("wrong number of arguments to redis.register_function".to_owned()),
    };
    if !is_name(info.name.as_bytes()) {
        return Err("Library names can only contain letters, numbers, or underscores(_) and must be at least one \
                    character long"
            .to_owned());
    }
    Ok((info, callback))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string_lossy()),
        Value::Integer(n) => Some(n.to_string()),
        Value::Number(n) => Some(n.to_string()),
        _ => None,
    }
}

fn named(table: &Table) -> Result<(FunctionInfo, Function), String> {
    let (mut info, mut found, mut callback) = (FunctionInfo::default(), false, None);
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|e| e.to_string())?;
        let key = text(&key).ok_or("named argument key given to redis.register_function is not a string")?;
        match key.to_ascii_lowercase().as_str() {
            "function_name" => {
                let text = text(&value);
                info.name = text.ok_or("function_name argument given to redis.register_function must be a string")?;
                found = true;
            }
            "description" => {
                let text = text(&value);
                let text = text.ok_or("description argument given to redis.register_function must be a string")?;
                info.description = Some(text);
            }
            "callback" => {
                let Value::Function(function) = value else {
                    return Err("callback argument given to redis.register_function must be a function".to_owned());
                };
                callback = Some(function);
            }
            "flags" => {
                let Value::Table(flags) = value else {
                    return Err(
                        "flags argument to redis.register_function must be a table representing function flags"
                            .to_owned(),
                    );
                };
                info.flags = flags_of(&flags)?;
            }
            _ => return Err("unknown argument given to redis.register_function".to_owned()),
        }
    }
    if !found {
        return Err("redis.register_function must get a function name argument".to_owned());
    }
    let callback = callback.ok_or("redis.register_function must get a callback argument")?;
    Ok((info, callback))
}

fn flags_of(table: &Table) -> Result<Vec<&'static str>, String> {
    let mut flags = Vec::new();
    for value in table.sequence_values::<Value>() {
        let word = value.ok().as_ref().and_then(text).unwrap_or_default();
        let flag = FLAGS.iter().copied().find(|flag| flag.eq_ignore_ascii_case(&word));
        flags.push(flag.ok_or("unknown flag given")?);
    }
    // In the order in which Redis lists them, each once.
    Ok(FLAGS.iter().copied().filter(|flag| flags.contains(flag)).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::script::check_library;

    /// More than a state has room for outside of its tables: it panics beyond.
    #[test]
    fn a_library_may_have_many_functions() {
        let count = 9000;
        let code = format!(
            "#!lua name=many\nfor i = 1, {count} do redis.register_function('f' .. i, function() return i end) end"
        );
        let library = check_library(code.as_bytes()).unwrap();
        assert_eq!(library.functions.len(), count);
        let twice = format!("{code}\nredis.register_function('F1', function() end)");
        assert!(check_library(twice.as_bytes()).unwrap_err().ends_with("Function already exists in the library"));
    }

    /// With more arguments than the binding has places for it would panic.
    #[test]
    fn a_function_is_registered_with_few_arguments() {
        for (arguments, error) in [
            ("('x'):byte(1, -1)", "with a single argument"),
            ("('x'):rep(3):byte(1, -1)", "wrong number of arguments"),
            ("('x'):rep(7000):byte(1, -1)", "too many arguments"),
        ] {
            let code = format!("#!lua name=l\nredis.register_function({arguments})");
            let text = check_library(code.as_bytes()).unwrap_err();
            assert!(text.contains(error), "{arguments}: {text}");
        }
    }
}
