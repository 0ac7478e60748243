//! The state of one connection.

use super::clients::{ClientEntry, state};
use super::{Host, Queue};
use resp::Proto;
use std::sync::Arc;

/// Whether a connection is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ReplyMode {
    #[default]
    On,
    Off,
    /// Not this one: what CLIENT REPLY SKIP leaves for the next request.
    SkipNext,
}

/// One connection, without its socket.
#[derive(Debug)]
pub struct Session {
    pub(super) entry: Arc<ClientEntry>,
    pub(super) proto: Proto,
    pub(super) authenticated: bool,
    pub(super) readonly: bool,
    pub(super) reply_mode: ReplyMode,
    /// What `reply_mode` was before the request that was admitted last.
    pub(super) mode_before: ReplyMode,
    /// The request that was admitted last is not to be answered.
    pub(super) silent: bool,
    pub(super) closing: bool,
    /// The transaction under way.
    pub(super) multi: Option<Queue>,
    /// Watched keys and the versions they had.
    pub(super) watches: Vec<(Vec<u8>, u64)>,
}

impl Session {
    /// The session of a connection that has been entered with `Clients::connect`.
    #[must_use]
    pub fn new(entry: Arc<ClientEntry>, host: &dyn Host) -> Self {
        Self {
            entry,
            proto: Proto::Resp2,
            authenticated: !host.config().password_required(),
            readonly: false,
            reply_mode: ReplyMode::On,
            mode_before: ReplyMode::On,
            silent: false,
            closing: false,
            multi: None,
            watches: Vec::new(),
        }
    }

    /// What others see of it.
    #[must_use]
    pub fn entry(&self) -> &Arc<ClientEntry> {
        &self.entry
    }

    /// The protocol version for its replies.
    #[must_use]
    pub fn proto(&self) -> Proto {
        self.proto
    }

    /// Whether it may send commands: chooses the limits of the parser (`Config::request_limits`).
    #[must_use]
    pub fn authenticated(&self, host: &dyn Host) -> bool {
        self.authenticated || !host.config().password_required()
    }

    /// Whether any replica may answer its reads: READONLY.
    #[must_use]
    pub fn readonly(&self) -> bool {
        self.readonly
    }

    /// Whether the reply to the request that was admitted last is to be thrown away.
    #[must_use]
    pub fn silent(&self) -> bool {
        self.silent
    }

    /// Forgets that a request was admitted as `Execute`, `ExecuteAt` or `Watch`: it could not begin, and will be
    /// admitted again.
    pub fn put_back(&mut self) {
        self.reply_mode = self.mode_before;
        self.entry.put_back();
    }

    /// Whether the connection ends when what has been written is sent.
    #[must_use]
    pub fn closing(&self) -> bool {
        self.closing || self.entry.killed()
    }

    /// Ends the connection when what has been written is sent.
    pub fn close(&mut self) {
        self.closing = true;
        self.entry.set(state::CLOSING, true);
    }

    /// The client has sent something. Once for each read from the socket is enough.
    pub fn active(&mut self, now_ms: u64) {
        self.entry.active(now_ms);
    }

    /// Tells CLIENT LIST how many bytes wait to be parsed and to be sent.
    pub fn buffers(&mut self, query_bytes: usize, output_bytes: usize) {
        self.entry.set_buffers(query_bytes, output_bytes);
    }

    /// Whether it has been idle for longer than the `timeout` setting allows.
    #[must_use]
    pub fn timed_out(&self, host: &dyn Host, now_ms: u64) -> bool {
        let timeout_ms = host.config().idle_timeout_ms();
        timeout_ms > 0 && now_ms.saturating_sub(self.entry.last_active_ms()) > timeout_ms
    }

    /// The version that a key, handed out by `Admission::Watch`, has now; 0 if it is not there.
    pub fn watching(&mut self, key: &[u8], version: u64) {
        // The first version counts: a key watched twice must not have been written in between either.
        if !self.watches.iter().any(|(watched, _)| watched == key) {
            self.watches.push((key.to_vec(), version));
        }
    }

    pub(super) fn unwatch(&mut self) {
        self.watches = Vec::new();
    }

    pub(super) fn leave_multi(&mut self) -> Option<Queue> {
        self.entry.set(state::MULTI, false);
        self.entry.set_queued(None);
        self.multi.take()
    }

    pub(super) fn set_proto(&mut self, proto: Proto) {
        self.proto = proto;
        self.entry.set(state::RESP3, proto == Proto::Resp3);
    }

    pub(super) fn set_readonly(&mut self, readonly: bool) {
        self.readonly = readonly;
        self.entry.set(state::READONLY, readonly);
    }

    /// Checks what must always hold; for tests and simulation.
    pub fn validate(&self) {
        assert_eq!(self.multi.is_some(), self.entry.has(state::MULTI), "CLIENT LIST shows whether there is a MULTI");
        assert_eq!(self.proto, self.entry.proto(), "CLIENT LIST shows the protocol");
    }
}
