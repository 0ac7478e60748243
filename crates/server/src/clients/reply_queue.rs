//! The answers that a connection owes, in the order of its requests, and which keys the requests under way touch.
//!
//! Answers leave in the order of the requests. The work may be done out of order where no client can tell: requests on
//! the same keys keep their order.

use super::output::Output;
use crate::os::SteadyTime;
use node::KeyHashes;
use node::key_hash;
use node::stats::ShortArgs;
use resp::table::CommandSpec;
use std::borrow::Cow;
use std::collections::VecDeque;
use vocab::limits;

/// A set of keys, as bits of their hashes: two sets that share a key share a bit.
pub(crate) type Mask = u64;

/// The expected length of an answer before there was one.
pub(super) const LIKELY_REPLY_BYTES: usize = 64 * 1024;

/// Every key.
pub(crate) const ALL_KEYS: Mask = u64::MAX;

/// The mask of keys, by their hashes.
pub(crate) fn mask_of_all(key_hashes: &[u64]) -> Mask {
    key_hashes.iter().fold(0, |mask, hash| mask | 1 << (hash & 63))
}

/// What a request that is under way does to its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It reads them, at some moment before its answer.
    Read,
    /// It writes them, after the writes before it.
    Write,
    /// It will write them, but its place among the writes is not settled yet.
    Unsettled,
}

/// A request under way, as its statistics need it.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    /// The command.
    pub(crate) spec: &'static CommandSpec,
    /// When it began.
    pub(crate) at: SteadyTime,
    /// The beginning of its first argument, for the slow log.
    brief: [u8; BRIEF_BYTES],
    brief_length: u8,
    /// All its arguments as the slow log shows them, while commands are traced.
    args: Option<Box<ShortArgs>>,
    /// Bytes of its answer that came before its last part.
    pub(crate) part_bytes: u64,
}

const BRIEF_BYTES: usize = 23;

impl Begun {
    pub(crate) fn new(spec: &'static CommandSpec, at: SteadyTime, args: &[&[u8]], traced: bool) -> Self {
        let argument = args.get(1).copied().unwrap_or_default();
        let length = argument.len().min(BRIEF_BYTES);
        let mut brief = [0; BRIEF_BYTES];
        brief[..length].copy_from_slice(&argument[..length]);
        let args = traced.then(|| Box::new(ShortArgs::of(spec, args)));
        Self { spec, at, brief, brief_length: length as u8, args, part_bytes: 0 }
    }

    /// Its arguments, or of its first one the beginning.
    pub(crate) fn args(&self) -> ShortArgs {
        let brief = || [self.spec.name.as_bytes(), &self.brief[..usize::from(self.brief_length)]];
        self.args.as_ref().map_or_else(|| ShortArgs::of(self.spec, &brief()), |args| (**args).clone())
    }
}

/// The place of one answer.
struct Pending {
    /// What there is of the answer, and did not go to the output yet.
    reply: Vec<u8>,
    /// The answer is complete.
    is_over: bool,
    mask: Mask,
    effect: Effect,
    begun: Option<Begun>,
    /// CLIENT REPLY: the answer is thrown away.
    silent: bool,
    /// About how many bytes of stored values the answer will hold, or what its work counts for.
    promised: usize,
}

/// A read that waits for the disk.
struct SlowRead {
    sequence: u64,
    /// Hashes of its keys; none: it reads the whole store.
    keys: KeyHashes,
}

/// The reads under way that wait for the disk.
#[derive(Default)]
struct SlowReads(Vec<SlowRead>);

impl SlowReads {
    /// Hashes of a request's keys.
    fn keys(spec: &CommandSpec, args: &[&[u8]]) -> KeyHashes {
        let hash = |at: usize| args.get(at).map(|key| key_hash(key));
        spec.keys(args).into_iter().flatten().filter_map(hash).collect()
    }

    fn begin(&mut self, sequence: u64, spec: &CommandSpec, args: &[&[u8]]) {
        self.0.push(SlowRead { sequence, keys: Self::keys(spec, args) });
    }

    fn end(&mut self, sequence: u64) {
        if !self.0.is_empty() {
            self.0.retain(|read| read.sequence != sequence);
        }
    }

