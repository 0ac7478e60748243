//! Requests with an id of their client's: each is applied once, and a retry gets the first answer.
//!
//! `… REQUEST client number` ends a KV.PUT, KV.DEL or KV.EXEC. The client draws an id that no other run of any client
//! has, and numbers its requests upwards from 1. A shard remembers the answers to the last `REQUESTS_MAX` of each client
//! until `REQUESTS_KEPT_MS` after its last one. What it can no longer tell from a retry is an error, never applied. An
//! error is no answer: nothing was applied, and a retry is tried anew. FLUSHALL leaves all of it: what it has removed shall
//! not come back by a retry.

use super::args::{SYNTAX, is_word};
use super::call::{Call, Error, Outcome, WriteCall};
use crate::Fault;
use crate::format::client_requests::{AppliedRequest, ClientRequests};
use crate::guarantees::ChosenDurability;
use resp::{Proto, Reply};
use vocab::limits::{REQUEST_CLIENT_BYTES_MAX, REQUEST_CLIENTS_MAX, REQUESTS_KEPT_MS};
use xxhash_rust::xxh3::Xxh3;

/// How much longer than needed a row is kept, so that its place in the order of forgetting need not change every time.
const SLACK_MS: u64 = REQUESTS_KEPT_MS / 10;

/// What a client calls a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestId<'a> {
    client: &'a [u8],
    number: u64,
}

