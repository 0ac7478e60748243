//! A replica of a shard that has lost its majority goes on alone, by an operator's order.
//!
//! From that moment, what was committed and is not in its log is lost: its shard's keys begin with whatever they are found to
//! hold, none of it written behind that log's end, and are held to account from there.

use crate::checkers::Outcome;
use crate::nodes::Nodes;
use crate::places::Place;
use crate::store::Store;
use vocab::{ReplicaId, ShardId};

/// A replica, its shard's voters as it has them, and the term that it is in.
pub struct Standing {
    me: ReplicaId,
    voters: Vec<ReplicaId>,
    term: u64,
}

/// What a replica says of itself.
#[must_use]
pub fn standing_at(nodes: &Nodes, place: Place, shard: ShardId) -> Option<Standing> {
    let replica = nodes.shard(place, shard)?.replica();
    let members = replica.members();
    let voters = [members.voters, members.voters_outgoing].concat();
    Some(Standing { me: replica.me(), voters, term: replica.status().term })
}

/// A replica has been ordered to go on alone; `before`: what it was before that. It may lead by now, in a term that
/// others led in before it and that it had not heard of.
pub fn ordered_alone(store: &mut Store, place: Place, shard: ShardId, before: &Standing) -> Outcome {
    let Some(Standing { me, voters: after, .. }) = standing_at(&store.nodes, place, shard) else { return Ok(()) };
    if after != [me] || before.voters == after {
        return Ok(());
    }
    if !store.checks.lost().contains(&shard) {
        return Err(format!("shard {shard} goes on with replica {me} alone, and had not lost its majority"));
    }
    let Some(here) = store.nodes.shard(place, shard) else { return Ok(()) };
    let last = here.replica().status().last;
    let cut = store.checks.recovered(shard, (before.term, last), &*store.nodes[place].disk.log)?;
    store.env.note(format_args!("shard {shard} goes on with replica {me} alone; what came after entry {cut} is lost"));
    store.env.counts.recoveries += 1;
    Ok(())
}
