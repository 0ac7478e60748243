//! A shard that another node leads, as commands over the whole store see it: pages of records, asked for with KV.PART.

use crate::exec::PART;
use crate::{Fault, Kind, Record, RecordRange, Records, Space};
use resp::Value;
use std::collections::VecDeque;
use storage::Slice;
use vocab::limits::PART_ROWS_MAX;
use vocab::{Prng, ShardId, Slot};

/// What a shard's leader answers to a command: one RESP frame; or the text of an error reply, if it could not be asked.
pub type RemoteAnswer = Result<Vec<u8>, String>;

/// The way to the leaders of shards. May wait; not for ever.
pub trait Remote {
    /// Runs a command on the leader of a shard.
    fn call(&mut self, shard: ShardId, command: &[&[u8]]) -> RemoteAnswer;

    /// Runs a command on the leaders of several shards, in their order. One after the other, unless the shell knows
    /// better.
    fn call_all(&mut self, shards: &[ShardId], command: &[&[u8]]) -> Vec<RemoteAnswer> {
        shards.iter().map(|shard| self.call(*shard, command)).collect()
    }
}

/// A shard elsewhere. Only for commands over the whole store: nothing is written, and no key is looked up.
pub struct RemoteSpace<R> {
    remote: R,
    shard: ShardId,
    now_ms: u64,
    prng: Prng,
}

impl<R: Remote> RemoteSpace<R> {
    /// The shard of that id.
    pub fn new(remote: R, shard: ShardId, now_ms: u64, seed: u64) -> Self {
        Self { remote, shard, now_ms, prng: Prng::new(seed) }
    }

    fn count(&mut self, command: &[&[u8]]) -> Result<u64, Fault> {
        match decode(self.remote.call(self.shard, command))? {
            Value::Int(count) => u64::try_from(count).map_err(|_| senseless()),
            _ => Err(senseless()),
        }
    }
}

/// The records of several shards elsewhere within a range, one list a shard. Their first pages are asked for at once.
pub fn remote_records<'a, R: Remote + Clone + 'a>(
    remote: &R,
    shards: &[ShardId],
    range: &RecordRange<'_>,
) -> Vec<Box<dyn Records + 'a>> {
    let mut remote = remote.clone();
    // Twice an even share: most of the time enough, so that one page does.
    let limit = (2 * range.limit / shards.len().max(1) + 8).min(PART_ROWS_MAX);
    let ask = Ask { range, limit };
    let pages = ask.run(|command| remote.call_all(shards, command));
    let list = |(shard, answer): (&ShardId, RemoteAnswer)| {
        let list = RemoteRecords {
            remote: remote.clone(),
            shard: *shard,
            rest: Span::of(range),
            limit,
            page: VecDeque::new(),
            more: true,
            answer: Some(answer),
            at: None,
        };
        Box::new(list) as Box<dyn Records + 'a>
    };
    shards.iter().zip(pages).map(list).collect()
}

/// A page that is to be asked for.
struct Ask<'a> {
    range: &'a RecordRange<'a>,
    limit: usize,
}

impl Ask<'_> {
    fn run<T>(&self, call: impl FnOnce(&[&[u8]]) -> T) -> T {
        let limit = self.limit.to_string();
        let mut command: Vec<&[u8]> =
            vec![PART, b"RANGE", self.range.start, self.range.end, b"LIMIT", limit.as_bytes()];
        if self.range.reverse {
            command.push(b"REVERSE");
        }
        if !self.range.payloads {
            command.push(b"KEYS");
        }
        call(&command)
    }
}

/// What is left of a range.
struct Span {
    start: Vec<u8>,
    end: Vec<u8>,
    reverse: bool,
    payloads: bool,
}

impl Span {
    fn of(range: &RecordRange<'_>) -> Self {
        let (start, end) = (range.start.to_vec(), range.end.to_vec());
        Self { start, end, reverse: range.reverse, payloads: range.payloads }
    }