impl<'a> RequestId<'a> {
    /// Takes `[DURABILITY word [word]] [REQUEST client number]` off the end of a request. Its first `own` words are
    /// never part of that. The shell has read the durability before.
    pub(super) fn split<'w>(words: &'w [&'a [u8]], own: usize) -> Result<(&'w [&'a [u8]], Option<Self>), Error> {
        let (words, id) = match words {
            [rest @ .., word, client, number] if rest.len() >= own && is_word(word, "REQUEST") => {
                (rest, Some(Self::parse(client, number)?))
            }
            _ => (words, None),
        };
        let (words, durability) = ChosenDurability::split(words, own);
        durability.ok_or(SYNTAX)?;
        Ok((words, id))
    }

    /// All of `words`: nothing but what `split` takes off.
    pub(super) fn whole(words: &[&'a [u8]]) -> Result<Option<Self>, Error> {
        match Self::split(words, 0)? {
            ([], id) => Ok(id),
            _ => Err(SYNTAX.into()),
        }
    }

    fn parse(client: &'a [u8], number: &[u8]) -> Result<Self, Error> {
        if client.is_empty() || client.len() > REQUEST_CLIENT_BYTES_MAX {
            return Err("ERR a client id has 1 to 64 bytes".into());
        }
        let number = resp::parse_integer(number).and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
        let number = number.ok_or("ERR request number is not a positive integer")?;
        Ok(Self { client, number })
    }
}

const _: () = assert!(REQUEST_CLIENT_BYTES_MAX == 64, "an error says how long a client id may be");

/// Runs a command unless it is a retry; then it gets the first answer. Without an id, just runs it.
pub(super) fn once(
    call: &mut WriteCall<'_>,
    id: Option<RequestId<'_>>,
    run: impl FnOnce(&mut WriteCall<'_>) -> Outcome,
) -> Outcome {
    let Some(id) = id else { return run(call) };
    let hash = hash_of(call.args);
    let row = call.space.requests(id.client)?;
    let mut row = row.map(|row| ClientRequests::decode(&row).ok_or_else(|| corrupt(id.client))).transpose()?;
    if let Some(row) = &row {
        if let Some(known) = row.known.iter().find(|known| known.number == id.number) {
            return answer_again(known, id, hash, call.reply);
        }
        if id.number <= row.forgotten {
            return Err(refusal(id, "is too old to be told from a retry: nothing was done now"));
        }
    } else if call.space.request_clients()? >= REQUEST_CLIENTS_MAX {
        return Err("BUSY too many clients number their requests in this shard, try again later".into());
    }
    // Always RESP2: every replica must remember the same bytes, and only the leader knows what the client speaks.
    let mut own = Reply::new(Proto::Resp2);
    own.limit(call.reply.room());
    run(&mut Call { args: call.args, space: call.space, reply: &mut own })?;
    call.reply.spend(own.spent());
    if own.exceeded() {
        // The caller sees that the bound is passed: it answers an error and takes the writes back.
        return Ok(());
    }
    let was_until_ms = row.as_ref().map(|row| row.until_ms);
    let row = row.get_or_insert_default();
    if !write_answer(&own.buf, call.reply) {
        return Err("ERR the answer cannot be written".into());
    }
    row.remember(id.number, hash, own.buf);
    let now_ms = call.space.now_ms();
    if row.until_ms < now_ms + REQUESTS_KEPT_MS {
        row.until_ms = now_ms + REQUESTS_KEPT_MS + SLACK_MS;
    }
    call.space.put_requests(id.client, &row.encode(), row.until_ms, was_until_ms)?;
    Ok(())
}

fn refusal(id: RequestId<'_>, why: &str) -> Error {
    Error::Reply(format!("ERR request {} of client {} {why}", id.number, id.client.escape_ascii()).into())
}

fn corrupt(client: &[u8]) -> Error {
    let path = format!("the requests of client {}", client.escape_ascii()).into();
    Error::Fault(Fault::Storage(storage::Error::Corrupt { path, detail: "malformed row".to_owned() }))
}

fn hash_of(args: &[&[u8]]) -> u32 {
    let mut hash = Xxh3::new();
    for (i, arg) in args.iter().enumerate() {
        hash.update(&(arg.len() as u64).to_le_bytes());
        // A retry may write the command's name otherwise.
        if i == 0 { hash.update(&arg.to_ascii_uppercase()) } else { hash.update(arg) }
    }
    (hash.digest() >> 32) as u32
}

/// Writes an answer that was made in RESP2 as the client has it.
fn write_answer(answer: &[u8], reply: &mut Reply) -> bool {
    if reply.proto == Proto::Resp2 {
        reply.raw(answer);
        return true;
    }
    let Ok(Some((value, _))) = resp::decode(answer) else { return false };
    // Only what `run` has written counts against the reply's bound.
    let mut encoded = Reply::new(reply.proto);
    value.write(&mut encoded);
    reply.raw(&encoded.buf);
    true
}

/// Answers a request that was applied before.
fn answer_again(known: &AppliedRequest, id: RequestId<'_>, hash: u32, reply: &mut Reply) -> Outcome {
    if known.hash != hash {
        return Err(refusal(id, "was another one"));
    }
    let answer = known.reply.as_ref().ok_or_else(|| refusal(id, "was applied; its answer was too long to be kept"))?;
    if write_answer(answer, reply) { Ok(()) } else { Err(corrupt(id.client)) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testspace::{self, TestSpace};
    use super::*;
    use crate::format::client_requests::HEAD_BYTES;
    use vocab::limits::{REQUEST_REPLY_BYTES_MAX, REQUEST_ROW_BYTES_MAX, REQUESTS_MAX};

    #[test]
    fn transcript() {
        super::super::transcript::check("requests");
    }

    fn put(space: &mut TestSpace, client: &str, number: u64, value: &[u8], options: &[&[u8]]) -> String {
        space.version += 1;
        let number = number.to_string();
        let mut args: Vec<&[u8]> = vec![b"KV.PUT", b"k", value];
        args.extend(options);
        args.extend([&b"REQUEST"[..], client.as_bytes(), number.as_bytes()]);
        let mut reply = Reply::default();
        match testspace::run(space, &args, &mut reply) {
            Ok(()) => String::from_utf8(reply.buf).unwrap(),
            Err(Error::Reply(text)) => text.into_owned(),
            Err(Error::Fault(fault)) => panic!("{fault:?}"),
        }
    }

    #[test]
    fn the_last_numbers_are_remembered_and_older_ones_refused() {
        let mut space = TestSpace::new();
        for number in 1..=REQUESTS_MAX as u64 + 5 {
            assert_eq!(put(&mut space, "c", number, b"v", &[]), format!(":{number}\r\n"));
        }
        for number in 6..=REQUESTS_MAX as u64 + 5 {
            assert_eq!(put(&mut space, "c", number, b"v", &[]), format!(":{number}\r\n"));
        }
        for number in 1..=5 {
            let text = put(&mut space, "c", number, b"v", &[]);
            assert!(text.starts_with("ERR request 5 of") || number < 5, "{text}");
            assert!(text.ends_with("is too old to be told from a retry: nothing was done now"), "{text}");
        }
        assert_eq!(put(&mut space, "d", 1, b"v", &[]), format!(":{}\r\n", space.version), "another client");
    }

    #[test]
    fn long_answers_are_not_kept_and_rows_are_bounded() {
        let mut space = TestSpace::new();
        let long = vec![b'x'; REQUEST_REPLY_BYTES_MAX];
        put(&mut space, "c", 1, &long, &[]);
        assert!(put(&mut space, "c", 2, b"short", &[b"RETURN"]).starts_with("*3\r\n"));
        let again = put(&mut space, "c", 2, b"short", &[b"RETURN"]);
        assert_eq!(again, "ERR request 2 of client c was applied; its answer was too long to be kept");
        let fitting = vec![b'y'; REQUEST_REPLY_BYTES_MAX - 100];
        (3..20).for_each(|number| _ = put(&mut space, "c", number, &fitting, &[b"RETURN"]));
        let row = space.requests_of("c");
        assert!(row.len() <= REQUEST_ROW_BYTES_MAX + HEAD_BYTES, "{}", row.len());
        assert!(ClientRequests::decode(&row).unwrap().known.len() > 2);
    }

    #[test]
    fn clients_are_bounded_and_forgotten() {
        let mut space = TestSpace::new();
        for client in 0..REQUEST_CLIENTS_MAX {
            put(&mut space, &client.to_string(), 1, b"v", &[]);
        }
        assert!(put(&mut space, "more", 1, b"v", &[]).starts_with("BUSY "));
        assert_eq!(put(&mut space, "0", 1, b"v", &[]), ":1\r\n", "who is known may go on");
        space.now_ms += REQUESTS_KEPT_MS - 1;
        assert_eq!(put(&mut space, "0", 2, b"v", &[]), format!(":{}\r\n", space.version));
        space.now_ms += SLACK_MS + 1;
        space.forget_requests();
        assert_eq!(put(&mut space, "more", 1, b"v", &[]), format!(":{}\r\n", space.version));
        assert_eq!(put(&mut space, "0", 1, b"v", &[]), ":1\r\n", "it was used since");
    }
}
