//! Where commands of files empty databases: FLUSHALL and FLUSHDB in an AOF file.
//!
//! The store may hold more than what is imported, so that nothing is emptied there. What a later command of the files takes away is
//! left out from the beginning. Likewise nothing is exchanged: where SWAPDB gives a database another number later, its keys go to that one
//! from the beginning.

use super::file_commands::FileCommands;
use super::files::{self, Part};
use node::session::other_number;
use rdb::FileReader;
use resp::table::{self, behaviour};
use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use vocab::limits::RESTORED_BYTES_MAX;

/// Which of the files, and where in its commands: none for the copy before them.
type Place = (usize, Option<u64>);

/// With what the names of the commands begin that empty databases, or exchange them.
const NAMES_BEGIN: [&[u8; BEGIN_BYTES]; 2] = [b"flush", b"swapd"];
const BEGIN_BYTES: usize = 5;
/// Databases below this number may be exchanged.
const EXCHANGED_MAX: u64 = 16_384;

/// Where databases were emptied last.
#[derive(Default)]
pub(super) struct Emptied {
    all: Option<Place>,
    /// By the numbers that they have in the end.
    of: BTreeMap<u64, Place>,
    /// Of the beginning of each file that was looked through.
    numbers: BTreeMap<usize, Numbers>,
}

/// Which numbers databases have in the end that were exchanged from a place on.
///
/// Invariant: `last` and `first` are each other's inverse.
#[derive(Clone, Default)]
struct Numbers {
    /// The last number, by that at the place.
    last: BTreeMap<u64, u64>,
    /// The number at the place, by the last one.
    first: BTreeMap<u64, u64>,
}

impl Numbers {
    fn last_of(&self, number: u64) -> u64 {
        self.last.get(&number).copied().unwrap_or(number)
    }

    fn first_of(&self, last: u64) -> u64 {
        self.first.get(&last).copied().unwrap_or(last)
    }

    fn set(&mut self, number: u64, last: u64) {
        self.last.insert(number, last);
        self.first.insert(last, number);
    }

    /// Two are exchanged behind all exchanges that are known.
    fn exchange(&mut self, one: u64, other: u64) {
        let (at_one, at_other) = (self.first_of(one), self.first_of(other));
        self.set(at_one, other);
        self.set(at_other, one);
    }

    /// The place is behind the first exchange from here on.
    fn pass(&mut self, one: u64, other: u64) {
        let (of_one, of_other) = (self.last_of(one), self.last_of(other));
        self.set(one, of_other);
        self.set(other, of_one);
    }
}

/// What a command of a file is about.
enum About {
    /// The commands behind it are about the database of that number.
    Chooses(u64),
    EmptiesAll,
    Empties,
    /// These two are exchanged.
    Exchanges(u64, u64),
    /// It takes a key to the database of that number, which is told by that argument.
    GoesTo {
        at: usize,
        number: u64,
    },
    Other,
}

fn about(args: &[Vec<u8>]) -> About {
    let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let Some(spec) = table::find(&words) else { return About::Other };
    let number_in = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
    let number = |at: usize| args.get(at).and_then(|text| number_in(text));
    if spec.does(behaviour::CHOOSES_DATABASE) {
        return number(1).map_or(About::Other, About::Chooses);
    }
    if spec.does(behaviour::SWAPS_DATABASES) {
        let number = |at| number(at).filter(|number| *number < EXCHANGED_MAX);
        return number(1).zip(number(2)).map_or(About::Other, |(one, other)| About::Exchanges(one, other));
    }
    if spec.does(behaviour::TO_DATABASE) {
        // No other number stands behind it.
        let other = other_number(spec, &words).and_then(|number| u64::try_from(number).ok());
        let at = |number| args.iter().rposition(|text| number_in(text) == Some(number));
        let goes_to = other.and_then(|number| Some(About::GoesTo { at: at(number)?, number }));
        return goes_to.unwrap_or(About::Other);
    }
    match (spec.does(behaviour::EMPTIES_DATABASE), spec.does(behaviour::CLEARS_STORE)) {
        (true, _) => About::Empties,
        (false, true) => About::EmptiesAll,
        (false, false) => About::Other,
    }
}

