//! LREM and LINSERT of lists that are too long to be searched in an entry: searched in a snapshot, then written on the
//! condition that the list has not changed since.

use super::staged::{ListCopy, Replaces};
use crate::command::args::is_word;
use crate::command::call::Error;
use crate::command::list::{List, Side, Walk, insert_options, remove_options};
use crate::format::internal_commands::STAGE;
use crate::{EncodedCommand, ReadSpace, Record, ShardHandle, SnapshotSpace};
use vocab::limits::{EDITED_ELEMENTS_MAX, SEARCHED_ELEMENTS_MAX};

/// What becomes of a request for a change of a long list.
pub enum LongEdit<'a> {
    /// It is short: one entry does it.
    Short,
    /// Nothing is found, and this is the answer.
    Nothing(i64),
    /// This command changes it, unless it has changed.
    Command(EncodedCommand),
    /// It is written anew, unless it has changed.
    Rewrite(Box<ListCopy<'a>>),
}

/// Whether an element is to be removed: of those that are found, in the order of the list.
#[derive(Clone, Copy)]
struct Removed {
    /// So many are passed over.
    from: u64,
    /// Behind those, so many are removed.
    count: u64,
}

impl<'a> LongEdit<'a> {
    /// What `LREM` or `LINSERT` does to the list as it is now. Reads may wait for the disk.
    pub fn of(view: &'a ShardHandle, args: &[&[u8]], now_ms: u64) -> Result<Self, Error> {
        let mut space = SnapshotSpace::new(view, now_ms, 0);
        let key = args[1];
        let Some(record) = space.get(key)? else { return Ok(Self::Short) };
        let list = List::of(key, record.clone())?;
        if list.count()? <= SEARCHED_ELEMENTS_MAX {
            return Ok(Self::Short);
        }
        if is_word(args[0], "LINSERT") {
            return Self::insertion(&mut space, &list, &record, args);
        }
        Self::removal(space, &list, record.clone(), args)
    }

    fn insertion(
        space: &mut SnapshotSpace<'_>,
        list: &List<'_>,
        record: &Record,
        args: &[&[u8]],
    ) -> Result<Self, Error> {
        let (after, pivot, element) = insert_options(args)?;
        let mut walk = list.walk(0, list.count()?, Side::Left);
        let mut found = None;
        while found.is_none() && !walk.is_over() {
            walk.step(list, space, |index, other| {
                found = (other == pivot).then_some(index);
                Ok(found.is_none())
            })?;
        }
        let Some(pivot) = found else { return Ok(Self::Nothing(-1)) };
        let index = (pivot + u64::from(after)).to_string();
        let version = record.view().version.to_string();
        let command = [STAGE, b"EDIT", args[1], version.as_bytes(), b"INSERT", index.as_bytes(), element];
        Ok(Self::Command(EncodedCommand::new(&command)))
    }

    fn removal(mut space: SnapshotSpace<'a>, list: &List<'_>, record: Record, args: &[&[u8]]) -> Result<Self, Error> {
        let (count, element) = remove_options(args)?;
        let (length, version) = (list.count()?, record.view().version);
        let from = if count < 0 { Side::Right } else { Side::Left };
        let wanted = if count == 0 { u64::MAX } else { count.unsigned_abs() };
        // The first ones are kept, in case that they are few.
        let (mut found, mut kept) = (0u64, Vec::new());
        let mut walk = list.walk(if from == Side::Left { 0 } else { length - 1 }, length, from);
        while found < wanted && !walk.is_over() {
            walk.step(list, &mut space, |index, other| {
                if other == element {
                    found += 1;
                    if kept.len() <= EDITED_ELEMENTS_MAX {
                        kept.push(index);
                    }
                }
                Ok(found < wanted)
            })?;
        }
        if found == 0 {
            return Ok(Self::Nothing(0));
        }
        if kept.len() <= EDITED_ELEMENTS_MAX {
            kept.sort_unstable();
            let indexes: Vec<String> = kept.iter().map(u64::to_string).collect();
            let version = version.to_string();
            let mut command: Vec<&[u8]> = vec![STAGE, b"EDIT", args[1], version.as_bytes(), b"REMOVE"];
            command.extend(indexes.iter().map(String::as_bytes));
            return Ok(Self::Command(EncodedCommand::new(&command)));
        }
        let all = if from == Side::Left { found } else { matches_of(&mut space, list, element)? };
        let removed = Removed { from: if from == Side::Left { 0 } else { all - found }, count: found };
        let expire_at_ms = record.view().expire_at_ms;
        let left = Left::new(space, args[1].to_vec(), record, element.to_vec(), removed)?;
        let copy = ListCopy::new(left.elements(), Replaces::Version(version, found), expire_at_ms);
        Ok(Self::Rewrite(Box::new(copy)))
    }
}

