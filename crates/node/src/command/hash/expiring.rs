//! How fields that expire are written: of a hash of which fields expire, or are to.
//!
//! Everything is read before the first write, so that an error leaves nothing behind.

use super::build::{Builder, FIELD_TOO_LONG, large, set_expiry};
use super::fields::Fields;
use super::stored::{Form, Stored};
use crate::command::call::{Error, Outcome};
use crate::format::element;
use crate::format::field_expiry::RowExpiries;
use crate::{ReadSpace, Rows, Type, WriteSpace};
use std::collections::{BTreeMap, HashMap};
use vocab::limits;

/// What becomes of the expiry of fields that are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// They have none.
    None,
    /// They keep what they have; new ones have none.
    Kept,
    /// They expire then, in ms since the epoch.
    Until(u64),
}

impl Lifetime {
    fn after(self, was_ms: Option<u64>) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Kept => was_ms,
            Self::Until(at_ms) => Some(at_ms),
        }
    }
}

/// A field of a small hash.
struct Field<'a> {
    name: &'a [u8],
    value: &'a [u8],
    at_ms: Option<u64>,
}

/// Sets fields of the hash at `key`, which `hash` is; `pairs` are fields and values in turn, of which the last counts. Keeps
/// the key's expiry. Answers how many fields are new.
pub(super) fn put(
    space: &mut dyn WriteSpace,
    key: &[u8],
    hash: Option<&Stored<'_>>,
    pairs: &[&[u8]],
    lifetime: Lifetime,
) -> Result<usize, Error> {
    if pairs.iter().step_by(2).any(|field| field.len() > limits::FIELD_BYTES_MAX) {
        return Err(FIELD_TOO_LONG.into());
    }
    if let Some((hash, Form::Large(rows))) = hash.map(|hash| (hash, &hash.form)) {
        return put_elements(space, hash, rows, pairs, lifetime);
    }
    let packed = match hash {
        Some(hash) => Contents::of(hash, space)?,
        None => Contents::default(),
    };
    let mut fields = packed.fields();
    let before = fields.len();
    let mut index: HashMap<&[u8], usize> = fields.iter().enumerate().map(|(at, field)| (field.name, at)).collect();
    for pair in pairs.chunks_exact(2) {
        let (name, value) = (pair[0], pair[1]);
        match index.get(name) {
            Some(at) => fields[*at] = Field { name, value, at_ms: lifetime.after(fields[*at].at_ms) },
            None => {
                index.insert(name, fields.len());
                fields.push(Field { name, value, at_ms: lifetime.after(None) });
            }
        }
    }
    write_packed(space, key, hash.and_then(|hash| hash.expire_at_ms), &fields)?;
    Ok(fields.len() - before)
}

/// The fields of a small hash, as they are seen.
#[derive(Default)]
struct Contents(Vec<(Vec<u8>, Vec<u8>, Option<u64>)>);

impl Contents {
    fn of(hash: &Stored<'_>, space: &mut dyn WriteSpace) -> Result<Self, Error> {
        let mut all = Vec::new();
        hash.each_with_expiry(space, |_, field, value, at_ms| {
            all.push((field.to_vec(), value.to_vec(), at_ms));
            Ok(())
        })?;
        Ok(Self(all))
    }

    fn fields(&self) -> Vec<Field<'_>> {
        self.0.iter().map(|(name, value, at_ms)| Field { name, value, at_ms: *at_ms }).collect()
    }
}

/// Makes a small hash anew; without fields it is no more.
fn write_packed(space: &mut dyn WriteSpace, key: &[u8], expire_at_ms: Option<u64>, fields: &[Field<'_>]) -> Outcome {
    if fields.is_empty() {
        space.delete(key)?;
        return Ok(());
    }
    let mut builder = Builder::new(Type::Hash, key, expire_at_ms);
    for field in fields {
        builder.push_expiring(space, field.name, field.value, field.at_ms)?;
    }
    builder.finish(space)
}

/// What a field of a large hash is to become.
struct Change<'a> {
    name: Vec<u8>,
    /// It has a row; perhaps it has expired.
    is_stored: bool,
    was_ms: Option<u64>,
    at_ms: Option<u64>,
    value: &'a [u8],
}