impl Emptied {
    /// Looks through the commands of files. What breaks off is looked at as far as it goes; standard input cannot be read twice.
    pub(super) fn find(paths: &[PathBuf]) -> Result<Self, String> {
        let mut found = Self::default();
        for (number, path) in paths.iter().enumerate().filter(|(_, path)| **path != *Path::new("-")) {
            found.numbers.insert(number, Numbers::default());
            if names_it(files::open(path)?.input).map_err(|e| format!("{}: {e}", path.display()))? {
                found.look_through(number, files::open(path)?);
            }
        }
        Ok(found)
    }

    fn look_through(&mut self, file: usize, mut opened: files::Opened) {
        if matches!(opened.part, Part::Lines) || (matches!(opened.part, Part::Copy) && !pass_copy(&mut opened.input)) {
            return;
        }
        let (mut commands, mut database) = (FileCommands::new(&mut opened.input, opened.form), 0);
        while let Ok(Some((args, place))) = commands.next() {
            let here = (file, Some(place.start));
            match about(&args) {
                About::Chooses(number) => database = number,
                About::EmptiesAll => self.all = Some(here),
                About::Empties => _ = self.of.insert(database, here),
                About::Exchanges(one, other) => self.exchange(one, other),
                About::GoesTo { .. } | About::Other => {}
            }
        }
    }

    fn exchange(&mut self, one: u64, other: u64) {
        let (of_one, of_other) = (self.of.remove(&one), self.of.remove(&other));
        self.of.extend(of_one.map(|place| (other, place)));
        self.of.extend(of_other.map(|place| (one, place)));
        self.numbers.values_mut().for_each(|numbers| numbers.exchange(one, other));
    }

    /// Where the database was emptied last that has this number in the end.
    fn last_of(&self, database: u64) -> Option<Place> {
        self.all.max(self.of.get(&database).copied())
    }

    /// Which number a database has in the end that has that one where a file begins.
    pub(super) fn last_number(&self, database: u64, file: usize) -> u64 {
        self.numbers.get(&file).map_or(database, |numbers| numbers.last_of(database))
    }

    /// Whether the keys of a database in the copy that a file begins with are taken away later. It is told by its last number.
    pub(super) fn takes_copied(&self, database: u64, file: usize) -> bool {
        self.last_of(database) > Some((file, None))
    }

    /// All of this as a text, for a comparison.
    pub(super) fn told(&self) -> String {
        let exchanged: Vec<(&usize, &BTreeMap<u64, u64>)> = self
            .numbers
            .iter()
            .map(|(file, numbers)| (file, &numbers.last))
            .filter(|(_, last)| last.iter().any(|(at, last)| at != last))
            .collect();
        format!("{:?} {:?} {exchanged:?}", self.all, self.of)
    }

    /// What becomes of a file's commands, from its beginning on.
    pub(super) fn of_file(&self, file: usize) -> Fates<'_> {
        Fates { emptied: self, file, database: 0, numbers: self.numbers.get(&file).cloned() }
    }
}

/// What becomes of a command of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// What it does is taken away later.
    LeftOut,
    Made,
    /// The commands behind it are about the database that has this number in the end.
    Chooses(u64),
    /// It is made, and takes a key to the database that has this number in the end; the argument tells it.
    GoesTo {
        at: usize,
        number: u64,
    },
}

impl Fate {
    /// Has the words of its command tell the numbers that databases have in the end.
    pub(super) fn rewrite(self, args: &mut Vec<Vec<u8>>) {
        match self {
            Self::LeftOut | Self::Made => {}
            Self::Chooses(number) => *args = vec![b"SELECT".to_vec(), number.to_string().into_bytes()],
            Self::GoesTo { at, number } => args[at] = number.to_string().into_bytes(),
        }
    }
}

/// Tells what becomes of the commands of a file, one after the other.
pub(super) struct Fates<'a> {
    emptied: &'a Emptied,
    file: usize,
    /// Which database they are about.
    database: u64,
    /// Of the next command; none where exchanges are not known before they come.
    numbers: Option<Numbers>,
}

