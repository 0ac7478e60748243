//! Runs the transcripts in `testdata/*.txt`: commands and the replies expected, in the words of redis-cli.
//!
//! ```text
//! # a comment
//! ! now +1000        the clock moves on, in ms
//! ! resp3            the connection's protocol from here on (resp2 at first)
//! ! shards 4         an empty store of so many shards (1 at first)
//! ! split 0          shard 0 divides its slots
//! ! elsewhere 0 2    shards 0 and 2 are led by other nodes
//! > SET a "x\x00y"
//! OK
//! >~ KV.GET a        not comparable with Redis
//! ```
//! Each command is one entry and gets the next version. BASALT_TRANSCRIPTS=rewrite writes what the handlers answer
//! into the files (read the diff). BASALT_TRANSCRIPTS=127.0.0.1:6399 plays them to a Redis there, which is emptied,
//! and reports where it answers otherwise.

use super::Handler;
use super::ScanCursors;
use super::call::Error;
use super::testspace;
use super::testspace::TestShards;
use resp::{Proto, Reply};
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::path::Path;

/// Plays `testdata/{name}.txt` and compares.
pub(crate) fn check(name: &str) {
    check_with(&format!("src/command/testdata/{name}.txt"), || Box::new(Local::new()));
}

/// The same of any file, whose commands `local` answers.
pub(crate) fn check_with(name: &str, local: impl FnOnce() -> Box<dyn Player>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let text = std::fs::read_to_string(&path).expect("the transcript can be read");
    let mode = std::env::var("BASALT_TRANSCRIPTS").unwrap_or_default();
    let mut player: Box<dyn Player> = match mode.as_str() {
        "" | "rewrite" => local(),
        address => Box::new(Remote::new(address)),
    };
    let played = play(&text, player.as_mut());
    if mode == "rewrite" {
        std::fs::write(&path, played).expect("the transcript can be written");
        return;
    }
    assert!(played == text, "{name}: expected (-), found (+)\n{}", differences(&text, &played));
}

/// What answers the commands of a transcript.
pub(crate) trait Player {
    /// A line that is no command.
    fn directive(&mut self, words: &[&str]);
    /// The encoded reply.
    fn command(&mut self, args: &[&[u8]]) -> Vec<u8>;
    /// Whether it answers what is not comparable, too.
    fn knows_all(&self) -> bool {
        true
    }
}

fn play(text: &str, player: &mut dyn Player) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(rest) = line.strip_prefix('>') else {
            let _ = writeln!(out, "{line}");
            if let Some(directive) = line.strip_prefix("! ") {
                player.directive(&directive.split(' ').collect::<Vec<_>>());
            }
            continue;
        };
        let _ = writeln!(out, "{line}");
        let (own, command) = rest.strip_prefix('~').map_or((false, rest), |command| (true, command));
        let mut expected = String::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with(['>', '#', '!']) && !line.is_empty()) {
            let _ = writeln!(expected, "{line}");
        }
        let args = split_args(command);
        let bytes = player.command(&args.iter().map(|arg| &arg[..]).collect::<Vec<_>>());
        if own && !player.knows_all() {
            out.push_str(&expected);
        } else {
            out.push_str(&render(&bytes));
        }
    }
    out
}

fn differences(expected: &str, found: &str) -> String {
    let (expected, found): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    let commands = |lines: &[&str]| {
        let mut blocks: Vec<String> = vec![String::new()];
        for line in lines {
            if line.starts_with('>') {
                blocks.push(String::new());
            }
            let _ = writeln!(blocks.last_mut().expect("never empty"), "{line}");
        }
        blocks
    };
    let mut out = String::new();
    for (a, b) in commands(&expected).iter().zip(&commands(&found)) {
        if a != b {
            let skip = a.lines().zip(b.lines()).take_while(|(a, b)| a == b).count();
            a.lines().take(skip).for_each(|line| _ = writeln!(out, "  {line}"));
            a.lines().skip(skip).for_each(|line| _ = writeln!(out, "- {line}"));
            b.lines().skip(skip).for_each(|line| _ = writeln!(out, "+ {line}"));
        }
    }
    out
}

/// Our own handlers on a `TestShards`.
struct Local {
    shards: TestShards,
    cursors: ScanCursors,
    proto: Proto,
    version: u64,
}

impl Local {
    fn new() -> Self {
        Self { shards: TestShards::new(1), cursors: ScanCursors::default(), proto: Proto::Resp2, version: 0 }
    }
}

