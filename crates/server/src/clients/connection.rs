//! One client's connection: what it has sent, what it is owed, in order, and what of it is under way.

use crate::mailbox::KeyHashes;
use crate::net::send_now;
use mio::net::TcpStream;
use node::session::{Session, Transaction};
use node::{Ticket, key_hash};
use resp::table::CommandSpec;
use resp::{ParseState, Reply};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::limits;

/// A set of keys, as bits of their hashes: two sets that share a key share a bit.
pub(crate) type Mask = u64;

/// What an answer is taken to be as long as before there was one.
const LIKELY_REPLY_BYTES: usize = 64 * 1024;

/// Every key.
pub(crate) const ALL_KEYS: Mask = u64::MAX;

/// The mask of keys, by their hashes.
pub(crate) fn mask_of_all(key_hashes: &[u64]) -> Mask {
    key_hashes.iter().fold(0, |mask, hash| mask | 1 << (hash & 63))
}

/// What a request that is under way does to its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It reads them at some moment before its answer.
    Read,
    /// It writes them, after the writes before it.
    Write,
    /// It will write them, but its place among the writes is not settled yet.
    Unsettled,
}

/// A request that is under way, for counting it when it is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// The command.
    pub(crate) spec: &'static CommandSpec,
    /// When it began.
    pub(crate) at: Instant,
    /// The beginning of its first argument, for the slow log.
    brief: [u8; BRIEF_BYTES],
    brief_length: u8,
}

const BRIEF_BYTES: usize = 31;

impl Begun {
    pub(crate) fn new(spec: &'static CommandSpec, at: Instant, args: &[&[u8]]) -> Self {
        let argument = args.get(1).copied().unwrap_or_default();
        let length = argument.len().min(BRIEF_BYTES);
        let mut brief = [0; BRIEF_BYTES];
        brief[..length].copy_from_slice(&argument[..length]);
        Self { spec, at, brief, brief_length: length as u8 }
    }

    /// The beginning of its first argument.
    pub(crate) fn brief(&self) -> &[u8] {
        &self.brief[..usize::from(self.brief_length)]
    }
}

struct Slot {
    reply: Option<Vec<u8>>,
    mask: Mask,
    effect: Effect,
    begun: Option<Begun>,
    /// CLIENT REPLY: the answer is thrown away.
    silent: bool,
}

/// Reads that are made in the pool, and of what.
#[derive(Default)]
pub(crate) struct SlowReads(Vec<(u64, KeyHashes)>);

impl SlowReads {
    /// No keys: the whole store.
    fn keys(spec: &CommandSpec, args: &[&[u8]]) -> KeyHashes {
        let hash = |at: usize| args.get(at).map(|key| key_hash(key));
        spec.keys(args).into_iter().flatten().filter_map(hash).collect()
    }

    fn begin(&mut self, sequence: u64, spec: &CommandSpec, args: &[&[u8]]) {
        self.0.push((sequence, Self::keys(spec, args)));
    }

    fn end(&mut self, sequence: u64) {
        if !self.0.is_empty() {
            self.0.retain(|(other, _)| *other != sequence);
        }
    }

    /// Whether one of them reads what this request is about. It may see what is written until it is made, so a later
    /// read of the same must not be made before it: its answer, which comes second, might be the older value.
    fn touch(&self, spec: &CommandSpec, args: &[&[u8]]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let keys = Self::keys(spec, args);
        let meets = |others: &KeyHashes| keys.iter().any(|key| others.contains(key));
        self.0.iter().any(|(_, others)| keys.is_empty() || others.is_empty() || meets(others))
    }
}

/// A write that is not handed to its shard yet.
pub(crate) struct ColdWrite {
    /// What it will find is in memory.
    pub(crate) ready: bool,
    pub(crate) shard: usize,
    pub(crate) write: node::Write,
    pub(crate) keys: KeyHashes,
    pub(crate) ticket: Ticket,
}

/// How many requests under way read or write the keys of each bit.
struct Tally([u16; 64]);

impl Tally {
    fn change(&mut self, mask: Mask, up: bool) {
        let mut rest = mask;
        while rest != 0 {
            let bit = rest.trailing_zeros() as usize;
            if up {
                self.0[bit] += 1;
            } else {
                self.0[bit] -= 1;
            }
            rest &= rest - 1;
        }
    }

