//! Scripts that the node knows: they run as reads while they write nothing, and are proposed otherwise.
//!
//! A read that is more work than an event loop should do at a time runs on a thread for such scripts. If it turns out to write,
//! it becomes a write with the same ticket: nothing that follows it on its connection has begun.

use super::forwarding::Kept;
use super::is_large::prepared_by;
use super::reply_queue::{ALL_KEYS, Effect};
use super::request::Request;
use super::turn::{Step, Target, Turn};
use super::{monitor, write};
use crate::api::{MayWrite, ScriptRuns};
use crate::mailbox::{Submission, WorkerMessage};
use crate::os::{NICE_BESIDE, set_niceness, steady_us};
use crate::shared::{NodeShared, tell_misses};
use node::command::{Error, Outcome, ReadHandler, conclude_on};
use node::read::{Attempt, Begin, Finish, ReadRequest, ScriptReads};
use node::session::{ClientEntry, Consistency, note_denied_in_script};
use node::tracking::{Registers, Tracker};
use node::{EncodedCommand, Fault, Held, KeyHashes, ScriptTurn, ShardHandle, SnapshotSpace, Ticket, Write};
use resp::Reply;
use std::sync::{Arc, Weak};
use vocab::limits::{SCRIPT_SLICE_ARGUMENTS_MAX, SCRIPT_SLICE_REQUEST_BYTES_MAX, SCRIPT_TURNS_US};

const OVERSTAYED: &str =
    "ERR the script has run for 30 s while other scripts waited for a thread: it was ended, and nothing was written";

const _: () = assert!(SCRIPT_TURNS_US[2] == 30_000_000, "it says for how long");

/// A longer answer is not made on an event loop.
const REPLY_HERE_BYTES_MAX: usize = 256 * 1024;

/// A script before it runs.
pub(super) struct Script {
    /// The command as an entry holds it.
    pub(super) command: EncodedCommand,
    /// Hashes of the keys that it declares.
    pub(super) keys: KeyHashes,
    /// How it runs.
    pub(super) runs: ScriptRuns,
}

/// Runs a script: here if it is short and writes nothing.
pub(super) fn run(
    turn: &mut Turn<'_>,
    request: Request<'_>,
    target: Target,
    script: Script,
    reply: &mut Reply,
) -> Step {
    let Script { command, keys, runs } = script;
    let Request { id, spec, args } = request;
    // If it writes after all it is proposed: then nothing that follows may have begun.
    let (may_write, no_room, effect) = match runs {
        ScriptRuns::Write => return write::write_command(turn, request, target, keys, Some(command)),
        ScriptRuns::ReadFirst(may_write, no_room) => (Some(may_write), no_room, Effect::Unsettled),
        ScriptRuns::Read => (None, None, Effect::Read),
    };
    let Some(connection) = turn.clients.get(id) else { return Step::Next };
    if connection.must_wait(ALL_KEYS, effect) || connection.reads_slowly(spec, args) {
        return turn.stall(id);
    }
    let consistency = match may_write {
        Some(_) => Consistency::Absolute,
        None => connection.session.consistency_for(spec, args),
    };
    let arrived_us = turn.arrived_us(id);
    let asked = ReadRequest::new(target.slot, consistency, arrived_us).over(target.wider);
    let known = turn.requests.store.known();
    let local = known.local(turn.requests.store.node(), target.shard);
    let attempt = match asked.begin(local, turn.now, || turn.requests.store.moment()) {
        Begin::Run(attempt) => attempt,
        Begin::WaitForLease(shard) => return turn.wait_for_lease(id, shard),
        Begin::NotHere(why) => return turn.not_here(id, target.slot, consistency, &why),
    };
    let handle = *attempt.handle();
    let is_short = args.len() <= SCRIPT_SLICE_ARGUMENTS_MAX && command.bytes() <= SCRIPT_SLICE_REQUEST_BYTES_MAX;
    let ran = match is_short {
        true => run_here(turn, request, handle, &command, may_write.is_some(), reply),
        false => Err(Error::Fault(Fault::WouldBlock)),
    };
    match within_room(ran, no_room) {
        Err(Error::Fault(Fault::Writes { .. })) => {
            may_write.inspect(MayWrite::note_writes);
            return write::write_command(turn, request, target, keys, Some(command));
        }
        Err(Error::Fault(Fault::WouldBlock)) => {
            let attempt = attempt.into();
            let Some(client) = turn.clients.get(id).map(|connection| Arc::downgrade(connection.session.entry())) else {
                return Step::Next;
            };
            let script = Beside { command, keys, may_write, no_room, effect, turn: 0, client };
            return begin_beside(turn, request, attempt, script);
        }
        done => conclude_on(handle, done, reply, 0),
    }
    match attempt.finish(steady_us) {
        Finish::Answer => {
            turn.requests.sampler.note(handle, target.slot, 1);
            turn.finished(request, &reply.buf);
            turn.clients.put_unless_silent(id, &reply.buf);
            Step::Next
        }
        Finish::Again(why) => turn.read_again(id, handle.id(), why),
    }
}

