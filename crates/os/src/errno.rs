//! Names and classes of errnos.

use std::io::Error;

use block::print_size;
use rustix::process::{Resource, getrlimit};

/// An errno with its name and the text of the C library: `EIO (5): Input/output error`.
pub fn errno_words(errno: i32) -> String {
    let said = Error::from_raw_os_error(errno).to_string();
    let words = said.split(" (os error").next().unwrap_or_default();
    match NAMES.iter().find(|(known, _)| *known == errno) {
        Some((_, name)) => format!("{name} ({errno}): {words}"),
        None => format!("errno ({errno}): {words}"),
    }
}

/// Whether an errno means that a file system or quota is full.
pub fn is_full(errno: i32) -> bool {
    [libc::ENOSPC, libc::EDQUOT].contains(&errno)
}

/// Remedy to append to an error if it means that no more files can be opened; empty for any other
/// error.
pub fn files_remedy(error: &Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => ": raise the limit on open files (ulimit -n)",
        _ => "",
    }
}

/// Message about the limit of this process's address space, if there is one, to append to an
/// out-of-memory error.
pub fn address_limit_words() -> Option<String> {
    let limit = getrlimit(Resource::As).current?;
    let limit = print_size(limit >> 20 << 20);
    Some(format!(": the address space of this process is limited to {limit}: raise 'ulimit -v'"))
}

/// Whether an errno means that a file system or device is write-protected.
pub fn is_protected(errno: i32) -> bool {
    [libc::EROFS, libc::EPERM].contains(&errno)
}

/// Errnos of I/O on files and devices.
const NAMES: [(i32, &str); 26] = [
    (libc::EPERM, "EPERM"),
    (libc::EIO, "EIO"),
    (libc::ENXIO, "ENXIO"),
    (libc::EBADF, "EBADF"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::EACCES, "EACCES"),
    (libc::EFAULT, "EFAULT"),
    (libc::EBUSY, "EBUSY"),
    (libc::ENODEV, "ENODEV"),
    (libc::EINVAL, "EINVAL"),
    (libc::EFBIG, "EFBIG"),
    (libc::ENOSPC, "ENOSPC"),
    (libc::EROFS, "EROFS"),
    (libc::ENOSYS, "ENOSYS"),
    (libc::ENODATA, "ENODATA"),
    (libc::ETIME, "ETIME"),
    (libc::ENOLINK, "ENOLINK"),
    (libc::EBADE, "EBADE"),
    (libc::EILSEQ, "EILSEQ"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::ETIMEDOUT, "ETIMEDOUT"),
    (libc::EREMOTEIO, "EREMOTEIO"),
    (libc::EDQUOT, "EDQUOT"),
    (libc::ECANCELED, "ECANCELED"),
    (libc::ESTALE, "ESTALE"),
];

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn names_and_words() {
        assert_eq!(errno_words(libc::EIO), "EIO (5): Input/output error");
        assert_eq!(errno_words(libc::ENOSPC), "ENOSPC (28): No space left on device");
        let short = files_remedy(&Error::from_raw_os_error(libc::EMFILE));
        assert!(short.contains("ulimit -n"));
        assert_eq!(files_remedy(&Error::from_raw_os_error(libc::EIO)), "");
        assert!(is_full(libc::EDQUOT) && !is_full(libc::EIO));
        assert!(is_protected(libc::EROFS) && !is_protected(libc::ENOSPC));
        assert_eq!(errno_words(libc::EXFULL), "errno (54): Exchange full");
    }
}