impl Fates<'_> {
    /// What becomes of the next command, which stands there.
    pub(super) fn next(&mut self, args: &[Vec<u8>], at: u64) -> Fate {
        let here = Some((self.file, Some(at)));
        let is_left_out = match about(args) {
            About::Chooses(number) => {
                self.database = number;
                return Fate::Chooses(self.last_number());
            }
            // What is there stays where only the database is emptied that it came from.
            About::GoesTo { at, number } => {
                let (from, to) = (self.last_number(), self.last_of(number));
                let are_taken = [from, to].iter().all(|number| self.emptied.last_of(*number) > here);
                return if are_taken { Fate::LeftOut } else { Fate::GoesTo { at, number: to } };
            }
            About::Exchanges(one, other) if self.numbers.is_some() => {
                self.numbers.iter_mut().for_each(|numbers| numbers.pass(one, other));
                return Fate::Chooses(self.last_number());
            }
            // That it is here was seen before, unless it comes by standard input.
            About::EmptiesAll => self.emptied.all >= here,
            About::Empties => self.emptied.last_of(self.last_number()) >= here,
            About::Exchanges(..) | About::Other => self.emptied.last_of(self.last_number()) > here,
        };
        if is_left_out { Fate::LeftOut } else { Fate::Made }
    }

    /// The number that the database has in the end.
    fn last_number(&self) -> u64 {
        self.last_of(self.database)
    }

    fn last_of(&self, number: u64) -> u64 {
        self.numbers.as_ref().map_or(number, |numbers| numbers.last_of(number))
    }
}

/// Whether such a name stands in it at all: most files have none, and are not parsed for it.
fn names_it(mut input: impl BufRead) -> std::io::Result<bool> {
    let mut last = Vec::new();
    loop {
        let bytes = input.fill_buf()?;
        if bytes.is_empty() {
            return Ok(false);
        }
        let is_one = |word: &[u8]| NAMES_BEGIN.iter().any(|name| word.eq_ignore_ascii_case(*name));
        last.extend_from_slice(&bytes[..bytes.len().min(BEGIN_BYTES - 1)]);
        if last.windows(BEGIN_BYTES).any(is_one) || bytes.windows(BEGIN_BYTES).any(is_one) {
            return Ok(true);
        }
        // A read may be shorter than the name.
        let ends = if bytes.len() < BEGIN_BYTES { &last } else { bytes };
        last = ends[ends.len().saturating_sub(BEGIN_BYTES - 1)..].to_vec();
        let length = bytes.len();
        input.consume(length);
    }
}

