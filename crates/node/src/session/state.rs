//! The state of one connection.

use super::clients::{Buffers, ClientEntry, state};
use super::host::Host;
use super::keyspace::Keyspace;
use super::queue::Queue;
use super::shown_certificate::ShownCertificate;
use super::wait::{WaitFor, Written};
use super::watches::Watches;
use crate::WatchedVersion;
use crate::acl::{AuditEvent, DEFAULT_USER, Denial, User};
use crate::entry_id::EntryId;
use crate::guarantees::{ChosenDurability, Consistency, Durability, consistency_of, durability_of};
use crate::pubsub::{ClientSubscriptions, Subscriber, SubscriptionKind};
use crate::tracking::{Audience, Invalidation, Tracker, TrackingElsewhere, TrackingMode};
use replica::Bytes;
use resp::table::{self, CommandId, CommandSpec, behaviour, flag};
use resp::{Proto, Reply};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;
use vocab::limits::LARGE_REQUEST_ARGUMENTS;
use vocab::{Database, ShardId, Slot};

/// Whether a connection is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ReplyMode {
    #[default]
    On,
    Off,
    /// The next request is not answered, and those after it are: CLIENT REPLY SKIP.
    SkipNext,
}

/// How a client is told of an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldHow {
    /// It cannot be told, or does not want to.
    NotAtAll,
    /// On its own connection.
    Here,
    /// The client of that number is told instead.
    ByAnother(u64),
}

/// What a transaction has queued that will never run: as much as it is, it takes a while to be dropped.
#[derive(Debug)]
pub struct Discarded(Queue);

/// One connection, without its socket.
#[derive(Debug)]
pub struct Session {
    pub(super) entry: Arc<ClientEntry>,
    pub(super) proto: Proto,
    /// It has logged in, or is another node's.
    authenticated: bool,
    /// As whom its requests run.
    user: Arc<User>,
    /// Whether there is anything that its user may not do. No request of another node is refused.
    restricted: bool,
    /// It has given `recovery-password`: no change of users is about it.
    is_rescued: bool,
    /// Another node has shown that it knows the secret: it has checked its clients' rights itself.
    is_node: bool,
    /// Of a connection for a client of another node: the user of its scripts, by name, if there is anything that they may not do.
    scripts_as: Option<Arc<str>>,
    /// Whether connections are let in that have not logged in, as the rules of `default` say. None: as `requirepass` says.
    is_open: Option<bool>,
    /// Which users of the node it has gone by last.
    users_version: u64,
    /// The command that was asked for last; on a database another one may run for it.
    asked: CommandId,
    durability: ChosenDurability,
    /// `None`: the store's.
    consistency: Option<Consistency>,
    /// The durability and consistency of the settings, when the last request was admitted.
    defaults: (Durability, Consistency),
    pub(super) reply_mode: ReplyMode,
    /// What `reply_mode` was before the request that was admitted last.
    pub(super) mode_before: ReplyMode,
    /// The request that was admitted last is not to be answered.
    pub(super) silent: bool,
    pub(super) closing: bool,
    /// CLIENT PAUSE holds its request back.
    pub(super) held: bool,
    /// The transaction under way.
    pub(super) multi: Option<Queue>,
    /// The keys that it watches.
    pub(super) watches: Watches,
    /// How far it has written: for WAIT.
    pub(super) written: Written,
    /// What was queued, and will not run.
    discarded: Option<Discarded>,
    /// What it has subscribed to; none if that is nothing.
    subscriptions: Option<Box<ClientSubscriptions>>,
    /// How the keys that it reads are tracked; none: they are not.
    tracking: Option<Box<TrackingMode>>,
    /// The command by which it is told of every command, if it is: MONITOR.
    monitors_by: Option<&'static CommandSpec>,
    /// Of a connection for a client of another node: that node is told what the client's scripts run.
    shows_calls: bool,
    /// The request that was admitted last was refused.
    pub(super) rejected: bool,
    /// How its worker finds it.
    subscriber: Subscriber,
    keyspace: Keyspace,
    /// Another node knows what the connection watches.
    pub(super) watches_elsewhere: bool,
    /// Where the databases were in which a client of one began to watch keys: SWAPDB changes all that is watched in them.
    watched_places: BTreeMap<Database, Database>,
    encrypted: bool,
    /// The bytes of the requests that run now, if they are long: what is queued shares them.
    frame: Option<Bytes>,
}

