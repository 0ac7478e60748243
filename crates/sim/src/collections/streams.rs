//! Commands on streams, on the plain model.

use super::arguments::{count, number};
use super::keyspace::{Content, Keyspace, Replied};
use super::stream::{Group, Id, Stream, id_value};
use resp::Value;

const TOO_SMALL: &str = "ERR The ID specified in XADD is equal or smaller than the target stream top item";
const NO_KEY: &str = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the \
                      MKSTREAM option to create an empty stream automatically.";
const GROUP_EXISTS: &str = "BUSYGROUP Consumer Group name already exists";

/// Runs a command at the time `now_ms`; none if it is not one on streams.
pub fn run(space: &mut Keyspace, name: &str, args: &[&[u8]], now_ms: u64) -> Option<Replied> {
    let key = args[0];
    Some(match name {
        "XADD" => add(space, key, &args[1..], now_ms),
        "XLEN" => stream(space, key).map(|stream| count(stream.map_or(0, |stream| stream.entries.len()))),
        "XRANGE" | "XREVRANGE" => stream(space, key).map(|stream| {
            let stream = stream.unwrap_or_default();
            let mut entries = entries(&stream, stream.entries.keys().copied());
            if name == "XREVRANGE" {
                entries.reverse();
            }
            Value::Array(entries)
        }),
        "XDEL" => changed(space, key, |stream| {
            count(args[1..].iter().filter(|word| stream.entries.remove(&id(word)).is_some()).count())
        }),
        "XTRIM" => changed(space, key, |stream| count(stream.trim(size(args[2])))),
        "XREAD" => read(space, args),
        "XREADGROUP" => read_group(space, args, now_ms),
        "XGROUP" => group_command(space, args),
        "XACK" => changed(space, key, |stream| {
            let Some(group) = stream.groups.get_mut(args[1]) else { return count(0) };
            count(args[2..].iter().filter(|word| group.pending.remove(&id(word)).is_some()).count())
        }),
        "XPENDING" => stream(space, key).map(|stream| match stream.unwrap_or_default().groups.get(args[1]) {
            Some(group) => group.summary(),
            None => no_group(key, args[1], ""),
        }),
        "XCLAIM" | "XAUTOCLAIM" => claim(space, name, args, now_ms),
        _ => return None,
    })
}

/// The stream at a key.
fn stream(space: &Keyspace, key: &[u8]) -> Result<Option<Stream>, &'static str> {
    space.content(key, |content| match content {
        Content::Stream(stream) => Some(Some(stream.clone())),
        _ => None,
    })
}

/// Changes the stream at a key; nothing is there: a count of nothing.
fn changed(space: &mut Keyspace, key: &[u8], change: impl FnOnce(&mut Stream) -> Value) -> Replied {
    let Some(mut stream) = stream(space, key)? else { return Ok(count(0)) };
    let reply = change(&mut stream);
    space.keep(key, Content::Stream(stream));
    Ok(reply)
}

/// `[MAXLEN n] id field value…`
fn add(space: &mut Keyspace, key: &[u8], words: &[&[u8]], now_ms: u64) -> Replied {
    let mut stream = stream(space, key)?.unwrap_or_default();
    let (length, words) = match words {
        [b"MAXLEN", length, rest @ ..] => (Some(size(length)), rest),
        words => (None, words),
    };
    let id = if words[0] == b"*" { stream.next_id(now_ms) } else { id(words[0]) };
    if !stream.add(id, &words[1..]) {
        return Err(TOO_SMALL);
    }
    if let Some(length) = length {
        stream.trim(length);
    }
    space.keep(key, Content::Stream(stream));
    Ok(id_value(id))
}

/// `[COUNT n] STREAMS key id`
fn read(space: &Keyspace, args: &[&[u8]]) -> Replied {
    let Words { most, key, from, .. } = Words::of(args);
    let stream = stream(space, key)?.unwrap_or_default();
    let found = entries(&stream, stream.behind(id(from), most));
    Ok(if found.is_empty() { Value::Null } else { of_stream(key, found) })
}

/// `GROUP group consumer [COUNT n] [NOACK] STREAMS key id`, where the id may be `>`.
fn read_group(space: &mut Keyspace, args: &[&[u8]], now_ms: u64) -> Replied {
    let (group, consumer) = (args[1], args[2]);
    let Words { most, is_kept, key, from } = Words::of(&args[3..]);
    let Some(mut stream) = stream(space, key)?.filter(|stream| stream.groups.contains_key(group)) else {
        return Ok(no_group(key, group, " in XREADGROUP with GROUP option"));
    };
    let (found, is_new) = match from {
        b">" => (stream.deliver(group, consumer, most, is_kept, now_ms), true),
        from => (stream.deliver_again(group, consumer, id(from), most, now_ms), false),
    };
    space.keep(key, Content::Stream(stream));
    Ok(if found.is_empty() && is_new { Value::Null } else { of_stream(key, found) })
}

/// The words of a read of one stream.
struct Words<'a> {
    most: usize,
    is_kept: bool,
    key: &'a [u8],
    from: &'a [u8],
}

