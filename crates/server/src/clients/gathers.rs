//! Replies that are made of one answer from each shard: OK when all are in, or the first error.

use node::Ticket;
use slab::Slab;
use vocab::ShardId;

/// The connection of a ticket whose answer is one of several that make one reply.
pub(super) const GATHERED: u32 = u32::MAX;

/// A shard, and its first and last slot.
pub(super) type ShardSlots = (ShardId, (u16, u16));

/// One reply in the making.
struct Gather {
    ticket: Ticket,
    /// Answers that have not come yet.
    left: usize,
    /// The shards, as they were when it began.
    shards: Vec<ShardSlots>,
    error: Option<Vec<u8>>,
}

/// A reply whose answers are all in.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) ticket: Ticket,
    /// The shards, as they were when it began.
    pub(super) shards: Vec<ShardSlots>,
    /// The first error.
    pub(super) error: Option<Vec<u8>>,
}

/// The replies of a worker that are in the making.
#[derive(Default)]
pub(super) struct Gathers(Slab<Gather>);

impl Gathers {
    /// The ticket for the answers of `shards` to the request of `ticket`.
    pub(super) fn begin(&mut self, ticket: Ticket, shards: &[ShardSlots]) -> Ticket {
        let gather = Gather { ticket, left: shards.len(), shards: shards.to_vec(), error: None };
        let id = self.0.insert(gather);
        Ticket { connection: GATHERED, sequence: id as u64, ..ticket }
    }

    /// One of the answers has come; the reply, if it was the last.
    pub(super) fn collect(&mut self, ticket: &Ticket, answer: &[u8]) -> Option<Gathered> {
        let id = ticket.sequence as usize;
        let gather = self.0.get_mut(id)?;
        if answer.first() == Some(&b'-') && gather.error.is_none() {
            gather.error = Some(answer.to_vec());
        }
        gather.left -= 1;
        if gather.left > 0 {
            return None;
        }
        let Gather { ticket, shards, error, .. } = self.0.remove(id);
        Some(Gathered { ticket, shards, error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_answer_makes_the_reply_and_the_first_error_stays() {
        let shards = [(ShardId(1), (0, 99)), (ShardId(2), (100, 199)), (ShardId(3), (200, 299))];
        let ticket = Ticket { connection: 7, sequence: 42, ..Ticket::NONE };
        for (answers, error) in [
            (["+OK\r\n", "+OK\r\n", "+OK\r\n"], None),
            (["+OK\r\n", "-A\r\n", "-B\r\n"], Some("-A\r\n")),
            (["-B\r\n", "+OK\r\n", "-A\r\n"], Some("-B\r\n")),
        ] {
            let mut gathers = Gathers::default();
            let part = gathers.begin(ticket, &shards);
            assert_eq!(part.connection, GATHERED);
            assert!(gathers.collect(&part, answers[0].as_bytes()).is_none());
            assert!(gathers.collect(&part, answers[1].as_bytes()).is_none());
            let Some(gathered) = gathers.collect(&part, answers[2].as_bytes()) else { panic!("it was the last") };
            assert_eq!((gathered.ticket, &gathered.shards[..]), (ticket, &shards[..]));
            assert_eq!(gathered.error.as_deref(), error.map(str::as_bytes));
            assert!(gathers.collect(&part, b"+OK\r\n").is_none(), "it is over");
        }
    }
}
