//! `basalt start`: one node, until it is told to stop.

use crate::config::{Given, Origin, last_of_each, of_environment, read_file, rewrite};
use crate::health::{HealthDoor, Pulse};
use crate::logging;
use crate::service_manager::ServiceManager;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use node::Config;
use server::Server;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where clients are served if nothing else is said.
const LISTEN: &str = "127.0.0.1:7000";
/// Where Redis serves clients if nothing else is said.
const REDIS: &str = "127.0.0.1:6379";

const AFTER: &str = "\
A setting has the last of: its default, the file of --config, the environment (BASALT_MEMORY=8g), the command line.
CONFIG GET reads every setting; CONFIG SET changes those that `basalt config print` marks as live, and CONFIG REWRITE
writes them to the file.

SIGTERM, SIGINT and SHUTDOWN stop the node in order. A kill -9 loses no acknowledged write with --durability sync.";

/// How a node is started.
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub struct StartOptions {
    /// File with settings: TOML, as `basalt config print` writes it, or a redis.conf
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port for clients
    #[arg(long, value_name = "HOST:PORT", default_value = LISTEN)]
    listen: String,
    /// Data directory; made if it is not there
    #[arg(long = "data", alias = "dir", value_name = "DIR", default_value = "./basalt-data")]
    dir: String,
    /// Shards of a new store: Raft groups that share the slots evenly
    #[arg(long, value_name = "N", default_value = "16")]
    shards: String,
    /// When a write is answered: on disk (sync), or in the operating system's memory and on disk within 100 ms (nosync)
    #[arg(long, value_name = "sync|nosync", default_value = "sync")]
    durability: String,
    /// Where the data is: on disk (lsm), or in memory with the log on disk (memory)
    #[arg(long, value_name = "lsm|memory", default_value = "lsm")]
    engine: String,
    /// Bound for caches, memtables, log cache and client buffers together
    #[arg(long, value_name = "BYTES", default_value = "4gb")]
    memory: String,
    /// Bytes a second that compaction may write; 0: no limit
    #[arg(long, value_name = "BYTES", default_value = "0")]
    rate_limit: String,
    /// How data is compressed on disk
    #[arg(long, value_name = "lz4|zstd|none", default_value = "lz4")]
    compression: String,
    /// Values from this size on are kept out of the tree's levels
    #[arg(long, value_name = "BYTES", default_value = "4kb")]
    separation_bytes: String,
    /// Threads that serve clients; 0: one for every two processors
    #[arg(long, value_name = "N", default_value = "0")]
    workers: String,
    /// Most connected clients
    #[arg(long, value_name = "N", default_value = "10000")]
    maxclients: String,
    /// Password that clients must give with AUTH
    #[arg(long, value_name = "PASSWORD", default_value = "", hide_default_value = true)]
    requirepass: String,
    /// Host that clients are told, if it is not the one they connect to
    #[arg(long, value_name = "HOST", default_value = "", hide_default_value = true)]
    announce_host: String,
    /// Port that clients are told, if it is not the one listened on
    #[arg(long, value_name = "PORT", default_value = "0", hide_default_value = true)]
    announce_port: String,
    /// Address and port for clients that do not know clusters, as of a plain Redis with 16 databases; `none`: there is none.
    /// Without --listen, 127.0.0.1:6379 if that is free
    #[arg(long, value_name = "HOST:PORT", default_value = "", hide_default_value = true)]
    database_listen: String,
    /// Address and port for HTTP: metrics, health, the admin API, the console; without it, there is none
    #[arg(long, value_name = "HOST:PORT", default_value = "", hide_default_value = true)]
    http_listen: String,
    /// Port for clients with TLS, at the host of --listen; 0: none
    #[arg(long, help_heading = "TLS", value_name = "PORT", default_value = "0", hide_default_value = true)]
    tls_port: String,
    /// Address and port for clients of databases with TLS
    #[arg(long, help_heading = "TLS", value_name = "HOST:PORT", default_value = "", hide_default_value = true)]
    tls_database_listen: String,
    /// Address and port for HTTPS
    #[arg(long, help_heading = "TLS", value_name = "HOST:PORT", default_value = "", hide_default_value = true)]
    tls_http_listen: String,
    /// Certificate of this node, in PEM, with those that vouch for it
    #[arg(long, help_heading = "TLS", value_name = "FILE", default_value = "", hide_default_value = true)]
    tls_cert_file: String,
    /// Key of the certificate, in PEM
    #[arg(long, help_heading = "TLS", value_name = "FILE", default_value = "", hide_default_value = true)]
    tls_key_file: String,
    /// Certificates of the authorities that clients and other nodes must be of, in PEM
    #[arg(long, help_heading = "TLS", value_name = "FILE", default_value = "", hide_default_value = true)]
    tls_ca_cert_file: String,
    /// Whether clients with TLS must show a certificate
    #[arg(long, help_heading = "TLS", value_name = "yes|no|optional", default_value = "yes")]
    tls_auth_clients: String,
    /// Whether nodes speak TLS to each other; optional: if the other does, for a change without downtime
    #[arg(long, help_heading = "TLS", value_name = "yes|no|optional", default_value = "no")]
    tls_cluster: String,
    /// Address and port for other nodes; without it, the node is a store by itself
    #[arg(long, value_name = "HOST:PORT", default_value = "", hide_default_value = true)]
    peer_listen: String,
    /// Address that other nodes are told, if it is not the one listened on
    #[arg(long, value_name = "HOST:PORT", default_value = "", hide_default_value = true)]
    announce_peer: String,
    /// Peer addresses of nodes to find the store by, separated by commas
    #[arg(long, value_name = "HOST:PORT,…", default_value = "", hide_default_value = true)]
    join: String,
    /// Make the store as soon as enough nodes have joined this one: for one of its first nodes
    #[arg(long)]
    init: bool,
    /// Set log and trees aside, which may be damaged, and take everything anew from the other nodes
    #[arg(long)]
    rebuild: bool,
    /// Go on without an entry of the log that cannot be applied. Every node with a replica of the shard needs the same
    #[arg(long, value_name = "SHARD:INDEX", default_value = "", hide_default_value = true)]
    skip_entry: String,
    /// Replicas of each shard of a new store of several nodes
    #[arg(long, value_name = "N", default_value = "3")]
    replication_factor: String,
    /// The failure domain that this node is in
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    zone: String,
    /// Stop when standard input ends: for a program that starts nodes and is not to be outlived by them
    #[arg(long)]
    stop_with_stdin: bool,
    /// Answer `basalt ctl health`: the image for containers adds it
    #[arg(long, hide = true)]
    answer_health: bool,
    /// Any other setting of CONFIG GET, as NAME=VALUE; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

/// NAME=VALUE.
pub fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is expected")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl StartOptions {
    /// The settings that are flags of their own, with their values.
    fn flags(&self) -> [(&str, &str); 32] {
        [
            ("listen", &self.listen),
            ("dir", &self.dir),
            ("shards", &self.shards),
            ("durability", &self.durability),
            ("engine", &self.engine),
            ("memory", &self.memory),
            ("rate-limit", &self.rate_limit),
            ("compression", &self.compression),
            ("separation-bytes", &self.separation_bytes),
            ("workers", &self.workers),
            ("maxclients", &self.maxclients),
            ("requirepass", &self.requirepass),
            ("announce-host", &self.announce_host),
            ("announce-port", &self.announce_port),
            ("peer-listen", &self.peer_listen),
            ("announce-peer", &self.announce_peer),
            ("join", &self.join),
            ("init", if self.init { "yes" } else { "no" }),
            ("rebuild", if self.rebuild { "yes" } else { "no" }),
            ("skip-entry", &self.skip_entry),
            ("replication-factor", &self.replication_factor),
            ("zone", &self.zone),
            ("database-listen", &self.database_listen),
            ("http-listen", &self.http_listen),
            ("tls-port", &self.tls_port),
            ("tls-database-listen", &self.tls_database_listen),
            ("tls-http-listen", &self.tls_http_listen),
            ("tls-cert-file", &self.tls_cert_file),
            ("tls-key-file", &self.tls_key_file),
            ("tls-ca-cert-file", &self.tls_ca_cert_file),
            ("tls-auth-clients", &self.tls_auth_clients),
            ("tls-cluster", &self.tls_cluster),
        ]
    }

    /// The command line's own: flags that were typed, then `--set`, which wins.
    fn typed(&self, matches: Option<&ArgMatches>) -> Vec<Given> {
        let is_typed = |flag: &str| {
            matches.and_then(|matches| matches.value_source(&flag.replace('-', "_"))) == Some(ValueSource::CommandLine)
        };
        let given = |name: &str, value: &str, origin| Given { name: name.to_owned(), value: value.to_owned(), origin };
        let flags = self.flags().into_iter().filter(|(flag, _)| is_typed(flag));
        let flags = flags.map(|(name, value)| given(name, value, Origin::Flag));
        flags.chain(self.set.iter().map(|(name, value)| given(name, value, Origin::Set))).collect()
    }

    /// What the file, the environment and the command line give. The error has a line for each setting that is wrong.
    fn told(&self, matches: Option<&ArgMatches>) -> Result<GivenSettings, String> {
        let file = self.config.as_deref().map(read_file).transpose()?.unwrap_or_default();
        let mut faults: Vec<String> = file.errors.iter().map(ToString::to_string).collect();
        let environment = of_environment();
        let others: Vec<Given> = environment.given.into_iter().chain(self.typed(matches)).collect();
        faults.extend(others.iter().filter_map(Given::fault));
        let mut given = last_of_each(file.given.into_iter().chain(others).collect());
        let lacks_port = settle_databases(&mut given);
        faults.extend(given.iter().filter_map(told_fault));
        faults.extend(lone_fault(&given));
        if faults.is_empty() {
            let warnings = file.warnings.iter().map(ToString::to_string).chain(environment.warnings).collect();
            return Ok(GivenSettings { given, warnings, lacks_port });
        }
        Err(faults.join("\nbasalt start: "))
    }
}

