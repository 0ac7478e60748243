//! Many writes on their way into a store: imports and restores make them. Those on one slot keep their order where they need one.
//!
//! A write that was refused because a node is busy, or has no leader, is made again for a while.
//!
//! Those on one slot that wait for each other go together, as one script: a round of the log for each would be too slow to follow a busy source.

use client::{Access, Answer, Ask, Frame, Nesting, Pool, PoolOptions, ReadFrom, StoreUrl};
use node::Outcome;
use resp::table::{self, flag};
use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};
use vocab::{Slot, slot_of};

/// Requests that are under way.
const WINDOW: usize = 512;
/// Requests that wait, and how many of them are looked through for one that may go.
const WAITING_MAX: usize = 1024;
/// Bytes of arguments of those that wait or are under way.
const HELD_BYTES_MAX: usize = 256 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);
/// Times that a request is made before it counts as refused.
const TRIES_MAX: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);
/// Requests that go together, their arguments, and bytes of these.
const TOGETHER_MAX: usize = 64;
const TOGETHER_ARGUMENTS_MAX: usize = 4000;
const TOGETHER_BYTES_MAX: usize = 256 << 10;
/// Makes them in order, each whatever becomes of the others. Its keys are theirs; its arguments: of each how many words it has, and these.
const TOGETHER: &str = "local replies,at={},1 for i=1,#KEYS do local count=tonumber(ARGV[at]) \
                        replies[i]=redis.pcall(unpack(ARGV,at+1,at+count)) at=at+count+1 end return replies";
/// With these words an error of the store passes.
const PASSES: [&str; 7] = ["BUSY ", "TIMEOUT", "NOREPLICAS", "ERR disk full", "LOADING", "CLUSTERDOWN", "TRYAGAIN"];

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It may be made twice, and before or behind any other that is under way.
    Free,
    /// It may be made once only, behind those on its slot that were given before. If it is not known whether it was made, its key
    /// is in doubt.
    Once,
    /// It may be made twice, behind those on its slot that were given before.
    InOrder,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) kind: Kind,
    pub(crate) args: Vec<Vec<u8>>,
    /// Which of the arguments is its key.
    pub(crate) key: usize,
}

impl Write {
    fn bytes(&self) -> usize {
        self.args.iter().map(Vec::len).sum()
    }

    fn slot(&self) -> Slot {
        slot_of(&self.args[self.key])
    }

    /// Whether it may be one of several in a script.
    fn may_join(&self) -> bool {
        let args: Vec<&[u8]> = self.args.iter().map(Vec::as_slice).collect();
        let is_small = args.len() <= TOGETHER_ARGUMENTS_MAX / 2 && self.bytes() <= TOGETHER_BYTES_MAX / 2;
        self.kind == Kind::Once && is_small && table::resolve(&args).is_ok_and(|spec| spec.flags & flag::NOSCRIPT == 0)
    }
}

/// A request that is not answered.
struct Pending {
    write: Write,
    tries: u32,
    /// Not before this time.
    after: Option<Instant>,
}

/// All keys that a request is about: that of which its slot follows, and any other.
fn keys_of(write: &Write) -> Vec<Vec<u8>> {
    let args: Vec<&[u8]> = write.args.iter().map(Vec::as_slice).collect();
    let keys = table::resolve(&args).ok().and_then(|spec| spec.keys(&args).ok());
    let mut places: Vec<usize> = keys.into_iter().flatten().chain((write.key > 0).then_some(write.key)).collect();
    places.sort_unstable();
    places.dedup();
    places.into_iter().map(|at| write.args[at].clone()).collect()
}

/// Who is told what becomes of requests.
pub(crate) trait Listener {
    /// It was made.
    fn done(&mut self, write: &Write, reply: &Frame<'_>);
    /// It was not, and will not be.
    fn refused(&mut self, write: &Write, why: &str);
}

/// A store that is written to.
pub(crate) struct StoreWriter {
    pool: Pool,
    /// Several of one slot, in their order, go together.
    under_way: Vec<Vec<Pending>>,
    free: Vec<u32>,
    waiting: VecDeque<Pending>,
    held_bytes: usize,
    /// Slots of requests under way that keep an order.
    busy: HashSet<u16>,
    /// Keys of requests that may have been made, or not.
    doubtful: Vec<Vec<u8>>,
    /// The store has refused a script.
    goes_singly: bool,
}

impl StoreWriter {
    pub(crate) fn open(node: &StoreUrl) -> Result<Self, String> {
        let options =
            PoolOptions { connections: 1, timeout: TIMEOUT, read_from: ReadFrom::Leader, greetings: Vec::new() };
        Ok(Self {
            pool: Pool::open(node, options).map_err(|e| format!("the store: {e}"))?,
            under_way: (0..WINDOW).map(|_| Vec::new()).collect(),
            free: (0..WINDOW as u32).collect(),
            waiting: VecDeque::new(),
            held_bytes: 0,
            busy: HashSet::new(),
            doubtful: Vec::new(),
            goes_singly: false,
        })
    }

