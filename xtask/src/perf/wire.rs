//! A connection to a server: enough of the protocol to load records and to ask how it is.

use super::progress;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);
/// SETs on their way at once.
const DEPTH: u64 = 256;
/// What the last of some requests has to say.
const LAST: &str = "the-last-of-these-requests";
const OK: &[u8] = b"+OK\r\n";
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Fields of INFO that are 0 when there is no background work: Basalt's, and Redis's.
const BACKGROUND: [&str; 5] =
    ["flushes_running", "compactions_running", "aof_rewrite_in_progress", "rdb_bgsave_in_progress", "loading"];

/// One connection.
pub struct Connection {
    stream: BufReader<TcpStream>,
    port: u16,
    /// The first word of the last request: what an answer is waited for.
    asked: String,
}

impl Connection {
    /// Connects to 127.0.0.1.
    pub fn open(port: u16) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("port {port}: {error}");
        let stream =
            TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), TIMEOUT).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
        Ok(Self { stream: BufReader::with_capacity(64 << 10, stream), port, asked: String::new() })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.get_mut().write_all(bytes).map_err(|error| format!("port {}: {error}", self.port))
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), String> {
        self.stream.read_exact(bytes).map_err(|error| self.unanswered(&error))
    }

    fn asks(&mut self, args: &[&str]) {
        self.asked.clear();
        self.asked.push_str(args.first().copied().unwrap_or_default());
    }

    fn unanswered(&self, error: &std::io::Error) -> String {
        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
            return format!("port {}: no answer to {} within {} s", self.port, self.asked, TIMEOUT.as_secs());
        }
        format!("port {}: {error}", self.port)
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = Vec::new();
        let read = (&mut self.stream).take(REPLY_BYTES_MAX as u64).read_until(b'\n', &mut line);
        read.map_err(|error| self.unanswered(&error))?;
        if !line.ends_with(b"\r\n") {
            return Err(format!("port {}: closed within an answer", self.port));
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// Any answer will do: a server without a store knows no PING.
    pub fn ping(&mut self) -> Result<(), String> {
        self.ask(&["PING"])?;
        self.read(&mut [0])
    }

    /// Asks the server to end; it does not answer.
    pub fn shut_down(&mut self) -> Result<(), String> {
        self.ask(&["SHUTDOWN", "NOSAVE"])?;
        self.line().map(|_| ())
    }

    /// Changes a setting of the node.
    pub fn set_config(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.ask(&["CONFIG", "SET", name, value])?;
        self.expect("+OK")
    }

    /// Writes a key: an error if it is not taken here, also because another node has it.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        self.ask(&["SET", key, value])?;
        self.expect("+OK")
    }

    /// From now on this node's followers answer reads, too.
    pub fn read_only(&mut self) -> Result<(), String> {
        self.ask(&["READONLY"])?;
        self.expect("+OK")
    }

    /// What a key holds: an error if nothing, or if it is not told here.
    pub fn get(&mut self, key: &str) -> Result<String, String> {
        self.text(&["GET", key]).map(|text| text.trim_end().to_owned())
    }

    /// Sends a request.
    pub fn ask(&mut self, args: &[&str]) -> Result<(), String> {
        self.asks(args);
        self.write(&request(args))
    }

    /// Sends requests at once, and reads their answers.
    pub fn ask_all<'a>(&mut self, requests: impl IntoIterator<Item = Vec<&'a str>>) -> Result<(), String> {
        let (mut bytes, mut count) = (Vec::new(), 0);
        for args in requests {
            bytes.extend(request(&args));
            if count == 0 {
                self.asks(&args);
            }
            count += 1;
        }
        self.write(&bytes)?;
        (0..count).try_for_each(|_| self.answer().map(|_| ()))
    }

    /// Sends requests at once and reads all that comes of them, whatever it is: some are answered with errors, some with several
    /// answers.
    pub fn ask_for_any<'a>(&mut self, requests: impl IntoIterator<Item = Vec<&'a str>>) -> Result<(), String> {
        let mut bytes: Vec<u8> = requests.into_iter().flat_map(|args| request(&args)).collect();
        bytes.extend(request(&["PING", LAST]));
        self.asks(&["PING"]);
        let port = self.port;
        let failed = move |error: std::io::Error| format!("port {port}: {error}");
        let mut writer = self.stream.get_ref().try_clone().map_err(failed)?;
        // A server reads no further from a client that takes no answers.
        std::thread::scope(|scope| {
            let written = scope.spawn(move || writer.write_all(&bytes).map_err(failed));
            self.answers_until_last()?;
            written.join().map_err(|_| "a thread that writes has panicked".to_owned())?
        })
    }

    fn answers_until_last(&mut self) -> Result<(), String> {
        loop {
            let line = self.line()?;
            let length = line.strip_prefix('$').and_then(|digits| digits.parse::<u64>().ok());
            let Some(length) = length else { continue };
            if length != LAST.len() as u64 {
                self.skip(length + 2)?;
            } else if self.line()? == LAST {
                return Ok(());
            }
        }
    }

    /// Has the server know a script; its SHA1.
    pub fn load_script(&mut self, script: &str) -> Result<String, String> {
        self.text(&["SCRIPT", "LOAD", script]).map(|text| text.trim_end().to_owned())
    }

    /// The stream itself; nothing may be left unread.
    pub fn into_stream(self) -> TcpStream {
        self.stream.into_inner()
    }

    /// Subscribes to a channel, and hands over the stream of its messages.
    pub fn subscribe(mut self, channel: &str) -> Result<TcpStream, String> {
        self.ask(&["SUBSCRIBE", channel])?;
        self.answer()?;
        Ok(self.stream.into_inner())
    }

    /// Walks over all keys of the server, `count` at a time; how many there are.
    pub fn scan_all(&mut self, count: u64) -> Result<u64, String> {
        let (mut cursor, mut keys, count) = ("0".to_owned(), 0, count.to_string());
        loop {
            self.ask(&["SCAN", &cursor, "COUNT", &count])?;
            let head = self.line()?;
            if head != "*2" {
                return Err(format!("port {}: answered SCAN with {head}", self.port));
            }
            self.line()?;
            cursor = self.line()?;
            let head = self.line()?;
            let page = head.strip_prefix('*').and_then(|digits| digits.parse::<u64>().ok());
            let page = page.ok_or_else(|| format!("port {}: answered SCAN with {head}", self.port))?;
            (0..page).try_for_each(|_| self.answer().map(|_| ()))?;
            keys += page;
            if cursor == "0" {
                return Ok(keys);
            }
        }
    }

    /// Reads one whole answer and keeps nothing of it; how many bytes its strings hold. An error if it is one.
    pub fn answer(&mut self) -> Result<u64, String> {
        let (mut left, mut bytes) = (1u64, 0);
        while left > 0 {
            left -= 1;
            let line = self.line()?;
            let number = || line[1..].parse::<i64>().map_or(0, |n| u64::try_from(n).unwrap_or(0));
            match line.as_bytes().first() {
                Some(b'-') => return Err(format!("port {}: answered with {line}", self.port)),
                Some(b'*') => left += number(),
                Some(b'$') if line != "$-1" => {
                    let length = number();
                    self.skip(length + 2)?;
                    bytes += length;
                }
                _ => {}
            }
        }
        Ok(bytes)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), String> {
        let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
        while left > 0 {
            let found = self.stream.fill_buf().map(<[u8]>::len).map_err(|error| self.unanswered(&error))?;
            if found == 0 {
                return Err(format!("port {}: closed within an answer", self.port));
            }
            let taken = found.min(left);
            self.stream.consume(taken);
            left -= taken;
        }
        Ok(())
    }

    fn expect(&mut self, answer: &str) -> Result<(), String> {
        let line = self.line()?;
        if line == answer { Ok(()) } else { Err(format!("port {}: answered with {line}", self.port)) }
    }

    /// The integer that answers a request.
    pub fn integer(&mut self, args: &[&str]) -> Result<u64, String> {
        self.ask(args)?;
        let line = self.line()?;
        let number = line.strip_prefix(':').and_then(|digits| digits.parse().ok());
        number.ok_or_else(|| format!("port {}: answered {} with {line}", self.port, args.join(" ")))
    }

    /// How many keys the server holds.
    pub fn key_count(&mut self) -> Result<u64, String> {
        self.integer(&["DBSIZE"])
    }

    /// The bulk string that answers a request; an error if it is answered otherwise.
    fn text(&mut self, args: &[&str]) -> Result<String, String> {
        self.ask(args)?;
        let head = self.line()?;
        let length: usize = head.strip_prefix('$').and_then(|digits| digits.parse().ok()).unwrap_or(usize::MAX);
        if length > REPLY_BYTES_MAX {
            return Err(format!("port {}: answered with {head}", self.port));
        }
        let mut bytes = vec![0; length + 2];
        self.read(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What the server says that it does in the background, if anything.
    pub fn background_work(&mut self) -> Result<Option<String>, String> {
        self.text(&["INFO", "all"]).map(|info| background_work(&info))
    }

    /// A number that the server tells by that name in INFO.
    pub fn told(&mut self, name: &str) -> Result<u64, String> {
        let info = self.text(&["INFO", "all"])?;
        number_in(&info, name).ok_or_else(|| format!("port {}: INFO tells no {name}", self.port))
    }

    /// Whether the server says that every slot of its store is served, by nodes that are `nodes` in number.
    pub fn store_is_up(&mut self, nodes: usize) -> Result<bool, String> {
        let info = self.text(&["CLUSTER", "INFO"])?;
        let says = |line: &str| info.lines().any(|found| found.trim_end() == line);
        Ok(says("cluster_state:ok") && says(&format!("cluster_known_nodes:{nodes}")))
    }

    /// SETs `key:000000000000` and so on, `count` of them, with values of `value_bytes` that do not compress.
    pub fn load(&mut self, count: u64, value_bytes: usize) -> Result<(), String> {
        let (mut batch, mut answers) = (Vec::new(), Vec::new());
        let mut first = 0;
        progress::doing(format!("loading {count} keys through port {}", self.port));
        while first < count {
            let end = count.min(first + DEPTH);
            batch.clear();
            (first..end).for_each(|number| push_set(number, value_bytes, &mut batch));
            self.write(&batch)?;
            answers.resize((end - first) as usize * OK.len(), 0);
            self.read(&mut answers)?;
            if let Some(other) = answers.chunks(OK.len()).position(|answer| answer != OK) {
                let said = String::from_utf8_lossy(&answers[other * OK.len()..]).into_owned();
                return Err(format!("port {}: refused a SET: {}", self.port, said.trim_end()));
            }
            first = end;
            progress::counted(first, count);
        }
        Ok(())
    }
}

/// A request as it is sent.
pub fn request(args: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len());
    args.iter().for_each(|arg| bytes += &format!("${}\r\n{arg}\r\n", arg.len()));
    bytes.into_bytes()
}

