//! A client's request as Basalt's commands, and the answer as the history has it.

use crate::history::{Action, Answer, Key, Outcome, Seen};
use node::session::Consistency;
use node::{EncodedCommand, Write};
use resp::Value;
use vocab::limits::KEY_BYTES_MAX;
use vocab::{ClusterDatabase, Namespace};

/// Which command carries the actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// KV.GET: one `Get`.
    Get,
    /// KV.PUT: one `Put`, or one `PutIf`.
    Put,
    /// KV.EXEC: any.
    Exec,
    /// SET without waiting for anybody: one `Put`. It may be lost.
    Set,
    /// FLUSHALL's part in one shard.
    Clear,
    /// WATCH, MULTI, EXEC: any `Check`s, then `Get`s, `Put`s and `Delete`s.
    Multi,
}

/// The word before a request's id.
const REQUEST: &[u8] = b"REQUEST";

/// What a client asks.
#[derive(Clone, Debug)]
pub struct Request {
    /// As which command.
    pub form: Form,
    /// Of which group of keys.
    pub group: usize,
    /// What.
    pub actions: Vec<(Key, Action)>,
    /// The client and the number that it gave the request, if it may be sent again: of KV.PUT and KV.EXEC only.
    pub id: Option<(usize, u64)>,
    /// Of a KV.GET that any replica may answer: what it must keep.
    pub weak: Option<Consistency>,
}

/// The bytes of a key, as it is stored. Two of three are those of cluster databases, which have the slots of their names.
#[must_use]
pub fn key_name(group: usize, key: Key) -> Vec<u8> {
    let name = format!("{{g{group}}}k{key}").into_bytes();
    match ClusterDatabase::of_number(key as u64 % 3) {
        Some(database) => Namespace::Cluster(database).stored(&name),
        None => name,
    }
}

/// The bytes of a value: its number, and some more, so that values differ in length.
fn value_bytes(value: u64) -> Vec<u8> {
    let mut bytes = format!("{value}:").into_bytes();
    bytes.resize(bytes.len() + (value * 7 % 61) as usize, b'.');
    bytes
}

/// The number of a value.
#[must_use]
pub fn value_number(bytes: &[u8]) -> Option<u64> {
    let end = bytes.iter().position(|&byte| byte == b':')?;
    let value = std::str::from_utf8(&bytes[..end]).ok()?.parse().ok()?;
    (value_bytes(value) == bytes).then_some(value)
}

