//! The blocking command that a connection waits in.
//!
//! Invariant: with a `refusal` its wait is to end, and no other end of it is told to the client than that.

use crate::mailbox::Submission;
use crate::os::steady_us;
use crate::shared::NodeShared;
use node::blocking::{BlockingCommand, ENDED_BY_CLIENT, ids_of_ended};
use node::session::{Session, refused_wait};
use node::{EncodedCommand, Ticket, Write, key_hash};
use resp::Reply;
use std::sync::Arc;
use vocab::{Database, Namespace, ShardId, client_key, slot_of};

/// A blocking command under way.
pub(super) struct BlockingRequest {
    ticket: Ticket,
    /// In the words that its user was allowed.
    command: EncodedCommand,
    /// Why it is to end: its user has lost the right to it.
    refusal: Option<String>,
    /// When it began, in µs of the steady clock.
    since_us: u64,
    /// Why its wait is to end, if it is.
    ending: Ending,
    /// Held until it has moved: so many are counted.
    moving: Option<Arc<()>>,
    room: Room,
}

/// The room of a connection that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Room {
    /// It is kept: who waits often and shortly needs it.
    #[default]
    Kept,
    /// A tick of the loop has found the wait.
    Found,
    /// Another one has, and it was given back.
    GivenBack,
}

/// Why a wait is to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ending {
    #[default]
    No,
    /// Its client is told.
    ForClient,
    /// It goes on for the same keys of another database: SWAPDB.
    Moves,
}

impl BlockingRequest {
    pub(super) fn new(ticket: Ticket, command: EncodedCommand) -> Self {
        Self {
            ticket,
            command,
            refusal: None,
            since_us: steady_us(),
            ending: Ending::No,
            moving: None,
            room: Room::Kept,
        }
    }

    /// When it began, in µs of the steady clock.
    pub(super) fn since_us(&self) -> u64 {
        self.since_us
    }

    /// A tick of the loop: whether its connection gives back the room that it does not need. Once: the tick before has found the wait.
    pub(super) fn gives_room_back(&mut self) -> bool {
        let before = self.room;
        self.room = if before == Room::Kept { Room::Found } else { Room::GivenBack };
        before == Room::Found
    }

    /// Its wait is to end; without `is_new`, if it still is as was said before. Whether it is to end.
    pub(super) fn ends(&mut self, is_new: bool) -> bool {
        if is_new {
            self.ending = Ending::ForClient;
        }
        self.ending != Ending::No
    }

    /// Its wait is to end, and goes on elsewhere; it holds `moving` until it does.
    pub(super) fn moves(&mut self, moving: Arc<()>) {
        (self.ending, self.moving) = (Ending::Moves, Some(moving));
    }

    /// Whether its client is to be told of another end.
    pub(super) fn is_ending(&self) -> bool {
        self.ending == Ending::ForClient || self.is_refused()
    }

    /// The answer says that its wait has ended which goes on elsewhere: the same for that place, and for the time that is left. As in Redis,
    /// `$` stays the id that it stood for when the wait began.
    pub(super) fn moved(&self, answer: &[u8], place: Database) -> Option<Self> {
        let ids = ids_of_ended(answer).filter(|_| self.ending == Ending::Moves)?;
        let spec = self.command.spec()?;
        let own = Namespace::Database(place);
        let args = self.command.args();
        let keys: Vec<usize> = spec.keys(&args).ok()?.collect();
        let stored: Vec<Vec<u8>> = keys.iter().map(|at| own.stored(client_key(args[*at]))).collect();
        let mut renamed = args.clone();
        keys.iter().zip(&stored).for_each(|(at, key)| renamed[*at] = key);
        let slot = slot_of(stored.first()?);
        let command = BlockingCommand::of(&EncodedCommand::of(spec, &renamed))?.behind(&ids);
        let waited_ms = steady_us().saturating_sub(self.since_us) / 1000;
        let command = match command.timeout().flatten() {
            Some(ms) => command.with_timeout(Some(ms.saturating_sub(waited_ms))),
            None => command,
        };
        let command = command.whole().clone();
        Some(Self { command, ticket: Ticket { slot, ..self.ticket }, ..Self::new(self.ticket, self.command.clone()) })
    }

    /// What is proposed for it in that shard.
    pub(super) fn submission(&self, shard: ShardId) -> Submission {
        let args = self.command.args();
        let places = self.command.spec().and_then(|spec| spec.keys(&args).ok());
        let keys = places.into_iter().flatten().map(|at| key_hash(args[at])).collect();
        let waits_in = BlockingCommand::of(&self.command).map(Box::new);
        Submission { shard, write: Write::Command(self.command.clone()), keys, ticket: self.ticket, waits_in }
    }

    /// What waits, as its entry or another node would have it.
    pub(super) fn command(&self) -> &EncodedCommand {
        &self.command
    }

    pub(super) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Whether it is to end because its user has lost the right to it.
    pub(super) fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// Users have changed: whether its own may no longer run it, and has just lost the right.
    pub(super) fn loses_right(&mut self, session: &Session, store: &NodeShared) -> bool {
        let Some(spec) = self.command.spec().filter(|_| !self.is_refused()) else { return false };
        self.refusal = refused_wait(session, spec, &self.command.args(), store);
        self.is_refused()
    }

