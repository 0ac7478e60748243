//! Addresses of peers as the system knows them. Numbers are read at once; a name is looked up by a thread of its own,
//! because that may take seconds and an event loop has none.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Names that may be looked up at once.
const LOOKUPS_MAX: usize = 16;

/// The addresses of one contact, or why there are none.
pub(super) type Found = Result<Vec<SocketAddr>, String>;

pub(super) struct Resolver {
    sender: Sender<(u64, Found)>,
    receiver: Receiver<(u64, Found)>,
    under_way: usize,
}

impl Resolver {
    pub(super) fn new() -> Self {
        let (sender, receiver) = channel();
        Self { sender, receiver, under_way: 0 }
    }

    /// The addresses, if they can be told at once; else they come later, by `next`.
    pub(super) fn find(&mut self, id: u64, address: &str) -> Option<Found> {
        if let Ok(address) = address.parse() {
            return Some(Ok(vec![address]));
        }
        if self.under_way >= LOOKUPS_MAX {
            return Some(Err("too many names to look up".to_owned()));
        }
        let (sender, name) = (self.sender.clone(), address.to_owned());
        let look_up = move || {
            let found = name.to_socket_addrs().map(Iterator::collect).map_err(|e| e.to_string());
            // If it cannot be sent, the receiver has ended.
            let _ = sender.send((id, found));
        };
        match std::thread::Builder::new().name("resolve".to_owned()).spawn(look_up) {
            Ok(_) => {
                self.under_way += 1;
                None
            }
            Err(e) => Some(Err(e.to_string())),
        }
    }

    /// The next one that was found later.
    pub(super) fn next(&mut self) -> Option<(u64, Found)> {
        let found = self.receiver.try_recv().ok()?;
        self.under_way -= 1;
        Some(found)
    }
}
