//! Which requests run, which are queued, and which are refused.

use super::commands::{self, Ask, Role};
use super::host::ClusterDatabases;
use super::queue::{By, Queue};
use super::resolved::Resolved;
use super::rights::denied_at_exec;
use super::state::ReplyMode;
use super::{Effect, Host, Keyspace, Session, Transaction, WaitFor, clients, login, other_number};
use crate::RequestKeys;
use crate::command::{Handler, ReadHandler, handler, slot_argument};
use crate::eviction::Admitted;
use crate::pubsub::SubscriptionKind;
use crate::request::{CROSSSLOT, check_patterns};
use resp::table::{self, CommandId, CommandSpec, behaviour, flag};
use resp::{Reply, parse_integer};
use vocab::{Database, Slot, SlotSpan};

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
        handler: ReadHandler,
    },
    /// Look up the versions of these keys, tell them to `Session::watching`, then answer `+OK`.
    Watch {
        /// WATCH.
        spec: &'static CommandSpec,
        /// Of one shard.
        keys: Vec<Vec<u8>>,
    },
    /// Run a transaction.
    Transaction(Transaction),
    /// WAIT or WAITAOF: answer once enough replicas hold what this connection has written, or its time is over.
    WaitFor(WaitFor),
    /// Bring a message to those who have subscribed to its channel; the reply is their number.
    Publish {
        /// The command.
        spec: &'static CommandSpec,
        /// What kind of channel it is.
        kind: SubscriptionKind,
    },
    /// Nothing happened: admit the request again at that time, in ms since the epoch, or after `Host::wake_all`.
    Hold {
        /// When; 0: as soon as something has changed, such as the room for data.
        until_ms: u64,
    },
}

/// Decides what happens to the next request, whose row `table::resolve` has found, or not.
pub fn admit(session: &mut Session, row: Resolved, args: &[&[u8]], host: &dyn Host, reply: &mut Reply) -> Admission {
    session.mode_before = session.reply_mode;
    session.rejected = false;
    session.silent = session.reply_mode != ReplyMode::On;
    if session.reply_mode == ReplyMode::SkipNext {
        session.reply_mode = ReplyMode::On;
    }
    session.refresh_defaults(host);
    if std::mem::take(&mut session.held) {
        host.clients().release(&session.entry);
    }
    let mark = reply.buf.len();
    let admission = decide(session, row, args, host, reply);
    match &admission {
        Admission::Hold { .. } => {
            session.reply_mode = session.mode_before;
            session.held = true;
            host.clients().hold(&session.entry);
        }
        Admission::Answered(_) if session.silent => reply.buf.truncate(mark),
        _ => {}
    }
    admission
}

/// Refuses a request. EXEC ends its transaction whatever it is refused for.
#[cold]
fn refuse(session: &mut Session, spec: Option<CommandId>, text: &str, host: &dyn Host, reply: &mut Reply) -> Admission {
    if spec.is_some_and(|spec| matches!(commands::role(spec), Role::Exec)) {
        session.leave_multi();
        session.unwatch();
        let why = text.strip_prefix("ERR ").unwrap_or(text);
        session.reject(spec, &format!("EXECABORT Transaction discarded because of: {why}"), host, reply);
    } else {
        session.reject(spec, text, host, reply);
    }
    session.pass_caching(spec.map(table::row), false, false);
    Admission::Answered(Effect::None)
}