    fn touches(&self, mask: Mask) -> bool {
        let mut rest = mask;
        while rest != 0 {
            if self.0[rest.trailing_zeros() as usize] > 0 {
                return true;
            }
            rest &= rest - 1;
        }
        false
    }
}

/// What came of reading a socket.
pub(crate) enum Received {
    /// Nothing more for now.
    Drained(usize),
    /// There may be more.
    More(usize),
    /// The client is gone.
    Closed,
}

/// One connection. Answers leave in the order of the requests; the work may be done out of order where no one can
/// tell: requests on the same keys keep theirs.
pub(crate) struct Connection {
    pub(crate) stream: Arc<TcpStream>,
    pub(crate) generation: u32,
    pub(crate) session: Session,
    /// Bytes received and not yet understood.
    pub(crate) input: Vec<u8>,
    pub(crate) parse: ParseState,
    /// Encoded answers, of which `sent` bytes are gone.
    pub(crate) output: Reply,
    sent: usize,
    /// Requests under way, oldest first.
    slots: VecDeque<Slot>,
    first: u64,
    reads: Tally,
    writes: Tally,
    /// Of these, the reads that are made in the pool.
    slow_reads: SlowReads,
    /// Writes that wait for what they will find, or behind such ones.
    pub(crate) cold: VecDeque<ColdWrite>,
    /// The transaction under way, and its request's sequence number.
    pub(crate) transaction: Option<(u64, Transaction)>,
    /// Bytes of answers that wait for earlier ones.
    owed: usize,
    /// How long the longest of its latest answers were, in bytes: what one under way may take.
    likely_reply: usize,
    /// The client has closed its side: there is an end to be read.
    pub(crate) hung_up: bool,
    /// The socket may have bytes that were not read.
    pub(crate) readable: bool,
    /// The socket takes bytes, as far as is known.
    writable: bool,
    /// It takes no more, ever.
    broken: bool,
    /// The send thread knows the socket; and the last round in which it was handed answers for it.
    pub(crate) is_lent: bool,
    pub(crate) sent_aside: u64,
    /// Bytes at the beginning of `output` that it was handed before, and gave back.
    counted: usize,
    /// It is in the list of connections to flush.
    pub(crate) dirty: bool,
    /// A request waits for those before it, or for room.
    pub(crate) stalled: bool,
    /// Not before this time, in ms since the epoch, is the next request looked at.
    pub(crate) held_until_ms: u64,
    /// When the next request came, if it waits for its shard's leader, in µs of the steady clock; 0: it does not.
    pub(crate) waits_since_us: u64,
    /// The client has closed its side, or what it sent makes no sense: no more is read.
    pub(crate) deaf: bool,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, generation: u32, session: Session) -> Self {
        Self {
            stream: Arc::new(stream),
            generation,
            session,
            input: Vec::new(),
            parse: ParseState::default(),
            output: Reply::default(),
            sent: 0,
            slots: VecDeque::new(),
            first: 0,
            reads: Tally([0; 64]),
            writes: Tally([0; 64]),
            slow_reads: SlowReads::default(),
            cold: VecDeque::new(),
            transaction: None,
            owed: 0,
            likely_reply: LIKELY_REPLY_BYTES,
            hung_up: false,
            readable: false,
            writable: true,
            broken: false,
            is_lent: false,
            sent_aside: 0,
            counted: 0,
            dirty: false,
            stalled: false,
            held_until_ms: 0,
            waits_since_us: 0,
            deaf: false,
        }
    }

    /// Reads once into `buffer`.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Received {
        loop {
            // Without what the C library does for threads that may be cancelled.
            return match recv(&*self.stream, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => Received::Closed,
                Ok((n, _)) if n < buffer.len() => Received::Drained(n),
                Ok((n, _)) => Received::More(n),
                Err(Errno::AGAIN) => Received::Drained(0),
                Err(Errno::INTR) => continue,
                Err(_) => Received::Closed,
            };
        }
    }

    /// Whether a request with this effect on these keys must wait for requests under way.
    pub(crate) fn must_wait(&self, mask: Mask, effect: Effect) -> bool {
        match effect {
            Effect::Read => self.writes.touches(mask),
            Effect::Write | Effect::Unsettled => self.reads.touches(mask),
        }
    }

    /// Whether a read of the same keys is being made in the pool.
    pub(crate) fn reads_slowly(&self, spec: &CommandSpec, args: &[&[u8]]) -> bool {
        self.slow_reads.touch(spec, args)
    }

    /// A request that is under way is a read that is made in the pool.
    pub(crate) fn begin_slow_read(&mut self, sequence: u64, spec: &CommandSpec, args: &[&[u8]]) {
        self.slow_reads.begin(sequence, spec, args);
    }

    /// Whether nothing is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether the connection has as much under way, or unread by its client, as it may.
    pub(crate) fn is_full(&self) -> bool {
        self.slots.len() >= limits::REQUESTS_IN_FLIGHT_MAX
            || self.unsent() + self.owed >= limits::OUTPUT_BUFFER_BYTES_SOFT
    }

    /// Whether one more answer of unknown length may be under way: not if, with answers as long as the latest, a
    /// client that reads none of them would make too many bytes wait.
    pub(crate) fn may_owe_more(&self) -> bool {
        self.slots.is_empty()
            || self.slots.len() * self.likely_reply + self.unsent() + self.owed < limits::OUTPUT_BUFFER_BYTES_SOFT
    }

    /// Bytes that the client has not taken yet.
    pub(crate) fn unsent(&self) -> usize {
        self.output.buf.len() - self.sent
    }

    /// Notes a request as under way; answers its sequence number.
    pub(crate) fn begin(&mut self, mask: Mask, effect: Effect, begun: Begun) -> u64 {
        if effect != Effect::Write {
            self.reads.change(mask, true);
        }
        if effect != Effect::Read {
            self.writes.change(mask, true);
        }
        let silent = self.session.silent();
        self.slots.push_back(Slot { reply: None, mask, effect, begun: Some(begun), silent });
        self.first + self.slots.len() as u64 - 1
    }

    /// An answer made at once, for a request behind others that are under way.
    pub(crate) fn queue(&mut self, reply: Vec<u8>) {
        self.owed += reply.len();
        self.slots.push_back(Slot { reply: Some(reply), mask: 0, effect: Effect::Read, begun: None, silent: false });
    }

    /// How long a request has been under way.
    pub(crate) fn age(&self, sequence: u64) -> Option<Duration> {
        let at = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        Some(self.slots.get(at)?.begun?.at.elapsed())
    }

    /// The answer of a request that was under way: puts it in its place and tells what it was of. `None` if the
    /// request is not known.
    pub(crate) fn answer(&mut self, sequence: u64, reply: &[u8]) -> Option<Begun> {
        let at = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        let slot = self.slots.get_mut(at)?;
        if slot.reply.is_some() {
            return None;
        }
        self.slow_reads.end(sequence);
        let (mask, effect, begun) = (slot.mask, slot.effect, slot.begun);
        let reply = if slot.silent { &[] } else { reply };
        self.likely_reply = reply.len().max(self.likely_reply - self.likely_reply / 8).max(1);
        slot.mask = 0;
        if at == 0 {
            self.slots.pop_front();
            self.first += 1;
            self.output.buf.extend_from_slice(reply);
            self.release();
        } else {
            slot.reply = Some(reply.to_vec());
            self.owed += reply.len();
        }
        if effect != Effect::Write {
            self.reads.change(mask, false);
        }
        if effect != Effect::Read {
            self.writes.change(mask, false);
        }
        begun
    }

    fn release(&mut self) {
        while self.slots.front().is_some_and(|slot| slot.reply.is_some()) {
            if let Some(reply) = self.slots.pop_front().and_then(|slot| slot.reply) {
                self.owed -= reply.len();
                self.output.buf.extend_from_slice(&reply);
            }
            self.first += 1;
        }
    }

    /// The socket takes bytes again.
    pub(crate) fn set_writable(&mut self) {
        self.writable = true;
    }

    /// Sends what can be sent. An error means that the client is gone.
    pub(crate) fn flush(&mut self) -> io::Result<usize> {
        let mut sent = 0;
        if self.broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.writable {
            let (count, stopped_by) = send_now(&self.stream, &self.output.buf[self.sent..]);
            self.sent += count;
            sent = count;
            match stopped_by {
                None => {}
                Some(Errno::AGAIN) => self.writable = false,
                Some(e) => return Err(e.into()),
            }
        }
        self.tidy_output();
        Ok(sent)
    }

    fn tidy_output(&mut self) {
        if self.sent == self.output.buf.len() {
            self.sent = 0;
            // A large answer leaves no large buffer behind.
            if self.output.buf.capacity() > 4 * limits::READ_BUFFER_BYTES {
                self.output.buf = Vec::new();
            } else {
                self.output.buf.clear();
            }
        } else if self.sent > limits::OUTPUT_BUFFER_BYTES_SOFT {
            self.output.buf.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Whether the socket takes bytes, as far as is known.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable && !self.broken
    }

    /// Gives what is unsent to the send thread; tells how much that was.
    pub(crate) fn take_unsent(&mut self, take: impl FnOnce(&[u8])) -> usize {
        let bytes = self.unsent();
        take(&self.output.buf[self.sent..]);
        self.sent += bytes;
        self.tidy_output();
        bytes
    }

    /// What the send thread could not send: it comes before what there is. From here on the event loop sends.
    pub(crate) fn take_back(&mut self, bytes: &[u8], broken: bool) {
        self.output.buf.splice(..self.sent, bytes.iter().copied());
        (self.sent, self.sent_aside, self.broken) = (0, 0, broken);
        self.counted += bytes.len();
        // So that it is known that the socket takes no more, or that it does.
        self.broken |= self.flush().map(|n| self.count(n)).is_err();
    }

    /// Of so many bytes that were sent, those that were not counted when the send thread was handed them.
    pub(crate) fn count(&mut self, sent: usize) -> usize {
        let known = sent.min(self.counted);
        self.counted -= known;
        sent - known
    }

    /// Tells CLIENT LIST what waits here to be run, and to be sent.
    pub(crate) fn note_buffers(&mut self) {
        let owed = self.unsent() + self.owed;
        self.session.buffers(self.input.len(), owed);
    }

    /// Whether a request that waits can be looked at again, now that something was sent. Not to be asked otherwise: one that
    /// waits for anything else would be looked at for ever.
    pub(crate) fn goes_on(&self) -> bool {
        self.stalled && !self.is_full() && self.unsent() == 0
    }

    /// Whether everything is done and the connection is to be closed.
    pub(crate) fn is_over(&self) -> bool {
        (self.deaf || self.session.closing()) && self.slots.is_empty() && self.unsent() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_waits_for_one_of_the_same_key_in_the_pool() {
        let request = |words: &str| {
            let args: Vec<Vec<u8>> = words.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            let shown: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            (resp::table::resolve(&shown).expect("a command"), args)
        };
        let with = |words: &str, run: &mut dyn FnMut(&'static CommandSpec, &[&[u8]])| {
            let (spec, args) = request(words);
            run(spec, &args.iter().map(Vec::as_slice).collect::<Vec<_>>());
        };
        let mut reads = SlowReads::default();
        let expect = |reads: &SlowReads, words: &str, wanted: bool| {
            with(words, &mut |spec, args| assert_eq!(reads.touch(spec, args), wanted, "{words}"));
        };
        expect(&reads, "GET a", false);
        with("MGET a b", &mut |spec, args| reads.begin(7, spec, args));
        with("GET c", &mut |spec, args| reads.begin(9, spec, args));
        for (words, wanted) in [("GET a", true), ("HGET b f", true), ("MGET d c", true), ("GET d", false)] {
            expect(&reads, words, wanted);
        }
        // About the whole store.
        expect(&reads, "DBSIZE", true);
        reads.end(7);
        expect(&reads, "GET a", false);
        expect(&reads, "GET c", true);
        reads.end(9);
        with("KEYS *", &mut |spec, args| reads.begin(10, spec, args));
        expect(&reads, "GET a", true);
        reads.end(10);
        expect(&reads, "DBSIZE", false);
    }
}
