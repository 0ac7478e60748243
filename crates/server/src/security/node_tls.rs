//! The certificates of a node as they are loaded, and how its connections use them.
//!
//! Open connections keep the certificates that they were made with. New ones use those that were loaded last. Files that cannot be
//! used leave the old certificates in use.

use super::tls_ports::TlsPorts;
use node::Config;
use parking_lot::{Mutex, RwLock};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use tls::{Authorities, Certificate, ClientCertificates, ClientSide, Credentials, Protocols, ServerSide, Trust};
use vocab::host_of;

const DAY_S: i64 = 24 * 3600;
/// A certificate counts as expiring soon during its last seconds, this many.
const SOON_S: i64 = 14 * DAY_S;

/// `tls-cluster`: whether nodes speak TLS to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerMode {
    /// Calls are made without TLS. Calls of other nodes may have it.
    No,
    /// Only TLS.
    Yes,
    /// Calls are made with TLS, and without it if that fails.
    Optional,
}

impl PeerMode {
    /// What a call to a node tries, in order: with TLS (true) or without.
    pub(crate) fn tries(self) -> &'static [bool] {
        match self {
            Self::No => &[false],
            Self::Yes => &[true],
            Self::Optional => &[true, false],
        }
    }

    /// Whether the next call to a node has TLS, when this many in a row have failed.
    pub(crate) fn encrypts(self, failures: u32) -> bool {
        let tries = self.tries();
        tries[failures as usize % tries.len()]
    }
}

/// How connections between nodes begin, on either side.
struct PeerSides {
    /// For nodes that call this one: they must show a certificate.
    accept: ServerSide,
    /// For calls of this node.
    call: ClientSide,
}

/// The certificates in use.
struct Loaded {
    clients: ServerSide,
    http: ServerSide,
    /// None without authorities, because nodes must verify each other.
    peers: Option<PeerSides>,
    certificate: Certificate,
    authority: Option<Certificate>,
}

/// One of the files as it was seen: its path, inode, size and time of change.
type Seen = (PathBuf, u64, u64, (i64, i64));

#[derive(Default)]
struct Watched {
    /// The files that were loaded last, or whose loading failed.
    seen: Vec<Seen>,
    /// The files at the last look.
    last: Vec<Seen>,
    /// Why the present files cannot be used.
    trouble: Option<String>,
}

/// What operators are told.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFacts {
    pub(crate) certificate: Option<Certificate>,
    pub(crate) authority: Option<Certificate>,
    pub(crate) trouble: Option<String>,
}

/// The certificates of a node.
pub struct NodeTls {
    config: Arc<Config>,
    loaded: RwLock<Option<Arc<Loaded>>>,
    /// Held while files are read.
    watched: Mutex<Watched>,
    /// The ports for clients with TLS.
    pub(crate) ports: Arc<TlsPorts>,
}

impl NodeTls {
    /// Loads the files that the settings name; an error if the settings ask for TLS and it cannot be used.
    pub(crate) fn open(config: Arc<Config>) -> Result<Self, String> {
        let (loaded, watched) = (RwLock::default(), Mutex::default());
        let tls = Self { config, loaded, watched, ports: Arc::default() };
        tls.reload()?;
        Ok(tls)
    }

    /// Reads all files again. The error says what is wrong; then what was loaded before stays in use.
    pub(crate) fn reload(&self) -> Result<(), String> {
        let mut watched = self.watched.lock();
        self.reload_now(&mut watched)
    }

    fn reload_now(&self, watched: &mut Watched) -> Result<(), String> {
        // Noted before the files are read, so that a change meanwhile causes another reading.
        watched.seen = self.see();
        watched.last.clone_from(&watched.seen);
        let loaded = load(&self.config);
        watched.trouble = loaded.as_ref().err().cloned();
        *self.loaded.write() = loaded?.map(Arc::new);
        Ok(())
    }