impl Session {
    /// The session of a connection that has been entered with `Clients::connect`.
    #[must_use]
    pub fn new(entry: Arc<ClientEntry>, host: &dyn Host) -> Self {
        let subscriber = Subscriber { worker: entry.worker as u32, ..Subscriber::default() };
        let mut session = Self {
            entry,
            proto: Proto::Resp2,
            authenticated: false,
            user: host.access_control().users().default_user(),
            restricted: false,
            is_rescued: false,
            is_node: false,
            scripts_as: None,
            is_open: None,
            users_version: 0,
            asked: CommandId(0),
            durability: ChosenDurability::default(),
            consistency: None,
            defaults: (Durability::of_settings(host.config()), Consistency::of_settings(host.config())),
            reply_mode: ReplyMode::On,
            mode_before: ReplyMode::On,
            silent: false,
            closing: false,
            held: false,
            multi: None,
            watches: Watches::default(),
            discarded: None,
            written: Written::default(),
            subscriptions: None,
            tracking: None,
            monitors_by: None,
            shows_calls: false,
            rejected: false,
            subscriber,
            keyspace: Keyspace::Cluster,
            watches_elsewhere: false,
            watched_places: BTreeMap::new(),
            encrypted: false,
            frame: None,
        };
        session.log_out(host);
        session
    }

    /// Whether it has queued, watches or has subscribed to so much that what is about all of that is not for an event loop.
    #[inline]
    #[must_use]
    pub fn has_much(&self) -> bool {
        let queued = self.multi.as_ref().map_or(0, Queue::weight);
        let channels = self.subscriptions.as_ref().map_or(0, |own| own.all());
        queued + self.watches.len() + channels > LARGE_REQUEST_ARGUMENTS
            || self.multi.as_ref().is_some_and(Queue::is_large)
    }

    /// What will never run, and takes long to be forgotten.
    pub fn take_discarded(&mut self) -> Option<Discarded> {
        self.discarded.take()
    }

    /// Whether a request of so few words is about all that it has queued, watches, or has subscribed to.
    #[must_use]
    pub fn is_about_all(&self, args: &[&[u8]]) -> bool {
        let is_one = |spec: &CommandSpec| spec.does(behaviour::ENDS_WATCHES) || spec.has(flag::PUBSUB);
        args.len() == 1 && table::resolve(args).is_ok_and(is_one)
    }

    /// The requests that run from now on are in these bytes, which commands may share; none: those are not to be shared.
    pub fn set_frame(&mut self, frame: Option<Bytes>) {
        self.frame = frame;
    }

    /// The bytes of the requests that run now, if commands may share them.
    #[must_use]
    pub fn frame(&self) -> Option<&Bytes> {
        self.frame.as_ref()
    }

    /// Its connection is encrypted, and its client has shown this certificate, which may log it in.
    pub fn secured(&mut self, certificate: Option<&ShownCertificate>, host: &dyn Host) {
        self.encrypted = true;
        let Some(certificate) = certificate else { return };
        let Some(name) = certificate.user(host.config()) else { return };
        let user = certificate.user_among(&host.access_control().users(), host.config());
        let refusal = user.is_none().then_some("no user of that name may log in");
        host.audit(&AuditEvent::of_certificate(name, &self.entry.addr, refusal));
        if let Some(user) = user {
            self.log_in(user);
        }
    }

    /// Whether its connection is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// Its worker finds it at this place, in this generation.
    pub fn placed(&mut self, connection: u32, generation: u32) {
        self.subscriber = Subscriber { connection, generation, ..self.subscriber };
        self.entry.set_place(connection, generation);
    }

