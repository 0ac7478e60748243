//! Requests, as Redis 7.0 takes them apart: a table of inputs and what becomes of them, whole and in pieces.
#![allow(clippy::unwrap_used)]

use resp::{Limits, ParseState, Parsed, parse_request};

/// All requests in `input` as `word|word ` each, then how it ends: `ok`, `…` (incomplete) or the error.
/// The input arrives in pieces of `piece` bytes.
fn transcript(input: &[u8], piece: usize, limits: &Limits) -> String {
    let (mut out, mut args, mut state) = (String::new(), Vec::new(), ParseState::default());
    let mut buf = Vec::new();
    for bytes in input.chunks(piece) {
        buf.extend_from_slice(bytes);
        loop {
            let parsed = match parse_request(&buf, limits, &mut args, &mut state) {
                Ok(parsed) => parsed,
                Err(error) => return out + &error.reply_text(),
            };
            let (source, consumed) = match parsed {
                Parsed::Incomplete => break,
                Parsed::Empty { consumed } => {
                    out.push_str("- ");
                    buf.drain(..consumed);
                    continue;
                }
                Parsed::Request { consumed } => {
                    if buf.first() == Some(&b'*') {
                        // One that is put back is found again as it was.
                        let before = args.clone();
                        state.put_back(std::mem::take(&mut args));
                        assert_eq!(parse_request(&buf, limits, &mut args, &mut state), Ok(parsed));
                        assert_eq!(args, before);
                    }
                    (&buf[..], consumed)
                }
                Parsed::Quoted { consumed } => (state.quoted(), consumed),
            };
            let words: Vec<_> = args.iter().map(|r| source[r.clone()].escape_ascii().to_string()).collect();
            out.push_str(&words.join("|"));
            out.push(' ');
            buf.drain(..consumed);
        }
    }
    out + if buf.is_empty() { "ok" } else { "…" }
}

#[test]
fn requests_and_errors() {
    let cases: &[(&str, &str)] = &[
        ("*1\r\n$4\r\nPING\r\n", "PING ok"),
        ("*2\r\n$3\r\nGET\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n", "GET| PING ok"),
        ("*2\r\n$3\r\nGET\r\n$12\r\nab\r\ncd*1\r\n$1\r\n", "GET|ab\\r\\ncd*1\\r\\n$1 ok"),
        ("*2\r\n$3\r\nGET\r\n$3\r\nfo", "…"),
        ("*0\r\n*-10\r\n\r\n\nPING\r\n", "- - - - PING ok"),
        ("  ping \t a\u{b}b\r\n", "ping|a\\x0bb ok"),
        ("PING\nPING", "PING …"),
        ("set \"a b\" 'c \\' \\n'\r\n", "set|a b|c \\' \\\\n ok"),
        ("x \"\\n\\r\\t\\b\\a\\x4a\\xzz\\q\\\"\" y\"z\"\r\n", "x|\\n\\r\\t\\x08\\x07Jxzzq\\\"|yz ok"),
        ("x \"\" ''\n", "x|| ok"),
        ("set \"\"\"test-key\"\"\" test-value\r\n", "ERR Protocol error: unbalanced quotes in request"),
        ("x 'a\r\n", "ERR Protocol error: unbalanced quotes in request"),
        ("x \"a\\\"\r\n", "ERR Protocol error: unbalanced quotes in request"),
        ("*3000000000\r\n", "ERR Protocol error: invalid multibulk length"),
        ("*20000000\r\n", "ERR Protocol error: invalid multibulk length"),
        ("*\r\n", "ERR Protocol error: invalid multibulk length"),
        ("*01\r\n", "ERR Protocol error: invalid multibulk length"),
        ("*1\rx", "ERR Protocol error: invalid multibulk length"),
        ("*1\r\nfoo\r\n", "ERR Protocol error: expected '$', got 'f'"),
        ("*1\r\nfoo", "…"),
        ("*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n", "ERR Protocol error: expected '$', got 'f'"),
        ("*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$-10\r\n", "ERR Protocol error: invalid bulk length"),
        ("*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$2000000000\r\n", "ERR Protocol error: invalid bulk length"),
        ("*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$blabla\r\n", "ERR Protocol error: invalid bulk length"),
        ("*1\r\n$3\r\nabcd\r\n", "ERR Protocol error: expected CRLF after a bulk string"),
        ("*1\r\n$32000000\r\n", "…"),
    ];
    for (input, expected) in cases {
        for piece in [usize::MAX, 1, 2, 3, 7] {
            assert_eq!(&transcript(input.as_bytes(), piece, &Limits::default()), expected, "{input:?} by {piece}");
        }
    }
}

#[test]
fn limits_hold() {
    let small = Limits {
        bulk_bytes_max: 20_000,
        arguments_max: 20,
        inline_bytes_max: 8,
        request_bytes_max: 100,
        ..Limits::default()
    };
    let anonymous = Limits { authenticated: false, ..Limits::default() };
    let cases: &[(&str, &Limits, &str)] = &[
        ("PING 678\n", &small, "PING|678 ok"),
        ("PING 6789\n", &small, "ERR Protocol error: too big inline request"),
        ("PING 6789", &small, "ERR Protocol error: too big inline request"),
        ("*11111111", &small, "ERR Protocol error: too big mbulk count string"),
        ("*21\r\n", &small, "ERR Protocol error: invalid multibulk length"),
        ("*1\r\n$11111111", &small, "ERR Protocol error: too big bulk count string"),
        ("*1\r\n$20001\r\n", &small, "ERR Protocol error: invalid bulk length"),
        ("*1\r\n$98\r\n", &small, "ERR Protocol error: request exceeds client-query-buffer-limit"),
        ("*10\r\n$16384\r\n", &anonymous, "…"),
        ("*11\r\n", &anonymous, "ERR Protocol error: unauthenticated multibulk length"),
        ("*1\r\n$16385\r\n", &anonymous, "ERR Protocol error: unauthenticated bulk length"),
    ];
    for (input, limits, expected) in cases {
        for piece in [usize::MAX, 1] {
            assert_eq!(&transcript(input.as_bytes(), piece, limits), expected, "{input:?} by {piece}");
        }
    }
}

/// A quadratic parser would look at 10^11 bytes here.
#[test]
fn a_large_request_in_small_pieces_takes_linear_time() {
    let mut input = b"*100001\r\n$5\r\nHMSET\r\n".to_vec();
    for _ in 0..100_000 {
        input.extend_from_slice(b"$2\r\nab\r\n");
    }
    let (mut args, mut state) = (Vec::new(), ParseState::default());
    for end in 1..input.len() {
        let parsed = parse_request(&input[..end], &Limits::default(), &mut args, &mut state).unwrap();
        assert_eq!(parsed, Parsed::Incomplete);
        assert!(state.wanted() > end && args.is_empty());
    }
    let parsed = parse_request(&input, &Limits::default(), &mut args, &mut state).unwrap();
    assert_eq!(parsed, Parsed::Request { consumed: input.len() });
    assert_eq!(args.len(), 100_001);
}
