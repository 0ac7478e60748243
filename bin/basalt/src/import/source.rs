//! Questions to a running source besides its stream: what a key holds at a known place of the stream, and how far that is.

use client::{Client, StoreUrl};
use rdb::Value;
use resp::Value as Answer;
use std::time::Duration;
use vocab::limits::RESTORED_BYTES_MAX;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// What a key held.
pub(super) struct Held {
    /// `None` for a key that was not there. An error says why a value cannot be read.
    pub(super) value: Result<Option<(Value, Option<u64>)>, String>,
    /// The place of the stream at which it did.
    pub(super) offset: u64,
}

/// A source that answers questions.
pub(super) struct Source {
    client: Client,
    /// The database that it is asked about.
    selected: u64,
    /// Whether it tells when keys expire, once that is known.
    tells_expiry: Option<bool>,
}

impl Source {
    pub(super) fn open(url: &StoreUrl) -> Result<Self, String> {
        let client = Client::open_within(url, CONNECT_WITHIN, ANSWER_WITHIN);
        Ok(Self { client: client.map_err(|e| format!("the source: {e}"))?, selected: 0, tells_expiry: None })
    }

    /// The next questions are about that database.
    pub(super) fn select(&mut self, database: u64) -> Result<(), String> {
        if self.selected != database {
            self.ask(&[b"SELECT", database.to_string().as_bytes()])?;
            self.selected = database;
        }
        Ok(())
    }

    /// The number of the database of that name, of a source whose databases have names.
    pub(super) fn number_of(&mut self, name: &str) -> Result<u64, String> {
        self.ask(&[b"SELECT", name.as_bytes()])?;
        let info = self.ask(&[b"CLIENT", b"INFO"])?;
        let number =
            text_of(&info).unwrap_or_default().split_ascii_whitespace().find_map(|word| word.strip_prefix("db="));
        let number = number.and_then(|number| number.parse().ok());
        self.selected = number.ok_or_else(|| format!("the source does not tell which database {name} is"))?;
        Ok(self.selected)
    }

    fn ask(&mut self, args: &[&[u8]]) -> Result<Answer, String> {
        match self.client.call_here(args) {
            Ok(Answer::Error(text)) => Err(format!("the source: {text}")),
            Ok(answer) => Ok(answer),
            Err(error) => Err(format!("the source: {error}")),
        }
    }

    /// How far the source's stream goes.
    pub(super) fn offset(&mut self) -> Result<u64, String> {
        let answer = self.ask(&[b"INFO", b"replication"])?;
        offset_of(&answer).ok_or_else(|| "the source does not tell its master_repl_offset".to_owned())
    }

    /// Whether the source tells when a key expires; one of before Redis 7 tells how long it lives.
    pub(super) fn tells_expiry(&mut self, key: &[u8]) -> Result<bool, String> {
        if let Some(tells) = self.tells_expiry {
            return Ok(tells);
        }
        let answer = self.client.call_here(&[b"PEXPIRETIME", key]).map_err(|error| format!("the source: {error}"))?;
        let tells = !matches!(answer, Answer::Error(_));
        self.tells_expiry = Some(tells);
        Ok(tells)
    }

    /// What a key holds, and where in the stream that is: both of one moment.
    pub(super) fn read(&mut self, key: &[u8], now_ms: u64) -> Result<Held, String> {
        let (asked, from_ms): (&[u8], u64) =
            if self.tells_expiry(key)? { (b"PEXPIRETIME".as_slice(), 0) } else { (b"PTTL".as_slice(), now_ms) };
        let requests: [&[&[u8]]; 4] = [&[b"MULTI"], &[b"DUMP", key], &[asked, key], &[b"INFO", b"replication"]];
        for args in requests {
            self.ask(args)?;
        }
        let answer = self.ask(&[b"EXEC"])?;
        let wrong = || "the source answers EXEC with something else".to_owned();
        let Answer::Array(answers) = answer else { return Err(wrong()) };
        let [dumped, expiry, info] = answers.as_slice() else { return Err(wrong()) };
        let offset = offset_of(info).ok_or_else(wrong)?;
        let value = match (dumped, expiry) {
            (Answer::Bulk(dumped), Answer::Int(expiry)) => {
                let expire_at_ms = u64::try_from(*expiry).ok().map(|expiry| from_ms + expiry);
                value_of(dumped).map(|value| Some((value, expire_at_ms)))
            }
            (Answer::Error(text), _) => return Err(format!("the source: {text}")),
            _ => Ok(None),
        };
        Ok(Held { value, offset })
    }

    /// Whether there is a key of that name.
    pub(super) fn has(&mut self, key: &[u8]) -> Result<bool, String> {
        Ok(self.ask(&[b"EXISTS", key])?.as_int() == Some(1))
    }

    /// The databases that hold keys.
    pub(super) fn databases(&mut self) -> Result<Vec<u64>, String> {
        let info = self.ask(&[b"INFO", b"keyspace"])?;
        let text = text_of(&info).unwrap_or_default();
        let number = |line: &str| line.strip_prefix("db")?.split_once(':')?.0.parse().ok();
        Ok(text.lines().filter_map(number).collect())
    }

    /// How many keys the database has.
    pub(super) fn count(&mut self) -> Result<u64, String> {
        match self.ask(&[b"DBSIZE"])? {
            Answer::Int(count) => Ok(count.unsigned_abs()),
            other => Err(format!("the source: DBSIZE is {other:?}")),
        }
    }

    /// Some of its keys from a cursor on, and the cursor after them, which begins and ends with 0.
    pub(super) fn page(&mut self, cursor: &[u8]) -> Result<(Vec<u8>, Vec<Vec<u8>>), String> {
        let answer = self.ask(&[b"SCAN", cursor, b"COUNT", b"500"])?;
        if let Answer::Array(parts) = answer
            && let Ok([Answer::Bulk(next), Answer::Array(keys)]) = <[Answer; 2]>::try_from(parts)
        {
            let keys = keys.into_iter().filter_map(|key| if let Answer::Bulk(key) = key { Some(key) } else { None });
            return Ok((next, keys.collect()));
        }
        Err("the source: SCAN answers no page".to_owned())
    }

    /// A key, drawn at random; `None` if there is none.
    pub(super) fn random_key(&mut self) -> Result<Option<Vec<u8>>, String> {
        match self.ask(&[b"RANDOMKEY"])? {
            Answer::Bulk(key) => Ok(Some(key)),
            _ => Ok(None),
        }
    }
}

/// The value of a dump.
pub(super) fn value_of(dumped: &[u8]) -> Result<Value, String> {
    let (version, body) = rdb::checked_body(dumped).ok_or("a dump of a version that is not known")?;
    rdb::read_dump(version, body, RESTORED_BYTES_MAX).map_err(|e| e.to_string())
}

fn text_of(info: &Answer) -> Option<&str> {
    match info {
        Answer::Bulk(bytes) => std::str::from_utf8(bytes).ok(),
        Answer::Verbatim { text, .. } => std::str::from_utf8(text).ok(),
        _ => None,
    }
}

fn offset_of(info: &Answer) -> Option<u64> {
    text_of(info)?.lines().find_map(|line| line.strip_prefix("master_repl_offset:"))?.trim().parse().ok()
}
