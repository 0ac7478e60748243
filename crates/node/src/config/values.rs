//! The values of the settings, shared by all threads.

use super::command_log::CommandLogKind;
use super::eviction::EvictionPolicy;
use super::output_limit::{ClientClass, OutputLimit, OutputLimits};
use super::parse::Value;
use super::setting::Setting;
use super::table::{SETTINGS, index_of};
use crate::format::packing::Packing;
use crate::keyspace_events::EventClasses;
use parking_lot::{Mutex, RwLock};
use resp::glob_matches;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

const REQUIREPASS: usize = index_of(SETTINGS, "requirepass");
const RECOVERY_PASSWORD: usize = index_of(SETTINGS, "recovery-password");
const ACL_PUBSUB: usize = index_of(SETTINGS, "acl-pubsub-default");
const ACL_LOG_LENGTH: usize = index_of(SETTINGS, "acllog-max-len");
const MAXMEMORY: usize = index_of(SETTINGS, "maxmemory");
const MAX_DATA: usize = index_of(SETTINGS, "max-data-bytes");
const EVICTION: usize = index_of(SETTINGS, "maxmemory-policy");
const ENGINE: usize = index_of(SETTINGS, "engine");
const MAXCLIENTS: usize = index_of(SETTINGS, "maxclients");
const DATABASES: usize = index_of(SETTINGS, "databases");
const CLUSTER_DATABASES: usize = index_of(SETTINGS, "cluster-databases");
const TIMEOUT: usize = index_of(SETTINGS, "timeout");
const BULK: usize = index_of(SETTINGS, "proto-max-bulk-len");
const QUERY_BUFFER: usize = index_of(SETTINGS, "client-query-buffer-limit");
const OUTPUT_LIMIT: usize = index_of(SETTINGS, "client-output-buffer-limit");
const SLOWER_THAN: usize = index_of(SETTINGS, "slowlog-log-slower-than");
const SLOWLOG_LENGTH: usize = index_of(SETTINGS, "slowlog-max-len");
const LARGE_REQUEST: usize = index_of(SETTINGS, "commandlog-request-larger-than");
const LARGE_REQUEST_LENGTH: usize = index_of(SETTINGS, "commandlog-large-request-max-len");
const LARGE_REPLY: usize = index_of(SETTINGS, "commandlog-reply-larger-than");
const LARGE_REPLY_LENGTH: usize = index_of(SETTINGS, "commandlog-large-reply-max-len");
const LATENCY_THRESHOLD: usize = index_of(SETTINGS, "latency-monitor-threshold");
const DURABILITY: usize = index_of(SETTINGS, "durability");
const SLOTS_FOLLOWERS: usize = index_of(SETTINGS, "cluster-slots-followers");
const ACKS: usize = index_of(SETTINGS, "acks");
const CONSISTENCY: usize = index_of(SETTINGS, "consistency");
const PROTECTED_MODE: usize = index_of(SETTINGS, "protected-mode");
const SKETCH_BYTES: usize = index_of(SETTINGS, "hll-sparse-max-bytes");
const STREAM_RUN_ENTRIES: usize = index_of(SETTINGS, "stream-node-max-entries");
const STREAM_RUN_BYTES: usize = index_of(SETTINGS, "stream-node-max-bytes");
const HELPER_THREADS: usize = index_of(SETTINGS, "helper-threads");
const EVENTS: usize = index_of(SETTINGS, "notify-keyspace-events");
const TRACKED_KEYS: usize = index_of(SETTINGS, "tracking-table-max-keys");
const LATENCY_TRACKING: usize = index_of(SETTINGS, "latency-tracking");
const MEMORY: usize = index_of(SETTINGS, "memory");
const CLIENTS_MEMORY: usize = index_of(SETTINGS, "maxmemory-clients");

/// One request may be as long as that.
const CLIENTS_BYTES_MIN: u64 = 1 << 30;

