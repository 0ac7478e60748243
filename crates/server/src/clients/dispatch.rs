//! Takes requests out of what clients have sent and runs each where its command table row says: in the session, on a
//! shard, on the whole store, or on a thread of the pool.
//!
//! Input that must wait stays in its connection, from its first unused byte on.

use super::connection::Connection;
use super::database_bounds::{count_again, of_other_node_within_rate, within_rate};
use super::destination;
use super::forward;
use super::in_pool;
use super::is_large::is_large;
use super::large_request::{Job, LargeRequest, is_about_all, put_back};
use super::learn::{self, is_of_unknown_script};
use super::login::{self, compare_passwords};
use super::look_ahead::LookAhead;
use super::monitor;
use super::publish;
use super::ran::{After, Collected, DelayedReply, Ran};
use super::read;
use super::registry::Clients;
use super::reply_queue::{ALL_KEYS, Effect};
use super::request::{Incoming, Request, Sent};
use super::script::{self, Script};
use super::store_setting::{HeldReply, set_for_store};
use super::stored_names::names_unknown_database;
use super::turn::{Requests, Step, Target, Turn, Wanted};
use super::write;
use crate::api::{KeyTarget, Routed, begin_wanted, route};
use crate::mailbox::Mailbox;
use crate::net::Received;
use crate::os::SteadyTime;
use crate::shared::NodeShared;
use node::blocking::BlockingCommand;
use node::config::CommandLogKind;
use node::session::{self, Admission, ClusterDatabases, DatabaseClient, DatabaseRequest, Host, Keyspace, Resolved};
use node::{Ticket, script_as};
use replica::Bytes;
use resp::table::{self, CommandSpec, behaviour, flag};
use resp::{Parsed, Reply, parse_request};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vocab::{Moment, Namespace, limits};

const CONNECTION_SPAN: Duration = Duration::from_micros(limits::CONNECTION_SPAN_US);
const REQUESTS_SPAN: Duration = Duration::from_micros(limits::REQUESTS_SPAN_US);

type Args<'a> = SmallVec<[&'a [u8]; 8]>;

/// Runs the requests of a worker's clients.
pub(crate) struct Dispatcher {
    requests: Requests,
    /// What was read from a socket.
    buffer: Vec<u8>,
    /// The reply of the request that runs.
    scratch: Reply,
    /// What takes up the requests of clients of databases; none while one of them runs.
    of_database: Option<Box<DatabaseRequest>>,
    look_ahead: LookAhead,
    delayed: Vec<DelayedReply>,
    /// Clients wanted other things than writes in this turn.
    served_others: bool,
}

/// The requests of one connection, run one after another.
struct Dispatch<'a> {
    turn: Turn<'a>,
    scratch: &'a mut Reply,
    of_database: &'a mut Option<Box<DatabaseRequest>>,
    look_ahead: &'a mut LookAhead,
    delayed: &'a mut Vec<DelayedReply>,
    served_others: &'a mut bool,
}

impl Dispatcher {
    pub(crate) fn new(worker: usize, store: Arc<NodeShared>, mailbox: Arc<Mailbox>) -> Self {
        Self {
            requests: Requests::new(worker, store, mailbox),
            buffer: vec![0; limits::READ_BUFFER_BYTES],
            scratch: Reply::default(),
            of_database: None,
            look_ahead: LookAhead::default(),
            delayed: Vec::new(),
            served_others: false,
        }
    }

    /// That of a thread for large requests.
    pub(super) fn of_thread(worker: usize, store: Arc<NodeShared>, mailbox: Arc<Mailbox>) -> Self {
        Self { buffer: Vec::new(), ..Self::new(worker, store, mailbox) }
    }

    /// A turn begins.
    pub(crate) fn begin_turn(&mut self) {
        let now = SteadyTime::now();
        (self.requests.clock, self.requests.turn_until) = (now, now + REQUESTS_SPAN);
    }

    /// Whether the requests of this turn have run for long enough.
    pub(crate) fn is_turn_over(&self) -> bool {
        self.requests.clock > self.requests.turn_until
    }

    /// Whether the turn has taken for so long by now that no more requests are to run.
    pub(crate) fn is_late(&self) -> bool {
        SteadyTime::now() > self.requests.turn_until
    }

    /// Runs a large request of the connection that the thread has.
    pub(super) fn run_large(&mut self, clients: &mut Clients, id: usize, request: LargeRequest) {
        let Self { requests, scratch, of_database, look_ahead, delayed, served_others, .. } = self;
        requests.pushed_bytes = 0;
        let turn = Turn { now: requests.store.moment(), requests, clients };
        Dispatch { turn, scratch, of_database, look_ahead, delayed, served_others }.run_large(id, request);
    }

    /// What the requests have left for the worker.
    pub(super) fn take_collected(&mut self) -> Collected {
        Collected {
            wanted: std::mem::take(&mut self.requests.wanted),
            delayed: std::mem::take(&mut self.delayed),
            served_others: std::mem::take(&mut self.served_others),
        }
    }

    /// What requests that ran on another thread have left.
    pub(super) fn add_collected(&mut self, collected: Collected) {
        let Collected { wanted, delayed, served_others } = collected;
        self.requests.wanted.add(wanted);
        self.delayed.extend(delayed);
        self.served_others |= served_others;
    }