    fn range(&self) -> RecordRange<'_> {
        let Self { start, end, reverse, payloads } = self;
        RecordRange { start, end, reverse: *reverse, payloads: *payloads, limit: 0 }
    }

    /// What lies behind `key`.
    fn pass(&mut self, key: &[u8]) {
        if self.reverse {
            self.end = key.to_vec();
        } else {
            self.start = [key, &[0]].concat();
        }
    }

    fn has(&self, key: &[u8]) -> bool {
        key >= &self.start[..] && (self.end.is_empty() || key < &self.end[..])
    }
}

/// The records of one shard elsewhere, a page at a time.
struct RemoteRecords<R> {
    remote: R,
    shard: ShardId,
    rest: Span,
    limit: usize,
    page: VecDeque<(Slice, Record)>,
    /// Whether there may be another page.
    more: bool,
    /// To the first page's question.
    answer: Option<RemoteAnswer>,
    at: Option<Record>,
}

impl<R: Remote> RemoteRecords<R> {
    fn fetch(&mut self) -> Result<(), Fault> {
        let answer = match self.answer.take() {
            Some(answer) => answer,
            None => {
                self.limit = (2 * self.limit).min(PART_ROWS_MAX);
                let Self { remote, shard, rest, limit, .. } = self;
                Ask { range: &rest.range(), limit: *limit }.run(|command| remote.call(*shard, command))
            }
        };
        let (rows, more) = page(answer)?;
        if more && rows.is_empty() {
            return Err(senseless());
        }
        for (key, _) in &rows {
            // In order and within the range: or there would be no end of it.
            if !self.rest.has(key) {
                return Err(senseless());
            }
            self.rest.pass(key);
        }
        // Nothing is before the empty key, and an empty end would mean another thing.
        let at_the_bottom = self.rest.reverse && self.rest.end.is_empty();
        self.more = more && !at_the_bottom;
        self.page = rows.into();
        Ok(())
    }
}

impl<R: Remote> Records for RemoteRecords<R> {
    fn advance(&mut self) -> Result<Option<Slice>, Fault> {
        if self.page.is_empty() && self.more {
            self.more = false;
            self.fetch()?;
        }
        let Some((key, record)) = self.page.pop_front() else { return Ok(None) };
        self.at = Some(record);
        Ok(Some(key))
    }

    fn record(&mut self) -> Result<Option<Record>, Fault> {
        Ok(self.at.clone())
    }
}

/// The rows of an answer to KV.PART RANGE, and whether there are more.
fn page(answer: RemoteAnswer) -> Result<(Vec<(Slice, Record)>, bool), Fault> {
    let Value::Array(parts) = decode(answer)? else { return Err(senseless()) };
    let (Some(Value::Int(more)), Some(Value::Array(rows)), 2) = (parts.first(), parts.get(1), parts.len()) else {
        return Err(senseless());
    };
    let (pairs, odd) = rows.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(senseless());
    }
    let row = |[key, record]: &[Value; 2]| {
        let (key, record) = (key.as_bytes()?, Record::decode(Slice::from(record.as_bytes()?)).ok()?);
        // Its elements could not be had.
        (record.view().kind != Kind::SpreadHash).then(|| (Slice::from(key), record))
    };
    let rows: Option<Vec<_>> = pairs.iter().map(row).collect();
    Ok((rows.ok_or_else(senseless)?, *more != 0))
}

fn decode(answer: RemoteAnswer) -> Result<Value, Fault> {
    let bytes = answer.map_err(Fault::Remote)?;
    match resp::decode(&bytes) {
        Ok(Some((Value::Error(text), _))) => Err(Fault::Remote(text)),
        Ok(Some((value, length))) if length == bytes.len() => Ok(value),
        _ => Err(senseless()),
    }
}

fn senseless() -> Fault {
    Fault::Remote("ERR another node answered what makes no sense".to_owned())
}

