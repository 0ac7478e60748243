//! Replies, as a client reads them: a table of inputs and what becomes of them, whole and in pieces.
#![allow(clippy::unwrap_used)]

use resp::{Frame, FrameState, Proto, ProtocolError, Reply, Value, decode, decode_with, encode_request, frame_len};

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

#[test]
fn values() {
    let cases: Vec<(&str, Value)> = vec![
        ("+OK\r\n", Value::Simple("OK".into())),
        ("-ERR no\r\n", Value::Error("ERR no".into())),
        ("!6\r\nERR no\r\n", Value::Error("ERR no".into())),
        (":-12\r\n", Value::Int(-12)),
        (":9223372036854775807\r\n", Value::Int(i64::MAX)),
        ("$3\r\na\r\n\r\n", bulk("a\r\n")),
        ("$0\r\n\r\n", bulk("")),
        ("$-1\r\n", Value::Null),
        ("*-1\r\n", Value::Null),
        ("_\r\n", Value::Null),
        ("#t\r\n", Value::Boolean(true)),
        (",1.5e3\r\n", Value::Double(1500.0)),
        (",-inf\r\n", Value::Double(f64::NEG_INFINITY)),
        ("(-123456789012345678901234567890\r\n", Value::Big("-123456789012345678901234567890".into())),
        ("=6\r\ntxt:hi\r\n", Value::Verbatim { format: *b"txt", text: b"hi".to_vec() }),
        ("*0\r\n", Value::Array(vec![])),
        ("*2\r\n*1\r\n:1\r\n$1\r\nx\r\n", Value::Array(vec![Value::Array(vec![Value::Int(1)]), bulk("x")])),
        ("%1\r\n+k\r\n~1\r\n:1\r\n", Value::Map(vec![(Value::Simple("k".into()), Value::Set(vec![Value::Int(1)]))])),
        (">1\r\n$1\r\nx\r\n", Value::Push(vec![bulk("x")])),
        (
            "|1\r\n+ttl\r\n:1\r\n$1\r\nx\r\n",
            Value::Attributed {
                attributes: vec![(Value::Simple("ttl".into()), Value::Int(1))],
                value: Box::new(bulk("x")),
            },
        ),
    ];
    for (input, value) in cases {
        let input = [input.as_bytes(), b":7\r\n"].concat();
        let length = input.len() - 4;
        assert_eq!(decode(&input), Ok(Some((value.clone(), length))), "{value:?}");
        let mut state = FrameState::default();
        for end in 0..length {
            assert_eq!(decode(&input[..end]), Ok(None), "{value:?}");
            assert_eq!(frame_len(&input[..end], &mut state), Ok(None), "{value:?}");
        }
        assert_eq!(frame_len(&input, &mut state), Ok(Some(length)));
        // What has been seen of it may be taken off before the rest comes.
        let (mut state, mut passed) = (FrameState::default(), 0);
        for end in 0..length {
            assert_eq!(frame_len(&input[passed..end], &mut state), Ok(None), "{value:?}");
            passed += state.pass_over();
        }
        assert_eq!(frame_len(&input[passed..], &mut state), Ok(Some(length - passed)), "{value:?}");
        // So may what there is of a bulk string.
        let (mut state, mut passed) = (FrameState::default(), 0);
        for end in 0..length {
            assert_eq!(frame_len(&input[passed..end], &mut state), Ok(None), "{value:?}");
            passed += state.pass_over_bulk(&input[passed..end]);
        }
        assert_eq!(frame_len(&input[passed..], &mut state), Ok(Some(length - passed)), "{value:?}");
        assert_eq!(frame_len(b":7\r\n", &mut state), Ok(Some(4)), "what follows it is another one");
        let mut reply = Reply::new(Proto::Resp3);
        value.write(&mut reply);
        assert_eq!(decode(&reply.buf), Ok(Some((value, reply.buf.len()))));
    }
}

