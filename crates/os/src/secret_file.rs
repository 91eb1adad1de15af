//! Files with secrets.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Maximum size in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// Reads a file that only its owner, who is this user or root, can read or write.
///
/// # Errors
///
/// The file cannot be opened, is a link or no regular file, belongs to another user, is readable by
/// others, or is longer than 64 KiB. The message says what to do.
pub fn read_secret(path: &Path) -> io::Result<Vec<u8>> {
    let refused = |why: &str| io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned());
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = File::options().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => refused("a file of secrets is no link"),
        _ => error,
    })?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(refused("a file of secrets is a regular file"));
    }
    let own = rustix::process::geteuid().as_raw();
    if ![own, 0].contains(&about.uid()) {
        return Err(refused("a file of secrets belongs to this user or to root"));
    }
    if about.mode() & 0o077 != 0 {
        return Err(refused("other users can read or write this file of secrets: chmod 600"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        ..=MAX_BYTES => Ok(bytes),
        _ => Err(refused("a file of secrets has at most 64 KiB")),
    }
}

#[cfg(test)]
mod test {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_files_of_their_owner_are_read() {
        let folder = std::env::temp_dir().join(format!("drumfire-secret-{:x}", crate::random()));
        fs::create_dir(&folder).unwrap();
        let (file, link) = (folder.join("file"), folder.join("link"));
        fs::write(&file, "a secret").unwrap();
        symlink(&file, &link).unwrap();
        for (mode, is_read) in
            [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)]
        {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_secret(&file).is_ok(), is_read, "{mode:o}");
        }
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read_secret(&file).unwrap(), b"a secret");
        for (path, words) in [(&link, "no link"), (&folder, "regular file")] {
            let error = read_secret(path).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        fs::write(&file, vec![b'x'; MAX_BYTES as usize + 1]).unwrap();
        assert!(read_secret(&file).unwrap_err().to_string().contains("64 KiB"));
        // Needs root.
        if std::os::unix::fs::chown(&file, Some(65_534), None).is_ok() {
            assert!(read_secret(&file).unwrap_err().to_string().contains("belongs"));
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
