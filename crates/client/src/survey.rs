//! Keeps a pool's map fresh: when to ask, whom, and what the answer means.

use std::time::{Duration, Instant};

use resp::Value;

use crate::connection::{Connection, SURVEY};
use crate::nodes::Nodes;
use crate::{Access, Address, SlotMap};

/// Between two questions while the map is in doubt.
const DOUBTED_AFTER: Duration = Duration::from_millis(100);
/// Between two questions otherwise: a follower that comes back is not announced.
const ROUTINE: Duration = Duration::from_secs(2);
/// A node that does not answer within this time has its chance again later.
const WITHIN: Duration = Duration::from_millis(500);

/// The state of a pool's questions about the map.
#[derive(Debug)]
pub(crate) struct Survey {
    /// Whether followers matter.
    followers: bool,
    /// The pool speaks TLS.
    secure: bool,
    /// The store does not know CLUSTER SHARDS.
    only_slots: bool,
    /// Something hints that the map is another by now.
    doubted: bool,
    /// The node that is being asked, and since when.
    asked: Option<(usize, Instant)>,
    last: Instant,
    /// Whom to ask next, unless it is suspect.
    next: usize,
}

impl Survey {
    pub(crate) fn new(followers: bool, secure: bool, now: Instant) -> Self {
        Self { followers, secure, only_slots: false, doubted: false, asked: None, last: now, next: 0 }
    }

    /// The map may be wrong: a node has said so, or is silent or gone.
    pub(crate) fn doubt(&mut self) {
        self.doubted = true;
    }

    /// The node that is being asked.
    pub(crate) fn node(&self) -> Option<usize> {
        self.asked.map(|(node, _)| node)
    }

    /// The node that was asked and has let its time pass.
    pub(crate) fn overdue(&self, now: Instant) -> Option<usize> {
        self.asked.filter(|(_, since)| now.saturating_duration_since(*since) > WITHIN).map(|(node, _)| node)
    }

    /// Whom to ask now, if anybody.
    pub(crate) fn due(&mut self, now: Instant, nodes: &Nodes) -> Option<usize> {
        let wait = if self.doubted { DOUBTED_AFTER } else { ROUTINE };
        let idle = nodes.len() == 1 && !self.doubted;
        if self.asked.is_some() || idle || now.saturating_duration_since(self.last) < wait {
            return None;
        }
        let turn = (0..nodes.len()).map(|step| (self.next + step) % nodes.len());
        let node = turn.clone().find(|&node| !nodes.get(node).suspect).or_else(|| turn.clone().next())?;
        self.next = node + 1;
        Some(node)
    }

    /// Asks `node` over `connection`.
    pub(crate) fn ask(&mut self, node: usize, now: Instant, connection: &mut Connection) {
        (self.asked, self.last) = (Some((node, now)), now);
        let what: &[u8] = if self.followers && !self.only_slots { b"SHARDS" } else { b"SLOTS" };
        connection.request(SURVEY, Access::Read, 2, now).arg(b"CLUSTER").arg(what);
    }

    /// There will be no answer.
    pub(crate) fn lost(&mut self) {
        self.asked = None;
        self.doubted = true;
    }

    /// Reads the answer of the node at `asked`; none when it is no map.
    pub(crate) fn answered(&mut self, answer: &Value, asked: &Address) -> Option<SlotMap> {
        self.asked = None;
        if let Value::Error(text) = answer {
            // A server that is no cluster leads every slot itself, and always will.
            self.doubted = self.followers && !self.only_slots;
            self.only_slots = !crate::client::is_refusal(text);
            return None;
        }
        let map = SlotMap::parse(answer, asked, self.secure);
        self.doubted = map.is_none();
        map
    }
}