/// What a node is told before it starts.
struct GivenSettings {
    /// All settings.
    given: Vec<Given>,
    /// What is to be said about the file and the environment.
    warnings: Vec<String>,
    /// It would serve clients of databases at Redis's port, but that is taken.
    lacks_port: bool,
}

/// Where clients of databases are served. A node that is not told where it listens takes Redis's port, if nothing has it: answers
/// whether something has.
fn settle_databases(given: &mut Vec<Given>) -> bool {
    let is_told = |name: &str| given.iter().any(|one| one.name.eq_ignore_ascii_case(name));
    let wants_port = !is_told("database-listen") && !is_told("listen");
    let is_free = wants_port && TcpListener::bind(REDIS).is_ok();
    if is_free {
        given.push(Given { name: "database-listen".to_owned(), value: REDIS.to_owned(), origin: Origin::Flag });
    }
    for one in given.iter_mut().filter(|one| one.name.eq_ignore_ascii_case("database-listen") && one.value == "none") {
        one.value.clear();
    }
    wants_port && !is_free
}

/// What is wrong with a text that other nodes and clients are told. The metadata group would refuse it without saying where
/// it was written.
fn told_fault(one: &Given) -> Option<String> {
    const TOLD: [&str; 4] = ["announce-host", "announce-peer", "announce-database", "zone"];
    let name = one.name.to_ascii_lowercase();
    let is_bad = |c: char| c.is_control() || c.is_whitespace() || c == ',';
    if TOLD.contains(&name.as_str()) && one.value.contains(is_bad) {
        return Some(format!("{one} `{}`: it contains a space, comma or control character", one.value));
    }
    let is_whole = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
    let lacks_part = !one.value.is_empty() && !vocab::host_and_port(&one.value).is_some_and(is_whole);
    (name == "announce-database" && lacks_part)
        .then(|| format!("{one} `{}`: it is no host and port (HOST:PORT)", one.value))
}

