//! One client's connection: what it has sent, what it is owed, and what of it is under way.

use super::blocking_request::BlockingRequest;
use super::forwarded::MONITOR_PUSH;
use super::forwarding::{Forwarding, Kept, Watches};
use super::is_large::is_large;
use super::long_replies::LongReplies;
use super::output::{Output, PIECE_BYTES_MIN};
use super::output_watch::{OutputWatch, Owed, Slow};
use super::reply_queue::{Begun, Effect, Mask, ReplyQueue};
use super::script_window::ScriptWindow;
use crate::mailbox::Submission;
use crate::net::{Received, SendEnd, Stream};
use crate::os::SteadyTime;
use crate::security::TlsPorts;
use crate::shared::NodeShared;
use node::config::OutputLimit;
use node::pubsub::Push;
use node::read::ReplyStream;
use node::session::{Keyspace, Session, Transaction};
use node::{EncodedCommand, Ticket, Write};
use resp::table::{CommandSpec, behaviour};
use resp::{ParseState, Proto, ProtocolError, Reply};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use vocab::{Millis, Slot, limits};

/// A write that is not submitted yet.
struct PendingWrite {
    /// The rows that it will find are in memory.
    ready: bool,
    submission: Submission,
}

/// The transaction under way.
pub(super) struct RunningTransaction {
    /// The sequence number of its EXEC.
    pub(super) sequence: u64,
    pub(super) transaction: Transaction,
}

/// What has become of a script that a connection's next request runs.
#[derive(Debug, Default)]
enum Learning {
    /// Nothing is asked.
    #[default]
    None,
    /// The store is asked: nothing that follows is looked at.
    UnderWay,
    /// The script cannot be had: the text of the error reply.
    Failed(String),
}

/// The stream is broken: the connection is to be closed.
#[derive(Debug)]
pub(super) struct Broken;

/// One connection.
pub(super) struct Connection {
    stream: Stream,
    /// Tells it from the connections that had its place before.
    pub(super) generation: u32,
    pub(super) session: Session,
    /// Bytes received and not yet understood.
    pub(super) input: Vec<u8>,
    pub(super) parse: ParseState,
    /// Encoded answers.
    pub(super) output: Output,
    queue: ReplyQueue,
    /// Replies that are made as the client takes them.
    long_replies: LongReplies,
    /// The sequence number of the request under way that confirms subscriptions: messages come after it.
    confirming: Option<u64>,
    output_watch: OutputWatch,
    /// Bytes that the socket has taken.
    taken: u64,
    /// Writes that wait for the rows that they will find, and writes behind them.
    pending_writes: VecDeque<PendingWrite>,
    pub(super) transaction: Option<RunningTransaction>,
    /// How many scripts that may write it has under way.
    pub(super) scripts: ScriptWindow,
    /// The blocking command under way: what follows it is not looked at.
    blocking: Option<BlockingRequest>,
    /// A WATCH is under way: what follows it is not looked at.
    looks_up_watched: bool,
    /// Whether the script of its next request is being looked up.
    learning: Learning,
    /// The client has closed its side: there is an end to be read.
    hung_up: bool,
    /// The socket may have bytes that were not read.
    readable: bool,
    /// The socket takes bytes, as far as is known.
    writable: bool,
    broken: bool,
    /// The send thread has a handle of the stream.
    is_lent: bool,
    /// The last round in which the send thread was handed answers of this connection.
    sent_aside: u64,
    /// Bytes at the beginning of `output` that were counted as sent, and that the send thread has given back.
    counted: usize,
    /// It is in the list of connections to flush.
    dirty: bool,
    /// A request waits for those before it, or for room.
    stalled: bool,
    /// It has had its turn; what is left of its input has the next one.
    goes_on_later: bool,
    /// Its next request is a login, which waits since others have failed.
    is_slowed: bool,
    /// The next request is not looked at before this time, in ms since the epoch.
    paused_until_ms: u64,
    /// When the next request came, if it waits for its shard's leader, in µs of the steady clock; 0: it does not wait.
    waits_since_us: u64,
    /// No more is read: the client has closed its side, or what it sent makes no sense.
    deaf: bool,
    /// What of it is under way at other nodes; none if nothing ever was.
    forwarding: Option<Box<Forwarding>>,
    /// Of a client with TLS: where nodes serve such clients, for redirections.
    tls_ports: Option<Arc<TlsPorts>>,
}

