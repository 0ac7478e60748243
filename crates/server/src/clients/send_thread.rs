//! A thread that sends answers while its worker goes on.
//!
//! A worker that makes the fsyncs of its log itself has answers for many clients at once. Sending them takes a third of
//! its time, while other processors are idle (docs/adr/0020).

use super::send_queue::{SendQueue, Taken};
use crate::mailbox::{Mailbox, WorkerMessage};
use crate::net::{SendEnd, Stream};
use crate::os::spawn_critical;
use std::ops::Deref;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The thread, and the way to it; dropping it ends the thread.
pub(super) struct SendThread {
    queue: Arc<SendQueue<Stream>>,
    thread: Option<JoinHandle<()>>,
}

impl SendThread {
    /// `mailbox` is the worker's: it hears when something is given back.
    pub(super) fn start(name: &str, mailbox: Arc<Mailbox>) -> std::io::Result<Self> {
        let queue = Arc::new(SendQueue::new());
        let of_thread = queue.clone();
        let tell = move || mailbox.send(WorkerMessage::Unsent);
        let thread = spawn_critical(name, move || of_thread.run(send, tell))?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Ends the thread, once all is sent that can be.
    pub(super) fn stop(&mut self) {
        self.queue.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Deref for SendThread {
    type Target = SendQueue<Stream>;

    fn deref(&self) -> &Self::Target {
        &self.queue
    }
}

impl Drop for SendThread {
    fn drop(&mut self) {
        self.stop();
    }
}

fn send(stream: &Stream, bytes: &[u8]) -> Taken {
    let sent = stream.send(bytes);
    Taken { bytes: sent.bytes, broken: matches!(sent.end, SendEnd::Broken(_)) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::registry::ClientId;
    use super::super::send_queue::{QUEUED_BYTES_MAX, Unsent};
    use super::*;
    use mio::{Poll, Token, Waker};
    use std::io::Read;
    use std::net::{TcpListener, TcpStream as Socket};

    fn start() -> (SendThread, Arc<Mailbox>, TcpListener) {
        let poll = Poll::new().unwrap();
        let mailbox = Mailbox::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        (SendThread::start("send-test", mailbox.clone()).unwrap(), mailbox, listener)
    }

    /// A connection with that place, which the thread knows, and its client's end.
    fn connect(sends: &SendThread, listener: &TcpListener, id: usize) -> (ClientId, Socket) {
        let socket = Socket::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        sends.round().open(id, Stream::plain(stream));
        (ClientId { id, generation: 7 }, socket)
    }

    struct Client {
        socket: Socket,
        to: ClientId,
        sent: Vec<u8>,
        given_back: Vec<u8>,
    }

    /// Rounds of answers until those to a client that reads nothing are given back: what it finds in its socket later, and
    /// what was given back, is all of it, in order; the others get theirs.
    #[test]
    fn all_bytes_are_sent_in_order_or_given_back() {
        let (mut sends, mailbox, listener) = start();
        let mut clients = Vec::new();
        for id in 0..4 {
            let (to, socket) = connect(&sends, &listener, id);
            clients.push(Client { socket, to, sent: Vec::new(), given_back: Vec::new() });
        }
        let mut round_of_last = 0;
        for n in 0..1_000_000_u32 {
            let mut round = sends.round();
            for unsent in round.take_unsent() {
                assert_eq!((unsent.to, unsent.broken), (clients[0].to, false));
                assert!(clients[0].given_back.is_empty(), "the worker sends what comes after that");
                clients[0].given_back = unsent.bytes;
            }
            if !clients[0].given_back.is_empty() {
                break;
            }
            for client in &mut clients {
                let length = if client.to.id == 0 { n as usize % 20_000 } else { 10 };
                let bytes = vec![(n % 251) as u8; length];
                round.send(client.to, &bytes);
                client.sent.extend_from_slice(&bytes);
            }
            round_of_last = round.number();
            drop(round);
            for client in &mut clients[1..] {
                let mut found = [0; 10];
                client.socket.read_exact(&mut found).unwrap();
                assert_eq!(found, client.sent[client.sent.len() - 10..]);
            }
        }
        assert!(!clients[0].given_back.is_empty(), "some socket takes any amount");
        let mut messages = Vec::new();
        mailbox.take(&mut messages);
        assert!(matches!(messages[..], [WorkerMessage::Unsent]));
        clients.iter().for_each(|client| sends.close(client.to.id));
        let round = sends.round().number();
        sends.wait_for(round);
        assert!(sends.has_sent(round_of_last) && sends.round().is_over(round_of_last));
        sends.stop();
        for client in &mut clients {
            let mut found = Vec::new();
            client.socket.read_to_end(&mut found).unwrap();
            found.extend_from_slice(&client.given_back);
            assert!(client.to.id > 0 || found == client.sent);
        }
    }

    /// With much queued behind what finds out that a socket is full, the worker is not left waiting for room in the queue.
    #[test]
    fn what_follows_to_a_full_socket_is_given_back_too() {
        let (sends, _inbox, listener) = start();
        let (to, _client) = connect(&sends, &listener, 0);
        let mut whole = 0;
        for n in 0..300_u32 {
            let (first, second) = (vec![1; 10 + n as usize], vec![2; QUEUED_BYTES_MAX + 1]);
            sends.round().send(to, &first);
            let mut round = sends.round();
            let given_back = |unsent: Vec<Unsent>| unsent.into_iter().flat_map(|unsent| unsent.bytes);
            let mut bytes: Vec<u8> = given_back(round.take_unsent()).collect();
            // As a worker does: what is given back is followed by nothing that the thread sends.
            if bytes.is_empty() {
                round.send(to, &second)
            } else {
                bytes.extend_from_slice(&second)
            }
            drop(round);
            let round = sends.round().number();
            sends.wait_for(round);
            bytes.extend(given_back(sends.round().take_unsent()));
            assert!(sends.has_sent(round));
            // In the first turns the socket takes some.
            let all = [first, second].concat();
            assert!(all.ends_with(&bytes), "{n}: {} bytes", bytes.len());
            whole += u32::from(bytes.len() == all.len());
        }
        assert!(whole > 100, "{whole} turns found the socket full");
    }

    /// Also of what is queued behind the answers that find it out.
    #[test]
    fn a_client_that_is_gone_is_given_back_as_broken_once() {
        let (mut sends, _inbox, listener) = start();
        let _client = Socket::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream.set_nonblocking(true).unwrap();
        let to = ClientId { id: 0, generation: 1 };
        let mut round = sends.round();
        round.open(0, Stream::plain(stream));
        (0..10).for_each(|n| round.send(to, &[n; 3]));
        drop(round);
        sends.stop();
        let bytes = (0..10).flat_map(|n| [n; 3]).collect();
        assert_eq!(sends.round().take_unsent(), [Unsent { to, bytes, broken: true }]);
    }
}
