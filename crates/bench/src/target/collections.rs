//! Operations on records that are collections: their requests, and what must hold of their answers.

use client::Frame;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::outcome::Fault;
use super::replies::{elements, unexpected};
use super::transport::{About, ArgumentSink, Transport};
use crate::workload::{Collection, Fields, OpKind, Operation, Outstanding, Workload, element_number, write_element};

/// The group of every stream.
const GROUP: &[u8] = b"workers";
/// The field of a stream's entries.
const FIELD: &[u8] = b"e";
/// Posts of a feed that one read asks for.
const FEED_POSTS: u64 = 10;

/// What a lane knows of collections.
#[derive(Debug, Default)]
pub(super) struct CollectionState {
    /// The entry that the group has given to this lane.
    entry: Vec<u8>,
    /// The key and the number of the tag that this lane has added last.
    added: Option<(Vec<u8>, u64)>,
    /// The operation asks for that tag.
    asks_added: bool,
    /// Additions to the record that were acknowledged before the operation, which takes one, began.
    added_before: u64,
}

impl CollectionState {
    /// An operation begins: every other look at tags is one at what the lane has added.
    pub(super) fn begin(&mut self, collection: Collection, workload: &Workload, operation: &mut Operation) {
        self.asks_added = false;
        if is_take(collection, operation.kind)
            && let Some(outstanding) = workload.outstanding()
        {
            self.added_before = outstanding.take_begins(operation.number);
        }
        if collection == Collection::Tags
            && operation.kind == OpKind::Read
            && operation.tag % 2 == 1
            && let Some((key, _)) = &self.added
        {
            operation.key.clone_from(key);
            self.asks_added = true;
        }
    }

    /// The tag that the operation asks for: one that was added, or one of the load.
    fn tag_asked(&self, operation: &Operation) -> u64 {
        match &self.added {
            Some((_, tag)) if self.asks_added => *tag,
            _ => loaded(operation, field_of(operation)),
        }
    }
}

/// Whether an operation has a second request, which depends on the answer to the first.
pub(super) fn has_two_steps(collection: Collection, kind: OpKind) -> bool {
    collection == Collection::Stream && kind == OpKind::ReadModifyWrite
}

/// Whether an operation takes an element that was added.
fn is_take(collection: Collection, kind: OpKind) -> bool {
    kind == OpKind::ReadModifyWrite && matches!(collection, Collection::Queue | Collection::Stream)
}

/// Whether an operation changes what its record holds, and may not be made twice.
pub(super) fn changes(kind: OpKind) -> bool {
    matches!(kind, OpKind::Update | OpKind::ReadModifyWrite)
}

fn field_of(operation: &Operation) -> u32 {
    match operation.read {
        Fields::One(field) => field,
        Fields::All => 0,
    }
}

/// The number of an element that the load writes.
fn loaded(operation: &Operation, field: u32) -> u64 {
    xxh3_64_with_seed(&operation.key, u64::from(field))
}

/// What a lane asks.
#[derive(Clone, Copy)]
pub(super) struct CollectionAsked<'a> {
    pub(super) operation: &'a Operation,
    pub(super) state: &'a CollectionState,
    /// It is the operation's second request.
    pub(super) is_second: bool,
}