    /// Reads what a client has sent and runs the requests in it.
    pub(crate) fn receive(&mut self, clients: &mut Clients, id: usize, now: Moment) {
        let Self { requests, buffer, scratch, of_database, look_ahead, delayed, served_others } = self;
        requests.pushed_bytes = 0;
        let turn = Turn { requests, clients, now };
        Dispatch { turn, scratch, of_database, look_ahead, delayed, served_others }.receive(id, buffer);
    }

    /// Begins those requests to all shards again whose shards were divided: a part may have been left out.
    pub(crate) fn clear_again(&mut self, clients: &mut Clients, now: Moment) {
        for ticket in clients.take_divided() {
            write::clear_shards(&mut Turn { requests: &mut self.requests, clients, now }, ticket);
        }
    }

    /// The rows that a pending write will find are in memory: it is submitted, with the writes behind it.
    pub(crate) fn write_prefetched(&mut self, clients: &mut Clients, ticket: &Ticket) {
        let Requests { store, wanted, .. } = &mut self.requests;
        write::write_prefetched(store, wanted, clients, ticket);
    }

    /// What requests have wanted since the last call.
    pub(crate) fn wanted(&mut self) -> &mut Wanted {
        &mut self.requests.wanted
    }

    /// Whether clients wanted other things than writes since the last call.
    pub(crate) fn take_served_others(&mut self) -> bool {
        std::mem::take(&mut self.served_others)
    }

    /// Sends the replies whose time has come; answers when the next one's will.
    pub(crate) fn send_delayed(&mut self, clients: &mut Clients) -> Option<Instant> {
        if self.delayed.is_empty() {
            return None;
        }
        let now = Instant::now();
        for DelayedReply { ticket, reply, .. } in self.delayed.extract_if(.., |delayed| delayed.at <= now) {
            clients.deliver(&ticket, &reply);
        }
        self.delayed.iter().map(|delayed| delayed.at).min()
    }
}