    /// Whose keys its requests name.
    #[inline]
    #[must_use]
    pub fn keyspace(&self) -> Keyspace {
        self.keyspace
    }

    /// Whose keys its next request names: within MULTI, those of the database that a queued SELECT has chosen.
    #[inline]
    #[must_use]
    pub fn asked_keyspace(&self) -> Keyspace {
        self.multi.as_ref().and_then(Queue::chosen).unwrap_or(self.keyspace)
    }

    /// The database that its next request is about, if its client does not know clusters.
    #[must_use]
    pub fn database(&self) -> Option<Database> {
        self.asked_keyspace().database()
    }

    /// Its requests name keys of another keyspace from here on.
    pub fn enter(&mut self, keyspace: Keyspace) {
        if keyspace == Keyspace::Stored {
            (self.authenticated, self.is_node, self.scripts_as) = (true, true, None);
            self.run_as(Arc::new(User::unrestricted(DEFAULT_USER)));
        }
        self.entry.set(state::OF_NODE, self.is_node);
        self.keyspace = keyspace;
        self.entry.set_database(keyspace.number());
    }

    /// Whether another node knows what the connection watches: EXEC is for that node, whatever is queued.
    pub fn watch_elsewhere(&mut self, on: bool) {
        self.watches_elsewhere = on;
    }

    /// Whether its commands are queued.
    #[must_use]
    pub fn in_multi(&self) -> bool {
        self.multi.is_some()
    }

    /// How its worker finds it.
    #[must_use]
    pub fn subscriber(&self) -> Subscriber {
        self.subscriber
    }

    /// Whether it has subscribed to anything.
    #[must_use]
    pub fn is_subscriber(&self) -> bool {
        self.subscriptions.is_some()
    }

    /// Whether only commands about subscriptions are allowed: RESP2 cannot tell a message from a reply.
    pub(super) fn is_for_subscribers(&self) -> bool {
        self.subscriptions.is_some() && self.proto == Proto::Resp2
    }

    /// Whether it has subscribed to a name.
    #[must_use]
    pub fn listens(&self, kind: SubscriptionKind, name: &[u8]) -> bool {
        self.subscriptions.as_ref().is_some_and(|own| own.has(kind, name))
    }

    /// Its subscription to a channel of a slot was ended. Answers how many such it has left; none if it had ended before.
    pub fn evicted(&mut self, channel: &[u8]) -> Option<usize> {
        let kind = SubscriptionKind::ShardChannel;
        let mut own = self.take_subscriptions();
        let left = own.remove(kind, channel).then(|| own.told_count(kind));
        self.set_subscriptions(own);
        left
    }

    /// All its subscriptions end, the tracking of what it reads, and MONITOR.
    pub fn leave(&mut self, host: &dyn Host) {
        if self.tracking.is_some() {
            self.set_tracking(None, host);
        }
        self.set_monitor(None, host);
        self.show_calls(false, host);
        if let Some(own) = self.subscriptions.take() {
            self.set_subscriptions(Box::default());
            if host.broker().leave(self.subscriber, &own) {
                host.announce();
            }
        }
    }

    /// How the keys that it reads are tracked.
    pub(super) fn tracking(&self) -> Option<&TrackingMode> {
        self.tracking.as_deref()
    }

    pub(super) fn tracking_mut(&mut self) -> Option<&mut TrackingMode> {
        self.tracking.as_deref_mut()
    }

    /// CLIENT CACHING is about the next command, or the whole of the next transaction: a command is admitted, or refused.
    #[inline]
    pub(super) fn pass_caching(&mut self, spec: Option<&CommandSpec>, begins: bool, ends: bool) {
        if let Some(mode) = &mut self.tracking {
            let is_about_client = spec.is_some_and(|spec| spec.name.starts_with("CLIENT|"));
            mode.pass(is_about_client, begins || self.multi.is_some() && !ends);
        }
    }

