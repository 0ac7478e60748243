//! Changes of users: ACL SETUSER, DELUSER, LOAD and SAVE. The leader of the metadata group makes them, one at a time.
//!
//! Passwords in clear stay on the node that a client has sent them to: other nodes are sent their digests.

use super::changes::{change, newest_map};
use super::error::AdminError;
use crate::api::handlers::{CallHandler, PoolHandler};
use crate::api::programs::{change_at_meta, meta_leader};
use crate::mailbox::WorkerMessage;
use crate::os::random;
use crate::shared::{NO_USERS, NO_USERS_RULES, NodeShared, read_file, replace_file};
use cluster::{Change, Databases, Map, UserChange};
use node::acl::{DEFAULT_USER, NewUser, User, users_to_file, without_passwords};
use resp::{Proto, Reply, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::{Epoch, ShardId};

/// How long this node may take to learn of a change that it has asked for, and its workers to go by it.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);
/// Between two tries to import a file of users.
const IMPORT_PAUSE: Duration = Duration::from_millis(250);
/// Words between nodes.
const SET: &[u8] = b"SETUSER";
const DELETE: &[u8] = b"DELUSER";
const REPLACE: &[u8] = b"REPLACE";
/// As REPLACE, if the store has no users yet.
const IMPORT: &[u8] = b"IMPORT";

const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the \
     ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to \
     store users in the Redis configuration.";

/// What changes users for a client.
pub(crate) fn handler(name: &str) -> Option<PoolHandler> {
    match name {
        "ACL|SETUSER" => Some(|store, args, reply| answer(reply, set(store, args))),
        "ACL|DELUSER" => Some(|store, args, reply| match delete(store, args) {
            Ok(count) => reply.int(count),
            Err(text) => reply.error(&text),
        }),
        "ACL|LOAD" => Some(|store, _, reply| answer(reply, load(store))),
        "ACL|SAVE" => Some(|store, _, reply| answer(reply, save(store))),
        "KV.BACKUP|USERS" => Some(|store, _, reply| show(store, reply)),
        _ => None,
    }
}

/// What changes them for another node.
pub(crate) fn call_handler(name: &str) -> Option<CallHandler> {
    (name == "ACL").then_some(serve as CallHandler)
}

fn answer(reply: &mut Reply, outcome: Result<(), String>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(text) => reply.error(&text),
    }
}

fn set(store: &Arc<NodeShared>, args: &[&[u8]]) -> Result<(), String> {
    let name = user_name(args[2])?;
    let rules = without_passwords(&args[3..]).map_err(|why| format!("ERR {why}"))?;
    import(store)?;
    let all_channels = store.config.new_users_have_all_channels();
    let base = match name {
        DEFAULT_USER => User::of_settings(&store.config.text("requirepass").unwrap_or_default()),
        _ => User::new(name, all_channels),
    };
    let (base, all) = (base.rules(), if all_channels { b"1" } else { b"0" });
    let mut words: Vec<&[u8]> = vec![b"ACL", SET, name.as_bytes(), &base, all];
    let databases = store.known().databases.clone();
    let rules: Vec<Vec<u8>> = rules.iter().map(|rule| numbered(rule, &databases)).collect();
    words.extend(rules.iter().map(Vec::as_slice));
    changed(store, &words).map(drop)
}

/// The rule, with the numbers of the databases that it names: a name may come to be another one's.
fn numbered(rule: &[u8], databases: &Databases) -> Vec<u8> {
    let of_list = |list: &str| {
        let number = |name: &str| databases.named(name).map_or(name.to_owned(), |found| found.number().to_string());
        list.split(',').map(number).collect::<Vec<_>>().join(",")
    };
    let of_word = |word: &str| match word.split_once("db=") {
        Some((open @ ("" | "("), list)) => {
            let (names, close) = list.split_at(list.trim_end_matches(')').len());
            format!("{open}db={}{close}", of_list(names))
        }
        _ => word.to_owned(),
    };
    match std::str::from_utf8(rule) {
        // A selector is rules in parentheses.
        Ok(text) if text.starts_with("db=") || text.starts_with('(') => {
            text.split(' ').map(of_word).collect::<Vec<_>>().join(" ").into_bytes()
        }
        _ => rule.to_vec(),
    }
}

fn user_name(name: &[u8]) -> Result<&str, String> {
    let fits = |name: &&str| !name.is_empty() && !name.chars().any(|c| c.is_whitespace() || c == '\0');
    match std::str::from_utf8(name).ok().filter(fits) {
        Some(NO_USERS) => Err(format!("ERR no user may be called {NO_USERS}")),
        Some(name) => Ok(name),
        None => Err("ERR Usernames can't contain spaces or null characters".to_owned()),
    }
}

