//! The command table: each command is one row, from which arity checks, key extraction, COMMAND and the
//! documentation come.

mod absent;
pub mod behaviour;
mod describe;
mod docs;
mod earlier;
mod help;
pub mod key_flag;
mod keys;
mod resolve;
mod rows;
mod spec;
mod syntax;

pub use absent::is_absent;
pub use behaviour::SecretArgs;
pub use describe::command;
pub use docs::docs_markdown;
pub use earlier::earlier;
pub use help::help;
pub use keys::{ExecOp, KeyPositions, MalformedKeys, exec_ops};
pub use resolve::{
    COMMAND_COUNT, all, find, lookup, lookup_full, resolve, row, subcommand, subcommands, top_level, unknown_command,
    unknown_subcommand, wrong_arity,
};
pub use spec::{Answers, ChannelArgs, CommandId, CommandSpec, Group, KeyPlace, KeySpec, OtherRight, acl, flag};