    /// Reads the files again if one of them has changed, and none has since the last look: a certificate and its key are
    /// replaced one after the other. Answers what came of that; `None`: there was nothing to do.
    pub(crate) fn look(&self) -> Option<Result<(), String>> {
        let mut watched = self.watched.lock();
        let now = self.see();
        let is_stable = now == watched.last;
        watched.last = now;
        (is_stable && watched.last != watched.seen).then(|| self.reload_now(&mut watched))
    }

    /// The files that the settings name, as they are now.
    fn see(&self) -> Vec<Seen> {
        let path = |name| path(&self.config, name);
        let mut paths: Vec<PathBuf> =
            [path("tls-cert-file"), path("tls-key-file"), path("tls-ca-cert-file")].into_iter().flatten().collect();
        if let Some(folder) = path("tls-ca-cert-dir") {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            paths.extend(entries.map(|entry| entry.path()));
        }
        let seen = |path: PathBuf| {
            let data = fs::metadata(&path).ok()?;
            Some((path, data.ino(), data.len(), (data.mtime(), data.mtime_nsec())))
        };
        let mut seen: Vec<Seen> = paths.into_iter().filter_map(seen).collect();
        seen.sort();
        seen
    }

    fn now(&self) -> Option<Arc<Loaded>> {
        self.loaded.read().clone()
    }

    /// The server's side of a client's connection.
    pub(crate) fn accept_client(&self) -> Result<tls::Connection, String> {
        self.now().ok_or("no certificate is loaded")?.clients.accept()
    }

    /// The server's side of a connection for HTTP.
    pub(crate) fn accept_http(&self) -> Result<tls::Connection, String> {
        self.now().ok_or("no certificate is loaded")?.http.accept()
    }

    /// Whether nodes speak TLS to each other.
    pub(crate) fn peer_mode(&self) -> PeerMode {
        match self.config.text("tls-cluster").as_deref() {
            Some("yes") => PeerMode::Yes,
            Some("optional") => PeerMode::Optional,
            _ => PeerMode::No,
        }
    }

    /// The server's side of a connection that another node has begun with TLS.
    pub(crate) fn accept_peer(&self) -> Result<tls::Connection, String> {
        let loaded = self.now();
        let sides = loaded.as_ref().and_then(|loaded| loaded.peers.as_ref());
        sides.ok_or(NOT_FOR_PEERS)?.accept.accept()
    }

    /// The client's side of a call to the node at an address, `HOST:PORT`.
    pub(crate) fn call_peer(&self, address: &str) -> Result<tls::Connection, String> {
        let loaded = self.now();
        let sides = loaded.as_ref().and_then(|loaded| loaded.peers.as_ref());
        sides.ok_or(NOT_FOR_PEERS)?.call.connect(host_of(address))
    }

    /// What is wrong with the certificates, or will be soon, in words.
    pub(crate) fn problems(&self, now_s: i64) -> Vec<String> {
        let facts = self.facts();
        let mut problems: Vec<String> = Vec::new();
        if let Some(why) = facts.trouble {
            problems.push(format!("its new TLS files are not used, and those before stay in use: {why}"));
        }
        for (what, certificate) in
            [("its certificate", facts.certificate), ("the certificate of an authority", facts.authority)]
        {
            let Some(certificate) = certificate else { continue };
            match certificate.left_s(now_s) {
                left_s if left_s < 0 => {
                    problems.push(format!(
                        "{what} ({}) has expired: clients and nodes refuse it",
                        certificate.shown_names()
                    ));
                }
                left_s if left_s < SOON_S => {
                    problems.push(format!("{what} ({}) expires in {} days", certificate.shown_names(), left_s / DAY_S));
                }
                _ => {}
            }
        }
        problems
    }

    /// What operators are told.
    pub(crate) fn facts(&self) -> TlsFacts {
        let loaded = self.now();
        TlsFacts {
            certificate: loaded.as_ref().map(|loaded| loaded.certificate.clone()),
            authority: loaded.as_ref().and_then(|loaded| loaded.authority.clone()),
            trouble: self.watched.lock().trouble.clone(),
        }
    }
}

