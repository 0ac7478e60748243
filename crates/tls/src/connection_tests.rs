#![allow(clippy::unwrap_used)]
use super::*;
use crate::{Authorities, ClientCertificates, ClientSide, Credentials, Protocols, ServerSide, Trust};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::fs;
use std::path::{Path, PathBuf};

/// Both directions of a socket that takes and gives so many bytes at once.
#[derive(Default)]
struct Pipe {
    to: Vec<u8>,
    from: Vec<u8>,
    room: usize,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.from.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = buffer.len().min(self.from.len());
        buffer[..count].copy_from_slice(&self.from[..count]);
        self.from.drain(..count);
        Ok(count)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.room - self.to.len());
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.to.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Pki {
    folder: tempfile::TempDir,
}

impl Pki {
    /// An authority, and certificates of it by these names: each for the host `NAME.example`.
    fn new(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(folder.path().join("ca.crt"), authority.pem()).unwrap();
        for name in names {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new([format!("{name}.example")]).unwrap();
            params.distinguished_name.push(DnType::CommonName, *name);
            let certificate = params.signed_by(&key, &*authority).unwrap();
            fs::write(folder.path().join(format!("{name}.crt")), certificate.pem()).unwrap();
            fs::write(folder.path().join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn credentials(&self, name: &str) -> Credentials {
        Credentials::load(&self.path(&format!("{name}.crt")), &self.path(&format!("{name}.key")), b"").unwrap()
    }

    fn authorities(&self) -> Authorities {
        Authorities::load(Some(&self.path("ca.crt")), None).unwrap()
    }
}

/// A server and a client, and the pipes between them.
struct Pair {
    server: Connection,
    client: Connection,
    of_server: Pipe,
    of_client: Pipe,
}

impl Pair {
    fn new(server: &ServerSide, client: &ClientSide, host: &str) -> Self {
        let pipe = || Pipe { room: 1 << 20, ..Pipe::default() };
        let (server, client) = (server.accept().unwrap(), client.connect(host).unwrap());
        Self { server, client, of_server: pipe(), of_client: pipe() }
    }

    fn exchange(&mut self) {
        self.of_server.from.append(&mut self.of_client.to);
        self.of_client.from.append(&mut self.of_server.to);
    }

    /// Both sides shake hands; an error of either side ends that.
    fn shake(&mut self) -> io::Result<()> {
        for _ in 0..10 {
            let client = self.client.handshake(&mut self.of_client)?;
            self.exchange();
            let server = self.server.handshake(&mut self.of_server)?;
            self.exchange();
            if client && server {
                return Ok(());
            }
        }
        panic!("a handshake that does not end")
    }
}

fn sides(
    clients: &ClientCertificates,
    trust: &Trust,
    shown: Option<&Credentials>,
    pki: &Pki,
) -> (ServerSide, ClientSide) {
    let protocols = Protocols::default();
    let server = ServerSide::new(&pki.credentials("db"), clients, protocols, 100).unwrap();
    (server, ClientSide::new(trust, shown, protocols).unwrap())
}

#[test]
fn bytes_go_both_ways_whatever_the_sockets_take() {
    let pki = Pki::new(&["db", "alice"]);
    let trust = Trust::Authorities(pki.authorities());
    let alice = pki.credentials("alice");
    let (server, client) = sides(&ClientCertificates::Required(pki.authorities()), &trust, Some(&alice), &pki);
    let mut pair = Pair::new(&server, &client, "db.example");
    pair.shake().unwrap();
    assert_eq!(pair.server.session.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    let shown = pair.server.peer_certificate().unwrap();
    assert_eq!(shown.common_name.as_deref(), Some("alice"));
    let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    let (mut sent, mut received, mut lengths) = (0, Vec::new(), vec![1_usize, 5, 40_000, 100_000].into_iter().cycle());
    pair.of_server.room = 5000;
    while received.len() < bytes.len() {
        // Each time the same bytes again, as far as they do not count as sent.
        match pair.server.send(&mut pair.of_server, &bytes[sent..]) {
            Ok(count) => sent += count,
            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
        }
        pair.exchange();
        let mut buffer = vec![0; lengths.next().unwrap()];
        match pair.client.receive(&mut pair.of_client, &mut buffer).unwrap() {
            Received::Drained(count) | Received::More(count) => received.extend_from_slice(&buffer[..count]),
            Received::Closed => panic!("nothing has closed it"),
        }
    }
    assert!(sent <= bytes.len() && received == bytes);
    pair.exchange();
    assert_eq!(pair.server.send(&mut pair.of_server, &bytes[sent..]).unwrap(), bytes.len() - sent);
    assert_eq!(pair.client.receive(&mut pair.of_client, &mut [0; 10]).unwrap(), Received::Drained(0));
    // What does not fit is kept, and known to be there.
    pair.of_server.room = 1 << 20;
    assert_eq!(pair.server.send(&mut pair.of_server, b"hello").unwrap(), 5);
    pair.exchange();
    assert!(pair.client.has_input(&mut pair.of_client).unwrap());
    let mut buffer = [0; 3];
    assert_eq!(pair.client.read(&mut pair.of_client, &mut buffer).unwrap(), 3);
    assert_eq!(pair.client.receive(&mut pair.of_client, &mut buffer).unwrap(), Received::Drained(2));
    pair.server.close(&mut pair.of_server);
    pair.exchange();
    assert!(pair.client.has_input(&mut pair.of_client).unwrap());
    assert_eq!(pair.client.read(&mut pair.of_client, &mut buffer).unwrap(), 0);
}

#[test]
fn only_those_are_trusted_that_are_known() {
    let (pki, other) = (Pki::new(&["db", "alice"]), Pki::new(&["db", "mallory"]));
    let (ours, theirs) = (Trust::Authorities(pki.authorities()), Trust::Authorities(other.authorities()));
    let (alice, mallory) = (pki.credentials("alice"), other.credentials("mallory"));
    let (required, optional) =
        (ClientCertificates::Required(pki.authorities()), ClientCertificates::Optional(pki.authorities()));
    for (clients, trust, shown, host, trusted) in [
        (&ClientCertificates::No, &ours, None, "db.example", true),
        (&ClientCertificates::No, &Trust::Any, None, "any.example", true),
        (&ClientCertificates::No, &ours, None, "any.example", false),
        (&ClientCertificates::No, &theirs, None, "db.example", false),
        (&optional, &ours, None, "db.example", true),
        (&optional, &ours, Some(&alice), "db.example", true),
        (&optional, &ours, Some(&mallory), "db.example", false),
        (&required, &ours, Some(&alice), "db.example", true),
        (&required, &ours, Some(&mallory), "db.example", false),
        (&required, &ours, None, "db.example", false),
    ] {
        let (server, client) = sides(clients, trust, shown, &pki);
        let mut pair = Pair::new(&server, &client, host);
        assert_eq!(pair.shake().is_ok(), trusted, "{clients:?} {trust:?} {host}");
        if trusted && shown.is_none() {
            assert_eq!(pair.server.peer_certificate(), None);
        }
    }
}

#[test]
fn a_session_is_resumed_unless_sessions_are_off() {
    let pki = Pki::new(&["db"]);
    let credentials = pki.credentials("db");
    for (sessions, resumed) in [(100, true), (0, false)] {
        let protocols = Protocols::default();
        let server = ServerSide::new(&credentials, &ClientCertificates::No, protocols, sessions).unwrap();
        let client = ClientSide::new(&Trust::Any, None, protocols).unwrap();
        let kinds = [0, 1].map(|_| {
            let mut pair = Pair::new(&server, &client, "db.example");
            pair.shake().unwrap();
            // The ticket comes after the handshake.
            pair.client.has_input(&mut pair.of_client).unwrap();
            pair.server.session.handshake_kind()
        });
        assert_eq!(kinds[1] == Some(rustls::HandshakeKind::Resumed), resumed, "{kinds:?}");
    }
}

#[test]
fn a_side_without_tls_is_told_of_in_words() {
    let pki = Pki::new(&["db"]);
    let (_, client) = sides(&ClientCertificates::No, &Trust::Any, None, &pki);
    for answer in ["-ERR unknown command\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n"] {
        let mut connection = client.connect("db.example").unwrap();
        let mut pipe = Pipe { room: 1 << 20, from: answer.into(), ..Pipe::default() };
        let why = connection.handshake(&mut pipe).unwrap_err().to_string();
        assert!(why.contains("does not speak TLS"), "{answer}: {why}");
    }
}

#[test]
fn faults_of_files_are_told_with_what_to_do() {
    let pki = Pki::new(&["db", "alice"]);
    fs::write(pki.path("empty"), "").unwrap();
    fs::write(
        pki.path("locked.key"),
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .unwrap();
    fs::write(pki.path("earlier.key"), "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n").unwrap();
    for (certificate, key, told) in [
        ("none.crt", "db.key", "none.crt: No such file"),
        ("empty", "db.key", "empty: there is no certificate in it"),
        ("db.crt", "empty", "empty: no private key in PEM"),
        ("db.crt", "locked.key", "the encrypted key cannot be read"),
        ("db.crt", "earlier.key", "by a method that is no longer safe"),
        ("db.crt", "alice.key", "do not go together"),
    ] {
        let why = Credentials::load(&pki.path(certificate), &pki.path(key), b"x").unwrap_err();
        assert!(why.contains(told), "{why}");
    }
    let why = Credentials::load(&pki.path("db.crt"), &pki.path("locked.key"), b"").unwrap_err();
    assert!(why.contains("its password is not given"), "{why}");
    let load = |file: Option<&str>, folder: Option<&Path>| {
        Authorities::load(file.map(|name| pki.path(name)).as_deref(), folder).map(|found| found.roots.len())
    };
    assert_eq!(load(Some("ca.crt"), None), Ok(1));
    // Keys and other files beside the certificates are passed over.
    assert_eq!(load(None, Some(pki.folder.path())), Ok(3));
    assert!(load(Some("db.key"), None).is_err() && load(None, None).is_err());
}
