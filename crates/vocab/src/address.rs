//! Addresses as text.

/// The host of `HOST:PORT`, without brackets.
#[must_use]
pub fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::host_of;

    #[test]
    fn hosts_are_without_port_and_brackets() {
        for (address, host) in
            [("n1:7000", "n1"), ("[::1]:7000", "::1"), ("::1:7000", "::1"), ("10.0.0.1:7", "10.0.0.1"), ("n1", "n1"), ("", "")]
        {
            assert_eq!(host_of(address), host, "{address}");
        }
    }
}
