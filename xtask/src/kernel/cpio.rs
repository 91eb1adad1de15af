//! Archives that the kernel unpacks into its initial file system: cpio in the "newc" format.
//!
//! Described in the kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`. Archives
//! may be concatenated: files of later archives replace those of earlier ones.

use std::collections::BTreeSet;

/// Kind and rights of a folder.
const FOLDER: u32 = 0o040_755;
/// Type and permissions of a file; most files are executable, so all are.
const FILE: u32 = 0o100_755;
/// Kind and rights of a symbolic link.
const LINK: u32 = 0o120_777;

/// An archive being written.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    /// Adds a file, and its parent folders. `path` has no leading `/`.
    pub fn file(&mut self, path: &str, content: &[u8]) {
        self.folders_above(path);
        self.entry(path, FILE, content);
    }

    /// Adds an empty folder, and its parent folders.
    pub fn folder(&mut self, path: &str) {
        self.folders_above(&format!("{path}/"));
    }

    /// Adds a symbolic link to `to`.
    pub fn link(&mut self, path: &str, to: &str) {
        self.folders_above(path);
        self.entry(path, LINK, to.as_bytes());
    }

    /// The complete archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn folders_above(&mut self, path: &str) {
        for (end, _) in path.match_indices('/') {
            if self.folders.insert(path[..end].to_owned()) {
                self.entry(&path[..end], FOLDER, &[]);
            }
        }
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let len = u32::try_from(content.len()).expect("no file here has 4 GiB");
        let name_len = u32::try_from(path.len() + 1).expect("paths are short");
        // Number, mode, owner, group, links, time, length, four halves of devices, length of the
        // name with its zero, a check sum that this form does not use.
        let fields = [self.entries, mode, 0, 0, 1, 0, len, 0, 0, 0, 0, name_len, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(path.bytes().chain([0]));
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn entries_are_padded_and_folders_come_once_and_first() {
        let mut archive = Archive::default();
        archive.file("a/b", b"12345");
        archive.link("a/c", "b");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes).replace('\0', ".");
        let headers: Vec<usize> = text.match_indices("070701").map(|(at, _)| at).collect();
        assert_eq!(headers.len(), 4, "a, a/b, a/c and the end: {text}");
        assert!(headers.iter().all(|at| at % 4 == 0), "{headers:?}");
        let names: Vec<&str> = headers.iter().map(|at| &text[at + 110..]).collect();
        assert!(names[0].starts_with("a.") && names[1].starts_with("a/b."), "{text}");
        assert!(names[1][4..].trim_start_matches('.').starts_with("12345"), "{text}");
    }
}
