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
        if !engine.is_worn() {
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
        engine.meter.begin(LOAD_INSTRUCTIONS_MAX, SCRIPT_SLICE_MEMORY_BYTES_MAX as usize, EngineVersion::Third);
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
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new())?;
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
        let prelude: Table =
            lua.load(PRELUDE).set_name("=prelude").set_mode(ChunkMode::Text).call((natives, libraries))?;
        Ok(Self {
            meter,
            json,
            environment: prelude.get("environment")?,
            calls,
            is_used_again,
            run: prelude.get("run")?,
            finish: prelude.get("finish")?,
            load: prelude.get("load")?,
            compiled: HashMap::default(),
            compiled_bytes: 0,
            state,
            version,
            lua,
            _allocation: allocation,
        })
    }

    /// Whether its stack has overflown: Lua allows other calls to be nested then than in a new state.
    pub(super) fn is_worn(&self) -> bool {
        // SAFETY: it is the state of `lua`, which lives.
        unsafe { lua::has_overflown(self.state) }
    }

    /// Frees what earlier runs have left, where it is much of what the state may hold.
    pub(super) fn make_room(&self, bytes_max: usize) -> mlua::Result<()> {
        if self.lua.used_memory() > bytes_max / 2 { self.lua.gc_collect() } else { Ok(()) }
    }

    /// Counts instructions from here on. Otherwise the first look at them would come when earlier runs have it, and those are others on each
    /// replica.
    pub(super) fn count_anew(&self) -> mlua::Result<()> {
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
            Some(compiled) => compiled.function.clone(),
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
        // Scripts see the names of keys that clients use.
        let keys: SmallVec<[&[u8]; 8]> = keys.iter().map(|key| client_key(key)).collect();
        let (keys, argv) = match self.is_used_again {
            true => self.tables(&keys, argv)?,
            false => (self.strings(&keys)?, self.strings(argv)?),
        };
        let done = self.run.call((script, !is_function, keys, argv));
        if done.is_err() {
            self.finish.call::<()>(())?;
        }
        done
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
