//! Writes of one shard, and of all: from the request to the shard's next entry.

use super::connection::{Connection, RunningTransaction};
use super::forwarding::Kept;
use super::invalidations::{track, track_declared};
use super::is_large::prepared_by;
use super::registry::{ClientId, Clients};
use super::reply_queue::{ALL_KEYS, Effect, LIKELY_REPLY_BYTES};
use super::request::Request;
use super::turn::{Step, Target, Turn, Wanted};
use crate::api::{SLOTS, ranges_text, resolved, span_of_scripts};
use crate::disk_reads::{DeferredGet, begin_patiently};
use crate::disk_reads::{DeferredRead, Prefetch};
use crate::mailbox::Submission;
use crate::peers::change_once_by_leader;
use crate::shared::NodeShared;
use node::blocking::BlockingCommand;
use node::command::{ReadHandler, walks_keys};
use node::read::{Begin, Deadline, NotHere, ReadRequest, Refusal, leader_access};
use node::session::{Consistency, Transaction};
use node::tracking::Registers;
use node::{
    EncodedCommand, EntryBuilder, ExpectedReply, KeyHashes, ShardHandle, Ticket, Write, expected_rewrite, request,
    script_as,
};
use resp::Reply;
use resp::table::behaviour;
use std::sync::Arc;
use vocab::{Slot, SlotSpan, slot_of};

pub(super) fn write(turn: &mut Turn<'_>, request: Request<'_>, target: Target, keys: KeyHashes) -> Step {
    write_command(turn, request, target, keys, None)
}

/// The same; the entry may have other words than the request.
pub(super) fn write_command(
    turn: &mut Turn<'_>,
    request: Request<'_>,
    target: Target,
    keys: KeyHashes,
    command: Option<EncodedCommand>,
) -> Step {
    let Request { id, spec, args } = request;
    if turn.requests.store.is_full() {
        return turn.stall(id);
    }
    let Target { shard, slot, wider, mask } = target;
    let known = turn.requests.store.known();
    let deadline = Deadline::for_leader(turn.arrived_us(id));
    let local = known.local(turn.requests.store.node(), shard);
    let leader = match leader_access(local, slot, deadline, turn.requests.arrived_us) {
        Ok(leader) => leader,
        Err(why) => return turn.not_here(id, slot, Consistency::Absolute, &why),
    };
    let handle = leader.handle();
    if let Some(connection) = turn.clients.get(id) {
        track(connection, handle, spec, args);
    }
    let answers_values = spec.answers_values(args);
    // How long the answer will be is known only for rows in memory.
    let ready = (!answers_values && turn.requests.store.reads_are_fast(|| turn.now.wall_ms))
        || spec.keys(args).is_ok_and(|mut positions| {
            positions.len() <= CACHED_KEYS_MAX && positions.all(|at| handle.is_cached(args[at]))
        });
    let is_as_asked = command.is_none();
    let frame = || turn.clients.get(id).and_then(|connection| connection.session.frame());
    let command = command.unwrap_or_else(|| EncodedCommand::within(spec, args, frame()));
    let Some(ticket) = turn.begin_write(request, mask, Effect::Write, known.version) else {
        return Step::Stall;
    };
    // Copies share their bytes.
    let asked = || if is_as_asked { command.clone() } else { EncodedCommand::of(spec, args) };
    keep(turn, &ticket, || Kept::Command(asked()));
    let (reply_bytes, promised) = match answers_values {
        true => {
            let answered = ExpectedReply::of(handle, spec, args).bytes();
            (answered, if ready { answered } else { LIKELY_REPLY_BYTES })
        }
        false => (expected_rewrite(handle, spec, args), 0),
    };
    let scripts = usize::from(spec.does(behaviour::RUNS_SCRIPT));
    let of_scripts = turn.clients.get(id).map_or(0, |connection| connection.scripts.bytes_of(scripts));
    let promised = promised.max(of_scripts);
    let may_wait = BlockingCommand::is_one(spec, args);
    let blocking = may_wait.then(asked);
    // What makes no sense, its handler refuses.
    let waits_in = blocking.as_ref().and_then(BlockingCommand::of).map(Box::new);
    let registers = match turn.clients.get(id) {
        Some(connection) if spec.does(behaviour::RUNS_SCRIPT) => Registers::of(connection.session.tracker()),
        _ => Registers::Nothing,
    };
    let ticket = Ticket { slot, wider, reply_bytes, may_wait, registers, ..ticket };
    turn.requests.store.write_queued(command.bytes());
    let Some(connection) = turn.clients.get_mut(id) else { return Step::Next };
    if let Some(command) = blocking {
        connection.begin_blocking(ticket, command);
    }
    if promised > 0 {
        connection.promise(ticket.sequence, promised);
    }
    if ready && !connection.has_pending_writes() {
        let write = prepared_by(turn.clients.are_of_thread(), Write::Command(command), may_wait);
        turn.requests.wanted.writes.push(Submission { shard: handle.id(), write, keys, ticket, waits_in });
        return Step::Next;
    }
    // The rows that the command will find are brought into the cache first, so that applying it need not wait for the
    // disk. The connection's later writes queue up behind it.
    if !ready {
        let rows = Prefetch::of_write(&turn.requests.store, handle.clone(), command.clone(), turn.now.wall_ms, ticket);
        turn.requests.wanted.reads.push(DeferredRead::Prefetch(rows));
    }
    let submission = Submission { shard: handle.id(), write: Write::Command(command), keys, ticket, waits_in };
    connection.keep_write(ready, submission);
    Step::Next
}

