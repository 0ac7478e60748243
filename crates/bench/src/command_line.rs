//! This process's command line, as reports show it.

/// What stands in for a password.
const HIDDEN: &str = "***";

/// The command line, one argument an element, the program first: without passwords, for reports are given away.
pub(crate) fn shown() -> Vec<String> {
    std::env::args_os().map(|word| hidden(&word.to_string_lossy())).collect()
}

/// A word of a command line with its passwords hidden: those of an address, and those that a property is.
fn hidden(word: &str) -> String {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    if !value.is_empty() && ["password", "secret"].iter().any(|kind| name.to_ascii_lowercase().ends_with(kind)) {
        return format!("{name}={HIDDEN}");
    }
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    // A password may hold any character that its place may not.
    let Some((login, place)) = rest.rsplit_once('@') else { return word.to_owned() };
    match login.split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}:{HIDDEN}@{place}"),
        None => format!("{scheme}://{login}@{place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden() {
        for (word, shown) in [
            ("run", "run"),
            ("--target", "--target"),
            ("redis://h:1,h:2/0", "redis://h:1,h:2/0"),
            ("redis://user@h:1", "redis://user@h:1"),
            ("redis://:secret@h:1", "redis://:***@h:1"),
            ("rediss://user:s@cr/e:t@h:1,h:2", "rediss://user:***@h:1,h:2"),
            ("--target=etcd://me:p%40ss@[::1]:5", "--target=etcd://me:***@[::1]:5"),
            ("recordcount=7", "recordcount=7"),
            ("db.Password=secret", "db.Password=***"),
            ("a@b", "a@b"),
        ] {
            assert_eq!(hidden(word), shown, "{word}");
        }
    }
}