impl Connection {
    pub(super) fn new(stream: Stream, generation: u32, session: Session) -> Self {
        Self {
            stream,
            generation,
            session,
            input: Vec::new(),
            parse: ParseState::default(),
            output: Output::default(),
            queue: ReplyQueue::default(),
            long_replies: LongReplies::default(),
            confirming: None,
            output_watch: OutputWatch::default(),
            taken: 0,
            pending_writes: VecDeque::new(),
            transaction: None,
            scripts: ScriptWindow::default(),
            blocking: None,
            looks_up_watched: false,
            learning: Learning::None,
            hung_up: false,
            readable: false,
            writable: true,
            broken: false,
            is_lent: false,
            sent_aside: 0,
            counted: 0,
            dirty: false,
            stalled: false,
            goes_on_later: false,
            is_slowed: false,
            paused_until_ms: 0,
            waits_since_us: 0,
            deaf: false,
            forwarding: None,
            tls_ports: None,
        }
    }

    /// The client has TLS: it is redirected to these ports.
    pub(super) fn set_tls_ports(&mut self, ports: Arc<TlsPorts>) {
        self.tls_ports = Some(ports);
    }

    /// What of it is under way at other nodes.
    pub(super) fn forwarding(&mut self) -> &mut Forwarding {
        self.forwarding.get_or_insert_default()
    }

    /// Whether its client does not know clusters.
    pub(super) fn is_of_database(&self) -> bool {
        self.session.keyspace().database().is_some()
    }

    /// Whether another node has made the connection for its clients.
    pub(super) fn is_of_node(&self) -> bool {
        self.session.keyspace() == Keyspace::Stored
    }

    /// As whom scripts of such a command run, if they may not run every command.
    pub(super) fn script_user_of(&self, spec: &CommandSpec) -> Option<Arc<str>> {
        let user = self.session.script_user().filter(|_| spec.does(behaviour::RUNS_SCRIPT))?;
        Some(user.name().clone())
    }

    /// A write is not under way at this node any more: what it was, if another node could make it.
    pub(super) fn take_kept(&mut self, sequence: u64) -> Option<Kept> {
        self.forwarding.as_mut()?.take_kept(sequence)
    }

    /// Whether requests are under way at other nodes.
    pub(super) fn is_forwarding(&self) -> bool {
        self.forwarding.as_ref().is_some_and(|forwarding| forwarding.is_busy())
    }

    /// Where the keys are known that the client watches.
    pub(super) fn watches_elsewhere(&self) -> Watches {
        self.forwarding.as_ref().map_or(Watches::None, |forwarding| forwarding.watches)
    }

    /// Its last write to that slot that was answered before it was committed was this node's: it knows what becomes of it.
    pub(super) fn early_is_here(&mut self, slot: Slot) {
        if let Some(forwarding) = &mut self.forwarding {
            forwarding.early_is_here(slot);
        }
    }

    /// Whether it was another node's, which knows.
    pub(super) fn early_is_elsewhere(&self, slot: Slot) -> bool {
        self.forwarding.as_ref().is_some_and(|forwarding| forwarding.early_is_elsewhere(slot))
    }

    /// This node has answered the connection's last write to that slot.
    pub(super) fn wrote_here(&mut self, slot: Slot) {
        if let Some(forwarding) = &mut self.forwarding {
            forwarding.wrote_here(slot);
        }
    }

    /// What the connection has written may be in any shard.
    pub(super) fn wrote_anywhere(&mut self) {
        self.session.wrote_anywhere();
        if let Some(forwarding) = &mut self.forwarding {
            forwarding.wrote_anywhere();
        }
    }

    /// Whether each leader of that slot knows what has become of what the connection has written: no write was answered before it was
    /// committed, or all such ones are known to be applied.
    pub(super) fn is_settled_in(&self, slot: Slot) -> bool {
        !self.session.has_early() && !self.early_is_elsewhere(slot)
    }