/// What CONFIG GET shows instead of a secret. CONFIG SET refuses it as a secret, for it is no secret itself: a client that
/// writes back what it has read would set a password that all know.
const HIDDEN: &str = "(hidden)";

/// The settings of a log of COMMANDLOG: its threshold, and how many commands it keeps.
#[inline]
fn command_log_cells(kind: CommandLogKind) -> (usize, usize) {
    match kind {
        CommandLogKind::Slow => (SLOWER_THAN, SLOWLOG_LENGTH),
        CommandLogKind::LargeRequest => (LARGE_REQUEST, LARGE_REQUEST_LENGTH),
        CommandLogKind::LargeReply => (LARGE_REPLY, LARGE_REPLY_LENGTH),
    }
}

/// Names of settings of Redis that hold passwords, and that there are none of here: who sets them sends a password all the same.
const SECRETS_OF_REDIS: [&str; 3] = ["masterauth", "tls-key-file-pass", "tls-client-key-file-pass"];

/// Whether the setting of that name is shown to no client and in no log.
#[must_use]
pub fn is_secret(name: &[u8]) -> bool {
    SETTINGS.iter().any(|setting| setting.secret && setting.is_named(name))
        || SECRETS_OF_REDIS.iter().any(|secret| name.eq_ignore_ascii_case(secret.as_bytes()))
}

/// Whether there is a setting of that name.
#[must_use]
pub fn is_known(name: &[u8]) -> bool {
    SETTINGS.iter().any(|setting| setting.is_named(name))
}

/// Why a setting was not set. `Display` words it as CONFIG SET does, without its `ERR `.
#[derive(Debug, PartialEq, Eq)]
pub enum SetError {
    /// There is no setting of that name.
    Unknown(String),
    /// The value does not fit, or may not be changed.
    Refused {
        /// The setting, as it was asked for.
        name: String,
        /// What is wrong.
        reason: String,
    },
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                write!(f, "Unknown option or number of arguments for CONFIG SET - '{name}'")
            }
            Self::Refused { name, reason } => {
                write!(f, "CONFIG SET failed (possibly related to argument '{name}') - {reason}")
            }
        }
    }
}

impl std::error::Error for SetError {}

impl SetError {
    /// The error for a command line, where a setting is a flag or is in `--set NAME=VALUE`.
    #[must_use]
    pub fn on_command_line(&self, is_flag: impl Fn(&str) -> bool) -> String {
        match self {
            Self::Unknown(name) => format!("--set {name}: there is no such setting"),
            Self::Refused { name, reason } if is_flag(name) => format!("--{name}: {reason}"),
            Self::Refused { name, reason } => format!("--set {name}: {reason}"),
        }
    }
}

/// Writes the values of settings where the next start of the node finds them, or says why it cannot.
type Rewriter = dyn Fn(&[(&'static str, String)]) -> Result<(), String> + Send + Sync;

/// Why CONFIG REWRITE wrote nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum RewriteError {
    /// The node was started without a file.
    NoFile,
    /// The file could not be written.
    Failed(String),
}

/// One value. Text is kept under the lock; `number` is then its length.
#[derive(Debug)]
struct Cell {
    number: AtomicI64,
    text: RwLock<String>,
}

/// The values of all settings.
#[derive(Debug)]
pub struct Config {
    cells: Vec<Cell>,
    /// What settings were that the store has set for all its nodes, to go back to.
    own: Mutex<BTreeMap<usize, Value>>,
    /// Held while several values change together.
    setting: Mutex<()>,
    /// Clients that the process has descriptors for: `maxclients` is never more.
    clients_bound: AtomicI64,
    /// `client-output-buffer-limit`, as its text says.
    output_limits: RwLock<OutputLimits>,
    rewriter: RewriterCell,
}

/// Set once, by who started the node from a file.
#[derive(Default)]
struct RewriterCell(OnceLock<Box<Rewriter>>);

impl fmt::Debug for RewriterCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "a file" } else { "no file" })
    }
}

