//! The connected clients, as other connections see them: CLIENT LIST, KILL and PAUSE.

use crate::acl::DEFAULT_USER;
use crate::subscriber::Subscriber;
use parking_lot::{Mutex, MutexGuard};
use resp::Proto;
use resp::table::{self, CommandId};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};

const NO_COMMAND: u16 = u16::MAX;

/// What a client has told about itself.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// CLIENT SETNAME.
    pub name: String,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: String,
    /// CLIENT SETINFO LIB-VER.
    pub lib_ver: String,
}

/// States of a connection that CLIENT LIST shows; bits of `ClientEntry::has`.
pub(super) mod state {
    pub(in crate::session) const MULTI: u32 = 1;
    pub(in crate::session) const CLOSING: u32 = 1 << 1;
    pub(in crate::session) const READONLY: u32 = 1 << 2;
    pub(in crate::session) const NO_EVICT: u32 = 1 << 3;
    pub(in crate::session) const NO_TOUCH: u32 = 1 << 4;
    pub(in crate::session) const RESP3: u32 = 1 << 5;
    pub(in crate::session) const PUBSUB: u32 = 1 << 10;
    pub(in crate::session) const MONITOR: u32 = 1 << 14;
    pub(in crate::session) const TRACKING: u32 = 1 << 11;
    pub(in crate::session) const BROKEN_REDIRECT: u32 = 1 << 12;
    pub(in crate::session) const BROADCAST: u32 = 1 << 13;
    pub(in crate::session) const OF_NODE: u32 = 1 << 15;
}

/// One connection. Only its own thread writes the figures; any may read them.
#[derive(Debug)]
pub struct ClientEntry {
    /// The client's number, which is never used again.
    pub id: u64,
    /// The client's address and port.
    pub addr: String,
    /// The address and port that it connected to.
    pub laddr: String,
    /// The worker that owns it.
    pub worker: usize,
    /// When it connected, in ms since the epoch.
    pub connected_ms: u64,
    about: Mutex<About>,
    /// The name of its user.
    user: Mutex<Arc<str>>,
    killed: AtomicBool,
    /// Whether CLIENT PAUSE keeps its request waiting.
    held: AtomicBool,
    /// Its place among its worker's connections, and its generation there.
    place: AtomicU64,
    /// The client that is told of invalidations instead: 0 for none, -1 without tracking.
    redirect: AtomicI64,
    /// While it waits in a blocking command: its place among its worker's connections plus one; else 0.
    blocked_at: AtomicUsize,
    states: AtomicU32,
    last_active_ms: AtomicU64,
    last_command: AtomicU16,
    /// The number of its database.
    database: AtomicU16,
    queued: AtomicI64,
    commands: AtomicU64,
    /// How many names it has subscribed to, by kind.
    subscriptions: [AtomicU32; 3],
    query_bytes: AtomicU64,
    output_bytes: AtomicU64,
    queued_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

/// The memory of a connection, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Requests without an answer yet.
    pub query_bytes: u64,
    /// Answers that the client has not read.
    pub output_bytes: u64,
    /// Commands that MULTI has queued.
    pub queued_bytes: u64,
    /// The sum of these, of watched keys, and of the free parts of buffers.
    pub total_bytes: u64,
}

