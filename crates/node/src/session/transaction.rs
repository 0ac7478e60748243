//! A transaction: what EXEC hands to the shell, and how it is answered.

use super::commands::{self, Ask};
use super::database_request::asked_of_shard;
use super::queue::{By, Queue, Queued, QueuedParts};
use super::watches::Watches;
use super::{Effect, Host, Session};
use crate::KeyHash;
use crate::format::entry::EncodedCommand;
use crate::format::internal_commands::CLEAR;
use resp::table::{CommandSpec, behaviour};
use resp::{Reply, parse_integer};
use vocab::limits::SESSION_REPLIES_BYTES_SOFT;
use vocab::{ClusterDatabase, Slot, SlotSpan};

/// A transaction that EXEC has begun.
#[derive(Clone, Debug)]
pub struct Transaction {
    exec: &'static CommandSpec,
    commands: Vec<Queued>,
    keys: Vec<KeyHash>,
    watches: Vec<(Vec<u8>, u64)>,
    span: Option<SlotSpan>,
    /// What the commands take in an entry.
    bytes: usize,
}

impl Transaction {
    /// `by_database`: clients of the cluster have databases beyond 0, so that FLUSHDB is about one. The error means that keys, watched ones included, are of several slots, and that `share_shard` says that no one shard
    /// has these.
    pub(super) fn new(
        exec: &'static CommandSpec,
        queue: Queue,
        watches: Watches,
        by_database: bool,
        share_shard: impl FnOnce(SlotSpan) -> bool,
    ) -> Result<Self, ()> {
        let bytes = queue.bytes();
        let QueuedParts { mut commands, keys, mut span } = queue.into_parts(watches.span());
        clear_in_place(&mut commands, &mut span, by_database);
        if commands.iter().any(|queued| queued.by == By::Shard && queued.spec.is_write()) {
            ask_between_writes(&mut commands, &mut span);
        }
        if span.is_some_and(|span| !span.is_one() && !share_shard(span)) {
            return Err(());
        }
        // A script without declared keys is any shard's.
        let span = span.or_else(|| commands.iter().any(|queued| queued.by == By::Shard).then_some(Slot(0).into()));
        Ok(Self { exec, commands, keys, watches: watches.into_versions(), span, bytes })
    }