/// Sends the request of the lane's step.
pub(super) fn send<T: Transport>(
    transport: &mut T,
    about: About<'_>,
    (collection, workload): (Collection, &Workload),
    asked: CollectionAsked<'_>,
    scratch: &mut Vec<u8>,
) {
    let CollectionAsked { operation, state, is_second } = asked;
    let length = workload.config.field_length.constant().unwrap_or(0) as usize;
    let element = |number: u64, out: &mut Vec<u8>| {
        out.clear();
        write_element(number, length, out);
    };
    let mut ask = |words: &[&[u8]]| {
        let mut request = transport.request(About { arguments: words.len(), ..about });
        words.iter().for_each(|word| request.arg(word));
    };
    let key = operation.key.as_slice();
    let last = operation.scan_length.saturating_sub(1).to_string().into_bytes();
    let count = operation.scan_length.to_string().into_bytes();
    match (operation.kind, collection) {
        (OpKind::Delete, _) => ask(&[b"DEL", key]),
        (OpKind::Insert, Collection::Stream) => ask(&[b"XGROUP", b"CREATE", key, GROUP, b"0", b"MKSTREAM"]),
        (OpKind::Insert, _) => load(transport, about, (collection, workload), operation, scratch),
        (OpKind::ReadModifyWrite, Collection::Queue) => ask(&[b"RPOP", key]),
        (OpKind::ReadModifyWrite, Collection::Stream) if is_second => {
            ask(&[b"XACK", key, GROUP, &state.entry]);
        }
        (OpKind::ReadModifyWrite, Collection::Stream) => {
            ask(&[b"XREADGROUP", b"GROUP", GROUP, b"bench", b"COUNT", b"1", b"STREAMS", key, b">"]);
        }
        (OpKind::Update | OpKind::ReadModifyWrite, Collection::Leaderboard) => {
            element(loaded(operation, field_of(operation)), scratch);
            ask(&[b"ZINCRBY", key, b"1", scratch]);
        }
        (OpKind::Update | OpKind::ReadModifyWrite, _) => {
            element(workload.added_number(operation), scratch);
            match collection {
                Collection::Stream => ask(&[b"XADD", key, b"*", FIELD, scratch]),
                Collection::Tags => ask(&[b"SADD", key, scratch]),
                _ => ask(&[b"LPUSH", key, scratch]),
            }
        }
        (OpKind::Read, Collection::Queue) => ask(&[b"LRANGE", key, b"0", b"0"]),
        (OpKind::Read, Collection::Feed) => ask(&[b"LRANGE", key, b"0", (FEED_POSTS - 1).to_string().as_bytes()]),
        (OpKind::Read, Collection::Stream) => ask(&[b"XRANGE", key, b"-", b"+", b"COUNT", b"1"]),
        (OpKind::Read, Collection::Leaderboard) => {
            element(loaded(operation, field_of(operation)), scratch);
            ask(&[b"ZREVRANK", key, scratch]);
        }
        (OpKind::Read, Collection::Tags) => {
            element(state.tag_asked(operation), scratch);
            ask(&[b"SISMEMBER", key, scratch]);
        }
        (OpKind::Scan, Collection::Queue | Collection::Feed) => ask(&[b"LRANGE", key, b"0", &last]),
        (OpKind::Scan, Collection::Leaderboard) => ask(&[b"ZREVRANGE", key, b"0", &last, b"WITHSCORES"]),
        (OpKind::Scan, Collection::Tags) => ask(&[b"SRANDMEMBER", key, &count]),
        (OpKind::Scan, Collection::Stream) => ask(&[b"XRANGE", key, b"-", b"+", b"COUNT", &count]),
    }
}

/// Writes the elements that a record has after the load.
fn load<T: Transport>(
    transport: &mut T,
    about: About<'_>,
    (collection, workload): (Collection, &Workload),
    operation: &Operation,
    scratch: &mut Vec<u8>,
) {
    let fields = workload.config.field_count;
    let length = workload.config.field_length.constant().unwrap_or(0) as usize;
    let scores = collection == Collection::Leaderboard;
    let each = if scores { 2 } else { 1 };
    let mut request = transport.request(About { arguments: 2 + each * fields as usize, ..about });
    request.arg(match collection {
        Collection::Leaderboard => b"ZADD",
        Collection::Tags => b"SADD",
        _ => b"LPUSH",
    });
    request.arg(&operation.key);
    for field in 0..fields {
        if scores {
            request.number(0);
        }
        scratch.clear();
        write_element(loaded(operation, field), length, scratch);
        request.arg(scratch);
    }
}

/// How an answer is judged.
#[derive(Clone, Copy)]
pub(super) struct Judged {
    /// Whether it is compared with what must be there.
    pub(super) verifies: bool,
    /// Whether a replica gave it that may be behind; the leader is asked for what it does not have.
    pub(super) may_lag: bool,
}