fn delete(store: &Arc<NodeShared>, args: &[&[u8]]) -> Result<i64, String> {
    if args[2..].iter().any(|name| *name == DEFAULT_USER.as_bytes()) {
        return Err("ERR The 'default' user cannot be removed".to_owned());
    }
    import(store)?;
    let mut words: Vec<&[u8]> = vec![b"ACL", DELETE];
    words.extend_from_slice(&args[2..]);
    changed(store, &words)
}

fn aclfile(store: &NodeShared) -> Result<String, String> {
    let path = store.config.text("aclfile").filter(|path| !path.is_empty());
    path.ok_or_else(|| NO_FILE.to_owned())
}

fn load(store: &Arc<NodeShared>) -> Result<(), String> {
    let path = aclfile(store)?;
    let users = read_file(&path, &store.config, &mut random).map_err(|text| format!("ERR {text}"))?;
    changed(store, &words_of(REPLACE, &users)).map(drop)
}

fn save(store: &Arc<NodeShared>) -> Result<(), String> {
    let path = aclfile(store)?;
    let text = users_to_file(&store.users.control.users());
    let aside = format!("{path}.tmp-{}", store.node());
    replace_file(Path::new(&path), Path::new(&aside), &text).map_err(|e| {
        log::error!("ACL SAVE: {path} cannot be written: {e}");
        "ERR There was an error trying to save the ACLs. Please check the server logs for more information".to_owned()
    })
}

/// What a backup keeps of users: the name and the rules of each.
fn show(store: &NodeShared, reply: &mut Reply) {
    let users = store.users.control.users();
    let kept: Vec<&Arc<User>> = users.iter().filter(|user| !users.is_of_settings(user)).collect();
    reply.array(2 * kept.len());
    for user in kept {
        reply.bulk(user.name().as_bytes());
        reply.bulk(&user.rules());
    }
}

/// The words that have the store keep these users.
fn words_of<'a>(word: &'static [u8], users: impl IntoIterator<Item = &'a User>) -> Vec<Vec<u8>> {
    let mut words = vec![b"ACL".to_vec(), word.to_vec()];
    for user in users {
        words.extend([user.name().as_bytes().to_vec(), user.rules()]);
    }
    words
}

/// Has the store keep the users of this node's file, if it has none yet.
fn import(store: &Arc<NodeShared>) -> Result<(), String> {
    let own = store.users.own();
    let is_done = store.known().map.as_ref().is_none_or(|map| !map.users.is_empty());
    if own.is_empty() || is_done {
        return Ok(());
    }
    changed(store, &words_of(IMPORT, own.iter().map(|user| &**user))).map(drop)
}

/// The same, as soon as the store can. Waits: for a thread of its own.
pub(crate) fn import_patiently(store: &Arc<NodeShared>) {
    let mut told = String::new();
    while !store.is_stopping() {
        let has_map = store.known().map.is_some();
        match import(store) {
            Ok(()) if has_map => return,
            Err(text) if text != told => {
                log::warn!("the users of `aclfile` hold on this node alone: {text}");
                told = text;
            }
            _ => {}
        }
        std::thread::sleep(IMPORT_PAUSE);
    }
}

/// Has the leader of the metadata group change users, and waits until this node goes by it. Answers how many users changed.
fn changed<T: AsRef<[u8]>>(store: &Arc<NodeShared>, words: &[T]) -> Result<i64, String> {
    let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
    let Value::Array(answer) = change_at_meta(store, &words)? else { return Err(unreadable()) };
    let [Value::Int(epoch), Value::Int(count)] = answer[..] else { return Err(unreadable()) };
    let until = Instant::now() + KNOWN_WITHIN;
    if !store.users.wait_for(Epoch(epoch.unsigned_abs()), until) {
        return Err("TIMEOUT the users are changed, but this node does not know it yet".to_owned());
    }
    // The connections of this node go by its users then: those that have lost theirs are closed. A worker that takes longer goes by them
    // before it looks at its next request.
    store.mailboxes.await_all(until, |done| WorkerMessage::UsersChanged(Some(done)));
    Ok(count)
}

fn unreadable() -> String {
    "ERR the metadata group has answered what cannot be read".to_owned()
}

/// Answers another node: one RESP3 frame, the epoch of the map and how many users have changed.
fn serve(store: &Arc<NodeShared>, _: ShardId, args: &[&[u8]]) -> Vec<u8> {
    let mut reply = Reply::new(Proto::Resp3);
    match leading(store, args) {
        Ok((epoch, count)) => {
            reply.array(2);
            reply.int(epoch.0 as i64);
            reply.int(count as i64);
        }
        Err(text) => reply.error(&text),
    }
    reply.buf
}

