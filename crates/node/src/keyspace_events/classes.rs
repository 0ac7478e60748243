//! The classes of events that `notify-keyspace-events` names by letters.

/// All letters, in the order in which Redis names them.
pub(crate) const EVENT_LETTERS: &str = "Ag$lshzxeKEtmdn";

/// What kind of event it is. The number is the place of the class among `LETTERS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClass {
    /// Of keys whatever they hold.
    Generic,
    /// Of strings.
    String,
    /// Of lists.
    List,
    /// Of sets.
    Set,
    /// Of hashes.
    Hash,
    /// Of sorted sets.
    SortedSet,
    /// The time of a key has come.
    Expired,
    /// A key was removed for want of memory.
    Evicted,
    /// Of streams.
    Stream,
    /// Of Redis's modules: there are none.
    Module,
    /// A key was added.
    New,
    /// A read has not found a key.
    KeyMiss,
}

/// The letters of the classes in their order, then those that name the channels.
const LETTERS: [u8; 14] = *b"g$lshzxetdnmKE";
/// The first so many are what `A` stands for.
const ALL: u16 = (1 << 10) - 1;
const BY_KEY: u16 = 1 << 12;
const BY_EVENT: u16 = 1 << 13;

/// A set of classes, and of the channels on which their events are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventClasses(u16);

impl EventClasses {
    /// No class.
    pub const NONE: Self = Self(0);

    /// The set that letters name; `None` if one of them names nothing.
    #[must_use]
    pub fn parse(letters: &str) -> Option<Self> {
        letters.bytes().try_fold(Self::NONE, |set, letter| {
            let more = match letter {
                b'A' => ALL,
                _ => 1 << LETTERS.iter().position(|other| *other == letter)?,
            };
            Some(Self(set.0 | more))
        })
    }

    /// The set of that number, which `bits` has told.
    #[must_use]
    pub fn of_bits(bits: i64) -> Self {
        Self(bits as u16)
    }

    /// A number for the set.
    #[must_use]
    pub fn bits(self) -> i64 {
        i64::from(self.0)
    }

    /// The letters of the set, in the order in which Redis answers them.
    #[must_use]
    pub fn letters(self) -> String {
        let named = |letters: &'static str| letters.chars().filter(move |letter| self.has_letter(*letter as u8));
        let all = self.0 & ALL == ALL;
        let classes = if all { "A".to_owned() } else { named("g$lshzxetd").collect() };
        classes + &named("nKEm").collect::<String>()
    }

    fn has_letter(self, letter: u8) -> bool {
        LETTERS.iter().position(|other| *other == letter).is_some_and(|at| self.0 & 1 << at != 0)
    }

    /// Whether events of a class are told.
    #[must_use]
    pub fn has(self, class: EventClass) -> bool {
        self.0 & 1 << class as u16 != 0
    }

    /// Whether no event is told.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the channel of a key tells its events.
    #[must_use]
    pub fn by_key(self) -> bool {
        self.0 & BY_KEY != 0
    }

    /// Whether the channel of an event tells the keys.
    #[must_use]
    pub fn by_event(self) -> bool {
        self.0 & BY_EVENT != 0
    }

    /// The classes that are told on some channel.
    #[must_use]
    pub fn told(self) -> Self {
        if self.by_key() || self.by_event() { self } else { Self::NONE }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn letters_have_one_form() {
        for (given, kept) in [
            ("KEA", "AKE"),
            ("xE", "xE"),
            ("g$lshzxetd", "A"),
            ("", ""),
            ("nKm$", "$nKm"),
            ("$lshzxeKE", "$lshzxeKE"),
            ("gKE", "gKE"),
        ] {
            let classes = EventClasses::parse(given).unwrap();
            assert_eq!(classes.letters(), kept, "{given}");
            assert_eq!(EventClasses::of_bits(classes.bits()), classes);
        }
        assert_eq!(EventClasses::parse("Q"), None);
        assert!(EVENT_LETTERS.bytes().all(|letter| letter == b'A' || LETTERS.contains(&letter)));
    }

    #[test]
    fn a_class_is_told_where_a_channel_is() {
        for (letters, class, is_told) in [
            ("KA", EventClass::String, true),
            ("EA", EventClass::Expired, true),
            ("A", EventClass::String, false),
            ("KA", EventClass::New, false),
            ("KA", EventClass::KeyMiss, false),
            ("En", EventClass::New, true),
            ("Em", EventClass::KeyMiss, true),
            ("Kg", EventClass::String, false),
        ] {
            assert_eq!(EventClasses::parse(letters).unwrap().told().has(class), is_told, "{letters} {class:?}");
        }
    }
}
