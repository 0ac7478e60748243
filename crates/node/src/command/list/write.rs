//! LPUSH, RPUSH, LPUSHX, RPUSHX, LPOP, RPOP, LMPOP, LMOVE, RPOPLPUSH, LSET, LINSERT, LREM and LTRIM.
//!
//! Everything is checked before the first write, so that an error leaves nothing behind.

use super::ends::Ends;
use super::large::{Change, Large};
use super::read::span_of_list;
use super::run::{Run, Side, element_bytes};
use super::stored::{Form, List, count_of, record_of};
use crate::command::args::{NO_SUCH_KEY, NOT_POSITIVE, SYNTAX, at_least_one, check_release, int, is_word, natural};
use crate::command::call::{Error, Outcome, WriteCall};
use crate::command::error::corrupt;
use crate::command::hash::{TOO_LARGE_TO_COPY, Varint};
use crate::keyspace_events::Event;
use crate::{Kind, ReadSpace, Record, WriteSpace};
use vocab::{client_key, limits};

const TOO_MANY: &str = "ERR too many elements at a time (262144 at most)";
const TOO_LONG_TO_SEARCH: &str = "ERR the element is not among the first 65536 that one write may look at";
const _: () = assert!(limits::POPPED_ELEMENTS_MAX == 262_144, "TOO_MANY says how many");
const _: () = assert!(limits::SEARCHED_ELEMENTS_MAX == 65_536, "TOO_LONG_TO_SEARCH says how many");

/// Adds elements one after the other at one end of the list at `key`, which `record` is of. Answers how many there are then.
fn push(
    space: &mut dyn WriteSpace,
    key: &[u8],
    record: Option<Record>,
    side: Side,
    elements: &[&[u8]],
) -> Result<u64, Error> {
    check_release(space)?;
    let Some(record) = record else {
        let elements: Vec<&[u8]> =
            if side == Side::Left { elements.iter().rev().copied().collect() } else { elements.to_vec() };
        put_whole(space, key, None, &elements)?;
        return Ok(elements.len() as u64);
    };
    if let [element] = elements
        && let Some((count, record)) = pushed(space.version(), key, &record, side, element)?
    {
        space.put(key, record)?;
        return Ok(count);
    }
    match List::of(key, record)?.form {
        Form::Large(mut large) => {
            for element in elements {
                large.push(space, side, element)?;
            }
            large.save(space)?;
            Ok(large.count())
        }
        Form::Small(record) => {
            let mut all = run_of(key, &record)?.elements().map_err(|why| corrupt(key, &why.to_string()))?;
            match side {
                Side::Left => all.splice(..0, elements.iter().rev().copied()).for_each(drop),
                Side::Right => all.extend_from_slice(elements),
            }
            put_whole(space, key, record.view().expire_at_ms, &all)?;
            Ok(all.len() as u64)
        }
    }
}

/// The record of a list with one more element, made of its bytes as they are; `None` if there is more to it.
fn pushed(
    version: u64,
    key: &[u8],
    record: &Record,
    side: Side,
    element: &[u8],
) -> Result<Option<(u64, Record)>, Error> {
    let view = record.view();
    if view.kind.is_large() {
        let ends = Ends::parse(view.payload).map_err(|why| corrupt(key, &why.to_string()))?;
        return Ok(ends.pushed(version, view.expire_at_ms, side, element).map(|record| (ends.count + 1, record)));
    }
    let run = run_of(key, record)?;
    if !fits_inline(run.count + 1, run.bytes.len() + element_bytes(element)) {
        return Ok(None);
    }
    let (count, length) = (Varint::new(run.count + 1), Varint::new(element.len()));
    let parts: [&[u8]; 4] = match side {
        Side::Left => [count.bytes(), length.bytes(), element, run.bytes],
        Side::Right => [count.bytes(), run.bytes, length.bytes(), element],
    };
    let record = Record::stamped_new(version, Kind::LIST, view.expire_at_ms, &parts);
    Ok(Some((run.count as u64 + 1, record)))
}

