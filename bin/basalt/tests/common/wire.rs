//! A blocking RESP connection, written apart from Basalt's own parser so that neither hides the other's mistakes.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longer than any answer may take; a test that waits longer has found something.
const PATIENCE: Duration = Duration::from_secs(30);

/// One reply, with its exact type.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    Simple(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    /// `$-1`
    NilBulk,
    /// `*-1`
    NilArray,
    /// `_`
    Null,
    Array(Vec<Value>),
    Map(Vec<Value>),
    Set(Vec<Value>),
    Push(Vec<Value>),
    /// `,` `(` `#` `=` and what follows.
    Other(char, Vec<u8>),
}

impl Value {
    pub fn ok() -> Self {
        Self::Simple("OK".to_owned())
    }

    pub fn bulk(bytes: impl AsRef<[u8]>) -> Self {
        Self::Bulk(bytes.as_ref().to_vec())
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// The bytes of a bulk string, or none for a null.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bulk(bytes) => Some(bytes),
            Self::NilBulk | Self::Null => None,
            other => panic!("not a bulk string: {other:?}"),
        }
    }

    pub fn int(&self) -> i64 {
        match self {
            Self::Int(n) => *n,
            other => panic!("not an integer: {other:?}"),
        }
    }

    pub fn items(&self) -> &[Value] {
        match self {
            Self::Array(items) | Self::Set(items) | Self::Map(items) | Self::Push(items) => items,
            other => panic!("not an array: {other:?}"),
        }
    }

    /// A reply or a push as words, those of arrays one after the other.
    pub fn words(&self) -> String {
        match self {
            Self::Array(items) | Self::Push(items) => items.iter().map(Self::words).collect::<Vec<_>>().join(" "),
            Self::Int(n) => n.to_string(),
            Self::NilBulk | Self::Null => "nil".to_owned(),
            other => other.text(),
        }
    }

    /// As UTF-8, whatever the string type.
    pub fn text(&self) -> String {
        match self {
            Self::Simple(text) | Self::Error(text) => text.clone(),
            Self::Bulk(bytes) | Self::Other(_, bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => format!("{other:?}"),
        }
    }
}

/// One line, one type a sign; what transcripts hold.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, open: &str, items: &[Value], close: &str| {
            f.write_str(open)?;
            for (i, item) in items.iter().enumerate() {
                write!(f, "{}{item:?}", if i == 0 { "" } else { " " })?;
            }
            f.write_str(close)
        };
        match self {
            Self::Simple(text) => write!(f, "+{text}"),
            Self::Error(text) => write!(f, "-{text}"),
            Self::Int(n) => write!(f, ":{n}"),
            Self::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::NilBulk => f.write_str("$-1"),
            Self::NilArray => f.write_str("*-1"),
            Self::Null => f.write_str("_"),
            Self::Array(items) => list(f, "[", items, "]"),
            Self::Map(items) => list(f, "{", items, "}"),
            Self::Set(items) => list(f, "~[", items, "]"),
            Self::Push(items) => list(f, ">[", items, "]"),
            Self::Other(kind, bytes) => write!(f, "{kind}{}", bytes.escape_ascii()),
        }
    }
}

/// A connection whose answers are read one at a time.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    at: usize,
}

impl Connection {
    pub fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, buffer: Vec::new(), at: 0 })
    }

    /// How long it waits for an answer.
    pub fn patience(&self, limit: Duration) {
        self.stream.set_read_timeout(Some(limit)).unwrap();
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The bytes of a request.
    pub fn encode<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            let argument = argument.as_ref();
            bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            bytes.extend_from_slice(argument);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }

    /// One request and its answer; an error only if the connection fails.
    pub fn try_call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<Value> {
        self.send(&Self::encode(arguments))?;
        self.read()
    }

    /// One request, written as words, and its answer.
    pub fn call(&mut self, words: &str) -> Value {
        let arguments: Vec<&str> = words.split_whitespace().collect();
        self.try_call(&arguments).unwrap_or_else(|error| panic!("{words}: {error}"))
    }

    /// What INFO tells in a field of a section; of an empty section, in any that it tells by default.
    pub fn info(&mut self, section: &str, field: &str) -> Option<String> {
        let text = self.call(&format!("INFO {section}")).text();
        text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::to_owned)
    }

    /// The next answer. `UnexpectedEof` when the server has closed.
    pub fn read(&mut self) -> io::Result<Value> {
        let line = self.line()?;
        let (kind, rest) = line.split_first().ok_or_else(|| bad("an empty line"))?;
        let text = || String::from_utf8_lossy(rest).into_owned();
        let length = || text().parse::<i64>().map_err(|_| bad(&format!("a length of {:?}", text())));
        Ok(match kind {
            b'+' => Value::Simple(text()),
            b'-' => Value::Error(text()),
            b':' => Value::Int(length()?),
            b'$' => match length()? {
                -1 => Value::NilBulk,
                n => Value::Bulk(self.exactly(n as usize)?),
            },
            b'=' => {
                let n = length()? as usize;
                Value::Other('=', self.exactly(n)?)
            }
            b'*' => match length()? {
                -1 => Value::NilArray,
                n => Value::Array(self.many(n)?),
            },
            b'%' => Value::Map(self.many(length()? * 2)?),
            b'~' => Value::Set(self.many(length()?)?),
            b'>' => Value::Push(self.many(length()?)?),
            b'_' if rest.is_empty() => Value::Null,
            b',' | b'(' | b'#' => Value::Other(char::from(*kind), rest.to_vec()),
            _ => return Err(bad(&format!("a reply of {:?}", String::from_utf8_lossy(&line)))),
        })
    }

    /// Waits until the next answer has begun, and leaves it to be read.
    pub fn begun(&mut self) -> io::Result<()> {
        if self.at == self.buffer.len() { self.fill() } else { Ok(()) }
    }

    fn many(&mut self, n: i64) -> io::Result<Vec<Value>> {
        (0..n).map(|_| self.read()).collect()
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut searched = 0;
        loop {
            let held = &self.buffer[self.at..];
            if let Some(end) = held[searched..].windows(2).position(|pair| pair == b"\r\n") {
                let line = held[..searched + end].to_vec();
                self.at += searched + end + 2;
                return Ok(line);
            }
            searched = held.len().saturating_sub(1);
            self.fill()?;
        }
    }

    fn exactly(&mut self, n: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() - self.at < n + 2 {
            self.fill()?;
        }
        let bytes = self.buffer[self.at..self.at + n].to_vec();
        if &self.buffer[self.at + n..self.at + n + 2] != b"\r\n" {
            return Err(bad("a bulk string without its end"));
        }
        self.at += n + 2;
        Ok(bytes)
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let mut chunk = [0; 64 * 1024];
        loop {
            return match self.stream.read(&mut chunk) {
                Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    self.buffer.extend_from_slice(&chunk[..n]);
                    Ok(())
                }
                // A process that was stopped and goes on: a read with a timeout is not begun again by the system.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
        }
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server sent {what}"))
}
