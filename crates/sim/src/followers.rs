//! Reads that a replica answers which does not lead, as a server's workers do: what cannot be met is refused, or waits.

use crate::bug::Bug;
use crate::check::weak::WeakRead;
use crate::event::Place;
use crate::history::{Answer, Outcome as Told};
use crate::host::{self, WaitingRead};
use crate::schedule::SECOND;
use crate::world::{Outcome, World};
use node::ShardView;
use node::session::Consistency;

/// How long a read waits for the replica to get as far as its token asks.
const HOLD_US: u64 = 2 * SECOND;

impl World {
    /// Makes a read on a replica that does not lead, if that keeps what is promised.
    pub(crate) fn try_weak(
        &mut self,
        place: Place,
        view: &ShardView,
        read: WaitingRead,
        consistency: Consistency,
    ) -> Outcome {
        let now = self.moment(place);
        let blind = self.bug == Some(Bug::BlindReplica);
        let ready = match consistency {
            Consistency::Absolute => false,
            Consistency::Any => view.has_joined() && !view.is_replaying(),
            Consistency::Lag { ms } => blind || view.lag_ms(now.wall_ms).is_some_and(|lag| lag <= ms),
            Consistency::Version { token } => blind || view.engine().applied_index() >= token,
        };
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        if !ready {
            if matches!(consistency, Consistency::Lag { .. }) {
                view.want_fresh();
            }
            let waits = !matches!(consistency, Consistency::Absolute | Consistency::Any);
            if waits && now.mono_us < read.arrived_us + HOLD_US {
                process.reads.entry(view.id()).or_default().push(read);
            } else {
                self.refuse(read.operation, None);
            }
            return Ok(());
        }
        let reply = host::read(view, &read.request, now);
        let answer = read.request.answer(&reply)?;
        if let (Answer::Done(outcomes), [(key, _)]) = (&answer, &read.request.actions[..])
            && let [Told::Read(seen)] = outcomes[..]
        {
            let (group, key, at) = (read.request.group, *key, self.now());
            let replica = (place, self.hosts[place].life, view.id().0);
            let values = self.groups.get(&view.id()).map(crate::check::raft::Group::values);
            let logged = seen.and_then(|(value, _)| values?.get(&value).copied());
            let made = WeakRead { replica, group, key, seen, consistency, at };
            self.weak.check(&made, logged, self.plan.slack())?;
        }
        self.answer(read.operation, answer, None);
        Ok(())
    }
}
