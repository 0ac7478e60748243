//! Which names a browser may have used to reach this listener: a page of another site may not drive the admin API, nor
//! one whose name has been pointed at this address (DNS rebinding).

use std::net::{Ipv4Addr, Ipv6Addr};

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The host that it names is not one of this node's.
    Host,
    /// It comes from a page of another site.
    Origin,
}

/// Whether a request may be answered that names this `host` and comes from a page of that `origin`; `names` are this
/// node's, beside addresses and `localhost`. A request without a host is not from a browser.
pub(super) fn check(host: Option<&str>, origin: Option<&str>, names: &[&str]) -> Result<(), Refused> {
    if host.is_some_and(|host| !is_ours(host, names)) {
        return Err(Refused::Host);
    }
    let of_page = origin.map(|origin| origin.split_once("://").map_or("", |(_, authority)| authority));
    if of_page.is_some_and(|authority| !is_ours(authority, names)) {
        return Err(Refused::Origin);
    }
    Ok(())
}

/// Whether an authority, `HOST` or `HOST:PORT`, is an address, `localhost` or one of the names.
fn is_ours(authority: &str, names: &[&str]) -> bool {
    if let Some(rest) = authority.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        return address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
    }
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if is_port(port) => host,
        Some(_) => return false,
        None => authority,
    };
    // A name may end in the root's dot.
    let host = host.strip_suffix('.').unwrap_or(host);
    host.parse::<Ipv4Addr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || names.iter().any(|name| *name == "*" || (!name.is_empty() && host.eq_ignore_ascii_case(name)))
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_nodes_names_are_answered() {
        let names = ["node1.example", ""];
        for (host, origin, expected) in [
            (None, None, Ok(())),
            (Some("127.0.0.1:8080"), None, Ok(())),
            (Some("10.0.0.7"), None, Ok(())),
            (Some("[::1]:8080"), None, Ok(())),
            (Some("[fe80::1]"), None, Ok(())),
            (Some("localhost"), Some("http://localhost:8080"), Ok(())),
            (Some("LocalHost.:8080"), None, Ok(())),
            (Some("Node1.Example:8080"), Some("https://node1.example"), Ok(())),
            (Some("evil.example"), None, Err(Refused::Host)),
            (Some("evil.example:8080"), None, Err(Refused::Host)),
            (Some("localhost.evil.example"), None, Err(Refused::Host)),
            (Some("127.0.0.1.evil.example"), None, Err(Refused::Host)),
            (Some("localhost:8080@evil.example"), None, Err(Refused::Host)),
            (Some("[::1"), None, Err(Refused::Host)),
            (Some("[::1]evil"), None, Err(Refused::Host)),
            (Some("[evil.example]"), None, Err(Refused::Host)),
            (Some("localhost:"), None, Err(Refused::Host)),
            (Some(""), None, Err(Refused::Host)),
            (Some("127.0.0.1"), Some("http://evil.example"), Err(Refused::Origin)),
            (Some("127.0.0.1"), Some("null"), Err(Refused::Origin)),
            (Some("127.0.0.1"), Some(""), Err(Refused::Origin)),
            (None, Some("http://evil.example"), Err(Refused::Origin)),
        ] {
            assert_eq!(check(host, origin, &names), expected, "{host:?} {origin:?}");
        }
        assert_eq!(check(Some("any.example"), Some("http://other.example"), &["*"]), Ok(()));
    }
}