impl ClientEntry {
    /// What the client has told about itself.
    pub fn about(&self) -> MutexGuard<'_, About> {
        self.about.lock()
    }

    /// The name of its user.
    #[must_use]
    pub fn user(&self) -> Arc<str> {
        self.user.lock().clone()
    }

    pub(super) fn set_user(&self, name: Arc<str>) {
        *self.user.lock() = name;
    }

    /// The client's address without its port, if it has one.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.addr.parse::<SocketAddr>().ok().map(|address| address.ip())
    }

    /// Whether another client has asked to close it.
    #[must_use]
    pub fn killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// What its connection takes of memory, as of the last report.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }

    /// Whether it may be closed to save memory: CLIENT NO-EVICT.
    #[must_use]
    pub fn may_be_evicted(&self) -> bool {
        !self.has(state::NO_EVICT)
    }

    /// Whether it waits in a blocking command.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.blocked_at.load(Ordering::Acquire) > 0
    }

    pub(super) fn set_database(&self, number: u16) {
        self.database.store(number, Ordering::Relaxed);
    }

    /// Sets the place and generation at which its worker finds it.
    pub(super) fn set_place(&self, connection: u32, generation: u32) {
        self.place.store(u64::from(connection) << 32 | u64::from(generation), Ordering::Release);
    }

    /// The place and generation at which its worker finds it.
    #[must_use]
    pub fn subscriber(&self) -> Subscriber {
        let place = self.place.load(Ordering::Acquire);
        Subscriber { worker: self.worker as u32, connection: (place >> 32) as u32, generation: place as u32 }
    }

    /// The client that is told of invalidations instead: 0 for none, -1 without tracking.
    pub(super) fn set_redirect(&self, client: i64) {
        self.redirect.store(client, Ordering::Relaxed);
    }

    pub(super) fn set(&self, bit: u32, on: bool) {
        let states = self.states.load(Ordering::Relaxed);
        self.states.store(if on { states | bit } else { states & !bit }, Ordering::Relaxed);
    }

    pub(super) fn has(&self, bit: u32) -> bool {
        self.states.load(Ordering::Relaxed) & bit != 0
    }

    pub(super) fn active(&self, now_ms: u64) {
        self.last_active_ms.store(now_ms, Ordering::Relaxed);
    }

    /// When it last sent something, in ms since the epoch.
    #[must_use]
    pub fn last_active_ms(&self) -> u64 {
        self.last_active_ms.load(Ordering::Relaxed)
    }

    pub(super) fn began(&self, command: CommandId) {
        self.last_command.store(command.0, Ordering::Relaxed);
        self.commands.store(self.commands.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Begins to run another command than the client has sent, or none: other clients are shown the sent one.
    pub fn shows(&self, sent: CommandId) {
        self.last_command.store(sent.0, Ordering::Relaxed);
    }

    pub(super) fn put_back(&self) {
        self.commands.store(self.commands.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
    }

    pub(super) fn set_subscriptions(&self, [channels, patterns, of_slots, plain]: [usize; 4]) {
        let counts = [channels, patterns, of_slots + plain];
        let both = self.subscriptions.iter().zip(counts);
        both.for_each(|(own, count)| own.store(u32::try_from(count).unwrap_or(u32::MAX), Ordering::Relaxed));
    }

    /// Whether another node is behind it, for one of its clients.
    #[must_use]
    pub fn is_of_node(&self) -> bool {
        self.has(state::OF_NODE)
    }

    /// Whether it has subscribed to anything.
    #[must_use]
    pub fn is_subscriber(&self) -> bool {
        self.has(state::PUBSUB)
    }

    pub(super) fn set_queued(&self, commands: Option<usize>) {
        self.queued.store(commands.map_or(-1, |n| n as i64), Ordering::Relaxed);
    }

    pub(super) fn set_query_bytes(&self, bytes: u64) {
        self.query_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn set_buffers(&self, buffers: Buffers) {
        self.query_bytes.store(buffers.query_bytes, Ordering::Relaxed);
        self.output_bytes.store(buffers.output_bytes, Ordering::Relaxed);
        self.queued_bytes.store(buffers.queued_bytes, Ordering::Relaxed);
        self.total_bytes.store(buffers.total_bytes, Ordering::Relaxed);
    }

    /// The connection's memory as of the last report; there are several a second.
    #[must_use]
    pub fn buffers(&self) -> Buffers {
        Buffers {
            query_bytes: self.query_bytes.load(Ordering::Relaxed),
            output_bytes: self.output_bytes.load(Ordering::Relaxed),
            queued_bytes: self.queued_bytes.load(Ordering::Relaxed),
            total_bytes: self.total_bytes.load(Ordering::Relaxed),
        }
    }

    fn flags(&self) -> String {
        let letters = [
            (state::MONITOR, 'O'),
            (state::PUBSUB, 'P'),
            (state::MULTI, 'x'),
            (state::CLOSING, 'c'),
            (state::READONLY, 'r'),
            (state::NO_EVICT, 'e'),
            (state::NO_TOUCH, 'T'),
            (state::TRACKING, 't'),
            (state::BROKEN_REDIRECT, 'R'),
            (state::BROADCAST, 'B'),
        ];
        let mut set: String = letters.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, letter)| letter).collect();
        if self.is_blocked() || self.held.load(Ordering::Relaxed) {
            set.insert(0, 'b');
        }
        if set.is_empty() { "N".to_owned() } else { set }
    }

    /// For how long it has been connected, in s.
    #[must_use]
    pub fn age_s(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.connected_ms) / 1000
    }

    /// Its line in CLIENT LIST, without a line end.
    #[must_use]
    pub fn line(&self, now_ms: u64) -> String {
        let about = self.about().clone();
        let Buffers { query_bytes, output_bytes, queued_bytes, total_bytes } = self.buffers();
        let command = match self.last_command.load(Ordering::Relaxed) {
            NO_COMMAND => "NULL".to_owned(),
            id => table::all().get(usize::from(id)).map_or_else(|| "NULL".to_owned(), |spec| spec.shown_name()),
        };
        let [sub, psub, ssub] = [0, 1, 2].map(|kind: usize| self.subscriptions[kind].load(Ordering::Relaxed));
        let seconds = |since_ms: u64| now_ms.saturating_sub(since_ms) / 1000;
        format!(
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={} db={} sub={sub} psub={psub} ssub={ssub} multi={} \
             qbuf={query_bytes} qbuf-free=0 argv-mem=0 multi-mem={queued_bytes} rbs=0 rbp=0 obl=0 oll=0 \
             omem={output_bytes} tot-mem={total_bytes} events=r cmd={command} \
             user={} redir={} resp={} lib-name={} lib-ver={} tot-cmds={}",
            self.id,
            self.addr,
            self.laddr,
            about.name,
            self.age_s(now_ms),
            seconds(self.last_active_ms()),
            self.flags(),
            self.database.load(Ordering::Relaxed),
            self.queued.load(Ordering::Relaxed),
            self.user(),
            self.redirect.load(Ordering::Relaxed),
            if self.has(state::RESP3) { 3 } else { 2 },
            about.lib_name,
            about.lib_ver,
            self.commands.load(Ordering::Relaxed),
        )
    }

    /// The protocol version that it has chosen.
    #[must_use]
    pub fn proto(&self) -> Proto {
        if self.has(state::RESP3) { Proto::Resp3 } else { Proto::Resp2 }
    }
}

