//! Addresses as texts.

/// Host and port of `HOST:PORT`; the host without the brackets of IPv6. None: there is no port.
#[must_use]
pub fn host_and_port(address: &str) -> Option<(&str, &str)> {
    let (host, port) = address.rsplit_once(':')?;
    Some((without_brackets(host), port))
}

/// The host of `HOST:PORT` or of `HOST`, without brackets.
#[must_use]
pub fn host_of(address: &str) -> &str {
    host_and_port(address).map_or_else(|| without_brackets(address), |(host, _)| host)
}

fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::{host_and_port, host_of};

    #[test]
    fn an_address_is_taken_apart() {
        for (address, host, port) in [
            ("127.0.0.1:7100", "127.0.0.1", Some("7100")),
            ("[::1]:6379", "::1", Some("6379")),
            ("::1:7000", "::1", Some("7000")),
            (":6379", "", Some("6379")),
            ("example", "example", None),
            ("", "", None),
        ] {
            assert_eq!(host_of(address), host, "{address}");
            assert_eq!(host_and_port(address), port.map(|port| (host, port)), "{address}");
        }
    }
}
