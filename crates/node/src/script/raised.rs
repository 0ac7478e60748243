//! Errors that functions in Rust raise, and that the prelude shows to scripts.

use mlua::{Error, Lua, Value};
use std::fmt;

/// The name of the prelude's code.
pub(super) const PRELUDE: &str = "=prelude";

/// An error that a script may catch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Raised {
    /// A text, as `error` raises it.
    Text(String),
    /// A table whose field `err` is the text of a reply.
    Reply(String),
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Reply(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Raised {}

impl Raised {
    /// A text behind the line that has called the function which runs, as C functions of Lua raise one.
    pub(super) fn here(lua: &Lua, text: &str) -> Error {
        Error::external(Self::Text(format!("{}{text}", line_of_caller(lua))))
    }

    /// A text without a line, as Lua itself raises one in a function in C.
    pub(super) fn text(text: &str) -> Error {
        Error::external(Self::Text(text.to_owned()))
    }

    /// The text of an error reply.
    pub(super) fn reply(text: impl Into<String>) -> Error {
        Error::external(Self::Reply(text.into()))
    }

    /// The error behind a failure, if a function in Rust has raised it.
    pub(super) fn of(error: &Error) -> Option<&Self> {
        match error {
            Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => Self::of(cause),
            Error::ExternalError(raised) => raised.downcast_ref(),
            _ => None,
        }
    }

    /// The value that a script sees.
    pub(super) fn to_value(&self, lua: &Lua) -> mlua::Result<Value> {
        match self {
            Self::Text(text) => Ok(Value::String(lua.create_string(text)?)),
            Self::Reply(text) => {
                let table = lua.create_table()?;
                table.raw_set("err", text.as_str())?;
                Ok(Value::Table(table))
            }
        }
    }
}

/// `user_script:1: `, or nothing where the caller is not a script. The prelude's functions are passed over, and what stands in for the last
/// of them.
fn line_of_caller(lua: &Lua) -> String {
    let mut is_behind_prelude = false;
    for level in 1.. {
        let found = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let is_prelude = source.source.as_deref() == Some(PRELUDE);
            if is_prelude || (is_behind_prelude && source.what == "C") {
                is_behind_prelude = is_prelude;
                return None;
            }
            let name = source.short_src.map(|name| name.into_owned()).unwrap_or_default();
            let line = debug.current_line().filter(|_| source.what != "C");
            Some(line.map_or_else(String::new, |line| format!("{name}:{line}: ")))
        });
        match found {
            Some(None) => {}
            Some(Some(line)) => return line,
            None => break,
        }
    }
    String::new()
}