impl Player for Local {
    fn directive(&mut self, words: &[&str]) {
        match words {
            ["now", by] => {
                let by: u64 = by.trim_start_matches('+').parse().expect("a number of ms");
                self.shards.shards.iter_mut().for_each(|shard| shard.2.now_ms += by);
            }
            ["resp2"] => self.proto = Proto::Resp2,
            ["resp3"] => self.proto = Proto::Resp3,
            ["shards", n] => self.shards = TestShards::new(n.parse().expect("a number of shards")),
            ["split", i] => self.shards.split(i.parse().expect("a shard's number")),
            ["elsewhere", shards @ ..] => {
                self.shards.elsewhere = shards.iter().map(|i| i.parse().expect("a shard's number")).collect();
            }
            ["restart"] => self.cursors = ScanCursors::default(),
            other => panic!("unknown directive {other:?}"),
        }
    }

    fn command(&mut self, args: &[&[u8]]) -> Vec<u8> {
        self.version += 1;
        self.shards.shards.iter_mut().for_each(|shard| shard.2.version = self.version);
        let mut reply = Reply::new(self.proto);
        if let Some(run) = super::peer_handler(args) {
            let space = &mut self.shards.shards[0].2;
            if let Err(Error::Reply(text)) = run.run(args, space, &mut reply) {
                reply.buf.clear();
                reply.error(&text);
            }
            return reply.buf;
        }
        let spec = match resp::table::resolve(args) {
            Ok(spec) => spec,
            Err(text) => {
                reply.error(&text);
                return reply.buf;
            }
        };
        let name = spec.name.to_ascii_uppercase();
        if name == "FLUSHALL" {
            self.shards = TestShards::new(self.shards.shards.len() as u16);
            reply.ok();
            return reply.buf;
        }
        let outcome = if let Some(Handler::Store(_)) = super::handler(spec) {
            testspace::run_on_store(&mut self.shards, &self.cursors, args, &mut reply)
        } else {
            let first = spec.keys(args).ok().and_then(|mut keys| keys.next());
            let space = self.shards.owner(first.map_or(&[], |at| args[at]));
            let writes = space.writes;
            let outcome = testspace::run_of(space, spec, args, &mut reply);
            if outcome.is_err() {
                assert_eq!(writes, space.writes, "{name} failed and left writes behind");
            }
            space.validate();
            outcome
        };
        match outcome {
            Ok(()) => {}
            Err(Error::Reply(text)) => {
                reply.buf.clear();
                reply.error(&text);
            }
            Err(Error::Fault(fault)) => panic!("{name}: {fault:?}"),
        }
        reply.buf
    }
}

/// A Redis at an address.
struct Remote {
    stream: TcpStream,
}

impl Remote {
    fn new(address: &str) -> Self {
        let mut remote = Self { stream: TcpStream::connect(address).expect("a Redis answers there") };
        remote.command(&[b"FLUSHALL"]);
        remote
    }
}

impl Player for Remote {
    fn directive(&mut self, words: &[&str]) {
        match words {
            ["now", by] => {
                let by: u64 = by.trim_start_matches('+').parse().expect("a number of ms");
                std::thread::sleep(std::time::Duration::from_millis(by + 2));
            }
            ["resp2"] => drop(self.command(&[b"HELLO", b"2"])),
            ["resp3"] => drop(self.command(&[b"HELLO", b"3"])),
            ["shards", _] => drop(self.command(&[b"FLUSHALL"])),
            _ => {}
        }
    }

    fn command(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut request = Reply::new(Proto::Resp2);
        request.array(args.len());
        args.iter().for_each(|arg| request.bulk(arg));
        self.stream.write_all(&request.buf).expect("the request goes out");
        let mut bytes = Vec::new();
        let mut chunk = [0; 65536];
        while bytes.is_empty() || Value::parse(&bytes).is_none() {
            let n = self.stream.read(&mut chunk).expect("the reply comes in");
            assert!(n > 0, "the server hung up");
            bytes.extend_from_slice(&chunk[..n]);
        }
        bytes
    }

    fn knows_all(&self) -> bool {
        false
    }
}

/// The words of a line, quoted as redis-cli has it: `"a\x00\n"`, `'b'`, c.
pub(crate) fn split_args(line: &str) -> Vec<Vec<u8>> {
    let mut args = Vec::new();
    let mut rest = line.trim().as_bytes();
    while let Some(&first) = rest.first() {
        let mut arg = Vec::new();
        match first {
            b'\'' => {
                let end = rest[1..].iter().position(|&b| b == b'\'').expect("a closing quote");
                arg.extend_from_slice(&rest[1..=end]);
                rest = &rest[end + 2..];
            }
            b'"' => {
                rest = &rest[1..];
                while rest[0] != b'"' {
                    let (byte, used) = unescape(rest);
                    arg.push(byte);
                    rest = &rest[used..];
                }
                rest = &rest[1..];
            }
            _ => {
                let end = rest.iter().position(|&b| b == b' ').unwrap_or(rest.len());
                arg.extend_from_slice(&rest[..end]);
                rest = &rest[end..];
            }
        }
        args.push(arg);
        rest = rest.trim_ascii_start();
    }
    args
}

