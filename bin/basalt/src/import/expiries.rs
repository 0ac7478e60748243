//! Expiries while a history is repeated.
//!
//! Redis expires nothing while it loads an AOF file, and nothing on a replica: what its history says of a key's expiry later still finds
//! the key. The store goes by its own clock. So what has expired, or will soon, is written with an expiry that lies `LATER_MS` later, and
//! gets its own once the history has been repeated, if no command in between has given it another one.
//!
//! No real expiry lies there: an expiry of the store from `LATER_MS` on, and less than `LATER_MS` and a hundred years, has been put off.

use super::outcome::{Outcome, shown};
use super::scope::Scope;
use super::source::value_of;
use super::walk::{KeyWalk, ask, page_of};
use crate::store_writer::{Kind, Listener, StoreWriter, Write};
use client::{Client, Frame, StoreUrl, Value as Answer};
use rdb::{HashField, Value};
use std::collections::{BTreeSet, HashMap};
use vocab::{slot_of, slot_tag, wall_clock_ms};

/// What is said where an import ends that goes on later.
pub(super) const STAY_PUT_OFF: &str =
    "what expires within the hour has expiries a thousand years late in the store, until the same command goes on";

const YEAR_MS: u64 = 31_556_952_000;
/// By how much an expiry is put off.
const LATER_MS: u64 = 1000 * YEAR_MS;
/// Expiries that were put off are less than this behind `LATER_MS`.
const SPAN_MS: u64 = 100 * YEAR_MS;
/// What expires later than this from now on is not put off.
const NEAR_MS: u64 = 3_600_000;
/// Keys and fields that are noted.
const NOTED_MAX: usize = 4 << 20;
/// Fields of one request.
const FIELDS_MAX: usize = 512;
/// Gives a key and these fields of it their own expiries, if they still are put off. Answers 1 if the key has expired by that.
/// A script that belongs to a database is told its keys by the names of its clients: so its first key is one of cluster clients, and the
/// key is told once more, as it is stored.
const SCRIPT: &str = "local late,span,now=tonumber(ARGV[1]),tonumber(ARGV[2]),tonumber(ARGV[3]) \
                      local function own(at) if type(at)=='number' and at>=late and at<late+span then return at-late end end \
                      for i=5,#ARGV do local told=redis.pcall('HPEXPIRETIME',ARGV[4],'FIELDS',1,ARGV[i]) \
                      local at=own(told[1]) \
                      if at then redis.call('HPEXPIREAT',ARGV[4],string.format('%.0f',at),'FIELDS',1,ARGV[i]) end end \
                      local at=own(redis.call('PEXPIRETIME',ARGV[4])) if not at then return 0 end \
                      redis.call('PEXPIREAT',ARGV[4],string.format('%.0f',at)) return at<=now and 1 or 0";

/// How a command tells a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unit {
    ms: u64,
    from_now: bool,
}

const SECONDS: Unit = Unit { ms: 1000, from_now: true };
const MILLISECONDS: Unit = Unit { ms: 1, from_now: true };
const AT_SECONDS: Unit = Unit { ms: 1000, from_now: false };
const AT_MILLISECONDS: Unit = Unit { ms: 1, from_now: false };

/// Options that tell an expiry, with the time behind them.
const OPTIONS: [(&[u8], Unit); 4] =
    [(b"EX", SECONDS), (b"PX", MILLISECONDS), (b"EXAT", AT_SECONDS), (b"PXAT", AT_MILLISECONDS)];

/// Where a command tells an expiry. The key is argument 1.
#[derive(Clone, Copy)]
enum Form {
    /// `key time [condition]`
    OfKey(Unit),
    /// `key time value`: SET with an expiry says the same.
    Lasting(Unit),
    /// An option, from that argument on.
    Option(usize),
    /// `key time [condition] FIELDS count field …`
    OfFields(Unit),
    /// `key [option time] FIELDS count field …`, each field with so many words.
    FieldOption(usize),
    /// `key time dump [ABSTTL] …`
    Dump,
    /// It takes keys away.
    Removes,
    /// What the first key has, the second one gets.
    Copies,
}

