//! A Lua state with the prelude, and the scripts that it has compiled.
#![allow(unsafe_code, reason = "Lua's own interface makes two tables at once, and tells of its stack")]

use super::allocation::{Allocation, Installed};
use super::calls::Calls;
use super::context::EngineVersion;
use super::direct::{bound_all, push_texts};
use super::functions::{FunctionInfo, Loaded, Registered};
use super::header::{ScriptFlags, ScriptHeader};
use super::library::{JsonSettings, libraries};
use super::library_source::LibraryHeader;
use super::meter::{INSTRUCTIONS_AT_ONCE, Meter};
use super::natives::{natives, sha1_hex};
use super::stand_in::{metatable_of, walk};
use mlua::{ChunkMode, Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, ffi};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ptr;
use std::rc::Rc;
use vocab::client_key;
use vocab::limits::{
    SCRIPT_SLICE_MEMORY_BYTES_MAX, SCRIPT_SLICE_SOURCE_BYTES_MAX, SCRIPT_VALUES_HELD_MAX, SCRIPTS_COMPILED_BYTES_MAX,
    SCRIPTS_COMPILED_MAX,
};
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

const PRELUDE: &str = include_str!("prelude.lua");
/// What it has besides from the seventh engine on.
const PRELUDE_OF_SEVENTH: &str = include_str!("prelude_seventh.lua");

thread_local! {
    /// The state that a thread uses again: nothing of a run is left in it but what is compiled.
    static USED_AGAIN: RefCell<Option<Engine>> = const { RefCell::new(None) };
    /// The rules of which an event loop keeps a state, if this thread is one: it makes it at times of its own.
    static KEPT: Cell<Option<EngineVersion>> = const { Cell::new(None) };
}

/// Makes the state that scripts on this event loop use, if it lacks it: at the start, and where a script has worn it out. To make it
/// takes a millisecond, so no script does: until then threads run them.
pub fn keep_script_state() {
    let version = KEPT.get().unwrap_or(EngineVersion::NEWEST);
    KEPT.set(Some(version));
    USED_AGAIN.with(|place| {
        let mut place = place.borrow_mut();
        if place.as_ref().is_none_or(|engine| engine.version != version) {
            match Engine::new(version, true) {
                Ok(engine) => *place = Some(engine),
                Err(e) => log::warn!("no state for scripts: {e}"),
            }
        }
    });
}

/// Whether this thread may run a script of that version at once. An event loop makes the state that it lacks later.
pub(super) fn may_run_at_once(version: EngineVersion) -> bool {
    let has_it = || USED_AGAIN.with(|place| place.borrow().as_ref().is_some_and(|engine| engine.version == version));
    if KEPT.get().is_none() || has_it() {
        return true;
    }
    KEPT.set(Some(version));
    false
}

/// A script that is compiled.
pub(super) struct Compiled {
    pub(super) function: Function,
    pub(super) flags: ScriptFlags,
    /// Its name in errors.
    pub(super) sha: String,
}

/// A library whose code has been run, for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedLibrary {
    /// Its name.
    pub name: String,
    /// Its functions, by their names.
    pub functions: Vec<FunctionInfo>,
}

/// Instructions of Lua that the code of a library may run while it is loaded.
const LOAD_INSTRUCTIONS_MAX: u64 = 10_000_000;

/// A Lua state.
pub(super) struct Engine {
    state: *mut ffi::lua_State,
    /// Whose rules it was made for.
    version: EngineVersion,
    pub(super) meter: Rc<Meter>,
    json: Rc<JsonSettings>,
    environment: Table,
    /// Its commands.
    pub(super) calls: Rc<Calls>,
    /// It is used again, and decides of no script that it is refused.
    is_used_again: bool,
    run: Function,
    finish: Function,
    clean_up: Function,
    /// A run may have left something undone: it has passed a bound in the midst of the prelude, or functions of the script ran behind it.
    is_unclean: Cell<bool>,
    load: Function,
    compiled: HashMap<Vec<u8>, Rc<Compiled>, Xxh3DefaultBuilder>,
    compiled_bytes: usize,
    pub(super) lua: Lua,
    /// Behind the state: it may allocate by it to its end.
    _allocation: Installed,
}

