//! A connection to another node that one client's requests are sent over, because that node leads the shard of the client's
//! database. Bytes in, bytes out: its owner calls the node and looks at the socket.
//!
//! Invariant: each request that is written has its answers in `awaited`, in the order of the requests.

use super::forwarded::{Deed, Forwarded, MONITOR_PUSH};
use super::outgoing::{Outgoing, Socket};
use crate::net::{Received, Stream};
use node::Ticket;
use node::session::Durability;
use node::tracking::{TrackingElsewhere, TrackingOptions};
use resp::{FrameState, Proto, Value, decode, encode_request, frame_len};
use std::collections::VecDeque;
use std::sync::Arc;
use vocab::NodeId;
use vocab::limits::{READ_BUFFER_BYTES, STREAM_STEP_BYTES_SOFT};

/// Buffers that are read from a connection before others have their turn, where no answer or part of one comes of them.
const READS_MAX: usize = 4;

/// What an answer, or some of them, are to.
enum Asked {
    /// A request of a client.
    Request(Forwarded),
    /// As which client the node knows the connection.
    Id,
    /// That it tells of changes from there on; of all keys with a client's prefixes, or of those that it reads.
    Tracking { is_broadcast: bool },
    /// So many requests for whose answers nothing waits.
    Aside(usize),
}

/// Answers that are to come.
struct Awaited {
    /// What is answered.
    asked: Asked,
    /// How many bytes had been written before the request.
    from: u64,
    /// A part of the answer has been passed on.
    is_partly: bool,
}

/// What a connection has been told of how to answer.
#[derive(Clone, PartialEq)]
struct Manner {
    proto: Proto,
    durability: Durability,
    script_user: Option<Arc<str>>,
    /// It tells what the client's scripts run.
    shows_calls: bool,
}

/// What came out of a connection to another node.
pub(super) enum Answer {
    /// The answer to a request, or what was left of it.
    Reply(Forwarded, Vec<u8>),
    /// A part of a long answer to a request, of which there is more to come.
    Part(Ticket, Vec<u8>),
    /// Keys that the client is to forget; none: all.
    Told(Option<Vec<Vec<u8>>>),
    /// What monitors are shown of a command that the client's script has run.
    Shown(Vec<u8>),
    /// The node tells the client of all keys with its prefixes from here on: what was before may have been missed.
    Listens,
    /// The node cannot tell of all keys with the client's prefixes.
    CannotListen,
    /// There may be more to be read, once others have had their turn.
    Later,
    /// The connection is over.
    Broken,
}

/// A request that will not be answered any more.
pub(super) struct Unanswered {
    pub(super) request: Forwarded,
    /// No byte of it has been sent.
    pub(super) is_unsent: bool,
    /// The client has a part of its answer.
    pub(super) is_partly: bool,
}

/// A connection to another node.
pub(super) struct Upstream {
    pub(super) node: NodeId,
    /// Where the event loop finds it.
    pub(super) place: usize,
    /// None while the node is called.
    stream: Option<Stream>,
    output: Outgoing,
    input: Vec<u8>,
    /// Bytes of `input` that were taken.
    taken: usize,
    frame: FrameState,
    writable: bool,
    readable: bool,
    broken: bool,
    awaited: VecDeque<Awaited>,
    /// Of `awaited`, those that a client waits for.
    requests: usize,
    /// Their bytes.
    request_bytes: usize,
    /// It was sent what it may note for WAIT: a write, or a transaction.
    has_written: bool,
    told: Manner,
    /// What the node was told that its client is to be told of.
    tracking: Option<Arc<TrackingOptions>>,
    /// Whether the node tells of changes, as far as that is known; none: it was not asked.
    tells: Option<bool>,
    /// As which client the node knows the connection, once that is asked and answered.
    id: Option<u64>,
    asks_id: bool,
}