const FORMS: [(&str, Form); 20] = [
    ("EXPIRE", Form::OfKey(SECONDS)),
    ("PEXPIRE", Form::OfKey(MILLISECONDS)),
    ("EXPIREAT", Form::OfKey(AT_SECONDS)),
    ("PEXPIREAT", Form::OfKey(AT_MILLISECONDS)),
    ("SETEX", Form::Lasting(SECONDS)),
    ("PSETEX", Form::Lasting(MILLISECONDS)),
    ("SET", Form::Option(3)),
    ("GETEX", Form::Option(2)),
    ("HEXPIRE", Form::OfFields(SECONDS)),
    ("HPEXPIRE", Form::OfFields(MILLISECONDS)),
    ("HEXPIREAT", Form::OfFields(AT_SECONDS)),
    ("HPEXPIREAT", Form::OfFields(AT_MILLISECONDS)),
    ("HSETEX", Form::FieldOption(2)),
    ("HGETEX", Form::FieldOption(1)),
    ("RESTORE", Form::Dump),
    ("DEL", Form::Removes),
    ("UNLINK", Form::Removes),
    ("COPY", Form::Copies),
    ("RENAME", Form::Copies),
    ("RENAMENX", Form::Copies),
];

/// Expiries that were put off.
pub(super) struct Expiries {
    /// Keys, by the names that are stored, and those of their fields.
    noted: HashMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    /// How many keys and fields these are.
    count: usize,
    /// There was no room for one.
    is_full: bool,
    /// Times from now on are those of the source's stream: it is followed as it goes.
    is_stream: bool,
}

impl Expiries {
    /// `is_stream`: of a running source, which may tell times from now on.
    pub(super) fn new(is_stream: bool) -> Self {
        Self { noted: HashMap::new(), count: 0, is_full: false, is_stream }
    }

    /// Whether none was put off.
    pub(super) fn is_empty(&self) -> bool {
        self.noted.is_empty()
    }

    /// When a key is to expire in the store that expires then at the source.
    pub(super) fn of_key(&mut self, key: &[u8], at_ms: u64) -> u64 {
        self.put_off(key, &[], at_ms, wall_clock_ms()).unwrap_or(at_ms)
    }

    /// Puts off what fields of a value have.
    pub(super) fn of_value(&mut self, key: &[u8], value: &mut Value) {
        let Value::Hash(fields) = value else { return };
        let now_ms = wall_clock_ms();
        for HashField { name, expire_at_ms, .. } in fields {
            if let Some(at_ms) = expire_at_ms {
                *at_ms = self.put_off(key, std::slice::from_ref(name), *at_ms, now_ms).unwrap_or(*at_ms);
            }
        }
    }

    /// The time to write instead, for a key or for fields of it; none if the time may stay. They are noted.
    fn put_off(&mut self, key: &[u8], fields: &[Vec<u8>], at_ms: u64, now_ms: u64) -> Option<u64> {
        if at_ms >= (now_ms + NEAR_MS).min(SPAN_MS) {
            return None;
        }
        if self.count + fields.len().max(1) > NOTED_MAX {
            if !std::mem::replace(&mut self.is_full, true) {
                bench::note!(
                    "basalt: more than {NOTED_MAX} keys and fields expire within an hour; others expire by the store's clock, also where \
                     the source gives them another expiry at the last moment"
                );
            }
            return None;
        }
        self.note(key, fields);
        Some(at_ms + LATER_MS)
    }

    fn note(&mut self, key: &[u8], fields: &[Vec<u8>]) {
        if !self.noted.contains_key(key) {
            self.noted.insert(key.to_vec(), BTreeSet::new());
            self.count += 1;
        }
        let Some(noted) = self.noted.get_mut(key) else { return };
        for field in fields {
            self.count += usize::from(noted.insert(field.clone()));
        }
    }

    /// A key has gone, or another one is in its place.
    pub(super) fn forget(&mut self, key: &[u8]) {
        if let Some(fields) = self.noted.remove(key) {
            self.count -= 1 + fields.len();
        }
    }

