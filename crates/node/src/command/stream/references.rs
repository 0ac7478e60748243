//! XDELEX and XACKDEL: entries are removed with regard to the groups that refer to them.

use super::group::{GroupChange, NameWalk, Pending};
use super::id::StreamId;
use super::meta::Ordinal;
use super::names;
use super::stored::Stream;
use super::write::delete;
use crate::command::args::{SYNTAX, check_release, is_word};
use crate::command::call::{Error, Outcome, WriteCall};
use crate::keyspace_events::Event;
use crate::{ReadSpace, Rules, WriteSpace};

/// There is no such entry, or it is not pending.
const ABSENT: i64 = -1;
const REMOVED: i64 = 1;
/// It stays, since a group has not read or acknowledged it.
const NEEDED: i64 = 2;

const NOT_POSITIVE: &str = "ERR Number of IDs must be a positive integer";
const OTHER_NUMBER: &str = "ERR The `numids` parameter must match the number of arguments";
const NO_IDS: &str = "ERR IDS option is required";

/// What becomes of what is pending in groups where an entry is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum References {
    /// It stays pending.
    #[default]
    Keep,
    /// It is pending no more.
    Remove,
    /// Only an entry that all groups have read and acknowledged is removed.
    Acknowledged,
}

impl References {
    /// What a word asks for; `None` if it is another. `before` is what a word before it has asked for: from `Rules::Fourth` on no second one
    /// does.
    pub(super) fn of_next_word(word: &[u8], before: Option<Self>, rules: Rules) -> Option<Self> {
        let table = [("KEEPREF", Self::Keep), ("DELREF", Self::Remove), ("ACKED", Self::Acknowledged)];
        let found = table.into_iter().find(|(name, _)| is_word(word, name)).map(|(_, references)| references);
        found.filter(|_| before.is_none() || rules < Rules::Fourth)
    }
}

/// Groups of a stream, for what is done with entries of which they may know.
pub(super) struct Groups<'n>(Vec<GroupChange<'n>>);

impl<'n> Groups<'n> {
    /// The names of all groups of a stream.
    pub(super) fn names(space: &mut dyn ReadSpace, stream: &Stream<'_>) -> Result<Vec<Vec<u8>>, Error> {
        let Some(rows) = stream.rows() else { return Ok(Vec::new()) };
        let mut walk = NameWalk::new(names::GROUPS.to_vec());
        let mut all = Vec::new();
        while let Some(found) = walk.next(space, rows)? {
            all.extend(found.iter().filter_map(|(row, _)| names::name_behind(row, names::GROUPS).map(<[u8]>::to_vec)));
        }
        Ok(all)
    }

    /// The groups of those names.
    pub(super) fn load(space: &mut dyn ReadSpace, stream: &Stream<'_>, names: &'n [Vec<u8>]) -> Result<Self, Error> {
        let mut groups = Vec::with_capacity(names.len());
        for name in names {
            groups.extend(GroupChange::load(space, stream, name)?);
        }
        Ok(Self(groups))
    }