const NOT_FOR_PEERS: &str = "this node has no certificate, or no authorities, for TLS between nodes (tls-cert-file, \
    tls-key-file, tls-ca-cert-file)";

fn path(config: &Config, name: &str) -> Option<PathBuf> {
    config.text(name).filter(|text| !text.is_empty()).map(PathBuf::from)
}

/// What the settings ask for; `None`: no certificate.
fn load(config: &Config) -> Result<Option<Loaded>, String> {
    let path = |name| path(config, name);
    let is = |name: &str, word: &str| config.text(name).as_deref() == Some(word);
    let (file, folder) = (path("tls-ca-cert-file"), path("tls-ca-cert-dir"));
    let authorities = match file.is_some() || folder.is_some() {
        true => Some(Authorities::load(file.as_deref(), folder.as_deref())?),
        false => None,
    };
    let between_nodes = !is("tls-cluster", "no");
    let (certificate, key) = match (path("tls-cert-file"), path("tls-key-file")) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) if listens(config) => return Err("tls-cert-file and tls-key-file are needed for TLS".to_owned()),
        (None, None) if between_nodes => {
            return Err("tls-cert-file and tls-key-file are needed for tls-cluster".to_owned());
        }
        (None, None) => return Ok(None),
        _ => return Err("tls-cert-file and tls-key-file go together: one of them is not set".to_owned()),
    };
    let password = config.text("tls-key-file-pass").unwrap_or_default();
    let credentials = Credentials::load(&certificate, &key, password.as_bytes())?;
    let protocols = Protocols::parse(&config.text("tls-protocols").unwrap_or_default())?;
    let caches = is("tls-session-caching", "yes");
    let sessions = config.number("tls-session-cache-size").filter(|_| caches).and_then(|n| usize::try_from(n).ok());
    let sessions = sessions.unwrap_or_default();
    let needed = |what: &str| format!("tls-ca-cert-file or tls-ca-cert-dir is needed for {what}");
    let of_clients = match (config.text("tls-auth-clients").as_deref(), &authorities) {
        (Some("no"), _) => ClientCertificates::No,
        (_, None) if !listens_for_clients(config) => ClientCertificates::No,
        (Some("optional"), Some(authorities)) => ClientCertificates::Optional(authorities.clone()),
        (_, Some(authorities)) => ClientCertificates::Required(authorities.clone()),
        (Some(word), None) => return Err(needed(&format!("tls-auth-clients {word}"))),
        (None, None) => ClientCertificates::No,
    };
    // Browsers and scrapers have no certificate, except those that it logs in.
    let of_operators = match &authorities {
        Some(authorities) if !is("tls-auth-clients-user", "off") => ClientCertificates::Optional(authorities.clone()),
        _ => ClientCertificates::No,
    };
    let peers = match &authorities {
        Some(authorities) => {
            let required = ClientCertificates::Required(authorities.clone());
            let accept = ServerSide::new(&credentials, &required, protocols, sessions)?;
            let call = ClientSide::new(&Trust::Authorities(authorities.clone()), Some(&credentials), protocols)?;
            Some(PeerSides { accept, call })
        }
        None if between_nodes => return Err(needed("tls-cluster")),
        None => None,
    };
    Ok(Some(Loaded {
        clients: ServerSide::new(&credentials, &of_clients, protocols, sessions)?,
        http: ServerSide::new(&credentials, &of_operators, protocols, sessions)?,
        peers,
        certificate: credentials.certificate().clone(),
        authority: authorities.map(|authorities| authorities.first_to_expire().clone()),
    }))
}

/// Whether clients are served with TLS.
fn listens_for_clients(config: &Config) -> bool {
    config.number("tls-port").is_some_and(|port| port > 0) || path(config, "tls-database-listen").is_some()
}

/// Whether clients or operators are.
fn listens(config: &Config) -> bool {
    listens_for_clients(config) || path(config, "tls-http-listen").is_some()
}
