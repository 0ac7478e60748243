//! What the table knows of one command, and how a row is written.

use super::behaviour::{MISSES_UNTOLD, SecretArgs, WRITES_BY_SCRIPT};
use super::key_flag;
use super::keys::{KeyPositions, MalformedKeys, OptionArguments, after_word, counted, exec_ops, halved, one_or_rest};

/// A dense number for arrays indexed by command. Not stable from one release to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u16);

impl CommandId {
    /// For indexing.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What kind of command it is; bits of `CommandSpec::flags`.
pub mod flag {
    /// May change data.
    pub const WRITE: u32 = 1;
    /// Reads data, never changes it.
    pub const READONLY: u32 = 1 << 1;
    /// Refused when memory is short.
    pub const DENYOOM: u32 = 1 << 2;
    /// For operators.
    pub const ADMIN: u32 = 1 << 3;
    /// Not for scripts.
    pub const NOSCRIPT: u32 = 1 << 4;
    /// Answered while data is being loaded.
    pub const LOADING: u32 = 1 << 5;
    /// Answered by a replica that has lost its leader.
    pub const STALE: u32 = 1 << 6;
    /// Not shown to MONITOR.
    pub const SKIP_MONITOR: u32 = 1 << 7;
    /// Not recorded in the slow log.
    pub const SKIP_SLOWLOG: u32 = 1 << 8;
    /// Takes constant or logarithmic time.
    pub const FAST: u32 = 1 << 9;
    /// Answered before AUTH.
    pub const NO_AUTH: u32 = 1 << 10;
    /// Refused within MULTI.
    pub const NO_MULTI: u32 = 1 << 11;
    /// First, last and step do not tell all keys.
    pub const MOVABLE_KEYS: u32 = 1 << 12;
    /// Answered while a script runs for too long.
    pub const ALLOW_BUSY: u32 = 1 << 13;
    /// Concerns messages to subscribers.
    pub const PUBSUB: u32 = 1 << 20;
    /// May reach other nodes, though it changes no data.
    pub const MAY_REPLICATE: u32 = 1 << 21;
    /// May have its client wait.
    pub const BLOCKING: u32 = 1 << 14;
    /// Names no key if it is given none.
    pub const NO_MANDATORY_KEYS: u32 = 1 << 15;
    /// In Redis, refused while a replica takes over all data: for clients, which are told of it.
    pub const NO_ASYNC_LOADING: u32 = 1 << 16;
    /// As if ASKING came before it.
    pub const ASKING: u32 = 1 << 17;

    /// Those that COMMAND INFO tells, as Redis does, with their names and in its order.
    pub(crate) const NAMES: &[(u32, &str)] = &[
        (WRITE, "write"),
        (READONLY, "readonly"),
        (DENYOOM, "denyoom"),
        (ADMIN, "admin"),
        (PUBSUB, "pubsub"),
        (NOSCRIPT, "noscript"),
        (BLOCKING, "blocking"),
        (LOADING, "loading"),
        (STALE, "stale"),
        (SKIP_MONITOR, "skip_monitor"),
        (SKIP_SLOWLOG, "skip_slowlog"),
        (ASKING, "asking"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
        (NO_MANDATORY_KEYS, "no_mandatory_keys"),
        (NO_ASYNC_LOADING, "no_async_loading"),
        (NO_MULTI, "no_multi"),
        (MOVABLE_KEYS, "movablekeys"),
        (ALLOW_BUSY, "allow_busy"),
    ];
}

/// ACL categories; bits of `CommandSpec::acl`.
pub mod acl {
    /// Works on keys of any type.
    pub const KEYSPACE: u32 = 1;
    /// Reads keys.
    pub const READ: u32 = 1 << 1;
    /// Writes keys.
    pub const WRITE: u32 = 1 << 2;
    /// Works on hashes.
    pub const HASH: u32 = 1 << 3;
    /// Works on strings.
    pub const STRING: u32 = 1 << 4;
    /// For operators.
    pub const ADMIN: u32 = 1 << 5;
    /// Takes constant or logarithmic time.
    pub const FAST: u32 = 1 << 6;
    /// Everything that is not fast.
    pub const SLOW: u32 = 1 << 7;
    /// May have its client wait.
    pub const BLOCKING: u32 = 1 << 31;
    /// To be granted with care.
    pub const DANGEROUS: u32 = 1 << 8;
    /// Concerns the connection.
    pub const CONNECTION: u32 = 1 << 9;
    /// Concerns transactions.
    pub const TRANSACTION: u32 = 1 << 10;
    /// Concerns scripts.
    pub const SCRIPTING: u32 = 1 << 11;
    /// Works on sets.
    pub const SET: u32 = 1 << 12;
    /// Works on bitmaps.
    pub const BITMAP: u32 = 1 << 13;
    /// Works on lists.
    pub const LIST: u32 = 1 << 14;
    /// Works on sorted sets.
    pub const SORTED_SET: u32 = 1 << 15;
    /// Works on sorted sets as places on the earth.
    pub const GEO: u32 = 1 << 16;
    /// Concerns messages to subscribers.
    pub const PUBSUB: u32 = 1 << 20;
    /// Works on HyperLogLogs.
    pub const HYPERLOGLOG: u32 = 1 << 17;
    /// Works on streams.
    pub const STREAM: u32 = 1 << 18;
    /// Shows operators how the store is.
    pub const ROLE_READ: u32 = 1 << 21;
    /// For operators who keep the store running, and all that is for those who read.
    pub const ROLE_OPERATE: u32 = 1 << 22;
    /// For operators who may do everything, and all that is for those who operate.
    pub const ROLE_ADMINISTER: u32 = 1 << 23;

