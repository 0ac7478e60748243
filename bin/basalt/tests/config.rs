//! Settings from a file, the environment and the command line; CONFIG REWRITE; the log's file and form.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Dir, Server, Setup, Value, basalt, eventually, signal};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn setting(server: &Server, name: &str) -> String {
    server.connect().call(&format!("CONFIG GET {name}")).items().last().unwrap().text()
}

fn path_text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_command_line_wins_over_the_file_and_a_rewrite_lasts() {
    let dir = Dir::new("config-file");
    let file = dir.join("basalt.toml");
    std::fs::write(&file, "# a cache\nmaxclients = 500\ntimeout = 70 # seconds\nhz = 20\n").unwrap();
    let setup = Setup::new(&dir.join("data")).with("--config", &path_text(&file)).with("--maxclients", "600");
    let server = Server::start(&setup);
    assert_eq!(setting(&server, "maxclients"), "600");
    assert_eq!(setting(&server, "timeout"), "70");
    let mut connection = server.connect();
    assert_eq!(connection.call("CONFIG SET timeout 80 slowlog-max-len 7"), Value::ok());
    assert_eq!(connection.call("CONFIG REWRITE"), Value::ok());
    let expected = "# a cache\nmaxclients = 600\ntimeout = 80 # seconds\nhz = 20\nslowlog-max-len = 7\n";
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    assert!(server.stop());
    let server = Server::start(&setup);
    assert_eq!((setting(&server, "timeout"), setting(&server, "slowlog-max-len")), ("80".into(), "7".into()));
    assert!(server.stop());
    let server = Server::start(&Setup::new(&dir.join("other")));
    let refused = server.connect().call("CONFIG REWRITE").text();
    assert_eq!(refused, "ERR The server is running without a config file");
    assert!(server.stop());
}

#[test]
fn a_file_of_redis_is_taken_and_its_faults_are_named_by_line() {
    let dir = Dir::new("config-redis");
    let (file, more) = (dir.join("redis.conf"), dir.join("more.conf"));
    std::fs::write(
        &file,
        format!(
            "maxmemory-policy allkeys-lru\ninclude {}\nrename-command KEYS \"\"\ninclude more.d/*.conf none.d/*\n",
            more.display()
        ),
    )
    .unwrap();
    std::fs::write(&more, "maxmemory-samples \"7\"\n").unwrap();
    std::fs::create_dir(dir.join("more.d")).unwrap();
    std::fs::write(dir.join("more.d/1.conf"), "timeout 11\nslowlog-max-len 12\n").unwrap();
    std::fs::write(dir.join("more.d/2.conf"), "timeout 13\n").unwrap();
    let server = Server::start(&Setup::new(&dir.join("data")).with("--config", &path_text(&file)));
    let mut connection = server.connect();
    assert_eq!(connection.call("CONFIG GET maxmemory-samples").items()[1].text(), "7");
    assert_eq!(connection.call("CONFIG GET timeout").items()[1].text(), "13");
    assert_eq!(connection.call("CONFIG GET slowlog-max-len").items()[1].text(), "12");
    assert_eq!(connection.call("CONFIG GET maxmemory-policy").items()[1].text(), "allkeys-lru");
    assert!(server.messages().contains("redis.conf:3: rename-command: "), "{}", server.messages());
    drop(connection);
    assert!(server.stop());

    std::fs::write(&more, "maxmemory lots\nhz\n").unwrap();
    let path = path_text(&file);
    let checked = basalt(&["config", "check", &path]);
    let said = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(1), "{said}");
    assert!(said.contains("more.conf:1: maxmemory: argument must be a memory value"), "{said}");
    assert!(said.contains("redis.conf:3: rename-command: "), "{said}");
    let json: String = String::from_utf8(basalt(&["config", "check", "--json", &path]).stdout).unwrap();
    assert!(json.contains("\"line\": 1"), "{json}");
    let started = basalt(&["start", "--config", &path, "--data", &path_text(&dir.join("none"))]);
    assert_eq!(started.status.code(), Some(2));
    assert!(!dir.join("none").exists(), "nothing was made");
}

#[test]
fn the_environment_is_between_the_file_and_the_command_line() {
    let dir = Dir::new("config-environment");
    let file = dir.join("basalt.toml");
    std::fs::write(&file, "memory = \"64mb\"\n").unwrap();
    let start = |variable: (&str, &str)| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
        command.args(["start", "--config", &path_text(&file), "--data", &path_text(&dir.join("none"))]);
        command.env(variable.0, variable.1).output().unwrap()
    };
    let refused = start(("BASALT_MEMORY", "lots"));
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(said, "basalt start: BASALT_MEMORY: argument must be a memory value\n");
}