/// Hands over the state of this thread, or a new one where it is in use or of another version.
pub(super) fn with_used_again<T>(version: EngineVersion, run: impl FnOnce(&mut Engine) -> T) -> mlua::Result<T> {
    USED_AGAIN.with(|place| {
        let mut engine = match place.take().filter(|engine| engine.version == version) {
            Some(engine) => engine,
            None => Engine::new(version, true)?,
        };
        let done = run(&mut engine);
        // A run that came to nothing has left its bounds, which what is compiled next would find passed.
        engine.meter.finish();
        if !engine.is_worn() && engine.is_clean() {
            place.replace(Some(engine));
        }
        Ok(done)
    })
}

/// Compiles a script as that version does, for nothing; the error is the text of a reply.
pub fn check_script(version: EngineVersion, source: &[u8]) -> Result<(), String> {
    let compiled = with_used_again(version, |engine| engine.compile(source).map(drop));
    compiled.unwrap_or_else(|e| Err(format!("ERR no state for a script: {e}")))
}

/// Runs the code of a library, for what it registers; the error is the text of a reply.
pub fn check_library(source: &[u8]) -> Result<LoadedLibrary, String> {
    let loaded = Engine::new(EngineVersion::NEWEST, false).map_err(|e| e.to_string()).and_then(|mut engine| {
        engine.meter.begin(LOAD_INSTRUCTIONS_MAX, SCRIPT_SLICE_MEMORY_BYTES_MAX as usize, EngineVersion::NEWEST);
        let loaded = match engine.count_anew() {
            Ok(()) => engine.load(source),
            Err(e) => Err(format!("ERR {}", text_of(&e))),
        };
        engine.meter.finish();
        let Loaded { name, mut functions, .. } = loaded?;
        functions.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(LoadedLibrary { name, functions })
    });
    match loaded {
        Ok(library) if library.functions.is_empty() => Err("ERR No functions registered".to_owned()),
        loaded => loaded,
    }
}

/// The binding has a place for each value of a state that it holds, in a stack that grows as it needs more, and Lua allows some less than 8,000. It
/// grows where nothing would handle an error, so it has so many from the start: what a script may spend is over at any time.
const PLACES: usize = 7000;
const _: () =
    assert!(SCRIPT_VALUES_HELD_MAX + SCRIPTS_COMPILED_MAX + 256 < PLACES, "scripts that are compiled have places, too");

fn make_places(lua: &Lua) -> mlua::Result<()> {
    (0..PLACES).map(|_| lua.create_string("")).collect::<mlua::Result<Vec<_>>>().map(drop)
}

/// The state's memory is collected when it is so many percent of what was left the last time. Most of what is left is the
/// prelude, and to walk it more often is what a short script would pay for.
const COLLECT_AT_PERCENT: i32 = 400;