    /// Whether one of them reads a key of this request. It may see what is written until it is made. A later read of
    /// the same key must not be made before it: that one's answer comes second and might be the older value.
    fn touch(&self, spec: &CommandSpec, args: &[&[u8]]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let keys = Self::keys(spec, args);
        let meets = |others: &KeyHashes| keys.iter().any(|key| others.contains(key));
        self.0.iter().any(|read| keys.is_empty() || read.keys.is_empty() || meets(&read.keys))
    }
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

/// The requests of a connection that are under way.
///
/// Invariant: `owed` is the sum of the lengths of the replies in `pending`, `promised` the sum of what these promise.
pub(super) struct ReplyQueue {
    /// Oldest first.
    pending: VecDeque<Pending>,
    /// The sequence number of the oldest.
    first: u64,
    reads: Tally,
    writes: Tally,
    /// The version of the routing table by which the writes under way went to their shards, or the first of them.
    routed_by: u64,
    slow_reads: SlowReads,
    /// Bytes of answers that wait for earlier ones.
    owed: usize,
    /// Bytes of stored values that the answers of requests under way will hold, as far as is known, or what their work counts for.
    promised: usize,
    /// The expected length of the next answer, in bytes: the longest of the last ones.
    likely_reply: usize,
}

impl Default for ReplyQueue {
    fn default() -> Self {
        Self {
            pending: VecDeque::new(),
            first: 0,
            reads: Tally([0; 64]),
            writes: Tally([0; 64]),
            routed_by: 0,
            slow_reads: SlowReads::default(),
            owed: 0,
            promised: 0,
            likely_reply: LIKELY_REPLY_BYTES,
        }
    }
}

impl ReplyQueue {
    /// Whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Bytes of answers that wait for earlier ones.
    pub(super) fn owed(&self) -> usize {
        self.owed
    }

    /// Whether a request with this effect on these keys must wait for requests under way.
    pub(super) fn must_wait(&self, mask: Mask, effect: Effect) -> bool {
        match effect {
            Effect::Read => self.writes.touches(mask),
            Effect::Write | Effect::Unsettled => self.reads.touches(mask),
        }
    }

    /// Whether a write of these keys, which goes by that version of the routing table, must wait: writes of the same keys that went by
    /// another one may be on their way to another shard, and writes keep their order only in the log of one.
    pub(super) fn must_follow(&mut self, mask: Mask, routed_by: u64) -> bool {
        if self.routed_by == routed_by {
            return false;
        }
        let must_wait = self.writes.touches(mask);
        if !must_wait && !self.writes.touches(ALL_KEYS) {
            self.routed_by = routed_by;
        }
        must_wait
    }

    /// Whether a read of the same keys waits for the disk.
    pub(super) fn reads_slowly(&self, spec: &CommandSpec, args: &[&[u8]]) -> bool {
        self.slow_reads.touch(spec, args)
    }

    /// A request under way is a read that waits for the disk.
    pub(super) fn begin_slow_read(&mut self, sequence: u64, spec: &CommandSpec, args: &[&[u8]]) {
        self.slow_reads.begin(sequence, spec, args);
    }

    /// Whether as much is under way as may, with `unsent` bytes that the client has not taken yet.
    pub(super) fn is_full(&self, unsent: usize) -> bool {
        self.pending.len() >= limits::REQUESTS_IN_FLIGHT_MAX
            || unsent + self.owed + self.promised >= limits::OUTPUT_BUFFER_BYTES_SOFT
    }

    /// The answer of a request under way will hold so many bytes of stored values, or its work counts for as much.
    pub(super) fn promise(&mut self, sequence: u64, bytes: usize) {
        let at = self.index_of(sequence);
        if let Some(pending) = at.and_then(|at| self.pending.get_mut(at))
            && !pending.is_over
        {
            self.promised = self.promised - pending.promised + bytes;
            pending.promised = bytes;
        }
    }

    /// Whether one more answer of unknown length may be under way. The expected length of the answers bounds what a
    /// client that takes none of them keeps in memory.
    pub(super) fn may_owe_more(&self, unsent: usize) -> bool {
        self.pending.is_empty()
            || self.pending.len() * self.likely_reply + unsent + self.owed < limits::OUTPUT_BUFFER_BYTES_SOFT
    }