/// How many elements equal that one.
fn matches_of(space: &mut SnapshotSpace<'_>, list: &List<'_>, element: &[u8]) -> Result<u64, Error> {
    let (mut walk, mut found) = (list.walk(0, list.count()?, Side::Left), 0);
    while !walk.is_over() {
        walk.step(list, space, |_, other| {
            found += u64::from(other == element);
            Ok(true)
        })?;
    }
    Ok(found)
}

/// What is left of a list.
struct Left<'a> {
    space: SnapshotSpace<'a>,
    key: Vec<u8>,
    record: Record,
    walk: Walk,
    element: Vec<u8>,
    removed: Removed,
    /// How many were found so far.
    met: u64,
    /// Elements that are read and not yet taken, the next one last.
    ahead: Vec<Vec<u8>>,
}

impl<'a> Left<'a> {
    fn new(
        space: SnapshotSpace<'a>,
        key: Vec<u8>,
        record: Record,
        element: Vec<u8>,
        removed: Removed,
    ) -> Result<Self, Error> {
        let list = List::of(&key, record.clone())?;
        let walk = list.walk(0, list.count()?, Side::Left);
        Ok(Self { space, key, record, walk, element, removed, met: 0, ahead: Vec::new() })
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        while self.ahead.is_empty() && !self.walk.is_over() {
            let list = List::of(&self.key, self.record.clone())?;
            let Self { walk, space, element, removed, met, ahead, .. } = self;
            walk.step(&list, space, |_, other| {
                if other == element {
                    *met += 1;
                    let last = removed.from.saturating_add(removed.count);
                    if *met > removed.from && *met <= last {
                        return Ok(true);
                    }
                }
                ahead.push(other.to_vec());
                Ok(true)
            })?;
            ahead.reverse();
        }
        Ok(self.ahead.pop())
    }

    fn elements(mut self) -> Box<dyn FnMut() -> Result<Option<Vec<u8>>, Error> + 'a> {
        Box::new(move || self.next())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::command::{Call, CollectionCopy, Handler, SliceSource, StagedAt, entry_handler, handler};
    use crate::{EntrySpace, Evaluation, ShardHandle};
    use resp::{Reply, Value};
    use std::sync::Arc;
    use storage::{EngineKind, RowCache, SharedResources, StorageOptions, open_engine};
    use vocab::ShardId;

    struct Entries {
        view: Arc<ShardHandle>,
        _folder: tempfile::TempDir,
    }

    impl Entries {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let resources = SharedResources::new(StorageOptions::default());
            let tree = open_engine(EngineKind::Memory, folder.path(), &resources).unwrap();
            let cache = Arc::new(RowCache::new(1 << 20));
            Self { view: ShardHandle::open(ShardId(1), (0, 16383), tree, cache).unwrap(), _folder: folder }
        }

        fn run(&self, args: &[&[u8]]) -> Vec<u8> {
            let index = self.view.engine().applied_index() + 1;
            let mut space = EntrySpace::new(&self.view, index, 1_000, Evaluation::Second);
            let mut reply = Reply::default();
            let done = match entry_handler(args) {
                Some(run) => run(&mut Call { args, space: &mut space, reply: &mut reply }),
                None => match handler(resp::table::lookup(args[0]).unwrap()).unwrap() {
                    Handler::Read(read) => {
                        let mut space = SnapshotSpace::new(&self.view, 1_000, 0);
                        read.run(args, &mut space, &mut reply)
                    }
                    Handler::Write(run) => run(&mut Call { args, space: &mut space, reply: &mut reply }),
                    _ => panic!("a command of one shard"),
                },
            };
            if let Err(Error::Reply(text)) = done {
                reply.buf.clear();
                reply.error(&text);
            }
            space.commit();
            reply.buf
        }

        fn value(&self, args: &[&[u8]]) -> Value {
            resp::decode(&self.run(args)).unwrap().unwrap().0
        }