/// FLUSHALL: every shard removes its keys, on whichever node it is led.
pub(super) fn clear(turn: &mut Turn<'_>, request: Request<'_>) -> Step {
    let Some(ticket) = turn.clients.begin(request, ALL_KEYS, Effect::Unsettled, turn.requests.clock) else {
        return Step::Stall;
    };
    clear_shards(turn, ticket);
    Step::Next
}

pub(super) fn clear_shards(turn: &mut Turn<'_>, ticket: Ticket) {
    let known = turn.requests.store.known();
    let shards = known.shards();
    let part = turn.clients.gather(ticket, &shards);
    for (shard, (first, _)) in shards {
        if known.handle(shard).is_some_and(|handle| handle.leading()) {
            turn.requests.store.write_queued(Write::Clear.bytes());
            let ticket = Ticket { slot: Slot(first), ..part };
            let keys = KeyHashes::new();
            let submission = Submission { shard, write: Write::Clear, keys, ticket, waits_in: None };
            turn.requests.wanted.writes.push(submission);
            continue;
        }
        let (store, slots) = (turn.requests.store.clone(), ranges_text(known.ranges(shard)));
        turn.requests.store.pool.run_patient(Box::new(move || {
            let (sync, acks) = (part.durability().sync_word(), part.acks.word());
            let command: [&[u8]; 6] =
                [b"FLUSHALL", b"DURABILITY", sync.as_bytes(), acks.as_bytes(), SLOTS, slots.as_bytes()];
            let reply = change_once_by_leader(&store, shard, &command).unwrap_or_else(|text| {
                let mut reply = Reply::new(part.proto);
                reply.error(&text);
                reply.buf
            });
            store.mailboxes.answer(part, reply);
        }));
    }
}

/// The rows that a pending write will find are in memory: it is submitted, with the writes behind it that waited for it
/// alone.
pub(super) fn write_prefetched(store: &NodeShared, wanted: &mut Wanted, clients: &mut Clients, ticket: &Ticket) {
    let (client, is_thread) = (ClientId::from(ticket), clients.are_of_thread());
    let Some(connection) = clients.find(client) else { return };
    connection.write_is_ready(ticket.sequence);
    while let Some(mut submission) = connection.take_ready_write() {
        if let Write::Command(command) = &submission.write
            && let Some(handle) = store.known().handle(submission.shard)
            && let Some(spec) = command.spec()
        {
            // The rows are in memory, so it is known how long the answer will be.
            let args = command.args();
            let answered = ExpectedReply::of(handle, spec, &args).bytes();
            let rewritten = expected_rewrite(handle, spec, &args);
            submission.ticket.reply_bytes = answered.max(rewritten);
            let scripts = usize::from(spec.does(behaviour::RUNS_SCRIPT));
            let promised = answered.max(connection.scripts.bytes_of(scripts));
            if promised > 0 {
                connection.promise(submission.ticket.sequence, promised);
            }
        }
        submission.write = prepared_by(is_thread, submission.write, submission.ticket.may_wait);
        wanted.writes.push(submission);
    }
}

/// The number of commands of a transaction for which the sizes of answers and stored values are looked up.
const LOOKED_UP_MAX: usize = 1024;
/// The number of keys of a request for which it is looked up whether their rows are in memory.
const CACHED_KEYS_MAX: usize = 256;