/// Runs a script on the event loop; `Fault::WouldBlock` says that it is too much.
fn run_here(
    turn: &mut Turn<'_>,
    request: Request<'_>,
    handle: &ShardHandle,
    command: &EncodedCommand,
    may_write: bool,
    reply: &mut Reply,
) -> Outcome {
    let (args, seed, now_ms) = (command.args(), turn.requests.next_seed(), turn.now.wall_ms);
    let tracker = tracker_of(turn, request.id);
    let mut reads = ScriptReads::of(tracker, handle);
    let is_fast = turn.requests.store.reads_are_fast(|| now_ms);
    let mut run = |reads: &mut ScriptReads| {
        let mut held = Held { blocks: Vec::new(), lacking: None };
        let space = match is_fast {
            true => SnapshotSpace::new(handle, now_ms, seed),
            false => SnapshotSpace::without_waiting(handle, now_ms, seed, &mut held),
        };
        let mut space = reads.noted_by(space.of_few_rows(Some(steady_us)).showing_calls());
        reply.buf.clear();
        reply.limit(REPLY_HERE_BYTES_MAX);
        let done = handler(may_write).run(&args, &mut space, reply);
        // A thread makes a long answer: here other clients would wait for it.
        let is_long = reply.exceeded();
        reply.limit(usize::MAX);
        let done = if is_long { done.and(Err(Error::Fault(Fault::WouldBlock))) } else { done };
        let is_again = done.is_ok() && !reads.count(handle, &mut space, Some(command));
        (done, space.lookups(), space.take_calls(), is_again)
    };
    let (done, lookups, mut calls) = loop {
        let (done, lookups, calls, is_again) = run(&mut reads);
        if !is_again {
            break (done, lookups, calls);
        }
    };
    reads.end(handle);
    if done.is_ok() {
        turn.looked_up(handle, request, lookups);
        if let Some(connection) = turn.clients.get(request.id) {
            let store = &*turn.requests.store;
            calls
                .take_denied()
                .into_iter()
                .for_each(|denied| note_denied_in_script(&connection.session, denied, store));
        }
        monitor::show_calls_here(&turn.requests.store, turn.clients, request.id, calls);
    }
    done
}

/// What a run has come to, where there may be no room for what adds data: then with the refusal of that.
fn within_room(done: Outcome, no_room: Option<&'static str>) -> Outcome {
    match (done, no_room) {
        (Err(Error::Fault(Fault::Writes { adds: true })), Some(text)) => Err(Error::from(text)),
        (done, _) => done,
    }
}

/// The handler that runs it as a read.
fn handler(may_write: bool) -> ReadHandler {
    ReadHandler::Keys(if may_write { node::read_script_first } else { node::read_script })
}

/// A script that only reads, as far as is known, on its way to a thread. It has three turns, so that a script that takes minutes keeps no
/// other one waiting for long: the short first one, then two in which such scripts have few of the threads.
struct Beside {
    command: EncodedCommand,
    keys: KeyHashes,
    may_write: Option<MayWrite>,
    /// The refusal of what adds data, where there is no room for any.
    no_room: Option<&'static str>,
    effect: Effect,
    /// Which turn is its next, from 0 on.
    turn: usize,
    client: Weak<ClientEntry>,
}

impl Beside {
    /// Its turn begins.
    fn turn_on_thread(&self, store: &NodeShared) -> ScriptTurn {
        // One that may write is run to its end, as any write is whose client has left.
        let client = self.may_write.is_none().then(|| self.client.clone() as _);
        ScriptTurn::new(steady_us, SCRIPT_TURNS_US[self.turn], store.script_pool.waiting(), client)
    }
}

/// Gives a script to a thread.
fn begin_beside(turn: &mut Turn<'_>, request: Request<'_>, attempt: Attempt, script: Beside) -> Step {
    let Request { id, spec, args } = request;
    let Some(connection) = turn.clients.get(id) else { return Step::Next };
    if !connection.may_owe_more() {
        return turn.stall(id);
    }
    let registers = Registers::of(connection.session.tracker());
    let version = turn.requests.store.known().version;
    let Some(ticket) = turn.begin_write(request, ALL_KEYS, script.effect, version) else {
        return Step::Stall;
    };
    if script.effect == Effect::Read
        && let Some(connection) = turn.clients.get_mut(id)
    {
        connection.begin_slow_read(ticket.sequence, spec, args);
    }
    write::keep(turn, &ticket, || Kept::Command(EncodedCommand::of(spec, args)));
    let ticket = Ticket { slot: attempt.request().slot, wider: attempt.request().wider, registers, ..ticket };
    let (store, seed) = (turn.requests.store.clone(), turn.requests.next_seed());
    queue(&store, 0, move |store| run_beside(store, attempt, script, ticket, seed));
    Step::Next
}

