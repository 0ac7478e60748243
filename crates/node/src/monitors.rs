//! MONITOR: clients that are told of every command that their node runs.

use crate::stats::without_secret;
use crate::subscriber::Subscriber;
use parking_lot::RwLock;
use resp::table::{CommandSpec, behaviour, flag};
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use vocab::limits::{MONITORED_ARGUMENT_BYTES_MAX, MONITORED_COMMAND_BYTES_SOFT};

/// The clients of a node that are told.
#[derive(Debug, Default)]
pub struct Monitors {
    /// How many there are: commands pay one load of it where there is none.
    count: AtomicUsize,
    clients: RwLock<Vec<Subscriber>>,
    /// Connections for clients of other nodes, which show what the scripts of these run.
    elsewhere: AtomicUsize,
}

impl Monitors {
    /// Whether there is one.
    #[inline]
    #[must_use]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Whether one is told of what scripts run: here, or at the node of the script's client.
    #[inline]
    #[must_use]
    pub fn any_of_scripts(&self) -> bool {
        self.any() || self.elsewhere.load(Ordering::Relaxed) > 0
    }

    /// What the scripts of a client of another node run is shown there from now on, or no longer.
    pub(crate) fn count_elsewhere(&self, is_shown: bool) {
        if is_shown {
            self.elsewhere.fetch_add(1, Ordering::Relaxed);
        } else {
            self.elsewhere.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A client is told from now on.
    pub fn add(&self, client: Subscriber) {
        let mut clients = self.clients.write();
        if !clients.contains(&client) {
            clients.push(client);
        }
        self.count.store(clients.len(), Ordering::Relaxed);
    }

    /// A client is told no longer.
    pub fn remove(&self, client: Subscriber) {
        let mut clients = self.clients.write();
        clients.retain(|other| *other != client);
        self.count.store(clients.len(), Ordering::Relaxed);
    }

    /// All of them.
    #[must_use]
    pub fn clients(&self) -> Vec<Subscriber> {
        self.clients.read().clone()
    }
}

/// What monitors are told of a command: its time, the number of its client's database, its client and its arguments, without
/// secrets. `None` if they are not told of commands of this kind.
#[must_use]
pub fn monitored(now_us: u64, (database, client): (u16, &str), spec: &CommandSpec, args: &[&[u8]]) -> Option<Vec<u8>> {
    // A request that runs a script is shown, before the commands of the script.
    let is_skipped = spec.has(flag::SKIP_MONITOR) && !spec.does(behaviour::RUNS_SCRIPT);
    if spec.has(flag::ADMIN) || is_skipped {
        return None;
    }
    let mut line = format!("+{}.{:06} [{database} {client}]", now_us / 1_000_000, now_us % 1_000_000).into_bytes();
    let end = line.len() + MONITORED_COMMAND_BYTES_SOFT;
    for at in 0..args.len() {
        let arg = without_secret(spec, args, at);
        if line.len() >= end {
            // Writing to memory does not fail.
            let _ = write!(line, " ... ({} more arguments)", args.len() - at);
            break;
        }
        line.extend_from_slice(b" \"");
        let shown = quote(&arg[..arg.len().min(MONITORED_ARGUMENT_BYTES_MAX)], end, &mut line);
        line.push(b'"');
        if shown < arg.len() {
            let _ = write!(line, "... ({} more bytes)", arg.len() - shown);
        }
    }
    line.extend_from_slice(b"\r\n");
    Some(line)
}

/// Shows an argument, or as much of it as takes a line to its end; answers how many of its bytes are shown.
fn quote(arg: &[u8], end: usize, line: &mut Vec<u8>) -> usize {
    for (at, byte) in arg.iter().enumerate() {
        if line.len() >= end {
            return at;
        }
        let Quoted { bytes, len } = &QUOTED[usize::from(*byte)];
        line.extend_from_slice(&bytes[..*len]);
    }
    arg.len()
}

/// How a byte is shown: in so many of these bytes.
#[derive(Clone, Copy)]
struct Quoted {
    bytes: [u8; 4],
    len: usize,
}

impl Quoted {
    const fn of(byte: u8) -> Self {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let escaped = match byte {
            b'\\' | b'"' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x07 => b'a',
            0x08 => b'b',
            b' '..=b'~' => return Self { bytes: [byte, 0, 0, 0], len: 1 },
            _ => return Self { bytes: [b'\\', b'x', HEX[(byte >> 4) as usize], HEX[(byte & 15) as usize]], len: 4 },
        };
        Self { bytes: [b'\\', escaped, 0, 0], len: 2 }
    }
}

/// How each byte is shown.
static QUOTED: [Quoted; 256] = {
    let mut all = [Quoted { bytes: [0; 4], len: 0 }; 256];
    let mut byte = 0;
    while byte < all.len() {
        all[byte] = Quoted::of(byte as u8);
        byte += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use resp::table;

    #[test]
    fn lines_show_arguments_but_no_secrets() {
        let shown = |words: &[&[u8]]| {
            let line = monitored(1_700_000_000_000_123, (3, "1.2.3.4:5"), table::resolve(words).unwrap(), words)?;
            Some(String::from_utf8(line).unwrap())
        };
        let head = "+1700000000.000123 [3 1.2.3.4:5]";
        let long = vec![b'x'; MONITORED_ARGUMENT_BYTES_MAX + 7];
        let cut = format!("\"{}\"... (7 more bytes)", "x".repeat(MONITORED_ARGUMENT_BYTES_MAX));
        for (words, expected) in [
            (&[&b"set"[..], b"a b", b"\"\\\n\x00\xff"][..], "\"set\" \"a b\" \"\\\"\\\\\\n\\x00\\xff\""),
            (&[b"AUTH", b"user", b"secret"], "\"AUTH\" \"(redacted)\" \"(redacted)\""),
            (
                &[b"HELLO", b"3", b"AUTH", b"user", b"secret"],
                "\"HELLO\" \"3\" \"(redacted)\" \"(redacted)\" \"(redacted)\"",
            ),
            (&[b"get", &long], &format!("\"get\" {cut}")),
        ] {
            assert_eq!(shown(words), Some(format!("{head} {expected}\r\n")));
        }
        let binary = vec![0xff_u8; 100_000];
        let many = [&[&b"del"[..]][..], &vec![&b""[..]; 100_000]].concat();
        let cut: [(&[&[u8]], &str); 3] = [
            (&many, " more arguments)\r\n"),
            (&[b"set", b"k", &binary], "\\xff\"... (95907 more bytes)\r\n"),
            (&[b"mset", b"k", &binary, b"l", b"v"], "\\xff\"... (95907 more bytes) ... (2 more arguments)\r\n"),
        ];
        for (words, end) in cut {
            let line = shown(words).unwrap();
            assert!(line.len() < MONITORED_COMMAND_BYTES_SOFT + 100 && line.ends_with(end), "{}", line.len());
        }
        assert_eq!(shown(&[b"CONFIG", b"SET", b"requirepass", b"x"]), None);
        assert_eq!(shown(&[b"MONITOR"]), None);
    }

    #[test]
    fn clients_come_once_and_go() {
        let (monitors, client) = (Monitors::default(), Subscriber::default());
        monitors.add(client);
        monitors.add(client);
        assert_eq!((monitors.any(), monitors.clients()), (true, vec![client]));
        monitors.remove(client);
        assert!(!monitors.any() && !monitors.any_of_scripts());
        for is_shown in [true, false] {
            monitors.count_elsewhere(is_shown);
            assert_eq!((monitors.any(), monitors.any_of_scripts()), (false, is_shown));
        }
    }
}
