//! Commands on keys of any type, on the plain model.

use super::arguments::count;
use super::keyspace::{Keyspace, NO_SUCH_KEY, Replied};
use resp::Value;

/// Runs a command at the time `now_ms`.
pub fn run(space: &mut Keyspace, name: &str, args: &[&[u8]], now_ms: u64) -> Replied {
    let key = args[0];
    let number = |word: &[u8]| std::str::from_utf8(word).ok().and_then(|text| text.parse::<u64>().ok());
    match name {
        "DEL" => Ok(count(args.iter().filter(|key| space.remove(key)).count())),
        "EXISTS" => Ok(count(args.iter().filter(|key| space.has(key)).count())),
        "TYPE" => Ok(Value::Simple(space.type_name(key).to_owned())),
        "RENAME" if !space.copy(key, args[1]) => Err(NO_SUCH_KEY),
        "RENAME" => {
            if key != args[1] {
                space.remove(key);
            }
            Ok(Value::Simple("OK".to_owned()))
        }
        "COPY" => {
            let may = args.len() > 2 || !space.has(args[1]);
            Ok(count(usize::from(may && space.copy(key, args[1]))))
        }
        "PEXPIRE" => {
            let at_ms = number(args[1]).map(|ms| now_ms + ms);
            Ok(count(usize::from(space.expire(key, at_ms))))
        }
        "PERSIST" => {
            let expires = space.expiry(key).flatten().is_some();
            Ok(count(usize::from(expires && space.expire(key, None))))
        }
        "PEXPIRETIME" => Ok(Value::Int(match space.expiry(key) {
            None => -2,
            Some(None) => -1,
            Some(Some(at_ms)) => i64::try_from(at_ms).unwrap_or(i64::MAX),
        })),
        _ => Err(UNKNOWN),
    }
}

/// The text of the error of a command that the model does not know.
pub const UNKNOWN: &str = "ERR the model does not know this command";