    /// Puts off what a command says of expiries. Its keys have the names that are stored.
    pub(super) fn command(&mut self, name: &str, keys: &[usize], args: &mut Vec<Vec<u8>>) {
        let now_ms = wall_clock_ms();
        let form = FORMS.iter().find(|(of, _)| *of == name).map(|(_, form)| *form);
        match form {
            None => {}
            Some(Form::Copies) => self.copied(keys, args),
            Some(Form::Removes) => keys.iter().for_each(|at| self.forget(&args[*at])),
            Some(Form::OfKey(unit)) => self.rewrite_key(unit, args, now_ms),
            Some(Form::Lasting(unit)) => self.rewrite_lasting(unit, args, now_ms),
            Some(Form::Option(from)) => {
                if let Some((at, unit)) = option_in(args, from..args.len())
                    && let Some(time) = self.later(args, at + 1, unit, now_ms)
                {
                    (args[at], args[at + 1]) = (b"PXAT".to_vec(), time);
                }
            }
            Some(Form::OfFields(unit)) => self.rewrite_fields(unit, args, now_ms),
            Some(Form::FieldOption(words)) => self.rewrite_field_option(words, args, now_ms),
            Some(Form::Dump) => self.rewrite_dump(args, now_ms),
        }
    }

    fn copied(&mut self, keys: &[usize], args: &[Vec<u8>]) {
        let &[from, to] = keys else { return };
        if let Some(fields) = self.noted.get(&args[from]) {
            let fields: Vec<Vec<u8>> = fields.iter().cloned().collect();
            self.note(&args[to], &fields);
        }
    }

    /// The time to write instead of that argument, for the key.
    fn later(&mut self, args: &[Vec<u8>], at: usize, unit: Unit, now_ms: u64) -> Option<Vec<u8>> {
        let at_ms = self.time_of(args.get(at)?, unit, now_ms)?;
        self.put_off(&args[1], &[], at_ms, now_ms).map(number)
    }

    /// The moment that a time tells.
    fn time_of(&self, text: &[u8], unit: Unit, now_ms: u64) -> Option<u64> {
        let told: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        if unit.from_now && !self.is_stream {
            return None;
        }
        let base = if unit.from_now { now_ms } else { 0 };
        Some(told.checked_mul(unit.ms as i64)?.checked_add_unsigned(base)?.max(0).unsigned_abs())
    }

    fn rewrite_key(&mut self, unit: Unit, args: &mut Vec<Vec<u8>>, now_ms: u64) {
        let was_noted = args.get(1).is_some_and(|key| self.noted.contains_key(key));
        let later = self.later(args, 2, unit, now_ms);
        // A history has what took effect. A time that was put off cannot be compared with one that was not.
        if was_noted || later.is_some() {
            // The key may have such a name.
            let mut conditions = args.split_off(3.min(args.len()));
            conditions.retain(|word| !is_comparison(word));
            args.append(&mut conditions);
        }
        if let Some(time) = later {
            (args[0], args[2]) = (b"PEXPIREAT".to_vec(), time);
        }
    }

    fn rewrite_lasting(&mut self, unit: Unit, args: &mut Vec<Vec<u8>>, now_ms: u64) {
        if args.len() == 4
            && let Some(time) = self.later(args, 2, unit, now_ms)
        {
            let (key, value) = (std::mem::take(&mut args[1]), std::mem::take(&mut args[3]));
            *args = vec![b"SET".to_vec(), key, value, b"PXAT".to_vec(), time];
        }
    }

    fn rewrite_fields(&mut self, unit: Unit, args: &mut Vec<Vec<u8>>, now_ms: u64) {
        let Some(FieldsAt { at, end, fields }) = FieldsAt::of(args, 1) else { return };
        let was_noted = self.noted.contains_key(&args[1]);
        let time = self.time_of(&args[2], unit, now_ms);
        let later = time.and_then(|at_ms| self.put_off(&args[1], &fields, at_ms, now_ms));
        if was_noted || later.is_some() {
            let options = (3..at).chain(end..args.len());
            let conditions: Vec<usize> = options.filter(|at| is_comparison(&args[*at])).collect();
            conditions.into_iter().rev().for_each(|at| _ = args.remove(at));
        }
        if let Some(at_ms) = later {
            (args[0], args[2]) = (b"HPEXPIREAT".to_vec(), number(at_ms));
        }
    }

