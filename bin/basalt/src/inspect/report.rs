//! What every view of `inspect` is: figures that are printed as text or as JSON.

use serde::Serialize;
use std::io::{self, Write};

/// One view, complete.
pub trait Report: Serialize {
    /// For people.
    fn text(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Whether nothing that was looked at is damaged.
    fn is_sound(&self) -> bool;
}