fn put_elements(
    space: &mut dyn WriteSpace,
    hash: &Stored<'_>,
    rows: &Rows,
    pairs: &[&[u8]],
    lifetime: Lifetime,
) -> Result<usize, Error> {
    // In the order of the fields, which is the same on every replica.
    let asked: BTreeMap<&[u8], &[u8]> = pairs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let fields = hash.fields(rows);
    let (mut created, mut changes) = (0, Vec::with_capacity(asked.len()));
    for (field, value) in asked {
        let name = element::name_of(field);
        let is_stored = space.element_get(rows, &name)?.is_some();
        let was_ms = if is_stored { fields.expiry_of(space, &name)? } else { None };
        let is_seen = is_stored && was_ms.is_none_or(|at_ms| at_ms > hash.now_ms);
        created += usize::from(!is_seen);
        let at_ms = lifetime.after(was_ms.filter(|_| is_seen));
        changes.push(Change { name, is_stored, was_ms, at_ms, value });
    }
    let mut expiries = hash.row_expiries().unwrap_or(RowExpiries::NONE);
    let mut count = rows.count;
    for change in changes {
        space.element_put(rows, &change.name, change.value)?;
        count += u64::from(!change.is_stored);
        set_expiry(space, rows, &mut expiries, &change.name, change.was_ms, change.at_ms)?;
    }
    put_large(space, hash, &rows.with_count(count), expiries)?;
    Ok(created)
}

fn put_large(space: &mut dyn WriteSpace, hash: &Stored<'_>, rows: &Rows, expiries: RowExpiries) -> Outcome {
    // A hash that had expiries keeps the place of what is known of them.
    let expiries = (hash.has_expiries() || expiries.fields > 0).then_some(expiries);
    let record = large(space, Type::Hash, hash.key, hash.expire_at_ms, rows, expiries);
    Ok(space.put(hash.key, record)?)
}

/// What has been removed of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Removed {
    /// How many fields that were seen.
    pub(super) fields: usize,
    /// The hash, with the last of them.
    pub(super) is_gone: bool,
}

impl Removed {
    /// None of the fields was there.
    pub(super) const NOTHING: Self = Self { fields: 0, is_gone: false };
}

/// Removes fields and, with the last of them, the key.
pub(super) fn remove(space: &mut dyn WriteSpace, hash: &Stored<'_>, fields: &[&[u8]]) -> Result<Removed, Error> {
    let mut edit = Edit::begin(hash, space)?;
    let mut removed = 0;
    for field in fields {
        if edit.state(space, field)?.is_some() {
            edit.set(field, None);
            removed += 1;
        }
    }
    Ok(Removed { fields: removed, is_gone: edit.write(space)? })
}

/// What is known of a field: `None` if it is not seen; else when it expires, if it does.
pub(super) type FieldState = Option<Option<u64>>;

/// The fields of a hash, for commands that ask for many of them.
pub(super) struct States<'h> {
    hash: &'h Stored<'h>,
    /// Those of a small hash: value and expiry.
    small: HashMap<Vec<u8>, (Vec<u8>, Option<u64>)>,
    /// The rows of a large one.
    rows: Option<Fields>,
}

impl<'h> States<'h> {
    /// As they are stored.
    pub(super) fn of(hash: &'h Stored<'h>, space: &mut dyn ReadSpace) -> Result<Self, Error> {
        let mut small = HashMap::new();
        let rows = if let Form::Large(rows) = &hash.form { Some(hash.fields(rows)) } else { None };
        if rows.is_none() {
            hash.each_with_expiry(space, |_, field, value, at_ms| {
                small.insert(field.to_vec(), (value.to_vec(), at_ms));
                Ok(())
            })?;
        }
        Ok(Self { hash, small, rows })
    }