    fn rewrite_field_option(&mut self, words: usize, args: &mut [Vec<u8>], now_ms: u64) {
        let Some(FieldsAt { at: before, end, fields }) = FieldsAt::of(args, words) else { return };
        let option = option_in(args, 2..before).or_else(|| option_in(args, end..args.len()));
        let Some((at, unit)) = option else { return };
        let time = self.time_of(&args[at + 1], unit, now_ms);
        if let Some(at_ms) = time.and_then(|at_ms| self.put_off(&args[1], &fields, at_ms, now_ms)) {
            (args[at], args[at + 1]) = (b"PXAT".to_vec(), number(at_ms));
        }
    }

    fn rewrite_dump(&mut self, args: &mut Vec<Vec<u8>>, now_ms: u64) {
        let Some([_, key, time, dumped, options @ ..]) = args.first_chunk::<4>().map(|_| &args[..]) else { return };
        let is_absolute = options.iter().any(|word| word.eq_ignore_ascii_case(b"ABSTTL"));
        let (unit, key) = (if is_absolute { AT_MILLISECONDS } else { MILLISECONDS }, key.clone());
        let lasts = time != b"0";
        if let Ok(mut value @ Value::Hash(_)) = value_of(dumped) {
            self.of_value(&key, &mut value);
            if let Some(dumped) = rdb::write_dump(&value) {
                args[3] = dumped;
            }
        }
        if lasts && let Some(time) = self.later(args, 2, unit, now_ms) {
            args[2] = time;
            args.extend((!is_absolute).then(|| b"ABSTTL".to_vec()));
        }
    }

    /// The history is over: gives all that were noted their own expiries.
    pub(super) fn settle(&mut self, target: &mut StoreWriter, outcome: &mut Outcome) -> Result<(), String> {
        target.drain(outcome)?;
        self.count = 0;
        let mut settling = Settling { outcome };
        for (key, fields) in std::mem::take(&mut self.noted) {
            let fields: Vec<Vec<u8>> = fields.into_iter().collect();
            // Fields come first: a key that expires takes them with it.
            for part in fields.chunks(FIELDS_MAX) {
                target.write(own_expiry(&key, part), &mut settling)?;
            }
            if fields.is_empty() {
                target.write(own_expiry(&key, &[]), &mut settling)?;
            }
        }
        target.drain(&mut settling)
    }

    /// Notes what an import before this one has put off: it walks through all keys of the store that may be of the source.
    pub(super) fn find(&mut self, node: &StoreUrl, scope: Scope<'_>) -> Result<(), String> {
        let mut client = Client::open(node).map_err(|e| format!("the store: {e}"))?;
        let (mut asks, mut put_off) = (StoreWriter::open(node)?, PutOff::default());
        for of in scope.destinations() {
            let mut keys = KeyWalk::new(of, None);
            while let Some(page) = keys.next(&mut client)? {
                for key in page {
                    let args = vec![b"PEXPIRETIME".to_vec(), key];
                    asks.write(Write { kind: Kind::Free, args, key: 1 }, &mut put_off)?;
                }
                asks.drain(&mut put_off)?;
                put_off.refusal.take().map_or(Ok(()), Err)?;
                put_off.keys.drain(..).for_each(|key| self.note(&key, &[]));
            }
            let mut hashes = KeyWalk::new(of, Some("hash"));
            while let Some(page) = hashes.next(&mut client)? {
                page.iter().try_for_each(|key| self.find_fields(&mut client, key))?;
            }
        }
        Ok(())
    }

    fn find_fields(&mut self, client: &mut Client, key: &[u8]) -> Result<(), String> {
        let mut cursor = b"0".to_vec();
        loop {
            let (next, words) = page_of(ask(client, &[b"HSCAN", key, &cursor, b"COUNT", b"500"])?)?;
            let fields: Vec<Vec<u8>> = words.into_iter().step_by(2).collect();
            let count = fields.len().to_string();
            let head: [&[u8]; 4] = [b"HPEXPIRETIME", key, b"FIELDS", count.as_bytes()];
            let asked: Vec<&[u8]> = head.into_iter().chain(fields.iter().map(Vec::as_slice)).collect();
            if !fields.is_empty()
                && let Answer::Array(times) = ask(client, &asked)?
            {
                let of_field = fields.iter().zip(&times).filter(|(_, at_ms)| at_ms.as_int().is_some_and(is_put_off));
                let found: Vec<Vec<u8>> = of_field.map(|(field, _)| field.clone()).collect();
                if !found.is_empty() {
                    self.note(key, &found);
                }
            }
            if next == b"0" {
                return Ok(());
            }
            cursor = next;
        }
    }
}