fn decide(session: &mut Session, row: Resolved, args: &[&[u8]], host: &dyn Host, reply: &mut Reply) -> Admission {
    let spec = match row {
        Ok(spec) => spec,
        Err(_) if is_http(args[0]) => return end_http(session),
        Err(text) => {
            return refuse(session, row_of(args), &text, host, reply);
        }
    };
    if !spec.has(flag::NO_AUTH) && !session.authenticated(host) {
        return refuse(session, Some(spec.id), NOAUTH, host, reply);
    }
    if session.is_for_subscribers() && !spec.does(behaviour::FOR_SUBSCRIBERS) {
        let text = not_for_subscribers(spec);
        return refuse(session, Some(spec.id), &text, host, reply);
    }
    if spec.does(behaviour::MATCHES_PATTERNS)
        && let Err(text) = check_patterns(spec, args)
    {
        return refuse(session, Some(spec.id), &text, host, reply);
    }
    let role = commands::role(spec.id);
    match admit_data(session, spec, role, args, host) {
        Admitted::Now => {}
        // A request that was held begins again whenever something has changed.
        Admitted::Later => return Admission::Hold { until_ms: 0 },
        Admitted::Never => return refuse(session, Some(spec.id), out_of_room(host), host, reply),
    }
    if spec.behaviour & (behaviour::LOGS_IN | behaviour::CHOOSES_DATABASE) != 0
        && let Some(until_ms) = held_until(session, spec, args, host)
    {
        return Admission::Hold { until_ms };
    }
    if let Some(until_ms) = paused_until(session, spec, args, role, host) {
        return Admission::Hold { until_ms };
    }
    // Once for each command, however often it was held.
    session.pass_caching(Some(spec), matches!(role, Role::Multi), matches!(role, Role::Exec | Role::Discard));
    session.entry.began(spec.id);
    let mut ask = Ask { session, host, spec, args, reply };
    if ask.session.multi.is_some() && !spec.does(behaviour::IGNORES_MULTI) {
        enqueue(&mut ask, role);
        return Admission::Answered(Effect::None);
    }
    match role {
        Role::Data => Admission::Execute(spec),
        Role::Slot(handler) => match slot_argument(args) {
            Ok(slot) => Admission::ExecuteAt { spec, slot, handler },
            Err(text) => fail(&mut ask, text),
        },
        Role::Session(_) => Admission::Answered(commands::run(&mut ask)),
        Role::Multi => multi(&mut ask),
        Role::Discard => discard(&mut ask),
        Role::Watch => watch(&mut ask),
        Role::Exec => exec(&mut ask),
        Role::Wait => match ask.session.wait_for(spec, args) {
            Ok(wait) => Admission::WaitFor(wait),
            Err(text) => fail(&mut ask, text),
        },
        Role::Publish(kind) => {
            Admission::Publish { spec, kind: commands::published_kind(spec, session.keyspace()).unwrap_or(kind) }
        }
    }
}

/// Until when a command is held back that logs in, or that chooses the first database beyond 0 of a cluster's client.
#[cold]
fn held_until(session: &mut Session, spec: &'static CommandSpec, args: &[&[u8]], host: &dyn Host) -> Option<u64> {
    if spec.does(behaviour::LOGS_IN) {
        return login::held_until(session, spec, args, host);
    }
    let beyond = |number: &i64| host.chosen_of_cluster(*number).is_some_and(|chosen| chosen != Keyspace::Cluster);
    let is_wanted = session.keyspace() == Keyspace::Cluster
        && args.get(1).and_then(|word| parse_integer(word)).as_ref().is_some_and(beyond);
    (is_wanted && host.cluster_databases() == ClusterDatabases::Awaited).then_some(0)
}

/// Whether there is room for what a command may add to the data: about as much as its request has.
#[inline]
fn admit_data(session: &Session, spec: &'static CommandSpec, role: Role, args: &[&[u8]], host: &dyn Host) -> Admitted {
    if spec.has(flag::DENYOOM) {
        return host.room().admit(|| database_of_keys(spec, args), || args.iter().map(|arg| arg.len()).sum());
    }
    if matches!(role, Role::Exec) && session.multi.as_ref().is_some_and(Queue::may_add_data) {
        // The commands took their room when they were queued.
        return host.room().admit(|| None, || 0);
    }
    if spec.does(behaviour::RUNS_SCRIPT) {
        return admit_script(session, spec, args, host);
    }
    if spec.is_write() {
        host.room().reconsider();
    }
    Admitted::Now
}

/// So many bytes a script is taken to add, beside those of its request. What it really adds is seen when the data is looked at next.
const SCRIPT_ADDS_BYTES: usize = 16 << 10;