/// All connections of a node.
#[derive(Debug, Default)]
pub struct Clients {
    entries: Mutex<BTreeMap<u64, Arc<ClientEntry>>>,
    last_id: AtomicU64,
    /// How many wait in a blocking command, or until a pause is over.
    blocked: AtomicUsize,
    /// Until when commands wait for the end of a pause, in ms since the epoch.
    paused_until_ms: AtomicU64,
    /// Whether the pause is for writes only.
    paused_writes_only: AtomicBool,
}

impl Clients {
    /// Adds a connection.
    pub fn connect(&self, addr: String, laddr: String, worker: usize, now_ms: u64) -> Arc<ClientEntry> {
        let entry = Arc::new(ClientEntry {
            id: self.last_id.fetch_add(1, Ordering::Relaxed) + 1,
            addr,
            laddr,
            worker,
            connected_ms: now_ms,
            about: Mutex::default(),
            user: Mutex::new(DEFAULT_USER.into()),
            killed: AtomicBool::new(false),
            held: AtomicBool::new(false),
            place: AtomicU64::new(0),
            redirect: AtomicI64::new(-1),
            blocked_at: AtomicUsize::new(0),
            states: AtomicU32::new(0),
            last_active_ms: AtomicU64::new(now_ms),
            last_command: AtomicU16::new(NO_COMMAND),
            database: AtomicU16::new(0),
            queued: AtomicI64::new(-1),
            commands: AtomicU64::new(0),
            subscriptions: [const { AtomicU32::new(0) }; 3],
            query_bytes: AtomicU64::new(0),
            output_bytes: AtomicU64::new(0),
            queued_bytes: AtomicU64::new(0),
            total_bytes: AtomicU64::new(0),
        });
        self.lock().insert(entry.id, entry.clone());
        entry
    }