    /// EXEC's row of the command table.
    #[must_use]
    pub fn spec(&self) -> &'static CommandSpec {
        self.exec
    }

    /// Hashes of the commands' keys.
    #[must_use]
    pub fn keys(&self) -> &[KeyHash] {
        &self.keys
    }

    /// A slot of its keys, watched ones included: all are of its shard. None if none of its commands is for a shard.
    #[must_use]
    pub fn slot(&self) -> Option<Slot> {
        self.span.map(SlotSpan::first)
    }

    /// Where all its keys are, if they are of several slots.
    #[must_use]
    pub fn wider(&self) -> Option<SlotSpan> {
        self.span.filter(|span| !span.is_one())
    }

    /// Watched keys and the versions they had.
    #[must_use]
    pub fn watches(&self) -> &[(Vec<u8>, u64)] {
        &self.watches
    }

    /// How many commands it has.
    #[must_use]
    pub fn commands(&self) -> usize {
        self.commands.len()
    }

    /// How many bytes they have.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The commands for the shard, in order; what the session answers itself is not among them.
    pub fn data(&self) -> impl Iterator<Item = &EncodedCommand> {
        self.of(By::Shard).map(|queued| &queued.command)
    }

    /// The same where another node runs what is about data: it answers these commands in one array. What changes users stays
    /// here: it has passwords. So does WAIT, unless that node knows (`knows_written`) which entries have what the client has written.
    #[must_use]
    pub fn for_other_node(mut self, knows_written: bool) -> Self {
        let stays = |queued: &Queued| {
            queued.spec.does(behaviour::FOLLOWS_EXEC) || (!knows_written && commands::is_wait(queued.spec))
        };
        let goes = |queued: &&mut Queued| queued.by == By::Shell && !stays(queued);
        let of_shell = self.commands.iter_mut().filter(goes);
        of_shell.for_each(|queued| queued.by = By::Shard);
        self
    }

    fn of(&self, by: By) -> impl Iterator<Item = &Queued> {
        self.commands.iter().filter(move |queued| queued.by == by)
    }

    /// The commands for the shell, in order: over the whole store, changes of users, WAIT and messages.
    pub fn for_shell(&self) -> impl Iterator<Item = (&'static CommandSpec, &EncodedCommand)> {
        self.of(By::Shell).map(|queued| (queued.spec, &queued.command))
    }

    /// Takes those commands out, so that their arguments are held by one owner alone.
    pub fn take_data(&mut self) -> Vec<EncodedCommand> {
        let of_shard = self.commands.iter_mut().filter(|queued| queued.by == By::Shard);
        of_shard.map(|queued| queued.command.take()).collect()
    }

    /// Whether any of them may write.
    #[must_use]
    pub fn has_writes(&self) -> bool {
        self.commands.iter().any(|queued| queued.spec.is_write())
    }

    /// Whether some of its commands are about the connection: what follows it waits for them.
    #[must_use]
    pub fn is_of_session(&self) -> bool {
        self.of(By::Session).next().is_some()
    }

    /// Whether the shard answers all of its commands.
    #[must_use]
    pub fn is_of_shard(&self) -> bool {
        self.commands.iter().all(|queued| queued.by == By::Shard)
    }

    /// Counts the commands of a transaction whose answer is the shard's.
    pub fn count(&self, session: &Session, host: &dyn Host) {
        let stats = host.stats().worker(session.entry.worker);
        self.commands.iter().for_each(|queued| stats.finished(queued.spec.id, 0, b"*"));
    }

    /// Writes the answer to EXEC. `outcome` is the shard's, encoded for this session's protocol: an array of the
    /// answers to `data()`; or null, if a watched key was written; or an error. `of_shell` are the answers to `for_shell()`
    /// if there is an array. `elapsed_ns` is what it took.
    pub fn answer(
        self,
        session: &mut Session,
        host: &dyn Host,
        (outcome, of_shell): (&[u8], &[Vec<u8>]),
        elapsed_ns: u64,
        reply: &mut Reply,
    ) -> Effect {
        let stats = host.stats().worker(session.entry.worker);
        stats.finished(self.exec.id, elapsed_ns, outcome);
        let answers = match outcome {
            [b'*', b'-', ..] | [b'_', ..] | [b'-', ..] => None,
            _ => skip_line(outcome),
        };
        let Some(mut answers) = answers else {
            reply.raw(outcome);
            return Effect::None;
        };
        let share_ns = elapsed_ns / (self.of(By::Shard).count() as u64).max(1);
        let mut of_shell = of_shell.iter();
        let mut effect = Effect::None;
        let mut left = SESSION_REPLIES_BYTES_SOFT;
        reply.array(self.commands.len());
        for queued in &self.commands {
            if let Some(text) = &queued.refusal {
                stats.rejected(Some(queued.spec.id), text);
                reply.error(text);
                continue;
            }
            if queued.by == By::Shell {
                let answer = of_shell.next().map_or(&b"-ERR not answered\r\n"[..], Vec::as_slice);
                stats.finished(queued.spec.id, 0, answer);
                reply.raw(answer);
                continue;
            }
            if queued.by == By::Session && left == 0 {
                let mark = reply.buf.len();
                reply.error(TOO_LONG);
                stats.finished(queued.spec.id, 0, &reply.buf[mark..]);
                continue;
            }
            if queued.by == By::Session {
                let mark = reply.buf.len();
                let args = queued.command.args();
                let ask = &mut Ask { session, host, spec: queued.spec, args: &args, reply };
                let asked = commands::run(ask);
                left = left.saturating_sub(reply.buf.len() - mark);
                // Here nothing is answered later than the rest.
                if asked.is_later() {
                    stats.finished(queued.spec.id, 0, b"+");
                }
                effect = effect.and(asked);
                continue;
            }
            let (answer, rest) = answers.split_at(element_length(answers).unwrap_or(answers.len()));
            stats.finished(queued.spec.id, share_ns, answer);
            reply.raw(answer);
            answers = rest;
        }
        effect
    }
}

const TOO_LONG: &str =
    "ERR the commands about the node and the connection in this transaction have answered 4 MiB: no more are run";
const _: () = assert!(SESSION_REPLIES_BYTES_SOFT == 4 * 1024 * 1024);

/// What follows the first line.
fn skip_line(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    Some(&bytes[end + 2..])
}