    /// What is known of a field.
    pub(super) fn get(&self, space: &mut dyn ReadSpace, field: &[u8]) -> Result<FieldState, Error> {
        let Some(fields) = &self.rows else { return Ok(self.small.get(field).map(|(_, at_ms)| *at_ms)) };
        match self.hash.get(space, field)? {
            Some(_) => Ok(Some(fields.expiry_of(space, &element::name_of(field))?)),
            None => Ok(None),
        }
    }

    /// The value of a field.
    pub(super) fn value(&self, space: &mut dyn ReadSpace, field: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if self.rows.is_none() {
            return Ok(self.small.get(field).map(|(value, _)| value.clone()));
        }
        Ok(self.hash.get(space, field)?.map(|value| value.to_vec()))
    }
}

/// Fields of a hash that lose their expiry, get another one, or go: written together.
pub(super) struct Edit<'h> {
    states: States<'h>,
    /// The fields that were asked for: what they were, and what they are to be.
    asked: BTreeMap<Vec<u8>, (FieldState, FieldState)>,
}

impl<'h> Edit<'h> {
    /// Nothing is changed so far.
    pub(super) fn begin(hash: &'h Stored<'h>, space: &mut dyn ReadSpace) -> Result<Self, Error> {
        Ok(Self { states: States::of(hash, space)?, asked: BTreeMap::new() })
    }

    /// What a field is by now.
    pub(super) fn state(&mut self, space: &mut dyn ReadSpace, field: &[u8]) -> Result<FieldState, Error> {
        if let Some((_, state)) = self.asked.get(field) {
            return Ok(*state);
        }
        let state = self.states.get(space, field)?;
        self.asked.insert(field.to_vec(), (state, state));
        Ok(state)
    }

    /// The value of a field that is seen by now.
    pub(super) fn value(&mut self, space: &mut dyn ReadSpace, field: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        match self.state(space, field)? {
            Some(_) => self.states.value(space, field),
            None => Ok(None),
        }
    }

    /// Changes what a field is that was asked for and is seen.
    pub(super) fn set(&mut self, field: &[u8], to: FieldState) {
        if let Some((_, state)) = self.asked.get_mut(field) {
            *state = to;
        }
    }

    /// Writes what has changed. True: the hash has no field any more, and is gone.
    pub(super) fn write(self, space: &mut dyn WriteSpace) -> Result<bool, Error> {
        let changed: BTreeMap<Vec<u8>, (FieldState, FieldState)> =
            self.asked.into_iter().filter(|(_, (was, is))| was != is).collect();
        if changed.is_empty() {
            return Ok(false);
        }
        let hash = self.states.hash;
        let Form::Large(rows) = &hash.form else {
            let contents = Contents::of(hash, space)?;
            let mut fields = contents.fields();
            fields.retain_mut(|field| match changed.get(field.name) {
                Some((_, Some(at_ms))) => {
                    field.at_ms = *at_ms;
                    true
                }
                Some((_, None)) => false,
                None => true,
            });
            write_packed(space, hash.key, hash.expire_at_ms, &fields)?;
            return Ok(fields.is_empty());
        };
        let removed = changed.values().filter(|(_, is)| is.is_none()).count() as u64;
        let left = rows.count.checked_sub(removed);
        let left = left.ok_or_else(|| hash.corrupt("hash with more elements than its count"))?;
        if left == 0 {
            // The elements go with the record.
            space.delete(hash.key)?;
            return Ok(true);
        }
        let mut expiries = hash.row_expiries().unwrap_or(RowExpiries::NONE);
        for (field, (was, is)) in changed {
            let name = element::name_of(&field);
            set_expiry(space, rows, &mut expiries, &name, was.flatten(), is.flatten())?;
            if is.is_none() {
                space.element_delete(rows, &name)?;
            }
        }
        put_large(space, hash, &rows.with_count(left), expiries)?;
        Ok(false)
    }
}