    /// From now on they are tracked so, or not.
    pub(super) fn set_tracking(&mut self, mode: Option<TrackingMode>, host: &dyn Host) {
        let (node, client) = (host.tracking(), self.subscriber);
        let audience = if self.keyspace.is_of_cluster() { Audience::Cluster } else { Audience::Databases };
        if let Some(before) = &self.tracking {
            node.remove_prefixes(&before.options().prefixes, client, audience);
        }
        // A client of another node counts there.
        if self.tracking.is_some() != mode.is_some() && self.keyspace != Keyspace::Stored {
            node.count_client(mode.is_some());
        }
        let options = mode.as_ref().map(TrackingMode::options);
        if let Some(options) = options {
            node.add_prefixes(&options.prefixes, Tracker { client, no_loop: options.no_loop }, audience);
        }
        if self.keyspace.database().is_some() {
            node.pass_on(client, options.is_some_and(|options| options.is_broadcast));
        }
        let redirect = options.map_or(-1, |options| options.redirect.map_or(0, |client| client as i64));
        self.entry.set_redirect(redirect);
        self.entry.set(state::TRACKING, mode.is_some());
        self.entry.set(state::BROADCAST, options.is_some_and(|options| options.is_broadcast));
        self.entry.set(state::BROKEN_REDIRECT, false);
        self.tracking = mode.map(Box::new);
    }

    /// It is told of every command from now on, since it has run this one; none: no longer.
    pub(super) fn set_monitor(&mut self, by: Option<&'static CommandSpec>, host: &dyn Host) {
        let on = by.is_some();
        if self.is_monitor() != on {
            self.monitors_by = by;
            self.entry.set(state::MONITOR, on);
            if on { host.monitors().add(self.subscriber) } else { host.monitors().remove(self.subscriber) }
        }
    }

    /// The node for whose client the connection is is told what the scripts of that run from now on, or no longer.
    pub(super) fn show_calls(&mut self, on: bool, host: &dyn Host) {
        if self.shows_calls != on {
            self.shows_calls = on;
            host.monitors().count_elsewhere(on);
        }
    }

    /// Whether the node for whose client it is is told what the scripts of that run.
    #[must_use]
    pub fn shows_calls(&self) -> bool {
        self.shows_calls
    }

    /// Whether it is told of every command.
    #[must_use]
    pub fn is_monitor(&self) -> bool {
        self.monitors_by.is_some()
    }

    /// Whether the request that was admitted last was refused before it was run.
    #[must_use]
    pub fn was_rejected(&self) -> bool {
        self.rejected
    }

    /// As whom it is registered for the keys that the request reads which was admitted last; none if it is not.
    #[must_use]
    pub fn tracker(&self) -> Option<Tracker> {
        let mode = self.tracking.as_deref().filter(|mode| mode.registers())?;
        Some(Tracker { client: self.subscriber, no_loop: mode.options().no_loop })
    }

    /// How another node is to track what it answers to the request that was admitted last; none: not at all.
    #[must_use]
    pub fn tracking_elsewhere(&self) -> Option<TrackingElsewhere> {
        self.tracking.as_deref().map(TrackingMode::elsewhere)
    }

    /// In which protocol it is told of invalidations: another node always knows them from replies.
    #[must_use]
    pub fn told_in(&self) -> Proto {
        if self.keyspace == Keyspace::Stored { Proto::Resp3 } else { self.proto }
    }

    /// How it is told of an invalidation.
    #[must_use]
    pub fn told_how(&self, told: &Invalidation) -> ToldHow {
        let Some(mode) = self.tracking.as_deref() else { return ToldHow::NotAtAll };
        let options = mode.options();
        // It may have changed its mode since it was registered.
        if told.keys.is_some() && options.is_broadcast != told.is_broadcast {
            return ToldHow::NotAtAll;
        }
        match options.redirect {
            Some(client) => ToldHow::ByAnother(client),
            None if self.told_in() == Proto::Resp3 => ToldHow::Here,
            None => ToldHow::NotAtAll,
        }
    }

    /// The client that is told instead is gone.
    pub fn redirect_is_broken(&mut self) {
        if let Some(mode) = &mut self.tracking {
            mode.is_broken = true;
            self.entry.set(state::BROKEN_REDIRECT, true);
        }
    }

