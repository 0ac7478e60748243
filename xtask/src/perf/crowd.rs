//! Clients of ours, each with one request on its way: for requests that redis-benchmark cannot make.
//!
//! Requests are written down before the time begins, and the library of the protocol finds the ends of answers.

use super::bar::Sample;
use super::progress;
use super::server::Server;
use super::wire::{self, Connection};
use resp::{FrameState, frame_len};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// As many as redis-benchmark's.
const CLIENTS: u64 = 50;
/// What an answer may have before the room for it grows.
const ANSWER_BYTES: usize = 16 << 10;

/// One client, and what it sends.
struct Client {
    stream: TcpStream,
    requests: Vec<Vec<u8>>,
}

/// Sends `requests` requests, number by number, with as many clients as redis-benchmark has: their rate, and the server's processor
/// time for each. An error if one is answered with an error.
pub fn run(server: &Server, requests: u64, request: impl Fn(u64) -> Vec<String>) -> Result<Sample, String> {
    progress::doing(format!("{requests} requests to {} by {CLIENTS} clients", server.name));
    let of = |client: u64| -> Result<Client, String> {
        let written = |number| {
            let words = request(number);
            wire::request(&words.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let requests = (client..requests).step_by(CLIENTS as usize).map(written).collect();
        Ok(Client { stream: Connection::open(server.port)?.into_stream(), requests })
    };
    let clients: Vec<Client> = (0..CLIENTS).map(of).collect::<Result<_, String>>()?;
    let (before, begun) = (server.cpu_us()?, Instant::now());
    std::thread::scope(|scope| {
        let all: Vec<_> = clients.into_iter().map(|client| scope.spawn(move || client.run())).collect();
        all.into_iter().try_for_each(|client| client.join().map_err(|_| "a client has panicked".to_owned())?)
    })
    .map_err(|why| format!("{}: {why}", server.name))?;
    let (seconds, cpu_us) = (begun.elapsed().as_secs_f64(), server.cpu_us()? - before);
    Ok(Sample { rate: requests as f64 / seconds, cpu_us_per_op: Some(cpu_us as f64 / requests as f64) })
}

impl Client {
    fn run(mut self) -> Result<(), String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut answer = vec![0; ANSWER_BYTES];
        for request in &self.requests {
            self.stream.write_all(request).map_err(failed)?;
            let (mut filled, mut state) = (0, FrameState::default());
            loop {
                if filled == answer.len() {
                    answer.resize(2 * filled, 0);
                }
                let read = self.stream.read(&mut answer[filled..]).map_err(failed)?;
                if read == 0 {
                    return Err("closed within an answer".to_owned());
                }
                filled += read;
                match frame_len(&answer[..filled], &mut state).map_err(|error| error.reply_text())? {
                    None => {}
                    Some(_) if answer[0] == b'-' => {
                        return Err(String::from_utf8_lossy(&answer[..filled]).trim_end().to_owned());
                    }
                    Some(_) => break,
                }
            }
        }
        Ok(())
    }
}

/// A number of no order: the same for the same number.
pub fn mixed(number: u64) -> u64 {
    let word = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}
