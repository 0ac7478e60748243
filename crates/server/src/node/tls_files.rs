//! Certificates are read again when their files change.

use crate::os::now_ms;
use crate::shared::{BACKGROUND_PAUSE, NodeShared};
use std::time::{Duration, Instant};

/// How often it is looked whether files have changed.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often an operator is reminded of a certificate that expires soon.
const REMIND_EVERY: Duration = Duration::from_secs(24 * 3600);

/// Looks at the files until the node stops.
pub(super) fn watch_tls_files(store: &NodeShared) {
    let mut next_look = Instant::now() + LOOK_EVERY;
    let mut next_reminder = Instant::now();
    while !store.is_stopping() {
        std::thread::sleep(BACKGROUND_PAUSE);
        let now = Instant::now();
        if now >= next_look {
            next_look = now + LOOK_EVERY;
            if let Some(outcome) = store.tls.look() {
                note_reload(store, &outcome);
                next_reminder = now;
            }
        }
        if now >= next_reminder {
            next_reminder = now + REMIND_EVERY;
            remind(store);
        }
    }
}

/// Logs what came of reading the files again.
fn note_reload(store: &NodeShared, outcome: &Result<(), String>) {
    match (outcome, store.tls.facts().certificate) {
        (Ok(()), Some(certificate)) => log::info!("the certificate of {} is in use now", certificate.shown_names()),
        (Ok(()), None) => {}
        (Err(why), Some(before)) => {
            log::error!("new TLS files are not used, that of {} stays in use: {why}", before.shown_names());
        }
        (Err(why), None) => log::error!("TLS files cannot be used: {why}"),
    }
}

fn remind(store: &NodeShared) {
    for problem in store.tls.problems((now_ms() / 1000) as i64) {
        log::warn!("this node: {problem}");
    }
}