/// Whether a script may begin. Where there is no room at all it begins: its commands that would add data are refused, and others run.
#[inline]
fn admit_script(session: &Session, spec: &'static CommandSpec, args: &[&[u8]], host: &dyn Host) -> Admitted {
    if !host.room().is_bounded() || !spec.is_write() || session.in_multi() || !host.script_may_write(spec, args) {
        return Admitted::Now;
    }
    let bytes = || SCRIPT_ADDS_BYTES + args.iter().map(|arg| arg.len()).sum::<usize>();
    match host.room().admit(|| database_of_keys(spec, args), bytes) {
        Admitted::Later => Admitted::Later,
        Admitted::Now | Admitted::Never => Admitted::Now,
    }
}

/// The database in whose slot the keys of a command are, if they are a database's. Of several databases, the one that is added to.
#[cold]
fn database_of_keys(spec: &CommandSpec, args: &[&[u8]]) -> Option<Database> {
    let mut keys = spec.keys(args).ok()?;
    // What is copied or moved goes to the last one.
    let at = if spec.does(behaviour::NAMES_DATABASES) { keys.last() } else { keys.next() }?;
    Database::of_key(args.get(at)?)
}

/// Why a script may not add data now, of a database or of none.
#[inline]
#[must_use]
pub fn no_room_for_script(host: &dyn Host, database: Option<Database>) -> Option<&'static str> {
    (host.room().admit(|| database, || 0) == Admitted::Never).then(|| out_of_room(host))
}

/// The refusal of what may add data, when the data has reached its bound.
#[cold]
fn out_of_room(host: &dyn Host) -> &'static str {
    if !host.room().refuses() {
        return "OOM command not allowed when used memory > 'maxmemory': the database has the bytes that it may have ('max-bytes').";
    }
    match host.config().data_is_in_memory() {
        true => "OOM command not allowed when used memory > 'maxmemory'.",
        false => "OOM command not allowed when data on disk > 'max-data-bytes'.",
    }
}

#[cold]
fn not_for_subscribers(spec: &CommandSpec) -> String {
    format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        spec.shown_name()
    )
}

/// Ends the connection of a client that speaks HTTP, before anything in its request's body is run.
#[cold]
fn end_http(session: &mut Session) -> Admission {
    let from = &session.entry.addr;
    log::warn!("possible attack: {from} sends HTTP to the port for clients, as a web page may; it is closed");
    session.close();
    Admission::Answered(Effect::None)
}

/// Until when CLIENT PAUSE holds the command back, if it does now.
#[inline]
fn paused_until(
    session: &Session,
    spec: &'static CommandSpec,
    args: &[&[u8]],
    role: Role,
    host: &dyn Host,
) -> Option<u64> {
    let writes = spec.pauses_with_writes() || (matches!(role, Role::Exec) && session.multi.is_some());
    if host.clients().paused_until_ms(writes) == 0 {
        return None;
    }
    let may_write = |spec: &'static CommandSpec, args: &[&[u8]]| {
        spec.pauses_with_writes() && (!spec.does(behaviour::RUNS_SCRIPT) || host.script_may_write(spec, args))
    };
    let writes = match &session.multi {
        Some(queue) if matches!(role, Role::Exec) => queue.any(may_write),
        _ => may_write(spec, args),
    };
    let until_ms = host.clients().paused_until_ms(writes);
    (until_ms > host.now_us() / 1000).then_some(until_ms)
}

/// Answers an error of a command that ran.
fn fail(ask: &mut Ask<'_>, text: &str) -> Admission {
    let mark = ask.reply.buf.len();
    ask.reply.error(text);
    ask.stats().finished(ask.spec.id, 0, &ask.reply.buf[mark..]);
    Admission::Answered(Effect::None)
}

fn succeed(ask: &mut Ask<'_>) -> Admission {
    ask.reply.ok();
    ask.stats().finished(ask.spec.id, 0, b"+");
    Admission::Answered(Effect::None)
}

const CLEARS_IN_STEPS: &str = "removes the keys of each shard in a step of its own: only where one node is the store, and has one shard, can it be part of a transaction";
const OF_THE_STORE: &str = "is about the whole store: it cannot be part of a transaction";