    /// All of them, with the names that COMMAND INFO and ACL CAT give them, in their order.
    pub const NAMES: &[(u32, &str)] = &[
        (KEYSPACE, "keyspace"),
        (READ, "read"),
        (WRITE, "write"),
        (SET, "set"),
        (SORTED_SET, "sortedset"),
        (LIST, "list"),
        (HASH, "hash"),
        (STRING, "string"),
        (BITMAP, "bitmap"),
        (GEO, "geo"),
        (HYPERLOGLOG, "hyperloglog"),
        (STREAM, "stream"),
        (PUBSUB, "pubsub"),
        (ADMIN, "admin"),
        (FAST, "fast"),
        (SLOW, "slow"),
        (BLOCKING, "blocking"),
        (DANGEROUS, "dangerous"),
        (CONNECTION, "connection"),
        (TRANSACTION, "transaction"),
        (SCRIPTING, "scripting"),
        (ROLE_READ, "role-read"),
        (ROLE_OPERATE, "role-operate"),
        (ROLE_ADMINISTER, "role-administer"),
    ];

    /// The bit of a category, by its name in any case.
    #[must_use]
    pub fn bit_of(name: &[u8]) -> Option<u32> {
        let named = NAMES.iter().find(|(_, own)| own.as_bytes().eq_ignore_ascii_case(name));
        named.map(|(bit, _)| *bit)
    }
}

/// Where a command's keys are among its arguments (the command's name being argument 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// From `first`, every `step`th argument; `last` counts from `first`, or, if negative, from the end (-1: the last).
    Range {
        /// The first key.
        first: u16,
        /// The last key.
        last: i16,
        /// From one key to the next.
        step: u16,
    },
    /// The argument at `count` says how many there are; they follow it.
    Counted {
        /// The argument.
        count: u16,
        /// From one key to the next.
        step: u16,
    },
    /// Behind an option: the last of its kind counts.
    AfterWord {
        /// The option, in upper case.
        word: &'static str,
        /// The first argument that may be it.
        from: u16,
        /// The options that arguments follow, itself among them.
        options: &'static [OptionArguments],
    },
    /// Behind a word: keys, and for each of them an argument behind all of them.
    Halved {
        /// The word, in upper case.
        word: &'static str,
        /// The first argument that may be that word.
        from: u16,
        /// Options that may come before it, and how many arguments follow each.
        options: &'static [OptionArguments],
        /// From which argument on COMMAND INFO has clients look for it, which know no options.
        told_from: u16,
    },
    /// The argument at `at`; where that is empty, everything behind a word.
    OneOrRest {
        /// The argument.
        at: u16,
        /// The word, in upper case.
        word: &'static str,
        /// The first argument that may be that word.
        from: u16,
        /// Options that may come before it, and how many arguments follow each.
        options: &'static [OptionArguments],
    },
    /// Within the operations of KV.EXEC.
    Operations,
}

/// Some keys of a command and what it does to them.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Where they are.
    pub place: KeyPlace,
    /// Bits of `key_flag`.
    pub flags: u32,
    /// A remark for COMMAND INFO; may be empty.
    pub note: &'static str,
    /// Of flags that depend on the arguments: what they are without an option.
    pub without: Option<Without>,
}

