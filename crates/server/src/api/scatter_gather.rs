//! Commands over the whole store: the shards that this node leads are read here, the others on their leaders.

use super::conclude::conclude;
use crate::os::steady_us;
use crate::peers::{LEADER_WITHIN, call_each_leader, call_leader};
use crate::shared::{NodeShared, RoutingSnapshot};
use arc_swap::Guard;
use node::command::{Error, ShardRest, ShardSteps, StoreCall, StoreHandler};
use node::read::{Again, Attempt, Begin, Finish, ReadRequest, Refusal, ReplyStream};
use node::session::Consistency;
use node::{
    ReadSpace, RecordRange, Records, Remote, RemoteAnswer, RemoteSpace, ShardSpace, Shards, SnapshotSpace,
    remote_records,
};
use resp::Reply;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::{ShardId, Slot};

/// The leaders of shards elsewhere, which must still own the slots that this node believes to be theirs.
#[derive(Clone)]
struct Elsewhere(Arc<NodeShared>, Arc<RoutingSnapshot>);

impl Remote for Elsewhere {
    fn call(&mut self, shard: ShardId, command: &[&[u8]]) -> RemoteAnswer {
        let slots = ranges_text(self.1.ranges(shard));
        call_leader(&self.0, shard, &[command, &[SLOTS, slots.as_bytes()]].concat())
    }

    fn call_all(&mut self, shards: &[ShardId], command: &[&[u8]]) -> Vec<RemoteAnswer> {
        let slots: Vec<String> = shards.iter().map(|shard| ranges_text(self.1.ranges(*shard))).collect();
        let commands: Vec<Vec<&[u8]>> =
            slots.iter().map(|slots| [command, &[SLOTS, slots.as_bytes()]].concat()).collect();
        call_each_leader(&self.0, shards, &commands, LEADER_WITHIN)
    }
}

/// Before the last word of a command for another node: the slots that its sender believes to be the shard's.
pub(crate) const SLOTS: &[u8] = b"SLOTS";
/// The beginning of the answer if they are not.
pub(crate) const DIVIDED: &str = "TRYAGAIN the shard's slots have changed";

/// Ranges of slots as they are told to other nodes.
pub(crate) fn ranges_text(ranges: &[(u16, u16)]) -> String {
    ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect::<Vec<_>>().join(",")
}

/// The error where a leader on this node is not confirmed before the rows are read.
const NOT_CONFIRMED: &str = "CLUSTERDOWN The cluster is down: a shard has no leader that is confirmed, try again";
/// The error where one is not known to have led all the time.
const LEADER_CHANGED: &str = "CLUSTERDOWN The cluster is down: a shard has changed its leader meanwhile, try again";
/// How long a command over the whole store is begun again because shards are being split.
const SETTLE_WITHIN: Duration = Duration::from_secs(5);
/// Before it is begun again.
const SETTLE_PAUSE: Duration = Duration::from_millis(2);

/// A shard as a command sees it.
enum Seen<'a> {
    Here(SnapshotSpace<'a>),
    There(Box<RemoteSpace<Elsewhere>>),
}

/// One shard of the store.
struct Part {
    id: ShardId,
    slots: (u16, u16),
    ranges: Vec<(u16, u16)>,
    /// Whether this node leads it.
    leads: bool,
    /// The read of this node's replica, if it may answer.
    attempt: Option<Attempt>,
}

/// Views of all shards, made when they are first looked at.
struct StoreShards<'a> {
    store: &'a Arc<NodeShared>,
    known: &'a Arc<RoutingSnapshot>,
    parts: &'a [Part],
    seen: Vec<Option<Seen<'a>>>,
    now_ms: u64,
    seed: u64,
}

impl<'a> StoreShards<'a> {
    fn elsewhere(&self) -> Elsewhere {
        Elsewhere(self.store.clone(), self.known.clone())
    }