/// What is known of commands before they run.
#[derive(Default)]
struct Expected {
    /// The bytes of their answer, as far as known.
    answer: ExpectedReply,
    /// About how many bytes they store anew.
    rewritten_bytes: usize,
    /// How many keys of databases they look at to answer questions about all of them.
    walked_keys: u64,
    /// The number of them that run scripts.
    scripts: usize,
}

impl Expected {
    fn of(handle: &ShardHandle, commands: &[EncodedCommand]) -> Self {
        let mut expected = Self::default();
        for (n, command) in commands.iter().enumerate() {
            let Some(spec) = command.spec() else { continue };
            expected.scripts += usize::from(spec.does(behaviour::RUNS_SCRIPT));
            // For the other commands the sizes are not known.
            if n >= LOOKED_UP_MAX && !spec.does(behaviour::WALKS_DATABASE) {
                continue;
            }
            let args = command.args();
            expected.answer = expected.answer.and(ExpectedReply::of(handle, spec, &args));
            let rewritten = expected_rewrite(handle, spec, &args);
            expected.rewritten_bytes = expected.rewritten_bytes.saturating_add(rewritten);
            if spec.does(behaviour::WALKS_DATABASE) && walks_keys(&args) {
                let walked = handle.database_keys_in_slot(slot_of(args[1]));
                expected.walked_keys = expected.walked_keys.saturating_add(walked);
            }
        }
        expected.answer.unknown_rows += usize::from(commands.len() > LOOKED_UP_MAX);
        expected
    }

    /// Whether a transaction that writes may do that. The error is the text of the reply.
    fn check(&self) -> Result<(), request::Refusal> {
        request::check_reply(self.answer.known_bytes)?;
        request::check_scripts(self.scripts)?;
        request::check_walk(self.walked_keys)
    }
}

fn runs_script(command: &EncodedCommand) -> bool {
    command.does(behaviour::RUNS_SCRIPT)
}

/// The slots of a transaction's keys, including those that its scripts may use without declaring them, if there are several.
fn span_of(store: &NodeShared, transaction: &Transaction, commands: &[EncodedCommand]) -> Option<SlotSpan> {
    match commands.iter().any(runs_script) {
        true => span_of_scripts(store, transaction.slot()?).or(transaction.wider()),
        false => transaction.wider(),
    }
}

/// Keeps a request of a client that does not know clusters: another node makes it if this one stops leading.
pub(super) fn keep(turn: &mut Turn<'_>, ticket: &Ticket, kept: impl FnOnce() -> Kept) {
    let id = ticket.connection as usize;
    if !turn.requests.store.is_alone()
        && let Some(connection) = turn.clients.get_mut(id).filter(|connection| connection.is_of_database())
    {
        connection.forwarding().keep(ticket.sequence, kept());
    }
}

/// The commands of a transaction as its entry has them: scripts with their sources, and the rights of their user.
fn as_entry_has_them(turn: &Turn<'_>, id: usize, commands: Vec<EncodedCommand>, slot: Slot) -> Vec<EncodedCommand> {
    let user = turn.clients.get(id).and_then(|connection| connection.session.script_user());
    let of_entry = |command: EncodedCommand| {
        let user = user.filter(|_| runs_script(&command));
        let resolved = resolved(&turn.requests.store, command, slot);
        user.map(|user| script_as(&resolved, user)).unwrap_or(resolved)
    };
    commands.into_iter().map(of_entry).collect()
}

/// Answers a request with an error.
fn refuse(turn: &mut Turn<'_>, ticket: &Ticket, text: &str) -> Step {
    let mut reply = Reply::new(ticket.proto);
    reply.error(text);
    turn.clients.deliver(ticket, &reply.buf);
    Step::Next
}

/// What a transaction's client is to be told changes of: what it only reads is registered here, but for what its scripts read without
/// declaring it, which their run tells; of what goes through the log, applying it tells what it reads.
fn registered(
    connection: Option<&Connection>,
    handle: Option<&Arc<ShardHandle>>,
    commands: &[EncodedCommand],
    writes: bool,
) -> Registers {
    if let (Some(connection), Some(handle), false) = (connection, handle, writes) {
        let specs = commands.iter().filter_map(|command| Some((command.spec()?, command)));
        specs.for_each(|(spec, command)| track_declared(connection, handle, spec, &command.args()));
    }
    match writes || commands.iter().any(runs_script) {
        true => Registers::of(connection.and_then(|connection| connection.session.tracker())),
        false => Registers::Nothing,
    }
}

