//! A running Redis or Valkey, which takes this program for one of its replicas.

use super::state::Followed;
use client::{SharedStream, StoreUrl};
use parking_lot::Mutex;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A source is silent for at most so long: it sends a sign of life every ten seconds, and while it prepares the copy.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Between two reports of how far the stream was read.
const REPORT_EVERY: Duration = Duration::from_secs(1);
const BUFFER_BYTES: usize = 1 << 20;
/// How a copy of unknown length ends.
const MARK_BYTES: usize = 40;

/// The bytes that a source sends.
pub(super) type Input = BufReader<Box<dyn Read + Send>>;

type Writer = Box<dyn Write + Send>;

/// Both directions of a connection to the source, for two threads.
fn connect(source: &StoreUrl) -> std::io::Result<(Box<dyn Read + Send>, Writer)> {
    if source.secure.is_some() {
        let stream = SharedStream::open(source, CONNECT_WITHIN, SILENCE_MAX)?;
        return Ok((Box::new(stream.clone()), Box::new(stream)));
    }
    let stream = TcpStream::connect_timeout(&source.seeds[0].resolve()?, CONNECT_WITHIN)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_nodelay(true)?;
    Ok((Box::new(stream.try_clone()?), Box::new(stream)))
}

/// What a source sends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// Its keys.
    Copy {
        /// How long they are, if the source knows.
        bytes: Option<u64>,
    },
    /// The commands from the offset on that it was asked for.
    Stream,
}

/// A connection on which a source sends its keys, and then every command that changes them.
pub(super) struct Replica {
    pub(super) input: Input,
    /// The id of the source's stream.
    pub(super) stream: String,
    /// The offset of the first command behind the copy.
    pub(super) offset: u64,
    pub(super) begun: Begun,
    /// Tells the source how far it is read.
    reports: Reports,
}

impl Replica {
    /// Asks the source for everything, or for what is behind a place of its stream.
    pub(super) fn open(source: &StoreUrl, behind: Option<&Followed>) -> Result<Self, String> {
        let address = &source.seeds[0];
        let named = |error: std::io::Error| format!("the source, {address}: {error}");
        let (reader, mut writer) = connect(source).map_err(named)?;
        let mut input = BufReader::with_capacity(BUFFER_BYTES, reader);
        let mut ask =
            |args: &[&[u8]]| ask(&mut input, &mut writer, args).map_err(|e| format!("the source, {address}: {e}"));
        if let Some(login) = &source.login {
            let login = login.request();
            ask(&login.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        }
        ask(&[b"PING"])?;
        ask(&[b"REPLCONF", b"listening-port", b"0"])?;
        ask(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"])?;
        let asked = behind.map(|at| (at.stream.clone(), (at.offset + 1).to_string()));
        let (stream, offset) = asked.unwrap_or_else(|| ("?".to_owned(), "-1".to_owned()));
        let answer = ask(&[b"PSYNC", stream.as_bytes(), offset.as_bytes()])?;
        let unknown = || format!("the source, {address}, answers PSYNC with {answer}");
        if let (Some(rest), Some(at)) = (answer.strip_prefix("+CONTINUE"), behind) {
            // A source that was promoted goes on under another id.
            let stream = Some(rest.trim()).filter(|id| !id.is_empty()).unwrap_or(&stream).to_owned();
            let reports = Reports::start(writer);
            return Ok(Self { input, stream, offset: at.offset, begun: Begun::Stream, reports });
        }
        let words = answer.strip_prefix("+FULLRESYNC ").and_then(|rest| rest.split_once(' ')).ok_or_else(unknown)?;
        let (stream, offset) = (words.0.to_owned(), words.1.trim().parse().map_err(|_| unknown())?);
        let reports = Reports::start(writer);
        let begun = Begun::Copy { bytes: copy_head(&mut input).map_err(named)? };
        Ok(Self { input, stream, offset, begun, reports })
    }

    /// The copy was read: takes away what stands behind it.
    pub(super) fn end_copy(&mut self) -> Result<(), String> {
        if self.begun == (Begun::Copy { bytes: None }) {
            let mut mark = [0; MARK_BYTES];
            self.input.read_exact(&mut mark).map_err(|e| format!("the source: {e}"))?;
        }
        self.report(self.offset);
        Ok(())
    }

    /// The stream was read up to that offset.
    pub(super) fn report(&self, offset: u64) {
        self.reports.shared.offset.store(offset, Ordering::Release);
    }
}

/// Sends a request, and reads the line that answers it.
fn ask(input: &mut Input, writer: &mut Writer, args: &[&[u8]]) -> Result<String, String> {
    let mut request = Vec::new();
    resp::encode_request(&mut request, args);
    writer.write_all(&request).map_err(|e| e.to_string())?;
    let line = line(input).map_err(|e| e.to_string())?;
    // A PING is answered with an error where a password is missing.
    match line.strip_prefix('-') {
        Some(error) => Err(error.to_owned()),
        None => Ok(line),
    }
}

/// A line that says something.
fn line(input: &mut Input) -> std::io::Result<String> {
    loop {
        let mut line = String::new();
        if input.by_ref().take(1024).read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        // While the source prepares its copy it sends empty lines.
        let text = line.trim_end();
        if !text.is_empty() {
            return Ok(text.to_owned());
        }
    }
}

/// Reads how long the copy is: `$BYTES`, or `$EOF:` and the mark that will end it.
fn copy_head(input: &mut Input) -> std::io::Result<Option<u64>> {
    let line = line(input)?;
    if line.strip_prefix("$EOF:").is_some_and(|mark| mark.len() == MARK_BYTES) {
        return Ok(None);
    }
    let bytes = line.strip_prefix('$').and_then(|bytes| bytes.parse().ok());
    bytes.map(Some).ok_or_else(|| std::io::Error::other(format!("it sends {line} instead of its keys")))
}

struct Shared {
    offset: AtomicU64,
    is_over: AtomicBool,
}

/// A thread that tells the source every second how far its stream was read: else it would take this replica for dead.
struct Reports {
    shared: Arc<Shared>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Reports {
    fn start(mut writer: Writer) -> Self {
        let shared = Arc::new(Shared { offset: AtomicU64::new(0), is_over: AtomicBool::new(false) });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let mut due = Instant::now();
            while !theirs.is_over.load(Ordering::Acquire) {
                std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
                if Instant::now() < due {
                    continue;
                }
                due += REPORT_EVERY;
                let offset = theirs.offset.load(Ordering::Acquire).to_string();
                let mut request = Vec::new();
                resp::encode_request(&mut request, &[b"REPLCONF", b"ACK", offset.as_bytes()]);
                // Who reads the stream finds out that the connection is gone.
                if writer.write_all(&request).is_err() {
                    return;
                }
            }
        });
        Self { shared, thread: Mutex::new(Some(thread)) }
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.lock().take() {
            thread.thread().unpark();
            // It has nothing to hand over.
            let _ = thread.join();
        }
    }
}