    /// Removes a connection, when the shell has closed it.
    pub fn disconnect(&self, id: u64) {
        let removed = self.lock().remove(&id);
        removed.iter().for_each(|entry| {
            self.unblock(entry);
            self.release(entry);
        });
    }

    /// Asks for a connection to be closed; the caller wakes its worker. From now on it does not count, as in Redis.
    pub(super) fn kill(&self, entry: &ClientEntry) {
        entry.killed.store(true, Ordering::Release);
        self.disconnect(entry.id);
    }

    /// Notes that a pause keeps the request of a connection waiting.
    pub(super) fn hold(&self, entry: &ClientEntry) {
        if !entry.held.swap(true, Ordering::AcqRel) {
            self.blocked.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that its request is looked at again.
    #[inline]
    pub(super) fn release(&self, entry: &ClientEntry) {
        if entry.held.load(Ordering::Relaxed) && entry.held.swap(false, Ordering::AcqRel) {
            self.blocked.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Notes that a connection, at this place among its worker's, waits in a blocking command.
    pub fn block(&self, entry: &ClientEntry, place: usize) {
        if entry.blocked_at.swap(place + 1, Ordering::AcqRel) == 0 {
            self.blocked.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the wait of a connection. Answers its place, if it did wait.
    pub fn unblock(&self, entry: &ClientEntry) -> Option<usize> {
        let place = entry.blocked_at.swap(0, Ordering::AcqRel).checked_sub(1)?;
        self.blocked.fetch_sub(1, Ordering::Relaxed);
        Some(place)
    }

    /// How many wait in a blocking command, or until a pause is over.
    #[must_use]
    pub fn blocked(&self) -> usize {
        self.blocked.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientEntry>>> {
        self.entries.lock()
    }

    /// The number of connections.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// All connections, in order of arrival.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<ClientEntry>> {
        self.lock().values().cloned().collect()
    }

    /// The connection with this number.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<Arc<ClientEntry>> {
        self.lock().get(&id).cloned()
    }

    /// Makes commands wait until a time. An earlier pause stays if it ends later and is for at least the same commands.
    pub fn pause(&self, now_ms: u64, until_ms: u64, writes_only: bool) {
        let going_on = self.paused_until_ms.load(Ordering::Relaxed) > now_ms;
        let all = !writes_only || (going_on && !self.paused_writes_only.load(Ordering::Relaxed));
        self.paused_writes_only.store(!all, Ordering::Relaxed);
        let before = if going_on { self.paused_until_ms.load(Ordering::Relaxed) } else { 0 };
        self.paused_until_ms.store(until_ms.max(before), Ordering::Release);
    }

    /// Ends the pause.
    pub fn unpause(&self) {
        self.paused_until_ms.store(0, Ordering::Release);
    }

    /// Until when a pause makes such a command wait, in ms since the epoch; 0 if there has been no pause.
    #[inline]
    pub(super) fn paused_until_ms(&self, is_write: bool) -> u64 {
        let until = self.paused_until_ms.load(Ordering::Acquire);
        if until == 0 || (!is_write && self.paused_writes_only.load(Ordering::Relaxed)) { 0 } else { until }
    }
}