    /// What it has subscribed to, to be given back changed.
    pub(super) fn take_subscriptions(&mut self) -> Box<ClientSubscriptions> {
        self.subscriptions.take().unwrap_or_default()
    }

    pub(super) fn set_subscriptions(&mut self, own: Box<ClientSubscriptions>) {
        self.entry.set(state::PUBSUB, !own.is_empty());
        self.entry.set_subscriptions(SubscriptionKind::ALL.map(|kind| own.count(kind)));
        self.subscriptions = Some(own).filter(|own| !own.is_empty());
    }

    /// What others see of it.
    #[must_use]
    pub fn entry(&self) -> &Arc<ClientEntry> {
        &self.entry
    }

    /// The protocol version for its replies.
    #[must_use]
    pub fn proto(&self) -> Proto {
        self.proto
    }

    /// Whether it may send commands: chooses the limits of the parser (`Config::request_limits`).
    #[must_use]
    pub fn authenticated(&self, host: &dyn Host) -> bool {
        self.authenticated || self.is_let_in(host)
    }

    /// Whether connections are let in that have not logged in.
    fn is_let_in(&self, host: &dyn Host) -> bool {
        self.is_open.unwrap_or_else(|| !host.config().password_required())
    }

    /// As whom its requests run.
    #[must_use]
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// Whether there is anything that its requests may not do.
    #[inline]
    #[must_use]
    pub fn is_restricted(&self) -> bool {
        self.restricted
    }

    /// As whom its scripts run; none: they may run every command.
    #[must_use]
    pub fn script_user(&self) -> Option<&Arc<User>> {
        Some(&self.user).filter(|user| user.is_restricted())
    }

    /// The command that was asked for last.
    pub(super) fn asked(&self) -> CommandId {
        self.asked
    }

    /// A command is asked for. Answers whether the rights of its user are to be looked at.
    #[inline]
    pub(super) fn ask(&mut self, command: CommandId, host: &dyn Host) -> bool {
        self.asked = command;
        if self.users_version != host.access_control().version() {
            self.users_changed(host);
        }
        self.restricted
    }

    /// Its requests run as this user from now on.
    pub(super) fn log_in(&mut self, user: Arc<User>) {
        (self.authenticated, self.is_rescued) = (true, false);
        self.run_as(user);
    }

    /// Whether it has given `recovery-password`.
    pub(super) fn set_rescued(&mut self, is_rescued: bool) {
        self.is_rescued = is_rescued;
    }

    /// Its requests run as `default`, as those of a new connection.
    pub(super) fn log_out(&mut self, host: &dyn Host) {
        let access = host.access_control();
        self.users_version = access.version();
        let users = access.users();
        self.is_open = users.is_open();
        (self.is_rescued, self.scripts_as) = (false, None);
        self.run_as(if self.is_node { Arc::new(User::unrestricted(DEFAULT_USER)) } else { users.default_user() });
        self.authenticated = self.is_node || self.is_let_in(host);
    }

    /// Another node tells as whom the scripts of its next requests run. One whom this node does not know may do nothing. False:
    /// it is no other node's.
    pub(super) fn run_scripts_as(&mut self, name: &str, host: &dyn Host) -> bool {
        if self.is_node {
            self.scripts_as = Some(name).filter(|name| !name.is_empty()).map(Arc::from);
            self.find_script_user(host);
        }
        self.is_node
    }

    /// The rules that the user of its scripts has now.
    fn find_script_user(&mut self, host: &dyn Host) {
        let user = match self.scripts_as.as_deref() {
            None => Arc::new(User::unrestricted(DEFAULT_USER)),
            Some(name) => {
                let known = host.access_control().users().get(name).cloned();
                known.unwrap_or_else(|| Arc::new(User::new(name, false)))
            }
        };
        self.run_as(user);
    }

    fn run_as(&mut self, user: Arc<User>) {
        self.restricted = !self.is_node && user.is_restricted();
        self.entry.set_user(user.name().clone());
        self.user = user;
    }

