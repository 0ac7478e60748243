//! What the operating system gives: clocks, threads, facts of the process, and waiting for events.

mod busy_poll;
mod clock;
mod descriptors;
mod process;
mod random;
mod run_queue;
mod spare_processors;
mod threads;

pub(crate) use busy_poll::BusyPoll;
pub(crate) use clock::{SteadyTime, TICK, now_ms, raw_moment, steady_us};
pub(crate) use descriptors::{Shares, share_out};
pub(crate) use process::{forget_waits, process_facts, waited_for_disk};
pub(crate) use random::random;
pub(crate) use run_queue::RunQueue;
pub(crate) use spare_processors::SpareProcessors;
pub(crate) use threads::{NICE_BACKGROUND, NICE_BESIDE, NICE_IDLE, set_niceness, spawn_critical};