impl Engine {
    /// A new state. One that is not used again counts what it does as each replica does.
    pub(super) fn new(version: EngineVersion, is_used_again: bool) -> mlua::Result<Self> {
        let make = || Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new());
        let lua = lua::by_rules(version >= EngineVersion::Seventh, make)?;
        let mut state = ptr::null_mut();
        // SAFETY: the closure raises no error. No coroutine runs.
        unsafe { lua.exec_raw::<()>((), |its| state = its)? };
        let meter = match is_used_again {
            true => Meter::of(Allocation::with_small_blocks()),
            false => Meter::default(),
        };
        if is_used_again {
            lua.gc_set_pause(COLLECT_AT_PERCENT);
        }
        let meter = Rc::new(meter);
        lua.set_app_data(version);
        let used = lua.used_memory();
        make_places(&lua)?;
        let allocation = Installed::new(&lua, meter.allocation(), used)?;
        let calls = Calls::new(&meter);
        let natives = natives(&lua, &meter, &calls, (version, is_used_again))?;
        let json = Rc::new(JsonSettings::default());
        let libraries = libraries(&lua, &json, &meter)?;
        bound_all(&lua, &libraries)?;
        natives.raw_set("walk", lua.create_function(walk)?)?;
        if version >= EngineVersion::Seventh {
            natives.raw_set("metatable_of", metatable_of(&lua)?)?;
            natives.raw_set("seventh", prelude_of_seventh(&lua)?)?;
        }
        let prelude: Table =
            lua.load(PRELUDE).set_name("=prelude").set_mode(ChunkMode::Text).call((natives, libraries))?;
        let engine = Self {
            meter,
            json,
            environment: prelude.get("environment")?,
            calls,
            is_used_again,
            run: prelude.get("run")?,
            finish: prelude.get("finish")?,
            clean_up: prelude.get("clean_up")?,
            is_unclean: Cell::new(false),
            load: prelude.get("load")?,
            compiled: HashMap::default(),
            compiled_bytes: 0,
            state,
            version,
            lua,
            _allocation: allocation,
        };
        // SAFETY: it is the state of `lua`, which lives, and none of its functions runs.
        unsafe { lua::settle(engine.state) };
        Ok(engine)
    }

    /// Whether its stack has overflown: Lua allows other calls to be nested then than in a new state.
    pub(super) fn is_worn(&self) -> bool {
        // SAFETY: it is the state of `lua`, which lives.
        unsafe { lua::has_overflown(self.state) }
    }

    /// Whether nothing of its runs is left in it, after what one has left undone is done. No run is under way.
    fn is_clean(&self) -> bool {
        if !self.is_unclean.get() {
            return true;
        }
        // What the run has passed would end this, too.
        self.meter.finish();
        self.lua.remove_global_hook();
        match self.clean_up.call::<()>(()) {
            Ok(()) => self.is_unclean.set(false),
            Err(e) => log::warn!("a state for scripts is given up: {e}"),
        }
        !self.is_unclean.get()
    }

    /// Frees what earlier runs have left, where it is much of what the state may hold.
    pub(super) fn make_room(&self, bytes_max: usize) -> mlua::Result<()> {
        if self.lua.used_memory() > bytes_max / 2 { self.lua.gc_collect() } else { Ok(()) }
    }

    /// A run begins, whose instructions count from here on. Otherwise the first look at them would come when earlier runs have it, and those are
    /// others on each replica.
    pub(super) fn count_anew(&self) -> mlua::Result<()> {
        // SAFETY: it is the state of `lua`, which lives; the meter ends the run before that is dropped.
        unsafe { lua::begin_run(self.state) };
        let meter = self.meter.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_AT_ONCE);
        self.lua.set_global_hook(triggers, move |_, _| meter.count())
    }

    /// The script of that source; the error is the text of a reply.
    pub(super) fn compile(&mut self, source: &[u8]) -> Result<Rc<Compiled>, String> {
        if let Some(compiled) = self.compiled.get(source) {
            return Ok(compiled.clone());
        }
        let header = ScriptHeader::of(source)?;
        let chunk = self.lua.load(&source[header.bytes..]).set_name("@user_script").set_mode(ChunkMode::Text);
        let function = chunk
            .set_environment(self.environment.clone())
            .into_function()
            .map_err(|e| format!("ERR Error compiling script (new function): {}", text_of(&e)))?;
        let compiled = Rc::new(Compiled { function, flags: header.flags, sha: sha1_hex(source) });
        self.remember(source, compiled.clone());
        Ok(compiled)
    }

    /// Whether that source is compiled, or short: to compile a long one would keep an event loop.
    pub(super) fn compiles_quickly(&self, source: &[u8]) -> bool {
        source.len() <= SCRIPT_SLICE_SOURCE_BYTES_MAX || self.compiled.contains_key(source)
    }

    /// Runs the code of a library; the error is the text of a reply.
    pub(super) fn load(&mut self, source: &[u8]) -> Result<Loaded, String> {
        let header = LibraryHeader::of(source)?;
        let code = match self.compiled.get(source) {
            Some(compiled) => {
                self.restore_environment(&compiled.function).map_err(|e| format!("ERR {}", text_of(&e)))?;
                compiled.function.clone()
            }
            None => {
                let chunk = self.lua.load(&source[header.bytes..]).set_name("@user_function").set_mode(ChunkMode::Text);
                let code = chunk
                    .set_environment(self.environment.clone())
                    .into_function()
                    .map_err(|e| format!("ERR Error compiling function: {}", text_of(&e)))?;
                let compiled = Compiled { function: code.clone(), flags: ScriptFlags::default(), sha: String::new() };
                self.remember(source, Rc::new(compiled));
                code
            }
        };
        let registered = Registered::new(&self.lua).map_err(|e| format!("ERR {}", text_of(&e)))?;
        let registered = Rc::new(registered);
        // Until it is run with success: its code may have shown objects, whose numbers it leaves.
        self.is_unclean.set(true);
        let done = registered.register_function(&self.lua).and_then(|register| self.load.call((code, register)));
        let loaded = registered.take(header.name);
        let (ok, failure): (bool, Value) =
            done.map_err(|e| format!("ERR Error registering functions: {}", text_of(&e)))?;
        match (ok, failure) {
            (true, _) => Ok(loaded),
            _ if self.meter.end().is_some() => Err("ERR Error registering functions: FUNCTION LOAD timeout".to_owned()),
            (_, failure) => Err(format!("ERR Error registering functions: {}", failure_of(&failure))),
        }
    }

    fn remember(&mut self, source: &[u8], compiled: Rc<Compiled>) {
        self.compiled_bytes += source.len();
        if self.compiled_bytes > SCRIPTS_COMPILED_BYTES_MAX || self.compiled.len() >= SCRIPTS_COMPILED_MAX {
            self.compiled.clear();
            self.compiled_bytes = source.len();
        }
        self.compiled.insert(source.to_vec(), compiled);
    }

    /// Runs a script: true and what it returns, or false and its error.
    pub(super) fn run(
        &self,
        script: &Function,
        (keys, argv): (&[&[u8]], &[&[u8]]),
        is_function: bool,
    ) -> mlua::Result<(bool, Value)> {
        self.json.reset();
        if !is_function {
            self.restore_environment(script)?;
        }
        // Scripts see the names of keys that clients use.
        let keys: SmallVec<[&[u8]; 8]> = keys.iter().map(|key| client_key(key)).collect();
        let (keys, argv) = match self.is_used_again {
            true => self.tables(&keys, argv)?,
            false => (self.strings(&keys)?, self.strings(argv)?),
        };
        self.is_unclean.set(true);
        let done = self.run.call((script, !is_function, keys, argv));
        match &done {
            Ok((is_done, failure)) => self.is_unclean.set(!is_done && is_told_by_functions(failure)),
            // It is cleaned up once its bounds are lifted.
            Err(_) if self.is_used_again => {}
            Err(_) => self.finish.call::<()>(())?,
        }
        done
    }

    /// Code that is kept compiled may have changed its own environment, by engines before the seventh: its next run would see that.
    fn restore_environment(&self, function: &Function) -> mlua::Result<()> {
        if self.is_used_again && self.version < EngineVersion::Seventh {
            function.set_environment(self.environment.clone())?;
        }
        Ok(())
    }

    /// `strings` of both, at once.
    fn tables(&self, keys: &[&[u8]], argv: &[&[u8]]) -> mlua::Result<(Table, Table)> {
        // SAFETY: the closure has nothing to drop, and puts two values where a function in C has room for 20.
        unsafe { self.lua.exec_raw((), |state| [keys, argv].iter().for_each(|texts| push_texts(state, texts))) }
    }

    fn strings(&self, words: &[&[u8]]) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(words.len(), 0)?;
        for (i, word) in words.iter().enumerate() {
            table.raw_set(i + 1, self.lua.create_string(word)?)?;
        }
        Ok(table)
    }
}

