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

/// Each frame's messages, whether it was packed, and its bytes.
fn read(mut bytes: &[u8], packer: &mut Packer) -> Vec<(Vec<PeerMessage>, bool, usize)> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let frame = first(bytes).unwrap().expect("whole frames only");
        let payload = if frame.packed { packer.unpack(frame.payload).unwrap() } else { frame.payload.to_vec() };
        let all = messages(&payload).map(|message| PeerMessage::decode(message.unwrap()).unwrap()).collect();
        frames.push((all, frame.packed, frame.bytes()));
        bytes = &bytes[frame.bytes()..];
    }
    frames
}

#[test]
fn what_is_pushed_between_two_flushes_is_one_frame() {
    let mut packer = Packer::new(Packing::Auto).unwrap();
    let mut queue = OutQueue::default();
    let said = [PeerMessage::MapAsked { epoch: 1 }, call(vec![7; 10_000]), PeerMessage::Wake { shards: vec![] }];
    assert!(said.iter().all(|message| queue.push(message, &mut packer)));
    let bytes = queue.seal(&mut packer).to_vec();
    queue.push_empty();
    assert_eq!(read(&bytes, &mut packer), [(said.to_vec(), false, bytes.len())]);
    // A part of it is gone; the rest goes together with what came later.
    queue.advance(100);
    let rest = queue.seal(&mut packer).to_vec();
    assert_eq!(rest[..bytes.len() - 100], bytes[100..]);
    assert_eq!(read(&rest[bytes.len() - 100..], &mut packer), [(vec![], false, 9)]);
    queue.advance(rest.len());
    assert_eq!((queue.waiting(), queue.bytes.len()), (0, 0));
}

#[test]
fn a_queue_that_nobody_empties_has_a_bound() {
    let mut packer = Packer::new(Packing::Never).unwrap();
    let mut queue = OutQueue::default();
    // Alone, the largest goes.
    assert!(queue.push(&call(vec![0; PEER_QUEUE_BYTES_MAX + 10]), &mut packer));
    assert!(!queue.push(&call(vec![]), &mut packer));
    assert!(queue.push(&map(10), &mut packer));
    let length = queue.seal(&mut packer).len();
    queue.advance(length);
    assert_eq!(queue.bytes.capacity(), 0, "large buffers are given back");

    let mut pushed = 0;
    while queue.push(&call(vec![0; 1_000_000]), &mut packer) {
        pushed += 1;
    }
    assert_eq!(pushed, PEER_QUEUE_BYTES_MAX / 1_000_100);
    assert!(queue.waiting() <= PEER_QUEUE_BYTES_MAX);
    while queue.push(&map(100_000), &mut packer) {
        pushed += 1;
    }
    assert!(queue.waiting() <= PEER_QUEUE_BYTES_MAX + PEER_CONTROL_BYTES_MAX);
    assert!(queue.waiting() > PEER_QUEUE_BYTES_MAX + PEER_CONTROL_BYTES_MAX - 200_000);
    assert_eq!(queue.dropped, 3);
    let bytes = queue.seal(&mut packer).to_vec();
    let frames = read(&bytes, &mut packer);
    assert_eq!(frames.iter().map(|(messages, ..)| messages.len()).sum::<usize>(), pushed);
    assert!(frames.iter().all(|(_, _, bytes)| *bytes < PEER_FRAME_BYTES_SOFT + 1_000_100));
}

#[test]
fn frames_are_packed_when_it_pays() {
    let mut prng = Prng::new(1);
    let mut noise = || call((0..8000).map(|_| prng.next_u64() as u8).collect());
    let zeros = || call(vec![0; 8000]);
    let mut packer = Packer::new(Packing::Auto).unwrap();
    let mut queue = OutQueue::default();
    let packed = |queue: &mut OutQueue, packer: &mut Packer, message: PeerMessage| {
        queue.push(&message, packer);
        let bytes = queue.seal(packer).to_vec();
        queue.advance(bytes.len());
        let frames = read(&bytes, packer);
        assert_eq!(frames[0].0, [message]);
        frames[0].1
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
    queue.push(
        &PeerMessage::Order { shard: ShardId(1), order: node::peer::Order::Transfer { to: NodeId(9) } },
        &mut packer,
    );
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
