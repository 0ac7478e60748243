//! HOTKEYS: which keys cost this node most time, and most bytes.

use super::ask::{Ask, Outcome, Refusal, Row, SYNTAX, is_word};
use crate::hot_keys::{HOT_KEYS_MAX, HotKeysOrder, HotKeysReport};
use crate::session::cluster_facts::merged;
use crate::session::{ClusterFacts, Effect, SlotRange};
use resp::{Reply, parse_integer};
use vocab::{SLOT_COUNT, Slot};

/// Keys that are answered if START is not told how many.
const COUNT_DEFAULT: usize = 10;
/// CPU and NET.
const METRICS_MAX: u64 = 2;
const SAMPLE_MAX: u64 = i32::MAX as u64;
const DURATION_SECONDS_MAX: u64 = 1_000_000;

pub(super) const ROWS: &[Row] =
    &[("HOTKEYS|START", start), ("HOTKEYS|STOP", stop), ("HOTKEYS|GET", get), ("HOTKEYS|RESET", reset)];

fn refuse(text: &'static str) -> Refusal {
    Refusal::Borrowed(text)
}

/// The words of START, one after the other.
struct Words<'a> {
    left: &'a [&'a [u8]],
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.left.split_first()?;
        self.left = rest;
        Some(first)
    }

    /// The next word, a number from 1 on up to `most`.
    fn number(&mut self, most: u64, refusal: &'static str) -> Result<u64, Refusal> {
        let number = parse_integer(self.next().ok_or(SYNTAX)?).and_then(|number| u64::try_from(number).ok());
        number.filter(|number| (1..=most).contains(number)).ok_or(refuse(refusal))
    }

    /// `METRICS count metric …`: whether time counts, and whether bytes do. Metrics of another name are passed over.
    fn metrics(&mut self) -> Result<(bool, bool), Refusal> {
        let is_there = self.next().is_some_and(|word| is_word(word, "METRICS"));
        if !is_there || self.left.is_empty() {
            return Err(refuse("ERR METRICS parameter is required"));
        }
        let count = self.number(METRICS_MAX, "ERR METRICS count must be > 0 and <= 2")? as usize;
        if count > self.left.len() {
            return Err(refuse("ERR METRICS count does not match number of metric types provided"));
        }
        let (mut time, mut bytes) = (false, false);
        for _ in 0..count {
            let (is_given, twice) = match self.next() {
                Some(word) if is_word(word, "CPU") => (&mut time, "ERR METRICS CPU defined more than once!"),
                Some(word) if is_word(word, "NET") => (&mut bytes, "ERR METRICS NET defined more than once!"),
                _ => continue,
            };
            if std::mem::replace(is_given, true) {
                return Err(refuse(twice));
            }
        }
        if time || bytes {
            Ok((time, bytes))
        } else {
            Err(refuse("ERR METRICS no valid metrics passed. Supported: CPU|NET"))
        }
    }

    /// `count slot …` behind SLOTS, in order.
    fn slots(&mut self, facts: &ClusterFacts) -> Result<Vec<Slot>, Refusal> {
        let count = self.number(SLOT_COUNT.into(), "ERR SLOTS count must be between 1 and 16384")? as usize;
        if self.left.len() < count {
            return Err(refuse("ERR not enough slot numbers provided"));
        }
        let own = own_slots(facts);
        let mut slots = Vec::with_capacity(count);
        for word in &self.left[..count] {
            let slot = parse_integer(word).and_then(|slot| u16::try_from(slot).ok());
            let slot = slot.filter(|slot| *slot < SLOT_COUNT).ok_or(refuse("ERR Invalid or out of range slot"))?;
            if !own.iter().any(|(first, last)| (*first..=*last).contains(&slot)) {
                return Err(format!("ERR slot {slot} not handled by this node").into());
            }
            slots.push(Slot(slot));
        }
        self.left = &self.left[count..];
        slots.sort_unstable();
        if slots.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(refuse("ERR duplicate slot number"));
        }
        Ok(slots)
    }
}

/// The ranges of slots that this node leads, in order.
fn own_slots(facts: &ClusterFacts) -> Vec<SlotRange> {
    let myself = facts.myself().map(|node| node.id);
    myself.and_then(|myself| facts.led().remove(&myself)).unwrap_or_default()
}