fn enqueue(ask: &mut Ask<'_>, role: Role) {
    let Ask { session, host, spec, args, reply } = ask;
    let by = match role {
        Role::Data if matches!(handler(spec), Some(Handler::Store(_))) => By::Shell,
        Role::Data if spec.does(behaviour::FOLLOWS_EXEC) => By::Shell,
        // It goes to the shard when all commands are known.
        Role::Data if spec.does(behaviour::CLEARS_STORE) && host.share_shard(SlotSpan::ALL, session.keyspace()) => {
            By::Shell
        }
        Role::Wait | Role::Publish(_) => By::Shell,
        Role::Data => By::Shard,
        _ => By::Session,
    };
    let logs_in = spec.does(behaviour::LOGS_IN) && login::gives_password(spec, args);
    let refusal = if spec.has(flag::NO_MULTI) || matches!(role, Role::Slot(_)) {
        Some("ERR Command not allowed inside a transaction".into())
    } else if matches!(role, Role::Data) && !spec.has_keys() && by != By::Shell {
        let text = if spec.does(behaviour::CLEARS_STORE) { CLEARS_IN_STEPS } else { OF_THE_STORE };
        Some(format!("ERR {} {text}", spec.typed_name()).into())
    } else if logs_in && session.multi.as_ref().is_some_and(Queue::logs_in) {
        // Wrong passwords slow the next login: one guess a transaction, as one guess a request.
        Some("ERR a transaction may log in only once".into())
    } else if spec.does(behaviour::SHOWS_OTHERS) {
        // Redis refuses it when the transaction runs.
        Some("ERR MONITOR isn't allowed for DENY BLOCKING client".into())
    } else {
        let (watched_bytes, keyspace) = (session.watches.entry_bytes(), session.keyspace());
        let chosen = if spec.does(behaviour::CHOOSES_DATABASE) { chosen_keyspace(keyspace, *host, args) } else { None };
        let asked = table::row(session.asked());
        let frame = session.frame().cloned();
        let queue = session.multi.as_mut().expect("only called within MULTI");
        let number = queue.chosen().unwrap_or(keyspace).number();
        if logs_in {
            queue.note_login();
        }
        if let Keyspace::Database(database) = queue.chosen().unwrap_or(keyspace) {
            let databases = host.databases();
            let other = || other_number(spec, args).and_then(|number| Database::of_number(u64::try_from(number).ok()?));
            let other = if spec.does(behaviour::TO_DATABASE) { other() } else { None };
            [Some(database), other].into_iter().flatten().for_each(|of| queue.note_place(of, databases.place_of(of)));
        }
        if let Some(chosen) = chosen {
            queue.choose(chosen);
        }
        // A cursor is sent where a key of its slot is, and is none.
        let keys = match by {
            By::Shell => Ok(RequestKeys::default()),
            By::Shard | By::Session | By::Refusal => {
                RequestKeys::within(spec, args, |span| host.share_shard(span, keyspace))
            }
        };
        keys.and_then(|keys| {
            Ok(queue.push((spec, asked), by, keys, (args, frame.as_ref()), (watched_bytes, number))?)
        })
        .err()
    };
    if let Some(text) = refusal {
        return session.reject(Some(spec.id), &text, *host, reply);
    }
    session.entry.set_queued(session.multi.as_ref().map(Queue::len));
    reply.simple("QUEUED");
}

/// The database that a queued SELECT chooses. One that names none is answered by EXEC, and chooses nothing.
fn chosen_keyspace(keyspace: Keyspace, host: &dyn Host, args: &[&[u8]]) -> Option<Keyspace> {
    let word = args.get(1)?;
    match keyspace {
        Keyspace::Database(_) => host.chosen_database(word).map(Keyspace::Database),
        Keyspace::Cluster | Keyspace::ClusterDatabase(_) => {
            let chosen = host.chosen_of_cluster(parse_integer(word)?)?;
            (chosen == Keyspace::Cluster || host.cluster_databases() == ClusterDatabases::Begun).then_some(chosen)
        }
        Keyspace::Stored => None,
    }
}

