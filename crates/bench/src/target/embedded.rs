//! A store in this process: the same requests, without a socket.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use client::{Answer, Failure, Frame};
use resp::FrameState;

use super::lane::Manner;
use super::session::{RecordSession, Session};
use super::transport::{About, ArgumentSink, Transport};
use super::{Lanes, Target, TargetFacts, TargetUsage};
use crate::machine::usage::disk_bytes;
use crate::workload::Workload;

/// A store that runs in this process. Its threads share it; each thread works through a handle of its own.
pub trait EmbeddedStore: Send + Sync {
    /// Opens a thread's handle, for at most `in_flight` requests at once.
    ///
    /// # Errors
    /// The store is closing, or has no room for another handle.
    fn handle(&self, in_flight: usize) -> io::Result<Box<dyn EmbeddedHandle>>;

    /// What it tells of itself.
    fn facts(&self) -> TargetFacts;

    /// Where its data is.
    fn data_dir(&self) -> Option<PathBuf>;
}

/// One thread's way to an embedded store.
pub trait EmbeddedHandle {
    /// Takes a request. True when its answer, one RESP2 frame, has been appended to `reply`; otherwise it will come by
    /// [`EmbeddedHandle::wait`] and bear `token`.
    fn submit(&mut self, token: u32, args: &[&[u8]], reply: &mut Vec<u8>) -> bool;

    /// Waits until an answer is there or `until` is reached, and hands over every answer that is: one RESP2 frame each,
    /// in any order. It may return early with none.
    ///
    /// # Errors
    /// The store is no longer there.
    fn wait(&mut self, until: Option<Instant>, each: &mut dyn FnMut(u32, &[u8])) -> io::Result<()>;
}

/// An embedded store as a target.
pub struct EmbeddedTarget {
    store: Arc<dyn EmbeddedStore>,
    data_dir: Option<PathBuf>,
}

impl EmbeddedTarget {
    /// The target that `store` is.
    #[must_use]
    pub fn new(store: Arc<dyn EmbeddedStore>) -> Self {
        let data_dir = store.data_dir();
        Self { store, data_dir }
    }
}

impl Target for EmbeddedTarget {
    fn name(&self) -> String {
        "embedded".to_owned()
    }

    fn in_process(&self) -> bool {
        true
    }

    fn facts(&self) -> TargetFacts {
        self.store.facts()
    }

    fn usage(&self) -> TargetUsage {
        TargetUsage { disk_bytes: self.data_dir.as_deref().and_then(disk_bytes), ..TargetUsage::default() }
    }

    fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }

    fn open(&self, workload: &Arc<Workload>, lanes: Lanes) -> io::Result<Box<dyn Session>> {
        let transport = EmbeddedTransport {
            handle: self.store.handle(lanes.count())?,
            asked: None,
            bytes: Vec::new(),
            ends: Vec::new(),
            answers: Vec::new(),
            replies: Vec::new(),
        };
        Ok(Box::new(RecordSession::new(transport, Arc::clone(workload), lanes.count(), Manner::default())))
    }
}

/// Submits each request as soon as it is written, and keeps the answers that are there at once.
struct EmbeddedTransport {
    handle: Box<dyn EmbeddedHandle>,
    /// The lane of the request being written.
    asked: Option<u32>,
    /// Its arguments, one after the other.
    bytes: Vec<u8>,
    /// Where each argument ends.
    ends: Vec<usize>,
    /// Answers that were there at once: lane, end in `replies`, and when.
    answers: Vec<(u32, usize, Instant)>,
    replies: Vec<u8>,
}

/// Requests of so many arguments need no list on the heap: a record of ten fields has 22.
const ARGUMENTS_INLINE: usize = 32;

/// A request being gathered.
struct Gathered<'a> {
    bytes: &'a mut Vec<u8>,
    ends: &'a mut Vec<usize>,
}

impl ArgumentSink for Gathered<'_> {
    fn arg(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    fn number(&mut self, number: u64) {
        use std::io::Write as _;
        write!(self.bytes, "{number}").expect("a Vec takes all that is written");
        self.ends.push(self.bytes.len());
    }
}

impl Transport for EmbeddedTransport {
    type Request<'a> = Gathered<'a>;

    fn request(&mut self, about: About<'_>) -> Gathered<'_> {
        self.asked = Some(about.lane);
        self.bytes.clear();
        self.ends.clear();
        Gathered { bytes: &mut self.bytes, ends: &mut self.ends }
    }

    fn finish(&mut self) {
        let Some(lane) = self.asked.take() else { return };
        let (mut start, mut ends) = (0, self.ends.iter());
        let mut next = || {
            let end = *ends.next().expect("every argument has its end");
            let argument = &self.bytes[start..end];
            start = end;
            argument
        };
        let count = self.ends.len();
        let answered = if count <= ARGUMENTS_INLINE {
            let mut args: [&[u8]; ARGUMENTS_INLINE] = [&[]; ARGUMENTS_INLINE];
            args[..count].fill_with(&mut next);
            self.handle.submit(lane, &args[..count], &mut self.replies)
        } else {
            let args: Vec<&[u8]> = (0..count).map(|_| next()).collect();
            self.handle.submit(lane, &args, &mut self.replies)
        };
        if answered {
            self.answers.push((lane, self.replies.len(), Instant::now()));
        }
    }

    fn wait(&mut self, until: Option<Instant>, each: &mut dyn FnMut(u32, Answer<'_>, Instant)) -> io::Result<()> {
        let mut start = 0;
        let none_yet = self.answers.is_empty();
        for (lane, end, at) in self.answers.drain(..) {
            each(lane, answer(&self.replies[start..end]), at);
            start = end;
        }
        self.replies.clear();
        // With answers in hand there is nothing to wait for, only to look.
        let until = if none_yet { until } else { Some(Instant::now()) };
        self.handle.wait(until, &mut |lane, reply| each(lane, answer(reply), Instant::now()))
    }
}

fn answer(reply: &[u8]) -> Answer<'_> {
    match Frame::read(reply, &mut FrameState::default()) {
        Ok(Some((frame, _))) => Answer::Reply(frame),
        _ => Answer::Failed(Failure::Protocol),
    }
}
