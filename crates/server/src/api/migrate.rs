//! MIGRATE: keys to another server, by RESTORE, and away from here.
//!
//! A key goes away only if it is what was sent: if a client has written to it meanwhile it stays, and the answer says so.

use super::databases::{Dumped, Promise, dumped, ended};
use super::handlers::PoolWriter;
use crate::net::Stream;
use crate::shared::NodeShared;
use node::session::Durability;
use resp::{Reply, parse_integer};
use std::io::{Read, Write};
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::time::Duration;
use vocab::client_key;
use vocab::limits::RANGE_PAGE_BYTES_SOFT;

/// How long the other server may take for each step where the client says nothing.
const TIMEOUT: Duration = Duration::from_millis(1000);
/// The longest that a client may say: a thread of the pool waits meanwhile.
const TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// Bytes that are sent at a time.
const SENT_BYTES_MAX: usize = 64 << 10;
/// A line of an answer.
const ANSWER_BYTES_MAX: usize = 1024;
const SYNTAX: &str = "ERR syntax error";

pub(super) fn handler(name: &str) -> Option<PoolWriter> {
    (name == "MIGRATE").then_some(migrate as PoolWriter)
}

fn migrate(store: &Arc<NodeShared>, args: &[&[u8]], durability: Durability, reply: &mut Reply) {
    match Migration::parse(args).and_then(|migration| migration.run(store, durability)) {
        Ok(0) => reply.simple("NOKEY"),
        Ok(_) => reply.ok(),
        Err(text) => reply.error(&text),
    }
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
struct Migration<'a> {
    host: &'a str,
    port: u16,
    database: i64,
    timeout: Duration,
    copies: bool,
    replaces: bool,
    /// The arguments of AUTH, if there is to be one.
    login: Vec<&'a [u8]>,
    /// By the names under which they are stored here.
    keys: Vec<&'a [u8]>,
}

