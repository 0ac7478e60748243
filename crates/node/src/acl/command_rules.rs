//! Which commands a selector allows: rules in the order in which they were given, and what they come to.

use super::rule_error::RuleError;
use resp::table::{self, COMMAND_COUNT, CommandId, CommandSpec, acl, flag};

const WORDS: usize = COMMAND_COUNT.div_ceil(64);

/// A command of which single first arguments are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FirstArgument {
    command: CommandId,
    /// In lower case.
    word: String,
}

/// The commands that a selector allows.
///
/// Invariant: `rules` after `+@all` or `-@all`, as `all` says, come to `allowed` and `first_arguments`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandRules {
    /// Whether the rules begin with all commands, those of later releases included.
    all: bool,
    /// In lower case, each with its sign; none stands there twice.
    rules: Vec<String>,
    /// A bit a command.
    allowed: [u64; WORDS],
    first_arguments: Vec<FirstArgument>,
}

impl Default for CommandRules {
    fn default() -> Self {
        Self { all: false, rules: Vec::new(), allowed: [0; WORDS], first_arguments: Vec::new() }
    }
}

impl CommandRules {
    /// Whether every command is allowed.
    pub(super) fn is_all(&self) -> bool {
        self.all && self.rules.is_empty()
    }

    /// Applies `+name`, `-name`, `+@category` and the like. The sign is apart.
    pub(super) fn apply(&mut self, allow: bool, name: &str) -> Result<(), RuleError> {
        let name = name.to_ascii_lowercase();
        if name == "@all" {
            self.set_all(allow);
            return Ok(());
        }
        if let Some(category) = name.strip_prefix('@') {
            let bit = acl::bit_of(category.as_bytes()).ok_or(RuleError::Unknown)?;
            // A container's own row says nothing of its subcommands' categories.
            table::all().iter().filter(|spec| spec.acl & bit != 0).for_each(|spec| self.set(spec.id, allow));
        } else if let Some(spec) = table::lookup_full(name.as_bytes()) {
            self.set(spec.id, allow);
            table::subcommands(spec).iter().for_each(|subcommand| self.set(subcommand.id, allow));
        } else if table::is_absent(&name) {
            // A rule of Redis about what does not exist here: nothing to keep.
            return Ok(());
        } else {
            self.allow_first_argument(allow, &name)?;
        }
        self.note(allow, &name);
        Ok(())
    }

    pub(super) fn set_all(&mut self, allow: bool) {
        *self = Self::default();
        if allow {
            self.all = true;
            self.allowed = [u64::MAX; WORDS];
        }
    }

    /// `+command|word`, where the command has no such subcommand.
    fn allow_first_argument(&mut self, allow: bool, name: &str) -> Result<(), RuleError> {
        let (command, word) = name.rsplit_once('|').ok_or(RuleError::Unknown)?;
        let spec = table::lookup_full(command.as_bytes()).ok_or(RuleError::Unknown)?;
        if !allow {
            return Err(RuleError::Unknown);
        }
        if spec.container.is_some() {
            return Err(RuleError::ArgumentOfSubcommand);
        }
        if word.is_empty() {
            return Err(RuleError::Syntax);
        }
        if spec.is_container() {
            return Err(RuleError::Unknown);
        }
        let argument = FirstArgument { command: spec.id, word: word.to_owned() };
        self.first_arguments.retain(|known| *known != argument);
        self.first_arguments.push(argument);
        Ok(())
    }

    fn set(&mut self, id: CommandId, allow: bool) {
        let bit = 1 << (id.index() % 64);
        let word = &mut self.allowed[id.index() / 64];
        *word = if allow { *word | bit } else { *word & !bit };
        self.first_arguments.retain(|argument| argument.command != id);
    }

    /// Puts a rule behind all others. Those that it makes pointless go: the same one, and those of its subcommands.
    fn note(&mut self, allow: bool, name: &str) {
        self.rules.retain(|rule| {
            let rest = rule[1..].strip_prefix(name);
            rest.is_none_or(|rest| !rest.is_empty() && !rest.starts_with('|'))
        });
        self.rules.push(format!("{}{name}", if allow { '+' } else { '-' }));
    }

    /// Whether a request of that command is allowed.
    pub(super) fn allows(&self, spec: &CommandSpec, args: &[&[u8]]) -> bool {
        if spec.has(flag::NO_AUTH) || self.has(spec.id) {
            return true;
        }
        let Some(word) = args.get(1) else { return false };
        let is_it = |argument: &FirstArgument| {
            argument.command == spec.id && word.eq_ignore_ascii_case(argument.word.as_bytes())
        };
        self.first_arguments.iter().any(is_it)
    }

    fn has(&self, id: CommandId) -> bool {
        self.allowed[id.index() / 64] & 1 << (id.index() % 64) != 0
    }

    /// As ACL SETUSER takes them.
    pub(super) fn text(&self) -> String {
        let mut text = if self.all { "+@all" } else { "-@all" }.to_owned();
        for rule in &self.rules {
            text.push(' ');
            text.push_str(rule);
        }
        text
    }
}
