//! `redis.call` and `redis.pcall` of a Lua state.

use super::end::End;
use super::lent::{Answers, Lent};
use super::meter::Meter;
use super::raised::Raised;
use super::to_lua::{error_text, to_lua};
use super::values::text_of;
use mlua::{Error, Function, Lua, MultiValue, Table, Value};
use resp::{Proto, Reply};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

/// A longer answer's memory is not kept for the next one.
const ANSWER_BYTES_KEPT: usize = 64 * 1024;
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
            // One at a time: the binding has a place for each value that it holds, and these are bounded.
            let word = |at: usize| Ok(args.raw_get::<Value>(at)?).map(|value| text_of(&value));
            let words: Option<Vec<Word>> = (1..=count).map(word).collect::<mlua::Result<_>>()?;
            of.call_words(lua, words.as_deref().ok_or(OTHER_WORDS), raises)
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
            None => return self.call_words(lua, words_of(args).as_deref().map_err(|text| *text), raises),
        }
        self.to_lua(lua, raises)
    }

    /// Runs the command of these words; the error says why there are none.
    fn call_words(&self, lua: &Lua, words: Result<&[Word], &'static str>, raises: bool) -> mlua::Result<Value> {
        match words {
            Ok(words) => {
                let words: SmallVec<[&[u8]; 8]> = words.iter().map(SmallVec::as_slice).collect();
                self.run(&words).unwrap_or_else(|| Err(Raised::reply(OUTSIDE)))?;
            }
            Err(_) if !self.lent.is_lent() => return Err(Raised::reply(OUTSIDE)),
            Err(text) if raises => return Err(Raised::reply(error_text(text))),
            Err(text) => return to_lua(lua, &self.meter, &resp::Value::Error(text.to_owned()), Proto::Resp2),
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

/// One word of a command.
type Word = SmallVec<[u8; 64]>;

/// The words of a command, as Redis takes them from a script; the error is the text of a reply.
fn words_of(args: &MultiValue) -> Result<SmallVec<[Word; 8]>, &'static str> {
    if args.is_empty() {
        return Err(NO_WORDS);
    }
    args.iter().map(text_of).collect::<Option<_>>().ok_or(OTHER_WORDS)
}