impl KeySpec {
    /// The flags for a request.
    fn flags_for(&self, args: &[&[u8]]) -> u32 {
        let is_word = |arg: &&[u8], word: &&str| arg.eq_ignore_ascii_case(word.as_bytes());
        let flags = match self.without {
            Some(Without { words, from, flags }) => {
                let has = args.iter().skip(from.into()).any(|arg| words.iter().any(|word| is_word(arg, word)));
                if has { self.flags } else { flags }
            }
            None => self.flags,
        };
        flags & !key_flag::VARIABLE
    }
}

/// What a command does to a key if none of some options is among its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Without {
    /// The options, in upper case.
    pub words: &'static [&'static str],
    /// The first argument that may be one.
    pub from: u16,
    /// Bits of `key_flag`.
    pub flags: u32,
}

/// Whether a command answers what its keys hold, so that a short request may have a long reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// A reply as short as the request, or bounded otherwise.
    Little,
    /// What its keys hold.
    Values,
    /// That, if this word is among its arguments.
    ValuesWith(&'static [&'static str]),
}

/// Which arguments of a command name channels that its user must have the right to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelArgs {
    /// None.
    None,
    /// The first one, to which it publishes.
    First,
    /// All of them.
    All,
    /// All of them, which are patterns of channels.
    Patterns,
}

/// The least of an operator's roles that a command is for.
#[derive(Clone, Copy)]
pub(super) enum Role {
    Read,
    Operate,
    Administer,
}

/// Words of a request, directly behind the command's name, that take another command's right as well.
#[derive(Clone, Copy, Debug)]
pub struct OtherRight {
    /// The words, in upper case.
    pub words: &'static [&'static str],
    /// The full name of the other command.
    pub of: &'static str,
}

/// The chapter that a command stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Strings.
    String,
    /// Hashes.
    Hash,
    /// Sets.
    Set,
    /// Lists.
    List,
    /// Sorted sets.
    SortedSet,
    /// Places on the earth.
    Geo,
    /// Bitmaps.
    Bitmap,
    /// HyperLogLogs.
    HyperLogLog,
    /// Streams.
    Stream,
    /// Keys of any type.
    Generic,
    /// MULTI, EXEC and the like.
    Transactions,
    /// The connection itself.
    Connection,
    /// Publish and subscribe.
    PubSub,
    /// The server.
    Server,
    /// The cluster.
    Cluster,
    /// Scripts and functions.
    Scripting,
    /// Basalt's own.
    Basalt,
}

impl Group {
    /// All groups, in the order of the documentation.
    pub const ALL: [Self; 17] = [
        Self::Basalt,
        Self::String,
        Self::Hash,
        Self::Set,
        Self::List,
        Self::SortedSet,
        Self::Geo,
        Self::Bitmap,
        Self::HyperLogLog,
        Self::Stream,
        Self::Generic,
        Self::Transactions,
        Self::Connection,
        Self::PubSub,
        Self::Server,
        Self::Cluster,
        Self::Scripting,
    ];

    /// The name that COMMAND DOCS gives it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Hash => "hash",
            Self::Set => "set",
            Self::List => "list",
            Self::SortedSet => "sorted-set",
            Self::Geo => "geo",
            Self::Bitmap => "bitmap",
            Self::HyperLogLog => "hyperloglog",
            Self::Stream => "stream",
            Self::Generic => "generic",
            Self::Transactions => "transactions",
            Self::Connection => "connection",
            Self::PubSub => "pubsub",
            Self::Server => "server",
            Self::Cluster => "cluster",
            Self::Scripting => "scripting",
            Self::Basalt => "basalt",
        }
    }
}

