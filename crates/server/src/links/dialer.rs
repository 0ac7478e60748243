//! The nodes that this one calls: their addresses, when a call is due, how calls end, and what is logged about them.

use super::complaints::{Complaint, Complaints};
use super::contacts::Contacts;
use super::link::End;
use super::refusal::RefusalKind;
use super::resolver::{Found, Resolver};
use crate::os::random;
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;
use vocab::NodeId;

/// A call that is due.
pub(super) struct Call {
    pub(super) contact: u64,
    /// The address as it was given.
    pub(super) name: String,
    /// How many calls in a row have failed.
    pub(super) failures: u32,
    /// The only node that may answer.
    pub(super) expected: Option<NodeId>,
    /// Where to call, or why that is not known.
    pub(super) address: Result<SocketAddr, String>,
}

/// A connection that has ended.
pub(super) struct Ended<'a> {
    pub(super) contact: Option<u64>,
    pub(super) address: SocketAddr,
    /// The node at the other end, if it had said which it is.
    pub(super) met: Option<NodeId>,
    /// Whether it was the link to that node.
    pub(super) was_up: bool,
    pub(super) end: &'a End,
}

/// Calls the nodes that this one knows, when a call is due.
pub(super) struct Dialer {
    contacts: Contacts,
    resolver: Resolver,
    complaints: Complaints,
    /// When the next call is due, if it was asked since something changed: an event loop asks in each turn. Which links are
    /// up changes with what `answered` and `ended` are told.
    next_due: Cell<Option<Option<Instant>>>,
}

impl Dialer {
    pub(super) fn new(me: NodeId) -> Self {
        Self {
            contacts: Contacts::new(me, u64::from_le_bytes(random())),
            resolver: Resolver::new(),
            complaints: Complaints::default(),
            next_due: Cell::default(),
        }
    }

    /// Calls `address` from now on.
    pub(super) fn dial(&mut self, address: &str, now: Instant) {
        self.next_due.set(None);
        self.contacts.dial(address, now);
    }

    /// Calls a node from now on, at `address`.
    pub(super) fn know(&mut self, node: NodeId, address: &str, now: Instant) {
        self.next_due.set(None);
        self.contacts.know(node, address, now);
    }

