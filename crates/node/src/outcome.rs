//! What an error says of the request that it answers. A node that passes an answer on knows it again by its first words, as
//! other releases send them too.

/// A client waited for keys of a shard that no node leads now: it was not served.
pub(crate) const NO_LEADER: &str =
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
/// A write has come to a shard that has its slot no more.
pub(crate) const SLOT_GONE: &str = "TRYAGAIN the slot is another shard's now: nothing was written";
/// Too many writes wait for scripts of a shard that take long.
pub(crate) const SCRIPTS_WAIT: &str = "BUSY too many scripts wait for their turn in this shard, which runs them slowly, try again later: nothing was written";
/// A write was not confirmed.
pub const UNCONFIRMED: &str = "TIMEOUT the write was not confirmed in time: it may be made later, or never";
/// The replica that was to make a write goes.
pub(crate) const REPLICA_GONE: &str =
    "TIMEOUT the write may have been made or not: this node has given its replica of the shard up";
/// A replica has what its entries would have written, and not the entries.
pub(crate) const ROWS_ARRIVED: &str =
    "TIMEOUT the write may have been made or not: this node stopped leading, and was sent rows instead of entries";
/// What the errors begin with that say why the outcome is unknown.
pub const UNKNOWN: &str = "ERR the outcome of this write is unknown";
/// What the errors begin with that say why nothing was written.
pub(crate) const NOT_WRITTEN: &str = "ERR not written";

/// A database has as many keys as it may have.
pub(crate) const KEYS_MAX_REACHED: &str =
    "OOM the database has as many keys as it may ('keys-max' of `ctl database set`).";

/// What the errors begin with that say that a write was made.
const MADE: &str = "NOREPLICAS the write is made";
const NOT_MADE: [&str; 5] = ["MOVED ", "CLUSTERDOWN ", SLOT_GONE, NO_LEADER, NOT_WRITTEN];
const MAYBE_MADE: [&str; 3] = [UNKNOWN, "TIMEOUT the write ", Outcome::BROKEN_WAIT];

/// What has become of a request that is answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was not made, because the node does not serve its slot: one that does can make it.
    NotMade,
    /// It may have been made or not, or may be made yet.
    Unknown,
}

impl Outcome {
    /// The text of an error: the node that a write was sent to has broken off.
    pub const BROKEN_WRITE: &str =
        "ERR the outcome of this write is unknown: the node that led the shard has broken off";
    /// The same where a client waited.
    pub const BROKEN_WAIT: &str =
        "UNBLOCKED the node that led the shard has broken off: whether this client was served is unknown";

    /// What an encoded answer says of its request, if it is an error that says anything.
    #[must_use]
    pub fn of_answer(reply: &[u8]) -> Option<Self> {
        Self::of_text(reply.strip_prefix(b"-")?)
    }

    /// Whether the text of an error says that the request was made: it is on a majority, and not yet on as many replicas as asked for.
    #[must_use]
    pub fn is_made(text: &[u8]) -> bool {
        text.starts_with(MADE.as_bytes())
    }

    /// The text of an error that a script has chosen. What it says is no word of this store's about the request: a script that has written
    /// is not to be run again for it.
    pub(crate) fn chosen_text(mut text: Vec<u8>) -> Vec<u8> {
        // As it is sent.
        text.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
        if Self::of_text(&text).is_none() { text } else { [b"ERR script: ", &*text].concat() }
    }

    /// What the text of an error says of its request, if anything.
    #[must_use]
    pub fn of_text(text: &[u8]) -> Option<Self> {
        let is_one = |texts: &[&str]| texts.iter().any(|start| text.starts_with(start.as_bytes()));
        match (is_one(&NOT_MADE), is_one(&MAYBE_MADE)) {
            (true, _) => Some(Self::NotMade),
            (_, true) => Some(Self::Unknown),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_has_become_of_the_request() {
        let (not_made, unknown) = (Some(Outcome::NotMade), Some(Outcome::Unknown));
        for (text, expected) in [
            ("MOVED 7 127.0.0.1:7001", not_made),
            ("CLUSTERDOWN The cluster is down: no leader of the shard is known", not_made),
            ("ERR not written: the disk is full", not_made),
            (SLOT_GONE, not_made),
            (NO_LEADER, not_made),
            (UNCONFIRMED, unknown),
            (REPLICA_GONE, unknown),
            (ROWS_ARRIVED, unknown),
            (Outcome::BROKEN_WRITE, unknown),
            (Outcome::BROKEN_WAIT, unknown),
            ("ERR the outcome of this write is unknown: writes are refused", unknown),
            // The write is made; the client is told how far it has come.
            ("NOREPLICAS the write is made and on a majority, but not all replicas had it in time", None),
            ("UNBLOCKED client unblocked via CLIENT UNBLOCK", None),
            ("TRYAGAIN the database is asked more often than it may be ('ops-max' of `ctl database set`).", None),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", None),
            ("", None),
        ] {
            assert_eq!(Outcome::of_answer(format!("-{text}\r\n").as_bytes()), expected, "{text}");
        }
        assert_eq!(Outcome::of_answer(b"+MOVED 7\r\n"), None, "a value");
        for (text, expected) in [
            ("MOVED 1 x", "ERR script: MOVED 1 x"),
            ("MOVED\n1 x", "ERR script: MOVED 1 x"),
            ("MOVE on", "MOVE on"),
            ("", ""),
        ] {
            assert_eq!(Outcome::chosen_text(text.into()), expected.as_bytes());
        }
        assert_eq!(Outcome::of_answer(b""), None);
    }
}