impl Upstream {
    /// A connection to a node that is being called. Without being told it answers in RESP2, and promises `durability`.
    pub(super) fn new(node: NodeId, place: usize, durability: Durability) -> Self {
        Self {
            node,
            place,
            stream: None,
            output: Outgoing::default(),
            input: Vec::new(),
            taken: 0,
            frame: FrameState::default(),
            writable: true,
            readable: false,
            broken: false,
            awaited: VecDeque::new(),
            requests: 0,
            request_bytes: 0,
            has_written: false,
            told: Manner { proto: Proto::Resp2, durability, script_user: None, shows_calls: false },
            tracking: None,
            tells: None,
            id: None,
            asks_id: false,
        }
    }

    /// The node has been called.
    pub(super) fn connected(&mut self, stream: Stream) {
        self.stream = Some(stream);
        self.readable = true;
    }

    pub(super) fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }

    /// Whether requests under way there are to be answered.
    pub(super) fn is_busy(&self) -> bool {
        self.requests > 0
    }

    /// Whether the node may have noted something that was written over it.
    pub(super) fn has_written(&self) -> bool {
        self.has_written
    }

    /// Whether WATCH is one of them.
    pub(super) fn begins_to_watch(&self) -> bool {
        let is_one = |asked: &Asked| matches!(asked, Asked::Request(request) if request.deed == Deed::Watch);
        self.is_busy() && self.awaited.iter().any(|awaited| is_one(&awaited.asked))
    }

    /// Bytes of the requests that are to be answered.
    pub(super) fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// Sends a request with the next flush.
    pub(super) fn send(&mut self, request: Forwarded) {
        let (script_user, shows_calls) = (request.script_user.clone(), request.shows_calls);
        let manner = Manner { proto: request.ticket.proto, durability: request.durability(), script_user, shows_calls };
        if manner.proto != self.told.proto {
            let version: &[u8] = if manner.proto == Proto::Resp3 { b"3" } else { b"2" };
            self.send_aside(&[b"HELLO", version]);
        }
        if manner.durability != self.told.durability {
            let (sync, acks) = (manner.durability.sync_word(), manner.durability.acks.word());
            self.send_aside(&[b"KV.DURABILITY", sync.as_bytes(), acks.as_bytes()]);
        }
        if manner.script_user != self.told.script_user {
            let name = manner.script_user.as_deref().unwrap_or_default();
            self.send_aside(&[b"KV.SCRIPTUSER", name.as_bytes()]);
        }
        if manner.shows_calls != self.told.shows_calls {
            let word: &[u8] = if manner.shows_calls { b"ON" } else { b"OFF" };
            self.send_aside(&[b"KV.MONITOR", word]);
        }
        self.told = manner;
        self.track(request.tracking.as_ref());
        if let Some(caching) = request.tracking.as_ref().and_then(TrackingElsewhere::caching) {
            self.send_aside(&caching);
        }
        self.has_written |= request.is_write() || request.answers > 1;
        let from = self.output.written();
        self.output.add(&request.bytes);
        self.request_bytes += request.bytes.len();
        if request.answers > 1 {
            self.awaited.push_back(Awaited { asked: Asked::Aside(request.answers - 1), from, is_partly: false });
        }
        self.awaited.push_back(Awaited { asked: Asked::Request(request), from, is_partly: false });
        self.requests += 1;
    }

    /// Sends a request for whose answer nothing waits.
    pub(super) fn send_aside(&mut self, args: &[&[u8]]) {
        self.ask(args, Asked::Aside(1));
    }

    /// Has the node tell of what a client is to be told of, from the next flush on. Answers whether there is something to flush.
    pub(super) fn track(&mut self, wanted: Option<&TrackingElsewhere>) -> bool {
        let wanted = wanted.map(|tracking| &tracking.options);
        let is_so = match (&self.tracking, wanted) {
            (None, None) => true,
            (Some(told), Some(wanted)) => Arc::ptr_eq(told, wanted) || told == wanted,
            _ => false,
        };
        if is_so {
            return false;
        }
        for request in TrackingElsewhere::requests(self.tracking.as_deref(), wanted.map(|options| &**options)) {
            let is_broadcast = wanted.is_some_and(|options| options.is_broadcast);
            self.ask(&request, Asked::Tracking { is_broadcast });
        }
        self.tracking = wanted.cloned();
        true
    }

    /// Whether the client has been told that it hears of changes of what it has read here.
    pub(super) fn has_tracked(&self) -> bool {
        self.tells == Some(true)
    }

    /// Whether the node does not tell of changes, though it was asked to: it is older than this one.
    pub(super) fn is_untold(&self) -> bool {
        self.tells == Some(false)
    }

    /// Asks as which client the node knows the connection, if it has not been asked.
    pub(super) fn ask_id(&mut self) {
        if !std::mem::replace(&mut self.asks_id, true) {
            self.ask(&[b"CLIENT", b"ID"], Asked::Id);
        }
    }

    /// As which client the node knows the connection, as far as that is known.
    pub(super) fn id(&self) -> Option<u64> {
        self.id
    }

    fn ask(&mut self, args: &[&[u8]], asked: Asked) {
        let from = self.output.written();
        self.output.write(|output| encode_request(output, args));
        self.awaited.push_back(Awaited { asked, from, is_partly: false });
    }

    /// Sends what the socket takes, up to what a turn has for one client. Answers whether there is more that it takes.
    pub(super) fn flush(&mut self) -> bool {
        let Some(stream) = self.stream.as_ref().filter(|_| self.writable && !self.broken) else { return false };
        let socket = self.output.flush(stream);
        self.writable = socket != Socket::Full;
        self.broken = socket == Socket::Broken;
        socket == Socket::TakesMore
    }

    /// Whether the socket is known to be broken.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// The event loop has noticed something.
    pub(super) fn notice(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        self.writable |= writable;
    }

    /// The next answer, or a part of it, if one is there. `buffer` is used to read.
    pub(super) fn next(&mut self, buffer: &mut [u8]) -> Option<Answer> {
        let mut reads = 0;
        loop {
            if let Some(told) = self.next_told() {
                return Some(told);
            }
            match frame_len(&self.input[self.taken..], &mut self.frame) {
                Ok(Some(length)) => {
                    let start = self.taken;
                    self.taken += length;
                    if let Some(Awaited { asked: Asked::Aside(left @ 2..), .. }) = self.awaited.front_mut() {
                        *left -= 1;
                        continue;
                    }
                    let Some(awaited) = self.awaited.pop_front() else { return Some(Answer::Broken) };
                    let reply = &self.input[start..self.taken];
                    match awaited.asked {
                        Asked::Request(request) => {
                            self.requests -= 1;
                            self.request_bytes -= request.bytes.len();
                            if start > 0 || self.taken < self.input.len() || self.taken <= READ_BUFFER_BYTES {
                                return Some(Answer::Reply(request, reply.to_vec()));
                            }
                            // A long one that is all there is need not be copied.
                            self.taken = 0;
                            return Some(Answer::Reply(request, std::mem::take(&mut self.input)));
                        }
                        Asked::Id => {
                            let number = reply.strip_prefix(b":").and_then(|rest| std::str::from_utf8(rest).ok());
                            self.id = number.and_then(|number| number.trim_end().parse().ok());
                        }
                        Asked::Tracking { is_broadcast } => {
                            let tells = reply.starts_with(b"+");
                            self.tells = Some(tells);
                            if is_broadcast {
                                return Some(if tells { Answer::Listens } else { Answer::CannotListen });
                            }
                        }
                        Asked::Aside(_) => {}
                    }
                    continue;
                }
                Ok(None) => {
                    if let Some((ticket, part)) = self.next_part() {
                        return Some(Answer::Part(ticket, part));
                    }
                }
                Err(_) => return Some(Answer::Broken),
            }
            self.tidy();
            if self.broken {
                return Some(Answer::Broken);
            }
            if !self.readable {
                return None;
            }
            if reads == READS_MAX {
                return Some(Answer::Later);
            }
            (reads, self.readable) = (reads + 1, false);
            match self.stream.as_ref()?.receive(buffer) {
                Received::Closed => self.broken = true,
                Received::Drained(n) => {
                    // The end may have come with the bytes, in one event: it is read then, too.
                    self.readable = n > 0;
                    self.input.extend_from_slice(&buffer[..n]);
                }
                Received::More(n) => {
                    self.readable = true;
                    self.input.extend_from_slice(&buffer[..n]);
                }
            }
        }
    }

    /// Whether what comes next is told, and is no answer.
    fn is_told_next(&self) -> bool {
        !self.is_within_answer() && self.input.get(self.taken) == Some(&b'>')
    }

    /// What the node tells, if that comes next, and whole.
    fn next_told(&mut self) -> Option<Answer> {
        if !self.is_told_next() {
            return None;
        }
        match frame_len(&self.input[self.taken..], &mut self.frame) {
            Ok(None) => None,
            Ok(Some(length)) => {
                let start = self.taken;
                self.taken += length;
                Some(told(&self.input[start..self.taken]).unwrap_or(Answer::Broken))
            }
            Err(_) => Some(Answer::Broken),
        }
    }

    /// What is there of an answer that is long and incomplete: it need not be held until the rest is there.
    fn next_part(&mut self) -> Option<(Ticket, Vec<u8>)> {
        if self.input.len() - self.taken < STREAM_STEP_BYTES_SOFT || self.is_told_next() {
            return None;
        }
        let awaited = self.awaited.front_mut()?;
        let Asked::Request(request) = &awaited.asked else { return None };
        if !request.is_passed_on {
            return None;
        }
        let ticket = request.ticket;
        let start = self.taken;
        self.taken += self.frame.pass_over_bulk(&self.input[start..]);
        if self.taken == start {
            return None;
        }
        awaited.is_partly = true;
        if start == 0 && self.taken == self.input.len() {
            // It is all that is there, and need not be copied.
            self.taken = 0;
            let next = Vec::with_capacity(STREAM_STEP_BYTES_SOFT + 2 * READ_BUFFER_BYTES);
            return Some((ticket, std::mem::replace(&mut self.input, next)));
        }
        Some((ticket, self.input[start..self.taken].to_vec()))
    }

    /// Whether a part of the next answer has been passed on.
    pub(super) fn is_within_answer(&self) -> bool {
        self.awaited.front().is_some_and(|awaited| awaited.is_partly)
    }

    /// A long answer leaves no large buffer behind.
    fn tidy(&mut self) {
        self.input.drain(..self.taken);
        self.taken = 0;
        if self.input.is_empty() && self.input.capacity() > 4 * READ_BUFFER_BYTES {
            self.input = Vec::new();
        }
    }

    /// Whether a request of its client waits for its answer that came behind the one of that number.
    pub(super) fn is_behind(&self, sequence: u64) -> bool {
        let requests = self.awaited.iter().rev().filter_map(|awaited| match &awaited.asked {
            Asked::Request(request) => Some(request.ticket.sequence),
            Asked::Id | Asked::Tracking { .. } | Asked::Aside(_) => None,
        });
        // They are sent in their order, but for those that are sent again, which wait for the later ones.
        requests.take(1).any(|last| last > sequence)
    }

    /// The connection is over: the requests that it has not answered, oldest first.
    pub(super) fn into_unanswered(self) -> Vec<Unanswered> {
        let may_be_there = self.output.may_be_there();
        let unanswered = |awaited: Awaited| {
            let (is_unsent, is_partly) = (awaited.from >= may_be_there, awaited.is_partly);
            match awaited.asked {
                Asked::Request(request) => Some(Unanswered { request, is_unsent, is_partly }),
                Asked::Id | Asked::Tracking { .. } | Asked::Aside(_) => None,
            }
        };
        self.awaited.into_iter().filter_map(unanswered).collect()
    }
}