    /// Stops calling a node.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.next_due.set(None);
        self.contacts.forget(node);
    }

    /// The calls to make now. Each counts as under way until it is `failed`, or its connection has `ended`.
    pub(super) fn due(&mut self, now: Instant, linked: impl Fn(NodeId) -> bool) -> Vec<Call> {
        self.next_due.set(None);
        let mut calls = Vec::new();
        for id in self.contacts.due(now, linked) {
            let found = self.contacts.get(id).and_then(|contact| self.resolver.find(id, &contact.address));
            calls.extend(found.and_then(|found| self.call(id, found)));
        }
        while let Some((id, found)) = self.resolver.next() {
            calls.extend(self.call(id, found));
        }
        calls
    }

    fn call(&self, id: u64, found: Found) -> Option<Call> {
        let contact = self.contacts.get(id)?;
        // The next address with each failure.
        let address = found.and_then(|addresses| {
            let next = (contact.failures as usize).checked_rem(addresses.len()).map(|at| addresses[at]);
            next.ok_or_else(|| "the name has no address".to_owned())
        });
        let expected = contact.node.filter(|_| contact.known);
        Some(Call { contact: id, name: contact.address.clone(), failures: contact.failures, expected, address })
    }

    /// When the next call is due.
    pub(super) fn next_due(&self, linked: impl Fn(NodeId) -> bool) -> Option<Instant> {
        if let Some(known) = self.next_due.get() {
            return known;
        }
        let next = self.contacts.next(linked);
        self.next_due.set(Some(next));
        next
    }

    /// A call could not be made.
    pub(super) fn failed(&mut self, call: &Call, why: &str, now: Instant) {
        self.next_due.set(None);
        let Call { contact, name, .. } = call;
        self.complain(name, Complaint::Silence, &format!("cannot call the node at {name}: {why}"));
        self.contacts.failed(*contact, None, now);
    }

    /// A node has proven who it is.
    pub(super) fn answered(&mut self, contact: Option<u64>, address: IpAddr, node: NodeId) {
        self.next_due.set(None);
        self.complaints.settle(&address.to_string());
        let Some(id) = contact else { return };
        self.contacts.answered(id, node);
        if let Some(contact) = self.contacts.get(id) {
            self.complaints.settle(&contact.address);
        }
    }

    /// A connection has ended: logs that and settles when the node is called again. Answers how the node is named in
    /// the log.
    pub(super) fn ended(&mut self, ended: &Ended<'_>, now: Instant) -> String {
        self.next_due.set(None);
        let Ended { contact, address, met, was_up, end } = *ended;
        let about = contact.and_then(|id| self.contacts.get(id)).map(|contact| contact.address.clone());
        let about = about.unwrap_or_else(|| address.ip().to_string());
        self.log_end(&about, contact.is_some(), met.filter(|_| was_up), end);
        if let Some(id) = contact {
            match end {
                End::Refuse(refusal) | End::Refused(refusal) if refusal.kind == RefusalKind::Myself => {
                    log::info!("{about} is this node's own address");
                    self.contacts.remove(id);
                }
                _ if was_up => self.contacts.ended(id, now),
                _ => self.contacts.failed(id, met, now),
            }
        }
        if let Some(node) = met.filter(|_| was_up) {
            self.contacts.parted(node, now);
        }
        about
    }

    /// `is_call`: this node has called. `up`: the node that the link was to.
    fn log_end(&mut self, about: &str, is_call: bool, up: Option<NodeId>, end: &End) {
        let who = up.map_or_else(|| format!("the node at {about}"), |node| format!("node {node} at {about}"));
        match end {
            End::Replaced | End::Forgotten => {}
            End::Plain => log::info!("{who} is called again, with TLS"),
            End::Refuse(refusal) | End::Refused(refusal)
                if matches!(refusal.kind, RefusalKind::Linked | RefusalKind::Myself) => {}
            End::Refuse(refusal) => {
                self.complain(about, Complaint::Refusal(refusal.kind), &format!("refused {who}: {refusal}"));
            }
            End::Refused(refusal) => {
                self.complain(about, Complaint::Refusal(refusal.kind), &format!("{who} refuses: {refusal}"));
            }
            End::Garbage(what) => {
                self.complain(about, Complaint::Garbage, &format!("{who} sends what makes no sense: {what}"));
            }
            End::Closed if up.is_some() => log::info!("{who} has closed the link"),
            End::Failed(e) if up.is_some() => log::info!("the link to {who} is lost: {e}"),
            End::Silent if up.is_some() => log::warn!("{who} is silent; the link is closed"),
            End::Closed => self.complain(about, Complaint::Silence, &format!("{who} closes the connection")),
            End::Failed(e) if is_call => self.complain(about, Complaint::Silence, &format!("cannot call {who}: {e}")),
            End::Failed(e) => {
                self.complain(about, Complaint::Silence, &format!("what calls this node from {about} fails: {e}"));
            }
            End::Silent => self.complain(about, Complaint::Silence, &format!("{who} does not answer")),
        }
    }

    /// Logs a complaint that was not logged since the node last proved who it is.
    pub(super) fn complain(&mut self, about: &str, complaint: Complaint, text: &str) {
        if self.complaints.is_new(about, complaint) {
            log::warn!("{text}");
        }
    }

    #[cfg(test)]
    pub(super) fn complaints(&self) -> impl Iterator<Item = Complaint> + '_ {
        self.complaints.all()
    }

    /// Consecutive failed calls of the contact that came first; `None` if it is gone.
    #[cfg(test)]
    pub(super) fn failures(&self) -> Option<u32> {
        self.contacts.get(0).map(|contact| contact.failures)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::refusal::Refusal;
    use super::*;
    use std::time::Duration;

    const THERE: &str = "127.0.0.1:7";

    fn called(now: Instant) -> Dialer {
        let mut dialer = Dialer::new(NodeId(5));
        dialer.dial(THERE, now);
        let calls = dialer.due(now, |_| false);
        assert_eq!(calls.iter().map(|call| call.address.clone()).collect::<Vec<_>>(), [Ok(THERE.parse().unwrap())]);
        dialer
    }

    /// What the end of a call does: whether the contact is kept, its failures, and what was complained about.
    #[test]
    fn each_end_of_a_call_settles_when_the_next_is_due() {
        let silent = || End::Silent;
        let refused = |kind| move || End::Refused(Refusal::new(kind, "no"));
        type Case<'a> = (&'a dyn Fn() -> End, bool, Option<u32>, &'a [Complaint]);
        let store = RefusalKind::Store;
        let cases: [Case<'_>; 7] = [
            (&silent, false, Some(1), &[Complaint::Silence]),
            (&silent, true, Some(0), &[]),
            (&|| End::Garbage("x"), true, Some(0), &[Complaint::Garbage]),
            (&|| End::Replaced, false, Some(1), &[]),
            (&refused(RefusalKind::Myself), false, None, &[]),
            (&refused(RefusalKind::Linked), false, Some(1), &[]),
            (&refused(store), false, Some(1), &[Complaint::Refusal(store)]),
        ];
        for (end, was_up, failures, complaints) in cases {
            let (now, end) = (Instant::now(), end());
            let mut dialer = called(now);
            let address = THERE.parse().unwrap();
            let ended = Ended { contact: Some(0), address, met: Some(NodeId(9)), was_up, end: &end };
            assert_eq!(dialer.ended(&ended, now), THERE);
            assert_eq!(dialer.failures(), failures, "{end:?}");
            assert_eq!(dialer.complaints().collect::<Vec<_>>(), complaints, "{end:?}");
            let again = dialer.next_due(|_| false);
            assert_eq!(again.is_some_and(|again| again > now), failures.is_some(), "{end:?}");
        }
    }

    #[test]
    fn a_name_with_several_addresses_is_called_at_each_in_turn() {
        let mut now = Instant::now();
        let mut dialer = Dialer::new(NodeId(5));
        dialer.dial("not-yet-known:1", now);
        let addresses: Vec<SocketAddr> = vec!["10.0.0.1:1".parse().unwrap(), "10.0.0.2:1".parse().unwrap()];
        let mut tried = Vec::new();
        for _ in 0..3 {
            dialer.contacts.due(now, |_| false);
            let call = dialer.call(0, Ok(addresses.clone())).expect("the contact is there");
            dialer.failed(&call, "no", now);
            tried.push(call.address.unwrap());
            now += Duration::from_secs(2);
        }
        assert_eq!(tried, [addresses[0], addresses[1], addresses[0]]);
        let none = dialer.call(0, Ok(Vec::new())).expect("the contact is there");
        assert_eq!(none.address, Err("the name has no address".to_owned()));
    }
}