/// On the leader of the metadata group.
fn leading(store: &Arc<NodeShared>, args: &[&[u8]]) -> Result<(Epoch, usize), String> {
    let handle = meta_leader(store)?;
    let _one_at_a_time = store.users.begin_change();
    let changes = |map: &Map| -> Result<Vec<UserChange>, String> {
        match args {
            [_, word, name, base, all, rules @ ..] if *word == SET => {
                set_in(map, user_name(name)?, base, *all == b"1", rules).map(|user| vec![user])
            }
            [_, word, names @ ..] if *word == DELETE => Ok(deleted_in(map, names)),
            [_, word, pairs @ ..] if *word == REPLACE => replaced_in(map, pairs),
            // Also where it has had users, and they are gone.
            [_, word, ..] if *word == IMPORT && !map.users.is_empty() => Ok(Vec::new()),
            [_, word, pairs @ ..] if *word == IMPORT => replaced_in(map, pairs),
            _ => Err("ERR this command is not for other nodes".to_owned()),
        }
    };
    let count = change(store, &handle, |map| {
        may_keep_users(store, map).map_err(AdminError::Refused)?;
        let users = changes(map).map_err(|text| AdminError::of_reply(&text))?;
        let count = users.len();
        let users = with_mark(map, users, args.get(1) == Some(&REPLACE));
        Ok(((!users.is_empty()).then_some(Change::SetUsers(users)), count))
    });
    let count = count.map_err(|error| error.reply())?;
    let epoch = newest_map(&handle).map_err(|error| error.reply())?.epoch;
    Ok((epoch, count))
}

/// A map with users cannot be read by nodes of earlier releases. So the first user waits until all nodes are known to read it.
fn may_keep_users(store: &NodeShared, map: &Map) -> Result<(), String> {
    if !map.users.is_empty() {
        return Ok(());
    }
    let others = map.nodes.keys().filter(|node| **node != store.node());
    for node in others {
        match store.entry_formats.knows_users(*node) {
            Some(true) => {}
            Some(false) => return Err(format!("node {node} runs a release that knows no users: update it first")),
            None => {
                return Err(format!(
                    "node {node} has not been heard of: the first user is made while all nodes are up"
                ));
            }
        }
    }
    Ok(())
}

fn set_in(map: &Map, name: &str, base: &[u8], all: bool, rules: &[&[u8]]) -> Result<UserChange, String> {
    let was = map.users.get(name).map(<[u8]>::to_vec);
    let mut user = User::of_rules(name, was.as_deref().unwrap_or(base)).map_err(|why| format!("ERR {why}"))?;
    user.change(rules, &mut NewUser { all, salt: &mut random }).map_err(|why| format!("ERR {why}"))?;
    let now = user.rules();
    // What every node reads of it is what it is.
    if User::of_rules(name, &now).as_ref() != Ok(&user) {
        return Err("ERR Error in ACL SETUSER: a pattern with a parenthesis cannot be kept".to_owned());
    }
    Ok(UserChange { name: name.to_owned(), was, now: Some(now) })
}

fn deleted_in(map: &Map, names: &[&[u8]]) -> Vec<UserChange> {
    let known = |name: &&[u8]| {
        let name = std::str::from_utf8(name).ok().filter(|name| *name != NO_USERS)?;
        Some((name.to_owned(), map.users.get(name)?.to_vec()))
    };
    let known: BTreeMap<String, Vec<u8>> = names.iter().filter_map(known).collect();
    known.into_iter().map(|(name, was)| UserChange { name, was: Some(was), now: None }).collect()
}

/// The users of the map are these, and no others.
fn replaced_in(map: &Map, pairs: &[&[u8]]) -> Result<Vec<UserChange>, String> {
    let (pairs, _) = pairs.as_chunks::<2>();
    let mut users: BTreeMap<String, UserChange> = BTreeMap::new();
    for (name, was) in map.users.iter().filter(|(name, _)| **name != NO_USERS) {
        users.insert(name.clone(), UserChange { name: name.clone(), was: Some(was.clone()), now: None });
    }
    // A node of a release before shows the mark as a user.
    for [name, rules] in pairs.iter().filter(|[name, _]| *name != NO_USERS.as_bytes()) {
        let name = user_name(name)?;
        User::of_rules(name, rules).map_err(|why| format!("ERR {why}"))?;
        let none = UserChange { name: name.to_owned(), was: None, now: None };
        users.entry(name.to_owned()).or_insert(none).now = Some(rules.to_vec());
    }
    Ok(users.into_values().filter(|user| user.was != user.now).collect())
}