fn run_of<'r>(key: &[u8], record: &'r Record) -> Result<Run<'r>, Error> {
    Run::parse(record.view().payload).map_err(|why| corrupt(key, &why.to_string()))
}

/// Whether a list of so many elements and bytes is one record.
fn fits_inline(count: usize, bytes: usize) -> bool {
    const COUNT_BYTES: usize = 2;
    count <= limits::INLINE_FIELDS_MAX && COUNT_BYTES + bytes <= limits::INLINE_COLLECTION_BYTES_MAX
}

/// Makes the list at `key` of these elements, whatever it was; without any there is none.
pub(in crate::command) fn put_whole(
    space: &mut dyn WriteSpace,
    key: &[u8],
    expire_at_ms: Option<u64>,
    elements: &[&[u8]],
) -> Outcome {
    if elements.is_empty() {
        space.delete(key)?;
        return Ok(());
    }
    if fits_inline(elements.len(), elements.iter().map(|element| element_bytes(element)).sum()) {
        let mut payload = Varint::new(elements.len()).bytes().to_vec();
        for element in elements {
            payload.extend_from_slice(Varint::new(element.len()).bytes());
            payload.extend_from_slice(element);
        }
        let record = Record::stamped_new(space.version(), Kind::LIST, expire_at_ms, &[&payload]);
        return Ok(space.put(key, record)?);
    }
    let mut large = Large::new(space, key, expire_at_ms)?;
    for element in elements {
        large.push(space, Side::Right, element)?;
    }
    large.save(space)
}

/// The event of elements that are added at one end.
fn push_event(side: Side) -> Event {
    if side == Side::Left { Event::LPUSH } else { Event::RPUSH }
}

/// The event of elements that are taken at one end.
fn pop_event(side: Side) -> Event {
    if side == Side::Left { Event::LPOP } else { Event::RPOP }
}

/// Takes the element at one end of the list at `key`, whose record `record` is; with the last one the key goes.
fn pop(space: &mut dyn WriteSpace, key: &[u8], record: Record, side: Side) -> Result<Vec<u8>, Error> {
    let malformed = |why: vocab::Malformed| corrupt(key, &why.to_string());
    let view = record.view();
    if view.kind.is_large() {
        let ends = Ends::parse(view.payload).map_err(malformed)?;
        if let Some((element, record)) = ends.popped(space.version(), view.expire_at_ms, side).map_err(malformed)? {
            let element = element.to_vec();
            space.put(key, record)?;
            return Ok(element);
        }
        let mut large = Large::of(key, &record)?;
        let element = large.pop(space, side)?.ok_or_else(|| corrupt(key, "list without elements"))?;
        large.save(space)?;
        return Ok(element);
    }
    let taken = run_of(key, &record)?.take(side).map_err(malformed)?;
    let (element, rest) = taken.ok_or_else(|| corrupt(key, "list without elements"))?;
    if rest.count == 0 {
        space.delete(key)?;
    } else {
        let count = Varint::new(rest.count);
        let parts: [&[u8]; 2] = [count.bytes(), rest.bytes];
        space.put(key, Record::stamped_new(space.version(), Kind::LIST, view.expire_at_ms, &parts))?;
    }
    Ok(element.to_vec())
}

/// Takes `count` elements at one end, at most all, in the order in which they are taken.
fn pop_many(
    space: &mut dyn WriteSpace,
    key: &[u8],
    record: Record,
    side: Side,
    count: u64,
) -> Result<Vec<Vec<u8>>, Error> {
    let all = count_of(key, &record)?;
    let count = count.min(all);
    if count > limits::POPPED_ELEMENTS_MAX {
        return Err(TOO_MANY.into());
    }
    space.visit_many(count)?;
    let popped = match List::of(key, record)?.form {
        Form::Large(mut large) => {
            let mut popped = Vec::with_capacity(count as usize);
            for _ in 0..count {
                popped.extend(large.pop(space, side)?);
            }
            large.save(space)?;
            popped
        }
        Form::Small(record) => {
            let all = run_of(key, &record)?.elements().map_err(|why| corrupt(key, &why.to_string()))?;
            let count = count as usize;
            let (kept, popped): (_, Vec<Vec<u8>>) = match side {
                Side::Left => (&all[count..], all[..count].iter().map(|element| element.to_vec()).collect()),
                Side::Right => {
                    let (kept, popped) = all.split_at(all.len() - count);
                    (kept, popped.iter().rev().map(|element| element.to_vec()).collect())
                }
            };
            put_whole(space, key, record.view().expire_at_ms, kept)?;
            popped
        }
    };
    space.notify_removal(pop_event(side), key, count == all);
    Ok(popped)
}

