//! KV.ADMIN: what an operator asks of the store as a whole.

use super::ask::{Ask, Outcome, Row};
use crate::session::Effect;

pub(super) const ROWS: &[Row] = &[("KV.ADMIN|INIT", init)];

fn init(ask: &mut Ask<'_>) -> Outcome {
    let said = ask.host.ask_init().map_err(|why| format!("ERR {why}"))?;
    ask.reply.simple(&said);
    Ok(Effect::None)
}