impl<'a> Migration<'a> {
    /// `host port key|"" database timeout [COPY] [REPLACE] [AUTH password] [AUTH2 user password] [KEYS key …]`
    fn parse(args: &[&'a [u8]]) -> Result<Self, String> {
        let [_, host, port, key, database, timeout, words @ ..] = args else { return Err(SYNTAX.to_owned()) };
        let text = |arg: &'a [u8]| std::str::from_utf8(arg).map_err(|_| SYNTAX.to_owned());
        let number = |arg: &[u8]| parse_integer(arg).ok_or("ERR value is not an integer or out of range");
        let mut migration = Self {
            host: text(host)?,
            port: 0,
            database: 0,
            timeout: TIMEOUT,
            copies: false,
            replaces: false,
            login: Vec::new(),
            keys: vec![key],
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(b"COPY") {
                migration.copies = true;
            } else if word.eq_ignore_ascii_case(b"REPLACE") {
                migration.replaces = true;
            } else if word.eq_ignore_ascii_case(b"AUTH") {
                migration.login = vec![words.next().ok_or(SYNTAX)?];
            } else if word.eq_ignore_ascii_case(b"AUTH2") {
                migration.login = vec![words.next().ok_or(SYNTAX)?, words.next().ok_or(SYNTAX)?];
            } else if word.eq_ignore_ascii_case(b"KEYS") {
                if !client_key(key).is_empty() {
                    return Err("ERR When using MIGRATE KEYS option, the key argument must be set to the empty string"
                        .to_owned());
                }
                migration.keys = words.by_ref().copied().collect();
            } else {
                return Err(SYNTAX.to_owned());
            }
        }
        let timeout = number(timeout)?;
        migration.database = number(database)?;
        if let Some(ms) = u64::try_from(timeout).ok().filter(|ms| *ms > 0) {
            migration.timeout = Duration::from_millis(ms).min(TIMEOUT_MAX);
        }
        let port = parse_integer(port).and_then(|port| u16::try_from(port).ok());
        migration.port = port.ok_or("ERR the port is not a number of at most 65535")?;
        Ok(migration)
    }

    /// Moves the keys; how many there were.
    fn run(&self, store: &Arc<NodeShared>, durability: Durability) -> Result<usize, String> {
        let mut promise = Promise::of(durability);
        let mut target: Option<Target> = None;
        let (mut count, mut sent, mut changed) = (0, Vec::new(), 0);
        for key in &self.keys {
            let Some(held) = Held::read(store, key)? else { continue };
            count += 1;
            let to = match &mut target {
                Some(to) => to,
                None => target.insert(Target::open(self)?),
            };
            to.restore(client_key(key), &held, self.replaces);
            sent.push((*key, held.version));
            if to.output.len() >= RANGE_PAGE_BYTES_SOFT {
                changed += self.settle(store, to, &mut sent, &mut promise)?;
            }
        }
        if let Some(to) = &mut target {
            changed += self.settle(store, to, &mut sent, &mut promise)?;
        }
        if changed > 0 {
            return Err(format!(
                "ERR {changed} keys were written to meanwhile: the target has them as they were, and they stay here"
            ));
        }
        promise.end()?;
        Ok(count)
    }

    /// Sends what is to be sent, and removes what the other server has taken; how many keys stay because they have changed.
    fn settle(
        &self,
        store: &Arc<NodeShared>,
        to: &mut Target,
        sent: &mut Vec<(&[u8], i64)>,
        promise: &mut Promise,
    ) -> Result<usize, String> {
        to.flush()?;
        let (mut changed, mut refusal, mut again) = (0, None, Vec::new());
        for (key, version) in sent.drain(..) {
            match to.answer()? {
                Err(text) if to.knows_absolute && text.starts_with(SYNTAX) => {
                    again.push(key);
                    continue;
                }
                Err(text) => {
                    refusal.get_or_insert(text);
                    continue;
                }
                Ok(()) => {}
            }
            if !self.copies {
                let removed = promise.keep(ended(store, key, version, promise.durability()))?;
                changed += usize::from(removed == Some(false));
            }
        }
        if let Some(text) = refusal {
            return Err(format!("ERR Target instance replied with error: {text}"));
        }
        if again.is_empty() {
            return Ok(changed);
        }
        // Refused for their words: they are sent in older ones, once.
        to.knows_absolute = false;
        for key in again {
            if let Some(held) = Held::read(store, key)? {
                to.restore(client_key(key), &held, self.replaces);
                sent.push((key, held.version));
            }
        }
        Ok(changed + self.settle(store, to, sent, promise)?)
    }
}

/// A key that is sent.
struct Held {
    dump: Vec<u8>,
    version: i64,
    /// In ms since the epoch.
    expire_at_ms: Option<u64>,
}

impl Held {
    fn read(store: &Arc<NodeShared>, key: &[u8]) -> Result<Option<Self>, String> {
        let dumped = dumped(store, key)?;
        Ok(dumped.map(|Dumped { version, dump, expire_at_ms }| Self { dump, version, expire_at_ms }))
    }
}

/// What an answer's line says: done, or the text of an error. A key is removed for the former alone: what speaks another protocol has taken
/// nothing.
fn outcome(line: &str) -> Result<Result<(), String>, String> {
    match (line.starts_with('+'), line.strip_prefix('-')) {
        (true, _) => Ok(Ok(())),
        (false, Some(text)) => Ok(Err(text.to_owned())),
        (false, None) => Err("IOERR the target instance does not answer as Redis does; the keys stay here".to_owned()),
    }
}

/// The server that takes the keys.
struct Target {
    stream: Stream,
    output: Vec<u8>,
    input: Vec<u8>,
    /// Answers that come before those to RESTORE: to AUTH, if there was one, and to SELECT.
    before: usize,
    /// The first error among them.
    refusal: Option<String>,
    /// Whether it may know expiries as absolute times: servers before version 5 do not.
    knows_absolute: bool,
}

impl Target {
    fn open(migration: &Migration<'_>) -> Result<Self, String> {
        let failed = |_| "IOERR error or timeout connecting to the client".to_owned();
        let mut addresses = (migration.host, migration.port).to_socket_addrs().map_err(failed)?;
        let address = addresses.next().ok_or("IOERR error or timeout connecting to the client")?;
        let stream = Stream::connect(&address, migration.timeout).map_err(failed)?;
        stream.set_timeouts(migration.timeout).and_then(|()| stream.set_nodelay()).map_err(failed)?;
        let (output, input) = (Vec::new(), Vec::new());
        let mut target = Self { stream, output, input, before: 1, refusal: None, knows_absolute: true };
        if !migration.login.is_empty() {
            let auth: Vec<&[u8]> = [&b"AUTH"[..]].into_iter().chain(migration.login.iter().copied()).collect();
            resp::encode_request(&mut target.output, &auth);
            target.before += 1;
        }
        let database = migration.database.to_string();
        resp::encode_request(&mut target.output, &[b"SELECT", database.as_bytes()]);
        Ok(target)
    }

