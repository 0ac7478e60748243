//! How a handler's outcome becomes the command's reply.

use node::command::{Error, Outcome};
use node::read::Attempt;
use node::{Fault, ShardHandle};
use resp::Reply;

/// Turns a handler's failure into its reply.
pub(crate) fn conclude(done: Outcome, reply: &mut Reply, mark: usize) {
    let text = match done {
        Ok(()) => return,
        Err(Error::Reply(text)) => text,
        Err(Error::Fault(Fault::Storage(e))) => {
            log::error!("{e}");
            format!("ERR {e}").into()
        }
        Err(Error::Fault(Fault::Remote(text))) => text.into(),
        Err(Error::Fault(Fault::Writes)) => "ERR this script writes, and cannot be run as a read".into(),
        Err(Error::Fault(Fault::WouldBlock)) => "ERR this read would wait for the disk without end".into(),
    };
    reply.buf.truncate(mark);
    reply.error(&text);
}

/// Turns the failure of a command that ran on a replica into its reply. If the command met damage, the replica counts as
/// damaged from now on.
pub(crate) fn conclude_on(handle: &ShardHandle, done: Outcome, reply: &mut Reply, mark: usize) {
    if let Err(Error::Fault(Fault::Storage(e))) = &done {
        handle.damage().note(handle.id(), e);
    }
    conclude(done, reply, mark);
}

/// The same for a read that may have waited: where its slot was given away meanwhile, nothing that it met is damage.
pub(crate) fn conclude_read<H>(attempt: &Attempt<H>, done: Outcome, reply: &mut Reply, mark: usize)
where
    H: AsRef<ShardHandle>,
{
    match &done {
        Err(_) if !attempt.has_slot() => conclude(done, reply, mark),
        _ => conclude_on(attempt.handle().as_ref(), done, reply, mark),
    }
}