fn background_work(info: &str) -> Option<String> {
    let fields = info.lines().filter_map(|line| line.trim_end().split_once(':'));
    let mut at_work = fields.filter(|(name, value)| BACKGROUND.contains(name) && *value != "0");
    at_work.next().map(|(name, value)| format!("INFO says {name}:{value}"))
}

/// The number of the field of that name in INFO.
fn number_in(info: &str, name: &str) -> Option<u64> {
    let value = |line: &str| line.trim_end().strip_prefix(name)?.strip_prefix(':')?.parse().ok();
    info.lines().find_map(value)
}

fn push_set(number: u64, value_bytes: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*3\r\n$3\r\nSET\r\n$16\r\nkey:{number:012}\r\n${value_bytes}\r\n").as_bytes());
    let mut state = number;
    let end = out.len() + value_bytes;
    while out.len() < end {
        // SplitMix64: of no repetition that a compressor would find.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        out.extend_from_slice(&(word ^ word >> 31).to_le_bytes());
    }
    out.truncate(end);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_a_whole_request() {
        let mut bytes = Vec::new();
        push_set(42, 1000, &mut bytes);
        let head = b"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000042\r\n$1000\r\n";
        assert!(bytes.starts_with(head) && bytes.ends_with(b"\r\n"));
        assert_eq!(bytes.len(), head.len() + 1002);
    }

    #[test]
    fn background_work_is_seen() {
        for (info, expected) in [
            ("# Basalt\r\nflushes_running:0\r\ncompactions_running:0\r\nflushes:7\r\n", None),
            ("compactions_running:1\r\n", Some("INFO says compactions_running:1")),
            ("aof_rewrite_in_progress:1\r\n", Some("INFO says aof_rewrite_in_progress:1")),
            ("rdb_bgsave_in_progress:0\r\nloading:0\r\n", None),
        ] {
            assert_eq!(background_work(info).as_deref(), expected, "{info}");
        }
    }

    #[test]
    fn a_number_of_info_is_found_by_its_whole_name() {
        let info = "# Basalt\r\nshards:16\r\nshards_leading:6\r\nversion:7.0\r\n";
        let found = ["shards", "shards_leading", "version", "leading"].map(|name| number_in(info, name));
        assert_eq!(found, [Some(16), Some(6), None, None]);
    }
}
