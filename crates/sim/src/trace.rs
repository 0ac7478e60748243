//! What happened, a line an event; and a hash of it all, by which two runs of one seed are compared.

use crate::schedule::Micros;
use std::collections::VecDeque;
use std::fmt::{Arguments, Write as _};
use std::io::{self, Write};
use xxhash_rust::xxh3::Xxh3;

/// Lines that are kept for a failure's report.
const LAST_LINES: usize = 200;

/// The log of events, and its hash.
pub struct Trace {
    hash: Xxh3,
    last: VecDeque<String>,
    out: Option<Box<dyn Write>>,
    failure: Option<io::Error>,
}

impl Trace {
    /// A trace that is written to `out` too, if there is one.
    #[must_use]
    pub fn new(out: Option<Box<dyn Write>>) -> Self {
        Self { hash: Xxh3::new(), last: VecDeque::with_capacity(LAST_LINES), out, failure: None }
    }

    /// Something happened.
    pub fn line(&mut self, at: Micros, what: Arguments<'_>) {
        let mut line =
            if self.last.len() == LAST_LINES { self.last.pop_front().unwrap_or_default() } else { String::new() };
        line.clear();
        let written = writeln!(line, "{:>6}.{:06} {what}", at / 1_000_000, at % 1_000_000);
        assert!(written.is_ok(), "a string takes what is written to it");
        self.hash.update(line.as_bytes());
        if let Some(out) = &mut self.out
            && let Err(e) = out.write_all(line.as_bytes())
        {
            self.failure = Some(e);
            self.out = None;
        }
        self.last.push_back(line);
    }

    /// The hash of all lines so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash.digest()
    }

    /// The last lines, the oldest first.
    #[must_use]
    pub fn tail(&self) -> Vec<String> {
        self.last.iter().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Writes out what is buffered; tells if any of it could not be written.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(out) = &mut self.out {
            out.flush()?;
        }
        self.failure.take().map_or(Ok(()), Err)
    }
}
