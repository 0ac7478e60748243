//! Errors of the operating system that pass by themselves: the call was not made, and may be made again.

use std::io::{Error, ErrorKind};

/// Linux's numbers: errno(3).
const EINTR: i32 = 4;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOBUFS: i32 = 105;

/// Whether `error` says that descriptors or memory are short now, or that the call was interrupted. It says nothing about
/// the disk. Not to be asked of an fsync: that may fail for want of memory after the kernel has dropped a page.
#[must_use]
pub fn is_shortage(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(EINTR | EAGAIN | ENOMEM | ENFILE | EMFILE | ENOBUFS))
        || matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::OutOfMemory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_told_from_what_a_disk_says() {
        let of = |number: i32| is_shortage(&Error::from_raw_os_error(number));
        assert!([EINTR, EAGAIN, ENOMEM, ENFILE, EMFILE, ENOBUFS].into_iter().all(of));
        // EIO, EINVAL, ENOSPC, EROFS, EDQUOT, ENOENT.
        assert!(![5, 22, 28, 30, 122, 2].into_iter().any(of));
        assert!(is_shortage(&Error::new(ErrorKind::OutOfMemory, "pread")));
        assert!(!is_shortage(&Error::new(ErrorKind::StorageFull, "nospace")));
    }
}