pub(super) fn push_handler(call: &mut WriteCall<'_>, side: Side, only_if_there: bool) -> Outcome {
    let key = call.args[1];
    let record = record_of(call.space, key)?;
    let count = match record {
        None if only_if_there => 0,
        record => {
            let count = push(call.space, key, record, side, &call.args[2..])?;
            call.space.notify(push_event(side), key);
            count
        }
    };
    call.reply.int(count as i64);
    Ok(())
}

pub(in crate::command) fn lpop(call: &mut WriteCall<'_>) -> Outcome {
    pop_handler(call, Side::Left)
}

pub(in crate::command) fn rpop(call: &mut WriteCall<'_>) -> Outcome {
    pop_handler(call, Side::Right)
}

fn pop_handler(call: &mut WriteCall<'_>, side: Side) -> Outcome {
    let key = call.args[1];
    let count = match call.args[2..] {
        [] => None,
        [count] => Some(natural(count, NOT_POSITIVE)?),
        _ => {
            let name = if side == Side::Left { "lpop" } else { "rpop" };
            return Err(Error::Reply(format!("ERR wrong number of arguments for '{name}' command").into()));
        }
    };
    let Some(record) = record_of(call.space, key)? else {
        match count {
            Some(_) => call.reply.null_array(),
            None => call.reply.null(),
        }
        return Ok(());
    };
    match count {
        None => {
            let is_last = count_of(key, &record)? == 1;
            let element = pop(call.space, key, record, side)?;
            call.space.notify_removal(pop_event(side), key, is_last);
            call.reply.bulk(&element);
        }
        Some(0) => call.reply.array(0),
        Some(count) => {
            let popped = pop_many(call.space, key, record, side, count)?;
            call.reply.array(popped.len());
            popped.iter().for_each(|element| call.reply.bulk(element));
        }
    }
    Ok(())
}

/// The end that a word names.
pub(super) fn side_of(word: &[u8]) -> Result<Side, Error> {
    match () {
        () if is_word(word, "LEFT") => Ok(Side::Left),
        () if is_word(word, "RIGHT") => Ok(Side::Right),
        () => Err(SYNTAX.into()),
    }
}

/// `LMPOP numkeys key [key ...] LEFT|RIGHT [COUNT count]`
pub(in crate::command) fn lmpop(call: &mut WriteCall<'_>) -> Outcome {
    let keys = at_least_one(call.args[1], "ERR numkeys should be greater than 0")?;
    let keys = usize::try_from(keys).map_err(|_| SYNTAX)?;
    let (keys, options) = call.args[2..].split_at_checked(keys).ok_or(SYNTAX)?;
    let (side, count) = match options {
        [side] => (side_of(side)?, 1),
        [side, rest @ ..] => {
            let side = side_of(side)?;
            let [word, count, more @ ..] = rest else { return Err(SYNTAX.into()) };
            if !is_word(word, "COUNT") {
                return Err(SYNTAX.into());
            }
            let count = at_least_one(count, "ERR count should be greater than 0")?;
            if !more.is_empty() {
                return Err(SYNTAX.into());
            }
            (side, count)
        }
        [] => return Err(SYNTAX.into()),
    };
    for key in keys {
        let Some(record) = record_of(call.space, key)? else { continue };
        let popped = pop_many(call.space, key, record, side, count)?;
        call.reply.array(2);
        call.reply.bulk(client_key(key));
        call.reply.array(popped.len());
        popped.iter().for_each(|element| call.reply.bulk(element));
        return Ok(());
    }
    call.reply.null_array();
    Ok(())
}