fn multi(ask: &mut Ask<'_>) -> Admission {
    if ask.session.multi.is_some() {
        return fail(ask, "ERR MULTI calls can not be nested");
    }
    ask.session.multi = Some(Queue::of(ask.session.user()));
    ask.session.entry.set(clients::state::MULTI, true);
    ask.session.entry.set_queued(Some(0));
    succeed(ask)
}

fn discard(ask: &mut Ask<'_>) -> Admission {
    if ask.session.leave_multi().is_none() {
        return fail(ask, "ERR DISCARD without MULTI");
    }
    ask.session.unwatch();
    succeed(ask)
}

fn watch(ask: &mut Ask<'_>) -> Admission {
    if ask.session.multi.is_some() {
        return fail(ask, "ERR WATCH inside MULTI is not allowed");
    }
    let keys = &ask.args[1..];
    let keyspace = ask.session.keyspace();
    let found = RequestKeys::within(ask.spec, ask.args, |span| ask.host.share_shard(span, keyspace));
    let checked = found.and_then(|_| Ok(ask.session.watches.check(keys)?));
    if let Err(text) = checked {
        ask.session.reject(Some(ask.spec.id), &text, ask.host, ask.reply);
        return Admission::Answered(Effect::None);
    }
    ask.session.begins_to_watch(ask.host);
    ask.stats().finished(ask.spec.id, 0, b"+");
    Admission::Watch { spec: ask.spec, keys: keys.iter().map(|key| key.to_vec()).collect() }
}

