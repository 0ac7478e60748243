//! The timer of systems without timer descriptors: it does nothing.

use std::io;
use std::time::Instant;

use mio::{Registry, Token};

/// Elsewhere the poll's own timeout must do.
#[derive(Debug)]
pub(crate) struct Timer;

impl Timer {
    pub(crate) fn new(_registry: &Registry, _token: Token) -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn set(&mut self, _at: Instant, _now: Instant) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn went_off(&mut self) {}
}
