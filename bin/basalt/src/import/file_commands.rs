//! The commands of a file. What stands between MULTI and EXEC is made once EXEC was read: of a transaction that the file's end cuts
//! off, Redis makes nothing when it loads the file.

use super::commands::{Commands, Form};
use std::collections::VecDeque;
use std::io::BufRead;
use std::ops::Range;

/// Of a transaction of more bytes the commands are made as they come.
const HELD_BYTES_MAX: usize = 256 << 20;

/// A command, and its place in the file.
type Placed = (Vec<Vec<u8>>, Range<u64>);

/// See the module's documentation.
pub(super) struct FileCommands<R> {
    commands: Commands<R>,
    /// Of a transaction whose EXEC was read, or that is too large to be held.
    ready: VecDeque<Placed>,
    /// Of one whose EXEC was not read yet; none outside of one.
    held: Option<Held>,
}

#[derive(Default)]
struct Held {
    commands: VecDeque<Placed>,
    bytes: usize,
    /// It has grown too large: some of it was made.
    is_made: bool,
}

impl<R: BufRead> FileCommands<R> {
    pub(super) fn new(input: R, form: Form) -> Self {
        Self { commands: Commands::new(input, form, 0), ready: VecDeque::new(), held: None }
    }

    /// How far the file was read.
    pub(super) fn position(&self) -> u64 {
        self.commands.position()
    }

    /// The next command; `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Placed>, String> {
        loop {
            if let Some(command) = self.ready.pop_front() {
                return Ok(Some(command));
            }
            let read = self.commands.next();
            let args = match (read, &self.held) {
                (Ok(Some(args)), _) => args,
                (Ok(None), None) => return Ok(None),
                (Err(problem), None) => return Err(problem),
                (read, Some(held)) => {
                    let problem = read.err().unwrap_or_else(|| format!("at byte {}: the file ends", self.position()));
                    let made = if held.is_made {
                        "the first of its commands were made"
                    } else {
                        "none of its commands was made"
                    };
                    return Err(format!("{problem}, within a transaction without EXEC; {made}"));
                }
            };
            let name = args[0].to_ascii_uppercase();
            match (name.as_slice(), &mut self.held) {
                (b"MULTI", held) => _ = held.get_or_insert_default(),
                (b"EXEC", held) => self.ready.extend(held.take().into_iter().flat_map(|held| held.commands)),
                (b"DISCARD", held) => *held = None,
                (_, None) => return Ok(Some((args, self.commands.place()))),
                (_, Some(held)) => {
                    held.bytes += args.iter().map(Vec::len).sum::<usize>();
                    held.commands.push_back((args, self.commands.place()));
                    if held.bytes > HELD_BYTES_MAX {
                        (held.bytes, held.is_made) = (0, true);
                        self.ready.append(&mut held.commands);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn all(text: &str) -> (Vec<String>, Option<String>) {
        let mut commands = FileCommands::new(text.as_bytes(), Form::Text);
        let mut found = Vec::new();
        loop {
            match commands.next() {
                Ok(Some((args, _))) => found.push(String::from_utf8(args.join(&b' ')).unwrap()),
                Ok(None) => return (found, None),
                Err(problem) => return (found, Some(problem)),
            }
        }
    }

    #[test]
    fn a_transaction_is_made_once_its_end_was_read() {
        let whole = "SET a 1\nMULTI\nINCR a\nINCR b\nEXEC\nSET c 1\nmulti\nSET d 1\nDISCARD\nSET e 1\n";
        assert_eq!(
            all(whole),
            (["SET a 1", "INCR a", "INCR b", "SET c 1", "SET e 1"].map(str::to_owned).to_vec(), None)
        );
        for torn in ["SET a 1\nMULTI\nINCR a\n", "SET a 1\nMULTI\nINCR a\nINCR", "SET a 1\nMULTI\n"] {
            let (found, problem) = all(torn);
            assert_eq!(found, ["SET a 1"], "{torn}");
            assert!(problem.unwrap().contains("none of its commands was made"), "{torn}");
        }
    }
}