/// What START asks for. `has_slots`: the client is one of the cluster.
fn parse(args: &[&[u8]], facts: &ClusterFacts, has_slots: bool) -> Result<HotKeysOrder, Refusal> {
    let mut words = Words { left: &args[2..] };
    let (time, bytes) = words.metrics()?;
    let (mut count, mut one_of, mut duration_ms, mut slots) = (COUNT_DEFAULT, 1, None, None);
    while let Some(word) = words.next() {
        if is_word(word, "COUNT") {
            count = words.number(HOT_KEYS_MAX as u64, "ERR COUNT must be between 1 and 64")? as usize;
        } else if is_word(word, "DURATION") {
            let seconds = words.number(DURATION_SECONDS_MAX, "ERR DURATION must be between 1 and 1000000")?;
            duration_ms = Some(1000 * seconds);
        } else if is_word(word, "SAMPLE") {
            one_of = words.number(SAMPLE_MAX, "ERR SAMPLE ratio must be positive")?;
        } else if is_word(word, "SLOTS") {
            if !has_slots {
                return Err(refuse("ERR SLOTS parameter cannot be used in non-cluster mode"));
            }
            if slots.is_some() {
                return Err(refuse("ERR SLOTS parameter already specified"));
            }
            slots = Some(words.slots(facts)?);
        } else {
            return Err(SYNTAX);
        }
    }
    let shown_slots = match &slots {
        Some(slots) => merged(slots.iter().map(|slot| (slot.0, slot.0)).collect()),
        None => own_slots(facts),
    };
    Ok(HotKeysOrder { time, bytes, count, one_of, duration_ms, slots, shown_slots })
}

fn cpu_us(ask: &Ask<'_>) -> (u64, u64) {
    let facts = ask.host.node_facts();
    (facts.cpu_user_us.unwrap_or(0), facts.cpu_system_us.unwrap_or(0))
}

fn start(ask: &mut Ask<'_>) -> Outcome {
    const IN_PROGRESS: &str = "ERR hotkey tracking session already in progress";
    if ask.host.hot_keys().is_on_at(ask.now_ms()) {
        return Err(refuse(IN_PROGRESS));
    }
    let has_slots = ask.session.keyspace().database().is_none();
    let order = parse(ask.args, &ask.host.cluster_facts(), has_slots)?;
    if !ask.host.hot_keys().start(order, ask.now_ms(), cpu_us(ask)) {
        return Err(refuse(IN_PROGRESS));
    }
    ask.reply.ok();
    Ok(Effect::None)
}

fn stop(ask: &mut Ask<'_>) -> Outcome {
    if ask.host.hot_keys().stop(ask.now_ms(), cpu_us(ask)) {
        ask.reply.ok()
    } else {
        ask.reply.null()
    }
    Ok(Effect::None)
}

fn reset(ask: &mut Ask<'_>) -> Outcome {
    if !ask.host.hot_keys().reset(ask.now_ms()) {
        return Err(refuse("ERR hotkey tracking session in progress, stop tracking first"));
    }
    ask.reply.ok();
    Ok(Effect::None)
}

fn get(ask: &mut Ask<'_>) -> Outcome {
    match ask.host.hot_keys().report(ask.now_ms(), cpu_us(ask)) {
        Some(report) => write(&report, ask.reply),
        None => ask.reply.null(),
    }
    Ok(Effect::None)
}

fn write(report: &HotKeysReport, reply: &mut Reply) {
    let order = &report.order;
    let (selects, samples) = (order.slots.is_some(), order.slots.is_some() && order.one_of > 1);
    let numbers = [
        (true, "all-commands-all-slots-us", report.all.us()),
        (selects, "all-commands-selected-slots-us", report.selected.us()),
        (samples, "sampled-commands-selected-slots-us", report.sampled.us()),
        (true, "net-bytes-all-commands-all-slots", report.all.bytes),
        (selects, "net-bytes-all-commands-selected-slots", report.selected.bytes),
        (samples, "net-bytes-sampled-commands-selected-slots", report.sampled.bytes),
        (true, "collection-start-time-unix-ms", report.began_ms),
        (true, "collection-duration-ms", report.lasted_ms),
        (order.time, "total-cpu-time-user-ms", report.cpu_us.0 / 1000),
        (order.time, "total-cpu-time-sys-ms", report.cpu_us.1 / 1000),
        (order.bytes, "total-net-bytes", report.all.bytes),
    ];
    let lists = [(order.time, "by-cpu-time-us", &report.by_time), (order.bytes, "by-net-bytes", &report.by_bytes)];
    let shown = numbers.iter().filter(|(shown, ..)| *shown);
    let listed = lists.iter().filter(|(shown, ..)| *shown);
    reply.array(1);
    reply.map(3 + shown.clone().count() + listed.clone().count());
    reply.bulk(b"tracking-active");
    reply.int(i64::from(report.is_on));
    reply.bulk(b"sample-ratio");
    reply.int(order.one_of as i64);
    reply.bulk(b"selected-slots");
    reply.array(order.shown_slots.len());
    for (first, last) in &order.shown_slots {
        reply.array(if first == last { 1 } else { 2 });
        reply.int(i64::from(*first));
        if first != last {
            reply.int(i64::from(*last));
        }
    }
    for (_, name, number) in shown {
        reply.bulk(name.as_bytes());
        reply.int(*number as i64);
    }
    for (_, name, keys) in listed {
        reply.bulk(name.as_bytes());
        reply.array(2 * keys.len());
        for (key, amount) in *keys {
            reply.bulk(key);
            reply.int(*amount as i64);
        }
    }
}