#[test]
fn the_log_is_json_in_a_file_that_is_opened_again() {
    let dir = Dir::new("config-log");
    let (log, moved) = (dir.join("basalt.log"), dir.join("basalt.log.1"));
    let setup = Setup::new(&dir.join("data")).with("--set", &format!("logfile={}", log.display()));
    let server = Server::start(&setup);
    assert!(std::fs::read_to_string(&log).unwrap().contains("INFO"), "the start is told in the file");
    assert_eq!(server.connect().call("CONFIG SET log-format json loglevel verbose"), Value::ok());
    std::fs::rename(&log, &moved).unwrap();
    server.signal("-HUP");
    eventually("the file is opened again", Duration::from_secs(30), || log.exists().then_some(()));
    assert!(server.stop());
    let lines = std::fs::read_to_string(&log).unwrap();
    let last = lines.lines().last().unwrap();
    assert!(last.starts_with('{') && last.contains("\"message\":\"stopped\""), "{lines}");
}

/// How many lines of a log have that text, as they are or as what was left out before them; and how many of them were left out.
fn counted(log: &str, text: &str) -> (u64, u64) {
    let left_out = |line: &str| -> u64 {
        if let Ok(line) = serde_json::from_str::<serde_json::Value>(line) {
            return line.get("left_out").map_or(0, |count| count.as_u64().unwrap());
        }
        let count = line.strip_suffix(" lines like this were left out)").and_then(|line| line.rsplit('(').next());
        count.map_or(0, |count| count.parse().unwrap())
    };
    let counts: Vec<u64> = log.lines().filter(|line| line.contains(text)).map(left_out).collect();
    let left_out = counts.iter().sum();
    (counts.len() as u64 + left_out, left_out)
}

#[test]
fn a_flood_of_one_line_is_cut_and_its_lines_are_counted() {
    const WRONG: &str = "speaks TLS at a port without it";
    let dir = Dir::new("config-flood");
    for format in ["text", "json"] {
        let setup = Setup::new(&dir.join(format)).with("--set", &format!("log-format={format}"));
        let server = Server::start(&setup);
        let mut knocks = 0;
        // Many at once, however slow the machine is, until some are left out.
        let left_out = eventually("lines are left out, and counted", Duration::from_secs(120), || {
            let open = |_| TcpStream::connect(("127.0.0.1", server.port())).unwrap();
            let mut streams: Vec<_> = (0..60).map(open).collect();
            for stream in &mut streams {
                stream.write_all(&[22, 3, 1, 0, 1, 1]).unwrap();
                knocks += 1;
            }
            streams.iter_mut().for_each(|stream| while stream.read(&mut [0; 64]).is_ok_and(|n| n > 0) {});
            Some(counted(&server.messages(), WRONG).1).filter(|count| *count > 0)
        });
        assert!(left_out < knocks);
        // Those after which it is silent are counted too.
        eventually("all are told", Duration::from_secs(60), || {
            (counted(&server.messages(), WRONG).0 == knocks).then_some(())
        });
        assert!(server.stop());
    }
}

#[test]
fn what_config_print_prints_can_be_checked() {
    let dir = Dir::new("config-print");
    let printed = basalt(&["config", "print"]);
    assert!(printed.status.success());
    let file = dir.join("basalt.toml");
    std::fs::write(&file, &printed.stdout).unwrap();
    let checked = basalt(&["config", "check", &path_text(&file)]);
    assert_eq!(String::from_utf8(checked.stdout).unwrap(), "0 settings, 0 errors, 0 warnings\n");
}

#[test]
fn a_service_manager_is_told() {
    let dir = Dir::new("config-notify");
    let socket = std::os::unix::net::UnixDatagram::bind(dir.join("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut node = Command::new(env!("CARGO_BIN_EXE_basalt"))
        .args(["start", "--listen", "127.0.0.1:0", "--memory", "64M", "--shards", "1"])
        .args(["--data", &path_text(&dir.join("data"))])
        .env("NOTIFY_SOCKET", dir.join("notify"))
        .env("WATCHDOG_USEC", "400000")
        .spawn()
        .unwrap();
    let mut heard = String::new();
    let mut until = |word: &str| {
        while !heard.contains(word) {
            let mut message = [0; 256];
            let length = socket.recv(&mut message).unwrap();
            heard.push_str(std::str::from_utf8(&message[..length]).unwrap());
        }
    };
    until("EXTEND_TIMEOUT_USEC=60000000");
    until("READY=1");
    until("WATCHDOG=1");
    signal(node.id(), "-TERM");
    until("STOPPING=1");
    assert!(node.wait().unwrap().success());
}
