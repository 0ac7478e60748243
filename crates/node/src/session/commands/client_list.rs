//! CLIENT LIST and CLIENT INFO.

use super::ask::{Ask, Outcome, Refusal, SYNTAX, is_word, shown};
use crate::session::{ClientEntry, Effect};
use resp::parse_integer;
use std::sync::Arc;

/// The type of a client, as CLIENT LIST and CLIENT KILL name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientType {
    Normal,
    /// It has subscribed to something.
    PubSub,
    /// There are none.
    Other,
}

impl ClientType {
    /// Whether a client is of this type.
    pub(super) fn fits(self, client: &ClientEntry) -> bool {
        match self {
            Self::Normal => !client.is_subscriber(),
            Self::PubSub => client.is_subscriber(),
            Self::Other => false,
        }
    }
}

/// The type of that name.
pub(super) fn client_type(kind: &[u8]) -> Result<ClientType, Refusal> {
    match kind {
        _ if is_word(kind, "NORMAL") => Ok(ClientType::Normal),
        _ if is_word(kind, "PUBSUB") => Ok(ClientType::PubSub),
        _ if ["MASTER", "REPLICA", "SLAVE"].iter().any(|word| is_word(kind, word)) => Ok(ClientType::Other),
        _ => Err(format!("ERR Unknown client type '{}'", shown(kind)).into()),
    }
}

pub(super) fn info(ask: &mut Ask<'_>) -> Outcome {
    write(ask, &[ask.session.entry().clone()])
}

pub(super) fn list(ask: &mut Ask<'_>) -> Outcome {
    let clients = ask.host.clients();
    let chosen: Vec<Arc<ClientEntry>> = match &ask.args[2..] {
        [] => clients.all(),
        [option, kind] if is_word(option, "TYPE") => {
            let kind = client_type(kind)?;
            clients.all().into_iter().filter(|client| kind.fits(client)).collect()
        }
        [option, ids @ ..] if is_word(option, "ID") && !ids.is_empty() => {
            let ids: Option<Vec<u64>> =
                ids.iter().map(|id| parse_integer(id).and_then(|id| u64::try_from(id).ok())).collect();
            let ids = ids.ok_or("ERR Invalid client ID")?;
            ids.into_iter().filter_map(|id| clients.get(id)).collect()
        }
        _ => return Err(SYNTAX),
    };
    write(ask, &chosen)
}

fn write(ask: &mut Ask<'_>, clients: &[Arc<ClientEntry>]) -> Outcome {
    let now_ms = ask.now_ms();
    ask.session.entry().set_query_bytes(request_bytes(ask.args));
    let text: String = clients.iter().map(|client| client.line(now_ms) + "\n").collect();
    ask.reply.verbatim(&text);
    Ok(Effect::None)
}

/// How many bytes a request takes, as libraries send it.
fn request_bytes(args: &[&[u8]]) -> u64 {
    let number = |count: usize| count.to_string().len() + 3;
    (number(args.len()) + args.iter().map(|arg| number(arg.len()) + arg.len() + 2).sum::<usize>()) as u64
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_request_is_as_long_as_on_the_wire() {
        let wire = "*2\r\n$6\r\nclient\r\n$4\r\nlist\r\n";
        assert_eq!(super::request_bytes(&[b"client", b"list"]), wire.len() as u64);
        assert_eq!(super::request_bytes(&[&[b'x'; 12]]), "*1\r\n$12\r\nxxxxxxxxxxxx\r\n".len() as u64);
    }
}