    fn see(&mut self, i: usize) -> &mut Seen<'a> {
        let (elsewhere, now_ms, seed) = (self.elsewhere(), self.now_ms, self.seed ^ i as u64);
        let part = &self.parts[i];
        self.seen[i].get_or_insert_with(|| match &part.attempt {
            Some(attempt) => {
                let view = attempt.handle();
                Seen::Here(SnapshotSpace::new(view, view.read_time(now_ms), seed).at_one_time())
            }
            None => Seen::There(Box::new(RemoteSpace::new(elsewhere, part.id, now_ms, seed))),
        })
    }

    /// The rest of a reply is made from the snapshot that it was begun with.
    fn move_into(&mut self, stream: &mut ReplyStream, i: usize, steps: Box<dyn ShardSteps>) {
        let (attempt, seen) = (self.parts[i].attempt.as_ref(), self.seen[i].take());
        let (Some(attempt), Some(Seen::Here(space))) = (attempt, seen) else {
            unreachable!("only of a shard that is read here is something left")
        };
        let now_ms = space.now_ms();
        if let Some(snapshot) = space.into_snapshot() {
            stream.add(attempt.handle().clone(), snapshot, now_ms, steps);
        }
    }
}

impl Shards for StoreShards<'_> {
    fn count(&self) -> usize {
        self.parts.len()
    }

    fn slots(&self, i: usize) -> (u16, u16) {
        self.parts[i].slots
    }

    fn run_from(&self, slot: u16) -> Option<(usize, u16)> {
        let run = |part: &Part| part.ranges.iter().find(|(first, last)| (*first..=*last).contains(&slot)).copied();
        self.parts.iter().enumerate().find_map(|(i, part)| Some((i, run(part)?.1)))
    }

    fn leads(&self, i: usize) -> bool {
        self.parts[i].leads
    }

    fn is_here(&self, i: usize) -> bool {
        self.parts[i].attempt.is_some()
    }

    fn space(&mut self, i: usize) -> &mut dyn ShardSpace {
        match self.see(i) {
            Seen::Here(space) => space,
            Seen::There(space) => &mut **space,
        }
    }

    fn records<'b>(&'b mut self, range: &RecordRange<'_>) -> Vec<Box<dyn Records + 'b>> {
        for i in 0..self.count() {
            self.see(i);
        }
        let away: Vec<ShardId> = self.parts.iter().filter(|part| part.attempt.is_none()).map(|part| part.id).collect();
        let mut away = remote_records(&self.elsewhere(), &away, range).into_iter();
        let mut lists: Vec<Box<dyn Records + 'b>> = Vec::with_capacity(self.parts.len());
        for seen in self.seen.iter().flatten() {
            match seen {
                Seen::Here(space) => lists.push(space.live_records(range.start, range.end, range.reverse)),
                Seen::There(_) => lists.extend(away.next()),
            }
        }
        lists
    }
}

/// A command over the whole store, and what its client is promised.
pub(crate) struct Asked<'a> {
    pub(crate) args: &'a [&'a [u8]],
    pub(crate) seed: u64,
    /// When the request was there.
    pub(crate) arrived_us: u64,
    pub(crate) consistency: Consistency,
}

/// Runs a command over the whole store and writes its reply.
pub(crate) fn run_on_store(store: &Arc<NodeShared>, handler: StoreHandler, asked: &Asked<'_>, reply: &mut Reply) {
    let run = |call: &mut StoreCall<'_>| handler.run(call).map(|()| ShardRest::new());
    on_store(store, &run, asked, reply);
}

/// The same, or it writes the beginning of the reply: what is answered makes the rest.
pub(crate) fn begin_on_store(
    store: &Arc<NodeShared>,
    handler: StoreHandler,
    asked: &Asked<'_>,
    reply: &mut Reply,
) -> ReplyStream {
    on_store(store, &|call| handler.begin(call), asked, reply)
}

type Run<'a> = dyn Fn(&mut StoreCall<'_>) -> Result<ShardRest, Error> + 'a;