impl Request {
    /// The keys that it touches.
    #[must_use]
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.actions.iter().map(|(key, _)| key_name(self.group, *key)).collect()
    }

    /// Whether it may change something; what may not is a read.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.form != Form::Get
    }

    /// The command of a request that is not a transaction.
    #[must_use]
    pub fn command(&self) -> Vec<Vec<u8>> {
        let mut args = match self.form {
            Form::Exec => {
                let mut args = vec![b"KV.EXEC".to_vec(), self.actions.len().to_string().into_bytes()];
                for &(key, action) in &self.actions {
                    let words = self.words(key, action);
                    args.push(words.len().to_string().into_bytes());
                    args.extend(words);
                }
                args
            }
            Form::Set => self.actions.first().map_or(Vec::new(), |&(key, action)| {
                let mut words = self.words(key, action);
                words[0] = b"SET".to_vec();
                words
            }),
            Form::Clear => Vec::new(),
            Form::Get | Form::Put | Form::Multi => self.actions.first().map_or(Vec::new(), |&(key, action)| {
                let mut words = self.words(key, action);
                words[0].splice(0..0, *b"KV.");
                words
            }),
        };
        args.extend(self.weak.into_iter().flat_map(weak_words));
        if let Some((client, number)) = self.id {
            args.extend([REQUEST.to_vec(), format!("client{client}").into_bytes(), number.to_string().into_bytes()]);
        }
        args
    }

    /// As a shard takes it.
    #[must_use]
    pub fn write(&self) -> Write {
        if self.form == Form::Clear {
            return Write::Clear;
        }
        if self.form != Form::Multi {
            return Write::Command(encode(&self.command()));
        }
        let checks = self.actions.iter().filter_map(|&(key, action)| match action {
            Action::Check(version) => Some((key_name(self.group, key), version)),
            _ => None,
        });
        let commands = self.commands().map(|&(key, action)| {
            let one = Self { form: Form::Put, group: self.group, actions: vec![(key, action)], id: None, weak: None };
            encode(&one.command())
        });
        Write::Transaction { watches: checks.collect(), commands: commands.collect() }
    }

    fn commands(&self) -> impl Iterator<Item = &(Key, Action)> {
        self.actions.iter().filter(|(_, action)| !matches!(action, Action::Check(_)))
    }

    fn words(&self, key: Key, action: Action) -> Vec<Vec<u8>> {
        let name = key_name(self.group, key);
        let number = |version: u64| version.to_string().into_bytes();
        match action {
            Action::Get => vec![b"GET".to_vec(), name],
            Action::Put(value) => vec![b"PUT".to_vec(), name, value_bytes(value)],
            Action::PutFor(value, ms) => {
                vec![b"PUT".to_vec(), name, value_bytes(value), b"TTL".to_vec(), number(ms)]
            }
            Action::Clear => Vec::new(),
            Action::PutIf(value, version) => {
                let condition = [b"IFVERSION".to_vec(), number(version), b"RETURN".to_vec()];
                [vec![b"PUT".to_vec(), name, value_bytes(value)], condition.to_vec()].concat()
            }
            Action::Delete => vec![b"DEL".to_vec(), name],
            Action::Check(version) => vec![b"CHECK".to_vec(), name, number(version)],
        }
    }

    /// Reads the answer; an error is one that the store should never give.
    pub fn answer(&self, reply: &[u8]) -> Result<Answer, String> {
        let decoded = resp::decode(reply).map_err(|e| format!("a reply that is none ({e}): {reply:?}"))?;
        let Some((value, length)) = decoded else { return Err(format!("a reply cut short: {reply:?}")) };
        if length != reply.len() {
            return Err(format!("more than one reply: {reply:?}"));
        }
        if let Some(text) = value.as_error() {
            return refused(text).ok_or_else(|| format!("{:?} was answered: {text}", self.actions));
        }
        self.understand(&value).ok_or_else(|| format!("{:?} was answered: {value:?}", self.actions))
    }

    fn understand(&self, value: &Value) -> Option<Answer> {
        let all = |values: &[Value]| {
            let actions: Vec<_> = match self.form {
                Form::Multi => self.commands().collect(),
                _ => self.actions.iter().collect(),
            };
            let outcomes = actions.iter().zip(values).map(|((_, action), value)| outcome(*action, value));
            (actions.len() == values.len()).then(|| outcomes.collect::<Option<Vec<_>>>()).flatten()
        };
        match (self.form, value) {
            (Form::Exec, Value::Array(parts)) => match &parts[..] {
                [Value::Int(1), Value::Array(values)] => all(values).map(Answer::Done),
                [Value::Int(0), Value::Int(at), value] => {
                    let at = usize::try_from(*at).ok()?;
                    let (_, action) = self.actions.get(at)?;
                    Some(Answer::Unmet(unmet(*action, value).map(|seen| (at, seen))))
                }
                _ => None,
            },
            (Form::Multi, Value::Null) => Some(Answer::Unmet(None)),
            (Form::Multi, Value::Array(values)) => {
                let checks = self.actions.len() - self.commands().count();
                let outcomes = all(values)?;
                Some(Answer::Done([vec![Outcome::Held; checks], outcomes].concat()))
            }
            (Form::Clear, Value::Simple(_)) => Some(Answer::Done(vec![Outcome::Cleared])),
            // It was answered before anybody had it.
            (Form::Set, Value::Simple(_)) => Some(Answer::Unknown),
            (Form::Get | Form::Put, value) => {
                let (_, action) = *self.actions.first()?;
                match (outcome(action, value), unmet(action, value)) {
                    (Some(outcome), _) => Some(Answer::Done(vec![outcome])),
                    (None, Some(seen)) => Some(Answer::Unmet(Some((0, seen)))),
                    (None, None) => None,
                }
            }
            _ => None,
        }
    }
}

fn weak_words(consistency: Consistency) -> Vec<Vec<u8>> {
    let number = |word: &[u8], number: u64| vec![word.to_vec(), number.to_string().into_bytes()];
    match consistency {
        Consistency::Absolute => vec![b"ABSOLUTE".to_vec()],
        Consistency::Any => vec![b"ANY".to_vec()],
        Consistency::Lag { ms } => number(b"LAG", ms),
        Consistency::Version { token } => number(b"VERSION", token),
    }
}

