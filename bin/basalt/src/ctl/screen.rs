//! What is drawn again and again in place on a terminal, and said line by line elsewhere.

use super::ask::{Failure, print};
use super::table::is_dumb;
use bench::output::{Reader, remark};
use std::io::IsTerminal;

/// A picture on standard output. A terminal that does not move its cursor (`TERM=dumb`) gets lines, as a file does.
pub(super) struct Screen {
    terminal: bool,
    drawn: bool,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self { terminal: std::io::stdout().is_terminal() && !is_dumb(), drawn: false }
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Draws the whole picture in the place of the one before; elsewhere says the line.
    pub(super) fn draw(&mut self, picture: &str, line: &str) -> Result<Reader, Failure> {
        if !self.terminal {
            return print(&format!("{line}\n"));
        }
        let begin = if std::mem::replace(&mut self.drawn, true) { "\x1b[H" } else { "\x1b[2J\x1b[H" };
        let lines: String = picture.lines().map(|line| format!("{line}\x1b[K\n")).collect();
        print(&format!("{begin}{lines}\x1b[J"))
    }
}

/// One line on standard error that is written anew in place on a terminal, and said now and then elsewhere.
pub(super) struct Progress {
    terminal: bool,
    said: std::time::Instant,
    wide: usize,
}

/// Between two lines where standard error is no terminal.
const SAY_EVERY: std::time::Duration = std::time::Duration::from_secs(5);

impl Progress {
    pub(super) fn new() -> Self {
        let now = std::time::Instant::now();
        Self { terminal: std::io::stderr().is_terminal() && !is_dumb(), said: now, wide: 0 }
    }

    pub(super) fn show(&mut self, line: &str) {
        if self.terminal {
            remark(format_args!("\r{line:<width$}", width = self.wide));
            self.wide = line.chars().count();
        } else if self.said.elapsed() >= SAY_EVERY {
            self.said = std::time::Instant::now();
            bench::note!("{line}");
        }
    }

    /// Takes the line away.
    pub(super) fn end(&mut self) {
        if self.terminal && self.wide > 0 {
            remark(format_args!("\r{:width$}\r", "", width = self.wide));
        }
        self.wide = 0;
    }
}