/// Has a script wait for a thread, for its turn of that number.
fn queue(store: &Arc<NodeShared>, turn: usize, run: impl FnOnce(&Arc<NodeShared>) + Send + 'static) {
    let of_job = store.clone();
    store.script_pool.run_in_class(turn, Box::new(move || run(&of_job)));
}

/// Begins a script's turn anew, after one in which it has given way to others.
fn run_again(store: &Arc<NodeShared>, asked: ReadRequest, script: Beside, ticket: Ticket, seed: u64) {
    match store.access().begin_read(asked) {
        Ok(attempt) => run_beside(store, attempt, script, ticket, seed),
        Err(text) => {
            let mut reply = Reply::new(ticket.proto);
            reply.error(&text);
            store.mailboxes.answer(ticket, reply.buf);
        }
    }
}

/// Runs a script on a thread, and answers it, unless it gives way to others.
fn run_beside(store: &Arc<NodeShared>, attempt: Attempt, script: Beside, ticket: Ticket, seed: u64) {
    set_niceness(NICE_BESIDE);
    let asked = attempt.request();
    let on_thread = Arc::new(script.turn_on_thread(store));
    let Beside { command, may_write, .. } = &script;
    let (mut reply, args) = (Reply::new(ticket.proto), command.args());
    let (mut writes_to, mut read_from, mut gives_way) = (None, None, false);
    let done = store.access().run_read(attempt, |attempt| {
        let handle = attempt.handle();
        let (_, reads) = read_from.insert((handle.clone(), ScriptReads::of(ticket.tracker(), handle)));
        let (done, mut space) = loop {
            let space = SnapshotSpace::new(handle, store.now_ms(), seed).showing_calls().in_turn(on_thread.clone());
            let mut space = reads.noted_by(space);
            reply.buf.clear();
            let done = within_room(handler(may_write.is_some()).run(&args, &mut space, &mut reply), script.no_room);
            if done.is_err() || reads.count(handle, &mut space, Some(command)) {
                break (done, space);
            }
        };
        gives_way = matches!(done, Err(Error::Fault(Fault::WouldBlock)));
        if gives_way {
            return;
        }
        let writes = matches!(done, Err(Error::Fault(Fault::Writes { .. })));
        writes_to = writes.then(|| handle.id());
        if !writes {
            let lookups = space.lookups();
            store.stats.looked_up(lookups);
            if let Some(spec) = command.spec() {
                tell_misses(store, handle, (spec, &args), lookups);
            }
            let mut calls = space.take_calls();
            monitor::tell_denied(store, &ticket, calls.take_denied());
            if let Some(client) = ticket.client() {
                monitor::show_calls(store, client, calls);
            }
            drop(space);
            attempt.conclude(done, &mut reply, 0);
        }
    });
    match (done, writes_to) {
        (Ok(()), _) if gives_way => {
            let next = script.turn + 1;
            if next < SCRIPT_TURNS_US.len() && !on_thread.client_has_left() {
                let script = Beside { turn: next, ..script };
                return queue(store, next, move |store| run_again(store, asked, script, ticket, seed));
            }
            reply.buf.clear();
            reply.error(OVERSTAYED);
        }
        (Err(text), _) => {
            reply.buf.clear();
            reply.error(&text);
        }
        (Ok(()), Some(shard)) => {
            may_write.as_ref().inspect(|may_write| may_write.note_writes());
            let Beside { command, keys, .. } = script;
            let write = prepared_by(true, Write::Command(command), ticket.may_wait);
            store.write_queued(write.bytes());
            let submission = Submission { shard, write, keys, ticket, waits_in: None };
            return store.mailboxes.tell_owner(shard, WorkerMessage::Write(submission));
        }
        (Ok(()), None) => {}
    }
    store.mailboxes.answer(ticket, reply.buf);
    if let Some((handle, reads)) = read_from {
        reads.end(&handle);
    }
}

/// As whom a client is registered for what its script reads, if it is.
fn tracker_of(turn: &Turn<'_>, id: usize) -> Option<Tracker> {
    turn.clients.get(id).and_then(|connection| connection.session.tracker())
}
