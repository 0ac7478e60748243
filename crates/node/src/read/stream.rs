//! A reply under way that is made in steps, from snapshots that it holds.

use crate::command::{Call, Error, Progress, ReplySteps, StepHandler, StoreSteps};
use crate::shard_handle::ShardHandle;
use crate::space::read::SnapshotSpace;
use crate::stats::Lookups;
use crate::{ShardSpace, ShardSpaces};
use resp::Reply;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use storage::Snapshot;
use vocab::Millis;

/// A shard as a part of the reply reads it.
pub struct StreamShard {
    /// Its number in the command.
    pub number: usize,
    /// The replica.
    pub handle: Arc<ShardHandle>,
    /// What it held when the reply was begun.
    pub snapshot: Box<dyn Snapshot>,
    /// The time by which keys expire, the same for all steps, in ms since the epoch.
    pub now_ms: Millis,
}

impl StreamShard {
    fn space(&self) -> SnapshotSpace<'_> {
        SnapshotSpace::of(&self.handle, &*self.snapshot, self.now_ms, 0).at_one_time()
    }
}

/// What makes a part of the reply, and what it reads.
enum Part {
    /// The keys of one shard that the request names.
    Keys(StreamShard, Box<dyn ReplySteps>),
    /// Any keys of these shards.
    Shards(Vec<StreamShard>, Box<dyn StoreSteps>),
}

impl Part {
    fn shards(&self) -> &[StreamShard] {
        match self {
            Self::Keys(shard, _) => std::slice::from_ref(shard),
            Self::Shards(shards, _) => shards,
        }
    }

    fn step(&mut self, lookups: &mut Lookups, reply: &mut Reply) -> Result<Progress, Error> {
        match self {
            Self::Keys(shard, steps) => {
                let mut space = shard.space();
                let progress = steps.step(&mut space, reply);
                lookups.add(space.lookups());
                progress
            }
            Self::Shards(shards, steps) => {
                let mut spaces = StreamSpaces { shards, seen: BTreeMap::new() };
                let progress = steps.step(&mut spaces, reply);
                spaces.seen.values().for_each(|space| lookups.add(space.lookups()));
                progress
            }
        }
    }
}

/// The views that one step has of its shards, each from the first look at it.
struct StreamSpaces<'a> {
    shards: &'a [StreamShard],
    seen: BTreeMap<usize, SnapshotSpace<'a>>,
}

impl ShardSpaces for StreamSpaces<'_> {
    fn space(&mut self, i: usize) -> &mut dyn ShardSpace {
        let shards = self.shards;
        self.seen.entry(i).or_insert_with(|| {
            let shard = shards.iter().find(|shard| shard.number == i);
            shard.expect("a part of a reply reads the shards that it has named").space()
        })
    }
}

/// The rest of a reply, made step by step.
///
/// Its snapshots keep old rows alive, so its owner bounds how long it lives. What was read before the stream began has been
/// vouched for by `Attempt::finish`: a snapshot stays what it was, whatever becomes of the shard.
#[derive(Default)]
pub struct ReplyStream {
    /// In the order of the reply; a part is dropped once it is made.
    parts: VecDeque<Part>,
    lookups: Lookups,
}

impl ReplyStream {
    /// Begins a command's reply from a snapshot as of now; the stream makes what the command leaves. May wait for the disk.
    pub fn begin(
        handle: &Arc<ShardHandle>,
        handler: StepHandler,
        args: &[&[u8]],
        moment: (Millis, u64),
        reply: &mut Reply,
    ) -> Result<Self, Error> {
        let (now_ms, seed) = moment;
        let now_ms = handle.read_time(now_ms);
        let snapshot = handle.snapshot();
        let mut space = SnapshotSpace::of(handle, &*snapshot, now_ms, seed).at_one_time();
        let rest = handler(&mut Call { args, space: &mut space, reply });
        let mut stream = Self { parts: VecDeque::new(), lookups: space.lookups() };
        drop(space);
        if let Some(steps) = rest? {
            let shard = StreamShard { number: 0, handle: handle.clone(), snapshot, now_ms };
            stream.parts.push_back(Part::Keys(shard, steps));
        }
        Ok(stream)
    }