    /// What it watches is watched no longer, unless its commands are queued.
    pub(super) fn end_watches_elsewhere(&mut self) {
        if self.watches_elsewhere() != Watches::None && !self.session.in_multi() {
            self.unwatch_elsewhere();
        }
    }

    /// Nothing is watched any more that another node knows of.
    pub(super) fn unwatch_elsewhere(&mut self) {
        self.session.watch_elsewhere(false);
        self.forwarding().unwatch();
    }

    /// Takes out what is under way at other nodes.
    pub(super) fn take_forwarding(&mut self) -> Option<Box<Forwarding>> {
        self.forwarding.take()
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Reads once into `buffer`.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Received {
        self.stream.receive(buffer)
    }

    /// Whether a request with this effect on these keys must wait for requests under way.
    pub(super) fn must_wait(&self, mask: Mask, effect: Effect) -> bool {
        self.queue.must_wait(mask, effect)
    }

    /// Whether a write of these keys, which goes by that version of the routing table, must wait for one that went by another.
    pub(super) fn must_follow(&mut self, mask: Mask, routed_by: u64) -> bool {
        self.queue.must_follow(mask, routed_by)
    }

    /// Whether a read of the same keys waits for the disk.
    pub(super) fn reads_slowly(&self, spec: &CommandSpec, args: &[&[u8]]) -> bool {
        self.queue.reads_slowly(spec, args)
    }

    /// A request under way is a read that waits for the disk.
    pub(super) fn begin_slow_read(&mut self, sequence: u64, spec: &CommandSpec, args: &[&[u8]]) {
        self.queue.begin_slow_read(sequence, spec, args);
    }

    /// Whether nothing that follows is looked at before what is under way has been answered.
    pub(super) fn waits(&self) -> bool {
        let changes_session = |running: &RunningTransaction| running.transaction.is_of_session();
        self.looks_up_watched
            || self.blocking.is_some()
            || matches!(self.learning, Learning::UnderWay)
            || self.transaction.as_ref().is_some_and(changes_session)
    }

    /// Whether an answer of so many bytes is that of a transaction, and is long or one of very many commands or long ones; or of
    /// a large request that another node would make if this one has not.
    pub(super) fn answers_much(&self, ticket: &Ticket, bytes: usize) -> bool {
        let keeps_large = || self.forwarding.as_ref().is_some_and(|all| all.keeps_large(ticket.sequence));
        let is_long = |RunningTransaction { sequence, transaction }: &RunningTransaction| {
            *sequence == ticket.sequence && is_large(transaction.commands(), bytes.max(transaction.bytes()))
        };
        self.generation == ticket.generation && (self.transaction.as_ref().is_some_and(is_long) || keeps_large())
    }

    /// A write that is not submitted yet.
    pub(super) fn pending_write(&self, sequence: u64) -> Option<&Write> {
        let pending = self.pending_writes.iter().find(|pending| pending.submission.ticket.sequence == sequence);
        pending.map(|pending| &pending.submission.write)
    }

    /// Whether its input has no room for what comes next, and is so long that to make room takes a while.
    pub(super) fn is_cramped(&self) -> bool {
        let (length, room) = (self.input.len(), self.input.capacity() - self.input.len());
        length > limits::LARGE_REQUEST_BYTES && room < limits::READ_BUFFER_BYTES
    }

    /// Makes room for as much input again, or for the argument whose length is known: what is there is moved.
    pub(super) fn grow_input(&mut self) {
        let wanted = self.parse.wanted().saturating_sub(self.input.len());
        self.input.reserve_exact(wanted.max(self.input.len()) + limits::READ_BUFFER_BYTES);
    }

    /// Its sockets to other nodes may have something: answers their places.
    pub(super) fn notice_upstreams(&mut self) -> Vec<usize> {
        let upstreams = self.forwarding.iter_mut().flat_map(|forwarding| forwarding.upstreams.iter_mut());
        let noticed = upstreams.map(|upstream| {
            upstream.notice(true, true);
            upstream.place
        });
        noticed.collect()
    }

    /// The places of its connections to other nodes.
    pub(super) fn places_of_upstreams(&self) -> impl Iterator<Item = usize> {
        self.forwarding.iter().flat_map(|forwarding| forwarding.upstreams.iter()).map(|upstream| upstream.place)
    }

    /// Whether it holds so much that to free it takes a while.
    pub(super) fn holds_much(&self) -> bool {
        is_large(0, self.owed().max(self.input.len()))
    }

    /// Whether nothing is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether the connection has as much under way, or unread by its client, as it may.
    pub(super) fn is_full(&self) -> bool {
        self.queue.is_full(self.unsent())
    }

    /// Whether one more answer of unknown length may be under way.
    pub(super) fn may_owe_more(&self) -> bool {
        self.queue.may_owe_more(self.unsent())
    }

    /// Bytes that the client has not taken yet.
    pub(super) fn unsent(&self) -> usize {
        self.output.unsent()
    }

    /// Whether the client has so much to take that no more of what other nodes answer is read for it. What comes behind an answer
    /// that is still to come does not count: the client cannot take it before that.
    pub(super) fn has_much_unsent(&self) -> bool {
        self.unsent() >= limits::OUTPUT_BUFFER_BYTES_SOFT
    }

    /// Registers a request as under way; answers its sequence number.
    pub(super) fn begin(&mut self, mask: Mask, effect: Effect, begun: Begun) -> u64 {
        self.queue.begin(mask, effect, begun, self.session.silent())
    }

    /// The answer of a request under way will hold so many bytes of stored values.
    pub(super) fn promise(&mut self, sequence: u64, bytes: usize) {
        self.queue.promise(sequence, bytes);
    }

    /// Tells the client what is wrong with what it has sent, and closes it.
    pub(super) fn end_for_its_bytes(&mut self, error: &ProtocolError) {
        if *error == ProtocolError::Tls {
            let from = &self.session.entry().addr;
            log::warn!("the client at {from} speaks TLS at a port without it; it is closed");
        }
        let mut reply = Reply::new(self.session.proto());
        reply.error(&error.reply_text());
        self.put(&reply.buf);
        self.session.close();
        self.deaf = true;
    }

    /// Puts an answer that was made at once behind those of the requests under way.
    pub(super) fn put(&mut self, reply: &[u8]) {
        if reply.is_empty() {
            return;
        }
        let redirection = self.tls_ports.as_ref().and_then(|ports| ports.redirection(reply));
        let reply = redirection.as_deref().unwrap_or(reply);
        if self.queue.is_empty() {
            self.output.put(Cow::Borrowed(reply));
        } else {
            self.queue.queue(reply.to_vec());
        }
    }

    /// When a request began that is under way.
    pub(super) fn begun_at(&self, sequence: u64) -> Option<SteadyTime> {
        self.queue.begun_at(sequence)
    }

    /// Puts the answer of a request under way in its place, and tells what the request was. `None` if it is not known.
    pub(super) fn answer(&mut self, sequence: u64, reply: Cow<'_, [u8]>) -> Option<Begun> {
        self.confirming.take_if(|confirming| *confirming == sequence);
        let redirection = self.tls_ports.as_ref().and_then(|ports| ports.redirection(&reply));
        let reply = redirection.map_or(reply, Cow::Owned);
        self.queue.answer(sequence, reply, &mut self.output)
    }

    /// A request under way of whose answer nothing has left.
    pub(super) fn unanswered(&self, sequence: u64) -> Option<&Begun> {
        self.queue.unanswered(sequence)
    }

    /// A request under way is to be made elsewhere: what comes behind it waits.
    pub(super) fn unsettle(&mut self, sequence: u64) {
        self.queue.unsettle(sequence);
    }

    /// Whether a request is under way.
    pub(super) fn awaits(&self, sequence: u64) -> bool {
        self.queue.begun_at(sequence).is_some()
    }

    /// Answers what was sent before a request under way, and closes the connection instead of answering that.
    pub(super) fn end_before(&mut self, sequence: u64) {
        self.queue.forget_from(sequence);
        if let Some(forwarding) = &mut self.forwarding {
            forwarding.forget_from(sequence);
        }
        self.deaf = true;
    }

    /// A request under way confirms subscriptions.
    pub(super) fn confirms(&mut self, sequence: u64) {
        self.confirming = Some(sequence);
    }

    /// Puts a message for a subscriber between whole replies: before those of requests under way, unless one of these has
    /// begun to leave or confirms subscriptions. In RESP2 a message looks like a reply, so it comes behind them.
    pub(super) fn push(&mut self, write: impl FnOnce(Proto, &mut Vec<u8>)) {
        let proto = self.session.proto();
        if self.pushes_behind() {
            self.queue.append(|output| write(proto, output));
        } else {
            write(proto, &mut self.output.tail.buf);
        }
    }

    /// Whether what is pushed comes behind the replies of requests under way.
    fn pushes_behind(&self) -> bool {
        let is_like_reply = self.session.proto() == Proto::Resp2 && !self.queue.is_empty();
        is_like_reply || self.confirming.is_some() || self.queue.is_within_reply()
    }

    /// Puts a message of a channel there. All its subscribers share the bytes of a long one.
    pub(super) fn push_message(&mut self, push: &Push) {
        if push.bytes() < PIECE_BYTES_MIN || self.pushes_behind() {
            return self.push(|proto, output| push.write(proto, output));
        }
        self.output.put(Cow::Owned(push.head(self.session.proto())));
        self.output.put_piece(push.body());
    }

    /// Puts what the client is told of keys that it may have cached behind the replies that are under way, since these may show
    /// what was before. A blocking command is not waited for.
    pub(super) fn invalidate(&mut self, write: impl FnOnce(Proto, &mut Vec<u8>)) {
        let proto = self.session.told_in();
        if self.queue.is_empty() || (self.blocking.is_some() && !self.queue.is_within_reply()) {
            write(proto, &mut self.output.tail.buf);
        } else {
            self.queue.append(|output| write(proto, output));
        }
    }

    /// Puts what another node is told of a command that its client's script has run before the answers of requests under way.
    pub(super) fn show_before(&mut self, line: &[u8]) {
        let write = |output: &mut Vec<u8>| {
            let mut reply = Reply::with_buffer(std::mem::take(output), Proto::Resp3);
            reply.push(2);
            reply.bulk(MONITOR_PUSH);
            reply.bulk(line);
            *output = reply.buf;
        };
        if self.confirming.is_some() || self.queue.is_within_reply() {
            self.queue.append(write);
        } else {
            write(&mut self.output.tail.buf);
        }
    }

    /// Bytes that the client is owed.
    pub(super) fn owed(&self) -> usize {
        self.unsent() + self.queue.owed()
    }

    /// Whether the client is owed more than so many bytes; 0: there is no limit.
    pub(super) fn owes_more(&self, hard_bytes: u64) -> bool {
        hard_bytes > 0 && self.owed() as u64 > hard_bytes
    }

    /// Puts a part of the answer of a request under way in its place; `stream` makes the next one.
    pub(super) fn part(&mut self, ticket: Ticket, bytes: Vec<u8>, stream: ReplyStream) {
        self.queue.part(ticket.sequence, bytes, &mut self.output);
        self.long_replies.wait(ticket, stream);
    }

    /// Puts a part of the answer of a request under way in its place; the next one comes from elsewhere.
    pub(super) fn pass_on(&mut self, ticket: &Ticket, bytes: Vec<u8>) {
        self.queue.part(ticket.sequence, bytes, &mut self.output);
    }

    /// Whether a long reply waits until the client takes more.
    pub(super) fn has_long_reply(&self) -> bool {
        !self.long_replies.is_empty()
    }

    /// The long reply whose next part is to be made now.
    pub(super) fn next_long_reply(&mut self) -> Option<(Ticket, ReplyStream)> {
        let unsent = self.unsent();
        self.long_replies.go_on(unsent, |sequence| self.queue.is_next(sequence))
    }

    /// Whether the client is to be closed, because it does not take its replies.
    pub(super) fn is_slow(&mut self, limit: OutputLimit, now_ms: Millis) -> Option<Slow> {
        let (bytes, has_long_reply) = (self.owed(), self.has_long_reply());
        if has_long_reply && self.long_replies.is_to_end() {
            return Some(Slow::Replaced);
        }
        self.output_watch.look(Owed { bytes, has_long_reply, taken: self.taken }, limit, now_ms)
    }

    /// Whether the connection is to be closed without a further byte.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// The connection is closed without a further byte.
    pub(super) fn break_off(&mut self) {
        self.broken = true;
    }

    /// The socket takes bytes again.
    pub(super) fn set_writable(&mut self) {
        self.writable = true;
    }

    /// Sends what the socket takes; answers how many bytes that were.
    pub(super) fn flush(&mut self) -> Result<usize, Broken> {
        if self.broken {
            return Err(Broken);
        }
        if !self.writable {
            return Ok(0);
        }
        let flushed = self.output.flush(&self.stream);
        self.taken += flushed.bytes as u64;
        match flushed.end {
            SendEnd::Done => {}
            SendEnd::Full => self.writable = false,
            SendEnd::Broken(_) => return Err(Broken),
        }
        Ok(flushed.bytes)
    }

    /// Whether the socket takes bytes, as far as is known.
    pub(super) fn is_writable(&self) -> bool {
        self.writable && !self.broken
    }

    /// Gives what is unsent to the send thread; answers how many bytes that were.
    pub(super) fn take_unsent(&mut self, take: impl FnMut(&[u8])) -> usize {
        let bytes = self.output.take_unsent(take);
        self.taken += bytes as u64;
        bytes
    }

    /// Takes back what the send thread could not send: it comes before what there is. From here on the event loop
    /// sends.
    pub(super) fn take_back(&mut self, bytes: &[u8], broken: bool) {
        self.output.put_back(bytes);
        self.sent_aside = 0;
        self.broken |= broken;
        self.counted += bytes.len();
        // Finds out whether the socket takes bytes.
        self.broken |= self.flush().map(|n| self.count(n)).is_err();
    }

    /// How many of these sent bytes were not counted when the send thread was handed them.
    pub(super) fn count(&mut self, sent: usize) -> usize {
        let known = sent.min(self.counted);
        self.counted -= known;
        sent - known
    }

    /// Tells CLIENT LIST how many bytes wait to be run and to be sent, and what the connection takes.
    pub(super) fn note_buffers(&mut self) {
        let owed = self.owed();
        let taken = self.input.capacity() + self.output.capacity() + self.queue.owed();
        self.session.buffers(self.input.len(), owed, size_of::<Self>() + taken);
    }

    /// Whether a stalled request can be looked at again, now that something was sent. Call this only after bytes were
    /// sent: a connection that is stalled for another reason would spin otherwise.
    pub(super) fn goes_on(&self) -> bool {
        self.stalled && !self.is_full() && self.unsent() == 0
    }

    /// The event loop has noticed that there may be something to read, or that the client has closed its side.
    pub(super) fn notice(&mut self, readable: bool, hung_up: bool) {
        self.readable |= readable;
        self.hung_up |= hung_up;
    }

    /// Whether more is to be read now.
    pub(super) fn can_be_read(&self) -> bool {
        self.readable && !self.stalled && !self.deaf
    }

    /// All that was there is read. True if the end is still to be read.
    pub(super) fn is_drained(&mut self) -> bool {
        self.readable = self.hung_up;
        self.readable
    }

    /// The client has closed its side, and everything is read.
    pub(super) fn end_input(&mut self) {
        self.readable = false;
        self.deaf = true;
    }

    /// No more is read.
    pub(super) fn hear_no_more(&mut self) {
        self.deaf = true;
    }

    /// Whether no more is read.
    pub(super) fn is_deaf(&self) -> bool {
        self.deaf
    }

    /// Whether the client has closed its side while it waits in a blocking command.
    pub(super) fn hung_up_waiting(&self) -> bool {
        self.hung_up && self.blocking.is_some()
    }

    /// What is held back is a login, because others from the same address have failed; or it is anything else.
    pub(super) fn slow_login(&mut self, is_slowed: bool) {
        self.is_slowed = is_slowed;
    }

    /// A login that is held back so is not tried if the client has closed its side: others from there wait for it. True if that is so.
    pub(super) fn gives_up_login(&mut self, now_ms: u64) -> bool {
        let gives_up = self.is_slowed && self.hung_up;
        self.is_slowed &= self.is_paused(now_ms);
        if gives_up {
            self.input = Vec::new();
            self.deaf = true;
        }
        gives_up
    }

    /// It is to be flushed. False if that was so before.
    pub(super) fn mark_dirty(&mut self) -> bool {
        !std::mem::replace(&mut self.dirty, true)
    }

    /// It is in no list of connections to flush any more.
    pub(super) fn mark_clean(&mut self) {
        self.dirty = false;
    }

    /// Whether nothing is to be done for it now: what its requests have come to is not known yet, as a rule. It is in no list
    /// of connections to flush any more then.
    pub(super) fn is_settled(&mut self) -> bool {
        let is_over = self.deaf || self.hung_up || self.broken || self.session.closing();
        let is_settled = !is_over && self.counted == 0 && self.output.is_clean() && self.long_replies.is_empty();
        self.dirty &= !is_settled;
        is_settled
    }

    /// Whether it is in the list of connections to flush.
    pub(super) fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// A request waits for those before it, or for room.
    pub(super) fn stall(&mut self) {
        self.stalled = true;
    }

    /// The request is looked at again. Answers whether one has waited.
    pub(super) fn unstall(&mut self) -> bool {
        std::mem::take(&mut self.stalled)
    }

    /// Whether a request waits.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// A write is to be submitted once the rows that it will find are in memory, and behind the writes before it.
    pub(super) fn keep_write(&mut self, ready: bool, submission: Submission) {
        if self.pending_writes.capacity() == 0 {
            self.pending_writes.reserve_exact(1);
        }
        self.pending_writes.push_back(PendingWrite { ready, submission });
    }

    /// Whether writes are not submitted yet.
    pub(super) fn has_pending_writes(&self) -> bool {
        !self.pending_writes.is_empty()
    }

    /// The rows that a write will find are in memory.
    pub(super) fn write_is_ready(&mut self, sequence: u64) {
        let of_sequence = |pending: &&mut PendingWrite| pending.submission.ticket.sequence == sequence;
        if let Some(pending) = self.pending_writes.iter_mut().find(of_sequence) {
            pending.ready = true;
        }
    }

    /// Takes out the next write, if it can be submitted.
    pub(super) fn take_ready_write(&mut self) -> Option<Submission> {
        self.pending_writes.pop_front_if(|pending| pending.ready).map(|pending| pending.submission)
    }

    /// Takes out the writes that were not submitted.
    pub(super) fn take_pending_writes(&mut self) -> impl Iterator<Item = Write> {
        self.pending_writes.drain(..).map(|pending| pending.submission.write)
    }

    /// A blocking command is under way, in the words that its user was allowed.
    pub(super) fn begin_blocking(&mut self, ticket: Ticket, command: EncodedCommand) {
        self.blocking = Some(BlockingRequest::new(ticket, command));
    }

    /// It waits from now on in its blocking command, if that is this request: whether its user has lost the right to it meanwhile. Of
    /// very many that wait, none is to keep the room of a write.
    pub(super) fn begin_wait(&mut self, sequence: u64) -> Option<bool> {
        let blocking = self.blocking.as_ref().filter(|blocking| blocking.ticket().sequence == sequence)?;
        self.pending_writes.shrink_to_fit();
        Some(blocking.is_refused())
    }

    /// A tick of the loop: frees the room that it does not use, if it has waited in its blocking command for longer than from one tick
    /// to the next. Who waits often and shortly keeps it. Answers whether there was any.
    pub(super) fn give_room_back(&mut self) -> bool {
        let Some(blocking) = &mut self.blocking else { return false };
        if !blocking.gives_room_back() {
            return false;
        }
        let before = self.room();
        self.queue.give_room_back();
        self.output.give_room_back();
        self.input.shrink_to_fit();
        self.room() < before
    }

    /// Bytes and requests for which it has room: it shrinks where room is given back.
    pub(super) fn room(&self) -> usize {
        let requests = self.queue.capacity() + self.pending_writes.capacity();
        self.input.capacity() + self.output.capacity() + requests
    }

    /// The blocking command under way.
    pub(super) fn blocking(&self) -> Option<&BlockingRequest> {
        self.blocking.as_ref()
    }

    /// The same, to be changed.
    pub(super) fn blocking_mut(&mut self) -> Option<&mut BlockingRequest> {
        self.blocking.as_mut()
    }

    /// The blocking command under way goes on as another one.
    pub(super) fn go_on_blocking(&mut self, blocking: BlockingRequest) {
        self.blocking = Some(blocking);
    }

    /// A request is over: whether it was the blocking command under way.
    pub(super) fn end_blocking(&mut self, sequence: u64) -> bool {
        self.blocking.take_if(|blocking| blocking.ticket().sequence == sequence).is_some()
    }

    /// Users have changed. Answers whether the blocking command under way is to end: its user has lost the right to it.
    pub(super) fn users_changed(&mut self, store: &NodeShared) -> bool {
        self.session.users_changed(store);
        let Some(blocking) = self.blocking.as_mut().filter(|_| !self.session.closing()) else { return false };
        blocking.loses_right(&self.session, store)
    }

    /// A WATCH looks its keys up, or has done so.
    pub(super) fn look_up_watched(&mut self, is_under_way: bool) {
        self.looks_up_watched = is_under_way;
    }

    /// The store is asked for the script of the next request.
    pub(super) fn begin_learning(&mut self) {
        self.learning = Learning::UnderWay;
    }

    /// The script is known now, or cannot be had for that reason.
    pub(super) fn learned(&mut self, failed: Option<String>) {
        self.learning = failed.map_or(Learning::None, Learning::Failed);
    }

    /// Why the script of the next request cannot be had, if that is known.
    pub(super) fn take_learning_failure(&mut self) -> Option<String> {
        match std::mem::take(&mut self.learning) {
            Learning::Failed(text) => Some(text),
            Learning::None | Learning::UnderWay => None,
        }
    }

    /// The send thread gets a handle of the stream. False if it has one.
    pub(super) fn lend_stream(&mut self) -> bool {
        !std::mem::replace(&mut self.is_lent, true)
    }

    /// Whether the send thread has a handle of the stream.
    pub(super) fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// Answers were handed to the send thread in that round.
    pub(super) fn sent_in_round(&mut self, round: u64) {
        self.sent_aside = round;
    }

    /// The last round in which the send thread was handed answers of this connection.
    pub(super) fn last_round(&self) -> u64 {
        self.sent_aside
    }

    /// It has had its turn, and goes on later. False if that was so before.
    pub(super) fn put_off(&mut self) -> bool {
        !std::mem::replace(&mut self.goes_on_later, true)
    }

    /// It has its next turn.
    pub(super) fn has_turn(&mut self) {
        self.goes_on_later = false;
    }

    /// Whether it has had its turn.
    pub(super) fn is_put_off(&self) -> bool {
        self.goes_on_later
    }

    /// The next request is not looked at before that time; 0: it is.
    pub(super) fn pause_until(&mut self, until_ms: u64) {
        self.paused_until_ms = until_ms;
    }

    /// Whether the next request is not looked at now.
    pub(super) fn is_paused(&self, now_ms: u64) -> bool {
        self.paused_until_ms > now_ms
    }

    /// The next request waits for its shard's leader, if it did not before: it came at that time.
    pub(super) fn wait_since(&mut self, arrived_us: u64) {
        if self.waits_since_us == 0 {
            self.waits_since_us = arrived_us;
        }
    }

    /// It waits no longer.
    pub(super) fn end_wait(&mut self) {
        self.waits_since_us = 0;
    }

    /// When the next request came, if it waits for its shard's leader.
    pub(super) fn waiting_since_us(&self) -> Option<u64> {
        Some(self.waits_since_us).filter(|since_us| *since_us > 0)
    }

    /// The blocking command under way, if its client is gone or to be closed: it is taken out, and not answered.
    pub(super) fn take_abandoned(&mut self) -> Option<Ticket> {
        let is_over = self.deaf || self.hung_up || self.broken || self.session.closing();
        let ticket = self.blocking.take_if(|_| is_over)?.ticket();
        self.deaf = true;
        self.answer(ticket.sequence, Cow::Borrowed(b""));
        Some(ticket)
    }

    /// Whether everything is done and the connection is to be closed.
    pub(super) fn is_over(&self) -> bool {
        (self.deaf || self.session.closing()) && self.queue.is_empty() && self.unsent() == 0
    }
}
