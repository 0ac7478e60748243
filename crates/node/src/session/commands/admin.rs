//! KV.ADMIN: what an operator asks of the store as a whole.

use super::{Ask, Outcome, SessionHandler};
use crate::session::Effect;

pub(super) fn handler(name: &str) -> Option<SessionHandler> {
    (name == "KV.ADMIN|INIT").then_some(init as SessionHandler)
}

fn init(ask: &mut Ask<'_>) -> Outcome {
    let said = ask.host.ask_init().map_err(|why| format!("ERR {why}"))?;
    ask.reply.simple(&said);
    Ok(Effect::None)
}