impl<R: Remote> Space for RemoteSpace<R> {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn version(&self) -> u64 {
        0
    }

    fn random_u64(&mut self) -> Result<u64, Fault> {
        Ok(self.prng.next_u64())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Record>, Fault> {
        let end = [key, &[0]].concat();
        let range = RecordRange { start: key, end: &end, reverse: false, payloads: true, limit: 1 };
        let answer = Ask { range: &range, limit: 1 }.run(|command| self.remote.call(self.shard, command));
        Ok(page(answer)?.0.pop().map(|(_, record)| record))
    }

    fn put(&mut self, _key: &[u8], _record: Record) -> Result<(), Fault> {
        unreachable!("a read writes nothing")
    }

    fn delete(&mut self, _key: &[u8]) -> Result<bool, Fault> {
        unreachable!("a read writes nothing")
    }

    fn element_get(&mut self, _key: &[u8], _generation: u64, _element: &[u8]) -> Result<Option<Slice>, Fault> {
        unreachable!("records from elsewhere are whole")
    }

    fn element_put(&mut self, _key: &[u8], _generation: u64, _element: &[u8], _value: &[u8]) -> Result<(), Fault> {
        unreachable!("a read writes nothing")
    }

    fn element_delete(&mut self, _key: &[u8], _generation: u64, _element: &[u8]) -> Result<(), Fault> {
        unreachable!("a read writes nothing")
    }

    fn elements(
        &mut self,
        _key: &[u8],
        _generation: u64,
        _after: Option<&[u8]>,
        _limit: usize,
    ) -> Result<Vec<(Slice, Slice)>, Fault> {
        unreachable!("records from elsewhere are whole")
    }

    fn scan(&mut self, start: &[u8], end: &[u8], reverse: bool, limit: usize) -> Result<Vec<(Slice, Record)>, Fault> {
        let range = RecordRange { start, end, reverse, payloads: false, limit };
        let mut records = RemoteRecords {
            remote: &mut self.remote,
            shard: self.shard,
            rest: Span::of(&range),
            limit: limit.clamp(1, PART_ROWS_MAX),
            page: VecDeque::new(),
            more: limit > 0,
            answer: None,
            at: None,
        };
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(key) = records.advance()?
        {
            found.extend(records.record()?.map(|record| (key, record)));
        }
        Ok(found)
    }

    fn keys_in_slot(&mut self, slot: Slot) -> Result<u64, Fault> {
        self.count(&[PART, b"COUNT", slot.0.to_string().as_bytes()])
    }

    fn key_count(&mut self) -> Result<u64, Fault> {
        self.count(&[PART, b"COUNT"])
    }
}

impl<R: Remote + ?Sized> Remote for &mut R {
    fn call(&mut self, shard: ShardId, command: &[&[u8]]) -> RemoteAnswer {
        (**self).call(shard, command)
    }