    /// The users of the node have changed: what it may do, and whether it is closed. Without its user it is, and where it listens
    /// to a channel to which its user has no right any more.
    #[cold]
    pub fn users_changed(&mut self, host: &dyn Host) {
        let access = host.access_control();
        // Before the users are looked at: these may be newer, never older.
        self.users_version = access.version();
        let users = access.users();
        self.is_open = users.is_open();
        if self.scripts_as.is_some() {
            return self.find_script_user(host);
        }
        if self.is_node || self.is_rescued {
            return;
        }
        let Some(user) = users.get(self.user.name()).cloned() else {
            self.closing = true;
            return host.clients().kill(&self.entry);
        };
        if Arc::ptr_eq(&user, &self.user) {
            return;
        }
        self.run_as(user);
        if self.listens_without_right() || self.monitors_without_right() || self.is_told_without_right() {
            self.closing = true;
            host.clients().kill(&self.entry);
        }
    }

    fn monitors_without_right(&self) -> bool {
        self.monitors_by.is_some_and(|spec| self.denies(spec, &[spec.name.as_bytes()]).is_some())
    }

    /// Whether it is told of the keys of all databases, and its user has no right to all of them.
    fn is_told_without_right(&self) -> bool {
        self.tracking.as_ref().is_some_and(|mode| mode.options().is_broadcast) && !self.user.has_all_databases()
    }

    fn listens_without_right(&self) -> bool {
        let Some(own) = self.subscriptions.as_ref().filter(|_| !self.user.has_all_channels()) else { return false };
        SubscriptionKind::ALL.iter().any(|kind| {
            let is_pattern = *kind == SubscriptionKind::Pattern;
            let allowed = |name: &[u8]| self.user.channels().any(|channels| channels.allow(name, is_pattern));
            own.names(*kind).iter().any(|name| !allowed(name))
        })
    }

    /// What of a request its user may not do, if anything.
    pub(super) fn denies(&self, spec: &'static CommandSpec, args: &[&[u8]]) -> Option<Denial> {
        if !self.restricted {
            return None;
        }
        // To a client of the cluster SYNC sends the keys of all databases.
        let all = behaviour::ASKS_DATABASE | behaviour::READS_ALL_KEYS | behaviour::READS_REPLICAS;
        let is_of_all = spec.does(all) && self.keyspace.is_of_cluster();
        let of_all = if is_of_all { self.user.denies_all_databases(spec) } else { None };
        of_all.or_else(|| self.user.denies(spec, args, self.asked_keyspace().number()))
    }