/// Whether functions of a script may run where it is told what the script has failed with. Most failures are tables that the prelude has made.
fn is_told_by_functions(failure: &Value) -> bool {
    !matches!(failure, Value::Table(table) if table.metatable().is_none())
}

/// The part of the prelude that it calls from the seventh engine on.
fn prelude_of_seventh(lua: &Lua) -> mlua::Result<Function> {
    lua.load(PRELUDE_OF_SEVENTH).set_name("=prelude").set_mode(ChunkMode::Text).into_function()
}

/// What an error of Lua says, without what the binding adds to it.
pub(super) fn text_of(error: &mlua::Error) -> String {
    match error {
        mlua::Error::SyntaxError { message, .. } | mlua::Error::RuntimeError(message) => message.clone(),
        error => error.to_string(),
    }
}

/// The text of a table that a script has failed with.
fn failure_of(failure: &Value) -> String {
    let Value::Table(table) = failure else { return "execution failure".to_owned() };
    table.get::<Option<String>>("err").ok().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::end::End;
    use super::*;

    const INSTRUCTIONS_MAX: u64 = 4_000_000;
    const SIXTH: EngineVersion = EngineVersion::Sixth;
    const SEVENTH: EngineVersion = EngineVersion::Seventh;

    /// What a script without commands comes to: what it returns, its error, or why it was ended.
    fn run(engine: &mut Engine, script: &str) -> String {
        engine.meter.begin(INSTRUCTIONS_MAX, usize::MAX, engine.version);
        engine.count_anew().unwrap();
        let compiled = engine.compile(script.as_bytes()).unwrap();
        let done = engine.run(&compiled.function, (&[], &[]), false).unwrap();
        let text = match &done {
            (true, value) => value.to_string().unwrap(),
            (false, failure) if engine.meter.is_over(failure) => format!("{:?}", engine.meter.end().unwrap()),
            (false, failure) => failure_of(failure),
        };
        engine.meter.finish();
        text
    }

    /// Runs a script that may end in the midst of the prelude, and cleans up behind it, as where a thread's state is put back.
    fn end(engine: &mut Engine, script: &str, instructions_max: u64, bytes_max: usize) -> Option<End> {
        let compiled = engine.compile(script.as_bytes()).unwrap();
        engine.meter.begin(instructions_max, bytes_max, engine.version);
        engine.count_anew().unwrap();
        drop(engine.run(&compiled.function, (&[&b"k"[..]], &[&b"v"[..]]), false));
        let end = engine.meter.end().or(engine.meter.passed());
        engine.meter.finish();
        assert!(engine.is_clean());
        end
    }

    /// A later run sees nothing of an earlier one: no numbers, keys, or what a library sees while it is loaded.
    fn assert_clean(engine: &mut Engine, case: &str) {
        // All at once: each run leaves a clean state to the next one.
        let script = b"local seen = tostring({}) for i = 1, 60 do tostring({}) end \
            return seen .. tostring(rawget(_G, 'KEYS')) .. tostring(rawget(_G, 'ARGV')) .. type(redis.call)";
        let function = engine.compile(script).unwrap();
        engine.meter.begin(INSTRUCTIONS_MAX, usize::MAX, engine.version);
        engine.count_anew().unwrap();
        let (is_done, seen) = engine.run(&function.function, (&[], &[]), true).unwrap();
        let seen = (is_done, seen.to_string().unwrap());
        assert_eq!(seen, (true, "table: 0x00000000000001nilnilfunction".to_owned()), "{case}");
        engine.meter.finish();
    }

    const SHOWS_ALL: &str = "for _, l in pairs{string, math, table, redis} do for _, f in pairs(l) do tostring(f) end end \
        tostring(redis.call)";

    fn run_in(version: EngineVersion, script: &str) -> String {
        run(&mut Engine::new(version, false).unwrap(), script)
    }

    #[test]
    fn nothing_that_a_run_does_is_seen_by_the_next_one() {
        let environments: &[(&str, &str)] = &[
            (
                "local n = (rawget(getfenv(1), 'n') or 0) + 1 \
                 setfenv(1, setmetatable({n = n}, {__index = getfenv(1)})) return n",
                "1",
            ),
            ("local n = (rawget(getfenv(os.clock), 'n') or 0) + 1 pcall(setfenv, os.clock, {n = n}) return n", "1"),
            ("local t = tostring(rawget(getfenv(0), 'n')) pcall(setfenv, '0', {n = 1}) return t", "nil"),
            ("local t = tostring(rawget(getfenv(setfenv), 'n')) pcall(setfenv, '2', {n = 1}) return t", "nil"),
        ];
        for version in EngineVersion::ALL {
            let mut engine = Engine::new(version, true).unwrap();
            let scripts = [
                ("local t = tostring(redis.n) local _, r = pairs(redis) pcall(function() r.n = 1 end) return t", "nil"),
                ("local t = tostring(string.n) local _, r = pairs(string) pcall(rawset, r, 'n', 1) return t", "nil"),
                ("local t = tostring(cjson.n) local _, r = pairs(cjson) pcall(rawset, r, 'n', 1) return t", "nil"),
                (
                    "local m = getmetatable(redis) local t = tostring(m.n) local _, r = pairs(m) \
                     pcall(rawset, r, 'n', 1) return t",
                    "nil",
                ),
                ("local n = 0 for k, v in pairs(math) do n = n + 1 end return tostring(n > 20)", "true"),
                ("local n = 0 for k, v in next, math do n = n + 1 end return tostring(n > 20)", "true"),
                ("local f, t = pairs(redis) return type(f(t)) .. tostring(rawequal(t, redis))", "stringtrue"),
            ];
            let environments: &[(&str, &str)] = if version < SEVENTH { environments } else { &[] };
            for (script, expected) in scripts.iter().chain(environments) {
                for _ in 0..2 {
                    assert_eq!(run(&mut engine, script), *expected, "{version:?}: {script}");
                }
            }
        }
        assert_eq!(run_in(SEVENTH, "return tostring(pcall(function() return setfenv end))"), "false");
    }

    #[test]
    fn no_more_is_unpacked_than_there_is_room_for() {
        for version in EngineVersion::ALL {
            for range in ["0, 2147483647", "-1, 2147483646", "-2147483648, 2147483647", "1, 8001"] {
                let said = run_in(version, &format!("return unpack({{}}, {range})"));
                assert!(said.contains("too many results to unpack"), "{version:?}, {range}: {said}");
            }
        }
    }

    #[test]
    fn objects_as_keys_have_one_order_in_every_state() {
        let script = "local t = {a = 1} for i = 1, 50 do t[{}] = i end t[redis] = 'r' t[tostring] = 's' \
            local n, k = 0, 'a' repeat k = next(t, k) n = n + 1 until k == nil \
            for _, v in pairs(t) do n = n .. ' ' .. v end return n";
        let mut engine = Engine::new(SEVENTH, true).unwrap();
        let first = run(&mut engine, script);
        assert_eq!(first.split(' ').count(), 54, "{first}");
        // A run that numbers the same objects otherwise.
        assert_eq!(run(&mut engine, "local t = {} t[tostring] = 1 t[redis] = 2 return #tostring(t)"), "23");
        assert_eq!(run(&mut engine, script), first);
        assert_eq!(run_in(SEVENTH, script), first);
        assert!(run_in(SIXTH, script).contains("no order"));
    }

    #[test]
    fn what_no_instruction_shows_counts_by_the_rules_of_the_seventh_engine() {
        let names: Vec<String> = (1..=190).map(|i| format!("a{i}")).collect();
        let wide = format!("for i = 1, 400000 do local {} end", names.join(","));
        let numbers = "local t = {} for i = 1, 10000 do t[i] = (i * 7919) % 10007 end";
        let walk = format!("{numbers} for i = 1, 60 do table.foreachi(t, math.randomseed) end");
        let sort = format!("{numbers} for i = 1, 10 do table.sort(t, rawequal) end");
        for work in [
            &wide[..],
            &walk[..],
            &sort[..],
            "local t = {} for i = 1, 500 do t[i] = i end for i = 1, 10000 do table.maxn(t) end",
            "local t = {} for i = 1, 2^15 do t[i] = '' end local i = 2^15 while i >= 1 do t[i] = nil i = i / 2 end \
             for i = 1, 200 do table.concat(t, '', 2^14 + 1, 2^15 - 1) end",
            "local t, j = {}, 2^17 + 1 while j < 2^31 do t[j] = true j = j * 2 end for i = 1, 2^17 do t[i] = true end \
             for i = 1, 50 do local n = #t end",
            "local t = {} for i = 1, 4000 do local high, low = 2^30 + i, 3 * 2^30 - i \
             t[(1 + ((high % 2^20) * 2^32 + low) / 2^52) * 2^(math.floor(high / 2^20) - 1023)] = i end",
            "local t = {} for i = 1, 2^16 do t[i] = i end t.a = 1 t.b = 2 \
             for i = 1, 3000 do t[i + 0.5] = 1 t[i + 0.5] = nil end",
            "local s = 'return 1' .. ('+1'):rep(50000) for i = 1, 6 do loadstring(s) end",
            "for i = 1, 5000 do coroutine.create(function() end) end",
            "local function f(n) if n > 0 then return 1 + f(n - 1) end \
             for i = 1, 300 do pcall(redis.setresp) end return 1 end f(15000)",
            "local f = loadstring('local b if b then ' .. ('a = 1 '):rep(8000) .. 'end return b.c') \
             for i = 1, 400 do pcall(f) end",
            "local s = 'return ' .. ('a and '):rep(3000) .. '1' for i = 1, 3 do loadstring(s) end",
            "local s = ('local function f() local ' .. ('a,'):rep(150) .. 'a '):rep(150) .. ('b = b '):rep(2000) \
             for i = 1, 2 do loadstring(s .. ('end '):rep(150)) end",
            "local t = {} for i = 1, 5000 do t[i] = i end \
             local function f(n) if n == 0 then return unpack(t) end return 1, f(n - 1) end f(4000)",
            "local t = setmetatable({}, {__sub = rawequal}) for i = 1, 400000 do local n = t - t end",
            "for i = 1, 30000 do local s = string.format('%.3g', 3) end",
            "for i = 1, 30000 do redis.sha1hex('') end",
            "local s = ('x'):rep(100000) for i = 1, 500 do pcall(struct.unpack, 's', s) end",
            "local s = '[\"' .. ('x'):rep(200000) .. '\"]' for i = 1, 30 do cjson.decode(s) end",
            "local s = ('ab'):rep(50000) for i = 1, 12 do s:find('ac', 1, true) end",
            "local s = ('1'):rep(100000) for i = 1, 50 do math.randomseed(s) end",
        ] {
            let script = format!("{work} return 1");
            assert_eq!(run_in(SIXTH, &script), "1", "{work}");
            assert_eq!(run_in(SEVENTH, &script), "Instructions", "{work}");
        }
        let few = "local t = {} for i = 1, 1000 do t[i] = i t['k' .. i] = #t end table.sort(t) \
            return #table.concat(t, ',') .. select(2, pcall(redis.setresp, 9))";
        assert!(run_in(SEVENTH, few).starts_with("3892ERR RESP version"), "{}", run_in(SEVENTH, few));
    }

    #[test]
    fn a_run_whose_script_is_too_much_to_compile_leaves_no_bounds() {
        let chain = format!("return {}1", "a and ".repeat(3000));
        let compiled = with_used_again(SEVENTH, |engine| {
            engine.meter.begin(100_000, usize::MAX, SEVENTH);
            engine.count_anew().unwrap();
            let compiled = engine.compile(chain.as_bytes()).map(drop);
            (compiled, engine.meter.end().or(engine.meter.passed()))
        });
        let (compiled, end) = compiled.unwrap();
        assert!(compiled.is_err() && end == Some(End::Instructions), "{compiled:?}, {end:?}");
        assert_eq!(check_script(SEVENTH, chain.as_bytes()), Ok(()));
    }

    #[test]
    fn texts_and_tables_are_those_of_redis_from_the_seventh_engine_on() {
        for (script, sixth, seventh) in [
            (
                "return tostring(setmetatable({}, {__metatable = 1, __tostring = function() return 'hi' end}))",
                "table: 0x00000000000001",
                "hi",
            ),
            (
                "local t = {} for i = 1, 6 do t['user:00000000-0000-0000-0000-00000000000' .. i] = i end \
                 local s = '' for _, v in pairs(t) do s = s .. v end return s",
                "423156",
                "163425",
            ),
            (
                "local m = {} local t = setmetatable({}, m) m.__mode = 'k' t[{}] = 1 \
                 for i = 1, 60000 do local u = {i} end return next(t) and 1 or 0",
                "0",
                "1",
            ),
            ("return table.foreachi({5, 6, 7}, function(i, v) if v == 6 then return i end end)", "2", "2"),
            ("local s = '' table.foreach({a = 1, 'x'}, function(k, v) s = s .. k .. v end) return s", "1xa1", "1xa1"),
        ] {
            assert_eq!(run_in(SIXTH, script), sixth, "{script}");
            assert_eq!(run_in(SEVENTH, script), seventh, "{script}");
        }
    }

    #[test]
    fn a_run_that_ends_in_the_midst_of_the_prelude_leaves_nothing_to_the_next_one() {
        let mut engine = Engine::new(SEVENTH, true).unwrap();
        let many = format!("{SHOWS_ALL} local l while true do l = {{l}} end");
        for _ in 0..3 {
            let bytes_max = engine.lua.used_memory() + 300_000;
            assert_eq!(end(&mut engine, &many, INSTRUCTIONS_MAX, bytes_max), Some(End::Memory));
            assert_clean(&mut engine, "memory");
        }
        for instructions_max in (1..=20).chain([1000, 2000, 3000, 4000]) {
            end(&mut engine, SHOWS_ALL, instructions_max, usize::MAX);
            assert_clean(&mut engine, &format!("{instructions_max} instructions"));
        }
    }

    #[test]
    fn a_load_that_ends_in_the_midst_of_the_prelude_leaves_nothing_to_the_next_run() {
        let mut engine = Engine::new(SEVENTH, true).unwrap();
        let source =
            b"#!lua name=l\nlocal f = {[redis.log] = {}} redis.register_function('f', function() return f end)";
        for instructions_max in (1..=20).chain([100, 300, 1000, 100_000]) {
            engine.meter.begin(instructions_max, usize::MAX, SEVENTH);
            engine.count_anew().unwrap();
            let loaded = engine.load(source).map(drop);
            assert!(instructions_max < 100_000 || loaded.is_ok(), "{loaded:?}");
            engine.meter.finish();
            assert!(engine.is_clean());
            assert_clean(&mut engine, &format!("{instructions_max} instructions"));
        }
    }

    #[test]
    fn a_clock_does_not_tell_what_a_state_has_of_earlier_runs() {
        for bytes in [190_000, 300_000, 900_000] {
            let script = format!(
                "local s = string.rep('x', {bytes}) local t = s .. s local a = os.clock() for i = 1, 700 do end \
                 return a .. ' ' .. os.clock()"
            );
            let mut engine = Engine::new(SEVENTH, true).unwrap();
            let cold = run(&mut engine, &script);
            assert_eq!(run(&mut engine, &script), cold, "{bytes}");
            assert_eq!(run_in(SEVENTH, &script), cold, "{bytes}");
        }
    }
}
