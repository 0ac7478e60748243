//! `redis.call` and `redis.pcall` of a Lua state.

use super::context::EngineVersion;
use super::end::End;
use super::lent::{Answers, Lent};
use super::meter::Meter;
use super::raised::Raised;
use super::to_lua::{charge_parts, error_text, to_lua};
use super::values::text_of;
use mlua::{BorrowedBytes, Error, Function, Lua, MultiValue, Table, Value};
use resp::table::CommandSpec;
use resp::{Proto, Reply};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::RefCell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::rc::Rc;
use vocab::limits::SCRIPT_CALL_INSTRUCTIONS;

/// A longer answer's memory is not kept for the next one.
const ANSWER_BYTES_KEPT: usize = 64 * 1024;
/// For how many instructions a word counts that a function of Redis is given, beside its bytes, from the seventh engine on.
pub(super) const WORD_INSTRUCTIONS: u64 = 8;
const NO_WORDS: &str = "ERR Please specify at least one argument for this redis lib call";
const OTHER_WORDS: &str = "ERR Lua redis lib command arguments must be strings or integers";
const OUTSIDE: &str = "ERR redis.call/pcall can only be called inside a script invocation";

/// What answers a state's commands, and the last answer.
pub(super) struct Calls {
    lent: Lent,
    meter: Rc<Meter>,
    answer: RefCell<Reply>,
    /// What has become of a command that was run for a call which is not answered yet.
    left: RefCell<Option<Left>>,
}

/// What has become of a command.
enum Left {
    Answer,
    Failure(Error),
    Panic(Box<dyn Any + Send>),
}

impl Calls {
    pub(super) fn new(meter: &Rc<Meter>) -> Rc<Self> {
        let answer = RefCell::new(Reply::new(Proto::Resp2));
        Rc::new(Self { lent: Lent::default(), meter: meter.clone(), answer, left: RefCell::default() })
    }

    /// The function of the binding: `redis.call` where it raises the errors of commands, else `redis.pcall`.
    pub(super) fn function(self: &Rc<Self>, lua: &Lua, raises: bool) -> mlua::Result<Function> {
        let of = self.clone();
        lua.create_function(move |lua, args: MultiValue| of.call(lua, &args, raises))
    }

    /// The same for very many arguments: it takes a table of them, and how many they are.
    pub(super) fn function_of_table(self: &Rc<Self>, lua: &Lua, raises: bool) -> mlua::Result<Function> {
        let of = self.clone();
        lua.create_function(move |lua, (args, count): (Table, usize)| {
            let words: Option<Vec<Word<'_>>> =
                (1..=count).map(|at| Word::in_table(&args, at)).collect::<mlua::Result<_>>()?;
            of.call_words(lua, words.as_deref().ok_or(NoWords { text: OTHER_WORDS, count }), raises)
        })
    }

    /// Has `answers` answer commands while `run` runs.
    pub(super) fn lend<T>(&self, answers: &dyn Answers, run: impl FnOnce() -> T) -> T {
        self.left.take();
        let done = self.lent.lend(answers, run);
        let mut answer = self.answer.borrow_mut();
        if answer.buf.capacity() > ANSWER_BYTES_KEPT {
            answer.buf = Vec::new();
        }
        done
    }

    /// Runs a command for a call that `function` would run. False: it is to be answered by that function.
    pub(super) fn run_ahead(&self, words: &[&[u8]]) -> bool {
        let ran = catch_unwind(AssertUnwindSafe(|| self.run(words)));
        let left = match ran {
            Ok(Some(Ok(()))) => return true,
            Ok(None) => return false,
            Ok(Some(Err(error))) => Left::Failure(error),
            Err(panic) => Left::Panic(panic),
        };
        self.left.replace(Some(left));
        false
    }

    /// The answer of the command that was run ahead: its bytes until the next command runs, and their protocol.
    pub(super) fn answer(&self) -> (*const [u8], Proto) {
        let answer = self.answer.borrow();
        (&raw const answer.buf[..], answer.proto)
    }

    /// Charges the run for the parts of the answer of a command that was run ahead; false if it cannot afford them.
    pub(super) fn affords_parts(&self, parts: usize) -> bool {
        parts == 0 || charge_parts(&self.meter, parts).is_ok()
    }

    /// Whether the user of the run may run a command, whose length may be wrong.
    pub(super) fn may_run(&self, spec: &'static CommandSpec, words: &[&[u8]]) -> mlua::Result<bool> {
        self.lent.ask(|answers| answers.may_run(spec, words)).unwrap_or(Ok(true))
    }

