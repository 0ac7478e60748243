//! Files of users, as Redis's `aclfile`: a line `user name rule …` each.

use super::user::{NewUser, User};
use super::users::Users;
use std::sync::Arc;

/// The users of a file's text; `name` is shown in errors. The error is the text of a reply without its code.
pub fn users_of_file(name: &str, text: &[u8], new: &mut NewUser<'_>) -> Result<Vec<User>, String> {
    let mut users: Vec<User> = Vec::new();
    let mut errors = String::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let words = super::argument_list::words(line);
        let Some((first, rest)) = words.split_first() else { continue };
        let named = rest.split_first().filter(|_| *first == b"user");
        let Some((user, rules)) = named else {
            errors += &format!("{name}:{number} should start with user keyword followed by the username. ");
            continue;
        };
        let Ok(user) = std::str::from_utf8(user) else {
            errors += &format!("{name}:{number}: username contains invalid characters. ");
            continue;
        };
        if users.iter().any(|other| **other.name() == *user) {
            errors += &format!("WARNING: Duplicate user '{user}' found on line {number}. ");
            continue;
        }
        let mut made = User::new(user, new.all);
        for fault in made.change_by_line(rules, new).err().unwrap_or_default() {
            errors += &format!("{name}:{number}: {fault}. ");
        }
        users.push(made);
    }
    match errors.is_empty() {
        true => Ok(users),
        false => {
            Err(errors + "WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
        }
    }
}

/// The text of a file of these users. `default` is left out as long as it has no rules: in a file it would have some, and the setting
/// `requirepass` would be its password no longer.
#[must_use]
pub fn users_to_file(users: &Users) -> Vec<u8> {
    let line = |user: &Arc<User>| [b"user ", user.name().as_bytes(), b" ", &user.rules(), b"\n"].concat();
    users.iter().filter(|user| !users.is_of_settings(user)).flat_map(line).collect()
}
