//! CONFIG SET of a setting that holds for the whole store.

use crate::api::admin::admin;
use crate::shared::NodeShared;
use node::Ticket;
use resp::Reply;
use std::sync::Arc;

/// A reply that is sent once the store has the setting.
pub(super) struct HeldReply {
    pub(super) ticket: Ticket,
    pub(super) reply: Vec<u8>,
}

/// Gives all nodes the value that this node has of a setting. A thread of the pool waits for that, and sends the reply.
pub(super) fn set_for_store(store: &Arc<NodeShared>, setting: &'static str, held: Option<HeldReply>) {
    let of_job = store.clone();
    store.pool.run_patient(Box::new(move || {
        let value = of_job.config.text(setting).unwrap_or_default();
        let outcome = admin(&of_job, &["SETTINGS", "SET", setting, &value]);
        if let Err(error) = &outcome {
            log::warn!("{setting} is set on this node alone: {}", error.text());
        }
        let Some(HeldReply { ticket, reply }) = held else { return };
        let reply = match outcome {
            Ok(_) => reply,
            Err(error) => {
                let mut refusal = Reply::new(ticket.proto);
                refusal.error(&format!("ERR {setting} is set on this node alone: {}", error.text()));
                refusal.buf
            }
        };
        of_job.mailboxes.answer(ticket, reply);
    }));
}