/// Passes over a copy; whether commands may follow.
fn pass_copy(input: &mut impl Read) -> bool {
    let Ok(mut file) = FileReader::new(input, RESTORED_BYTES_MAX) else { return false };
    loop {
        match file.next_item() {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::import::commands::Form;
    use std::io::BufReader;

    /// What is left of files of commands, a letter each, and of the databases that a copy before them has.
    fn left(texts: &[&str]) -> (String, Vec<u64>) {
        let (kept, copied) = placed(texts);
        (kept.chars().filter(|c| !c.is_ascii_digit()).collect(), copied)
    }

    /// The same, with the number of the database before what goes to another one than what is before it.
    fn placed(texts: &[&str]) -> (String, Vec<u64>) {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..texts.len()).map(|n| folder.path().join(n.to_string())).collect();
        texts.iter().zip(&paths).for_each(|(text, path)| std::fs::write(path, text).unwrap());
        let emptied = Emptied::find(&paths).unwrap();
        let (mut kept, mut told) = (String::new(), 0);
        for (file, text) in texts.iter().enumerate() {
            let (mut commands, mut fates) = (FileCommands::new(text.as_bytes(), Form::Text), emptied.of_file(file));
            let mut database = emptied.last_number(0, file);
            while let Ok(Some((args, place))) = commands.next() {
                match fates.next(&args, place.start) {
                    Fate::LeftOut => {}
                    Fate::Chooses(number) => database = number,
                    fate => {
                        if std::mem::replace(&mut told, database) != database {
                            kept.push_str(&database.to_string());
                        }
                        kept.push_str(std::str::from_utf8(args.get(1).unwrap_or(&args[0])).unwrap());
                        if let Fate::GoesTo { number, .. } = fate {
                            kept.push_str(&format!(">{number}"));
                        }
                    }
                }
            }
        }
        let is_kept = |database: &u64| !emptied.takes_copied(emptied.last_number(*database, 0), 0);
        (kept, (0..3).filter(is_kept).collect())
    }

    #[test]
    fn what_a_later_command_takes_away_is_left_out() {
        let all = || vec![0, 1, 2];
        assert_eq!(left(&["SET a 1\nSELECT 1\nSET b 1\n"]), ("ab".to_owned(), all()));
        assert_eq!(left(&["SET a 1\nflushall\nSET b 1\n", "SET c 1\n"]), ("bc".to_owned(), vec![]));
        assert_eq!(left(&["SET a 1\nSET b 1\n", "SET c 1\nFLUSHALL ASYNC\nSET d 1\n"]), ("d".to_owned(), vec![]));
        let of_one = "SET a 1\nSELECT 1\nSET b 1\nFLUSHDB\nSET c 1\nSELECT 0\nSET d 1\n";
        assert_eq!(left(&[of_one]), ("acd".to_owned(), vec![0, 2]));
        assert_eq!(left(&[of_one, "SELECT 1\nSWAPDB 0 1\nFlushAll\n"]), (String::new(), vec![]));
        // One that is not made takes nothing away.
        assert_eq!(left(&["SET a 1\nMULTI\nFLUSHALL\n"]), ("a".to_owned(), all()));
        assert_eq!(left(&["SET flush 1\nSET b 1\n"]), ("flushb".to_owned(), all()));
    }

    #[test]
    fn keys_go_to_the_number_that_their_database_gets() {
        let all = || vec![0, 1, 2];
        let of = |texts: &[&str]| placed(texts);
        assert_eq!(of(&["SET a 1\nSELECT 1\nSET b 1\nSWAPDB 0 1\nSET c 1\n"]), ("1a0b1c".to_owned(), all()));
        assert_eq!(of(&["SET a 1\nSWAPDB 0 1\nSWAPDB 1 2\nSET b 1\n", "SET c 1\n"]), ("2a0bc".to_owned(), all()));
        assert_eq!(of(&["SET a 1\n", "SELECT 3\nSWAPDB 0 3\nSWAPDB 3 3\nSET b 1\n"]), ("3ab".to_owned(), all()));
        // What is emptied goes with its number.
        assert_eq!(of(&["SET a 1\nFLUSHDB\nSET b 1\nSWAPDB 0 1\nSET c 1\n"]), ("1b0c".to_owned(), vec![1, 2]));
        assert_eq!(of(&["SET a 1\nSWAPDB 1 0\nSET b 1\nFLUSHDB\nSET c 1\n"]), ("1a0c".to_owned(), vec![0, 2]));
        assert_eq!(of(&["SET a 1\nSWAPDB 0 1\nFLUSHALL\nSET c 1\nSWAPDB 0 2\n"]), ("2c".to_owned(), vec![]));
        // What a key is taken to is told by the last number, too, and is not left out with where it came from.
        assert_eq!(of(&["MOVE a 1\nSWAPDB 0 1\n"]), ("1a>0".to_owned(), all()));
        assert_eq!(of(&["COPY a 3 REPLACE DB 1\nSWAPDB 1 2\n"]), ("a>2".to_owned(), all()));
        assert_eq!(of(&["MOVE a 1\nFLUSHDB\n"]), ("a>1".to_owned(), vec![1, 2]));
        assert_eq!(of(&["MOVE a 1\nFLUSHALL\n"]), (String::new(), vec![]));
        // What cannot be followed is made, and ends the import.
        assert_eq!(of(&["SET a 1\nSWAPDB 0 x\nSET b 1\n"]), ("a0b".to_owned(), all()));
    }

    #[test]
    fn what_the_files_empty_and_exchange_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let told = |texts: &[&str]| {
            let paths: Vec<PathBuf> = (0..texts.len()).map(|n| folder.path().join(n.to_string())).collect();
            texts.iter().zip(&paths).for_each(|(text, path)| std::fs::write(path, text).unwrap());
            Emptied::find(&paths).unwrap().told()
        };
        // Files may have grown.
        assert_eq!(told(&["SET a 1\n"]), told(&["SET a 1\nSET b 1\n", "SET swapdb 1\n"]));
        let all = ["FLUSHALL\n", "FLUSHDB\n", "SWAPDB 0 1\n", "SET a 1\nSWAPDB 0 1\nFLUSHDB\n", "SET a 1\n"];
        for (n, text) in all.iter().enumerate() {
            all[..n].iter().for_each(|other| assert_ne!(told(&[*text]), told(&[*other])));
        }
    }

    #[test]
    fn a_name_is_found_across_the_ends_of_reads() {
        for (text, is_there) in [
            ("..FLUSHALL", true),
            ("..flUshdb", true),
            (".SwapDB", true),
            ("flus", false),
            ("", false),
            ("flusflus", false),
        ] {
            for capacity in 1..12 {
                let input = BufReader::with_capacity(capacity, text.as_bytes());
                assert_eq!(names_it(input).unwrap(), is_there, "{text} {capacity}");
            }
        }
    }
}