    fn call_all(&mut self, shards: &[ShardId], command: &[&[u8]]) -> Vec<RemoteAnswer> {
        (**self).call_all(shards, command)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Shards;
    use crate::exec::testspace::{START_MS, TestShards};
    use crate::exec::{Call, Error, ScanCursors, StoreCall, handler, peer_handler, store_handler};
    use resp::Reply;
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::rc::Rc;

    /// The leaders of all shards of a store in memory.
    #[derive(Clone)]
    struct Leaders {
        shards: Rc<RefCell<TestShards>>,
        calls: Rc<RefCell<usize>>,
        dead: Option<ShardId>,
    }

    impl Remote for Leaders {
        fn call(&mut self, shard: ShardId, command: &[&[u8]]) -> RemoteAnswer {
            *self.calls.borrow_mut() += 1;
            if self.dead == Some(shard) {
                return Err("CLUSTERDOWN Hash slot not served".into());
            }
            let mut shards = self.shards.borrow_mut();
            let mut reply = Reply::new(resp::Proto::Resp3);
            let run = peer_handler(command).unwrap();
            let space = &mut shards.shards[shard.0 as usize].2;
            match run(&mut Call { args: command, space, reply: &mut reply }) {
                Ok(()) => Ok(reply.buf),
                Err(Error::Reply(text)) => Err(text.into_owned()),
                Err(Error::Fault(fault)) => panic!("{fault:?}"),
            }
        }
    }

    /// A store of which this node has nothing.
    struct Elsewhere {
        remote: Leaders,
        slots: Vec<(u16, u16)>,
        spaces: Vec<RemoteSpace<Leaders>>,
    }

    impl Elsewhere {
        fn new(remote: &Leaders) -> Self {
            let slots: Vec<_> = remote.shards.borrow().shards.iter().map(|shard| (shard.0, shard.1)).collect();
            let space = |i: usize| RemoteSpace::new(remote.clone(), ShardId(i as u32), START_MS, i as u64);
            Self { remote: remote.clone(), spaces: (0..slots.len()).map(space).collect(), slots }
        }
    }

    impl Shards for Elsewhere {
        fn count(&self) -> usize {
            self.slots.len()
        }

        fn slots(&self, i: usize) -> (u16, u16) {
            self.slots[i]
        }

        fn leads(&self, _: usize) -> bool {
            false
        }

        fn space(&mut self, i: usize) -> &mut dyn Space {
            &mut self.spaces[i]
        }

        fn records<'a>(&'a mut self, range: &RecordRange<'_>) -> Vec<Box<dyn Records + 'a>> {
            let ids: Vec<ShardId> = (0..self.slots.len()).map(|i| ShardId(i as u32)).collect();
            remote_records(&self.remote, &ids, range)
        }
    }

    /// Five shards with strings, short and long hashes, and keys whose time has come.
    fn leaders() -> Leaders {
        let mut shards = TestShards::new(5);
        let mut run = |line: &str| {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let mut reply = Reply::default();
            let space = shards.owner(args[1]);
            space.version += 1;
            handler(&line.split(' ').next().unwrap().to_uppercase()).unwrap()(&mut Call {
                args: &args,
                space,
                reply: &mut reply,
            })
            .unwrap();
        };
        (0..400).for_each(|i| run(&format!("SET key:{i:03} value-{i}")));
        (0..9).for_each(|i| run(&format!("SET gone:{i} x PX 10")));
        (0..5).for_each(|i| run(&format!("HSET short:{i} f {i} g 2")));
        let fields: String = (0..200).map(|i| format!(" field{i} {i}")).collect();
        (0..5).for_each(|i| run(&format!("HSET long:{i}{fields}")));
        shards.shards.iter_mut().for_each(|shard| shard.2.now_ms += 1000);
        Leaders { shards: Rc::new(RefCell::new(shards)), calls: Rc::default(), dead: None }
    }

    fn ask(shards: &mut dyn Shards, line: &str) -> Result<Value, String> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let (mut reply, mut cursors) = (Reply::default(), ScanCursors::default());
        let run = store_handler(line.split(' ').next().unwrap()).unwrap();
        match run(&mut StoreCall { args: &args, shards, cursors: &mut cursors, reply: &mut reply }) {
            Ok(()) => Ok(resp::decode(&reply.buf).unwrap().unwrap().0),
            Err(Error::Reply(text)) => Err(text.into_owned()),
            Err(Error::Fault(Fault::Remote(text))) => Err(text),
            Err(Error::Fault(fault)) => panic!("{fault:?}"),
        }
    }