/// Whether an expiry of the store was put off.
fn is_put_off(at_ms: i64) -> bool {
    u64::try_from(at_ms).is_ok_and(|at_ms| (LATER_MS..LATER_MS + SPAN_MS).contains(&at_ms))
}

/// Keys of the store whose expiry was put off.
#[derive(Default)]
struct PutOff {
    keys: Vec<Vec<u8>>,
    /// Why the store did not tell of one.
    refusal: Option<String>,
}

impl Listener for PutOff {
    fn done(&mut self, write: &Write, reply: &Frame<'_>) {
        if matches!(reply, Frame::Int(at_ms) if is_put_off(*at_ms)) {
            self.keys.push(write.args[write.key].clone());
        }
    }

    fn refused(&mut self, _: &Write, why: &str) {
        self.refusal.get_or_insert_with(|| format!("the store: {why}"));
    }
}

/// Who is told what becomes of requests that settle expiries.
struct Settling<'a> {
    outcome: &'a mut Outcome,
}

impl Listener for Settling<'_> {
    fn done(&mut self, _: &Write, reply: &Frame<'_>) {
        self.outcome.expired += u64::from(matches!(reply, Frame::Int(1)));
    }

    fn refused(&mut self, write: &Write, why: &str) {
        let key = shown(&write.args[write.key]);
        self.outcome.problems.note(format!("{key} keeps an expiry a thousand years late: {why}; give it its own one"));
    }
}

/// The request that gives a key, and fields of it, their own expiries. Made twice, it changes nothing.
fn own_expiry(key: &[u8], fields: &[Vec<u8>]) -> Write {
    let beside = format!("{{{}}}", slot_tag(slot_of(key))).into_bytes();
    let head = [b"EVAL".to_vec(), SCRIPT.as_bytes().to_vec(), b"2".to_vec(), beside, key.to_vec()];
    let times = [LATER_MS, SPAN_MS, wall_clock_ms()].map(number);
    Write {
        kind: Kind::Free,
        args: head.into_iter().chain(times).chain([key.to_vec()]).chain(fields.iter().cloned()).collect(),
        key: 4,
    }
}

fn number(n: u64) -> Vec<u8> {
    n.to_string().into_bytes()
}

fn is_comparison(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"GT") || word.eq_ignore_ascii_case(b"LT")
}

/// Where an option that tells an expiry stands, with the time behind it.
fn option_in(args: &[Vec<u8>], mut within: std::ops::Range<usize>) -> Option<(usize, Unit)> {
    within.find_map(|at| {
        let (_, unit) = OPTIONS.into_iter().find(|(name, _)| args[at].eq_ignore_ascii_case(name))?;
        (at + 1 < args.len()).then_some((at, unit))
    })
}

/// The fields of a command. Options may be before and behind them.
struct FieldsAt {
    /// Where FIELDS stands.
    at: usize,
    /// Behind the last of them.
    end: usize,
    fields: Vec<Vec<u8>>,
}

