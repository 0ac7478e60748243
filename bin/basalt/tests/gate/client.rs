//! One client that does its worst to all nodes in turn.

use crate::common::{Connection, Nodes, Random, Value};
use crate::keys::{Request, key_for, one_of, plant, words};
use crate::malformed;
use crate::requests::Requests;
use crate::scripts::wrapped;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// What RESET answers: it ends whatever the requests before it have begun, and tells that they are over.
const OVER: &str = "RESET";
/// How long an answer may take before the client gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a client has seen.
#[derive(Default)]
pub struct Seen {
    pub requests: u64,
    /// Replies that are no errors.
    pub done: u64,
    /// Errors, by their first word.
    pub errors: BTreeMap<String, u64>,
    /// Connections that ended otherwise than by RESET, and the first requests of the batch that did it.
    pub lost: Vec<String>,
}

pub struct Hostile<'a> {
    nodes: &'a Nodes,
    /// The ports of the listeners for databases.
    database_ports: &'a [u16],
    requests: Requests<'a>,
    random: Random,
    /// The node that leads most of the keys.
    home: usize,
    connections: Vec<Option<Connection>>,
    dumped: Vec<u8>,
    pub seen: Seen,
}

impl<'a> Hostile<'a> {
    pub fn new(
        nodes: &'a Nodes,
        database_ports: &'a [u16],
        requests: Requests<'a>,
        random: Random,
        home: usize,
    ) -> Self {
        let connections = (0..nodes.count() + database_ports.len()).map(|_| None).collect();
        Self { nodes, database_ports, requests, random, home, connections, dumped: Vec::new(), seen: Seen::default() }
    }

    /// Sends some requests.
    pub fn step(&mut self) {
        match self.random.below(26) {
            0 => {
                let requests = plant(&mut self.random);
                self.send(&requests);
            }
            1 => {
                let dump = [words("DUMP"), vec![key_for("", &mut self.random)]].concat();
                self.send(&[dump]);
            }
            2 => self.operate(),
            24 => self.malform(),
            25 => {
                let requests = users(&mut self.random);
                self.send(&requests);
            }
            3..=5 => {
                let requests = self.several();
                let mut wrapped = vec![wrapped(&mut self.random, &requests)];
                if self.random.below(4) == 0 {
                    wrapped.insert(0, words("MULTI"));
                    wrapped.push(words("EXEC"));
                }
                self.send(&wrapped);
            }
            6..=11 => self.transact(),
            12 | 13 => self.push(),
            14..=16 => {
                let database = self.random.below(self.database_ports.len() as u64) as usize;
                let mut requests = vec![words(&format!("SELECT {}", self.random.below(17)))];
                requests.extend(self.several());
                self.exchange(self.nodes.count() + database, &requests);
            }
            _ => {
                let requests = self.several();
                self.send(&requests);
            }
        }
    }

    fn several(&mut self) -> Vec<Request> {
        (0..1 + self.random.below(5)).map(|_| self.requests.any(&mut self.random, &self.dumped)).collect()
    }

    /// Bytes that are hardly requests, to any listener.
    fn malform(&mut self) {
        let requests = self.several();
        let n = self.random.below((self.nodes.count() + self.database_ports.len()) as u64) as usize;
        // A listener that takes no connection is found by the requests of others.
        _ = malformed::send(self.port(n), &requests, &mut self.random);
    }

    fn port(&self, n: usize) -> u16 {
        match n.checked_sub(self.nodes.count()) {
            Some(database) => self.database_ports[database],
            None => self.nodes.port(n),
        }
    }

    fn transact(&mut self) {
        let mut requests = Vec::new();
        if self.random.below(2) == 0 {
            let keys = vec![key_for("", &mut self.random), key_for("", &mut self.random)];
            requests.push([words("WATCH"), keys].concat());
        }
        requests.push(words("MULTI"));
        requests.extend(self.several());
        requests.push(words(one_of(&mut self.random, &["EXEC", "EXEC", "EXEC", "DISCARD", "RESET"])));
        self.send(&requests);
    }

    /// Requests of a client that is told of more than its answers.
    fn push(&mut self) {
        let tracking = [
            "CLIENT TRACKING ON",
            "CLIENT TRACKING ON BCAST PREFIX {t}h PREFIX {t}s NOLOOP",
            "CLIENT TRACKING ON OPTIN",
            "CLIENT TRACKING ON OPTOUT NOLOOP",
            "PSUBSCRIBE *",
            "SUBSCRIBE ch0 ch1",
            "SSUBSCRIBE {t}ch0",
            "MONITOR",
        ];
        let mut requests = vec![words(one_of(&mut self.random, &["HELLO 3", "HELLO 3", "HELLO 2"]))];
        requests.push(words(one_of(&mut self.random, &tracking)));
        if self.random.below(3) == 0 {
            requests.push(words("CLIENT CACHING YES"));
        }
        requests.extend(self.several());
        self.send(&requests);
    }