/// While a shard is being split the command is begun again: its rows would be seen twice, or not at all.
fn on_store(store: &Arc<NodeShared>, run: &Run<'_>, asked: &Asked<'_>, reply: &mut Reply) -> ReplyStream {
    let refuse = |reply: &mut Reply, text: &str| {
        reply.error(text);
        ReplyStream::default()
    };
    let (mark, begun) = (reply.buf.len(), Instant::now());
    loop {
        let known = Guard::into_inner(store.known());
        let Some(parts) = Part::all(store, &known, asked) else { return refuse(reply, NOT_CONFIRMED) };
        if parts.is_empty() {
            return refuse(reply, &Refusal::NoStore.to_string());
        }
        let whole = || parts.iter().all(Part::is_as_listed);
        if whole() {
            let stream = run_on_parts(store, run, asked, (&known, &parts), reply);
            let finishes: Vec<Finish> = parts.iter().map(|part| part.finish(store)).collect();
            if finishes.contains(&Finish::Again(Again::Unconfirmed)) {
                reply.buf.truncate(mark);
                return refuse(reply, LEADER_CHANGED);
            }
            let counts = finishes.iter().all(|finish| *finish == Finish::Answer);
            let divided = reply.buf[mark..].strip_prefix(b"-").is_some_and(|text| text.starts_with(DIVIDED.as_bytes()));
            if whole() && counts && !divided {
                return stream;
            }
            reply.buf.truncate(mark);
        }
        if begun.elapsed() > SETTLE_WITHIN || store.is_stopping() {
            return refuse(reply, DIVIDED);
        }
        std::thread::sleep(SETTLE_PAUSE);
    }
}

impl Part {
    /// The shards, each with its read here if this node may answer; `None` if a leader here is not confirmed in time. All
    /// leaders are asked before the first is waited for.
    fn all(store: &NodeShared, known: &RoutingSnapshot, asked: &Asked<'_>) -> Option<Vec<Self>> {
        let shards = known.shards();
        let begin = |(id, slots): (ShardId, (u16, u16))| {
            let request = ReadRequest {
                waiting_since_us: steady_us(),
                ..ReadRequest::new(Slot(slots.0), asked.consistency, asked.arrived_us)
            };
            request.begin(known.local(store.node(), Some(id)), store.moment(), || store.moment())
        };
        for &shard in &shards {
            if let Begin::WaitForLease(id) = begin(shard) {
                store.access().ask_lease(id);
            }
        }
        let part = |(id, slots): (ShardId, (u16, u16))| {
            let view = known.view(id.0 as usize);
            let mut begun = begin((id, slots));
            if matches!(begun, Begin::WaitForLease(_))
                && view.is_some_and(|view| store.access().confirm_leader(view, asked.arrived_us))
            {
                begun = begin((id, slots));
            }
            let attempt = match begun {
                Begin::Run(attempt) => Some(attempt.into()),
                Begin::WaitForLease(_) => return None,
                Begin::NotHere(_) => None,
            };
            let leads = view.is_some_and(|view| view.leading());
            Some(Self { id, slots, ranges: known.ranges(id).to_vec(), leads, attempt })
        };
        shards.into_iter().map(part).collect()
    }

    /// Whether the shard here owns the slots that it is asked for.
    fn is_as_listed(&self) -> bool {
        let lists = |attempt: &Attempt| attempt.handle().owned().is_some_and(|slots| slots.ranges() == self.ranges);
        self.attempt.as_ref().is_none_or(lists)
    }

    /// Whether what was read here counts.
    fn finish(&self, store: &NodeShared) -> Finish {
        self.attempt.as_ref().map_or(Finish::Answer, |attempt| store.access().finish_read(attempt))
    }
}

fn run_on_parts(
    store: &Arc<NodeShared>,
    run: &Run<'_>,
    asked: &Asked<'_>,
    (known, parts): (&Arc<RoutingSnapshot>, &[Part]),
    reply: &mut Reply,
) -> ReplyStream {
    let mark = reply.buf.len();
    let seen = parts.iter().map(|_| None).collect();
    let mut shards = StoreShards { store, known, parts, seen, now_ms: store.now_ms(), seed: asked.seed };
    let call = &mut StoreCall { args: asked.args, shards: &mut shards, cursors: &store.cursors, reply: &mut *reply };
    let done = run(call);
    let mut stream = ReplyStream::default();
    match done {
        Ok(rest) => rest.into_iter().for_each(|(i, steps)| shards.move_into(&mut stream, i, steps)),
        Err(error) => conclude(Err(error), reply, mark),
    }
    stream
}
