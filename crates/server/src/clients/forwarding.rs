//! What of one client's requests is under way at other nodes.
//!
//! Invariants: requests that are to be answered are under way at one node at a time; `waiting` is in the order of the
//! requests.

use super::forwarded::{Deed, Forwarded};
use super::is_large::is_large;
use super::upstream::Upstream;
use node::session::{Durability, Transaction};
use node::{EncodedCommand, Ticket};
use std::collections::{BTreeMap, VecDeque};
use vocab::{NodeId, Slot};

/// Where the keys are known that the client watches, if another node led them when it sent WATCH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Watches {
    /// Nothing is watched there.
    #[default]
    None,
    /// Over the connection to this node.
    At(NodeId),
    /// The connection is gone: no node knows whether the keys have changed.
    Lost,
}

/// What is under way at this node, as another one would make it.
pub(super) enum Kept {
    /// A command that writes, or reads what is on the disk.
    Command(EncodedCommand),
    /// A WATCH.
    Watch(EncodedCommand),
    /// A transaction.
    Transaction(Box<Transaction>),
}

/// The words of a WATCH of these keys.
pub(super) fn watch_words(keys: &[Vec<u8>]) -> Vec<&[u8]> {
    std::iter::once(&b"WATCH"[..]).chain(keys.iter().map(Vec::as_slice)).collect()
}

impl Kept {
    /// Whether to make it again, or to free it, is no work for an event loop.
    fn is_large(&self) -> bool {
        match self {
            Self::Command(command) | Self::Watch(command) => is_large(command.arguments(), command.bytes()),
            Self::Transaction(transaction) => is_large(transaction.commands(), transaction.bytes()),
        }
    }
}

/// What of one client's requests is under way at other nodes.
#[derive(Default)]
pub(super) struct Forwarding {
    /// Connections to other nodes, one a node.
    pub(super) upstreams: Vec<Upstream>,
    /// Requests that have not been sent, or are to be made again.
    waiting: VecDeque<Forwarded>,
    /// Requests under way at this node, by their sequence numbers: another node makes them if this one stops leading.
    here: VecDeque<(u64, Kept)>,
    pub(super) watches: Watches,
    /// By slot, the node that has answered the client's last write before it was committed, and so knows whether it is lost. None: the
    /// connection over which it was written is gone.
    early: BTreeMap<Slot, Option<NodeId>>,
    /// By slot, the node that has answered the client's last write there, over the connection that there is.
    written: BTreeMap<Slot, NodeId>,
}

impl Forwarding {
    /// Whether requests are to be answered.
    pub(super) fn is_busy(&self) -> bool {
        self.has_waiting() || self.upstreams.iter().any(Upstream::is_busy)
    }

    /// Whether requests are to be sent.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Bytes of the requests that are to be answered.
    pub(super) fn request_bytes(&self) -> usize {
        let waiting = self.waiting.iter().map(|request| request.bytes.len()).sum::<usize>();
        waiting + self.upstreams.iter().map(Upstream::request_bytes).sum::<usize>()
    }

    /// Takes a request in, in its place.
    pub(super) fn wait(&mut self, request: Forwarded) {
        let at = self.waiting.partition_point(|other| other.ticket.sequence < request.ticket.sequence);
        self.waiting.insert(at, request);
    }

    /// A request is under way at this node.
    pub(super) fn keep(&mut self, sequence: u64, kept: Kept) {
        self.here.push_back((sequence, kept));
    }

    /// A request is not under way at this node any more: what it was.
    pub(super) fn take_kept(&mut self, sequence: u64) -> Option<Kept> {
        let at = self.here.binary_search_by_key(&sequence, |(kept, _)| *kept).ok()?;
        self.here.remove(at).map(|(_, kept)| kept)
    }

    /// Whether a request under way at this node is a large one.
    pub(super) fn keeps_large(&self, sequence: u64) -> bool {
        let at = self.here.binary_search_by_key(&sequence, |(kept, _)| *kept);
        at.is_ok_and(|at| self.here[at].1.is_large())
    }

    /// Requests from that sequence number on are not sent any more.
    pub(super) fn forget_from(&mut self, sequence: u64) {
        self.waiting.retain(|request| request.ticket.sequence < sequence);
    }

    /// The slot of the request that is to be sent next. What came before it and is under way at this node may turn out not to be made, and
    /// is then to be sent before it. What came behind it and is under way elsewhere may be made, and it is then not to be.
    pub(super) fn next_slot(&self) -> Option<Slot> {
        let next = self.waiting.front()?.ticket;
        let is_first = self.here.front().is_none_or(|(sequence, _)| *sequence > next.sequence);
        let is_overtaken = self.upstreams.iter().any(|upstream| upstream.is_behind(next.sequence));
        (is_first && !is_overtaken).then_some(next.slot)
    }

