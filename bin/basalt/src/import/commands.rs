//! Commands as Redis writes them to its replicas and to AOF files.

use resp::inline_words;
use std::io::{BufRead, Read};
use std::ops::Range;
use vocab::limits::REPLY_BULK_BYTES_MAX;

/// Arguments of a command.
const ARGUMENTS_MAX: usize = 1 << 20;
/// Bytes of a command: of more, a Redis takes none from a client.
const COMMAND_BYTES_MAX: usize = 1 << 30;
/// Bytes of a line that tells a number.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// Bytes that are set aside at once for an argument whose length is only claimed.
const TRUSTED_BYTES: usize = 64 * 1024;

/// What commands stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// What a master sends its replicas.
    Stream,
    /// An AOF file. As in Redis, what does not begin with `*` or `#` is damage.
    Log,
    /// What people or programs write for redis-cli: commands as servers read them, and words on lines.
    Text,
}

/// Reads commands one after the other.
pub(super) struct Commands<R> {
    input: R,
    form: Form,
    /// Bytes that were read.
    position: u64,
    /// Where the newest command begins.
    start: u64,
}

impl<R: BufRead> Commands<R> {
    /// Commands that begin at `position` of their stream.
    pub(super) fn new(input: R, form: Form, position: u64) -> Self {
        Self { input, form, position, start: position }
    }

    /// How far the stream was read.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The place of the newest command.
    pub(super) fn place(&self) -> Range<u64> {
        self.start..self.position
    }

    /// The next command; `None` at the end of the stream. One that ends half-way is an error.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Vec<u8>>>, String> {
        loop {
            self.start = self.position;
            let start = self.start;
            let Some(line) = self.line()? else { return Ok(None) };
            match line.split_first() {
                // A sign of life.
                None if self.form != Form::Log => {}
                // A remark.
                Some((b'#', _)) => {}
                Some((b'*', count)) => {
                    let count = number(count, ARGUMENTS_MAX).map_err(|e| format!("at byte {start}: {e}"))?;
                    let args = self.arguments(count)?;
                    if !args.is_empty() {
                        return Ok(Some(args));
                    }
                }
                // What a wrong length leaves of a value must not be run.
                _ if self.form != Form::Text => {
                    return Err(format!("at byte {start}: a command should begin there with *, and does not"));
                }
                // Words on a line, as people type them.
                _ => {
                    let words = inline_words(&line).map_err(|e| format!("at byte {start}: {e}"))?;
                    if !words.is_empty() {
                        return Ok(Some(words));
                    }
                }
            }
        }
    }

    /// A line without its end.
    fn line(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut line = Vec::new();
        let read = (&mut self.input).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(|e| e.to_string())?;
        self.position += read as u64;
        match line.pop() {
            None => return Ok(None),
            Some(b'\n') => {}
            Some(_) => return Err(format!("at byte {}: it ends within a command", self.position)),
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(Some(line))
    }

    fn arguments(&mut self, count: usize) -> Result<Vec<Vec<u8>>, String> {
        let (mut args, mut bytes) = (Vec::new(), 0);
        for _ in 0..count {
            let argument = self.argument()?;
            bytes += argument.len();
            if bytes > COMMAND_BYTES_MAX {
                return Err(format!("at byte {}: a command of more than {COMMAND_BYTES_MAX} bytes", self.start));
            }
            args.push(argument);
        }
        Ok(args)
    }

    fn argument(&mut self) -> Result<Vec<u8>, String> {
        let start = self.position;
        let torn = |position| format!("at byte {position}: it ends within a command");
        let line = self.line()?.ok_or_else(|| torn(self.position))?;
        let Some((b'$', length)) = line.split_first() else {
            return Err(format!("at byte {start}: this is not an argument of a command"));
        };
        let length = number(length, REPLY_BULK_BYTES_MAX).map_err(|e| format!("at byte {start}: {e}"))?;
        let mut argument = Vec::with_capacity((length + 2).min(TRUSTED_BYTES));
        let read = (&mut self.input).take(length as u64 + 2).read_to_end(&mut argument).map_err(|e| e.to_string())?;
        self.position += read as u64;
        if argument.len() != length + 2 {
            return Err(torn(self.position));
        }
        if !argument.ends_with(b"\r\n") {
            return Err(format!("at byte {start}: this argument does not end where its length says"));
        }
        argument.truncate(length);
        Ok(argument)
    }
}

