//! Commands over the whole store: the shards that this node leads are read here, the others on their leaders.

use super::functions;
use crate::os::steady_us;
use crate::peers::{LEADER_WITHIN, call_each_leader};
use crate::shared::{NodeShared, RoutingSnapshot};
use arc_swap::Guard;
use node::command::{Error, PartLeft, StoreCall, StoreHandler, StoreRest, conclude};
use node::read::{Again, Attempt, Begin, Deadline, Finish, NotHere, ReadRequest, Refusal, ReplyStream, StreamShard};
use node::session::{ClientEntry, Consistency};
use node::{
    Fault, Heads, Need, ReadSpace, RecordRange, Records, Remote, RemoteAnswer, RemoteCall, RemoteSpace, ShardHandle,
    ShardSpace, ShardSpaces, Shards, SnapshotSpace, remote_counts, remote_heads, remote_records,
};
use resp::Reply;
use std::cell::{Cell, OnceCell};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use vocab::{ShardId, Slot};

/// The leaders of shards elsewhere, which must still own the slots that this node believes to be theirs.
#[derive(Clone)]
struct Elsewhere {
    store: Arc<NodeShared>,
    known: Arc<RoutingSnapshot>,
    /// How long a leader is looked for.
    look_for: Duration,
    /// Why no leader may be asked.
    refusal: Option<&'static str>,
}

impl Remote for Elsewhere {
    fn call(&mut self, shard: ShardId, command: &[&[u8]]) -> RemoteAnswer {
        let calls = [RemoteCall { shard, command: command.to_vec() }];
        self.call_each(&calls).pop().unwrap_or_else(|| Err(NOT_CONFIRMED.to_owned()))
    }