    /// `function` is to answer the command that was run ahead.
    pub(super) fn leave_answer(&self) {
        self.left.replace(Some(Left::Answer));
    }

    /// Runs a command; none if no run is under way.
    fn run(&self, words: &[&[u8]]) -> Option<mlua::Result<()>> {
        self.lent.ask(|answers| {
            let mut answer = self.answer.try_borrow_mut().map_err(|_| Error::RecursiveMutCallback)?;
            answer.buf.clear();
            answers.answer(words, &mut answer)
        })
    }

    fn call(&self, lua: &Lua, args: &MultiValue, raises: bool) -> mlua::Result<Value> {
        match self.left.take() {
            Some(Left::Answer) => {}
            Some(Left::Failure(error)) => return Err(error),
            Some(Left::Panic(panic)) => resume_unwind(panic),
            None => return self.call_words(lua, words_of(args).as_deref().map_err(|none| *none), raises),
        }
        self.to_lua(lua, raises)
    }

    /// Runs the command of these words; the error says why there are none.
    fn call_words(&self, lua: &Lua, words: Result<&[Word<'_>], NoWords>, raises: bool) -> mlua::Result<Value> {
        match words {
            Ok(words) => {
                let words: SmallVec<[&[u8]; 8]> = words.iter().map(|word| &**word).collect();
                self.run(&words).unwrap_or_else(|| Err(Raised::reply(OUTSIDE)))?;
            }
            Err(_) if !self.lent.is_lent() => return Err(Raised::reply(OUTSIDE)),
            Err(NoWords { text, count }) => {
                if EngineVersion::of_state(lua) >= EngineVersion::Seventh {
                    self.meter.work(SCRIPT_CALL_INSTRUCTIONS + count as u64 * WORD_INSTRUCTIONS)?;
                }
                return match raises {
                    true => Err(Raised::reply(error_text(text))),
                    false => to_lua(lua, &self.meter, &resp::Value::Error(text.to_owned()), Proto::Resp2),
                };
            }
        }
        self.to_lua(lua, raises)
    }

    /// What a script sees of the last answer.
    fn to_lua(&self, lua: &Lua, raises: bool) -> mlua::Result<Value> {
        let answer = self.answer.try_borrow().map_err(|_| Error::RecursiveMutCallback)?;
        match resp::decode(&answer.buf) {
            Ok(Some((resp::Value::Error(text), _))) if raises => Err(Raised::reply(error_text(&text))),
            Ok(Some((value, _))) => to_lua(lua, &self.meter, &value, answer.proto),
            _ => Err(self.meter.stop(End::Memory)),
        }
    }
}

/// One word of a command: a text where Lua has it, or what stands for a number. A script may name one long text very often, so none is
/// copied.
pub(super) enum Word<'a> {
    OfLua(BorrowedBytes<'a>),
    InTable(&'a [u8]),
    OfNumber(SmallVec<[u8; 64]>),
}

impl<'a> Word<'a> {
    /// That of a value; none if it is neither a text nor a number.
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::OfLua(text.as_bytes())),
            number => text_of(number).map(Self::OfNumber),
        }
    }

    /// That of a place in a table of which no script knows. One value is held at a time: the binding has a place for each, and these are
    /// bounded.
    #[allow(unsafe_code, reason = "a text of Lua lives as long as a table has it, which no type tells")]
    fn in_table(args: &'a Table, at: usize) -> mlua::Result<Option<Self>> {
        let value: Value = args.raw_get(at)?;
        let Value::String(text) = &value else { return Ok(text_of(&value).map(Self::OfNumber)) };
        let bytes: *const [u8] = ptr::from_ref::<[u8]>(&text.as_bytes());
        // SAFETY: Lua moves no text, and frees none that a table has. `args` keeps the table, and nothing else has it but the call that has
        // made it, which reads and changes nothing of it.
        Ok(Some(Self::InTable(unsafe { &*bytes })))
    }
}

impl Deref for Word<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::OfLua(text) => text,
            Self::InTable(text) => text,
            Self::OfNumber(text) => text,
        }
    }
}

/// Why a call has no words of a command.
#[derive(Clone, Copy)]
struct NoWords {
    /// The text of a reply.
    text: &'static str,
    /// How many arguments there are.
    count: usize,
}

/// The words of a command, as Redis takes them from a script.
fn words_of(args: &MultiValue) -> Result<SmallVec<[Word<'_>; 8]>, NoWords> {
    if args.is_empty() {
        return Err(NoWords { text: NO_WORDS, count: 0 });
    }
    args.iter().map(Word::of).collect::<Option<_>>().ok_or(NoWords { text: OTHER_WORDS, count: args.len() })
}
