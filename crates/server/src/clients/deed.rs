//! What the audit log is told of a request of an operator that the pool runs.

use super::connection::Connection;
use super::request::Request;
use crate::shared::NodeShared;
use node::acl::{AuditEvent, AuditKind, audited, refusal_of};
use node::session::Host as _;
use resp::Reply;
use std::sync::Arc;

/// A request of an operator, and who has made it.
pub(super) struct Deed {
    kind: AuditKind,
    what: String,
    user: Arc<str>,
    address: String,
}

impl Deed {
    /// Of a request that the log has; none if it has not.
    pub(super) fn of(connection: &Connection, request: Request<'_>) -> Option<Self> {
        let (kind, what) = audited(request.spec, request.args)?;
        let session = &connection.session;
        Some(Self { kind, what, user: session.user().name().clone(), address: session.entry().addr.clone() })
    }

    /// It has been answered.
    pub(super) fn note(self, store: &NodeShared, reply: &Reply) {
        store.audit(&AuditEvent {
            kind: self.kind,
            user: (&*self.user).into(),
            address: self.address.into(),
            what: self.what.into(),
            refusal: refusal_of(&reply.buf),
        });
    }
}
