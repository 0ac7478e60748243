//! Which clients are let in, before anything is read of them.

use crate::config::Config;
use std::net::IpAddr;

const TOO_MANY: &str = "ERR max number of clients reached";
const PROTECTED: &str = "DENIED Basalt is in protected mode: no password is set, so clients are accepted from this \
     machine only. Set a password (`requirepass`); or, if only clients that you trust can reach this address, set \
     `protected-mode no`.";

const TLS_ONLY: &str = "DENIED this node takes clients with TLS only (setting tls-only): connect to its TLS port, with \
     rediss:// or --tls";

/// The error for a client that has just connected and is refused; `None`: it is let in. `from` is its address, if it is
/// known; `clients` is how many are connected already; `asks_password`: it must log in.
#[must_use]
pub fn turned_away(
    config: &Config,
    asks_password: bool,
    from: Option<IpAddr>,
    encrypted: bool,
    clients: usize,
) -> Option<&'static str> {
    if clients >= config.clients_max() {
        return Some(TOO_MANY);
    }
    if !encrypted && config.number("tls-only") == Some(1) {
        return Some(TLS_ONLY);
    }
    is_protected(config, asks_password, from).then_some(PROTECTED)
}

/// Whether protected mode forbids a client at this address to ask for anything.
#[must_use]
pub fn is_protected(config: &Config, asks_password: bool, from: Option<IpAddr>) -> bool {
    let from_here = from.is_some_and(|address| address.to_canonical().is_loopback());
    !from_here && config.protected_mode() && !asks_password
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn without_a_password_only_this_machine_is_let_in() {
        let config = |pairs: &[(&'static str, &'static str)]| Config::start(pairs.iter().copied()).unwrap();
        let (none, password) = (config(&[]), config(&[("requirepass", "x")]));
        let (open, small) = (config(&[("protected-mode", "no")]), config(&[("maxclients", "3")]));
        for (config, from, clients, expected) in [
            (&none, "127.0.0.1", 0, None),
            (&none, "127.8.9.1", 0, None),
            (&none, "::1", 0, None),
            (&none, "::ffff:127.0.0.1", 0, None),
            (&none, "10.0.0.1", 0, Some(PROTECTED)),
            (&none, "::ffff:10.0.0.1", 0, Some(PROTECTED)),
            (&none, "fe80::1", 0, Some(PROTECTED)),
            (&none, "unknown", 0, Some(PROTECTED)),
            (&password, "10.0.0.1", 0, None),
            (&open, "10.0.0.1", 0, None),
            (&small, "127.0.0.1", 2, None),
            (&small, "127.0.0.1", 3, Some(TOO_MANY)),
        ] {
            let asks_password = config.password_required();
            let refusal = turned_away(config, asks_password, from.parse().ok(), false, clients);
            assert_eq!(refusal, expected, "{from}, {clients}");
        }
        let tls = config(&[("tls-only", "yes")]);
        let here = "127.0.0.1".parse().ok();
        assert_eq!([false, true].map(|encrypted| turned_away(&tls, false, here, encrypted, 0)), [Some(TLS_ONLY), None]);
    }
}
