//! What a client asks of a node, as a server's event loops deal with it: brought to the shard, held while a slot changes
//! hands, and answered when that is allowed.

use crate::bug::Bug;
use crate::chance::Chance;
use crate::check::acknowledged;
use crate::client_read::ClientRead;
use crate::effects::Outbox;
use crate::event::{NodeEvent, Place};
use crate::history::{Action, Answer, Outcome as Told};
use crate::request::{Form, Request};
use crate::schedule::MILLISECOND;
use crate::world::{Outcome, World, node_id};
use node::read::{Hold, NotHere, is_slot_moving, leader_access};
use node::session::Acks;
use node::{Ticket, key_hash};
use resp::Proto;
use vocab::{ShardId, slot_of};

impl World {
    /// A client's request comes to a node.
    pub(crate) fn request(
        &mut self,
        place: Place,
        operation: usize,
        request: Request,
        since_us: u64,
        out: &mut Outbox,
    ) -> Outcome {
        let now = self.moment(place);
        if !request.writes() {
            return self.begin_read(place, ClientRead::new(operation, request, now.mono_us));
        }
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        let slot = slot_of(&request.keys()[0]);
        let shard = process.shard_of(slot);
        let write = request.write();
        let handle = shard.and_then(|shard| process.core.shard(shard)).map(|here| here.view().clone());
        // What comes from another worker's mailbox was let in before, and finds what has changed since.
        let is_let_in = !write.is_of_slot()
            || (self.prng.happens(200) && !handle.as_ref().is_some_and(|handle| is_slot_moving(handle, slot)));
        if !is_let_in {
            let local = process.local(node_id(place), shard, handle.as_ref());
            match leader_access(local, slot, Hold::for_slot_move(since_us), now.mono_us) {
                Ok(_) => {}
                Err(NotHere::Wait { .. }) => {
                    self.hold(place, operation, request, since_us);
                    return Ok(());
                }
                Err(NotHere::Redirect(node)) => {
                    self.refuse(operation, Some(node));
                    return Ok(());
                }
                Err(NotHere::Refuse(_)) => {
                    self.refuse(operation, None);
                    return Ok(());
                }
            }
        }
        let Some(shard) = shard else {
            self.refuse(operation, None);
            return Ok(());
        };
        let keys: Vec<u64> = request.keys().iter().map(|key| key_hash(key)).collect();
        let acks = match request.form {
            Form::Set => Acks::None,
            _ if self.prng.happens(100) => Acks::All,
            _ => Acks::Majority,
        };
        let sync = self.plan.sync;
        let ticket = Ticket {
            worker: 0,
            connection: 0,
            generation: shard.0,
            sequence: operation as u64,
            proto: Proto::Resp2,
            slot,
            sync,
            acks,
            reply_bytes: 0,
        };
        let early = (self.bug == Some(Bug::EarlyAck)).then(|| process.core.shard(shard)).flatten();
        let early = early.filter(|shard| shard.replica().serves()).map(|shard| shard.replica().status().last + 1);
        let put = matches!(request.actions[..], [(_, Action::Put(_))]);
        process.writes.insert((operation, shard), request);
        process.core.submit(shard, &write, &keys, ticket, out);
        if let Some(version) = early
            && put
            && process.writes.remove(&(operation, shard)).is_some()
        {
            self.answer(operation, Answer::Done(vec![Told::Written(version)]), None);
        }
        Ok(())
    }

    /// The slot is being given to another shard: in a moment it is known who leads that.
    fn hold(&mut self, place: Place, operation: usize, request: Request, since_us: u64) {
        let delay = self.prng.between(1, 50) * MILLISECOND;
        self.later(delay, place, NodeEvent::Request(operation, request, Some(since_us)));
    }

    /// A shard has answered a write.
    pub(crate) fn answered(&mut self, place: Place, ticket: &Ticket, reply: Option<Vec<u8>>) -> Outcome {
        let operation = ticket.sequence as usize;
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        // One that was sent again may have come to a shard that was split off meanwhile, and wait there too.
        let shard = ShardId(ticket.generation);
        let Some(request) = process.writes.remove(&(operation, shard)) else { return Ok(()) };
        let leader = process.leaders.of(shard);
        let answer = reply.map_or(Ok(Answer::Refused), |reply| request.answer(&reply))?;
        let mut told = self.history.operations()[operation].clone();
        told.answer = answer.clone();
        self.check_holders(place, shard, ticket, &told)?;
        if request.form == Form::Clear && matches!(answer, Answer::Done(_)) {
            self.cleared.insert(operation, shard);
        }
        let group = self.groups.entry(shard).or_default();
        // Of a request that was sent more than once, another one may be in the log.
        if answer != Answer::Refused || request.id.is_none() {
            acknowledged::check(&told, group.values())?;
        }
        self.answer(operation, answer, leader);
        Ok(())
    }
}