/// A number of at most `most`.
fn number(text: &[u8], most: usize) -> Result<usize, String> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).filter(|number| *number <= most);
    number.ok_or_else(|| format!("\"{}\" is not a number of at most {most}", text.escape_ascii()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<Vec<Vec<u8>>>, String> {
        all_of(Form::Text, bytes)
    }

    fn all_of(form: Form, bytes: &[u8]) -> Result<Vec<Vec<Vec<u8>>>, String> {
        let mut commands = Commands::new(bytes, form, 0);
        let mut found = Vec::new();
        while let Some(args) = commands.next()? {
            found.push(args);
        }
        assert_eq!(commands.position(), bytes.len() as u64);
        Ok(found)
    }

    #[test]
    fn commands_of_each_form() {
        let bytes = b"\nSET b 1\r\n*2\r\n$3\r\nDEL\r\n$3\r\na\r\n\r\n#TS:17\r\n\r\n*1\r\n$4\r\nPING\r\n";
        let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(all(bytes).unwrap(), [words("SET b 1"), vec![b"DEL".to_vec(), b"a\r\n".to_vec()], words("PING")]);
    }

    #[test]
    fn words_on_a_line_may_stand_in_quotes() {
        let found = all(b"SET \"a b\" 'c\\'d'\r\n  \r\nSET \"\\x00\\n\" \"\"\n").unwrap();
        let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
        assert_eq!(found, [words(&[b"SET", b"a b", b"c'd"]), words(&[b"SET", b"\0\n", b""])]);
        for unbalanced in [&b"SET \"a\n"[..], b"SET 'a'b\n"] {
            assert!(all(unbalanced).is_err(), "{}", unbalanced.escape_ascii());
        }
    }

    #[test]
    fn what_is_torn_or_no_command_is_an_error() {
        for bytes in [&b"*1\r\n"[..], b"*1\r\n$4\r\nPI", b"*1\r\n:4\r\n", b"*x\r\n", b"*1\r\n$99999999999\r\n", b"PING"]
        {
            assert!(all(bytes).is_err(), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn fuzz_commands() {
        let text = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\n12345\r\n#TS:1\r\nSET \"b\\x00\" 1\n\r\n*1\r\n$4\r\nPING\r\n";
        vocab::fuzz::rounds(64, |prng| {
            let mut changed = text.as_bytes().to_vec();
            vocab::fuzz::mutate(&mut changed, 4, prng);
            for form in [Form::Stream, Form::Log, Form::Text] {
                let mut commands = Commands::new(&changed[..], form, 0);
                while let Ok(Some(args)) = commands.next() {
                    let place = commands.place();
                    let bytes: usize = args.iter().map(Vec::len).sum();
                    assert!(place.start + bytes as u64 <= place.end && place.end <= changed.len() as u64);
                }
            }
        });
    }

    #[test]
    fn what_a_wrong_length_leaves_is_not_run() {
        let set = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$20\r\n12345\r\nDEL important\r\n";
        assert_eq!(all(set.as_bytes()).unwrap().len(), 1);
        let shorter = set.replace("$20", "$5");
        // Text may have words there.
        assert_eq!(all(shorter.as_bytes()).unwrap().len(), 2);
        for form in [Form::Stream, Form::Log] {
            let why = all_of(form, shorter.as_bytes()).unwrap_err();
            assert!(why.starts_with("at byte 31: a command should begin there"), "{why}");
        }
        for form in [Form::Stream, Form::Log, Form::Text] {
            let why = all_of(form, set.replace("$20", "$7").as_bytes()).unwrap_err();
            assert!(why.starts_with("at byte 20: this argument does not end"), "{why}");
            let why = all_of(form, set.replace("$20", "$2x").as_bytes()).unwrap_err();
            assert!(why.starts_with("at byte 20: \"2x\" is not a number"), "{why}");
        }
        assert_eq!(all(format!("SET a 1\n{set}").as_bytes()).unwrap().len(), 2);
        for bytes in [&b"SET a 1\r\n"[..], b"\r\n"] {
            assert!(all_of(Form::Log, bytes).unwrap_err().starts_with("at byte 0:"));
        }
    }
}
