#![allow(clippy::unwrap_used)]

use super::*;
use crate::links::frame::{Packing, first, messages, wanted};
use vocab::{NodeId, Prng, ShardId};

fn call(bytes: Vec<u8>) -> PeerMessage {
    PeerMessage::Call { id: 1, shard: ShardId(2), command: bytes }
}

fn map(bytes: usize) -> PeerMessage {
    PeerMessage::Map(vec![0; bytes])
}

/// What is in a frame: its messages or a piece of one, whether it was packed, and its bytes.
#[derive(Debug, PartialEq)]
struct Read {
    messages: Vec<PeerMessage>,
    piece: Option<Vec<u8>>,
    packed: bool,
    bytes: usize,
}

fn read(mut bytes: &[u8], packer: &mut Packer) -> Vec<Read> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let frame = first(bytes).unwrap().expect("whole frames only");
        let payload = if frame.packed { packer.unpack(frame.payload).unwrap() } else { frame.payload.to_vec() };
        let all =
            |payload: &[u8]| messages(payload).map(|message| PeerMessage::decode(message.unwrap()).unwrap()).collect();
        let messages = if frame.is_piece { Vec::new() } else { all(&payload) };
        let piece = frame.is_piece.then_some(payload);
        frames.push(Read { messages, piece, packed: frame.packed, bytes: frame.bytes() });
        bytes = &bytes[frame.bytes()..];
    }
    frames
}

/// All that waits.
fn drain(queue: &mut OutQueue, packer: &mut Packer) -> Vec<u8> {
    let mut bytes = Vec::new();
    while queue.waiting() > 0 {
        let sealed = queue.seal(packer).to_vec();
        assert!(!sealed.is_empty());
        queue.advance(sealed.len());
        bytes.extend_from_slice(&sealed);
    }
    bytes
}

/// The messages of all frames, in order, those that came in pieces put together.
fn put_together(frames: &[Read]) -> Vec<PeerMessage> {
    let (mut pieces, mut all) = (node::peer_protocol::Pieces::default(), Vec::new());
    for frame in frames {
        all.extend(frame.messages.iter().cloned());
        let whole = frame.piece.as_ref().and_then(|piece| pieces.add(piece, PEER_FRAME_BYTES_MAX).unwrap());
        all.extend(whole.map(|whole| PeerMessage::decode_shared(&whole).unwrap()));
    }
    all
}

fn append(bytes: usize) -> PeerMessage {
    let mut message = replica::Message { to: 1, from: 2, term: 9, index: 4, log_term: 8, ..Default::default() };
    let entry = |index, data: Vec<u8>| replica::Entry { index, term: 9, data: data.into(), ..Default::default() };
    message.set_msg_type(replica::MessageType::MsgAppend);
    message.set_entries(vec![entry(5, vec![1; bytes]), entry(6, vec![2; 10]), entry(7, vec![3; bytes])].into());
    PeerMessage::Raft { shard: ShardId(3), message }
}

fn heartbeat() -> PeerMessage {
    let mut message = replica::Message { to: 1, from: 2, term: 9, ..Default::default() };
    message.set_msg_type(replica::MessageType::MsgHeartbeat);
    PeerMessage::Raft { shard: ShardId(3), message }
}

#[test]
fn what_is_pushed_between_two_flushes_is_a_frame_of_urgent_messages_and_one_of_bulk() {
    let mut packer = Packer::new(Packing::Auto).unwrap();
    let mut queue = OutQueue::default();
    let (asked, bulk, wake) =
        (PeerMessage::MapAsked { epoch: 1 }, call(vec![7; 10_000]), PeerMessage::Wake { shards: vec![] });
    assert!([&asked, &bulk, &wake].into_iter().all(|message| queue.push(message)));
    let bytes = queue.seal(&mut packer).to_vec();
    queue.push_empty();
    let frames: Vec<Vec<PeerMessage>> = read(&bytes, &mut packer).into_iter().map(|frame| frame.messages).collect();
    assert_eq!(frames, [vec![asked, wake], vec![bulk]]);
    // A part of it is gone; the rest goes before what came later.
    queue.advance(100);
    assert_eq!(*queue.seal(&mut packer), bytes[100..]);
    queue.advance(bytes.len() - 100);
    assert_eq!(read(&drain(&mut queue, &mut packer), &mut packer).len(), 1, "an empty one");
    assert_eq!((queue.waiting(), queue.bytes.len()), (0, 0));
}