fn exec(ask: &mut Ask<'_>) -> Admission {
    let Some(mut queue) = ask.session.leave_multi() else {
        return fail(ask, "ERR EXEC without MULTI");
    };
    if ask.session.is_restricted() && queue.is_of_other_rights(ask.session.user()) {
        // Rights may have been taken away since a command was queued.
        queue.refuse(|specs, args, database| {
            Some(denied_at_exec(ask.session, specs, (args, database), ask.host)?.text_at_exec())
        });
    }
    let watches = std::mem::take(&mut ask.session.watches);
    let watched_at = ask.session.watched_slots();
    let were_swapped = ask.session.were_swapped(ask.host);
    if queue.spoiled() {
        return fail(ask, "EXECABORT Transaction discarded because of previous errors.");
    }
    // Who watches keys of it is told that they have changed.
    if !were_swapped && queue.is_displaced(|database| ask.host.databases().place_of(database)) {
        return fail(ask, "EXECABORT Transaction discarded because SWAPDB has exchanged its database meanwhile.");
    }
    let made = watches.any_made();
    let keyspace = ask.session.keyspace();
    let by_database = keyspace.is_of_cluster() && ask.host.has_begun_cluster_databases();
    match Transaction::new(ask.spec, queue, watches, by_database, |span| ask.host.share_shard(span, keyspace)) {
        // The versions cannot tell: such a key may be absent again. After SWAPDB what is watched is in another slot than what the commands
        // are about.
        transaction if were_swapped || (made && transaction.is_ok()) => {
            ask.reply.null_array();
            ask.stats().finished(ask.spec.id, 0, b"*");
            Admission::Answered(Effect::None)
        }
        Err(()) => fail(ask, CROSSSLOT),
        // Keys of a database that another node leads are watched there.
        Ok(transaction)
            if transaction.slot().is_some_and(|slot| {
                let apart = |at: &Slot| *at != slot && !ask.host.share_shard(SlotSpan::from(slot).with(*at), keyspace);
                watched_at.iter().any(apart)
            }) =>
        {
            fail(ask, CROSSSLOT)
        }
        Ok(transaction)
            if ask.session.watches_elsewhere
                || transaction.slot().is_some()
                || transaction.for_shell().next().is_some() =>
        {
            Admission::Transaction(transaction)
        }
        // Nothing in it is about data: no shard has a say.
        Ok(transaction) => {
            let silent = ask.session.silent;
            let effect = transaction.answer(ask.session, ask.host, (b"*0\r\n", &[]), 0, ask.reply);
            ask.session.silent = silent;
            Admission::Answered(effect)
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
    Some(args.get(1).and_then(|name| table::subcommand(spec, name)).unwrap_or(spec).id)
}

#[cfg(test)]
mod tests {
    use crate::session::testhost::TestHost;
    use crate::session::{Admission, Effect, admit};
    use resp::{Reply, table};
    use vocab::limits;

    /// What a request is answered at once; of one that is to run, nothing.
    fn answer_to(request: &[&[u8]], begun: bool) -> String {
        let host = TestHost::new();
        let mut session = host.connect(1);
        let mut reply = Reply::default();
        if begun {
            admit(&mut session, table::resolve(&[b"MULTI"]), &[b"MULTI"], &host, &mut reply);
            reply.buf.clear();
        }
        admit(&mut session, table::resolve(request), request, &host, &mut reply);
        String::from_utf8_lossy(&reply.buf).into_owned()
    }

    #[test]
    fn patterns_of_clients_are_bounded() {
        let (fits, long) = (vec![b'*'; limits::PATTERN_BYTES_MAX], vec![b'*'; limits::PATTERN_BYTES_MAX + 1]);
        let refused = "-ERR a pattern is too long (4097 bytes, 4096 are allowed)\r\n";
        let before: [&[&[u8]]; 14] = [
            &[b"SCAN", b"0", b"MATCH"],
            &[b"SCAN", b"0", b"COUNT", b"7", b"match"],
            &[b"KEYS"],
            &[b"HSCAN", b"k", b"0", b"MATCH"],
            &[b"SSCAN", b"k", b"0", b"MATCH"],
            &[b"ZSCAN", b"k", b"0", b"MATCH"],
            &[b"CLUSTERSCAN", b"0", b"MATCH"],
            &[b"KV.KEYS", b"k", b"KEYS"],
            &[b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN"],
            &[b"CONFIG", b"GET"],
            &[b"CONFIG", b"GET", b"maxclients"],
            &[b"PUBSUB", b"CHANNELS"],
            &[b"PUBSUB", b"SHARDCHANNELS"],
            &[b"FUNCTION", b"LIST", b"LIBRARYNAME"],
        ];
        for words in before {
            let ask = |pattern: &[u8], begun| answer_to(&[words, &[pattern]].concat(), begun);
            let shown = words.join(&b' ').escape_ascii().to_string();
            assert_eq!(ask(&long[..], false), refused, "{shown}");
            assert_eq!(ask(&long[..], true), refused, "{shown} in MULTI");
            assert!(!ask(&fits[..], false).contains("too long"), "{shown}");
        }
    }

    #[test]
    fn keys_are_no_patterns_and_many_patterns_are_bounded_together() {
        let (key, pattern) = (vec![b'k'; limits::KEY_BYTES_MAX], vec![b'x'; limits::PATTERN_BYTES_MAX]);
        assert_eq!(answer_to(&[b"HSCAN", &key, b"0", b"MATCH", &pattern], false), "");
        let get: [&[u8]; 2] = [b"CONFIG", b"GET"];
        let ask = |count: usize| answer_to(&[&get[..], &vec![&pattern[..]; count][..]].concat(), false);
        assert_eq!(ask(7), "*0\r\n");
        // With the word GET.
        assert_eq!(ask(8), "-ERR the patterns are too long (32771 bytes, 32768 are allowed)\r\n");
    }

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
                let admission = admit(&mut session, table::resolve(args), args, &host, &mut reply);
                assert!(matches!(admission, Admission::Answered(Effect::None)), "{admission:?}");
                String::from_utf8_lossy(&reply.buf).into_owned()
            };
            assert_eq!(ask(&[b"MULTI"]), "+OK\r\n");
            assert_eq!(ask(command), "-ERR key is too long (32001 bytes, 32000 are allowed)\r\n");
            assert_eq!(ask(&[b"EXEC"]), "-EXECABORT Transaction discarded because of previous errors.\r\n");
            assert_eq!(ask(&[b"MULTI"]), "+OK\r\n");
            let aborted =
                "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n";
            assert_eq!(ask(&[b"EXEC", b"x"]), aborted);
            assert_eq!(ask(&[b"EXEC"]), "-ERR EXEC without MULTI\r\n");
            assert_eq!(ask(&[b"WATCH", &long]), "-ERR key is too long (32001 bytes, 32000 are allowed)\r\n");
        }
    }
}