pub(super) fn transaction(turn: &mut Turn<'_>, id: usize, mut transaction: Transaction) -> Step {
    let slot = transaction.slot().unwrap_or(Slot(0));
    let known = turn.requests.store.known();
    let Some(shard) = known.shard_of(slot) else {
        return turn.not_here(id, slot, Consistency::Absolute, &NotHere::Refuse(Refusal::NoStore));
    };
    let keys = KeyHashes::from_slice(transaction.keys());
    let spec = transaction.spec();
    let request = Request { id, spec, args: &[b"exec"] };
    turn.note_use(id, spec, &keys);
    let Some(ticket) = turn.begin_write(request, ALL_KEYS, Effect::Unsettled, known.version) else {
        return Step::Stall;
    };
    if transaction.slot().is_none() {
        // No shard takes part: its commands over the whole store run at once.
        if let Some(connection) = turn.clients.get_mut(id) {
            connection.transaction = Some(RunningTransaction { sequence: ticket.sequence, transaction });
        }
        turn.clients.deliver(&ticket, b"*0\r\n");
        return Step::Next;
    }
    keep(turn, &ticket, || Kept::Transaction(Box::new(transaction.clone())));
    let commands = as_entry_has_them(turn, id, transaction.take_data(), slot);
    let (known, writes) = (turn.requests.store.known(), transaction.has_writes());
    let handle = known.handle(shard);
    let registers = registered(turn.clients.get(id), handle, &commands, writes);
    let handle = handle.filter(|handle| handle.leading());
    let expected = handle.map(|handle| Expected::of(handle, &commands)).unwrap_or_default();
    let wider = span_of(&turn.requests.store, &transaction, &commands);
    let reply_bytes = expected.answer.bytes().saturating_add(expected.rewritten_bytes);
    let ticket = Ticket { slot, wider, reply_bytes, registers, ..ticket };
    let watches = match handle {
        Some(handle) => handle.watches_now(transaction.watches()),
        None => transaction.watches().to_vec(),
    };
    // The shard makes its answer, of any length: in one step, where what it has read is to be registered first.
    let in_steps = !writes && transaction.is_of_shard() && registers == Registers::Nothing;
    if let Some(connection) = turn.clients.get_mut(id) {
        if in_steps {
            transaction.count(&connection.session, &*turn.requests.store);
        } else {
            connection.transaction = Some(RunningTransaction { sequence: ticket.sequence, transaction });
            let scripts = if writes { expected.scripts } else { 0 };
            let of_scripts = connection.scripts.bytes_of(scripts);
            connection.promise(ticket.sequence, expected.answer.known_bytes.max(of_scripts));
        }
    }
    if !writes {
        // A transaction that only reads does not go through the log: it reads one snapshot.
        let mut item = EntryBuilder::new();
        item.transaction(&watches, &commands);
        let command = EncodedCommand::of(spec, &[spec.name.as_bytes(), &item.seal(0)]);
        let (store, seed) = (turn.requests.store.clone(), turn.requests.next_seed());
        let handler = match in_steps {
            true => ReadHandler::Steps(node::read_transaction_in_steps),
            false => ReadHandler::Keys(node::read_transaction),
        };
        let read =
            move |attempt| DeferredGet { store, ticket, spec, command, handler, attempt, seed, held: Vec::new() };
        let asked = ReadRequest::new(slot, Consistency::Absolute, turn.requests.arrived_us).over(wider);
        let local = known.local(turn.requests.store.node(), Some(shard));
        match asked.begin(local, turn.now, || turn.requests.store.moment()) {
            Begin::Run(attempt) => turn.requests.wanted.reads.push(DeferredRead::Get(read(attempt.into()))),
            Begin::WaitForLease(_) | Begin::NotHere(_) => begin_patiently(&turn.requests.store, asked, ticket, read),
        }
        return Step::Next;
    }
    if let Err(text) = expected.check() {
        return refuse(turn, &ticket, &text);
    }
    let write = prepared_by(turn.clients.are_of_thread(), Write::Transaction { watches, commands }, false);
    turn.requests.store.write_queued(write.bytes());
    turn.requests.wanted.writes.push(Submission { shard, write, keys, ticket, waits_in: None });
    Step::Next
}