#[test]
fn an_urgent_message_overtakes_a_large_one_after_the_piece_that_is_going_out() {
    let mut packer = Packer::new(Packing::Never).unwrap();
    for takes_pieces in [true, false] {
        let mut queue = OutQueue::default();
        if takes_pieces {
            queue.take_pieces();
        }
        let (small, large, next) = (append(10), append(1_000_000), append(20));
        assert!([&small, &large, &next].into_iter().all(|message| queue.push(message)));
        let mut bytes = Vec::new();
        let mut sent = 0;
        while queue.waiting() > 0 {
            let sealed = queue.seal(&mut packer).to_vec();
            assert!(!takes_pieces || sealed.len() < PEER_PIECE_BYTES + 200, "{}", sealed.len());
            queue.advance(sealed.len());
            bytes.extend_from_slice(&sealed);
            sent += 1;
            if sent % 3 == 0 {
                assert!(queue.push(&heartbeat()));
            }
        }
        let mut all = put_together(&read(&bytes, &mut packer));
        all.retain(|message| *message != heartbeat());
        assert_eq!(all, [small, large, next], "bulk keeps its order");
        assert!(!takes_pieces || sent > 6, "{sent}");
    }
}

#[test]
fn messages_for_subscribers_keep_their_order_whatever_their_length() {
    let mut packer = Packer::new(Packing::Never).unwrap();
    let mut queue = OutQueue::default();
    queue.take_pieces();
    let publish =
        |id: u64, bytes: usize| PeerMessage::Publish { id, channel: [7][..].into(), message: vec![0; bytes].into() };
    let sent = [publish(1, 10), publish(2, 2 * PEER_PIECE_BYTES), publish(3, 10), publish(4, PEER_PIECE_BYTES + 1)];
    assert!(sent.iter().all(|message| queue.push(message)));
    assert!(queue.push(&call(vec![7; 10])));
    let all = put_together(&read(&drain(&mut queue, &mut packer), &mut packer));
    let published: Vec<_> = all.iter().filter(|message| matches!(message, PeerMessage::Publish { .. })).collect();
    assert_eq!(published, sent.iter().collect::<Vec<_>>());
}

#[test]
fn a_large_message_of_one_shard_holds_up_no_other_shard_and_none_overtakes_its_own() {
    let mut packer = Packer::new(Packing::Never).unwrap();
    let mut queue = OutQueue::default();
    queue.take_pieces();
    let of = |shard: u32, bytes: usize| match append(bytes) {
        PeerMessage::Raft { message, .. } => PeerMessage::Raft { shard: ShardId(shard), message },
        other => other,
    };
    let (before, large, behind) = (of(1, 10), of(1, 2_000_000), of(1, 20));
    let (other, hibernate) = (of(2, 30), PeerMessage::Hibernate { shards: vec![(ShardId(1), 9, 7)] });
    assert!([&before, &large, &behind, &other, &hibernate].into_iter().all(|message| queue.push(message)));
    let all = put_together(&read(&drain(&mut queue, &mut packer), &mut packer));
    assert_eq!(all.first(), Some(&hibernate), "the followers of a leader that hibernates must hear of it");
    let [own, foreign] = [[&before, &large, &behind].to_vec(), [&hibernate, &other].to_vec()];
    let (at, others): (Vec<_>, Vec<_>) = all.iter().partition(|message| own.contains(message));
    assert_eq!((&at, &others), (&own, &foreign));
    let place = |message: &PeerMessage| all.iter().position(|found| found == message);
    assert!(place(&other) < place(&large), "the other shard's entry waits for one piece at most");
}

#[test]
fn a_queue_that_is_not_emptied_has_a_bound() {
    let mut packer = Packer::new(Packing::Never).unwrap();
    for takes_pieces in [false, true] {
        let mut queue = OutQueue::default();
        if takes_pieces {
            queue.take_pieces();
        }
        // Alone, the largest goes.
        assert!(queue.push(&call(vec![0; PEER_QUEUE_BYTES_MAX + 10])));
        // Pieces have a lane and a bound of their own.
        assert_eq!((queue.push(&call(vec![])), queue.push(&map(10))), (takes_pieces, takes_pieces));
        assert!(!queue.push(&call(vec![0; PEER_PIECE_BYTES + 10])) && !queue.push(&map(PEER_PIECE_BYTES + 10)));
        assert!(queue.push(&heartbeat()));
        let bytes = drain(&mut queue, &mut packer);
        assert_eq!(put_together(&read(&bytes, &mut packer)).len(), if takes_pieces { 4 } else { 2 });
        assert_eq!(
            (queue.bytes.capacity() > KEPT_BYTES_MAX, queue.bulk_bytes + queue.large_bytes),
            (false, 0),
            "large buffers are given back"
        );

        let mut pushed = 0;
        while queue.push(&call(vec![0; 1_000_000])) {
            pushed += 1;
        }
        assert_eq!(pushed, PEER_QUEUE_BYTES_MAX / 1_000_100);
        while queue.push(&PeerMessage::Report(vec![0; 100_000])) {
            pushed += 1;
        }
        assert!(queue.urgent.len() <= PEER_CONTROL_BYTES_MAX && queue.urgent.len() > PEER_CONTROL_BYTES_MAX - 200_000);
        assert_eq!(queue.dropped, if takes_pieces { 4 } else { 6 });
        let bytes = drain(&mut queue, &mut packer);
        let frames = read(&bytes, &mut packer);
        assert_eq!(put_together(&frames).len(), pushed);
        let bulk = frames.iter().filter(|frame| !frame.messages.iter().any(PeerMessage::is_urgent));
        assert!(bulk.map(|frame| frame.bytes).all(|bytes| bytes < PEER_FRAME_BYTES_SOFT + 1_000_100));
        assert!(!queue.push(&call(vec![0; PEER_FRAME_BYTES_MAX])), "no frame carries that");
        assert_eq!(queue.waiting(), 0);
    }
}