pub(in crate::command) fn lmove(call: &mut WriteCall<'_>) -> Outcome {
    let (from, to) = sides_of(&call.args[1..])?;
    move_element(call, from, to)
}

/// From which side to which, of `source destination <LEFT | RIGHT> <LEFT | RIGHT>`.
pub(in crate::command) fn sides_of(args: &[&[u8]]) -> Result<(Side, Side), Error> {
    let [_, _, from, to] = args else { return Err(SYNTAX.into()) };
    Ok((side_of(from)?, side_of(to)?))
}

pub(super) fn rpoplpush(call: &mut WriteCall<'_>) -> Outcome {
    move_element(call, Side::Right, Side::Left)
}

fn move_element(call: &mut WriteCall<'_>, from: Side, to: Side) -> Outcome {
    let (source, target) = (call.args[1], call.args[2]);
    let Some(record) = record_of(call.space, source)? else {
        call.reply.null();
        return Ok(());
    };
    let other = record_of(call.space, target)?;
    check_release(call.space)?;
    // The only element of a list goes nowhere, and the key with its expiry stays.
    if source == target && count_of(source, &record)? == 1 {
        let list = List::of(source, record.clone())?;
        list.get(call.space, 0, |element| call.reply.bulk(element))?;
        call.space.put(source, record)?;
        call.space.notify(push_event(to), source);
        call.space.notify(pop_event(from), source);
        return Ok(());
    }
    let is_last = count_of(source, &record)? == 1;
    let element = pop(call.space, source, record, from)?;
    let other = if source == target { record_of(call.space, target)? } else { other };
    push(call.space, target, other, to, &[&element])?;
    call.space.notify(push_event(to), target);
    call.space.notify_removal(pop_event(from), source, is_last);
    call.reply.bulk(&element);
    Ok(())
}

pub(super) fn lset(call: &mut WriteCall<'_>) -> Outcome {
    let (key, element) = (call.args[1], call.args[3]);
    let list = List::load(call.space, key)?.ok_or(NO_SUCH_KEY)?;
    let place = list.place_of(int(call.args[2])?)?.ok_or("ERR index out of range")?;
    change(call.space, list, place, &Change::Set(element))?;
    call.space.notify(Event::LSET, key);
    call.reply.ok();
    Ok(())
}

/// Changes the element at `index`, which there is.
fn change(space: &mut dyn WriteSpace, list: List<'_>, index: u64, change: &Change<'_>) -> Outcome {
    check_release(space)?;
    match list.form {
        Form::Large(mut large) => {
            large.edit(space, index, change)?;
            large.save(space)
        }
        Form::Small(record) => {
            let mut all = run_of(list.key, &record)?.elements().map_err(|why| corrupt(list.key, &why.to_string()))?;
            change.apply(&mut all, 0, index);
            put_whole(space, list.key, record.view().expire_at_ms, &all)
        }
    }
}

/// `LINSERT key BEFORE|AFTER pivot element`
pub(super) fn linsert(call: &mut WriteCall<'_>) -> Outcome {
    let key = call.args[1];
    let (after, pivot, element) = insert_options(call.args)?;
    let Some(list) = List::load(call.space, key)? else {
        call.reply.int(0);
        return Ok(());
    };
    let found = matches(call.space, &list, pivot, Side::Left, 1)?;
    let Some(pivot) = found.first().copied() else {
        call.reply.int(-1);
        return Ok(());
    };
    insert(call, list, pivot + u64::from(after), element)
}

/// Whether it is after the pivot, the pivot, and the element that is inserted.
pub(in crate::command) fn insert_options<'a>(args: &[&'a [u8]]) -> Result<(bool, &'a [u8], &'a [u8]), Error> {
    let after = match args[2] {
        word if is_word(word, "AFTER") => true,
        word if is_word(word, "BEFORE") => false,
        _ => return Err(SYNTAX.into()),
    };
    Ok((after, args[3], args[4]))
}

