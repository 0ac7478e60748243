//! Which requests run, which are queued, and which are refused.

use super::commands::{self, Ask, Role};
use super::state::ReplyMode;
use super::{Effect, Host, Queue, Session, Transaction, WaitFor, clients};
use crate::RequestKeys;
use crate::command::Handler;
use crate::request_keys::CROSSSLOT;
use resp::Reply;
use resp::table::{self, CommandId, CommandSpec, behaviour, flag};
use vocab::Slot;

const NOAUTH: &str = "NOAUTH Authentication required.";

/// What the shell does with a request. See the contract in the module's documentation.
#[derive(Debug)]
pub enum Admission {
    /// The reply is written, or nothing if the client wants none.
    Answered(Effect),
    /// Run this command over data.
    Execute(&'static CommandSpec),
    /// Run this command with `handler` on the shard of `slot`.
    ExecuteAt {
        /// The command.
        spec: &'static CommandSpec,
        /// Where.
        slot: Slot,
        /// How.
        handler: Handler,
    },
    /// Look up the versions of these keys, tell them to `Session::watching`, then answer `+OK`.
    Watch(Vec<Vec<u8>>),
    /// Run a transaction.
    Transaction(Transaction),
    /// WAIT or WAITAOF: answer once enough replicas hold what this connection has written, or its time is over.
    WaitFor(WaitFor),
    /// Nothing happened: admit the request again at that time, in ms since the epoch, or after `Host::wake_all`.
    Hold {
        /// When.
        until_ms: u64,
    },
}

/// A request's row of the command table, or the error that says why it has none.
pub type Resolved = Result<&'static CommandSpec, String>;

impl Session {
    /// Decides what happens to the next request, whose row `table::resolve` has found, or not.
    pub fn admit(&mut self, row: Resolved, args: &[&[u8]], host: &dyn Host, reply: &mut Reply) -> Admission {
        self.mode_before = self.reply_mode;
        self.silent = self.reply_mode != ReplyMode::On;
        if self.reply_mode == ReplyMode::SkipNext {
            self.reply_mode = ReplyMode::On;
        }
        self.refresh_defaults(host);
        let mark = reply.buf.len();
        let admission = self.decide(row, args, host, reply);
        match &admission {
            Admission::Hold { .. } => self.reply_mode = self.mode_before,
            Admission::Answered(_) if self.silent => reply.buf.truncate(mark),
            _ => {}
        }
        admission
    }

    /// Refuses a request: writes the error, counts it and spoils the transaction under way, if there is one.
    pub fn reject(&mut self, spec: Option<CommandId>, text: &str, host: &dyn Host, reply: &mut Reply) {
        host.stats().worker(self.entry.worker).rejected(spec, text);
        reply.error(text);
        if let Some(queue) = &mut self.multi {
            queue.spoil();
        }
    }

    fn decide(&mut self, row: Resolved, args: &[&[u8]], host: &dyn Host, reply: &mut Reply) -> Admission {
        let spec = match row {
            Ok(spec) => spec,
            Err(_) if is_http(args[0]) => return self.end_http(host),
            Err(text) => {
                self.reject(row_of(args), &text, host, reply);
                return Admission::Answered(Effect::None);
            }
        };
        if !spec.has(flag::NO_AUTH) && !self.authenticated(host) {
            self.reject(Some(spec.id), NOAUTH, host, reply);
            return Admission::Answered(Effect::None);
        }
        let role = commands::role(spec.id);
        if let Some(until_ms) = self.held_until(spec, role, host) {
            return Admission::Hold { until_ms };
        }
        self.entry.began(spec.id);
        if self.multi.is_some() && !spec.does(behaviour::IGNORES_MULTI) {
            self.enqueue(spec, role, args, host, reply);
            return Admission::Answered(Effect::None);
        }
        match role {
            Role::Data => Admission::Execute(spec),
            Role::Slot(handler) => match commands::slot_argument(args) {
                Ok(slot) => Admission::ExecuteAt { spec, slot, handler },
                Err(text) => self.fail(spec, text, host, reply),
            },
            Role::Session(_) => Admission::Answered(commands::run(&mut Ask { session: self, host, spec, args, reply })),
            Role::Multi => self.multi(spec, host, reply),
            Role::Discard => self.discard(spec, host, reply),
            Role::Watch => self.watch(spec, args, host, reply),
            Role::Exec => self.exec(spec, host, reply),
            Role::Wait => match WaitFor::parse(spec, args, self.written.clone()) {
                Ok(wait) => Admission::WaitFor(wait),
                Err(text) => self.fail(spec, text, host, reply),
            },
        }
    }