/// A node without an address for others would be a store by itself, whatever it was to be a part of.
fn lone_fault(given: &[Given]) -> Option<String> {
    let told = |name: &str| given.iter().find(|one| one.name.eq_ignore_ascii_case(name));
    if told("peer-listen").is_some_and(|one| !one.value.is_empty()) {
        return None;
    }
    let joins = told("join").filter(|one| !one.value.is_empty());
    let of_several = joins.or_else(|| told("init").filter(|one| one.value.eq_ignore_ascii_case("yes")))?;
    Some(format!(
        "{of_several} is for a node of a store of several, and no other node can reach this one: \
         add --peer-listen HOST:PORT. Nothing was started"
    ))
}

/// The settings of the node, and where its log goes. `verbose`: what was asked for on the command line, above `loglevel`.
fn settings(options: &StartOptions, matches: Option<&ArgMatches>, verbose: u8) -> Result<Config, String> {
    let GivenSettings { given, warnings, lacks_port } = options.told(matches)?;
    let pairs = given.iter().map(|one| (one.name.as_str(), one.value.as_str()));
    let config = Config::start(pairs).map_err(|e| e.on_command_line(|_| false))?;
    logging::follow(&config, verbose)?;
    for warning in warnings {
        log::warn!("{warning}");
    }
    if lacks_port {
        log::info!("no databases: {REDIS} is taken (--database-listen)");
    }
    if let Some(path) = options.config.clone() {
        config.on_rewrite(move |values| rewrite(&path, values));
    }
    Ok(config)
}