    /// Makes a request, now or soon. Waits while too many are under way.
    pub(crate) fn write(&mut self, write: Write, listener: &mut dyn Listener) -> Result<(), String> {
        self.held_bytes += write.bytes();
        self.waiting.push_back(Pending { write, tries: 0, after: None });
        self.send();
        while self.waiting.len() > WAITING_MAX || (self.held_bytes > HELD_BYTES_MAX && self.is_busy()) {
            self.turn(listener)?;
        }
        Ok(())
    }

    fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || self.free.len() < WINDOW
    }

    /// Waits until every request is answered.
    pub(crate) fn drain(&mut self, listener: &mut dyn Listener) -> Result<(), String> {
        while self.is_busy() {
            self.turn(listener)?;
        }
        Ok(())
    }

    /// The keys of requests that may have been made, or not.
    pub(crate) fn take_doubtful(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.doubtful)
    }

    /// Sends what may go: of those on a slot that keep an order, one at a time.
    fn send(&mut self) {
        let now = Instant::now();
        let mut held: HashSet<u16> = HashSet::new();
        let mut at = 0;
        while at < self.waiting.len().min(WAITING_MAX) {
            let Some(&token) = self.free.last() else { return };
            let pending = &self.waiting[at];
            let (slot, kind) = (pending.write.slot().0, pending.write.kind);
            let is_blocked = kind != Kind::Free && (self.busy.contains(&slot) || held.contains(&slot));
            if is_blocked || pending.after.is_some_and(|after| after > now) {
                held.insert(slot);
                at += 1;
                continue;
            }
            let Some(pending) = self.waiting.remove(at) else { return };
            self.free.pop();
            if kind != Kind::Free {
                self.busy.insert(slot);
            }
            let together = self.together(at, pending);
            send_as(&mut self.pool, token, &together);
            self.under_way[token as usize] = together;
        }
    }

    /// A request, and those that may go together with it, of those that wait from there on.
    fn together(&mut self, mut at: usize, first: Pending) -> Vec<Pending> {
        let mut together = vec![first];
        if self.goes_singly || !together[0].write.may_join() {
            return together;
        }
        let slot = together[0].write.slot();
        let (mut arguments, mut bytes) = (together[0].write.args.len(), together[0].write.bytes());
        while together.len() < TOGETHER_MAX
            && at < WAITING_MAX
            && let Some(next) = self.waiting.get(at)
        {
            if next.write.slot() != slot || next.write.kind == Kind::Free {
                at += 1;
                continue;
            }
            (arguments, bytes) = (arguments + next.write.args.len(), bytes + next.write.bytes());
            let is_too_much = arguments > TOGETHER_ARGUMENTS_MAX || bytes > TOGETHER_BYTES_MAX;
            if is_too_much || next.after.is_some() || !next.write.may_join() {
                break;
            }
            together.extend(self.waiting.remove(at));
        }
        together
    }

    /// Sends, and takes in what was answered.
    fn turn(&mut self, listener: &mut dyn Listener) -> Result<(), String> {
        self.send();
        let mut again = Vec::new();
        let Self { pool, under_way, free, held_bytes, busy, doubtful, goes_singly, .. } = self;
        let mut each = |token: u32, answer: Answer<'_>, _: Instant| {
            let mut together = std::mem::take(&mut under_way[token as usize]);
            let Some(first) = together.first() else { return };
            let (is_script, kind) = (together.len() > 1, first.write.kind);
            free.push(token);
            if kind != Kind::Free {
                busy.remove(&first.write.slot().0);
            }
            let bytes: usize = together.iter().map(|pending| pending.write.bytes()).sum();
            if kind == Kind::Once && may_be_made(&answer) {
                *held_bytes -= bytes;
                for Pending { write, .. } in &together {
                    let keys = keys_of(write);
                    if keys.is_empty() {
                        listener.refused(write, "it is not known whether it was made");
                    }
                    doubtful.extend(keys);
                }
                return;
            }
            let why = match &answer {
                Answer::Reply(Frame::Nested(Nesting::Array, replies)) if is_script => {
                    *held_bytes -= bytes;
                    return together.iter().zip(replies.clone()).for_each(
                        |(Pending { write, .. }, reply)| match reply {
                            Frame::Error(text) => listener.refused(write, &String::from_utf8_lossy(text)),
                            reply => listener.done(write, &reply),
                        },
                    );
                }
                // Others are made again until all replicas have them.
                Answer::Reply(Frame::Error(text)) if kind == Kind::Once && Outcome::is_made(text) => {
                    *held_bytes -= bytes;
                    return together.iter().for_each(|pending| listener.done(&pending.write, &Frame::Simple(b"OK")));
                }
                Answer::Reply(Frame::Error(text)) => String::from_utf8_lossy(text).into_owned(),
                Answer::Reply(frame) => {
                    *held_bytes -= bytes;
                    return listener.done(&together[0].write, frame);
                }
                Answer::Again(failure) | Answer::Failed(failure) => failure.name().to_owned(),
            };
            let passes = !matches!(answer, Answer::Reply(_)) || PASSES.iter().any(|word| why.starts_with(word));
            // Of a script that was refused nothing was made: its requests go one by one.
            *goes_singly |= is_script && !passes;
            if (passes && together[0].tries < TRIES_MAX) || (is_script && !passes) {
                let after = passes.then(|| Instant::now() + PAUSE);
                together.iter_mut().for_each(|pending| {
                    (pending.tries, pending.after) = (pending.tries + 1, after);
                });
                return again.append(&mut together);
            }
            *held_bytes -= bytes;
            together.iter().for_each(|pending| listener.refused(&pending.write, &why));
        };
        pool.wait(Some(Instant::now() + PAUSE), &mut each).map_err(|e| format!("the store: {e}"))?;
        // They are older than all that waits, and keep their order.
        for pending in again.into_iter().rev() {
            self.waiting.push_front(pending);
        }
        Ok(())
    }
}