impl Dispatch<'_> {
    fn receive(&mut self, id: usize, buffer: &mut [u8]) {
        let Some(connection) = self.turn.clients.get_mut(id) else { return };
        if connection.is_put_off() {
            // Others come first.
            return;
        }
        connection.unstall();
        if connection.hung_up_waiting() || connection.gives_up_login(self.turn.now.wall_ms) {
            // As in Redis, a client that has closed its side waits no longer.
            return self.turn.clients.touch(id);
        }
        if connection.is_paused(self.turn.now.wall_ms) || connection.is_full() {
            return self.turn.clients.stall(id);
        }
        if !connection.input.is_empty() {
            // What stalled before goes first.
            let input = std::mem::take(&mut connection.input);
            if !self.run_kept(id, input) {
                return;
            }
        }
        let Some(connection) = self.turn.clients.get_mut(id) else { return };
        if !connection.can_be_read() {
            return;
        }
        if connection.is_cramped() {
            match self.turn.clients.lend(id, Job::Grow) {
                Ok(()) => return,
                Err(_) => self.turn.clients.get_mut(id).into_iter().for_each(Connection::grow_input),
            }
        }
        let Some(connection) = self.turn.clients.get_mut(id) else { return };
        match connection.receive(buffer) {
            Received::Closed => {
                connection.end_input();
                self.turn.clients.touch(id);
            }
            Received::Drained(n) => {
                // A short read means that there is no more, unless the end itself is still to be read.
                if connection.is_drained() {
                    self.turn.clients.set_ready(id);
                }
                self.take_in(id, &buffer[..n]);
            }
            Received::More(n) => {
                self.take_in(id, &buffer[..n]);
                self.turn.clients.set_ready(id);
            }
        }
    }

    fn take_in(&mut self, id: usize, bytes: &[u8]) {
        let Some(connection) = self.turn.clients.get_mut(id) else { return };
        if bytes.is_empty() {
            return;
        }
        self.turn.requests.store.stats.worker(self.turn.requests.worker).received(bytes.len());
        if connection.input.is_empty() {
            let Ran { used, next } = self.run_requests(id, bytes);
            match next {
                After::Large { ranges, typed, bytes: length } => {
                    let input = Bytes::copy_from_slice(&bytes[used..]);
                    return self.lend(id, LargeRequest { input, typed, ranges, bytes: length });
                }
                After::Others => self.turn.clients.go_on_later(id),
                After::Wait => {}
            }
            if let Some(connection) = self.turn.clients.get_mut(id)
                && used < bytes.len()
                && !connection.is_deaf()
            {
                connection.input.extend_from_slice(&bytes[used..]);
            }
        } else {
            let wanted = connection.parse.wanted();
            connection.input.extend_from_slice(bytes);
            if connection.input.len() < wanted {
                return;
            }
            let input = std::mem::take(&mut connection.input);
            self.run_kept(id, input);
        }
    }

    /// Runs requests in what was kept of a client's input; false if more of it is for later.
    fn run_kept(&mut self, id: usize, mut input: Vec<u8>) -> bool {
        let Ran { used, next } = self.run_requests(id, &input);
        match next {
            After::Large { ranges, typed, bytes } => {
                input.drain(..used);
                self.lend(id, LargeRequest { input: input.into(), typed, ranges, bytes });
                false
            }
            After::Others => {
                self.turn.clients.go_on_later(id);
                self.keep(id, input, used);
                false
            }
            After::Wait => {
                self.keep(id, input, used);
                true
            }
        }
    }

    /// Has the thread for large requests run one, unless it waits, or there is no such thread.
    fn lend(&mut self, id: usize, request: LargeRequest) {
        let Some(connection) = self.turn.clients.get_mut(id) else { return };
        if connection.is_full() || connection.is_paused(self.turn.now.wall_ms) || connection.waits() {
            put_back(connection, request);
            return self.turn.clients.stall(id);
        }
        if let Err(Job::Run(request)) = self.turn.clients.lend(id, Job::Run(request)) {
            self.run_large(id, request);
        }
    }

    /// Runs a large request. What follows it is left in the connection's input.
    fn run_large(&mut self, id: usize, request: LargeRequest) {
        self.turn.requests.arrive();
        // What the commands have of a long one shares its bytes.
        if request.typed.is_none() && request.input.len() > limits::ENTRY_BYTES_SOFT {
            self.set_frame(id, Some(request.input.clone()));
        }
        let text = request.typed.as_deref().unwrap_or(&request.input);
        let args: Args<'_> = request.ranges.iter().map(|range| &text[range.clone()]).collect();
        let step = self.request(id, &args, request.bytes);
        drop(args);
        self.set_frame(id, None);
        let Some(connection) = self.turn.clients.get_mut(id) else { return };
        match step {
            Step::Stall | Step::Lend => put_back(connection, request),
            Step::Next if connection.session.closing() => connection.hear_no_more(),
            Step::Next => connection.input = request.input[request.bytes..].to_vec(),
        }
    }

    fn set_frame(&mut self, id: usize, frame: Option<Bytes>) {
        if let Some(connection) = self.turn.clients.get_mut(id) {
            connection.session.set_frame(frame);
        }
    }

    /// Gives a connection back the bytes that were not used.
    fn keep(&mut self, id: usize, mut input: Vec<u8>, used: usize) {
        let Some(connection) = self.turn.clients.get_mut(id) else { return };
        if connection.is_deaf() || used == input.len() {
            return;
        }
        input.drain(..used);
        connection.input = input;
    }

    /// Runs the requests at the beginning of `input`, up to one that must wait; answers how many bytes they took.
    fn run_requests(&mut self, id: usize, input: &[u8]) -> Ran {
        let (mut used, mut unlooked) = (0, 0);
        self.look_ahead.begin();
        let wait = |used| Ran { used, next: After::Wait };
        let mut ranges: Vec<Range<usize>> = Vec::with_capacity(8);
        self.turn.clients.touch(id);
        // After the bytes were read: no request that is held against a lease came later.
        self.turn.requests.arrive();
        self.turn.requests.until = self.turn.requests.clock + CONNECTION_SPAN;
        let Some(connection) = self.turn.clients.get_mut(id) else { return wait(0) };
        connection.session.active(self.turn.now.wall_ms);
        let store = &self.turn.requests.store;
        let mut limits = store.config.request_limits(connection.session.authenticated(&**store));
        loop {
            if self.turn.requests.clock > self.turn.requests.until && used < input.len() {
                return Ran { used, next: After::Others };
            }
            let Some(connection) = self.turn.clients.get_mut(id) else { return wait(used) };
            if connection.session.closing() || connection.is_deaf() {
                connection.hear_no_more();
                return wait(input.len());
            }
            let rest = &input[used..];
            let parsed = parse_request(rest, &limits, &mut ranges, &mut connection.parse);
            let (step, typed, consumed) = match parsed {
                Ok(Parsed::Incomplete) => return wait(used),
                Ok(Parsed::Empty { consumed }) => {
                    used += consumed;
                    self.turn.look_at_clock(&mut unlooked, consumed);
                    continue;
                }
                Ok(Parsed::Request { consumed })
                    if is_large(ranges.len(), consumed)
                        || (connection.session.has_much() && is_about_all(connection, rest, &ranges)) =>
                {
                    (Step::Lend, None, consumed)
                }
                Ok(Parsed::Request { consumed }) => {
                    self.look_ahead.pass(&self.turn.requests.store, &connection.session, (rest, consumed), &limits);
                    let args: Args<'_> = ranges.iter().map(|r| &rest[r.clone()]).collect();
                    (self.request(id, &args, consumed), None, consumed)
                }
                Ok(Parsed::Quoted { consumed }) => {
                    // Typed by hand: copied, so that the parser may go on.
                    let typed = connection.parse.quoted().to_vec();
                    let args: Args<'_> = ranges.iter().map(|r| &typed[r.clone()]).collect();
                    let is_large = is_large(args.len(), consumed);
                    let step = if is_large { Step::Lend } else { self.request(id, &args, consumed) };
                    drop(args);
                    (step, Some(typed), consumed)
                }
                Err(e) => {
                    connection.end_for_its_bytes(&e);
                    return wait(input.len());
                }
            };
            match step {
                Step::Next => used += consumed,
                Step::Stall => return wait(used),
                Step::Lend => return Ran { used, next: After::Large { ranges, typed, bytes: consumed } },
            }
            self.turn.look_at_clock(&mut unlooked, consumed);
            if !limits.authenticated
                && let Some(connection) = self.turn.clients.get(id)
            {
                let store = &self.turn.requests.store;
                limits = store.config.request_limits(connection.session.authenticated(&**store));
            }
        }
    }

    /// A request as its client has sent it, in so many bytes.
    fn request(&mut self, id: usize, args: &[&[u8]], bytes: usize) -> Step {
        let Some(connection) = self.turn.clients.get_mut(id) else { return Step::Next };
        let row = session::authorize(&mut connection.session, table::resolve(args), args, &*self.turn.requests.store);
        // It is told so, and not what is wrong with its arguments.
        let (session, store) = (&connection.session, &*self.turn.requests.store);
        let is_let_in = |_: &Namespace| !row.as_ref().is_ok_and(|spec| session.shuts_out(spec, store));
        match session.asked_keyspace().namespace().filter(is_let_in) {
            Some(namespace) => {
                let in_multi = session.in_multi();
                self.request_of_namespace(id, (Some(namespace), in_multi), row, (args, bytes))
            }
            None if session.keyspace() == Keyspace::Stored => {
                let (row, counted) = of_other_node_within_rate(store, row, args);
                let step = self.run(id, row, Incoming { args, bytes, sent: None });
                count_again(&self.turn.requests.store, counted, &step);
                step
            }
            None => {
                let is_early = row.as_ref().is_ok_and(|spec| {
                    session.keyspace() == Keyspace::Cluster
                        && !session.shuts_out(spec, store)
                        && names_unknown_database(spec, args, store)
                });
                match if is_early { store.cluster_databases() } else { ClusterDatabases::Begun } {
                    ClusterDatabases::Begun => self.run(id, row, Incoming { args, bytes, sent: None }),
                    ClusterDatabases::Awaited => {
                        begin_wanted(&self.turn.requests.store);
                        self.turn.stall(id)
                    }
                    ClusterDatabases::Refused(text) => self.run(id, Err(text), Incoming { args, bytes, sent: None }),
                }
            }
        }
    }

    /// The same of a client of a database, or of a cluster's client that has chosen another one than 0, or names another one.
    fn request_of_namespace(
        &mut self,
        id: usize,
        (namespace, in_multi): (Option<Namespace>, bool),
        row: Resolved,
        (args, bytes): (&[&[u8]], usize),
    ) -> Step {
        let mut made = self.of_database.take().unwrap_or_default();
        let number = namespace.map_or(0, Namespace::number);
        let sent = row.as_ref().ok().map(|spec| Sent { database: number, spec, args });
        let (row, counted) = {
            let store = &self.turn.requests.store;
            let known = store.known();
            let (databases, row_of) = match namespace {
                Some(Namespace::Database(database)) => (store.config.databases(), Some(database)),
                _ => (store.config.cluster_databases(), None),
            };
            let client = DatabaseClient { namespace, databases, set: &known.databases, in_multi };
            let bounds = row_of.and_then(|database| Some((database, client.set.row(database)?)));
            let (row, counted) = within_rate(store, bounds, row);
            let taken_up = |spec| made.take_up(client, spec, args).map_err(std::borrow::Cow::into_owned);
            (row.and_then(taken_up), counted)
        };
        let step = match row {
            Ok(spec) => self.run(id, Ok(spec), Incoming { args: &made.args(args), bytes, sent }),
            Err(text) => self.run(id, Err(text), Incoming { args, bytes, sent }),
        };
        count_again(&self.turn.requests.store, counted, &step);
        *self.of_database = Some(made);
        step
    }

    /// A request that names keys as they are stored.
    fn run(&mut self, id: usize, row: Resolved, Incoming { args, bytes, sent }: Incoming<'_>) -> Step {
        let Some(mut connection) = self.turn.clients.get_mut(id) else { return Step::Next };
        if connection.is_full() || connection.is_paused(self.turn.now.wall_ms) || connection.waits() {
            return self.turn.stall(id);
        }
        let mut store = &self.turn.requests.store;
        // EXEC and WATCH change the session when they are admitted: only when nothing before them is under way.
        let spec = row.as_ref().ok().copied();
        let behaviour = spec.map_or(0, |spec| spec.behaviour);
        if behaviour & (ORDERED | behaviour::TO_DATABASE | behaviour::ABOUT_NODE) != 0 {
            let step = self.put_off(id, behaviour).or_else(|| self.run_across(id, spec, (args, bytes)));
            if let Some(step) = step {
                return step;
            }
            match self.turn.clients.get_mut(id) {
                Some(again) => (connection, store) = (again, &self.turn.requests.store),
                None => return Step::Next,
            }
        }
        let mut reply = std::mem::take(self.scratch);
        reply.buf.clear();
        reply.proto = connection.session.proto();
        let hot = store.hot_keys.is_on().then(SteadyTime::now);
        let was_in_multi = connection.session.in_multi();
        let admission = session::admit(&mut connection.session, row, args, &**store, &mut reply);
        *self.served_others |= !matches!(admission, Admission::Execute(spec) if spec.is_write());
        if behaviour & behaviour::ENDS_WATCHES != 0
            && !matches!(admission, Admission::Transaction(_) | Admission::Hold { .. })
            // EXEC without MULTI changes nothing.
            && (was_in_multi || !reply.buf.starts_with(b"-"))
        {
            connection.end_watches_elsewhere();
        }
        let step = match admission {
            Admission::Execute(spec) => self.execute(Request { id, spec, args }, &mut reply),
            Admission::Answered(effect) => {
                self.answered(id, spec, args, effect, &reply);
                if !spec.is_some_and(|spec| spec.has(flag::FAST)) {
                    self.turn.requests.clock = SteadyTime::now();
                }
                Step::Next
            }
            Admission::ExecuteAt { spec, slot, handler } => {
                let shard = store.known().shard_of(slot);
                let target = Target { shard, slot, wider: None, mask: ALL_KEYS };
                read::read(&mut self.turn, Request { id, spec, args }, target, handler, &mut reply)
            }
            Admission::Watch { spec, keys } => destination::watch(&mut self.turn, id, spec, keys, &mut reply),
            Admission::Transaction(transaction) => {
                destination::transaction(&mut self.turn, id, transaction, &mut reply)
            }
            Admission::Publish { spec, kind } => {
                publish::publish(&mut self.turn, Request { id, spec, args }, kind, &mut reply)
            }
            Admission::WaitFor(wait) => destination::wait_for(&mut self.turn, id, wait, args),
            Admission::Hold { until_ms } => {
                compare_passwords(store);
                begin_wanted(store);
                connection.pause_until(until_ms);
                let logs_in = behaviour & behaviour::LOGS_IN != 0;
                connection.slow_login(logs_in && login::is_slowed(store, &connection.session, self.turn.now.wall_ms));
                *self.scratch = reply;
                return self.turn.stall(id);
            }
        };
        self.note(Incoming { args, bytes, sent }, (id, spec), (&step, hot, reply.buf.len()));
        // A large answer leaves no large buffer behind.
        if reply.buf.capacity() > limits::OUTPUT_BUFFER_BYTES_SOFT {
            reply.buf = Vec::new();
        }
        *self.scratch = reply;
        step
    }

    /// Notes a request that was admitted, unless it is looked at again, and how many bytes were answered at once.
    fn note(
        &mut self,
        Incoming { args, bytes, sent }: Incoming<'_>,
        (id, spec): (usize, Option<&'static CommandSpec>),
        (step, hot, answered): (&Step, Option<SteadyTime>, usize),
    ) {
        if let Some(connection) = self.turn.clients.get_mut(id) {
            match step {
                Step::Stall | Step::Lend => connection.session.put_back(),
                Step::Next => {
                    connection.end_wait();
                    let store = &*self.turn.requests.store;
                    if let Some(discarded) = connection.session.take_discarded() {
                        store.pool.run(Box::new(move || drop(discarded)));
                    }
                    let threshold = store.config.command_log_threshold(CommandLogKind::LargeRequest);
                    if let Some(spec) = spec.filter(|_| threshold.is_some_and(|threshold| bytes as u64 >= threshold)) {
                        session::note_large(connection.session.entry(), spec, args, bytes, store);
                    }
                }
            }
        }
        if let Some(spec) = spec.filter(|_| matches!(step, Step::Next)) {
            self.show(id, sent.unwrap_or(Sent { database: 0, spec, args }), spec);
            self.turn.note_hot(Request { id, spec, args }, hot, bytes + answered);
        }
    }

    /// What becomes of a request that does not run here and now: it waits for those before it, or is for the thread.
    fn put_off(&mut self, id: usize, behaviour: u64) -> Option<Step> {
        let connection = self.turn.clients.get(id)?;
        if is_early(connection, &self.turn.requests.store, behaviour) {
            return Some(self.turn.stall(id));
        }
        let is_about_node = behaviour & behaviour::ABOUT_NODE != 0 && !connection.session.in_multi();
        (is_about_node && self.turn.clients.may_lend()).then_some(Step::Lend)
    }

    /// COPY and MOVE of a cluster's client in database 0, to another one; none: it is another request.
    #[cold]
    fn run_across(
        &mut self,
        id: usize,
        spec: Option<&'static CommandSpec>,
        (args, bytes): (&[&[u8]], usize),
    ) -> Option<Step> {
        let spec = spec.filter(|spec| spec.does(behaviour::TO_DATABASE))?;
        let connection = self.turn.clients.get_mut(id)?;
        let (store, session) = (&self.turn.requests.store, &connection.session);
        let number = session::other_number(spec, args).filter(|number| *number != 0)?;
        let is_one = session.asked_keyspace() == Keyspace::Cluster && session.authenticated(&**store);
        if !is_one || store.chosen_of_cluster(number).is_none() {
            return None;
        }
        match store.cluster_databases() {
            ClusterDatabases::Begun => {}
            ClusterDatabases::Awaited => {
                begin_wanted(store);
                return Some(self.turn.stall(id));
            }
            ClusterDatabases::Refused(_) => return None,
        }
        let in_multi = session.in_multi();
        Some(self.request_of_namespace(id, (None, in_multi), Ok(spec), (args, bytes)))
    }

    /// Shows others what a client has sent, for which `run` was run.
    fn show(&mut self, id: usize, sent: Sent<'_>, run: &'static CommandSpec) {
        monitor::show(&mut self.turn, sent.database, Request { id, spec: sent.spec, args: sent.args });
        if sent.spec.id != run.id
            && let Some(connection) = self.turn.clients.get(id)
        {
            connection.session.entry().shows(sent.spec.id);
        }
    }

    /// Puts the reply of a request that is not run now in its place: behind the learning of a script, where MULTI has queued one.
    fn answered(
        &mut self,
        id: usize,
        spec: Option<&'static CommandSpec>,
        args: &[&[u8]],
        effect: session::Effect,
        reply: &Reply,
    ) {
        let is_queued = |connection: &Connection| connection.session.in_multi() && !connection.session.was_rejected();
        let script = spec.filter(|spec| spec.does(behaviour::RUNS_SCRIPT));
        match script.filter(|_| self.turn.clients.get(id).is_some_and(is_queued)) {
            Some(spec) if is_of_unknown_script(&self.turn.requests.store, spec, args) => {
                learn::learn_queued(&mut self.turn, Request { id, spec, args }, reply);
            }
            _ => self.put_after(id, effect, reply),
        }
    }

    /// Puts the reply of a command of the session in its place, and does what the session asks.
    fn put_after(&mut self, id: usize, effect: session::Effect, reply: &Reply) {
        match effect {
            session::Effect::None => self.turn.clients.put(id, &reply.buf),
            session::Effect::ReplyAfter { us, command } => {
                let spec = table::row(command);
                // Later requests of the connection wait too, as behind any request on every key.
                let (request, at) = (Request { id, spec, args: &[] }, self.turn.requests.clock);
                if let Some(ticket) = self.turn.clients.register(request, ALL_KEYS, Effect::Unsettled, at) {
                    let at = Instant::now() + Duration::from_micros(us);
                    self.delayed.push(DelayedReply { at, ticket, reply: reply.buf.clone() });
                }
                if let Some(connection) = self.turn.clients.get_mut(id) {
                    connection.pause_until(self.turn.now.wall_ms + us / 1000);
                }
            }
            session::Effect::ReplyOnceKnown { command } => {
                let spec = table::row(command);
                let (request, at) = (Request { id, spec, args: &[] }, self.turn.requests.clock);
                if let Some(ticket) = self.turn.clients.register(request, ALL_KEYS, Effect::Unsettled, at) {
                    self.turn.confirm(ticket, reply.buf.clone());
                }
            }
            session::Effect::ReplyOnceStored { command, setting } => {
                let spec = table::row(command);
                let (request, at) = (Request { id, spec, args: &[] }, self.turn.requests.clock);
                if let Some(ticket) = self.turn.clients.register(request, ALL_KEYS, Effect::Unsettled, at) {
                    let held = HeldReply { ticket, reply: reply.buf.clone() };
                    set_for_store(&self.turn.requests.store, setting, Some(held));
                }
            }
            session::Effect::Shutdown { .. } => {
                self.turn.requests.store.stop_asked.store(true, Ordering::Release);
                if let Some(connection) = self.turn.clients.get_mut(id) {
                    connection.session.close();
                }
            }
        }
    }

    fn execute(&mut self, request: Request<'_>, reply: &mut Reply) -> Step {
        let Request { id, spec, args } = request;
        if let Some(text) = BlockingCommand::refusal(spec, args) {
            return self.refuse(request, text, reply);
        }
        if let Some(slot) = destination::slot_elsewhere(&self.turn, request) {
            return forward::command(&mut self.turn, request, slot);
        }
        let routed = route(&self.turn.requests.store, spec, args);
        if let Ok(Routed::Read(KeyTarget { keys, .. }, _) | Routed::Write(KeyTarget { keys, .. })) = &routed {
            self.turn.note_use(id, spec, keys);
        }
        match routed {
            Ok(Routed::Read(at, _) | Routed::Write(at)) if BlockingCommand::is_one(spec, args) => {
                let target = Target::of(&at, ALL_KEYS);
                write::write(&mut self.turn, request, target, at.keys)
            }
            Ok(Routed::Read(at, handler)) => {
                let target = Target::of_command(spec, &at);
                read::read(&mut self.turn, request, target, handler, reply)
            }
            Ok(Routed::Write(at)) => {
                let target = Target::of_command(spec, &at);
                write::write(&mut self.turn, request, target, at.keys)
            }
            Ok(Routed::Script { target: at, command, runs }) => {
                let user = self.turn.clients.get(id).and_then(|connection| connection.session.script_user());
                let command = user.map(|user| script_as(&command, user)).unwrap_or(command);
                // It may touch keys that it does not declare.
                let (target, keys) = (Target::of(&at, ALL_KEYS), at.keys);
                script::run(&mut self.turn, request, target, Script { command, keys, runs }, reply)
            }
            Ok(Routed::Store { handler, slot }) => {
                if let Some(step) = slot.and_then(|slot| self.turn.elsewhere(request, slot)) {
                    return step;
                }
                in_pool::on_store(&mut self.turn, request, handler)
            }
            Ok(Routed::Pool { handler }) => in_pool::run(&mut self.turn, request, handler),
            Ok(Routed::UnknownScript) => learn::learn_first(&mut self.turn, request, reply),
            Ok(Routed::Clear) => write::clear(&mut self.turn, request),
            Err(text) => self.refuse(request, &text, reply),
        }
    }

    /// Answers an error of a request that is not run.
    fn refuse(&mut self, request: Request<'_>, text: &str, reply: &mut Reply) -> Step {
        let Request { id, spec, .. } = request;
        if let Some(connection) = self.turn.clients.get_mut(id) {
            connection.session.reject(Some(spec.id), text, &*self.turn.requests.store, reply);
        }
        self.turn.clients.put_unless_silent(id, &reply.buf);
        Step::Next
    }
}