fn unescape(text: &[u8]) -> (u8, usize) {
    match text {
        [b'\\', b'x', high, low, ..] => {
            let digits = [*high, *low];
            let digits = std::str::from_utf8(&digits).expect("two digits");
            (u8::from_str_radix(digits, 16).expect("hexadecimal digits"), 4)
        }
        [b'\\', b'n', ..] => (b'\n', 2),
        [b'\\', b'r', ..] => (b'\r', 2),
        [b'\\', b't', ..] => (b'\t', 2),
        [b'\\', other, ..] => (*other, 2),
        [other, ..] => (*other, 1),
        [] => panic!("a closing quote is missing"),
    }
}

/// A decoded reply.
enum Value {
    Line(u8, String),
    Bulk(Vec<u8>),
    Null,
    Many(u8, Vec<Value>),
}

impl Value {
    /// The first value in `bytes` and what follows it, if it is whole.
    fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let (kind, line, mut rest) = (bytes[0], &bytes[1..end], &bytes[end + 2..]);
        let text = String::from_utf8_lossy(line).into_owned();
        let length = || text.parse::<i64>().expect("a length");
        match kind {
            b'$' | b'=' | b'*' | b'%' | b'~' if length() < 0 => Some((Self::Null, rest)),
            b'_' => Some((Self::Null, rest)),
            b'$' | b'=' => {
                let n = length() as usize;
                (rest.len() >= n + 2).then(|| (Self::Bulk(rest[..n].to_vec()), &rest[n + 2..]))
            }
            b'*' | b'%' | b'~' => {
                let n = length() as usize * if kind == b'%' { 2 } else { 1 };
                let mut items = Vec::new();
                for _ in 0..n {
                    let (item, next) = Self::parse(rest)?;
                    items.push(item);
                    rest = next;
                }
                Some((Self::Many(kind, items), rest))
            }
            _ => Some((Self::Line(kind, text), rest)),
        }
    }

    fn write(&self, indent: usize, out: &mut String) {
        let _ = match self {
            Self::Null => writeln!(out, "(nil)"),
            Self::Line(b'+', text) => writeln!(out, "{text}"),
            Self::Line(b'-', text) => writeln!(out, "(error) {text}"),
            Self::Line(b':', text) => writeln!(out, "(integer) {text}"),
            Self::Line(b',', text) => writeln!(out, "(double) {text}"),
            Self::Line(b'#', text) => writeln!(out, "({})", if text == "t" { "true" } else { "false" }),
            Self::Line(kind, text) => writeln!(out, "({}) {text}", char::from(*kind)),
            Self::Bulk(bytes) => writeln!(out, "\"{}\"", bytes.escape_ascii().to_string().replace("\\'", "'")),
            Self::Many(b'*', items) if items.is_empty() => writeln!(out, "(empty array)"),
            Self::Many(b'%', items) if items.is_empty() => writeln!(out, "(empty hash)"),
            Self::Many(_, items) if items.is_empty() => writeln!(out, "(empty set)"),
            Self::Many(kind, items) => {
                let mark = if *kind == b'*' {
                    ')'
                } else if *kind == b'%' {
                    '#'
                } else {
                    '~'
                };
                let step = if *kind == b'%' { 2 } else { 1 };
                for (i, group) in items.chunks(step).enumerate() {
                    let number = format!("{}{mark} ", i + 1);
                    let pad = if i == 0 { 0 } else { indent };
                    let _ = write!(out, "{:pad$}{number}", "");
                    group[0].write(indent + number.len(), out);
                    if let Some(value) = group.get(1) {
                        out.truncate(out.trim_end().len());
                        out.push_str(" => ");
                        value.write(indent + number.len() + 4, out);
                    }
                }
                Ok(())
            }
        };
    }
}

fn render(bytes: &[u8]) -> String {
    let mut out = String::new();
    let (value, rest) = Value::parse(bytes).expect("a whole reply");
    assert!(rest.is_empty(), "more than one reply: {}", bytes.escape_ascii());
    value.write(0, &mut out);
    out
}