    /// Ends the connection of a client that speaks HTTP, before anything in its request's body is run.
    #[cold]
    fn end_http(&mut self, host: &dyn Host) -> Admission {
        let now_s = host.now_us() / 1_000_000;
        if host.clients().may_warn_of_http(now_s) {
            let from = &self.entry.addr;
            log::warn!("possible attack: {from} sends HTTP to the port for clients, as a web page may; it is closed");
        }
        self.close();
        Admission::Answered(Effect::None)
    }

    /// Until when CLIENT PAUSE holds the command back, if it does now.
    #[inline]
    fn held_until(&self, spec: &CommandSpec, role: Role, host: &dyn Host) -> Option<u64> {
        let writes =
            spec.is_write() || (matches!(role, Role::Exec) && self.multi.as_ref().is_some_and(Queue::has_writes));
        match host.clients().paused_until_ms(writes) {
            0 => None,
            until_ms => (until_ms > host.now_us() / 1000).then_some(until_ms),
        }
    }

    /// Answers an error of a command that ran.
    fn fail(&mut self, spec: &CommandSpec, text: &str, host: &dyn Host, reply: &mut Reply) -> Admission {
        let mark = reply.buf.len();
        reply.error(text);
        host.stats().worker(self.entry.worker).finished(spec.id, 0, &reply.buf[mark..]);
        Admission::Answered(Effect::None)
    }

    fn succeed(&mut self, spec: &CommandSpec, host: &dyn Host, reply: &mut Reply) -> Admission {
        reply.ok();
        host.stats().worker(self.entry.worker).finished(spec.id, 0, b"+");
        Admission::Answered(Effect::None)
    }

    fn enqueue(&mut self, spec: &'static CommandSpec, role: Role, args: &[&[u8]], host: &dyn Host, reply: &mut Reply) {
        let refusal = if spec.has(flag::NO_MULTI) || matches!(role, Role::Slot(_) | Role::Wait) {
            Some("ERR Command not allowed inside a transaction".into())
        } else if matches!(role, Role::Data) && !spec.has_keys() {
            let name = spec.typed_name();
            Some(format!("ERR {name} works on the whole store: it cannot be part of a transaction").into())
        } else {
            let watched_bytes = self.watches.entry_bytes();
            let queue = self.multi.as_mut().expect("only called within MULTI");
            let keys = RequestKeys::of(spec, args);
            keys.and_then(|keys| Ok(queue.push(spec, role, keys, args, watched_bytes)?)).err()
        };
        if let Some(text) = refusal {
            return self.reject(Some(spec.id), &text, host, reply);
        }
        self.entry.set_queued(self.multi.as_ref().map(Queue::len));
        reply.simple("QUEUED");
    }

    fn multi(&mut self, spec: &CommandSpec, host: &dyn Host, reply: &mut Reply) -> Admission {
        if self.multi.is_some() {
            return self.fail(spec, "ERR MULTI calls can not be nested", host, reply);
        }
        self.multi = Some(Queue::default());
        self.entry.set(clients::state::MULTI, true);
        self.entry.set_queued(Some(0));
        self.succeed(spec, host, reply)
    }

    fn discard(&mut self, spec: &CommandSpec, host: &dyn Host, reply: &mut Reply) -> Admission {
        if self.leave_multi().is_none() {
            return self.fail(spec, "ERR DISCARD without MULTI", host, reply);
        }
        self.unwatch();
        self.succeed(spec, host, reply)
    }

