//! Standard output and standard error of every command.
//!
//! A reader that closes standard output (`| head -1`) has seen enough: the command goes on without it and ends as it
//! would have ended. Any other error of standard output, such as a full disk, is the command's own error. Standard error
//! carries remarks only: one that cannot be written is dropped, and the command goes on.

use std::fmt;
use std::io::{self, BufWriter, ErrorKind, Write};

/// Whether anything still reads the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The text was written.
    Reads,
    /// The reader has closed its end: nothing that follows is read either.
    Gone,
}

/// Writes `text` to standard output, all of it.
///
/// # Errors
/// It cannot be written, for another reason than that its reader is gone.
pub fn print(text: &str) -> io::Result<Reader> {
    print_to(&mut io::stdout().lock(), text)
}

/// Writes to standard output what `write` writes, piece by piece: for what would take much memory as one text.
///
/// # Errors
/// As [`print()`].
pub fn print_with(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Reader> {
    let mut out = BufWriter::new(io::stdout().lock());
    let written = write(&mut out);
    outcome(written.and_then(|()| out.flush()))
}

fn print_to(out: &mut dyn Write, text: &str) -> io::Result<Reader> {
    outcome(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

fn outcome(written: io::Result<()>) -> io::Result<Reader> {
    match written {
        Ok(()) => Ok(Reader::Reads),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(io::Error::new(error.kind(), format!("standard output: {error}"))),
    }
}

/// Writes a remark to standard error, as far as that can be written. [`note!`](crate::note) adds the end of the line.
pub fn remark(text: fmt::Arguments<'_>) {
    let mut out = io::stderr().lock();
    // The command goes on without its remarks.
    let _ = out.write_fmt(text).and_then(|()| out.flush());
}

/// Writes a line to standard error, as far as that can be written.
#[macro_export]
macro_rules! note {
    ($($text:tt)*) => {
        $crate::output::remark(::std::format_args!("{}\n", ::std::format_args!($($text)*)))
    };
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_closed_output_ends_quietly_and_a_full_one_is_an_error() {
        let mut text = Vec::new();
        assert_eq!(print_to(&mut text, "a\n").unwrap(), Reader::Reads);
        assert_eq!(text, b"a\n");
        assert_eq!(print_to(&mut Broken(ErrorKind::BrokenPipe), "a\n").unwrap(), Reader::Gone);
        let full = print_to(&mut Broken(ErrorKind::StorageFull), "a\n").unwrap_err();
        assert!(full.to_string().starts_with("standard output: "), "{full}");
    }
}