/// One row of the table: a command, or a subcommand such as `CLIENT|ID`.
#[derive(Clone, Copy, Debug)]
pub struct CommandSpec {
    /// Its number.
    pub id: CommandId,
    /// In upper case; a subcommand's name holds its container's: `CLIENT|ID`.
    pub name: &'static str,
    /// How many arguments, the name (and subcommand) included; -n means "n or more".
    pub arity: i16,
    /// Bits of `flag`.
    pub flags: u32,
    /// Bits of `behaviour`.
    pub behaviour: u64,
    /// A request about several keys does what requests about one key each, with the arguments up to the next one, would do.
    pub splits_by_key: bool,
    /// Which of its arguments are secret.
    pub secrets: SecretArgs,
    /// Bits of `acl`.
    pub acl: u32,
    /// Whether it answers what its keys hold.
    pub answers: Answers,
    /// Where its keys are.
    pub key_specs: &'static [KeySpec],
    /// The first key's argument; 0 if there are none, or if they move.
    pub first_key: u16,
    /// The last key's argument; negative ones count from the end.
    pub last_key: i16,
    /// From one key to the next.
    pub key_step: u16,
    /// Where its channels are.
    pub channels: ChannelArgs,
    /// What a user must be allowed besides, for some requests.
    pub other_rights: &'static [OtherRight],
    /// Its chapter.
    pub group: Group,
    /// The first release with it: of Redis, or, in Basalt's own group, of Basalt.
    pub since: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// How its time grows.
    pub complexity: &'static str,
    /// Its arguments, in the notation that `table::syntax` reads.
    pub arguments: &'static str,
    /// Hints for clients.
    pub tips: &'static [&'static str],
    /// Since when it is deprecated, and what replaces it.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// For a subcommand, its container.
    pub container: Option<CommandId>,
    /// How many rows behind this one are its subcommands.
    pub(super) subcommand_count: u16,
}