    /// Registers a request as under way; answers its sequence number.
    pub(super) fn begin(&mut self, mask: Mask, effect: Effect, begun: Begun, silent: bool) -> u64 {
        self.tally(mask, effect, true);
        let begun = Some(begun);
        self.push(Pending { reply: Vec::new(), is_over: false, mask, effect, begun, silent, promised: 0 });
        self.first + self.pending.len() as u64 - 1
    }

    /// Queues an answer that was made at once behind those of earlier requests.
    pub(super) fn queue(&mut self, reply: Vec<u8>) {
        self.owed += reply.len();
        self.push(Pending {
            reply,
            is_over: true,
            mask: 0,
            effect: Effect::Read,
            begun: None,
            silent: false,
            promised: 0,
        });
    }

    /// Most clients have one request under way at a time, and very many of them may wait: the first has room for itself alone.
    fn push(&mut self, pending: Pending) {
        if self.pending.capacity() == 0 {
            self.pending.reserve_exact(1);
        }
        self.pending.push_back(pending);
    }

    /// Requests for which there is room.
    pub(super) fn capacity(&self) -> usize {
        self.pending.capacity() + self.slow_reads.0.capacity()
    }

    /// Frees the room of requests that are not under way any more.
    pub(super) fn give_room_back(&mut self) {
        self.pending.shrink_to_fit();
        self.slow_reads.0.shrink_to_fit();
    }

    /// Whether a part of the answer that leaves next has left, and not all of it.
    pub(super) fn is_within_reply(&self) -> bool {
        let begun = self.pending.front().filter(|pending| !pending.is_over).and_then(|pending| pending.begun.as_ref());
        begun.is_some_and(|begun| begun.part_bytes > 0)
    }

    /// Writes a message behind all requests under way, of which there are some.
    pub(super) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.pending.back().is_none_or(|last| last.begun.is_some()) {
            self.queue(Vec::new());
        }
        if let Some(last) = self.pending.back_mut() {
            let before = last.reply.len();
            write(&mut last.reply);
            self.owed += last.reply.len() - before;
        }
    }

    /// A request under way of whose answer nothing has left.
    pub(super) fn unanswered(&self, sequence: u64) -> Option<&Begun> {
        let pending = self.pending.get(self.index_of(sequence)?)?;
        pending.begun.as_ref().filter(|begun| begun.part_bytes == 0)
    }

    /// A request under way, and those behind it, will not be answered. Nothing may begin after this.
    pub(super) fn forget_from(&mut self, sequence: u64) {
        let Some(at) = self.index_of(sequence) else { return };
        while self.pending.len() > at {
            let Some(pending) = self.pending.pop_back() else { return };
            self.owed -= pending.reply.len();
            self.promised -= pending.promised;
            self.slow_reads.end(self.first + self.pending.len() as u64);
            self.tally(pending.mask, pending.effect, false);
        }
    }

    /// A request under way is to be made elsewhere, some time: its place among the writes is not settled any more.
    pub(super) fn unsettle(&mut self, sequence: u64) {
        let at = self.index_of(sequence);
        if let Some(pending) = at.and_then(|at| self.pending.get_mut(at))
            && !pending.is_over
        {
            let (mask, effect) = (pending.mask, pending.effect);
            (pending.mask, pending.effect) = (ALL_KEYS, Effect::Unsettled);
            self.tally(mask, effect, false);
            self.tally(ALL_KEYS, Effect::Unsettled, true);
        }
    }

    /// A request with this effect on these keys is under way from now on, or (`up` is false) not any more.
    fn tally(&mut self, mask: Mask, effect: Effect, up: bool) {
        if effect != Effect::Write {
            self.reads.change(mask, up);
        }
        if effect != Effect::Read {
            self.writes.change(mask, up);
        }
    }

    /// When a request began that is under way.
    pub(super) fn begun_at(&self, sequence: u64) -> Option<SteadyTime> {
        Some(self.pending.get(self.index_of(sequence)?)?.begun.as_ref()?.at)
    }

    fn index_of(&self, sequence: u64) -> Option<usize> {
        usize::try_from(sequence.checked_sub(self.first)?).ok()
    }

