//! A small deterministic fuzzer over the checks of `resp::fuzz`: it mutates examples and splices in words of the
//! protocol. A failure names the input; the same seed gives the same input. `BASALT_FUZZ_SECONDS` makes it go on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use vocab::Prng;
use vocab::fuzz::WorkClock;

const REQUESTS: &[&[u8]] = &[
    b"\x00*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*1\r\n$4\r\nPING\r\n",
    b"\x04*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10\r\n0123456789\r\n",
    b"\x01*8\r\n$7\r\nKV.EXEC\r\n$1\r\n2\r\n$1\r\n2\r\n$3\r\nGET\r\n$1\r\na\r\n$1\r\n2\r\n$3\r\nDEL\r\n$1\r\nb\r\n",
    b"\x00PING\r\nset \"a\\x41\\n\" 'b c'\r\n\r\nMSET a 1 b 2\n",
    b"\x02COMMAND GETKEYS COPY a b\r\nCOMMAND DOCS get\r\nCOMMAND INFO set|get\r\n*0\r\n*-1\r\n",
];
const REPLIES: &[&[u8]] = &[
    b"\x00+OK\r\n-ERR no\r\n:12\r\n$5\r\nhello\r\n$-1\r\n",
    b"\x03*3\r\n$1\r\na\r\n*2\r\n:1\r\n_\r\n%1\r\n+k\r\n,1.5\r\n",
    b"\x10|1\r\n+ttl\r\n:1\r\n~2\r\n#t\r\n#f\r\n>1\r\n(123456789012345678901\r\n=6\r\ntxt:hi\r\n!5\r\nERR x\r\n",
];
const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\r",
    b"\n",
    b"*",
    b"$",
    b"-1",
    b"0",
    b"*1\r\n",
    b"$1\r\n",
    b"*2\r\n$",
    b"9223372036854775807",
    b"65536",
    b"\"",
    b"'",
    b"\\x4",
    b" ",
    b"\0",
    b"%1\r\n",
    b"|1\r\n",
    b"_\r\n",
    b",nan\r\n",
    b",-inf\r\n",
    b"=4\r\n",
    b"GET",
    b"KV.EXEC",
];

fn mutate(input: &mut Vec<u8>, examples: &[&[u8]], prng: &mut Prng) {
    let mut below = |bound: usize| prng.below(bound as u64 + 1) as usize;
    for _ in 0..=below(4) {
        let at = below(input.len());
        match below(5) {
            0 if at < input.len() => input[at] = below(255) as u8,
            1 if at < input.len() => input[at] ^= 1 << below(7),
            2 => drop(input.drain(at..(at + below(8)).min(input.len()))),
            3 => {
                let example = examples[below(examples.len() - 1)];
                input.extend_from_slice(&example[below(example.len())..]);
            }
            4 => input.truncate(at),
            _ => drop(input.splice(at..at, WORDS[below(WORDS.len() - 1)].iter().copied())),
        }
    }
}

/// Seeds that every run tries.
const ROUNDS: u64 = 40_000;
/// So many go by between two looks at the clock.
const ROUNDS_A_LOOK: u64 = 50;

fn fuzz(examples: &[&[u8]], check: fn(&[u8])) {
    let clock = WorkClock::new();
    let seconds = std::env::var("BASALT_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut seed = 0;
    while seed < ROUNDS || seed % ROUNDS_A_LOOK != 0 || clock.elapsed() < Duration::from_secs(seconds) {
        let mut prng = Prng::new(seed);
        let mut input = examples[prng.below(examples.len() as u64) as usize].to_vec();
        mutate(&mut input, examples, &mut prng);
        if catch_unwind(AssertUnwindSafe(|| check(&input))).is_err() {
            panic!("seed {seed}, input b\"{}\"", input.escape_ascii());
        }
        seed += 1;
    }
}

#[test]
fn examples_hold_as_they_are() {
    REQUESTS.iter().for_each(|input| super::request(input));
    REPLIES.iter().for_each(|input| super::reply(input));
}

#[test]
fn requests_survive_any_bytes() {
    fuzz(REQUESTS, super::request);
}

#[test]
fn replies_survive_any_bytes() {
    fuzz(REPLIES, super::reply);
}