#[test]
fn malformed_replies() {
    let deep = "*1\r\n".repeat(vocab::limits::NESTING_MAX + 1);
    let cases = [
        ("x\r\n", ProtocolError::UnknownType(b'x')),
        (":1x\r\n", ProtocolError::InvalidReply),
        (":\r\n", ProtocolError::InvalidReply),
        ("+a\rb", ProtocolError::InvalidReply),
        ("+a\n", ProtocolError::InvalidReply),
        ("$-2\r\n", ProtocolError::InvalidReply),
        ("$1\r\nxyz", ProtocolError::InvalidReply),
        ("$?\r\n", ProtocolError::InvalidReply),
        ("$999999999\r\n", ProtocolError::ReplyTooLong),
        ("*999999999\r\n", ProtocolError::ReplyTooLong),
        ("*99999999999\r\n", ProtocolError::ReplyTooLong),
        ("#x\r\n", ProtocolError::InvalidReply),
        ("=3\r\ntxt\r\n", ProtocolError::InvalidReply),
        ("(1.5\r\n", ProtocolError::InvalidReply),
        (deep.as_str(), ProtocolError::NestingTooDeep),
    ];
    for (input, error) in cases {
        assert_eq!(decode(input.as_bytes()), Err(error), "{input:?}");
        assert_eq!(Frame::read(input.as_bytes(), &mut FrameState::default()), Err(error), "{input:?}");
    }
    let deepest = "*1\r\n".repeat(vocab::limits::NESTING_MAX) + ":1\r\n";
    assert!(decode(deepest.as_bytes()).unwrap().is_some());
    // As scripts make them.
    let long = format!("+{}\r\n", "x".repeat(100_000));
    assert!(decode(long.as_bytes()).unwrap().is_some());
    let mut endless = vec![0; vocab::limits::REPLY_LINE_BYTES_MAX];
    endless[0] = b'+';
    assert_eq!(decode(&endless), Err(ProtocolError::ReplyTooLong));
}

#[test]
fn frames_borrow() {
    let input = b"*3\r\n$1\r\na\r\n*1\r\n_\r\n-ERR x\r\n+next\r\n";
    let mut state = FrameState::default();
    let (frame, length) = Frame::read(input, &mut state).unwrap().unwrap();
    let Frame::Nested(resp::Nesting::Array, elements) = frame else { panic!("{frame:?}") };
    let elements: Vec<_> = elements.collect();
    assert_eq!((elements.len(), &elements[0], &elements[2]), (3, &Frame::Bulk(b"a"), &Frame::Error(b"ERR x")));
    assert_eq!(Frame::read(&input[length..], &mut state), Ok(Some((Frame::Simple(b"next"), 7))));
    assert_eq!(Frame::read(b"$5\r\nab", &mut state), Ok(None));
    assert_eq!(state.wanted(), 11);
    assert_eq!(Frame::read(b"$5\r\nabcde\r\n", &mut state), Ok(Some((Frame::Bulk(b"abcde"), 11))));
}

/// A decoder that began anew with every byte would look at 10^11 bytes here.
#[test]
fn a_large_reply_in_small_pieces_takes_linear_time() {
    let input = ["*100000\r\n".to_owned(), "$2\r\nab\r\n".repeat(100_000)].concat();
    let mut state = FrameState::default();
    for end in 0..input.len() {
        assert_eq!(Frame::read(&input.as_bytes()[..end], &mut state), Ok(None));
    }
    let (value, length) = decode_with(input.as_bytes(), &mut state).unwrap().unwrap();
    assert!(length == input.len() && matches!(value, Value::Array(values) if values.len() == 100_000));
}

#[test]
fn requests_are_arrays_of_bulk_strings() {
    let mut out = Vec::new();
    encode_request(&mut out, &[b"SET", b"", b"0123456789"]);
    assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$10\r\n0123456789\r\n");
}
