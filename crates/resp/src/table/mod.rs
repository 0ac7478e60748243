//! The command table: each command is one row, from which arity checks, key extraction, COMMAND and the
//! documentation come.

pub mod behaviour;
mod describe;
mod docs;
mod help;
mod index;
pub mod key_flag;
mod keys;
mod resolve;
mod rows;
mod spec;
mod syntax;

pub use behaviour::SecretArgs;
pub use describe::command;
pub use docs::docs_markdown;
pub use help::help;
pub use index::{COMMAND_COUNT, all, lookup, lookup_full, row, subcommand, subcommands, top_level};
pub use keys::{ExecOp, KeyPositions, MalformedKeys, exec_ops};
pub use resolve::{find, resolve, unknown_command, unknown_subcommand, wrong_arity};
pub use spec::{Answers, ChannelArgs, CommandId, CommandSpec, Group, KeyPlace, KeySpec, OtherRight, acl, flag};