/// How many bytes the encoded reply takes that `bytes` begin with.
fn element_length(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut left) = (0, 1usize);
    while left > 0 {
        left -= 1;
        let line = &bytes[at..];
        let end = line.windows(2).position(|two| two == b"\r\n")?;
        let number = || std::str::from_utf8(&line[1..end]).ok()?.parse::<i64>().ok();
        at += end + 2;
        match line.first()? {
            b'$' | b'=' | b'!' => at += usize::try_from(number()?).map_or(0, |length| length + 2),
            b'*' | b'~' | b'>' => left += usize::try_from(number()?).unwrap_or(0),
            b'%' => left += 2 * usize::try_from(number()?).ok()?,
            b'|' => left += 2 * usize::try_from(number()?).ok()? + 1,
            _ => {}
        }
        if at > bytes.len() {
            return None;
        }
    }
    Some(at)
}

/// Has the shard remove keys where FLUSHALL or FLUSHDB stands: it has the whole store. `by_database`: FLUSHDB is about one database.
fn clear_in_place(commands: &mut [Queued], span: &mut Option<SlotSpan>, by_database: bool) {
    let clears = |queued: &&mut Queued| queued.by == By::Shell && queued.spec.does(behaviour::CLEARS_STORE);
    for queued in commands.iter_mut().filter(clears) {
        let is_of_one = by_database && queued.spec.does(behaviour::EMPTIES_DATABASE);
        let cleared = if is_of_one {
            clear_of_one(&queued.command.args())
        } else {
            check_flush(&queued.command.args()).map(|()| EncodedCommand::new(&[CLEAR]))
        };
        match cleared {
            Ok(command) => {
                (queued.command, queued.by) = (command, By::Shard);
                *span = Some(SlotSpan::ALL);
            }
            Err(text) => (queued.refusal, queued.by) = (Some(text.to_owned()), By::Refusal),
        }
    }
}

/// What runs for a FLUSHDB of a cluster's client.
fn clear_of_one(args: &[&[u8]]) -> Result<EncodedCommand, &'static str> {
    let mark = flushed_database(args)?.map_or_else(Vec::new, |database| database.mark().to_vec());
    Ok(EncodedCommand::new(&[CLEAR, &mark]))
}

/// Which database a FLUSHDB of a cluster's client is about, `FLUSHDB [ASYNC | SYNC] [SELECTED number]`; `None`: 0. The error is the text
/// of the reply.
pub fn flushed_database(args: &[&[u8]]) -> Result<Option<ClusterDatabase>, &'static str> {
    let (args, number) = match args {
        [rest @ .., word, number] if !rest.is_empty() && word.eq_ignore_ascii_case(b"SELECTED") => (rest, Some(number)),
        args => (args, None),
    };
    check_flush(args)?;
    let of_number = |number: u64| ClusterDatabase::of_number(number).ok_or("ERR DB index is out of range");
    let parsed = |number: &&[u8]| parse_integer(number).and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
    number.map(|number| of_number(parsed(number))).transpose()
}

/// Checks the arguments of FLUSHALL and FLUSHDB. The error is the text of the reply.
pub fn check_flush(args: &[&[u8]]) -> Result<(), &'static str> {
    match args {
        [_] => Ok(()),
        [_, how] if how.eq_ignore_ascii_case(b"ASYNC") || how.eq_ignore_ascii_case(b"SYNC") => Ok(()),
        _ => Err("ERR syntax error"),
    }
}

/// Has the shard answer what is asked about the keys of a database: each question sees what was written before it, and nothing
/// that is written after it. Where nothing is written, the whole store answers, which reads slice by slice.
fn ask_between_writes(commands: &mut [Queued], span: &mut Option<SlotSpan>) {
    for queued in commands.iter_mut().filter(|queued| queued.by == By::Shell) {
        if let Some((spec, command, database)) = asked_of_shard(queued.spec, &queued.command.args()) {
            (queued.spec, queued.command, queued.by) = (spec, command, By::Shard);
            let slot = SlotSpan::from(database.slot());
            *span = Some(span.map_or(slot, |before| before.and(slot)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::element_length;

    #[test]
    fn elements_are_told_apart() {
        for element in [
            "+OK\r\n",
            "-ERR x\r\n",
            ":-1\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "$0\r\n\r\n",
            "$4\r\n\r\n\r\n\r\n",
            "*0\r\n",
            "*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
            "%1\r\n+a\r\n,1.5\r\n",
            "_\r\n",
            "#t\r\n",
            "|1\r\n+k\r\n:1\r\n:2\r\n",
            "=5\r\ntxt:a\r\n",
        ] {
            let followed = format!("{element}:9\r\n");
            assert_eq!(element_length(followed.as_bytes()), Some(element.len()), "{element:?}");
            for cut in 0..element.len() {
                assert_eq!(element_length(&element.as_bytes()[..cut]), None, "{element:?} cut at {cut}");
            }
        }
    }
}
