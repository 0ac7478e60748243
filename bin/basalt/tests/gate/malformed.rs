//! Bytes that are no requests, or not all of one: cut off, with lengths that are lies, in other forms of the protocol, or of
//! another protocol. Each client of them ends as it likes, and is answered or not.

use crate::common::{Connection, Random};
use crate::keys::{Request, one_of};
use std::io::{self, Write as _};
use std::net::{Shutdown, TcpStream};

/// What stands where a length should.
const LENGTHS: [&str; 18] = [
    "0",
    "-1",
    "-2",
    "1",
    "00001",
    "+1",
    " 1",
    "0x1",
    "1e3",
    "",
    "1048576",
    "1048577",
    "67108865",
    "536870912",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "18446744073709551616",
];
/// What a server or a client of RESP3 sends, but no request is.
const REPLIES: [&str; 12] = [
    "%1\r\n+a\r\n+b\r\n",
    ">2\r\n+a\r\n+b\r\n",
    "~1\r\n:1\r\n",
    "_\r\n",
    "#t\r\n",
    ",1.5\r\n",
    "(123\r\n",
    "=7\r\ntxt:abc\r\n",
    "|1\r\n+a\r\n+b\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "*1\r\n*1\r\n$1\r\na\r\n",
];
const LINES: [&str; 10] = [
    "PING\n",
    "PING\r\n",
    "set {t}new \"v\\x00\\n\"\r\n",
    "get '{t}new'\r\n",
    "get \"{t}new\r\n",
    "multi\r\nincr {t}new\r\nexec\r\n",
    "\r\n\r\n",
    "HELLO 3\r\n",
    "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "blpop {t}none 0.01\r\n",
];

/// One client's bytes, after which it goes.
pub fn send(port: u16, requests: &[Request], random: &mut Random) -> io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let encoded: Vec<Vec<u8>> = requests.iter().map(|request| Connection::encode(request)).collect();
    for _ in 0..1 + random.below(6) {
        let bytes = piece(&encoded, random);
        // Where the server has closed the connection, that is its answer.
        let sent = match random.below(4) {
            0 => bytes.iter().take(64).try_for_each(|byte| stream.write_all(&[*byte])),
            _ => stream.write_all(&bytes),
        };
        if sent.is_err() {
            break;
        }
    }
    if random.below(2) == 0 {
        _ = stream.shutdown(Shutdown::Write);
    }
    Ok(())
}

fn piece(encoded: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let length = one_of(random, &LENGTHS).to_owned();
    let whole = random.pick(encoded).clone();
    match random.below(12) {
        0 | 1 => whole,
        2 => whole[..random.below(whole.len() as u64) as usize].to_vec(),
        3 => format!("*{length}\r\n").into_bytes(),
        4 => [format!("*2\r\n${length}\r\n").into_bytes(), random.bytes(20)].concat(),
        5 => one_of(random, &REPLIES).as_bytes().to_vec(),
        6 | 7 => one_of(random, &LINES).as_bytes().to_vec(),
        8 => vec![b'A'; *random.pick(&[100, 65_535, 65_536, 200_000])],
        9 => [&b"\x16\x03\x01\x02\x00\x01"[..], &random.bytes(40)].concat(),
        10 => {
            // A byte of it is another one.
            let (mut other, at) = (whole.clone(), random.below(whole.len() as u64) as usize);
            other[at] = random.below(256) as u8;
            other
        }
        _ => random.bytes(200),
    }
}