impl CommandSpec {
    /// The command whose right a request takes besides, if it does.
    #[must_use]
    pub fn other_right(&self, args: &[&[u8]]) -> Option<&'static str> {
        let word = args.get(2).filter(|_| !self.other_rights.is_empty())?;
        let is_one = |other: &&OtherRight| other.words.iter().any(|own| word.eq_ignore_ascii_case(own.as_bytes()));
        self.other_rights.iter().find(is_one).map(|other| other.of)
    }

    /// Whether all bits of `flags` (of `flag`) are set.
    #[must_use]
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// Whether all bits of `behaviour` are set.
    #[inline]
    #[must_use]
    pub fn does(&self, behaviour: u64) -> bool {
        self.behaviour & behaviour == behaviour
    }

    /// Whether it may change data.
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.has(flag::WRITE) || self.does(WRITES_BY_SCRIPT)
    }

    /// Whether CLIENT PAUSE WRITE holds it back.
    #[inline]
    #[must_use]
    pub fn pauses_with_writes(&self) -> bool {
        self.flags & (flag::WRITE | flag::MAY_REPLICATE) != 0
    }

    /// Whether a request may answer what its keys hold.
    #[must_use]
    pub fn answers_values(&self, args: &[&[u8]]) -> bool {
        match self.answers {
            Answers::Little => false,
            Answers::Values => true,
            Answers::ValuesWith(words) => {
                args.iter().any(|arg| words.iter().any(|word| arg.eq_ignore_ascii_case(word.as_bytes())))
            }
        }
    }

    /// Whether a request looks a key up, as a read does, of which its specification says that; bits of `key_flag`. That such a key is not
    /// there is an event.
    #[must_use]
    pub fn looks_up(&self, args: &[&[u8]], flags: u32) -> bool {
        let is_read = flags & (key_flag::RO | key_flag::NOT_KEY) == key_flag::RO;
        // Redis pops without looking up: only what a string was is asked for so.
        let is_both = || flags & key_flag::RW != 0 && self.group == Group::String && self.answers_values(args);
        (is_read || is_both()) && !self.does(MISSES_UNTOLD)
    }

    /// Whether a request of `argc` arguments, the name included, is of the right length.
    #[inline]
    #[must_use]
    pub fn check_arity(&self, argc: usize) -> bool {
        if self.arity >= 0 { argc == self.arity as usize } else { argc >= usize::from(self.arity.unsigned_abs()) }
    }

    /// Whether it has subcommands.
    #[must_use]
    pub fn is_container(&self) -> bool {
        self.subcommand_count > 0
    }

    /// The last part of the name: `ID` of `CLIENT|ID`.
    #[must_use]
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit_once('|').map_or(self.name, |(_, short)| short)
    }

    /// The name as a user types it, in upper case: `CLIENT ID`.
    #[must_use]
    pub fn typed_name(&self) -> String {
        self.name.replace('|', " ")
    }

    /// The name as replies and errors show it: `client|id`.
    #[must_use]
    pub fn shown_name(&self) -> String {
        self.name.to_ascii_lowercase()
    }

    /// Whether requests have keys.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        !self.key_specs.is_empty()
    }

    /// Where the keys of a request are, whose arity has been checked. `args[0]` is the command's name.
    #[inline]
    pub fn keys(&self, args: &[&[u8]]) -> Result<KeyPositions, MalformedKeys> {
        if self.first_key > 0 && self.flags & flag::MOVABLE_KEYS == 0 {
            return Ok(KeyPositions::range(args.len(), self.first_key, self.last_key, self.key_step));
        }
        if self.key_specs.is_empty() {
            return Ok(KeyPositions::none());
        }
        if let [KeySpec { place: KeyPlace::Counted { count, step }, .. }] = self.key_specs {
            return counted(args, *count, *step);
        }
        if let [KeySpec { place: KeyPlace::Halved { word, from, options, .. }, .. }] = self.key_specs {
            return Ok(halved(args, word, *from, options));
        }
        Ok(KeyPositions::list(self.keys_and_flags(args)?.into_iter().map(|(at, _)| at).collect()))
    }

    /// A request as one for each of its keys, if it may be taken apart so, each with the place of its key: 1.
    #[must_use]
    pub fn split_by_key<A: Clone>(&self, args: &[A]) -> Option<Vec<Vec<A>>> {
        let (first, step) = (usize::from(self.first_key), usize::from(self.key_step));
        if !self.splits_by_key || first != 1 {
            return None;
        }
        let one = |rest: &[A]| [&args[..first], rest].concat();
        Some(args[first..].chunks(step).map(one).collect())
    }

    /// Likewise, with what is done to each key: bits of `key_flag`.
    pub fn keys_and_flags(&self, args: &[&[u8]]) -> Result<Vec<(usize, u32)>, MalformedKeys> {
        let mut keys = Vec::new();
        for spec in self.key_specs {
            let flags = spec.flags_for(args);
            match spec.place {
                KeyPlace::Range { first, last, step } => {
                    let last = if last < 0 { last } else { first as i16 + last };
                    keys.extend(KeyPositions::range(args.len(), first, last, step).map(|at| (at, flags)));
                }
                KeyPlace::Counted { count, step } => {
                    keys.extend(counted(args, count, step)?.map(|at| (at, flags)));
                }
                KeyPlace::Halved { word, from, options, .. } => {
                    keys.extend(halved(args, word, from, options).map(|at| (at, flags)));
                }
                KeyPlace::OneOrRest { at, word, from, options } => {
                    keys.extend(one_or_rest(args, at, word, from, options).map(|at| (at, flags)));
                }
                KeyPlace::AfterWord { word, from, options } => {
                    keys.extend(after_word(args, word, from, options).map(|at| (at, flags)));
                }
                KeyPlace::Operations => {
                    for op in exec_ops(args) {
                        let op = op?;
                        keys.push((op.at + 1, op.key_flags()));
                    }
                }
            }
        }
        Ok(keys)
    }

    // How rows are written: `command(…)` and what differs from the defaults.

    /// Sets the flags, and the ACL categories that follow from them.
    pub(super) const fn flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        if flags & flag::WRITE != 0 {
            self.acl |= acl::WRITE;
        }
        // As in Redis, the right to read brings no right to run scripts.
        if flags & flag::READONLY != 0 && self.acl & acl::SCRIPTING == 0 {
            self.acl |= acl::READ;
        }
        if flags & flag::ADMIN != 0 {
            self.acl |= acl::ADMIN | acl::DANGEROUS;
        }
        if flags & flag::BLOCKING != 0 {
            self.acl |= acl::BLOCKING;
        }
        if flags & flag::FAST != 0 {
            self.acl = self.acl & !acl::SLOW | acl::FAST;
        }
        self
    }

    pub(super) const fn answers(mut self, answers: Answers) -> Self {
        self.answers = answers;
        self
    }

    pub(super) const fn splits_by_key(mut self) -> Self {
        self.splits_by_key = true;
        self
    }

    pub(super) const fn does_also(mut self, behaviour: u64) -> Self {
        self.behaviour |= behaviour;
        self
    }

    pub(super) const fn names_channels(mut self, channels: ChannelArgs) -> Self {
        self.channels = channels;
        self
    }

    /// For operators of that role, and of those above it.
    pub(super) const fn role(mut self, role: Role) -> Self {
        self.acl |= match role {
            Role::Read => acl::ROLE_READ | acl::ROLE_OPERATE | acl::ROLE_ADMINISTER,
            Role::Operate => acl::ROLE_OPERATE | acl::ROLE_ADMINISTER,
            Role::Administer => acl::ROLE_ADMINISTER,
        };
        self
    }

    pub(super) const fn asks_also(mut self, other_rights: &'static [OtherRight]) -> Self {
        self.other_rights = other_rights;
        self
    }

    pub(super) const fn secret_args(mut self, secrets: SecretArgs) -> Self {
        self.secrets = secrets;
        self
    }

    pub(super) const fn dangerous(mut self) -> Self {
        self.acl |= acl::DANGEROUS;
        self
    }

    /// Sets the key specifications. Several ones must be neighbours: only then do first, last and step tell all keys.
    pub(super) const fn touches(mut self, specs: &'static [KeySpec]) -> Self {
        self.key_specs = specs;
        let mut i = 0;
        while i < specs.len() {
            match specs[i].place {
                KeyPlace::Counted { .. }
                | KeyPlace::Halved { .. }
                | KeyPlace::AfterWord { .. }
                | KeyPlace::OneOrRest { .. }
                | KeyPlace::Operations => self.flags |= flag::MOVABLE_KEYS,
                KeyPlace::Range { first, last, step } => {
                    if i == 0 {
                        self.first_key = first;
                        self.key_step = step;
                    } else {
                        assert!(self.last_key + 1 == first as i16 && step == 1, "key ranges must be neighbours");
                    }
                    self.last_key = if last < 0 { last } else { first as i16 + last };
                }
            }
            i += 1;
        }
        self
    }

    pub(super) const fn cost(mut self, complexity: &'static str) -> Self {
        self.complexity = complexity;
        self
    }

    pub(super) const fn args(mut self, syntax: &'static str) -> Self {
        self.arguments = syntax;
        self
    }

    pub(super) const fn tips(mut self, tips: &'static [&'static str]) -> Self {
        self.tips = tips;
        self
    }

    pub(super) const fn deprecated(mut self, since: &'static str, replaced_by: &'static str) -> Self {
        self.deprecated = Some((since, replaced_by));
        self
    }
}