impl Default for Config {
    fn default() -> Self {
        let cells = SETTINGS.iter().map(|_| Cell { number: AtomicI64::new(0), text: RwLock::default() }).collect();
        let clients_bound = AtomicI64::new(i64::MAX);
        let rewriter = RewriterCell::default();
        let (own, setting, output_limits) = (Mutex::default(), Mutex::default(), RwLock::default());
        let config = Self { cells, own, setting, clients_bound, output_limits, rewriter };
        for (at, setting) in SETTINGS.iter().enumerate() {
            config.store(at, setting.kind.parse(setting.default.as_bytes()).expect("defaults are valid: tested"));
        }
        config
    }
}

impl Config {
    /// The settings of a node that is started with these values; what is not named has its default.
    pub fn start<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, SetError> {
        let config = Self::default();
        let pairs: Vec<_> = pairs.into_iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        config.set_all(&pairs, true)?;
        Ok(config)
    }

    /// Changes several settings, all or none.
    pub fn set(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), SetError> {
        self.set_all(pairs, false)
    }

    /// Sets a setting to the store's value, which holds on all nodes, also where CONFIG SET may not change it. `None`: the
    /// store has no value any more, and the node's own value holds again.
    pub fn set_for_store(&self, name: &str, text: Option<&str>) -> Result<(), SetError> {
        let at = SETTINGS.iter().position(|setting| setting.is_named(name.as_bytes()));
        let at = at.ok_or_else(|| SetError::Unknown(name.to_owned()))?;
        let refused = |reason: &str| SetError::Refused { name: name.to_owned(), reason: reason.to_owned() };
        let mut own = self.own.lock();
        let value = match text {
            Some(text) => SETTINGS[at].kind.parse(text.as_bytes()).map_err(|reason| refused(&reason))?,
            None => match own.remove(&at) {
                Some(value) => value,
                None => return Ok(()),
            },
        };
        let _held = self.setting.lock();
        if text.is_some() {
            let was = SETTINGS[at].kind.parse(self.text_at(at).as_bytes()).map_err(|reason| refused(&reason))?;
            own.entry(at).or_insert(was);
        }
        self.store(at, value);
        Ok(())
    }

