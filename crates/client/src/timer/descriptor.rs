//! The timer of Linux: a file descriptor that becomes readable.

use std::io;
use std::time::Instant;

use mio::{Registry, Token};

/// A one-shot alarm that belongs to one poll.
#[derive(Debug)]
pub(crate) struct Timer {
    file: std::os::fd::OwnedFd,
    armed: Option<Instant>,
}

impl Timer {
    /// Registers an alarm that is not set.
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        use std::os::fd::AsRawFd as _;
        let file = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        registry.register(&mut mio::unix::SourceFd(&file.as_raw_fd()), token, mio::Interest::READABLE)?;
        Ok(Self { file, armed: None })
    }

    /// Sets the alarm, unless it is set to this moment already.
    pub(crate) fn set(&mut self, at: Instant, now: Instant) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        if self.armed == Some(at) {
            return Ok(());
        }
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // An alarm of 0 would be none at all.
        let wait = at.saturating_duration_since(now).max(std::time::Duration::from_nanos(1));
        let value = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        timerfd_settime(&self.file, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: zero, it_value: value })?;
        self.armed = Some(at);
        Ok(())
    }

    /// Notes that it went off. Its registration is edge-triggered, so it need not be read.
    pub(crate) fn went_off(&mut self) {
        self.armed = None;
    }
}
