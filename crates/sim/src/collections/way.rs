//! How the commands of a request reach their shard: plainly, in MULTI, or by a script that runs them.

use node::{EncodedCommand, EngineVersion, ScriptContext, ScriptDatabases, function_command, script_command};
use vocab::{Slot, slot_of};

/// A command, word by word.
pub type Words = Vec<Vec<u8>>;

/// Runs the commands in its arguments, one after the other, tells subscribers that it does, and answers their replies.
const RUNS_ALL: &[u8] = b"redis.call('PUBLISH', 'ran', ARGV[1]) \
    local replies, at = {}, 2 \
    while at <= #ARGV do \
      local count = tonumber(ARGV[at]) \
      replies[#replies + 1] = redis.pcall(unpack(ARGV, at + 1, at + count)) \
      at = at + count + 1 \
    end ";
const ANSWERS: &[u8] = b"return replies";
const NEVER_ENDS: &[u8] = b"while true do redis.call('PING') end";

/// Two versions of one library: the second answers the replies in the other order.
const LIBRARIES: [&[u8]; 2] = [
    b"#!lua name=sim\nredis.register_function('run', function(keys, args) \
      local replies, at = {}, 2 \
      while at <= #args do \
        local count = tonumber(args[at]) \
        replies[#replies + 1] = redis.pcall(unpack(args, at + 1, at + count)) \
        at = at + count + 1 \
      end \
      return replies end)",
    b"#!lua name=sim\nlocal function reversed(replies) \
      local turned = {} \
      for at = #replies, 1, -1 do turned[#turned + 1] = replies[at] end \
      return turned end \
      redis.register_function('run', function(keys, args) \
      local replies, at = {}, 2 \
      while at <= #args do \
        local count = tonumber(args[at]) \
        replies[#replies + 1] = redis.pcall(unpack(args, at + 1, at + count)) \
        at = at + count + 1 \
      end \
      return reversed(replies) end)",
];

/// What a script of a run may use: enough for all commands that are drawn.
const INSTRUCTIONS_MAX: u64 = 2_000_000;
/// What one may use that never ends.
const INSTRUCTIONS_FEW: u64 = 30_000;
const MEMORY_BYTES_MAX: u64 = 16 << 20;

/// The channel that scripts publish to.
pub const CHANNEL: &[u8] = b"ran";

/// How the commands of a request reach their shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One command.
    Plain,
    /// MULTI and EXEC are around them.
    Transaction,
    /// A script runs them, and publishes its tag.
    Script,
    /// A function of the library's first version does.
    Function,
    /// A function of its second version does, and turns the order of the replies.
    ReversingFunction,
    /// A script runs them, and does not end before its budget does: nothing is written.
    Runaway,
}

impl Way {
    /// Whether a script runs the commands.
    #[must_use]
    pub fn is_script(self) -> bool {
        !matches!(self, Self::Plain | Self::Transaction)
    }

    /// The command of an entry that runs these commands, which are about a key; its first argument is a tag.
    #[must_use]
    pub fn command(self, key: &[u8], tag: &[u8], commands: &[Words]) -> EncodedCommand {
        let counts: Vec<Vec<u8>> = commands.iter().map(|words| words.len().to_string().into_bytes()).collect();
        let mut args: Vec<&[u8]> = vec![b"EVAL", b"run", b"1", key, tag];
        for (words, count) in commands.iter().zip(&counts) {
            args.push(count);
            args.extend(words.iter().map(Vec::as_slice));
        }
        let instructions_max = if self == Self::Runaway { INSTRUCTIONS_FEW } else { INSTRUCTIONS_MAX };
        let context = context(slot_of(key), instructions_max);
        match self {
            Self::Function => function_command(LIBRARIES[0], &args, &context, false),
            Self::ReversingFunction => function_command(LIBRARIES[1], &args, &context, false),
            Self::Runaway => script_command(&[RUNS_ALL, NEVER_ENDS].concat(), &args, &context, false),
            _ => script_command(&[RUNS_ALL, ANSWERS].concat(), &args, &context, false),
        }
    }
}

fn context(slot: Slot, instructions_max: u64) -> ScriptContext {
    ScriptContext {
        engine: EngineVersion::NEWEST,
        slot,
        wider: None,
        namespace: None,
        chooses: false,
        databases: ScriptDatabases::default(),
        instructions_max,
        memory_bytes_max: MEMORY_BYTES_MAX,
        user: None,
    }
}