    /// Adds a part, which reads these shards.
    pub fn add(&mut self, shards: Vec<StreamShard>, steps: Box<dyn StoreSteps>) {
        self.parts.push_back(Part::Shards(shards, steps));
    }

    /// Whether the reply is complete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether it is to break off: it reads a closed replica that another one is to take the place of.
    #[must_use]
    pub fn is_to_end(&self) -> bool {
        self.parts.iter().flat_map(Part::shards).any(|shard| shard.handle.replies_end())
    }

    /// Makes the next step. May wait for the disk. After an error the stream is of no more use.
    pub fn step(&mut self, reply: &mut Reply) -> Result<Progress, Error> {
        let Some(part) = self.parts.front_mut() else { return Ok(Progress::Done) };
        let progress = part.step(&mut self.lookups, reply);
        if progress? == Progress::Done {
            self.parts.pop_front();
        }
        Ok(if self.parts.is_empty() { Progress::Done } else { Progress::More })
    }

    /// A replica that the next step reads.
    #[must_use]
    pub fn handle(&self) -> Option<&Arc<ShardHandle>> {
        self.parts.front()?.shards().first().map(|shard| &shard.handle)
    }

    /// The keys that it has looked up since the last call.
    pub fn take_lookups(&mut self) -> Lookups {
        std::mem::take(&mut self.lookups)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::fixture::{ARRIVED, Fixture};
    use super::*;
    use crate::command::{Handler, ReadHandler, handler};
    use crate::space::apply::EntrySpace;
    use crate::{Evaluation, SnapshotSpace};
    use resp::table;
    use vocab::limits::STREAM_STEP_BYTES_SOFT;

    fn args(line: &str) -> Vec<&[u8]> {
        line.split(' ').map(str::as_bytes).collect()
    }

    /// Applies one write as an entry of its own.
    fn write(handle: &Arc<ShardHandle>, index: u64, line: &str) {
        let args = args(line);
        let Some(Handler::Write(run)) = handler(table::resolve(&args).unwrap()) else { panic!("{line}: no write") };
        let mut space = EntrySpace::new(handle, index, ARRIVED.wall_ms, Evaluation::Second);
        run(&mut Call { args: &args, space: &mut space, reply: &mut Reply::default() }).unwrap();
        space.commit();
    }

    fn steps(line: &str) -> StepHandler {
        let Some(Handler::Read(ReadHandler::Steps(steps))) = handler(table::resolve(&args(line)).unwrap()) else {
            panic!("{line}: its reply is made at once")
        };
        steps
    }

    #[test]
    fn a_reply_is_of_one_moment_and_a_step_of_it_is_short() {
        let fixture = Fixture::new(1);
        let handle = &fixture.handle;
        let value = "v".repeat(1000);
        let fields: Vec<String> = (0..2000).map(|n| format!("f{n} {value}")).collect();
        write(handle, 6, &format!("HSET h {}", fields.join(" ")));
        write(handle, 7, &format!("SET s {}", value.repeat(100)));
        let many = vec!["s"; 40].join(" ");
        let mut index = 7;
        for (line, change) in [
            (format!("MGET {many}"), "SET s x"),
            ("HGETALL h".to_owned(), "HDEL h f7 f8 f9"),
            (format!("HMGET h {}", vec!["f20"; 500].join(" ")), "HSET h f20 w"),
            ("HVALS h".to_owned(), "HDEL h f21"),
            ("DUMP h".to_owned(), "DEL h"),
        ] {
            let args = args(&line);
            let mut expected = Reply::default();
            let mut space = SnapshotSpace::new(handle, ARRIVED.wall_ms, 0);
            ReadHandler::Steps(steps(&line)).run(&args, &mut space, &mut expected).unwrap();
            let mut reply = Reply::default();
            let mut stream = ReplyStream::begin(handle, steps(&line), &args, (ARRIVED.wall_ms, 0), &mut reply).unwrap();
            while !stream.is_done() {
                index += 1;
                write(handle, index, change);
                let before = reply.buf.len();
                stream.step(&mut reply).unwrap();
                let longest = if line.starts_with("MGET") { value.len() * 100 } else { value.len() };
                assert!(reply.buf.len() - before <= STREAM_STEP_BYTES_SOFT * 5 / 4 + longest, "{}", args.len());
            }
            assert!(reply.buf == expected.buf, "{}", &line[..10.min(line.len())]);
            assert_eq!(stream.step(&mut reply).unwrap(), Progress::Done);
        }
    }

    #[test]
    fn a_reply_is_to_end_when_another_replica_waits_for_the_place() {
        let fixture = Fixture::new(1);
        let handle = &fixture.handle;
        write(handle, 6, &format!("SET s {}", "v".repeat(STREAM_STEP_BYTES_SOFT)));
        let many = format!("MGET {}", ["s"; 8].join(" "));
        let begin = |reply: &mut Reply| {
            ReplyStream::begin(handle, steps(&many), &args(&many), (ARRIVED.wall_ms, 0), reply).unwrap()
        };
        let mut reply = Reply::default();
        let mut stream = begin(&mut reply);
        assert!(!stream.is_done() && !stream.is_to_end());
        handle.end_replies();
        assert!(stream.is_to_end());
        while stream.step(&mut reply).unwrap() == Progress::More {}
        assert!(!stream.is_to_end(), "it reads nothing any more");
    }

    #[test]
    fn an_event_loop_leaves_what_is_long_to_others_and_never_takes_a_part_for_the_whole() {
        let fixture = Fixture::new(1);
        let handle = &fixture.handle;
        // Fields and the bytes of each value, and whether an event loop reads all of them.
        for (index, (fields, bytes, at_once)) in
            [(200, 10, true), (300, 10, false), (150, 20_000, false)].into_iter().enumerate()
        {
            let value = "v".repeat(bytes);
            let pairs: Vec<String> = (0..fields).map(|n| format!("f{n} {value}")).collect();
            write(handle, index as u64 + 6, &format!("HSET h{index} {}", pairs.join(" ")));
            for line in [format!("HGETALL h{index}"), format!("HSCAN h{index} 0 COUNT 100000")] {
                let args = args(&line);
                let Some(Handler::Read(handler)) = handler(table::resolve(&args).unwrap()) else { panic!("{line}") };
                let (mut whole, mut reply) = (Reply::default(), Reply::default());
                handler.run(&args, &mut SnapshotSpace::new(handle, ARRIVED.wall_ms, 0), &mut whole).unwrap();
                let mut space = SnapshotSpace::new(handle, ARRIVED.wall_ms, 0).of_few_rows(None);
                match handler.run(&args, &mut space, &mut reply) {
                    Ok(()) => assert!(at_once && reply.buf == whole.buf, "{line}"),
                    Err(Error::Fault(crate::Fault::WouldBlock)) => assert!(!at_once, "{line}"),
                    Err(error) => panic!("{line}: {error:?}"),
                }
            }
        }
        // A reply that is cut short by its bytes goes on where it ended.
        let (mut cursor, mut found) = ("0".to_owned(), 0);
        loop {
            let line = format!("HSCAN h2 {cursor} COUNT 100000");
            let args = args(&line);
            let Some(Handler::Read(handler)) = handler(table::resolve(&args).unwrap()) else { panic!("{line}") };
            let mut reply = Reply::default();
            handler.run(&args, &mut SnapshotSpace::new(handle, ARRIVED.wall_ms, 0), &mut reply).unwrap();
            let text = String::from_utf8(reply.buf).unwrap();
            cursor = text.lines().nth(2).unwrap().to_owned();
            found += text.lines().nth(3).unwrap()[1..].parse::<usize>().unwrap() / 2;
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(found, 150);
    }
}