        fn elements(&self) -> Vec<u64> {
            let Value::Array(all) = self.value(&[b"LRANGE", b"l", b"0", b"-1"]) else { panic!("an array") };
            all.iter().map(|n| String::from_utf8_lossy(n.as_bytes().unwrap()).parse().unwrap()).collect()
        }

        /// Edits the list as a thread of the pool does.
        fn edit(&self, args: &[&[u8]]) -> Value {
            let answer = match LongEdit::of(&self.view, args, 1_000).unwrap() {
                LongEdit::Short => panic!("it is long"),
                LongEdit::Nothing(n) => format!(":{n}\r\n").into_bytes(),
                LongEdit::Command(command) => self.run(&command.args()),
                LongEdit::Rewrite(mut source) => {
                    let place = StagedAt::of_answer(&self.run(&CollectionCopy::first(b"l").args())).unwrap();
                    while let Some(slice) = source.next(b"l", &place).unwrap() {
                        assert_eq!(self.run(&slice.args()), b"+OK\r\n");
                    }
                    self.run(&source.last(b"l", &place).args())
                }
            };
            resp::decode(&answer).unwrap().unwrap().0
        }
    }

    #[test]
    fn a_long_list_is_changed_as_a_short_one() {
        let entries = Entries::new();
        let mut model: Vec<u64> = (0..70_000).map(|n| if n % 10 == 3 { 7 } else { n + 100 }).collect();
        for part in model.chunks(5_000) {
            let texts: Vec<String> = part.iter().map(u64::to_string).collect();
            let mut args: Vec<&[u8]> = vec![b"RPUSH", b"l"];
            args.extend(texts.iter().map(String::as_bytes));
            entries.run(&args);
        }
        assert_eq!(entries.edit(&[b"LREM", b"l", b"0", b"none"]), Value::Int(0));
        assert_eq!(entries.edit(&[b"LINSERT", b"l", b"BEFORE", b"none", b"1"]), Value::Int(-1));
        assert_eq!(entries.edit(&[b"LINSERT", b"l", b"AFTER", b"70099", b"1"]), Value::Int(70_001));
        model.push(1);
        assert_eq!(entries.edit(&[b"LREM", b"l", b"2", b"7"]), Value::Int(2));
        assert_eq!(entries.edit(&[b"LREM", b"l", b"-3", b"7"]), Value::Int(3));
        let sevens: Vec<usize> = (0..model.len()).filter(|at| model[*at] == 7).collect();
        let gone = [&sevens[..2], &sevens[sevens.len() - 3..]].concat();
        gone.iter().rev().for_each(|at| _ = model.remove(*at));
        assert_eq!(entries.elements(), model);
        // So many that the list is written anew; first those that are met from the right.
        assert_eq!(entries.edit(&[b"LREM", b"l", b"-2000", b"7"]), Value::Int(2_000));
        let sevens: Vec<usize> = (0..model.len()).filter(|at| model[*at] == 7).collect();
        sevens[sevens.len() - 2_000..].iter().rev().for_each(|at| _ = model.remove(*at));
        assert_eq!(entries.elements(), model);
    }

    #[test]
    fn what_has_changed_since_is_not_written() {
        let entries = Entries::new();
        let texts: Vec<String> = (0..70_000).map(|n| (n % 7).to_string()).collect();
        let mut args: Vec<&[u8]> = vec![b"RPUSH", b"l"];
        args.extend(texts.iter().map(String::as_bytes));
        entries.run(&args);
        for request in [[&b"LREM"[..], b"l", b"1", b"3"], [b"LREM", b"l", b"0", b"3"]] {
            let before = LongEdit::of(&entries.view, &request, 1_000).unwrap();
            entries.run(&[b"LPOP", b"l"]);
            let answer = match before {
                LongEdit::Command(command) => entries.run(&command.args()),
                LongEdit::Rewrite(mut source) => {
                    let place = StagedAt::of_answer(&entries.run(&CollectionCopy::first(b"l").args())).unwrap();
                    while let Some(slice) = source.next(b"l", &place).unwrap() {
                        entries.run(&slice.args());
                    }
                    entries.run(&source.last(b"l", &place).args())
                }
                LongEdit::Short | LongEdit::Nothing(_) => panic!("there are some"),
            };
            assert!(answer.starts_with(b"-TRYAGAIN "), "{}", answer.escape_ascii());
        }
        assert_eq!(entries.value(&[b"LLEN", b"l"]), Value::Int(69_998));
    }
}