    #[test]
    fn a_store_elsewhere_answers_as_one_that_is_here() {
        let leaders = leaders();
        for line in [
            "KV.RANGE - + LIMIT 10000",
            "KV.RANGE - + LIMIT 10000 REVERSE",
            "KV.RANGE [key:100 (key:200 LIMIT 7",
            "KV.RANGE [key:100 (key:200 LIMIT 1 KEYS REVERSE",
            "KV.RANGE [long: (long; VALUES",
            "KV.RANGE - + KEYS LIMIT 500",
            "SCAN 0 COUNT 10000",
            "SCAN 0 COUNT 10000 TYPE hash",
            "SCAN 0 MATCH *:1* COUNT 100",
            "DBSIZE STORE",
            "KEYS * STORE",
            "KEYS key:?9? STORE",
        ] {
            let here = ask(&mut *leaders.shards.borrow_mut(), line).unwrap();
            let there = ask(&mut Elsewhere::new(&leaders), line).unwrap();
            assert_eq!(here, there, "{line}");
        }
        assert_eq!(ask(&mut Elsewhere::new(&leaders), "DBSIZE"), Ok(Value::Int(0)), "it leads nothing");
        let mut drawn = BTreeSet::new();
        for _ in 0..30 {
            let key = ask(&mut Elsewhere::new(&leaders), "RANDOMKEY").unwrap();
            drawn.insert(key.as_bytes().unwrap().to_vec());
        }
        assert!(drawn.iter().all(|key| !key.starts_with(b"gone")), "{drawn:?}");
    }

    #[test]
    fn a_short_range_takes_one_question_a_shard() {
        let leaders = leaders();
        ask(&mut Elsewhere::new(&leaders), "KV.RANGE [key:100 + LIMIT 20").unwrap();
        assert_eq!(leaders.calls.take(), 5);
        ask(&mut Elsewhere::new(&leaders), "KV.RANGE - + LIMIT 10000").unwrap();
        assert_eq!(leaders.calls.take(), 5);
    }

    #[test]
    fn what_cannot_be_asked_is_an_error() {
        let leaders = Leaders { dead: Some(ShardId(3)), ..leaders() };
        for line in ["KV.RANGE - +", "SCAN 0 COUNT 10000", "DBSIZE STORE", "KEYS * STORE", "RANDOMKEY"] {
            let error = ask(&mut Elsewhere::new(&leaders), line).unwrap_err();
            assert_eq!(error, "CLUSTERDOWN Hash slot not served", "{line}");
        }
    }

    #[test]
    fn senseless_answers_are_errors() {
        let range = RecordRange { start: b"b", end: b"y", reverse: false, payloads: true, limit: 1 };
        let record = |kind| {
            let record = Record::new(kind, None, &[&[0; 16]]);
            let text = String::from_utf8(record.bytes().to_vec()).unwrap();
            format!("${}\r\n{text}\r\n", text.len())
        };
        let (string, spread) = (record(Kind::String), record(Kind::SpreadHash));
        for answer in [
            "".to_owned(),
            "+OK\r\n".into(),
            "*2\r\n:0\r\n*1\r\n$1\r\nc\r\n".into(),
            "*2\r\n:1\r\n*0\r\n".into(),
            "*2\r\n:0\r\n*2\r\n$1\r\nc\r\n$1\r\nx\r\n".into(),
            format!("*2\r\n:0\r\n*2\r\n$1\r\nc\r\n{spread}"),
            format!("*2\r\n:0\r\n*2\r\n$1\r\na\r\n{string}"),
            format!("*2\r\n:0\r\n*2\r\n$1\r\ny\r\n{string}"),
            format!("*2\r\n:0\r\n*4\r\n$1\r\nc\r\n{string}$1\r\nc\r\n{string}"),
        ] {
            #[derive(Clone)]
            struct Parrot(Vec<u8>);
            impl Remote for Parrot {
                fn call(&mut self, _: ShardId, _: &[&[u8]]) -> RemoteAnswer {
                    Ok(self.0.clone())
                }
            }
            let mut lists = remote_records(&Parrot(answer.clone().into_bytes()), &[ShardId(1)], &range);
            let got = lists[0].advance();
            assert!(matches!(&got, Err(Fault::Remote(text)) if text.starts_with("ERR another node")), "{answer}");
            assert!(matches!(lists[0].advance(), Ok(None)), "after a fault there is nothing");
        }
    }
}