/// The same changes, with that of the row which says that a map has no users any more. `replaces`: they say which users there are.
fn with_mark(map: &Map, mut users: Vec<UserChange>, replaces: bool) -> Vec<UserChange> {
    if users.is_empty() && !replaces {
        return users;
    }
    let gone: BTreeSet<&str> = users.iter().filter(|user| user.now.is_none()).map(|user| &*user.name).collect();
    let stays = |name: &str| name != NO_USERS && !gone.contains(name);
    let has_any = users.iter().any(|user| user.now.is_some()) || map.users.iter().any(|(name, _)| stays(name));
    let was = map.users.get(NO_USERS).map(<[u8]>::to_vec);
    let now = (!has_any).then(|| NO_USERS_RULES.to_vec());
    if was != now {
        users.push(UserChange { name: NO_USERS.to_owned(), was, now });
    }
    users
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::TestNode;

    fn names(map: &Map) -> String {
        map.users.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_map_tells_that_its_users_are_gone() {
        let mut map = Map::default();
        let mut change = |words: &str, expected: (usize, &str)| {
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            let users = match &words[..] {
                [b"set", name] => vec![set_in(&map, user_name(name).unwrap(), b"on", false, &[]).unwrap()],
                [b"delete", names @ ..] => deleted_in(&map, names),
                [b"replace", pairs @ ..] => replaced_in(&map, pairs).unwrap(),
                _ => panic!("{words:?}"),
            };
            let count = users.len();
            let users = with_mark(&map, users, words[0] == b"replace");
            cluster::apply(&mut map, &Change::SetUsers(users)).unwrap();
            assert_eq!((count, &*names(&map)), expected, "{words:?}");
        };
        change("delete alice", (0, ""));
        change("set alice", (1, "alice"));
        change("set bob", (1, "alice bob"));
        change("delete alice nosuch", (1, "bob"));
        change("delete bob", (1, ".no-users"));
        change("delete bob .no-users", (0, ".no-users"));
        change("set alice", (1, "alice"));
        change("replace bob on eve off", (3, "bob eve"));
        change("replace", (2, ".no-users"));
        change("replace", (0, ".no-users"));
        change("replace alice on", (1, "alice"));
        assert!(user_name(NO_USERS.as_bytes()).is_err());
        assert!(User::of_rules(NO_USERS, NO_USERS_RULES).is_ok_and(|user| !user.is_enabled() && user.is_restricted()));
    }

    #[test]
    fn users_that_were_deleted_stay_away() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users.acl");
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        write("user alice on nopass ~* +@all\n");
        let path = file.display().to_string();
        let settings = [("aclfile", &*path), ("requirepass", "secret")];
        let mut node = TestNode::start(&settings);
        import(node.store()).unwrap();
        let users = |node: &TestNode| {
            let users = node.store().users.control.users();
            users.iter().map(|user| user.name().to_string()).collect::<Vec<_>>().join(" ")
        };
        let ask = |node: &TestNode, line: &str, answer: &str, expected: &str| {
            assert_eq!((node.call(line).trim_end(), &*users(node)), (answer, expected), "{line}");
        };
        ask(&node, "ACL DELUSER alice", ":1", "default");
        node.restart(&settings);
        assert_eq!(users(&node), "default");
        ask(&node, "ACL SETUSER bob on", "+OK", "bob default");
        // `default` is not in the file: `requirepass` stays its password.
        ask(&node, "ACL SAVE", "+OK", "bob default");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "user bob on resetchannels -@all\n");
        ask(&node, "ACL DELUSER bob", ":1", "default");
        ask(&node, "ACL LOAD", "+OK", "bob default");
        assert!(node.store().users.asks_password(&node.store().config));
        write("");
        ask(&node, "ACL LOAD", "+OK", "default");
        node.restart(&settings);
        assert_eq!(users(&node), "default");
        assert!(node.store().users.asks_password(&node.store().config));
    }

    #[test]
    fn rules_have_the_numbers_of_databases() {
        let databases = "3:name=orders;4:name=mail".parse().unwrap();
        for (rule, expected) in [
            ("db=orders", "db=3"),
            ("db=0,orders,mail", "db=0,3,4"),
            ("db=none", "db=none"),
            ("(+get ~a* db=orders)", "(+get ~a* db=3)"),
            ("(db=mail ~a*)", "(db=4 ~a*)"),
            ("~db=orders", "~db=orders"),
            ("~a db=orders", "~a db=orders"),
        ] {
            assert_eq!(numbered(rule.as_bytes(), &databases), expected.as_bytes(), "{rule}");
        }
    }
}