    /// Whether the answer of a request is the next one to leave.
    pub(super) fn is_next(&self, sequence: u64) -> bool {
        sequence == self.first && !self.pending.is_empty()
    }

    /// Puts a part of the answer of a request in its place, of which there is more to come.
    pub(super) fn part(&mut self, sequence: u64, bytes: Vec<u8>, output: &mut Output) {
        let Some(at) = self.index_of(sequence) else { return };
        let Some(pending) = self.pending.get_mut(at).filter(|pending| !pending.is_over) else { return };
        if let Some(begun) = &mut pending.begun {
            begun.part_bytes += bytes.len() as u64;
        }
        self.promised -= std::mem::take(&mut pending.promised);
        let bytes = if pending.silent { Vec::new() } else { bytes };
        if at == 0 {
            output.put(Cow::Owned(bytes));
        } else {
            self.owed += bytes.len();
            put(&mut pending.reply, Cow::Owned(bytes));
        }
    }

    /// Puts the answer of a request, or what was left of it, in its place, and appends to `output` what is next. Answers what the request was;
    /// `None` if it is not under way.
    pub(super) fn answer(&mut self, sequence: u64, reply: Cow<'_, [u8]>, output: &mut Output) -> Option<Begun> {
        let at = self.index_of(sequence)?;
        let pending = self.pending.get_mut(at)?;
        if pending.is_over {
            return None;
        }
        self.slow_reads.end(sequence);
        let (mask, effect, begun) = (pending.mask, pending.effect, pending.begun.take());
        let reply = if pending.silent { Cow::Borrowed(&[][..]) } else { reply };
        self.likely_reply = reply.len().max(self.likely_reply - self.likely_reply / 8).max(1);
        pending.mask = 0;
        self.promised -= std::mem::take(&mut pending.promised);
        if at == 0 {
            self.pending.pop_front();
            self.first += 1;
            output.put(reply);
            self.release(output);
        } else {
            self.owed += reply.len();
            put(&mut pending.reply, reply);
            pending.is_over = true;
        }
        self.tally(mask, effect, false);
        begun
    }

    fn release(&mut self, output: &mut Output) {
        while let Some(pending) = self.pending.front_mut() {
            self.owed -= pending.reply.len();
            output.put(Cow::Owned(std::mem::take(&mut pending.reply)));
            if !pending.is_over {
                return;
            }
            self.pending.pop_front();
            self.first += 1;
        }
    }
}

/// From so many bytes on a reply is moved rather than copied, where that can be.
const MOVED_BYTES_MIN: usize = 64 * 1024;

