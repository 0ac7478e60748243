//! What MULTI has queued.

use super::Keyspace;
use crate::acl::User;
use crate::format::entry::EncodedCommand;
use crate::request::ITEM_BYTES_MAX;
use crate::{KeyHash, RequestKeys};
use replica::Bytes;
use resp::table::{CommandSpec, behaviour, flag};
use smallvec::SmallVec;
use std::sync::Arc;
use vocab::{DATABASE_PREFIX_BYTES, Database, SlotSpan, is_database_key, limits};

/// What a transaction takes in an entry beside its commands and watches, at most.
const HEAD_BYTES_MAX: usize = 32;

/// From so many commands on there is room for as many as there may be.
const LONG: usize = 4096;
const _: () = assert!(LONG < limits::TRANSACTION_COMMANDS_MAX);

#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub(super) spec: &'static CommandSpec,
    /// The command that the client has sent, for which `spec` runs.
    asked: &'static CommandSpec,
    pub(super) command: EncodedCommand,
    pub(super) by: By,
    /// The number of the database that it is about.
    database: u16,
    /// What is answered instead of running it.
    pub(super) refusal: Option<String>,
}

/// Who answers a command of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The shard of its keys, at the place of the command.
    Shard,
    /// The session, when the shard has answered.
    Session,
    /// The shell, over the whole store, when the shard has answered.
    Shell,
    /// It is refused.
    Refusal,
}

/// The commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub(super) struct Queue {
    commands: Vec<Queued>,
    /// What the commands take in an entry.
    bytes: usize,
    /// How many arguments they have.
    arguments: usize,
    /// One of them is about all that its node has of a kind.
    is_about_node: bool,
    /// The hashes of the commands' keys.
    keys: Vec<KeyHash>,
    /// Where the keys so far are.
    span: Option<SlotSpan>,
    /// What a queued SELECT has chosen last: later commands are about it.
    chosen: Option<Keyspace>,
    /// The places of the databases that the commands are about.
    places: SmallVec<[(Database, Database); 1]>,
    spoiled: bool,
    /// As whom its connection asked when it began: by the rights of that user the commands were looked at.
    user: Option<Arc<User>>,
    /// One of them logs in.
    logs_in: bool,
}

impl Queue {
    /// That of a connection of this user.
    pub(super) fn of(user: &Arc<User>) -> Self {
        Self { user: Some(user.clone()), ..Self::default() }
    }

    /// Whether its commands were looked at by other rights than those of this user.
    pub(super) fn is_of_other_rights(&self, user: &Arc<User>) -> bool {
        self.user.as_ref().is_none_or(|own| !Arc::ptr_eq(own, user))
    }

    /// Whether one of them logs in.
    pub(super) fn logs_in(&self) -> bool {
        self.logs_in
    }

    /// The next one does.
    pub(super) fn note_login(&mut self) {
        self.logs_in = true;
    }

    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    /// It cannot be run any more. Answers what has been queued, which need not take memory until EXEC.
    pub(super) fn spoil(&mut self) -> Self {
        std::mem::replace(self, Self { spoiled: true, ..Self::default() })
    }

    /// How many commands and arguments it has.
    pub(super) fn weight(&self) -> usize {
        self.arguments
    }

    /// Whether what is about all of it is no work for an event loop.
    pub(super) fn is_large(&self) -> bool {
        self.is_about_node
            || self.arguments > limits::LARGE_REQUEST_ARGUMENTS
            || self.bytes > limits::LARGE_REQUEST_BYTES
    }

    pub(super) fn spoiled(&self) -> bool {
        self.spoiled
    }

    /// What a queued SELECT has chosen last.
    pub(super) fn chosen(&self) -> Option<Keyspace> {
        self.chosen
    }

    /// Commands that are queued from here on are about that database.
    pub(super) fn choose(&mut self, keyspace: Keyspace) {
        self.chosen = Some(keyspace);
    }

    /// A command names keys of a database at that place.
    pub(super) fn note_place(&mut self, database: Database, place: Database) {
        if !self.places.contains(&(database, place)) {
            self.places.push((database, place));
        }
    }

