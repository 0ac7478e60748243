//! Which commands the audit log records, and which of their arguments.

use super::audit_event::AuditKind;
use crate::config;
use resp::table::{CommandSpec, acl, behaviour, flag};
use std::borrow::Cow;

/// What is told of a request: so many words behind the command's name, or every second one, if it names a setting.
#[derive(Clone, Copy)]
enum ToldArguments {
    First(usize),
    Settings,
}

/// Of what kind commands are, and how much of their arguments is told. Others are `Admin`, with two.
const KINDS: &[(&[&str], AuditKind, ToldArguments)] = &[
    (&["ACL|SETUSER"], AuditKind::User, ToldArguments::First(1)),
    (&["ACL|DELUSER"], AuditKind::User, ToldArguments::First(usize::MAX)),
    (&["ACL|LOAD", "ACL|SAVE"], AuditKind::User, ToldArguments::First(0)),
    (&["CONFIG|SET"], AuditKind::Setting, ToldArguments::Settings),
    (&["CONFIG|REWRITE"], AuditKind::Setting, ToldArguments::First(0)),
    (&["KV.ADMIN|SETTINGS"], AuditKind::Setting, ToldArguments::First(2)),
    (&["KV.ADMIN|PLAN", "KV.ADMIN|DRAIN-LEADERS"], AuditKind::Plan, ToldArguments::First(usize::MAX)),
    (&["KV.BACKUP|BEGIN", "KV.BACKUP|END", "KV.ADMIN|NOTE"], AuditKind::Backup, ToldArguments::First(2)),
];

/// What kind of deed a request of an operator is, and its words for the log: no value, no secret. None: it only shows something,
/// or is not an operator's.
#[must_use]
pub fn audited(spec: &CommandSpec, args: &[&[u8]]) -> Option<(AuditKind, String)> {
    if !spec.has(flag::ADMIN) {
        return None;
    }
    let only_shows = spec.acl & acl::ROLE_READ != 0 && spec.other_right(args).is_none();
    if only_shows || spec.does(behaviour::ONLY_SHOWS) {
        return None;
    }
    let depth = if spec.container.is_some() { 2 } else { 1 };
    let row = KINDS.iter().find(|(names, ..)| names.contains(&spec.name));
    let (kind, told) = row.map_or((AuditKind::Admin, ToldArguments::First(2)), |(_, kind, told)| (*kind, *told));
    let mut text = spec.shown_name();
    let rest = args.get(depth..).unwrap_or_default();
    let words: Vec<Cow<'_, str>> = match told {
        ToldArguments::First(count) => rest.iter().take(count).map(|word| String::from_utf8_lossy(word)).collect(),
        // A password with a space that was not quoted stands where a name is expected.
        ToldArguments::Settings => {
            let told = |word: &&[u8]| {
                if config::is_known(word) { String::from_utf8_lossy(word).into_owned() } else { "…".into() }
            };
            rest.iter().step_by(2).map(|word| told(word).into()).collect()
        }
    };
    for word in words {
        text.push(' ');
        text.push_str(&word);
    }
    Some((kind, text))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use resp::table;

    #[test]
    fn deeds_are_told_without_values() {
        for (request, told) in [
            ("GET k", None),
            ("CONFIG GET a", None),
            ("ACL LIST", None),
            ("HOTKEYS GET", None),
            ("HOTKEYS RESET", Some("admin hotkeys|reset")),
            ("KV.BACKUP PROGRAMS", None),
            ("KV.ADMIN STATUS", None),
            ("KV.ADMIN PLAN LIST", None),
            ("CONFIG SET requirepass x timeout 5", Some("setting config|set requirepass timeout")),
            ("CONFIG SET requirepass two words", Some("setting config|set requirepass …")),
            ("CONFIG SET requirepas x", Some("setting config|set …")),
            ("ACL SETUSER a >x on", Some("user acl|setuser a")),
            ("ACL DELUSER a b", Some("user acl|deluser a b")),
            ("KV.ADMIN SETTINGS SET durability nosync", Some("setting kv.admin|settings SET durability")),
            ("KV.ADMIN PLAN APPLY split-shard 1", Some("plan kv.admin|plan APPLY split-shard 1")),
            ("KV.BACKUP BEGIN", Some("backup kv.backup|begin")),
            ("CLIENT KILL ID 3", Some("admin client|kill ID 3")),
            ("SHUTDOWN", Some("admin shutdown")),
        ] {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let found = audited(table::resolve(&args).unwrap(), &args);
            let found = found.map(|(kind, text)| format!("{} {text}", kind.word()));
            assert_eq!(found.as_deref(), told, "{request}");
        }
    }
}