/// What an answer has come to.
pub(super) enum Answered {
    /// The operation has ended.
    Whole(Result<(), Fault>),
    /// Its second request is to be made.
    Half,
}

/// Checks the answer to the lane's step.
pub(super) fn on_reply(
    reply: &Frame<'_>,
    (collection, workload): (Collection, &Workload),
    (operation, memory): (&Operation, &mut CollectionState),
    Judged { verifies, may_lag }: Judged,
) -> Answered {
    let length = workload.config.field_length.constant().unwrap_or(0) as usize;
    let is_element = |bytes: &[u8]| element_number(bytes, length).is_some();
    // Two acknowledged changes that answer the same number: one of them is lost.
    let once = |what: &[u8], number: u64| {
        let name = [&operation.key[..], b"\0", what].concat();
        !verifies || workload.is_first_update(&name, number)
    };
    let right = |is_right: bool| if is_right || !verifies { Ok(()) } else { Err(Fault::Wrong) };
    let all = |of: &Frame<'_>| -> Result<usize, Fault> {
        let mut count = 0;
        for element in elements(of)? {
            let Frame::Bulk(bytes) = element else { return Err(unexpected(of)) };
            right(is_element(bytes))?;
            count += 1;
        }
        Ok(count)
    };
    let result = match (operation.kind, collection, reply) {
        // The stream of an earlier attempt.
        (OpKind::Insert, Collection::Stream, Frame::Error(line)) if line.starts_with(b"BUSYGROUP") => Ok(()),
        (_, _, Frame::Error(_)) => Err(unexpected(reply)),
        (OpKind::Delete, _, Frame::Int(0)) => Err(Fault::NotFound),
        (OpKind::Delete | OpKind::Insert, _, Frame::Int(_) | Frame::Simple(_)) => Ok(()),
        (kind, _, Frame::Null) if is_take(collection, kind) => {
            let is_lost = |outstanding: &Outstanding| outstanding.has_lost(operation.number, memory.added_before);
            right(!workload.outstanding().is_some_and(is_lost))
        }
        (OpKind::ReadModifyWrite, Collection::Queue, Frame::Bulk(bytes)) => {
            right(element_number(bytes, length).is_some_and(|number| once(b"taken", number)))
        }
        (OpKind::ReadModifyWrite, Collection::Stream, Frame::Int(acknowledged)) => right(*acknowledged == 1),
        (OpKind::ReadModifyWrite, Collection::Stream, given) => match given_entry(given, is_element) {
            Ok(id) if once(b"given", xxh3_64_with_seed(id, 0)) => {
                memory.entry = id.to_vec();
                return Answered::Half;
            }
            Ok(_) => Err(Fault::Wrong),
            Err(fault) => Err(fault),
        },
        (OpKind::Update | OpKind::ReadModifyWrite, Collection::Leaderboard, score) => match number(score) {
            Some(score) => right(once(&field_of(operation).to_le_bytes(), score)),
            None => Err(unexpected(score)),
        },
        (OpKind::Update | OpKind::ReadModifyWrite, Collection::Feed, Frame::Int(length)) => {
            right(once(b"post", *length as u64))
        }
        (OpKind::Update | OpKind::ReadModifyWrite, Collection::Tags, Frame::Int(added)) => {
            memory.added = Some((operation.key.clone(), workload.added_number(operation)));
            right(*added == 1)
        }
        (OpKind::Update, _, Frame::Int(_) | Frame::Bulk(_)) => {
            workload.outstanding().into_iter().for_each(|outstanding| outstanding.added(operation.number));
            Ok(())
        }
        (OpKind::Read, Collection::Leaderboard, Frame::Int(_)) => Ok(()),
        (OpKind::Read, Collection::Leaderboard, Frame::Null) => Err(Fault::NotFound),
        (OpKind::Read, Collection::Tags, Frame::Int(0)) if memory.asks_added && !may_lag => right(false),
        (OpKind::Read, Collection::Tags, Frame::Int(0)) => Err(Fault::NotFound),
        (OpKind::Read, Collection::Tags, Frame::Int(_)) => Ok(()),
        (OpKind::Read | OpKind::Scan, Collection::Stream, _) => elements(reply).map(drop),
        (OpKind::Scan, Collection::Leaderboard, _) => descending(reply, is_element).and_then(right),
        (OpKind::Read | OpKind::Scan, Collection::Feed | Collection::Tags, _) => match all(reply) {
            Ok(0) => Err(Fault::NotFound),
            other => other.map(drop),
        },
        (OpKind::Read | OpKind::Scan, Collection::Queue, _) => all(reply).map(drop),
        _ => Err(unexpected(reply)),
    };
    Answered::Whole(result)
}

