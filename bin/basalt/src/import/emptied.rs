//! Where commands of files empty databases: FLUSHALL and FLUSHDB in an AOF file.
//!
//! The store may hold more than what is imported, so that nothing is emptied there. What a later command of the files takes away is
//! left out from the beginning.

use super::file_commands::FileCommands;
use super::files::{self, Part};
use rdb::FileReader;
use resp::table::{self, behaviour};
use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use vocab::limits::RESTORED_BYTES_MAX;

/// Which of the files, and where in its commands: none for the copy before them.
type Place = (usize, Option<u64>);

/// With what the names of the commands begin that empty databases.
const NAME_BEGINS: &[u8] = b"flush";

/// Where databases were emptied last.
#[derive(Default)]
pub(super) struct Emptied {
    all: Option<Place>,
    of: BTreeMap<u64, Place>,
}

/// What a command of a file is about.
enum About {
    /// The commands behind it are about the database of that number.
    Chooses(u64),
    EmptiesAll,
    Empties,
    Other,
}

fn about(args: &[Vec<u8>]) -> About {
    let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let Some(spec) = table::find(&words) else { return About::Other };
    if spec.does(behaviour::CHOOSES_DATABASE) {
        let number = args.get(1).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        return number.map_or(About::Other, About::Chooses);
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
                About::Other => {}
            }
        }
    }

    /// Where a database was emptied last.
    fn last_of(&self, database: u64) -> Option<Place> {
        self.all.max(self.of.get(&database).copied())
    }

    /// Whether the keys of a database in the copy that a file begins with are taken away later.
    pub(super) fn takes_copied(&self, database: u64, file: usize) -> bool {
        self.last_of(database) > Some((file, None))
    }

    /// What is left out of a file's commands, from its beginning on.
    pub(super) fn of_file(&self, file: usize) -> LeftOut<'_> {
        LeftOut { emptied: self, file, database: 0 }
    }
}

/// Tells which commands of a file are left out, one after the other.
pub(super) struct LeftOut<'a> {
    emptied: &'a Emptied,
    file: usize,
    /// Which database they are about.
    database: u64,
}

impl LeftOut<'_> {
    /// Whether the next command, which stands there, is left out.
    pub(super) fn has(&mut self, args: &[Vec<u8>], at: u64) -> bool {
        let here = Some((self.file, Some(at)));
        match about(args) {
            About::Chooses(number) => {
                self.database = number;
                false
            }
            // That it is here was seen before, unless it comes by standard input.
            About::EmptiesAll => self.emptied.all >= here,
            About::Empties => self.emptied.last_of(self.database) >= here,
            About::Other => self.emptied.last_of(self.database) > here,
        }
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
        let is_one = |word: &[u8]| word.eq_ignore_ascii_case(NAME_BEGINS);
        last.extend_from_slice(&bytes[..bytes.len().min(NAME_BEGINS.len() - 1)]);
        if last.windows(NAME_BEGINS.len()).any(is_one) || bytes.windows(NAME_BEGINS.len()).any(is_one) {
            return Ok(true);
        }
        // A read may be shorter than the name.
        let ends = if bytes.len() < NAME_BEGINS.len() { &last } else { bytes };
        last = ends[ends.len().saturating_sub(NAME_BEGINS.len() - 1)..].to_vec();
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
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..texts.len()).map(|n| folder.path().join(n.to_string())).collect();
        texts.iter().zip(&paths).for_each(|(text, path)| std::fs::write(path, text).unwrap());
        let emptied = Emptied::find(&paths).unwrap();
        let mut kept = String::new();
        for (file, text) in texts.iter().enumerate() {
            let (mut commands, mut left_out) = (FileCommands::new(text.as_bytes(), Form::Text), emptied.of_file(file));
            while let Ok(Some((args, place))) = commands.next() {
                if !left_out.has(&args, place.start) && args[0] != b"SELECT" {
                    kept.push_str(std::str::from_utf8(args.get(1).unwrap_or(&args[0])).unwrap());
                }
            }
        }
        (kept, (0..3).filter(|database| !emptied.takes_copied(*database, 0)).collect())
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
    fn a_name_is_found_across_the_ends_of_reads() {
        for (text, is_there) in
            [("..FLUSHALL", true), ("..flUshdb", true), ("flus", false), ("", false), ("flusflus", false)]
        {
            for capacity in 1..12 {
                let input = BufReader::with_capacity(capacity, text.as_bytes());
                assert_eq!(names_it(input).unwrap(), is_there, "{text} {capacity}");
            }
        }
    }
}