impl<'a> Words<'a> {
    fn of(words: &[&'a [u8]]) -> Self {
        let after = |word: &[u8]| words.iter().position(|one| *one == word).map_or(words.len(), |at| at + 1);
        let most = words.get(after(b"COUNT")).map_or(usize::MAX, |count| size(count));
        let at = after(b"STREAMS");
        Self { most, is_kept: !words.contains(&&b"NOACK"[..]), key: words[at], from: words[at + 1] }
    }
}

/// `CREATE key group id [MKSTREAM]`, `SETID key group id`, `DESTROY key group`, `DELCONSUMER key group consumer`.
fn group_command(space: &mut Keyspace, args: &[&[u8]]) -> Replied {
    let (key, group) = (args[1], args[2]);
    let found = stream(space, key)?;
    if found.is_none() && !args.contains(&&b"MKSTREAM"[..]) {
        return Err(NO_KEY);
    }
    let mut stream = found.unwrap_or_default();
    let last = args.get(3).map_or((0, 0), |word| if *word == b"$" { stream.last } else { id(word) });
    let has_group = stream.groups.contains_key(group);
    let reply = match args[0] {
        b"CREATE" if has_group => return Err(GROUP_EXISTS),
        b"CREATE" => {
            stream.groups.insert(group.to_vec(), Group { last, ..Group::default() });
            ok()
        }
        b"DESTROY" => count(usize::from(stream.groups.remove(group).is_some())),
        _ => {
            let Some(of_name) = stream.groups.get_mut(group) else {
                let [key, group] = [key, group].map(String::from_utf8_lossy);
                return Ok(Value::Error(format!("NOGROUP No such consumer group '{group}' for key name '{key}'")));
            };
            if args[0] == b"SETID" {
                of_name.last = last;
                ok()
            } else {
                let before = of_name.pending.len();
                of_name.pending.retain(|_, pending| pending.consumer != args[3]);
                count(before - of_name.pending.len())
            }
        }
    };
    space.keep(key, Content::Stream(stream));
    Ok(reply)
}

/// How many pending entries XAUTOCLAIM looks at for each that it is to give.
const LOOKS: usize = 10;
/// How many it gives if it is not told.
const COUNT: usize = 100;

/// `key group consumer idle id…`, or of XAUTOCLAIM `key group consumer idle start [COUNT n]`.
fn claim(space: &mut Keyspace, name: &str, args: &[&[u8]], now_ms: u64) -> Replied {
    let (key, group, consumer, idle_ms) = (args[0], args[1], args[2], size(args[3]) as u64);
    let Some(mut stream) = stream(space, key)? else { return Ok(no_group(key, group, "")) };
    let Some(of_name) = stream.groups.get(group) else { return Ok(no_group(key, group, "")) };
    let reply = if name == "XCLAIM" {
        let ids: Vec<Id> = args[4..].iter().map(|word| id(word)).collect();
        let given = stream.claim(group, &ids, consumer, idle_ms, now_ms).given;
        Value::Array(entries(&stream, given))
    } else {
        let mut left = args.get(6).map_or(COUNT, |word| size(word));
        let mut looks = LOOKS * left;
        let from: Vec<Id> = of_name.pending.range(id(args[4])..).map(|(id, _)| *id).collect();
        let (mut given, mut gone) = (Vec::new(), Vec::new());
        let mut next = from.iter();
        while looks > 0
            && left > 0
            && let Some(id) = next.next()
        {
            let claimed = stream.claim(group, &[*id], consumer, idle_ms, now_ms);
            looks -= 1;
            left -= claimed.given.len() + claimed.gone.len();
            given.extend(claimed.given);
            gone.extend(claimed.gone);
        }
        let cursor = next.next().copied().unwrap_or_default();
        let gone = gone.into_iter().map(id_value).collect();
        Value::Array(vec![id_value(cursor), Value::Array(entries(&stream, given)), Value::Array(gone)])
    };
    space.keep(key, Content::Stream(stream));
    Ok(reply)
}

/// An id of one or two numbers; `-` is the lowest.
fn id(word: &[u8]) -> Id {
    let mut numbers = word.split(|byte| *byte == b'-').map(|digits| size(digits) as u64);
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn size(word: &[u8]) -> usize {
    usize::try_from(number(word)).unwrap_or(0)
}

fn ok() -> Value {
    Value::Simple("OK".to_owned())
}

fn entries(stream: &Stream, ids: impl IntoIterator<Item = Id>) -> Vec<Value> {
    ids.into_iter().map(|id| stream.entry(id)).collect()
}

/// The entries of one stream as a read of several replies them.
fn of_stream(key: &[u8], entries: Vec<Value>) -> Value {
    Value::Array(vec![Value::Array(vec![Value::Bulk(key.to_vec()), Value::Array(entries)])])
}

fn no_group(key: &[u8], group: &[u8], where_from: &str) -> Value {
    let [key, group] = [key, group].map(String::from_utf8_lossy);
    Value::Error(format!("NOGROUP No such key '{key}' or consumer group '{group}'{where_from}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::keyspace::WRONG_TYPE;
    use crate::collections::model::after;

    /// A value as text: `3`, `OK`, `nil`, `-ERR…`, `[a b]`.
    fn text(value: &Value) -> String {
        match value {
            Value::Int(number) => number.to_string(),
            Value::Simple(text) => text.clone(),
            Value::Error(text) => format!("-{text}"),
            Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::Array(values) => format!("[{}]", values.iter().map(text).collect::<Vec<_>>().join(" ")),
            _ => "nil".to_owned(),
        }
    }

    #[test]
    fn each_command_replies_and_leaves_what_it_should() {
        let no_group = "-NOGROUP No such key 's' or consumer group 'h'";
        // One state after the other, each a ms later.
        let table = [
            ("XADD s 5 f v", "5-0"),
            ("XADD s 5 f v", &format!("-{TOO_SMALL}")),
            ("XADD s * f w", "5-1"),
            ("XADD s MAXLEN 2 7-3 f x", "7-3"),
            ("XLEN s", "2"),
            ("XRANGE s - +", "[[5-1 [f w]] [7-3 [f x]]]"),
            ("XREVRANGE s + -", "[[7-3 [f x]] [5-1 [f w]]]"),
            ("XREAD COUNT 1 STREAMS s 5", "[[s [[5-1 [f w]]]]]"),
            ("XREAD STREAMS s 7-3", "nil"),
            ("XGROUP CREATE t g 0", &format!("-{NO_KEY}")),
            ("XGROUP CREATE t g $ MKSTREAM", "OK"),
            ("XGROUP CREATE t g 0", &format!("-{GROUP_EXISTS}")),
            ("XGROUP CREATE s g 0", "OK"),
            ("XREADGROUP GROUP g a COUNT 1 STREAMS s >", "[[s [[5-1 [f w]]]]]"),
            ("XREADGROUP GROUP g b STREAMS s >", "[[s [[7-3 [f x]]]]]"),
            ("XREADGROUP GROUP g b STREAMS s >", "nil"),
            ("XREADGROUP GROUP h b STREAMS s >", &format!("{no_group} in XREADGROUP with GROUP option")),
            ("XPENDING s g", "[2 5-1 7-3 [[a 1] [b 1]]]"),
            ("XPENDING s h", no_group),
            ("XREADGROUP GROUP g a STREAMS s 0", "[[s [[5-1 [f w]]]]]"),
            // The delivery before this was two ms ago.
            ("XPENDING t g", "[0 nil nil nil]"),
            ("XCLAIM s g b 9 5-1", "[]"),
            ("XCLAIM s g b 3 5-1", "[[5-1 [f w]]]"),
            ("XDEL s 5-1 9", "1"),
            ("XREADGROUP GROUP g b STREAMS s 0", "[[s [[5-1 nil] [7-3 [f x]]]]]"),
            ("XAUTOCLAIM s g a 0 0 COUNT 1", "[7-3 [] [5-1]]"),
            ("XAUTOCLAIM s g a 0 0", "[0-0 [[7-3 [f x]]] []]"),
            ("XACK s g 7-3 7-4", "1"),
            ("XACK s h 7-3", "0"),
            ("XPENDING s g", "[0 nil nil nil]"),
            ("XGROUP SETID s g 0", "OK"),
            ("XREADGROUP GROUP g c NOACK STREAMS s >", "[[s [[7-3 [f x]]]]]"),
            ("XPENDING s g", "[0 nil nil nil]"),
            ("XGROUP SETID s g 0", "OK"),
            ("XREADGROUP GROUP g c STREAMS s >", "[[s [[7-3 [f x]]]]]"),
            ("XGROUP DELCONSUMER s g c", "1"),
            ("XGROUP DELCONSUMER s h c", "-NOGROUP No such consumer group 'h' for key name 's'"),
            ("XGROUP DESTROY s g", "1"),
            ("XGROUP DESTROY s g", "0"),
            ("XTRIM s MAXLEN 0", "1"),
            ("TYPE s", "stream"),
            ("XADD s 7-3 f v", &format!("-{TOO_SMALL}")),
            ("SADD s 1", &format!("-{WRONG_TYPE}")),
            ("XLEN none", "0"),
            ("XADD s * f v", "45-0"),
        ];
        let mut space = Keyspace::default();
        for (now_ms, (command, reply)) in (1..).zip(table) {
            let words: Vec<Vec<u8>> = command.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            let args: Vec<&[u8]> = words[1..].iter().map(Vec::as_slice).collect();
            let replied = run(&mut space.clone(), &String::from_utf8_lossy(&words[0]), &args, now_ms);
            if let Some(replied) = replied {
                let replied = replied.unwrap_or_else(|text| Value::Error(text.to_owned()));
                assert_eq!(text(&replied), reply, "{command}");
            }
            let left = after(&space, &words, now_ms, None);
            assert!(after(&space, &words, now_ms, Some(&Value::Int(77))).is_empty(), "{command}");
            space = left.into_iter().next().expect("one state follows");
        }
    }
}