    fn call_each(&mut self, calls: &[RemoteCall<'_>]) -> Vec<RemoteAnswer> {
        if let Some(text) = self.refusal {
            return calls.iter().map(|_| Err(text.to_owned())).collect();
        }
        let slots: Vec<String> = calls.iter().map(|call| ranges_text(self.known.ranges(call.shard))).collect();
        let shards: Vec<ShardId> = calls.iter().map(|call| call.shard).collect();
        let command = |(call, slots): (&RemoteCall<'_>, &String)| -> Vec<Vec<u8>> {
            let words = call.command.iter().copied().chain([SLOTS, slots.as_bytes()]);
            words.map(<[u8]>::to_vec).collect()
        };
        let commands: Vec<Vec<Vec<u8>>> = calls.iter().zip(&slots).map(command).collect();
        let commands: Vec<Vec<&[u8]>> =
            commands.iter().map(|words| words.iter().map(Vec::as_slice).collect()).collect();
        call_each_leader(&self.store, &shards, &commands, self.look_for)
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

/// A shard as a command over the whole store sees it.
enum Seen<'a> {
    Here(Box<SnapshotSpace<'a>>),
    There(Box<RemoteSpace<Elsewhere>>),
}

/// One shard of the store.
struct Part {
    id: ShardId,
    slots: (u16, u16),
    ranges: Vec<(u16, u16)>,
    /// Whether this node leads it.
    leads: bool,
    /// Whether it was split off from a shard that this node leads, and no leader is known yet: where a command is about the shards
    /// that nodes lead, none would have its keys.
    awaits_leader: bool,
    /// Whether the command goes by who leads it.
    is_by_leader: Cell<bool>,
    /// How it is read, from the first look at it.
    begun: OnceCell<Begun>,
}

/// How a shard is read.
enum Begun {
    /// From this node's replica.
    Here(Attempt),
    /// From its leader.
    There,
    /// Not now, and why.
    Refused(&'static str),
}

/// Views of all shards. Nothing is asked of a shard, or waited for, before the command looks at it.
struct StoreShards<'a> {
    store: &'a Arc<NodeShared>,
    known: &'a Arc<RoutingSnapshot>,
    asked: &'a StoreRequest<'a>,
    parts: &'a [Part],
    seen: Vec<Option<Seen<'a>>>,
    /// Whether replicas have been waited for.
    awaited: Cell<bool>,
    now_ms: u64,
}

impl<'a> StoreShards<'a> {
    fn elsewhere(&self, need: Need, refusal: Option<&'static str>) -> Elsewhere {
        let look_for = if need == Need::Each { LEADER_WITHIN } else { Duration::ZERO };
        Elsewhere { store: self.store.clone(), known: self.known.clone(), look_for, refusal }
    }

    /// Begins the reads of these shards. All leaders on this node are asked for their leases before the first is waited for.
    fn begin(&self, which: impl Iterator<Item = usize>) {
        let fresh: Vec<&Part> = which.map(|i| &self.parts[i]).filter(|part| part.begun.get().is_none()).collect();
        for part in &fresh {
            if let Begin::WaitForLease(id) = self.try_begin(part) {
                self.store.access().ask_lease(id);
            }
        }
        for part in fresh {
            let mut begun = self.try_begin(part);
            if matches!(begun, Begin::WaitForLease(_))
                && let Some(handle) = self.known.handle(part.id)
                && self.store.access().confirm_leader(handle, self.asked.arrived_us)
            {
                begun = self.try_begin(part);
            }
            let begun = match begun {
                Begin::Run(attempt) if part.is_listed_by(&attempt) => Begun::Here(attempt.into()),
                Begin::Run(_) => Begun::Refused(DIVIDED),
                Begin::WaitForLease(_) => Begun::Refused(NOT_CONFIRMED),
                Begin::NotHere(_) => Begun::There,
            };
            part.begun.get_or_init(|| begun);
        }
    }

    fn try_begin(&self, part: &Part) -> Begin<Attempt<&'a Arc<ShardHandle>>> {
        let StoreRequest { consistency, arrived_us, .. } = *self.asked;
        let request = ReadRequest {
            waiting_since_us: steady_us(),
            ..ReadRequest::new(Slot(part.slots.0), consistency, arrived_us)
        };
        let local = self.known.local(self.store.node(), Some(part.id));
        request.begin(local, self.store.moment(), || self.store.moment())
    }

    /// Where replicas may answer: waits for those of this node that are not known to be fresh enough, for as long as a read may.
    /// The leaders of all of them are asked at the first look. Those of a store that rests are asked by nothing else.
    fn await_replicas(&self) {
        let consistency = self.asked.consistency;
        if self.awaited.replace(true) || !consistency.allows_followers() {
            return;
        }
        let deadline = Deadline::for_read(consistency, steady_us());
        let waits = |part: &&Part| matches!(self.try_begin(part), Begin::NotHere(NotHere::Wait { .. }));
        let mut behind: Vec<&Part> = self.parts.iter().filter(|part| part.begun.get().is_none()).collect();
        loop {
            behind.retain(waits);
            if behind.is_empty() || deadline.is_over(steady_us()) || !self.store.access().pause() {
                return;
            }
        }
    }

    fn see(&mut self, i: usize) -> &mut Seen<'a> {
        self.begin([i].into_iter());
        let (part, now_ms, seed) = (&self.parts[i], self.now_ms, self.asked.seed ^ i as u64);
        let refusal = match part.begun.get() {
            Some(Begun::Refused(text)) => Some(*text),
            _ => None,
        };
        let elsewhere = self.elsewhere(Need::Each, refusal);
        self.seen[i].get_or_insert_with(|| match part.begun.get() {
            Some(Begun::Here(attempt)) => {
                let handle = attempt.handle();
                Seen::Here(Box::new(SnapshotSpace::new(handle, handle.read_time(now_ms), seed).at_one_time()))
            }
            _ => Seen::There(Box::new(RemoteSpace::new(elsewhere, part.id, now_ms, seed))),
        })
    }

    /// A part of a reply is made from the snapshots that it was begun with.
    fn move_into(&mut self, stream: &mut ReplyStream, part: PartLeft) {
        let shards = part.shards.iter().filter_map(|i| self.take_shard(*i)).collect();
        stream.add(shards, part.steps);
    }

    fn take_shard(&mut self, i: usize) -> Option<StreamShard> {
        let (begun, seen) = (self.parts[i].begun.get(), self.seen[i].take());
        let (Some(Begun::Here(attempt)), Some(Seen::Here(space))) = (begun, seen) else {
            unreachable!("only of a shard that is read here is something left")
        };
        let (handle, now_ms) = (attempt.handle().clone(), space.now_ms());
        Some(StreamShard { number: i, handle, snapshot: space.into_snapshot()?, now_ms })
    }

    /// Those of these shards that their leaders elsewhere are asked for.
    fn away(&self, which: impl Iterator<Item = usize>) -> Vec<ShardId> {
        let parts = which.map(|i| &self.parts[i]);
        parts.filter(|part| matches!(part.begun.get(), Some(Begun::There))).map(|part| part.id).collect()
    }

    fn is_away(&self, i: usize) -> bool {
        matches!(self.parts[i].begun.get(), Some(Begun::There))
    }
}

impl ShardSpaces for StoreShards<'_> {
    fn space(&mut self, i: usize) -> &mut dyn ShardSpace {
        match self.see(i) {
            Seen::Here(space) => &mut **space,
            Seen::There(space) => &mut **space,
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
        self.parts[i].is_by_leader.set(true);
        self.parts[i].leads
    }

    fn is_here(&self, i: usize) -> bool {
        if self.parts[i].begun.get().is_none() {
            self.await_replicas();
            // The command will read the others that this node leads, too.
            self.begin((0..self.count()).filter(|j| *j == i || self.parts[*j].leads));
        }
        matches!(self.parts[i].begun.get(), Some(Begun::Here(_)))
    }

    fn key_counts(&mut self, which: &[usize], need: Need) -> Vec<Result<u64, Fault>> {
        self.begin(which.iter().copied());
        let away = self.away(which.iter().copied());
        let mut away = remote_counts(&mut self.elsewhere(need, None), &away).into_iter();
        let count = |i: &usize| match self.is_away(*i).then(|| away.next()).flatten() {
            Some(count) => count,
            None => self.space(*i).key_count(),
        };
        which.iter().map(count).collect()
    }

    fn heads(&mut self, asked: &[(usize, RecordRange<'_>)]) -> Vec<Result<Heads, Fault>> {
        self.begin(asked.iter().map(|(i, _)| *i));
        let away: Vec<(ShardId, RecordRange<'_>)> =
            asked.iter().filter(|(i, _)| self.is_away(*i)).map(|(i, range)| (self.parts[*i].id, *range)).collect();
        let mut away = remote_heads(&mut self.elsewhere(Need::Each, None), &away).into_iter();
        let heads = |(i, range): &(usize, RecordRange<'_>)| match self.is_away(*i).then(|| away.next()).flatten() {
            Some(heads) => heads,
            None => self.space(*i).heads(range),
        };
        asked.iter().map(heads).collect()
    }

    fn records<'b>(&'b mut self, range: &RecordRange<'_>) -> Vec<Box<dyn Records + 'b>> {
        self.begin(0..self.count());
        for i in 0..self.count() {
            self.see(i);
        }
        let away = self.away(0..self.count());
        let mut away = remote_records(&self.elsewhere(Need::Each, None), &away, range).into_iter();
        let mut lists: Vec<Box<dyn Records + 'b>> = Vec::with_capacity(self.parts.len());
        for (part, seen) in self.parts.iter().zip(self.seen.iter().flatten()) {
            match (seen, part.begun.get()) {
                (Seen::Here(space), _) => lists.push(space.listed_records(range.start, range.end, range.reverse)),
                (Seen::There(_), Some(Begun::There)) => lists.extend(away.next()),
                (Seen::There(space), _) => lists.extend(remote_records(space.remote(), &[part.id], range)),
            }
        }
        lists
    }

    fn is_abandoned(&self) -> bool {
        let has_left = |client: &Weak<ClientEntry>| client.upgrade().is_none_or(|entry| entry.killed());
        self.store.is_stopping() || self.asked.client.as_ref().is_some_and(has_left)
    }

    fn libraries(&mut self) -> Result<Vec<Vec<u8>>, String> {
        Ok(functions::learn(self.store)?.sources().map(<[u8]>::to_vec).collect())
    }
}

/// A command over the whole store, and what its client is promised.
pub(crate) struct StoreRequest<'a> {
    pub(crate) args: &'a [&'a [u8]],
    pub(crate) seed: u64,
    /// When the request was there.
    pub(crate) arrived_us: u64,
    pub(crate) consistency: Consistency,
    /// Who asks, where a long walk of the store is to end when the connection does.
    pub(crate) client: Option<Weak<ClientEntry>>,
}

/// Runs a command over the whole store and writes its reply.
pub(crate) fn run_on_store(
    store: &Arc<NodeShared>,
    handler: StoreHandler,
    asked: &StoreRequest<'_>,
    reply: &mut Reply,
) {
    on_store(store, Run { handler, streams: false }, asked, reply);
}

/// Runs a command over the whole store and writes its reply, or the beginning of it: what is answered makes the rest.
pub(crate) fn begin_on_store(
    store: &Arc<NodeShared>,
    handler: StoreHandler,
    asked: &StoreRequest<'_>,
    reply: &mut Reply,
) -> ReplyStream {
    on_store(store, Run { handler, streams: true }, asked, reply)
}

/// How a command is run.
#[derive(Clone, Copy)]
struct Run {
    handler: StoreHandler,
    /// What it leaves is made as its client takes it; else it is run to its end.
    streams: bool,
}

impl Run {
    fn run(self, call: &mut StoreCall<'_>) -> Result<StoreRest, Error> {
        if self.streams { self.handler.begin(call) } else { self.handler.run(call).map(|()| StoreRest::new()) }
    }
}

/// While a shard is being split the command is begun again: its rows would be seen twice, or not at all.
fn on_store(store: &Arc<NodeShared>, run: Run, asked: &StoreRequest<'_>, reply: &mut Reply) -> ReplyStream {
    let refuse = |reply: &mut Reply, text: &str| {
        reply.error(text);
        ReplyStream::default()
    };
    let (mark, begun) = (reply.buf.len(), Instant::now());
    loop {
        let known = Guard::into_inner(store.known());
        let parts = Part::all(&known);
        if parts.is_empty() {
            return refuse(reply, &Refusal::NoStore.to_string());
        }
        let stream = run_on_parts(store, run, asked, (&known, &parts), reply);
        let finishes: Vec<Finish> = parts.iter().map(|part| part.finish(store)).collect();
        if finishes.contains(&Finish::Again(Again::Unconfirmed)) {
            reply.buf.truncate(mark);
            return refuse(reply, LEADER_CHANGED);
        }
        let counts = finishes.iter().all(|finish| *finish == Finish::Answer);
        let divided = reply.buf[mark..].strip_prefix(b"-").is_some_and(|text| text.starts_with(DIVIDED.as_bytes()));
        if counts && !divided && parts.iter().all(|part| part.is_as_listed() && !part.is_left_out()) {
            return stream;
        }
        reply.buf.truncate(mark);
        if begun.elapsed() > SETTLE_WITHIN || store.is_stopping() {
            return refuse(reply, DIVIDED);
        }
        std::thread::sleep(SETTLE_PAUSE);
    }
}

impl Part {
    /// All shards, of which none is read yet.
    fn all(known: &RoutingSnapshot) -> Vec<Self> {
        let leads = |shard: ShardId| known.handle(shard).is_some_and(|handle| handle.leading());
        let parent = |shard: ShardId| Some(known.map.as_ref()?.splits.get(&shard)?.parent);
        let part = |(id, slots): (ShardId, (u16, u16))| {
            let has_leader = || known.place(id).is_some_and(|place| place.leader.node().is_some());
            let awaits_leader = !leads(id) && parent(id).is_some_and(leads) && !has_leader();
            let (ranges, is_by_leader, begun) = (known.ranges(id).to_vec(), Cell::default(), OnceCell::new());
            Self { id, slots, ranges, leads: leads(id), awaits_leader, is_by_leader, begun }
        };
        known.shards().into_iter().map(part).collect()
    }

    /// Whether a replica here owns the slots that it is asked for.
    fn is_listed_by<H: AsRef<ShardHandle>>(&self, attempt: &Attempt<H>) -> bool {
        attempt.handle().as_ref().owned().is_some_and(|slots| slots.ranges() == self.ranges)
    }

    /// Whether the replica that was read, if one was, still owns the slots that it was asked for.
    fn is_as_listed(&self) -> bool {
        match self.begun.get() {
            Some(Begun::Here(attempt)) => self.is_listed_by(attempt),
            _ => true,
        }
    }

    /// Whether the command has left it out for want of a leader, which it has in a moment.
    fn is_left_out(&self) -> bool {
        self.awaits_leader && self.is_by_leader.get()
    }

    /// Whether what was read here counts.
    fn finish(&self, store: &NodeShared) -> Finish {
        match self.begun.get() {
            Some(Begun::Here(attempt)) => store.access().finish_read(attempt),
            _ => Finish::Answer,
        }
    }
}

fn run_on_parts(
    store: &Arc<NodeShared>,
    run: Run,
    asked: &StoreRequest<'_>,
    (known, parts): (&Arc<RoutingSnapshot>, &[Part]),
    reply: &mut Reply,
) -> ReplyStream {
    let mark = reply.buf.len();
    let seen = parts.iter().map(|_| None).collect();
    let mut shards =
        StoreShards { store, known, asked, parts, seen, awaited: Cell::new(false), now_ms: store.now_ms() };
    let (args, streams, cursors) = (asked.args, run.streams, &store.cursors);
    let done = run.run(&mut StoreCall { args, shards: &mut shards, streams, cursors, reply: &mut *reply });
    let mut stream = ReplyStream::default();
    match done {
        Ok(rest) => rest.into_iter().for_each(|part| shards.move_into(&mut stream, part)),
        Err(error) => conclude(Err(error), reply, mark),
    }
    stream
}