/// Runs a node until SIGTERM, SIGINT or SHUTDOWN.
pub fn run(options: &StartOptions, matches: Option<&ArgMatches>, verbose: u8) -> ExitCode {
    let config = match settings(options, matches, verbose) {
        Ok(config) => config,
        Err(e) => {
            bench::note!("basalt start: {e}");
            return ExitCode::from(2);
        }
    };
    // They take up to twice the memory that was given, and stalls to be made: as Redis does, and whatever the system's default.
    if let Err(e) = rustix::thread::disable_transparent_huge_pages(true) {
        log::debug!("transparent huge pages stay as the system has them: {e}");
    }
    let signals = match Signals::catch() {
        Ok(signals) => signals,
        Err(e) => {
            bench::note!("basalt start: signals cannot be handled: {e}");
            return ExitCode::FAILURE;
        }
    };
    if options.stop_with_stdin
        && let Err(e) = watch_stdin(signals.stop.clone())
    {
        bench::note!("basalt start: {e}");
        return ExitCode::FAILURE;
    }
    let mut manager = ServiceManager::of_environment();
    let started = {
        let _patience = manager.patience();
        Server::start(config)
    };
    let server = match started {
        Ok(server) => server,
        Err(e) => {
            bench::note!("basalt start: {e}");
            return ExitCode::FAILURE;
        }
    };
    announce(&server);
    manager.ready();
    let mut pulse = Pulse::new(manager.watches());
    let door = options.answer_health.then(HealthDoor::open).flatten();
    while !signals.stop.load(Ordering::Acquire) && !server.stop_asked() {
        if signals.reload.swap(false, Ordering::AcqRel) {
            logging::reopen();
            server.reopen_audit_log();
            match server.reload_certificates() {
                Ok(()) => log::info!("SIGHUP: the certificates are read again"),
                Err(e) => log::error!("SIGHUP: the certificates in use stay: {e}"),
            }
        }
        logging::set_level(server.config(), verbose);
        logging::tell_left_out(false);
        // Idle loops are not woken for an answer that is not wanted.
        if manager.watches().is_some() || door.is_some() {
            pulse.take(&server);
            manager.tick(pulse.worked());
        }
        if let Some(door) = &door {
            door.answer(&pulse);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    log::info!("stopping");
    manager.stopping();
    let _patience = manager.patience();
    server.stop();
    logging::tell_left_out(true);
    log::info!("stopped");
    ExitCode::SUCCESS
}

/// What signals have asked for.
struct Signals {
    /// The end.
    stop: Arc<AtomicBool>,
    /// To read the certificates again, and to open the files of the log and of the audit log again.
    reload: Arc<AtomicBool>,
}

impl Signals {
    fn catch() -> std::io::Result<Self> {
        let signals = Self { stop: Arc::default(), reload: Arc::default() };
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, signals.stop.clone())?;
        }
        // Programs that rotate logs send these to others: here SIGHUP opens the file again, and these end nothing.
        for signal in [SIGUSR1, SIGUSR2] {
            signal_hook::flag::register(signal, Arc::default())?;
        }
        signal_hook::flag::register(SIGHUP, signals.reload.clone())?;
        Ok(signals)
    }
}

/// Logs where the node is reached.
fn announce(server: &Server) {
    let at = server.addresses();
    if let Some(address) = at.clients {
        log::info!("basalt {} serves {address}: {}", env!("CARGO_PKG_VERSION"), server.describe());
    }
    if let Some(address) = at.databases {
        log::info!("databases redis://{address}");
    }
    if let Some(address) = at.http {
        log::info!("operators find it at http://{address}");
    }
    for (what, scheme, address) in [
        ("clients", "rediss", at.tls_clients),
        ("databases", "rediss", at.tls_databases),
        ("operators", "https", at.tls_http),
    ] {
        if let Some(address) = address {
            log::info!("{what} with TLS {scheme}://{address}");
        }
    }
}

/// Asks for the end when standard input ends.
fn watch_stdin(asked: Arc<AtomicBool>) -> std::io::Result<()> {
    let watch = move || {
        // What is written there, or fails there, does not matter: it is over.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        asked.store(true, Ordering::Release);
    };
    std::thread::Builder::new().name("stdin".to_owned()).spawn(watch).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_joins_others_has_an_address_for_them() {
        let one =
            |name: &str, value: &str| Given { name: name.to_owned(), value: value.to_owned(), origin: Origin::Flag };
        let peer = || one("peer-listen", "127.0.0.1:17000");
        for (given, is_refused) in [
            (vec![one("join", "127.0.0.1:17001")], true),
            (vec![one("init", "yes"), one("peer-listen", "")], true),
            (vec![one("Join", "127.0.0.1:17001"), one("peer-listen", "")], true),
            (vec![one("join", "127.0.0.1:17001"), one("init", "yes"), peer()], false),
            (vec![one("join", ""), one("init", "no")], false),
            (vec![], false),
        ] {
            let fault = lone_fault(&given);
            assert_eq!(fault.is_some(), is_refused, "{fault:?}");
            assert!(fault.is_none_or(|text| text.contains("add --peer-listen")));
        }
    }

    #[test]
    fn a_node_that_is_told_where_it_listens_takes_no_port_of_redis() {
        for (name, value, settled) in [("listen", LISTEN, LISTEN), ("DATABASE-LISTEN", "none", "")] {
            let mut given = vec![Given { name: name.to_owned(), value: value.to_owned(), origin: Origin::Set }];
            assert!(!settle_databases(&mut given), "{name}");
            let values: Vec<_> = given.iter().map(|one| one.value.as_str()).collect();
            assert_eq!(values, [settled]);
        }
    }
}