    /// The durability of its writes.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.durability.or(self.defaults.0)
    }

    /// The durability of this write.
    #[must_use]
    pub fn durability_for(&self, spec: &CommandSpec, args: &[&[u8]]) -> Durability {
        durability_of(spec, args).or(self.durability())
    }

    /// How old the answers to its reads may be.
    #[must_use]
    pub fn consistency(&self) -> Consistency {
        self.consistency.unwrap_or(self.defaults.1)
    }

    /// How old the answer to this request may be.
    #[must_use]
    pub fn consistency_for(&self, spec: &CommandSpec, args: &[&[u8]]) -> Consistency {
        consistency_of(spec, args).unwrap_or_else(|| self.consistency())
    }

    /// Whether a command counts as a use of its keys: CLIENT NO-TOUCH.
    #[must_use]
    pub fn uses_keys(&self, spec: &CommandSpec) -> bool {
        !spec.does(behaviour::PEEKS) && (!self.entry.has(state::NO_TOUCH) || spec.does(behaviour::USES))
    }

    /// Whether the reply to the request that was admitted last is to be thrown away.
    #[must_use]
    pub fn silent(&self) -> bool {
        self.silent
    }

    /// Forgets that a request was admitted as `Execute`, `ExecuteAt`, `Watch` or `WaitFor`: it could not begin, and will be
    /// admitted again.
    pub fn put_back(&mut self) {
        self.reply_mode = self.mode_before;
        if let Some(mode) = &mut self.tracking {
            mode.put_back();
        }
        self.entry.put_back();
    }

    /// Whether the connection ends when what has been written is sent.
    #[must_use]
    pub fn closing(&self) -> bool {
        self.closing || self.entry.killed()
    }

    /// Ends the connection when what has been written is sent.
    pub fn close(&mut self) {
        self.closing = true;
        self.entry.set(state::CLOSING, true);
    }

    /// The client has sent something. Once for each read from the socket is enough.
    pub fn active(&mut self, now_ms: u64) {
        self.entry.active(now_ms);
    }

    /// Tells CLIENT LIST how many bytes wait to be parsed and to be sent, and how many the connection takes beside its
    /// session.
    pub fn buffers(&mut self, query_bytes: usize, output_bytes: usize, taken_bytes: usize) {
        let queued_bytes = self.multi.as_ref().map_or(0, Queue::bytes);
        let subscribed_bytes = self.subscriptions.as_ref().map_or(0, |own| own.bytes());
        self.entry.set_buffers(Buffers {
            query_bytes: query_bytes as u64,
            output_bytes: output_bytes as u64,
            queued_bytes: queued_bytes as u64,
            total_bytes: (taken_bytes + queued_bytes + self.watches.entry_bytes() + subscribed_bytes) as u64,
        });
    }

    /// Whether it has been idle for longer than the `timeout` setting allows.
    #[must_use]
    pub fn timed_out(&self, host: &dyn Host, now_ms: u64) -> bool {
        // A node holds a connection for as long as its client is there.
        let timeout_ms = if self.keyspace == Keyspace::Stored { 0 } else { host.config().idle_timeout_ms() };
        timeout_ms > 0 && !self.is_subscriber() && now_ms.saturating_sub(self.entry.last_active_ms()) > timeout_ms
    }

    /// The connection watches keys, handed out by `Admission::Watch`, that have these versions.
    pub fn watching(&mut self, keys: &[Vec<u8>], versions: Vec<WatchedVersion>) {
        for (key, version) in keys.iter().zip(versions) {
            match version {
                WatchedVersion::Present(version) => self.watches.add(key, version),
                WatchedVersion::Absent(watch) => self.watches.add_absent(key, watch),
            }
        }
    }

    /// A write of this connection has been answered; its entry is `index` of `shard`, or an earlier one.
    pub fn wrote(&mut self, shard: ShardId, index: u64) {
        self.written.note(shard, index);
    }

    /// A write of this connection has been answered by another node, or this node does not lead the shard.
    pub fn wrote_elsewhere(&mut self, shard: ShardId) {
        self.written.note_elsewhere(shard);
    }

    /// A write of this connection has been answered that may be in any shard, whichever node leads it.
    pub fn wrote_anywhere(&mut self) {
        self.written.note_anywhere();
    }

    /// Whether this connection may have written to that shard.
    #[must_use]
    pub fn may_have_written(&self, shard: ShardId) -> bool {
        self.written.may_be_in(shard)
    }

    /// Whether a write of this connection was answered before its entry was committed, and is not known to be applied.
    #[must_use]
    pub fn has_early(&self) -> bool {
        !self.written.early().is_empty()
    }

    /// A write of this connection has been answered before its entry was committed. `is_applied` says of an earlier one of the
    /// shard whether it was applied.
    pub fn wrote_early(&mut self, entry: EntryId, is_applied: impl FnOnce(EntryId) -> bool) {
        self.written.note_early(entry, is_applied);
    }

    /// Of the writes that were answered before their entries were committed, those that are known to be applied are not lost any more.
    pub fn settle_early(&mut self, is_applied: impl FnMut(EntryId) -> bool) {
        self.written.settle(is_applied);
    }

    /// Whether it may not run such a command now, whatever its arguments are: it has not logged in, or only listens.
    #[must_use]
    pub fn shuts_out(&self, spec: &CommandSpec, host: &dyn Host) -> bool {
        let is_unknown = !spec.has(flag::NO_AUTH) && !self.authenticated(host);
        is_unknown || (self.is_for_subscribers() && !spec.does(behaviour::FOR_SUBSCRIBERS))
    }

    /// Refuses a request: writes the error, counts it and spoils the transaction under way, if there is one.
    pub fn reject(&mut self, spec: Option<CommandId>, text: &str, host: &dyn Host, reply: &mut Reply) {
        host.stats().worker(self.entry.worker).rejected(spec, text);
        self.rejected = true;
        reply.error(text);
        if let Some(queue) = &mut self.multi {
            let queued = queue.spoil();
            self.discarded = Some(Discarded(queued)).filter(|Discarded(queued)| queued.is_large());
        }
    }

    /// What a WAIT or WAITAOF waits for. The error is the text of the reply.
    pub fn wait_for(&self, spec: &'static CommandSpec, args: &[&[u8]]) -> Result<WaitFor, &'static str> {
        WaitFor::parse(spec, args, self.written.clone())
    }

    /// It begins to watch keys.
    pub(super) fn begins_to_watch(&mut self, host: &dyn Host) {
        if let Some(database) = self.keyspace.database() {
            let place = || host.databases().place_of(database);
            self.watched_places.entry(database).or_insert_with(place);
        }
    }

    /// The slots of the databases in which it watches keys.
    pub(super) fn watched_slots(&self) -> SmallVec<[Slot; 1]> {
        self.watched_places.values().map(|place| place.slot()).collect()
    }

    /// Whether databases in which it watches keys were exchanged for others since: then it watches nothing more.
    pub(super) fn were_swapped(&mut self, host: &dyn Host) -> bool {
        let watched = std::mem::take(&mut self.watched_places);
        let databases = (!watched.is_empty()).then(|| host.databases());
        databases.is_some_and(|now| watched.iter().any(|(database, place)| now.place_of(*database) != *place))
    }

    pub(super) fn unwatch(&mut self) {
        self.watches = Watches::default();
        self.watched_places.clear();
    }

    pub(super) fn leave_multi(&mut self) -> Option<Queue> {
        self.entry.set(state::MULTI, false);
        self.entry.set_queued(None);
        self.multi.take()
    }

    pub(super) fn set_proto(&mut self, proto: Proto) {
        self.proto = proto;
        self.entry.set(state::RESP3, proto == Proto::Resp3);
    }

    /// Reads the settings again, which CONFIG SET may have changed.
    pub(super) fn refresh_defaults(&mut self, host: &dyn Host) {
        self.defaults = (Durability::of_settings(host.config()), Consistency::of_settings(host.config()));
        if let Some(database) = self.database()
            && host.reads_any(database)
        {
            self.defaults.1 = Consistency::Any;
        }
    }

    /// Chooses the durability of later writes. `None`, and nothing changes, if the words are not understood.
    pub(super) fn choose_durability(&mut self, words: &[&[u8]]) -> Option<()> {
        self.durability = self.durability.with(words)?;
        Some(())
    }

    /// `None`: the store's from now on.
    pub(super) fn choose_consistency(&mut self, consistency: Option<Consistency>) {
        self.consistency = consistency;
        self.entry.set(state::READONLY, consistency.is_some_and(Consistency::allows_followers));
    }

    /// What a new connection has: RESET.
    pub(super) fn forget_choices(&mut self) {
        self.durability = ChosenDurability::default();
        self.choose_consistency(None);
        match self.keyspace {
            Keyspace::Database(_) => self.enter(Keyspace::Database(Database::default())),
            Keyspace::ClusterDatabase(_) => self.enter(Keyspace::Cluster),
            Keyspace::Cluster | Keyspace::Stored => {}
        }
    }

    /// Checks what must always hold; for tests and simulation.
    pub fn validate(&self) {
        assert_eq!(self.multi.is_some(), self.entry.has(state::MULTI), "CLIENT LIST shows whether there is a MULTI");
        assert_eq!(self.subscriptions.is_some(), self.entry.has(state::PUBSUB), "CLIENT LIST shows subscribers");
        assert_eq!(self.proto, self.entry.proto(), "CLIENT LIST shows the protocol");
    }
}