    fn watch(&mut self, spec: &CommandSpec, args: &[&[u8]], host: &dyn Host, reply: &mut Reply) -> Admission {
        if self.multi.is_some() {
            return self.fail(spec, "ERR WATCH inside MULTI is not allowed", host, reply);
        }
        let checked = RequestKeys::of(spec, args).and_then(|_| Ok(self.watches.check(&args[1..])?));
        if let Err(text) = checked {
            self.reject(Some(spec.id), &text, host, reply);
            return Admission::Answered(Effect::None);
        }
        host.stats().worker(self.entry.worker).finished(spec.id, 0, b"+");
        Admission::Watch(args[1..].iter().map(|key| key.to_vec()).collect())
    }

    fn exec(&mut self, spec: &'static CommandSpec, host: &dyn Host, reply: &mut Reply) -> Admission {
        let Some(queue) = self.leave_multi() else {
            return self.fail(spec, "ERR EXEC without MULTI", host, reply);
        };
        let watches = std::mem::take(&mut self.watches);
        if queue.spoiled() {
            return self.fail(spec, "EXECABORT Transaction discarded because of previous errors.", host, reply);
        }
        let made = watches.any_made();
        match Transaction::new(spec, queue, watches) {
            Err(()) => self.fail(spec, CROSSSLOT, host, reply),
            // The versions cannot tell: such a key may be absent again.
            Ok(_) if made => {
                reply.null_array();
                host.stats().worker(self.entry.worker).finished(spec.id, 0, b"*");
                Admission::Answered(Effect::None)
            }
            Ok(transaction) if transaction.slot().is_some() => Admission::Transaction(transaction),
            // Nothing in it is about data: no shard has a say.
            Ok(transaction) => {
                let silent = self.silent;
                let effect = transaction.answer(self, host, b"*0\r\n", 0, reply);
                self.silent = silent;
                Admission::Answered(effect)
            }
        }
    }
}

/// Whether a request's first word is one of HTTP's that a browser cannot leave out of a request with a body.
fn is_http(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}

/// The row that a request with a wrong number of arguments is about.
fn row_of(args: &[&[u8]]) -> Option<CommandId> {
    let spec = table::lookup(args.first()?)?;
    Some(args.get(1).and_then(|name| spec.subcommand(name)).unwrap_or(spec).id)
}

#[cfg(test)]
mod tests {
    use crate::session::testhost::TestHost;
    use crate::session::{Admission, Effect};
    use resp::{Reply, table};
    use vocab::limits;

    #[test]
    fn what_is_queued_passes_the_limits_of_a_single_command() {
        let long = vec![b'k'; limits::KEY_BYTES_MAX + 1];
        let commands: [&[&[u8]]; 5] = [
            &[b"SET", &long, b"v"],
            &[b"COPY", b"k", &long],
            &[b"RENAME", b"k", &long],
            &[b"RESTORE", &long, b"0", b"x"],
            &[b"KV.EXEC", b"1", b"3", b"PUT", &long, b"v"],
        ];
        for command in commands {
            let host = TestHost::new();
            let mut session = host.connect(1);
            let mut ask = |args: &[&[u8]]| {
                let mut reply = Reply::default();
                let admission = session.admit(table::resolve(args), args, &host, &mut reply);
                assert!(matches!(admission, Admission::Answered(Effect::None)), "{admission:?}");
                String::from_utf8_lossy(&reply.buf).into_owned()
            };
            assert_eq!(ask(&[b"MULTI"]), "+OK\r\n");
            assert_eq!(ask(command), "-ERR key is too long (32001 bytes, 32000 are allowed)\r\n");
            assert_eq!(ask(&[b"EXEC"]), "-EXECABORT Transaction discarded because of previous errors.\r\n");
            assert_eq!(ask(&[b"WATCH", &long]), "-ERR key is too long (32001 bytes, 32000 are allowed)\r\n");
        }
    }
}