    /// Says what CONFIG REWRITE calls, with the node's own values of all settings that may change while it runs. Only the
    /// first call counts.
    pub fn on_rewrite(
        &self,
        rewriter: impl Fn(&[(&'static str, String)]) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let _ = self.rewriter.0.set(Box::new(rewriter));
    }

    /// Makes the present settings outlive a restart, as CONFIG REWRITE does. What the store has set stays with the store.
    ///
    /// # Errors
    ///
    /// If there is no file, or if it cannot be written: then it is as it was.
    pub fn rewrite(&self) -> Result<(), RewriteError> {
        let rewriter = self.rewriter.0.get().ok_or(RewriteError::NoFile)?;
        rewriter(&self.own_values()).map_err(RewriteError::Failed)
    }

    /// The node's own values of settings that may change while it runs, also where the store's hold now.
    fn own_values(&self) -> Vec<(&'static str, String)> {
        let own = self.own.lock();
        let text = |at: usize| match own.get(&at) {
            Some(Value::Number(n)) => SETTINGS[at].kind.format(*n, ""),
            Some(Value::Text(text)) => text.clone(),
            None => self.text_at(at),
        };
        let live = |at: &usize| SETTINGS[*at].mutable && !SETTINGS[*at].of_store;
        (0..SETTINGS.len()).filter(live).map(|at| (SETTINGS[at].name, text(at))).collect()
    }

    /// Says where the node listens, once that is known: `listen`, `bind` and `port` follow.
    pub fn listening(&self, host: &str, port: u16) {
        let _held = self.setting.lock();
        let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        self.store(index_of(SETTINGS, "listen"), Value::Text(address));
        self.store(index_of(SETTINGS, "bind"), Value::Text(host.to_owned()));
        self.store(index_of(SETTINGS, "port"), Value::Number(i64::from(port)));
    }

    /// Says how many clients the process has descriptors for: from now on `maxclients` is no more than that. Whether it was.
    pub fn bound_clients(&self, most: usize) -> bool {
        let _held = self.setting.lock();
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.clients_bound.store(most, Ordering::Relaxed);
        let is_more = self.number_at(MAXCLIENTS) > most;
        if is_more {
            self.store(MAXCLIENTS, Value::Number(most));
        }
        is_more
    }

    /// A value that is right by itself and cannot be had here.
    fn beyond(&self, at: usize, value: &Value) -> Option<String> {
        let most = self.clients_bound.load(Ordering::Relaxed);
        let is_beyond = at == MAXCLIENTS && matches!(value, Value::Number(clients) if *clients > most);
        is_beyond.then(|| {
            format!("The operating system is not able to handle the specified number of clients, try with {most}")
        })
    }

    fn set_all(&self, pairs: &[(&[u8], &[u8])], starting: bool) -> Result<(), SetError> {
        let mut changes: Vec<(usize, Value)> = Vec::with_capacity(pairs.len());
        for (name, _) in pairs {
            if !SETTINGS.iter().any(|setting| setting.is_named(name)) {
                return Err(SetError::Unknown(String::from_utf8_lossy(name).into_owned()));
            }
        }
        for (name, text) in pairs {
            let refused = |reason: &str| SetError::Refused {
                name: String::from_utf8_lossy(name).into_owned(),
                reason: reason.to_owned(),
            };
            let (at, setting) =
                SETTINGS.iter().enumerate().find(|(_, setting)| setting.is_named(name)).expect("looked up just above");
            if !setting.mutable && !starting {
                if self.is_told(at) && self.text_at(at).as_bytes() == *text {
                    // A client writes back what it has read.
                    continue;
                }
                return Err(refused("can't set immutable config"));
            }
            if setting.secret && *text == HIDDEN.as_bytes() {
                return Err(refused("argument is what CONFIG GET shows instead of the value: choose another"));
            }
            if changes.iter().any(|(other, _)| *other == at) {
                return Err(refused("duplicate parameter"));
            }
            let value = setting.kind.parse(text).map_err(|reason| refused(&reason))?;
            if let Some(reason) = self.beyond(at, &value) {
                return Err(refused(&reason));
            }
            changes.push((at, value));
        }
        let _held = self.setting.lock();
        for (at, value) in changes {
            self.store(at, value);
        }
        Ok(())
    }

    fn store(&self, at: usize, value: Value) {
        let cell = &self.cells[at];
        match value {
            Value::Number(n) => cell.number.store(n, Ordering::Relaxed),
            Value::Text(text) => {
                let text = if at == OUTPUT_LIMIT { self.set_output_limits(&text) } else { text };
                let mut kept = cell.text.write();
                cell.number.store(text.len() as i64, Ordering::Relaxed);
                *kept = text;
            }
        }
    }

    /// From now on the limits in `text` hold, and for classes that it does not name those that there are: the text that says so.
    fn set_output_limits(&self, text: &str) -> String {
        let mut limits = self.output_limits.write();
        *limits = OutputLimits::parse(text).unwrap_or_default().over(*limits);
        limits.text()
    }

    /// What requests and answers of all clients may take of the memory, in bytes: beyond that, those that take the most are closed.
    #[must_use]
    pub fn clients_bytes_max(&self) -> u64 {
        let budget = self.size_at(MEMORY) as u64;
        match self.number_at(CLIENTS_MEMORY) {
            0 => budget.max(CLIENTS_BYTES_MIN),
            percent if percent < 0 => budget / 100 * percent.unsigned_abs(),
            bytes => bytes.unsigned_abs(),
        }
    }

    /// `client-output-buffer-limit` of a class of clients.
    #[must_use]
    pub fn output_limit(&self, class: ClientClass) -> OutputLimit {
        self.output_limits.read().of(class)
    }

    /// Whether its value may be told.
    fn is_told(&self, at: usize) -> bool {
        !SETTINGS[at].secret || self.number_at(at) == 0
    }

    /// The names and values that any of the patterns matches, as CONFIG GET answers them.
    #[must_use]
    pub fn matching(&self, patterns: &[&[u8]]) -> Vec<(&'static str, String)> {
        let _held = self.setting.lock();
        let matches = |setting: &Setting, name: &str| {
            let matches = |pattern: &&[u8]| match setting.listed {
                true => glob_matches(pattern, name.as_bytes(), true),
                false => pattern.eq_ignore_ascii_case(name.as_bytes()),
            };
            patterns.iter().any(matches)
        };
        let mut found = Vec::new();
        for (at, setting) in SETTINGS.iter().enumerate() {
            for name in [Some(setting.name), setting.alias].into_iter().flatten() {
                if matches(setting, name) {
                    found.push((name, if self.is_told(at) { self.text_at(at) } else { HIDDEN.to_owned() }));
                }
            }
        }
        found
    }

    fn text_at(&self, at: usize) -> String {
        let cell = &self.cells[at];
        let text = cell.text.read();
        SETTINGS[at].kind.format(cell.number.load(Ordering::Relaxed), &text)
    }

    /// The value of a setting as text; `None` if there is no such setting.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        SETTINGS.iter().position(|setting| setting.is_named(name.as_bytes())).map(|at| self.text_at(at))
    }

    /// The value of a setting of numbers, bytes, words (which one) or yes and no (1, 0); of text its length.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<i64> {
        SETTINGS.iter().position(|setting| setting.is_named(name.as_bytes())).map(|at| self.number_at(at))
    }

    fn number_at(&self, at: usize) -> i64 {
        self.cells[at].number.load(Ordering::Relaxed)
    }

    fn size_at(&self, at: usize) -> usize {
        usize::try_from(self.number_at(at)).unwrap_or(usize::MAX)
    }

    /// Whether new connections must give a password.
    #[must_use]
    pub fn password_required(&self) -> bool {
        self.number_at(REQUIREPASS) > 0
    }

    /// Whether `given` is the password. Takes the same time however much of it is right.
    #[must_use]
    pub fn password_is(&self, given: &[u8]) -> bool {
        self.secret_is(REQUIREPASS, given)
    }

    /// Whether `default` may log in with that password, as long as it has no rules of its own.
    #[must_use]
    pub fn lets_default_in(&self, given: &[u8]) -> bool {
        !self.password_required() || self.password_is(given)
    }

    /// Whether `given` is `recovery-password`, if there is one.
    #[must_use]
    pub fn recovery_password_is(&self, given: &[u8]) -> bool {
        self.number_at(RECOVERY_PASSWORD) > 0 && self.secret_is(RECOVERY_PASSWORD, given)
    }

    fn secret_is(&self, at: usize, given: &[u8]) -> bool {
        vocab::same_secret(given, self.cells[at].text.read().as_bytes())
    }

    /// `acl-pubsub-default`: whether new users may use all channels.
    #[must_use]
    pub fn new_users_have_all_channels(&self) -> bool {
        self.number_at(ACL_PUBSUB) == 1
    }

    /// `acllog-max-len`.
    #[must_use]
    pub fn denials_kept(&self) -> usize {
        self.size_at(ACL_LOG_LENGTH)
    }

    /// What a client may send.
    #[must_use]
    pub fn request_limits(&self, authenticated: bool) -> resp::Limits {
        resp::Limits {
            bulk_bytes_max: self.size_at(BULK),
            request_bytes_max: self.size_at(QUERY_BUFFER),
            authenticated,
            ..resp::Limits::default()
        }
    }

    /// The bound of the node's data, in bytes: `maxmemory` or `max-data-bytes`, by the engine. `None`: there is none.
    #[must_use]
    pub fn data_bound(&self) -> Option<u64> {
        let at = if self.data_is_in_memory() { MAXMEMORY } else { MAX_DATA };
        u64::try_from(self.number_at(at)).ok().filter(|bytes| *bytes > 0)
    }

    /// `engine`: whether it is `memory`.
    #[must_use]
    pub fn data_is_in_memory(&self) -> bool {
        self.number_at(ENGINE) == 1
    }

    /// `maxmemory-policy`. `None`: `noeviction`.
    #[must_use]
    pub fn eviction_policy(&self) -> Option<EvictionPolicy> {
        EvictionPolicy::of_name(self.size_at(EVICTION))
    }

    /// `maxclients`
    #[must_use]
    pub fn clients_max(&self) -> usize {
        self.size_at(MAXCLIENTS)
    }

    /// `databases`: how many there are.
    #[must_use]
    pub fn databases(&self) -> u64 {
        self.number_at(DATABASES) as u64
    }

    /// `cluster-databases`: how many there are for clients of Redis Cluster.
    #[must_use]
    pub fn cluster_databases(&self) -> u64 {
        self.number_at(CLUSTER_DATABASES) as u64
    }

    /// `timeout`, in ms; 0: none.
    #[must_use]
    pub fn idle_timeout_ms(&self) -> u64 {
        self.number_at(TIMEOUT) as u64 * 1000
    }

    /// From which value on a command is logged in this log of COMMANDLOG, in µs or bytes: `commandlog-*-than`. `None`:
    /// nothing is logged.
    #[inline]
    #[must_use]
    pub fn command_log_threshold(&self, kind: CommandLogKind) -> Option<u64> {
        u64::try_from(self.number_at(command_log_cells(kind).0)).ok()
    }

    /// How many commands this log of COMMANDLOG keeps: `commandlog-*-max-len`.
    #[must_use]
    pub fn command_log_entries_max(&self, kind: CommandLogKind) -> usize {
        self.size_at(command_log_cells(kind).1)
    }

    /// Whether commands of less than a millisecond are slow: then each is kept with its arguments until it is answered.
    #[inline]
    #[must_use]
    pub fn traces_commands(&self) -> bool {
        (0..1000).contains(&self.number_at(SLOWER_THAN))
    }

    /// `latency-monitor-threshold`; 0: off.
    #[must_use]
    pub fn latency_threshold_ms(&self) -> u64 {
        self.number_at(LATENCY_THRESHOLD) as u64
    }

    /// `durability`: whether it is `sync`.
    #[must_use]
    pub fn sync_writes(&self) -> bool {
        self.number_at(DURABILITY) == 0
    }

    /// `cluster-slots-followers`
    #[must_use]
    pub fn slots_with_followers(&self) -> bool {
        self.number_at(SLOTS_FOLLOWERS) != 0
    }

    /// `acks`: which of its words.
    #[must_use]
    pub fn acks_word(&self) -> usize {
        self.size_at(ACKS)
    }

    /// `consistency`: whether it is `any`.
    #[must_use]
    pub fn any_replica_reads(&self) -> bool {
        self.number_at(CONSISTENCY) == 1
    }

    /// `protected-mode`
    #[must_use]
    pub fn protected_mode(&self) -> bool {
        self.number_at(PROTECTED_MODE) != 0
    }

    /// Names under which this node's HTTP side is known: `http-hosts`, and what the node is told to announce and bind.
    #[must_use]
    pub fn http_names(&self) -> Vec<String> {
        let text = |name| self.text(name).unwrap_or_default();
        let (hosts, listen) = (text("http-hosts"), text("http-listen"));
        let listen = listen.rsplit_once(':').map_or(&*listen, |(host, _)| host).to_owned();
        let named = hosts.split(',').map(|name| name.trim().to_owned());
        named.chain([text("announce-host"), text("bind"), listen]).filter(|name| !name.is_empty()).collect()
    }

    /// `notify-keyspace-events`
    #[must_use]
    pub fn event_classes(&self) -> EventClasses {
        EventClasses::of_bits(self.number_at(EVENTS))
    }

    /// `tracking-table-max-keys`; 0: no bound.
    #[must_use]
    pub fn tracked_keys_max(&self) -> usize {
        self.size_at(TRACKED_KEYS)
    }

    /// `latency-tracking`
    #[must_use]
    pub fn latency_tracking(&self) -> bool {
        self.number_at(LATENCY_TRACKING) != 0
    }

    /// `helper-threads`
    #[must_use]
    pub fn helper_threads(&self) -> bool {
        self.number_at(HELPER_THREADS) != 0
    }

    /// How values are kept.
    pub(crate) fn packing(&self) -> Packing {
        let number = |at: usize| self.number_at(at).unsigned_abs();
        Packing {
            sketch_bytes: number(SKETCH_BYTES),
            run_entries: number(STREAM_RUN_ENTRIES),
            run_bytes: number(STREAM_RUN_BYTES),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_table_is_sound() {
        let config = Config::default();
        let mut names: Vec<&str> = SETTINGS.iter().flat_map(|s| [Some(s.name), s.alias]).flatten().collect();
        for name in &names {
            assert_eq!(*name, name.to_ascii_lowercase());
            let text = config.text(name).unwrap();
            let setting = SETTINGS.iter().find(|s| s.is_named(name.as_bytes())).unwrap();
            assert!(setting.kind.parse(text.as_bytes()).is_ok(), "{name} does not take back its own text {text:?}");
        }
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "two settings of one name");
        assert_eq!(config.request_limits(true).bulk_bytes_max, vocab::limits::BULK_BYTES_MAX);
        assert_eq!(config.request_limits(true).request_bytes_max, vocab::limits::QUERY_BUFFER_BYTES_MAX);
        assert_eq!(config.clients_max(), vocab::limits::CLIENTS_MAX);
    }

    #[test]
    fn clients_are_no_more_than_there_are_descriptors_for() {
        let config = Config::start([("maxclients", "5000")]).unwrap();
        assert!(!config.bound_clients(5000));
        assert!(config.bound_clients(412));
        assert_eq!(config.clients_max(), 412);
        let refused = config.set(&[(b"hz", b"60"), (b"maxclients", b"413")]).unwrap_err();
        assert!(refused.to_string().ends_with("the specified number of clients, try with 412"), "{refused}");
        config.set(&[(b"maxclients", b"10")]).unwrap();
        assert_eq!((config.clients_max(), config.number("hz")), (10, Some(10)));
    }

    #[test]
    fn several_are_set_together_or_not_at_all() {
        let config = Config::default();
        config.set(&[(b"HZ", b"50"), (b"hash-max-ziplist-entries", b"3")]).unwrap();
        assert_eq!((config.number("hz"), config.number("hash-max-listpack-entries")), (Some(50), Some(3)));
        for (pairs, error) in [
            (&[(&b"hz"[..], &b"60"[..]), (b"maxmemory", b"x")][..], "argument must be a memory value"),
            (&[(b"hz", b"60"), (b"port", b"1")], "can't set immutable config"),
            (
                &[(b"hash-max-ziplist-entries", b"60"), (b"hash-max-listpack-entries", b"1")],
                "CONFIG SET failed (possibly related to argument 'hash-max-listpack-entries') - duplicate parameter",
            ),
            (&[(b"hz", b"60"), (b"nil", b"1")], "Unknown option or number of arguments for CONFIG SET - 'nil'"),
            (&[(b"port", b"65536")], "can't set immutable config"),
            (&[(b"maxclients", b"0")], "argument must be between 1 and 4294967295 inclusive"),
            (&[(b"activedefrag", b"1")], "argument must be 'yes' or 'no'"),
        ] {
            let got = config.set(pairs).unwrap_err().to_string();
            assert!(got.ends_with(error), "{got}");
        }
        assert_eq!((config.number("hz"), config.number("hash-max-listpack-entries")), (Some(50), Some(3)));
    }

    #[test]
    fn on_a_command_line_a_setting_is_what_was_typed() {
        for (pair, text) in [
            (("memory", "x"), "--memory: argument must be a memory value"),
            (("hz", "x"), "--set hz: argument couldn't be parsed into an integer"),
            (("nil", "1"), "--set nil: there is no such setting"),
        ] {
            let error = Config::start([pair]).unwrap_err();
            assert_eq!(error.on_command_line(|name| name == "memory"), text);
        }
    }

    #[test]
    fn what_was_read_can_be_written_back_but_no_secret_be_guessed() {
        let config = Config::start([("peer-secret", "geheim")]).unwrap();
        let all = config.matching(&[b"*"]);
        for (name, value) in all.iter().filter(|(_, value)| value != HIDDEN) {
            config.set(&[(name.as_bytes(), value.as_bytes())]).unwrap();
        }
        assert!(config.set(&[(b"peer-secret", b"geheim")]).is_err());
        assert!(!all.iter().any(|(name, _)| *name == "key-load-delay"));
        assert_eq!(config.matching(&[b"KEY-load-delay"]), [("key-load-delay", "0".to_owned())]);
    }

    #[test]
    fn starting_sets_what_is_fixed_later() {
        let config = Config::start([("shards", "4"), ("memory", "4GB"), ("durability", "nosync")]).unwrap();
        assert_eq!(config.number("memory"), Some(4 << 30));
        assert_eq!(config.text("durability").as_deref(), Some("nosync"));
        config.listening("::1", 7001);
        let found = config.matching(&[b"listen", b"PORT", b"b?nd"]);
        let expected = [("listen", "[::1]:7001"), ("port", "7001"), ("bind", "::1")];
        assert_eq!(found, expected.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn what_the_store_sets_can_be_taken_back() {
        let config = Config::start([("durability", "nosync")]).unwrap();
        config.set_for_store("durability", None).unwrap();
        config.set_for_store("transfer-rate", Some("5000000")).unwrap();
        config.set_for_store("durability", Some("sync")).unwrap();
        config.set_for_store("durability", Some("sync")).unwrap();
        assert!(config.sync_writes());
        assert_eq!(config.number("transfer-rate"), Some(5_000_000));
        for name in ["durability", "transfer-rate"] {
            config.set_for_store(name, None).unwrap();
        }
        assert!(!config.sync_writes());
        assert_eq!(config.number("transfer-rate"), Some(200 << 20));
        assert!(config.set_for_store("durability", Some("never")).is_err());
        assert!(config.set_for_store("nosuch", Some("1")).is_err());
    }

    #[test]
    fn a_rewrite_has_what_is_the_node_s_own() {
        let config = Config::start([("hz", "20")]).unwrap();
        assert_eq!(config.rewrite(), Err(RewriteError::NoFile));
        let (send, receive) = std::sync::mpsc::channel();
        config.on_rewrite(move |values| send.send(values.to_vec()).map_err(|e| e.to_string()));
        config.set(&[(b"requirepass", b"geheim")]).unwrap();
        config.set_for_store("durability", Some("nosync")).unwrap();
        config.rewrite().unwrap();
        let values = receive.recv().unwrap();
        for (name, value) in [("hz", "20"), ("requirepass", "geheim"), ("durability", "sync"), ("maxmemory", "0")] {
            assert!(values.contains(&(name, value.to_owned())), "{name}");
        }
        assert!(!values.iter().any(|(name, _)| ["listen", "notify-keyspace-events"].contains(name)));
        drop(receive);
        assert!(matches!(config.rewrite(), Err(RewriteError::Failed(_))));
    }

    #[test]
    fn passwords() {
        let config = Config::default();
        assert!(!config.password_required());
        config.set(&[(b"requirepass", b"geheim")]).unwrap();
        assert!(config.password_required() && config.password_is(b"geheim"));
        for wrong in [&b""[..], b"gehei", b"geheim\0", b"Geheim"] {
            assert!(!config.password_is(wrong));
        }
    }
}
