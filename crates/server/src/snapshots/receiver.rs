//! A connection that brings a snapshot: it begins a new intake, continues one, or is refused.

use super::intake::Intake;
use super::parts::{BEGIN, BUSY, Begin, DONE, REFUSED, as_words};
use super::shared::{Admission, Shared};
use super::stream::{Broken, Parts};
use super::transfer::{Direction, Transfer};
use crate::net::Stream;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use vocab::NodeId;

/// Serves one connection; returns when nothing more can come of it.
pub(super) fn serve(shared: &Arc<Shared>, from: NodeId, stream: Stream) {
    match meet(shared, stream) {
        Ok((parts, begin)) => settle(shared, from, parts, begin),
        Err(Broken::Cut(why) | Broken::Busy(why) | Broken::Over(why)) => {
            log::debug!("a snapshot from node {from} does not begin: {why}");
        }
    }
}

fn meet(shared: &Shared, stream: Stream) -> Result<(Parts, Begin), Broken> {
    let mut parts = Parts::new(stream, shared.options.silence_max)?;
    let (kind, body) = parts.hear()?;
    if kind != BEGIN {
        return Err(Broken::Cut(format!("a part of kind {kind} came first")));
    }
    let begin = Begin::decode(body).map_err(|why| Broken::Cut(why.to_owned()))?;
    Ok((parts, begin))
}

fn settle(shared: &Arc<Shared>, from: NodeId, mut parts: Parts, begin: Begin) {
    let transfer = Arc::new(Transfer::new(Direction::In, from, begin.shard, begin.bytes_approx));
    let (mailbox, calls) = sync_channel(1);
    // Whatever is said here may be lost: then the sender asks again.
    let _ = match shared.admit(from, &begin, &transfer, mailbox) {
        Admission::New(_open) => {
            Intake { shared, from, begin, transfer: &transfer, calls }.run(parts);
            Ok(0)
        }
        Admission::Known(mailbox) => match mailbox.try_send(parts) {
            Ok(()) => Ok(0),
            Err(e) => {
                let (std::sync::mpsc::TrySendError::Full(mut parts)
                | std::sync::mpsc::TrySendError::Disconnected(mut parts)) = e;
                parts.say(BUSY, b"the snapshot is being taken in")
            }
        },
        Admission::Done => parts.say(DONE, &[]),
        Admission::Busy(why) => parts.say(BUSY, as_words(why)),
        Admission::Refused(why) => parts.say(REFUSED, as_words(why)),
    };
}