    fn restore(&mut self, key: &[u8], held: &Held, replaces: bool) {
        // An absolute time is the same when it arrives.
        let is_absolute = self.knows_absolute && held.expire_at_ms.is_some();
        let from_ms = if is_absolute { 0 } else { vocab::wall_clock_ms() };
        let ttl = held.expire_at_ms.map_or(0, |at| at.saturating_sub(from_ms).max(1)).to_string();
        let mut args: Vec<&[u8]> = vec![b"RESTORE", key, ttl.as_bytes(), &held.dump];
        args.extend(replaces.then_some(&b"REPLACE"[..]));
        args.extend(is_absolute.then_some(&b"ABSTTL"[..]));
        resp::encode_request(&mut self.output, &args);
    }

    /// Sends a little at a time: the system would take some of a large value until its time is over, and that again and again.
    fn flush(&mut self) -> Result<(), String> {
        let mut sent = self.output.chunks(SENT_BYTES_MAX).map(|piece| self.stream.write_all(piece));
        let sent = sent.try_for_each(std::convert::identity);
        self.output.clear();
        sent.map_err(|_| "IOERR error or timeout writing to target instance".to_owned())
    }

    /// The answer to the next RESTORE: the text of its error, if it is one.
    fn answer(&mut self) -> Result<Result<(), String>, String> {
        while self.before > 0 {
            self.before -= 1;
            if let (Err(text), None) = (outcome(&self.line()?)?, &self.refusal) {
                self.refusal = Some(text);
            }
        }
        let outcome = outcome(&self.line()?)?;
        Ok(match &self.refusal {
            Some(text) => Err(text.clone()),
            None => outcome,
        })
    }

    /// A line: all these answers are one.
    fn line(&mut self) -> Result<String, String> {
        const FAILED: &str = "IOERR error or timeout reading from target instance";
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(line.trim_ascii_end()).into_owned());
            }
            let mut room = [0; ANSWER_BYTES_MAX];
            match self.stream.read(&mut room) {
                Ok(read) if read > 0 && self.input.len() < ANSWER_BYTES_MAX => {
                    self.input.extend_from_slice(&room[..read])
                }
                _ => return Err(FAILED.to_owned()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::TestNode;
    use resp::Value;
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    fn parsed(request: &str) -> Result<String, String> {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let m = Migration::parse(&args)?;
        let shown = |words: &[&[u8]]| words.iter().map(|w| String::from_utf8_lossy(w)).collect::<Vec<_>>().join(",");
        let flags = [(m.copies, " copy"), (m.replaces, " replace")];
        let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect();
        Ok(format!(
            "{}:{} {} {:?}{flags} [{}] [{}]",
            m.host,
            m.port,
            m.database,
            m.timeout,
            shown(&m.login),
            shown(&m.keys)
        ))
    }

    /// A server that takes keys: the words of their requests but for the values. One that is old knows no absolute times.
    fn target(is_old: bool, keys: usize) -> (u16, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let serve = move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut input, mut taken) = (Vec::new(), Vec::new());
            while taken.len() < keys {
                let mut room = [0; 4096];
                let read = stream.read(&mut room).unwrap();
                input.extend_from_slice(&room[..read]);
                while let Some((Value::Array(words), consumed)) = resp::decode(&input).unwrap() {
                    input.drain(..consumed);
                    let word = |at: usize| match words.get(at) {
                        Some(Value::Bulk(word)) => String::from_utf8_lossy(word).into_owned(),
                        _ => String::new(),
                    };
                    let is_refused = is_old && word(words.len() - 1) == "ABSTTL";
                    if word(0) == "RESTORE" && !is_refused {
                        taken.push([1, 2, 4].map(word).join(" "));
                    }
                    stream.write_all(if is_refused { b"-ERR syntax error\r\n" } else { b"+OK\r\n" }).unwrap();
                }
            }
            taken
        };
        (port, std::thread::spawn(serve))
    }

