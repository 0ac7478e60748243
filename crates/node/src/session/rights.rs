//! Whether the user of a connection may run its request: looked at once, before all else, in the words of the client.

use super::database_request::database_words;
use super::resolved::Resolved;
use super::{Host, Keyspace, Session};
use crate::DeniedCall;
use crate::acl::{AuditEvent, AuditKind, Denial, DenialReason, LoggedDenial, Where};
use resp::parse_integer;
use resp::table::{CommandSpec, behaviour};
use smallvec::{SmallVec, smallvec};
use vocab::{Namespace, client_key};

const FOR_NODES: &str = "ERR this command is for other nodes";

/// The row of a request, or the error that its user has no right to it. Call it before `admit`, with the client's own words.
#[inline]
pub fn authorize(session: &mut Session, row: Resolved, args: &[&[u8]], host: &dyn Host) -> Resolved {
    match row {
        // Nodes run it for what their clients have sent and have the right to: by itself it would pass by that right.
        Ok(spec) if spec.does(behaviour::FOR_NODES) && session.keyspace() != Keyspace::Stored => {
            session.ask(spec.id, host);
            if session.authenticated(host) { Err(FOR_NODES.to_owned()) } else { Ok(spec) }
        }
        Ok(spec) if session.ask(spec.id, host) && session.authenticated(host) => {
            let names_database = spec.behaviour & NAMING != 0 && session.keyspace().database().is_some();
            let numbers = if names_database { with_numbers(spec, args, host) } else { None };
            let denial = match &numbers {
                Some(numbers) => session.denies(spec, &numbers.iter().map(Vec::as_slice).collect::<Vec<_>>()),
                None => session.denies(spec, args),
            };
            let Some(denial) = denial else { return Ok(spec) };
            let place = if session.in_multi() { Where::Multi } else { Where::Toplevel };
            // Its line tells what it was refused, not what it ran before.
            session.entry.shows(denial.spec.id);
            note_denial(session, &denial, args, place, host);
            Err(denial.text())
        }
        row => row,
    }
}

/// Why the blocking command that a connection waits in is to end: its user has lost the right to it. ACL LOG and the audit log have it.
/// `args`: as the command runs, with keys as they are stored.
#[must_use]
pub fn refused_wait(session: &Session, spec: &'static CommandSpec, args: &[&[u8]], host: &dyn Host) -> Option<String> {
    let is_of_database = session.keyspace().namespace().is_some();
    let own = if is_of_database { client_words(spec, args) } else { args.to_vec() };
    let denial = session.denies(spec, &own)?;
    note_denial(session, &denial, &own, Where::Toplevel, host);
    Some(denial.text())
}

/// What of a queued command its user may not do any more, if anything. ACL LOG and the audit log have it. `asked`: the command that the
/// client has sent; `args`: as it runs, with keys as they are stored; `database`: the number of the one that it is about.
pub(super) fn denied_at_exec(
    session: &Session,
    (spec, asked): (&'static CommandSpec, &'static CommandSpec),
    (args, database): (&[&[u8]], u16),
    host: &dyn Host,
) -> Option<Denial> {
    let own = client_words(spec, args);
    let mut numbers: SmallVec<[u16; 3]> = smallvec![database];
    for at in spec.keys(args).into_iter().flatten() {
        let number = match Namespace::of_key(args[at]) {
            Some(Namespace::Database(place)) => host.databases().database_at(place).number(),
            of_cluster => of_cluster.map_or(0, Namespace::number),
        };
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    let named = if session.keyspace().database().is_some() { with_numbers(asked, &own, host) } else { None };
    let named: Option<Vec<&[u8]>> = named.as_ref().map(|words| words.iter().map(Vec::as_slice).collect());
    let words = named.as_deref().unwrap_or(&own);
    let denial = numbers.iter().find_map(|number| session.user().denies(asked, words, *number))?;
    note_denial(session, &denial, &own, Where::Multi, host);
    Some(denial)
}

/// The arguments with keys as a client of a database names them.
fn client_words<'a>(spec: &CommandSpec, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut words = args.to_vec();
    spec.keys(args).into_iter().flatten().for_each(|at| words[at] = client_key(args[at]));
    words
}

/// What may name databases.
const NAMING: u64 = behaviour::CHOOSES_DATABASE | behaviour::TO_DATABASE | behaviour::SWAPS_DATABASES;

/// The request with numbers in place of the names of databases, if it has some: rights are to numbers.
#[cold]
fn with_numbers(spec: &CommandSpec, args: &[&[u8]], host: &dyn Host) -> Option<Vec<Vec<u8>>> {
    let mut numbers: Option<Vec<Vec<u8>>> = None;
    for at in database_words(spec, args) {
        if parse_integer(args[at]).is_none()
            && let Some(database) = host.chosen_database(args[at])
        {
            let all = numbers.get_or_insert_with(|| args.iter().map(|arg| arg.to_vec()).collect());
            all[at] = database.number().to_string().into_bytes();
        }
    }
    numbers
}

