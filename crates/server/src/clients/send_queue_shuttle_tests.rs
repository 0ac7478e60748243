//! The queue to the send thread under many schedules of worker and thread.

use super::registry;
use crate::sync::shuttled as sync;
use registry::ClientId;
use std::collections::VecDeque;
use std::sync::Arc;

#[path = "send_queue.rs"]
#[allow(dead_code, clippy::duplicate_mod)]
mod send_queue;

use send_queue::{SendQueue, Taken};

/// A stream that takes so many bytes, and then none until it is emptied.
#[derive(Clone)]
struct Socket(Arc<sync::Mutex<Bytes>>);

struct Bytes {
    taken: Vec<u8>,
    room: VecDeque<usize>,
    is_in_use: bool,
}

impl Socket {
    fn new(room: &[usize]) -> Self {
        let bytes = Bytes { taken: Vec::new(), room: room.iter().copied().collect(), is_in_use: false };
        Self(Arc::new(sync::Mutex::new(bytes)))
    }

    /// Two threads that send at the same time are found out.
    fn send(&self, bytes: &[u8]) -> Taken {
        assert!(!std::mem::replace(&mut self.0.lock().is_in_use, true), "one thread at a time sends");
        shuttle::thread::yield_now();
        let mut state = self.0.lock();
        state.is_in_use = false;
        let n = state.room.pop_front().unwrap_or(usize::MAX).min(bytes.len());
        state.taken.extend_from_slice(&bytes[..n]);
        Taken { bytes: n, broken: false }
    }
}

/// The worker hands over in three rounds, takes back what was not sent and sends it itself, as the event loop does. Each
/// client's bytes come out whole and in order, and `wait_for` and `stop` come back.
fn hand_over(room: &'static [usize], clients: usize) {
    let queue = Arc::new(SendQueue::<Socket>::new());
    let of_thread = queue.clone();
    let thread = shuttle::thread::spawn(move || of_thread.run(Socket::send, || {}));
    let sockets: Vec<Socket> = (0..clients).map(|id| Socket::new(if id == 0 { room } else { &[] })).collect();
    let client = |id| ClientId { id, generation: 1 };
    let mut aside = vec![0; clients];
    let mut last = 0;
    let send_here = |id: usize, mut bytes: &[u8]| {
        while !bytes.is_empty() {
            bytes = &bytes[sockets[id].send(bytes).bytes..];
        }
    };
    for turn in 0_u8..3 {
        let mut round = queue.round();
        let unsent = round.take_unsent();
        for id in 0..clients {
            if turn == 0 {
                round.open(id, sockets[id].clone());
            }
            let mut bytes: Vec<u8> =
                unsent.iter().filter(|unsent| unsent.to.id == id).flat_map(|unsent| unsent.bytes.clone()).collect();
            let was_given_back = !bytes.is_empty();
            bytes.extend([2 * turn, 2 * turn + 1]);
            if was_given_back && round.is_over(aside[id]) {
                // The thread has nothing of this client any more: the event loop sends.
                send_here(id, &bytes);
            } else {
                round.send(client(id), &bytes);
                aside[id] = round.number();
            }
        }
        last = round.number();
    }
    queue.wait_for(last);
    let unsent = queue.round().take_unsent();
    assert!(queue.has_sent(last), "everything is sent or was taken back");
    for unsent in unsent {
        send_here(unsent.to.id, &unsent.bytes);
    }
    queue.close(0);
    queue.stop();
    thread.join().expect("it ends");
    for socket in sockets {
        assert_eq!(socket.0.lock().taken, [0, 1, 2, 3, 4, 5]);
    }
}

#[test]
fn bytes_stay_whole_and_in_order_from_either_thread() {
    for room in [&[][..], &[0], &[1], &[2, 1], &[2, 0, 1], &[1, 1, 1]] {
        for clients in [1, 2] {
            sync::under_schedules(300, move || hand_over(room, clients));
        }
    }
}