    #[test]
    fn expiries_are_sent_as_absolute_times_to_servers_that_know_them() {
        let node = TestNode::start(&[]);
        for is_old in [false, true] {
            let at_ms = vocab::wall_clock_ms() + 100_000;
            node.call("SET {k}plain v");
            node.call(&format!("SET {{k}}one v PXAT {at_ms}"));
            node.call(&format!("SET {{k}}two v PXAT {at_ms}"));
            let (port, server) = target(is_old, 3);
            let port = port.to_string();
            let words =
                ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS", "{k}plain", "{k}one", "{k}none", "{k}two"];
            let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            assert_eq!(Migration::parse(&args).unwrap().run(node.store(), Durability::default()), Ok(3));
            let taken = server.join().unwrap();
            let ttl = |line: &str| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
            if is_old {
                assert_eq!(taken[0], "{k}plain 0 ");
                assert!(
                    taken[1..].iter().all(|line| (1..=100_000).contains(&ttl(line)) && line.ends_with(' ')),
                    "{taken:?}"
                );
            } else {
                let absolute = |key: &str| format!("{key} {at_ms} ABSTTL");
                assert_eq!(taken, ["{k}plain 0 ".to_owned(), absolute("{k}one"), absolute("{k}two")]);
            }
            assert_eq!(node.call("EXISTS {k}plain {k}one {k}two"), ":0\r\n", "they are away");
        }
    }

    #[test]
    fn what_does_not_answer_as_redis_does_has_taken_nothing() {
        let node = TestNode::start(&[]);
        node.call("SET k v");
        for answers in
            ["HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n", "+OK\r\n:1\r\n", "+OK\r\n", "+OK\r\n-ERR no\r\n"]
        {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port().to_string();
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(answers.as_bytes()).unwrap();
                // What was sent is read, so that the end of the connection is no error there.
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                stream.read_to_end(&mut Vec::new()).unwrap();
            });
            let words = ["MIGRATE", "127.0.0.1", &port, "k", "0", "5000"];
            let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            assert!(Migration::parse(&args).unwrap().run(node.store(), Durability::default()).is_err(), "{answers}");
            server.join().unwrap();
            assert_eq!(node.call("EXISTS k"), ":1\r\n", "{answers}");
        }
    }

    #[test]
    fn requests_are_read_as_redis_does() {
        for (request, expected) in [
            ("MIGRATE h 1 k 0 500", "h:1 0 500ms [] [k]"),
            ("MIGRATE h 1 k 2 0 copy REPLACE", "h:1 2 1s copy replace [] [k]"),
            ("MIGRATE h 1  0 99999999 KEYS a b", "h:1 0 60s [] [a,b]"),
            ("MIGRATE h 1  0 5 AUTH p COPY AUTH2 u q KEYS KEYS", "h:1 0 5ms copy [u,q] [KEYS]"),
        ] {
            assert_eq!(parsed(request).unwrap(), expected, "{request}");
        }
        for request in [
            "MIGRATE h 1 k 0 x",
            "MIGRATE h 1 k x 5",
            "MIGRATE h 99999 k 0 5",
            "MIGRATE h 1 k 0 5 AUTH",
            "MIGRATE h 1 k 0 5 AUTH2 u",
            "MIGRATE h 1 k 0 5 KEYS a",
            "MIGRATE h 1 k 0 5 WHAT",
        ] {
            assert!(parsed(request).is_err(), "{request}");
        }
    }
}