fn encode(args: &[Vec<u8>]) -> EncodedCommand {
    EncodedCommand::new(&args.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn seen(value: &Value, version: &Value) -> Option<Seen> {
    match (value, version) {
        (Value::Null, Value::Null) => Some(None),
        (value, Value::Int(version)) => Some(Some((value_number(value.as_bytes()?)?, u64::try_from(*version).ok()?))),
        _ => None,
    }
}

fn outcome(action: Action, value: &Value) -> Option<Outcome> {
    match (action, value) {
        (Action::Get, Value::Null) => Some(Outcome::Read(None)),
        (Action::Get, Value::Array(parts)) => match &parts[..] {
            [value, version] => seen(value, version).map(Outcome::Read),
            _ => None,
        },
        (Action::Put(_) | Action::PutFor(..), Value::Int(version)) => {
            u64::try_from(*version).ok().map(Outcome::Written)
        }
        (Action::PutIf(..), Value::Array(parts)) => match &parts[..] {
            [Value::Int(version), _, _] => u64::try_from(*version).ok().map(Outcome::Written),
            _ => None,
        },
        (Action::Delete, Value::Int(count @ 0..=1)) => Some(Outcome::Deleted(*count == 1)),
        (Action::Check(_), Value::Int(_) | Value::Null) => Some(Outcome::Held),
        _ => None,
    }
}

/// What was there, where a `PutIf` did not hold.
fn unmet(action: Action, value: &Value) -> Option<Seen> {
    match (action, value) {
        (Action::PutIf(..), Value::Array(parts)) => match &parts[..] {
            [Value::Null, value, version] => seen(value, version),
            _ => None,
        },
        _ => None,
    }
}

/// What an error says about the request: that nothing was written, or that this is unknown.
#[must_use]
pub fn refused(text: &str) -> Option<Answer> {
    const NOT_DONE: &[&str] = &[
        "MOVED ",
        "CLUSTERDOWN ",
        "BUSY ",
        "TRYAGAIN ",
        "STALE ",
        "ERR disk full",
        "ERR short of descriptors or memory",
        "ERR writes are refused",
        "ERR not written",
        "ERR this shard takes no commands",
    ];
    const UNKNOWN: &[&str] =
        &["TIMEOUT ", "NOREPLICAS ", "UNKNOWN ", "ERR the outcome of this write is unknown", "ERR entry "];
    if NOT_DONE.iter().any(|prefix| text.starts_with(prefix)) {
        return Some(Answer::Refused);
    }
    UNKNOWN.iter().any(|prefix| text.starts_with(prefix)).then_some(Answer::Unknown)
}

/// The number of a value that a command means to write, and whether it may be in another entry too, having been sent
/// again.
pub type ValueSent = (u64, bool);

/// The keys of clients' commands, each of which has one, in an item of an entry.
fn keys_of<'a>(item: &'a node::Item<'a>) -> impl Iterator<Item = &'a [u8]> {
    let commands = match item {
        node::Item::Command(args) => std::slice::from_ref(args),
        node::Item::Transaction { commands, .. } => &commands[..],
        _ => &[],
    };
    commands.iter().filter_map(|args| args.get(1).copied()).filter(|key| key.starts_with(b"{g"))
}

/// The clock of an entry, and the values that its commands mean to write.
pub fn values_of(entry: &[u8]) -> Result<(u64, Vec<ValueSent>), &'static str> {
    let (clock_ms, items) = node::decode_entry(entry)?;
    let mut values = Vec::new();
    for item in items {
        let item = item?;
        if keys_of(&item).any(|key| key.len() > KEY_BYTES_MAX) {
            return Err("a key in it is longer than a key may be");
        }
        match item {
            node::Item::Command(args) => {
                let again = args.iter().rev().nth(2).is_some_and(|word| *word == REQUEST);
                values.extend(args.iter().filter_map(|arg| Some((value_number(arg)?, again))));
            }
            node::Item::Transaction { commands, .. } => {
                values.extend(commands.iter().flatten().filter_map(|arg| Some((value_number(arg)?, false))));
            }
            _ => {}
        }
    }
    Ok((clock_ms, values))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use Action::{Check, Delete, Get, Put, PutIf};
    use Outcome::{Deleted, Held, Read, Written};
    use vocab::client_key;

    fn request(form: Form, actions: &[(Key, Action)]) -> Request {
        Request { form, group: 4, actions: actions.to_vec(), id: None, weak: None }
    }

    #[test]
    fn requests_are_commands_and_replies_answers() {
        let text = |request: &Request| {
            let args = request.command();
            args.iter()
                .map(|arg| String::from_utf8_lossy(client_key(arg)).trim_end_matches('.').to_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let exec = request(Form::Exec, &[(0, Check(3)), (1, PutIf(8, 0)), (2, Delete), (0, Get)]);
        assert_eq!(
            text(&exec),
            "KV.EXEC 4 3 CHECK {g4}k0 3 6 PUT {g4}k1 8: IFVERSION 0 RETURN 2 DEL {g4}k2 2 GET {g4}k0"
        );
        assert_eq!(text(&request(Form::Get, &[(1, Get)])), "KV.GET {g4}k1");
        let lag = Request { weak: Some(Consistency::Lag { ms: 7 }), ..request(Form::Get, &[(1, Get)]) };
        assert_eq!(text(&lag), "KV.GET {g4}k1 LAG 7");
        assert_eq!(text(&request(Form::Put, &[(1, Action::PutFor(8, 9))])), "KV.PUT {g4}k1 8: TTL 9");
        assert_eq!(text(&request(Form::Set, &[(1, Put(8))])), "SET {g4}k1 8:");
        let value = |n: u64| {
            let bytes = value_bytes(n);
            format!("${}\r\n{}\r\n", bytes.len(), String::from_utf8(bytes).unwrap())
        };
        let table = [
            (
                exec.clone(),
                "*2\r\n:1\r\n*4\r\n:3\r\n*3\r\n:9\r\n$-1\r\n$-1\r\n:1\r\n*-1\r\n".to_owned(),
                Answer::Done(vec![Held, Written(9), Deleted(true), Read(None)]),
            ),
            (
                exec.clone(),
                format!("*3\r\n:0\r\n:1\r\n*3\r\n$-1\r\n{}:5\r\n", value(70)),
                Answer::Unmet(Some((1, Some((70, 5))))),
            ),
            (exec, "*3\r\n:0\r\n:0\r\n:7\r\n".to_owned(), Answer::Unmet(None)),
            (
                request(Form::Get, &[(1, Get)]),
                format!("*2\r\n{}:6\r\n", value(3)),
                Answer::Done(vec![Read(Some((3, 6)))]),
            ),
            (request(Form::Put, &[(1, Put(5))]), ":6\r\n".to_owned(), Answer::Done(vec![Written(6)])),
            (
                request(Form::Put, &[(1, PutIf(5, 2))]),
                "*3\r\n$-1\r\n$-1\r\n$-1\r\n".to_owned(),
                Answer::Unmet(Some((0, None))),
            ),
            (request(Form::Multi, &[(1, Check(5)), (1, Put(2))]), "*-1\r\n".to_owned(), Answer::Unmet(None)),
            (
                request(Form::Multi, &[(1, Check(5)), (1, Put(2)), (2, Delete)]),
                "*2\r\n:8\r\n:0\r\n".to_owned(),
                Answer::Done(vec![Held, Written(8), Deleted(false)]),
            ),
            (request(Form::Put, &[(1, Put(5))]), "-MOVED 1 a:1\r\n".to_owned(), Answer::Refused),
            (request(Form::Put, &[(1, Put(5))]), "-TIMEOUT the write\r\n".to_owned(), Answer::Unknown),
        ];
        for (request, reply, answer) in table {
            assert_eq!(request.answer(reply.as_bytes()), Ok(answer), "{reply}");
        }
        for reply in ["-WRONGTYPE x\r\n", "$3\r\nabc\r\n", ":1", ":1\r\n:2\r\n"] {
            assert!(request(Form::Put, &[(1, Put(5))]).answer(reply.as_bytes()).is_err(), "{reply}");
        }
    }

    #[test]
    fn an_entry_tells_its_values() {
        let mut entry = node::EntryBuilder::new();
        let multi = request(Form::Multi, &[(1, Check(5)), (1, Put(77)), (2, Delete)]);
        let Write::Transaction { watches, commands } = multi.write() else { panic!() };
        entry.transaction(&watches, &commands);
        let again = Request { id: Some((3, 1)), ..request(Form::Exec, &[(0, PutIf(8, 1)), (1, Put(9))]) };
        let Write::Command(command) = again.write() else { panic!() };
        entry.encoded_command(&command);
        assert_eq!(values_of(&entry.seal(1)), Ok((1, vec![(77, false), (8, true), (9, true)])));
    }
}