    /// Takes out a request about keys of that slot that waits, though one of a later number is answered: made now, it would be made
    /// behind that one.
    pub(super) fn take_overtaken(&mut self, answered: &Ticket) -> Option<Forwarded> {
        let is_overtaken =
            |request: &Forwarded| request.ticket.sequence < answered.sequence && request.ticket.slot == answered.slot;
        let at = self.waiting.iter().position(is_overtaken)?;
        self.waiting.remove(at)
    }

    /// Whether it is not known yet if another node has taken keys in that the client watches.
    pub(super) fn begins_to_watch(&self) -> bool {
        self.waiting.iter().any(|request| request.deed == Deed::Watch)
            || self.upstreams.iter().any(Upstream::begins_to_watch)
    }

    /// Takes out the request that is to be sent next.
    pub(super) fn take_next(&mut self) -> Option<Forwarded> {
        self.waiting.pop_front()
    }

    /// Takes out a request that has waited for too long.
    pub(super) fn take_late(&mut self, now_us: u64) -> Option<Forwarded> {
        self.waiting.pop_front_if(|request| request.until_us <= now_us)
    }

    /// Whether requests are under way at another node than this one.
    pub(super) fn is_busy_elsewhere(&self, node: NodeId) -> bool {
        self.upstreams.iter().any(|upstream| upstream.node != node && upstream.is_busy())
    }

    /// The connection to a node, if there is one.
    pub(super) fn to(&mut self, node: NodeId) -> Option<&mut Upstream> {
        self.upstreams.iter_mut().find(|upstream| upstream.node == node)
    }

    /// The nodes that there are connections to.
    pub(super) fn nodes(&self) -> Vec<NodeId> {
        self.upstreams.iter().map(|upstream| upstream.node).collect()
    }

    /// The connection of that place.
    pub(super) fn at(&mut self, place: usize) -> Option<&mut Upstream> {
        self.upstreams.iter_mut().find(|upstream| upstream.place == place)
    }

    /// At which node the client waits in its blocking command, and as which client it is known there.
    pub(super) fn waits_at(&self) -> Option<(NodeId, u64)> {
        let upstream = self.upstreams.iter().find(|upstream| upstream.is_busy())?;
        Some((upstream.node, upstream.id()?))
    }

    /// Begins a connection.
    pub(super) fn begin(&mut self, node: NodeId, place: usize, durability: Durability) {
        self.upstreams.push(Upstream::new(node, place, durability));
    }

    /// Takes a connection out, which is over.
    pub(super) fn remove(&mut self, place: usize) -> Option<Upstream> {
        let at = self.upstreams.iter().position(|upstream| upstream.place == place)?;
        let upstream = self.upstreams.swap_remove(at);
        if self.watches == Watches::At(upstream.node) {
            self.watches = Watches::Lost;
        }
        self.early.values_mut().filter(|at| **at == Some(upstream.node)).for_each(|at| *at = None);
        self.written.retain(|_, at| *at != upstream.node);
        Some(upstream)
    }

    /// A node has answered a write before it was committed.
    pub(super) fn note_early(&mut self, slot: Slot, node: NodeId) {
        self.early.insert(slot, Some(node));
    }

    /// The last write to that slot that was answered before it was committed is known to this node.
    pub(super) fn early_is_here(&mut self, slot: Slot) {
        self.early.remove(&slot);
    }

    /// Whether it is known to another node, if to any.
    pub(super) fn early_is_elsewhere(&self, slot: Slot) -> bool {
        self.early.contains_key(&slot)
    }

    /// Whether that node may say who holds what was written to that slot.
    pub(super) fn knows_early(&self, slot: Slot, node: NodeId) -> bool {
        self.early.get(&slot).is_none_or(|at| *at == Some(node))
    }

    /// A node has answered the last write to a slot, and noted which entry it is in.
    pub(super) fn note_written(&mut self, slot: Slot, node: NodeId) {
        self.written.insert(slot, node);
    }

    /// This node has answered the last write to a slot.
    pub(super) fn wrote_here(&mut self, slot: Slot) {
        self.written.remove(&slot);
    }

    /// The last write to any slot may have been answered here.
    pub(super) fn wrote_anywhere(&mut self) {
        self.written.clear();
    }

    /// Whether that node may say who holds what was written to that slot: it has answered the last write, or none, and counts all that it
    /// leads then.
    pub(super) fn knows_written(&self, slot: Slot, node: NodeId) -> bool {
        let has_noted = |upstream: &Upstream| upstream.node == node && upstream.has_written();
        self.written.get(&slot) == Some(&node) || !self.upstreams.iter().any(has_noted)
    }

    /// Nothing is watched any more.
    pub(super) fn unwatch(&mut self) {
        if let Watches::At(node) = std::mem::take(&mut self.watches)
            && let Some(upstream) = self.to(node)
        {
            upstream.send_aside(&[b"UNWATCH"]);
        }
    }
}
