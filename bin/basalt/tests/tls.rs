//! TLS, as redis-cli, Python, openssl and Basalt's own tools speak it: clients, operators, and nodes with each other.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Dir, Nodes, Server, Setup, Value, basalt, eventually, free_port, run, text};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(30);

/// An authority in a folder, and what it signs: made by openssl, so that nothing of Basalt's reads what it has written itself.
struct Authority {
    folder: PathBuf,
}

impl Authority {
    fn new(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let authority = Self { folder: folder.to_path_buf() };
        let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj /CN=authority -keyout ca.key \
            -out ca.crt";
        authority.openssl(words);
        authority
    }

    fn openssl(&self, words: &str) {
        let done = Command::new("openssl").args(words.split_whitespace()).current_dir(&self.folder).output().unwrap();
        assert!(done.status.success(), "{words}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// A certificate for this machine, with that common name, which holds for so many days.
    fn sign(&self, file: &str, name: &str, days: u32) {
        self.sign_names(file, name, &format!("IP:127.0.0.1,DNS:localhost,DNS:{name}"), days);
    }

    /// The same with those alternative names.
    fn sign_names(&self, file: &str, name: &str, alternatives: &str, days: u32) {
        let request = format!(
            "req -newkey rsa:2048 -nodes -subj /CN={name} -addext subjectAltName={alternatives} -keyout {file}.key -out {file}.csr"
        );
        self.openssl(&request);
        self.openssl(&format!(
            "x509 -req -in {file}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days {days} -copy_extensions copy -out {file}.crt"
        ));
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

/// A node with TLS, and its port for that.
fn start(dir: &Dir, authority: &Authority, more: &[(&str, &str)]) -> (Server, u16) {
    let port = free_port();
    let setup = Setup::new(&dir.join("data"))
        .with("--tls-port", &port.to_string())
        .with("--tls-cert-file", &authority.path("node.crt"))
        .with("--tls-key-file", &authority.path("node.key"))
        .with("--tls-ca-cert-file", &authority.path("ca.crt"));
    let server = Server::start(&more.iter().fold(setup, |setup, (name, value)| setup.with(name, value)));
    (server, port)
}

/// redis-cli with TLS.
fn redis_cli(authority: &Authority, port: u16, words: &[&str]) -> String {
    let (port, ca) = (port.to_string(), authority.path("ca.crt"));
    text(&run("redis-cli", &[&["--tls", "--cacert", &ca, "-h", "127.0.0.1", "-p", &port], words].concat()))
}

/// Large values and pipelines, with either version of TLS; answers what it has seen.
const PYTHON: &str = r#"
import socket, ssl, sys
port, ca, version = int(sys.argv[1]), sys.argv[2], getattr(ssl.TLSVersion, sys.argv[3])
context = ssl.create_default_context(cafile=ca)
context.minimum_version = context.maximum_version = version
def connect():
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost")
def request(*words):
    words = [w if isinstance(w, bytes) else w.encode() for w in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
s = connect()
value = bytes(range(256)) * 16384
s.sendall(request("SET", "{t}large", value))
assert s.recv(5) == b"+OK\r\n"
s.sendall(request("GET", "{t}large") * 3)
f = s.makefile("rb")
for _ in range(3):
    assert f.readline() == b"$%d\r\n" % len(value)
    assert f.read(len(value) + 2) == value + b"\r\n"
s.sendall(b"".join(request("INCR", "{t}n") for _ in range(10000)))
for n in range(10000):
    assert f.readline() == b":%d\r\n" % (n + 1), n
again = connect()
again.sendall(request("DEL", "{t}n", "{t}large"))
assert again.recv(4) == b":2\r\n"
print(s.version())
"#;

#[test]
fn clients_of_other_makers_are_served() {
    let dir = Dir::new("tls-clients");
    let authority = Authority::new(&dir.join("tls"));
    authority.sign("node", "node", 365);
    let (server, port) = start(&dir, &authority, &[("--tls-auth-clients", "no")]);
    assert_eq!(redis_cli(&authority, port, &["SET", "a", "1"]), "OK\n");
    assert_eq!(server.connect().call("GET a"), Value::bulk("1"), "the port without TLS serves as well");
    for (version, expected) in [("TLSv1_2", "TLSv1.2\n"), ("TLSv1_3", "TLSv1.3\n")] {
        let python = run("python3", &["-c", PYTHON, &port.to_string(), &authority.path("ca.crt"), version]);
        assert_eq!(text(&python), expected);
    }
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-quiet", "-verify_return_error", "-CAfile", &authority.path("ca.crt"), "-connect"]);
    let mut openssl = openssl
        .arg(format!("127.0.0.1:{port}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    openssl.stdin.take().unwrap().write_all(b"PING\r\nQUIT\r\n").unwrap();
    assert_eq!(String::from_utf8_lossy(&openssl.wait_with_output().unwrap().stdout), "+PONG\r\n+OK\r\n");
    // What clients of clusters are told is the port that they have come to.
    let slots = redis_cli(&authority, port, &["CLUSTER", "SLOTS"]);
    assert!(slots.contains(&port.to_string()) && !slots.contains(&server.port().to_string()), "{slots}");
    assert!(redis_cli(&authority, port, &["CLUSTER", "SHARDS"]).contains("tls-port"));
    // Our own tools.
    let ca = authority.path("ca.crt");
    let node = format!("rediss://127.0.0.1:{port}");
    let status = basalt(&["ctl", "status", "--json", "--node", &node, "--tls-ca", &ca]);
    assert!(status.status.success(), "{}", text(&status));
    let distrust = basalt(&["ctl", "status", "--node", &node]);
    assert!(!distrust.status.success() && text(&distrust).contains("UnknownIssuer"), "{}", text(&distrust));
    for phase in [&["load"][..], &["run", "-p", "operationcount=1000"]] {
        let words = ["--target", &node, "--tls-ca", &ca, "-P", "workloada", "-p", "recordcount=100", "--quiet"];
        let bench = basalt(&[&["bench"], phase, &words[..]].concat());
        assert!(bench.status.success(), "{}", text(&bench));
    }
}

#[test]
fn a_client_at_the_wrong_port_is_told_so() {
    let dir = Dir::new("tls-wrong");
    let authority = Authority::new(&dir.join("tls"));
    authority.sign("node", "node", 365);
    let (server, port) = start(&dir, &authority, &[("--tls-auth-clients", "no")]);
    let mut plain = common::Connection::open(port).unwrap();
    let told = plain.call("PING").text();
    assert!(told.contains("this port speaks TLS"), "{told}");
    let told = redis_cli(&authority, server.port(), &["PING"]);
    assert!(told.contains("wrong version number"), "{told}");
    eventually("the log tells both", WITHIN, || {
        let log = server.messages();
        let tells = log.contains("does not speak TLS") && log.contains("speaks TLS at a port without it");
        tells.then_some(())
    });
    let pinged = basalt(&["ctl", "ping", "--node", &format!("127.0.0.1:{port}")]);
    assert!(!pinged.status.success() && text(&pinged).contains("this port speaks TLS"), "{}", text(&pinged));
    let mut last = server.connect();
    assert_eq!(last.call("CONFIG SET tls-only yes"), Value::ok());
    let told = server.connect().call("PING").text();
    assert!(told.starts_with("DENIED") && told.contains("with TLS only"), "{told}");
    assert_eq!(redis_cli(&authority, port, &["PING"]), "PONG\n");
    assert_eq!(last.call("PING").text(), "PONG", "connections that are open stay");
}

#[test]
fn certificates_of_clients_are_asked_for_and_log_in() {
    let dir = Dir::new("tls-auth");
    let (authority, other) = (Authority::new(&dir.join("tls")), Authority::new(&dir.join("other")));
    for (authority, file, name) in
        [(&authority, "node", "node"), (&authority, "user", "default"), (&other, "user", "default")]
    {
        authority.sign(file, name, 365);
    }
    let (server, port) = start(&dir, &authority, &[("--set", "tls-auth-clients-user=CN")]);
    let mut operator = server.connect();
    assert_eq!(operator.call("CONFIG SET requirepass secret"), Value::ok());
    let with = |authority: &Authority, words: &[&str]| {
        let (certificate, key) = (authority.path("user.crt"), authority.path("user.key"));
        redis_cli(
            &Authority { folder: dir.join("tls") },
            port,
            &[&["--cert", &certificate, "--key", &key], words].concat(),
        )
    };
    assert_eq!(with(&authority, &["SET", "a", "1"]), "OK\n", "the certificate's name is the user's");
    let none = redis_cli(&authority, port, &["PING"]);
    assert!(!none.contains("PONG"), "{none}");
    let stranger = with(&other, &["PING"]);
    assert!(!stranger.contains("PONG"), "{stranger}");
    // Without extensions: of version 1.
    let old = &Authority { folder: dir.join("old") };
    std::fs::create_dir(&old.folder).unwrap();
    old.openssl("req -newkey rsa:2048 -nodes -subj /CN=default -keyout user.key -out user.csr");
    let (ca, ca_key) = (authority.path("ca.crt"), authority.path("ca.key"));
    old.openssl(&format!("x509 -req -in user.csr -CA {ca} -CAkey {ca_key} -set_serial 7 -out user.crt"));
    let refused = with(old, &["PING"]);
    assert!(!refused.contains("PONG"), "{refused}");
    let reasons = ["peer sent no certificates", "invalid peer certificate: ", "of version 1 of X.509"];
    eventually("the log tells each reason", WITHIN, || {
        let log = server.messages();
        reasons.iter().all(|reason| log.contains(reason)).then_some(())
    });
    assert_eq!(operator.call("CONFIG SET tls-auth-clients optional"), Value::ok());
    assert_eq!(redis_cli(&authority, port, &["PING"]), "NOAUTH Authentication required.\n\n");
    assert_eq!(operator.call("CONFIG SET tls-auth-clients-user off"), Value::ok());
    assert_eq!(with(&authority, &["GET", "a"]), "NOAUTH Authentication required.\n\n");
    let stranger = with(&other, &["PING"]);
    assert!(!stranger.contains("NOAUTH"), "a certificate of another authority is refused: {stranger}");
}

#[test]
fn a_certificate_logs_the_user_in_that_it_names() {
    let dir = Dir::new("tls-users");
    let authority = Authority::new(&dir.join("tls"));
    authority.sign("node", "node", 365);
    authority.sign_names("app", "app", "email:app@example.org,DNS:app.example", 30);
    authority.sign_names("ghost", "ghost", "DNS:app", 30);
    let (server, port) = start(&dir, &authority, &[("--set", "tls-auth-clients-user=CN")]);
    let mut operator = server.connect();
    for name in ["app", "app@example.org"] {
        let rules = "~app:* resetchannels -@all +set +get +acl|whoami";
        assert_eq!(operator.call(&format!("ACL SETUSER {name} on resetpass {rules}")), Value::ok());
    }
    let audit = dir.join("audit.log");
    assert_eq!(operator.call(&format!("CONFIG SET requirepass secret audit-log {}", audit.display())), Value::ok());
    let by = |file: &str, words: &[&str]| {
        let (certificate, key) = (authority.path(&format!("{file}.crt")), authority.path(&format!("{file}.key")));
        redis_cli(&authority, port, &[&["--cert", &certificate, "--key", &key], words].concat()).trim_end().to_owned()
    };
    let none = "NOAUTH Authentication required.";
    for (setting, app, ghost) in [("CN", "app", none), ("SAN", "app@example.org", "app"), ("off", none, none)] {
        assert_eq!(operator.call(&format!("CONFIG SET tls-auth-clients-user {setting}")), Value::ok());
        assert_eq!(by("app", &["ACL", "WHOAMI"]), app, "{setting}");
        assert_eq!(by("ghost", &["ACL", "WHOAMI"]), ghost, "{setting}");
    }
    assert_eq!(operator.call("CONFIG SET tls-auth-clients-user CN"), Value::ok());
    assert_eq!(by("app", &["SET", "app:1", "x"]), "OK");
    assert!(by("app", &["SET", "other", "x"]).starts_with("NOPERM "), "it has the rights of its user, and no others");
    assert!(by("app", &["CONFIG", "GET", "*"]).starts_with("NOPERM "));
    assert_eq!(by("ghost", &["--no-auth-warning", "-a", "secret", "GET", "app:1"]), "x", "a password logs in as well");
    assert_eq!(operator.call("ACL SETUSER app off"), Value::ok());
    assert_eq!(by("app", &["GET", "app:1"]), none, "a user that is off is not logged in");
    assert!(!redis_cli(&authority, port, &["PING"]).contains("PONG"));
    let logins = [
        (r#""user":"app","#, r#""outcome":"done"}"#),
        (r#""user":"app@example.org","#, r#""outcome":"done"}"#),
        (r#""user":"ghost","#, r#""outcome":"refused","why":"no user of that name may log in"}"#),
        (r#""user":"app","#, r#""outcome":"refused","why":"no user of that name may log in"}"#),
        (r#""user":"","#, r#""outcome":"refused","why":"peer sent no certificates"}"#),
    ];
    eventually("the audit log has the logins", WITHIN, || {
        let text = std::fs::read_to_string(&audit).ok()?;
        let has = |user: &str, end: &str| {
            let mut lines = text.lines().filter(|line| line.contains(r#""kind":"login""#));
            lines.any(|line| line.contains(user) && line.contains(r#""what":"certificate""#) && line.ends_with(end))
        };
        logins.iter().all(|(user, end)| has(user, end)).then_some(())
    });
}

#[test]
fn a_key_may_have_a_password() {
    let dir = Dir::new("tls-password");
    let authority = Authority::new(&dir.join("tls"));
    authority.sign("node", "node", 365);
    for (file, method) in [("aes", "-v2 aes-256-cbc"), ("scrypt", "-scrypt")] {
        authority.openssl(&format!("pkcs8 -topk8 {method} -in node.key -out {file}.key -passout pass:geheim"));
    }
    let key = |file: &str| authority.path(&format!("{file}.key"));
    let more = [("--tls-auth-clients", "no"), ("--tls-key-file", &*key("aes")), ("--set", "tls-key-file-pass=geheim")];
    let (server, port) = start(&dir, &authority, &more);
    assert_eq!(redis_cli(&authority, port, &["PING"]), "PONG\n");
    let mut operator = server.connect();
    for (password, told) in [("wrong", "the password is not the key's"), ("", "its password is not given")] {
        let words = ["CONFIG", "SET", "tls-key-file", &key("scrypt"), "tls-key-file-pass", password];
        let refused = operator.try_call(&words).unwrap().text();
        assert!(refused.starts_with("ERR CONFIG SET failed") && refused.contains(told), "{refused}");
    }
    assert_eq!(operator.call(&format!("CONFIG SET tls-key-file {}", key("scrypt"))), Value::ok());
    assert_eq!(redis_cli(&authority, port, &["PING"]), "PONG\n");
    let shown = operator.call("CONFIG GET tls-key-file-pass").words();
    assert!(!shown.contains("geheim"), "{shown}");
}

fn info(server: &Server, field: &str) -> Option<String> {
    server.connect().info("", field)
}

#[test]
fn new_files_are_taken_up_and_bad_ones_are_not() {
    let dir = Dir::new("tls-reload");
    let authority = Authority::new(&dir.join("tls"));
    for (file, days) in [("node", 5), ("second", 100), ("third", 200)] {
        authority.sign(file, file, days);
    }
    let (server, port) = start(&dir, &authority, &[("--tls-auth-clients", "no")]);
    let days = || info(&server, "tls_server_cert_expires_in_seconds").unwrap().parse::<i64>().unwrap() / 86_400;
    // The five days begin with the certificate.
    eventually("a second of them is over", WITHIN, || (days() == 4).then_some(()));
    // It tells what the node has last looked at.
    eventually("ctl status says so", WITHIN, || {
        let status = basalt(&["ctl", "status", "--node", &server.address()]);
        text(&status).contains("expires in 4 days").then_some(())
    });
    // A client that stays connected through all of it.
    let mut stays = Command::new("redis-cli");
    stays.args(["--tls", "--cacert", &authority.path("ca.crt"), "-p", &port.to_string()]);
    let mut stays = stays.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = stays.stdin.take().unwrap();
    input.write_all(b"SET a 1\n").unwrap();
    eventually("it is connected", WITHIN, || (server.connect().call("EXISTS a") == Value::Int(1)).then_some(()));
    let mut operator = server.connect();
    let set = format!(
        "CONFIG SET tls-cert-file {} tls-key-file {}",
        authority.path("second.crt"),
        authority.path("second.key")
    );
    assert_eq!(operator.call(&set), Value::ok());
    eventually("the second certificate is in use", WITHIN, || (days() == 99).then_some(()));
    for wrong in ["tls-cert-file /nowhere", "tls-protocols TLSv1.1"] {
        let told = operator.call(&format!("CONFIG SET {wrong}")).text();
        assert!(told.starts_with("ERR CONFIG SET failed"), "{told}");
    }
    let told = operator.call(&format!("CONFIG SET tls-key-file {}", authority.path("third.key"))).text();
    assert!(told.contains("do not go together"), "{told}");
    assert_eq!(
        (days(), operator.call("CONFIG GET tls-key-file").items()[1].text()),
        (99, authority.path("second.key"))
    );
    // Files that change in their places.
    let put = |from: &str, to: &str| std::fs::copy(authority.path(from), authority.path(to)).unwrap();
    std::fs::write(authority.path("second.crt"), "no certificate").unwrap();
    server.signal("-HUP");
    eventually("the trouble is told", WITHIN, || info(&server, "tls_reload_error"));
    assert_eq!((days(), redis_cli(&authority, port, &["PING"])), (99, "PONG\n".to_owned()));
    put("third.crt", "second.crt");
    put("third.key", "second.key");
    eventually("the new ones are in use", Duration::from_secs(60), || (days() == 199).then_some(()));
    assert_eq!(
        (info(&server, "tls_reload_error"), redis_cli(&authority, port, &["PING"])),
        (None, "PONG\n".to_owned())
    );
    input.write_all(b"GET a\n").unwrap();
    drop(input);
    assert_eq!(String::from_utf8_lossy(&stays.wait_with_output().unwrap().stdout), "OK\n1\n");
}

#[test]
fn https_serves_operators() {
    let dir = Dir::new("tls-http");
    let authority = Authority::new(&dir.join("tls"));
    authority.sign("node", "node", 365);
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let (_server, _) = start(&dir, &authority, &[("--tls-http-listen", &listen)]);
    let script = "import sys, ssl, urllib.request as u\n\
        print(u.urlopen(sys.argv[1], context=ssl.create_default_context(cafile=sys.argv[2])).read().decode())";
    let get =
        |path: &str| run("python3", &["-c", script, &format!("https://{listen}/{path}"), &authority.path("ca.crt")]);
    let metrics = text(&get("metrics"));
    assert!(metrics.contains("basalt_certificate_left_seconds{of=\"node\"} 31"), "{metrics}");
    let document: serde_json::Value =
        serde_json::from_slice(&get("openapi.json").stdout).expect("a long answer comes whole");
    assert!(document["paths"].is_object());
}

#[test]
fn an_operator_at_the_wrong_one_of_two_ports_is_told_so() {
    let dir = Dir::new("tls-http-wrong");
    let authority = Authority::new(&dir.join("tls"));
    authority.sign("node", "node", 365);
    let (plain, encrypted) = (format!("127.0.0.1:{}", free_port()), format!("127.0.0.1:{}", free_port()));
    let (server, _) = start(&dir, &authority, &[("--http-listen", &plain), ("--tls-http-listen", &encrypted)]);
    let (request, hello) = ("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x00\x05hello");
    for (address, sent, told, logged) in [
        (&encrypted, request, "use https:// here", "does not speak TLS"),
        (&plain, hello, "this port has no TLS", "speaks TLS at the port for HTTP"),
    ] {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(sent.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains(told), "{answer}");
        let log = server.messages();
        assert!(log.contains(logged) && log.contains(&client.local_addr().unwrap().to_string()), "{log}");
    }
}

#[test]
fn a_certificate_logs_an_operator_in_over_https() {
    let dir = Dir::new("tls-http-users");
    let authority = Authority::new(&dir.join("tls"));
    for name in ["node", "eyes", "nosuch"] {
        authority.sign(name, name, 365);
    }
    let listen = format!("127.0.0.1:{}", free_port());
    let more = [("--tls-http-listen", &*listen), ("--tls-auth-clients", "optional")];
    let (server, _) = start(&dir, &authority, &more);
    let mut operator = server.connect();
    assert_eq!(operator.call("ACL SETUSER eyes on resetpass -@all +@role-read"), Value::ok());
    assert_eq!(operator.call("CONFIG SET requirepass secret"), Value::ok());
    let script = "import sys, ssl, urllib.request as u, urllib.error as e\n\
        context = ssl.create_default_context(cafile=sys.argv[2])\n\
        if len(sys.argv) > 3: context.load_cert_chain(sys.argv[3], sys.argv[4])\n\
        request = u.Request(sys.argv[1], method='GET')\n\
        try: print(u.urlopen(request, context=context).status)\n\
        except e.HTTPError as refusal: print(refusal.code)";
    let status = |file: Option<&str>| {
        let mut words =
            vec!["-c".to_owned(), script.to_owned(), format!("https://{listen}/metrics"), authority.path("ca.crt")];
        words.extend(file.iter().flat_map(|file| ["crt", "key"].map(|kind| authority.path(&format!("{file}.{kind}")))));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        text(&run("python3", &words)).trim_end().to_owned()
    };
    for (setting, file, expected) in
        [("off", Some("eyes"), "401"), ("CN", Some("eyes"), "200"), ("CN", Some("nosuch"), "401"), ("CN", None, "401")]
    {
        assert_eq!(operator.call(&format!("CONFIG SET tls-auth-clients-user {setting}")), Value::ok());
        assert_eq!(status(file), expected, "{setting} {file:?}");
    }
    assert_eq!(operator.call("ACL SETUSER eyes -@all"), Value::ok());
    assert_eq!(status(Some("eyes")), "403", "it has the rights of its user, and no others");
}

/// Three nodes go from plain links to encrypted ones and back while clients write: no write fails, and none is lost.
#[test]
fn nodes_change_to_tls_and_back_under_load() {
    let dir = Dir::new("tls-nodes");
    let authority = Authority::new(&dir.join("tls"));
    let own: Vec<Vec<(String, String)>> = (0..3)
        .map(|n| {
            let name = format!("node{n}");
            authority.sign(&name, &name, 365);
            let file = |setting: &str, file: String| (format!("--tls-{setting}-file"), authority.path(&file));
            let of_node = [file("cert", format!("{name}.crt")), file("key", format!("{name}.key"))];
            of_node.into_iter().chain([file("ca-cert", "ca.crt".to_owned())]).collect()
        })
        .collect();
    let nodes = Nodes::start_with(&dir, 3, &[("--shards", "6"), ("--tls-auth-clients", "optional")], &own);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let encrypted = |n: usize| info(nodes.server(n), "peer_links_encrypted");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = nodes.client();
            while !stop.load(Ordering::Acquire) {
                let n = written.load(Ordering::Acquire).to_string();
                assert_eq!(client.call(WITHIN, &["SET", &format!("key:{n}"), &n]), Value::ok());
                written.fetch_add(1, Ordering::AcqRel);
            }
            client
        });
        for (mode, links) in [("optional", None), ("yes", Some("2")), ("optional", None), ("no", None)] {
            for n in 0..3 {
                assert_eq!(nodes.connect(n).call(&format!("CONFIG SET tls-cluster {mode}")), Value::ok());
            }
            for n in 0..3 {
                eventually("links are as they are to be", WITHIN, || {
                    let links_of = info(nodes.server(n), "peer_links");
                    let is_whole = links_of.as_deref() == Some("2");
                    (is_whole && links.is_none_or(|links| encrypted(n).as_deref() == Some(links))).then_some(())
                });
            }
            let before = written.load(Ordering::Acquire);
            eventually("writes go on", WITHIN, || (written.load(Ordering::Acquire) > before + 5).then_some(()));
        }
        stop.store(true, Ordering::Release);
        let mut client = writer.join().unwrap();
        for n in 0..written.load(Ordering::Acquire) {
            assert_eq!(client.call(WITHIN, &["GET", &format!("key:{n}")]), Value::bulk(n.to_string()));
        }
    });
}

/// Whichever node is asked, and whichever directs the store: the status names each node whose certificate ends soon.
#[test]
fn certificates_of_all_nodes_are_watched() {
    let dir = Dir::new("tls-watch");
    let authority = Authority::new(&dir.join("tls"));
    authority.sign("soon", "soon", 5);
    authority.sign("later", "later", 100);
    let nodes = Nodes::start_with(&dir, 3, &[("--shards", "3")], &vec![Vec::new(); 3]);
    let set = |n: usize, name: &str| {
        let (certificate, key) = (authority.path(&format!("{name}.crt")), authority.path(&format!("{name}.key")));
        let told = nodes.connect(n).call(&format!("CONFIG SET tls-cert-file {certificate} tls-key-file {key}"));
        assert_eq!(told, Value::ok());
    };
    let warned = |asked: usize| {
        let status = basalt(&["ctl", "status", "--node", &nodes.server(asked).address()]);
        text(&status).lines().filter(|line| line.contains("expires in ")).count()
    };
    for n in 0..3 {
        set(n, "soon");
        eventually("the status names the nodes with such certificates", WITHIN, || {
            (0..3).all(|asked| warned(asked) == n + 1).then_some(())
        });
    }
    (0..3).for_each(|n| set(n, "later"));
    eventually("all is well again", WITHIN, || (0..3).all(|asked| warned(asked) == 0).then_some(()));
}

#[test]
fn a_throw_away_authority_is_made_for_a_store_on_this_machine() {
    let dir = Dir::new("tls-up");
    let data = dir.join("store").display().to_string();
    // Ports of HTTP and TLS lie above these.
    let [port, peer_port] = [(), ()].map(|()| common::free_ports(3).to_string());
    let up = ["cluster", "up", "--tls", "--background", "--http-port", "0", "--port", &port, "--data", &data];
    let up = basalt(&[&up[..], &["--peer-port", &peer_port, "--memory", "64M", "--shards", "3"]].concat());
    let said = text(&up);
    let line = said.lines().find_map(|line| line.strip_prefix("TLS redis-cli ")).map(str::to_owned);
    let answers = line.map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        text(&run("redis-cli", &[&words[..], &["-h", "127.0.0.1", "SET", "a", "1"]].concat()))
    });
    let client = |name: &str| format!("{data}/tls/{name}");
    let down = basalt(&["cluster", "down", "--data", &data]);
    assert!(up.status.success() && down.status.success(), "{said}{}", text(&down));
    assert_eq!(answers.as_deref(), Some("OK\n"), "{said}");
    assert!(Path::new(&client("client.crt")).exists());
}