/// What a push tells: an invalidation, or a command of a script. `None` if it is neither.
fn told(push: &[u8]) -> Option<Answer> {
    let (Value::Push(elements), _) = decode(push).ok()?? else { return None };
    match &elements[..] {
        [kind, Value::Null] if kind.as_bytes() == Some(b"invalidate") => Some(Answer::Told(None)),
        [kind, Value::Array(keys)] if kind.as_bytes() == Some(b"invalidate") => {
            let keys = keys.iter().map(|key| key.as_bytes().map(<[u8]>::to_vec)).collect::<Option<Vec<_>>>()?;
            Some(Answer::Told(Some(keys)))
        }
        [kind, line] if kind.as_bytes() == Some(MONITOR_PUSH) => Some(Answer::Shown(line.as_bytes()?.to_vec())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::clients::forwarded::Deed;
    use node::Ticket;
    use node::session::Acks;
    use node::tracking::{Registers, TrackingMode};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use vocab::Slot;

    const DURABLE: Durability = Durability { sync: true, acks: Acks::Majority };

    fn request(sequence: u64, words: &str, answers: usize) -> Forwarded {
        let ticket = Ticket {
            worker: 0,
            connection: 0,
            generation: 0,
            sequence,
            proto: Proto::Resp2,
            slot: Slot(0),
            wider: None,
            sync: true,
            acks: Acks::Majority,
            reply_bytes: 0,
            may_wait: false,
            registers: Registers::Nothing,
            early: None,
        };
        let mut bytes = Vec::new();
        encode_request(&mut bytes, &words.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        Forwarded {
            ticket,
            bytes: bytes.into(),
            script_user: None,
            answers,
            is_passed_on: answers == 1,
            deed: Deed::Read,
            shows_calls: false,
            tracking: None,
            until_us: 0,
            sent_us: 0,
        }
    }

    /// A connection to a node, and the node's end.
    fn connected() -> (Upstream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mine = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        mine.set_nonblocking(true).unwrap();
        let mut upstream = Upstream::new(NodeId(2), 0, DURABLE);
        upstream.connected(Stream::plain(mine));
        (upstream, listener.accept().unwrap().0)
    }

    /// The next answer, once the node has sent it.
    fn next(upstream: &mut Upstream) -> String {
        loop {
            upstream.notice(true, false);
            match upstream.next(&mut [0; 64]) {
                None | Some(Answer::Later) => std::thread::yield_now(),
                Some(Answer::Part(ticket, part)) => return format!("{} … {}", ticket.sequence, part.len()),
                Some(Answer::Broken) => return "broken".to_owned(),
                Some(Answer::Listens) => return "listens".to_owned(),
                Some(Answer::CannotListen) => return "cannot listen".to_owned(),
                Some(Answer::Told(None)) => return "forget all".to_owned(),
                Some(Answer::Shown(line)) => return format!("shown {}", String::from_utf8(line).unwrap()),
                Some(Answer::Told(Some(keys))) => {
                    let keys: Vec<_> = keys.into_iter().map(|key| String::from_utf8(key).unwrap()).collect();
                    return format!("forget {}", keys.join(" "));
                }
                Some(Answer::Reply(request, reply)) => {
                    return format!("{} {}", request.ticket.sequence, String::from_utf8(reply).unwrap().trim_end());
                }
            }
        }
    }

    #[test]
    fn only_a_wait_is_given_the_time_back_in_which_it_was_under_way() {
        for (may_wait, until_us) in [(false, 10), (true, 15)] {
            let asked = request(1, "BLPOP a 0", 1);
            let ticket = Ticket { may_wait, ..asked.ticket };
            let again = Forwarded { ticket, until_us: 10, sent_us: 2, ..asked }.back(7);
            assert_eq!((again.until_us, again.sent_us), (until_us, 7));
        }
    }

    #[test]
    fn answers_go_to_the_requests_in_their_order() {
        let (mut upstream, mut node) = connected();
        upstream.send(request(1, "GET a", 1));
        upstream.send_aside(&[b"UNWATCH"]);
        upstream.send(request(2, "EXEC", 3));
        upstream.send(Forwarded {
            ticket: Ticket { proto: Proto::Resp3, ..request(3, "", 1).ticket },
            ..request(3, "GET b", 1)
        });
        upstream.flush();
        assert!(upstream.is_busy());
        let expected = "*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$7\r\nUNWATCH\r\n*1\r\n$4\r\nEXEC\r\n*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\n";
        let mut got = vec![0; expected.len()];
        node.read_exact(&mut got).unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), expected);
        node.write_all(b"$1\r\nx\r\n+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n:7\r\n%0\r\n").unwrap();
        assert_eq!([next(&mut upstream), next(&mut upstream)], ["1 $1\r\nx", "2 *1\r\n:7"]);
        node.write_all(b"_\r").unwrap();
        node.write_all(b"\n").unwrap();
        assert_eq!(next(&mut upstream), "3 _");
        assert!(!upstream.is_busy());
        drop(node);
        assert_eq!(next(&mut upstream), "broken");
        assert!(upstream.into_unanswered().is_empty());
    }

    /// What a node tells stands between answers, in either protocol of these.
    #[test]
    fn what_is_told_is_told_from_answers() {
        let (mut upstream, mut node) = connected();
        let tracking =
            |options: &TrackingOptions| Some(TrackingMode::begin(None, options.clone()).unwrap().elsewhere());
        let plain = TrackingOptions::default();
        let ask = |sequence, options: &TrackingOptions| Forwarded {
            tracking: tracking(options),
            ..request(sequence, "GET a", 1)
        };
        assert!(!upstream.has_tracked() && !upstream.is_untold());
        upstream.send(ask(1, &plain));
        upstream.send(ask(2, &plain));
        upstream.flush();
        let expected =
            "*2\r\n$11\r\nKV.TRACKING\r\n$2\r\nON\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
        let mut got = vec![0; expected.len()];
        node.read_exact(&mut got).unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), expected, "it is told once");
        node.write_all(b"+OK\r\n$1\r\n>\r\n>2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n").unwrap();
        assert_eq!([next(&mut upstream), next(&mut upstream)], ["1 $1\r\n>", "forget a b"]);
        node.write_all(b">2\r\n$10\r\ninvalidate\r\n_\r\n$1\r\ny\r\n").unwrap();
        assert_eq!([next(&mut upstream), next(&mut upstream)], ["forget all", "2 $1\r\ny"]);
        assert!(upstream.has_tracked());
        let all = TrackingOptions { is_broadcast: true, ..plain };
        assert!(upstream.track(tracking(&all).as_ref()) && !upstream.track(tracking(&all).as_ref()));
        // Long, so that it is not all there at first: no part of an answer.
        let key = "k".repeat(2 * STREAM_STEP_BYTES_SOFT);
        node.write_all(format!("+OK\r\n+OK\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n", key.len()).as_bytes())
            .unwrap();
        assert_eq!([next(&mut upstream), next(&mut upstream)], ["listens", "listens"], "it has ended, and begun anew");
        upstream.send(ask(3, &all));
        let writer = std::thread::spawn(move || {
            node.write_all(format!("{key}\r\n:3\r\n-ERR unknown command\r\n").as_bytes()).unwrap();
            node
        });
        assert!(next(&mut upstream).len() > STREAM_STEP_BYTES_SOFT);
        assert_eq!(next(&mut upstream), "3 :3");
        // A node that is older than this one does not know how.
        upstream.track(None);
        upstream.notice(true, false);
        while upstream.next(&mut [0; 64]).is_some() || !upstream.is_untold() {
            upstream.notice(true, false);
        }
        let mut node = writer.join().unwrap();
        node.write_all(b"*0\r\n").unwrap();
        assert_eq!(next(&mut upstream), "broken", "nothing was asked");
        drop(node);
    }

    #[test]
    fn an_answer_behind_those_that_nothing_waits_for_is_found_at_once() {
        let (mut upstream, mut node) = connected();
        upstream.send(request(1, "EXEC", 3));
        upstream.flush();
        node.write_all(b"+OK\r\n+QUEUED\r\n*0\r\n").unwrap();
        while !upstream.stream().unwrap().has_input().unwrap() {
            std::thread::yield_now();
        }
        upstream.notice(true, false);
        assert!(matches!(upstream.next(&mut [0; 64]), Some(Answer::Reply(_, reply)) if reply == b"*0\r\n"));
    }

    /// The event loop is told once of bytes and of the end behind them.
    #[test]
    fn an_end_that_comes_with_an_answer_is_noticed() {
        let (mut upstream, mut node) = connected();
        (1..=2).for_each(|sequence| upstream.send(request(sequence, "GET a", 1)));
        upstream.flush();
        // It takes the requests: else its end would break the connection off, and the answer would be lost.
        let mut requests = vec![0; 2 * "*2\r\n$3\r\nGET\r\n$1\r\na\r\n".len()];
        node.read_exact(&mut requests).unwrap();
        node.write_all(b"$-1\r\n").unwrap();
        drop(node);
        let (mut poll, mut events) = (mio::Poll::new().unwrap(), mio::Events::with_capacity(1));
        let stream = upstream.stream().unwrap();
        stream.register(poll.registry(), mio::Token(0), mio::Interest::READABLE).unwrap();
        while !events.iter().any(mio::event::Event::is_read_closed) {
            poll.poll(&mut events, None).unwrap();
        }
        upstream.notice(true, false);
        let mut buffer = [0; 64];
        let first = upstream.next(&mut buffer);
        assert!(
            matches!(first, Some(Answer::Reply(request, reply)) if request.ticket.sequence == 1 && reply == b"$-1\r\n")
        );
        assert!(matches!(upstream.next(&mut buffer), Some(Answer::Broken)));
    }

    /// A collection that is longer than a node should hold comes in parts, and what is left of it at the end.
    #[test]
    fn long_answers_are_passed_on_as_they_come() {
        let (mut upstream, mut node) = connected();
        upstream.send(request(1, "HGETALL h", 1));
        upstream.send(request(2, "GET a", 1));
        upstream.flush();
        let element = format!("$1000\r\n{}\r\n", "v".repeat(1000));
        let answer = format!("*1000\r\n{}$1\r\nx\r\n", element.repeat(1000));
        let length = answer.len() - 7;
        let writer = std::thread::spawn(move || {
            node.write_all(answer.as_bytes()).unwrap();
            node
        });
        let (mut parts, mut bytes) = (0, 0);
        let rest = loop {
            let shown = next(&mut upstream);
            match shown.strip_prefix("1 … ") {
                Some(part) => bytes += part.parse::<usize>().unwrap(),
                None => break shown,
            }
            parts += 1;
            assert!(upstream.input.len() < 4 * STREAM_STEP_BYTES_SOFT);
        };
        let rest = rest.strip_prefix("1 ").unwrap().len() + "\r\n".len();
        assert!(parts > 2 && bytes + rest == length, "{parts} parts of {bytes} bytes, and {rest}");
        assert_eq!(next(&mut upstream), "2 $1\r\nx");
        upstream.send(request(3, "HGETALL h", 1));
        upstream.flush();
        let mut node = writer.join().unwrap();
        // Else its end would break the connection off, and what was sent would be lost.
        let mut requests = Vec::new();
        while requests.windows(8).filter(|word| *word == b"HGETALL\r").count() < 2 {
            let mut read = [0; 1024];
            let count = node.read(&mut read).unwrap();
            requests.extend_from_slice(&read[..count]);
        }
        node.write_all(format!("*1000\r\n{}", element.repeat(500)).as_bytes()).unwrap();
        drop(node);
        while next(&mut upstream) != "broken" {}
        assert!(upstream.into_unanswered()[0].is_partly);
    }

    /// Nor is a long value held, or copied again and again as it grows.
    #[test]
    fn a_long_value_is_passed_on_as_it_comes() {
        let (mut upstream, mut node) = connected();
        upstream.send(request(1, "GET a", 1));
        upstream.send(request(2, "GET b", 1));
        upstream.flush();
        let answer = format!("${}\r\n{}\r\n$1\r\nx\r\n", 5 << 20, "v".repeat(5 << 20));
        let length = answer.len() - "$1\r\nx\r\n".len();
        let writer = std::thread::spawn(move || {
            node.write_all(answer.as_bytes()).unwrap();
            node
        });
        let (mut parts, mut bytes, mut buffer) = (0, 0, vec![0; READ_BUFFER_BYTES]);
        loop {
            upstream.notice(true, false);
            match upstream.next(&mut buffer) {
                Some(Answer::Part(_, part)) => (parts, bytes) = (parts + 1, bytes + part.len()),
                Some(Answer::Reply(request, rest)) => {
                    assert_eq!((request.ticket.sequence, bytes + rest.len()), (1, length));
                    break;
                }
                _ => std::thread::yield_now(),
            }
            assert!(upstream.input.len() < 4 * STREAM_STEP_BYTES_SOFT);
        }
        assert!(parts > 10, "{parts} parts");
        assert_eq!(next(&mut upstream), "2 $1\r\nx");
        drop(writer.join().unwrap());
    }

    /// Of a transaction the last answer is the client's: where nothing is to be done with it here, it is not held either.
    #[test]
    fn the_answer_of_a_transaction_is_passed_on_as_it_comes() {
        for is_passed_on in [false, true] {
            let (mut upstream, mut node) = connected();
            upstream.send(Forwarded { is_passed_on, ..request(1, "MULTI", 3) });
            upstream.flush();
            let element = format!("$40000\r\n{}\r\n", "v".repeat(40_000));
            let answer = format!("*50\r\n{}", element.repeat(50));
            let length = answer.len();
            let writer = std::thread::spawn(move || {
                node.write_all(format!("+OK\r\n+QUEUED\r\n{answer}").as_bytes()).unwrap();
                node
            });
            let (mut parts, mut bytes, mut buffer) = (0, 0, vec![0; READ_BUFFER_BYTES]);
            let rest = loop {
                upstream.notice(true, false);
                match upstream.next(&mut buffer) {
                    Some(Answer::Part(_, part)) => (parts, bytes) = (parts + 1, bytes + part.len()),
                    Some(Answer::Reply(_, rest)) => break rest.len(),
                    _ => std::thread::yield_now(),
                }
            };
            assert_eq!((bytes + rest, parts > 4), (length, is_passed_on), "{parts} parts");
            drop(writer.join().unwrap());
        }
    }

    #[test]
    fn what_a_script_runs_is_told_while_a_monitor_wants_it() {
        let (mut upstream, mut node) = connected();
        for (sequence, shows_calls, word) in [(1, true, "ON"), (2, true, ""), (3, false, "OFF")] {
            upstream.send(Forwarded { shows_calls, ..request(sequence, "GET a", 1) });
            upstream.flush();
            let mut expected = Vec::new();
            if !word.is_empty() {
                encode_request(&mut expected, &[b"KV.MONITOR", word.as_bytes()]);
                node.write_all(b"+OK\r\n").unwrap();
            }
            encode_request(&mut expected, &[b"GET", b"a"]);
            let mut sent = vec![0; expected.len()];
            node.read_exact(&mut sent).unwrap();
            assert_eq!(sent, expected, "{}", sent.escape_ascii());
            if shows_calls {
                node.write_all(b">2\r\n$7\r\nmonitor\r\n$2\r\n+x\r\n").unwrap();
                assert_eq!(next(&mut upstream), "shown +x");
            }
            node.write_all(b"$1\r\ny\r\n").unwrap();
            assert_eq!(next(&mut upstream), format!("{sequence} $1\r\ny"));
        }
    }

    #[test]
    fn what_was_not_sent_is_told_from_what_was() {
        let (mut upstream, node) = connected();
        upstream.send(request(1, "GET a", 1));
        upstream.flush();
        upstream.send(request(2, "GET b", 1));
        drop(node);
        assert_eq!(next(&mut upstream), "broken");
        let unanswered: Vec<(u64, bool)> =
            upstream.into_unanswered().iter().map(|left| (left.request.ticket.sequence, left.is_unsent)).collect();
        assert_eq!(unanswered, [(1, false), (2, true)]);
    }
}