    /// Whether a group has not read an entry, or not acknowledged it.
    pub(super) fn need(&self, space: &mut dyn ReadSpace, stream: &Stream<'_>, id: StreamId) -> Result<bool, Error> {
        for change in &self.0 {
            if id > change.group.last_id || Pending::load(space, stream, change.group.id, id)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// An entry is pending in none of them any more.
    fn forget(&mut self, space: &mut dyn WriteSpace, stream: &Stream<'_>, id: StreamId) -> Outcome {
        for change in &mut self.0 {
            if let Some(pending) = Pending::load(space, stream, change.group.id, id)? {
                change.remove(space, stream, id, pending)?;
            }
        }
        Ok(())
    }

    /// No entry before `end` is pending in any of them any more. With `until`, what is pending of others than those that are there before
    /// that ordinal stays.
    pub(super) fn forget_before(
        &mut self,
        space: &mut dyn WriteSpace,
        stream: &Stream<'_>,
        end: StreamId,
        until: Option<Ordinal>,
    ) -> Outcome {
        let Some(rows) = stream.rows().cloned() else { return Ok(()) };
        for change in &mut self.0 {
            // What is pending before the first entry is of entries that are gone.
            let mut walk = match until {
                Some(_) => NameWalk::from_id(change.group.id, stream.meta.first_id),
                None => NameWalk::new(names::all_pending(change.group.id)),
            };
            'group: while let Some(found) = walk.next(space, &rows)? {
                for (name, row) in found {
                    let id = names::id_of(&name).ok_or_else(|| stream.corrupt("pending entry without an id"))?;
                    if id >= end {
                        break 'group;
                    }
                    let pending = Pending::decode(&row).map_err(|why| stream.malformed(why))?;
                    let goes = match until {
                        Some(until) => pending.at < until && stream.has_entry_at(space, pending.at)?,
                        None => true,
                    };
                    if goes {
                        change.remove(space, stream, id, pending)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes them.
    pub(super) fn save(&self, space: &mut dyn WriteSpace) -> Outcome {
        self.0.iter().try_for_each(|change| change.save(space))
    }
}

/// The entries before an ordinal are about to be removed, and are pending in no group any more.
pub(super) fn forget_trimmed(space: &mut dyn WriteSpace, stream: &Stream<'_>, to: Ordinal) -> Outcome {
    let names = Groups::names(space, stream)?;
    let mut groups = Groups::load(space, stream, &names)?;
    let end = if to == stream.meta.next { StreamId::MAX } else { stream.spot(space, to)?.id() };
    groups.forget_before(space, stream, end, Some(to))?;
    groups.save(space)
}

/// The words of XDELEX behind its key, or those of XACKDEL behind its group.
struct Words<'a> {
    references: References,
    ids: Vec<&'a [u8]>,
}

impl<'a> Words<'a> {
    fn parse(words: &[&'a [u8]], rules: Rules) -> Result<Self, Error> {
        let (mut references, mut found) = (None, None);
        let mut rest = words;
        while let [word, behind @ ..] = rest {
            rest = behind;
            if let Some(asked) = References::of_next_word(word, references, rules) {
                references = Some(asked);
                continue;
            }
            let [count, behind @ ..] = behind else { return Err(SYNTAX.into()) };
            if !is_word(word, "IDS") || found.is_some() && rules < Rules::Fourth {
                return Err(SYNTAX.into());
            }
            let count = resp::parse_integer(count).filter(|count| *count > 0).ok_or(NOT_POSITIVE)?;
            let count = usize::try_from(count).map_err(|_| OTHER_NUMBER)?;
            let (ids, behind) = behind.split_at_checked(count).ok_or(OTHER_NUMBER)?;
            found = Some(ids);
            rest = behind;
        }
        let ids = found.ok_or(NO_IDS)?.to_vec();
        Ok(Self { references: references.unwrap_or_default(), ids })
    }

    fn stream_ids(&self) -> Result<Vec<StreamId>, Error> {
        self.ids.iter().map(|id| StreamId::parse(id, 0)).collect()
    }
}

/// Removes an entry, as far as the groups allow it.
fn remove(
    space: &mut dyn WriteSpace,
    stream: &mut Stream<'_>,
    groups: &mut Groups<'_>,
    id: StreamId,
    references: References,
) -> Result<i64, Error> {
    // From then on groups are asked about an entry that is gone, too: it may be pending.
    if space.rules() < Rules::Fourth && stream.get(space, id)?.is_none() {
        return Ok(ABSENT);
    }
    match references {
        References::Acknowledged if groups.need(space, stream, id)? => return Ok(NEEDED),
        References::Remove => groups.forget(space, stream, id)?,
        References::Keep | References::Acknowledged => {}
    }
    Ok(if delete(space, stream, id)? { REMOVED } else { ABSENT })
}

/// There is no such stream, or no such group. Before `Rules::Fourth` what is no id was refused all the same.
fn all_absent(call: &mut WriteCall<'_>, words: &Words<'_>) -> Outcome {
    if call.space.rules() < Rules::Fourth {
        words.stream_ids()?;
    }
    call.reply.array(words.ids.len());
    words.ids.iter().for_each(|_| call.reply.int(ABSENT));
    Ok(())
}

pub(super) fn xdelex(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let stream = Stream::load(call.space, call.args[1])?;
    let words = Words::parse(&call.args[2..], call.space.rules())?;
    let Some(mut stream) = stream else { return all_absent(call, &words) };
    let ids = words.stream_ids()?;
    let names = if words.references == References::Keep { Vec::new() } else { Groups::names(call.space, &stream)? };
    let mut groups = Groups::load(call.space, &stream, &names)?;
    call.reply.array(ids.len());
    let mut is_any_removed = false;
    for id in ids {
        let done = remove(call.space, &mut stream, &mut groups, id, words.references)?;
        is_any_removed |= done == REMOVED;
        call.reply.int(done);
    }
    if is_any_removed {
        call.space.notify(Event::XDEL, stream.key);
    }
    groups.save(call.space)?;
    save_if_changed(call.space, &stream, is_any_removed)
}

/// Writes a stream of which entries were removed. By earlier rules it was written all the same, and WATCH saw a change where there was none.
fn save_if_changed(space: &mut dyn WriteSpace, stream: &Stream<'_>, is_any_removed: bool) -> Outcome {
    if is_any_removed || space.rules() < Rules::Fourth { stream.save(space) } else { Ok(()) }
}

pub(super) fn xackdel(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let stream = Stream::load(call.space, call.args[1])?;
    let rules = call.space.rules();
    let words = Words::parse(&call.args[3..], rules)?;
    let Some(mut stream) = stream else { return all_absent(call, &words) };
    let name = call.args[2].to_vec();
    let mut names = vec![name.clone()];
    if words.references != References::Keep {
        names.extend(Groups::names(call.space, &stream)?.into_iter().filter(|other| *other != name));
    }
    let Some(mut change) = GroupChange::load(call.space, &stream, &names[0])? else {
        return all_absent(call, &words);
    };
    let ids = words.stream_ids()?;
    let mut others = Groups::load(call.space, &stream, &names[1..])?;
    call.reply.array(ids.len());
    let mut is_any_removed = false;
    for id in ids {
        let Some(pending) = Pending::load(call.space, &stream, change.group.id, id)? else {
            call.reply.int(ABSENT);
            continue;
        };
        change.remove(call.space, &stream, id, pending)?;
        // XGROUP SETID may have put the group itself back before it.
        let is_to_come = rules >= Rules::Fourth && id > change.group.last_id;
        let done = if is_to_come && words.references == References::Acknowledged {
            NEEDED
        } else {
            remove(call.space, &mut stream, &mut others, id, words.references)?
        };
        is_any_removed |= done == REMOVED;
        // An entry that is gone already was acknowledged all the same.
        call.reply.int(if done == ABSENT { REMOVED } else { done });
    }
    if is_any_removed {
        call.space.notify(Event::XDEL, stream.key);
    }
    change.save(call.space)?;
    others.save(call.space)?;
    save_if_changed(call.space, &stream, is_any_removed)
}