/// ACL LOG and the audit log get a refusal.
#[cold]
pub(super) fn note_denial(session: &Session, denial: &Denial, args: &[&[u8]], place: Where, host: &dyn Host) {
    note_refusal(session, denial.spec, denial.logged(args), place, host);
}

/// The same for a command of a script of this client.
#[cold]
pub fn note_denied_in_script(session: &Session, denied: DeniedCall, host: &dyn Host) {
    note_refusal(session, denied.spec, (denied.reason, denied.object), Where::Lua, host);
}

fn note_refusal(
    session: &Session,
    spec: &CommandSpec,
    (reason, object): (DenialReason, Vec<u8>),
    place: Where,
    host: &dyn Host,
) {
    let shown = String::from_utf8_lossy(&object);
    let why = match reason {
        DenialReason::Key => format!("no right to the key {shown}"),
        DenialReason::Channel => format!("no right to the channel {shown}"),
        DenialReason::Database => "no right to the database".to_owned(),
        DenialReason::Command | DenialReason::Auth => "no right to the command".to_owned(),
    };
    host.audit(&AuditEvent {
        kind: AuditKind::Denied,
        user: session.user().name().as_ref().into(),
        address: session.entry.addr.as_str().into(),
        what: spec.shown_name().into(),
        refusal: Some(why.into()),
    });
    note(session, (reason, object), session.user().name(), place, host);
}

/// ACL LOG gets a refusal of that reason and object.
pub(super) fn note(
    session: &Session,
    (reason, object): (DenialReason, Vec<u8>),
    user: &str,
    place: Where,
    host: &dyn Host,
) {
    let now_ms = host.now_us() / 1000;
    let denial = LoggedDenial {
        id: 0,
        count: 1,
        reason,
        place,
        object,
        user: user.to_owned(),
        first_ms: now_ms,
        last_ms: now_ms,
        client: session.entry.line(now_ms),
    };
    host.access_control().denials.add(denial, host.config().denials_kept());
}

#[cfg(test)]
mod tests {
    use super::authorize;
    use crate::session::Keyspace;
    use crate::session::testhost::TestHost;
    use resp::{Reply, table};
    use vocab::Database;

    /// A user who may do everything but empty, exchange and list databases would do so by these.
    #[test]
    fn what_nodes_make_of_commands_is_refused_to_clients() {
        let host = TestHost::new();
        let user: [&[u8]; 8] = [b"ACL", b"SETUSER", b"default", b"on", b"nopass", b"~*", b"+@all", b"-flushall"];
        for keyspace in [Keyspace::Cluster, Keyspace::Database(Database::default()), Keyspace::Stored] {
            let mut session = host.connect(1);
            session.enter(keyspace);
            for request in [
                "KV.EMPTY k",
                "KV.EMPTY",
                "KV.KEYS k DBSIZE",
                "KV.REMOVE k 9",
                "KV.SPAN a b",
                "KV.SWAP 0 1",
                "KV.TRANSFER a b MOVE",
            ] {
                let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
                let row = authorize(&mut session, table::resolve(&args), &args, &host);
                let refusal = row.err().unwrap_or_default();
                let expected = if keyspace == Keyspace::Stored { "" } else { "ERR this command is for other nodes" };
                assert_eq!(refusal, expected, "{request} in {keyspace:?}");
            }
            host.set_user(&user, &mut Reply::default());
        }
    }

    #[test]
    fn a_database_that_is_named_needs_the_right_to_its_number() {
        let host = TestHost::new();
        let user: [&[u8]; 8] = [b"ACL", b"SETUSER", b"default", b"on", b"nopass", b"~*", b"+@all", b"db=0"];
        host.set_user(&user, &mut Reply::default());
        let mut session = host.connect(1);
        session.enter(Keyspace::Database(Database::default()));
        for (request, is_allowed) in [
            ("GET k", true),
            ("SELECT 0", true),
            ("SELECT 3", false),
            ("SELECT orders", false),
            // There is none of that name: SELECT says so.
            ("SELECT none", true),
            ("MOVE k orders", false),
            ("MOVE k 3", false),
            ("MOVE k none", true),
            ("COPY a b DB orders", false),
            ("COPY a b REPLACE DB orders", false),
            ("COPY orders b", true),
            ("SWAPDB 0 orders", false),
            ("SWAPDB orders 0", false),
        ] {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let row = authorize(&mut session, table::resolve(&args), &args, &host);
            assert_eq!(row.is_ok(), is_allowed, "{request}");
        }
    }
}
