//! The audit log's line about an operator's request that the pool runs.

use crate::shared::NodeShared;
use node::acl::{AuditEvent, AuditKind, audited, refusal_of};
use node::session::{Host as _, Session};
use resp::Reply;
use resp::table::CommandSpec;
use std::sync::Arc;

/// A request of an operator, and who has made it.
pub(super) struct Deed {
    kind: AuditKind,
    what: String,
    /// The arguments, for its error may repeat some.
    args: Vec<Box<[u8]>>,
    user: Arc<str>,
    address: String,
}

impl Deed {
    /// Of a request that the log has; none if it has not.
    pub(super) fn of(session: &Session, spec: &CommandSpec, args: &[&[u8]]) -> Option<Self> {
        let (kind, what) = audited(spec, args)?;
        let args = args.iter().map(|arg| Box::from(*arg)).collect();
        Some(Self { kind, what, args, user: session.user().name().clone(), address: session.entry().addr.clone() })
    }

    /// It has been answered.
    pub(super) fn note(self, store: &NodeShared, reply: &Reply) {
        let args: Vec<&[u8]> = self.args.iter().map(|arg| &**arg).collect();
        store.audit(&AuditEvent {
            kind: self.kind,
            user: (&*self.user).into(),
            address: self.address.into(),
            what: self.what.into(),
            refusal: refusal_of(&reply.buf, &args),
        });
    }
}