impl FieldsAt {
    /// Those of arguments in which each field has so many words.
    fn of(args: &[Vec<u8>], words: usize) -> Option<Self> {
        let at = (2..args.len()).find(|at| args[*at].eq_ignore_ascii_case(b"FIELDS"))?;
        let count: usize = std::str::from_utf8(args.get(at + 1)?).ok()?.parse().ok()?;
        let end = count.checked_mul(words)?.checked_add(at + 2)?;
        let fields = args.get(at + 2..end)?.iter().step_by(words).cloned().collect();
        Some(Self { at, end, fields })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn words(text: &str) -> Vec<Vec<u8>> {
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    /// What becomes of a command; times that were put off are shown as `LATER+…`.
    fn command(expiries: &mut Expiries, text: &str) -> String {
        let mut args = words(text);
        let two = ["RENAME", "RENAMENX", "COPY"].iter().any(|name| args[0] == name.as_bytes());
        let name = String::from_utf8(args[0].clone()).unwrap();
        expiries.command(&name, if two { &[1, 2] } else { &[1] }, &mut args);
        let shown = args.iter().map(|word| {
            let word = String::from_utf8(word.clone()).unwrap();
            match word.parse::<u64>() {
                Ok(time) if time >= LATER_MS => format!("LATER+{}", time - LATER_MS),
                _ => word,
            }
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_expires_soon_is_put_off() {
        let mut expiries = Expiries::new(false);
        let far = wall_clock_ms() + 2 * NEAR_MS;
        for (text, expected) in [
            ("SET a v PXAT 5 NX", "SET a v PXAT LATER+5 NX"),
            ("SET a v EXAT 5", "SET a v PXAT LATER+5000"),
            ("SET a px", "SET a px"),
            ("SET a v EX 5", "SET a v EX 5"),
            ("PEXPIREAT a 5 GT", "PEXPIREAT a LATER+5"),
            ("EXPIREAT a -1", "PEXPIREAT a LATER+0"),
            ("PEXPIREAT gt 5 GT", "PEXPIREAT gt LATER+5"),
            ("EXPIREAT LT 5", "PEXPIREAT LT LATER+5000"),
            ("GETEX a PXAT 7", "GETEX a PXAT LATER+7"),
            ("HPEXPIREAT h 5 LT FIELDS 2 GT f", "HPEXPIREAT h LATER+5 FIELDS 2 GT f"),
            ("HSETEX h FNX EXAT 1 FIELDS 2 f v PX w", "HSETEX h FNX PXAT LATER+1000 FIELDS 2 f v PX w"),
            ("HGETEX h PXAT 1 FIELDS 1 f", "HGETEX h PXAT LATER+1 FIELDS 1 f"),
            ("HSETEX h FIELDS 1 f v PXAT 1", "HSETEX h FIELDS 1 f v PXAT LATER+1"),
            ("HPEXPIREAT h 5 FIELDS 1 f LT", "HPEXPIREAT h LATER+5 FIELDS 1 f"),
            ("RESTORE r 9 x REPLACE ABSTTL", "RESTORE r LATER+9 x REPLACE ABSTTL"),
            ("RESTORE r 0 x", "RESTORE r 0 x"),
            ("SETEX a 5 v", "SETEX a 5 v"),
        ] {
            assert_eq!(command(&mut expiries, text), expected);
        }
        // What is far stays; it cannot be compared with what was put off.
        assert_eq!(command(&mut expiries, &format!("PEXPIREAT b {far} GT")), format!("PEXPIREAT b {far} GT"));
        assert_eq!(command(&mut expiries, &format!("PEXPIREAT a {far} GT")), format!("PEXPIREAT a {far}"));
        let noted: BTreeSet<&[u8]> = expiries.noted.keys().map(Vec::as_slice).collect();
        assert_eq!(noted, BTreeSet::from([&b"LT"[..], b"a", b"gt", b"h", b"r"]));
        assert_eq!(expiries.noted[&b"h"[..]], words("GT f PX").into_iter().collect());
        assert_eq!(expiries.count, 8);
    }

    #[test]
    fn times_from_now_on_are_those_of_a_stream() {
        let mut expiries = Expiries::new(true);
        for (text, expected) in [
            ("SETEX a 5 v", "SET a v PXAT LATER+"),
            ("SET b v PX 5", "SET b v PXAT LATER+"),
            ("EXPIRE c 5", "PEXPIREAT c LATER+"),
            ("HEXPIRE h 5 FIELDS 1 f", "HPEXPIREAT h LATER+"),
            ("EXPIRE d 100000", "EXPIRE d 100000"),
        ] {
            assert!(command(&mut expiries, text).starts_with(expected), "{text}");
        }
        assert_eq!(expiries.count, 5);
    }

    #[test]
    fn notes_go_with_their_keys() {
        let mut expiries = Expiries::new(false);
        command(&mut expiries, "HPEXPIREAT h 5 FIELDS 1 f");
        command(&mut expiries, "RENAME h i");
        assert_eq!(expiries.noted[&b"i"[..]], words("f").into_iter().collect());
        command(&mut expiries, "DEL h");
        command(&mut expiries, "UNLINK i");
        assert_eq!((expiries.noted.len(), expiries.count), (0, 0));
        expiries.count = NOTED_MAX;
        assert_eq!(command(&mut expiries, "SET a v PXAT 5"), "SET a v PXAT 5");
    }
}
