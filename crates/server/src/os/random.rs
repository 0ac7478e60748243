//! Random bytes of the system.

use rustix::rand::{GetRandomFlags, getrandom};

/// Unpredictable random bytes.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => panic!("the system has no random bytes: {e}"),
        }
    }
    bytes
}
