//! What an operator is answered: JSON, or why the request was not done.

use node::Outcome;
use serde_json::Value;

/// The answer to a request of an operator.
pub(crate) type Answer = Result<Value, AdminError>;

/// Why a request was not done; each is one code of error replies and one status of HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdminError {
    /// It is written wrongly.
    Usage(String),
    /// What it names is not there.
    NotFound(String),
    /// The store does not do that as it is.
    Refused(String),
    /// What it goes by has changed meanwhile: nothing was done.
    Stale(String),
    /// Who would have to answer cannot be reached, now.
    Unavailable(String),
    /// It may be done or not, or later: the text of an error reply, with its code.
    Unknown(String),
    /// Something failed.
    Failed(String),
}

impl AdminError {
    /// The code that its error reply begins with, and the status of HTTP.
    pub(crate) fn code(&self) -> (&'static str, u16) {
        match self {
            Self::Usage(_) => ("USAGE", 400),
            Self::NotFound(_) => ("NOTFOUND", 404),
            Self::Refused(_) => ("REFUSED", 409),
            Self::Stale(_) => ("STALE", 409),
            Self::Unavailable(_) => ("CLUSTERDOWN", 503),
            Self::Unknown(_) | Self::Failed(_) => ("ERR", 500),
        }
    }

    pub(crate) fn text(&self) -> &str {
        let (Self::Usage(text)
        | Self::NotFound(text)
        | Self::Refused(text)
        | Self::Stale(text)
        | Self::Unavailable(text)
        | Self::Unknown(text)
        | Self::Failed(text)) = self;
        text
    }

    /// The error reply, without its first byte and its end.
    pub(crate) fn reply(&self) -> String {
        match self {
            Self::Unknown(text) => text.clone(),
            _ => format!("{} {}", self.code().0, self.text()),
        }
    }

    /// From an error reply of another node.
    pub(crate) fn of_reply(reply: &str) -> Self {
        if Outcome::of_text(reply.as_bytes()) == Some(Outcome::Unknown) {
            return Self::Unknown(reply.to_owned());
        }
        let (code, text) = reply.split_once(' ').unwrap_or(("ERR", reply));
        let text = text.to_owned();
        match code {
            "USAGE" => Self::Usage(text),
            "NOTFOUND" => Self::NotFound(text),
            "REFUSED" => Self::Refused(text),
            "STALE" => Self::Stale(text),
            "CLUSTERDOWN" | "MOVED" => Self::Unavailable(text),
            _ => Self::Failed(text),
        }
    }
}

/// What another node has answered.
pub(crate) fn decode(frame: &[u8]) -> Answer {
    let wrong = || AdminError::Failed("another node's answer cannot be read".to_owned());
    match resp::decode(frame) {
        Ok(Some((resp::Value::Bulk(text), _))) => serde_json::from_slice(&text).map_err(|_| wrong()),
        Ok(Some((resp::Value::Error(text), _))) => Err(AdminError::of_reply(&text)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_survives_the_way_between_nodes() {
        for error in [
            AdminError::Usage("a b".to_owned()),
            AdminError::NotFound("a".to_owned()),
            AdminError::Refused("a".to_owned()),
            AdminError::Stale("a".to_owned()),
            AdminError::Unknown(format!("{}: a", node::OUTCOME_UNKNOWN)),
            AdminError::Unavailable("a".to_owned()),
            AdminError::Failed("a".to_owned()),
        ] {
            assert_eq!(AdminError::of_reply(&error.reply()), error);
        }
        assert_eq!(AdminError::of_reply("odd"), AdminError::Failed("odd".to_owned()));
    }
}