/// What of a command's behaviour makes it wait for requests before it on its connection.
const ORDERED: u64 = behaviour::BARRIER | behaviour::ALONE | behaviour::AFTER_WRITES;

/// Whether a request waits for requests before it on its connection, or for room.
fn is_early(connection: &Connection, store: &NodeShared, behaviour: u64) -> bool {
    let does = |bits: u64| behaviour & bits != 0;
    (does(behaviour::BARRIER | behaviour::ALONE) && !connection.is_quiet())
        || (does(behaviour::BARRIER) && store.is_full())
        || (does(behaviour::AFTER_WRITES) && connection.must_wait(ALL_KEYS, Effect::Read))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::clients::tick;
    use crate::mailbox::Mailbox;
    use crate::net::Stream;
    use crate::testing::TestNode;
    use mio::{Poll, Waker};
    use std::fmt::Write as _;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use vocab::Database;

    /// One client of a worker of its own, over a running node's store. The worker's owners are the test: what requests want
    /// of them is looked at instead of done.
    struct Client {
        poll: Poll,
        clients: Clients,
        dispatcher: Dispatcher,
        socket: TcpStream,
    }

    impl Client {
        fn connect(node: &TestNode, keyspace: Keyspace) -> Self {
            let poll = Poll::new().unwrap();
            let mailbox = Mailbox::new(Waker::new(poll.registry(), mio::Token(0)).unwrap());
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().unwrap();
            stream.set_nonblocking(true).unwrap();
            let store = node.store().clone();
            let mut clients = Clients::new(0, store.clone());
            clients.connect(Stream::plain(stream), keyspace, poll.registry(), store.now_ms());
            Self { poll, clients, dispatcher: Dispatcher::new(0, store, mailbox), socket }
        }

        fn id(&self) -> usize {
            self.clients.ids()[0]
        }

        /// Lets the dispatcher look at the connection until it has nothing more to read.
        fn look(&mut self) {
            self.clients.unstall_all();
            let (id, now) = (self.id(), self.dispatcher.requests.store.moment());
            self.dispatcher.receive(&mut self.clients, id, now);
            while self.clients.has_ready() {
                let mut ready = self.clients.take_ready();
                while self.clients.next_ready(&mut ready).is_some() {
                    self.dispatcher.receive(&mut self.clients, id, now);
                }
            }
        }

        /// The client sends bytes.
        fn send(&mut self, bytes: &[u8]) {
            self.socket.write_all(bytes).unwrap();
            let id = self.id();
            while !self.clients.get(id).unwrap().stream().has_input().unwrap() {
                std::thread::yield_now();
            }
            self.clients.get_mut(id).unwrap().notice(true, false);
            self.look();
        }

        /// The oldest write that waits for the log is made, and answered so.
        fn answer_write(&mut self, reply: &[u8]) {
            let submission = self.dispatcher.wanted().writes.remove(0);
            self.clients.deliver(&submission.ticket, reply);
            self.look();
        }

        /// Output so far (taken), what is wanted, and how the connection stands.
        fn state(&mut self) -> String {
            let id = self.id();
            let wanted = self.dispatcher.wanted();
            let (writes, reads, leases) = (wanted.writes.len(), wanted.reads.len(), wanted.leases.len());
            let served_others = self.dispatcher.take_served_others();
            let connection = self.clients.get_mut(id).unwrap();
            let output = String::from_utf8(connection.output.take_all()).unwrap();
            let mut state = output.replace("\r\n", " ");
            for (count, what) in [(writes, "writes"), (reads, "reads"), (leases, "leases")] {
                if count > 0 {
                    write!(state, "| {count} {what} ").unwrap();
                }
            }
            for (is_so, what) in [
                (!connection.is_quiet(), "under way"),
                (connection.is_stalled(), "stalled"),
                (!connection.input.is_empty(), "input left"),
                (connection.is_deaf(), "deaf"),
                (served_others, "others served"),
            ] {
                if is_so {
                    write!(state, "| {what} ").unwrap();
                }
            }
            state.trim_end().to_owned()
        }
    }

    #[test]
    fn who_waits_gives_back_its_room_behind_the_second_tick() {
        let node = TestNode::start(&[]);
        let mut client = Client::connect(&node, Keyspace::Cluster);
        client.send("SET a 1\r\n".repeat(20).as_bytes());
        (0..20).for_each(|_| client.answer_write(b"+OK\r\n"));
        client.state();
        let (id, now_ms) = (client.id(), node.store().now_ms());
        client.send(b"BLPOP list 0\r\n");
        let Client { clients, dispatcher, .. } = &mut client;
        let ticket = clients.get(id).unwrap().blocking().unwrap().ticket();
        dispatcher.write_prefetched(clients, &ticket);
        let mut rooms = vec![clients.get(id).unwrap().room()];
        clients.waits(&ticket);
        for _ in 0..4 {
            rooms.push(clients.get(id).unwrap().room());
            tick(clients, now_ms);
        }
        assert!(rooms[0] > rooms[1], "the room of the write that waited for its rows: {rooms:?}");
        assert!(rooms[1] == rooms[2] && rooms[2] > 1 && rooms[3..] == [1, 1], "one request is under way: {rooms:?}");
        client.answer_write(b"*-1\r\n");
        assert_eq!(client.state(), "*-1 | 1 reads", "its rows were asked for once");
    }

    /// What the client sends, or `WRITTEN reply`: the oldest write under way is answered.
    fn run(node: &TestNode, steps: &[(&str, &str)]) {
        run_as(node, Keyspace::Cluster, steps);
    }

    fn run_as(node: &TestNode, keyspace: Keyspace, steps: &[(&str, &str)]) {
        let mut client = Client::connect(node, keyspace);
        for (n, (step, expected)) in steps.iter().enumerate() {
            match step.strip_prefix("WRITTEN ") {
                Some(reply) => client.answer_write(format!("{reply}\r\n").as_bytes()),
                None => client.send(step.as_bytes()),
            }
            assert_eq!(client.state(), *expected, "step {n} of {steps:?}");
        }
        drop(client.poll);
    }

    #[test]
    fn requests_are_taken_out_of_bytes_and_run_where_their_row_says() {
        let node = TestNode::start(&[]);
        node.call("SET there 7");
        // How bytes become requests.
        run(&node, &[("PING\r\n", "+PONG | others served")]);
        run(&node, &[("*1\r\n$4\r\nPI", "| input left"), ("NG\r\n", "+PONG | others served")]);
        run(&node, &[("PING\r\nPING\r\nPI", "+PONG +PONG | input left | others served")]);
        run(&node, &[("*1\r\n:1\r\nPING\r\n", "-ERR Protocol error: expected '$', got ':' | deaf")]);
        run(&node, &[("QUIT\r\nPING\r\n", "+OK | deaf | others served")]);
        run(&node, &[("SET \"a\" 'b'\r\n", "| 1 writes | under way"), ("WRITTEN +OK", "+OK")]);
        // Where they run.
        run(&node, &[("GET there\r\n", "$1 7 | others served"), ("GET none\r\n", "$-1 | others served")]);
        run(&node, &[("NOSUCH\r\n", "-ERR unknown command 'NOSUCH', with args beginning with:  | others served")]);
        run(&node, &[("MSET a 1 b 2\r\n", "-CROSSSLOT Keys in request don't hash to the same slot")]);
        run(&node, &[("FLUSHALL NOW\r\n", "-ERR syntax error")]);
        run(
            &node,
            &[
                ("FLUSHALL\r\n", "| 2 writes | under way"),
                ("WRITTEN +OK", "| 1 writes | under way"),
                ("WRITTEN +OK", "+OK"),
            ],
        );
    }

    #[test]
    fn a_client_of_a_database_is_closed_when_it_is_unknown_what_has_become_of_its_request() {
        const UNKNOWN: &str = "WRITTEN -ERR the outcome of this write is unknown: the disk is gone";
        let told = UNKNOWN.strip_prefix("WRITTEN ").unwrap();
        let node = TestNode::start(&[]);
        let database = Keyspace::Database(Database::of_number(0).unwrap());
        // What was sent before it is answered, and what was sent behind it is not.
        let pipeline = "SET a 1\r\nSET b 1\r\nSET c 1\r\n";
        run_as(
            &node,
            database,
            &[
                (pipeline, "| 3 writes | under way"),
                ("WRITTEN +OK", "+OK | 2 writes | under way"),
                (UNKNOWN, "| 1 writes | deaf"),
                ("WRITTEN +OK", "| deaf"),
            ],
        );
        run_as(
            &node,
            database,
            &[
                ("MULTI\r\nSET a 1\r\nEXEC\r\n", "+OK +QUEUED | 1 writes | under way | others served"),
                (UNKNOWN, "| deaf"),
            ],
        );
        // Clients that know what to make of it are told: those of the cluster, and who uses Basalt's own commands.
        run_as(&node, database, &[("KV.PUT a 1\r\n", "| 1 writes | under way"), (UNKNOWN, told)]);
        run(&node, &[("SET a 1\r\n", "| 1 writes | under way"), (UNKNOWN, told)]);
    }

    #[test]
    fn answers_keep_the_order_of_requests_and_requests_on_a_key_their_own() {
        let node = TestNode::start(&[]);
        // A read of another key is made at once; its answer waits for the write's.
        run(&node, &[("SET a 1\r\nGET b\r\n", "| 1 writes | under way | others served"), ("WRITTEN +OK", "+OK $-1")]);
        // A read of the same key waits, and what is behind it.
        run(
            &node,
            &[
                ("SET a 1\r\nGET a\r\nPING\r\n", "| 1 writes | under way | stalled | input left | others served"),
                ("WRITTEN +OK", "+OK $-1 +PONG | others served"),
            ],
        );
        // Writes of one key are submitted one behind the other.
        run(
            &node,
            &[
                ("SET a 1\r\nSET a 2\r\n", "| 2 writes | under way"),
                ("WRITTEN +OK", "+OK | 1 writes | under way"),
                ("WRITTEN +OK", "+OK"),
            ],
        );
        // A message follows the writes before it, and nothing waits for it.
        run(
            &node,
            &[
                ("SET a 1\r\nPUBLISH news x\r\n", "| 1 writes | under way | stalled | input left"),
                ("WRITTEN +OK", "+OK :0 | others served"),
                ("PUBLISH news x\r\nSET a 1\r\n", ":0 | 1 writes | under way | others served"),
                ("SUBSCRIBE news\r\n", "| 1 writes | under way | stalled | input left"),
                ("WRITTEN +OK", "+OK *3 $9 subscribe $4 news :1 | others served"),
                ("PING\r\n", "*2 $4 pong $0  | others served"),
            ],
        );
        // EXEC changes the session: it waits for what is under way.
        run(
            &node,
            &[
                ("MULTI\r\nSET a 1\r\nEXEC\r\n", "+OK +QUEUED | 1 writes | under way | others served"),
                ("PING\r\n", "| 1 writes | under way | others served"),
            ],
        );
        run(
            &node,
            &[
                (
                    "SET a 1\r\nMULTI\r\nSET a 2\r\nEXEC\r\n",
                    "| 1 writes | under way | stalled | input left | others served",
                ),
                ("WRITTEN +OK", "+OK +OK +QUEUED | 1 writes | under way | others served"),
            ],
        );
    }
}