/// Inserts an element before the one at `index`, or behind the last one, and answers how many there are.
fn insert(call: &mut WriteCall<'_>, list: List<'_>, index: u64, element: &[u8]) -> Outcome {
    let (key, count) = (list.key, list.count()?);
    if index == count {
        let record = record_of(call.space, key)?;
        push(call.space, key, record, Side::Right, &[element])?;
    } else {
        change(call.space, list, index, &Change::Insert(element))?;
    }
    call.space.notify(Event::LINSERT, key);
    call.reply.int(count as i64 + 1);
    Ok(())
}

/// Changes a list that was searched when it had that version: `KV.STAGE EDIT`. What it is given may be anything.
pub(crate) fn edit(call: &mut WriteCall<'_>, key: &[u8], version: u64, words: &[&[u8]]) -> Outcome {
    let record = record_of(call.space, key)?.filter(|record| record.view().version == version);
    let list = List::of(key, record.ok_or("TRYAGAIN what is at the key has changed meanwhile: nothing was written")?)?;
    let count = list.count()?;
    match words {
        [word, index, element] if is_word(word, "INSERT") => {
            let index = natural(index, SYNTAX)?;
            if index > count {
                return Err(SYNTAX.into());
            }
            insert(call, list, index, element)
        }
        [word, indexes @ ..] if is_word(word, "REMOVE") => {
            let indexes: Vec<u64> = indexes.iter().map(|index| natural(index, SYNTAX)).collect::<Result<_, _>>()?;
            let rises = indexes.windows(2).all(|pair| pair[0] < pair[1]);
            if !rises || indexes.last().is_none_or(|last| *last >= count) {
                return Err(SYNTAX.into());
            }
            call.reply.int(indexes.len() as i64);
            remove(call.space, list, indexes)
        }
        _ => Err(SYNTAX.into()),
    }
}

/// The indexes of the first `count` matches (0: of all) from one end on, in the order in which they are met.
fn matches(
    space: &mut dyn ReadSpace,
    list: &List<'_>,
    element: &[u8],
    from: Side,
    count: u64,
) -> Result<Vec<u64>, Error> {
    let length = list.count()?;
    let searched = length.min(limits::SEARCHED_ELEMENTS_MAX);
    let mut walk = list.walk(if from == Side::Left { 0 } else { length.saturating_sub(1) }, searched, from);
    let mut found = Vec::new();
    let wanted = |found: &[u64]| count == 0 || (found.len() as u64) < count;
    while !walk.is_over() && wanted(&found) {
        walk.step(list, space, |index, other| {
            if other == element {
                found.push(index);
            }
            Ok(wanted(&found))
        })?;
    }
    if wanted(&found) && searched < length { Err(TOO_LONG_TO_SEARCH.into()) } else { Ok(found) }
}

pub(super) fn lrem(call: &mut WriteCall<'_>) -> Outcome {
    let key = call.args[1];
    let (count, element) = remove_options(call.args)?;
    let Some(list) = List::load(call.space, key)? else {
        call.reply.int(0);
        return Ok(());
    };
    let from = if count < 0 { Side::Right } else { Side::Left };
    let mut indexes = matches(call.space, &list, element, from, count.unsigned_abs())?;
    indexes.sort_unstable();
    call.reply.int(indexes.len() as i64);
    remove(call.space, list, indexes)
}

/// How many are removed, from which end on, and what they equal.
pub(in crate::command) fn remove_options<'a>(args: &[&'a [u8]]) -> Result<(i64, &'a [u8]), Error> {
    Ok((int(args[2])?, args[3]))
}

/// Removes the elements with these indexes, which rise.
fn remove(space: &mut dyn WriteSpace, list: List<'_>, mut indexes: Vec<u64>) -> Outcome {
    let Some(last) = indexes.last().copied() else { return Ok(()) };
    let (key, is_gone) = (list.key, indexes.len() as u64 == list.count()?);
    let mut large = match list.form {
        Form::Small(_) => {
            change(space, list, last, &Change::Remove(&indexes))?;
            space.notify_removal(Event::LREM, key, is_gone);
            return Ok(());
        }
        Form::Large(large) => large,
    };
    // From the last on, so that the indexes of the others stay what they are.
    while let Some(last) = indexes.last() {
        let (before, after) = large.edit(space, *last, &Change::Remove(&indexes))?;
        indexes.truncate(indexes.len().saturating_sub(before - after));
    }
    large.save(space)?;
    space.notify_removal(Event::LREM, key, is_gone);
    Ok(())
}