/// A row with the defaults: what differs is set on it.
pub(super) const fn command(
    group: Group,
    acl: u32,
    name: &'static str,
    arity: i16,
    since: &'static str,
    summary: &'static str,
) -> CommandSpec {
    CommandSpec {
        id: CommandId(0),
        name,
        arity,
        flags: 0,
        behaviour: 0,
        splits_by_key: false,
        secrets: SecretArgs::None,
        acl: acl | acl::SLOW,
        answers: Answers::Little,
        key_specs: &[],
        first_key: 0,
        last_key: 0,
        key_step: 0,
        channels: ChannelArgs::None,
        other_rights: &[],
        group,
        since,
        summary,
        complexity: "O(1)",
        arguments: "",
        tips: &[],
        deprecated: None,
        container: None,
        subcommand_count: 0,
    }
}

/// One key.
pub(super) const fn key(at: u16, flags: u32) -> KeySpec {
    KeySpec { place: KeyPlace::Range { first: at, last: 0, step: 1 }, flags, note: "", without: None }
}

/// So many as the argument at `count` says, behind it.
pub(super) const fn keys_counted(count: u16, flags: u32) -> KeySpec {
    KeySpec { place: KeyPlace::Counted { count, step: 1 }, flags, note: "", without: None }
}

/// So many keys, each with a value behind it, as the argument at `count` says.
pub(super) const fn pairs_counted(count: u16, flags: u32) -> KeySpec {
    KeySpec { place: KeyPlace::Counted { count, step: 2 }, flags, note: "", without: None }
}

/// The argument behind the option `word`, which is `from` or a later argument.
pub(super) const fn key_after(
    word: &'static str,
    from: u16,
    options: &'static [OptionArguments],
    flags: u32,
) -> KeySpec {
    KeySpec { place: KeyPlace::AfterWord { word, from, options }, flags, note: "", without: None }
}

/// Every `step`th argument from `first` to the end.
pub(super) const fn keys_to_end(first: u16, step: u16, flags: u32) -> KeySpec {
    KeySpec { place: KeyPlace::Range { first, last: -1, step }, flags, note: "", without: None }
}

/// From `first` to the last argument but one.
pub(super) const fn keys_before_last(first: u16, flags: u32) -> KeySpec {
    KeySpec { place: KeyPlace::Range { first, last: -2, step: 1 }, flags, note: "", without: None }
}
