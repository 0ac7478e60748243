//! The mailbox under many schedules of its threads: it is how work reaches the disk reader's thread and the workers.

use crate::sync::shuttled as sync;
use std::sync::Arc;

#[path = "queue.rs"]
#[allow(dead_code, clippy::duplicate_mod)]
mod queue;

/// Counts as an event loop's waker: a wake-up is kept until the loop waits.
struct Events {
    woken: sync::Mutex<bool>,
    changed: sync::Condvar,
}

impl Events {
    fn wait(&self) {
        let mut woken = self.woken.lock();
        while !*woken {
            self.changed.wait(&mut woken);
        }
        *woken = false;
    }
}

impl queue::Wake for Arc<Events> {
    fn wake(&self) -> std::io::Result<()> {
        *self.woken.lock() = true;
        self.changed.notify_all();
        Ok(())
    }
}

/// If a wake-up is lost, the loop waits and shuttle reports a deadlock.
#[test]
fn every_message_reaches_a_loop_that_waits_between_its_looks() {
    sync::under_schedules(2_000, || {
        let events = Arc::new(Events { woken: sync::Mutex::new(false), changed: sync::Condvar::new() });
        let mailbox = queue::Queue::new(events.clone());
        let senders: Vec<_> = (0..2)
            .map(|sender: u32| {
                let mailbox = mailbox.clone();
                shuttle::thread::spawn(move || {
                    mailbox.send((sender, 0));
                    mailbox.send_all([(sender, 1), (sender, 2)].into_iter());
                })
            })
            .collect();
        let (mut mail, mut got) = (Vec::new(), Vec::new());
        while got.len() < 6 {
            events.wait();
            mailbox.take(&mut mail);
            got.append(&mut mail);
        }
        for sender in 0..2 {
            let mine: Vec<_> = got.iter().filter(|(of, _)| *of == sender).map(|(_, n)| *n).collect();
            assert_eq!(mine, [0, 1, 2], "in the order in which they were sent");
        }
        senders.into_iter().for_each(|sender| sender.join().expect("it ends"));
    });
}
