//! Checks that must hold for any bytes, for fuzzers to call. A failed check panics.

use crate::{
    Frame, FrameState, Limits, ParseState, Parsed, Proto, ProtocolError, Reply, Value, decode, decode_with,
    encode_request, frame_len, parse_request, table,
};

#[cfg(test)]
mod tests;

/// What a stream of requests came to: their arguments, and why it ended.
#[derive(Debug, PartialEq)]
struct Requests {
    requests: Vec<Vec<Vec<u8>>>,
    consumed: usize,
    error: Option<ProtocolError>,
}

/// Any bytes, taken as what a client sends, give the same requests whole and in pieces; each request survives being
/// encoded and parsed again; and the command table has an answer to each. The first byte chooses limits and pieces.
pub fn request(data: &[u8]) {
    let Some((&choice, stream)) = data.split_first() else {
        return;
    };
    let tight = Limits { bulk_bytes_max: 64, arguments_max: 16, inline_bytes_max: 32, ..Limits::default() };
    let limits = Limits { authenticated: choice & 2 == 0, ..if choice & 1 == 0 { Limits::default() } else { tight } };
    let whole = read_requests(stream, stream.len().max(1), &limits);
    for piece in [1, usize::from(choice >> 2) + 2] {
        assert_eq!(whole, read_requests(stream, piece, &limits), "in pieces of {piece}");
    }
    for arguments in &whole.requests {
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        let mut encoded = Vec::new();
        encode_request(&mut encoded, &arguments);
        let again = read_requests(&encoded, encoded.len(), &Limits::default());
        assert_eq!((again.consumed, again.error), (encoded.len(), None));
        assert_eq!(again.requests, [arguments.as_slice()]);
        look_up(&arguments);
    }
}

fn look_up(arguments: &[&[u8]]) {
    let Ok(spec) = table::resolve(arguments) else {
        return;
    };
    if let Ok(keys) = spec.keys(arguments) {
        let keys: Vec<usize> = keys.collect();
        assert!(keys.iter().all(|&at| (1..arguments.len()).contains(&at)), "keys {keys:?} of {arguments:?}");
        let with_flags = spec.keys_and_flags(arguments).expect("the keys are well-formed");
        assert!(with_flags.iter().map(|(at, _)| *at).eq(keys), "{arguments:?}");
    }
    if spec.name.starts_with("COMMAND") {
        let mut reply = Reply::new(Proto::Resp3);
        table::command(arguments, &mut reply);
        assert_eq!(frame_len(&reply.buf, &mut FrameState::default()), Ok(Some(reply.buf.len())), "{arguments:?}");
    }
}

fn read_requests(stream: &[u8], piece: usize, limits: &Limits) -> Requests {
    let mut found = Requests { requests: Vec::new(), consumed: 0, error: None };
    let (mut args, mut state) = (Vec::new(), ParseState::default());
    let mut arrived = 0;
    while arrived < stream.len() {
        arrived = (arrived + piece).min(stream.len());
        loop {
            let buf = &stream[found.consumed..arrived];
            let parsed = match parse_request(buf, limits, &mut args, &mut state) {
                Ok(parsed) => parsed,
                Err(error) => {
                    found.error = Some(error);
                    return found;
                }
            };
            let (source, consumed) = match parsed {
                Parsed::Incomplete => {
                    assert!(args.is_empty() && (buf.is_empty() || state.wanted() > buf.len()));
                    break;
                }
                Parsed::Empty { consumed } => {
                    found.consumed += consumed;
                    continue;
                }
                Parsed::Request { consumed } => (buf, consumed),
                Parsed::Quoted { consumed } => (state.quoted(), consumed),
            };
            assert!(!args.is_empty() && (1..=buf.len()).contains(&consumed));
            assert!(args.windows(2).all(|pair| pair[0].end <= pair[1].start), "{args:?}");
            found.requests.push(args.iter().map(|range| source[range.clone()].to_vec()).collect());
            found.consumed += consumed;
        }
    }
    found
}

/// Any bytes, taken as what a server sends, give the same replies whole and in pieces, however they are read; and each
/// reply survives being encoded and decoded again. The first byte chooses the pieces.
pub fn reply(data: &[u8]) {
    let Some((&choice, stream)) = data.split_first() else {
        return;
    };
    let (mut state, mut frame_state) = (FrameState::default(), FrameState::default());
    let (mut consumed, mut arrived) = (0, 0);
    while arrived < stream.len() {
        arrived = (arrived + usize::from(choice) + 1).min(stream.len());
        loop {
            let buf = &stream[consumed..arrived];
            let whole = decode(buf);
            let pieced = decode_with(buf, &mut state);
            let borrowed = Frame::read(buf, &mut frame_state);
            // NaN is not equal to itself, but its text is.
            assert_eq!(format!("{whole:?}"), format!("{pieced:?}"));
            assert_eq!(
                whole.as_ref().map(|found| found.as_ref().map(|f| f.1)),
                borrowed.as_ref().map(|found| found.as_ref().map(|f| f.1))
            );
            let (Ok(Some((value, length))), Ok(Some((frame, _)))) = (whole, borrowed) else {
                if pieced.is_err() {
                    return;
                }
                break;
            };
            assert!((1..=buf.len()).contains(&length));
            if let Frame::Nested(_, elements) = frame {
                assert_eq!(elements.len(), elements.count());
            }
            round_trip(&value);
            consumed += length;
        }
    }
}

fn round_trip(value: &Value) {
    for proto in [Proto::Resp2, Proto::Resp3] {
        let mut first = Reply::new(proto);
        value.write(&mut first);
        let (again, length) = decode(&first.buf).expect("what we encode is well-formed").expect("and complete");
        assert_eq!(length, first.buf.len());
        let mut second = Reply::new(proto);
        again.write(&mut second);
        assert_eq!(first.buf.escape_ascii().to_string(), second.buf.escape_ascii().to_string());
    }
}