    /// What an operator may do meanwhile.
    fn operate(&mut self) {
        let settings = [
            "notify-keyspace-events KEA",
            "notify-keyspace-events KEAnm",
            "tracking-table-max-keys 10",
            "tracking-table-max-keys 1000000",
            "slowlog-log-slower-than 0",
            "commandlog-reply-larger-than 1",
            "slowlog-max-len 3",
            "hash-max-listpack-entries 4",
            "hash-max-listpack-entries 128",
            "maxmemory-policy allkeys-random",
            "maxmemory-policy noeviction",
            "latency-tracking yes",
        ];
        let requests = match self.random.below(4) {
            0 => vec![words("CLIENT PAUSE 20 WRITE")],
            1 => vec![words("CLIENT PAUSE 20 ALL"), words("CLIENT UNPAUSE")],
            _ => vec![[words("CONFIG SET"), words(one_of(&mut self.random, &settings))].concat()],
        };
        self.send(&requests);
    }

    /// Sends requests at once, mostly where the keys are led: others only redirect.
    fn send(&mut self, requests: &[Request]) {
        let any = self.random.below(self.nodes.count() as u64) as usize;
        let n = if self.random.below(4) == 0 { any } else { self.home };
        self.exchange(n, requests);
    }

    /// Sends requests to a listener at once and reads what it answers; a connection that was closed is opened again.
    fn exchange(&mut self, n: usize, requests: &[Request]) {
        self.seen.requests += requests.len() as u64;
        match self.try_exchange(n, requests) {
            Ok(replies) => {
                for reply in &replies {
                    match reply {
                        Value::Error(text) => {
                            let word = text.split(' ').next().unwrap_or_default();
                            *self.seen.errors.entry(word.to_owned()).or_default() += 1;
                        }
                        _ => self.seen.done += 1,
                    }
                }
                match replies.into_iter().next() {
                    Some(Value::Bulk(dumped)) if requests[0][0] == b"DUMP" => self.dumped = dumped,
                    _ => {}
                }
            }
            Err(error) => {
                self.connections[n] = None;
                let shown: Vec<String> = requests.iter().map(|request| shown(request)).collect();
                self.seen.lost.push(format!("listener {n}: {error}: {}", shown.join("; ")));
            }
        }
    }

    fn try_exchange(&mut self, n: usize, requests: &[Request]) -> io::Result<Vec<Value>> {
        let port = self.port(n);
        let connection = match &mut self.connections[n] {
            Some(connection) => connection,
            none => {
                let connection = Connection::open(port)?;
                connection.patience(PATIENCE);
                none.insert(connection)
            }
        };
        let mut bytes: Vec<u8> = requests.iter().flat_map(|request| Connection::encode(request)).collect();
        bytes.extend(Connection::encode(&[OVER]));
        connection.send(&bytes)?;
        // A RESET among the requests is answered too.
        let mut left = 1 + requests.iter().filter(|request| request[0] == OVER.as_bytes()).count();
        let mut replies = Vec::new();
        while left > 0 {
            match connection.read()? {
                Value::Simple(text) if text == OVER => left -= 1,
                Value::Push(_) => {}
                reply => replies.push(reply),
            }
        }
        Ok(replies)
    }
}

/// Requests about a user, who exists or not, some of them in a transaction.
fn users(random: &mut Random) -> Vec<Request> {
    let rules = [
        "on nopass ~* &* +@all",
        "off resetkeys resetchannels -@all",
        "on ~{t}s* %R~{t}h* &ch* +@read -get +set|get",
        "on (~{t}z* +zadd) (%W~{t}l* +@list) db=0,3",
        "reset",
        ">secret <secret clearselectors allcommands",
        "+nothing",
        "~((",
    ];
    let about = |random: &mut Random| match random.below(6) {
        0 => words("ACL DELUSER hostile"),
        1 => words("ACL GETUSER hostile"),
        2 => words("ACL DRYRUN hostile GET {t}string0"),
        3 => words("ACL LOG RESET"),
        _ => words(&format!("ACL SETUSER hostile {}", one_of(random, &rules))),
    };
    let several: Vec<Request> = (0..1 + random.below(4)).map(|_| about(random)).collect();
    match random.below(2) {
        0 => [vec![words("MULTI"), words("SET {t}new 1")], several, vec![words("EXEC")]].concat(),
        _ => several,
    }
}

/// The beginning of a request.
fn shown(request: &[Vec<u8>]) -> String {
    let word = |word: &Vec<u8>| word[..word.len().min(40)].escape_ascii().to_string();
    request.iter().take(12).map(word).collect::<Vec<_>>().join(" ")
}
