//! Slows down logins from addresses that have sent wrong passwords.
//!
//! An address may fail `FREE_FAILURES` times. Each further failure makes the next login from it wait twice as long. Failures that come
//! together add up, but no login waits longer than `DELAY_MS_MAX` after the last of them. Every minute without a failure halves the count.
//! The addresses of an IPv6 network of 64 bits count as one: who has one of them has all.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

const FREE_FAILURES: u32 = 10;
const DELAY_MS: u64 = 25;
const DELAY_MS_MAX: u64 = 2_000;
const HALVED_AFTER_MS: u64 = 60_000;
/// Most addresses that are remembered; beyond them the one that failed longest ago is forgotten.
const ADDRESSES_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u32,
    last_ms: u64,
    /// The next login may be tried then.
    next_ms: u64,
}

impl Failures {
    fn at(self, now_ms: u64) -> Self {
        let halvings = now_ms.saturating_sub(self.last_ms) / HALVED_AFTER_MS;
        Self { count: self.count.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0), ..self }
    }

    fn delay_ms(self) -> u64 {
        match self.count.checked_sub(FREE_FAILURES) {
            None | Some(0) => 0,
            Some(beyond) => (DELAY_MS << (beyond - 1).min(16)).min(DELAY_MS_MAX),
        }
    }
}

/// The addresses from which logins have failed.
#[derive(Debug, Default)]
pub struct LoginDelay {
    failures: Mutex<BTreeMap<IpAddr, Failures>>,
}

impl LoginDelay {
    /// Until when a login from an address has to wait, in ms; none if it need not.
    pub fn until_ms(&self, from: IpAddr, now_ms: u64) -> Option<u64> {
        self.next_ms(from).filter(|next_ms| *next_ms > now_ms)
    }

    /// From when on a login from an address may be tried, in ms; none if none has failed.
    pub fn next_ms(&self, from: IpAddr) -> Option<u64> {
        Some(self.failures.lock().get(&counted(from))?.next_ms)
    }

    /// A login from an address has failed.
    pub fn failed(&self, from: IpAddr, now_ms: u64) {
        let from = counted(from);
        let mut all = self.failures.lock();
        if all.len() >= ADDRESSES_MAX && !all.contains_key(&from) {
            let oldest = all.iter().min_by_key(|(_, failures)| failures.last_ms).map(|(address, _)| *address);
            oldest.map(|address| all.remove(&address));
        }
        let failures = all.entry(from).or_default();
        let mut now = failures.at(now_ms);
        now.count = now.count.saturating_add(1);
        now.last_ms = now_ms;
        now.next_ms = (now.next_ms.max(now_ms) + now.delay_ms()).min(now_ms + DELAY_MS_MAX);
        *failures = now;
    }
}

/// The address that an address counts as.
fn counted(from: IpAddr) -> IpAddr {
    const NETWORK: u128 = u128::MAX << 64;
    match from.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        for (one, other, is_one) in [
            ("2001:db8::1", "2001:db8::ffff:1", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("::ffff:10.0.0.1", "10.0.0.1", true),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.2", false),
            ("10.0.0.1", "10.0.0.2", false),
        ] {
            let delay = LoginDelay::default();
            for _ in 0..=FREE_FAILURES {
                delay.failed(one.parse().unwrap(), 5);
            }
            assert_eq!(delay.until_ms(other.parse().unwrap(), 5).is_some(), is_one, "{one}, {other}");
        }
    }

    #[test]
    fn failures_at_once_lock_no_address_out() {
        let (delay, from) = (LoginDelay::default(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        for _ in 0..100_000 {
            delay.failed(from, 1_000);
        }
        assert_eq!(delay.until_ms(from, 1_000), Some(1_000 + DELAY_MS_MAX));
        assert_eq!(delay.until_ms(from, 1_000 + DELAY_MS_MAX), None);
    }

    #[test]
    fn an_address_waits_ever_longer_and_is_forgiven() {
        let delay = LoginDelay::default();
        let from = |last: u8| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        for _ in 0..FREE_FAILURES {
            delay.failed(from(1), 1_000);
        }
        assert_eq!(delay.until_ms(from(1), 1_000), None);
        let mut now_ms = 1_000;
        let mut waits = Vec::new();
        for _ in 0..9 {
            delay.failed(from(1), now_ms);
            let until_ms = delay.until_ms(from(1), now_ms).unwrap_or(now_ms);
            waits.push(until_ms - now_ms);
            now_ms = until_ms;
        }
        assert_eq!(waits, [25, 50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
        assert_eq!(delay.until_ms(from(2), now_ms), None, "another address");
        delay.failed(from(1), now_ms + 10 * HALVED_AFTER_MS);
        assert_eq!(delay.until_ms(from(1), now_ms + 10 * HALVED_AFTER_MS), None);
        for address in 0..=u16::MAX {
            let [high, low] = address.to_be_bytes();
            delay.failed(IpAddr::V4(Ipv4Addr::new(11, 0, high, low)), 7);
        }
        assert_eq!(delay.failures.lock().len(), ADDRESSES_MAX);
    }
}