/// Appends a reply. A long one takes the place of an empty buffer: copying it would keep the event loop.
fn put(buffer: &mut Vec<u8>, reply: Cow<'_, [u8]>) {
    match reply {
        Cow::Owned(reply) if buffer.is_empty() && reply.len() >= MOVED_BYTES_MIN => *buffer = reply,
        reply => buffer.extend_from_slice(&reply),
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

    fn begun() -> Begun {
        Begun::new(resp::table::lookup(b"get").expect("a command"), SteadyTime::now(), &[b"GET", b"key"], false)
    }

    #[test]
    fn answers_leave_in_the_order_of_the_requests() {
        let mut queue = ReplyQueue::default();
        let mut output = Output::default();
        let first = queue.begin(0b01, Effect::Read, begun(), false);
        let second = queue.begin(0b10, Effect::Write, begun(), false);
        let third = queue.begin(0b10, Effect::Write, begun(), true);
        queue.queue(b"fourth".to_vec());
        assert!(queue.answer(second, Cow::Borrowed(b"second "), &mut output).is_some());
        assert!(queue.answer(second, Cow::Borrowed(b"twice"), &mut output).is_none(), "it is answered");
        assert!(queue.answer(third, Cow::Borrowed(b"thrown away"), &mut output).is_some());
        assert_eq!((output.unsent(), queue.owed()), (0, b"second fourth".len()));
        assert!(queue.answer(first, Cow::Borrowed(b"first "), &mut output).is_some());
        assert_eq!(output.tail.buf, b"first second fourth");
        assert!(queue.is_empty() && queue.owed() == 0);
        assert!(queue.answer(first, Cow::Borrowed(b"again"), &mut output).is_none(), "it is gone");
        assert_eq!(queue.begin(0, Effect::Read, begun(), false), 4);
    }

    #[test]
    fn parts_of_an_answer_leave_when_those_before_it_have_left() {
        let mut queue = ReplyQueue::default();
        let mut output = Output::default();
        let first = queue.begin(0b01, Effect::Read, begun(), false);
        let second = queue.begin(0b10, Effect::Read, begun(), false);
        let silent = queue.begin(0b10, Effect::Read, begun(), true);
        queue.queue(b"fourth".to_vec());
        queue.promise(second, 100);
        queue.part(second, b"se".to_vec(), &mut output);
        queue.part(silent, b"thrown away".to_vec(), &mut output);
        assert!(queue.is_next(first) && !queue.is_next(second));
        assert_eq!((output.unsent(), queue.owed(), queue.promised), (0, b"sefourth".len(), 0));
        queue.part(first, b"fi".to_vec(), &mut output);
        assert!(queue.answer(first, Cow::Borrowed(b"rst "), &mut output).is_some_and(|begun| begun.part_bytes == 2));
        assert_eq!((&output.tail.buf[..], queue.is_next(second)), (&b"first se"[..], true));
        queue.part(second, b"co".to_vec(), &mut output);
        assert!(queue.answer(second, Cow::Borrowed(b"nd "), &mut output).is_some());
        queue.part(second, b"late".to_vec(), &mut output);
        assert!(queue.answer(silent, Cow::Borrowed(b"thrown away"), &mut output).is_some());
        assert_eq!((&output.tail.buf[..], queue.owed(), queue.is_empty()), (&b"first second fourth"[..], 0, true));
    }

    #[test]
    fn messages_come_between_whole_answers() {
        let mut queue = ReplyQueue::default();
        let mut output = Output::default();
        let first = queue.begin(0b01, Effect::Read, begun(), false);
        assert!(!queue.is_within_reply(), "nothing of it has left");
        queue.part(first, b"fi".to_vec(), &mut output);
        assert!(queue.is_within_reply());
        queue.append(|output| output.extend_from_slice(b"push "));
        queue.append(|output| output.extend_from_slice(b"push "));
        let second = queue.begin(0b10, Effect::Read, begun(), false);
        queue.append(|output| output.extend_from_slice(b"last"));
        assert_eq!((queue.pending.len(), queue.owed()), (4, b"push push last".len()));
        assert!(queue.answer(first, Cow::Borrowed(b"rst "), &mut output).is_some());
        assert!(!queue.is_within_reply());
        assert_eq!(&output.tail.buf[..], b"first push push ");
        assert!(queue.answer(second, Cow::Borrowed(b"second "), &mut output).is_some());
        assert_eq!((&output.tail.buf[..], queue.owed()), (&b"first push push second last"[..], 0));
    }

    #[test]
    fn a_write_waits_for_one_of_its_keys_that_went_by_other_routes() {
        let mut queue = ReplyQueue::default();
        let mut output = Output::default();
        assert!(!queue.must_follow(0b01, 7), "nothing is under way");
        let first = queue.begin(0b01, Effect::Write, begun(), false);
        assert!(!queue.must_follow(0b01, 7), "both are in the log of one shard");
        assert!(queue.must_follow(0b01, 8) && !queue.must_follow(0b10, 8));
        let second = queue.begin(0b10, Effect::Write, begun(), false);
        assert!(queue.must_follow(0b10, 9));
        queue.answer(first, Cow::Borrowed(b""), &mut output);
        assert!(!queue.must_follow(0b01, 9) && queue.must_follow(0b10, 9));
        queue.answer(second, Cow::Borrowed(b""), &mut output);
        assert!(!queue.must_follow(ALL_KEYS, 9));
        queue.begin(0b01, Effect::Write, begun(), false);
        assert!(!queue.must_follow(0b01, 9));
    }

    #[test]
    fn what_is_to_be_made_elsewhere_holds_up_all_that_comes_behind() {
        let mut queue = ReplyQueue::default();
        let mut output = Output::default();
        let write = queue.begin(0b01, Effect::Write, begun(), false);
        assert!(!queue.must_wait(0b01, Effect::Write), "writes keep their order in the log");
        queue.unsettle(write);
        assert!(queue.must_wait(0b01, Effect::Write) && queue.must_wait(0b10, Effect::Read));
        assert!(queue.answer(write, Cow::Borrowed(b"+OK"), &mut output).is_some());
        assert!(!queue.must_wait(ALL_KEYS, Effect::Write) && !queue.must_wait(ALL_KEYS, Effect::Read));
        queue.unsettle(write);
    }

    #[test]
    fn what_is_forgotten_is_not_answered_and_what_was_before_it_is() {
        let mut queue = ReplyQueue::default();
        let mut output = Output::default();
        let first = queue.begin(0b01, Effect::Read, begun(), false);
        let second = queue.begin(0b10, Effect::Write, begun(), false);
        let third = queue.begin(0b10, Effect::Unsettled, begun(), false);
        queue.promise(third, 100);
        queue.queue(b"fourth".to_vec());
        assert!(queue.unanswered(second).is_some() && queue.unanswered(third + 1).is_none());
        queue.part(first, b"fi".to_vec(), &mut output);
        assert!(queue.unanswered(first).is_none(), "a part of it has left");
        queue.forget_from(second);
        assert!(queue.answer(second, Cow::Borrowed(b"second "), &mut output).is_none());
        assert!(queue.answer(third, Cow::Borrowed(b"third "), &mut output).is_none());
        assert_eq!((queue.owed(), queue.promised, queue.must_wait(0b10, Effect::Read)), (0, 0, false));
        assert!(queue.answer(first, Cow::Borrowed(b"rst"), &mut output).is_some());
        assert_eq!((&output.tail.buf[..], queue.is_empty()), (&b"first"[..], true));
        assert!(!queue.must_wait(ALL_KEYS, Effect::Write));
    }

    #[test]
    fn requests_on_the_same_keys_wait_and_others_do_not() {
        use Effect::{Read, Unsettled, Write};
        for (under_way, next, same, other) in [
            (Read, Read, false, false),
            (Read, Write, true, false),
            (Read, Unsettled, true, false),
            (Write, Read, true, false),
            // Writes keep their order in the shard's entries.
            (Write, Write, false, false),
            (Write, Unsettled, false, false),
            (Unsettled, Read, true, false),
            (Unsettled, Write, true, false),
            (Unsettled, Unsettled, true, false),
        ] {
            let mut queue = ReplyQueue::default();
            let sequence = queue.begin(0b01, under_way, begun(), false);
            assert_eq!(queue.must_wait(0b01, next), same, "{under_way:?}, then {next:?}");
            assert_eq!(queue.must_wait(0b10, next), other, "{under_way:?}, then {next:?}");
            assert_eq!(queue.must_wait(ALL_KEYS, next), same, "{under_way:?}, then {next:?}");
            queue.answer(sequence, Cow::Borrowed(b""), &mut Output::default());
            assert!(!queue.must_wait(ALL_KEYS, next), "it is answered");
        }
    }

    #[test]
    fn what_is_under_way_is_bounded() {
        let mut queue = ReplyQueue::default();
        assert!(queue.is_full(limits::OUTPUT_BUFFER_BYTES_SOFT) && !queue.is_full(0));
        let sequence = queue.begin(0, Effect::Read, begun(), false);
        queue.promise(sequence, limits::OUTPUT_BUFFER_BYTES_SOFT);
        assert!(queue.is_full(0), "what it promises counts");
        queue.promise(sequence, 1);
        assert!(!queue.is_full(0));
        queue.answer(sequence, Cow::Borrowed(b""), &mut Output::default());
        assert_eq!(queue.promised, 0);
        (0..limits::REQUESTS_IN_FLIGHT_MAX).for_each(|_| _ = queue.begin(0, Effect::Read, begun(), false));
        assert!(queue.is_full(0));
        let mut queue = ReplyQueue::default();
        assert!(queue.may_owe_more(limits::OUTPUT_BUFFER_BYTES_SOFT), "one may always be under way");
        (0..limits::OUTPUT_BUFFER_BYTES_SOFT / LIKELY_REPLY_BYTES).for_each(|_| {
            assert!(queue.may_owe_more(0));
            queue.begin(0, Effect::Read, begun(), false);
        });
        assert!(!queue.may_owe_more(0));
    }
}