    /// What its client, or the node that has sent it (`is_of_node`), is told in place of an answer. None: the answer, which may be an element
    /// that was taken before. Ids are for nodes.
    pub(super) fn in_place_of(&self, answer: &[u8], is_of_node: bool) -> Option<Vec<u8>> {
        let ids = ids_of_ended(answer)?;
        let ended = (!ids.is_empty() && !is_of_node).then_some(ENDED_BY_CLIENT);
        let mut reply = Reply::new(self.ticket.proto);
        reply.error(self.refusal.as_deref().or(ended)?);
        Some(reply.buf)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ENDED: &[u8] = b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n";

    fn database(number: u64) -> Database {
        Database::of_number(number).unwrap()
    }

    /// A command of a client of database 3, whose keys begin with @.
    fn waiting(line: &str) -> BlockingRequest {
        let stored = |word: &str| match word.strip_prefix('@') {
            Some(name) => Namespace::Database(database(3)).stored(name.as_bytes()),
            None => word.as_bytes().to_vec(),
        };
        let words: Vec<Vec<u8>> = line.split(' ').map(stored).collect();
        let command = EncodedCommand::new(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        BlockingRequest::new(Ticket { sequence: 7, ..Ticket::NONE }, command)
    }

    #[test]
    fn a_wait_that_moves_is_made_anew_for_the_same_names_of_the_other_database() {
        for (line, expected) in [
            ("BLPOP @a @b 0", "BLPOP @a @b 0"),
            ("BLMOVE @a @b LEFT RIGHT 0", "BLMOVE @a @b LEFT RIGHT 0"),
            ("BZMPOP 0 2 @a @b MIN COUNT 2", "BZMPOP 0 2 @a @b MIN COUNT 2"),
            ("XREAD BLOCK 0 STREAMS @s 5-1", "XREAD BLOCK 0 STREAMS @s 5-1"),
        ] {
            let mut request = waiting(line);
            assert!(request.moved(ENDED, database(5)).is_none(), "it was not to move: {line}");
            request.moves(Arc::default());
            assert!(request.moved(b"*-1\r\n", database(5)).is_none(), "its time was over: {line}");
            let moved = request.moved(ENDED, database(5)).unwrap();
            let own = database(5).prefix();
            let shown = |word: &&[u8]| match word.strip_prefix(&own[..]) {
                Some(name) => format!("@{}", String::from_utf8_lossy(name)),
                None => String::from_utf8_lossy(word).into_owned(),
            };
            assert_eq!(moved.command().args().iter().map(shown).collect::<Vec<_>>().join(" "), expected);
            assert_eq!((moved.ticket().slot, moved.ticket().sequence), (database(5).slot(), 7), "{line}");
            let keys = moved.submission(ShardId(4)).keys.len();
            assert_eq!(keys, line.matches('@').count(), "{line}");
            assert!(!moved.is_ending() && moved.moved(ENDED, database(3)).is_none(), "it waits anew: {line}");
        }
    }

    #[test]
    fn a_wait_that_moves_reads_streams_on_where_it_was() {
        for (line, ids, expected) in [
            ("XREAD BLOCK 0 STREAMS @s $", " 5-1", "5-1"),
            ("XREAD BLOCK 0 STREAMS @s @t $ 7", " 0-0 7", "0-0 7"),
            // Its end came before it was known where the stream ends.
            ("XREAD BLOCK 0 STREAMS @s $", "", "$"),
            ("XREADGROUP GROUP g c BLOCK 0 STREAMS @s >", "", ">"),
        ] {
            let mut request = waiting(line);
            let answer = format!("-{ENDED_BY_CLIENT}{ids}\r\n");
            assert_eq!(request.in_place_of(answer.as_bytes(), true), None, "{line}");
            let told = request.in_place_of(answer.as_bytes(), false);
            assert_eq!(told, (!ids.is_empty()).then(|| ENDED.to_vec()), "a client is told no ids: {line}");
            request.moves(Arc::default());
            let moved = request.moved(answer.as_bytes(), database(5)).unwrap();
            let words = moved.command().args().iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>();
            assert!(words.join(" ").ends_with(&format!(" {expected}")), "{line}: {words:?}");
        }
    }

    #[test]
    fn a_wait_that_moves_has_the_time_that_was_left() {
        for (left_ms, expected) in [(0, 1), (400, 400), (5000, 5000)] {
            let mut request = waiting("BLPOP @a 5");
            request.since_us = steady_us().saturating_sub((5000 - left_ms) * 1000);
            request.moves(Arc::default());
            let moved = request.moved(ENDED, database(5)).unwrap();
            let timeout = BlockingCommand::of(moved.command()).unwrap().timeout().unwrap().unwrap();
            assert!(timeout <= expected && timeout > 0, "{left_ms}: {timeout}");
        }
    }

    #[test]
    fn who_is_told_of_an_end_does_not_wait_on() {
        let mut request = waiting("BLPOP @a 0");
        assert!(!request.ends(false), "what was said before is over");
        request.moves(Arc::default());
        assert!(request.ends(false) && request.moved(ENDED, database(5)).is_some());
        assert!(request.ends(true) && request.is_ending());
        assert!(request.moved(ENDED, database(5)).is_none());
    }
}