/// A score, which RESP2 answers as a string.
fn number(frame: &Frame<'_>) -> Option<u64> {
    match frame {
        Frame::Bulk(text) => {
            let score: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
            Some(score as u64)
        }
        Frame::Double(score) => Some(*score as u64),
        Frame::Int(score) => Some(*score as u64),
        _ => None,
    }
}

/// Whether members come with scores that do not rise.
fn descending(reply: &Frame<'_>, is_element: impl Fn(&[u8]) -> bool) -> Result<bool, Fault> {
    let mut cells = elements(reply)?;
    let mut last = u64::MAX;
    while let Some(cell) = cells.next() {
        let (member, score) = match &cell {
            // RESP3 answers pairs.
            Frame::Nested(..) => {
                let mut pair = elements(&cell)?;
                (pair.next(), pair.next())
            }
            _ => (Some(cell), cells.next()),
        };
        let (Some(Frame::Bulk(member)), Some(score)) = (member, score) else { return Err(unexpected(reply)) };
        let score = number(&score).ok_or_else(|| unexpected(reply))?;
        if !is_element(member) || score > last {
            return Ok(false);
        }
        last = score;
    }
    Ok(true)
}

/// The id of the entry in `[[key, [[id, [field, element]]]]]`.
fn given_entry<'a>(reply: &Frame<'a>, is_element: impl Fn(&[u8]) -> bool) -> Result<&'a [u8], Fault> {
    let first = |frame: &Frame<'a>| elements(frame)?.next().ok_or_else(|| unexpected(frame));
    let last = |frame: &Frame<'a>| elements(frame)?.last().ok_or_else(|| unexpected(frame));
    // RESP3 answers a map from the key to its entries.
    let of_key = last(reply)?;
    let entries = match elements(&of_key)?.next() {
        Some(Frame::Bulk(_)) => last(&of_key)?,
        _ => of_key,
    };
    let entry = first(&entries)?;
    let Frame::Bulk(id) = first(&entry)? else { return Err(unexpected(reply)) };
    match last(&last(&entry)?)? {
        Frame::Bulk(element) if is_element(element) => Ok(id),
        _ => Err(Fault::Wrong),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::workload::{Config, Properties, Task};

    const ELEMENT: &str = "$16\r\n00000000000000ab\r\n";
    const OTHER: &str = "$16\r\n00000000000000cd\r\n";

    /// What becomes of operations of that kind on one record that are answered so, in turn.
    fn verdicts(record: &str, kind: OpKind, answers: &[String]) -> Vec<Result<(), Fault>> {
        let mut properties = Properties::new();
        for (name, value) in [("recordcount", "10"), ("fieldlength", "16"), ("basalt.record", record)] {
            properties.set(name, value);
        }
        let workload = Workload::plan(Config::read(&properties).unwrap(), Task::Run).unwrap();
        let (_, collection) = Collection::NAMES.into_iter().find(|(name, _)| *name == record).unwrap();
        let operation = Operation { kind, key: b"user1".to_vec(), tag: 3, ..Operation::default() };
        let mut state = CollectionState::default();
        let mut verdict = |answer: &String| {
            let frame = Frame::read(answer.as_bytes(), &mut resp::FrameState::default()).unwrap().unwrap().0;
            let judged = Judged { verifies: true, may_lag: false };
            match on_reply(&frame, (collection, &workload), (&operation, &mut state), judged) {
                Answered::Whole(result) => result,
                Answered::Half => Ok(()),
            }
        };
        answers.iter().map(&mut verdict).collect()
    }

    fn given(id: &str, element: &str) -> String {
        format!("*1\r\n*2\r\n$5\r\nuser1\r\n*1\r\n*2\r\n$3\r\n{id}\r\n*2\r\n$1\r\ne\r\n{element}")
    }

    #[test]
    fn what_is_lost_and_what_comes_twice_is_wrong() {
        let wrong = || Err(Fault::Wrong);
        let text = |answers: &[&str]| answers.iter().map(|answer| (*answer).to_owned()).collect::<Vec<_>>();
        let queue = text(&[ELEMENT, "$-1\r\n", OTHER, ELEMENT, "$2\r\nxx\r\n"]);
        let take = OpKind::ReadModifyWrite;
        assert_eq!(verdicts("queue", take, &queue), [Ok(()), Ok(()), Ok(()), wrong(), wrong()]);
        let lengths = text(&[":1\r\n", ":2\r\n", ":2\r\n"]);
        assert_eq!(verdicts("feed", OpKind::Update, &lengths), [Ok(()), Ok(()), wrong()]);
        let scores = text(&["$1\r\n1\r\n", ",2\r\n", "$1\r\n2\r\n"]);
        assert_eq!(verdicts("leaderboard", OpKind::Update, &scores), [Ok(()), Ok(()), wrong()]);
        let added = text(&[":1\r\n", ":0\r\n"]);
        assert_eq!(verdicts("tags", OpKind::Update, &added), [Ok(()), wrong()]);
        let entries = [given("1-0", ELEMENT), given("1-1", ELEMENT), given("1-0", ELEMENT)];
        assert_eq!(verdicts("stream", take, &entries), [Ok(()), Ok(()), wrong()]);
        let map = ["%1\r\n$5\r\nuser1\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\ne\r\n".to_owned() + ELEMENT];
        assert_eq!(verdicts("stream", take, &map), [Ok(())]);
        let acknowledged = text(&[":1\r\n", ":0\r\n"]);
        assert_eq!(verdicts("stream", take, &acknowledged), [Ok(()), wrong()]);
    }

    #[test]
    fn reads_tell_what_is_missing_and_what_is_out_of_order() {
        let (wrong, missing) = (|| Err(Fault::Wrong), || Err(Fault::NotFound));
        let text = |answers: &[&str]| answers.iter().map(|answer| (*answer).to_owned()).collect::<Vec<_>>();
        let of = |record: &str, kind, answers: &[&str]| verdicts(record, kind, &text(answers));
        assert_eq!(of("leaderboard", OpKind::Read, &[":4\r\n", "$-1\r\n"]), [Ok(()), missing()]);
        assert_eq!(of("tags", OpKind::Read, &[":1\r\n", ":0\r\n"]), [Ok(()), missing()]);
        assert_eq!(of("queue", OpKind::Read, &["*0\r\n"]), [Ok(())]);
        assert_eq!(of("feed", OpKind::Read, &["*0\r\n", "*1\r\n$1\r\nx\r\n"]), [missing(), wrong()]);
        let falling = format!("*4\r\n{ELEMENT}$1\r\n2\r\n{OTHER}$1\r\n1\r\n");
        let rising = format!("*4\r\n{ELEMENT}$1\r\n1\r\n{OTHER}$1\r\n2\r\n");
        let pairs = format!("*2\r\n*2\r\n{ELEMENT},2\r\n*2\r\n{OTHER},1\r\n");
        assert_eq!(of("leaderboard", OpKind::Scan, &[&falling, &rising, &pairs]), [Ok(()), wrong(), Ok(())]);
    }
}