    /// Whether a database that the commands are about has another place by now: SWAPDB has exchanged it, and they name keys at the one before.
    pub(super) fn is_displaced(&self, place_of: impl Fn(Database) -> Database) -> bool {
        self.places.iter().any(|(database, place)| place_of(*database) != *place)
    }

    /// What the commands take in an entry.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether any of them is one of those.
    pub(super) fn any(&self, is_one: impl Fn(&'static CommandSpec, &[&[u8]]) -> bool) -> bool {
        self.commands.iter().any(|queued| is_one(queued.spec, &queued.command.args()))
    }

    /// Whether any of them may add data.
    pub(super) fn may_add_data(&self) -> bool {
        self.commands
            .iter()
            .any(|queued| queued.spec.has(flag::DENYOOM) || queued.spec.does(behaviour::WRITES_BY_SCRIPT))
    }

    /// Adds a command that came in `frame`, if that may be shared; the error is the text of the reply.
    pub(super) fn push(
        &mut self,
        (spec, asked): (&'static CommandSpec, &'static CommandSpec),
        by: By,
        keys: RequestKeys,
        (args, frame): (&[&[u8]], Option<&Bytes>),
        (watched_bytes, database): (usize, u16),
    ) -> Result<(), &'static str> {
        if self.spoiled {
            return Ok(());
        }
        let command = EncodedCommand::within(spec, args, frame);
        self.bytes += command.bytes();
        let bytes = self.bytes + HEAD_BYTES_MAX + watched_bytes;
        self.arguments += args.len();
        self.is_about_node |= spec.does(behaviour::ABOUT_NODE);
        let is_long =
            self.commands.len() >= limits::TRANSACTION_COMMANDS_MAX || self.arguments > limits::ITEM_ARGUMENTS_MAX;
        if is_long || bytes > ITEM_BYTES_MAX {
            return Err("ERR the transaction is too large");
        }
        // A script that declares no keys may touch those of the database that its request ends with.
        let of_script = || args.last().filter(|_| spec.does(behaviour::RUNS_SCRIPT)).and_then(|last| database_of(last));
        if let Some(slot) = keys.slot.or_else(|| of_script().map(Database::slot)) {
            let span = keys.wider.unwrap_or(slot.into());
            self.span = Some(self.span.map_or(span, |before| before.and(span)));
        }
        self.keys.extend(keys.hashes);
        if self.commands.len() == LONG {
            // To grow it further would move all of it. What is not used of this takes no memory.
            self.commands.reserve_exact(limits::TRANSACTION_COMMANDS_MAX - LONG);
        }
        self.commands.push(Queued { spec, asked, command, by, database, refusal: None });
        Ok(())
    }

    /// Refuses those commands for which there is a text. It is asked with what runs, what the client asked for, the arguments of what runs, and
    /// the number of the database.
    pub(super) fn refuse(
        &mut self,
        why: impl Fn((&'static CommandSpec, &'static CommandSpec), &[&[u8]], u16) -> Option<String>,
    ) {
        for queued in &mut self.commands {
            queued.refusal = why((queued.spec, queued.asked), &queued.command.args(), queued.database);
            if queued.refusal.is_some() {
                queued.by = By::Refusal;
            }
        }
    }

    /// What has been queued, with keys that are watched.
    pub(super) fn into_parts(self, watched: Option<SlotSpan>) -> QueuedParts {
        let span = match (self.span, watched) {
            (Some(span), Some(watched)) => Some(span.and(watched)),
            (span, watched) => span.or(watched),
        };
        QueuedParts { commands: self.commands, keys: self.keys, span }
    }
}

/// What MULTI has queued.
pub(super) struct QueuedParts {
    pub(super) commands: Vec<Queued>,
    /// The hashes of the commands' keys.
    pub(super) keys: Vec<KeyHash>,
    /// Where all keys are, if there are any.
    pub(super) span: Option<SlotSpan>,
}

/// The database whose prefix an argument is.
fn database_of(argument: &[u8]) -> Option<Database> {
    let is_prefix = argument.len() == DATABASE_PREFIX_BYTES && is_database_key(argument);
    Database::of_key(argument).filter(|_| is_prefix)
}
