//! The sender of a request, and whether it has the right.

use crate::api::admin::AdminError;
use crate::shared::NodeShared;
use node::acl::{AuditEvent, AuditKind, User, audited, without_arguments};
use node::session::Host as _;
use resp::table;
use std::net::IpAddr;
use std::sync::Arc;

/// A user, and its address.
pub(super) struct Asker {
    pub(super) user: Arc<User>,
    pub(super) from: Option<IpAddr>,
}

impl Asker {
    /// Why the user may not send such a request, if it may not. What is no command is refused by who answers it.
    pub(super) fn refusal(&self, store: &NodeShared, request: &[&str]) -> Option<String> {
        let args: Vec<&[u8]> = request.iter().map(|word| word.as_bytes()).collect();
        let spec = table::find(&args)?;
        let text = self.user.denies(spec, &args, 0)?.text();
        self.audit(store, AuditKind::Denied, spec.shown_name(), Some(text.clone()));
        Some(text)
    }

    /// The audit log gets a request that was carried out, or has failed.
    pub(super) fn note(&self, store: &NodeShared, request: &[&str], error: Option<&AdminError>) {
        let args: Vec<&[u8]> = request.iter().map(|word| word.as_bytes()).collect();
        if let Some((kind, what)) = table::find(&args).and_then(|spec| audited(spec, &args)) {
            let why = error.map(|error| without_arguments(error.reply().into(), &args).into_owned());
            self.audit(store, kind, what, why);
        }
    }

    fn audit(&self, store: &NodeShared, kind: AuditKind, what: String, refusal: Option<String>) {
        store.audit(&AuditEvent {
            kind,
            user: (&**self.user.name()).into(),
            address: self.from.map(|from| from.to_string()).unwrap_or_default().into(),
            what: what.into(),
            refusal: refusal.map(Into::into),
        });
    }
}