pub(super) fn ltrim(call: &mut WriteCall<'_>) -> Outcome {
    let (start, end) = (int(call.args[2])?, int(call.args[3])?);
    let key = call.args[1];
    if let Some(list) = List::load(call.space, key)? {
        let is_gone = span_of_list(start, end, list.count()?).is_none();
        trim(call.space, list, start, end)?;
        call.space.notify_removal(Event::LTRIM, key, is_gone);
    }
    call.reply.ok();
    Ok(())
}

fn trim(space: &mut dyn WriteSpace, list: List<'_>, start: i64, end: i64) -> Outcome {
    let (key, expire_at_ms, count) = (list.key, list.expire_at_ms(), list.count()?);
    let Some((first, last)) = span_of_list(start, end, count) else {
        space.delete(key)?;
        return Ok(());
    };
    let (kept, removed) = (last - first + 1, count - (last - first + 1));
    let form = match list.form {
        Form::Small(record) => {
            let all = run_of(key, &record)?.elements().map_err(|why| corrupt(key, &why.to_string()))?;
            return put_whole(space, key, expire_at_ms, &all[first as usize..=last as usize]);
        }
        Form::Large(large) => Form::Large(large),
    };
    let list = List { key, form };
    // What is left of much is written anew, and the rest dropped as a whole.
    if kept <= limits::REWRITTEN_ELEMENTS_MAX && removed > kept {
        let mut elements: Vec<Vec<u8>> = Vec::with_capacity(kept as usize);
        let mut bytes = 0;
        let mut walk = list.walk(first, kept, Side::Left);
        while !walk.is_over() && bytes <= limits::GATHERED_BYTES_MAX {
            walk.step(&list, space, |_, element| {
                bytes += element.len();
                elements.push(element.to_vec());
                Ok(true)
            })?;
        }
        if walk.is_over() {
            let elements: Vec<&[u8]> = elements.iter().map(Vec::as_slice).collect();
            return put_whole(space, key, expire_at_ms, &elements);
        }
    }
    let Form::Large(mut large) = list.form else { return Ok(()) };
    large.trim(space, Side::Left, first)?;
    large.trim(space, Side::Right, count - 1 - last)?;
    large.remove_trimmed(space, limits::TRIMMED_BRANCHES_STEP_MAX)?;
    large.save(space)
}

/// Makes the list `key` of all elements of `from`, which may be of another key; what was at `key` is replaced. One that is
/// too large for one entry is an error, and nothing is written.
pub(crate) fn copy(
    space: &mut dyn WriteSpace,
    from: &List<'_>,
    key: &[u8],
    expire_at_ms: Option<u64>,
) -> Result<(), Error> {
    check_release(space)?;
    if from.count()? > limits::COPY_WHOLE_ELEMENTS_MAX {
        return Err(TOO_LARGE_TO_COPY.into());
    }
    let (mut elements, mut bytes) = (Vec::new(), 0);
    from.each(space, |element| {
        bytes += element.len();
        if bytes > limits::GATHERED_BYTES_MAX {
            return Err(TOO_LARGE_TO_COPY.into());
        }
        elements.push(element.to_vec());
        Ok(())
    })?;
    let elements: Vec<&[u8]> = elements.iter().map(Vec::as_slice).collect();
    put_whole(space, key, expire_at_ms, &elements)
}

/// Makes the list `key` of elements from outside; what was at `key` is replaced. Writes nothing and answers false if there is
/// none.
pub(crate) fn restore(
    space: &mut dyn WriteSpace,
    key: &[u8],
    expire_at_ms: Option<u64>,
    elements: &[&[u8]],
) -> Result<bool, Error> {
    check_release(space)?;
    if elements.is_empty() {
        return Ok(false);
    }
    put_whole(space, key, expire_at_ms, elements)?;
    Ok(true)
}
