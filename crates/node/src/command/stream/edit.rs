//! XADD, XTRIM, XDEL, XSETID and XLEN.

use super::id::{NewId, StreamId};
use super::requests;
use super::stored::Stream;
use super::trim::{TrimWords, cut, new_entry, new_id};
use super::write::{append, delete};
use crate::Rules;
use crate::command::args::{NO_SUCH_KEY, SYNTAX, check_release, int, is_word};
use crate::command::call::{Error, Outcome, ReadCall, WriteCall};
use crate::keyspace_events::Event;
use vocab::limits::VALUE_BYTES_MAX;

pub(super) fn xadd(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let words = TrimWords::parse(&call.args[2..], true, call.space.rules())?;
    let strings = call.args.get(2 + words.count..).unwrap_or_default();
    if strings.is_empty() || strings.len() % 2 == 1 {
        return Err("ERR wrong number of arguments for 'xadd' command".into());
    }
    if words.id == Some(NewId::Given(StreamId::ZERO)) {
        return Err("ERR The ID specified in XADD must be greater than 0-0".into());
    }
    let mut stream = match Stream::load(call.space, call.args[1])? {
        Some(stream) => stream,
        None if words.no_stream => {
            call.reply.null();
            return Ok(());
        }
        None => Stream::new(call.args[1]),
    };
    if stream.meta.last_id == StreamId::MAX {
        return Err("ERR The stream has exhausted the last possible ID, unable to add more items".into());
    }
    if let Some(request) = words.request
        && let Some(id) = requests::earlier(call.space, &mut stream, request, strings)?
    {
        stream.save(call.space)?;
        super::entry::write_id(id, call.reply);
        return Ok(());
    }
    let id = new_id(&stream, words.id, call.space.now_ms())?;
    let entry = new_entry(id, strings);
    if entry.fields.len() > VALUE_BYTES_MAX {
        return Err("ERR Elements are too large to be stored".into());
    }
    append(call.space, &mut stream, entry)?;
    if let Some(request) = words.request {
        requests::note(call.space, &mut stream, request, strings, id)?;
    }
    let removed = match words.trim {
        Some(trim) => cut(call.space, &mut stream, trim)?,
        None => 0,
    };
    stream.save(call.space)?;
    call.space.notify(Event::XADD, stream.key);
    if removed > 0 {
        call.space.notify(Event::XTRIM, stream.key);
    }
    super::entry::write_id(id, call.reply);
    Ok(())
}

pub(super) fn xtrim(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let words = TrimWords::parse(&call.args[2..], false, call.space.rules())?;
    let mut removed = 0;
    if let Some(trim) = words.trim
        && let Some(mut stream) = Stream::load(call.space, call.args[1])?
    {
        removed = cut(call.space, &mut stream, trim)?;
        if removed > 0 {
            stream.save(call.space)?;
            call.space.notify(Event::XTRIM, stream.key);
        }
    }
    call.reply.int(removed as i64);
    Ok(())
}

pub(super) fn xdel(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let Some(mut stream) = Stream::load(call.space, call.args[1])? else {
        call.reply.int(0);
        return Ok(());
    };
    let ids: Vec<StreamId> = call.args[2..].iter().map(|id| StreamId::parse(id, 0)).collect::<Result<_, _>>()?;
    let mut deleted = 0;
    for id in ids {
        deleted += i64::from(delete(call.space, &mut stream, id)?);
    }
    if deleted > 0 {
        stream.save(call.space)?;
        call.space.notify(Event::XDEL, stream.key);
    }
    call.reply.int(deleted);
    Ok(())
}

pub(super) fn xlen(call: &mut ReadCall<'_>) -> Outcome {
    let length = Stream::load(call.space, call.args[1])?.map_or(0, |stream| stream.meta.length);
    call.reply.int(length as i64);
    Ok(())
}

pub(super) fn xsetid(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let id = StreamId::parse(call.args[2], 0)?;
    let (mut added, mut max_deleted_id) = (None, StreamId::ZERO);
    for option in call.args[3..].chunks(2) {
        match option {
            [word, n] if is_word(word, "ENTRIESADDED") => {
                let n = u64::try_from(int(n)?);
                added = Some(n.map_err(|_| Error::from("ERR entries_added must be positive"))?);
            }
            [word, text] if is_word(word, "MAXDELETEDID") => {
                max_deleted_id = StreamId::parse(text, 0)?;
                if id < max_deleted_id {
                    let text = "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id";
                    return Err(text.into());
                }
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    let mut stream = Stream::load(call.space, call.args[1])?.ok_or(NO_SUCH_KEY)?;
    if let Some(last) = stream.last(call.space)? {
        if id < last.id {
            return Err("ERR The ID specified in XSETID is smaller than the target stream top item".into());
        }
        if added.is_some_and(|added| added < stream.meta.length) {
            let text = "ERR The entries_added specified in XSETID is smaller than the target stream length";
            return Err(text.into());
        }
    }
    // As in Redis 7.2. Rows of entries that were deleted keep their ids, by which others are searched for.
    if call.space.rules() >= Rules::Fourth && id < stream.meta.max_deleted_id.max(stream.last_row_id(call.space)?) {
        return Err("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id".into());
    }
    stream.meta.last_id = id;
    stream.meta.added = added.unwrap_or(stream.meta.added);
    if max_deleted_id != StreamId::ZERO {
        stream.meta.max_deleted_id = max_deleted_id;
    }
    stream.save_quietly(call.space)?;
    call.space.notify(Event::XSETID, stream.key);
    call.reply.ok();
    Ok(())
}