#[test]
fn frames_are_packed_when_it_pays() {
    let mut prng = Prng::new(1);
    let mut noise = || call((0..8000).map(|_| prng.next_u64() as u8).collect());
    let zeros = || call(vec![0; 8000]);
    let mut packer = Packer::new(Packing::Auto).unwrap();
    let mut queue = OutQueue::default();
    let packed = |queue: &mut OutQueue, packer: &mut Packer, message: PeerMessage| {
        queue.push(&message);
        let bytes = queue.seal(packer).to_vec();
        queue.advance(bytes.len());
        let frames = read(&bytes, packer);
        assert_eq!(frames[0].messages, [message]);
        frames[0].packed
    };
    assert!(!packed(&mut queue, &mut packer, zeros()), "the network keeps up");
    queue.pushed_back();
    assert!(packed(&mut queue, &mut packer, zeros()), "it does not");
    assert!(!packed(&mut queue, &mut packer, call(vec![0; 4000])), "small");
    queue.near();
    assert!(!packed(&mut queue, &mut packer, zeros()), "it cannot be the network");
    packer.set(Packing::Always);
    // After each that does not shrink, the next tries are put off: 1, 2, 4.
    for skipped in [1, 2, 4] {
        assert!(!packed(&mut queue, &mut packer, noise()));
        for _ in 0..skipped {
            assert!(!packed(&mut queue, &mut packer, zeros()));
        }
    }
    assert!(packed(&mut queue, &mut packer, zeros()));
    assert!(packed(&mut queue, &mut packer, zeros()));
    packer.set(Packing::Never);
    assert!(!packed(&mut queue, &mut packer, zeros()));
}

#[test]
fn a_damaged_frame_is_noticed_wherever_it_is_damaged() {
    let mut packer = Packer::new(Packing::Always).unwrap();
    let mut queue = OutQueue::default();
    queue
        .push(&PeerMessage::Order { shard: ShardId(1), order: node::peer_protocol::Order::Transfer { to: NodeId(9) } });
    let bytes = queue.seal(&mut packer).to_vec();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(!matches!(first(&damaged), Ok(Some(_))), "byte {at} bit {bit}");
        }
    }
    for length in 0..bytes.len() {
        assert!(matches!(first(&bytes[..length]), Ok(None)));
    }
    assert_eq!(wanted(&[0xFF; 9]), Err("a frame too large"));
    assert!(messages(&[1, 0, 0]).next().unwrap().is_err());
    assert!(messages(&[2, 0, 0, 0, 7]).next().unwrap().is_err());
    for packed in [&[][..], &[0xFF; 8], &[9, 0, 0, 0, 1, 2, 3]] {
        assert!(packer.unpack(packed).is_err());
    }
}

#[test]
fn what_comes_in_takes_no_more_room_than_has_come() {
    let mut buffer = InBuffer::default();
    let wanted = 10_000_000;
    let mut arrived = 0;
    while arrived < wanted {
        let n = buffer.room(wanted).len().min(50_000).min(wanted - arrived);
        buffer.filled(n);
        arrived += n;
        assert!(buffer.bytes.len() <= (2 * arrived).max(READ_BUFFER_BYTES));
        assert_eq!(buffer.ready().len(), arrived);
    }
    buffer.consume(wanted - 1);
    // What is left over moves to the front before there is more room.
    assert!(buffer.room(100).len() >= READ_BUFFER_BYTES);
    assert_eq!(buffer.ready().len(), 1);
    buffer.consume(1);
    assert!(buffer.bytes.is_empty());
}
