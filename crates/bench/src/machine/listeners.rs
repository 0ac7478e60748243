//! Who listens at an address of this machine, as Linux's /proc tells. On other systems no listener is found.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// The state that a listening socket is in.
const LISTEN: &str = "0A";

/// The process that listens at each of `places`, where there is one that may be seen.
pub(crate) fn listeners(places: &[SocketAddr]) -> Vec<Option<u32>> {
    let mut sockets = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        sockets.extend(fs::read_to_string(table).unwrap_or_default().lines().filter_map(listening));
    }
    let inodes: Vec<Option<u64>> = places.iter().map(|place| inode_of(*place, &sockets)).collect();
    if inodes.iter().all(Option::is_none) {
        return vec![None; places.len()];
    }
    let owners = owners(&inodes);
    inodes.iter().map(|inode| owners.get(&(*inode)?).copied()).collect()
}

/// The socket that answers at `place`: one of that address, else one of all addresses.
fn inode_of(place: SocketAddr, sockets: &[(SocketAddr, u64)]) -> Option<u64> {
    let at_port = || sockets.iter().filter(|(bound, _)| bound.port() == place.port());
    let exact = at_port().find(|(bound, _)| bound.ip().to_canonical() == place.ip());
    exact.or_else(|| at_port().find(|(bound, _)| bound.ip().is_unspecified())).map(|(_, inode)| *inode)
}

/// The address and inode that a line of /proc/net/tcp or tcp6 tells of a listening socket.
fn listening(line: &str) -> Option<(SocketAddr, u64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    if *state != LISTEN {
        return None;
    }
    let (ip, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // Words of four bytes in the machine's own order.
    let word = |at: usize| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = if ip.len() == 8 {
        IpAddr::V4(Ipv4Addr::from(word(0)?))
    } else {
        let mut bytes = [0; 16];
        for part in 0..4 {
            bytes[part * 4..part * 4 + 4].copy_from_slice(&word(part * 8)?);
        }
        IpAddr::V6(Ipv6Addr::from(bytes))
    };
    Some((SocketAddr::new(ip, port), inode.parse().ok()?))
}

/// The processes that hold sockets of these inodes.
fn owners(inodes: &[Option<u64>]) -> HashMap<u64, u32> {
    let mut found = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        for file in fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten() {
            let inode = fs::read_link(file.path()).ok().and_then(|link| socket_inode(&link));
            if inode.is_some_and(|inode| inodes.contains(&Some(inode))) {
                found.extend(inode.map(|inode| (inode, id)));
            }
        }
    }
    found
}

/// From a link such as `socket:[123]`.
fn socket_inode(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_listener_is_found_by_its_address() {
        let one = TcpListener::bind("127.0.0.1:0").unwrap();
        let all = TcpListener::bind("[::]:0").unwrap();
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let of_all = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), all.local_addr().unwrap().port());
        let found = listeners(&[one.local_addr().unwrap(), of_all, gone]);
        assert_eq!(found, [Some(std::process::id()), Some(std::process::id()), None]);
    }

    #[test]
    fn lines_of_the_table() {
        let line = "0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 777 1 0";
        if cfg!(target_endian = "little") {
            assert_eq!(listening(line), Some(("127.0.0.1:8080".parse().unwrap(), 777)));
        }
        assert_eq!(listening(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(listening("sl local_address rem_address st"), None);
    }
}
