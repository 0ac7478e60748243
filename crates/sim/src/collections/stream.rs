//! A stream and its groups of consumers, as plainly as can be.

use super::arguments::count;
use resp::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Milliseconds and a number.
pub type Id = (u64, u64);

/// What a stream is to the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stream {
    /// Fields and values by id.
    pub entries: BTreeMap<Id, Vec<Vec<u8>>>,
    /// The highest id that it ever had.
    pub last: Id,
    pub groups: BTreeMap<Vec<u8>, Group>,
}

/// A group of consumers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// The highest id that was delivered.
    pub last: Id,
    /// What was delivered and not acknowledged.
    pub pending: BTreeMap<Id, Pending>,
}

/// An entry that a consumer has not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pending {
    pub consumer: Vec<u8>,
    pub delivered_ms: u64,
}

impl Stream {
    /// Adds an entry; false if its id is not above the last one.
    pub fn add(&mut self, id: Id, fields: &[&[u8]]) -> bool {
        let is_above = id > self.last;
        if is_above {
            self.last = id;
            self.entries.insert(id, fields.iter().map(|word| word.to_vec()).collect());
        }
        is_above
    }

    /// The id that an entry gets by a clock.
    pub fn next_id(&self, now_ms: u64) -> Id {
        if now_ms > self.last.0 { (now_ms, 0) } else { (self.last.0, self.last.1 + 1) }
    }

    /// Keeps the last entries, so many; how many are gone.
    pub fn trim(&mut self, length: usize) -> usize {
        let before = self.entries.len();
        while self.entries.len() > length {
            self.entries.pop_first();
        }
        before - self.entries.len()
    }

    /// The entries behind an id, so many at most.
    pub fn behind(&self, id: Id, most: usize) -> Vec<Id> {
        self.entries.keys().copied().filter(|at| *at > id).take(most).collect()
    }

    /// An entry as it is replied; null if it is gone.
    pub fn entry(&self, id: Id) -> Value {
        let fields = self.entries.get(&id);
        let fields =
            fields.map_or(Value::Null, |fields| Value::Array(fields.iter().cloned().map(Value::Bulk).collect()));
        Value::Array(vec![id_value(id), fields])
    }

    /// Delivers what is behind the group's last id to a consumer: what is replied.
    pub fn deliver(&mut self, group: &[u8], consumer: &[u8], most: usize, is_kept: bool, now_ms: u64) -> Vec<Value> {
        let Some(after) = self.groups.get(group).map(|group| group.last) else { return Vec::new() };
        let ids = self.behind(after, most);
        if let Some(group) = self.groups.get_mut(group) {
            group.last = ids.last().copied().unwrap_or(after);
            if is_kept {
                let pending = Pending { consumer: consumer.to_vec(), delivered_ms: now_ms };
                group.pending.extend(ids.iter().map(|id| (*id, pending.clone())));
            }
        }
        ids.into_iter().map(|id| self.entry(id)).collect()
    }

    /// What is pending at a consumer behind an id, delivered once more: what is replied.
    pub fn deliver_again(&mut self, group: &[u8], consumer: &[u8], after: Id, most: usize, now_ms: u64) -> Vec<Value> {
        let Self { entries, groups, .. } = self;
        let Some(group) = groups.get_mut(group) else { return Vec::new() };
        let of_consumer = group.pending.iter_mut().filter(|(id, pending)| **id > after && pending.consumer == consumer);
        let mut ids = Vec::new();
        for (id, pending) in of_consumer.take(most) {
            ids.push(*id);
            if entries.contains_key(id) {
                pending.delivered_ms = now_ms;
            }
        }
        ids.into_iter().map(|id| self.entry(id)).collect()
    }

    /// Gives pending entries to a consumer: those of these ids that were delivered so long ago, and are in the stream. What is
    /// not is pending no longer. Answers what was given, and what is gone.
    pub fn claim(&mut self, group: &[u8], ids: &[Id], consumer: &[u8], min_idle_ms: u64, now_ms: u64) -> Claimed {
        let mut claimed = Claimed::default();
        let Self { entries, groups, .. } = self;
        let Some(group) = groups.get_mut(group) else { return claimed };
        for id in ids {
            let Some(pending) = group.pending.get_mut(id) else { continue };
            if !entries.contains_key(id) {
                group.pending.remove(id);
                claimed.gone.push(*id);
            } else if now_ms.saturating_sub(pending.delivered_ms) >= min_idle_ms {
                *pending = Pending { consumer: consumer.to_vec(), delivered_ms: now_ms };
                claimed.given.push(*id);
            }
        }
        claimed
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = |ids: &mut dyn Iterator<Item = &Id>| {
            ids.map(|(ms, number)| format!("{ms}-{number}")).collect::<Vec<_>>().join(" ")
        };
        write!(f, "{}; last {}-{}", ids(&mut self.entries.keys()), self.last.0, self.last.1)?;
        for (name, group) in &self.groups {
            let (name, (ms, number)) = (String::from_utf8_lossy(name), group.last);
            write!(f, "; group {name} up to {ms}-{number}, pending {}", ids(&mut group.pending.keys()))?;
        }
        Ok(())
    }
}

/// What became of pending entries that a consumer claimed.
#[derive(Default)]
pub struct Claimed {
    pub given: Vec<Id>,
    pub gone: Vec<Id>,
}

impl Group {
    /// What XPENDING replies of it: how many, the first and the last, and how many of each consumer.
    pub fn summary(&self) -> Value {
        let (Some((first, _)), Some((last, _))) = (self.pending.first_key_value(), self.pending.last_key_value())
        else {
            return Value::Array(vec![count(0), Value::Null, Value::Null, Value::Null]);
        };
        let mut consumers: BTreeMap<&[u8], usize> = BTreeMap::new();
        self.pending.values().for_each(|pending| *consumers.entry(&pending.consumer).or_default() += 1);
        let consumers = consumers.into_iter().map(|(name, number)| {
            Value::Array(vec![Value::Bulk(name.to_vec()), Value::Bulk(number.to_string().into_bytes())])
        });
        let consumers = Value::Array(consumers.collect());
        Value::Array(vec![count(self.pending.len()), id_value(*first), id_value(*last), consumers])
    }
}

/// An id as it is replied.
pub fn id_value((ms, number): Id) -> Value {
    Value::Bulk(format!("{ms}-{number}").into_bytes())
}
