//! File descriptors of the process: how many there may be, and how clients and the store's files share them.
//!
//! Invariant: clients + files of trees + the reserve ≤ the limit. So a client can be refused, and the store never is.

use node::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The reserve: for the log, event loops, listeners, links, transfers and files that are being written.
const RESERVE: u64 = 192;
/// Descriptors that a worker takes besides: its event loop, its mailbox, its rings.
const RESERVE_OF_WORKER: u64 = 8;
/// Files of trees that are kept open if there are enough descriptors.
const FILES: u64 = 900;
/// Descriptors for each of them: half of them are open a second time, past the page cache.
const FILES_OPEN_PARTS: (u64, u64) = (3, 2);
/// The least number of clients that are served, however few descriptors there are.
const CLIENTS_MIN: u64 = 8;
/// A limit that is larger than this is as good as none.
const LIMIT_MAX: u64 = 1 << 20;

/// How the descriptors are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Clients that can be connected at once.
    pub(crate) clients: u64,
    /// Files of trees that are kept open.
    pub(crate) files: u64,
}

impl Shares {
    /// Shares out this number of descriptors for this number of workers. Files of trees get up to half of what the reserve leaves,
    /// because they only make reads faster.
    fn of(limit: u64, workers: u64) -> Self {
        let (parts, of) = FILES_OPEN_PARTS;
        let reserve = (RESERVE + RESERVE_OF_WORKER * workers).min(limit / 4);
        let left = limit.saturating_sub(reserve);
        let files = (left / 2 * of / parts).clamp(1, FILES);
        Self { clients: left.saturating_sub(files * parts / of).max(CLIENTS_MIN), files }
    }

    /// The limit that this number of clients needs.
    fn limit_for(clients: u64, workers: u64) -> u64 {
        let (parts, of) = FILES_OPEN_PARTS;
        clients + RESERVE + RESERVE_OF_WORKER * workers + FILES * parts / of
    }
}

/// Raises the process's limit as far as the system allows, and lowers `maxclients` to the number that the descriptors are enough for.
pub(crate) fn share_out(config: &Config, workers: usize) -> Shares {
    let (limit, workers) = (raise(), workers as u64);
    let shares = Shares::of(limit, workers);
    let wanted = config.clients_max() as u64;
    if config.bound_clients(usize::try_from(shares.clients).unwrap_or(usize::MAX)) {
        log::warn!(
            "maxclients is lowered from {wanted} to {}: this process may have {limit} descriptors, and the store keeps its \
             own; for {wanted} clients, start it with a limit (ulimit -n, LimitNOFILE=) of {}",
            shares.clients,
            Shares::limit_for(wanted, workers)
        );
    }
    shares
}

/// Raises the limit of this process as far as the system allows; answers the new limit.
fn raise() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let may = maximum.unwrap_or(LIMIT_MAX).min(LIMIT_MAX);
    match current {
        Some(now) if now < may => {
            let raised = Rlimit { current: Some(may), maximum };
            match setrlimit(Resource::Nofile, raised) {
                Ok(()) => may,
                Err(e) => {
                    log::warn!("the limit of descriptors stays at {now}: {e}");
                    now
                }
            }
        }
        Some(now) => now.min(LIMIT_MAX),
        None => LIMIT_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_files_never_take_what_is_kept_in_reserve() {
        for workers in [1, 4, 64] {
            for limit in (64..5_000).chain([65_536, LIMIT_MAX]) {
                let Shares { clients, files } = Shares::of(limit, workers);
                let reserve = limit - clients - files * 3 / 2;
                assert!(reserve >= (RESERVE + RESERVE_OF_WORKER * workers).min(limit / 4), "{limit} {workers}");
                assert!(clients >= CLIENTS_MIN && (1..=FILES).contains(&files), "{limit} {workers}");
            }
        }
    }

    #[test]
    fn a_limit_that_is_told_for_so_many_clients_is_enough_and_no_larger_than_it_must_be() {
        for clients in [3_000, 10_000, 100_000] {
            let limit = Shares::limit_for(clients, 2);
            assert_eq!(Shares::of(limit, 2), Shares { clients, files: FILES });
        }
        assert_eq!(Shares::of(1024, 1), Shares { clients: 413, files: 274 });
        assert_eq!(Shares::of(128, 1).clients, 48);
    }
}