/// Whether it is unknown if a request was made, or will be yet.
fn may_be_made(answer: &Answer<'_>) -> bool {
    match answer {
        Answer::Failed(_) => true,
        Answer::Reply(Frame::Error(text)) => Outcome::of_answer(&[b"-", *text].concat()) == Some(Outcome::Unknown),
        _ => false,
    }
}

/// Sends a request; several in one script.
fn send_as(pool: &mut Pool, token: u32, together: &[Pending]) {
    let [Pending { write: first, .. }, rest @ ..] = together else { return };
    let access = if first.kind == Kind::Once { Access::Write } else { Access::Repeatable };
    let key = Some(first.args[first.key].as_slice());
    if rest.is_empty() {
        let mut request = pool.request(Ask { client: 0, token, key, access, arguments: first.args.len() });
        first.args.iter().for_each(|arg| _ = request.arg(arg));
        return;
    }
    let words: usize = together.iter().map(|pending| 2 + pending.write.args.len()).sum();
    let mut request = pool.request(Ask { client: 0, token, key, access, arguments: 3 + words });
    request.arg(b"EVAL").arg(TOGETHER.as_bytes()).arg(together.len().to_string().as_bytes());
    for Pending { write, .. } in together {
        request.arg(&write.args[write.key]);
    }
    for Pending { write, .. } in together {
        request.arg(write.args.len().to_string().as_bytes());
        write.args.iter().for_each(|arg| _ = request.arg(arg));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_request_are_in_doubt_with_it() {
        let keys = |text: &str, key| {
            let args = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            let keys = keys_of(&Write { kind: Kind::Once, args, key });
            keys.into_iter().map(|key| String::from_utf8_lossy(&key).into_owned()).collect::<Vec<_>>().join(" ")
        };
        for (request, key, expected) in [
            ("INCR a", 1, "a"),
            ("MSET a 1 b 2 c 3", 1, "a b c"),
            ("RPOPLPUSH a b", 1, "a b"),
            ("SORT a BY x STORE b", 1, "a b"),
            ("EVAL return 2 a b x", 3, "a b"),
            ("XREADGROUP GROUP g c STREAMS a b > >", 5, "a b"),
            ("MADEUP a b", 1, "a"),
            ("FUNCTION LOAD x", 0, ""),
        ] {
            assert_eq!(keys(request, key), expected, "{request}");
        }
    }
}
